//! How the sums of GPU kernels' accesses travel: texts once, by number where they are used.

use super::super::bytes::{Reader, Writer, is_sorted};
use super::{Code, GpuSums, Key, Line, Name, Said, Sum, Told};
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{GpuMemory, PeerDevice};
use std::collections::{BTreeSet, HashMap};

const MEMORIES: [GpuMemory; 6] = [
    GpuMemory::Device,
    GpuMemory::Ipc,
    GpuMemory::Imported,
    GpuMemory::Pinned,
    GpuMemory::Registered,
    GpuMemory::Managed,
];
const DEVICES: [Option<PeerDevice>; 5] = [
    None,
    Some(PeerDevice::Same),
    Some(PeerDevice::Another),
    Some(PeerDevice::Host),
    Some(PeerDevice::Managed),
];
const ACCESSES: [Access; 3] = [Access::Load, Access::Store, Access::Atomic];

/// The place of one of few.
fn place<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or(0) as u64
}

fn one_of<T: Copy>(all: &[T], place: u64) -> Option<T> {
    all.get(usize::try_from(place).ok()?).copied()
}

impl GpuSums {
    pub fn encode(&self, bytes: &mut Writer) {
        let codes = self.lines.iter().flat_map(|(code, line)| {
            let objects = line.rows.iter().map(|(key, _)| &*key.object);
            [&*code.kernel, &code.source, &code.launched].into_iter().chain(objects)
        });
        let texts: BTreeSet<&str> = codes.collect();
        let numbers: HashMap<&str, u64> = texts.iter().copied().zip(0..).collect();
        let number = |text: &Name| numbers.get(&**text).copied().unwrap_or(0);
        bytes.number(texts.len() as u64);
        texts.iter().for_each(|text| bytes.text(text));
        bytes.number(self.told as u64);
        bytes.number(self.lines.len() as u64);
        for (code, line) in &self.lines {
            bytes.number(number(&code.kernel));
            bytes.number(number(&code.source));
            bytes.number(number(&code.launched));
            bytes.number(line.told as u64);
            bytes.number(line.by_powers.into());
            bytes.number(line.rows.len() as u64);
            for (key, sum) in &line.rows {
                bytes.number(number(&key.object));
                encode_row(key, sum, bytes);
            }
        }
        bytes.number(self.orphans);
        bytes.number(self.said_told as u64);
        bytes.number(self.said.len() as u64);
        for ((is_told, text), said) in &self.said {
            bytes.number((*is_told).into());
            bytes.text(text);
            [said.ranks, said.first.into(), said.accesses].into_iter().for_each(|it| bytes.number(it));
        }
        bytes.number(self.all_said);
        bytes.number(self.binaries.len() as u64);
        for (file, build_id) in &self.binaries {
            bytes.text(file);
            bytes.text(build_id);
        }
        bytes.number(self.more_binaries.into());
    }

    /// `None` where it is not what [`GpuSums::encode`] makes.
    pub fn decode(bytes: &mut Reader) -> Option<GpuSums> {
        let texts = bytes.list(|bytes| bytes.text().map(Name::from))?;
        let told = Told::of_number(bytes.number()?)?;
        let lines = bytes.list(|bytes| {
            let (kernel, source) = (text(bytes, &texts)?, text(bytes, &texts)?);
            let code = Code { kernel, source, launched: text(bytes, &texts)? };
            let (told, by_powers) = (Told::of_number(bytes.number()?)?, bytes.flag()?);
            let rows = bytes.list(|bytes| row(bytes, &texts))?;
            Some((code, Line { told, by_powers, rows }))
        })?;
        let orphans = bytes.number()?;
        let said_told = Told::of_number(bytes.number()?)?;
        let said = bytes.list(|bytes| {
            let key = (bytes.flag()?, bytes.text()?.into());
            Some((key, Said { ranks: bytes.number()?, first: bytes.narrow()?, accesses: bytes.number()? }))
        })?;
        let all_said = bytes.number()?;
        let binaries = bytes.list(|bytes| Some((bytes.text()?, bytes.text()?)))?;
        let more_binaries = bytes.flag()?;
        let is_in_order = is_sorted(&lines)
            && lines.iter().all(|(_, line)| is_sorted(&line.rows))
            && is_sorted(&said)
            && binaries.is_sorted_by(|left, right| left < right);
        let binaries = binaries.into_iter().collect();
        let mut sums = GpuSums { told, lines, orphans, said, said_told, all_said, binaries, more_binaries };
        sums.lines.iter_mut().for_each(|(_, line)| line.settle(line.told, line.by_powers));
        sums.settle(told);
        sums.settle_said(said_told);
        is_in_order.then_some(sums)
    }
}

fn encode_row(key: &Key, sum: &Sum, bytes: &mut Writer) {
    bytes.number(place(&MEMORIES, &key.memory));
    bytes.number(key.offset.is_some().into());
    if let Some((first, last)) = key.offset {
        bytes.signed(first);
        bytes.number(last.wrapping_sub(first) as u64);
    }
    bytes.number(place(&DEVICES, &key.peer_device));
    bytes.number(place(&ACCESSES, &key.access));
    for number in [key.width.into(), key.sampled.into(), sum.count, sum.accesses] {
        bytes.number(number);
    }
    bytes.spread(&sum.bytes);
    bytes.wide(sum.variance);
}

fn text(bytes: &mut Reader, texts: &[Name]) -> Option<Name> {
    texts.get(bytes.narrow::<usize>()?).cloned()
}

fn row(bytes: &mut Reader, texts: &[Name]) -> Option<(Key, Sum)> {
    let key = Key {
        object: text(bytes, texts)?,
        memory: one_of(&MEMORIES, bytes.number()?)?,
        offset: match bytes.flag()? {
            true => {
                let first = bytes.signed()?;
                Some((first, first.checked_add_unsigned(bytes.number()?)?))
            }
            false => None,
        },
        peer_device: one_of(&DEVICES, bytes.number()?)?,
        access: one_of(&ACCESSES, bytes.number()?)?,
        width: bytes.narrow()?,
        sampled: bytes.narrow()?,
    };
    let sum = Sum {
        count: bytes.number()?,
        accesses: bytes.number()?,
        bytes: bytes.spread()?,
        variance: bytes.wide()?,
    };
    Some((key, sum))
}
