//! Rows of communicators: one each, until there are too many.
//!
//! Counters cannot be moved when a communicator is freed: each thread has slots of its own, and readers look at any
//! time. So it is decided when a communicator begins where it is counted, by what all its members know alike; see the
//! comment on [`super`].

use super::birth::TopologyFrom;
use super::unlisted::Unlisted;
use super::{Birth, Parent};
use crate::abi::Comm;
use crate::communicator::UNLOGGED;
use crate::counters::{Counters, add, update};
use crate::process::Process;
use crate::segment::Segment;
use crate::topology::Kind;
use mpisee_profile::RankSet;
use mpisee_profile::options::Options;
use mpisee_profile::rows::is_of_changing_members;
use mpisee_profile::segment::key::{FIRST_PASSING, MOST_COMMUNICATORS, Meaning};
use mpisee_profile::segment::layout::folded;
use mpisee_profile::segment::log::{Created, NONE, OUTSIDE, Record, Runs};
use mpisee_profile::segment::{CallKey, Key, PeerKey, tables};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Communicators with a row of their own, for each that `MPISEE_ALIKE` allows of a kind: beyond it all further kinds
/// share rows, whoever is in them. By default these are 64,000, of some 400 bytes each.
const ROWS_PER_ALIKE: u32 = 64;
/// Generations below `W` that have rows of their own. A name has all of its ancestors.
const MOST_GENERATIONS: u32 = 32;
/// Freed communicators of changing members that are remembered, since requests on them may still be open.
const MOST_FREED: usize = 1024;
/// Labels of one row that are kept; a loop may set another each time.
const MOST_LABELS: u8 = 16;

/// Which communicator is counted where.
pub struct Folding {
    state: Mutex<State>,
}

struct State {
    /// Those in the log, by number.
    rows: Vec<Row>,
    families: HashMap<FamilyKey, Family>,
    /// The rows for communicators of changing members.
    changing: HashMap<(ParentKey, u8), u32>,
    /// Communicators of changing members, by their passing number.
    passing: HashMap<u32, Passing>,
    next_passing: u32,
    /// Those that were freed, in that order.
    freed: VecDeque<u32>,
    /// Of rows that stand for several communicators.
    shared: HashMap<u32, Shared>,
    labels: HashMap<u32, Label>,
    /// What is known of the degrees of distributed graphs, by row.
    degrees: HashMap<u32, String>,
    /// Those whose members are not listed here.
    unlisted: Unlisted,
    /// Up to so many runs a list of members is kept.
    most_runs: usize,
    names: HashMap<u32, String>,
    counters: Counters,
}

#[derive(Clone, Copy)]
struct Row {
    generation: u32,
    is_changing: bool,
    /// Whether this process keeps no list of its members.
    is_unlisted: bool,
}

/// What like communicators have in common. Every member of one was part of all the others.
#[derive(PartialEq, Eq, Hash)]
struct FamilyKey {
    parent: ParentKey,
    operation: u32,
    r: u32,
    reorder: u32,
    /// Of topologies that are the same for all members.
    topology: Option<String>,
    /// A hash of the members in their order; two that are the same by chance are not to be expected.
    members: u128,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum ParentKey {
    Row(u32),
    Name(String),
    None,
}

#[derive(Default)]
struct Family {
    /// Those with rows of their own.
    single: u32,
    /// The row of all others.
    row: Option<u32>,
}

struct Passing {
    row: u32,
    /// World ranks of the group with which its processes communicate; `None` where they are not listed.
    peers: Option<Runs>,
}

/// What communicators of one row count together, since the names below all of them must differ.
#[derive(Default)]
struct Shared {
    next_number: u32,
    shrinks: u32,
}

struct Label {
    hash: u64,
    changes: u8,
}

/// A communicator about to be entered.
pub struct Newborn<'n> {
    /// Its handle; while the decision comes before it, as with `MPI_Comm_idup`, that of the parent.
    pub comm: Comm,
    pub parent: &'n Parent<'n>,
    pub birth: Birth,
    /// The number that it gets if it has a row of its own, as was agreed; [`NONE`] while that goes on.
    pub created: Created,
    pub topology: Option<&'n str>,
}

/// A peer is of a communicator that is gone, and was not met before.
pub struct Unknown;

/// Where a communicator is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// In a row of its own.
    Single,
    /// In that of communicators like it, which may have been made for it.
    Row { row: u32, is_first: bool },
    /// In a row for communicators of changing members.
    Changing { row: u32 },
    /// Nowhere: the segment does not tell of it.
    Unseen,
}

