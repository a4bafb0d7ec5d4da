//! The ranks write the tables together, by collective MPI-IO, each its own rows at their place in the files.
//!
//! Every failure is known to all ranks before the next collective call that one of them could leave out.

use super::channel::Channel;
use crate::generated::pmpi;
use crate::mpi::abi::{Errhandler, File, Info, Offset, Raw, STATUS_IGNORE, constant, is_fault_tolerant};
use crate::naming;
use crate::state::process::Process;
use mpisee_profile::files::{SHARED, Shared, TABLES};
use mpisee_profile::options::Collect;
use std::ffi::{CStr, CString, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why it failed, by what all ranks know of it: the largest of their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Failure {
    /// A file is shorter or longer than it should be.
    Length = 1,
    /// A write, or the end of it.
    Write,
    /// A file could not be opened.
    Open,
    /// Some rank does not see the directory, has too many rows, or has an MPI that cannot do it.
    NotReady,
    /// The ranks could not agree.
    Channel,
}

impl Failure {
    /// For `run.json`.
    pub fn sentence(self) -> &'static str {
        match self {
            Failure::Length => "MPI-IO left files of another length",
            Failure::Write => "MPI_File_write_at_all failed on some rank",
            Failure::Open => "MPI_File_open failed on some rank",
            Failure::NotReady => {
                "some rank does not see the profile directory, or MPI-IO cannot be used there"
            }
            Failure::Channel => "the ranks could not agree",
        }
    }

    fn of(number: Option<c_int>) -> Result<(), Failure> {
        match number {
            Some(0) => Ok(()),
            None => Err(Failure::Channel),
            Some(number) => {
                let all = [Failure::Length, Failure::Write, Failure::Open];
                Err(all.into_iter().find(|&why| why as c_int == number).unwrap_or(Failure::NotReady))
            }
        }
    }
}

/// Whether all ranks are to write, as rank 0 decides by the place and the bytes of each table's rows.
pub fn is_wanted(process: &Process, place: &Path, lengths: &[u64; TABLES]) -> bool {
    match process.options.collect {
        Collect::Tree => false,
        Collect::MpiIo => !is_fault_tolerant(),
        Collect::Auto => {
            let bytes = lengths.iter().fold(0u64, |sum, &length| sum.saturating_add(length));
            !is_fault_tolerant() && bytes >= WORTH_BYTES && file_system(place).is_some_and(is_parallel)
        }
    }
}

/// Bytes of rows from which all ranks write by themselves. For fewer the tree takes some seconds at most: a megabyte
/// in 16 ms, with 32 ranks on two cores (docs/cost.md). A parallel file system may take as long to open five files for
/// thousands of processes.
const WORTH_BYTES: u64 = 256 << 20;

const LUSTRE: u64 = 0x0bd0_0bd0;
/// File systems on which several nodes write one file, as `statfs` numbers them: Storage Scale (GPFS), BeeGFS, CephFS, PanFS.
const OTHERS: [u64; 4] = [0x4750_4653, 0x1983_0326, 0x00c3_6400, 0xaad7_aaea];

/// Whether many processes write one file there faster than one does. Not on NFS, where writes to neighbouring bytes from
/// two nodes need locks, and ROMIO ends the program that cannot have them. Open MPI's own implementation, which it uses
/// but on Lustre, makes a file for each rank when it opens one, to try locks on.
fn is_parallel(file_system: u64) -> bool {
    file_system == LUSTRE || cfg!(not(mpi_family = "openmpi")) && OTHERS.contains(&file_system)
}

/// The kind of the file system on which a file is.
fn file_system(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in a zero; the structure is filled if the call succeeds.
    unsafe {
        let code = libc::statfs(path.as_ptr(), found.as_mut_ptr());
        (code == 0).then(|| found.assume_init_ref().f_type as u64)
    }
}

/// Writes the own rows. All ranks call it, and all get the same result; `check` is asked on each when all have written.
pub fn write(
    process: &Process,
    channel: &Channel,
    shared: &Shared,
    own: [&[u8]; TABLES],
    check: impl FnOnce() -> bool,
) -> Result<(), Failure> {
    let agree = |failure: Option<Failure>| {
        Failure::of(channel.most(process, failure.map_or(0, |failure| failure as c_int)))
    };
    let hints = Hints::new();
    let is_ready = shared.is_seen() && can_write(own) && hints.is_some();
    agree((!is_ready).then_some(Failure::NotReady))?;
    let hints = hints.ok_or(Failure::NotReady)?;
    let mut failure = None;
    for (table, name) in SHARED {
        if shared.lengths[table] == 0 {
            continue;
        }
        let file = open(process, channel, &shared.path(name), &hints);
        // Where only some have it open it cannot be closed, which takes all of them.
        agree(file.is_none().then_some(Failure::Open))?;
        if let Some(file) = file
            && !write_and_close(process, file, shared.begins[table], own[table])
        {
            failure = Some(Failure::Write);
        }
    }
    agree(failure)?;
    agree((!check()).then_some(Failure::Length))
}

