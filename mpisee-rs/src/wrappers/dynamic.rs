//! Processes of other worlds (MPI 4.1, chapter 11): spawned by this world, its spawners, or
//! connected to it.
//!
//! Each world has a profile of its own. The name of a new intercommunicator is below the
//! communicator over which this side made the call, `W_p1`, and the processes that were spawned
//! have it as `P`. Where both sides turn out to be of one world, it is named by its members.

use super::creation::create_on;
use crate::generated::pmpi;
use crate::mpi::abi::{Comm, Raw, constant};
use crate::mpi::argument::HandlePtr;
use crate::naming::{self, CreationKind};
use crate::state::communicator::COMMUNICATORS;
use crate::state::communicator::Communicator;
use crate::state::process;
use crate::state::world::{self, World};
use mpisee_profile::{CommId, CommRank, Operation};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// A call that makes an intercommunicator with processes of another world, collective over `comm`.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it; so for every function
/// here.
pub unsafe fn meet(
    operation: Operation,
    comm: Raw<Comm>,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { meet_over(operation, COMMUNICATORS.get(comm.get()), new, make) }
}

/// `MPI_Comm_join`, a connection of one process with one other: as if over `MPI_COMM_SELF`.
///
/// # Safety
/// See [`meet`].
pub unsafe fn comm_join(new: HandlePtr<Comm>, make: impl FnOnce() -> c_int) -> c_int {
    let itself = world::world()
        .map(|world| Communicator::new(CommId::SELF, world.predefined.itself, CommRank::FIRST, 1));
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe { meet_over(Operation::CommJoin, itself, new, make) }
}

/// Enters the intercommunicator with the processes that spawned this world, if any did.
pub fn note_parent(world: &World) {
    let mut parent = MaybeUninit::<Comm>::uninit();
    // SAFETY: the call writes the handle if it succeeds.
    let parent = unsafe {
        let code = pmpi::MPI_Comm_get_parent.get()(parent.as_mut_ptr());
        (code == constant::SUCCESS).then(|| parent.assume_init())
    };
    if let Some(parent) = parent.filter(|&parent| parent != world.predefined.comm_null) {
        process::note_spawned();
        naming::enter_parent(world, parent);
    }
}

/// A call that makes an intercommunicator with others, of which `parent` will be one group.
unsafe fn meet_over(
    operation: Operation,
    parent: Option<Communicator>,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let kind = CreationKind::by(operation);
    // SAFETY: the arguments are those of the application's call, and `make` makes it.
    unsafe {
        create_on(kind, parent, new, make, |recorder, comm, parent, numbered| {
            naming::enter_connection(recorder.world, comm, parent, kind, numbered);
        })
    }
}
