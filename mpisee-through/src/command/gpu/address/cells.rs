//! Sums of accesses by their position in an object.

use super::super::choose::Choice;
use super::super::label::or_unknown;
use super::super::sums::Sum;
use crate::debug_info::Symbols;
use mpisee_profile::gpu::records::{Description, Item, WarpAccess};
use mpisee_profile::gpu::{Access, Owners, RemoteMemory, common};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;

/// Rows and columns of an object, and the bytes of what is in each field of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    pub rows: u64,
    pub columns: u64,
    pub element_bytes: Option<u64>,
}

impl FromStr for Fold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse::<u64>().ok().filter(|number| (1..=1 << 20).contains(number));
        let parts: Option<Vec<u64>> = text.split('x').map(number).collect();
        match parts.as_deref() {
            Some(&[rows, columns]) => Ok(Fold { rows, columns, element_bytes: None }),
            Some(&[rows, columns, bytes]) => Ok(Fold { rows, columns, element_bytes: Some(bytes) }),
            _ => {
                Err("rows and columns are like 512x512, or with the bytes of an element 512x512x8".to_owned())
            }
        }
    }
}

/// How many fields an object is divided into.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub fold: Option<Fold>,
    /// Fields in a row at most, and rows.
    pub most: (u64, u64),
}

/// How one object is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub rows: u64,
    pub columns: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Elements in a row before they are put together.
    row_elements: u64,
    /// Rows and columns of one field.
    together: (u64, u64),
}

impl Division {
    /// The cells of an object of `bytes` bytes.
    pub fn from_grid(grid: Grid, bytes: u64) -> Self {
        let (rows, columns, element_bytes) = match grid.fold {
            Some(Fold { rows, columns, element_bytes }) => {
                (rows, columns, element_bytes.unwrap_or_else(|| bytes.div_ceil(rows * columns)))
            }
            None => {
                // No accesses are narrower, but few are at odd addresses.
                let element = bytes.div_ceil(grid.most.0).max(1).next_multiple_of(16);
                (1, bytes.div_ceil(element).max(1), element)
            }
        };
        let together = (rows.div_ceil(grid.most.1), columns.div_ceil(grid.most.0));
        Division {
            rows: rows.div_ceil(together.0),
            columns: columns.div_ceil(together.1),
            element_bytes: element_bytes.max(1),
            row_elements: columns,
            together,
        }
    }

    /// The field of an offset; none beyond the last row.
    pub fn field(&self, offset: u64) -> Option<(u64, u64)> {
        let element = offset / self.element_bytes;
        let field =
            (element / self.row_elements / self.together.0, element % self.row_elements / self.together.1);
        (field.0 < self.rows).then_some(field)
    }

    /// Where a field begins and where it ends, of its first row.
    pub fn offsets(&self, (row, column): (u64, u64)) -> (u64, u64) {
        let first = row * self.together.0 * self.row_elements + column * self.together.1;
        let elements = self.together.1.min(self.row_elements - column * self.together.1);
        (first * self.element_bytes, (first + elements) * self.element_bytes)
    }
}

/// The accesses in one field.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub sum: Sum,
    /// The devices and lines, by number.
    pub instructions: BTreeSet<u32>,
}

/// Name, or calls, and length in bytes.
pub type ObjectKey = (String, u64);

/// Allocations of one name, or from one place, and of one size.
#[derive(Clone, Debug)]
pub struct Object {
    pub bytes: u64,
    pub division: Division,
    pub cells: BTreeMap<(u64, u64), Cell>,
    pub all: Sum,
    /// By rank and number.
    allocations: BTreeSet<(u32, u32)>,
    /// Accesses beyond the rows that were asked for.
    pub beyond: u64,
}

struct Allocation {
    begin: u64,
    raw: Raw,
}

/// An allocation, where it is accessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Raw {
    /// Its name or the calls that made it, as they are in the file.
    object: String,
    place: RemoteMemory,
    bytes: u64,
    /// True if it is a name.
    is_named: bool,
}

/// The numbers of an instruction and of what it accesses.
type Target = (u32, usize);

/// All accesses, as they are read. Which object memory of another process is, and with it, whether
/// that is chosen, is known when all files have been read.
pub struct Cells<'a> {
    grid: Grid,
    choice: &'a Choice,
    /// Device and line.
    instructions: Vec<(String, String)>,
    numbers: HashMap<(String, String), u32>,
    objects: Vec<(Raw, Object)>,
    object_numbers: HashMap<Raw, usize>,
    /// Device and object of memory, as its owner recorded them.
    exports: Owners<(String, String)>,
}

/// The objects that were chosen.
pub struct Named {
    pub objects: BTreeMap<ObjectKey, Object>,
    /// Device and line.
    pub instructions: Vec<(String, String)>,
    /// Reasons why objects are not described by their calls.
    pub problems: BTreeSet<String>,
}

