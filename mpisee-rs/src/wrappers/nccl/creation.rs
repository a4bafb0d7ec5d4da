//! Calls that make communicators.

use super::group::{self, in_group};
use super::pending::{Pending, enter, finish, known};
use super::{count_time, is_made, key, record, time};
use crate::naming::nccl as naming;
use crate::recording::RecordedCall;
use crate::state::gpu::devices;
use crate::state::gpu::memory_kind::look_for_driver;
use crate::state::nccl::{Announced, Creation, NCCL, OrdinalKey};
use crate::state::process;
use crate::state::world::{self, World};
use crate::storage::memory;
use mpisee_profile::nccl::{Comm, Config, Meaning, NcclCall};
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{CommId, Operation};
use std::ffi::{CStr, c_int};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

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
        // Of a call that failed NCCL may not have stored anything, and on other ranks it may not
        // have failed.
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
        for pending in pending {
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
    numbered: Option<OrdinalKey>,
    pending: Vec<Pending>,
}

/// Describes a creating call, and numbers it; `None` if its parent is unknown.
fn describe(world: &World, call: &NcclCall, operation: Operation, meaning: &Meaning) -> Option<Begun> {
    let number = |count: c_int| u32::try_from(count).unwrap_or(0);
    // SAFETY: the program passes a valid configuration, or none.
    let label = unsafe { label_of(call.config) };
    let parent = parent_of(meaning).map_or(0, key);
    let alone = |new: *const Comm, creation, known| {
        let place = new.expose_provenance();
        Pending { announced: Announced { parent, place, creation, known, label: label.clone() }, made: None }
    };
    let child = |comm: Comm, letter: u8, part: Option<u32>, code: u64| {
        let parent = NCCL.get(key(comm)).filter(|parent| parent.id != CommId::NONE)?.id;
        let numbered = OrdinalKey { handle: key(comm), letter, code };
        let creation =
            Creation { parent: Some(parent), letter, n: NCCL.number(numbered), part, code, operation };
        Some((parent, numbered, creation))
    };
    let of_child = |(parent, numbered, creation): (CommId, OrdinalKey, Creation),
                    new: Option<*const Comm>| {
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
            let n = NCCL.number(OrdinalKey { handle: 0, letter: b'u', code: 0 });
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
    // SAFETY: if the pointer is not null, there are as many bytes.
    if ids.is_null() { &[] } else { unsafe { slice::from_raw_parts(ids, bytes) } }
}

/// More bytes than keeping a name takes.
const LABEL_BYTES: usize = 1 << 12;

/// The name in a configuration, if there is one.
///
/// # Safety
/// The pointer is null, or that of a configuration which the program passes to NCCL.
unsafe fn label_of(config: *const Config) -> Option<String> {
    // SAFETY: the pointer is null, or that of a configuration which NCCL reads in the same call.
    let name = unsafe { Config::name(config) }?;
    if !memory::is_left(LABEL_BYTES) {
        return None;
    }
    // SAFETY: NCCL reads the name to its zero in the same call.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    Some(name.chars().take(LABEL_BYTES / 16).collect())
}
