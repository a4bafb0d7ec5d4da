//! A slot that one process writes while another reads it.

use crate::storage::seqlock::{add, update};
use crate::storage::sync::{AtomicU64, Ordering};
use crate::try_all;
use loom::sync::Arc;
use loom::thread;
use mpisee_profile::rows::Memory;
use mpisee_profile::segment::layout::{COUNTERS, HEADER_BYTES, MAGIC, VERSION, call};
use mpisee_profile::segment::{CallKey, OperationAtSite, SlotKey, Snapshot, Source};
use mpisee_profile::{CommId, Operation, RegionId};

const HEADER_WORDS: usize = HEADER_BYTES / 8;
const CHUNK_WORDS: usize = 8;
const SLOT_WORDS: usize = 8;

/// A segment with one slot. What nobody changes is no matter for the model checker.
struct Segment {
    words: [u64; HEADER_WORDS + CHUNK_WORDS],
    key: SlotKey,
    sequence: AtomicU64,
    values: [AtomicU64; 6],
}

impl Segment {
    fn new() -> Self {
        let mut words = [0; HEADER_WORDS + CHUNK_WORDS];
        (words[0], words[1], words[2]) = (MAGIC, VERSION, Operation::fingerprint());
        words[10] = 8 * (words.len() + SLOT_WORDS) as u64;
        let chunk = &mut words[HEADER_WORDS..];
        (chunk[0], chunk[1], chunk[2]) = (COUNTERS, 8 * (CHUNK_WORDS + SLOT_WORDS) as u64, 1);
        let key = CallKey {
            communicator: CommId::WORLD,
            region: RegionId::OUTSIDE,
            operation: OperationAtSite::from_operation(Operation::Send),
            size_class: 3,
            memory: Memory::Host,
        };
        Segment {
            words,
            key: key.pack(),
            sequence: AtomicU64::new(0),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Source for Segment {
    fn words(&self) -> usize {
        self.words.len() + SLOT_WORDS
    }

    fn word(&self, index: usize) -> u64 {
        match index.checked_sub(self.words.len()) {
            None => self.words[index],
            Some(0) => self.key.0,
            Some(1) => {
                let sequence = self.sequence.load(Ordering::Acquire);
                if !sequence.is_multiple_of(2) {
                    // The reader will come again.
                    thread::yield_now();
                }
                sequence
            }
            Some(value) => self.values[value - 2].load(Ordering::Acquire),
        }
    }
}

#[test]
fn a_reader_sees_whole_calls() {
    try_all(3, || {
        let segment = Arc::new(Segment::new());
        let writer = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || {
                for _ in 0..2 {
                    update(&segment.sequence, || {
                        add(&segment.values[call::CALLS], 1);
                        add(&segment.values[call::BYTES], 101);
                    });
                }
            })
        };
        let snapshot = Snapshot::read(&*segment).expect("it is a segment");
        let values = snapshot.values_of(segment.key).expect("it is counted");
        assert!(values[call::CALLS] <= 2);
        assert_eq!(values[call::BYTES], 101 * values[call::CALLS]);
        writer.join().unwrap();
        let snapshot = Snapshot::read(&*segment).expect("it is a segment");
        assert_eq!(snapshot.values_of(segment.key).expect("it is counted")[..2], [2, 202]);
    });
}
