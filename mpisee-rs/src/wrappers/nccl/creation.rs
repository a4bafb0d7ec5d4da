//! Calls that make communicators.
//!
//! A communicator may come to exist later than its call returns: in a group, when that ends; and where it is made by a parent that does not
//! block, when NCCL has stored its handle. It is entered then.

use super::group::{self, in_group};
use super::{count_time, is_made, key, record, time};
use crate::binaries::mapping::read_memory;
use crate::naming::{ROWS, nccl as naming};
use crate::recording::{RecordedCall, Recorder};
use crate::state::buffers::look_for_driver;
use crate::state::nccl::{Creation, NCCL, NcclComm, Numbered, Unstored};
use crate::state::world::{self, World};
use crate::state::{devices, process};
use crate::storage::frame::ExportFrame;
use crate::storage::memory;
use mpisee_profile::nccl::{Comm, Config, IN_PROGRESS, Meaning, NcclCall, SUCCESS};
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::{CStr, c_int};
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A creating call, whose communicator may come to exist later.
pub struct Pending {
    /// The place of the handle.
    new: *const Comm,
    creation: Creation,
    /// Rank and size, where the call says them.
    pub known: Option<(u32, u32)>,
    /// The call, if it is to be counted on what it made, and its frame.
    made: Option<(Operation, Ticks, Option<ExportFrame>)>,
    /// The name that the program gives it.
    label: Option<String>,
}

/// Communicators at whose making the devices are looked at: by then the process has chosen its own.
const MOST_NOTED: u32 = 8;
static NOTED: AtomicU32 = AtomicU32::new(0);

/// A call that makes communicators.
pub fn create(
    call: &NcclCall,
    operation: Operation,
    meaning: &Meaning,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(recorded) = RecordedCall::if_tracking() else { return make() };
    if let Some(parent) = parent_of(meaning) {
        let is_unfinished = known(&recorded, call, parent).is_some_and(|parent| parent.id == CommId::NONE);
        recorded.record(|recorder| {
            if is_unfinished {
                finish(recorder.world, call, parent);
            }
        });
    }
    let mut begun = None;
    recorded.record(|recorder| begun = describe(recorder.world, call, operation, meaning));
    let Some(Begun { on, numbered, pending }) = begun else {
        world::not_seen(NotSeen::UnknownCommunicator);
        return recorded.make_uncounted(operation, make);
    };
    let (code, ticks) = time(&recorded, operation, on.unwrap_or(CommId::NONE), make);
    // NCCL has the driver, and the buffers that follow are likely in a GPU's memory.
    look_for_driver();
    record(&recorded, |recorder| {
        if process::is_without_mpi() && NOTED.fetch_add(1, Ordering::Relaxed) < MOST_NOTED {
            // MPI's end, at which this is done else, does not come.
            devices::note(recorder.world);
        }
        if let Some(parent) = on {
            count_time(recorder, parent, operation, ticks);
        }
        // Of a call that failed NCCL may not have stored anything, and on other ranks it may not have failed.
        let mut pending = if is_made(code) { pending } else { Vec::new() };
        if let Some(numbered) = numbered.filter(|_| !is_made(code)) {
            NCCL.take_back(numbered);
        }
        if on.is_none()
            && let Some(first) = pending.first_mut()
        {
            first.made = Some((operation, ticks, recorder.export));
        }
        if !group::is_outside() {
            in_group(|group| {
                group.add(on.unwrap_or(CommId::NONE));
                group.add_pending(pending);
            });
            return;
        }
        for pending in &pending {
            enter(recorder, call, pending, code);
        }
    });
    code
}

/// The communicator from which a call makes others.
fn parent_of(meaning: &Meaning) -> Option<Comm> {
    match *meaning {
        Meaning::Split { comm, .. } | Meaning::Shrink { comm, .. } | Meaning::Grow { comm, .. } => {
            Some(comm).filter(|comm| !comm.is_null())
        }
        _ => None,
    }
}

/// A creating call before it is made.
struct Begun {
    /// The parent; `None` if it has none.
    on: Option<CommId>,
    /// Its number among those on the parent.
    numbered: Option<Numbered>,
    pending: Vec<Pending>,
}