/// Whether this process could take part.
fn can_write(own: [&[u8]; TABLES]) -> bool {
    // Opening makes a communicator, in which Open MPI 4.1 may hang after an idup.
    let may_make_communicator = cfg!(not(mpi_family = "openmpi")) || !naming::has_duplicated();
    // MPI counts with an int.
    may_make_communicator && own.iter().all(|part| c_int::try_from(part.len()).is_ok())
}

/// Returns whether everything succeeded. Without an error on any rank all bytes are with the file system.
fn write_and_close(process: &Process, mut file: File, begin: u64, own: &[u8]) -> bool {
    let (place, count, byte) = (own.as_ptr().cast(), own.len() as c_int, Raw::new(process.predefined.byte));
    let raw = Raw::new(file);
    // SAFETY: the file is open on all ranks, which make the same calls whatever each returns; there are as many bytes
    // as are said.
    let codes = unsafe {
        [
            pmpi::MPI_File_write_at_all.get()(raw, begin as Offset, place, count, byte, STATUS_IGNORE),
            pmpi::MPI_File_sync.get()(raw),
            pmpi::MPI_File_close.get()(&raw mut file),
        ]
    };
    codes.iter().all(|&code| code == constant::SUCCESS)
}

fn open(process: &Process, channel: &Channel, path: &Path, hints: &Hints) -> Option<File> {
    // The same on all ranks.
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let handler = Returning::set(process);
    let (mut file, mode, info) = (process.predefined.file_null, constant::MODE_WRONLY, Raw::new(hints.0));
    // SAFETY: the path ends in a zero, communicator and info are valid; the file is written by a call that succeeds.
    let code = unsafe { pmpi::MPI_File_open.get()(channel.raw(), path.as_ptr(), mode, info, &raw mut file) };
    drop(handler);
    (code == constant::SUCCESS).then_some(file)
}

/// What the MPI library is told of how to write.
struct Hints(Info);

impl Hints {
    /// Some processes write for all; what one keeps of the others' rows is bounded, where MPI libraries take 16 MiB and
    /// more by themselves, most of the memory of such a process; and nothing is read to be written again, for which ROMIO
    /// locks files, and ends the program where they cannot be locked.
    const ALL: [(&CStr, &CStr); 3] =
        [(c"cb_buffer_size", c"1048576"), (c"romio_cb_write", c"enable"), (c"romio_ds_write", c"disable")];

    /// `None` if the MPI makes none.
    fn new() -> Option<Self> {
        let mut info = MaybeUninit::<Info>::zeroed();
        // SAFETY: the info is written if the call succeeds, and all texts end in a zero.
        unsafe {
            if pmpi::MPI_Info_create.get()(info.as_mut_ptr()) != constant::SUCCESS {
                return None;
            }
            let info = info.assume_init();
            for (key, value) in Self::ALL {
                pmpi::MPI_Info_set.get()(Raw::new(info), key.as_ptr(), value.as_ptr());
            }
            Some(Hints(info))
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        // SAFETY: the info was made, and no file needs it any more.
        unsafe {
            pmpi::MPI_Info_free.get()(&raw mut self.0);
        }
    }
}

/// While it lives, errors in opening files and in those that are opened are returned: the handler of no file, which
/// the program may have set, is put back at its end (MPI 4.1, section 14.7).
struct Returning {
    none: Raw<File>,
    before: Errhandler,
}

impl Returning {
    fn set(process: &Process) -> Self {
        let none = Raw::new(process.predefined.file_null);
        let mut before = MaybeUninit::uninit();
        // SAFETY: MPI_FILE_NULL has a handler, which is written; the new one is predefined.
        let before = unsafe {
            pmpi::MPI_File_get_errhandler.get()(none, before.as_mut_ptr());
            pmpi::MPI_File_set_errhandler.get()(none, Raw::new(process.predefined.errors_return));
            before.assume_init()
        };
        Returning { none, before }
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        // SAFETY: the handler was got from MPI, and is given back.
        unsafe {
            pmpi::MPI_File_set_errhandler.get()(self.none, Raw::new(self.before));
            pmpi::MPI_Errhandler_free.get()(&raw mut self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_know_of_a_failure_is_the_largest_number() {
        let all = [Failure::Length, Failure::Write, Failure::Open, Failure::NotReady];
        for why in all {
            assert!(Failure::of(Some(why as c_int)) == Err(why));
        }
        assert!(Failure::of(Some(0)) == Ok(()));
        assert!(Failure::of(None) == Err(Failure::Channel));
    }

    #[test]
    fn the_kind_of_a_file_system_is_that_of_the_system() {
        const PROC: u64 = 0x9fa0;
        assert_eq!(file_system(Path::new("/proc/self")), Some(PROC));
        assert_eq!(file_system(Path::new("/nothing/of/this/name")), None);
        assert!(is_parallel(LUSTRE) && !is_parallel(PROC));
    }
}
