//! The processes that a program has started: which of them uses MPI without the profiler.

use crate::flavours::LIBRARY;
use crate::program::is_loader;
use mpisee_collect::process::linked_mpi::{LinkedMpi, ProgramFile};
use mpisee_collect::process::mapped_files::{has_mpi, mapped_files};
use mpisee_collect::process::{self, begin_socket};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More processes than a job script has at once.
const MOST: usize = 256;

/// What is known of the processes that a program started.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// None was seen that has loaded an MPI.
    #[default]
    Nothing,
    /// One has loaded an MPI, and the profiler.
    Profiled,
    /// One is in a network of its own, from which nobody hears whether it records.
    Apart,
    WithoutProfiler(WithoutProfiler),
}

/// A process that has not loaded the profiler.
#[derive(Debug, PartialEq, Eq)]
pub struct WithoutProfiler {
    /// The first word of its command.
    pub name: OsString,
    /// The reason.
    pub lacking: Lacking,
    /// Whether it was seen that it has an MPI.
    pub has_mpi: bool,
}

/// Reasons for which a process has no profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// Its environment has no LD_PRELOAD.
    Unset,
    /// LD_PRELOAD does not name the profiler.
    Replaced,
    /// LD_PRELOAD names it, and the dynamic loader did not load it.
    Ignored,
    /// It has no dynamic loader.
    Static,
    /// It has an MPI in itself, whose functions it calls past the profiler.
    StaticMpi,
    /// It is of another user.
    OtherUser,
    /// Its environment cannot be read.
    Unknown,
}

/// The programs that were seen without an MPI's library, by device and inode: the symbols of each
/// are read once.
#[derive(Default)]
pub struct Lookout {
    programs: HashMap<[u64; 2], Option<(Lacking, LinkedMpi)>>,
}

impl Lookout {
    /// Looks at this process and those below it, up to the first of which it is known that it uses
    /// an MPI, or that nobody can know; else one of which that is not seen.
    pub fn look_below(&mut self, pid: u32) -> Option<Seen> {
        let mut processes = vec![pid];
        let mut next = 0;
        let mut unseen = None;
        while let Some(&process) = processes.get(next) {
            match self.look_at(process) {
                Some(Seen::WithoutProfiler(it)) if !it.has_mpi => {
                    unseen.get_or_insert(Seen::WithoutProfiler(it));
                }
                Some(found) => return Some(found),
                None => {}
            }
            processes.extend(children(process));
            processes.truncate(MOST);
            next += 1;
        }
        unseen
    }

    fn look_at(&mut self, pid: u32) -> Option<Seen> {
        let folder = folder_of(pid);
        if is_apart(&folder) {
            return Some(Seen::Apart);
        }
        let read = |name: &str| std::fs::read(folder.join(name));
        let command = read("cmdline").ok()?;
        let name = OsString::from_vec(command.split(|&byte| byte == 0).next()?.to_vec());
        let without =
            |lacking, has_mpi| Some(Seen::WithoutProfiler(WithoutProfiler { name, lacking, has_mpi }));
        match mapped_files(&folder) {
            Ok(files) if has_mpi(&files) => {
                if files.iter().any(|file| file.ends_with(LIBRARY)) {
                    return Some(Seen::Profiled);
                }
                let lacking =
                    read("environ").map_or(Lacking::Unknown, |environment| lacking_by(&environment));
                without(lacking, true)
            }
            Ok(_) => match self.linked_mpi(&folder.join("exe"))? {
                (lacking, LinkedMpi::Linked) => without(lacking, true),
                (Lacking::Static, LinkedMpi::Unknown) => without(Lacking::Static, false),
                _ => None,
            },
            // Its libraries cannot be seen: sudo has as much, and only a process without children
            // is of interest.
            Err(_) => {
                let lacking = lacking_by_user(&read("status").ok()?).filter(|_| children(pid).is_empty())?;
                without(lacking, false)
            }
        }
    }

    /// The MPI that the file of a program has in itself.
    fn linked_mpi(&mut self, program: &Path) -> Option<(Lacking, LinkedMpi)> {
        let file = File::open(program).ok()?;
        let metadata = file.metadata().ok()?;
        let look = || {
            // A program that a dynamic loader starts is seen once the loader has mapped it.
            let is_loader = is_loader(&std::fs::read_link(program).ok()?);
            let program = ProgramFile::read(file).filter(|_| !is_loader)?;
            let lacking = if program.has_loader { Lacking::StaticMpi } else { Lacking::Static };
            Some((lacking, program.linked_mpi()))
        };
        *self.programs.entry([metadata.dev(), metadata.ino()]).or_insert_with(look)
    }
}

/// Returns whether the first process of a container waits for none of the orphans that it adopts:
/// those of earlier launchers are there still, and would become more.
pub fn first_keeps_zombies() -> bool {
    /// The number of the system's own name space, whose first process waits for all.
    const OF_SYSTEM: u64 = 0xefff_fffc;
    /// More than end at once.
    const MOST: usize = 3;
    let is_of_launcher = |pid: &u32| {
        process::look_at(*pid).is_some_and(|seen| seen.ended)
            && std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_ascii() == b"mpisee")
    };
    process::namespace() != OF_SYSTEM
        && children(1).into_iter().filter(is_of_launcher).nth(MOST - 1).is_some()
}

/// The folder of a process in `/proc`, or that of its first thread that runs: the first thread of
/// all may have ended.
fn folder_of(pid: u32) -> PathBuf {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let has_ended = |folder: &Path| {
        std::fs::read_link(folder.join("exe")).is_err_and(|why| why.kind() == ErrorKind::NotFound)
    };
    if !has_ended(&process) {
        return process;
    }
    let threads = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    threads.map(|thread| thread.path()).find(|thread| !has_ended(thread)).unwrap_or(process)
}

