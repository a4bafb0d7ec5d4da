//! Messages of the host's memory, as a GPU tracer that counts copies wants them: it looks for
//! copies that were right before a send, or right after a receive.

use crate::mpi::abi::IN_PLACE;
use mpisee_profile::rows::Memory;
use mpisee_profile::{CommId, Operation};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Takes a message: the communicator's number, the buffer, its bytes, and 1 if it is sent, 0 if
/// received.
pub type Communicated = extern "C" fn(u32, *const c_void, u64, c_int);

/// [`Communicated`] of the tracer; null if there is none that counts copies.
static COMMUNICATED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// The buffers of the call in progress, until it is counted: the one that is sent, and the one
    /// that is received; 0 for none.
    static ADDRESSES: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

/// The buffers of a rooted call that this process uses. MPI does not look at the others, whose
/// addresses may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// The one that it sends and the one that it receives.
    Both,
    /// The one that it sends.
    Sent,
    /// The one that it receives.
    Received,
    /// None.
    Neither,
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
        ADDRESSES.set(match *buffers {
            [only] => [only.addr(); 2],
            [sent, received] => [sent.addr(), received.addr()],
            _ => [0; 2],
        });
    }
}

/// Leaves out what this process does not use of them.
pub fn leave_unused(used: Used) {
    let [sent, received] = ADDRESSES.get();
    ADDRESSES.set(match used {
        Used::Both => [sent, received],
        Used::Sent => [sent, 0],
        Used::Received => [0, received],
        Used::Neither => [0; 2],
    });
}

/// Tells the tracer, once, of the message of a call that has buffers, which is counted with
/// `bytes`. `kinds` are those of the buffer that is sent and the one that is received; of a
/// device's memory no copy is looked for.
pub fn report(
    operation: Operation,
    communicator: CommId,
    [message, bytes]: [u64; 2],
    mut kinds: [Memory; 2],
) {
    if !counts_copies() {
        return;
    }
    let [mut sent, mut received] = ADDRESSES.replace([0; 2]);
    let direction = Direction::from_operation(operation);
    if received == IN_PLACE.addr() {
        received = 0;
    }
    if sent == IN_PLACE.addr() {
        // What is sent is where the result will be; of gathers it is somewhere in the middle.
        sent = if direction == Direction::SentWhole { 0 } else { received };
        kinds[0] = kinds[1];
    }
    let received_bytes =
        if direction == Direction::Exchange { bytes.saturating_sub(message) } else { message };
    let is_sent = !matches!(direction, Direction::None | Direction::Received);
    let is_received = matches!(direction, Direction::Received | Direction::Both | Direction::Exchange);
    let [is_sent, is_received] =
        [is_sent && kinds[0] != Memory::Device, is_received && kinds[1] != Memory::Device];
    for (address, is_known, bytes, is_sent) in
        [(sent, is_sent, message, true), (received, is_received, received_bytes, false)]
    {
        if is_known && address != 0 && bytes > 0 {
            communicated(communicator, ptr::without_provenance(address), bytes, is_sent);
        }
    }
}

/// The direction of a message, as this process sees it. Where only one part of a buffer is known,
/// as of gathering calls, that alone counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    None,
    Sent,
    /// As [`Direction::Sent`], of calls that have it elsewhere than at the begin of the buffer, if
    /// it is in place.
    SentWhole,
    Received,
    /// As much is received as is sent.
    Both,
    /// The message is the one that is sent, and the call counts both directions' bytes.
    Exchange,
}

impl Direction {
    fn from_operation(operation: Operation) -> Direction {
        use Operation::*;
        match operation {
            Send | Bsend | Ssend | Rsend | Isend | Ibsend | Issend | Irsend | Put | Rput | Accumulate
            | Raccumulate | Reduce | Ireduce => Direction::Sent,
            // How much is received from each differs from what is sent.
            Alltoallv | Ialltoallv | Alltoallw | Ialltoallw | NeighborAlltoallv | IneighborAlltoallv
            | NeighborAlltoallw | IneighborAlltoallw => Direction::Sent,
            Allgather | Iallgather | Allgatherv | Iallgatherv | Gather | Igather | Gatherv | Igatherv => {
                Direction::SentWhole
            }
            Recv | Irecv | Mrecv | Imrecv | Get | Rget | Scatter | Iscatter | Scatterv | Iscatterv
            | ReduceScatter | IreduceScatter | ReduceScatterBlock | IreduceScatterBlock => {
                Direction::Received
            }
            Sendrecv | SendrecvReplace => Direction::Exchange,
            Bcast | Ibcast | Allreduce | Iallreduce | Scan | Iscan | Exscan | Iexscan | Alltoall
            | Ialltoall | NeighborAlltoall | IneighborAlltoall => Direction::Both,
            // What a nonblocking call receives is known only when it is complete.
            Isendrecv | IsendrecvReplace => Direction::Both,
            _ => Direction::None,
        }
    }
}
