//! The form of the sums of GPU kernels' accesses in messages: each text once, and its number where it is used.

use super::super::check::is_sorted;
use super::{Code, GpuSums, Key, Line, Name, Said, Sum, Told};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeSet, HashMap};

/// Sums whose names are numbers of texts.
#[derive(Serialize, Deserialize)]
struct Numbered {
    texts: Vec<String>,
    told: Told,
    lines: Vec<NumberedLine>,
    orphans: u64,
    said: Vec<((bool, String), Said)>,
    said_told: Told,
    all_said: u64,
    binaries: BTreeSet<(String, String)>,
    more_binaries: bool,
}

/// A [`Line`] and its code.
#[derive(Serialize, Deserialize)]
struct NumberedLine {
    code: Code<u32>,
    told: Told,
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
            let (code, told, by_powers) = (code.mapped(number), line.told, line.by_powers);
            NumberedLine { code, told, by_powers, rows: rows.collect() }
        };
        let said = |((is_told, text), said): &((bool, Name), Said)| ((*is_told, text.to_string()), *said);
        let numbered = Numbered {
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
            told: self.told,
            lines: self.lines.iter().map(line).collect(),
            orphans: self.orphans,
            said: self.said.iter().map(said).collect(),
            said_told: self.said_told,
            all_said: self.all_said,
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
        let line = |NumberedLine { code, told, by_powers, rows }| {
            let rows = rows.into_iter().map(|(key, sum)| (key.mapped(text), sum)).collect();
            (code.mapped(text), Line { told, by_powers, rows })
        };
        let said = |((is_told, text), said): ((bool, String), Said)| ((is_told, Name::from(text)), said);
        let (told, said_told) = (numbered.told, numbered.said_told);
        let mut sums = GpuSums {
            told,
            lines: numbered.lines.into_iter().map(line).collect(),
            orphans: numbered.orphans,
            said: numbered.said.into_iter().map(said).collect(),
            said_told,
            all_said: numbered.all_said,
            binaries: numbered.binaries,
            more_binaries: numbered.more_binaries,
        };
        if !sums.is_sorted() {
            return Err(D::Error::custom("accesses of GPU kernels are not in order"));
        }
        sums.lines.iter_mut().for_each(|(_, line)| line.settle(line.told, line.by_powers));
        sums.settle(told);
        sums.settle_said(said_told);
        Ok(sums)
    }
}

impl GpuSums {
    /// Whether rows are in the order in which sums are made and merged.
    fn is_sorted(&self) -> bool {
        is_sorted(&self.lines)
            && self.lines.iter().all(|(_, line)| is_sorted(&line.rows))
            && is_sorted(&self.said)
    }
}
