//! Sessions (MPI 4.1, 11.3): MPI without a world. A process that never calls `MPI_Init` is recorded from its first
//! session to the end of its last open one.
//!
//! `MPI_COMM_WORLD` cannot be used there, not even to ask for the own rank; the process set `mpi://WORLD` says
//! who is in the run. A communicator from groups has no parent: its members agree on its number over itself, and
//! its name is `F<n>.<r>` with the smallest rank among them.

// An MPI may lack every function that is here.
#![allow(dead_code)]

use super::creation::created;
use super::lifecycle::start_without_world;
use crate::abi::{self, Comm, Group, Info, Raw, Session, constant};
use crate::argument::Place;
use crate::finalize;
use crate::generated::pmpi;
use crate::gpu;
use crate::message::say;
use crate::naming::{self, Birth, Membership, Parent};
use crate::process::{self, Process};
use crate::record::{Call, Recorder};
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::now::UNKNOWN;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::catch_unwind;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Sessions of the application that are open.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// Whether there was a communicator of all processes, so that all of them have sessions.
static ALL_TAKE_PART: AtomicBool = AtomicBool::new(false);

/// `MPI_Session_init`.
///
/// # Safety
/// The arguments are those of the application's call; so for every function here.
pub unsafe fn session_init(session: Place<Session>, make: impl FnOnce() -> c_int) -> c_int {
    let code = make();
    if code == constant::SUCCESS {
        OPEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the call that succeeded has stored the session.
        let session = unsafe { session.handle() };
        if process::process().is_none() {
            start_without_world(|| world_of(session));
        }
    }
    code
}

/// `MPI_Session_finalize`: with the last one ends what there is to record, unless there is a world as well.
///
/// # Safety
/// See [`session_init`].
pub unsafe fn session_finalize(session: Place<Session>, make: impl FnOnce() -> c_int) -> c_int {
    if !session.is_null() && process::is_tracking() && OPEN.fetch_sub(1, Ordering::Relaxed) == 1 {
        // SAFETY: the caller's promise.
        let last = unsafe { session.handle() };
        if let Some(process) = process::process().filter(|process| !process.has_world.load(Ordering::Relaxed))
        {
            end(process, last);
        }
    }
    make()
}

fn end(process: &Process, session: Session) {
    if process.world_size > 1 && !ALL_TAKE_PART.load(Ordering::Relaxed) {
        // Whoever has no session would not come, and the others would wait for ever. What was counted is kept
        // until the process ends: it may open more sessions, in which others agree with it on names.
        static WILL_CLEAN_UP: Once = Once::new();
        // SAFETY: the function is there until the process ends.
        WILL_CLEAN_UP.call_once(|| unsafe {
            libc::atexit(leave_without_profile);
        });
        return;
    }
    if !process::end() {
        return;
    }
    let write = || match gathering_communicator(session) {
        Some(comm) => finalize::write_profile_through(comm),
        None => {
            say(format_args!("no profile: MPI made no communicator of all processes to gather it through"))
        }
    };
    if catch_unwind(write).is_err() {
        say(format_args!("writing the profile failed inside the profiler; the program goes on"));
    }
}

/// At the exit of a process whose sessions are over, and which no communicator connected with all others.
extern "C" fn leave_without_profile() {
    let Some(process) = process::process() else { return };
    let over = OPEN.load(Ordering::Relaxed) == 0 && !process.has_world.load(Ordering::Relaxed);
    if over && process::end() {
        if process.world_rank == 0 {
            say(format_args!(
                "no profile: the program has sessions and no communicator of all its processes, through which \
                 the profile could be gathered"
            ));
        }
        process.segment.remove();
        gpu::remove(process);
    }
}

/// The processes of the run, as the session has them.
pub fn world_of(session: Session) -> Option<Group> {
    let mut group = MaybeUninit::<Group>::uninit();
    // SAFETY: the session is open, the name ends in a zero; the call that succeeds writes the group.
    unsafe {
        let from_set = pmpi::MPI_Group_from_session_pset.get();
        let code = from_set(Raw::new(session), c"mpi://WORLD".as_ptr(), group.as_mut_ptr());
        (code == constant::SUCCESS).then(|| group.assume_init())
    }
}

/// A communicator of all processes, for the profile to be gathered through.
fn gathering_communicator(session: Session) -> Option<Comm> {
    let mut group = world_of(session)?;
    let process = process::process()?;
    let (mut info, mut comm) = (MaybeUninit::<Info>::uninit(), MaybeUninit::<Comm>::uninit());
    let handler = Raw::new(process.predefined.errors_return);
    // SAFETY: group and info are ours and valid; the tag ends in a zero; the communicator is written if the
    // call succeeds.
    unsafe {
        pmpi::MPI_Info_create.get()(info.as_mut_ptr());
        let mut info = info.assume_init();
        let tag = c"io.github.mpisee.profile".as_ptr();
        let create = pmpi::MPI_Comm_create_from_group.get();
        let code = create(Raw::new(group), tag, Raw::new(info), handler, comm.as_mut_ptr());
        pmpi::MPI_Info_free.get()(&raw mut info);
        pmpi::MPI_Group_free.get()(&raw mut group);
        (code == constant::SUCCESS).then(|| comm.assume_init())
    }
}

/// A call that creates a communicator from a group, without a parent.
///
/// # Safety
/// See [`session_init`].
pub unsafe fn create_from_group(
    operation: Operation,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let (code, ticks) = call.time(operation, UNKNOWN, make);
    call.record(|recorder| {
        // SAFETY: the caller's promise.
        if let Some(comm) = unsafe { created(recorder.process, code, new) } {
            enter(recorder, operation, comm, ticks);
        }
    });
    code
}

/// The row is on the new communicator, since there is no parent to have it.
fn enter(recorder: &Recorder, operation: Operation, comm: Comm, ticks: u64) {
    let process = recorder.process;
    if Membership::of(process, comm).has_outsiders() {
        // Nothing can be agreed with them, and no parent counts.
        return process::not_seen(NotSeen::UnknownCommunicator);
    }
    let number = naming::agree_within(process, comm, process.so_far());
    let birth = Birth::by(operation);
    let id = naming::enter(process, comm, &Parent::None, birth, number);
    if let Some(known) = process::COMMUNICATORS.get(comm) {
        if known.size == process.world_size {
            ALL_TAKE_PART.store(true, Ordering::Relaxed);
        }
        if known.is_logged() {
            recorder.count_time(id, operation, ticks);
        }
    }
}

/// The own rank in a group, and its size.
pub fn place_in(group: abi::Group) -> (u32, u32) {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: the group is valid; both numbers are written.
    unsafe {
        pmpi::MPI_Group_rank.get()(Raw::new(group), &raw mut rank);
        pmpi::MPI_Group_size.get()(Raw::new(group), &raw mut size);
    }
    (rank as u32, size as u32)
}
