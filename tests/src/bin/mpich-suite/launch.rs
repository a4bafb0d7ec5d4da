//! One run of a test: in a scratch directory, within a time limit, with nothing left behind.

use crate::build::Suite;
use crate::list::{Success, Test};
use mpisee_tests::{Mpi, signal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The variable by which the processes of a run are found, wherever their launcher has put them.
const MARK: &str = "MPICH_SUITE_RUN";

/// Processes that Open MPI may start, spawned ones included.
const SLOTS: u32 = 128;

/// The time that a launcher has to end its ranks.
const GRACE: Duration = Duration::from_secs(3);

/// Settings of all runs.
pub struct Setting<'m> {
    /// The MPI.
    pub mpi: &'m Mpi,
    /// Its build of the suite.
    pub suite: Suite,
    /// The installation of the profiler.
    pub installation: PathBuf,
    /// The pauses to preload.
    pub pause: Option<PathBuf>,
    /// The time limit, where the suite has no longer one.
    pub limit: Duration,
    /// The folder for the stacks of processes that do not end.
    pub stacks: PathBuf,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The launcher's exit code; `None`: the run did not end within the limit.
    pub code: Option<i32>,
    /// True if the outcome is the one that the suite expects.
    pub success: bool,
    /// Output of the program and the launcher.
    pub printed: Vec<String>,
    /// Output of the profiler.
    pub said: Vec<String>,
    /// The time that it took.
    pub took: Duration,
    /// The verdict on the profile.
    pub check: Check,
}

/// Profiles of a run.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// The number of profiles.
    pub profiles: usize,
    /// Errors that `mpisee-through check` found, and segments that were left behind.
    pub wrong: Vec<String>,
    /// Calls that the profiler did not see, by reason.
    pub not_seen: BTreeMap<String, u64>,
}

impl Outcome {
    /// Returns whether the two ended in the same way. Of ranks that exit with different codes, as
    /// the suite expects of some tests, the launcher passes on one; but not a signal's.
    pub fn is_like(&self, other: &Outcome) -> bool {
        let is_exit = |outcome: &Outcome| outcome.success && outcome.code.is_some_and(|code| code < 128);
        self.code == other.code && self.success == other.success || is_exit(self) && is_exit(other)
    }

    /// The outcome for the results.
    pub fn json(&self) -> Value {
        json!({
            "code": self.code,
            "success": self.success,
            "seconds": (self.took.as_secs_f64() * 100.0).round() / 100.0,
            "printed": if self.success { &[] } else { &self.printed[..self.printed.len().min(40)] },
            "said": self.said,
        })
    }
}

