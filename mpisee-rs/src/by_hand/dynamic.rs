//! Processes of other worlds (MPI 4.1, chapter 11): started by this one, having started this one, or met.
//!
//! Each world has a profile of its own. Whether the other side of a new intercommunicator has the profiler
//! cannot be known, so that nothing is agreed with it: the name is below the communicator over which this side
//! made the call, `W_p1`, and the processes that were spawned have it as `P`. Only where both sides turn out to
//! be of one world, they agree on one name.

use super::creation::{created, number_of};
use crate::abi::{Comm, Raw, constant};
use crate::argument::Place;
use crate::communicator::{Communicator, UNLOGGED};
use crate::generated::pmpi;
use crate::naming::{self, Birth, ITSELF, Membership, Number, Parent};
use crate::process::{self, COMMUNICATORS, Process};
use crate::record::Call;
use mpisee_profile::Operation;
use mpisee_profile::rows::is_one_per_process;
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::log::NONE;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether other processes spawned this world.
static SPAWNED: AtomicBool = AtomicBool::new(false);

/// See [`SPAWNED`].
pub fn was_spawned() -> bool {
    SPAWNED.load(Ordering::Relaxed)
}

/// A call that makes an intercommunicator with processes of another world, collective over `comm`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function here.
pub unsafe fn meet(
    operation: Operation,
    comm: Raw<Comm>,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { meet_over(operation, COMMUNICATORS.get(comm.get()), new, make) }
}

/// `MPI_Comm_join`, a connection of one process with one other: as if over `MPI_COMM_SELF`.
///
/// # Safety
/// See [`meet`].
pub unsafe fn comm_join(new: Place<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let itself = process::process().map(|process| Communicator::new(ITSELF, process.predefined.itself, 0, 1));
    // SAFETY: the caller's promise.
    unsafe { meet_over(Operation::CommJoin, itself, new, make) }
}

/// Takes note of the processes that spawned this world, if any did.
pub fn note_parent(process: &Process) {
    let mut parent = MaybeUninit::<Comm>::uninit();
    // SAFETY: the call writes the handle if it succeeds.
    let parent = unsafe {
        let code = pmpi::MPI_Comm_get_parent.get()(parent.as_mut_ptr());
        (code == constant::SUCCESS).then(|| parent.assume_init())
    };
    if let Some(parent) = parent.filter(|&parent| parent != process.predefined.comm_null) {
        SPAWNED.store(true, Ordering::Relaxed);
        naming::enter_parent(process, parent);
    }
}

/// A call that makes an intercommunicator with others, of which `parent` will be one group.
unsafe fn meet_over(
    operation: Operation,
    parent: Option<Communicator>,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    call.begin(operation, number_of(parent.as_ref()));
    let mut number = None;
    call.record(|recorder| {
        if let Some(parent) = &parent {
            number = Some(naming::agree(recorder.process, parent));
        }
    });
    let (code, ticks) = call.time_begun(make);
    call.record(|recorder| {
        let process = recorder.process;
        let (Some(parent), Some(number)) = (&parent, number) else {
            return process::not_seen(NotSeen::UnknownCommunicator);
        };
        recorder.count_time(parent.id, operation, ticks);
        // SAFETY: the caller's promise.
        match unsafe { created(process, code, new) } {
            Some(comm) => enter(process, operation, comm, parent, number),
            None => number.give_back(process),
        }
    });
    code
}

fn enter(process: &Process, operation: Operation, comm: Comm, parent: &Communicator, number: Number) {
    let members = Membership::of(process, comm);
    let mut own = Ancestry::of(process, parent, &members, number);
    if !members.has_outsiders() {
        own = own.agree(process, comm, members.own_comes_first());
    }
    let birth = Birth::by(operation);
    if own.parent.is_empty() {
        // There was no room for the parent in the log, nor is there for this: it is kept for agreements alone.
        let unlogged = Communicator::new(UNLOGGED, comm, 0, 0);
        naming::enter(process, comm, &Parent::Known(&unlogged), birth, own.number);
        return;
    }
    let birth = if own.r == NONE { birth } else { birth.one_of_several() };
    naming::enter(process, comm, &Parent::Named(&own.parent, own.r), birth, own.number);
}

/// Where the new communicator is in the tree of names.
struct Ancestry {
    number: Number,
    /// The parent's name.
    parent: String,
    /// Which process's, if each has a communicator of the parent's name; else [`NONE`].
    r: u32,
}

impl Ancestry {
    fn of(process: &Process, parent: &Communicator, members: &Membership, number: Number) -> Ancestry {
        let name = process.folding.name(&process.segment, parent.id);
        let r = if is_one_per_process(&name) { members.smallest() } else { NONE };
        Ancestry { number, parent: name, r }
    }

    /// The one ancestry of both groups, which are of this world and so have the profiler: that of the group
    /// with the smallest world rank.
    fn agree(self, process: &Process, comm: Comm, is_ours: bool) -> Ancestry {
        let number = naming::agree_within(process, comm, self.number.n).or_before(self.number);
        let mut parent = self.parent.into_bytes();
        let mut numbers = [self.r as c_int, parent.len() as c_int];
        broadcast(process, comm, is_ours, numbers.as_mut_ptr().cast(), size_of_val(&numbers));
        parent.resize(usize::try_from(numbers[1]).unwrap_or(0), 0);
        broadcast(process, comm, is_ours, parent.as_mut_ptr().cast(), parent.len());
        Ancestry { number, parent: String::from_utf8_lossy(&parent).into_owned(), r: numbers[0] as u32 }
    }
}

/// Sends `bytes` bytes from the first process of one group to the other.
fn broadcast(process: &Process, comm: Comm, is_ours: bool, buffer: *mut c_void, bytes: usize) {
    let root = match (is_ours, process::rank(comm)) {
        (true, 0) => constant::ROOT,
        (true, _) => constant::PROC_NULL,
        (false, _) => 0,
    };
    let byte = Raw::new(process.predefined.byte);
    // SAFETY: all processes of both groups are in the same creating call, and pass as many bytes.
    unsafe { pmpi::MPI_Bcast.get()(buffer, bytes as c_int, byte, root, Raw::new(comm)) };
}
