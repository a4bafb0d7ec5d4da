//! Sizes of datatypes.
//!
//! A size is asked for after the call that uses the datatype: before it, a datatype that is none
//! would raise an error that the program does not expect. Meanwhile another thread may have freed a
//! derived one, which MPI keeps until the call is done (MPI 4.1, 5.1.9). So where several threads
//! call MPI, the sizes of the last ones that were freed are kept.

use crate::generated::pmpi;
use crate::mpi::abi::{self, Count, Datatype, Raw, constant};
use crate::state::{thread, world};
use crate::storage::clock;
use crate::storage::hot::{self, HOT};
use mpisee_profile::Ticks;
use mpisee_profile::segment::NotSeen;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const CACHED: usize = 64;
const SIZE_BITS: u32 = 16;

/// Sizes of predefined datatypes, which live as long as the program: handle in the upper bits, size
/// in the lower ones, so that one word holds a pair that belongs together.
static CACHE: [AtomicU64; CACHED] = [const { AtomicU64::new(0) }; CACHED];

/// The bytes of data in `count` elements.
///
/// With a count of 0, an MPI may accept any datatype. Its size is not queried then, since an error
/// could end the program.
#[inline]
pub fn bytes(count: u64, datatype: Raw<Datatype>) -> u64 {
    if count == 0 { 0 } else { count.wrapping_mul(size(datatype)) }
}

/// The bytes of data in one element.
#[inline]
fn size(datatype: Raw<Datatype>) -> u64 {
    let handle = abi::bits(datatype.get());
    let first = &HOT.datatypes[index::<{ hot::DATATYPES }>(handle)];
    cached(first, handle).unwrap_or_else(|| look_up(datatype, handle, first))
}

/// The place of a handle among `PLACES`, a power of two.
#[inline(always)]
fn index<const PLACES: usize>(handle: u64) -> usize {
    (handle as u32).wrapping_mul(0x9e37_79b1) as usize >> (u32::BITS - PLACES.ilog2())
}

/// The size, if it is there. No datatype has 0 for a handle.
#[inline(always)]
fn cached(place: &AtomicU64, handle: u64) -> Option<u64> {
    let cached = place.load(Ordering::Relaxed);
    (cached >> SIZE_BITS == handle).then_some(cached & ((1 << SIZE_BITS) - 1))
}

/// Of a datatype that is not in the line of those that were used first.
#[cold]
#[inline(never)]
fn look_up(datatype: Raw<Datatype>, handle: u64, first: &AtomicU64) -> u64 {
    let entry = &CACHE[index::<CACHED>(handle)];
    cached(entry, handle).unwrap_or_else(|| ask(datatype, handle, [first, entry]))
}

fn ask(datatype: Raw<Datatype>, handle: u64, places: [&AtomicU64; 2]) -> u64 {
    match FREED.during_call(handle) {
        DuringCall::Kept => {}
        DuringCall::Freed(size) => return size,
        DuringCall::Forgotten => {
            world::not_seen(NotSeen::NoRoom);
            return 0;
        }
    }
    // SAFETY: the application passed the datatype to a call that succeeded, and has not freed it
    // since.
    let Some(size) = (unsafe { size_in_mpi(datatype) }) else { return 0 };
    let fits = size < 1 << SIZE_BITS && handle < 1 << (64 - SIZE_BITS);
    if fits && abi::is_predefined_datatype(datatype.get()) {
        let free = places.into_iter().find(|place| place.load(Ordering::Relaxed) == 0);
        if let Some(place) = free {
            place.store(handle << SIZE_BITS | size, Ordering::Relaxed);
        }
    }
    size
}

/// # Safety
/// It is a datatype.
unsafe fn size_in_mpi(datatype: Raw<Datatype>) -> Option<u64> {
    let mut size: Count = 0;
    // SAFETY: it is a datatype of MPI; `size` is written.
    let code = unsafe { pmpi::MPI_Type_size_x.get()(datatype, &raw mut size) };
    u64::try_from(size).ok().filter(|_| code == constant::SUCCESS)
}

