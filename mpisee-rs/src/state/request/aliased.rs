//! Aliased requests: operations that were complete when they started, to which MPI libraries give one shared handle.
//! Several are open under that handle, so they are distinguished by the address of the program's variable: it holds the
//! request that was stored there last. Handles that the program has moved are matched oldest first, those of the
//! calling thread before others. Only the owner (communicator and kind) is kept of them.

use super::{Kind, Owner};
use crate::state::world;
use mpisee_profile::CommId;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// The open requests with aliased handles. One for which there is no memory is not kept, so that its completion is of
/// unknown origin.
#[repr(C, align(64))]
pub struct AliasedHandles {
    /// Whether several threads use it.
    shared: AtomicBool,
    lock: AtomicBool,
    /// Requests started so far, by which they are ordered.
    started: AtomicU32,
    /// Of `entries`.
    count: AtomicUsize,
    /// Of `by_variable`.
    by_variable_count: AtomicUsize,
    entries: UnsafeCell<Option<Entries>>,
    /// By [`ByVariable::index`].
    by_variable: UnsafeCell<[ByVariable; VARIABLES]>,
}

/// Requests that are found by their variable at once.
const VARIABLES: usize = 64;

/// A request by the address of its variable: the last one that was started of those with one index. What it displaced is
/// in [`Entries`].
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct ByVariable {
    /// The handle; 0 for none.
    key: u64,
    place: usize,
    owner: Owner,
    /// Its number among all that were started.
    number: u32,
}

const _: () = assert!(size_of::<ByVariable>() == 32);

impl ByVariable {
    const NONE: ByVariable = ByVariable {
        key: 0,
        place: 0,
        owner: Owner {
            communicator: CommId::NONE,
            kind: Kind::Send,
            peer: 0,
            active: false,
            recorded: false,
            doubtful: false,
        },
        number: 0,
    };

    /// Where the request at a place is: neighbours in an array are neighbours here.
    #[inline(always)]
    fn index(place: usize) -> usize {
        place / 4 % VARIABLES
    }

    #[inline(always)]
    fn is(&self, key: u64, place: usize) -> bool {
        self.key == key && self.place == place
    }
}

/// Limit on kept requests; beyond it the oldest is dropped. A program that never completes requests leaks them.
const MOST_KEPT: usize = 1 << 20;
/// The number of oldest requests that are searched for one with a given handle.
const LOOK_AHEAD: usize = 64;

// SAFETY: the entries are used by one thread at a time: MPI allows only one, or the lock is taken.
unsafe impl Sync for AliasedHandles {}

impl AliasedHandles {
    pub const fn new() -> Self {
        AliasedHandles {
            shared: AtomicBool::new(false),
            lock: AtomicBool::new(false),
            started: AtomicU32::new(0),
            count: AtomicUsize::new(0),
            by_variable_count: AtomicUsize::new(0),
            entries: UnsafeCell::new(None),
            by_variable: UnsafeCell::new([ByVariable::NONE; VARIABLES]),
        }
    }

