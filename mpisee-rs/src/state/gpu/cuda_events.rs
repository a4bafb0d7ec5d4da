//! Pairs of CUDA's events around work in a stream, which tell how long the GPU took for it.
//!
//! The driver is the one that the program has loaded and initialised. Nothing here waits for the
//! GPU, and what it calls changes nothing that the program sees: the thread's context is set for
//! the time of a call alone, and so is its mode of stream capture, since some of these functions
//! would end a capture that another thread has begun.

use crate::binaries::library::{Functions, Kept, function};
use cudarc::driver::sys::{CUevent_flags, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus};
use mpisee_in_process::symbols::LoadedObject;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CUresult`, of which later drivers have further values.
type Status = c_int;
const SUCCESS: Status = CUresult::CUDA_SUCCESS as Status;
const NOT_READY: Status = CUresult::CUDA_ERROR_NOT_READY as Status;
const NOT_CAPTURING: c_int = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_int;
const RELAXED: c_int = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int;
/// An event with a time.
const WITH_TIME: c_uint = CUevent_flags::CU_EVENT_DEFAULT as c_uint;
/// `CU_STREAM_PER_THREAD`; the streams up to it are no handles, but stand for one of the current
/// context.
const LAST_SPECIAL_STREAM: usize = 2;

/// A `CUcontext`, `CUevent` or `CUstream`.
type Handle = *mut c_void;

/// The functions of the driver, with their types in cuda.h.
struct EventFunctions {
    stream_context: unsafe extern "C" fn(Handle, *mut Handle) -> Status,
    stream_capture: unsafe extern "C" fn(Handle, *mut c_int) -> Status,
    push_context: unsafe extern "C" fn(Handle) -> Status,
    pop_context: unsafe extern "C" fn(*mut Handle) -> Status,
    current_device: unsafe extern "C" fn(*mut c_int) -> Status,
    exchange_capture_mode: unsafe extern "C" fn(*mut c_int) -> Status,
    create_event: unsafe extern "C" fn(*mut Handle, c_uint) -> Status,
    record_event: unsafe extern "C" fn(Handle, Handle) -> Status,
    query_event: unsafe extern "C" fn(Handle) -> Status,
    elapsed_ms: unsafe extern "C" fn(*mut f32, Handle, Handle) -> Status,
    destroy_event: unsafe extern "C" fn(Handle) -> Status,
    /// CUDA 12.0 and later have it.
    context_id: unsafe extern "C" fn(Handle, *mut u64) -> Status,
    /// CUDA 12.5 and later have it.
    stream_context_or_green: Option<unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> Status>,
}

/// The driver, once the program was seen to have loaded one that has all of them.
static DRIVER: Functions<EventFunctions> = Functions::new();

/// Asks this driver from now on, if it has all of them.
pub fn take_driver(driver: Kept) {
    DRIVER.take(driver, EventFunctions::from_library);
}

fn driver() -> Option<&'static EventFunctions> {
    DRIVER.get()
}

impl EventFunctions {
    /// The functions of CUDA's driver.
    fn from_library(library: LoadedObject<'_>) -> Option<EventFunctions> {
        // SAFETY: the functions have these types in cuda.h.
        unsafe {
            Some(EventFunctions {
                stream_context: function(library, c"cuStreamGetCtx")?,
                stream_capture: function(library, c"cuStreamIsCapturing")?,
                push_context: function(library, c"cuCtxPushCurrent_v2")?,
                pop_context: function(library, c"cuCtxPopCurrent_v2")?,
                current_device: function(library, c"cuCtxGetDevice")?,
                exchange_capture_mode: function(library, c"cuThreadExchangeStreamCaptureMode")?,
                create_event: function(library, c"cuEventCreate")?,
                record_event: function(library, c"cuEventRecord")?,
                query_event: function(library, c"cuEventQuery")?,
                elapsed_ms: function(library, c"cuEventElapsedTime")?,
                destroy_event: function(library, c"cuEventDestroy_v2")?,
                context_id: function(library, c"cuCtxGetId")?,
                stream_context_or_green: function(library, c"cuStreamGetCtx_v2"),
            })
        }
    }

    /// Calls functions of the driver while the thread may call all of them, whatever other threads
    /// capture.
    fn relaxed<R>(&self, act: impl FnOnce() -> Option<R>) -> Option<R> {
        let mut mode = RELAXED;
        // SAFETY: the mode of this thread is exchanged with that in the number.
        (unsafe { (self.exchange_capture_mode)(&raw mut mode) } == SUCCESS).then_some(())?;
        let result = act();
        // SAFETY: as above; it is the mode that the thread had.
        unsafe { (self.exchange_capture_mode)(&raw mut mode) };
        result
    }

    /// Calls functions of the driver while a context is current.
    fn within<R>(&self, context: Handle, act: impl FnOnce() -> Option<R>) -> Option<R> {
        // SAFETY: the context is that of a stream of a call in progress, or was alive a moment ago:
        // that the program destroys it meanwhile is kept off by asking in calls on communicators
        // that work there.
        (unsafe { (self.push_context)(context) } == SUCCESS).then_some(())?;
        let result = act();
        let mut popped = ptr::null_mut();
        // SAFETY: the context that was pushed is taken off again.
        unsafe { (self.pop_context)(&raw mut popped) };
        result
    }

    /// The context of a stream to which the thread may add work that is done at once and not
    /// captured.
    fn context_of(&self, stream: Handle, device: impl FnOnce() -> c_int) -> Option<Handle> {
        let mut capture = NOT_CAPTURING;
        let (mut context, mut green) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is the one that the program passes to NCCL; a number and a handle are
        // written.
        let is_known = unsafe {
            (self.stream_capture)(stream, &raw mut capture) == SUCCESS
                && capture == NOT_CAPTURING
                && match self.stream_context_or_green {
                    // Of a stream of a green context it gives the primary one, too, in which events
                    // would not be those of the stream.
                    Some(get) => get(stream, &raw mut context, &raw mut green) == SUCCESS,
                    None => (self.stream_context)(stream, &raw mut context) == SUCCESS,
                }
        };
        (is_known && !context.is_null() && green.is_null()).then_some(())?;
        // NCCL makes the device of the communicator current itself, and takes the default stream
        // there.
        if stream.addr() <= LAST_SPECIAL_STREAM {
            let mut current = 0;
            // SAFETY: a number is written.
            let is_known = unsafe { (self.current_device)(&raw mut current) } == SUCCESS;
            (is_known && current == device()).then_some(())?;
        }
        Some(context)
    }

    /// The number of a context, which no other ever has; `None` if there is no such context any
    /// more.
    fn id_of(&self, context: Handle) -> Option<u64> {
        let mut id = 0;
        // SAFETY: the driver checks the context; a number is written.
        (unsafe { (self.context_id)(context, &raw mut id) } == SUCCESS).then_some(id)
    }

    /// A new event in the current context.
    fn event(&self) -> Option<Handle> {
        let mut event = ptr::null_mut();
        // SAFETY: a handle is written.
        (unsafe { (self.create_event)(&raw mut event, WITH_TIME) } == SUCCESS).then_some(event)
    }

    fn record(&self, event: Handle, stream: Handle) -> Option<()> {
        // SAFETY: the event is one of ours, and the stream one that `begin` and `end` may be called
        // with.
        (unsafe { (self.record_event)(event, stream) } == SUCCESS).then_some(())
    }
}

/// Two events of a context.
pub struct Pair {
    context: Handle,
    context_id: u64,
    begin: Handle,
    end: Handle,
}

// SAFETY: handles of the driver may be used in any thread.
unsafe impl Send for Pair {}

/// The time between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elapsed {
    /// It is known, in nanoseconds.
    Ns(u64),
    /// The GPU has not come to the second one yet.
    NotYet,
    /// The driver does not have it, as after an error or without the context.
    Unknown,
}

/// Pairs that are free to be used again.
static FREE: Mutex<Vec<Pair>> = Mutex::new(Vec::new());

fn free() -> MutexGuard<'static, Vec<Pair>> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pair {
    /// Marks the begin of work in a stream. `None` where that is impossible, or would be seen by
    /// the program: the stream is being captured, or is the default one of another device than that
    /// of the communicator.
    ///
    /// # Safety
    /// The stream is one that the program passes to a call which is in progress.
    pub unsafe fn begin(stream: Handle, device: impl FnOnce() -> c_int) -> Option<Pair> {
        let driver = driver()?;
        driver.relaxed(|| {
            let context = driver.context_of(stream, device)?;
            driver.within(context, || {
                let pair = Pair::create(driver, context)?;
                if driver.record(pair.begin, stream).is_none() {
                    pair.give_back();
                    return None;
                }
                Some(pair)
            })
        })
    }

    /// A pair that is free, or a new one in the context, which is current.
    fn create(driver: &EventFunctions, context: Handle) -> Option<Pair> {
        let context_id = driver.id_of(context)?;
        let mut free = free();
        if let Some(at) = free.iter().rposition(|pair| pair.context_id == context_id) {
            return Some(free.swap_remove(at));
        }
        drop(free);
        let begin = driver.event()?;
        let Some(end) = driver.event() else {
            // SAFETY: the event is new, and nobody else's.
            unsafe { (driver.destroy_event)(begin) };
            return None;
        };
        Some(Pair { context, context_id, begin, end })
    }

    /// Marks the end of the work; false if that is impossible.
    ///
    /// # Safety
    /// As for [`Pair::begin`].
    pub unsafe fn end(&self, stream: Handle) -> bool {
        let end = |driver: &EventFunctions| {
            driver.relaxed(|| driver.within(self.context, || driver.record(self.end, stream)))
        };
        driver().and_then(end).is_some()
    }

    /// The time between begin and end.
    pub fn elapsed(&self) -> Elapsed {
        let query = |driver: &EventFunctions| {
            let mut ms = 0.0;
            // SAFETY: the events are ours; a number is written.
            let status = unsafe {
                match (driver.query_event)(self.end) {
                    SUCCESS => (driver.elapsed_ms)(&raw mut ms, self.begin, self.end),
                    status => status,
                }
            };
            match status {
                SUCCESS => Elapsed::Ns((f64::from(ms.max(0.0)) * 1e6).round() as u64),
                NOT_READY => Elapsed::NotYet,
                _ => Elapsed::Unknown,
            }
        };
        let elapsed =
            |driver: &EventFunctions| driver.relaxed(|| driver.within(self.context, || Some(query(driver))));
        driver().and_then(elapsed).unwrap_or(Elapsed::Unknown)
    }

    /// Returns whether the events are known to be there still: the program may have destroyed their
    /// context, or reset the device. It has not while it communicates in that context.
    pub fn is_alive(&self) -> bool {
        driver().and_then(|driver| driver.id_of(self.context)) == Some(self.context_id)
    }

    /// The number of their context, which no other ever has.
    pub fn context_id(&self) -> u64 {
        self.context_id
    }

    /// Lets the pair be used again. Of one that the driver does not know any more nothing may be
    /// done.
    pub fn give_back(self) {
        free().push(self);
    }
}

/// Destroys the pairs of a context that are free, so that none outlives it, should the program
/// destroy it next.
pub fn destroy_free(context_id: u64) {
    let pairs: Vec<Pair> = free().extract_if(.., |pair| pair.context_id == context_id).collect();
    let Some(driver) = driver() else { return };
    driver.relaxed(|| {
        for Pair { context, begin, end, .. } in pairs.into_iter().filter(Pair::is_alive) {
            driver.within(context, || {
                // SAFETY: the events are ours, and nobody has them any more.
                unsafe {
                    (driver.destroy_event)(begin);
                    (driver.destroy_event)(end);
                }
                Some(())
            });
        }
        Some(())
    });
}
