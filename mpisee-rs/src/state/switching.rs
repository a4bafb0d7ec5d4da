//! Recording on and off: by the program, by an option, and by a request from outside while the
//! program runs; and readings of MPI's variables that another process asks for.
//!
//! A request comes through the segment, see [`mpisee_profile::segment::switch_request`]. No call
//! that is recorded looks for one: whoever asks marks the slots of the threads' calls in progress,
//! so that the next call of a thread finds its slot in a state that it takes out of line. A mark is
//! lost where a call ends at the same moment; so a thread also looks when it has measured a call,
//! see [`super::sampled_overhead`], and when it makes its first one.

use super::process::{self, Mode};
use super::stack::{self, Nesting};
use super::variables;
use super::world::{self, World};
use crate::storage::clock;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::Header;
use mpisee_profile::segment::switch_request::{FollowedRequest, SwitchRequest};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The last request that a thread took upon itself.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Run at each switch, before recording is on or off.
static AT_SWITCH: OnceLock<fn(&World, bool)> = OnceLock::new();

/// Sets what is run at each switch, before recording is on or off.
pub fn at_switch(run: fn(&World, bool)) {
    let _ = AT_SWITCH.set(run);
}

/// Held while recording is switched: what is kept at a switch counts each once.
static SWITCHING: Mutex<()> = Mutex::new(());

/// Switches recording on or off.
pub fn switch(world: &World, on: bool) {
    let _one_at_a_time = SWITCHING.lock().unwrap_or_else(PoisonError::into_inner);
    if process::is_recording() != on
        && let Some(run) = AT_SWITCH.get()
    {
        run(world, on);
    }
    let switches = &world.segment.header().switches;
    let so_far = switches.load(Ordering::Relaxed);
    let is_off = !so_far.is_multiple_of(2);
    if is_off == on {
        switches.store(so_far + 1, Ordering::Relaxed);
    }
    variables::switch(on);
    process::set_mode(if on { Mode::Recording } else { Mode::Tracking });
}

/// Returns whether there is a request that was not followed yet.
pub fn is_pending(world: &World) -> bool {
    let header = world.segment.header();
    header.switch_request.load(Ordering::Relaxed) != TAKEN.load(Ordering::Relaxed)
        || are_variables_asked(header)
}

fn are_variables_asked(header: &Header) -> bool {
    header.variables_asked.load(Ordering::Relaxed) != header.variables_read.load(Ordering::Relaxed)
}

/// Follows a request, if there is one. The calling thread is in no call.
///
/// PERF: `extern "C"`, so that the compiler knows that it never unwinds; else what calls it takes
/// precautions before it does.
#[cold]
#[inline(never)]
pub extern "C" fn follow() {
    world::guarded(|| {
        let Some(world) = world::world().filter(|world| process::is_tracking() && is_pending(world)) else {
            return;
        };
        let header = world.segment.header();
        if are_variables_asked(header) {
            let asked = header.variables_asked.load(Ordering::Acquire);
            variables::read_for_another();
            header.variables_read.store(asked, Ordering::Release);
        }
        let word = header.switch_request.load(Ordering::Relaxed);
        if TAKEN.swap(word, Ordering::Relaxed) == word {
            return; // There is none, or another thread follows it.
        }
        if let Some(request) = SwitchRequest::from_word(word) {
            switch(world, request.on);
            let followed = FollowedRequest { request, at_ns: clock::realtime_ns() };
            world.segment.log(&Fact::FollowedRequest.record(followed.text()));
        }
        header.followed_switch_request.store(word, Ordering::Release);
    });
}

/// Follows a request while recording is off, at a call on a communicator.
#[cold]
#[inline(never)]
pub extern "C" fn follow_while_off() {
    // A call of the MPI library itself may be part of one of the program's, which began while
    // recording was off.
    if world::world().is_some_and(is_pending) && stack::nesting(None) != Nesting::ByLibrary {
        follow();
    }
}
