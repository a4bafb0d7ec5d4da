//! Polls as their thread made them last: tests and probes that found nothing, which programs repeat
//! until they find something.
//!
//! A poll that repeats the last one at its place finds here what it takes to count it: as long as
//! the same requests are in the same variables, and no request was started in between, it is the
//! same call on the same communicator.

use crate::storage::hot::HOT;
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::{Operation, Ticks};
use std::cell::Cell;

/// Polls that a thread keeps; one that falls on the place of another takes it.
pub const KEPT: usize = 32;

/// One call of a poll: of two that have the same, the second repeats the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PollId {
    /// See [`Hot::generation`](crate::storage::hot::Hot::generation), with the operation.
    generation: u64,
    /// The variable with the requests, or the communicator's handle, mixed with the address to
    /// which the call returns.
    place: u64,
    /// The request in the variable, how many there are in the array, or the ends of the message
    /// that is looked for.
    asked: u64,
    /// See [`Requests::started`](crate::state::request::Requests::started).
    started: u64,
    /// See [`Hot::region_word`](crate::storage::hot::Hot::region_word).
    region: u32,
}

impl PollId {
    /// A poll for `asked` in that variable, which returns to `caller`; `None` while calls are not
    /// counted.
    #[inline(always)]
    pub fn new(
        operation: Operation,
        variable: u64,
        caller: u64,
        started: u64,
        asked: impl FnOnce() -> u64,
    ) -> Option<PollId> {
        let generation = HOT.generation()? | operation as u64;
        let asked = asked();
        let place = variable ^ caller.rotate_left(32);
        Some(PollId { generation, place, asked, started, region: HOT.region_word() })
    }

    /// Where a thread keeps it.
    #[inline(always)]
    pub fn index(&self) -> usize {
        const { assert!(KEPT == 32) };
        (self.place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize
    }
}

/// A poll that found nothing, and those before it at its place. Zeros are no poll's.
#[repr(C, align(64))]
pub struct Poll {
    generation: Cell<u64>,
    place: Cell<u64>,
    asked: Cell<u64>,
    started: Cell<u64>,
    /// The slot of its row.
    pub slot: Cell<*const Slot>,
    /// The word for the segment, see [`active_call`](mpisee_profile::segment::active_call).
    pub call: Cell<u64>,
    /// With whom it communicates, see [`awaited`](mpisee_profile::segment::awaited).
    pub ends: Cell<u64>,
    region: Cell<u32>,
    /// Untimed polls until the next timed one.
    pub untimed_left: Cell<u16>,
    /// True if the status of what it completes has something to record.
    pub needs_status: Cell<bool>,
    // A repeated poll reads only the fields above.
    /// Untimed polls between the last timed one and the next.
    pub planned: Cell<u16>,
    /// Their mean number, while polls follow each other within microseconds; else 0.
    pub mean_untimed: Cell<u16>,
    /// Polls from now on that are all timed, until one finds something.
    pub all_timed: Cell<u16>,
    /// Runs until the next one of which all polls are timed.
    pub runs_until_timed: Cell<u16>,
    /// End of the last timed poll.
    pub ended: Cell<Ticks>,
    /// Its duration.
    pub took: Cell<Ticks>,
    /// Mean time from one poll to the next, between the last two timed ones.
    pub period: Cell<Ticks>,
    /// Duration of the last timed poll that found something; 0 before the first.
    pub successful: Cell<Ticks>,
    /// Long times that were seen in polls, and from one to the next.
    pub long: Cell<Long>,
    /// The slot of the error of its row's time; null until there is one.
    pub error: Cell<*const Slot>,
    /// The requests of the array.
    requests: Requests,
}

/// Long times in polls and between them, as far as both ends were timed: numbers of them by their
/// length.
#[derive(Clone, Copy, Default)]
pub struct Long {
    inside: [u8; CLASSES],
    between: [u8; CLASSES],
}

/// Classes of long times: those of one are up to 16 times as long as others.
const CLASSES: usize = 4;
/// Below this a time is no long one.
const SHORT_BITS: u32 = SHORT.get().ilog2();
/// Ticks, some microseconds, from one poll to the next below which most are not timed.
pub const SHORT: Ticks = Ticks::new(1 << 12);
/// Long times of a class after which no more are looked for.
const ENOUGH: u32 = 8;

impl Long {
    fn class(time: Ticks) -> usize {
        let bits = time.get().checked_ilog2().unwrap_or(0).saturating_sub(SHORT_BITS);
        (bits as usize / 4).min(CLASSES - 1)
    }

    fn counts(self, time: Ticks) -> (u32, u32) {
        let class = Long::class(time);
        (self.inside[class].into(), self.between[class].into())
    }

    /// Returns whether enough times as long were seen to tell what others are.
    pub fn is_known(self, time: Ticks) -> bool {
        let (inside, between) = self.counts(time);
        inside + between >= ENOUGH
    }

    /// Counts one.
    pub fn note(&mut self, time: Ticks, is_inside: bool) {
        let class = Long::class(time);
        if self.inside[class].max(self.between[class]) == u8::MAX {
            // Their ratio stays.
            self.inside[class] /= 2;
            self.between[class] /= 2;
        }
        let counts = if is_inside { &mut self.inside } else { &mut self.between };
        counts[class] += 1;
    }

