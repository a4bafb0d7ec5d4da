//! What the completion of requests means, for the whole family of waits and tests.
//!
//! A completion call is charged to the communicators of the requests that it completed, its time split
//! equally among them; a test that completes nothing, to those of the requests that it was asked about.
//! So a rank's MPI time is never counted twice.

use crate::abi::{Request, Status, received_bytes};
use crate::argument::Place;
use crate::generated::pmpi;
use crate::naming;
use crate::process::{self, REQUESTS};
use crate::record::Recorder;
use crate::request::{Given, Kind, Started};
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use std::mem::MaybeUninit;

/// Room that a thread uses again with each call.
#[derive(Default)]
pub struct Scratch {
    /// The requests of an array.
    pub given: Vec<Given>,
    /// Statuses in place of those that the application ignores.
    pub statuses: Vec<MaybeUninit<Status>>,
    charged: Charged,
}

/// A set of communicators, in the order in which they came.
#[derive(Default)]
struct Charged {
    /// Most calls are about one communicator, for which nothing else is touched.
    first: Option<u32>,
    others: Vec<u32>,
    /// By communicator: the round in which it came to the others.
    seen: Vec<u64>,
    round: u64,
}

impl Charged {
    #[inline]
    fn clear(&mut self) {
        self.first = None;
        self.others.clear();
    }

    #[inline]
    fn add(&mut self, communicator: u32) {
        match self.first {
            None => self.first = Some(communicator),
            Some(first) if first != communicator => self.add_other(communicator),
            Some(_) => {}
        }
    }

    fn add_other(&mut self, communicator: u32) {
        if self.others.is_empty() {
            self.round += 1;
        }
        let at = communicator as usize;
        if at >= self.seen.len() {
            self.seen.resize((at + 1).next_power_of_two(), 0);
        }
        if self.seen[at] != self.round {
            self.seen[at] = self.round;
            self.others.push(communicator);
        }
    }
}

/// A completion call being recorded.
pub struct Completion<'c> {
    recorder: &'c Recorder,
    operation: Operation,
    charged: &'c mut Charged,
    unknown: bool,
}

impl Scratch {
    /// Forgets the last call, and makes room for the statuses of `count` requests.
    pub fn reset(&mut self, count: usize) {
        self.given.clear();
        if self.statuses.len() < count {
            self.statuses.resize_with(count, MaybeUninit::uninit);
        }
    }

    /// Begins to record a completion call; returns the requests that it was given, too.
    pub fn completion<'c>(
        &'c mut self,
        recorder: &'c Recorder,
        operation: Operation,
    ) -> (Completion<'c>, &'c [Given]) {
        self.charged.clear();
        let charged = &mut self.charged;
        (Completion { recorder, operation, charged, unknown: false }, &self.given)
    }
}

impl Completion<'_> {
    /// The call completed this request. `status` is filled if [`Given::needs_status`] asked for it and the
    /// operation succeeded.
    #[inline]
    pub fn completed(&mut self, given: &Given, status: Option<&Status>) {
        let known = REQUESTS.complete(given, |started| {
            if started.recorded {
                self.charged.add(started.counted.communicator());
                settle(self.recorder, started, status);
            }
            started.recorded
        });
        if known != Some(true) {
            self.count_unknown(given);
        }
    }

    /// The call completed nothing: it was asked about these.
    pub fn asked(&mut self, given: &[Given]) {
        for given in given {
            match REQUESTS.look(given) {
                Some(started) if started.recorded => self.charged.add(started.counted.communicator()),
                _ => self.count_unknown(given),
            }
        }
    }

    fn count_unknown(&mut self, given: &Given) {
        self.unknown |= !matches!(given, Given::Nothing);
        count_unknown(given);
    }

    /// Charges the call.
    #[inline]
    pub fn charge(self, ticks: u64) {
        if !process::is_recording() {
            return;
        }
        let Some(first) = self.charged.first else {
            if !self.unknown {
                process::not_seen(NotSeen::CompletionOfNothing);
            }
            return;
        };
        let all = 1 + self.charged.others.len();
        if all == 1 {
            self.recorder.count(first, self.operation, 0, 0, ticks);
            return;
        }
        let communicators = std::iter::once(&first).chain(&self.charged.others);
        for (&communicator, ticks) in communicators.zip(shares(all, ticks)) {
            self.recorder.count(communicator, self.operation, 0, 0, ticks);
        }
    }
}

