//! Wire format of sums: numbers as LEB128, texts after their length.

use super::gpu::GpuSums;
use super::sums::Spread;
use super::{
    ALL, About, Aggregate, Cell, CellKey, Comm, Entered, Node, OffsetKey, Region, Traffic, Whole, bounded,
};
use mpisee_profile::ranks::Range;
use mpisee_profile::rows::{Memory, Ranks};
use mpisee_profile::{Operation, ProfileError, RankSet};

/// The first byte; increment on any change of the format.
const VERSION: u8 = 2;

/// Encodes values.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn wide(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Zigzag encoding: small numbers take few bytes on both sides of 0.
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub fn spread(&mut self, spread: &Spread) {
        self.wide(spread.sum);
        self.wide(spread.squares);
        self.number(spread.min);
        self.number(spread.min_rank.into());
        self.number(spread.max);
        self.number(spread.max_rank.into());
    }

    fn ranks(&mut self, ranks: &Ranks) {
        match ranks {
            Ranks::Counted(count) => {
                self.number(0);
                self.number(*count);
            }
            Ranks::Listed(set) => {
                self.number(set.ranges().len() as u64 + 1);
                for range in set.ranges() {
                    self.number(range.first.into());
                    self.number(range.len() - 1);
                    self.number(range.stride.into());
                }
            }
        }
    }

    fn traffic(&mut self, traffic: &Traffic) {
        let Traffic { pairs, sent_messages, sent_bytes, received_messages, received_bytes } = traffic;
        for number in [pairs, sent_messages, sent_bytes, received_messages, received_bytes] {
            self.number(*number);
        }
    }

    fn comm(&mut self, comm: &Comm) {
        self.number(comm.size.into());
        self.number(comm.count);
        self.ranks(&comm.group);
        self.number(comm.remote.is_some().into());
        comm.remote.iter().for_each(|remote| self.ranks(remote));
        self.number(comm.about.is_some().into());
        let Some(about) = &comm.about else { return };
        self.number(about.name.is_some().into());
        about.name.iter().for_each(|name| self.text(name));
        for text in [&about.parent, &about.created_by, &about.label, &about.topology] {
            self.text(text);
        }
        self.number(about.reorder.map_or(0, |reorder| u64::from(reorder) + 1));
        self.number(about.freed.into());
        about.outside.iter().for_each(|&outside| self.number(outside.into()));
    }
}

