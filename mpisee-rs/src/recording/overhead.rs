//! Calibration: measures at init what recording a call, a message and a request costs on this
//! machine, so that the report can state the profiler's share of the run. It takes tens of
//! microseconds; the fastest round counts.

use crate::mpi::abi::{Comm, Raw};
use crate::recording::add_sent;
use crate::recording::cached_counter::rarely;
use crate::recording::comm_call::{CommCall, NO_SPREAD};
use crate::state::communicator::{COMMUNICATORS, Communicator};
use crate::state::process::{self, Mode};
use crate::state::request::REQUESTS;
use crate::state::sampled_overhead;
use crate::state::thread;
use crate::state::world::World;
use crate::storage::clock;
use mpisee_profile::segment::SlotKey;
use mpisee_profile::segment::layout::overhead;
use mpisee_profile::{CommId, CommRank, Operation};
use std::hint::black_box;
use std::sync::atomic::Ordering;

const ROUNDS: usize = 8;
const TRIES: u64 = 125;
/// Keys of calibration slots, which are in no table.
const CALIBRATED_CALL: u32 = 1;
const CALIBRATED_MESSAGE: u32 = 2;

/// Measures the parts of recording and stores their costs in the segment; before recording begins.
pub fn find_out(world: &World) {
    let overheads = &world.segment.header().overhead;
    process::set_mode(Mode::Recording);
    let (call, with_message) = calibrate(world);
    process::set_mode(Mode::Tracking);
    let request = per_thousand(|| REQUESTS.calibrate());
    overheads[overhead::THOUSAND_CALLS].store(call, Ordering::Relaxed);
    overheads[overhead::THOUSAND_MESSAGES].store(with_message.saturating_sub(call), Ordering::Relaxed);
    overheads[overhead::THOUSAND_REQUESTS].store(request, Ordering::Relaxed);
    // What has been rare until now is part of what the profiler adds to `MPI_Init`.
    overheads[overhead::RARE].store(0, Ordering::Relaxed);
}

/// Stores the time that the profiler adds to `MPI_Init`: from `began_ns` on the monotonic clock
/// until now.
pub fn note_init(world: &World, began_ns: u64) {
    let took_ns = clock::monotonic_ns().saturating_sub(began_ns);
    world.segment.header().overhead[overhead::INIT_NS].store(took_ns, Ordering::Relaxed);
}

fn per_thousand(mut work: impl FnMut()) -> u64 {
    let round = |_| {
        let start = clock::ticks();
        (0..TRIES).for_each(|_| work());
        clock::since(start).get()
    };
    (0..ROUNDS).map(round).min().unwrap_or(0) * 1000 / TRIES
}

/// Ticks per thousand of recorded calls that repeat, without the calls to MPI; without a message,
/// and with the counting of its peer. They are counted in slots that are in no table.
fn calibrate(world: &World) -> (u64, u64) {
    let comm = Raw::new(world.predefined.world);
    // A program of sessions alone has no communicator yet.
    let stands_in = COMMUNICATORS.get(comm.get()).is_none();
    if stands_in {
        COMMUNICATORS.insert(Communicator::new(CommId::WORLD, comm.get(), CommRank::FIRST, 1));
    }
    let costs = time_calls(comm);
    if stands_in {
        COMMUNICATORS.forget(comm.get());
    }
    costs
}

fn time_calls(comm: Raw<Comm>) -> (u64, u64) {
    // No export is on the stack: the caller of one would be looked for further out, which takes
    // longer than in other calls.
    let begin = |comm| CommCall::begin_at(Operation::Barrier, comm, NO_SPREAD, 0);
    drop(begin(comm)); // the thread's state is made, and the call cached
    let slot = |number| rarely(|recorder| recorder.slot(SlotKey::nothing(number))).flatten();
    let (Some(calls), Some(messages)) = (slot(CALIBRATED_CALL), slot(CALIBRATED_MESSAGE)) else {
        return (0, 0);
    };
    let call = |message: bool| {
        let Some(call) = begin(black_box(comm)) else { return };
        let (bytes, ticks) = call.time(|| black_box(1u64));
        call.calibrate(black_box(calls), bytes, ticks);
        if message {
            add_sent(black_box(messages), 1, bytes);
        }
    };
    let Some(thread) = thread::own() else { return (0, 0) };
    sampled_overhead::rest(thread.active_call);
    let of_calls = per_thousand(|| call(false));
    let with_messages = per_thousand(|| call(true));
    sampled_overhead::calibrate(thread.active_call, of_calls / 1000, || call(false));
    (of_calls, with_messages)
}
