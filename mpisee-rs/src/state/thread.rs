//! Per-thread state: the counters, and whether the thread is inside a recorded call.

use super::cached_call::{CachedCall, KEPT};
use super::order::OwnOrder;
use super::poll::{self, Poll, PollId};
use super::sampled_overhead::{self, Rare};
use super::scratch::Scratch;
use crate::mpi::abi::Comm;
use crate::state::communicator::Communicator;
use crate::state::process;
use crate::state::stack::{self, Nesting};
use crate::state::switching;
use crate::state::world::{self, World};
use crate::storage::clock;
use crate::storage::counters::Counters;
use crate::storage::frame::CalledFrom;
use crate::storage::hot::HOT;
use crate::storage::memory;
use crate::storage::prefetch;
use crate::storage::segment::Segment;
use crate::storage::sync::own_value;
use crate::storage::thread_words;
use mpisee_profile::segment::layout::{Slot, lives};
use mpisee_profile::segment::{NotSeen, SlotKey, active_call};
use mpisee_profile::{CommId, Operation, Ticks};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A thread's own state. It outlives the thread: the next thread that begins takes it over.
#[repr(C, align(64))]
pub struct Thread {
    /// By [`CachedCall::index`].
    cached: [CachedCall; KEPT],
    /// By [`PollId::index`].
    polls: [Poll; poll::KEPT],
    /// The call in progress, for readers in other processes. It also shows that the thread is
    /// inside a recorded call: calls that the MPI library then makes through exported names are not
    /// the application's.
    pub active_call: &'static Slot,
    pub counters: Counters,
    /// How long threads have this state, see [`lives`].
    lives: &'static Slot,
    /// Rounds in which the thread that has it ran the destructors of its keys.
    rounds: Cell<u8>,
    /// Empty while a call uses it. A call that is left by a longjmp never puts it back; the next
    /// one gets a new one.
    scratch: Cell<Option<Box<Scratch>>>,
    /// In which order it counted, if the user asks for that.
    pub order: OwnOrder,
}

/// More than the C library takes to note what it calls when a thread ends.
const LEASE_BYTES: usize = 1 << 12;

/// States of ended threads, for reuse.
static IDLE: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

// SAFETY: each `Cell` in it is used by one thread at a time: the one that leases it, and from one
// lease to the next the mutex of `IDLE` orders them.
unsafe impl Sync for Thread {}
// SAFETY: whoever takes it from `IDLE` has it alone, and the mutex orders what its last thread
// wrote.
unsafe impl Send for Thread {}

/// Has the calling thread return its state to [`IDLE`] when it ends; false if that cannot be
/// arranged.
///
/// A `thread_local!` with a destructor would take the loader's lock, and a program may hold that
/// for as long as a library's constructor waits for this thread.
fn return_at_end(thread: &'static Thread) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: there is room for the key, and the function stays, as this library is never
        // unloaded.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) } == 0).then_some(key)
    });
    // SAFETY: the key was made, and is never deleted.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, ptr::from_ref(thread).cast()) } == 0)
}

/// Called when a thread ends, with its state.
unsafe extern "C" fn at_end(thread: *mut c_void) {
    // SAFETY: as `return_at_end` has stored it; a state is never freed.
    let thread: &'static Thread = unsafe { &*thread.cast::<Thread>() };
    // Destructors of the program's may call MPI behind this one, in this round and in the next one.
    // A key that has a value after a round begins another one, of which the C library makes four.
    let rounds = thread.rounds.get();
    thread.rounds.set(rounds + 1);
    if rounds < 2 && return_at_end(thread) {
        return;
    }
    thread_words::set(ended(), ptr::null());
    thread.ends();
    keep_idle(thread);
}

/// Keeps the state of a thread that has ended, if there is memory for that.
fn keep_idle(thread: &'static Thread) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.try_reserve(1).is_ok() {
        idle.push(thread);
    }
}

/// Marks a thread that has returned its state.
fn ended() -> *const Thread {
    ptr::without_provenance(1)
}

