//! Instances of collective operations, and the sample of them of which a process keeps when it entered and left the call.
//!
//! All members of a communicator make its collective calls in the same order (MPI 4.1, 6.14), so the k-th `MPI_Allreduce` is the
//! same one on each of them: they number their instances alike without a message. An instance is kept if a [`hash`] of its
//! number has zeros under a mask. The mask gets a bit more whenever the room is full, and what it excludes is dropped.
//! So all members keep the same instances, whatever pattern the program has.

use crate::Ticks;

/// In a slot's values: instances so far, those while recording was off included.
pub const INSTANCES: usize = 0;
/// In a slot's values: the bits that the hash of a kept instance must not have.
pub const MASK: usize = 1;
/// In a slot's values: the sum of the ticks at which the process entered recorded calls, modulo 2^64.
pub const ARRIVALS: usize = 2;
/// In a slot's values: how often 2^64 was subtracted from that sum.
pub const ARRIVALS_CARRIED: usize = 3;
/// In a slot's values: the instance from which on the recorder looks again whether to keep one; its own word.
pub const DUE: usize = 4;

/// Words of a sample.
pub const SAMPLE_WORDS: usize = 5;

const NUMBER_BITS: u32 = 40;
const MOST_DETAIL_PLUS_1: u64 = (1 << (u64::BITS - NUMBER_BITS)) - 1;

/// An instance, or a message of a stream (see [`super::streams`]), that was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its number among the calls of its operation on the communicator, or among the messages of its stream, from 0.
    pub number: u64,
    /// Of an instance, the root's rank in the communicator; of a message, how many sends and receives the call completed that
    /// completed it. `None` where there is neither, or one that has no room here.
    pub detail: Option<u32>,
    /// When the process entered the call that started the operation: of a blocking one, the same as `arrival`.
    pub start: Ticks,
    /// When the process entered the call that completed it.
    pub arrival: Ticks,
    /// When it left that call.
    pub departure: Ticks,
    /// The length of a message; of an instance that is nonblocking or persistent, how many such the call completed that completed
    /// it, of a blocking one 0.
    pub bytes: u64,
}

impl Sample {
    /// As words: number 40 bits, detail plus 1 24 bits from the lowest; start; arrival; departure; bytes.
    pub fn words(&self) -> [u64; SAMPLE_WORDS] {
        let detail = self.detail.map_or(0, |detail| u64::from(detail) + 1);
        let detail = if detail > MOST_DETAIL_PLUS_1 { 0 } else { detail };
        let number = self.number & ((1 << NUMBER_BITS) - 1);
        let [start, arrival, departure] = [self.start, self.arrival, self.departure].map(Ticks::get);
        [number | detail << NUMBER_BITS, start, arrival, departure, self.bytes]
    }

    /// From words.
    pub fn from_words([number, start, arrival, departure, bytes]: [u64; SAMPLE_WORDS]) -> Sample {
        Sample {
            number: number & ((1 << NUMBER_BITS) - 1),
            detail: (number >> NUMBER_BITS).checked_sub(1).map(|detail| detail as u32),
            start: Ticks::new(start),
            arrival: Ticks::new(arrival),
            departure: Ticks::new(departure),
            bytes,
        }
    }
}

/// Spreads the numbers of instances evenly over all values, so that no pattern of a program meets that of the sample.
pub const fn hash(instance: u64) -> u64 {
    let mixed = (instance ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 16
}

/// Whether an instance is kept under a mask.
pub const fn is_kept(instance: u64, mask: u64) -> bool {
    hash(instance) & mask == 0
}

/// The next mask: half of what this one keeps is kept under it.
pub const fn narrower(mask: u64) -> u64 {
    mask << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_lead_back(
            number in 0u64..1 << NUMBER_BITS,
            detail in proptest::option::of(0u32..(1 << 24) - 1),
            ticks: [u64; 3],
            bytes: u64,
        ) {
            let [start, arrival, departure] = ticks.map(Ticks::new);
            let sample = Sample { number, detail, start, arrival, departure, bytes };
            prop_assert_eq!(Sample::from_words(sample.words()), sample);
        }
    }

    #[test]
    fn a_root_without_room_is_none() {
        let sample = Sample { number: 7, detail: Some(1 << 24), ..Sample::default() };
        assert_eq!(Sample::from_words(sample.words()), Sample { detail: None, ..sample });
    }

    /// For every mask and period, each residue has its share, within four standard deviations.
    #[test]
    fn no_period_meets_that_of_the_sample() {
        const INSTANCES: u64 = 200_000;
        for mask in [1, 7, 63, 255] {
            let share = 1.0 / (mask + 1) as f64;
            for period in [1, 2, 3, 4, 8, 10, 16, 64, 100, 987] {
                let mut kept = vec![0u64; period as usize];
                (0..INSTANCES).filter(|&instance| is_kept(instance, mask)).for_each(|instance| {
                    kept[(instance % period) as usize] += 1;
                });
                let mean = INSTANCES as f64 / period as f64 * share;
                let most = 4.5 * (mean * (1.0 - share)).sqrt() + 1.0;
                for (residue, &count) in kept.iter().enumerate() {
                    assert!((count as f64 - mean).abs() < most, "{residue} of {period}: {count}, not {mean}");
                }
            }
        }
    }
}
