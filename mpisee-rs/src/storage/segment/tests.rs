use super::*;
use mpisee_profile::CommId;
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("mpisee-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn segment(&self) -> Segment {
        let (segment, complaint) = Segment::create(&self.0).unwrap();
        assert_eq!(complaint, None);
        segment
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The body of a chunk as words.
fn body(chunk: &ChunkHeader) -> &[AtomicU64] {
    let words = (chunk.bytes.load(Ordering::Relaxed) as usize - CHUNK_HEADER_BYTES) / 8;
    // SAFETY: a chunk is mapped as far as it says.
    unsafe {
        std::slice::from_raw_parts(
            ptr::from_ref(chunk).cast::<AtomicU64>().add(CHUNK_HEADER_BYTES / 8),
            words,
        )
    }
}

/// Kind and body of each chunk in the first `bytes` bytes, as readers find them.
fn chunks(bytes: u64, word: impl Fn(usize) -> u64) -> Vec<(u64, Vec<u64>)> {
    let (mut at, mut found) = (HEADER_BYTES / 8, Vec::new());
    while at < bytes as usize / 8 {
        let (kind, words) = (word(at), word(at + 1) as usize / 8);
        assert!(words >= CHUNK_HEADER_BYTES / 8, "a chunk without an end at word {at}");
        found.push((kind, (at + CHUNK_HEADER_BYTES / 8..at + words).map(&word).collect()));
        at += words;
    }
    assert_eq!(at, bytes as usize / 8);
    found
}

/// Takes chunks of all sizes, each with a number of its own in all words; returns these numbers
/// with the sizes.
fn fill(segment: &Segment, numbers: std::ops::Range<u64>) -> Vec<(u64, usize)> {
    let take = |number: u64| {
        let chunk = segment.counters(1 << (12 + number % 5)).unwrap();
        body(chunk).iter().for_each(|word| word.store(number, Ordering::Relaxed));
        (number, body(chunk).len())
    };
    numbers.map(take).collect()
}

fn numbered(chunks: &[(u64, Vec<u64>)]) -> Vec<(u64, usize)> {
    let counters = chunks.iter().filter(|(kind, _)| *kind == COUNTERS);
    counters
        .inspect(|(_, words)| assert!(words.iter().all(|word| *word == words[0])))
        .map(|(_, words)| (words[0], words.len()))
        .collect()
}

fn words_of(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn path_of(segment: &Segment) -> PathBuf {
    segment.growth.lock().unwrap().file.as_ref().unwrap().path.clone()
}

#[test]
fn chunks_in_many_extents_read_alike_from_memory_and_from_the_file() {
    let folder = Folder::new("extents");
    let segment = folder.segment();
    let mut expected = fill(&segment, 1..100);
    let name = "n".repeat(100_000);
    assert!(
        segment.log(&Record::Label { id: CommId::new(7), text: name.clone() }),
        "a record larger than the first extents"
    );
    expected.extend(fill(&segment, 100..200));
    let used = segment.header().used.load(Ordering::Acquire);
    assert_eq!(segment.header().shared.load(Ordering::Relaxed), used);
    assert!(used > 3 * MOST_GROWTH as u64, "{used}");
    let in_memory = chunks(used, |index| segment.word(index));
    assert_eq!(numbered(&in_memory), expected);
    let in_file = words_of(&path_of(&segment));
    assert_eq!(chunks(used, |index| in_file[index]), in_memory);
    let records =
        in_memory.iter().filter_map(|(kind, words)| Some(Record::decode(words)?.0).filter(|_| *kind == LOG));
    assert_eq!(records.collect::<Vec<_>>(), [Record::Label { id: CommId::new(7), text: name }]);
    let growth = segment.growth.lock().unwrap();
    assert_eq!(growth.mapped, in_file.len() * 8);
    assert!(growth.mapped - growth.used <= MOST_GROWTH, "address space follows what is used");
    let lost: usize = in_memory
        .iter()
        .filter(|(kind, words)| *kind == LOG && words[0] == 0)
        .map(|(_, words)| words.len() * 8)
        .sum();
    assert!(lost < LEAST_COUNTERS_BYTES * 10, "{lost} bytes at the ends of extents have no use");
    drop(growth);
    segment.remove();
}

#[test]
fn the_first_extent_is_small() {
    let folder = Folder::new("first");
    let segment = folder.segment();
    assert_eq!(segment.growth.lock().unwrap().mapped, GRANULE);
    segment.remove();
}

/// Where [`Segment::prefetch_first_slot`] asks for it.
#[test]
fn the_first_counters_follow_the_header() {
    let folder = Folder::new("counters");
    let segment = folder.segment();
    let chunk = segment.counters(1 << 12).expect("there is room");
    assert_eq!(ptr::from_ref(chunk).addr(), ptr::from_ref(segment.header()).addr() + HEADER_BYTES);
    assert_eq!(chunk.bytes.load(Ordering::Relaxed) as usize, FIRST_COUNTERS_BYTES);
    segment.remove();
}

#[test]
fn without_the_file_growth_goes_on_in_private_memory_and_the_file_is_whole() {
    let folder = Folder::new("private");
    let segment = folder.segment();
    let in_file = fill(&segment, 1..20);
    let path = path_of(&segment);
    let moved = folder.0.join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::fs::write(&path, "another's").unwrap();
    let later = fill(&segment, 20..60);
    let header = segment.header();
    let (used, shared) = (header.used.load(Ordering::Acquire), header.shared.load(Ordering::Relaxed));
    assert!(shared < used, "{shared} of {used}");
    let all: Vec<_> = in_file.into_iter().chain(later).collect();
    assert_eq!(numbered(&chunks(used, |index| segment.word(index))), all);
    let words = words_of(&moved);
    assert_eq!(words.len() * 8, shared as usize);
    let there = numbered(&chunks(shared, |index| words[index]));
    assert_eq!(there, all[..there.len()]);
    segment.remove();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "another's");
}

#[test]
fn without_address_space_chunks_are_refused_and_now_and_then_tried_again() {
    let folder = Folder::new("refused");
    let segment = folder.segment();
    assert!(segment.counters(1 << 12).is_some(), "the first is there");
    let before = {
        let mut growth = segment.growth.lock().unwrap();
        growth.used = growth.mapped;
        std::mem::replace(&mut growth.mapped, MOST_BYTES)
    };
    segment.growth.lock().unwrap().used = MOST_BYTES;
    assert!((0..5).all(|_| segment.counters(1 << 12).is_none()));
    let mut growth = segment.growth.lock().unwrap();
    assert!(growth.has_said_refused && growth.full.is_none(), "the file is not to blame");
    (growth.mapped, growth.used) = (before, before);
    drop(growth);
    let granted = (5..).find(|_| segment.counters(1 << 12).is_some());
    assert_eq!(granted, Some(REQUESTS_PER_TRY - 1), "one of these is tried");
    assert!(segment.counters(1 << 12).is_some());
    segment.remove();
}

#[test]
fn names_differ() {
    assert_ne!(unforeseen(), unforeseen());
}