    /// Several threads call MPI at the same time. Called before the first request is started: from then on, requests are kept
    /// in the entries alone, behind the lock.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Whether nothing is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0 && self.by_variable_count.load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn with<R>(&self, work: impl FnOnce(&mut Entries) -> R) -> R {
        let shared = self.shared.load(Ordering::Relaxed);
        while shared && self.lock.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: with several threads the lock is held, otherwise there is one.
        let entries = unsafe { &mut *self.entries.get() }.get_or_insert_default();
        let result = work(entries);
        self.count.store(entries.count, Ordering::Relaxed);
        if shared {
            self.lock.store(false, Ordering::Release);
        }
        result
    }

    /// Adds the request that a call stored at `place`, if it shares its index with no other; else it does nothing, and
    /// returns false.
    ///
    /// PERF: it is written to one line, and completed from there.
    #[inline(always)]
    pub fn try_add(&self, key: u64, place: usize, owner: Owner) -> bool {
        if self.shared.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: one thread calls MPI.
        let entry = unsafe { &mut (&mut *self.by_variable.get())[ByVariable::index(place)] };
        let is_free = entry.key == 0;
        if is_free {
            *entry = ByVariable { key, place, owner, number: self.next_number() };
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

    /// Adds the request that a call stored at `place`.
    pub fn add(&self, key: u64, place: usize, owner: Owner) {
        let new = ByVariable { key, place, owner, number: self.next_number() };
        if self.shared.load(Ordering::Relaxed) || place == super::NO_PLACE {
            return self.add_entry(new);
        }
        // SAFETY: one thread calls MPI.
        let entry = unsafe { &mut (&mut *self.by_variable.get())[ByVariable::index(place)] };
        let before = std::mem::replace(entry, new);
        if before.key == 0 {
            self.count_by_variable(1);
        } else {
            self.add_entry(before);
        }
    }

    /// The request at `place`, if it is found at once.
    #[inline(always)]
    pub fn find_by_variable(&self, key: u64, place: usize) -> Option<Owner> {
        // SAFETY: one thread calls MPI; where there are several, nobody writes to it, see `share`.
        let entry = unsafe { &(&*self.by_variable.get())[ByVariable::index(place)] };
        entry.is(key, place).then_some(entry.owner)
    }

    /// As [`AliasedHandles::find_by_variable`], and removes it.
    #[inline(always)]
    pub fn take_by_variable(&self, key: u64, place: usize) -> Option<Owner> {
        let owner = self.find_by_variable(key, place)?;
        // SAFETY: as above.
        unsafe { (&mut *self.by_variable.get())[ByVariable::index(place)].key = 0 };
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
                if entries.count == MOST_KEPT {
                    entries.remove(entries.oldest);
                }
                entries.add(new, self.thread());
            });
        });
    }

    /// Moves all to the entries, where each is found wherever its handle has been moved.
    #[cold]
    fn move_to_entries(&self) {
        if self.by_variable_count.load(Ordering::Relaxed) > 0 {
            // SAFETY: there is something in it, so that one thread calls MPI, see `share`.
            let moved =
                unsafe { std::mem::replace(&mut *self.by_variable.get(), [ByVariable::NONE; VARIABLES]) };
            self.by_variable_count.store(0, Ordering::Relaxed);
            moved.into_iter().filter(|entry| entry.key != 0).for_each(|entry| self.add_entry(entry));
        }
    }

    /// The owner of the request at `place`.
    pub fn look(&self, key: u64, place: usize) -> Option<Owner> {
        self.find_by_variable(key, place).or_else(|| {
            self.move_to_entries();
            self.with(|entries| {
                entries.find(key, place, self.thread()).map(|at| entries.nodes[at as usize].started.owner)
            })
        })
    }

    /// As [`AliasedHandles::look`], and removes the request.
    pub fn take(&self, key: u64, place: usize) -> Option<Owner> {
        self.take_by_variable(key, place).or_else(|| {
            self.move_to_entries();
            self.with(|entries| entries.find(key, place, self.thread()).map(|at| entries.remove(at)))
        })
    }

    /// Changes what the request at `place` stands for.
    pub fn change_kind(&self, key: u64, place: usize, kind: Kind) {
        self.move_to_entries();
        self.with(|entries| {
            if let Some(at) = entries.find(key, place, self.thread()) {
                entries.nodes[at as usize].started.owner.kind = kind;
            }
        });
    }

    /// A number that differs between threads, where several call MPI.
    #[inline]
    fn thread(&self) -> usize {
        if self.shared.load(Ordering::Relaxed) { crate::state::thread::number() } else { 0 }
    }
}

/// "No entry".
const NONE: u32 = u32::MAX;
/// Chains at first; a power of two.
const FIRST_CHAINS: usize = 256;

/// Entries in two orders: all of them by age, and in chains by handle and place, the youngest first.
struct Entries {
    nodes: Vec<Node>,
    free: Vec<u32>,
    count: usize,
    oldest: u32,
    youngest: u32,
    chains: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Node {
    started: ByVariable,
    /// The thread that started it.
    thread: usize,
    older: u32,
    younger: u32,
    next_in_chain: u32,
}

impl Default for Entries {
    fn default() -> Self {
        Entries {
            nodes: Vec::new(),
            free: Vec::new(),
            count: 0,
            oldest: NONE,
            youngest: NONE,
            chains: Vec::new(),
        }
    }
}

impl Entries {
    fn add(&mut self, started: ByVariable, thread: usize) {
        if self.count >= self.chains.len() && !self.lengthen() {
            return;
        }
        let Some(at) = self.free_node() else { return };
        let chain = self.chain(started.key, started.place);
        // As a rule the youngest: what comes from `by_variable` may be older than some that came before.
        let (mut older, mut younger) = (self.youngest, NONE);
        while let Some(node) = self.nodes.get(older as usize)
            && node.started.number.wrapping_sub(started.number) as i32 > 0
        {
            (older, younger) = (node.older, older);
        }
        self.nodes[at as usize] = Node { started, thread, older, younger, next_in_chain: self.chains[chain] };
        self.chains[chain] = at;
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.younger = at,
            None => self.oldest = at,
        }
        match self.nodes.get_mut(younger as usize) {
            Some(younger) => younger.older = at,
            None => self.youngest = at,
        }
        self.count += 1;
    }

    /// A node for a new entry; `None` if there is no memory for it.
    fn free_node(&mut self) -> Option<u32> {
        let free = self.free.pop();
        if free.is_none() && self.has_room() {
            let node = Node {
                started: ByVariable::NONE,
                thread: 0,
                older: NONE,
                younger: NONE,
                next_in_chain: NONE,
            };
            self.nodes.push(node);
            return Some(self.nodes.len() as u32 - 1);
        }
        free
    }

    /// Whether there is room for a further node, and for each in the list of free ones.
    fn has_room(&mut self) -> bool {
        self.nodes.try_reserve(1).is_ok() && self.free.try_reserve(self.nodes.capacity()).is_ok()
    }

