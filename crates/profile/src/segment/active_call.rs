//! The call in progress: each thread that calls MPI has one slot for it, with the key
//! [`super::SlotKey::ACTIVE_CALL`].
//!
//! Before a call the thread writes when it began, then which it is; after it, that there is none. A
//! reader that sees a call, then the tick, then the same call again has a pair that belongs
//! together.
//!
//! One value is of use to the thread alone: of some calls it measures what recording them takes,
//! see [`super::layout::sampled`]. Another process may bring the next measured call forward
//! ([`countdown::hastened`]). The thread counts down by a load and a store, so that such a write
//! may be lost, which does no harm.

use super::awaited::{Awaited, Wildcards};
use crate::{CommId, Operation, Ticks};
use std::num::NonZero;

/// In a slot's values: the call, see [`pack`]; [`NOWHERE`] or [`ASKED`] while the thread is in no
/// call.
pub const CALL: usize = 0;
/// In a slot's values: when the call began, in ticks.
pub const SINCE: usize = 1;
/// In a slot's values: when the call to MPI returned, in ticks; during the call the frame from
/// which it was made, see [`frame`].
pub const RETURNED: usize = 2;
/// In a slot's values: how many calls there are until the next one that is measured, for how many
/// that one stands, and what of it is hidden; see [`countdown`].
pub const SAMPLING: usize = 3;
/// In a slot's values: the address in the program to which the call returns; 0 where it is not
/// known.
pub const RETURNS_TO: usize = 4;
/// In a slot's values: with whom the call communicates, see [`super::awaited`]. Only calls that can
/// tell write it.
pub const ENDS: usize = 5;

/// The word of [`SAMPLING`]: from the lowest bit 32 of the countdown, 11 of the calls for which the
/// measured one stands, 21 of the ticks that are hidden.
pub mod countdown {
    /// The countdown of the call that is measured is negative, that of the one before it zero. The
    /// sign is stored inverted, so that counting down never borrows from the other fields.
    const SIGN: u32 = 1 << 31;
    const STANDS_FOR_SHIFT: u32 = 32;
    const STANDS_FOR_BITS: u32 = 11;
    const HIDDEN_SHIFT: u32 = STANDS_FOR_SHIFT + STANDS_FOR_BITS;
    /// The largest number of calls for which one can stand.
    pub const MOST_STANDS_FOR: u64 = (1 << STANDS_FOR_BITS) - 1;
    /// The largest number of ticks that can be hidden; as many, or more.
    pub const MOST_HIDDEN: u64 = (1 << (64 - HIDDEN_SHIFT)) - 1;

    /// As a word.
    pub const fn pack(left: i32, stands_for: u64, hidden: u64) -> u64 {
        (left.cast_unsigned() ^ SIGN) as u64 | stands_for << STANDS_FOR_SHIFT | hidden << HIDDEN_SHIFT
    }

    /// The calls until the next one that is measured.
    #[inline(always)]
    pub const fn left(word: u64) -> i32 {
        (word as u32 ^ SIGN).cast_signed()
    }

    /// The calls for which that one stands.
    pub const fn stands_for(word: u64) -> u64 {
        word >> STANDS_FOR_SHIFT & MOST_STANDS_FOR
    }

    /// The word after which the second call from now is measured, for the calls since the last one
    /// that was; `None` if it is no later anyway.
    pub const fn hastened(word: u64) -> Option<u64> {
        let skipped = left(word) as i64 - 1;
        if skipped < 1 || stands_for(word) <= skipped as u64 {
            return None;
        }
        Some(pack(1, stands_for(word) - skipped as u64, hidden(word)))
    }

    /// The ticks of it that are hidden.
    pub const fn hidden(word: u64) -> u64 {
        word >> HIDDEN_SHIFT
    }
}

/// Calls since the last one that was to be measured, from a slot's values.
pub(crate) fn calls_since_sample(values: &[u64]) -> u64 {
    let word = values[SAMPLING];
    // That one is measured when none is left, and it is among those for which it stands.
    let left = countdown::left(word).saturating_add(1).max(0);
    countdown::stands_for(word).saturating_sub(left.unsigned_abs().into())
}

