//! How long the GPU works on calls of NCCL, by option.
//!
//! A call returns when its work is in the stream. So an event is put into the stream before and
//! after the call, and some later call asks whether the GPU has come to the second one. Waiting on
//! the GPU for the other ranks is in the time, as it is in that of a call of MPI. Nothing waits for
//! the GPU: what it has not done when the process ends has no time, and counts as not timed.

use super::Recorder;
use crate::recording::RecordedCall;
use crate::state::gpu::cuda_events::{self, Elapsed, Pair};
use crate::state::world;
use crate::storage::counters::{add, update};
use mpisee_in_process::guards::{errno, floating_point};
use mpisee_profile::nccl::{Comm, NcclCall, Stream};
use mpisee_profile::segment::SlotKey;
use mpisee_profile::segment::key::{GpuTimeKey, size_class};
use mpisee_profile::segment::layout::gpu_time;
use mpisee_profile::{CommId, Operation, RegionId};
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls whose time the GPU has not got yet, at most.
const MOST_PENDING: usize = 4096;
/// Calls that are asked about in a call, which adds one.
const MOST_ASKED: usize = 4;

/// A call that was made.
struct Pending {
    pair: Pair,
    /// The address of the stream, which is not used any more.
    stream: usize,
    key: SlotKey,
    bytes: u64,
}

impl Pending {
    /// The stream that does its work, as that is named in its context.
    fn place(&self) -> Place {
        (self.pair.context_id(), self.stream)
    }
}

/// A context and a stream in it.
type Place = (u64, usize);
/// The address that stands for a communicator.
type Handle = usize;

/// The calls that were made, by stream, and in which contexts. A stream does its work in order, so
/// that only its first call is asked about.
///
/// The program may destroy a context in one thread while another one communicates in its own. So
/// the driver is asked about a context only in a call on a communicator that works there.
struct Calls {
    pending: Vec<(Place, VecDeque<Pending>)>,
    /// The calls in all streams.
    count: usize,
    /// The stream from which on one is looked for.
    next: usize,
    /// The contexts in which communicators that are alive have worked, by their numbers. A process
    /// with several GPUs has a handle for each in a communicator.
    contexts: Vec<(Handle, u64)>,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls::NONE);

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    const NONE: Calls = Calls { pending: Vec::new(), count: 0, next: 0, contexts: Vec::new() };

    /// Keeps a call on a communicator; returns it if there is no room.
    fn keep(&mut self, comm: Handle, call: Pending) -> Option<Pending> {
        let context = call.pair.context_id();
        if !self.contexts.contains(&(comm, context)) {
            self.contexts.push((comm, context));
        }
        if self.count >= MOST_PENDING {
            return Some(call);
        }
        self.of_stream(call.place()).push_back(call);
        self.count += 1;
        None
    }

    fn of_stream(&mut self, place: Place) -> &mut VecDeque<Pending> {
        let known = self.pending.iter().position(|&(of, _)| of == place);
        let at = known.unwrap_or_else(|| {
            self.pending.push((place, VecDeque::new()));
            self.pending.len() - 1
        });
        &mut self.pending[at].1
    }

    /// Takes the first call of the next stream of a context but of these.
    fn take_next(&mut self, context: u64, but: &[Place]) -> Option<Pending> {
        let streams = self.pending.len();
        let is_meant = |&at: &usize| self.pending[at].0.0 == context && !but.contains(&self.pending[at].0);
        let at = (0..streams).map(|from_next| (self.next + from_next) % streams).find(is_meant)?;
        let taken = self.pending[at].1.pop_front();
        self.count -= usize::from(taken.is_some());
        self.next = at + 1;
        if self.pending[at].1.is_empty() {
            self.pending.swap_remove(at);
        }
        taken
    }

    /// Puts a call back to where it was taken from.
    fn put_back(&mut self, call: Pending) {
        self.of_stream(call.place()).push_front(call);
        self.count += 1;
    }

    /// Takes all calls in a context.
    fn take_all(&mut self, context: u64) -> Vec<Pending> {
        std::iter::from_fn(|| self.take_next(context, &[])).collect()
    }
}

/// Returns whether calls are timed.
pub fn is_on() -> bool {
    world::world().is_some_and(|world| world.options.nccl_gpu_time)
}

/// The work of a call in its stream.
pub struct Timing {
    /// `None` if it cannot be timed.
    pair: Option<Pair>,
    comm: Handle,
    stream: Stream,
}

/// The work of a call, or of the calls of a group on one communicator.
#[derive(Clone, Copy)]
pub struct Work {
    pub comm: CommId,
    /// The region in which the program is.
    pub region: RegionId,
    pub operation: Operation,
    /// The bytes of its message.
    pub message: u64,
    /// This process's part of the volume.
    pub bytes: u64,
}

impl Timing {
    /// Marks the begin of a call that is about to be made.
    pub fn begin(call: &NcclCall, comm: Comm, stream: Stream) -> Option<Timing> {
        is_on().then(|| {
            let _errno = errno::keep();
            // SAFETY: the stream is that of the call, which the program is making.
            let begin = || unsafe { Pair::begin(stream, || (call.device)(comm)) };
            let pair = world::guarded(begin).flatten();
            Timing { pair, comm: comm.addr(), stream }
        })
    }

    /// A call that cannot be timed.
    pub fn none() -> Option<Timing> {
        is_on().then(|| Timing { pair: None, comm: 0, stream: ptr::null_mut() })
    }

