# The steps of scripts/gpu-check that trace kernels, each with each backend.
# shellcheck shell=bash

step_probe() {
    compile tests/gpu/stencil.cu || { failed "stencil.cu does not compile" && return; }
    traced "$backend.probe" stencil || failed "the program did not end well"
    local listening
    listening=$(cat "$work/$backend.probe.trace".* 2>/dev/null | grep -c ' listening$' || true)
    if [[ $listening == 2 ]]; then
        echo "ok       the driver loaded the tracer in both ranks" | verdict
    else
        failed "the tracer listened in $listening of 2 ranks"
    fi
    most=200 explain "$backend.probe"
}

step_widths() {
    exactly "$backend.widths" widths
    local objects
    objects=$("$through" gpu "$work/$backend.widths.mpisee" --by object --format csv --all 2>&1) || true
    if [[ $objects == *make_unnamed* ]]; then
        echo "ok       memory without a name is named by the function that allocated it" | verdict
    else
        failed "no object is named by make_unnamed, which allocated it: $(head -n 20 <<<"$objects" | tr '\n' ' ')"
    fi
}

step_hopper() {
    exactly "$backend.hopper-ipc" hopper -- ipc
    exactly "$backend.hopper-pinned" hopper -- pinned
}

step_shared() { exactly "$backend.shared" shared; }

# NVSHMEM's folder. Its library is called by its version where it comes as a package.
find_nvshmem() {
    local place
    for place in ${NVSHMEM_HOME:+"$(cd "$here" && realpath -m "$NVSHMEM_HOME")"} \
        "$(python3 -c 'import nvidia.nvshmem; print(*nvidia.nvshmem.__path__)' 2>/dev/null || true)"; do
        [[ -f $place/include/nvshmem.h && -f $place/lib/libnvshmem_device.a ]] || continue
        nvshmem_library=$(compgen -G "$place/lib/libnvshmem_host.so*" | head -n 1) && nvshmem=$place && return
    done
    return 1
}

# Two PEs may share a GPU, as these ranks do, since NVSHMEM 2.4; without MPS all is supported that
# the program uses. Its kernels for barriers, which wait for each other as often as it takes, are
# left out.
step_nvshmem() {
    local kind nvshmem='' nvshmem_library='' settings=(NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_DISABLE_NVLS=1)
    find_nvshmem ||
        { left_out "the whole step" "no NVSHMEM is found, in NVSHMEM_HOME or python3's packages (nvidia-nvshmem-cu13)" && return; }
    compile tests/gpu/nvshmem.cu -rdc=true -isystem "$nvshmem/include" -L"$nvshmem/lib" -lnvshmem_device \
        -Xlinker "$nvshmem_library" -Xlinker -rpath -Xlinker "$nvshmem/lib" ||
        { failed "nvshmem.cu does not compile" && return; }
    for kind in imported ipc; do
        local name=$backend.nvshmem-$kind
        # What NVSHMEM loads by itself lies beside it.
        (
            export "${settings[@]}" LD_LIBRARY_PATH="$nvshmem/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
            [[ $kind == imported ]] || export NVSHMEM_DISABLE_CUDA_VMM=1
            exactly "$name" nvshmem --gpu-kernels 'shmem_*' -- "$kind"
        )
        if [[ $(sort "$work/$name.mpisee/pes.csv" 2>/dev/null) == $'0,0\n1,1\nrank,pe' ]]; then
            echo "ok       the ranks' PEs are in the profile" | verdict
        else
            failed "pes.csv does not tell the ranks' PEs"
        fi
    done
}

step_lives() {
    exactly "$backend.lives" lives
    # Not a matter of right and wrong: an MPI may have memory of the host registered all the time.
    local out
    out=$(cat "$work/$backend.lives.trace".* 2>/dev/null | grep -c ' patches are out ' || true)
    echo "patches came out $out times"
}