/// The children of a process, as far as the kernel lists them.
fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns whether the process has the same stderr as this one, as far as that can be seen.
pub fn has_stderr_of_this(pid: u32) -> bool {
    let stderr_of = |process: &Path| std::fs::metadata(process.join("fd/2"));
    match (stderr_of(Path::new("/proc/self")), stderr_of(&folder_of(pid))) {
        (Ok(own), Ok(other)) => (own.dev(), own.ino()) == (other.dev(), other.ino()),
        (_, Err(why)) => why.kind() == ErrorKind::PermissionDenied,
        (Err(_), Ok(_)) => false,
    }
}

/// Open MPI 4's daemon for a process without a launcher: it inherits the process's environment,
/// ends soon after the process, and records nothing itself.
const DAEMON: &[u8] = b"orted";

/// Returns whether a process that may begin to record, or whose processes may, has the name of a
/// standby's socket in that variable of the environment with which it was started.
pub fn is_known_to_any(variable: &str, socket: &str) -> bool {
    let begin = format!("{variable}=").into_bytes();
    let is_known = |environment: Vec<u8>| {
        let values = environment.split(|&byte| byte == 0).filter_map(|it| it.strip_prefix(begin.as_slice()));
        values.into_iter().any(|value| begin_socket::is_among(socket, value))
    };
    let is_daemon =
        |folder: &Path| std::fs::read(folder.join("comm")).is_ok_and(|name| name.trim_ascii_end() == DAEMON);
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|process| process.path());
    let mut processes = processes
        .filter(|folder| std::fs::read(folder.join("environ")).is_ok_and(is_known) && !is_daemon(folder));
    processes.next().is_some()
}

/// Returns whether the process has a network of its own.
fn is_apart(process: &Path) -> bool {
    let network = |process: &Path| std::fs::read_link(process.join("ns/net")).ok();
    network(process).is_some_and(|it| Some(it) != network(Path::new("/proc/self")))
}

/// Why a process with that environment has no profiler.
fn lacking_by(environment: &[u8]) -> Lacking {
    let mut variables = environment.split(|&byte| byte == 0);
    let Some(preload) = variables.find_map(|variable| variable.strip_prefix(b"LD_PRELOAD=")) else {
        return Lacking::Unset;
    };
    match preload.windows(LIBRARY.len()).any(|part| part == LIBRARY.as_bytes()) {
        true => Lacking::Ignored,
        false if preload.is_empty() => Lacking::Unset,
        false => Lacking::Replaced,
    }
}

/// Why a process that may not be looked at has no profiler, by its `/proc/PID/status`. Nothing is
/// known of one with our user: a program may forbid to look at it.
fn lacking_by_user(status: &[u8]) -> Option<Lacking> {
    let user = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let user = String::from_utf8_lossy(user);
    let mut ids = user.split_whitespace().map(|id| id.parse::<u32>());
    let (real, effective) = (ids.next()?.ok()?, ids.next()?.ok()?);
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::getuid() };
    match (real == own, effective == own) {
        (true, true) => None,
        (true, false) => Some(Lacking::Ignored),
        (false, _) => Some(Lacking::OtherUser),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn the_environment_shows_why_the_profiler_is_not_loaded() {
        assert_eq!(lacking_by(b"A=1\0LD_PRELOADED=x\0"), Lacking::Unset);
        assert_eq!(lacking_by(b"LD_PRELOAD=\0A=1\0"), Lacking::Unset);
        assert_eq!(lacking_by(b"A=1\0LD_PRELOAD=/l/libm.so.6\0"), Lacking::Replaced);
        assert_eq!(lacking_by(b"LD_PRELOAD=/x/libmpisee.so:/l/libm.so.6\0"), Lacking::Ignored);
    }

    #[test]
    fn the_users_of_a_process_show_whether_the_preload_was_ignored() {
        // SAFETY: the call takes nothing and cannot fail.
        let own = unsafe { libc::getuid() };
        let other = own + 1;
        let lacking = |real: u32, effective: u32| {
            lacking_by_user(format!("Name:\tapp\nUid:\t{real}\t{effective}\t7\t7\nGid:\t8\n").as_bytes())
        };
        assert_eq!(lacking(own, own), None);
        assert_eq!(lacking(own, other), Some(Lacking::Ignored));
        assert_eq!(lacking(other, other), Some(Lacking::OtherUser));
        assert_eq!(lacking_by_user(b"Name:\tapp\n"), None);
    }

    #[test]
    fn a_process_that_uses_no_mpi_lacks_nothing() {
        assert_eq!(Lookout::default().look_below(std::process::id()), None);
    }

    #[test]
    fn a_process_that_has_another_stderr_is_told_apart() {
        assert!(has_stderr_of_this(std::process::id()));
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let has_same = has_stderr_of_this(other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!has_same);
    }

    #[test]
    fn a_process_that_was_started_with_a_variable_is_found() {
        let value = format!("of-{}", std::process::id());
        assert!(!is_known_to_any("MPISEE_TEST", &value));
        let mut command = std::process::Command::new("cat");
        let piped = std::process::Stdio::piped;
        let mut other = command.env("MPISEE_TEST", &value).stdin(piped()).stdout(piped()).spawn().unwrap();
        // A process has no environment yet while its program is put in place. An answer comes
        // after.
        other.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let is_found = is_known_to_any("MPISEE_TEST", &value);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_found);
    }

    #[test]
    fn children_of_this_process_are_listed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let listed = children(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        // A kernel may be built without these lists.
        let has_lists =
            std::path::Path::new("/proc/self/task").join(std::process::id().to_string()).join("children");
        assert_eq!(listed.contains(&child.id()), has_lists.exists());
    }
}
