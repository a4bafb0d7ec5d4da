//! `--watch`: starts `mpisee-through agent` once on each node.
//!
//! The agent belongs to nobody: it is no child of the program, which may wait for its children, nor
//! of its session, and has none of its descriptors, so that a launcher that waits for the end of
//! pipes does not wait for it.

use mpisee_profile::path_text::from_text;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts the agent for the job of this process, if no other process of the node has.
pub fn start(variables: &[(&'static str, String)]) -> Result<(), String> {
    let Some(first) = first_of_node().map_err(|error| error.to_string())? else { return Ok(()) };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let agent = own.with_file_name("mpisee-through");
    let mut command = Command::new(&agent);
    command
        .arg("agent")
        .arg(std::process::id().to_string())
        .args(["--held", &first.as_raw_fd().to_string()])
        .envs(variables.iter().map(|(name, value)| (name, from_text(value).into_os_string())))
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The agent gives it back when the job has ended, before it sends its last message.
    let detach = detacher(first.as_raw_fd());
    // SAFETY: the closure makes system calls only, and this process has no other thread.
    unsafe { command.pre_exec(detach) };
    let started = command.spawn().and_then(|mut between| between.wait());
    started.map(drop).map_err(|error| format!("cannot start '{}': {error}", agent.display()))
}

/// A socket in Linux's abstract name space, if this process is the first of its job on the node
/// that asks for it. The agent has it as long as it runs.
fn first_of_node() -> io::Result<Option<UnixDatagram>> {
    let user = std::fs::metadata("/proc/self")?.uid();
    let job = mpisee_collect::process::job_to_launch();
    let address = SocketAddr::from_abstract_name(format!("mpisee-watch-{user}-{job:x}"))?;
    match UnixDatagram::bind_addr(&address) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

/// A function that makes of a child a process of its own session, whose parent has ended, with the
/// descriptor `kept` and the first three.
fn detacher(kept: RawFd) -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
    let open = open_descriptors();
    move || {
        // SAFETY: all calls are async-signal-safe and take numbers; the parent between leaves
        // without running any code of others.
        unsafe {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::fork() {
                0 => {}
                between if between > 0 => libc::_exit(0),
                _ => return Err(io::Error::last_os_error()),
            }
            for &fd in &open {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            libc::fcntl(kept, libc::F_SETFD, 0);
        }
        Ok(())
    }
}

/// The descriptors from the fourth on.
fn open_descriptors() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&fd| fd > libc::STDERR_FILENO).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn open_descriptors_are_those_of_this_process() {
        let file = File::open("/dev/null").unwrap();
        assert!(open_descriptors().contains(&file.as_raw_fd()));
        assert!(open_descriptors().iter().all(|&fd| fd > 2));
    }
}