/// A number that no other thread has while this one lives.
#[inline]
pub fn number() -> usize {
    thread_words::get::<Thread>().addr()
}

/// A number by which [`Thread::cached_by_number`] finds a cached call of the same thread again.
#[inline(always)]
pub fn cached_number(cached: &CachedCall) -> u8 {
    (ptr::from_ref(cached).addr() / size_of::<CachedCall>()) as u8
}

/// The calling thread's state, if it has one.
#[inline]
pub fn own() -> Option<&'static Thread> {
    let current = thread_words::get::<Thread>();
    // SAFETY: a pointer that is neither null nor `ended` is the leased state, which is never freed.
    (!current.is_null() && current != ended()).then(|| unsafe { &*current })
}

/// The same, with the slot that says in which call the thread is.
#[inline(always)]
fn both() -> Option<(&'static Thread, &'static Slot)> {
    let (thread, active_call) = thread_words::both();
    // SAFETY: with the slot, a thread has its leased state; neither is ever freed.
    (!active_call.is_null()).then(|| unsafe { (&*thread, &*active_call) })
}

/// The calling thread's cached call for a call like this one, if it has counted one before and is
/// in no call, with the slot that says in which call it is.
#[inline(always)]
pub fn cached_call(
    operation: Operation,
    comm: Comm,
    spread: i32,
) -> Option<(&'static CachedCall, &'static Slot)> {
    let index = CachedCall::index(operation, comm, spread);
    // PERF: each is on a page of its own, whose entry in the page table may have to come from
    // memory first.
    prefetch::data(FIRST.cached(index));
    prefetch_state();
    let generation = HOT.generation()?;
    let (thread, active_call) = both()?;
    let cached = &thread.cached[index];
    if own_value(&active_call.values[active_call::CALL]) != active_call::NOWHERE {
        return None;
    }
    sampled_overhead::call_begins(active_call);
    if !cached.is_of(generation, operation, comm) {
        sampled_overhead::call_begins_anew(active_call);
        return None;
    }
    Some((cached, active_call))
}

/// The word for the call in the thread's slot, see [`active_call::CALL`]; `None` if it has no state
/// of its own.
fn own_call() -> Option<u64> {
    both().map(|(_, active_call)| own_value(&active_call.values[active_call::CALL]))
}

/// Returns whether the thread has a state of its own, and is in no call.
pub fn is_outside() -> bool {
    own_call().is_some_and(active_call::is_outside)
}

/// Returns whether the thread is in a call.
pub fn is_inside() -> bool {
    own_call().is_some_and(|word| !active_call::is_outside(word))
}

/// Returns whether the thread is in a call whose frame lies around the one with this pointer, or is
/// not known: one that lies below it was left.
pub fn is_inside_around(pointer: u64) -> bool {
    both().is_some_and(|(_, active_call)| {
        let frame = active_call::frame_of(own_value(&active_call.values[active_call::RETURNED]));
        is_inside() && frame.is_none_or(|frame| frame > pointer)
    })
}

/// Follows a request to switch recording, in a call that is not in the thread's cache.
pub fn look_if_asked() {
    if !process::is_recording() {
        switching::follow_while_off();
    } else if own_call() == Some(active_call::ASKED) {
        switching::follow();
    }
}

/// As [`cached_call`], while calls are not counted.
pub fn cached_call_while_off(
    operation: Operation,
    comm: Comm,
    spread: i32,
) -> Option<(&'static CachedCall, &'static Slot)> {
    let (thread, active_call) = both()?;
    let cached = &thread.cached[CachedCall::index(operation, comm, spread)];
    let is_outermost = own_value(&active_call.values[active_call::CALL]) == active_call::NOWHERE;
    (is_outermost && cached.is_of(HOT.generation_while_off(), operation, comm))
        .then_some((cached, active_call))
}

