//! Accesses of GPU kernels, summed over ranks: by kernel and line, and by how the owner of the
//! memory is related to the rank.
//!
//! The sums do not grow with the number of ranks. A device is only the kernel's own or another, an
//! owner only so far away; and where names differ from rank to rank, the numbers in them are left
//! out. Which names do follows from how many there are: more ranks never make them fewer, so that
//! the order of merging makes no difference.

mod own;
mod wire;

use super::sums::{Join, Spread, merge, merge_equal_keys};
use super::{MOST_OFFSETS, power_of_two};
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{BinaryRow, GpuMemory, GpuTotalRow, PeerDevice};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limit on the objects of a line that are listed by name.
pub const MOST_OBJECTS: usize = 64;
/// Limit on the pairs of a kernel and a line that are listed by name.
const MOST_LINES: usize = 16384;
/// Different notes that are kept, and files of `binaries.csv`: the first by name, which are the
/// same in whatever order they come.
const MOST_NOTES: usize = 64;
const MOST_BINARIES: usize = 1024;

/// Shared by many rows.
type Name = Arc<str>;

/// The level of detail of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Detail {
    /// All of them.
    #[default]
    All,
    /// Without their numbers.
    Patterns,
    /// None.
    Nothing,
}

impl Detail {
    fn less(self) -> Detail {
        if self == Detail::All { Detail::Patterns } else { Detail::Nothing }
    }

    /// Reduces a name to this level of detail.
    fn reduce(self, name: &mut Name) {
        match self {
            Detail::All => {}
            Detail::Patterns => *name = without_numbers(name).into(),
            Detail::Nothing => *name = "*".into(),
        }
    }
}

/// The name with `*` for each number, also hexadecimal ones: `ghost cells of *`, `app+*`.
fn without_numbers(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        pattern.push_str(&rest[..at]);
        pattern.push('*');
        rest = match rest[at..].strip_prefix("0x") {
            Some(digits) => digits.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()),
            None => rest[at..].trim_start_matches(|letter: char| letter.is_ascii_digit()),
        };
    }
    pattern + rest
}

/// The place of accesses in the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Code<N = Name> {
    kernel: N,
    source: N,
    /// The line of Python that launched the kernel.
    launched: N,
}

impl Code {
    fn reduce_to(&mut self, detail: Detail) {
        let Code { kernel, source, launched } = self;
        [kernel, source, launched].into_iter().for_each(|name| detail.reduce(name));
    }
}

/// The properties that accesses of a row have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key<N = Name> {
    object: N,
    memory: GpuMemory,
    /// The least and the most that the owner's rank is above the rank's.
    offset: Option<(i64, i64)>,
    peer_device: Option<PeerDevice>,
    access: Access,
    width: u32,
    sampled: u32,
}

/// The sums of accesses, in whole numbers, see [`Spread`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    count: u64,
    accesses: u64,
    bytes: Spread,
    /// The square of the standard error.
    variance: u128,
}

impl Join for Sum {
    fn join(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.bytes.join(other.bytes);
        self.variance = self.variance.saturating_add(other.variance);
    }
}

/// The accesses of one line.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    /// Of its objects.
    detail: Detail,
    /// True if offsets are counted by powers of two.
    by_powers: bool,
    rows: Vec<(Key, Sum)>,
}

impl Line {
    /// Reduces its rows to this level of detail, and further until they fit the limits.
    fn limit(&mut self, detail: Detail, by_powers: bool) {
        if detail > self.detail {
            self.reduce_to(detail);
        }
        while self.detail < Detail::Nothing && self.count(|key| Some(&key.object)) > MOST_OBJECTS {
            self.reduce_to(self.detail.less());
        }
        let is_many = !self.by_powers && self.count(|key| key.offset) > MOST_OFFSETS;
        if !self.by_powers && (by_powers || is_many) {
            self.by_powers = true;
            self.change(|key| key.offset = key.offset.map(|(first, _)| power_of_two(first)));
        }
    }