impl Setting<'_> {
    /// Runs a test without the profiler.
    pub fn plain(&self, test: &Test) -> Outcome {
        self.run(test, false, self.limit_of(test))
    }

    /// Runs a test with the profiler; `plain` is how long it took without.
    pub fn profiled(&self, test: &Test, plain: Duration) -> Outcome {
        self.run(test, true, self.limit_of(test).min(plain * 10 + Duration::from_secs(40)))
    }

    fn limit_of(&self, test: &Test) -> Duration {
        self.limit.max(Duration::from_secs(test.limit_s.unwrap_or_default()))
    }

    fn run(&self, test: &Test, profiled: bool, limit: Duration) -> Outcome {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let segments = tempfile::tempdir_in("/dev/shm").expect("a temporary folder in memory");
        self.link_programs(test, scratch.path());
        let mut command = self.command(test, profiled, &segments);
        // Open MPI's launchers that run at once get in each other's way where they share this
        // folder.
        command.env("OMPI_MCA_orte_tmpdir_base", scratch.path());
        command.current_dir(scratch.path());
        command.env(MARK, scratch.path());
        let printed = scratch.path().join("printed-by-all");
        let file = File::create(&printed).expect("a temporary folder can be written");
        command.stdout(file.try_clone().expect("a file has more than one handle")).stderr(file);
        let begin = Instant::now();
        let code = self.wait(&mut command, test, scratch.path(), limit);
        let took = begin.elapsed();
        let text = std::fs::read(&printed).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let (said, printed): (Vec<String>, Vec<String>) = text
            .lines()
            .map(str::to_owned)
            .filter(|line| !line.trim().is_empty())
            .partition(|line| line.starts_with("mpisee"));
        let success = code.is_some_and(|code| is_success(test.success, code, &printed));
        let check = if profiled { self.check(scratch.path(), &segments) } else { Check::default() };
        Outcome { code, success, printed, said, took, check }
    }

    /// Programs start others of their directory by name, and write files where they run.
    fn link_programs(&self, test: &Test, scratch: &Path) {
        for folder in [self.suite.folder(test), self.suite.source_folder(test)] {
            for entry in std::fs::read_dir(folder).expect("the test's folder is there").flatten() {
                let name = entry.file_name();
                let is_source = Path::new(&name).extension().is_some_and(|ending| ending != "txt");
                if entry.path().is_file() && !is_source && name != "printed-by-all" {
                    let _ = std::os::unix::fs::symlink(entry.path(), scratch.join(name));
                }
            }
        }
    }

    fn command(&self, test: &Test, profiled: bool, segments: &TempDir) -> Command {
        let preload = self.pause.iter().map(|pause| ("LD_PRELOAD".to_owned(), pause.display().to_string()));
        let mut command = self.mpi.launcher(test.ranks, &preload.collect::<Vec<_>>());
        if self.mpi.is_open_mpi {
            // Where spawned processes have no slots left, Open MPI 4.1 waits for ever in
            // MPI_Finalize.
            command.args(["--host", &format!("localhost:{SLOTS}"), "--bind-to", "none"]);
        }
        command.args(&test.launcher_options);
        // One-sided communication over UCX fails on communicators other than MPI_COMM_WORLD.
        command.env("OMPI_MCA_osc", "^ucx");
        command.envs(test.variables.iter().cloned());
        if let (Some(limit_s), true) = (test.limit_s, test.success != Success::NoErrors) {
            command.env("MPIEXEC_TIMEOUT", limit_s.to_string());
        }
        if profiled {
            command.env("MPISEE_SEGMENTS", segments.path());
            command.arg(self.installation.join("bin/mpisee")).args(["--output", "suite.mpisee"]);
        }
        command.arg(format!("./{}", test.program)).args(&test.arguments);
        command
    }

    /// The exit code; 128 and the signal's number, where one ended the launcher.
    fn wait(&self, command: &mut Command, test: &Test, scratch: &Path, limit: Duration) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let mut child = command.stdin(Stdio::null()).process_group(0).spawn().expect("the launcher starts");
        let begin = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().expect("it is our child") {
                break status.code().or(status.signal().map(|signal| 128 + signal));
            }
            let elapsed = begin.elapsed();
            if elapsed > limit * 2 || (elapsed > limit && is_late(scratch, elapsed, limit)) {
                break None;
            }
            std::thread::sleep(Duration::from_millis(if elapsed > limit { 1000 } else { 10 }));
        };
        if ended.is_none() {
            self.keep_stacks(test, scratch);
            signal::send(signal::SIGTERM, child.id());
            let begin = Instant::now();
            while begin.elapsed() < GRACE && child.try_wait().expect("it is our child").is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
            // Not reaped yet, so that the number is no other group's.
            if child.try_wait().expect("it is our child").is_none() {
                signal::send_to_group(signal::SIGKILL, child.id());
                let _ = child.wait();
            }
        }
        for process in marked(scratch) {
            signal::send(signal::SIGKILL, process);
        }
        ended
    }

    /// Writes down where the ranks are, if there is a debugger.
    fn keep_stacks(&self, test: &Test, scratch: &Path) {
        let mut stacks = format!("{}\n", test.name());
        for process in marked(scratch) {
            let mut gdb = Command::new("timeout");
            gdb.args(["20", "gdb", "--batch", "-nx", "-ex", "thread apply all backtrace 30", "-p"]);
            if let Ok(output) = gdb.arg(process.to_string()).stdin(Stdio::null()).output() {
                stacks += &format!("\n--- {process}\n{}", String::from_utf8_lossy(&output.stdout));
            }
        }
        let _ = std::fs::create_dir_all(&self.stacks);
        let file = format!("{}.{}.txt", test.name().replace(['/', ' '], "_"), std::process::id());
        let _ = std::fs::write(self.stacks.join(file), stacks);
    }

    /// Checks each profile, of which processes that the program spawns have their own.
    fn check(&self, scratch: &Path, segments: &TempDir) -> Check {
        let mut check = Check::default();
        let entries = std::fs::read_dir(scratch).expect("the temporary folder is there").flatten();
        for profile in entries.map(|entry| entry.path()).filter(|path| path.join("run.json").is_file()) {
            check.profiles += 1;
            let mut through = Command::new(self.installation.join("bin/mpisee-through"));
            let output = through.arg("check").arg(&profile).output().expect("mpisee-through starts");
            if !output.status.success() {
                check.wrong.extend(lines(&output.stdout));
                check.wrong.extend(lines(&output.stderr));
            }
            let run = std::fs::read(profile.join("run.json")).unwrap_or_default();
            let run: Value = serde_json::from_slice(&run).unwrap_or_default();
            for (reason, calls) in run["not_seen"].as_object().into_iter().flatten() {
                *check.not_seen.entry(reason.clone()).or_default() += calls.as_u64().unwrap_or_default();
            }
        }
        let left = std::fs::read_dir(segments.path()).into_iter().flatten().flatten();
        check.wrong.extend(left.map(|entry| format!("left behind: {}", entry.file_name().to_string_lossy())));
        check
    }
}

/// The suite's judgement of a run.
fn is_success(success: Success, code: i32, printed: &[String]) -> bool {
    let is_no_errors = |line: &String| line.trim().eq_ignore_ascii_case("no errors");
    let is_expected =
        |line: &String| is_no_errors(line) || ["Test Passed", "FORTRAN STOP"].contains(&line.trim());
    match success {
        Success::NoErrors => code == 0 && printed.iter().any(is_no_errors) && printed.iter().all(is_expected),
        Success::Failure => code != 0,
        Success::FailureNoErrors => code != 0 && printed.iter().any(is_no_errors),
    }
}

/// The processes that a run has started and that are still there.
fn marked(scratch: &Path) -> Vec<u32> {
    let mark = format!("{MARK}={}", scratch.display());
    let processes = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process: &u32| {
            let variables = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            variables.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .collect()
}

/// Returns whether a run takes longer than it may even without the time for which a process of it
/// waited for a core that others had. A run whose processes have just ended is not late.
fn is_late(scratch: &Path, elapsed: Duration, limit: Duration) -> bool {
    let waited = marked(scratch).into_iter().filter_map(|process| {
        let times = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
        times.split_whitespace().nth(1)?.parse().ok()
    });
    waited.max().is_some_and(|waited_ns| elapsed > limit + Duration::from_nanos(waited_ns))
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}