/// The calling thread's last poll with that identifier, of the `same` requests, if the next one
/// need not be timed. The thread is inside of a call from now on.
#[inline(always)]
pub fn repeated_poll(id: &PollId, same: impl FnOnce(&Poll) -> bool) -> Option<(Inside, &'static Poll)> {
    let (thread, active_call) = both()?;
    let poll = &thread.polls[id.index()];
    let is_outermost = own_value(&active_call.values[active_call::CALL]) == active_call::NOWHERE;
    let left = poll.untimed_left.get();
    if !(poll.is(id) && is_outermost && left > 0 && same(poll)) {
        return None;
    }
    poll.untimed_left.set(left - 1);
    Some((Inside { thread, active_call }, poll))
}

/// Asks for the thread's own words, and for where it says in which call it is if it is the first
/// one.
#[inline(always)]
fn prefetch_state() {
    Segment::prefetch_first_slot();
    prefetch::thread_local();
}

/// Time in which a thread lives at each moment, of those that came later than the run began.
struct Stretch {
    threads: usize,
    since: Ticks,
}

static STRETCH: Mutex<Stretch> = Mutex::new(Stretch { threads: 0, since: Ticks::ZERO });

impl Stretch {
    /// A thread begins; returns when the stretch began.
    fn enter(now: Ticks) -> Ticks {
        let mut stretch = STRETCH.lock().unwrap_or_else(PoisonError::into_inner);
        if stretch.threads == 0 {
            stretch.since = now;
        }
        stretch.threads += 1;
        stretch.since
    }

    /// A thread ends; returns how long the stretch was, if it ends as well.
    fn leave(now: Ticks) -> Ticks {
        let mut stretch = STRETCH.lock().unwrap_or_else(PoisonError::into_inner);
        stretch.threads = stretch.threads.saturating_sub(1);
        if stretch.threads > 0 { Ticks::ZERO } else { now.saturating_sub(stretch.since) }
    }
}

/// The first thread's state: at an address that the code knows, so that it can be asked for in
/// advance.
struct First(UnsafeCell<MaybeUninit<Thread>>);

static FIRST: First = First(UnsafeCell::new(MaybeUninit::zeroed()));

// SAFETY: it is given away once, and used as a `Thread` from then on, which is.
unsafe impl Sync for First {}

impl First {
    /// The memory, the first time.
    fn take(&self) -> Option<*mut Thread> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        (!IS_TAKEN.swap(true, Ordering::Relaxed)).then(|| self.0.get().cast())
    }

    /// The address of a cached call.
    #[inline(always)]
    fn cached(&self, index: usize) -> *const CachedCall {
        self.0.get().cast::<CachedCall>().wrapping_add(index)
    }
}

const _: () = assert!(mem::offset_of!(Thread, cached) == 0);

/// Prepares for threads, before the first call is counted.
pub fn prepare() {
    thread_words::locate();
}

/// When the calling thread's call began, in ticks; `None` in a thread without recorded calls.
pub fn call_began() -> Option<Ticks> {
    own().map(|thread| Ticks::new(own_value(&thread.active_call.values[active_call::SINCE])))
}

