//! A running rank that is asked to switch recording, through its segment.

use anyhow::Result;
use mpisee_collect::segments::{Followed, Mark, Segment, SegmentControl};
use mpisee_profile::Ticks;
use mpisee_profile::WorldRank;
use mpisee_profile::segment::active_call::{self, CurrentFunction};
use mpisee_profile::segment::switch_request::SwitchRequest;

/// How far a rank is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has switched.
    Switched,
    /// All its threads that are in no call are marked.
    Marked,
    /// A thread is in that call, and looks for the request after the second call from now.
    Inside {
        /// The call.
        call: String,
        /// How long it has been there, in seconds.
        for_s: f64,
    },
    /// None of its threads has made a call yet.
    Unmarked,
    /// Another request came after this one.
    Overridden,
    /// It is at the end of MPI.
    Ended,
    /// Its segment cannot be read.
    Unreadable(String),
}

impl State {
    /// Returns whether nothing more is to be expected of it.
    pub fn is_settled(&self) -> bool {
        matches!(self, State::Switched | State::Overridden | State::Ended | State::Unreadable(_))
    }
}

/// The rank.
pub struct Asked {
    followed: Followed,
    control: SegmentControl,
    request: u64,
}

impl Asked {
    /// Stores the request in the rank's segment.
    pub fn new(segment: &Segment, request: SwitchRequest) -> Result<Asked> {
        let (followed, control) = (Followed::new(segment)?, SegmentControl::new(segment)?);
        control.request(request)?;
        Ok(Asked { followed, control, request: request.word() })
    }

    /// The rank.
    pub fn rank(&self) -> WorldRank {
        self.followed.process().world_rank
    }

    /// The program; known after [`Asked::mark`].
    pub fn command(&self) -> String {
        self.followed.process().program.command.join(" ")
    }

    /// Marks its threads that are in no call, unless it has switched; returns how far it is.
    pub fn mark(&mut self) -> State {
        self.try_mark().unwrap_or_else(|why| State::Unreadable(format!("{why:#}")))
    }

    fn try_mark(&mut self) -> Result<State> {
        self.control.check()?;
        self.followed.update(false, &mut Vec::new())?;
        if self.control.followed()? == self.request {
            return Ok(State::Switched);
        }
        if self.followed.has_arrived() {
            return Ok(State::Ended);
        }
        if self.control.requested()? != self.request {
            return Ok(State::Overridden);
        }
        let mut state = State::Unmarked;
        for slot in self.followed.active_calls() {
            let now = match self.control.mark(slot)? {
                Mark::Set => State::Marked,
                Mark::InCall { word, since } => State::Inside {
                    call: active_call::call_of(word).map_or("an MPI call", CurrentFunction::name).to_owned(),
                    for_s: self.followed.clock().since(Ticks::new(since)),
                },
            };
            // One thread that will switch is enough.
            if state != State::Marked {
                state = now;
            }
        }
        Ok(state)
    }
}
