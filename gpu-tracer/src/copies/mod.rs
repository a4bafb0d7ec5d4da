//! Copies that the host asks for, and launches: counted as the driver is called, by a backend that
//! reports both ends of each call.

mod counts;
pub mod function;
mod memory;
mod recent;
pub mod shape;

use crate::counting::file::Output;
use crate::process::{self, python};
use counts::{CounterKey, Counts};
use function::{Function, Stream};
use memory::{Device, LocatedMemory};
use mpisee_profile::gpu::CopyValues;
use mpisee_profile::rows::Memory;
use recent::{Recent, ToHost};
use shape::{Operand, Transfer};
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The state of the process.
struct State {
    counts: Counts,
    recent: Recent<FunctionKind>,
    /// Copies whose bytes are not known, since the last note of them.
    without_bytes: u64,
    /// Those of [`LATE`] that are in a note.
    noted_late: u64,
}

/// A copy to the host.
#[derive(Clone, Copy, Debug)]
struct FunctionKind {
    memory: Memory,
    is_async: bool,
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();
/// True if the process is ending, see [`end`].
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// True once a stream was captured: from then on streams are queried for it.
static HAS_CAPTURED: AtomicBool = AtomicBool::new(false);
/// Calls that an error of ours has kept out of the counters, since the last note of them.
static MISSED: AtomicU64 = AtomicU64::new(0);
/// Calls while the process was ending.
static LATE: AtomicU64 = AtomicU64::new(0);

/// A call in progress of a thread.
#[derive(Clone, Copy)]
struct Outermost {
    /// The calls that are counted and that this one is in, itself one of them.
    depth: u32,
    /// When the outermost began.
    begin: Option<Instant>,
}

thread_local! {
    static CALL: Cell<Outermost> = const { Cell::new(Outermost { depth: 0, begin: None }) };
}

/// Begins to count, into that file.
pub fn start(output: Output<CopyValues>) {
    let state = State { counts: Counts::new(output), recent: Recent::new(), without_bytes: 0, noted_late: 0 };
    let _ = STATE.set(Mutex::new(state));
    memory::find_functions();
    // The first copy has a line, too.
    look_for_python();
}

/// Looks for a Python that is loaded by now. That may take the loader's lock, which a thread that
/// waits for ours may hold.
fn look_for_python() {
    if let Some(sentence) = python::look()
        && let Some(mut state) = lock()
    {
        state.counts.note(&sentence);
    }
}

/// The process is ending. Calls are no longer looked at: that would query the driver, which another
/// thread may be shutting down by now. NVIDIA says of no function that it may be called then.
pub fn end() {
    HAS_ENDED.store(true, Ordering::Relaxed);
}

fn lock() -> Option<MutexGuard<'static, State>> {
    STATE.get().map(|state| state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Acts in a thread of the program, where nothing shows of it. No panic unwinds into the driver or
/// into MPI.
fn guarded(act: impl FnOnce()) {
    let _hidden = process::hide();
    if catch_unwind(AssertUnwindSafe(act)).is_err() {
        MISSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A stream is captured from now on: its work becomes part of a graph.
pub fn capture_begins() {
    HAS_CAPTURED.store(true, Ordering::Relaxed);
}

/// A function that is counted was called.
pub fn entered() {
    let Outermost { depth, begin } = CALL.get();
    let begin = if depth == 0 { Some(Instant::now()) } else { begin };
    CALL.set(Outermost { depth: depth + 1, begin });
}

/// It returns. `is_of_thread`: null is the thread's default stream.
///
/// # Safety
/// The parameters are those of a call of the function.
pub unsafe fn returned(
    function: &'static Function,
    is_of_thread: bool,
    parameters: *const c_void,
    succeeded: bool,
) {
    let Outermost { depth, begin } = CALL.get();
    CALL.set(Outermost { depth: depth.saturating_sub(1), begin });
    // Of calls in calls the outermost counts.
    let Some(begin) = begin.filter(|_| depth == 1 && succeeded && !parameters.is_null()) else { return };
    if HAS_ENDED.load(Ordering::Relaxed) {
        LATE.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let nanoseconds = begin.elapsed().as_nanos() as u64;
    // SAFETY: the parameters are those of this call, which succeeded.
    guarded(|| unsafe { count(function, is_of_thread, parameters, nanoseconds) });
}

/// # Safety
/// The parameters are those of a call of the function which succeeded.
unsafe fn count(
    function: &'static Function,
    is_of_thread: bool,
    parameters: *const c_void,
    nanoseconds: u64,
) {
    if HAS_CAPTURED.load(Ordering::Relaxed) {
        // SAFETY: the parameters are those of a call of this function.
        let stream = unsafe { function.stream.handle(parameters) };
        if stream.is_some_and(|stream| memory::is_captured(stream, is_of_thread)) {
            return;
        }
    }
    let call = Call { function, device: memory::current_device(), line: python::line() };
    // SAFETY: the parameters are those of a call of this function, which succeeded.
    let number = unsafe { function.shape.number(parameters) };
    // Of a batch, each has an equal part of the time; the first ones have what is left of the
    // division.
    let copies = number.max(1) as u64;
    let (share, rest) = (nanoseconds / copies, nanoseconds % copies);
    for begin in (0..number).step_by(PIECE) {
        let piece: [Option<Located>; PIECE] = std::array::from_fn(|at| {
            let at = begin + at;
            (at < number).then(|| {
                // SAFETY: the parameters are those of a call of this function which succeeded, and
                // has this number of copies.
                let copy = unsafe { function.shape.copy(parameters, at, memory::bytes_of_element) };
                let (from, to) = (memory::find(copy.from), memory::find(copy.to));
                Located { copy, from, to, nanoseconds: share + u64::from((at as u64) < rest) }
            })
        });
        call.add(&piece);
    }
}

/// Copies of a batch that are counted together. The driver is queried about all of them before the
/// lock is taken, and no memory is allocated for them, as a batch may have any number. They lie on
/// the thread's stack, which may be small.
const PIECE: usize = 8;

/// A call that is counted.
struct Call {
    function: &'static Function,
    device: Device,
    line: String,
}

/// A copy with the memory of its ends, and its part of the call's time.
#[derive(Clone, Copy)]
struct Located {
    copy: Transfer,
    from: Option<LocatedMemory>,
    to: Option<LocatedMemory>,
    nanoseconds: u64,
}

impl Call {
    /// Adds copies of the call.
    fn add(&self, copies: &[Option<Located>]) {
        if self.add_locked(copies) {
            look_for_python();
        }
    }

    /// Returns whether a copy is the first of its kind.
    fn add_locked(&self, copies: &[Option<Located>]) -> bool {
        let Some(mut state) = lock() else { return false };
        let line = state.counts.line(&self.line);
        copies.iter().flatten().fold(false, |is_new, copy| state.add(self, line, copy) | is_new)
    }
}

impl State {
    /// Adds a copy of a call from a line. Returns whether it is the first of its kind.
    fn add(&mut self, call: &Call, line: u32, located: &Located) -> bool {
        let &Located { copy, from, to, nanoseconds } = located;
        let is_async = call.function.stream != Stream::Blocking;
        let key =
            CounterKey::Calls { call: call.function.name, is_async, device: call.device, from, to, line };
        let is_new = self.counts.add(key, copy.bytes.unwrap_or(0), nanoseconds);
        self.without_bytes += u64::from(copy.bytes.is_none());
        if let Some((to, _)) = to {
            self.keep(&copy, from.map(|(from, _)| from), to, is_async, nanoseconds);
        }
        is_new
    }

    /// Looks whether a copy is of what was received, and keeps it for what may be sent. What any
    /// other call writes to the host's memory takes the place of what was there.
    fn keep(&mut self, copy: &Transfer, from: Option<Memory>, to: Memory, is_async: bool, nanoseconds: u64) {
        let State { counts, recent, .. } = self;
        match (copy.from, copy.to, copy.bytes) {
            (_, Operand::At(begin, span), Some(bytes))
                if from == Some(Memory::Device) && to != Memory::Device =>
            {
                let kind = FunctionKind { memory: to, is_async };
                recent.copied_to_host(begin, ToHost { bytes, span, nanoseconds, kind });
            }
            (_, Operand::At(begin, span), _) if to != Memory::Device => recent.overwritten(begin, span),
            (Operand::At(begin, span), _, Some(bytes)) => {
                let Some(from) = from.filter(|&from| from != Memory::Device) else { return };
                let whole = ToHost { bytes, span, nanoseconds, kind: () };
                recent.copied_to_device(begin, span, |overlap, communicator| {
                    let portion = whole.portion(overlap);
                    let key = CounterKey::Staged { communicator, is_sent: false, memory: from, is_async };
                    counts.add(key, portion.bytes, portion.nanoseconds);
                });
            }
            _ => {}
        }
    }
}

impl State {
    /// Notes what counters lack, once.
    fn note_missing(&mut self) {
        let late = LATE.load(Ordering::Relaxed);
        let missing = [
            (
                MISSED.swap(0, Ordering::Relaxed),
                "copies or launches were not counted, by an error inside the GPU tracer",
            ),
            (
                late - std::mem::replace(&mut self.noted_late, late),
                "calls that copy, set memory or launch came while the process was ending, and are not counted",
            ),
            (
                std::mem::take(&mut self.without_bytes),
                "copies to or from arrays are counted without their bytes: the size of the arrays' elements is not known",
            ),
        ];
        for (number, sentence) in missing.into_iter().filter(|&(number, _)| number > 0) {
            self.counts.note(&format!("{number} {sentence}"));
        }
    }
}

/// MPI sent memory of the host, or received into it, on a communicator.
pub fn communicated(communicator: u32, begin: u64, bytes: u64, is_sent: bool) {
    // Of calls while the process was ending the memory is not known, and so not which copy wrote
    // this memory last.
    if LATE.load(Ordering::Relaxed) > 0 {
        return;
    }
    guarded(|| {
        let Some(mut state) = lock() else { return };
        let State { counts, recent, .. } = &mut *state;
        if !is_sent {
            return recent.received(communicator, begin, bytes);
        }
        recent.sent(begin, bytes, |overlap, copy| {
            let FunctionKind { memory, is_async } = copy.kind;
            let portion = copy.portion(overlap);
            let key = CounterKey::Staged { communicator, is_sent: true, memory, is_async };
            counts.add_unwritten(key, portion.bytes, portion.nanoseconds);
        });
    });
}

/// Completes the file, also while the process is ending, as `MPI_Finalize` may be called in an exit
/// handler. The error says why some of it could not be written.
pub fn complete() -> Result<(), String> {
    let mut failure = None;
    guarded(|| {
        let Some(mut state) = lock() else { return };
        state.note_missing();
        state.counts.write();
        failure = state.counts.failure().map(str::to_owned);
    });
    failure.map_or(Ok(()), Err)
}
