use super::*;
use proptest::prelude::*;

const CELLS: u64 = 48;

#[derive(Clone, Debug)]
enum Step {
    Insert { begin: u64, bytes: u64, place: usize },
    Remove { base: u64 },
    RemoveRange { begin: u64, bytes: u64 },
    Name { begin: u64, bytes: u64 },
}

fn places() -> [Where; 4] {
    [Where::Device(0), Where::Device(1), Where::Pinned, Where::Managed]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (1..CELLS, 1..12u64);
    let step = prop_oneof![
        4 => (range(), 0..4usize).prop_map(|((begin, bytes), place)| Step::Insert { begin, bytes, place }),
        3 => (1..CELLS).prop_map(|base| Step::Remove { base }),
        1 => range().prop_map(|(begin, bytes)| Step::RemoveRange { begin, bytes }),
        1 => range().prop_map(|(begin, bytes)| Step::Name { begin, bytes }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Model of one address.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    /// The insertion to which it belongs.
    insertion: usize,
    base: u64,
    bytes: u64,
    place: Where,
    name: String,
    /// True if a part of the allocation was named.
    is_split: bool,
}

/// The plain reference: every address for itself.
#[derive(Default)]
struct Plain {
    cells: BTreeMap<u64, Cell>,
    insertions: usize,
}

impl Plain {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Insert { begin, bytes, place } => {
                let place = places()[place].clone();
                let range = begin..begin + bytes;
                let whole = |cell: &Cell| cell.base == begin && cell.bytes == bytes && !cell.is_split;
                let is_there = range.clone().all(|at| self.cells.get(&at).is_some_and(whole));
                let there = self.cells.get(&begin).map(|cell| cell.place.clone());
                match there.filter(|_| is_there) {
                    Some(there) if there == place => return,
                    // Managed memory replaces the location that the backend reports first.
                    Some(there) if there.detail() > place.detail() => return,
                    Some(there) if there.detail() < place.detail() => {
                        range.for_each(|at| self.cells.get_mut(&at).unwrap().place = place.clone());
                        return;
                    }
                    _ => {}
                }
                self.apply(&Step::Remove { base: begin });
                self.insertions += 1;
                let cell = Cell {
                    insertion: self.insertions,
                    base: begin,
                    bytes,
                    place,
                    name: String::new(),
                    is_split: false,
                };
                range.for_each(|at| drop(self.cells.insert(at, cell.clone())));
            }
            // Only the last that was allocated there.
            Step::Remove { base } => {
                let last =
                    self.cells.values().filter(|cell| cell.base == base).map(|cell| cell.insertion).max();
                self.cells.retain(|_, cell| cell.base != base || Some(cell.insertion) != last);
            }
            Step::RemoveRange { begin, bytes } => {
                self.cells.retain(|at, _| !(begin..begin + bytes).contains(at));
            }
            Step::Name { begin, bytes } => {
                let end = begin + bytes;
                for cell in (begin..end).filter_map(|at| self.cells.get(&at).cloned()).collect::<Vec<_>>() {
                    let is_split = begin > cell.base || end < cell.base + cell.bytes;
                    let same = self.cells.values_mut().filter(|it| it.insertion == cell.insertion);
                    same.for_each(|it| it.is_split |= is_split);
                }
                for at in begin..end {
                    if let Some(cell) = self.cells.get_mut(&at) {
                        cell.name = format!("{begin}+{bytes}");
                    }
                }
            }
        }
    }
}

fn apply(registry: &mut Registry, step: &Step) {
    match *step {
        Step::Insert { begin, bytes, place } => {
            assert!(registry.insert(begin, bytes, places()[place].clone(), 0).is_some());
        }
        Step::Remove { base } => registry.remove(base),
        Step::RemoveRange { begin, bytes } => registry.remove_range(begin, bytes),
        Step::Name { begin, bytes } => drop(registry.name(begin, bytes, &format!("{begin}+{bytes}"))),
    }
}

