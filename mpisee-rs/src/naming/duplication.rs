//! `MPI_Comm_idup`, whose agreement must not block: it goes on beside the call and ends with its request.

use super::folding::{Kin, Newborn};
use super::{Birth, Number, Parent, agreed, describe, enter_as, log_about, next_number};
use crate::abi::{Comm, Raw, Request, STATUS_IGNORE};
use crate::argument::Place;
use crate::communicator::Communicator;
use crate::generated::pmpi;
use crate::process::Process;
use crate::record::Recorder;
use mpisee_profile::Operation;
use mpisee_profile::segment::log::{NONE, Record};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// An `MPI_Comm_idup` on its way. Its agreement is a nonblocking one, started just before it.
struct Duplication {
    parent: Communicator,
    operation: Operation,
    /// Where the application gets the handle; it stays valid until the request completes.
    place: Place<Comm>,
    /// Where it is counted, which is decided when it starts, in the order that all members have.
    kin: Kin,
    agreement: Box<Nonblocking>,
}

/// A `PMPI_Iallreduce` of one number; boxed, since the library holds on to its addresses.
struct Nonblocking {
    own: c_int,
    most: c_int,
    request: Option<Request>,
}

/// A duplicate that is in use before the agreement on its number ended.
struct Unnumbered {
    /// Its row.
    id: u32,
    needs_number: bool,
    agreement: Box<Nonblocking>,
}

#[derive(Default)]
struct Duplications {
    /// By the number in [`crate::request::Kind::Duplication`].
    started: Vec<Option<Duplication>>,
    unnumbered: Vec<Unnumbered>,
}

// SAFETY: handles are names, and `place` is used by the thread that completes the request.
unsafe impl Send for Duplications {}

static DUPLICATIONS: Mutex<Duplications> =
    Mutex::new(Duplications { started: Vec::new(), unnumbered: Vec::new() });

/// Begins the agreement on an `MPI_Comm_idup` of `parent`, which must not block. Returns its number among
/// those on their way.
pub fn start_duplication(
    process: &Process,
    parent: &Communicator,
    operation: Operation,
    place: Place<Comm>,
) -> u32 {
    finish_duplications(process, false);
    let kin = begin(process, parent, Birth::by(operation));
    let agreement = if parent.keeps_next_number() {
        // A nonblocking agreement over both groups would need two steps, and with other worlds there is none.
        // The next number is equal on all members already.
        let n = next_number(process, parent);
        agreed(process, parent, n);
        Box::new(Nonblocking { own: n as c_int, most: n as c_int, request: None })
    } else {
        // The own count grows at once, if the number is needed: another agreement that begins before this one ends
        // is to be larger.
        let more = u32::from(kin.needs_number());
        let own = process.communicators_so_far.fetch_add(more, Ordering::Relaxed);
        start_allreduce_max(process, parent, own)
    };
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let started = Duplication { parent: *parent, operation, place, kin, agreement };
    let free = duplications.started.iter().position(Option::is_none);
    let number = free.unwrap_or(duplications.started.len());
    match free {
        Some(free) => duplications.started[free] = Some(started),
        None => duplications.started.push(Some(started)),
    }
    number as u32
}

/// Decides where a duplicate will be counted. It will be what its parent is.
fn begin(process: &Process, parent: &Communicator, birth: Birth) -> Kin {
    let known = Parent::Known(parent);
    let described = describe(process, parent.comm, &known, birth, NONE);
    let text = described.topology.as_ref().map(|topology| topology.text.as_str());
    process.folding.decide(
        process,
        &Newborn { comm: parent.comm, parent: &known, birth, created: described.created, topology: text },
    )
}

fn start_allreduce_max(process: &Process, parent: &Communicator, own: u32) -> Box<Nonblocking> {
    let mut boxed = Box::new(Nonblocking { own: own as c_int, most: own as c_int, request: None });
    if parent.size > 1 {
        let mut request = process.predefined.request_null;
        let (from, to): (*const c_void, *mut c_void) =
            ((&raw const boxed.own).cast(), (&raw mut boxed.most).cast());
        let (int, max) = (Raw::new(process.predefined.int), Raw::new(process.predefined.max));
        // SAFETY: the buffers are in the box, which is kept until the request completes.
        unsafe { pmpi::MPI_Iallreduce.get()(from, to, 1, int, max, Raw::new(parent.comm), &raw mut request) };
        boxed.request = Some(request);
    }
    boxed
}

/// Whether the program called `MPI_Comm_idup`.
pub fn has_duplicated() -> bool {
    !DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner).started.is_empty()
}

/// The `MPI_Comm_idup` with this number was not made after all.
pub fn abandon_duplication(number: u32) {
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(abandoned) = duplications.started.get_mut(number as usize).and_then(Option::take) {
        // The library may still write to it.
        Box::leak(abandoned.agreement);
    }
}

/// The request of an `MPI_Comm_idup` completed.
pub fn duplicated(recorder: &Recorder, number: u32) {
    let process = recorder.process;
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(done) = duplications.started.get_mut(number as usize).and_then(Option::take) else { return };
    // SAFETY: the standard has the application keep the place until now, and the library filled it.
    let comm = unsafe { done.place.handle() };
    let mut agreement = done.agreement;
    let ended = agreement.poll(process, false);
    let n = if ended { agreement.most as u32 } else { NONE };
    let parent = Parent::Known(&done.parent);
    let number = Number::of_another_count(n);
    let mut id = enter_as(process, comm, &parent, Birth::by(done.operation), number, Some(done.kin));
    if let Kin::Row { row, .. } = done.kin {
        id = row;
    }
    let needs_number = done.kin.needs_number();
    let unnumbered = Unnumbered { id, needs_number, agreement };
    match (ended, done.kin) {
        (false, _) => duplications.unnumbered.push(unnumbered),
        (true, Kin::Single) => {
            process.communicators_so_far.fetch_max(n + 1, Ordering::Relaxed);
        }
        (true, _) => unnumbered.finish(process),
    }
}

/// Ends the agreements that can be ended; all of them if it may wait.
pub fn finish_duplications(process: &Process, wait: bool) {
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    duplications.unnumbered.retain_mut(|duplicate| {
        let ended = duplicate.agreement.poll(process, wait);
        if ended {
            duplicate.finish(process);
        }
        !ended
    });
}

impl Unnumbered {
    /// The agreement has ended.
    fn finish(&self, process: &Process) {
        if self.needs_number {
            let n = self.agreement.most as u32;
            process.communicators_so_far.fetch_max(n + 1, Ordering::Relaxed);
            log_about(process, self.id, |id| Record::Numbered { id, n });
        }
    }
}

impl Nonblocking {
    /// Whether it has ended.
    fn poll(&mut self, process: &Process, wait: bool) -> bool {
        let Some(request) = &mut self.request else { return true };
        let mut flag = 0;
        // SAFETY: the request is ours; flag and request are written.
        unsafe {
            if wait {
                pmpi::MPI_Wait.get()(request, STATUS_IGNORE);
                flag = 1;
            } else {
                pmpi::MPI_Test.get()(request, ptr::from_mut(&mut flag), STATUS_IGNORE);
            }
        }
        debug_assert!(flag == 0 || *request == process.predefined.request_null);
        if flag != 0 {
            self.request = None;
        }
        flag != 0
    }
}
