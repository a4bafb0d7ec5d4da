//! Libraries and functions that call MPI for the program: the call that matters is the one into
//! them.
//!
//! A library is known by the path of its file: by its name ([`LIBRARIES`]), or as part of a Python
//! package ([`PACKAGES`]). Users add patterns in a file ([`read_patterns`]) or with
//! `--skip-frames`.

use super::frames::{SiteFrame, file_name};
use anyhow::{Context, Result, bail};
use mpisee_in_process::symbols::is_mpi_library;
use mpisee_profile::glob::Glob;
use mpisee_profile::options::SKIP_FRAMES;
use std::borrow::Cow;
use std::path::PathBuf;

/// File names of libraries beside MPI's own ([`is_mpi_library`]).
const LIBRARIES: &[&str] = &[
    // Profilers.
    "libmpisee.so*",
    "libmpisee_*.so*",
    "libmpiP.so*",
    "libmpitrace*.so*",
    "libabi_mpi*.so*",
    // Between mpi4py and the program frames of the interpreter and of the C library tell nothing.
    "MPI.*.so",
    "libpython*.so*",
    "libc.so*",
    "python?",
    "python?.*",
    "libffi.so*",
    "libffi-*.so*",
    "_ctypes.*.so",
    // PyTorch, which calls NCCL.
    "libtorch*.so*",
    "libc10*.so*",
    "_C.*.so",
    // Bindings of MPI for C++, and message layers of applications.
    "libboost_mpi*.so*",
    "libPstream.so*",
    // Input and output.
    "libhdf5*.so*",
    "libnetcdf*.so*",
    "libpnetcdf*.so*",
    "libadios*.so*",
    "libcgns*.so*",
    "libmed.so*",
    "libmedC.so*",
    "libsilo*.so*",
    "libsionmpi*.so*",
    // Solvers, and what they need.
    "libpetsc*.so*",
    "libslepc*.so*",
    "libHYPRE*.so*",
    "libtrilinos_*.so*",
    "libtpetra*.so*",
    "libepetra*.so*",
    "libxpetra*.so*",
    "libteuchoscomm*.so*",
    "libzoltan*.so*",
    "libbelos*.so*",
    "libifpack*.so*",
    "libmuelu*.so*",
    "libsundials_*.so*",
    "libsuperlu_dist*.so*",
    "libstrumpack*.so*",
    "libpastix*.so*",
    "lib?mumps*.so*",
    "libmumps_common*.so*",
    "libpsblas*.so*",
    // Dense matrices and transforms.
    "libscalapack*.so*",
    "libblacs*.so*",
    "libmkl_*.so*",
    "libelpa*.so*",
    "libslate*.so*",
    "libdlaf*.so*",
    "libdbcsr*.so*",
    "libcosma*.so*",
    "libcosta*.so*",
    "libparpack*.so*",
    "libfftw3*_mpi*.so*",
    "libheffte*.so*",
    "libp3dfft*.so*",
    "libpfft*.so*",
    "libdecomp2d*.so*",
    // Meshes and graphs.
    "libp4est*.so*",
    "libsc.so*",
    "libsc-*.so*",
    "libMOAB*.so*",
    "libparmetis*.so*",
    "libptscotch*.so*",
    "libvtkParallelMPI*.so*",
    // Cray's.
    "libsci_amd*_mpi*.so*",
    "libsci_aocc*_mpi*.so*",
    "libsci_cray*_mpi*.so*",
    "libsci_gnu*_mpi*.so*",
    "libsci_intel*_mpi*.so*",
    "libsci_nvidia*_mpi*.so*",
    "libsci_pgi*_mpi*.so*",
];

/// File names of extensions of Python in compiled code: lines of Python call them. Their names have
/// a tag that no library of a program in another language has.
const EXTENSIONS: [&str; 2] = ["*.cpython-*.so", "*.abi3.so"];