proptest! {
    #[test]
    fn every_address_is_in_the_allocation_that_it_should_be_in(steps in steps()) {
        let (mut registry, mut plain) = (Registry::default(), Plain::default());
        let mut table = registry.table(0);
        let mut version = registry.version(0);
        // Which insertion a number stands for: no number ever stands for two.
        let mut insertions: HashMap<u32, usize> = HashMap::new();
        for step in &steps {
            // A name on a part of an allocation parts it for good; the reference does not keep by
            // what.
            apply(&mut registry, step);
            plain.apply(step);
            for at in 0..CELLS + 12 {
                let (found, expected) = (registry.at(at), plain.cells.get(&at));
                prop_assert_eq!(found.is_some(), expected.is_some(), "{} after {:?}", at, step);
                if let (Some((id, allocation)), Some(cell)) = (found, expected) {
                    prop_assert_eq!(&allocation.place, &cell.place);
                    prop_assert_eq!(&allocation.name, &cell.name);
                    prop_assert!((allocation.begin..allocation.end).contains(&at));
                    let known = *insertions.entry(id).or_insert(cell.insertion);
                    prop_assert_eq!(known, cell.insertion, "number {} was used again", id);
                }
            }
            let new = registry.table(0);
            prop_assert!(new.windows(2).all(|pair| pair[0].end <= pair[1].begin));
            for at in 0..CELLS + 12 {
                let entry = new.iter().find(|entry| (entry.begin..entry.end).contains(&at));
                let expected = registry.at(at).filter(|(_, it)| it.place != Where::Device(0)).map(|(id, _)| id);
                prop_assert_eq!(entry.map(|entry| entry.id as u32), expected);
            }
            prop_assert_eq!(registry.has_remote(0), !new.is_empty());
            prop_assert!(new == table || registry.version(0) != version, "a change without a new version");
            (table, version) = (new, registry.version(0));
        }
    }
}

#[test]
fn own_memory_changes_nothing_for_its_device() {
    let mut registry = Registry::default();
    registry.insert(0x1000, 0x100, Where::Device(0), 0);
    let (own, other) = (registry.version(0), registry.version(1));
    registry.insert(0x2000, 0x100, Where::Device(0), 0);
    registry.remove(0x1000);
    assert_eq!(registry.version(0), own);
    assert_ne!(registry.version(1), other);
    assert!(!registry.has_remote(0) && registry.has_remote(1));
}

#[test]
fn allocation_better_known_later_keeps_its_number() {
    let mut registry = Registry::default();
    let first = registry.insert(0x1000, 0x100, Where::Device(0), 5);
    let again = registry.insert(0x1000, 0x100, Where::Ipc("ab".to_owned()), 6);
    assert_eq!(first, again);
    assert_eq!(registry.insert(0x1000, 0x100, Where::Device(0), 7), first);
    assert_eq!(registry.get(first.unwrap()).unwrap().object, 5);
    assert_eq!(registry.table(0).len(), 1);
}

#[test]
fn a_part_of_a_pes_memory_has_its_name_and_what_is_not_imported_has_none() {
    let mut registry = Registry::default();
    let known = Handle::Fabric("ab".to_owned());
    registry.insert(0x1000, 0x100, Where::Imported(None, None), 0);
    registry.insert(0x1100, 0x100, Where::Imported(None, Some(known.clone())), 0);
    registry.insert(0x1200, 0x100, Where::Device(1), 0);
    registry.name_of_pe(7, 0x1080, 0x100, "halo");
    let seen =
        |at: u64| registry.at(at).map(|(_, it)| (it.place.clone(), it.name.as_str(), it.root)).unwrap();
    assert_eq!(seen(0x1000), (Where::Imported(None, None), "", 1));
    assert_eq!(seen(0x1080), (Where::Imported(None, Some(Handle::Pe(7))), "halo", 1));
    assert_eq!(seen(0x1100), (Where::Imported(None, Some(known.clone())), "halo", 2));
    assert_eq!(seen(0x1180), (Where::Imported(None, Some(known)), "", 2));
    registry.name_of_pe(7, 0x1180, 0x100, "beyond");
    assert_eq!(registry.at(0x1180).unwrap().1.name, "");
    assert_eq!(registry.at(0x1200).unwrap().1.name, "");
}

#[test]
fn freed_ranges_keep_their_identity_until_nobody_needs_it() {
    let mut registry = Registry::default();
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        let id = registry.insert(0x1000, 0x100, Where::Pinned, 0).unwrap();
        assert!(seen.insert(id));
        registry.remove(0x1000);
        assert!(registry.get(id).is_some() && registry.at(0x1000).is_none());
    }
    registry.forget_freed(&HashSet::from([3]));
    assert_eq!(registry.len(), 1);
}

#[test]
fn nonsense_is_refused() {
    let mut registry = Registry::default();
    assert_eq!(registry.insert(0x1000, 0, Where::Pinned, 0), None);
    assert_eq!(registry.insert(u64::MAX, 2, Where::Pinned, 0), None);
    registry.remove(7);
    registry.remove_range(u64::MAX, u64::MAX);
    assert!(!registry.name(0, u64::MAX, "all"));
}
