//! Commands with a time limit, and the processor time that they took.

use crate::{dist, signal};
use std::cell::Cell;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time after which a command is taken to hang. It is far longer than a command takes on a busy
/// machine.
pub const LIMIT: Duration = Duration::from_secs(600);

/// Runs `mpisee-through`.
pub fn through(arguments: &[&str]) -> Output {
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    command.args(arguments).stdin(Stdio::null());
    within(LIMIT, &mut command)
}

/// Runs a command; one that takes longer than `limit` is killed with all that it started, and fails
/// the test.
pub fn within(limit: Duration, command: &mut Command) -> Output {
    run_within(limit, command).unwrap_or_else(|why| panic!("{why}"))
}

/// Runs a command, and returns an error if it takes longer than `limit`.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it, which tells its processor time")]
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Result<Output, String> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().expect("it starts");
    let group = child.id();
    let stdout = read(child.stdout.take().expect("it is piped"));
    let stderr = read(child.stderr.take().expect("it is piped"));
    let begin = Instant::now();
    let mut status = None;
    let mut in_time = true;
    while status.is_none() || !(stdout.is_finished() && stderr.is_finished()) {
        status = status.or_else(|| ended(group));
        if in_time && begin.elapsed() > limit {
            in_time = false;
            signal::send_to_group(signal::SIGKILL, group);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = |reader: JoinHandle<Vec<u8>>| reader.join().expect("the thread only reads");
    let output = Output { status: status.expect("it has ended"), stdout: text(stdout), stderr: text(stderr) };
    if in_time {
        return Ok(output);
    }
    Err(format!(
        "{command:?} did not end within {limit:?}\nstdout:\n{}\nstderr:\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).expect("a pipe can be read");
        text
    })
}

thread_local! {
    /// Processor time of the commands that this thread has waited for.
    static OF_COMMANDS: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The status of a child that has ended; its processor time, and that of the processes for which it
/// waited, is added to this thread's.
fn ended(child: u32) -> Option<ExitStatus> {
    let pid = i32::try_from(child).expect("a process has such a number");
    let mut status = 0;
    // SAFETY: rusage is a structure of numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the types that wait4 writes.
    let got = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) };
    assert!(got == 0 || got == pid, "waiting for {pid}: {}", std::io::Error::last_os_error());
    (got == pid).then(|| {
        OF_COMMANDS.set(OF_COMMANDS.get() + processor_time_in(&usage));
        ExitStatus::from_raw(status)
    })
}

/// Processor time of this thread and of the commands that it has waited for.
pub(crate) fn processor_time() -> Duration {
    // SAFETY: rusage is a structure of numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live variable of the type that getrusage writes.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    OF_COMMANDS.get() + processor_time_in(&usage)
}

fn processor_time_in(usage: &libc::rusage) -> Duration {
    let part =
        |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
    part(usage.ru_utime) + part(usage.ru_stime)
}
