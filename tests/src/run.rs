//! A program that runs under the profiler, and what it leaves.

use crate::command::run_within;
use crate::{Cluster, LIMIT, Mpi, Place, Tables, dist, place, root, through};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// Time after which a program that has another try is taken to hang.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// A program about to run under the profiler.
pub struct Run<'m> {
    mpi: &'m Mpi,
    program: PathBuf,
    ranks: u32,
    arguments: Vec<String>,
    options: Vec<String>,
    launcher_options: Vec<String>,
    variables: Vec<(String, String)>,
    cluster: Option<&'m Cluster>,
    exit_code: i32,
    limit: Duration,
    tries: u32,
}

impl<'m> Run<'m> {
    /// `tests/programs/NAME.c` on 4 ranks, expected to exit with 0 within four minutes.
    pub fn new(mpi: &'m Mpi, name: &str) -> Self {
        Self::from_program(mpi, mpi.compile(name))
    }

    /// Python with these arguments; one that ends in `.py` is in `tests/programs`.
    pub fn python(mpi: &'m Mpi, arguments: &[&str]) -> Self {
        let mut run = Self::from_program(mpi, mpi.python().to_owned()).options(&mpi.python_options());
        for argument in arguments {
            let script = root().join("tests/programs").join(argument);
            let is_script = argument.ends_with(".py");
            run = if is_script { run.argument(script.display()) } else { run.argument(argument) };
        }
        run
    }

    /// A program that is compiled already, else as [`Run::new`].
    pub fn from_program(mpi: &'m Mpi, program: PathBuf) -> Self {
        Run {
            mpi,
            program,
            ranks: 4,
            arguments: Vec::new(),
            options: Vec::new(),
            launcher_options: Vec::new(),
            variables: Vec::new(),
            cluster: None,
            exit_code: 0,
            limit: LIMIT,
            tries: 1,
        }
    }

    /// Runs again, so many times in all, where a run does not end: for an MPI that hangs now and
    /// then, also without the profiler.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Sets the number of ranks.
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// An argument of the program.
    pub fn argument(mut self, argument: impl ToString) -> Self {
        self.arguments.push(argument.to_string());
        self
    }

