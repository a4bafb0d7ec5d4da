# Programs of scripts/gpu-check: how they are compiled, run and compared, and how what could not be
# checked is kept.
# shellcheck shell=bash

# nvcc knows no wrapper of MPI, but what that passes to the compiler.
mpi_flags=()
for flag in $("$mpicc" -show); do
    case $flag in
    -I* | -l*) mpi_flags+=("$flag") ;;
    -L*) mpi_flags+=("$flag" -Xlinker -rpath -Xlinker "${flag#-L}") ;;
    esac
done
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader)
capability=${capability%%$'\n'*}
arch=sm_${capability/./}

# Compiles a program, once, with further options. A program that does not compile is a failure of
# the step that needs it.
compile() {
    local source=$1 name
    shift
    name=$(basename "$source" .cu)
    [[ -x $work/bin/$name ]] && return
    run "$nvcc" -std=c++17 -O2 -g -lineinfo -arch="$arch" -Xcompiler -Wall,-Wextra -I "$installation/include" \
        -o "$work/bin/$name" "$root/$source" "$@" "${mpi_flags[@]}" -ldl -lpthread
}

# Runs a command for so many seconds at most; what it says goes into a file, and is then shown: a
# rank that cannot be killed, as one may be that waits for a GPU, would keep a pipe open for ever.
#   limited LOG COMMAND...
limited() {
    local log=$1 status=0
    shift
    run timeout --kill-after=10 120 "$@" >"$log" 2>&1 || status=$?
    cat "$log"
    case $status in
    124 | 137) echo "it did not end within 120 s" | tee -a "$log" ;;
    esac
    return "$status"
}

# Runs a program on two ranks with a time limit; what it says is kept beside its profile.
#   traced NAME PROGRAM [OPTION OF MPISEE]... [-- ARGUMENT OF THE PROGRAM]...
backend=''
traced() {
    local name=$1 program=$2 options=()
    shift 2
    while (($#)) && [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift $(($# > 0 ? 1 : 0))
    # A program that ends early leaves its segments there.
    mkdir -p "$work/$name.expected" "$work/$name.segments"
    local status=0
    limited "$work/$name.log" "$mpirun" -n 2 env MPISEE_GPU_TRACE="$work/$name.trace" "$mpisee" --gpu --gpu-backend "$backend" \
        --segments "$work/$name.segments" --output "$work/$name.mpisee" "${options[@]}" "$work/bin/$program" "$work/$name.expected" "$@" ||
        status=$?
    if grep -q 'no flavour is installed' "$work/$name.log"; then
        touch "$work/wrong-mpi"
        fail "$installation is not for the MPI of $mpicc: 'cargo xtask dist --mpicc' that one"
    fi
    return "$status"
}

# Keeps the lines of a comparison, verdicts with the backend and the step.
verdict() { sed -E "s/^(ok|DIFFERS) /$backend $step: &/" | tee -a "$results"; }

failed() { echo "DIFFERS  $*" | verdict; }

# Says and keeps what cannot be checked here.
#   left_out WHAT WHY
left_out() {
    say "Left out: $1: $2"
    echo "$backend $step: $1: $2" >>"$skipped"
}

# Says so where there are several GPUs: a step's programs use each GPU by itself.
several_gpus_unchecked() {
    (($(wc -l <<<"$gpus") < 2)) || left_out "$1" "there are several GPUs, but this step's programs have no such case"
}

# Fails unless all is as expected; Python may also end before it compares.
compare() {
    local status=0
    python3 "$root/tests/gpu/compare.py" "$@" >"$work/compared" 2>&1 || status=$?
    verdict <"$work/compared"
    if ((status == 0)); then
        grep -qE '^(ok|measured) ' "$work/compared" || failed "compare.py $1 has compared nothing"
    else
        grep -q '^DIFFERS ' "$work/compared" || failed "compare.py $1 ended with $status before it compared"
    fi
    return "$status"
}

# The last lines that a program said.
ending() { grep -v '^\$' "$work/$1.log" | tail -n 3 | tr '\n' ' ' || true; }

# Runs a program and compares all that is counted.
#   exactly NAME PROGRAM [OPTION]... [-- ARGUMENT]...
exactly() {
    local name=$1 program=$2 sources=(--source "$2.cu")
    [[ $program == shapes ]] && sources+=(--source late.cu)
    # NVBit does not count modules that come where others were.
    [[ $program == shapes && $backend == nvbit ]] && sources+=(--some 'late*')
    compile "tests/gpu/$program.cu" || { failed "$program.cu does not compile" && return; }
    traced "$@" || failed "the program did not end well: $(ending "$name")"
    if [[ -d $work/$name.mpisee ]]; then
        compare rows --expected "$work/$name.expected" "${sources[@]}" "$work/$name.mpisee" || explain "$name"
    else
        failed "there is no profile: $(ending "$name")"
        explain "$name"
    fi
}

# What is to be known where something differs: what the driver reported, and the rows.
explain() {
    local name=$1
    say "What the driver reported in $name"
    if compgen -G "$work/$name.trace.*" >/dev/null; then
        python3 "$root/tests/gpu/compare.py" traced --most "${most:-60}" "$work/$name.trace".* || true
    else
        echo "nothing: the driver did not load the tracer, or that did not begin"
    fi
    [[ -f $work/$name.mpisee/gpu.csv ]] && head -n 40 "$work/$name.mpisee/gpu.csv"
    return 0
}

# Fails where Python lacks what these steps need.
#   have_torch WHAT-NEEDS-IT [MODULES]
have_torch() {
    python3 -c "import ${2:-torch, mpi4py.MPI}" 2>"$work/torch.log" ||
        { left_out "$1" "python3 cannot import ${2:-torch, mpi4py.MPI}: $(tail -n 1 "$work/torch.log")" && return 1; }
}

# Runs a program on two ranks under the profiler alone, and compares its calls.
#   counted NAME [OPTION OF MPISEE]... -- COMMAND...
counted() {
    local name=$1 options=()
    shift
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift
    mkdir -p "$work/$name.expected"
    limited "$work/$name.log" "$mpirun" -n 2 "$mpisee" --output "$work/$name.mpisee" "${options[@]}" "$@" "$work/$name.expected" ||
        failed "the program did not end well: $(ending "$name")"
    compare calls --expected "$work/$name.expected" "$work/$name.mpisee" || true
}