/// Packages of Python that communicate for programs, with their extensions in compiled code.
const PACKAGES: &[&str] = &[
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
/// Frames of Python's own library, which calls what the program gave it: `runpy`, `threading`,
/// `contextlib`.
const PYTHON: &str = "Python";

/// The known package of Python that a file is of, a line of Python or an extension; or Python
/// itself.
fn package_of(file: &str) -> Option<&'static str> {
    if file.starts_with("<frozen ") {
        return Some(PYTHON);
    }
    let parts: Vec<&str> = file.split('/').collect();
    if let Some(at) = parts.iter().rposition(|part| matches!(*part, "site-packages" | "dist-packages")) {
        return PACKAGES.iter().copied().find(|package| parts.get(at + 1) == Some(package));
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

/// A pattern of the user's file: for names of functions and files; with a slash in it, for the end
/// of a file's path.
struct ListedPattern {
    name: Glob,
    path: Option<Glob>,
}

impl ListedPattern {
    fn new(text: &str) -> Self {
        let path = match text.starts_with(['/', '*']) {
            true => Cow::from(text),
            false => format!("*/{text}").into(),
        };
        ListedPattern { name: Glob::new(text), path: text.contains('/').then(|| Glob::new(&path)) }
    }

    fn matches_file(&self, path: &str) -> bool {
        match &self.path {
            Some(glob) => glob.matches(path),
            None => self.name.matches(file_name(path)),
        }
    }
}

/// The libraries and functions that are looked past: those that are known, and those that the user
/// names.
pub struct Wrappers {
    libraries: Vec<Glob>,
    extensions: Vec<Glob>,
    /// Patterns of the user's file.
    listed: Vec<ListedPattern>,
    /// Functions or libraries of `--skip-frames`.
    named: Vec<Glob>,
}

impl Wrappers {
    /// The known libraries, those in the user's file, and functions and libraries of these names.
    ///
    /// # Errors
    /// Of a file that cannot be read, or has a line that is no pattern.
    pub fn from_environment(named: &[Glob]) -> Result<Self> {
        Ok(Wrappers::new(named, &read_patterns()?))
    }

    /// The same with the text of the user's file.
    pub fn new(named: &[Glob], listed: &str) -> Self {
        let lines = listed.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Wrappers {
            libraries: LIBRARIES.iter().map(|name| Glob::new(name)).collect(),
            extensions: EXTENSIONS.iter().map(|name| Glob::new(name)).collect(),
            listed: lines.map(ListedPattern::new).collect(),
            named: named.to_vec(),
        }
    }

    /// Returns whether a binary, given by its path, is a known library.
    pub fn is_library(&self, path: &str) -> bool {
        self.library(path).is_some()
    }

    /// The name of the known library, of its Python package, or of the extension of Python, if a
    /// binary of this path is one.
    fn library<'p>(&self, path: &'p str) -> Option<&'p str> {
        let name = file_name(path);
        if is_mpi_library(name.as_bytes()) || self.libraries.iter().any(|library| library.matches(name)) {
            let is_mpi4py = name.starts_with("MPI.");
            return Some(if is_mpi4py { "mpi4py" } else { name });
        }
        let is_extension = self.extensions.iter().any(|extension| extension.matches(name));
        let extension = || name.split('.').next().filter(|_| is_extension);
        package_of(path)
            .or_else(extension)
            .or_else(|| self.listed.iter().any(|one| one.matches_file(path)).then_some(name))
    }

    /// Returns whether `--skip-frames` or the user's file names the function, its library or its
    /// file; `binary` is as in [`Wrappers::name`].
    pub fn is_named(&self, frame: &SiteFrame, binary: &str) -> bool {
        let file = if binary.is_empty() { &frame.file } else { binary };
        let is_it = |glob: &Glob| glob.matches(&frame.function) || glob.matches(&frame.module);
        let is_listed = |one: &ListedPattern| one.matches_file(file) || one.name.matches(&frame.function);
        self.named.iter().any(is_it) || self.listed.iter().any(is_listed)
    }

    /// The name of the library or function that is looked past, if the frame is of one. `binary` is
    /// the path of its binary, empty for a line of Python.
    pub fn name<'f>(&self, frame: &'f SiteFrame, binary: &'f str) -> Option<&'f str> {
        let file = if binary.is_empty() { &frame.file } else { binary };
        let library = if binary.is_empty() { package_of(file) } else { self.library(file) };
        if library.is_some() {
            return library;
        }
        let name = if frame.function.is_empty() { &frame.module } else { &frame.function };
        self.is_named(frame, binary).then_some(name)
    }
}

/// The user's patterns, one per line: of the file that `MPISEE_SKIP_FRAMES` names, else of
/// `mpisee/skip-frames` in the folder of the user's settings, where that is there.
fn read_patterns() -> Result<String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let (path, is_named) = match std::env::var_os(SKIP_FRAMES) {
        Some(path) if path.is_empty() => return Ok(String::new()),
        Some(path) => (PathBuf::from(path), true),
        None => {
            let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
            let Some(folder) = folder else { return Ok(String::new()) };
            (folder.join("mpisee/skip-frames"), false)
        }
    };
    match std::fs::read(&path) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            check_patterns(&text).with_context(|| format!("'{}' cannot be used", path.display()))?;
            Ok(text)
        }
        Err(_) if !is_named && !path.exists() => Ok(String::new()),
        Err(error) => Err(error).with_context(|| match is_named {
            true => format!("'{}', which {SKIP_FRAMES} names, cannot be read", path.display()),
            false => format!("'{}', the list of frames to skip, cannot be read", path.display()),
        }),
    }
}