/// The datatypes that were freed last.
pub static FREED: Freed = Freed::new();

/// Sizes of datatypes that were freed while other threads may use them.
pub struct Freed {
    shared: AtomicBool,
    last: Mutex<Last>,
}

/// The number that is kept. If other threads free more during one call, its bytes are not seen.
const KEPT: usize = 256;

struct Last {
    kept: [FreedType; KEPT],
    /// How many there have been.
    count: usize,
}

#[derive(Clone, Copy)]
struct FreedType {
    handle: u64,
    size: u64,
    at: Ticks,
}

impl Freed {
    const fn new() -> Freed {
        let nothing = FreedType { handle: 0, size: 0, at: Ticks::ZERO };
        Freed { shared: AtomicBool::new(false), last: Mutex::new(Last { kept: [nothing; KEPT], count: 0 }) }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    /// Returns whether several threads call MPI.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Keeps the size of a datatype that is about to be freed.
    ///
    /// # Safety
    /// It is a datatype.
    pub unsafe fn note(&self, datatype: Datatype) {
        // SAFETY: it is a datatype: it is freed after this.
        if let Some(size) = unsafe { size_in_mpi(Raw::new(datatype)) } {
            let freed = FreedType { handle: abi::bits(datatype), size, at: clock::ticks() };
            self.last.lock().unwrap_or_else(PoisonError::into_inner).add(freed);
        }
    }

    /// Returns whether the datatype with that handle was freed since the calling thread's call
    /// began.
    fn during_call(&self, handle: u64) -> DuringCall {
        match thread::call_began().filter(|_| self.is_shared()) {
            Some(began) => self.last.lock().unwrap_or_else(PoisonError::into_inner).since(began, handle),
            None => DuringCall::Kept,
        }
    }
}

/// True if a datatype was freed during a call.
#[derive(Debug, PartialEq, Eq)]
enum DuringCall {
    /// It was not freed.
    Kept,
    /// It was freed, and had this size.
    Freed(u64),
    /// It may have been freed: more were than are kept.
    Forgotten,
}

impl Last {
    fn add(&mut self, freed: FreedType) {
        self.kept[self.count % KEPT] = freed;
        self.count += 1;
    }

    /// The first one with that handle since a moment: MPI may have given the handle out again
    /// since.
    fn since(&self, began: Ticks, handle: u64) -> DuringCall {
        let youngest_first =
            (self.count.saturating_sub(KEPT)..self.count).rev().map(|at| self.kept[at % KEPT]);
        let since = || youngest_first.clone().take_while(|freed| freed.at.signed_since(began) >= 0);
        if self.count > KEPT && since().count() == KEPT {
            return DuringCall::Forgotten;
        }
        let first = since().filter(|freed| freed.handle == handle).last();
        first.map_or(DuringCall::Kept, |freed| DuringCall::Freed(freed.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_datatype_of_a_handle_since_a_call_began_is_the_calls() {
        let Freed { last, .. } = Freed::new();
        let mut last = last.into_inner().unwrap();
        for at in 1..=3 * KEPT as u64 {
            // Each handle is given out again and again, for ever larger types.
            last.add(FreedType { handle: at % 3, size: 100 * at, at: Ticks::new(10 * at) });
        }
        let newest = 3 * KEPT as u64;
        let since = |moment: u64, handle: u64| last.since(Ticks::new(moment), handle);
        assert_eq!(since(10 * newest, newest % 3), DuringCall::Freed(100 * newest));
        assert_eq!(since(10 * (newest - 3), newest % 3), DuringCall::Freed(100 * (newest - 3)));
        assert_eq!(since(10 * newest, (newest - 1) % 3), DuringCall::Kept);
        assert_eq!(since(10 * newest + 1, newest % 3), DuringCall::Kept);
        // The oldest that is kept was freed then: others may have been, too.
        assert_eq!(since(10 * (newest - KEPT as u64 + 1), 7), DuringCall::Forgotten);
        assert_eq!(since(10 * (newest - KEPT as u64 + 2), 7), DuringCall::Kept);
    }
}
