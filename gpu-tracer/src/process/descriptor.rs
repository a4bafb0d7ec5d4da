//! Finds the exporter of the memory behind a file descriptor. The number of a descriptor differs
//! between processes, but the open file behind it is the same. An open file has an owner, the
//! process that gets signals about it, and a signal number, fcntl(2); without `O_ASYNC` no signal
//! is ever sent. So the exporter stores its process and the number of the allocation there, and the
//! importer reads them.

use mpisee_collect::process;
use mpisee_profile::gpu::{Descriptor, Handle};
use std::ffi::c_int;
use std::sync::OnceLock;

const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;
const F_OWNER_PID: c_int = 1;

/// `struct f_owner_ex`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    kind: c_int,
    pid: libc::pid_t,
}

/// Writes into an open file that this process exported it as that number. Not if the file has an
/// owner or a signal already: that is the program's.
pub fn mark(file: c_int, number: u64, bytes: u64) -> Option<Descriptor> {
    let own = Owner { kind: F_OWNER_PID, pid: libc::pid_t::try_from(std::process::id()).ok()? };
    let wanted = (own, 1 + (number % Descriptor::NUMBERS) as c_int);
    let before = (owner(file)?, signal(file)?);
    if before != wanted {
        if before.0.pid != 0 || before.1 != 0 || is_async(file) {
            return None;
        }
        // SAFETY: the command takes its number by value, and any value may be passed.
        if unsafe { libc::fcntl(file, F_SETSIG, wanted.1) } != 0 {
            return None;
        }
        // SAFETY: the owner is read.
        if unsafe { libc::fcntl(file, F_SETOWN_EX, &raw const own) } != 0 {
            // SAFETY: as with the number above.
            unsafe { libc::fcntl(file, F_SETSIG, 0) };
            return None;
        }
    }
    if (owner(file)?, signal(file)?) == wanted { descriptor(std::process::id(), number, bytes) } else { None }
}

/// The mark of [`mark`], written by this process or by another one of the same PID namespace.
pub fn read(file: c_int) -> Option<Handle> {
    let owner = owner(file)?;
    let number = u64::try_from(signal(file)?).ok()?.checked_sub(1)?;
    let pid = u32::try_from(owner.pid).ok().filter(|&pid| pid != 0 && owner.kind == F_OWNER_PID)?;
    descriptor(pid, number, 0).map(Handle::Descriptor)
}

/// None where boot ID or PID namespace cannot be read, which identify this system and its
/// processes.
fn descriptor(pid: u32, number: u64, bytes: u64) -> Option<Descriptor> {
    static PLACE: OnceLock<(u64, u64)> = OnceLock::new();
    let &(boot, namespace) = PLACE.get_or_init(|| (process::boot(), process::namespace()));
    (boot != 0 && namespace != 0).then_some(Descriptor { boot, namespace, pid, number, bytes })
}

/// Process 0 is none, or none that can be seen from here.
fn owner(file: c_int) -> Option<Owner> {
    let mut owner = Owner::default();
    // SAFETY: the owner is written.
    (unsafe { libc::fcntl(file, F_GETOWN_EX, &raw mut owner) } == 0).then_some(owner)
}

fn signal(file: c_int) -> Option<c_int> {
    // SAFETY: fcntl(2) accepts any number for a file descriptor.
    let signal = unsafe { libc::fcntl(file, F_GETSIG) };
    (signal >= 0).then_some(signal)
}

fn is_async(file: c_int) -> bool {
    // SAFETY: fcntl(2) accepts any number for a file descriptor.
    let flags = unsafe { libc::fcntl(file, libc::F_GETFL) };
    flags < 0 || flags & libc::O_ASYNC != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn file() -> std::fs::File {
        tempfile::tempfile().unwrap()
    }

    #[test]
    fn mark_is_read_through_every_descriptor_of_the_file() {
        let file = file();
        assert_eq!(read(file.as_raw_fd()), None);
        let marked = mark(file.as_raw_fd(), 64 + 5, 4096).unwrap();
        assert_eq!((marked.pid, marked.number, marked.bytes), (std::process::id(), 69, 4096));
        assert!(marked.boot != 0 && marked.namespace != 0);
        let other = file.try_clone().unwrap();
        let Some(Handle::Descriptor(seen)) = read(other.as_raw_fd()) else { panic!("nothing is read") };
        assert_eq!(seen, Descriptor { number: 5, bytes: 0, ..marked.clone() });
        // Exported again, and as another number.
        assert_eq!(mark(file.as_raw_fd(), 64 + 5, 4096), Some(marked));
        assert_eq!(mark(file.as_raw_fd(), 6, 4096), None);
    }

    #[test]
    fn owner_and_signal_set_by_the_program_stay() {
        let own = libc::pid_t::try_from(std::process::id()).unwrap();
        let set = |command: c_int, value: c_int| {
            let file = file();
            // SAFETY: these commands take a number.
            assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), command, value) }, 0);
            assert_eq!(mark(file.as_raw_fd(), 3, 4096), None);
            (owner(file.as_raw_fd()).unwrap(), signal(file.as_raw_fd()).unwrap())
        };
        assert_eq!(set(libc::F_SETOWN, own), (Owner { kind: F_OWNER_PID, pid: own }, 0));
        assert_eq!(set(F_SETSIG, 34).1, 34);
        assert_eq!(mark(-1, 3, 4096), None);
        assert_eq!(read(-1), None);
    }

    /// A file that has another owner is nobody's export.
    #[test]
    fn a_group_of_processes_is_nobody() {
        let file = file();
        // SAFETY: these commands take a number; a negative one is a group.
        unsafe {
            assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_SETOWN, -libc::getpgrp()), 0);
            assert_eq!(libc::fcntl(file.as_raw_fd(), F_SETSIG, 3), 0);
        }
        assert_eq!(read(file.as_raw_fd()), None);
    }
}
