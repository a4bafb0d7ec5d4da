//! Reading a segment while its owner writes it.

use crate::ticks::monotonic_ns;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::source::{SLOT_WORDS, Source, settled};
use mpisee_profile::{Ticks, tsc};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A file that was read twice: a slot that is equal in both readings is consistent, any other is
/// read again. The file is not mapped, since truncating a mapped file would kill the reader.
pub struct Twice<'f> {
    pub file: &'f File,
    pub first: Vec<u64>,
    pub second: Vec<u64>,
}

impl Source for Twice<'_> {
    fn words(&self) -> usize {
        self.first.len().min(self.second.len())
    }

    fn word(&self, index: usize) -> u64 {
        self.second[index]
    }

    fn slot(&self, index: usize) -> [u64; SLOT_WORDS] {
        let of = |words: &[u64]| std::array::from_fn(|word| words[index + word]);
        let again = || {
            let mut bytes = [0; SLOT_WORDS * 8];
            match self.file.read_exact_at(&mut bytes, index as u64 * 8) {
                Ok(()) => words_of(&bytes).try_into().unwrap_or_else(|_| of(&self.second)),
                // If the file is gone, the earlier reading is used.
                Err(_) => of(&self.second),
            }
        };
        let mut second = Some(of(&self.second));
        settled(of(&self.first), || second.take().unwrap_or_else(again))
    }
}

/// Ticks and seconds of a process of this machine that runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Now, on the process's clock.
    pub ticks: Ticks,
    seconds_per_tick: f64,
}

impl Clock {
    /// Looks at the clocks of this process, which are those of the other.
    pub fn from_process(process: &Snapshot) -> Clock {
        let monotonic_ns = monotonic_ns();
        if !process.ticks_are_tsc {
            return Clock { ticks: Ticks::new(monotonic_ns), seconds_per_tick: 1e-9 };
        }
        let ticks = Ticks::new(tsc::read());
        let stated = process.ns_per_tick();
        let passed = ticks.signed_since(process.start_ticks) as f64;
        let measured = monotonic_ns.wrapping_sub(process.start_monotonic_ns) as i64 as f64 / passed;
        // In another namespace of times the monotonic clock is another; what the process found at
        // its begin is close.
        const CLOSE: f64 = 0.05;
        let is_close = passed > 0.0 && (measured / stated - 1.0).abs() < CLOSE;
        Clock { ticks, seconds_per_tick: 1e-9 * if is_close { measured } else { stated } }
    }

    /// The clock of a process that ended, as far as it is known; `ticks` is the moment up to which
    /// times are counted.
    pub fn of_ended(process: &Snapshot, ticks: Ticks) -> Clock {
        Clock { ticks, seconds_per_tick: 1e-9 * process.ns_per_tick() }
    }

    /// The same clock at another moment.
    pub(super) fn at(self, ticks: Ticks) -> Clock {
        Clock { ticks, ..self }
    }

    /// Ticks in seconds.
    pub fn seconds(&self, ticks: Ticks) -> f64 {
        ticks.get() as f64 * self.seconds_per_tick
    }

    /// The seconds since a moment; 0 for one that is yet to come.
    pub fn since(&self, ticks: Ticks) -> f64 {
        self.seconds(self.ticks.saturating_sub(ticks))
    }
}

/// The whole words.
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|&word| u64::from_ne_bytes(word)).collect()
}