/// The descriptions in the records of one rank.
#[derive(Default)]
pub struct OfRank {
    rank: u32,
    sampled: u64,
    /// Device, kernel, source, and the line that launched the kernel.
    instructions: HashMap<u32, [String; 4]>,
    allocations: HashMap<u32, Allocation>,
    dropped: u64,
    /// True if an instruction's accesses to an allocation may be chosen, and where they go.
    chosen: HashMap<(u32, u32), Option<Target>>,
}

impl OfRank {
    pub fn new(rank: u32) -> Self {
        OfRank { rank, sampled: 1, ..OfRank::default() }
    }

    /// Accesses that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl<'a> Cells<'a> {
    /// None yet.
    pub fn new(grid: Grid, choice: &'a Choice) -> Self {
        Cells {
            grid,
            choice,
            instructions: Vec::new(),
            numbers: HashMap::new(),
            objects: Vec::new(),
            object_numbers: HashMap::new(),
            exports: Owners::default(),
        }
    }

    /// Takes what is next in the file of a rank.
    pub fn take(&mut self, of_rank: &mut OfRank, item: Item) {
        match item {
            Item::Description(Description::Sampled(n)) => of_rank.sampled = u64::from(n.max(1)),
            Item::Description(Description::Instruction { id, device, kernel, source, launched }) => {
                of_rank.instructions.insert(id, [device, kernel, source, launched]);
            }
            Item::Description(Description::Allocation { id, begin, bytes, place, object, is_named }) => {
                let raw = Raw { object, place, bytes, is_named };
                of_rank.allocations.insert(id, Allocation { begin, raw });
                of_rank.chosen.retain(|(_, allocation), _| *allocation != id);
            }
            Item::Description(Description::Export { handle, device, object }) => {
                self.exports.insert(handle, (device, object));
            }
            Item::Description(Description::Dropped(accesses)) => of_rank.dropped = accesses,
            Item::Access(access) => {
                self.access(of_rank, &access);
            }
        }
    }

    fn access(&mut self, of_rank: &mut OfRank, access: &WarpAccess) -> Option<()> {
        let pair = (access.instruction, access.allocation);
        if !of_rank.chosen.contains_key(&pair) {
            let found = self.choose(of_rank, access);
            of_rank.chosen.insert(pair, found);
        }
        let (instruction, number) = (*of_rank.chosen.get(&pair)?)?;
        let begin = of_rank.allocations.get(&access.allocation)?.begin;
        let (_, object) = self.objects.get_mut(number)?;
        let kind = access.access;
        if access.width == 0 {
            // All copies are recorded, whatever part of the other accesses is.
            let &[address, bytes] = access.words.as_slice() else { return None };
            object.copy(instruction, kind, address.checked_sub(begin)?, bytes);
            return Some(());
        }
        let bytes = of_rank.sampled * u64::from(access.width);
        for &address in &access.words {
            object.add(instruction, kind, address.checked_sub(begin)?, of_rank.sampled, bytes);
        }
        Some(())
    }

    /// The numbers of the instruction and of what it accesses, if the instruction is chosen.
    fn choose(&mut self, of_rank: &OfRank, access: &WarpAccess) -> Option<Target> {
        let [device, kernel, source, launched] = of_rank.instructions.get(&access.instruction)?;
        let raw = &of_rank.allocations.get(&access.allocation)?.raw;
        if !self.choice.takes_line(of_rank.rank, device, kernel, [source, launched]) {
            return None;
        }
        let place = (device.clone(), source.clone());
        let next = self.instructions.len() as u32;
        let instruction = *self.numbers.entry(place.clone()).or_insert(next);
        if instruction == next {
            self.instructions.push(place);
        }
        let next = self.objects.len();
        let number = *self.object_numbers.entry(raw.clone()).or_insert(next);
        if number == next {
            self.objects.push((raw.clone(), Object::new(raw.bytes, self.grid)));
        }
        let (_, object) = self.objects.get_mut(number)?;
        object.allocations.insert((of_rank.rank, access.allocation));
        Some((instruction, number))
    }

    /// Device and object of what was accessed. Memory of another process is what this one calls it,
    /// or what its owner does, if that wrote records, too; else the call that mapped it. Of several
    /// allocations that may be meant what they have in common is known.
    fn owned(&self, raw: &Raw) -> (String, String) {
        let all = raw.place.handle().map(|handle| self.exports.find(&handle)).unwrap_or_default();
        if all.is_empty() {
            return (peer_device(&raw.place), raw.object.clone());
        }
        let device = common(&all, |it| it.0.clone()).unwrap_or_default();
        let object = if raw.is_named { Some(raw.object.clone()) } else { common(&all, |it| it.1.clone()) };
        (device, object.unwrap_or_default())
    }

