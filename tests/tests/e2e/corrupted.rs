//! Segments of real runs that were cut off or changed: what is read of them is what was counted, or
//! they give a sentence; nothing crashes or runs for ever.

use mpisee_collect::RankTables;
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::{
    CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, Header, LOG, SLOT_BYTES, Slot, call,
};
use mpisee_profile::segment::names::names_can_be;
use mpisee_profile::segment::{SlotKey, Snapshot};
use mpisee_tests::{LIMIT, Mpi, Place, case, within};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Segments of a killed run of `ends`, after its ranks have ended.
fn segments_of(mpi: &Mpi) -> (Place, Vec<PathBuf>) {
    let place = Place::new();
    let mut command = place.command(mpi, 4);
    command.arg(mpi.compile("lifecycle/ends")).args(["kill", "-1", "1000"]);
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    let paths = place.left();
    assert_eq!(paths.len(), 4);
    (place, paths)
}

/// Calls and bytes by communicator, operation and class.
type Counts = BTreeMap<(String, String, u64), (u64, u64)>;

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|&word| u64::from_ne_bytes(word)).collect()
}

/// The way of `recover`; none if it is refused.
fn counts_of(words: &[u64]) -> Option<Counts> {
    let snapshot = Snapshot::read(words).ok()?;
    names_can_be(&snapshot).ok()?;
    let tables = <RankTables>::of_ended(&snapshot);
    let key = |comm: String, call: String, class: u64| (comm, call, class);
    let rows = tables.calls.into_iter();
    Some(rows.map(|row| (key(row.comm, row.call, row.size_max), (row.calls, row.bytes))).collect())
}

#[case]
fn truncated_segment_recovers_only_true_counts(mpi: &Mpi) {
    let (_place, paths) = segments_of(mpi);
    let bytes = std::fs::read(&paths[0]).expect("it can be read");
    let whole = counts_of(&words_of(&bytes)).expect("it is whole");
    assert!(whole.values().any(|&(calls, _)| calls > 0));
    let (mut refused, mut read) = (0, 0);
    for length in (0..bytes.len()).step_by(64) {
        match counts_of(&words_of(&bytes[..length])) {
            None => refused += 1,
            Some(counts) => {
                read += 1;
                assert!(length >= HEADER_BYTES);
                for (key, count) in counts {
                    assert_eq!(whole.get(&key), Some(&count), "{key:?} after {length} bytes");
                }
            }
        }
    }
    assert!(refused > 0 && read > 0, "{refused} {read}");
}

#[case]
fn words_that_changed_are_read_or_refused_in_no_time(mpi: &Mpi) {
    let (_place, paths) = segments_of(mpi);
    let bytes = std::fs::read(&paths[1]).expect("it can be read");
    let used = u64_at(&bytes, offset_of!(Header, used)) as usize;
    let (mut state, mut refused) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    let begin = Instant::now();
    for turn in 0..4000 {
        let mut changed = bytes.clone();
        for _ in 0..=draw(3) {
            let at = draw(used / 8) * 8;
            let value = match draw(5) {
                0 => u64::MAX,
                1 => 1 << draw(64),
                2 => u64_at(&bytes, draw(used / 8) * 8),
                3 => u64_at(&bytes, at) ^ (1 << draw(64)),
                _ => draw(1 << 31) as u64,
            };
            changed[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        refused += u32::from(counts_of(&words_of(&changed)).is_none());
        assert!(begin.elapsed() < LIMIT, "change {turn} takes its time");
    }
    assert!(refused > 0);
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn overwrite(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).expect("it is there");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).expect("it is gone");
    std::io::Write::write_all(&mut file, bytes).expect("it can be written");
}

#[case]
fn one_broken_segment_costs_a_sentence_and_its_own_rank(mpi: &Mpi) {
    let (place, paths) = segments_of(mpi);
    let bytes = std::fs::read(&paths[2]).expect("it can be read");
    let rank = u64_at(&bytes, offset_of!(Header, world_rank)) as u32;
    let used = u64_at(&bytes, offset_of!(Header, used)) as usize;
    let next = |&at: &usize| Some(at + u64_at(&bytes, at + 8) as usize);
    let chunks: Vec<usize> =
        std::iter::successors(Some(HEADER_BYTES), next).take_while(|&at| at < used).collect();
    let [counters, log] = [COUNTERS, LOG]
        .map(|kind| *chunks.iter().find(|&&at| u64_at(&bytes, at) == kind).expect("there is one"));
    let slots = u64_at(&bytes, counters + offset_of!(ChunkHeader, used)) as usize;
    let mut slots = (0..slots).map(|slot| counters + CHUNK_HEADER_BYTES + slot * SLOT_BYTES);
    let is_of_calls = |&at: &usize| {
        let meaning = SlotKey(u64_at(&bytes, at + offset_of!(Slot, key))).meaning();
        matches!(meaning, Some(Meaning::Call(_)))
    };
    let calls = slots.find(is_of_calls).expect("there were calls") + offset_of!(Slot, values);
    let with = |at: usize, value: u64| {
        let mut changed = bytes.clone();
        changed[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        changed
    };
    for (number, (changed, why)) in [
        (bytes[..0].to_vec(), "nothing is in it"),
        (bytes[..HEADER_BYTES - 64].to_vec(), "a header has 768"),
        (bytes[..used - 64].to_vec(), "it is cut off: it has "),
        (with(counters + 8, 0), "says that it has 0 words"),
        (with(counters, 77), "is of the unknown kind 77"),
        (with(log + CHUNK_HEADER_BYTES, u64::MAX), "a record that is cut off or unknown"),
        (with(calls + call::CALLS * 8, u64::MAX - 5), " calls, more than its process can have"),
        (with(calls + call::BYTES * 8, 1 << 62), " bytes, more than its process can have"),
        (with(calls + call::TICKS * 8, 1 << 60), " s of calls, more than its process can have"),
    ]
    .into_iter()
    .enumerate()
    {
        overwrite(&paths[2], &changed);
        let output = place.through(&["recover", "--output", "found.mpisee"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let skipped = said.lines().next().unwrap_or_default();
        assert!(skipped.contains("is skipped: ") && skipped.contains(why), "{why}: {said}");
        let name =
            if number == 0 { "found.mpisee".to_owned() } else { format!("found-{}.mpisee", number + 1) };
        let tables = place.tables(&name);
        let others: Vec<u32> = (0..4).filter(|&other| other != rank).collect();
        assert_eq!(tables.ranks.iter().map(|row| row.rank).collect::<Vec<_>>(), others);
        for other in others {
            let sum = tables.of_rank("W", "MPI_Allreduce", other);
            assert_eq!((sum.calls, sum.bytes), (1, 1013));
        }
    }
}
