//! Messages of the host's memory, as a GPU tracer that counts copies wants them: it looks for copies that were right before a send,
//! or right after a receive.

use mpisee_profile::segment::active_call;
use mpisee_profile::{CommId, Operation};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Takes a message: the communicator's number, the buffer, its bytes, and 1 if it is sent, 0 if received.
pub type Communicated = extern "C" fn(u32, *const c_void, u64, c_int);

/// [`Communicated`] of the tracer; null if there is none that counts copies.
static COMMUNICATED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// The buffers of the call in progress, until it is counted: first the one that is sent, where there are two.
    static ADDRESSES: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

/// Messages are reported from now on.
pub fn attach(communicated: Communicated) {
    COMMUNICATED.store(communicated as *mut c_void, Ordering::Release);
}

fn counts_copies() -> bool {
    !COMMUNICATED.load(Ordering::Relaxed).is_null()
}

fn communicated(communicator: CommId, buffer: *const c_void, bytes: u64, is_sent: bool) {
    let function = COMMUNICATED.load(Ordering::Acquire);
    if !function.is_null() {
        // SAFETY: only a function of this type is stored.
        let function = unsafe { transmute::<*mut c_void, Communicated>(function) };
        function(communicator.get(), buffer, bytes, c_int::from(is_sent));
    }
}

/// Notes the buffers of a call that begins, if there is a tracer that counts copies.
pub fn note(buffers: &[*const c_void]) {
    if counts_copies() {
        ADDRESSES.set([0, 1].map(|at| buffers.get(at).map_or(0, |buffer| buffer.addr())));
    }
}

/// Tells the tracer of a message, once; `call` is a word as of [`active_call::pack`].
pub fn report(call: u64, message: u64) {
    if !counts_copies() {
        return;
    }
    let [first, second] = ADDRESSES.replace([0; 2]);
    let Some(active_call::CurrentFunction::Operation(operation)) = active_call::call_of(call) else { return };
    let communicator = active_call::communicator_of(call);
    let (sent, received) = match Direction::of(operation, message) {
        Direction::None => return,
        Direction::Sent(bytes) => ((first, bytes), (0, 0)),
        Direction::Received(bytes) => ((0, 0), (if second == 0 { first } else { second }, bytes)),
        Direction::Both(bytes) => ((first, bytes), (if second == 0 { first } else { second }, bytes)),
    };
    for ((address, bytes), is_sent) in [(sent, true), (received, false)] {
        if address != 0 && bytes > 0 {
            communicated(communicator, ptr::without_provenance(address), bytes, is_sent);
        }
    }
}

/// The direction of a message, as this process sees it, with its bytes. Where only one part of a buffer is known, as of gathering
/// calls, that alone counts.
enum Direction {
    None,
    Sent(u64),
    Received(u64),
    Both(u64),
}

impl Direction {
    fn of(operation: Operation, message: u64) -> Direction {
        use Operation::*;
        match operation {
            Send | Bsend | Ssend | Rsend | Isend | Ibsend | Issend | Irsend | Put | Rput | Accumulate
            | Raccumulate | Allgather | Iallgather | Allgatherv | Iallgatherv | Gather | Igather
            | Gatherv | Igatherv | Reduce | Ireduce => Direction::Sent(message),
            Recv | Irecv | Mrecv | Imrecv | Get | Rget | Scatter | Iscatter | Scatterv | Iscatterv
            | ReduceScatter | IreduceScatter | ReduceScatterBlock | IreduceScatterBlock => {
                Direction::Received(message)
            }
            // The counted message is both directions'.
            Sendrecv | SendrecvReplace | Isendrecv | IsendrecvReplace => Direction::Both(message / 2),
            Bcast | Ibcast | Allreduce | Iallreduce | Scan | Iscan | Exscan | Iexscan | Alltoall
            | Ialltoall | Alltoallv | Ialltoallv | Alltoallw | Ialltoallw | NeighborAlltoall
            | IneighborAlltoall | NeighborAlltoallv | IneighborAlltoallv | NeighborAlltoallw
            | IneighborAlltoallw => Direction::Both(message),
            _ => Direction::None,
        }
    }
}
