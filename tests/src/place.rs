//! A folder to run a program in, with a folder for its segments, and the command that ran there.

use crate::signal::{self, SIGKILL, SIGTERM};
use crate::{Cluster, LIMIT, Mpi, Tables, dist, within};
use mpisee_collect::process;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The time for which a launcher may wait for ranks that are dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that contains an empty one for segments; removed with this.
pub struct Place(tempfile::TempDir);

impl Place {
    /// A new one in the folder for temporary files.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Place {
        Place::below(&std::env::temp_dir())
    }

    /// A new one that all nodes see.
    pub fn on(cluster: &Cluster) -> Place {
        Place::below(cluster.folder())
    }

    fn below(folder: &Path) -> Place {
        let place = Place(tempfile::tempdir_in(folder).expect("a temporary folder"));
        std::fs::create_dir(place.segments()).expect("it is empty");
        place
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Runs a command here, which must end within a minute.
    pub fn run(self, command: &mut Command) -> Ended {
        self.run_within(LIMIT, command)
    }

    /// Runs a command here.
    pub fn run_within(self, limit: Duration, command: &mut Command) -> Ended {
        let output = within(limit, command.current_dir(self.folder()).stdin(Stdio::null()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { place: self, code: output.status.code(), stdout: output.stdout, stderr }
    }

    /// Path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The folder for segments.
    pub fn segments(&self) -> PathBuf {
        self.path("segments")
    }

    /// The segments, in the order of their names.
    pub fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.segments()).expect("the folder is there");
        let mut left: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
        left.sort();
        left
    }

    /// `mpisee` on so many ranks, about to run here; what follows are its options and the program.
    pub fn command(&self, mpi: &Mpi, ranks: u32) -> Command {
        let mut command = mpi.launcher(ranks, &[]);
        command.arg(dist().join("bin/mpisee")).arg("--segments").arg(self.segments());
        command.current_dir(self.folder());
        command
    }

    /// Runs `mpisee-through` here, where it finds the segments.
    pub fn through(&self, arguments: &[&str]) -> Output {
        self.through_within(LIMIT, arguments)
    }

    /// The same, which ends within that time.
    pub fn through_within(&self, limit: Duration, arguments: &[&str]) -> Output {
        let mut command = Command::new(dist().join("bin/mpisee-through"));
        command.args(arguments).current_dir(self.folder()).env("MPISEE_SEGMENTS", self.segments());
        within(limit, command.stdin(Stdio::null()))
    }

    /// Recovers what is left, with success; what is said of it.
    pub fn recover(&self, arguments: &[&str]) -> String {
        let output = self.through(&[&["recover"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// The profile of that name.
    pub fn tables(&self, name: &str) -> Tables {
        Tables::read(&self.path(name), "")
    }

    /// Waits until all processes that left a segment are gone, those of certain segments aside: a
    /// launcher may be gone before its ranks are.
    pub fn wait_for_ranks(&self, aside: &[PathBuf]) {
        until("ranks end with their launcher", || {
            !self.left().iter().any(|path| !aside.contains(path) && runs(owner_of(path)))
        });
    }
}

/// A command that has ended.
pub struct Ended {
    /// The folder in which it ran.
    pub place: Place,
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Standard error of the program, the launcher and the profiler.
    pub stderr: String,
}

impl Ended {
    /// Runs a command in a new folder.
    pub fn run(command: &mut Command) -> Ended {
        Place::new().run(command)
    }

    /// Lines of the profiler and its launcher.
    pub fn said(&self) -> Vec<&str> {
        said(&self.stderr)
    }

    /// The names of the profiles in the folder, in order.
    pub fn profiles(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.place.folder()).expect("the folder is there");
        let names = entries.map(|entry| entry.expect("it can be listed").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let mut profiles: Vec<String> = names.filter(|name| name.ends_with(".mpisee")).collect();
        profiles.sort();
        profiles
    }

    /// The profile of that name.
    pub fn tables(&self, profile: &str) -> Tables {
        Tables::read(&self.place.path(profile), &self.stderr)
    }

    /// Its standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Asserts that the program ended well and printed this.
    #[track_caller]
    pub fn assert_printed(&self, stdout: &str) -> &Ended {
        assert_eq!((self.code, self.text().as_str()), (Some(0), stdout), "{}", self.stderr);
        self
    }
}

/// The lines of the profiler and its launcher on standard error.
pub fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("mpisee: ")).collect()
}

/// The process of which a segment is, by its name.
fn owner_of(segment: &Path) -> u32 {
    let name = segment.file_name().expect("a file has a name").to_string_lossy().into_owned();
    mpisee_profile::segment::owner_of(&name).expect("the name tells the process").1
}

/// Returns whether the process runs.
pub fn runs(pid: u32) -> bool {
    process::look_at(pid).is_some_and(|seen| !seen.ended)
}

/// Waits until something is so; fails if that takes too long.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does something up to three times, until it takes no longer than that; fails if each took longer.
/// A machine that others use may stall once; what waits when it should not does so each time.
#[track_caller]
pub fn soon<T>(limit: Duration, mut act: impl FnMut() -> (Duration, T)) -> T {
    let mut took = Vec::new();
    while took.len() < 3 {
        let (time, got) = act();
        if time <= limit {
            return got;
        }
        took.push(time);
    }
    panic!("it took {took:?} where {limit:?} was expected");
}

/// Does something, and returns how long that took, too.
pub fn timed<T>(act: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let got = act();
    (begin.elapsed(), got)
}

/// Waits until so many ranks have left a sign in the folder, as programs do that stay where they
/// are then.
#[track_caller]
pub fn until_arrived(folder: &Path, ranks: u32) {
    until("all ranks arrive", || (0..ranks).all(|rank| folder.join(format!("arrived.{rank}")).exists()));
}

/// The launcher of a run that does not end by itself; it is ended with this.
pub struct Staying(pub Child);

impl Staying {
    /// Starts one that says nothing.
    pub fn start(command: &mut Command) -> Staying {
        Staying(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }

    /// Sends a signal, by which it ends. Open MPI's launcher is killed if it does not: it may wait
    /// for dead ranks for ever.
    #[track_caller]
    pub fn end(&mut self, signal: c_int) {
        signal::send(signal, self.0.id());
        let begin = Instant::now();
        while self.0.try_wait().is_ok_and(|status| status.is_none()) {
            if begin.elapsed() > PATIENCE {
                let name = std::fs::read_to_string(format!("/proc/{}/comm", self.0.id())).unwrap_or_default();
                signal::send(SIGKILL, self.0.id());
                assert!(std::thread::panicking() || name.starts_with("mpirun"), "{name} does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            self.end(SIGTERM);
        }
    }
}