/// In no call that is recorded.
pub const NOWHERE: u64 = 0;
/// In a recorded call that is not written yet.
pub const ENTERING: u64 = 1;
/// In no call that is recorded, and asked to look for a request, see [`super::switch_request`].
/// Another process puts this in place of [`NOWHERE`], and of nothing else.
pub const ASKED: u64 = 2;

/// Returns whether a thread with that word is in no call that is recorded.
#[inline]
pub const fn is_outside(word: u64) -> bool {
    matches!(word, NOWHERE | ASKED)
}

const IN_CALL: u64 = 1 << 63;
/// Distinguishes a frame from ticks.
const IS_FRAME: u64 = 1 << 63;
/// Calls that are in no table of a profile, numbered behind those that are.
const FINALIZE: u16 = u16::MAX >> 1;
const ABORT: u16 = FINALIZE - 1;

/// A call in which a thread can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CurrentFunction {
    /// A function that has rows in the tables, whether this call of it is counted or not.
    Operation(Operation),
    /// `MPI_Finalize`, also while the profile is gathered.
    Finalize,
    /// `MPI_Abort`.
    Abort,
}

impl CurrentFunction {
    /// The standard's name.
    pub fn name(self) -> &'static str {
        match self {
            CurrentFunction::Operation(operation) => operation.name(),
            CurrentFunction::Finalize => "MPI_Finalize",
            CurrentFunction::Abort => "MPI_Abort",
        }
    }

    #[inline]
    fn number(self) -> u16 {
        match self {
            CurrentFunction::Operation(operation) => operation as u16,
            CurrentFunction::Finalize => FINALIZE,
            CurrentFunction::Abort => ABORT,
        }
    }

    fn from_number(number: u16) -> Option<CurrentFunction> {
        match number {
            FINALIZE => Some(CurrentFunction::Finalize),
            ABORT => Some(CurrentFunction::Abort),
            _ => Operation::from_index(u64::from(number)).map(CurrentFunction::Operation),
        }
    }
}

/// A thread's call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveCall {
    /// The call.
    pub call: CurrentFunction,
    /// The communicator that the call is on; of a completion, that of the first active request.
    /// `None` where it is not known.
    pub communicator: Option<CommId>,
    /// When the call began.
    pub since: Ticks,
    /// The frame pointer of the function of the library that makes the call to MPI: the address at
    /// which that of its caller is stored, and behind it the address to which it returns. `None`
    /// where none was written.
    pub frame: Option<u64>,
    /// The address in the program to which the call returns; `None` where it is not known.
    pub returns_to: Option<NonZero<u64>>,
    /// With whom it communicates; `None` where that is not known, or all members of the
    /// communicator do.
    pub awaited: Option<Awaited>,
}

/// A frame pointer as a word, which no ticks have.
#[inline]
pub fn frame(pointer: u64) -> u64 {
    IS_FRAME | pointer
}

/// The frame pointer of such a word; `None` if it has ticks, or no frame is known.
pub fn frame_of(word: u64) -> Option<u64> {
    Some(word & !IS_FRAME).filter(|&frame| word & IS_FRAME != 0 && frame != 0)
}

/// A call as one word: 1, call 15, communicator 32 bits, from the highest.
#[inline]
pub fn pack(call: CurrentFunction, communicator: CommId) -> u64 {
    IN_CALL | u64::from(call.number()) << 32 | u64::from(communicator.get())
}

/// The communicator of such a word.
#[inline]
pub fn communicator_of(word: u64) -> CommId {
    CommId::new(word as u32)
}

/// The call of a word; `None` where the thread is in no call, or in one that no writer knows.
pub fn call_of(word: u64) -> Option<CurrentFunction> {
    if word & IN_CALL == 0 {
        return None;
    }
    CurrentFunction::from_number((word >> 32) as u16 & (u16::MAX >> 1))
}

/// When the last call of a thread returned; `None` for a thread that is in a call, or has made
/// none. Within that `None` where nobody noted the time, as of calls that cannot be recorded.
pub(crate) fn last_return(values: &[u64]) -> Option<Option<Ticks>> {
    let word = values[RETURNED];
    let is_idle = is_outside(values[CALL]) && word != 0;
    is_idle.then(|| (word & IS_FRAME == 0).then(|| Ticks::new(word)))
}