    /// Options of `mpisee`.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Options of `mpirun`.
    pub fn launched_with(mut self, options: &[&str]) -> Self {
        self.launcher_options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// A variable in the environment of every rank.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On these nodes, evenly. The folder in which it runs is the same on all.
    pub fn on(mut self, cluster: &'m Cluster) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// The exit code to expect of the program.
    pub fn exits_with(mut self, code: i32) -> Self {
        self.exit_code = code;
        self
    }

    fn launcher(&self) -> Command {
        let mut command = self.mpi.launcher(self.ranks, &self.variables);
        if let Some(cluster) = self.cluster {
            cluster.launch(self.mpi, &mut command, self.ranks / cluster.names().count() as u32);
        }
        command.args(&self.launcher_options);
        command
    }

    /// Runs it without the profiler. A program of others that does not end so is no fault of ours:
    /// it has a second try.
    pub fn plain(mut self) -> Finished {
        if !self.program.starts_with(dist()) {
            self.tries = self.tries.max(2);
        }
        let mut command = self.launcher();
        command.arg(&self.program).args(&self.arguments);
        self.finish(command, false)
    }

    /// Runs it under `mpisee`, and reads its profile.
    pub fn profiled(self) -> Finished {
        let command = self.below_mpisee();
        self.finish(command, true)
    }

    /// Runs it under `mpisee` with options by which the profile has sums over ranks.
    pub fn folded(self) -> Finished {
        let command = self.below_mpisee();
        self.finish(command, false)
    }

    fn below_mpisee(&self) -> Command {
        let mut command = self.launcher();
        command.arg(dist().join("bin/mpisee")).args(["--output", "test.mpisee"]).args(&self.options);
        command.arg(&self.program).args(&self.arguments);
        command
    }

    /// Runs it with the library preloaded by the launcher's own option, and reads its profile.
    pub fn preloaded(self) -> Finished {
        let mpi = self.mpi;
        self.preloaded_with(mpi)
    }

    /// Runs it with the library for another MPI preloaded, and reads its profile.
    pub fn preloaded_with(self, other: &Mpi) -> Finished {
        self.preload(other, true)
    }

    /// Runs it with the library for an MPI that it does not fit; there will be no profile.
    pub fn preloaded_in_vain(self, other: &Mpi) -> Finished {
        self.preload(other, false)
    }

    /// Runs it with the library preloaded; its profile goes to `output`.
    pub fn preloaded_to(mut self, output: &str) -> Finished {
        let mpi = self.mpi;
        self.variables.push(("MPISEE_OUTPUT".to_owned(), output.to_owned()));
        self.preload(mpi, false)
    }

    fn preload(mut self, other: &Mpi, profiled: bool) -> Finished {
        let library = other.library().display().to_string();
        self.variables.push(("LD_PRELOAD".to_owned(), library));
        if !self.variables.iter().any(|(name, _)| name == "MPISEE_OUTPUT") {
            self.variables.push(("MPISEE_OUTPUT".to_owned(), "test.mpisee".to_owned()));
        }
        let mut command = self.launcher();
        command.arg(&self.program).args(&self.arguments);
        self.finish(command, profiled)
    }

    fn finish(self, mut command: Command, profiled: bool) -> Finished {
        let in_launcher = self.variables.iter().any(|(name, _)| name == "LD_PRELOAD");
        let (place, output) = (1..)
            .find_map(|attempt| {
                let place = self.cluster.map_or_else(Place::new, Place::on);
                command.current_dir(place.folder());
                let mut entered = self.cluster.map(|cluster| cluster.on("login", &command));
                // A machine that is only slow has its whole time in the last try.
                let limit = if attempt == self.tries { self.limit } else { self.limit.min(HANGS_AFTER) };
                match run_within(limit, entered.as_mut().unwrap_or(&mut command)) {
                    // A rank's death is an exit code of the launcher. Open MPI's mpirun itself has
                    // died of a signal after a program without the profiler had written all that it
                    // writes.
                    Ok(output) if output.status.code().is_none() && attempt == 1 && !in_launcher => {
                        crate::note!("run again: the launcher itself was ended by {}", output.status);
                        None
                    }
                    Ok(output) if attempt < TRIES_WITH_FAULTS && misses_an_end(&output) => {
                        crate::note!("run again: Open MPI's launcher has missed the end of a rank");
                        None
                    }
                    Ok(output) if attempt < TRIES_WITH_FAULTS && loses_its_proxy(&output) => {
                        crate::note!("run again: MPICH's launcher has written to a proxy that ended");
                        None
                    }
                    Ok(output) if attempt < TRIES_WITH_FAULTS && self.did_not_meet(&output) => {
                        crate::note!("run again: MPICH's nodes did not meet");
                        None
                    }
                    Ok(output) => Some((place, output)),
                    Err(why) if attempt == self.tries => panic!("{why}"),
                    Err(why) => {
                        crate::note!("run again: {why}");
                        None
                    }
                }
            })
            .expect("it ended, or the last try has failed");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert_eq!(
            code,
            Some(self.exit_code),
            "{command:?}\n{}\nstdout:\n{stdout}\nstderr:\n{stderr}",
            output.status
        );
        let tables = profiled.then(|| Tables::read(&place.path("test.mpisee"), &stderr));
        Finished { place, stdout, stderr, tables }
    }

    /// Returns whether ranks on other nodes did not come to the profile's first meeting, an
    /// `MPI_Iallreduce`, in half a minute.
    ///
    /// MPICH over UCX 1.13 loses a connection between nodes in about one of 500 runs on a busy
    /// machine: each rank polls for the meeting's messages, and a socket has bytes that nobody
    /// reads.
    fn did_not_meet(&self, output: &Output) -> bool {
        let said = String::from_utf8_lossy(&output.stderr);
        self.cluster.is_some() && !self.mpi.is_open_mpi && said.contains(": not all ranks have come;")
    }
}

/// Runs that fail by a known fault of the MPI, before that is a failure.
const TRIES_WITH_FAULTS: u32 = 3;

/// The launcher of Open MPI 4 at times takes a rank that has called MPI_Finalize for one that has
/// not, and ends with exit code 1. It then has forgotten the process:
/// <https://github.com/open-mpi/ompi/issues/7833>.
fn misses_an_end(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.code() == Some(1)
        && said.contains(" with PID 0 on")
        && said.contains("exiting improperly. There are three reasons")
}

/// MPICH's launcher may write to the process that starts a rank when that has ended already, as
/// with a program that ends at once without MPI, and is ended by it.
fn loses_its_proxy(output: &Output) -> bool {
    output.status.signal() == Some(libc::SIGPIPE) && output.stdout.is_empty() && output.stderr.is_empty()
}

/// A program that has run.
pub struct Finished {
    /// The folder in which it ran.
    pub place: Place,
    /// Its standard output.
    pub stdout: String,
    /// Standard error of the program, the launcher and the profiler.
    pub stderr: String,
    tables: Option<Tables>,
}

impl Finished {
    /// The profile.
    pub fn tables(&self) -> &Tables {
        self.tables.as_ref().expect("it ran under the profiler")
    }

    /// The profile directory.
    pub fn directory(&self) -> PathBuf {
        self.place.path("test.mpisee")
    }

    /// Lines of the profiler and its launcher.
    pub fn said(&self) -> Vec<&str> {
        place::said(&self.stderr)
    }

    /// By how much the machine held the ranks up, as a part of the run: how much longer their work
    /// took than was meant, as programs with `work.h` print, and for how long they had no core, as
    /// the kernel says. Others may have waited so long for each.
    pub fn disturbance(&self) -> f64 {
        let ranks = &self.tables().ranks;
        let said = self.stdout.lines().filter_map(|line| line.strip_prefix("disturbed "));
        let longer_s: Vec<f64> = said.map(|text| text.parse().expect("seconds")).collect();
        assert_eq!(longer_s.len(), ranks.len(), "{}", self.stdout);
        let without_core_s = ranks.iter().filter_map(|row| row.cpu_wait_s).map(|time_s| time_s.0);
        let wall_s = ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
        (longer_s.iter().sum::<f64>() + without_core_s.sum::<f64>()) / wall_s
    }

    /// The part of the time of all ranks in which they waited for a core, as the kernel says.
    pub fn share_without_core(&self) -> f64 {
        let ranks = &self.tables().ranks;
        let waited_s = ranks.iter().filter_map(|row| row.cpu_wait_s).map(|time_s| time_s.0);
        waited_s.sum::<f64>() / ranks.iter().map(|row| row.wall_s.0).sum::<f64>()
    }

    /// Asserts that `mpisee-through check` finds nothing wrong with the profile.
    pub fn check(&self) -> &Self {
        let output = through(&["check", &self.directory().display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        self
    }
}
