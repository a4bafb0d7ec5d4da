//! Requests that were complete when they were started. MPI libraries give many of them one handle, so that
//! several are open under one name. They are told apart by where the application keeps them: what a
//! variable holds now is what was last stored there. Those that it moved elsewhere are taken in the order in
//! which they began, first those of the same thread. Nothing is left to learn of them but whose they were.

use super::Started;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// The open requests whose handles are shared.
pub struct SharedHandles {
    /// Whether several threads use it.
    shared: AtomicBool,
    lock: AtomicBool,
    entries: UnsafeCell<Option<Entries>>,
}

/// More than this are not kept: a program that never completes them has leaked them.
const MOST_KEPT: usize = 1 << 20;
/// How many of the oldest are searched for one of the same handle.
const LOOK_AHEAD: usize = 64;

// SAFETY: the entries are used by one thread at a time: MPI allows only one, or the lock is taken.
unsafe impl Sync for SharedHandles {}

impl SharedHandles {
    pub const fn new() -> Self {
        SharedHandles {
            shared: AtomicBool::new(false),
            lock: AtomicBool::new(false),
            entries: UnsafeCell::new(None),
        }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    fn with<R>(&self, work: impl FnOnce(&mut Entries) -> R) -> R {
        let shared = self.shared.load(Ordering::Relaxed);
        while shared && self.lock.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: with several threads the lock is held, otherwise there is one.
        let result = work(unsafe { &mut *self.entries.get() }.get_or_insert_default());
        if shared {
            self.lock.store(false, Ordering::Release);
        }
        result
    }

    /// Adds the request that a call stored at `place`.
    pub fn add(&self, key: u64, place: usize, started: Started) {
        self.with(|entries| {
            if entries.count == MOST_KEPT {
                entries.remove(entries.in_order.first);
            }
            entries.add(key, place, started);
        });
    }

    /// What the request at `place` stands for.
    pub fn look(&self, key: u64, place: usize) -> Option<Started> {
        self.with(|entries| entries.find(key, place).map(|at| entries.nodes[at as usize].started))
    }

    /// The same, and it is open no longer.
    pub fn take(&self, key: u64, place: usize) -> Option<Started> {
        self.with(|entries| entries.find(key, place).map(|at| entries.remove(at)))
    }
}

/// "No entry".
const NONE: u32 = u32::MAX;

/// Entries in two orders: all of them by age, and those of one place by age.
struct Entries {
    nodes: Vec<Node>,
    free: Vec<u32>,
    count: usize,
    in_order: Ends,
    by_place: HashMap<(u64, usize), u32, BuildHasherDefault<Mix>>,
}

struct Ends {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Node {
    key: u64,
    place: usize,
    started: Started,
    /// The thread that started it.
    thread: usize,
    /// The next older and the next younger of all.
    older: u32,
    younger: u32,
    /// The same of those at one place; `by_place` has the youngest.
    older_here: u32,
    younger_here: u32,
}

impl Default for Entries {
    fn default() -> Self {
        Entries {
            nodes: Vec::new(),
            free: Vec::new(),
            count: 0,
            in_order: Ends { first: NONE, last: NONE },
            by_place: HashMap::default(),
        }
    }
}

impl Entries {
    fn add(&mut self, key: u64, place: usize, started: Started) {
        let (older, older_here) = (self.in_order.last, self.by_place.get(&(key, place)).copied());
        let older_here = older_here.unwrap_or(NONE);
        let thread = crate::thread::number();
        let node = Node { key, place, started, thread, older, younger: NONE, older_here, younger_here: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        match self.node(older) {
            Some(older) => older.younger = at,
            None => self.in_order.first = at,
        }
        self.in_order.last = at;
        if let Some(older) = self.node(older_here) {
            older.younger_here = at;
        }
        self.by_place.insert((key, place), at);
        self.count += 1;
    }

    fn node(&mut self, at: u32) -> Option<&mut Node> {
        self.nodes.get_mut(at as usize)
    }

    /// The youngest at the place; else the oldest with that handle.
    fn find(&self, key: u64, place: usize) -> Option<u32> {
        let here = self.by_place.get(&(key, place)).copied();
        here.or_else(|| {
            let oldest_first = std::iter::successors(Some(self.in_order.first), |&at| {
                Some(self.nodes.get(at as usize)?.younger)
            });
            let same_handle = |at: &u32| self.nodes.get(*at as usize).is_some_and(|node| node.key == key);
            let candidates = || oldest_first.clone().take(LOOK_AHEAD).filter(same_handle);
            let own = crate::thread::number();
            candidates().find(|&at| self.nodes[at as usize].thread == own).or_else(|| candidates().next())
        })
    }

    fn remove(&mut self, at: u32) -> Started {
        let Node { key, place, started, older, younger, older_here, younger_here, .. } =
            self.nodes[at as usize];
        match self.node(older) {
            Some(older) => older.younger = younger,
            None => self.in_order.first = younger,
        }
        match self.node(younger) {
            Some(younger) => younger.older = older,
            None => self.in_order.last = older,
        }
        if let Some(older) = self.node(older_here) {
            older.younger_here = younger_here;
        }
        match (self.node(younger_here), older_here) {
            (Some(younger), _) => younger.older_here = older_here,
            (None, NONE) => {
                self.by_place.remove(&(key, place));
            }
            (None, _) => {
                self.by_place.insert((key, place), older_here);
            }
        }
        self.free.push(at);
        self.count -= 1;
        started
    }
}

/// A hash by multiplication: the keys are addresses, which nobody chooses with ill intent.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Counted;
    use crate::request::Kind;
    use mpisee_profile::Operation;

    fn of(communicator: u32) -> Started {
        let operation = Operation::Isend;
        Started::once(
            Kind::Send,
            Counted { communicator, region: 0, operation, message: 0, bytes: 0, ticks: 0 },
        )
    }

    fn take(open: &SharedHandles, key: u64, place: usize) -> Option<u32> {
        open.take(key, place).map(|started| started.counted.communicator)
    }

    #[test]
    fn a_place_holds_what_was_last_stored_there() {
        let open = SharedHandles::new();
        open.add(9, 100, of(1));
        open.add(9, 100, of(2));
        assert_eq!(take(&open, 9, 100), Some(2));
        // The program kept the first in another variable.
        assert_eq!(take(&open, 9, 200), Some(1));
        assert_eq!(take(&open, 9, 100), None);
    }

    #[test]
    fn what_was_moved_is_taken_in_the_order_of_its_begin() {
        let open = SharedHandles::new();
        for communicator in 0..1000 {
            open.add(9, 100, of(communicator));
        }
        assert!((0..1000).all(|expected| take(&open, 9, 5000 + expected as usize) == Some(expected)));
        assert_eq!(take(&open, 9, 100), None);
    }

    #[test]
    fn many_places_are_found_in_any_order() {
        let open = SharedHandles::new();
        for at in 0..1000 {
            open.add(9, at, of(at as u32));
        }
        for at in (0..1000).rev() {
            assert_eq!(open.look(9, at).map(|started| started.counted.communicator), Some(at as u32));
            assert_eq!(take(&open, 9, at), Some(at as u32));
        }
    }

    #[test]
    fn another_handle_is_not_taken() {
        let open = SharedHandles::new();
        open.add(9, 100, of(1));
        assert_eq!(take(&open, 8, 300), None);
        assert_eq!(take(&open, 9, 300), Some(1));
    }
}
