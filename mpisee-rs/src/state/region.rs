//! Named regions of the program, which nest.

use crate::state::variables;
use crate::storage::clock;
use crate::storage::counters::{Counters, add, update};
use crate::storage::hot::HOT;
use crate::storage::memory;
use crate::storage::segment::Segment;
use mpisee_collect::process::cpu;
use mpisee_profile::segment::SlotKey;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::{Slot, region};
use mpisee_profile::segment::log::Record;
use mpisee_profile::segment::names::{MOST_NAME_BYTES, region_name, region_path_bytes};
use mpisee_profile::{RegionId, Ticks};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The regions of the process. Its threads share them: what an OpenMP thread calls in `solver` is
/// in it.
pub static REGIONS: Regions = Regions::new();

/// More bytes than a region takes beside its name, unless there are very many.
const LEAST_BYTES: usize = 1 << 12;

/// Nested regions.
pub struct Regions {
    stack: LazyLock<Mutex<Stack>>,
}

struct Stack {
    numbers: FxHashMap<(RegionId, String), RegionId>,
    /// Bytes of the path of each region, by number; first that of what is outside of any.
    path_bytes: Vec<usize>,
    open: Vec<Open>,
    /// Regions that are open within those and are left out, as there was no memory.
    left_out: usize,
    /// True once a note says that regions are joined.
    has_noted_joined: bool,
    counters: Counters,
}

/// An open region. `slot` is `None` if the region has no row: calls then count in the enclosing
/// region.
struct Open {
    id: RegionId,
    name: String,
    slot: Option<&'static Slot>,
    since: Ticks,
    /// The process's use of cores until then.
    used: [u64; 2],
}

impl Regions {
    pub const fn new() -> Regions {
        Regions { stack: LazyLock::new(|| Mutex::new(Stack::new())) }
    }

    /// The innermost region.
    #[inline]
    pub fn current(&self) -> RegionId {
        HOT.region()
    }

    /// A region begins.
    pub fn begin(&self, segment: &Segment, name: &str) {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = memory::is_left(LEAST_BYTES + 4 * name.len())
            && stack.open.try_reserve(1).is_ok()
            && stack.numbers.try_reserve(1).is_ok()
            && stack.path_bytes.try_reserve(1).is_ok();
        if !has_room {
            stack.left_out += 1;
            return;
        }
        variables::leave_region();
        let outer = self.current();
        let slot = stack.slot(segment, outer, name);
        let since = clock::ticks();
        if let Some((_, slot)) = slot {
            update(slot, |values| {
                add(&values[region::ENTRIES], 1);
                values[region::OPEN_SINCE].store(since.get(), Ordering::Relaxed);
            });
        }
        let id = slot.map_or(outer, |(id, _)| id);
        stack.open.push(Open {
            id,
            name: name.to_owned(),
            slot: slot.map(|(_, slot)| slot),
            since,
            used: cpu::used(),
        });
        HOT.set_region(id);
    }

    /// Ends the innermost region, or the innermost of that name together with the regions inside
    /// it. An end without a begin is ignored.
    pub fn end(&self, name: Option<&str>) {
        let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
        if stack.left_out > 0 {
            stack.left_out -= 1;
            return;
        }
        let Some(keep) = (match name {
            None => stack.open.len().checked_sub(1),
            Some(name) => stack.open.iter().rposition(|open| open.name == name),
        }) else {
            return;
        };
        let (now, used) = (clock::ticks(), cpu::used());
        for ended in stack.open.drain(keep..) {
            if let Some(slot) = ended.slot {
                update(slot, |values| {
                    add(&values[region::TICKS], now.saturating_sub(ended.since).get());
                    add(&values[region::CPU_US], used[0].saturating_sub(ended.used[0]));
                    add(&values[region::INVOLUNTARY_SWITCHES], used[1].saturating_sub(ended.used[1]));
                    values[region::OPEN_SINCE].store(0, Ordering::Relaxed);
                });
            }
        }
        variables::leave_region();
        let current = stack.open.last().map_or(RegionId::OUTSIDE, |open| open.id);
        HOT.set_region(current);
    }
}

// SAFETY: the index and the slots of its counters live as long as the process, and who holds the
// lock uses them alone.
unsafe impl Send for Stack {}

impl Stack {
    fn new() -> Self {
        Stack {
            numbers: FxHashMap::default(),
            path_bytes: vec![0],
            open: Vec::new(),
            left_out: 0,
            has_noted_joined: false,
            counters: Counters::new(),
        }
    }

    /// Number and slot of a region that begins in `outer`; `None` if its calls count in `outer`.
    fn slot(&mut self, segment: &Segment, outer: RegionId, name: &str) -> Option<(RegionId, &'static Slot)> {
        let outer_bytes = self.path_bytes.get(outer.index()).copied().unwrap_or(MOST_NAME_BYTES);
        let Some(name) = region_name(outer_bytes, name) else {
            self.note_joined(segment, name);
            return None;
        };
        let path_bytes = region_path_bytes(outer_bytes, &name);
        let next = RegionId::new(self.numbers.len() as u32 + 1);
        let key = (outer, name);
        let id = match self.numbers.get(&key) {
            Some(&id) => id,
            None if !next.fits() => {
                self.note_joined(segment, &key.1);
                return None;
            }
            None => {
                let record = Record::Region { id: next, parent: outer, name: key.1.clone() };
                if !segment.log(&record) {
                    return None;
                }
                self.numbers.insert(key, next);
                self.path_bytes.push(path_bytes);
                next
            }
        };
        Some((id, self.counters.slot(segment, SlotKey::region(id))?))
    }

    /// Notes for `run.json`, once, that regions are joined to those around them.
    fn note_joined(&mut self, segment: &Segment, name: &str) {
        if std::mem::replace(&mut self.has_noted_joined, true) {
            return;
        }
        const MOST_CHARACTERS: usize = 40;
        let rank = segment.header().world_rank.load(Ordering::Relaxed);
        let name: String = name.chars().take(MOST_CHARACTERS).collect();
        let most = RegionId::MOST;
        segment.log(&Fact::NoteOfRank.record(format!(
            "rank {rank} has regions that are counted in the region around them, as the first of them '{name}': a rank has at \
             most {most} regions, and the path of a region at most {MOST_NAME_BYTES} bytes"
        )));
    }
}