impl Thread {
    /// The state of a thread for which none is idle; `None` if there is no memory for it.
    fn new(world: &World) -> Option<&'static Thread> {
        // With what it takes to be called when the thread ends.
        if !memory::is_left_to_all(size_of::<(Thread, Scratch, Slot)>() + LEASE_BYTES) {
            return None;
        }
        let scratch = memory::boxed(Scratch::default())?;
        let counters = Counters::new();
        let active_call = match counters.new_slot(&world.segment, SlotKey::ACTIVE_CALL) {
            Some(active_call) => active_call,
            // Without room in the segment, other processes cannot see the call in progress.
            None => Box::leak(memory::boxed(Slot::default())?),
        };
        let lives = match counters.new_slot(&world.segment, SlotKey::LIVES) {
            Some(lives) => lives,
            None => Box::leak(memory::boxed(Slot::default())?),
        };
        let thread = match FIRST.take() {
            Some(first) => {
                // The thread that makes the first call began MPI, or waited until that was done. It
                // has the state before the run begins if the profiler measures its own cost in it.
                // It is in no stretch.
                let start = world.segment.header().start_ticks.load(Ordering::Relaxed);
                let since = if start == 0 { clock::ticks().get() } else { start };
                lives.values[lives::SINCE].store(since, Ordering::Relaxed);
                first
            }
            None => Box::leak(memory::zeroed::<Thread>()?).as_mut_ptr(),
        };
        sampled_overhead::start(active_call);
        // SAFETY: the place is a thread's; cached calls are none where they are zero, and the
        // others are written.
        Some(unsafe {
            (&raw mut (*thread).active_call).write(active_call);
            (&raw mut (*thread).counters).write(counters);
            (&raw mut (*thread).lives).write(lives);
            (&raw mut (*thread).rounds).write(Cell::new(0));
            (&raw mut (*thread).scratch).write(Cell::new(Some(scratch)));
            (&raw mut (*thread).order).write(OwnOrder::new());
            &*thread
        })
    }

    /// Notes that a thread begins to use the state.
    fn begins(&self) {
        self.rounds.set(0);
        // Those of the thread before.
        self.polls.iter().for_each(Poll::end);
        let [since, stretch] = [lives::SINCE, lives::COVERED_SINCE].map(|value| &self.lives.values[value]);
        if own_value(since) == 0 {
            let now = clock::ticks();
            since.store(now.get(), Ordering::Relaxed);
            stretch.store(Stretch::enter(now).get(), Ordering::Release);
        }
    }

    /// Notes that the thread which used the state has ended.
    fn ends(&self) {
        let [since, ended, covered, stretch] =
            [lives::SINCE, lives::ENDED, lives::COVERED, lives::COVERED_SINCE]
                .map(|value| &self.lives.values[value]);
        let now = clock::ticks();
        let add = |sum: &AtomicU64, more: Ticks| {
            sum.store(own_value(sum).wrapping_add(more.get()), Ordering::Release);
        };
        let life = now.saturating_sub(Ticks::new(own_value(since)));
        // A reader between the two misses a life, and counts none twice.
        since.store(0, Ordering::Release);
        add(ended, life);
        if own_value(stretch) != 0 {
            stretch.store(0, Ordering::Release);
            add(covered, Stretch::leave(now));
        }
    }

    /// The place for an operation on a communicator, set to it.
    pub fn cache(
        &self,
        generation: u64,
        operation: Operation,
        communicator: &Communicator,
        spread: i32,
    ) -> &CachedCall {
        let cached = &self.cached[CachedCall::index(operation, communicator.comm, spread)];
        cached.set(generation, operation, communicator);
        cached
    }

    /// The cached call of an operation on a communicator, which is found by its handle.
    #[inline(always)]
    pub fn cached_by_handle(
        &self,
        generation: u64,
        operation: Operation,
        comm: Comm,
        spread: i32,
    ) -> Option<&CachedCall> {
        let cached = &self.cached[CachedCall::index(operation, comm, spread)];
        cached.is_of(generation, operation, comm).then_some(cached)
    }

    /// The cached call of an operation on the communicator of that number; `spread` as for
    /// [`Thread::cache`].
    #[inline(always)]
    pub fn cached_by_id(&self, operation: Operation, communicator: CommId, spread: i32) -> &CachedCall {
        let cached = &self.cached[CachedCall::index_by_id(operation, communicator, spread)];
        if !cached
            .is_call(active_call::pack(active_call::CurrentFunction::Operation(operation), communicator))
        {
            cached.set_by_id(operation, communicator);
        }
        cached
    }

    /// The cached call with that number. It may be another one's by now, or another thread's number
    /// may have led here: who uses it compares its key.
    #[inline(always)]
    pub fn cached_by_number(&self, number: u8) -> &CachedCall {
        const { assert!(KEPT == 1 << u8::BITS) };
        &self.cached[usize::from(number.wrapping_sub(cached_number(&self.cached[0])))]
    }

    /// Where a poll with that identifier is kept.
    #[inline]
    pub fn poll(&self, id: &PollId) -> &Poll {
        &self.polls[id.index()]
    }

    /// The polls that it keeps.
    pub fn polls(&self) -> &[Poll] {
        &self.polls
    }

    /// The thread's scratch buffers, until the result is dropped.
    #[inline]
    pub fn scratch(&'static self) -> Borrowed {
        Borrowed { home: &self.scratch, scratch: ManuallyDrop::new(self.scratch.take().unwrap_or_default()) }
    }
}

