//! Communicators that are made, until they are entered.
//!
//! One may come to exist later than its call returns: in a group, when that ends; and where it is made by a parent that does not
//! block, when NCCL has stored its handle.

use super::{count_time, key};
use crate::binaries::mapping::read_memory;
use crate::naming::{ROWS, nccl as naming};
use crate::recording::{RecordedCall, Recorder};
use crate::state::nccl::{Creation, NCCL, NcclComm, Unstored};
use crate::state::world::World;
use crate::storage::frame::ExportFrame;
use mpisee_profile::nccl::{Comm, IN_PROGRESS, NcclCall, SUCCESS};
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;
use std::ptr;
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
            NCCL.await_handle(Unstored { parent, place: new.addr(), creation, known, label: label.clone() });
        }
        return CommId::NONE;
    }
    let Some((rank, size)) = known.or_else(|| query(call, comm)) else {
        NCCL.postpone(key(comm), creation);
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

/// The handle at a place that may be gone by now.
fn handle_at(place: usize) -> Comm {
    let mut word = [0; size_of::<Comm>()];
    let is_read = read_memory(place, &mut word) == word.len();
    if is_read { ptr::without_provenance_mut(usize::from_ne_bytes(word)) } else { ptr::null_mut() }
}

/// A call that has asked for the state of a communicator: what that has made is there.
pub fn polled(call: &NcclCall, comm: Comm) {
    let unstored = NCCL.take_unstored_of(key(comm));
    if unstored.is_empty() {
        return;
    }
    let Some(recorded) = RecordedCall::if_tracking() else { return };
    for one in unstored {
        let made = handle_at(one.place);
        if made.is_null() {
            NCCL.await_handle(one);
        } else {
            adopt(&recorded, call, made, one);
        }
    }
}

/// The communicator with this handle, which is entered if NCCL has stored the handle by now.
pub fn known(recorded: &RecordedCall, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let known = NCCL.get(key(comm));
    if known.is_some() {
        return known;
    }
    let unstored = NCCL.take_unstored(|place| handle_at(place) == comm)?;
    adopt(recorded, call, comm, unstored);
    NCCL.get(key(comm))
}

/// Enters a communicator that NCCL has stored.
fn adopt(recorded: &RecordedCall, call: &NcclCall, comm: Comm, unstored: Unstored) {
    let Unstored { creation, known, label, .. } = unstored;
    recorded.record(|recorder| match known.or_else(|| query(call, comm)) {
        Some((rank, size)) => {
            let id = naming::enter(recorder.world, key(comm), creation, rank, size);
            if let Some(label) = label {
                ROWS.label(&recorder.world.segment, id, label);
            }
        }
        None => NCCL.postpone(key(comm), creation),
    });
}

/// Enters a communicator whose size NCCL did not have at first.
pub fn finish(world: &World, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let (rank, size) = query(call, comm)?;
    let creation = NCCL.take_postponed(key(comm))?;
    naming::enter(world, key(comm), creation, rank, size);
    NCCL.get(key(comm))
}

/// Rank and size of a communicator, if NCCL has them already.
fn query(call: &NcclCall, comm: Comm) -> Option<(u32, u32)> {
    let (mut size, mut rank) = (-1, -1);
    let code = (call.query)(comm, &raw mut size, &raw mut rank);
    Some((u32::try_from(rank).ok()?, u32::try_from(size).ok()?)).filter(|_| code == SUCCESS)
}