/// Checks that the lines of the user's file are patterns.
///
/// # Errors
/// Of a line that no name matches, or all do.
fn check_patterns(listed: &str) -> Result<()> {
    for (number, line) in (1..).zip(listed.lines()) {
        let pattern = line.trim();
        let is_wild = |text: &str| text.contains('*') && text.trim_matches(['*', '?', '/']).is_empty();
        let why = match pattern {
            _ if pattern.is_empty() || pattern.starts_with('#') => continue,
            _ if pattern.contains(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER) => {
                "is no text"
            }
            _ if pattern.ends_with('/') => "matches no file, as it ends in a slash; put * after that",
            _ if is_wild(pattern) => "matches all names",
            _ if pattern.contains(" #") => "has a comment after the pattern; put that on a line of its own",
            _ => continue,
        };
        bail!("its line {number}, '{}', {why}", pattern.escape_debug());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_sense_are_refused() {
        for (line, why) in [
            ("*", "its line 3, '*', matches all names"),
            ("**?*", "its line 3, '**?*', matches all names"),
            ("/*", "its line 3, '/*', matches all names"),
            (
                "site-packages/solver/",
                "its line 3, 'site-packages/solver/', matches no file, as it ends in a slash",
            ),
            ("libcomm.so # ours", "its line 3, 'libcomm.so # ours', has a comment after the pattern"),
            ("\u{7f}ELF\u{2}", "its line 3, '\\u{7f}ELF\\u{2}', is no text"),
            ("caf\u{fffd}", "its line 3, 'caf\u{fffd}', is no text"),
        ] {
            let said = check_patterns(&format!("# Ours.\n\n  {line}  \nComm::*\n")).unwrap_err().to_string();
            assert!(said.starts_with(why), "{said}");
        }
        let good =
            "# *\n\nComm::*\r\n?\n*/solver/*\noperator new\nrun::{lambda()#1}::operator()\ngr\u{fc}n*\n";
        assert!(check_patterns(good).is_ok());
    }

    #[test]
    fn libraries_are_known_by_their_file_names() {
        let wrappers = Wrappers::new(&[], "");
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
            "/usr/lib/libpetsc_real.so.3.18",
            "/usr/lib/petsc/lib/python3/dist-packages/petsc4py/lib/PETSc.cpython-311-x86_64-linux-gnu.so",
            "/usr/lib/python3/dist-packages/h5py/_debian_h5py_mpi/defs.cpython-311-x86_64-linux-gnu.so",
            "/opt/openfoam/platforms/linux64/lib/sys-openmpi/libPstream.so",
            "/usr/lib/libsc-2.3.1.so",
            "/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so",
        ] {
            assert!(wrappers.is_library(library), "{library}");
        }
        for (extension, name) in [
            ("/v/lib/python3.12/site-packages/_gpaw.cpython-312-x86_64-linux-gnu.so", "_gpaw"),
            ("/home/me/solver/step.abi3.so", "step"),
            ("/v/lib/python3.12/site-packages/h5py/defs.cpython-312-x86_64-linux-gnu.so", "h5py"),
        ] {
            assert_eq!(wrappers.library(extension), Some(name));
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
            "/home/me/libscreen.so",
            "/home/me/gpaw/_gpaw.so",
            "/home/me/libcpython-solver.so",
            "/home/me/libabi3.so.1",
            "libmpich",
            "/usr/lib/libm.so.6",
            "",
        ] {
            assert!(!wrappers.is_library(own), "{own}");
        }
    }

    #[test]
    fn patterns_of_the_file_name_functions_files_and_folders() {
        let listed = "# The message layer.\nlibcomm*.so*\n\n  Comm::*  \nsite-packages/solver/*\n";
        let wrappers = Wrappers::new(&[], listed);
        assert!(wrappers.is_library("/home/me/libcomm.so.1"));
        assert!(wrappers.is_library("/v/lib/python3.11/site-packages/solver/step.so"));
        assert!(!wrappers.is_library("/v/lib/python3.11/site-packages/solvers/step.so"));
        assert!(!wrappers.is_library("/home/me/app"));
        let frame = |function: &str| SiteFrame { module: "app".into(), ..SiteFrame::of_name(function) };
        assert_eq!(wrappers.name(&frame("Comm::sum"), "/home/me/app"), Some("Comm::sum"));
        assert_eq!(wrappers.name(&frame("main"), "/home/me/app"), None);
        assert!(wrappers.is_named(&frame("Comm::sum"), "/home/me/app"), "paths leave it out");
        assert!(!wrappers.is_named(&frame("main"), "/home/me/app"));
        let file = "/v/lib/python3.11/site-packages/solver/step.py".to_owned();
        let line = SiteFrame { file, ..SiteFrame::of_name("step") };
        assert_eq!(wrappers.name(&line, ""), Some("step"));
    }
}
