# The step of scripts/gpu-check about NCCL's communicators.
# shellcheck shell=bash

# The folder of NCCL's package.
find_nccl() {
    nccl=${NCCL_HOME:-$(python3 -c 'import nvidia.nccl; print(*nvidia.nccl.__path__)' 2>/dev/null || true)}
    [[ -f $nccl/include/nccl.h && -f $nccl/lib/libnccl.so.2 ]]
}

step_nccl() {
    local nccl=''
    find_nccl || { left_out "the whole step" "no NCCL is found, in NCCL_HOME or python3's packages (nvidia-nccl-cu13)" && return; }
    local program
    for program in nccl nccl_times; do
        compile "tests/gpu/$program.cu" -isystem "$nccl/include" -L"$nccl/lib" -Xlinker "$nccl/lib/libnccl.so.2" -Xlinker -rpath -Xlinker "$nccl/lib" ||
            { failed "$program.cu does not compile" && return; }
    done
    several_gpus_unchecked "communicators of NCCL with several GPUs"
    timed_by_events
    counted nccl -- "$work/bin/nccl"
    run "$through" check "$work/nccl.mpisee" || failed "the profile does not agree with itself"
    run cat "$work/nccl.mpisee/nccl-peers.csv" || failed "no messages of NCCL by their ends"
    if have_torch "torchrun without MPI" torch; then
        launched_by_torchrun
    fi
    have_torch "PyTorch's collectives in MPI programs" || return 0
    counted nccl-torch --nccl on -- python3 "$root/tests/gpu/nccl_torch.py"
}

# The time on the GPU, beside that of the program's own events.
timed_by_events() {
    local name=nccl-times
    mkdir -p "$work/$name.expected"
    limited "$work/$name.log" "$mpirun" -n 2 "$mpisee" --nccl-gpu-time --output "$work/$name.mpisee" "$work/bin/nccl_times" "$work/$name.expected" ||
        failed "the program did not end well: $(ending "$name")"
    compare nccl-times --expected "$work/$name.expected" "$work/$name.mpisee" || true
    run "$through" gpu "$work/$name.mpisee" || failed "no page of the GPUs"
}

# Two processes of torchrun, without MPI.
launched_by_torchrun() {
    local name=nccl-torchrun
    mkdir -p "$work/$name.expected"
    limited "$work/$name.log" python3 -m torch.distributed.run --nproc-per-node 2 --master-port 29541 --no-python "$mpisee" --nccl on \
        --output "$work/$name.mpisee" python3 "$root/tests/gpu/nccl_torchrun.py" "$work/$name.expected" ||
        failed "the program did not end well: $(ending "$name")"
    compare calls --expected "$work/$name.expected" "$work/$name.mpisee" || true
    run "$through" "$work/$name.mpisee" || failed "no summary"
    run "$through" gpu "$work/$name.mpisee" || failed "no page of the GPUs"
}
