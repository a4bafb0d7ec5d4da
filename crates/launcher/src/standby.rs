//! Says at the end of the program why there is no profile, where no process with the profiler could
//! say so.
//!
//! A wrapper may unset or replace LD_PRELOAD, and a shell may end without its exit handlers. So the
//! launcher leaves a process that waits until recording begins, and ends then, or until the program
//! ends. It belongs to nobody: it is no child of the program, nor of its session, and of the
//! program's descriptors it has stderr alone, as long as the program has. Where it cannot know
//! whether there is a profile it is silent.

use crate::descendants::{self, Lacking, Lookout, Seen, WithoutProfiler};
use crate::failure;
use mpisee_collect::process::{self, begin_socket};
use mpisee_profile::options::BEGIN_SOCKET;
use std::ffi::{OsString, c_int};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

/// The first pause before a look at the program's processes; each is twice as long as the one
/// before.
const FIRST_PAUSE_MS: i32 = 20;
/// The longest pause. Who reads the stderr of a program that closes it waits for its end twice as
/// long at most.
const LONGEST_PAUSE_MS: i32 = 500;

/// A standby that waits.
pub struct Standby {
    /// The name of the socket at which it hears that recording begins.
    pub socket: String,
}

/// The program that is started, as the user knows it.
pub struct Started {
    /// Its name as given.
    pub name: OsString,
    /// True if it is linked with MPI, so that it is the program that is meant.
    pub needs_mpi: bool,
    /// True if a launcher started it as a rank.
    pub is_rank: bool,
    /// The sockets of the standbys of launchers around this one.
    pub outer: Option<OsString>,
}

impl Standby {
    /// Leaves a standby for this process, which is about to become the program.
    pub fn leave(program: &Started) -> io::Result<Standby> {
        if adopts_orphans() || descendants::first_keeps_zombies() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (name, socket) = begin_socket::bind()?;
        let pid = std::process::id();
        let start = process::look_at(pid).map_or(0, |seen| seen.start);
        let end = descriptor_of(pid);
        // SAFETY: this process has no other thread, so that the child may do what it likes.
        match unsafe { libc::fork() } {
            0 => {
                detach();
                keep_only(&[Some(socket.as_raw_fd()), end.as_ref().map(AsRawFd::as_raw_fd)]);
                wait(&Waiting { socket, name, end, pid, start }, program);
                // SAFETY: ends the process without the handlers of the one that it was copied from.
                unsafe { libc::_exit(0) }
            }
            between if between > 0 => {
                // SAFETY: the child that was just made ends at once.
                unsafe { libc::waitpid(between, std::ptr::null_mut(), 0) };
                Ok(Standby { socket: name })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Lets the standby end: another one says what there is to say.
    pub fn dismiss(&self) {
        begin_socket::notify(self.socket.as_ref());
    }
}

/// Returns whether a process that lost its parent would be a child of the program, which may wait
/// for all of its children.
fn adopts_orphans() -> bool {
    let mut is_reaper: c_int = 0;
    // SAFETY: the call writes to the number.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_reaper) };
    is_reaper != 0 || std::process::id() == 1
}

/// Makes of a child a process of its own session, whose parent has ended.
fn detach() {
    // SAFETY: system calls without memory of ours; the process between ends without the handlers of
    // the one that it was copied from.
    unsafe {
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        libc::chdir(c"/".as_ptr());
    }
}

/// Closes all descriptors but these and stderr: a launcher waits for the end of pipes.
fn keep_only(kept: &[Option<RawFd>]) {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open: Vec<RawFd> = numbers.collect();
    for fd in open.into_iter().filter(|&fd| fd != libc::STDERR_FILENO && !kept.contains(&Some(fd))) {
        // SAFETY: this process uses none of them any more.
        unsafe { libc::close(fd) };
    }
}

/// A descriptor that can be read when the process has ended; `None` with a kernel before 5.3.
fn descriptor_of(pid: u32) -> Option<OwnedFd> {
    // SAFETY: the call takes numbers alone, and what it returns belongs to nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        RawFd::try_from(fd).ok().filter(|&fd| fd >= 0).map(|fd| OwnedFd::from_raw_fd(fd))
    }
}

/// The events that a standby waits for.
struct Waiting {
    socket: UnixDatagram,
    /// The socket's name, which is in the environment of what the program started.
    name: String,
    end: Option<OwnedFd>,
    pid: u32,
    start: u64,
}

impl Waiting {
    /// Waits for so long, or until something happens.
    fn pause(&self, pause_ms: i32) {
        let end = self.end.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut polled =
            [self.socket.as_raw_fd(), end].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: there are two structures; a negative descriptor is ignored.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, pause_ms) };
    }

    fn is_over(&self) -> bool {
        !process::runs(self.pid, self.start)
    }
}

