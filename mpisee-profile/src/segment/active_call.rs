//! The call in progress: each thread that calls MPI has one slot for it, with the key [`super::Key::ACTIVE_CALL`].
//!
//! Before a call the thread writes when it began, then the place; after it, that there is none. A reader that sees a
//! place, then the tick, then the same place again has a pair that belongs together.
//!
//! The other values are the thread's alone: of some calls it measures what recording them takes, see [`super::layout::sampled`].

use crate::{CommId, Operation, Ticks};

/// In a slot's values: the place, see [`pack`]; [`NOWHERE`] while the thread is in no call.
pub const PLACE: usize = 0;
/// In a slot's values: when the call began, in ticks.
pub const SINCE: usize = 1;
/// In a slot's values: when the call to MPI returned, in ticks; during the call the frame from which it was made, see [`frame`].
pub const RETURNED: usize = 2;
/// In a slot's values: calls until the next one that is measured; negative in that one.
pub const COUNTDOWN: usize = 3;
/// In a slot's values: when the library began to record the call that is measured, in ticks.
pub const SAMPLED_SINCE: usize = 4;
/// In a slot's values: for how many calls the one that is measured stands, and what of it is hidden; the recorder's own words.
pub const STANDS_FOR: usize = 5;

/// In a slot's values: the bits of [`STANDS_FOR`] that have the number of calls.
pub const STANDS_FOR_MASK: u64 = u32::MAX as u64;

/// Calls since the last one that was to be measured, from a slot's values.
pub(crate) fn calls_since_sample(values: &[u64]) -> u64 {
    let left = values[COUNTDOWN].cast_signed().max(0).cast_unsigned();
    (values[STANDS_FOR] & STANDS_FOR_MASK).saturating_sub(left)
}

/// In no call that is recorded.
pub const NOWHERE: u64 = 0;
/// In a recorded call whose place is not written yet.
pub const ABOUT_TO_SAY: u64 = 1;

const IN_CALL: u64 = 1 << 63;
/// Distinguishes a frame from ticks.
const IS_FRAME: u64 = 1 << 63;
/// Calls that are in no table of a profile, numbered behind those that are.
const FINALIZE: u16 = u16::MAX >> 1;
const ABORT: u16 = FINALIZE - 1;

/// A call in which a thread can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// One that is counted.
    Counted(Operation),
    /// `MPI_Finalize`, also while the profile is gathered.
    Finalize,
    /// `MPI_Abort`.
    Abort,
}

impl Call {
    /// The standard's name.
    pub fn name(self) -> &'static str {
        match self {
            Call::Counted(operation) => operation.name(),
            Call::Finalize => "MPI_Finalize",
            Call::Abort => "MPI_Abort",
        }
    }

    #[inline]
    fn number(self) -> u16 {
        match self {
            Call::Counted(operation) => operation as u16,
            Call::Finalize => FINALIZE,
            Call::Abort => ABORT,
        }
    }

    fn from_number(number: u16) -> Option<Call> {
        match number {
            FINALIZE => Some(Call::Finalize),
            ABORT => Some(Call::Abort),
            _ => Operation::from_index(u64::from(number)).map(Call::Counted),
        }
    }
}

/// A thread's call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveCall {
    /// The call.
    pub call: Call,
    /// The communicator that the call is on; of a completion, that of the first active request. `None` where it is not
    /// known.
    pub communicator: Option<CommId>,
    /// When the call began.
    pub since: Ticks,
    /// The frame pointer of the function of the library that makes the call to MPI: the address at which that of its caller is stored,
    /// and behind it the address to which it returns. `None` where none was written.
    pub frame: Option<u64>,
}

/// A frame pointer as a word, which no ticks have.
#[inline]
pub fn frame(pointer: u64) -> u64 {
    IS_FRAME | pointer
}

/// A place as one word: 1, call 15, communicator 32 bits, from the highest.
#[inline]
pub fn pack(call: Call, communicator: CommId) -> u64 {
    IN_CALL | u64::from(call.number()) << 32 | u64::from(communicator.get())
}

/// The call of a place; `None` where the thread is in no call, or in one that no writer knows.
pub fn call_of(place: u64) -> Option<Call> {
    if place & IN_CALL == 0 {
        return None;
    }
    Call::from_number((place >> 32) as u16 & (u16::MAX >> 1))
}

impl ActiveCall {
    /// From a slot's values; `None` where the thread is in no call, or in one that no writer knows.
    pub(crate) fn from_values(values: &[u64]) -> Option<ActiveCall> {
        let place = values[PLACE];
        let call = call_of(place)?;
        let communicator = Some(CommId::new(place as u32)).filter(|&id| id != CommId::NONE);
        let word = values[RETURNED];
        let frame = Some(word & !IS_FRAME).filter(|&frame| word & IS_FRAME != 0 && frame != 0);
        Some(ActiveCall { call, communicator, since: Ticks::new(values[SINCE]), frame })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_leads_back() {
        let read = |place| ActiveCall::from_values(&[place, 5, 0]);
        for call in Operation::all().map(Call::Counted).chain([Call::Finalize, Call::Abort]) {
            for id in [CommId::WORLD, CommId::SELF, CommId::new(77), CommId::NONE] {
                let communicator = (id != CommId::NONE).then_some(id);
                let expected = ActiveCall { call, communicator, since: Ticks::new(5), frame: None };
                assert_eq!(read(pack(call, id)), Some(expected));
            }
        }
        assert_eq!(read(NOWHERE), None);
        assert_eq!(read(ABOUT_TO_SAY), None);
        assert_eq!(read(IN_CALL | 0x3fff << 32), None);
    }

    #[test]
    fn a_frame_is_no_time() {
        let read =
            |word| ActiveCall::from_values(&[pack(Call::Abort, CommId::WORLD), 5, word]).unwrap().frame;
        assert_eq!(read(frame(0x7ffd_1234_5670)), Some(0x7ffd_1234_5670));
        assert_eq!(read(frame(0)), None);
        assert_eq!(read(0x7ffd_1234_5670), None, "the time of an earlier return");
    }
}
