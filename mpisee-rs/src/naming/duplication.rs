//! `MPI_Comm_idup`, whose agreement must not block: it goes on beside the call and ends with its request.

use super::{Birth, Parent, TopologyFrom, agreed, enter, log_about};
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
    id: u32,
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
    let agreement = if parent.keeps_next_number() {
        // A nonblocking agreement over both groups would need two steps, and with other worlds there is none.
        // The next number is equal on all members already.
        let n = parent.next_number;
        agreed(process, parent, n);
        Box::new(Nonblocking { own: n as c_int, most: n as c_int, request: None })
    } else {
        // The own count grows at once: another agreement that begins before this one ends is to be larger.
        let own = process.communicators_so_far.fetch_add(1, Ordering::Relaxed);
        start_allreduce_max(process, parent, own)
    };
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let started = Duplication { parent: *parent, operation, place, agreement };
    let free = duplications.started.iter().position(Option::is_none);
    let number = free.unwrap_or(duplications.started.len());
    match free {
        Some(free) => duplications.started[free] = Some(started),
        None => duplications.started.push(Some(started)),
    }
    number as u32
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
    let birth = Birth {
        letter: b'i',
        operation: Some(done.operation),
        several: false,
        reorder: None,
        topology: TopologyFrom::Parent,
    };
    let mut agreement = done.agreement;
    let ended = agreement.poll(process, false);
    let n = if ended { agreement.most as u32 } else { NONE };
    let id = enter(process, comm, &Parent::Known(&done.parent), birth, n);
    if ended {
        process.communicators_so_far.fetch_max(n + 1, Ordering::Relaxed);
    } else {
        duplications.unnumbered.push(Unnumbered { id, agreement });
    }
}

/// Ends the agreements that can be ended; all of them if it may wait.
pub fn finish_duplications(process: &Process, wait: bool) {
    let mut duplications = DUPLICATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    duplications.unnumbered.retain_mut(|duplicate| {
        let ended = duplicate.agreement.poll(process, wait);
        if ended {
            let n = duplicate.agreement.most as u32;
            process.communicators_so_far.fetch_max(n + 1, Ordering::Relaxed);
            log_about(process, duplicate.id, |id| Record::Numbered { id, n });
        }
        !ended
    });
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
