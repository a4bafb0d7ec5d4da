//! The sums of GPU kernels' accesses as a message: each text once, and its number where it is used.

use super::super::check::is_sorted;
use super::{Code, Detail, GpuSums, Key, Line, Name, Note, Sum};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeSet, HashMap};

/// Sums whose names are numbers of texts.
#[derive(Serialize, Deserialize)]
struct Numbered {
    texts: Vec<String>,
    detail: Detail,
    lines: Vec<NumberedLine>,
    orphans: u64,
    notes: Vec<((bool, String), Note)>,
    notes_detail: Detail,
    all_notes: u64,
    binaries: BTreeSet<(String, String)>,
    more_binaries: bool,
}

/// A [`Line`] and its code.
#[derive(Serialize, Deserialize)]
struct NumberedLine {
    code: Code<u32>,
    detail: Detail,
    by_powers: bool,
    rows: Vec<(Key<u32>, Sum)>,
}

impl<N> Code<N> {
    fn mapped<M>(&self, map: impl Fn(&N) -> M) -> Code<M> {
        Code { kernel: map(&self.kernel), source: map(&self.source), launched: map(&self.launched) }
    }
}

impl<N> Key<N> {
    fn mapped<M>(&self, map: impl Fn(&N) -> M) -> Key<M> {
        let Key { object, memory, offset, peer_device, access, width, sampled } = self;
        Key {
            object: map(object),
            memory: *memory,
            offset: *offset,
            peer_device: *peer_device,
            access: *access,
            width: *width,
            sampled: *sampled,
        }
    }
}

impl Serialize for GpuSums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.lines.iter().flat_map(|(code, line)| {
            let objects = line.rows.iter().map(|(key, _)| &*key.object);
            [&*code.kernel, &code.source, &code.launched].into_iter().chain(objects)
        });
        let texts: BTreeSet<&str> = names.collect();
        let numbers: HashMap<&str, u32> = texts.iter().copied().zip(0..).collect();
        let number = |text: &Name| numbers.get(&**text).copied().unwrap_or(0);
        let line = |(code, line): &(Code, Line)| {
            let rows = line.rows.iter().map(|(key, sum)| (key.mapped(number), sum.clone()));
            let (code, detail, by_powers) = (code.mapped(number), line.detail, line.by_powers);
            NumberedLine { code, detail, by_powers, rows: rows.collect() }
        };
        let note =
            |((is_sentence, text), note): &((bool, Name), Note)| ((*is_sentence, text.to_string()), *note);
        let numbered = Numbered {
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
            detail: self.detail,
            lines: self.lines.iter().map(line).collect(),
            orphans: self.orphans,
            notes: self.notes.iter().map(note).collect(),
            notes_detail: self.notes_detail,
            all_notes: self.all_notes,
            binaries: self.binaries.clone(),
            more_binaries: self.more_binaries,
        };
        numbered.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GpuSums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbered = Numbered::deserialize(deserializer)?;
        let texts: Vec<Name> = numbered.texts.into_iter().map(Name::from).collect();
        let is_text = |number: u32| (number as usize) < texts.len();
        let are_texts = |NumberedLine { code, rows, .. }: &NumberedLine| {
            [code.kernel, code.source, code.launched].into_iter().all(is_text)
                && rows.iter().all(|(key, _)| is_text(key.object))
        };
        if !numbered.lines.iter().all(are_texts) {
            return Err(D::Error::custom("a name is missing"));
        }
        let text = |&number: &u32| texts[number as usize].clone();
        let line = |NumberedLine { code, detail, by_powers, rows }| {
            let rows = rows.into_iter().map(|(key, sum)| (key.mapped(text), sum)).collect();
            (code.mapped(text), Line { detail, by_powers, rows })
        };
        let note =
            |((is_sentence, text), note): ((bool, String), Note)| ((is_sentence, Name::from(text)), note);
        let (detail, notes_detail) = (numbered.detail, numbered.notes_detail);
        let mut sums = GpuSums {
            detail,
            lines: numbered.lines.into_iter().map(line).collect(),
            orphans: numbered.orphans,
            notes: numbered.notes.into_iter().map(note).collect(),
            notes_detail,
            all_notes: numbered.all_notes,
            binaries: numbered.binaries,
            more_binaries: numbered.more_binaries,
        };
        if !sums.is_sorted() {
            return Err(D::Error::custom("accesses of GPU kernels are not in order"));
        }
        sums.lines.iter_mut().for_each(|(_, line)| line.limit(line.detail, line.by_powers));
        sums.limit(detail);
        sums.limit_notes(notes_detail);
        Ok(sums)
    }
}

impl GpuSums {
    /// Returns whether rows are in the order in which sums are made and merged.
    fn is_sorted(&self) -> bool {
        is_sorted(&self.lines)
            && self.lines.iter().all(|(_, line)| is_sorted(&line.rows))
            && is_sorted(&self.notes)
    }
}