    /// The objects, once all files have been read.
    pub fn named(mut self, mut symbols: Symbols) -> Named {
        let mut objects: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        let mut raw_objects = BTreeSet::new();
        for (raw, object) in std::mem::take(&mut self.objects) {
            let (device, name) = self.owned(&raw);
            let described = or_unknown(&symbols.stack(&name));
            if !self.choice.takes_peer_device(&device) || !self.choice.takes_object(&described) {
                continue;
            }
            raw_objects.insert(name);
            match objects.entry((described, raw.bytes)) {
                Entry::Vacant(place) => {
                    place.insert(object);
                }
                Entry::Occupied(mut place) => place.get_mut().join(object),
            }
        }
        let problems = symbols.problems(&raw_objects);
        Named { objects, instructions: self.instructions, problems }
    }
}

impl Object {
    fn new(bytes: u64, grid: Grid) -> Self {
        Object {
            bytes,
            division: Division::from_grid(grid, bytes),
            cells: BTreeMap::new(),
            all: Sum::default(),
            allocations: BTreeSet::new(),
            beyond: 0,
        }
    }

    /// How many allocations it is.
    pub fn count(&self) -> usize {
        self.allocations.len()
    }

    /// Adds another of as many bytes.
    fn join(&mut self, other: Object) {
        for (field, cell) in other.cells {
            let own = self.cells.entry(field).or_default();
            own.sum.join(&cell.sum);
            own.instructions.extend(cell.instructions);
        }
        self.all.join(&other.all);
        self.allocations.extend(other.allocations);
        self.beyond = self.beyond.saturating_add(other.beyond);
    }

    fn add(&mut self, instruction: u32, kind: Access, offset: u64, accesses: u64, bytes: u64) {
        let Some(field) = self.division.field(offset) else {
            self.beyond = self.beyond.saturating_add(accesses);
            return;
        };
        let cell = self.cells.entry(field).or_default();
        cell.instructions.insert(instruction);
        for sum in [&mut cell.sum, &mut self.all] {
            sum.accesses = sum.accesses.saturating_add(accesses);
            let kind = kind as usize;
            sum.bytes[kind] = sum.bytes[kind].saturating_add(bytes);
            sum.counts[kind] = sum.counts[kind].saturating_add(accesses);
        }
    }

    /// A copy is one access where it begins; its bytes are where they are.
    fn copy(&mut self, instruction: u32, kind: Access, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.bytes);
        let (mut at, mut accesses) = (offset, 1);
        while at < end {
            let next = (at / self.division.element_bytes + 1).saturating_mul(self.division.element_bytes);
            self.add(instruction, kind, at, accesses, next.min(end) - at);
            (at, accesses) = (next, 0);
        }
    }
}

fn peer_device(place: &RemoteMemory) -> String {
    match place {
        RemoteMemory::Device(device) | RemoteMemory::Imported { device, .. } => device.clone(),
        RemoteMemory::Ipc(_) => String::new(),
        RemoteMemory::Pinned | RemoteMemory::Registered => "host".to_owned(),
        RemoteMemory::Managed => "managed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(text: &str) -> Result<Fold, String> {
        text.parse()
    }

    #[test]
    fn dimensions_are_read() {
        assert_eq!(fold("3x4"), Ok(Fold { rows: 3, columns: 4, element_bytes: None }));
        assert_eq!(fold("3x4x8"), Ok(Fold { rows: 3, columns: 4, element_bytes: Some(8) }));
        for wrong in ["", "3", "0x4", "3x", "3x4x8x1", "-1x4", "99999999x2"] {
            assert!(fold(wrong).unwrap_err().contains("512x512"), "{wrong}");
        }
    }

    #[test]
    fn an_object_is_divided_into_ranges_or_rows_and_columns() {
        let flat = Division::from_grid(Grid { fold: None, most: (64, 32) }, 10_000);
        // 157 bytes would be enough; 160 are even.
        assert_eq!((flat.rows, flat.columns, flat.element_bytes), (1, 63, 160));
        assert_eq!(
            (flat.field(0), flat.field(159), flat.field(9_999)),
            (Some((0, 0)), Some((0, 0)), Some((0, 62)))
        );
        assert_eq!(flat.offsets((0, 62)), (9920, 10_080));

        let grid = |text: &str, most| Grid { fold: Some(fold(text).unwrap()), most };
        let square = Division::from_grid(grid("4x8", (64, 64)), 256);
        assert_eq!(
            (square.element_bytes, square.field(8 * 8), square.field(255)),
            (8, Some((1, 0)), Some((3, 7)))
        );
        let fewer = Division::from_grid(grid("4x8", (4, 2)), 256);
        assert_eq!((fewer.rows, fewer.columns), (2, 4));
        assert_eq!(
            (fewer.field(8 * 8), fewer.field(255), fewer.offsets((0, 1))),
            (Some((0, 0)), Some((1, 3)), (16, 32))
        );
        let short = Division::from_grid(grid("2x8x8", (64, 64)), 256);
        assert_eq!((short.field(127), short.field(128)), (Some((1, 7)), None));
    }
}