impl Kin {
    /// Whether the number that was agreed on is in a name.
    pub fn needs_number(self) -> bool {
        matches!(self, Kin::Single | Kin::Row { is_first: true, .. })
    }
}

impl Folding {
    pub fn new(options: &Options) -> Self {
        Folding {
            state: Mutex::new(State {
                rows: Vec::new(),
                families: HashMap::new(),
                changing: HashMap::new(),
                passing: HashMap::new(),
                next_passing: FIRST_PASSING,
                freed: VecDeque::new(),
                shared: HashMap::new(),
                labels: HashMap::new(),
                degrees: HashMap::new(),
                unlisted: Unlisted::default(),
                most_runs: options.listed as usize,
                names: HashMap::new(),
                counters: Counters::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides in which row a new communicator is counted, by what all its members know alike.
    pub fn decide(&self, process: &Process, newborn: &Newborn) -> Kin {
        if matches!(newborn.parent, Parent::Known(parent) if !parent.is_logged()) {
            return Kin::Unseen;
        }
        let segment = &process.segment;
        let mut state = self.state();
        let (parent, generation, parent_changes) = state.parent(newborn.parent);
        if let (&ParentKey::Row(row), true) = (&parent, parent_changes) {
            return Kin::Changing { row };
        }
        let key = FamilyKey::of(parent.clone(), newborn);
        let family = state.families.get(&key);
        if let Some(row) = family.and_then(|family| family.row) {
            return Kin::Row { row, is_first: false };
        }
        let n = newborn.created.n;
        let most_rows = process.options.alike.saturating_mul(ROWS_PER_ALIKE);
        // An `MPI_Comm_idup` is entered before its number is agreed on.
        let no_rows_left = n != NONE && n >= most_rows;
        if parent_changes || generation > MOST_GENERATIONS || no_rows_left {
            return state.changing(segment, parent, generation, newborn);
        }
        if family.map_or(0, |family| family.single) < process.options.alike {
            state.families.entry(key).or_default().single += 1;
            return Kin::Single;
        }
        let Some(row) = state.log_created(segment, generation, false, newborn) else { return Kin::Unseen };
        segment.log(&Record::Folded { id: row, changing: false });
        state.shared.insert(row, Shared::default());
        state.families.entry(key).or_default().row = Some(row);
        Kin::Row { row, is_first: true }
    }

    /// Enters a new communicator where it was decided; returns its number.
    pub fn enter(&self, process: &Process, kin: Kin, newborn: Newborn) -> u32 {
        let segment = &process.segment;
        let mut state = self.state();
        let (comm, is_unlisted) = (newborn.comm, state.condensed(&newborn.created).is_some());
        let id = match kin {
            Kin::Single => {
                let (_, generation, _) = state.parent(newborn.parent);
                state.log_created(segment, generation, false, &newborn).unwrap_or(UNLOGGED)
            }
            Kin::Row { row, .. } => {
                state.count_created(segment, row, &newborn.created);
                state.widen_degrees(segment, row, newborn.topology);
                row
            }
            Kin::Changing { row } => state.pass(segment, row, newborn.created),
            Kin::Unseen => UNLOGGED,
        };
        if is_unlisted && id != UNLOGGED {
            state.unlisted.enter(id, comm);
        }
        id
    }

    /// Gives a communicator that comes with the world its number.
    pub fn enter_predefined(&self, process: &Process, birth: Birth, created: Created) {
        let comm = process.predefined.world;
        let newborn = Newborn { comm, parent: &Parent::None, birth, created, topology: None };
        self.state().log_created(&process.segment, 0, false, &newborn);
    }

    /// The row of a communicator, which is in the log.
    pub fn row_of(&self, id: u32) -> Option<u32> {
        self.state().row_of(id)
    }

    /// What is counted under `key` in the log's numbers, if the communicator is known.
    pub fn lasting(&self, process: &Process, key: Key) -> Option<Key> {
        let state = self.state();
        match key.meaning()? {
            Meaning::Call(call) => {
                let communicator = state.passing.get(&call.communicator)?.row;
                Some(CallKey { communicator, ..call }.pack())
            }
            Meaning::Peer(peer) => {
                let passing = state.passing.get(&peer.communicator)?;
                let world_rank = match &passing.peers {
                    Some(peers) => peers.get(peer.peer),
                    None => state.unlisted.world_rank(process, peer.communicator, peer.peer),
                };
                let world_rank = world_rank.filter(|&rank| rank != OUTSIDE)?;
                Some(PeerKey { communicator: passing.row, peer: world_rank }.pack())
            }
            Meaning::Region(_) | Meaning::Folded(_) => Some(key),
        }
    }

    /// The rank in the world of a peer, for readers of its slot: `Ok(None)` where they know that from the list of members,
    /// an error where nobody can tell any more.
    pub fn world_rank(&self, process: &Process, key: Key) -> Result<Option<u32>, Unknown> {
        let Some(Meaning::Peer(PeerKey { communicator, peer })) = key.meaning() else { return Ok(None) };
        let state = self.state();
        match state.rows.get(communicator as usize) {
            Some(row) if row.is_unlisted => {
                state.unlisted.world_rank(process, communicator, peer).map(Some).ok_or(Unknown)
            }
            _ => Ok(None),
        }
    }

    /// Takes note that the program freed a communicator.
    pub fn free(&self, segment: &Segment, id: u32) {
        let mut state = self.state();
        let Some(row) = state.row_of(id) else { return };
        state.unlisted.free(id);
        if !state.shared.contains_key(&row) {
            segment.log(&Record::Freed { id });
            return;
        }
        if id >= FIRST_PASSING {
            state.freed.push_back(id);
            if state.freed.len() > MOST_FREED
                && let Some(oldest) = state.freed.pop_front()
            {
                state.passing.remove(&oldest);
            }
        }
        state.count(segment, row, &[(folded::FREED, 1)]);
    }

    /// The program named a communicator. Of a row that stands for several the label is what all are called.
    pub fn label(&self, segment: &Segment, id: u32, text: String) {
        let Some(row) = self.row_of(id) else { return };
        let mut state = self.state();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        let is_shared = state.shared.contains_key(&row);
        let label = state.labels.entry(row).or_insert(Label { hash: !hash, changes: 0 });
        let most = if is_shared { 1 } else { MOST_LABELS };
        if label.hash == hash || label.changes > most {
            return;
        }
        *label = Label { hash, changes: label.changes + 1 };
        let text = if label.changes > most { String::new() } else { text };
        segment.log(&Record::Label { id: row, text });
    }

    /// The name of a communicator; empty if it is not in the log.
    pub fn name(&self, segment: &Segment, id: u32) -> String {
        let Some(row) = self.row_of(id) else { return String::new() };
        if let Some(name) = self.state().names.get(&row) {
            return name.clone();
        }
        let name = tables::name_of(segment, row).unwrap_or_default();
        if !name.contains('?') {
            self.state().names.insert(row, name.clone());
        }
        name
    }

    /// The next number below a communicator that keeps it, which is `own` if its row is its own.
    pub fn next_number(&self, id: u32, own: u32) -> u32 {
        let state = self.state();
        state.shared.get(&id).map_or(own, |shared| shared.next_number.max(own))
    }

    /// Takes note of the next number below a communicator.
    pub fn note_next_number(&self, id: u32, next: u32) {
        if let Some(shared) = self.state().shared.get_mut(&id) {
            shared.next_number = shared.next_number.max(next);
        }
    }

    /// How often a communicator was shrunk, this time included: `own`, if its row is its own.
    pub fn count_shrink(&self, id: u32, own: u32) -> u32 {
        self.state().shared.get_mut(&id).map_or(own, |shared| {
            shared.shrinks += 1;
            shared.shrinks
        })
    }
}

impl State {
    /// The row of a communicator.
    fn row_of(&self, id: u32) -> Option<u32> {
        match id {
            UNLOGGED => None,
            ..FIRST_PASSING => Some(id),
            _ => self.passing.get(&id).map(|passing| passing.row),
        }
    }

    /// What is known of the parent: how it is told from others, the generation below it, and whether its members change.
    fn parent(&self, parent: &Parent<'_>) -> (ParentKey, u32, bool) {
        match parent {
            Parent::Known(parent) => {
                let row = self.row_of(parent.id).unwrap_or(0);
                let known = self.rows.get(row as usize).copied();
                let known = known.unwrap_or(Row { generation: 0, is_changing: false, is_unlisted: false });
                (ParentKey::Row(row), known.generation + 1, known.is_changing)
            }
            Parent::Named(name, _) => {
                let generation = name.matches('_').count() as u32 + 1;
                (ParentKey::Name((*name).to_owned()), generation, is_of_changing_members(name))
            }
            Parent::None => (ParentKey::None, 1, false),
        }
    }

    /// The row for communicators of changing members below a parent.
    fn changing(&mut self, segment: &Segment, parent: ParentKey, generation: u32, newborn: &Newborn) -> Kin {
        let key = (parent, newborn.birth.letter);
        if let Some(&row) = self.changing.get(&key) {
            return Kin::Changing { row };
        }
        // A name below the name of such a row may be longer each time.
        if generation > 2 * MOST_GENERATIONS {
            return Kin::Unseen;
        }
        let created = &newborn.created;
        let itself = created.group.get(created.rank).unwrap_or(OUTSIDE);
        let created = Created {
            n: NONE,
            r: NONE,
            rank: 0,
            reorder: NONE,
            group: [itself].into_iter().collect(),
            remote: None,
            ..created.clone()
        };
        let first = Newborn { created, topology: None, ..*newborn };
        let Some(row) = self.log_created(segment, generation, true, &first) else { return Kin::Unseen };
        segment.log(&Record::Folded { id: row, changing: true });
        self.shared.insert(row, Shared::default());
        self.changing.insert(key, row);
        Kin::Changing { row }
    }

    /// Gives a communicator of the row `row` a passing number.
    fn pass(&mut self, segment: &Segment, row: u32, created: Created) -> u32 {
        self.count_created(segment, row, &created);
        let mut id = self.next_passing;
        while self.passing.contains_key(&id) {
            id = following(id);
        }
        self.next_passing = following(id);
        let is_unlisted = self.condensed(&created).is_some();
        let peers = Some(created.remote.unwrap_or(created.group)).filter(|_| !is_unlisted);
        self.passing.insert(id, Passing { row, peers });
        id
    }

    /// What is logged of one whose members are not listed.
    fn condensed(&self, created: &Created) -> Option<Created> {
        created.condensed(self.most_runs)
    }

    /// Gives a row the next number and writes it to the log, in the order of the numbers. `None` if there is no room.
    fn log_created(
        &mut self,
        segment: &Segment,
        generation: u32,
        is_changing: bool,
        newborn: &Newborn,
    ) -> Option<u32> {
        let id = self.rows.len() as u32;
        let condensed = self.condensed(&newborn.created);
        let is_unlisted = condensed.is_some();
        let created = Created { id, ..condensed.unwrap_or_else(|| newborn.created.clone()) };
        if id >= FIRST_PASSING || !segment.log(&Record::Created(created)) {
            return None;
        }
        if let Parent::Named(name, _) = newborn.parent {
            segment.log(&Record::ParentName { id, name: (*name).to_owned() });
        }
        if let Some(topology) = newborn.topology {
            segment.log(&Record::Topology { id, text: topology.to_owned() });
        }
        self.rows.push(Row { generation, is_changing, is_unlisted });
        Some(id)
    }

    /// Of a distributed graph a process knows its own degrees, which may change. The row has the range.
    fn widen_degrees(&mut self, segment: &Segment, row: u32, topology: Option<&str>) {
        let Some(topology) = topology.filter(|topology| topology.starts_with("dist_graph")) else { return };
        let known = self.degrees.entry(row).or_insert_with(|| topology.to_owned());
        let widened = tables::merge_degrees(known, topology);
        if widened != *known {
            known.clone_from(&widened);
            segment.log(&Record::Topology { id: row, text: widened });
        }
    }

    fn count_created(&mut self, segment: &Segment, row: u32, created: &Created) {
        let reported = u64::from(tables::reports(created, &RankSet::default()));
        self.count(segment, row, &[(folded::CREATED, 1), (folded::REPORTED, reported)]);
    }

    fn count(&mut self, segment: &Segment, row: u32, counts: &[(usize, u64)]) {
        if let Some(slot) = self.counters.slot(segment, Key::folded(row)) {
            update(slot, |values| counts.iter().for_each(|&(place, more)| add(&values[place], more)));
        }
    }
}

impl FamilyKey {
    fn of(parent: ParentKey, newborn: &Newborn<'_>) -> FamilyKey {
        let Created { operation, r, reorder, group, remote, .. } = &newborn.created;
        // Of a distributed graph each process knows its own degrees.
        let is_known_to_all = matches!(newborn.birth.topology, TopologyFrom::Call(Kind::Cart | Kind::Graph));
        let half = |which: u8| {
            let mut hasher = DefaultHasher::new();
            (which, group, remote).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        FamilyKey {
            parent,
            operation: *operation,
            r: *r,
            reorder: *reorder,
            topology: newborn.topology.filter(|_| is_known_to_all).map(str::to_owned),
            members: half(0) << 64 | half(1),
        }
    }
}

/// The passing number after `id`.
fn following(id: u32) -> u32 {
    if id + 1 == MOST_COMMUNICATORS { FIRST_PASSING } else { id + 1 }
}
