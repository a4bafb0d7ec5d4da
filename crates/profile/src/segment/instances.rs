//! Instances of collective operations, and the sample of them of which a process keeps when it
//! entered and left the call.
//!
//! All members of a communicator make its collective calls in the same order (MPI 4.1, 6.14), so
//! the k-th `MPI_Allreduce` is the same one on each of them: they number their instances alike
//! without a message. An instance is kept if a [`hash`] of its number has zeros under a mask. The
//! mask gets a bit more whenever the room is full, and what it excludes is dropped. So all members
//! keep the same instances, whatever pattern the program has.

use crate::{Operation, Ticks};

/// In a slot's values: instances so far, those while recording was off included.
pub const INSTANCES: usize = 0;
/// In a slot's values: the bits that the hash of a kept instance must not have.
pub const MASK: usize = 1;
/// In a slot's values: the sum of the ticks at which the process entered recorded calls, modulo
/// 2^64.
pub const ARRIVALS: usize = 2;
/// In a slot's values: how often 2^64 was subtracted from that sum.
pub const ARRIVALS_CARRIED: usize = 3;
/// In a slot's values: the instance from which on the recorder looks again whether to keep one; its
/// own word.
pub const DUE: usize = 4;

/// Words of a sample.
pub const SAMPLE_WORDS: usize = 5;

const NUMBER_BITS: u32 = 40;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// The largest value beside the number.
const MOST_BESIDE: u64 = (1 << (u64::BITS - NUMBER_BITS)) - 1;
const BYTES_BITS: u32 = 48;
const MOST_BYTES: u64 = (1 << BYTES_BITS) - 1;

/// An instance, or a message of a stream (see [`super::streams`]), that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its number among the calls of its operation on the communicator, or among the messages of
    /// its stream, from 0.
    pub number: u64,
    /// When the process entered the call that started the operation: of a blocking one, the same as
    /// `arrival`.
    pub start: Ticks,
    /// When the process entered the call that completed it.
    pub arrival: Ticks,
    /// When it left that call.
    pub departure: Ticks,
    /// The rest, by what it is.
    pub subject: Subject,
}

/// The subject of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An instance of a collective operation.
    Instance {
        /// The root's rank in the communicator; `None` where there is none, or one above 2^24 - 3.
        root: Option<u32>,
        /// The sends, receives and collective operations that the call completed which completed
        /// it; 0 of a blocking one.
        completed: u32,
    },
    /// One end of a message.
    Message {
        /// Its length.
        bytes: u64,
        /// The call that completed it here, and how many sends, receives and collective operations
        /// this call completed; `None` if no call was seen to.
        completion: Option<(Operation, u32)>,
    },
}

impl Sample {
    /// As words: number 40 bits, and from bit 40 on the root plus 1 or the completed messages;
    /// start; arrival; departure; the completed collective operations, or bytes 48 bits, and from
    /// bit 48 on the number of the completing call plus 1.
    pub fn words(&self) -> [u64; SAMPLE_WORDS] {
        let (beside, last) = match self.subject {
            Subject::Instance { root, completed } => {
                let root = root.map_or(0, |root| u64::from(root) + 1);
                (if root > MOST_BESIDE { 0 } else { root }, completed.into())
            }
            Subject::Message { bytes, completion } => {
                let (call, completed) =
                    completion.map_or((0, 0), |(call, completed)| (call as u64 + 1, completed));
                (MOST_BESIDE.min(completed.into()), bytes.min(MOST_BYTES) | call << BYTES_BITS)
            }
        };
        let [start, arrival, departure] = [self.start, self.arrival, self.departure].map(Ticks::get);
        [self.number & NUMBER_MASK | beside << NUMBER_BITS, start, arrival, departure, last]
    }

    /// From words of an instance, or of a message.
    pub fn from_words(words: [u64; SAMPLE_WORDS], is_message: bool) -> Sample {
        let [first, start, arrival, departure, last] = words;
        let beside = (first >> NUMBER_BITS) as u32;
        let subject = match is_message {
            false => Subject::Instance { root: beside.checked_sub(1), completed: last as u32 },
            true => Subject::Message {
                bytes: last & MOST_BYTES,
                completion: (last >> BYTES_BITS)
                    .checked_sub(1)
                    .and_then(Operation::from_index)
                    .map(|call| (call, beside)),
            },
        };
        let [start, arrival, departure] = [start, arrival, departure].map(Ticks::new);
        Sample { number: number_of(first), start, arrival, departure, subject }
    }
}

/// The number of a sample from its first word.
pub const fn number_of(first: u64) -> u64 {
    first & NUMBER_MASK
}

/// Spreads the numbers of instances evenly over all values, so that no pattern of a program meets
/// that of the sample.
pub const fn hash(instance: u64) -> u64 {
    let mixed = (instance ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 16
}

/// Returns whether an instance is kept under a mask.
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
            root in proptest::option::of(0u32..(1 << 24) - 2),
            ticks: [u64; 3],
            completed in 0u32..1 << 24,
            bytes in 0u64..1 << BYTES_BITS,
            call in proptest::option::of(proptest::sample::select(Operation::all().collect::<Vec<_>>())),
        ) {
            let [start, arrival, departure] = ticks.map(Ticks::new);
            let completion = call.map(|call| (call, completed));
            for subject in [Subject::Instance { root, completed }, Subject::Message { bytes, completion }] {
                let sample = Sample { number, start, arrival, departure, subject };
                let is_message = matches!(subject, Subject::Message { .. });
                prop_assert_eq!(Sample::from_words(sample.words(), is_message), sample);
                prop_assert_eq!(number_of(sample.words()[0]), number);
            }
        }
    }

    #[test]
    fn a_root_without_room_is_none() {
        let of_root = |root| Sample {
            number: 7,
            start: Ticks::new(1),
            arrival: Ticks::new(1),
            departure: Ticks::new(2),
            subject: Subject::Instance { root, completed: 0 },
        };
        assert_eq!(Sample::from_words(of_root(Some(1 << 24)).words(), false), of_root(None));
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
