//! Work that takes the loader's lock, or more stack than the calling thread has left, done by a
//! thread of its own.
//!
//! A thread that calls MPI may not wait for the loader: the one that has its lock may be in a
//! constructor, and wait for that call. And what a library has may be used only once its
//! constructors have returned, which they have when the lock was free after the library was seen.
//! So another thread waits for the lock, and the one that calls waits for that thread, but not for
//! long.

use super::stack_room;
use crate::storage::clock;
use mpisee_in_process::guards::{cancellation, errno, floating_point, signals};
use mpisee_in_process::symbols::Address;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How long the call that starts work waits; without a thread that loads a library, the work takes
/// a hundredth of that, and more where cores are few.
const LONGEST_WAIT_NS: i64 = 100_000_000;
/// How long a later call waits for work that is not done yet, and how often; the thread that has
/// the loader's lock may wait for it.
const SHORT_WAIT: Duration = Duration::from_micros(100);
const MOST_SHORT_WAITS: u32 = 20;
const MOST_WAITING_CALLS: u32 = 100;
/// How long a call waits for work that needs more stack than it has; it takes milliseconds. A
/// thread that is in a constructor has the loader's lock, which the work may wait for.
const LONGEST_WAIT_FOR_STACK_NS: i64 = 10_000_000_000;
/// Bytes of the thread's stack, beside what the C library takes of it for what threads have of
/// their own.
const STACK_BYTES: usize = 1 << 20;

/// The process in which a thread is at work; 0 for none. A child of `fork` does not have its
/// parent's threads.
static AT_WORK: AtomicI32 = AtomicI32::new(0);
/// Calls that have waited for it, but for the one that started it.
static WAITING_CALLS: AtomicU32 = AtomicU32::new(0);

/// `__pthread_get_minstack` of glibc: the bytes that a stack needs for variables of threads, of
/// which programs may have more than [`STACK_BYTES`]. Null where the C library has none.
static LEAST_STACK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks it up when the library is loaded: later this would take the loader's lock.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let least = mpisee_in_process::symbols::first(c"__pthread_get_minstack");
        LEAST_STACK.store(least.map_or(ptr::null_mut(), Address::as_ptr), Ordering::Relaxed);
    }
    at_load
};

unsafe extern "C" {
    fn pthread_timedjoin_np(
        thread: libc::pthread_t,
        result: *mut *mut c_void,
        until: *const libc::timespec,
    ) -> c_int;
}

/// Does work in a thread of its own, as soon as no thread loads or unloads a library; returns when
/// it is done, or after a while. False if there is no such thread to be had: none could be made, or
/// there is one at work. The work may not call MPI.
#[cold]
pub fn run(work: fn()) -> bool {
    let _not_cancelled = cancellation::hold();
    // The thread has the signals blocked that this one has.
    let _held = signals::hold_all([]);
    let process = process();
    let before = AT_WORK.load(Ordering::Acquire);
    let is_free = before != process
        && AT_WORK.compare_exchange(before, process, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if !is_free {
        return false;
    }
    WAITING_CALLS.store(0, Ordering::Relaxed);
    let Some(thread) = start(in_thread, work as *mut c_void) else {
        AT_WORK.store(0, Ordering::Release);
        return false;
    };
    await_end(thread, LONGEST_WAIT_NS);
    true
}

/// Does work that needs as many bytes of stack, here or, where fewer are left, in a thread of its
/// own; returns when it is done, or after a long while. Without memory for a thread it is not done.
pub fn with_stack(bytes: usize, work: impl FnOnce() + Send + 'static) {
    if stack_room::is_left(bytes) {
        return work();
    }
    let _not_cancelled = cancellation::hold();
    let _held = signals::hold_all([]);
    let work: Box<Work> = Box::new(Box::new(work));
    let work = Box::into_raw(work);
    match start(with_own_stack, work.cast()) {
        Some(thread) => await_end(thread, LONGEST_WAIT_FOR_STACK_NS),
        // SAFETY: no thread was made that takes it.
        None => drop(unsafe { Box::from_raw(work) }),
    }
}

type Work = Box<dyn FnOnce() + Send>;

extern "C" fn with_own_stack(work: *mut c_void) -> *mut c_void {
    // SAFETY: `with_stack` passes work that this thread alone has.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    let _ = catch_unwind(AssertUnwindSafe(work));
    ptr::null_mut()
}

/// Waits until a thread has ended, or that long.
fn await_end(thread: libc::pthread_t, longest_ns: i64) {
    let until = clock::realtime_ns().cast_signed().saturating_add(longest_ns);
    let until = libc::timespec { tv_sec: until / 1_000_000_000, tv_nsec: until % 1_000_000_000 };
    // SAFETY: the thread was made to be joined, and is either joined or left to itself.
    unsafe {
        if pthread_timedjoin_np(thread, ptr::null_mut(), &raw const until) != 0 {
            libc::pthread_detach(thread);
        }
    }
}

/// Waits a little for work that is not done yet, which returns whether there was any.
pub fn wait() -> bool {
    let process = process();
    let is_at_work = || AT_WORK.load(Ordering::Acquire) == process;
    if !is_at_work() {
        return false;
    }
    if WAITING_CALLS.fetch_add(1, Ordering::Relaxed) < MOST_WAITING_CALLS {
        let _not_cancelled = cancellation::hold();
        for _ in 0..MOST_SHORT_WAITS {
            thread::sleep(SHORT_WAIT);
            if !is_at_work() {
                break;
            }
        }
    }
    true
}

fn process() -> i32 {
    // SAFETY: a number.
    unsafe { libc::getpid() }
}

fn start(run: extern "C" fn(*mut c_void) -> *mut c_void, data: *mut c_void) -> Option<libc::pthread_t> {
    // The thread begins with the environment that this one has now.
    let (_errno, _floating_point) = (errno::keep(), floating_point::hold());
    let mut thread = MaybeUninit::uninit();
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: attributes are used from when they are made to when they are destroyed; the thread
    // gets what its function takes.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let stack_bytes = STACK_BYTES + least_stack_bytes(attributes.as_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack_bytes);
        let code = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, data);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (code == 0).then(|| thread.assume_init())
    }
}