    fn reduce_to(&mut self, detail: Detail) {
        self.detail = detail;
        self.change(|key| detail.reduce(&mut key.object));
    }

    fn change(&mut self, mut change: impl FnMut(&mut Key)) {
        self.rows.iter_mut().for_each(|(key, _)| change(key));
        self.rows = merge_equal_keys(std::mem::take(&mut self.rows));
    }

    /// The number of different ones.
    fn count<'l, T: Ord>(&'l self, of: impl Fn(&'l Key) -> Option<T>) -> usize {
        self.rows.iter().filter_map(|(key, _)| of(key)).collect::<BTreeSet<T>>().len()
    }
}

impl Join for Line {
    fn join(&mut self, mut other: Self) {
        let (detail, by_powers) = (self.detail.max(other.detail), self.by_powers || other.by_powers);
        self.limit(detail, by_powers);
        other.limit(detail, by_powers);
        merge(&mut self.rows, other.rows);
        self.limit(detail, by_powers);
    }
}

/// A note on ranks, or accesses that they lost, by its text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    ranks: u64,
    first: u32,
    /// Of what is lost.
    accesses: u64,
}

impl Join for Note {
    fn join(&mut self, other: Self) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.first = self.first.min(other.first);
        self.accesses = self.accesses.saturating_add(other.accesses);
    }
}

/// Accesses of the GPU kernels of some ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuSums {
    /// Of kernels and lines.
    detail: Detail,
    lines: Vec<(Code, Line)>,
    /// Rows of memory whose owner is not known, though the memory says that there is one.
    orphans: u64,
    /// Accesses that were lost, first, and sentences.
    notes: Vec<((bool, Name), Note)>,
    notes_detail: Detail,
    /// The number of notes, including those that are not kept.
    all_notes: u64,
    /// Files and their build IDs.
    binaries: BTreeSet<(String, String)>,
    /// True if there are more.
    more_binaries: bool,
}

impl GpuSums {
    /// Adds what kernels of other ranks accessed.
    pub fn merge(&mut self, mut other: GpuSums) {
        let (detail, notes_detail) =
            (self.detail.max(other.detail), self.notes_detail.max(other.notes_detail));
        for sums in [&mut *self, &mut other] {
            sums.limit(detail);
            sums.limit_notes(notes_detail);
        }
        merge(&mut self.lines, other.lines);
        self.orphans = self.orphans.saturating_add(other.orphans);
        merge(&mut self.notes, other.notes);
        self.limit_notes(notes_detail);
        self.all_notes = self.all_notes.saturating_add(other.all_notes);
        self.binaries.append(&mut other.binaries);
        self.more_binaries |= other.more_binaries;
        self.limit(detail);
    }

    /// Reduces the lines to this level of detail, and further until they fit the limits.
    fn limit(&mut self, detail: Detail) {
        if detail > self.detail {
            self.reduce_to(detail);
        }
        while self.detail < Detail::Nothing && self.lines.len() > MOST_LINES {
            self.reduce_to(self.detail.less());
        }
        while self.binaries.len() > MOST_BINARIES {
            self.binaries.pop_last();
            self.more_binaries = true;
        }
    }

    /// Reduces the notes: without numbers where there are too many, and then to the first.
    fn limit_notes(&mut self, detail: Detail) {
        if self.notes_detail == Detail::All && (detail > Detail::All || self.notes.len() > MOST_NOTES) {
            self.notes_detail = Detail::Patterns;
            self.notes.iter_mut().for_each(|((_, text), _)| Detail::Patterns.reduce(text));
            self.notes = merge_equal_keys(std::mem::take(&mut self.notes));
        }
        self.notes.truncate(MOST_NOTES);
    }

    fn reduce_to(&mut self, detail: Detail) {
        self.detail = detail;
        let lines = std::mem::take(&mut self.lines).into_iter().map(|(mut code, line)| {
            code.reduce_to(detail);
            (code, line)
        });
        self.lines = merge_equal_keys(lines.collect());
    }

