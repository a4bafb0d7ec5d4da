//! `MPI_Comm_idup`, which is numbered when it starts, and enters its communicator when its request
//! completes.

use super::{CreationKind, Naming, NumberedCreation, Ordinals, ROWS, describe, enter_unseen, unnumbered};
use crate::binaries::mapping;
use crate::mpi::abi::Comm;
use crate::mpi::argument::HandlePtr;
use crate::naming::RowChoice;
use crate::state::communicator::{COMMUNICATORS, Communicator};
use crate::state::process;
use crate::state::world::World;
use mpisee_profile::{CommId, Operation};
use std::sync::{Mutex, PoisonError};

/// An `MPI_Comm_idup` in progress.
struct Duplication {
    parent: Communicator,
    kind: CreationKind,
    number: Ordinals,
    /// The application's variable for the handle; it stays valid until the request completes.
    place: HandlePtr<Comm>,
    /// The row, chosen when it starts, in the order that all members have.
    choice: RowChoice,
    /// The number that the next communicator had when it started.
    next_id: CommId,
    /// As [`process::untracked_calls`] was when it started.
    untracked_calls: u64,
}

// SAFETY: handles are names and the other fields numbers; `place` is used by the thread that
// completes the request.
unsafe impl Send for Duplication {}

/// Duplications in progress, by the number in [`crate::state::request::RequestState::peer`].
static DUPLICATIONS: Mutex<Vec<Option<Duplication>>> = Mutex::new(Vec::new());

/// Keeps a started `MPI_Comm_idup` of `parent`; returns its number among those in progress.
pub fn start_duplication(
    world: &World,
    parent: &Communicator,
    operation: Operation,
    numbered: NumberedCreation,
    place: HandlePtr<Comm>,
) -> u32 {
    let _overhead = Naming::begin(world);
    let kind = CreationKind::by(operation);
    // The duplicate will have its parent's members and topology.
    let number = numbered.number;
    let described = describe(world, parent.comm, Some(parent), kind, numbered);
    let choice = described.map_or(RowChoice::Unseen, |described| described.choose(world));
    let (next_id, untracked_calls) = (ROWS.next_id(), process::untracked_calls());
    let started = Duplication { parent: *parent, kind, number, place, choice, next_id, untracked_calls };
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let free = duplications.iter().position(Option::is_none);
    match free {
        Some(free) => duplications[free] = Some(started),
        None if duplications.try_reserve(1).is_ok() => duplications.push(Some(started)),
        // The duplicate will be a communicator of unknown origin.
        None => return u32::MAX,
    }
    free.unwrap_or(duplications.len() - 1) as u32
}

fn take(number: u32) -> Option<Duplication> {
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    duplications.get_mut(number as usize).and_then(Option::take)
}

/// Forgets a duplication that failed.
pub fn abandon_duplication(number: u32) {
    let _ = take(number);
}

/// Enters the duplicate of a request that completed, unless that was done before.
///
/// The request may have completed out of sight, and its handle be that of another one now: then the
/// program has done with `place` what it liked.
pub fn duplicated(world: &World, number: u32) {
    let Some(done) = take(number) else { return };
    if process::untracked_calls() != done.untracked_calls {
        return;
    }
    let Some(comm) = done.place.handle_by(mapping::read_memory) else { return };
    if comm == world.predefined.comm_null
        || COMMUNICATORS.get(comm).is_some_and(|known| known.id >= done.next_id)
    {
        return;
    }
    let _overhead = Naming::begin(world);
    let numbered = NumberedCreation { number: done.number, ..unnumbered(Some(&done.parent)) };
    match describe(world, comm, Some(&done.parent), done.kind, numbered) {
        Some(described) => described.enter(world, Some(done.choice)),
        None => enter_unseen(comm),
    };
}
