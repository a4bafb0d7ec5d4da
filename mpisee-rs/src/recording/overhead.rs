//! Calibration: measures at init what recording a call, a message and a request costs on this machine, so that the
//! report can state the profiler's share of the run. It takes tens of microseconds; the fastest round counts.

use crate::recording::{Call, CallSample};
use crate::state::request::REQUESTS;
use crate::state::world::World;
use crate::storage::clock;
use mpisee_profile::segment::Key;
use mpisee_profile::segment::layout::overhead;
use mpisee_profile::{CommId, Operation};
use std::hint::black_box;
use std::sync::atomic::Ordering;

const ROUNDS: usize = 8;
const TRIES: u64 = 125;
/// Keys of calibration slots, which are in no table.
const CALIBRATED_CALL: u32 = 1;
const CALIBRATED_MESSAGE: u32 = 2;

/// Measures the parts of recording and stores their costs in the segment.
pub fn find_out(world: &World) {
    let overheads = &world.segment.header().overhead;
    let call = per_thousand(|| calibrate(world, false));
    let with_message = per_thousand(|| calibrate(world, true));
    let request = per_thousand(|| REQUESTS.calibrate());
    overheads[overhead::THOUSAND_CALLS].store(call, Ordering::Relaxed);
    overheads[overhead::THOUSAND_MESSAGES].store(with_message.saturating_sub(call), Ordering::Relaxed);
    overheads[overhead::THOUSAND_REQUESTS].store(request, Ordering::Relaxed);
}

/// Stores the time that the profiler adds to `MPI_Init`: from `began_ns` on the monotonic clock until now.
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

/// A recorded call without the call to MPI; with `message`, also the counting of its peer.
fn calibrate(world: &World, message: bool) {
    let Some(call) = Call::if_tracking() else { return };
    let communicator = black_box(call.find(world.predefined.world));
    let id = communicator.map_or(CommId::NONE, |known| known.id());
    let (bytes, ticks) = call.time(Operation::Barrier, id, || black_box(1u64));
    call.record(|recorder| {
        recorder.count_call(&CallSample::for_calibration(Key::nothing(CALIBRATED_CALL), bytes, ticks));
        if message {
            recorder.count_sent(Key::nothing(CALIBRATED_MESSAGE), 1, bytes);
        }
    });
}