/// Decodes values; `None` for bytes that no [`Writer`] makes.
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub fn wide(&mut self) -> Option<u128> {
        let mut number = 0u128;
        for shift in (0..128).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let digits = u128::from(byte & 0x7f);
            // Of the last byte only what fits.
            if shift > 121 && digits >> (128 - shift) != 0 {
                return None;
            }
            number |= digits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let digits = u64::from(byte & 0x7f);
            if shift == 63 && digits > 1 {
                return None;
            }
            number |= digits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.number()?.try_into().ok()
    }

    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn text(&mut self) -> Option<String> {
        let length: usize = self.narrow()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    /// A list after its length; each element takes at least one byte.
    pub fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: usize = self.narrow()?;
        if count > self.0.len() {
            return None;
        }
        let mut list = Vec::with_capacity(count.min(1 << 12));
        for _ in 0..count {
            list.push(one(self)?);
        }
        Some(list)
    }

    pub fn spread(&mut self) -> Option<Spread> {
        Some(Spread {
            sum: self.wide()?,
            squares: self.wide()?,
            min: self.number()?,
            min_rank: self.narrow()?,
            max: self.number()?,
            max_rank: self.narrow()?,
        })
    }

    fn ranks(&mut self) -> Option<Ranks> {
        let Some(count) = self.number()?.checked_sub(1) else { return Some(Ranks::Counted(self.number()?)) };
        let mut ranges = Vec::new();
        for _ in 0..count {
            let (first, more, stride): (u32, u32, u32) = (self.narrow()?, self.narrow()?, self.narrow()?);
            let last = u64::from(first) + u64::from(more) * u64::from(stride);
            ranges.push(Range { first, last: u32::try_from(last).ok()?, stride });
        }
        Some(Ranks::Listed(RankSet::of_ranges(ranges)?))
    }

    fn traffic(&mut self) -> Option<Traffic> {
        Some(Traffic {
            pairs: self.number()?,
            sent_messages: self.number()?,
            sent_bytes: self.number()?,
            received_messages: self.number()?,
            received_bytes: self.number()?,
        })
    }

    fn comm(&mut self) -> Option<Comm> {
        let (size, count, group) = (self.narrow()?, self.number()?, self.ranks()?);
        let remote = if self.flag()? { Some(self.ranks()?) } else { None };
        let about = if self.flag()? { Some(self.about()?) } else { None };
        Some(Comm { size, count, group, remote, about })
    }

    fn about(&mut self) -> Option<About> {
        Some(About {
            name: if self.flag()? { Some(self.text()?) } else { None },
            parent: self.text()?,
            created_by: self.text()?,
            label: self.text()?,
            topology: self.text()?,
            reorder: match self.number()? {
                0 => None,
                reorder => Some(u8::try_from(reorder - 1).ok()?),
            },
            freed: self.narrow()?,
            outside: [self.narrow()?, self.narrow()?],
        })
    }

    fn node(&mut self) -> Option<Node> {
        Some(Node {
            ranks: self.ranks()?,
            wall: self.spread()?,
            mpi: self.spread()?,
            useful: self.spread()?,
            profiler_ns: self.wide()?,
        })
    }

    fn region(&mut self) -> Option<Region> {
        if !self.flag()? {
            return Some(None);
        }
        Some(Some(Entered {
            ranks: self.number()?,
            entries: self.number()?,
            wall: self.spread()?,
            mpi_ns: self.wide()?,
            useful: self.spread()?,
        }))
    }

    fn cell(&mut self) -> Option<(CellKey, Cell)> {
        let key = CellKey {
            comm: self.narrow()?,
            operation: self.narrow()?,
            region: self.narrow()?,
            size_class: self.narrow::<u8>().filter(|&class| u32::from(class) <= u64::BITS)?,
            memory: Memory::from_number(self.number()?)?,
        };
        Operation::from_index(key.operation.into())?;
        let cell = Cell {
            ranks: self.number()?,
            calls: self.number()?,
            bytes: self.number()?,
            time: self.spread()?,
            shortest_ns: self.number()?,
            longest_ns: self.number()?,
        };
        Some((key, cell))
    }

    fn whole(&mut self) -> Option<((u32, u32), Whole)> {
        let key: (u32, u32) = (self.narrow()?, self.narrow()?);
        if key.1 != ALL {
            Operation::from_index(key.1.into())?;
        }
        let (ranks, calls, bytes, time) = (self.number()?, self.spread()?, self.spread()?, self.spread()?);
        Some((key, Whole { ranks, calls, bytes, time }))
    }

    fn offset(&mut self) -> Option<(OffsetKey, Traffic)> {
        let (comm, first, more) = (self.narrow()?, self.signed()?, self.number()?);
        let last = first.checked_add_unsigned(more)?;
        Some(((comm, first, last), self.traffic()?))
    }

    fn aggregate(&mut self) -> Option<Aggregate> {
        let nodes = self.list(|bytes| Some((bytes.text()?, bytes.node()?)))?;
        let comms = self.list(|bytes| Some((bytes.text()?, bytes.comm()?)))?;
        let regions = self.list(|bytes| Some((bytes.text()?, bytes.region()?)))?;
        let cells = self.list(Reader::cell)?;
        let wholes = self.list(Reader::whole)?;
        let offsets = self.list(Reader::offset)?;
        let outside = self.list(|bytes| Some((bytes.narrow()?, bytes.traffic()?)))?;
        let gpu = GpuSums::decode(self)?;
        Some(Aggregate { nodes, comms, regions, cells, wholes, offsets, outside, gpu })
    }
}

/// Whether each key is larger than the one before.
pub fn is_sorted<K: Ord, V>(rows: &[(K, V)]) -> bool {
    rows.is_sorted_by(|(left, _), (right, _)| left < right)
}

