//! Call paths of slow calls.
//!
//! Walking the stack takes microseconds. So the path is taken of calls alone that took [`TIMES`] as
//! long, after the call, and only while all walks together took less than that part of the calls:
//! whatever a program does, it loses no more than a fiftieth of the time of its slow calls.
//!
//! Calls of NCCL do not show by their own time whether they matter, since the GPU does their work.
//! Their paths are taken while these walks took less than a hundredth of the wall time.

use super::Recorder;
use crate::binaries::unwinder::Unwinder;
use crate::binaries::{objects, stack_room};
use crate::state::fortran_bindings::BINDINGS;
use crate::state::order;
use crate::state::python::PythonStack;
use crate::state::sampled_overhead;
use crate::state::sites::SITES;
use crate::storage::counters::{add, update};
use crate::storage::frame::{self, ExportFrame};
use crate::storage::hot::HOT;
use crate::storage::patience::try_lock_anyway;
use crate::storage::{clock, memory};
use mpisee_in_process::guards::keep_thread_state;
use mpisee_profile::segment::layout::path;
use mpisee_profile::segment::log::{Code, MOST_PATH_FRAMES, MOST_PATH_LINES, Record};
use mpisee_profile::segment::{PathKey, SlotKey};
use mpisee_profile::{CommId, Operation, Ticks};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A call is slow if it lasted N times as long as a walk, and all walks together may take 1/N of
/// the time of slow calls.
const TIMES: u64 = 50;
/// Walks after calls of NCCL may take 1/N of the wall time, and what is given to begin with. They
/// are measured by the time on a core, since a thread that loses its core has not worked.
const PART_OF_WALL_TIME: u64 = 100;
/// The tables of an interpreter alone may take 5 ms to copy where memory is new or cores are
/// shared.
const NS_TO_BEGIN_WITH: u64 = 20_000_000;
/// Different paths at most; calls by further ones count at their sites alone.
const MOST_PATHS: usize = 4096;
/// An upper bound of the bytes that it takes to log a path.
const BYTES_PER_PATH: usize = 1 << 15;
/// The same of a path with lines of Python.
const BYTES_PER_PATH_OF_PYTHON: usize = 1 << 18;
/// A walk counts in the mean as N times the mean at most.
const MOST_TIMES_THE_MEAN: u64 = 4;
/// The last walk counts 1/N in the mean.
const WEIGHT: u64 = 8;

static PATHS: Mutex<Option<Paths>> = Mutex::new(None);

struct Paths {
    unwinder: Unwinder,
    python: PythonStack,
    /// The number of binaries on the stacks when Python was looked for.
    binaries: usize,
    /// Numbers in the log, by the addresses; `None` for what came after the limit.
    numbers: FxHashMap<Box<[usize]>, Option<u16>>,
    /// The same by places in binaries, which stay when one is loaded anew elsewhere.
    by_codes: FxHashMap<Box<[Code]>, u16>,
    /// Calls whose path has no number.
    without_number: u64,
    /// Ticks that a walk takes, as a mean of the last ones.
    mean_walk: u64,
    /// Ticks of all walks.
    walk_ticks: u64,
    /// Ticks of the calls that were long enough for a walk.
    slow_ticks: u64,
    /// Nanoseconds on a core of all walks after calls of NCCL, and of the last one.
    nccl_walks_ns: u64,
    last_nccl_walk_ns: u64,
    /// When paths were prepared: ticks, and nanoseconds of the monotonic clock.
    began: (Ticks, u64),
}

/// Numbers that tell a path apart, at most.
const MOST_KEY: usize = MOST_PATH_FRAMES + MOST_PATH_LINES;

/// How much there is of a path.
struct Walked {
    /// Return addresses.
    frames: usize,
    /// Lines of Python.
    lines: usize,
}