    /// The chain of a handle and a place, by multiplication: addresses, which nobody chooses with ill intent.
    #[inline]
    fn chain(&self, key: u64, place: usize) -> usize {
        let mixed = (key.rotate_left(32) ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & self.chains.len().wrapping_sub(1)
    }

    /// Twice as many chains, with the same entries. Without memory for them they stay as they are; false if there are
    /// none.
    #[cold]
    fn lengthen(&mut self) -> bool {
        let count = FIRST_CHAINS.max(self.chains.len() * 2);
        let mut chains = Vec::new();
        if chains.try_reserve_exact(count).is_err() {
            return !self.chains.is_empty();
        }
        chains.resize(count, NONE);
        self.chains = chains;
        let mut at = self.oldest;
        while let Some(node) = self.nodes.get(at as usize).copied() {
            let chain = self.chain(node.started.key, node.started.place);
            self.nodes[at as usize].next_in_chain = self.chains[chain];
            self.chains[chain] = at;
            at = node.younger;
        }
        true
    }

    /// The youngest at the place; else the oldest with that handle.
    #[inline]
    fn find(&self, key: u64, place: usize, thread: usize) -> Option<u32> {
        let mut at = self.chains.get(self.chain(key, place)).copied().unwrap_or(NONE);
        while let Some(node) = self.nodes.get(at as usize) {
            if node.started.is(key, place) {
                return Some(at);
            }
            at = node.next_in_chain;
        }
        self.find_moved(key, thread)
    }

    #[cold]
    fn find_moved(&self, key: u64, thread: usize) -> Option<u32> {
        let next = |&at: &u32| self.nodes.get(at as usize).map(|node| node.younger);
        let oldest_first = std::iter::successors(Some(self.oldest), next).take(LOOK_AHEAD);
        let is_of = |at: &u32| self.nodes.get(*at as usize).is_some_and(|node| node.started.key == key);
        let candidates = || oldest_first.clone().filter(is_of);
        candidates().find(|&at| self.nodes[at as usize].thread == thread).or_else(|| candidates().next())
    }

    fn remove(&mut self, at: u32) -> Owner {
        let Node { started: ByVariable { key, place, owner, .. }, older, younger, next_in_chain, .. } =
            self.nodes[at as usize];
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.younger = younger,
            None => self.oldest = younger,
        }
        match self.nodes.get_mut(younger as usize) {
            Some(younger) => younger.older = older,
            None => self.youngest = older,
        }
        let chain = self.chain(key, place);
        if self.chains[chain] == at {
            self.chains[chain] = next_in_chain;
        } else {
            let mut before = self.chains[chain];
            while self.nodes[before as usize].next_in_chain != at {
                before = self.nodes[before as usize].next_in_chain;
            }
            self.nodes[before as usize].next_in_chain = next_in_chain;
        }
        self.free.push(at);
        self.count -= 1;
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(communicator: u32) -> Owner {
        Owner {
            communicator: CommId::new(communicator),
            kind: Kind::Send,
            peer: 0,
            active: true,
            recorded: true,
            doubtful: false,
        }
    }

    fn take(open: &AliasedHandles, key: u64, place: usize) -> Option<u32> {
        open.take(key, place).map(|owner| owner.communicator.get())
    }

    #[test]
    fn a_place_holds_what_was_last_stored_there() {
        let open = AliasedHandles::new();
        open.add(9, 100, of(1));
        open.add(9, 100, of(2));
        assert_eq!(take(&open, 9, 100), Some(2));
        // The program kept the first in another variable.
        assert_eq!(take(&open, 9, 200), Some(1));
        assert_eq!(take(&open, 9, 100), None);
    }

    #[test]
    fn moved_requests_are_taken_in_the_order_of_their_begin() {
        let open = AliasedHandles::new();
        for communicator in 0..1000 {
            open.add(9, 100, of(communicator));
        }
        assert!((0..1000).all(|expected| take(&open, 9, 5000 + expected as usize) == Some(expected)));
        assert_eq!(take(&open, 9, 100), None);
    }

    #[test]
    fn many_places_are_found_in_any_order() {
        let open = AliasedHandles::new();
        for at in 0..1000 {
            open.add(9, at, of(at as u32));
        }
        for at in (0..1000).rev() {
            assert_eq!(open.look(9, at).map(|owner| owner.communicator.get()), Some(at as u32));
            assert_eq!(take(&open, 9, at), Some(at as u32));
        }
    }

    #[test]
    fn one_whose_place_is_unknown_is_the_one_that_no_place_tells() {
        for last_first in [false, true] {
            let open = AliasedHandles::new();
            open.add(9, crate::state::request::NO_PLACE, of(1));
            open.add(9, 200, of(2));
            let mut taken = [(100, 1), (200, 2)];
            if last_first {
                taken.reverse();
            }
            assert!(taken.iter().all(|&(place, expected)| take(&open, 9, place) == Some(expected)));
        }
    }

    #[test]
    fn another_handle_is_not_taken() {
        let open = AliasedHandles::new();
        open.add(9, 100, of(1));
        assert_eq!(take(&open, 8, 300), None);
        assert_eq!(take(&open, 9, 300), Some(1));
    }
}
