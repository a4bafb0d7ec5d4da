# The steps of scripts/gpu-check about the memory of MPI's buffers and about copies of the host.
# shellcheck shell=bash

step_buffers() {
    compile tests/gpu/buffers.cu || { failed "buffers.cu does not compile" && return; }
    counted buffers -- "$work/bin/buffers"
    local round mode
    mkdir -p "$work/buffers" "$work/buffers.again.expected"
    for ((round = 1; round <= rounds; round++)); do
        for mode in without profiled; do
            local command=()
            [[ $mode == without ]] || command=("$mpisee" --quiet --output "$work/buffers.again.mpisee")
            timeout --kill-after=10 60 "$mpirun" -n 2 "${command[@]}" "$work/bin/buffers" "$work/buffers.again.expected" \
                >"$work/buffers/$mode.$round.csv" || failed "the program did not end well, $mode"
        done
    done
    compare price "$work/buffers" || true
}

# Runs a program on two ranks with its copies counted, and compares them.
#   copied NAME COMMAND...
copied() {
    local name=$1
    shift
    mkdir -p "$work/$name.expected"
    limited "$work/$name.log" "$mpirun" -n 2 env MPISEE_GPU_TRACE="$work/$name.trace" "$mpisee" --gpu-copies --output "$work/$name.mpisee" \
        "$@" "$work/$name.expected" || failed "the program did not end well: $(ending "$name")"
    grep -h '^mpisee: ' "$work/$name.log" || true
    if ! compare copies --expected "$work/$name.expected" "$work/$name.mpisee"; then
        head -n 60 "$work/$name.mpisee/copies.csv" "$work/$name.mpisee/staged.csv" || true
        say "What the driver reported in $name"
        python3 "$root/tests/gpu/compare.py" traced --most 150 "$work/$name.trace".* || true
    fi
    [[ -d $work/$name.mpisee ]] || return 0
    run "$through" gpu "$work/$name.mpisee" --by copy || failed "no view of the copies"
    run "$through" gpu "$work/$name.mpisee" || failed "no page of the GPUs"
}

step_copies() {
    compile tests/gpu/copies.cu || { failed "copies.cu does not compile" && return; }
    copied copies "$work/bin/copies"
    several_gpus_unchecked "copies between GPUs"
    local round mode
    mkdir -p "$work/copies" "$work/copies.again.expected"
    for ((round = 1; round <= rounds; round++)); do
        for mode in profiled counted; do
            local command=("$mpisee" --quiet --output "$work/copies.again.mpisee")
            [[ $mode == profiled ]] || command+=(--gpu-copies)
            timeout --kill-after=10 60 "$mpirun" -n 2 "${command[@]}" "$work/bin/copies" "$work/copies.again.expected" cost \
                >"$work/copies/$mode.$round.csv" || failed "the program did not end well, $mode"
        done
    done
    compare price --modes profiled counted "$work/copies" || true
    have_torch "PyTorch's copies" || return 0
    copied copies-torch python3 "$root/tests/gpu/copies_torch.py"
}