/// A path that was looked for.
struct PathLookup {
    /// Its number in the log; `None` over the limit.
    number: Option<u16>,
    /// True if the walk did only what each does, so that it counts in the mean: no table was
    /// copied, and nothing was logged.
    is_typical: bool,
    /// True if the call is on no path: it was counted at the site of a library that is no longer
    /// loaded, or the tables of a binary on its stack have to wait.
    is_unattributed: bool,
}

/// Prepares to take paths: finds out what a walk takes on this machine.
pub fn prepare() {
    if !HOT.keeps_sites() || !memory::is_left_to_all(BYTES_PER_PATH) {
        return;
    }
    let mut paths = Paths {
        unwinder: Unwinder::new(),
        python: PythonStack::new(),
        binaries: 0,
        numbers: FxHashMap::default(),
        by_codes: FxHashMap::default(),
        without_number: 0,
        mean_walk: 0,
        walk_ticks: 0,
        slow_ticks: 0,
        nccl_walks_ns: 0,
        last_nccl_walk_ns: 0,
        began: (clock::ticks(), clock::monotonic_ns()),
    };
    // Any stack will do: that of this function.
    // SAFETY: it is this function's frame pointer.
    let Some(caller) = (unsafe { ExportFrame::leaving(frame::pointer(), &(0..0)) }) else { return };
    let mut walk = || {
        let start = clock::ticks();
        paths.walk(&caller, &mut [0; MOST_KEY]);
        clock::since(start).get()
    };
    // The first walk reads the tables of the binaries that are on the stack, the second one the
    // stack of Python for the first time.
    let _ = [walk(), walk()];
    // During one the thread may lose its core, and no call would ever be long enough.
    paths.mean_walk = [walk(), walk(), walk()].into_iter().min().unwrap_or(u64::MAX);
    paths.python.end_trials();
    paths.announce();
    *PATHS.lock().unwrap_or_else(PoisonError::into_inner) = Some(paths);
}

/// The known paths, unless another thread uses them now, or was led away from them. After a panic
/// they are used as they are: a walk looks up anew whatever it changes.
fn try_lock() -> Option<MutexGuard<'static, Option<Paths>>> {
    try_lock_anyway(&PATHS)
}

