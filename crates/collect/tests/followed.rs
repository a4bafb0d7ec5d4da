//! Following a segment while it grows, and segments that are not what a writer makes.

use mpisee_collect::process;
use mpisee_collect::segments::{CallSums, Followed, find, own_user};
use mpisee_profile::rows::Memory;
use mpisee_profile::segment::active_call::{self, CurrentFunction};
use mpisee_profile::segment::layout::{HEADER_BYTES, Header, state};
use mpisee_profile::segment::log::{Created, Record, Runs};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, OperationAtSite, SlotKey, file_name};
use mpisee_profile::{CommId, CommRank, Operation, RegionId};
use proptest::prelude::*;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A header of this process, whose clock counts nanoseconds.
fn header() -> Words {
    let pid = std::process::id();
    let mut words = Words::new(Owner { pid, host: "n1", world_rank: 0, world_size: 4 });
    words.set(offset_of!(Header, state), state::ACTIVE);
    words.set(offset_of!(Header, boot), process::boot());
    words.set(offset_of!(Header, namespace), process::namespace());
    let start = process::look_at(pid).expect("this process runs").start;
    words.set(offset_of!(Header, process_start), start);
    words
}

fn created(id: u32, letter: u8, r: Option<u32>) -> Record {
    let world = Created::with_world(CommId::new(id), CommRank::FIRST, Runs::first(4));
    let parent = (letter != 0).then_some(CommId::WORLD);
    let operation = Operation::CommSplit as u32;
    Record::Created(Created { parent, letter, n: 1, r: r.map(CommRank::new), operation, ..world })
}

fn key(comm: u32, operation: Operation, size_class: u8) -> SlotKey {
    let (communicator, region) = (CommId::new(comm), RegionId::OUTSIDE);
    let operation = OperationAtSite::from_operation(operation);
    CallKey { communicator, region, operation, size_class, memory: Memory::Host }.pack()
}

/// A folder with the segment of this process.
struct Place {
    folder: tempfile::TempDir,
    file: std::fs::File,
}

impl Place {
    fn with(words: &Words) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let name = file_name(own_user().unwrap(), std::process::id(), 7);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(folder.path().join(name)).unwrap();
        let place = Place { folder, file };
        place.write(words);
        place
    }

    fn write(&self, words: &Words) {
        self.file.write_all_at(&words.bytes(), 0).unwrap();
    }

    fn follow(&self) -> anyhow::Result<Followed> {
        let mut found = find(self.folder.path() as &Path, own_user().unwrap(), false)?;
        assert_eq!(found.segments.len(), 1, "{:?}", found.unreadable);
        Followed::new(&found.segments.remove(0))
    }
}

/// Families, operations, calls, bytes and ticks, and the number of threads inside.
fn rows(followed: &Followed, sums: &[CallSums]) -> Vec<(String, &'static str, CallSums)> {
    let rows = followed.rows().iter().zip(sums);
    rows.map(|((comm, operation), sums)| (followed.family(*comm).to_owned(), operation.name(), *sums))
        .collect()
}

#[test]
fn what_is_new_is_added_at_each_reading() {
    let begun = header().log(&[created(0, 0, None), created(1, 0, None)]);
    let send = key(0, Operation::Send, 4);
    let first = begun.counters(&[(send, [2, 16, 500, 0, 0, 0]), (SlotKey::nothing(0), [9; 6])]);
    let place = Place::with(&first);
    let mut followed = place.follow().unwrap();
    let mut read = Vec::new();
    assert!(followed.rows().is_empty());
    followed.update(false, &mut read).unwrap();
    let sums = |calls, bytes, ticks| CallSums { calls, bytes, ticks, inside: 0, longest: 0 };
    assert_eq!(rows(&followed, &read), [("W".to_owned(), "MPI_Send", sums(2, 16, 500))]);

    // Another communicator, of which a slot counts; another size class, and another thread.
    let more = first.log(&[created(2, b's', Some(2))]);
    let more = more.counters(&[
        (key(2, Operation::Bcast, 0), [1, 0, 70, 0, 0, 0]),
        (key(0, Operation::Send, 9), [1, 300, 40, 0, 0, 0]),
        (send, [1, 8, 1, 0, 0, 0]),
    ]);
    place.write(&more);
    followed.update(false, &mut read).unwrap();
    let grown = [
        ("W".to_owned(), "MPI_Send", sums(4, 324, 541)),
        ("W_s1.*@4".to_owned(), "MPI_Bcast", sums(1, 0, 70)),
    ];
    assert_eq!(rows(&followed, &read), grown);
    followed.update(false, &mut read).unwrap();
    assert_eq!(rows(&followed, &read), grown, "nothing is new");
    assert_eq!(followed.process().communicators.len(), 3);
}

