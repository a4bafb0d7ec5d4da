//! Communicators that are made, until they are entered.
//!
//! One may come to exist later than its call returns: in a group, when that ends; and where it is made by a parent that does not
//! block, when NCCL has stored its handle.

use super::{count_time, key};
use crate::naming::{ROWS, nccl as naming};
use crate::recording::{RecordedCall, Recorder};
use crate::state::nccl::{Creation, NCCL, NcclComm, Unstored};
use crate::state::world::World;
use crate::storage::frame::ExportFrame;
use mpisee_guards::errno;
use mpisee_profile::nccl::{Comm, IN_PROGRESS, NcclCall, SUCCESS};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A creating call, whose communicator may come to exist later.
pub struct Pending {
    /// The handle of the parent; 0 if it has none.
    pub parent: u64,
    /// The place of the handle.
    pub new: *const Comm,
    pub creation: Creation,
    /// Rank and size, where the call says them.
    pub known: Option<(u32, u32)>,
    /// The call, if it is to be counted on what it made, and its frame.
    pub made: Option<(Operation, Ticks, Option<ExportFrame>)>,
    /// The name that the program gives it.
    pub label: Option<String>,
}

/// Enters a communicator that a call with this return code has made; returns its number.
pub fn enter(recorder: &Recorder, call: &NcclCall, pending: &Pending, code: c_int) -> CommId {
    let Pending { parent, new, creation, known, made, ref label } = *pending;
    if new.is_null() {
        return CommId::NONE;
    }
    // SAFETY: the place is the program's for the call that has returned, or whose group has ended; NCCL may be storing there now.
    let comm = unsafe { AtomicPtr::from_ptr(new.cast_mut()) }.load(Ordering::Relaxed);
    if comm.is_null() {
        if code == IN_PROGRESS {
            let (place, label) = (new.addr(), label.clone());
            NCCL.await_handle(Unstored { parent, place, seen: 0, creation, known, label });
        }
        return CommId::NONE;
    }
    let Some((rank, size)) = known.or_else(|| query(call, comm)) else {
        NCCL.postpone(key(comm), creation, label.clone());
        return CommId::NONE;
    };
    let id = naming::enter(recorder.world, key(comm), creation, rank, size);
    if let Some(label) = label {
        ROWS.label(&recorder.world.segment, id, label.clone());
    }
    if let Some((operation, ticks, export)) = made {
        count_time(&Recorder { export, ..*recorder }, id, operation, ticks);
    }
    id
}

/// A call that has asked for the state of a communicator: the handles of what that has made are stored.
pub fn polled(comm: Comm) {
    NCCL.see_unstored_of(key(comm));
}

/// The communicator with this handle, which is entered if NCCL has stored the handle by now.
pub fn known(recorded: &RecordedCall, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let known = NCCL.get(key(comm));
    if known.is_some() {
        return known;
    }
    let unstored = NCCL.take_unstored(key(comm))?;
    adopt(recorded, call, comm, unstored);
    NCCL.get(key(comm))
}

/// Enters a communicator that NCCL has stored, and that the program has passed.
fn adopt(recorded: &RecordedCall, call: &NcclCall, comm: Comm, unstored: Unstored) {
    let Unstored { creation, known, label, .. } = unstored;
    let _errno = errno::keep();
    recorded.record(|recorder| match known.or_else(|| query(call, comm)) {
        Some((rank, size)) => {
            let id = naming::enter(recorder.world, key(comm), creation, rank, size);
            if let Some(label) = label {
                ROWS.label(&recorder.world.segment, id, label);
            }
        }
        None => NCCL.postpone(key(comm), creation, label),
    });
}

/// Enters a communicator whose size NCCL did not have at first.
pub fn finish(world: &World, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let (rank, size) = query(call, comm)?;
    let (creation, label) = NCCL.take_postponed(key(comm))?;
    let id = naming::enter(world, key(comm), creation, rank, size);
    if let Some(label) = label {
        ROWS.label(&world.segment, id, label);
    }
    NCCL.get(key(comm))
}

/// Rank and size of a communicator, if NCCL has them already.
fn query(call: &NcclCall, comm: Comm) -> Option<(u32, u32)> {
    let (mut size, mut rank) = (-1, -1);
    let code = (call.query)(comm, &raw mut size, &raw mut rank);
    Some((u32::try_from(rank).ok()?, u32::try_from(size).ok()?)).filter(|_| code == SUCCESS)
}
