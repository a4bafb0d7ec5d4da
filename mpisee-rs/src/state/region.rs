//! Named regions of the program, which nest.

use crate::storage::clock;
use crate::storage::counters::{Counters, add, update};
use crate::storage::segment::Segment;
use mpisee_profile::segment::Key;
use mpisee_profile::segment::key::MOST_REGIONS;
use mpisee_profile::segment::layout::{Slot, region};
use mpisee_profile::segment::log::Record;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The regions of the process. Its threads share them: what an OpenMP thread calls in `solver` is in it.
pub static REGIONS: Regions =
    Regions { current: AtomicU32::new(0), stack: LazyLock::new(|| Mutex::new(Stack::new())) };

/// Nested regions.
pub struct Regions {
    current: AtomicU32,
    stack: LazyLock<Mutex<Stack>>,
}

struct Stack {
    numbers: HashMap<(u32, String), u32>,
    open: Vec<Open>,
    counters: Counters,
}

/// An open region. `slot` is `None` if there was no room: calls then count in the enclosing region.
struct Open {
    number: u32,
    name: String,
    slot: Option<&'static Slot>,
    since: u64,
}

impl Regions {
    /// The number of the innermost region; 0 outside of any.
    #[inline]
    pub fn current(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// A region begins.
    pub fn begin(&self, segment: &Segment, name: &str) {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        let outer = self.current();
        let name = name.replace('/', "_");
        let slot = stack.slot(segment, outer, &name);
        let since = clock::ticks();
        if let Some((_, slot)) = slot {
            update(slot, |values| {
                add(&values[region::ENTRIES], 1);
                values[region::OPEN_SINCE].store(since, Ordering::Relaxed);
            });
        }
        let number = slot.map_or(outer, |(number, _)| number);
        stack.open.push(Open { number, name, slot: slot.map(|(_, slot)| slot), since });
        self.current.store(number, Ordering::Relaxed);
    }

    /// Ends the innermost region, or the innermost of that name together with the regions inside it. An end without a
    /// begin is ignored.
    pub fn end(&self, name: Option<&str>) {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(keep) = (match name {
            None => stack.open.len().checked_sub(1),
            Some(name) => stack.open.iter().rposition(|open| open.name == name),
        }) else {
            return;
        };
        let now = clock::ticks();
        for ended in stack.open.split_off(keep) {
            if let Some(slot) = ended.slot {
                update(slot, |values| {
                    add(&values[region::TICKS], now.saturating_sub(ended.since));
                    values[region::OPEN_SINCE].store(0, Ordering::Relaxed);
                });
            }
        }
        self.current.store(stack.open.last().map_or(0, |open| open.number), Ordering::Relaxed);
    }
}

// SAFETY: the index and the slots of its counters live as long as the process, and who holds the lock uses them alone.
unsafe impl Send for Stack {}

impl Stack {
    fn new() -> Self {
        Stack { numbers: HashMap::new(), open: Vec::new(), counters: Counters::new() }
    }

    fn slot(&mut self, segment: &Segment, outer: u32, name: &str) -> Option<(u32, &'static Slot)> {
        let next = self.numbers.len() as u32 + 1;
        let key = (outer, name.to_owned());
        let number = match self.numbers.get(&key) {
            Some(&number) => number,
            None if next >= MOST_REGIONS => return None,
            None => {
                let record = Record::Region { id: next, parent: outer, name: name.to_owned() };
                if !segment.log(&record) {
                    return None;
                }
                self.numbers.insert(key, next);
                next
            }
        };
        Some((number, self.counters.slot(segment, Key::region(number))?))
    }
}