    /// The part of a long time of which only the sum is known that was in polls, and by how much
    /// that may be wrong: the mean of the posterior of a proportion with Jeffreys' prior, and twice
    /// its deviation.
    pub fn part_of(self, time: Ticks) -> (Ticks, Ticks) {
        // In 4096ths.
        const WHOLE: u32 = 4096;
        let (inside, between) = self.counts(time);
        let all = inside + between;
        let share = (2 * inside + 1) * WHOLE / (2 * all + 2);
        let deviation = (share * (WHOLE - share) / (all + 2)).isqrt();
        let of =
            |share: u32| Ticks::new((u128::from(time.get()) * u128::from(share) / u128::from(WHOLE)) as u64);
        (of(share), of((2 * deviation).min(WHOLE / 2)))
    }
}

/// The longest array of requests of which polls are kept.
pub const MOST_REQUESTS: usize = 16;

/// The handles of an array of requests.
#[repr(align(64))]
struct Requests([Cell<u64>; MOST_REQUESTS]);

const _: () = assert!(size_of::<Poll>() == 256 && std::mem::offset_of!(Poll, planned) == 64);

impl Poll {
    /// Returns whether it is that one.
    #[inline(always)]
    pub fn is(&self, id: &PollId) -> bool {
        self.place.get() == id.place
            && self.asked.get() == id.asked
            && self.generation.get() == id.generation
            && self.started.get() == id.started
            && self.region.get() == id.region
    }

    /// Returns whether it was made at the same place; no other one is there now.
    pub fn is_at(&self, id: &PollId) -> bool {
        self.place.get() == id.place
    }

    /// Returns whether there is a poll.
    pub fn is_used(&self) -> bool {
        self.generation.get() != 0
    }

    /// Makes it that one, of which no poll is untimed.
    pub fn set(&self, id: &PollId) {
        if !self.is_at(id) {
            self.place.set(id.place);
            self.mean_untimed.set(0);
            self.runs_until_timed.set(0);
            self.period.set(Ticks::ZERO);
            self.successful.set(Ticks::ZERO);
            self.long.set(Long::default());
        }
        self.generation.set(id.generation);
        self.asked.set(id.asked);
        self.started.set(id.started);
        self.region.set(id.region);
        self.error.set(std::ptr::null());
        self.time_after(0);
    }

    /// Returns whether its array had the requests that `handle` reads, `count` of them.
    #[inline(always)]
    pub fn has_requests(&self, count: usize, handle: impl Fn(usize) -> u64) -> bool {
        let others = self.requests.0.iter().take(count).enumerate();
        others.fold(0, |differ, (at, kept)| differ | kept.get() ^ handle(at)) == 0
    }

    /// Keeps the requests of its array.
    pub fn set_requests(&self, count: usize, handle: impl Fn(usize) -> u64) {
        self.requests.0.iter().take(count).enumerate().for_each(|(at, kept)| kept.set(handle(at)));
    }

    /// The requests of its array, behind which come others.
    pub fn requests(&self) -> [u64; MOST_REQUESTS] {
        self.requests.0.each_ref().map(Cell::get)
    }

    /// The next poll is timed after `untimed` ones.
    pub fn time_after(&self, untimed: u16) {
        self.untimed_left.set(untimed);
        self.planned.set(untimed);
    }

    /// See [`PollId`].
    pub fn asked(&self) -> u64 {
        self.asked.get()
    }

    /// Makes it none; what is known of its place stays.
    pub fn end(&self) {
        self.generation.set(0);
        self.time_after(0);
    }

    /// Number of polls since the last timed one.
    pub fn untimed(&self) -> u64 {
        u64::from(self.planned.get().saturating_sub(self.untimed_left.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_is_shared_out_as_others_were() {
        let part = |inside, between| {
            let mut long = Long::default();
            (0..inside).for_each(|_| long.note(Ticks::new(5_000_000), true));
            (0..between).for_each(|_| long.note(Ticks::new(3_000_000), false));
            // Others are of another length.
            (0..100).for_each(|_| long.note(Ticks::new(5_000), false));
            assert_eq!(long.is_known(Ticks::new(4_096_000)), inside + between >= 8);
            let (part, doubt) = long.part_of(Ticks::new(4_096_000));
            (part.get() / 1000, doubt.get() / 1000)
        };
        assert_eq!(part(0, 0), (2048, 2048));
        assert_eq!(part(1, 0), (3072, 2048));
        assert_eq!(part(0, 1), (1024, 2048));
        assert_eq!(part(20, 0), (3998, 266));
        assert_eq!(part(10, 10), (2048, 872));
        assert!(part(4000, 1).0 > 4000);
    }

    #[test]
    fn a_poll_that_takes_the_place_of_another_has_none_untimed() {
        // SAFETY: zeros are no poll's.
        let poll: Poll = unsafe { std::mem::zeroed() };
        let id = |place| PollId { generation: 1 << 16, place, asked: 7, started: 3, region: 0 };
        for place in [1, 1, 2] {
            poll.set(&id(place));
            assert_eq!((poll.is(&id(place)), poll.untimed(), poll.planned.get()), (true, 0, 0));
            poll.time_after(8);
            poll.untimed_left.set(5);
            assert_eq!(poll.untimed(), 3);
        }
        poll.end();
        assert_eq!((poll.is_used(), poll.untimed()), (false, 0));
    }
}