/// Waits until recording begins, and then is silent, or until the program ends.
fn wait(waiting: &Waiting, program: &Started) {
    let mut pause_ms = FIRST_PAUSE_MS;
    let mut seen = Seen::Nothing;
    let mut lookout = Lookout::default();
    loop {
        waiting.pause(pause_ms);
        let is_over = waiting.is_over();
        // Those that are left may begin to record, or be the standby of another launcher, which
        // speaks before it ends.
        let is_last = is_over && !descendants::is_known_to_any(BEGIN_SOCKET, &waiting.name);
        if begin_socket::is_notified(&waiting.socket) {
            return;
        }
        if is_over {
            if is_last {
                say_why(program, &seen);
            }
            return;
        }
        if !descendants::has_stderr_of_this(waiting.pid) && !waiting.is_over() {
            // Programs of coreutils close it in an exit handler.
            waiting.pause(LONGEST_PAUSE_MS);
            match waiting.is_over() {
                true => continue,
                false => return,
            }
        }
        let is_certain = match &seen {
            Seen::WithoutProfiler(found) => found.has_mpi,
            Seen::Apart => true,
            Seen::Profiled | Seen::Nothing => false,
        };
        if !is_certain {
            seen = lookout.look_below(waiting.pid).unwrap_or(seen);
        }
        pause_ms = pause_ms.saturating_mul(2).min(LONGEST_PAUSE_MS);
    }
}

/// Says why there is no profile, as far as that is certain.
fn say_why(program: &Started, seen: &Seen) {
    let seen = match seen {
        Seen::Apart => return,
        // It has recorded perhaps, and could not say so.
        Seen::Profiled if !program.needs_mpi => return,
        Seen::Profiled | Seen::Nothing => None,
        Seen::WithoutProfiler(found) => Some(found),
    };
    failure::say(&Message { program, seen });
    program.outer.iter().for_each(|outer| begin_socket::notify(outer));
}

/// Why there is no profile, and what to do.
struct Message<'a> {
    program: &'a Started,
    seen: Option<&'a WithoutProfiler>,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let program = self.program.name.display();
        // Of other ranks it knows nothing.
        let begin = match self.program.is_rank {
            true => "rank 0 is in no profile",
            false => "no profile was written",
        };
        let Some(WithoutProfiler { name, lacking, has_mpi }) = self.seen else {
            return match self.program.needs_mpi {
                true => write!(f, "{begin}: {program} ended before MPI_Init was done"),
                false => write!(
                    f,
                    "{begin}: nothing that {program} ran called MPI_Init with the profiler loaded; if an MPI program ran, put \
                     `mpisee` directly before it"
                ),
            };
        };
        let name = name.display();
        let before = "put `mpisee` directly before the program";
        let (why, help) = match lacking {
            Lacking::Unset => (format!("{program} started {name} without LD_PRELOAD"), before),
            Lacking::Replaced => (format!("{program} started {name} with another LD_PRELOAD"), before),
            Lacking::Ignored => (
                format!(
                    "the system ignored LD_PRELOAD for {name}, as it does for programs with set-user-ID or file capabilities"
                ),
                "use a copy without them",
            ),
            Lacking::Static => {
                (format!("{program} started {name}, which is linked statically"), "link it dynamically")
            }
            Lacking::StaticMpi => (
                format!("{name} is linked with a static MPI, whose calls do not reach the profiler"),
                "link MPI dynamically",
            ),
            Lacking::OtherUser => (format!("{program} started {name} as another user"), before),
            Lacking::Unknown => {
                (format!("{program} started {name} with a LD_PRELOAD that cannot be read"), before)
            }
        };
        match has_mpi {
            true if *lacking == Lacking::StaticMpi => write!(f, "{begin}: {why}; {help}"),
            true => write!(f, "{begin}: {why}, so {name} had no profiler; {help}"),
            false => write!(f, "{begin}: {why}; if {name} is the MPI program, {help}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_the_program_that_had_no_profiler_and_why() {
        let script = Started { name: "./wrapper.sh".into(), needs_mpi: false, is_rank: false, outer: None };
        let said = |program: &Started, lacking: Option<Lacking>| {
            let seen = lacking.map(|lacking| WithoutProfiler {
                name: "./app".into(),
                lacking,
                has_mpi: lacking != Lacking::OtherUser,
            });
            Message { program, seen: seen.as_ref() }.to_string()
        };
        let unset = said(&script, Some(Lacking::Unset));
        assert_eq!(
            unset,
            "no profile was written: ./wrapper.sh started ./app without LD_PRELOAD, so ./app had no profiler; put `mpisee` \
             directly before the program"
        );
        assert!(said(&script, Some(Lacking::Replaced)).contains("started ./app with another LD_PRELOAD"));
        assert!(said(&script, Some(Lacking::Ignored)).ends_with("use a copy without them"));
        let with_mpi = said(&script, Some(Lacking::StaticMpi));
        assert!(
            with_mpi.ends_with(": ./app is linked with a static MPI, whose calls do not reach the profiler; link MPI dynamically"),
            "{with_mpi}"
        );
        let linked = said(&script, Some(Lacking::Static));
        assert!(
            linked.contains("./wrapper.sh started ./app, which is linked statically, so ./app had no"),
            "{linked}"
        );
        assert!(
            said(&script, Some(Lacking::OtherUser)).contains("as another user; if ./app is the MPI program")
        );
        assert!(said(&script, None).contains("nothing that ./wrapper.sh ran called MPI_Init"));
        let app = Started { name: "./app".into(), needs_mpi: true, is_rank: true, outer: None };
        assert_eq!(said(&app, None), "rank 0 is in no profile: ./app ended before MPI_Init was done");
    }
}
