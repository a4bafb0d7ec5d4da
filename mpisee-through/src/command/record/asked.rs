//! A running rank that is asked to switch recording, through its segment.

use anyhow::{Context, Result};
use mpisee_collect::segments::{Followed, Mapped, Segment};
use mpisee_profile::Ticks;
use mpisee_profile::WorldRank;
use mpisee_profile::segment::active_call::{self, ASKED, Call, NOWHERE, countdown};
use mpisee_profile::segment::layout::{HEADER_BYTES, Header, SLOT_BYTES, Slot};
use mpisee_profile::segment::request::Request;
use std::fs::File;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// It is at the end of MPI.
    Ended,
    /// Its segment cannot be read.
    Unreadable(String),
}

impl State {
    /// Returns whether nothing more is to be expected of it.
    pub fn is_settled(&self) -> bool {
        matches!(self, State::Switched | State::Ended | State::Unreadable(_))
    }
}

/// The rank.
pub struct Asked {
    followed: Followed,
    file: File,
    words: Mapped,
    request: u64,
}

impl Asked {
    /// Stores the request in the rank's segment.
    pub fn new(segment: &Segment, request: Request) -> Result<Asked> {
        let followed = Followed::new(segment)?;
        let file = segment.open_to_ask()?;
        let words = Mapped::new(&file, HEADER_BYTES, true)?;
        let request = request.word();
        words
            .word(offset_of!(Header, request))
            .context("it has no header")?
            .store(request, Ordering::Release);
        Ok(Asked { followed, file, words, request })
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
        self.words.check(&self.file)?;
        self.followed.update(false)?;
        if self.word(offset_of!(Header, followed_request))?.load(Ordering::Acquire) == self.request {
            return Ok(State::Switched);
        }
        if self.followed.has_arrived() {
            return Ok(State::Ended);
        }
        let mut state = State::Unmarked;
        for slot in self.followed.active_calls() {
            let value = |which: usize| slot + offset_of!(Slot, values) + which * size_of::<u64>();
            self.reach(slot + SLOT_BYTES)?;
            // A thread whose call ends or begins meanwhile overwrites the mark, and is marked the next time.
            let marked = self.word(value(active_call::CALL))?.compare_exchange(
                NOWHERE,
                ASKED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            let now = match marked {
                Ok(_) | Err(ASKED) => State::Marked,
                Err(place) => {
                    // It looks for the request after a call that it measures. Where it does not stay in its call, it overwrites the word.
                    let sampling = self.word(value(active_call::SAMPLING))?;
                    let word = sampling.load(Ordering::Relaxed);
                    if let Some(soon) = countdown::hastened(word) {
                        let _ = sampling.compare_exchange(word, soon, Ordering::Relaxed, Ordering::Relaxed);
                    }
                    let since = self.word(value(active_call::SINCE))?.load(Ordering::Relaxed);
                    State::Inside {
                        call: active_call::call_of(place).map_or("an MPI call", Call::name).to_owned(),
                        for_s: self.followed.clock().since(Ticks::new(since)),
                    }
                }
            };
            // One thread that will switch is enough.
            if state != State::Marked {
                state = now;
            }
        }
        Ok(state)
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64> {
        self.words.word(offset).context("it has become smaller")
    }

    /// Maps more of the file, if it has grown.
    fn reach(&mut self, end: usize) -> Result<()> {
        if end > size_of_val(self.words.words()) {
            self.words = Mapped::new(&self.file, end, true)?;
        }
        Ok(())
    }
}
