//! Signals. `kill` is a program of its own, which not every machine has.

pub use libc::{SIGKILL, SIGTERM};
use std::ffi::c_int;

/// Sends a signal to a process, if it is still there.
pub fn send(signal: c_int, process: u32) {
    kill(i32::try_from(process).expect("a process has such a number"), signal);
}

/// Sends a signal to all processes of a group.
pub fn send_to_group(signal: c_int, group: u32) {
    kill(-i32::try_from(group).expect("a group has such a number"), signal);
}

fn kill(whom: i32, signal: c_int) {
    // SAFETY: the call touches no memory. 0 and -1, which are many others', are no numbers of our
    // processes.
    unsafe { libc::kill(whom, signal) };
}