/// The bytes that a stack has to have for what is not the program's.
///
/// # Safety
/// The attributes are initialised.
unsafe fn least_stack_bytes(attributes: *const libc::pthread_attr_t) -> usize {
    type Least = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    let least = LEAST_STACK.load(Ordering::Relaxed);
    // SAFETY: glibc's function of this name has this type, as Rust's library calls it; all bits of
    // a pointer are those of an address or null.
    let least = unsafe { transmute::<*mut c_void, Option<Least>>(least) };
    // SAFETY: the caller's promise on the attributes.
    least.map_or(0, |least| unsafe { least(attributes) })
}

extern "C" fn in_thread(work: *mut c_void) -> *mut c_void {
    // SAFETY: `run` passes a function of this type.
    let work = unsafe { transmute::<*mut c_void, fn()>(work) };
    // SAFETY: the handle is the program's own, and is given back; nothing is loaded. Both wait for
    // the loader's lock.
    unsafe {
        let program = libc::dlopen(ptr::null(), libc::RTLD_LAZY);
        if !program.is_null() {
            libc::dlclose(program);
        }
    }
    // What panics was not done.
    let _ = catch_unwind(work);
    AT_WORK.store(0, Ordering::Release);
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work runs to its end, however long that takes here: one that panics writes its stack first.
    fn run_to_its_end(work: fn()) {
        while !run(work) {
            thread::sleep(SHORT_WAIT);
        }
        while wait() {
            thread::sleep(SHORT_WAIT);
        }
    }

    #[test]
    fn work_that_needs_more_stack_than_is_left_is_done_by_another_thread() {
        static DONE_BY: AtomicI32 = AtomicI32::new(0);
        // SAFETY: a number.
        let own = || unsafe { libc::gettid() };
        let done_by = move |bytes: usize| {
            with_stack(bytes, move || DONE_BY.store(own(), Ordering::SeqCst));
            DONE_BY.swap(0, Ordering::SeqCst)
        };
        let small = thread::Builder::new().stack_size(128 << 10);
        let small = small.spawn(move || (own(), done_by(1 << 10), done_by(900 << 10)));
        let (own, with_little, with_much) = small.expect("a thread can be made").join().expect("no panic");
        assert_eq!(with_little, own);
        assert!(with_much != 0 && with_much != own);
    }

    #[test]
    fn work_is_done_by_another_thread_and_one_that_panics_does_not_keep_the_next_from_it() {
        static DONE_BY: AtomicU32 = AtomicU32::new(0);
        fn work() {
            // SAFETY: a number.
            DONE_BY.store(unsafe { libc::gettid() }.unsigned_abs(), Ordering::SeqCst);
        }
        // SAFETY: a number.
        let own = unsafe { libc::gettid() }.unsigned_abs();
        run_to_its_end(work);
        let done_by = DONE_BY.swap(0, Ordering::SeqCst);
        assert!(done_by != 0 && done_by != own);
        run_to_its_end(|| panic!("as work may"));
        run_to_its_end(work);
        assert!(DONE_BY.load(Ordering::SeqCst) != 0);
    }
}
