//! Limits of the counts of a process: its segment may be damaged.

use super::key::Meaning;
use super::layout::{call, gpu_time, path, peer, region};
use super::snapshot::Snapshot;
use crate::{ProfileError, Ticks};

/// More calls, messages or bytes than a process can have.
const MOST: u64 = 1 << 60;

/// Threads for which there is always room: a limit that is too low would cost the counts of a rank.
const LEAST_THREADS: usize = 64;

/// Limits of the counts of one process.
#[derive(Clone, Copy, Debug)]
pub struct CountLimits {
    most_ns: f64,
    threads: f64,
    ns_per_tick: f64,
    may_be_negative: bool,
}

impl CountLimits {
    /// Limits for the process with that header and that many threads, which ran for `most_ns` at
    /// most.
    pub fn new(header: &Snapshot, threads: usize, most_ns: u64) -> CountLimits {
        CountLimits {
            most_ns: most_ns as f64,
            threads: threads.max(LEAST_THREADS) as f64,
            ns_per_tick: header.ns_per_tick(),
            may_be_negative: false,
        }
    }

    /// Limits while the process counts. One thread may take away what another added, and be read
    /// first, so a sum may be negative for a moment.
    #[must_use]
    pub fn while_it_counts(self) -> CountLimits {
        CountLimits { may_be_negative: true, ..self }
    }

    fn value(&self, value: u64) -> u64 {
        if self.may_be_negative { value.cast_signed().unsigned_abs() } else { value }
    }

    /// Checks a number of calls, messages or bytes.
    pub fn check_count(&self, what: &str, count: u64) -> Result<(), ProfileError> {
        match self.value(count) {
            count if count > MOST => Err(impossible(&format!("it counts {count} {what}"))),
            _ => Ok(()),
        }
    }

    /// Checks ticks that all threads spent.
    pub fn check_ticks(&self, what: &str, ticks: Ticks) -> Result<(), ProfileError> {
        let ns = self.value(ticks.get()) as f64 * self.ns_per_tick;
        if ns <= self.most_ns * self.threads {
            return Ok(());
        }
        Err(impossible(&format!("it counts {:.0} s of {what}", ns * 1e-9)))
    }

    /// Checks all counts of a segment.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), ProfileError> {
        let (mut calls, mut bytes, mut ticks) = (0_u64, 0_u64, 0_u64);
        for (key, values) in &snapshot.counters {
            let Some(meaning) = key.meaning() else { continue };
            let (times, counts): (&[usize], &[usize]) = match meaning {
                Meaning::Call(_) => {
                    for (sum, which) in
                        [(&mut calls, call::CALLS), (&mut bytes, call::BYTES), (&mut ticks, call::TICKS)]
                    {
                        *sum = sum.saturating_add(self.value(values[which]));
                    }
                    (&[call::LONGEST], &[])
                }
                Meaning::Path(_) => (&[path::TICKS], &[path::CALLS]),
                // Threads that call no MPI are in regions as well.
                Meaning::Region(_) => (&[], &[region::ENTRIES, region::TICKS]),
                // Both hold only counts and bytes.
                Meaning::Peer(_) | Meaning::Target(_) => (
                    &[],
                    &[peer::SENT_MESSAGES, peer::SENT_BYTES, peer::RECEIVED_MESSAGES, peer::RECEIVED_BYTES],
                ),
                Meaning::GpuTime(_) => (&[], &[gpu_time::CALLS, gpu_time::BYTES, gpu_time::NS]),
                _ => (&[], &[]),
            };
            times.iter().try_for_each(|&which| self.check_ticks("calls", Ticks::new(values[which])))?;
            counts
                .iter()
                .try_for_each(|&which| self.check_count("calls, messages, bytes or ticks", values[which]))?;
        }
        self.check_count("calls", calls)?;
        self.check_count("bytes", bytes)?;
        self.check_ticks("calls", Ticks::new(ticks))
    }
}

fn impossible(what: &str) -> ProfileError {
    ProfileError::Segment { why: format!("{what}, more than its process can have") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::segment::layout::{HEADER_BYTES, Header, MAGIC, VERSION};
    use crate::segment::{CallKey, OperationAtSite};
    use crate::{CommId, Operation, RegionId};
    use std::mem::offset_of;

    const DAY_NS: u64 = 86_400_000_000_000;

    /// A process that has counted one kind of calls, with ticks of 1 ns.
    fn snapshot_with(values: [u64; 6]) -> Snapshot {
        let mut words = vec![0; HEADER_BYTES / 8];
        words[offset_of!(Header, magic) / 8] = MAGIC;
        words[offset_of!(Header, version) / 8] = VERSION;
        words[offset_of!(Header, operations) / 8] = Operation::fingerprint();
        let (mut snapshot, _) = Snapshot::read_header(words.as_slice()).expect("a header");
        let key = CallKey {
            communicator: CommId::WORLD,
            region: RegionId::OUTSIDE,
            operation: OperationAtSite::from_operation(Operation::Send),
            size_class: 0,
            memory: Memory::Host,
        };
        snapshot.counters.push((key.pack(), values));
        snapshot
    }

    #[test]
    fn counts_that_no_process_can_have_are_refused() {
        let check = |values: [u64; 6]| {
            let snapshot = snapshot_with(values);
            CountLimits::new(&snapshot, 1, DAY_NS).check(&snapshot).map_err(|why| why.to_string())
        };
        assert_eq!(check([1 << 50, 1 << 59, 60 * DAY_NS, 1, DAY_NS, 0]), Ok(()));
        for (which, value, what) in [
            (call::CALLS, 1 << 61, "2305843009213693952 calls"),
            (call::BYTES, u64::MAX, "18446744073709551615 bytes"),
            (call::TICKS, 65 * DAY_NS, "5616000 s of calls"),
            (call::LONGEST, 65 * DAY_NS, "5616000 s of calls"),
        ] {
            let mut values = [0; 6];
            values[which] = value;
            let why = check(values).expect_err(what);
            assert!(why.contains(what), "{why}");
        }
    }

    #[test]
    fn a_sum_may_be_negative_while_threads_count() {
        let snapshot = snapshot_with([1, 7_u64.wrapping_neg(), 5_u64.wrapping_neg(), 0, 0, 0]);
        let limits = CountLimits::new(&snapshot, 1, DAY_NS);
        assert!(limits.check(&snapshot).is_err());
        assert!(limits.while_it_counts().check(&snapshot).is_ok());
    }
}