#[test]
fn a_call_that_goes_on_has_its_time_so_far() {
    let place = active_call::pack(CurrentFunction::Operation(Operation::Recv), CommId::WORLD);
    let words = header().log(&[created(0, 0, None)]);
    let mut words = words.counters(&[
        (key(0, Operation::Recv, 3), [1, 4, 1000, 0, 0, 0]),
        (SlotKey::ACTIVE_CALL, [place, 1, 0, 0, 0, 0]),
    ]);
    let file = Place::with(&words);
    let mut followed = file.follow().unwrap();
    let mut read = Vec::new();
    followed.update(false, &mut read).unwrap();
    let first = read[0];
    assert!(
        first.ticks == 1000 + first.longest
            && first.longest > 1_000_000
            && first.inside == 1
            && first.calls == 1,
        "{first:?}"
    );
    followed.update(false, &mut read).unwrap();
    assert!(read[0].ticks > first.ticks, "time goes on");
    followed.update(true, &mut read).unwrap();
    let ended = CallSums { calls: 1, bytes: 4, ticks: 1000, inside: 0, longest: 0 };
    assert_eq!(read[0], ended, "a process that ended is in no call");
    words.set(offset_of!(Header, state), state::ARRIVED);
    file.write(&words);
    followed.update(false, &mut read).unwrap();
    assert!(followed.has_arrived() && read[0] == ended);
}

#[test]
fn counts_are_read_after_the_file_is_removed() {
    let words = header().log(&[created(0, 0, None)]);
    let words = words.counters(&[(key(0, Operation::Barrier, 0), [3, 0, 30, 0, 0, 0])]);
    let place = Place::with(&words);
    let mut followed = place.follow().unwrap();
    let mut read = Vec::new();
    let name = std::fs::read_dir(place.folder.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(name).unwrap();
    followed.update(true, &mut read).unwrap();
    assert_eq!(read[0].calls, 3);
}

#[test]
fn a_file_that_is_cut_off_is_an_error() {
    let words = header().log(&[created(0, 0, None)]);
    let words = words.counters(&[(key(0, Operation::Barrier, 0), [3, 0, 30, 0, 0, 0])]);
    let place = Place::with(&words);
    let mut followed = place.follow().unwrap();
    let mut read = Vec::new();
    followed.update(false, &mut read).unwrap();
    place.file.set_len(HEADER_BYTES as u64 + 8).unwrap();
    assert!(followed.update(false, &mut read).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn words_of_any_kind_are_an_error_or_read(
        at in 0usize..200, value: u64, small in 0u64..4096, is_small: bool, again in 0usize..200,
    ) {
        let words = header().log(&[created(0, 0, None), created(1, 0, None), created(2, b's', Some(0))]);
        let active = active_call::pack(CurrentFunction::Operation(Operation::Recv), CommId::WORLD);
        let mut words = words.counters(&[
            (key(2, Operation::Bcast, 0), [1, 0, 70, 0, 0, 0]),
            (SlotKey::ACTIVE_CALL, [active, 1, 0, 0, 0, 0]),
        ]);
        let place = Place::with(&words);
        let mut followed = place.follow().unwrap();
        let mut read = Vec::new();
        let value = if is_small { small } else { value };
        let length = words.words().len();
        // What identifies the process stays, as the file would not be followed without.
        for at in [at, again] {
            words.words_mut()[HEADER_BYTES / 8 + at % (length - HEADER_BYTES / 8)] = value;
        }
        place.write(&words);
        let _ = followed.update(false, &mut read);
        let _ = followed.update(false, &mut read);
    }
}
