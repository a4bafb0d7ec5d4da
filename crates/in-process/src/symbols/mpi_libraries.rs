//! Names of MPI's own libraries.

/// Libraries of Open MPI, MPICH and their kin, of Intel's and Cray's MPI, and those that stand
/// before an MPI. Older releases included.
const NAMES: [&[u8]; 23] = [
    b"libmpi",
    b"libmpi_dbg",
    b"libmpi_dbg_mt",
    b"libmpi_mt",
    b"libmpi_cxx",
    b"libmpi_f77",
    b"libmpi_f90",
    b"libmpi_java",
    b"libmpi_ilp64",
    b"libmpi_shm_heap_proxy",
    b"libmpi_cray",
    b"libmpi_intel",
    b"libmpi_nvidia",
    b"libmpi_amd",
    b"libmpi_aocc",
    b"libmpi_pgi",
    b"libmpich",
    b"libmpichcxx",
    b"libmpicxx",
    b"libmpijava",
    b"libmpigf",
    b"libmpitrampoline",
    b"libmpiwrapper",
];

/// Begins of names, where a compiler, a version or a component follows.
const BEGINS: [&[u8]; 15] = [
    b"libmpi_abi",
    b"libmpi_ibm",
    b"libmpi_mpifh",
    b"libmpi_usempi",
    b"libmpi_gnu_",
    b"libmpi_gtl_",
    b"libmpich_",
    b"libmpicxx_",
    b"libpmpi",
    b"libopen-pal",
    b"libopen-rte",
    b"mca_",
    b"libmca_",
    b"libompi",
    b"libromio",
];

/// MPICH's bindings for Fortran, and those of its descendants: Cray has one for each compiler.
const FORTRAN_BINDINGS: [&[u8]; 10] = [
    b"libmpichfort",
    b"libmpichf90",
    b"libmpifort",
    b"libmpifort_amd",
    b"libmpifort_aocc",
    b"libmpifort_cray",
    b"libmpifort_gnu",
    b"libmpifort_intel",
    b"libmpifort_nvidia",
    b"libmpifort_pgi",
];

/// A version may follow.
const ENDING: &[u8] = b".so";

/// Returns whether a file of this path is a library of MPI's: what programs call `libmpi*.so` is
/// none.
pub fn is_mpi_library(path: &[u8]) -> bool {
    let Some(stem) = stem(path) else { return false };
    NAMES.contains(&stem)
        || BEGINS.iter().any(|begin| stem.starts_with(begin))
        || is_mpich_fortran_bindings(path)
}

/// Returns whether a file of this path is MPICH's bindings for Fortran, or those of an MPI that
/// descends from it.
pub fn is_mpich_fortran_bindings(path: &[u8]) -> bool {
    let Some(stem) = stem(path) else { return false };
    // As in libmpifort_gnu_91.so.12.
    let version = stem.iter().rev().take_while(|byte| **byte == b'_' || byte.is_ascii_digit()).count();
    FORTRAN_BINDINGS.contains(&stem) || FORTRAN_BINDINGS.contains(&&stem[..stem.len() - version])
}

/// The name of a file without its ending; `None` if it is no shared library.
fn stem(path: &[u8]) -> Option<&[u8]> {
    let file = path.rsplit(|&byte| byte == b'/').next()?;
    let end = file.windows(ENDING.len()).position(|part| part == ENDING)?;
    Some(&file[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_told_from_those_of_programs() {
        for (path, expected) in [
            ("/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_io_romio321.so", true),
            ("/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4", true),
            ("/usr/lib/x86_64-linux-gnu/libmpi_mpifh.so.40", true),
            ("/usr/lib/x86_64-linux-gnu/libmpi_usempi_ignore_tkr.so.40", true),
            ("/usr/lib/x86_64-linux-gnu/libopen-pal.so.40", true),
            ("/usr/lib/x86_64-linux-gnu/libmpichfort.so.12", true),
            ("/opt/mpich/lib/libmpi_abi.so.0", true),
            ("/opt/intel/oneapi/mpi/2021.13/lib/libmpi.so.12", true),
            ("/opt/ibm/spectrum_mpi/lib/libmpi_ibm_mpifh.so.3", true),
            ("/opt/cray/pe/lib64/libmpi_gnu_123.so.12", true),
            ("/opt/cray/pe/lib64/libmpifort_cray.so.12", true),
            ("/opt/cray/pe/lib64/libmpi_gtl_cuda.so.0", true),
            ("/usr/lib/x86_64-linux-gnu/libpetsc.so.3", false),
            ("/home/me/lib/libmpitools.so", false),
            ("/home/me/lib/libmpimesh.so", false),
            ("/home/me/lib/libmpi_solver.so", false),
            ("/home/me/lib/libmpifort_wrappers.so", false),
            ("/home/me/lib/libmpichem.so.1", false),
            ("/home/me/bin/libmpich", false),
            ("/opt/lib/mpisee/libmpisee.so", false),
            ("", false),
        ] {
            assert_eq!(is_mpi_library(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn bindings_for_fortran_are_known_by_their_names() {
        for file in ["libmpichfort.so.12", "/opt/mpi/libmpifort.so", "libmpifort_gnu_91.so.12"] {
            assert!(is_mpich_fortran_bindings(file.as_bytes()), "{file}");
        }
        for file in ["libmpifort_wrappers.so", "libmpifortune.so", "libmpi.so.12", "libmpifort"] {
            assert!(!is_mpich_fortran_bindings(file.as_bytes()), "{file}");
        }
    }
}
