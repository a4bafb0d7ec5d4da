//! CPU use of a process, read when recording began and at the end of MPI.

use super::layout::cpu;

/// CPU use of a process since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuReading {
    /// Microseconds on a core outside of the kernel, by all threads.
    pub user_us: u64,
    /// Microseconds in the kernel.
    pub system_us: u64,
    /// Nanoseconds in which threads were ready to run and had no core, summed over those that have
    /// not ended; `None` if the kernel does not count them.
    pub wait_ns: Option<u64>,
    /// Times that the kernel took the core from a thread that was not done.
    pub involuntary_switches: u64,
    /// Times that a thread gave up its core to wait.
    pub voluntary_switches: u64,
    /// Page faults that the kernel served from memory.
    pub minor_faults: u64,
    /// Page faults for which the kernel read from a disk.
    pub major_faults: u64,
}

impl CpuReading {
    /// The words of the header; `reading_ns` is how long the reading took.
    pub fn to_words(self, reading_ns: u64) -> [u64; cpu::WORDS] {
        let mut words = [0; cpu::WORDS];
        words[cpu::USER_US] = self.user_us;
        words[cpu::SYSTEM_US] = self.system_us;
        words[cpu::WAIT_NS_PLUS_1] = self.wait_ns.map_or(0, |wait_ns| wait_ns.saturating_add(1));
        words[cpu::INVOLUNTARY_SWITCHES] = self.involuntary_switches;
        words[cpu::VOLUNTARY_SWITCHES] = self.voluntary_switches;
        words[cpu::MINOR_FAULTS] = self.minor_faults;
        words[cpu::MAJOR_FAULTS] = self.major_faults;
        words[cpu::READING_NS_PLUS_1] = reading_ns.saturating_add(1);
        words
    }

    /// Of the words of the header; `None` if nothing was stored there.
    pub(super) fn from_words(words: [u64; cpu::WORDS]) -> Option<CpuReading> {
        (words[cpu::READING_NS_PLUS_1] > 0).then(|| CpuReading {
            user_us: words[cpu::USER_US],
            system_us: words[cpu::SYSTEM_US],
            wait_ns: words[cpu::WAIT_NS_PLUS_1].checked_sub(1),
            involuntary_switches: words[cpu::INVOLUNTARY_SWITCHES],
            voluntary_switches: words[cpu::VOLUNTARY_SWITCHES],
            minor_faults: words[cpu::MINOR_FAULTS],
            major_faults: words[cpu::MAJOR_FAULTS],
        })
    }

    /// The use after `start`. Waits of threads that have ended since are missing in this reading:
    /// the difference is 0 where they exceed the rest.
    pub fn since(self, start: CpuReading) -> CpuReading {
        let wait_ns = self.wait_ns.zip(start.wait_ns);
        CpuReading {
            user_us: self.user_us.saturating_sub(start.user_us),
            system_us: self.system_us.saturating_sub(start.system_us),
            wait_ns: wait_ns.map(|(end_ns, start_ns)| end_ns.saturating_sub(start_ns)),
            involuntary_switches: self.involuntary_switches.saturating_sub(start.involuntary_switches),
            voluntary_switches: self.voluntary_switches.saturating_sub(start.voluntary_switches),
            minor_faults: self.minor_faults.saturating_sub(start.minor_faults),
            major_faults: self.major_faults.saturating_sub(start.major_faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_read_as_it_was_stored() {
        let reading = CpuReading {
            user_us: 11,
            system_us: 12,
            wait_ns: Some(0),
            involuntary_switches: 13,
            voluntary_switches: 14,
            minor_faults: 15,
            major_faults: 16,
        };
        let stored = |reading: CpuReading| CpuReading::from_words(reading.to_words(0));
        assert_eq!(stored(reading), Some(reading));
        let unknown = CpuReading { wait_ns: None, ..reading };
        assert_eq!(stored(unknown), Some(unknown));
        assert_eq!(CpuReading::from_words([0; cpu::WORDS]), None);
    }

    #[test]
    fn a_difference_is_never_below_zero_and_unknown_where_an_end_is() {
        let start = CpuReading { user_us: 5, wait_ns: Some(100), minor_faults: 2, ..CpuReading::default() };
        let end = CpuReading { user_us: 25, wait_ns: Some(40), minor_faults: 9, ..CpuReading::default() };
        let used = end.since(start);
        assert_eq!((used.user_us, used.wait_ns, used.minor_faults), (20, Some(0), 7));
        assert_eq!(end.since(CpuReading { wait_ns: None, ..start }).wait_ns, None);
    }
}
