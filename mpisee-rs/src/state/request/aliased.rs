//! Aliased requests: operations that were complete when they started, to which MPI libraries give
//! one shared handle. Several are open under that handle, so they are distinguished by the address
//! of the program's variable: it holds the request that was stored there last. Handles that the
//! program has moved are matched oldest first, those of the calling thread before others. Only the
//! owner (communicator and kind) is kept of them.

use super::entries::{ByVariable, Entries};
use super::{Owner, RequestKind};
use crate::state::world;
use crate::storage::patience::PatientMutex;
use mpisee_profile::CommId;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// The open requests with aliased handles. One for which there is no memory is not kept, so that
/// its completion is of unknown origin; so is one if another thread keeps the lock for good.
#[repr(C, align(64))]
pub struct AliasedHandles {
    /// True if several threads use it.
    shared: AtomicBool,
    /// Requests started so far, by which they are ordered.
    started: AtomicU32,
    /// Of `entries`.
    count: AtomicUsize,
    /// Of `by_variable`.
    by_variable_count: AtomicUsize,
    /// Of `entries`, where several threads use it.
    lock: PatientMutex<()>,
    entries: UnsafeCell<Option<Entries>>,
    /// By [`index`]: the last one that was started of those with one index. What it displaced is in
    /// `entries`.
    by_variable: UnsafeCell<[ByVariable; VARIABLES]>,
}

/// Requests that are found by their variable at once.
const VARIABLES: usize = 64;

/// Limit on kept requests; beyond it the oldest is dropped. A program that never completes requests
/// leaks them.
const MOST_KEPT: usize = 1 << 20;

// SAFETY: the entries are used by one thread at a time: MPI allows only one, or the lock is taken.
unsafe impl Sync for AliasedHandles {}

/// Where the request of a variable is: neighbours in an array are neighbours here.
#[inline(always)]
fn index(variable: usize) -> usize {
    variable / 4 % VARIABLES
}

impl AliasedHandles {
    pub const fn new() -> Self {
        AliasedHandles {
            shared: AtomicBool::new(false),
            started: AtomicU32::new(0),
            count: AtomicUsize::new(0),
            by_variable_count: AtomicUsize::new(0),
            lock: PatientMutex::new(()),
            entries: UnsafeCell::new(None),
            by_variable: UnsafeCell::new([ByVariable::NONE; VARIABLES]),
        }
    }

