# The steps of scripts/gpu-check about the GPUs themselves, and messages between them.
# shellcheck shell=bash

# A kernel that runs nearly all the time, for as long as the agent needs to see it.
step_agent() {
    compile tests/gpu/busy.cu || { failed "busy.cu does not compile" && return; }
    limited "$work/agent.log" "$mpirun" -n 2 "$mpisee" --watch --output "$work/agent.mpisee" "$work/bin/busy" 4 ||
        failed "the program did not end well: $(ending agent)"
    compare agent --through "$through" "$work/agent.timeline" "$(nvidia-smi --query-gpu=index,uuid,pci.bus_id,memory.total,mig.mode.current --format=csv,noheader,nounits)" || true
    cat "$work/agent.timeline/"*.gpus.csv "$work/agent.timeline/"*.gpu-links.csv || true
    run "$through" timeline "$work/agent.timeline" || failed "no view of the time line"
}

# Runs a command on ranks under the profiler alone, and compares the tables of GPUs.
#   located NAME RANKS RANKS-THAT-USE-ONE [OPTION OF compare.py]... -- COMMAND...
located() {
    local name=$1 ranks=$2 users=$3 options=() listed
    shift 3
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift
    say "$name"
    mkdir -p "$work/$name.segments"
    limited "$work/$name.log" "$mpirun" -n "$ranks" "$mpisee" --segments "$work/$name.segments" --output "$work/$name.mpisee" "$@" ||
        [[ $name == gpus-killed ]] || failed "the program did not end well: $(ending "$name")"
    if [[ $name == gpus-killed ]]; then
        run "$through" recover "$work/$name.segments" --output "$work/$name.mpisee" 2>&1 || true
    fi
    [[ -d $work/$name.mpisee ]] || { failed "$name: there is no profile: $(ending "$name")" && return; }
    listed=$(nvidia-smi --query-gpu=uuid,pci.bus_id,name,memory.total --format=csv,noheader,nounits)
    compare gpus --users "$users" "${options[@]}" "$work/$name.mpisee" "$listed" "$topology" || cat "$work/$name.mpisee/ranks.csv" || true
}

step_gpus() {
    local uuid links topology
    compile tests/gpu/gpus.cu || { failed "gpus.cu does not compile" && return; }
    topology=$(nvidia-smi topo -m) || topology=''
    [[ $topology == *GPU0* ]] || left_out "ways between devices" "nvidia-smi topo -m shows none"
    several_gpus_unchecked "NVLinks of other GPUs than the first"
    uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | tail -n 1)
    located gpus-all 3 0-1 -- "$work/bin/gpus"
    located gpus-by-uuid 3 0-1 --visible "$uuid" -- env CUDA_VISIBLE_DEVICES="$uuid" "$work/bin/gpus"
    located gpus-none 3 0-1 --visible none -- env CUDA_VISIBLE_DEVICES= "$work/bin/gpus"
    located gpus-killed 3 0-1 -- "$work/bin/gpus" killed
    run "$through" ranks "$work/gpus-all.mpisee" --by gpu || failed "no view of ranks by GPU"
    run "$through" advise "$work/gpus-all.mpisee" || failed "no advice"
    run "$through" check "$work/gpus-all.mpisee" || failed "the profile does not agree with itself"
    have_torch "a GPU that PyTorch uses, and its NVLinks" || return 0
    # A GPU without any NVLink has no line for one, and an unknown number of them in the profile.
    links=$(nvidia-smi nvlink --status -i 0 2>/dev/null | grep 'Link [0-9]' || true)
    local nvlinks=()
    [[ ! $links ]] || nvlinks=(--nvlinks "$(grep -c 'GB/s' <<<"$links" || true)")
    located gpus-torch 2 0 "${nvlinks[@]}" -- python3 "$root/tests/gpu/gpus_torch.py"
}

step_bench() {
    local bench=$installation/bin/mpisee-bench ranks words
    [[ -x $bench ]] || { left_out "the whole step" "the installation has no mpisee-bench" && return; }
    several_gpus_unchecked "patterns of NCCL between GPUs"
    # NCCL takes a GPU for one rank alone.
    local nccl=''
    find_nccl && export LD_LIBRARY_PATH="$nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    printf 'step a using ipc\n0 -> 0 : n\n' >"$work/self_ipc"
    printf 'step a using nccl\n0 -> 0 : n\n' >"$work/self_nccl"
    while read -r ranks words; do
        # shellcheck disable=SC2086  # words of a command
        if limited "$work/bench.log" "$mpirun" -n "$ranks" "$bench" $words --format csv </dev/null >/dev/null; then
            compare bench "$words" "$work/bench.log" || true
        else
            failed "mpisee-bench $words: $(ending bench)"
        fi
    done <<END
2 p2p --backend ipc --sizes 8,1M,64M
2 p2p --exchange bi --window 4 --backend ipc --sizes 911,16M
4 ring --direction bi --backend ipc --sizes 911,16M
4 all-to-all --backend ipc --sizes 911,1M
2 p2p --memory pinned --sizes 8,1M
2 p2p --memory managed --assume-gpu-aware --sizes 8,1M
1 run $work/self_ipc --sizes 911,64M
1 run $work/self_nccl --sizes 911,64M
1 collective all --backend nccl --sizes 911k
END
    limited "$work/bench.log" "$mpirun" -n 2 "$bench" p2p --backend nccl --sizes 8 && failed "NCCL took one GPU for two ranks"
    return 0
}
