//! Records of accesses, from the device's part, compiled by the host's compiler, to the host's.

mod support;

use mpisee_gpu::counting::records::Buffer;
use mpisee_gpu::device::backend::{Backend, Queue};
use mpisee_gpu::device::layout::{Launch, Range, Record, Table, What, Window};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::Core;

static CORE: LazyLock<Core> = LazyLock::new(Core::load);
const QUEUE: Queue = Queue { context: 1, stream: 0 };
const SLOTS: usize = 256;

/// A device whose memory is this process's.
struct Memory;

impl Backend for Memory {
    fn allocate(&self, _: u64, bytes: usize) -> Option<u64> {
        Some(vec![u64::MAX; bytes.div_ceil(8)].leak().as_mut_ptr() as u64)
    }
    fn write(&self, _: Queue, address: u64, bytes: &[u8]) -> bool {
        // As a device does, by words.
        for (word, at) in bytes.chunks_exact(8).zip((address..).step_by(8)) {
            word_at(at).store(u64::from_le_bytes(word.try_into().unwrap()), Ordering::Release);
        }
        true
    }
    fn clear(&self, queue: Queue, address: u64, bytes: usize) -> bool {
        self.write(queue, address, &vec![0; bytes])
    }
    fn read(&self, _: Queue, address: u64, bytes: &mut [u8]) -> bool {
        for (word, at) in bytes.chunks_exact_mut(8).zip((address..).step_by(8)) {
            word.copy_from_slice(&word_at(at).load(Ordering::Acquire).to_le_bytes());
        }
        true
    }
    fn wait(&self, _: Queue) -> bool {
        true
    }
    fn function(&self, _: u64, _: &str) -> Option<(u64, u64)> {
        None
    }
    fn patch(&self, _: u64, _: u64) -> bool {
        true
    }
    fn context_gone(&self, _: u64) {}
    fn device_name(&self, _: i32) -> String {
        String::new()
    }
}

fn word_at<'w>(address: u64) -> &'w AtomicU64 {
    // SAFETY: an aligned word of memory that was leaked, and that all use as atomics or after each
    // other.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// A launch with so many records in each half, and ranges of 100 bytes each from 0 on.
fn launch(capacity: usize) -> (Launch, Buffer) {
    let ranges: Vec<Range> =
        (0..10).map(|it| Range { begin: it * 100, end: it * 100 + 100, id: it + 1 }).collect();
    let ranges = ranges.leak();
    let table = Memory.allocate(1, Table::bytes(SLOTS)).unwrap();
    Memory.clear(QUEUE, table, Table::bytes(SLOTS));
    word_at(table).store(SLOTS as u64, Ordering::Relaxed);
    let buffer = Buffer::make(&Memory, QUEUE, capacity).unwrap();
    let launch = Launch {
        table,
        ranges: ranges.as_ptr() as u64,
        range_count: ranges.len() as u32,
        kernel: 3,
        windows: Window::around(ranges),
        number: 77,
        records: buffer.address,
        ..Launch::default()
    };
    (launch, buffer)
}

proptest! {
    #[test]
    fn records_are_what_was_accessed(
        warps in proptest::collection::vec((1..6u64, proptest::collection::vec(0..1200u64, 32), any::<u32>(), 0..3u32), 1..60),
        every in 1..20usize,
    ) {
        const CAPACITY: usize = 64;
        let (launch, mut buffer) = launch(CAPACITY);
        let (mut expected, mut found, mut dropped) = (Vec::new(), Vec::new(), 0);
        let mut room = 2 * CAPACITY;
        for (at, (pc, addresses, active, kind)) in warps.iter().enumerate() {
            CORE.access(&launch, pc * 16, addresses, *active, 8, *kind, 0);
            let mut by_range: BTreeMap<u64, u32> = BTreeMap::new();
            let lanes = (0..32).filter(|lane| active >> lane & 1 == 1 && addresses[*lane] < 1000);
            lanes.for_each(|lane| *by_range.entry(addresses[lane] / 100 + 1).or_default() |= 1 << lane);
            room = room.saturating_sub(by_range.len());
            let all = by_range.into_iter().map(|(range, lanes)| (pc * 16, range as u32, *kind, lanes, addresses.clone()));
            expected.extend(all);
            if at % every == 0 || room < 20 {
                let taken = buffer.take(&Memory, QUEUE).unwrap();
                found.extend(taken.0);
                dropped += taken.1;
                room = CAPACITY;
            }
        }
        let taken = buffer.take(&Memory, QUEUE).unwrap();
        found.extend(taken.0);
        dropped += taken.1;
        let mut found: Vec<_> = found.iter().map(|it: &Record| {
            let what = What::from(it.what);
            assert_eq!((it.launch, what.kernel, what.width, it.pc & 1), (77, 3, 8, 1));
            (it.pc & !1, what.range, what.kind, it.lanes, it.address.to_vec())
        }).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found.len() as u64 + dropped, expected.len() as u64);
        if dropped == 0 {
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn records_without_room_are_dropped_and_counted() {
    let (launch, mut buffer) = launch(8);
    let write = |count| (0..count).for_each(|at| CORE.access(&launch, 16, &[at; 32], 1, 4, 0, 0));
    write(20);
    let (records, dropped) = buffer.take(&Memory, QUEUE).unwrap();
    assert_eq!((records.len(), dropped), (16, 4));
    assert!(records.iter().zip(0..).all(|(it, at)| it.address[0] == at));
    for round in 0..5 {
        write(5);
        let (records, dropped) = buffer.take(&Memory, QUEUE).unwrap();
        assert_eq!((records.len(), dropped), (5, 0), "{round}");
    }
    CORE.bulk(&launch, 32, 210, 4096, 1);
    let (records, _) = buffer.take(&Memory, QUEUE).unwrap();
    assert_eq!((records[0].lanes, records[0].address[..2].to_vec()), (1, vec![210, 4096]));
    assert_eq!(What::from(records[0].what), What { range: 3, kernel: 3, kind: 1, width: 0 });
}

/// Many threads write while one reads: every record is there once and is one thread's, or is
/// counted as dropped.
#[test]
fn records_are_taken_while_others_are_written() {
    const THREADS: u64 = 3;
    const WARPS: u64 = 20_000;
    let (launch, mut buffer) = launch(512);
    let is_over = AtomicBool::new(false);
    let (mut found, mut dropped) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for warp in 0..WARPS {
                        // All lanes in one range, with the warp's number in the instruction.
                        let number = thread * WARPS + warp;
                        CORE.access(&launch, (number + 1) * 2, &[number % 1000; 32], u32::MAX, 1, 0, 0);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            writers.into_iter().for_each(|it| it.join().unwrap());
            is_over.store(true, Ordering::SeqCst);
        });
        loop {
            let is_last = is_over.load(Ordering::SeqCst);
            let taken = buffer.take(&Memory, QUEUE).unwrap();
            found.extend(taken.0.iter().map(|it| (it.pc >> 1, it.address, it.lanes)));
            dropped += taken.1;
            if is_last {
                break;
            }
        }
    });
    assert_eq!(found.len() as u64 + dropped, THREADS * WARPS);
    for (pc, addresses, lanes) in &found {
        assert_eq!((*addresses, *lanes), ([(pc - 1) % 1000; 32], u32::MAX), "a record is of two warps");
    }
    let mut numbers: Vec<u64> = found.iter().map(|it| it.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), found.len());
}