    /// The rows of `gpu-totals.csv`.
    pub fn rows(&self) -> Vec<GpuTotalRow> {
        let rows = |(code, line): &(Code, Line)| -> Vec<GpuTotalRow> {
            line.rows.iter().map(|(key, sum)| row(code, key, sum)).collect()
        };
        self.lines.iter().flat_map(rows).collect()
    }

    /// The rows of `binaries.csv`.
    pub fn binaries(&self) -> Vec<BinaryRow> {
        let row = |(file, build_id): &(String, String)| BinaryRow {
            file: file.clone(),
            build_id: build_id.clone(),
        };
        self.binaries.iter().map(row).collect()
    }

    /// Sentences for `run.json`.
    pub fn notes(&self) -> Vec<String> {
        let of = |note: &Note| match note.ranks {
            0 | 1 => format!("rank {}", note.first),
            2 => format!("rank {} and another", note.first),
            ranks => format!("rank {} and {} others", note.first, ranks - 1),
        };
        let sentence = |((is_sentence, text), note): &((bool, Name), Note)| match is_sentence {
            true => format!("{}: {text}", of(note)),
            false => format!(
                "{}: {} accesses of GPU kernels are not in gpu-totals.csv: {text}",
                of(note),
                note.accesses
            ),
        };
        let mut notes: Vec<String> = self.notes.iter().map(sentence).collect();
        let kept = self.notes.iter().fold(0u64, |kept, (_, note)| kept.saturating_add(note.ranks));
        let more = self.all_notes.saturating_sub(kept);
        if more > 0 {
            notes.push(format!(
                "of what is to be said of GPU kernels of single ranks {more} sentences are left out"
            ));
        }
        if self.orphans > 0 {
            notes.push(format!(
                "{} of the rows that gpu-totals.csv sums up {} of memory that no profiled rank of the node exported, so that \
                 its owner is unknown",
                self.orphans,
                if self.orphans == 1 { "is" } else { "are" }
            ));
        }
        let short = self.lines.iter().filter(|(_, line)| line.detail > Detail::All).count();
        if self.detail > Detail::All {
            notes.push(format!(
                "GPU kernels access memory in more than {MOST_LINES} lines, whose names have * in gpu-totals.csv"
            ));
        } else if short > 0 {
            notes.push(format!(
                "objects of lines that access more than {MOST_OBJECTS} have * in gpu-totals.csv: those of {short} of {} lines",
                self.lines.len()
            ));
        }
        if self.more_binaries {
            notes.push(format!(
                "binaries.csv has the first {MOST_BINARIES} files by name, and there are more"
            ));
        }
        notes
    }
}

fn row(code: &Code, key: &Key, sum: &Sum) -> GpuTotalRow {
    GpuTotalRow {
        memory: key.memory,
        offset_min: key.offset.map(|(first, _)| first),
        offset_max: key.offset.map(|(_, last)| last),
        peer_device: key.peer_device,
        kernel: code.kernel.to_string(),
        source: code.source.to_string(),
        launched: code.launched.to_string(),
        object: key.object.to_string(),
        access: key.access,
        width: key.width,
        count: sum.count,
        accesses: sum.accesses,
        bytes: u64::try_from(sum.bytes.sum).unwrap_or(u64::MAX),
        bytes_min: sum.bytes.min,
        bytes_max: sum.bytes.max,
        bytes_max_rank: sum.bytes.max_rank,
        sampled: key.sampled,
        error: (sum.variance as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn names_without_numbers_have_none_left() {
        for (name, pattern) in [
            ("ghost cells", "ghost cells"),
            ("ghost cells of 17", "ghost cells of *"),
            ("a1b22", "a*b*"),
            ("app+0x1a2b < lib.so.6+0xff", "app+* < lib.so.*+*"),
            ("grün 0x", "grün *"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(name), pattern);
            assert_eq!(without_numbers(pattern), pattern);
        }
    }
}
