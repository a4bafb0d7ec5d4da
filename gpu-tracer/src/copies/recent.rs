//! The last copies and messages, to find copies that were for messages: to the host right before a
//! send of the same memory, or to a device right after a receive into it.

use std::collections::VecDeque;

/// Ranges that are kept of either kind; the oldest go.
const MOST: usize = 256;

/// Ranges of addresses, each with a value; none overlap.
#[derive(Debug)]
struct Ranges<T> {
    ranges: VecDeque<(u64, u64, T)>,
}

impl<T: Copy> Ranges<T> {
    fn new() -> Self {
        Ranges { ranges: VecDeque::with_capacity(MOST + 2) }
    }

    /// Adds a range, which takes the place of what overlaps it.
    fn add(&mut self, begin: u64, bytes: u64, value: T) {
        self.take(begin, bytes, |_, _| ());
        let end = begin.saturating_add(bytes);
        if end > begin {
            self.ranges.push_back((begin, end, value));
        }
        self.limit();
    }

    /// Removes what overlaps a range; passes on how many bytes, and the value.
    fn take(&mut self, begin: u64, bytes: u64, mut each: impl FnMut(u64, T)) {
        let end = begin.saturating_add(bytes);
        let mut at = 0;
        while let Some(&(first, last, value)) = self.ranges.get(at) {
            let (from, to) = (first.max(begin), last.min(end));
            if from >= to {
                at += 1;
                continue;
            }
            each(to - from, value);
            self.ranges.remove(at);
            // The parts before and after stay, in their place by age.
            for rest in [(to, last, value), (first, from, value)] {
                if rest.0 < rest.1 {
                    self.ranges.insert(at, rest);
                }
            }
            at += usize::from(first < from) + usize::from(to < last);
        }
        self.limit();
    }

    fn limit(&mut self) {
        let beyond = self.ranges.len().saturating_sub(MOST);
        self.ranges.drain(..beyond);
    }
}

/// A copy from a device to the host.
#[derive(Clone, Copy, Debug)]
pub struct ToHost<T> {
    /// Its bytes.
    pub bytes: u64,
    /// How far it reaches in the host's memory, in bytes.
    pub span: u64,
    /// Time of the host in the call.
    pub nanoseconds: u64,
    /// More about it.
    pub kind: T,
}

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Its bytes.
    pub bytes: u64,
    /// Its share of the time in the call.
    pub nanoseconds: u64,
}

impl<T> ToHost<T> {
    /// The part of a copy that overlaps a number of the bytes that it reaches over.
    pub fn portion(&self, overlap: u64) -> Portion {
        let share = |of: u64| {
            let product = u128::from(of) * u128::from(overlap);
            product.checked_div(u128::from(self.span)).map_or(0, |it| u64::try_from(it).unwrap_or(u64::MAX))
        };
        Portion { bytes: share(self.bytes), nanoseconds: share(self.nanoseconds) }
    }
}

/// The last copies to the host, and the last receives into its memory, by communicator.
#[derive(Debug)]
pub struct Recent<T> {
    copies: Ranges<ToHost<T>>,
    received: Ranges<u32>,
}

impl<T: Copy> Recent<T> {
    /// Nothing yet.
    pub fn new() -> Self {
        Recent { copies: Ranges::new(), received: Ranges::new() }
    }

    /// A copy from a device to the host's memory at `begin`.
    pub fn copied_to_host(&mut self, begin: u64, copy: ToHost<T>) {
        self.received.take(begin, copy.span, |_, _| ());
        self.copies.add(begin, copy.span, copy);
    }

    /// The host's memory was written by something else: what was there before is neither sent nor
    /// copied to a device any more.
    pub fn overwritten(&mut self, begin: u64, span: u64) {
        self.copies.take(begin, span, |_, _| ());
        self.received.take(begin, span, |_, _| ());
    }

    /// A copy of the host's memory to a device; passes on the communicator of each receive that
    /// wrote some of it, and how much.
    pub fn copied_to_device(&mut self, begin: u64, span: u64, each: impl FnMut(u64, u32)) {
        self.received.take(begin, span, each);
    }

    /// A send of the host's memory; passes on the copies that wrote some of it, and how much.
    pub fn sent(&mut self, begin: u64, bytes: u64, each: impl FnMut(u64, ToHost<T>)) {
        self.copies.take(begin, bytes, each);
    }

    /// A receive into the host's memory.
    pub fn received(&mut self, communicator: u32, begin: u64, bytes: u64) {
        self.copies.take(begin, bytes, |_, _| ());
        self.received.add(begin, bytes, communicator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(recent: &mut Recent<()>, begin: u64, bytes: u64) -> Vec<Portion> {
        let mut found = Vec::new();
        recent.sent(begin, bytes, |overlap, copy| found.push(copy.portion(overlap)));
        found
    }

    fn to_device(recent: &mut Recent<()>, begin: u64, bytes: u64) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        recent.copied_to_device(begin, bytes, |overlap, communicator| found.push((overlap, communicator)));
        found
    }

    fn copy(bytes: u64) -> ToHost<()> {
        ToHost { bytes, span: bytes, nanoseconds: 10 * bytes, kind: () }
    }

    #[test]
    fn each_byte_of_a_copy_is_sent_once() {
        let mut recent = Recent::new();
        recent.copied_to_host(1000, copy(100));
        assert_eq!(sent(&mut recent, 1040, 20), [Portion { bytes: 20, nanoseconds: 200 }]);
        assert_eq!(sent(&mut recent, 1040, 20), []);
        assert_eq!(
            sent(&mut recent, 900, 1000),
            [Portion { bytes: 40, nanoseconds: 400 }, Portion { bytes: 40, nanoseconds: 400 }]
        );
        assert_eq!(sent(&mut recent, 900, 1000), []);
    }

    #[test]
    fn what_is_written_over_is_no_longer_of_the_first() {
        let mut recent = Recent::new();
        recent.copied_to_host(1000, copy(100));
        recent.received(7, 1050, 100);
        assert_eq!(sent(&mut recent, 1000, 100), [Portion { bytes: 50, nanoseconds: 500 }]);
        recent.received(8, 1100, 20);
        assert_eq!(to_device(&mut recent, 1090, 100), [(10, 7), (30, 7), (20, 8)]);
        recent.copied_to_host(1050, copy(10));
        assert_eq!(to_device(&mut recent, 1000, 1000), [(30, 7)]);
    }

    #[test]
    fn what_other_copies_write_over_is_kept_no_longer() {
        let mut recent = Recent::new();
        recent.copied_to_host(1000, copy(100));
        recent.received(7, 2000, 100);
        recent.overwritten(1060, 980);
        assert_eq!(sent(&mut recent, 1000, 100), [Portion { bytes: 60, nanoseconds: 600 }]);
        assert_eq!(to_device(&mut recent, 2000, 100), [(60, 7)]);
    }

    #[test]
    fn rows_with_gaps_have_their_share() {
        let mut recent = Recent::new();
        recent.copied_to_host(1000, ToHost { bytes: 40, span: 310, nanoseconds: 62, kind: () });
        assert_eq!(sent(&mut recent, 1000, 155), [Portion { bytes: 20, nanoseconds: 31 }]);
    }

    #[test]
    fn the_oldest_go_first() {
        let mut recent = Recent::new();
        (0..MOST as u64 + 2).for_each(|at| recent.copied_to_host(1000 * at, copy(10)));
        assert_eq!(sent(&mut recent, 1000, 10), []);
        assert_eq!(sent(&mut recent, 2000, 10).len(), 1);
    }
}
