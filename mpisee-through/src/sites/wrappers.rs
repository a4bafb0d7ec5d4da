//! Libraries and functions that call MPI for the program: the call that matters is the one into them.

use super::frames::{SiteFrame, file_name};
use mpisee_profile::glob::Glob;
use mpisee_symbols::is_mpi_library;

/// File names of libraries beside MPI's own: mpisee, other profilers that stand before MPI, and libraries that communicate for
/// programs. Python's interpreter and the C library, too: between mpi4py and the program their frames tell nothing.
const LIBRARIES: [&str; 43] = [
    "libmpisee.so*",
    "libmpisee_*.so*",
    "libmpiP.so*",
    "libmpitrace*.so*",
    "libabi_mpi*.so*",
    "MPI.*.so",
    "libpython*.so*",
    "libc.so*",
    "python?",
    "python?.*",
    // PyTorch's, which call NCCL; and what lies between these and Python.
    "libtorch*.so*",
    "libc10*.so*",
    "_C.*.so",
    "libffi.so*",
    "libffi-*.so*",
    "_ctypes.*.so",
    "libboost_mpi*.so*",
    "libhdf5*.so*",
    "libnetcdf*.so*",
    "libpnetcdf*.so*",
    "libadios2*.so*",
    "libpetsc*.so*",
    "libslepc*.so*",
    "libHYPRE*.so*",
    "libtrilinos_*.so*",
    "libtpetra*.so*",
    "libepetra*.so*",
    "libscalapack*.so*",
    "libblacs*.so*",
    "libmkl_*.so*",
    "libelpa*.so*",
    "libfftw3*_mpi*.so*",
    "libsuperlu_dist*.so*",
    "lib?mumps*.so*",
    "libparmetis*.so*",
    "libptscotch*.so*",
    // Cray's.
    "libsci_amd*_mpi*.so*",
    "libsci_aocc*_mpi*.so*",
    "libsci_cray*_mpi*.so*",
    "libsci_gnu*_mpi*.so*",
    "libsci_intel*_mpi*.so*",
    "libsci_nvidia*_mpi*.so*",
    "libsci_pgi*_mpi*.so*",
];

/// Packages of Python that communicate for programs.
const PACKAGES: [&str; 16] = [
    "mpi4py",
    "mpi4py_fft",
    "mpi4jax",
    "mpi4torch",
    "h5py",
    "netCDF4",
    "adios2",
    "petsc4py",
    "slepc4py",
    "horovod",
    "dask_mpi",
    "schwimmbad",
    "torch",
    "deepspeed",
    "accelerate",
    "lightning",
];
/// Frames of Python's own library, which calls what the program gave it: `runpy`, `threading`, `contextlib`.
const PYTHON: &str = "Python";

/// The known package of Python that a file is of, or Python itself.
fn package_of(file: &str) -> Option<&'static str> {
    if file.starts_with("<frozen ") {
        return Some(PYTHON);
    }
    let parts: Vec<&str> = file.split('/').collect();
    if let Some(at) = parts.iter().rposition(|part| matches!(*part, "site-packages" | "dist-packages")) {
        return PACKAGES.into_iter().find(|package| parts.get(at + 1) == Some(package));
    }
    let is_version = |part: &str| {
        part.strip_prefix("python3.")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_own = parts.windows(2).any(|two| matches!(two[0], "lib" | "lib64") && is_version(two[1]));
    is_own.then_some(PYTHON)
}

/// Functions of the C library, and of the compiler, that call the program's `main`.
const START: [&str; 4] = ["__libc_start_call_main", "__libc_start_main", "__libc_start_main_impl", "_start"];

/// Returns whether a function of this name starts the program.
pub fn is_start(function: &str) -> bool {
    START.contains(&function)
}

/// The libraries that are known, and what the user names.
pub struct Wrappers {
    libraries: Vec<Glob>,
    /// Functions or libraries.
    named: Vec<Glob>,
}

impl Wrappers {
    /// The libraries that are known to call MPI for programs, and functions and libraries of these names.
    pub fn new(named: &[Glob]) -> Self {
        Wrappers { libraries: LIBRARIES.iter().map(|name| Glob::new(name)).collect(), named: named.to_vec() }
    }

    /// Returns whether a binary is a known library.
    pub fn is_library(&self, module: &str) -> bool {
        let name = file_name(module);
        is_mpi_library(name.as_bytes()) || self.libraries.iter().any(|library| library.matches(name))
    }

    /// Returns whether the user names the function, or its library.
    pub fn is_named(&self, frame: &SiteFrame) -> bool {
        let is_it = |glob: &Glob| glob.matches(&frame.function) || glob.matches(&frame.module);
        self.named.iter().any(is_it)
    }

    /// The name of the library or function that is looked past, if the frame is of one.
    pub fn name<'f>(&self, frame: &'f SiteFrame) -> Option<&'f str> {
        if self.is_library(&frame.module) {
            let is_mpi4py = frame.module.starts_with("MPI.");
            return Some(if is_mpi4py { "mpi4py" } else { &frame.module });
        }
        if frame.module.is_empty()
            && let Some(package) = package_of(&frame.file)
        {
            return Some(package);
        }
        let name = if frame.function.is_empty() { &frame.module } else { &frame.function };
        self.is_named(frame).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_file_names() {
        let wrappers = Wrappers::new(&[]);
        for library in [
            "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4",
            "/usr/lib/libmpichfort.so.12",
            "/usr/lib/libhdf5_openmpi.so.103",
            "/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so",
            "/usr/bin/python3.11",
            "/usr/lib/libpython3.11.so.1.0",
            "libdmumps-5.6.so",
            "/usr/lib/libmpi_mpifh.so.40",
            "/opt/lib/mpisee/openmpi-4.1/libmpisee.so",
            "/opt/cray/pe/lib64/libsci_gnu_123_mpi.so.6",
        ] {
            assert!(wrappers.is_library(library), "{library}");
        }
        for (file, expected) in [
            ("/v/lib/python3.11/site-packages/mpi4py/util/pkl5.py", Some("mpi4py")),
            ("/usr/lib/python3/dist-packages/h5py/_hl/dataset.py", Some("h5py")),
            ("/usr/lib/python3.11/threading.py", Some(PYTHON)),
            ("<frozen runpy>", Some(PYTHON)),
            ("/v/lib/python3.11/site-packages/solver/step.py", None),
            ("/home/me/mpi4py/solver.py", None),
            ("/home/me/lib/solver.py", None),
            ("<stdin>", None),
            ("solver.c", None),
        ] {
            assert_eq!(package_of(file), expected, "{file}");
        }
        for own in [
            "/usr/bin/lmp",
            "/home/me/libsolver.so",
            "/home/me/libmpimesh.so",
            "/home/me/libmpi_solver.so",
            "/home/me/libsci_model.so",
            "libmpich",
            "/usr/lib/libm.so.6",
            "",
        ] {
            assert!(!wrappers.is_library(own), "{own}");
        }
    }
}