/// A thread's [`Scratch`] while a call uses it.
pub struct Borrowed {
    home: &'static Cell<Option<Box<Scratch>>>,
    scratch: ManuallyDrop<Box<Scratch>>,
}

impl Deref for Borrowed {
    type Target = Scratch;

    #[inline]
    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl DerefMut for Borrowed {
    #[inline]
    fn deref_mut(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}

impl Drop for Borrowed {
    #[inline]
    fn drop(&mut self) {
        self.scratch.give_back();
        // SAFETY: nothing uses the field after this.
        self.home.set(Some(unsafe { ManuallyDrop::take(&mut self.scratch) }));
    }
}

/// Proof that the thread is in an outermost call of the application.
pub struct Inside {
    pub thread: &'static Thread,
    active_call: &'static Slot,
}

impl Inside {
    /// `None` if the thread is inside already, or ending.
    #[inline]
    pub fn enter() -> Option<Inside> {
        prefetch_state();
        match both() {
            Some((thread, active_call)) => Inside::from_thread(thread, active_call),
            None => Inside::enter_first(),
        }
    }

    #[inline]
    fn from_thread(thread: &'static Thread, active_call: &'static Slot) -> Option<Inside> {
        let word = &active_call.values[active_call::CALL];
        let last = own_value(word);
        if last != active_call::NOWHERE && !left_the_last_call(last, active_call) {
            return None;
        }
        word.store(active_call::ENTERING, Ordering::Relaxed);
        sampled_overhead::call_begins(active_call);
        Some(Inside { thread, active_call })
    }

    /// Publishes the call that the thread is in, when it began, from where it is made, and with
    /// whom it communicates, see [`mpisee_profile::segment::awaited`].
    #[inline]
    pub fn publish(
        &self,
        call: active_call::CurrentFunction,
        communicator: CommId,
        since: Ticks,
        from: CalledFrom,
        ends: u64,
    ) {
        let values = &self.active_call.values;
        // A reader that sees the new tick sees the old call cleared; one that sees the new call
        // sees its tick.
        values[active_call::SINCE].store(since.get(), Ordering::Release);
        values[active_call::RETURNED].store(active_call::frame(from.frame), Ordering::Relaxed);
        values[active_call::RETURNS_TO].store(from.caller, Ordering::Relaxed);
        values[active_call::ENDS].store(ends, Ordering::Relaxed);
        values[active_call::CALL].store(active_call::pack(call, communicator), Ordering::Release);
    }

    /// As [`Inside::publish`], of a call that is not timed: when it began is not known.
    #[inline(always)]
    pub fn publish_untimed(&self, call: u64, ends: u64, from: CalledFrom) {
        let values = &self.active_call.values;
        values[active_call::RETURNED].store(active_call::frame(from.frame), Ordering::Relaxed);
        values[active_call::RETURNS_TO].store(from.caller, Ordering::Relaxed);
        values[active_call::ENDS].store(ends, Ordering::Relaxed);
        values[active_call::CALL].store(call, Ordering::Release);
    }

    /// Notes when the call began that is in progress.
    pub fn set_since(&self, since: Ticks) {
        self.active_call.values[active_call::SINCE].store(since.get(), Ordering::Relaxed);
    }

    /// The slot that says in which call the thread is.
    #[inline(always)]
    pub fn active_call(&self) -> &'static Slot {
        self.active_call
    }

    /// Notes that the call to MPI has returned, and when.
    #[inline]
    pub fn returned(&self) -> Ticks {
        let now = clock::ticks();
        self.active_call.values[active_call::RETURNED].store(now.get(), Ordering::Relaxed);
        now
    }

    #[cold]
    #[inline(never)]
    fn enter_first() -> Option<Inside> {
        let world = world::world()?;
        let _rare = Rare::begin(world);
        if !thread_words::get::<Thread>().is_null() {
            process::note_untracked_call();
            world::not_seen(NotSeen::EndingThread);
            return None;
        }
        // The main thread's local storage ends before the destructors of a C++ program, which may
        // still call MPI; it keeps its state, which nobody could take over anyway.
        let ends = !is_main_thread();
        // The C library ends a program in which it has no memory to note what is called when a
        // thread ends.
        let has_room = !ends || memory::is_left_to_all(LEASE_BYTES);
        let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let thread = if has_room { idle().or_else(|| Thread::new(world)) } else { None };
        let Some(thread) = thread else {
            process::note_untracked_call();
            world::not_seen(NotSeen::NoRoom);
            return None;
        };
        if ends && !return_at_end(thread) {
            process::note_untracked_call();
            world::not_seen(NotSeen::NoRoom);
            keep_idle(thread);
            return None;
        }
        thread.begins();
        thread_words::set(thread, thread.active_call);
        // Nobody could mark its slot before.
        switching::follow();
        Inside::from_thread(thread, thread.active_call)
    }
}

/// Returns whether the thread is in no call in spite of what its slot says. Either somebody asks it
/// to look for a request, which it follows, or the recorded call in progress was abandoned, as by a
/// longjmp out of an error handler. If it still runs, the new call is nested in it: made by the MPI
/// library, or by a callback of the program, whose calls are in no table.
#[cold]
#[inline(never)]
fn left_the_last_call(word: u64, active_call: &Slot) -> bool {
    if word == active_call::ASKED {
        switching::follow();
        return true;
    }
    let [frame, returns_to] =
        [active_call::RETURNED, active_call::RETURNS_TO].map(|at| own_value(&active_call.values[at]));
    // Of a call that is not published, as while recording is off, the slot may have the frame of an
    // earlier one.
    let frame = active_call::call_of(word).and(active_call::frame_of(frame));
    let earlier = frame.map(|frame| CalledFrom { frame, caller: returns_to });
    let nesting = match stack::nesting(earlier) {
        // A callback whose last act is the call leaves no frame of its own.
        Nesting::ByLibrary if runs_callbacks(active_call::call_of(word)) => Nesting::ByProgram,
        nesting => nesting,
    };
    if nesting == Nesting::ByProgram {
        process::note_untracked_call();
    }
    if process::is_recording() {
        match nesting {
            Nesting::ByLibrary => {}
            Nesting::ByProgram => world::not_seen(NotSeen::CallInCallback),
            Nesting::Left => world::not_seen(NotSeen::CallLeft),
        }
    }
    nesting == Nesting::Left
}

/// Returns whether what is nested in a call comes from a copy or delete function of the program: to
/// make or free a communicator the MPI libraries make no call through an exported name.
fn runs_callbacks(call: Option<active_call::CurrentFunction>) -> bool {
    use mpisee_profile::Operation::{CommDisconnect, CommDup, CommDupWithInfo, CommFree, CommIdup};
    let operations = [CommDup, CommDupWithInfo, CommIdup, CommFree, CommDisconnect];
    operations.into_iter().any(|operation| call == Some(active_call::CurrentFunction::Operation(operation)))
}

impl Drop for Inside {
    /// Also runs when a C++ exception unwinds through the call; an error handler may throw one.
    #[inline]
    fn drop(&mut self) {
        self.active_call.values[active_call::CALL].store(active_call::NOWHERE, Ordering::Release);
        sampled_overhead::call_ends(self.active_call);
    }
}

fn is_main_thread() -> bool {
    // SAFETY: both calls have no preconditions.
    unsafe { libc::gettid() == libc::getpid() }
}
