# The steps of scripts/gpu-check that measure what tracing kernels costs.
# shellcheck shell=bash

# Runs a program in each mode, by turns, so that what changes with time changes all; prints a table.
#   measure NAME WORKLOADS COMMAND...
measure() {
    local name=$1 round mode workload workloads=()
    while read -r workload; do workloads+=(--workload "$workload"); done <<<"${2//,/$'\n'}"
    shift 2
    mkdir -p "$work/$name"
    local profiled=("$mpisee" --gpu --gpu-backend "$backend" --quiet --output "$work/$name.mpisee")
    for ((round = 1; round <= rounds; round++)); do
        for mode in untraced empty aggregated sampled intervals records; do
            local command=()
            case $mode in
            untraced) ;;
            empty) command=(env MPISEE_GPU_EMPTY=1 "${profiled[@]}") ;;
            aggregated) command=("${profiled[@]}") ;;
            sampled) command=("${profiled[@]}" --gpu-sample 100) ;;
            intervals) command=("${profiled[@]}" --gpu-intervals 100) ;;
            records) command=("${profiled[@]}" --gpu-records "$work/$name-records") ;;
            esac
            timeout --kill-after=10 120 "$mpirun" -n 2 "${command[@]}" "$@" >"$work/$name/$mode.$round.csv" ||
                failed "$name, $mode, did not end well"
            rm -rf "$work/$name-records"
        done
    done
    compare cost "${workloads[@]}" "$work/$name" || true
}

step_cost() {
    compile tools/overhead/gpu_cost.cu || { failed "gpu_cost.cu does not compile" && return; }
    measure "$backend.cost" alone,stencil,ring,local,host "$work/bin/gpu_cost"
}

step_nccl-cost() {
    (($(wc -l <<<"$gpus") > 1)) ||
        { left_out "the whole step" "there is one GPU, and NCCL wants one for each rank" && return; }
    have_torch "the whole step" || return 0
    measure "$backend.nccl" "NCCL ring" python3 "$root/tests/gpu/nccl_cost.py"
}
