//! Buffers that a thread reuses for each completion call.

use super::request::{RequestRef, RequestState};
use crate::mpi::abi::{Request, Status};
use crate::storage::table::EntryRef;
use mpisee_in_process::guards::errno;
use mpisee_profile::CommId;
use std::mem::MaybeUninit;

/// The longest array of requests for which a thread keeps the memory of its buffers: 550 KiB at
/// most.
const LONGEST_KEPT: usize = 4096;

/// Bytes of the largest pages of memory that kernels have, apart from those that programs ask for.
const LARGEST_PAGE: usize = 1 << 16;

/// A thread's reusable buffers.
#[derive(Default)]
pub struct Scratch {
    /// The requests of an array.
    pub given: Vec<RequestRef>,
    /// The results of [`super::request::Requests::copy_if_shared`] for each of them; empty where
    /// one thread calls MPI.
    pub copies: Vec<Option<RequestState>>,
    /// Statuses in place of those that the application ignores.
    pub statuses: Vec<MaybeUninit<Status>>,
    /// The communicators to which the call is charged.
    pub charged: CommSet,
    /// The samples that the call finished, by their numbers, and the lengths of the messages that
    /// it received.
    pub finished: Vec<(u32, Option<u64>)>,
    /// The handles of persistent requests before they are started.
    pub before: Vec<Request>,
    /// The persistent requests that were started.
    pub opened: Vec<Opened>,
}

/// A persistent request that is started. Its entry stays in the table alone: arrays may be long.
pub struct Opened {
    pub found: EntryRef<RequestState>,
    pub communicator: CommId,
    /// As [`RequestState::unfinished`].
    pub unfinished: u32,
}

/// A set of communicators, in the order in which they came.
#[derive(Default)]
pub struct CommSet {
    /// Most calls concern a single communicator; nothing else is touched then.
    pub first: Option<CommId>,
    pub others: Vec<CommId>,
    /// By communicator: the round in which it was added to `others`.
    seen: Vec<u64>,
    round: u64,
}

impl CommSet {
    /// Removes all.
    #[inline]
    pub fn clear(&mut self) {
        self.first = None;
        self.others.clear();
    }

    /// Adds one, unless it is there.
    #[inline]
    pub fn add(&mut self, communicator: CommId) {
        match self.first {
            None => self.first = Some(communicator),
            Some(first) if first != communicator => self.add_other(communicator),
            Some(_) => {}
        }
    }

    fn add_other(&mut self, communicator: CommId) {
        if self.others.is_empty() {
            self.round += 1;
        }
        let at = communicator.index();
        let length = (at + 1).next_power_of_two();
        let has_place = !communicator.is_temporary()
            && (at < self.seen.len() || self.seen.try_reserve(length - self.seen.len()).is_ok());
        if !has_place {
            if !self.others.contains(&communicator) {
                self.push_other(communicator);
            }
            return;
        }
        if at >= self.seen.len() {
            self.seen.resize(length, 0);
        }
        if self.seen[at] != self.round {
            self.seen[at] = self.round;
            self.push_other(communicator);
        }
    }

    /// One for which there is no memory is left out: the call is charged to the others.
    fn push_other(&mut self, communicator: CommId) {
        if self.others.try_reserve(1).is_ok() {
            self.others.push(communicator);
        }
    }
}

/// Gives the memory of a buffer back, as far as it fills whole pages, and keeps its addresses. What
/// the buffer has is forgotten.
fn give_pages_back<T>(buffer: &mut Vec<T>) {
    buffer.clear();
    let room = buffer.spare_capacity_mut();
    let _errno = errno::keep();
    let (begin, bytes) = (room.as_mut_ptr().cast::<u8>(), size_of_val(room));
    let skipped = begin.addr().next_multiple_of(LARGEST_PAGE) - begin.addr();
    let whole = bytes.saturating_sub(skipped) / LARGEST_PAGE * LARGEST_PAGE;
    if whole > 0 {
        // SAFETY: these pages are within the buffer, which has no values. MPI libraries that know
        // memory by its addresses watch the function.
        unsafe { libc::madvise(begin.add(skipped).cast(), whole, libc::MADV_DONTNEED) };
    }
}

impl Scratch {
    /// Gives the memory of a long array's buffers back.
    #[inline]
    pub fn give_back(&mut self) {
        if self.statuses.len() > LONGEST_KEPT || self.before.len() > LONGEST_KEPT {
            self.give_pages_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_pages_back(&mut self) {
        give_pages_back(&mut self.given);
        give_pages_back(&mut self.copies);
        give_pages_back(&mut self.statuses);
        give_pages_back(&mut self.before);
        give_pages_back(&mut self.opened);
    }

    /// Forgets the last call, and makes room for `count` requests. False if there is no memory for
    /// them.
    #[inline]
    pub fn reset(&mut self, count: usize) -> bool {
        self.given.clear();
        self.copies.clear();
        count <= self.statuses.len() || self.make_room(count)
    }

    /// The statuses come last, so that there is room for the others where there is for them.
    #[cold]
    fn make_room(&mut self, count: usize) -> bool {
        let more = count - self.statuses.len();
        let has_room = self.given.try_reserve(count).is_ok()
            && self.copies.try_reserve(count).is_ok()
            && self.statuses.try_reserve(more).is_ok();
        if has_room {
            self.statuses.resize_with(count, MaybeUninit::uninit);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_buffer_are_given_back_and_its_room_stays() {
        let mut buffer = vec![1_u8; 1 << 20];
        let (capacity, middle) = (buffer.capacity(), buffer.as_ptr().wrapping_add(1 << 19));
        give_pages_back(&mut buffer);
        assert_eq!((buffer.len(), buffer.capacity()), (0, capacity));
        // SAFETY: the place is in the buffer's room, and was written.
        assert_eq!(unsafe { middle.read_volatile() }, 0);
        give_pages_back(&mut Vec::<u8>::new());
    }
}