/// Counts a request of unknown origin; what starts and ends while recording is off is nobody's business.
pub fn count_unknown(given: &Given) {
    if !matches!(given, Given::Nothing) && process::is_recording() {
        process::not_seen(NotSeen::UnknownRequest);
    }
}

/// `ticks` split into `count` equal shares, to the last one.
pub fn shares(count: usize, ticks: u64) -> impl Iterator<Item = u64> {
    let count = count as u64;
    (0..count).map(move |index| ticks * (index + 1) / count - ticks * index / count)
}

/// Writes down what was not known before a request completed.
#[inline]
fn settle(recorder: &Recorder, started: &Started, status: Option<&Status>) {
    match (started.kind, status) {
        (Kind::SendReceive, _) if !recorder.process.tells_of_combined_receives => {
            process::not_seen(NotSeen::UntoldReceive);
        }
        (Kind::Receive | Kind::SendReceive | Kind::Transfer, Some(status)) => {
            settle_bytes(recorder, started, status);
        }
        (Kind::Send, Some(status)) if started.cancelled && was_cancelled(status) => {
            recorder.sent(
                started.counted.communicator(),
                started.peer,
                1u64.wrapping_neg(),
                started.message.wrapping_neg(),
            );
            recorder.add_bytes(&started.counted, started.message.wrapping_neg());
        }
        (Kind::Duplication(number), _) => naming::duplicated(recorder, number),
        _ => {}
    }
}

#[inline]
fn settle_bytes(recorder: &Recorder, started: &Started, status: &Status) {
    if started.cancelled && was_cancelled(status) {
        return;
    }
    let bytes = received_bytes(status);
    let counted = &started.counted;
    if started.kind != Kind::Transfer {
        recorder.received(counted.communicator(), status.MPI_SOURCE, bytes);
    }
    // What the same call sent was counted with it.
    let whole = counted.bytes + bytes;
    match counted.reclassed(whole).filter(|_| started.reclassed) {
        None => recorder.add_bytes(counted, bytes),
        Some(reclassed) => {
            recorder.uncount(counted);
            recorder.count_call(&reclassed);
        }
    }
}

fn was_cancelled(status: &Status) -> bool {
    let mut flag = 0;
    // SAFETY: the status is that of a completed operation; `flag` is written.
    unsafe { pmpi::MPI_Test_cancelled.get()(status, &raw mut flag) };
    flag != 0
}

/// A request that the application freed before it completed, or that is persistent. `status` is that of an operation
/// which had ended by then.
pub fn freed(
    recorder: &Recorder,
    operation: Operation,
    started: Option<Started>,
    status: Option<&Status>,
    ticks: u64,
) {
    let Some(started) = started else {
        if process::is_recording() {
            process::not_seen(NotSeen::UnknownRequest);
        }
        return;
    };
    if started.active && started.recorded {
        if status.is_some() {
            settle(recorder, &started, status);
        } else if started.kind.completion_tells() {
            process::not_seen(NotSeen::FreedReceive);
        }
    }
    count_on(recorder, operation, started.counted.communicator(), ticks);
}

/// Counts a call with its time alone, while recording is on.
pub fn count_on(recorder: &Recorder, operation: Operation, communicator: u32, ticks: u64) {
    if process::is_recording() {
        recorder.count(communicator, operation, 0, 0, ticks);
    }
}

/// The request at `place`, as far as anything is known of it.
///
/// # Safety
/// `place` holds a request.
#[inline]
pub unsafe fn given(null: Request, place: Place<Request>) -> Given {
    // SAFETY: the caller's promise.
    REQUESTS.given(unsafe { place.handle() }, place, null)
}