step_shapes() {
    for kind in cubin ptx; do
        run "$nvcc" -"$kind" -lineinfo -arch="$arch" -o "$work/bin/late.$kind" "$root/tests/gpu/late.cu" ||
            { failed "late.cu does not compile" && return; }
    done
    exactly "$backend.shapes" shapes -- "$work/bin/late.cubin" "$work/bin/late.ptx"
}

step_killed() {
    local name=$backend.killed
    compile tests/gpu/killed.cu || { failed "killed.cu does not compile" && return; }
    traced "$name" killed && failed "mpirun ended well though a rank was killed"
    run "$through" recover "$work/$name.segments" --output "$work/$name.mpisee" 2>&1 || true
    [[ -d $work/$name.mpisee ]] || { failed "nothing was recovered: $(ending "$name")" && return; }
    compare rows --expected "$work/$name.expected" --source killed.cu "$work/$name.mpisee" || explain "$name"
}

step_sampled() {
    local name=$backend.sampled profiles one_in run
    compile tests/gpu/widths.cu || { failed "widths.cu does not compile" && return; }
    for one_in in 2 10 100; do
        profiles=()
        for run in 1 2 3; do
            traced "$name-$one_in-$run" widths --gpu-sample "$one_in" -- 2400 || failed "the program did not end well"
            profiles+=("$work/$name-$one_in-$run.mpisee")
        done
        say "One warp in $one_in"
        compare sampled --expected "$work/$name-$one_in-1.expected" --source widths.cu "${profiles[@]}" ||
            explain "$name-$one_in-1"
    done
}

step_intervals() {
    local name=$backend.intervals profiles=() run
    compile tests/gpu/intervals.cu || { failed "intervals.cu does not compile" && return; }
    for run in 1 2 3; do
        local streams=()
        ((run < 3)) || streams=(-- streams)
        traced "$name-$run" intervals --gpu-intervals 20 "${streams[@]}" || failed "the program did not end well"
        profiles+=("$work/$name-$run.mpisee")
    done
    compare sampled --expected "$work/$name-1.expected" --source intervals.cu "${profiles[@]}" || explain "$name-1"
}

step_records() {
    local name=$backend.records program
    for program in widths hopper; do
        compile "tests/gpu/$program.cu" || { failed "$program.cu does not compile" && continue; }
        traced "$name-$program" "$program" --gpu-records "$work/$name-$program" -- "$([[ $program == hopper ]] && echo ipc || echo 5)" ||
            failed "the program did not end well"
        compare records --through "$through" "$work/$name-$program.mpisee" "$work/$name-$program" ||
            explain "$name-$program"
    done
}

step_stencil() {
    local name=$backend.stencil
    exactly "$name" stencil --gpu-records "$work/$name.records"
    [[ -d $work/$name.mpisee ]] || return 0
    local ask=("$through" gpu "$work/$name.mpisee")
    run "${ask[@]}" || failed "no page of the GPUs"
    run "${ask[@]}" --by rank || failed "no view by rank"
    run "${ask[@]}" --by line || failed "no view by line"
    run "${ask[@]}" --by object || failed "no view by object"
    run "${ask[@]}" --by address --records "$work/$name.records" --fold 1024x512x8 --top 3 || failed "no view by address"
    run "${ask[@]}" --annotate --source "$root/tests/gpu" || failed "no view of the source"
    run "${ask[@]}" --image "$work/$name.svg" || failed "no picture"
}

step_torch() {
    local name=$backend.torch
    have_torch "the whole step" || return 0
    limited "$work/$name.log" "$mpirun" -n 2 env MPISEE_GPU_TRACE="$work/$name.trace" "$mpisee" --gpu --gpu-backend "$backend" \
        --output "$work/$name.mpisee" python3 "$root/tests/gpu/torch_ipc.py" "$work/$name.expected" ||
        failed "the program did not end well: $(ending "$name")"
    compare launched "$work/$name.mpisee" "$work/$name.expected" || explain "$name"
}