impl ActiveCall {
    /// From a slot's values; `None` where the thread is in no call, or in one that no writer knows.
    pub(crate) fn from_values(values: &[u64], wildcards: &Wildcards) -> Option<ActiveCall> {
        let word = values[CALL];
        let call = call_of(word)?;
        let communicator = Some(CommId::new(word as u32)).filter(|&id| id != CommId::NONE);
        let frame = frame_of(values[RETURNED]);
        let returns_to = NonZero::new(values[RETURNS_TO]);
        let awaited = match call {
            CurrentFunction::Operation(operation) => Awaited::from_word(operation, values[ENDS], wildcards),
            CurrentFunction::Finalize | CurrentFunction::Abort => None,
        };
        Some(ActiveCall { call, communicator, since: Ticks::new(values[SINCE]), frame, returns_to, awaited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_leads_back() {
        let none = Wildcards::default();
        let read = |place| ActiveCall::from_values(&[place, 5, 0, 0, 7, 0], &none);
        for call in Operation::all()
            .map(CurrentFunction::Operation)
            .chain([CurrentFunction::Finalize, CurrentFunction::Abort])
        {
            for id in [CommId::WORLD, CommId::SELF, CommId::new(77), CommId::NONE] {
                let communicator = (id != CommId::NONE).then_some(id);
                let since = Ticks::new(5);
                let returns_to = NonZero::new(7);
                let expected =
                    ActiveCall { call, communicator, since, frame: None, returns_to, awaited: None };
                assert_eq!(read(pack(call, id)), Some(expected));
            }
        }
        assert_eq!(read(NOWHERE), None);
        assert_eq!(read(ENTERING), None);
        assert_eq!(read(ASKED), None);
        assert_eq!(read(IN_CALL | 0x3fff << 32), None);
    }

    #[test]
    fn the_last_return_is_that_of_a_measured_call() {
        let of = |place, returned| last_return(&[place, 5, returned, 0, 0, 0]);
        assert_eq!(of(NOWHERE, 9), Some(Some(Ticks::new(9))));
        assert_eq!(of(ASKED, 9), Some(Some(Ticks::new(9))));
        assert_eq!(of(NOWHERE, frame(0x7ffd_1234_5670)), Some(None));
        assert_eq!(of(NOWHERE, 0), None);
        assert_eq!(of(pack(CurrentFunction::Finalize, CommId::WORLD), 9), None);
    }

    #[test]
    fn counting_down_changes_nothing_else() {
        use countdown::{MOST_HIDDEN, MOST_STANDS_FOR, hidden, left, pack, stands_for};
        let mut word = pack(2, MOST_STANDS_FOR, 0x1234);
        for expected in [1, 0, -1, -2] {
            word -= 1;
            assert_eq!((left(word), stands_for(word), hidden(word)), (expected, MOST_STANDS_FOR, 0x1234));
        }
        let word = pack(i32::MAX, 1, MOST_HIDDEN);
        assert_eq!((left(word), stands_for(word), hidden(word)), (i32::MAX, 1, MOST_HIDDEN));
        let since = |left, stands_for| calls_since_sample(&[0, 0, 0, pack(left, stands_for, 0), 0, 0]);
        assert_eq!([since(15, 16), since(2, 16), since(-1, 16), since(i32::MAX, 16)], [0, 13, 16, 0]);
    }

    #[test]
    fn a_measurement_that_is_hastened_stands_for_fewer_calls() {
        use countdown::{hastened, pack};
        assert_eq!(hastened(pack(900, 1000, 7)), Some(pack(1, 101, 7)));
        assert_eq!(
            [pack(1, 16, 0), pack(0, 16, 0), pack(-1, 16, 0), pack(i32::MAX, 0, 0)].map(hastened),
            [None; 4]
        );
    }

    #[test]
    fn a_frame_is_no_time() {
        let place = pack(CurrentFunction::Abort, CommId::WORLD);
        let none = Wildcards::default();
        let read = |word| ActiveCall::from_values(&[place, 5, word, 0, 0, 0], &none).unwrap().frame;
        assert_eq!(read(frame(0x7ffd_1234_5670)), Some(0x7ffd_1234_5670));
        assert_eq!(read(frame(0)), None);
        assert_eq!(read(0x7ffd_1234_5670), None, "the time of an earlier return");
    }
}