/// Describes a creating call, and numbers it; `None` if its parent is unknown.
fn describe(world: &World, call: &NcclCall, operation: Operation, meaning: &Meaning) -> Option<Begun> {
    let number = |count: c_int| u32::try_from(count).unwrap_or(0);
    // SAFETY: the program passes a valid configuration, or none.
    let label = unsafe { label_of(call.config) };
    let alone = |new, creation, known| Pending { new, creation, known, made: None, label: label.clone() };
    let child = |comm: Comm, letter: u8, part: Option<u32>, code: u64| {
        let parent = NCCL.get(key(comm)).filter(|parent| parent.id != CommId::NONE)?.id;
        let numbered = Numbered { handle: key(comm), letter, code };
        let creation =
            Creation { parent: Some(parent), letter, n: NCCL.number(numbered), part, code, operation };
        Some((parent, numbered, creation))
    };
    let of_child = |(parent, numbered, creation): (CommId, Numbered, Creation), new: Option<*const Comm>| {
        let pending = new.map(|new| alone(new, creation, None)).into_iter().collect();
        Begun { on: Some(parent), numbered: Some(numbered), pending }
    };
    Some(match *meaning {
        Meaning::CreateFromIds { new, ids, count, size, rank } => {
            // SAFETY: the program passes as many ids as it says.
            let creation = naming::from_ids(operation, unsafe { ids_at(ids, number(count)) });
            let pending = vec![alone(new, creation, Some((number(rank), number(size))))];
            Begun { on: None, numbered: None, pending }
        }
        Meaning::CreateAll { new, size } => {
            let size = number(size);
            let n = NCCL.number(Numbered { handle: 0, letter: b'u', code: 0 });
            let creation = naming::from_devices(operation, world, n);
            let each =
                (0..size).map(|rank| alone(new.wrapping_add(rank as usize), creation, Some((rank, size))));
            Begun { on: None, numbered: None, pending: each.collect() }
        }
        Meaning::Split { comm, color, new } => {
            let part = u32::try_from(color).ok();
            of_child(child(comm, b's', part, 0)?, part.map(|_| new))
        }
        Meaning::Shrink { comm, excluded, count, new } => {
            let is_none = excluded.is_null() || count <= 0;
            let ranks = match is_none {
                true => &[],
                // SAFETY: the program passes as many ranks as it says.
                false => unsafe { slice::from_raw_parts(excluded, count as usize) },
            };
            of_child(child(comm, b'k', None, naming::of_excluded(ranks))?, Some(new))
        }
        Meaning::Grow { comm, id, size, rank, new } if comm.is_null() => {
            // SAFETY: a new rank passes an id.
            let creation = naming::from_ids(operation, unsafe { ids_at(id, 1) });
            let pending = vec![alone(new, creation, Some((number(rank), number(size))))];
            Begun { on: None, numbered: None, pending }
        }
        Meaning::Grow { comm, new, .. } => of_child(child(comm, b'g', None, 0)?, Some(new)),
        _ => return None,
    })
}

/// The bytes of unique ids.
///
/// # Safety
/// There are as many, or the pointer is null.
unsafe fn ids_at<'i>(ids: *const u8, count: u32) -> &'i [u8] {
    let bytes = mpisee_profile::nccl::ID_BYTES * count as usize;
    // SAFETY: the caller's promise.
    if ids.is_null() { &[] } else { unsafe { slice::from_raw_parts(ids, bytes) } }
}

/// More bytes than keeping a name takes.
const LABEL_BYTES: usize = 1 << 12;

/// The name in a configuration, if there is one.
///
/// # Safety
/// The pointer is null, or that of a configuration which the program passes to NCCL.
unsafe fn label_of(config: *const Config) -> Option<String> {
    // SAFETY: the caller's promise.
    let name = unsafe { Config::name(config) }?;
    if !memory::is_left(LABEL_BYTES) {
        return None;
    }
    // SAFETY: NCCL reads the name to its zero in the same call.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    Some(name.chars().take(LABEL_BYTES / 16).collect())
}

/// Enters a communicator that a call with this return code has made; returns its number.
pub fn enter(recorder: &Recorder, call: &NcclCall, pending: &Pending, code: c_int) -> CommId {
    let Pending { new, creation, known, made, ref label } = *pending;
    if new.is_null() {
        return CommId::NONE;
    }
    // SAFETY: the place is the program's for the call that has returned, or whose group has ended; NCCL may be storing there now.
    let comm = unsafe { AtomicPtr::from_ptr(new.cast_mut()) }.load(Ordering::Relaxed);
    if comm.is_null() {
        if code == IN_PROGRESS {
            NCCL.await_handle(Unstored { place: new.addr(), creation, known, label: label.clone() });
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

/// The communicator with this handle, which is entered if NCCL has stored the handle by now.
pub fn known(recorded: &RecordedCall, call: &NcclCall, comm: Comm) -> Option<NcclComm> {
    let known = NCCL.get(key(comm));
    if known.is_some() {
        return known;
    }
    // The place of a handle may be gone by now.
    let has_handle = |place: usize| {
        let mut word = [0; size_of::<Comm>()];
        read_memory(place, &mut word) == word.len() && usize::from_ne_bytes(word) == comm.addr()
    };
    let Unstored { creation, known, label, .. } = NCCL.take_unstored(has_handle)?;
    recorded.record(|recorder| match known.or_else(|| query(call, comm)) {
        Some((rank, size)) => {
            let id = naming::enter(recorder.world, key(comm), creation, rank, size);
            if let Some(label) = label {
                ROWS.label(&recorder.world.segment, id, label);
            }
        }
        None => NCCL.postpone(key(comm), creation),
    });
    NCCL.get(key(comm))
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