    /// Several threads call MPI at the same time. Called before the first request is started: from
    /// then on, requests are kept in the entries alone, behind the lock.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Returns whether nothing is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0 && self.by_variable_count.load(Ordering::Relaxed) == 0
    }

    /// Uses the entries; `None` if a thread that uses them does not come to an end.
    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut Entries) -> R) -> Option<R> {
        let shared = self.shared.load(Ordering::Relaxed);
        let _held = if shared { Some(self.lock.lock()?) } else { None };
        // SAFETY: with several threads the lock is held, otherwise there is one.
        let entries = unsafe { &mut *self.entries.get() }.get_or_insert_default();
        let result = work(entries);
        self.count.store(entries.count(), Ordering::Relaxed);
        Some(result)
    }

    /// Adds the request that a call stored in `variable`, if it shares its index with no other;
    /// else it does nothing, and returns false.
    ///
    /// PERF: it is written to one line, and completed from there.
    #[inline(always)]
    pub fn try_add(&self, key: u64, variable: usize, owner: Owner) -> bool {
        if self.shared.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: threads call MPI one at a time, ordered by the program (`MPI_THREAD_SERIALIZED`
        // at most).
        let entry = unsafe { &mut (&mut *self.by_variable.get())[index(variable)] };
        let is_free = entry.key == 0;
        if is_free {
            *entry = ByVariable { key, variable, owner, number: self.next_number() };
            self.count_by_variable(1);
        }
        is_free
    }

    /// Of a request that is started now.
    #[inline(always)]
    fn next_number(&self) -> u32 {
        let number = self.started.load(Ordering::Relaxed);
        self.started.store(number.wrapping_add(1), Ordering::Relaxed);
        number
    }

    /// Adds the request that a call stored in `variable`.
    pub fn add(&self, key: u64, variable: usize, owner: Owner) {
        let new = ByVariable { key, variable, owner, number: self.next_number() };
        if self.shared.load(Ordering::Relaxed) || variable == super::NO_VARIABLE {
            return self.add_entry(new);
        }
        // SAFETY: threads call MPI one at a time, ordered by the program (`MPI_THREAD_SERIALIZED`
        // at most).
        let entry = unsafe { &mut (&mut *self.by_variable.get())[index(variable)] };
        let before = std::mem::replace(entry, new);
        if before.key == 0 {
            self.count_by_variable(1);
        } else {
            self.add_entry(before);
        }
    }

    /// The request in `variable`, if it is found at once.
    #[inline(always)]
    pub fn find_by_variable(&self, key: u64, variable: usize) -> Option<Owner> {
        // SAFETY: threads call MPI one at a time, ordered by the program; where they may at once,
        // nobody writes to it, see `share`.
        let entry = unsafe { &(&*self.by_variable.get())[index(variable)] };
        entry.is(key, variable).then_some(entry.owner)
    }

    /// As [`AliasedHandles::find_by_variable`], and removes it.
    #[inline(always)]
    pub fn take_by_variable(&self, key: u64, variable: usize) -> Option<Owner> {
        let owner = self.find_by_variable(key, variable)?;
        // SAFETY: an entry is found only while threads call MPI one at a time: after `share`, none
        // is ever stored here.
        unsafe { (&mut *self.by_variable.get())[index(variable)].key = 0 };
        self.count_by_variable(usize::MAX);
        Some(owner)
    }

    /// Adds to the number of them; `usize::MAX` takes one away.
    #[inline(always)]
    fn count_by_variable(&self, more: usize) {
        let count = self.by_variable_count.load(Ordering::Relaxed).wrapping_add(more);
        self.by_variable_count.store(count, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn add_entry(&self, new: ByVariable) {
        world::guarded(|| {
            self.with(|entries| {
                if entries.count() == MOST_KEPT {
                    entries.remove_oldest();
                }
                entries.add(new, self.thread());
            });
        });
    }

    /// Moves all to the entries, where each is found wherever its handle has been moved.
    #[cold]
    fn move_to_entries(&self) {
        if self.by_variable_count.load(Ordering::Relaxed) > 0 {
            // SAFETY: there is something in it, so that threads call MPI one at a time, see
            // `share`.
            let moved =
                unsafe { std::mem::replace(&mut *self.by_variable.get(), [ByVariable::NONE; VARIABLES]) };
            self.by_variable_count.store(0, Ordering::Relaxed);
            moved.into_iter().filter(|entry| entry.key != 0).for_each(|entry| self.add_entry(entry));
        }
    }

    /// The owner of the request in `variable`.
    pub fn look(&self, key: u64, variable: usize) -> Option<Owner> {
        self.find_by_variable(key, variable).or_else(|| {
            self.move_to_entries();
            self.with(|entries| {
                entries.find(key, variable, self.thread(), None).map(|at| *entries.owner(at))
            })?
        })
    }

    /// As [`AliasedHandles::look`], and removes the request. Of those whose handles were moved, one
    /// of the communicator `prefer` comes first.
    pub fn take(&self, key: u64, variable: usize, prefer: Option<CommId>) -> Option<Owner> {
        self.take_by_variable(key, variable).or_else(|| {
            self.move_to_entries();
            self.with(|entries| {
                entries.find(key, variable, self.thread(), prefer).map(|at| entries.remove(at))
            })?
        })
    }

    /// Changes what the request in `variable` stands for.
    pub fn change_kind(&self, key: u64, variable: usize, kind: RequestKind) {
        self.move_to_entries();
        self.with(|entries| {
            if let Some(at) = entries.find(key, variable, self.thread(), None) {
                entries.owner(at).kind = kind;
            }
        });
    }

    /// A number that differs between threads, where several call MPI.
    #[inline]
    fn thread(&self) -> usize {
        if self.shared.load(Ordering::Relaxed) { crate::state::thread::number() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sync::core_time;
    use std::thread;
    use std::time::Duration;

    fn owner(communicator: u32) -> Owner {
        Owner {
            communicator: CommId::new(communicator),
            kind: RequestKind::Send,
            peer: 0,
            active: true,
            recorded: true,
            doubtful: false,
        }
    }

    fn take(open: &AliasedHandles, key: u64, variable: usize) -> Option<u32> {
        open.take(key, variable, None).map(|owner| owner.communicator.get())
    }

    #[test]
    fn a_variable_holds_what_was_last_stored_there() {
        let open = AliasedHandles::new();
        open.add(9, 100, owner(1));
        open.add(9, 100, owner(2));
        assert_eq!(take(&open, 9, 100), Some(2));
        // The program kept the first in another variable.
        assert_eq!(take(&open, 9, 200), Some(1));
        assert_eq!(take(&open, 9, 100), None);
    }

    #[test]
    fn moved_requests_are_taken_in_the_order_of_their_begin() {
        let open = AliasedHandles::new();
        for communicator in 0..1000 {
            open.add(9, 100, owner(communicator));
        }
        assert!((0..1000).all(|expected| take(&open, 9, 5000 + expected as usize) == Some(expected)));
        assert_eq!(take(&open, 9, 100), None);
    }

    #[test]
    fn many_variables_are_found_in_any_order() {
        let open = AliasedHandles::new();
        for at in 0..1000 {
            open.add(9, at, owner(at as u32));
        }
        for at in (0..1000).rev() {
            assert_eq!(open.look(9, at).map(|owner| owner.communicator.get()), Some(at as u32));
            assert_eq!(take(&open, 9, at), Some(at as u32));
        }
    }

    #[test]
    fn a_request_of_unknown_variable_is_the_one_that_is_left() {
        for last_first in [false, true] {
            let open = AliasedHandles::new();
            open.add(9, crate::state::request::NO_VARIABLE, owner(1));
            open.add(9, 200, owner(2));
            let mut taken = [(100, 1), (200, 2)];
            if last_first {
                taken.reverse();
            }
            assert!(taken.iter().all(|&(variable, expected)| take(&open, 9, variable) == Some(expected)));
        }
    }

    #[test]
    fn a_moved_request_is_found_behind_many_of_another_handle() {
        let open = AliasedHandles::new();
        for variable in 0..200 {
            open.add(8, 1000 + variable, owner(1));
        }
        open.add(9, 100, owner(2));
        assert_eq!(take(&open, 9, 5000), Some(2));
        assert_eq!(take(&open, 9, 5000), None);
    }

    #[test]
    fn of_moved_requests_those_of_one_communicator_stay_together() {
        let open = AliasedHandles::new();
        for at in 0..20 {
            open.add(9, 100, owner(at % 2));
        }
        for _ in 0..10 {
            let taken = open.take(9, 5000, Some(CommId::new(1)));
            assert_eq!(taken.map(|owner| owner.communicator), Some(CommId::new(1)));
        }
        assert!((0..10).all(|_| take(&open, 9, 5000) == Some(0)));
    }

    #[test]
    fn many_requests_of_one_variable_are_taken_without_a_search() {
        let open = AliasedHandles::new();
        const MANY: u32 = 200_000; // a search for each would take minutes
        (0..MANY).for_each(|at| open.add(9, 100, owner(at)));
        assert!((0..MANY).all(|at| take(&open, 9, 5000) == Some(at)));
        assert!(open.is_empty());
    }

    #[test]
    fn another_handle_is_not_taken() {
        let open = AliasedHandles::new();
        open.add(9, 100, owner(1));
        assert_eq!(take(&open, 8, 300), None);
        assert_eq!(take(&open, 9, 300), Some(1));
    }

    #[test]
    fn a_thread_that_waits_for_the_entries_gives_up_its_core() {
        const LONG: Duration = Duration::from_millis(400);
        let open = AliasedHandles::new();
        open.share();
        let is_held = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                open.with(|_| {
                    is_held.store(true, Ordering::Release);
                    thread::sleep(LONG);
                });
            });
            while !is_held.load(Ordering::Acquire) {
                thread::yield_now();
            }
            assert!(core_time(|| open.add(9, 100, owner(1))) < LONG / 8);
        });
        assert_eq!(take(&open, 9, 100), Some(1));
    }

    #[test]
    fn entries_that_a_thread_keeps_are_not_waited_for_for_ever() {
        let open = AliasedHandles::new();
        open.share();
        open.add(9, 100, owner(1));
        let left = open.lock.lock().expect("nobody holds it");
        open.add(9, 200, owner(2));
        assert_eq!((take(&open, 9, 100), take(&open, 9, 200)), (None, None));
        drop(left);
        assert_eq!((take(&open, 9, 100), take(&open, 9, 200)), (Some(1), None));
    }
}