/// A sentence for `run.json` on what paths lack, if anything.
pub fn note() -> Option<String> {
    let paths = try_lock()?;
    let paths = paths.as_ref()?;
    let limit = (paths.without_number > 0).then(|| {
        format!(
            "the paths of {} slow calls are not kept: there are {MOST_PATHS} at most, and none of calls from code that is in no file, as a JIT compiler makes it",
            paths.without_number
        )
    });
    let notes: Vec<String> = limit.into_iter().chain(paths.python.note()).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Takes the path of a call that was slow, and counts the call on it.
#[cold]
pub fn slow_call(
    recorder: &Recorder,
    communicator: CommId,
    operation: Operation,
    ticks: Ticks,
    caller: &ExportFrame,
) {
    if !order::is_slow(ticks) {
        return;
    }
    // A handler that led away from here by `siglongjmp` would leave it locked for good. Nor does
    // one thread wait for another here.
    let Some(mut paths) = try_lock() else { return };
    let Some(paths) = &mut *paths else { return };
    // A call that began before the bindings were found is at its place in them, and its path would
    // not be. When it began is known by an upper bound: its own ticks, and those since it returned,
    // which are fewer than those of a slow call.
    let earliest_begin = clock::ticks()
        .get()
        .saturating_sub(ticks.get().saturating_add(paths.mean_walk.saturating_mul(TIMES)));
    if BINDINGS.came_after(earliest_begin) {
        return;
    }
    paths.slow_ticks = paths.slow_ticks.saturating_add(ticks.get());
    let left = (paths.slow_ticks / TIMES).saturating_sub(paths.walk_ticks.saturating_add(paths.mean_walk));
    let Some(Taken { number, took, is_typical }) = paths.take(recorder, operation, caller, left) else {
        return;
    };
    paths.walk_ticks = paths.walk_ticks.saturating_add(took);
    // What is done once says nothing of the next walk, nor does one during which the thread lost
    // its core.
    if is_typical {
        paths.mean_walk = (paths.mean_walk * (WEIGHT - 1) + took.min(MOST_TIMES_THE_MEAN * paths.mean_walk))
            .div_ceil(WEIGHT);
        paths.announce();
    }
    if let Some(path) = number {
        count(recorder, PathKey { path, communicator, operation: operation as u16 }.pack(), ticks);
    }
}

/// Takes the path of a call of NCCL, whatever it took; [`count`] counts the call on it.
pub fn of_nccl_call(
    recorder: &Recorder,
    communicator: CommId,
    operation: Operation,
    caller: &ExportFrame,
) -> Option<SlotKey> {
    let mut paths = try_lock()?;
    let paths = paths.as_mut()?;
    let (began, began_ns) = paths.began;
    let wall_ns = clock::monotonic_ns().saturating_sub(began_ns);
    let allowed_ns = wall_ns / PART_OF_WALL_TIME + NS_TO_BEGIN_WITH;
    let left_ns = allowed_ns.saturating_sub(paths.nccl_walks_ns.saturating_add(paths.last_nccl_walk_ns));
    if left_ns == 0 {
        return None;
    }
    // In integers: the program may trap inexact results of floating-point arithmetic.
    let left = u128::from(left_ns) * u128::from(clock::since(began).get()) / u128::from(wall_ns.max(1));
    let start_ns = clock::core_ns();
    let taken = paths.take(recorder, operation, caller, u64::try_from(left).unwrap_or(u64::MAX));
    let Taken { number, is_typical, .. } = taken?;
    let took_ns = clock::core_ns().saturating_sub(start_ns);
    paths.nccl_walks_ns = paths.nccl_walks_ns.saturating_add(took_ns);
    if is_typical {
        paths.last_nccl_walk_ns = took_ns;
    }
    Some(PathKey { path: number?, communicator, operation: operation as u16 }.pack())
}

/// Counts a call on a path.
pub fn count(recorder: &Recorder, key: SlotKey, ticks: Ticks) {
    if let Some(slot) = recorder.slot(key) {
        update(slot, |values| {
            add(&values[path::CALLS], 1);
            add(&values[path::TICKS], ticks.get());
        });
    }
}

/// A path that was taken.
struct Taken {
    /// Its number in the log, if it has one.
    number: Option<u16>,
    /// Ticks of the walk.
    took: u64,
    /// See [`PathLookup::is_typical`].
    is_typical: bool,
}

impl Paths {
    /// Takes the path from `caller` on, for which `left` ticks are left; `None` without any, and on
    /// a stack that is too small for a walk.
    fn take(
        &mut self,
        recorder: &Recorder,
        operation: Operation,
        caller: &ExportFrame,
        left: u64,
    ) -> Option<Taken> {
        if left == 0 || !stack_room::is_left(stack_room::OF_WALK) {
            return None;
        }
        let _kept = keep_thread_state();
        self.unwinder.limit_copying(left);
        let start = clock::ticks();
        let PathLookup { number, is_typical, is_unattributed } = self.find(recorder, operation, caller);
        let took = clock::since(start).get();
        sampled_overhead::note_rare(recorder.world, Ticks::new(took));
        self.without_number += u64::from(number.is_none() && !is_unattributed);
        Some(Taken { number, took, is_typical })
    }

    /// The path from `caller` on.
    fn find(&mut self, recorder: &Recorder, operation: Operation, caller: &ExportFrame) -> PathLookup {
        if self.unwinder.refresh() {
            self.numbers.clear();
            self.binaries = 0;
        }
        let mut key = [0; MOST_KEY];
        let Walked { frames, lines } = self.walk(caller, &mut key);
        if self.unwinder.was_limited() {
            return PathLookup { number: None, is_typical: false, is_unattributed: true };
        }
        // What lies between the program and the library is the MPI's.
        let bindings = key[..frames].iter().take_while(|&&address| BINDINGS.contain(address)).count();
        let (path, key) = (&key[bindings..frames], &key[bindings..frames + lines]);
        let known = self.numbers.get(key).copied();
        if let Some(number) = known.filter(|number| number.is_some() || !self.may_have_number(path)) {
            return PathLookup { number, is_typical: true, is_unattributed: false };
        }
        let bytes = if lines > 0 { BYTES_PER_PATH_OF_PYTHON } else { BYTES_PER_PATH };
        let is_full = self.numbers.len() >= 2 * MOST_PATHS;
        let has_room = self.numbers.try_reserve(1).is_ok() && self.by_codes.try_reserve(1).is_ok();
        if is_full || !has_room || !memory::is_left_to_all(bytes) {
            return PathLookup { number: None, is_typical: false, is_unattributed: false };
        }
        let frames = self.codes(recorder, path);
        // The sites of all operations are replaced now: a path that has a number does not come here
        // again.
        let is_unattributed = path.first().is_some_and(|&address| {
            SITES.replace(recorder.world, operation, address as u64, frames.first().copied())
        });
        let number = self.log(recorder, frames);
        self.numbers.insert(key.into(), number);
        // The call itself was counted at the old site already.
        PathLookup { number: number.filter(|_| !is_unattributed), is_typical: false, is_unattributed }
    }

    /// Returns whether a path that had no number may have one by now: there is a binary where its
    /// call's code was in none.
    fn may_have_number(&self, path: &[usize]) -> bool {
        self.by_codes.len() < MOST_PATHS
            && path.first().is_some_and(|&address| objects::object_at(address - 1).is_some())
    }

    /// Walks the stack, and puts what tells the path apart into `key`: return addresses, then
    /// identities of lines of Python, if it leads into the interpreter.
    fn walk(&mut self, caller: &ExportFrame, key: &mut [usize; MOST_KEY]) -> Walked {
        let binaries = self.unwinder.binaries();
        if binaries != self.binaries {
            self.binaries = binaries;
            self.python.look();
        }
        let Some((addresses, identities)) = key.split_first_chunk_mut::<MOST_PATH_FRAMES>() else {
            return Walked { frames: 0, lines: 0 };
        };
        self.python.begin();
        let python = &mut self.python;
        let frames = self.unwinder.walk(caller, addresses, |address| python.enter(address));
        let lines = self.python.identities(identities);
        key.copy_within(MOST_PATH_FRAMES..MOST_PATH_FRAMES + lines, frames);
        Walked { frames, lines }
    }

    /// The places of a path, with those of Python.
    fn codes(&mut self, recorder: &Recorder, path: &[usize]) -> Vec<Code> {
        let segment = &recorder.world.segment;
        let mut frames = SITES.codes(segment, path);
        if frames.len() == path.len() {
            frames.extend(SITES.codes_of_lines(segment, self.python.lines()));
        }
        frames
    }

    /// The number of a path in the log, into which it is put if it is not there.
    fn log(&mut self, recorder: &Recorder, frames: Vec<Code>) -> Option<u16> {
        let segment = &recorder.world.segment;
        if let Some(&number) = self.by_codes.get(frames.as_slice()) {
            return Some(number);
        }
        if frames.is_empty() || self.by_codes.len() >= MOST_PATHS {
            return None;
        }
        let number = u16::try_from(self.by_codes.len()).ok()?;
        let codes = frames.clone().into_boxed_slice();
        if !segment.log(&Record::Path { frames }) {
            return None;
        }
        self.by_codes.insert(codes, number);
        Some(number)
    }

    /// Lets calls know from what length on their path is taken.
    fn announce(&self) {
        order::set_slow(self.mean_walk.saturating_mul(TIMES));
    }
}
