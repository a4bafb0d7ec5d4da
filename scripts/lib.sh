# Shared by the scripts beside this one, which source it: what they need, and how they say things.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

say() { printf '\n== %s\n' "$*" >&2; }

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null; }

# Shows a command and runs it.
run() {
    printf '$ %s\n' "$*" >&2
    "$@"
}

need_rust() {
    if ! have cargo && [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/cargo ]]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH # installed, but in no shell's start-up file
    fi
    have cargo || fail "Rust is missing: https://rustup.rs installs it"
}

# Needs a component of Rust, which is a subcommand of cargo.
need_component() {
    cargo "$2" --version >/dev/null 2>&1 && return
    have rustup || fail "cargo $2 is missing: install the Rust component $1"
    run rustup component add "$1"
}

# Installs those of the packages that are missing.
install_packages() {
    local package missing=() as_root=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    have apt-get || fail "this is not a Debian-like system, so install by hand what Debian calls: ${missing[*]}"
    if ((EUID != 0)); then
        have sudo || fail "there is no sudo: run this as root, or have these packages installed first: ${missing[*]}"
        as_root=(sudo)
        [[ -t 0 ]] || as_root=(sudo -n) # nobody there to type a password
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
    say "Installing ${missing[*]}"
    # The package lists that are there will often do; a source may be slow or away.
    "${apt[@]}" install --no-install-recommends --yes "${missing[@]}" </dev/null >/dev/null 2>&1 && return
    "${apt[@]}" update </dev/null || "${apt[@]}" update </dev/null || true
    "${apt[@]}" install --no-install-recommends --yes "${missing[@]}" </dev/null >/dev/null ||
        fail "these packages could not be installed: ${missing[*]}"
}

# Installs packages unless a command says that what they bring is there, from wherever.
install_unless() {
    local there=$1
    shift
    "$there" || install_packages "$@"
}

have_compiler() { have cc && echo 'int main(void) { return 0; }' | cc -x c - -o /dev/null 2>/dev/null; }

# libclang reads mpi.h for the library's build; without its own stddef.h it cannot.
have_libclang() {
    [[ ${LIBCLANG_PATH-} ]] && return
    compgen -G '/usr/lib*/libclang*.so*' || compgen -G '/usr/lib/*/libclang-[0-9]*.so*' ||
        compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' || return
    compgen -G '/usr/lib*/clang/*/include/stddef.h' || compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h'
} >/dev/null

# The first MPI that has both a compiler wrapper and a launcher. On Debian, the names
# without a suffix are switched each on its own, and so may be of two MPIs.
mpicc='' mpirun=''
find_mpi() {
    local suffix
    for suffix in '' .openmpi .mpich; do
        mpicc=$(command -v "mpicc$suffix") || continue
        [[ $(readlink "$mpicc") == /etc/alternatives/* ]] && continue
        mpirun=$(dirname "$mpicc")/mpirun$suffix
        [[ -x $mpirun ]] && return
    done
    return 1
}

# Open MPI refuses to run as root, and more ranks than cores, unless variables say that they are
# meant.
allow_mpi_here() {
    if ((EUID == 0)); then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}