impl Aggregate {
    /// As bytes, for another rank.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Writer(vec![VERSION]);
        bytes.0.extend_from_slice(&Operation::fingerprint().to_le_bytes());
        bytes.number(self.nodes.len() as u64);
        for (host, node) in &self.nodes {
            bytes.text(host);
            bytes.ranks(&node.ranks);
            [&node.wall, &node.mpi, &node.useful].into_iter().for_each(|spread| bytes.spread(spread));
            bytes.wide(node.profiler_ns);
        }
        bytes.number(self.comms.len() as u64);
        for (family, comm) in &self.comms {
            bytes.text(family);
            bytes.comm(comm);
        }
        bytes.number(self.regions.len() as u64);
        for (path, entered) in &self.regions {
            bytes.text(path);
            bytes.number(entered.is_some().into());
            if let Some(entered) = entered {
                bytes.number(entered.ranks);
                bytes.number(entered.entries);
                bytes.spread(&entered.wall);
                bytes.wide(entered.mpi_ns);
                bytes.spread(&entered.useful);
            }
        }
        self.encode_sums(&mut bytes);
        self.gpu.encode(&mut bytes);
        bytes.0
    }

    fn encode_sums(&self, bytes: &mut Writer) {
        bytes.number(self.cells.len() as u64);
        for (key, cell) in &self.cells {
            for number in
                [key.comm, key.operation.into(), key.region, key.size_class.into(), key.memory as u32]
            {
                bytes.number(number.into());
            }
            [cell.ranks, cell.calls, cell.bytes].into_iter().for_each(|number| bytes.number(number));
            bytes.spread(&cell.time);
            bytes.number(cell.shortest_ns);
            bytes.number(cell.longest_ns);
        }
        bytes.number(self.wholes.len() as u64);
        for ((comm, call), whole) in &self.wholes {
            bytes.number((*comm).into());
            bytes.number((*call).into());
            bytes.number(whole.ranks);
            [&whole.calls, &whole.bytes, &whole.time].into_iter().for_each(|spread| bytes.spread(spread));
        }
        bytes.number(self.offsets.len() as u64);
        for ((comm, first, last), traffic) in &self.offsets {
            bytes.number((*comm).into());
            bytes.signed(*first);
            bytes.number(last.wrapping_sub(*first) as u64);
            bytes.traffic(traffic);
        }
        bytes.number(self.outside.len() as u64);
        for (comm, traffic) in &self.outside {
            bytes.number((*comm).into());
            bytes.traffic(traffic);
        }
    }

    /// What [`Aggregate::encode`] made.
    pub fn decode(bytes: &[u8]) -> Result<Aggregate, ProfileError> {
        let wrong = |why: &str| ProfileError::Aggregate { why: why.to_owned() };
        let (head, rest) = bytes.split_at_checked(9).ok_or_else(|| wrong("they are cut off"))?;
        if head[0] != VERSION || head[1..] != Operation::fingerprint().to_le_bytes() {
            return Err(wrong("another version of mpisee made them"));
        }
        let mut bytes = Reader(rest);
        let mut aggregate = bytes.aggregate().ok_or_else(|| wrong("they are cut off or no sums"))?;
        if !bytes.0.is_empty() {
            return Err(wrong("something follows them"));
        }
        let Aggregate { nodes, comms, regions, cells, wholes, offsets, outside, .. } = &aggregate;
        let sorted = is_sorted(nodes) && is_sorted(comms) && is_sorted(regions) && is_sorted(cells);
        if !(sorted && is_sorted(wholes) && is_sorted(offsets) && is_sorted(outside)) {
            return Err(wrong("they are not in order"));
        }
        let is_comm = |number: u32| number == ALL || (number as usize) < comms.len();
        let known = cells.iter().all(|(key, _)| is_comm(key.comm) && (key.region as usize) < regions.len())
            && wholes.iter().all(|((comm, _), _)| is_comm(*comm))
            && offsets.iter().all(|((comm, ..), _)| is_comm(*comm))
            && outside.iter().all(|(comm, _)| is_comm(*comm));
        if !known {
            return Err(wrong("they speak of a communicator or region that they do not name"));
        }
        aggregate.offsets = bounded(std::mem::take(&mut aggregate.offsets));
        Ok(aggregate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back() {
        let mut bytes = Writer::default();
        let numbers = [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX];
        for number in numbers {
            bytes.number(number);
            bytes.wide(u128::from(number) << 64 | 5);
            bytes.signed(number as i64);
        }
        let mut bytes = Reader(&bytes.0);
        for number in numbers {
            assert_eq!(bytes.number(), Some(number));
            assert_eq!(bytes.wide(), Some(u128::from(number) << 64 | 5));
            assert_eq!(bytes.signed(), Some(number as i64));
        }
        assert_eq!(bytes.number(), None);
        assert_eq!(Reader(&[0xff; 9]).number(), None);
        assert_eq!(Reader(&[0xff; 10]).number(), None, "more than 64 bits");
        assert_eq!(Reader(&[0xff; 19]).wide(), None, "more than 128 bits");
    }
}
