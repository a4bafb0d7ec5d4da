//! Buffers that a thread reuses for each completion call.

use super::request::{RequestRef, RequestState};
use crate::mpi::abi::Status;
use mpisee_profile::CommId;
use std::mem::MaybeUninit;

/// A thread's reusable buffers.
#[derive(Default)]
pub struct Scratch {
    /// The requests of an array.
    pub given: Vec<RequestRef>,
    /// The results of [`super::request::Requests::copy_if_shared`] for each of them; empty where one thread calls MPI.
    pub copies: Vec<Option<RequestState>>,
    /// Statuses in place of those that the application ignores.
    pub statuses: Vec<MaybeUninit<Status>>,
    /// The communicators to which the call is charged.
    pub charged: CommSet,
    /// The samples that the call finished, by their numbers, and the lengths of the messages that it received.
    pub finished: Vec<(u32, Option<u64>)>,
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

impl Scratch {
    /// Forgets the last call, and makes room for `count` requests. False if there is no memory for them.
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
