//! Communicators that are made, until they are entered. One may come to exist, or be known, later
//! than its call returns, and waits:
//!
//! | held as | by | until |
//! | --- | --- | --- |
//! | [`Pending`] | the call, or the thread's group (`group.rs`) | the call, or the outermost group, has returned |
//! | `Unstored` | `NCCL`, where the place of the handle is empty then, as of a parent that does not block | the program passes a handle that was seen there |
//! | `unfinished` | `NCCL`, under its handle, where NCCL does not have its size yet | a call on it returns, or makes another one of it, and NCCL has the size |
//!
//! Each has it as it was [`Announced`]. A call that fails makes none, and with its parent an
//! `Unstored` one that was never seen goes, too.

use super::{count_time, key};
use crate::naming::{ROWS, nccl as naming};
use crate::recording::{RecordedCall, Recorder};
use crate::state::nccl::{Announced, NCCL, NcclComm};
use crate::state::world::World;
use crate::storage::frame::ExportFrame;
use mpisee_in_process::guards::errno;
use mpisee_profile::nccl::{Comm, IN_PROGRESS, NcclCall, SUCCESS};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A communicator of a creating call that has not returned, or is in a group.
pub struct Pending {
    pub announced: Announced,
    /// The call, if it is to be counted on what it made, and its frame.
    pub made: Option<(Operation, Ticks, Option<ExportFrame>)>,
}

/// Enters a communicator that a call with this return code has made; returns its number.
pub fn enter(recorder: &Recorder, call: &NcclCall, pending: Pending, code: c_int) -> CommId {
    let Pending { announced, made } = pending;
    if announced.place == 0 {
        return CommId::NONE;
    }
    let place: *mut Comm = ptr::with_exposed_provenance_mut(announced.place);
    // SAFETY: the place is the program's for the call that has returned, or whose group has ended;
    // NCCL may be storing there now.
    let comm = unsafe { AtomicPtr::from_ptr(place) }.load(Ordering::Relaxed);
    if comm.is_null() {
        if code == IN_PROGRESS {
            NCCL.await_handle(announced);
        }
        return CommId::NONE;
    }
    let Some(id) = enter_stored(recorder.world, call, comm, announced) else { return CommId::NONE };
    if let Some((operation, ticks, export)) = made {
        count_time(&Recorder { export, ..*recorder }, id, operation, ticks);
    }
    id
}

/// Enters a communicator with its handle; `None` if NCCL does not have its size yet: it is kept
/// until then.
fn enter_stored(world: &World, call: &NcclCall, comm: Comm, announced: Announced) -> Option<CommId> {
    let Some(place) = announced.known.or_else(|| query(call, comm)) else {
        NCCL.postpone(key(comm), announced);
        return None;
    };
    Some(enter_sized(world, comm, announced, place))
}

fn enter_sized(world: &World, comm: Comm, announced: Announced, (rank, size): (u32, u32)) -> CommId {
    let id = naming::enter(world, key(comm), announced.creation, rank, size);
    if let Some(label) = announced.label {
        ROWS.label(&world.segment, id, label);
    }
    id
}

/// A call that has asked for the state of a communicator: the handles of what that has made are
/// stored.
pub fn polled(comm: Comm) {
    NCCL.see_unstored_of(key(comm));
}

/// The communicator with this handle, which is entered if NCCL has stored the handle by now.
pub fn known(recorded: &RecordedCall, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let known = NCCL.get(key(comm));
    if known.is_some() {
        return known;
    }
    let announced = NCCL.take_unstored(key(comm))?;
    let _errno = errno::keep();
    recorded.record(|recorder| {
        enter_stored(recorder.world, call, comm, announced);
    });
    NCCL.get(key(comm))
}

/// Enters a communicator whose size NCCL did not have at first.
pub fn finish(world: &World, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let place = query(call, comm)?;
    enter_sized(world, comm, NCCL.take_postponed(key(comm))?, place);
    NCCL.get(key(comm))
}

/// Rank and size of a communicator, if NCCL has them already.
fn query(call: &NcclCall, comm: Comm) -> Option<(u32, u32)> {
    let (mut size, mut rank) = (-1, -1);
    let code = (call.query)(comm, &raw mut size, &raw mut rank);
    Some((u32::try_from(rank).ok()?, u32::try_from(size).ok()?)).filter(|_| code == SUCCESS)
}