    /// Marks the end of a call that has returned, and looks which earlier ones the GPU has done;
    /// `is_in_stream` says that its work is in the stream.
    pub fn end(mut self, recorder: &Recorder, work: Work, is_in_stream: bool) {
        let key = key(work);
        match self.pair.take() {
            // SAFETY: as in `begin`; the call has not returned to the program yet.
            Some(pair) if is_in_stream && unsafe { pair.end(self.stream) } => {
                let context = pair.context_id();
                let made = Pending { pair, stream: self.stream.addr(), key, bytes: work.bytes };
                let refused = calls().keep(self.comm, made);
                leave(recorder, refused);
                return take_some(recorder, context);
            }
            Some(pair) => pair.give_back(),
            None => {}
        }
        count_untimed(recorder, key);
    }
}

impl Drop for Timing {
    /// Of a call that has not returned, as of a thread that is cancelled in it.
    fn drop(&mut self) {
        if let Some(pair) = self.pair.take() {
            pair.give_back();
        }
    }
}

fn key(work: Work) -> SlotKey {
    let Work { comm: communicator, region, operation, message, .. } = work;
    let size_class = size_class(message);
    GpuTimeKey { communicator, region, operation: operation as u16, size_class }.pack()
}

/// Counts calls in a context that the GPU has done by now.
fn take_some(recorder: &Recorder, context: u64) {
    let mut not_yet = Vec::with_capacity(MOST_ASKED);
    for _ in 0..MOST_ASKED {
        // The lock is not held while the driver is asked.
        let Some(first) = calls().take_next(context, &not_yet) else { return };
        if let Err(first) = take(recorder, first) {
            not_yet.push(first.place());
            calls().put_back(first);
        }
    }
}

/// Counts a call, if the GPU has done it.
fn take(recorder: &Recorder, one: Pending) -> Result<(), Pending> {
    if !one.pair.is_alive() {
        count_untimed(recorder, one.key);
        return Ok(());
    }
    // The driver has times as numbers with a fraction.
    let (_errno, _floating_point) = (errno::keep(), floating_point::hold());
    match one.pair.elapsed() {
        Elapsed::NotYet => return Err(one),
        Elapsed::Ns(ns) => {
            count(recorder, &one, ns);
            one.pair.give_back();
        }
        Elapsed::Unknown => {
            count_untimed(recorder, one.key);
            one.pair.give_back();
        }
    }
    Ok(())
}

/// Ends the timing on a communicator that ends: all that was asked of it is done. Where no other
/// one works in its contexts, these may be destroyed next.
pub fn end_of_communicator(recorder: &Recorder, comm: Comm) {
    let contexts: Vec<u64> = {
        let Calls { contexts, .. } = &mut *calls();
        let (ended, others) = std::mem::take(contexts).into_iter().partition(|&(of, _)| of == comm.addr());
        *contexts = others;
        ended.into_iter().map(|(_, context)| context).collect()
    };
    for context in contexts {
        let all = calls().take_all(context);
        let left: Vec<Pending> = all.into_iter().filter_map(|one| take(recorder, one).err()).collect();
        if calls().contexts.iter().any(|&(_, of)| of == context) {
            // From behind, so that the first is in front again.
            left.into_iter().rev().for_each(|one| calls().put_back(one));
        } else {
            leave(recorder, left);
            cuda_events::destroy_free(context);
        }
    }
}

/// Counts calls as not timed that the GPU has not done.
fn leave(recorder: &Recorder, left: impl IntoIterator<Item = Pending>) {
    for Pending { pair, key, .. } in left {
        count_untimed(recorder, key);
        pair.give_back();
    }
}

/// Ends the timing at the end of the profile, while calls are still counted: what the GPU has not
/// done has no time.
pub fn end_of_profile() {
    end(|recorder, pending, contexts| {
        leave(recorder, pending.filter_map(|one| take(recorder, one).err()));
        contexts.into_iter().for_each(|(_, context)| cuda_events::destroy_free(context));
    });
}

/// The same in an exit handler, where the driver is asked nothing: it may be shutting down, and
/// NVIDIA says of no function that it may be called then.
pub fn end_at_exit() {
    end(|recorder, pending, _| pending.for_each(|one| count_untimed(recorder, one.key)));
}

fn end(with: impl FnOnce(&Recorder, &mut dyn Iterator<Item = Pending>, Vec<(Handle, u64)>)) {
    let end = |recorder: &Recorder| {
        let Calls { pending, contexts, .. } = std::mem::replace(&mut *calls(), Calls::NONE);
        with(recorder, &mut pending.into_iter().flat_map(|(_, calls)| calls), contexts);
    };
    if is_on()
        && let Some(call) = RecordedCall::if_tracking()
    {
        call.record(end);
    }
}

fn count(recorder: &Recorder, one: &Pending, ns: u64) {
    let Some(slot) = recorder.slot(one.key) else { return };
    update(slot, |values| {
        add(&values[gpu_time::CALLS], 1);
        add(&values[gpu_time::BYTES], one.bytes);
        add(&values[gpu_time::NS], ns);
        let shortest = values[gpu_time::SHORTEST_NS_PLUS_1].load(Ordering::Relaxed);
        if ns < shortest.wrapping_sub(1) {
            values[gpu_time::SHORTEST_NS_PLUS_1].store(ns.saturating_add(1), Ordering::Relaxed);
        }
        if ns > values[gpu_time::LONGEST_NS].load(Ordering::Relaxed) {
            values[gpu_time::LONGEST_NS].store(ns, Ordering::Relaxed);
        }
    });
}

fn count_untimed(recorder: &Recorder, key: SlotKey) {
    if let Some(slot) = recorder.slot(key) {
        update(slot, |values| add(&values[gpu_time::UNTIMED], 1));
    }
}
