//! Rows of communicators: one each, until there are too many.
//!
//! Counters cannot be moved when a communicator is freed: each thread has slots of its own, and readers look at any
//! time. So the row is chosen when a communicator begins, by what all its members know alike; see the comment on
//! [`super`].

use super::creation_kind::TopologyFrom;
use super::elided::Elided;
use super::membership::Members;
use super::{CreationKind, Number};
use crate::abi::Comm;
use crate::communicator::UNLOGGED;
use crate::counters::{Counters, add, update};
use crate::process::Process;
use crate::segment::Segment;
use crate::topology::Kind;
use mpisee_profile::RankSet;
use mpisee_profile::segment::key::{FIRST_PASSING, MOST_COMMUNICATORS, Meaning};
use mpisee_profile::segment::layout::folded;
use mpisee_profile::segment::log::{Created, NONE, OUTSIDE, Record};
use mpisee_profile::segment::{CallKey, Key, PeerKey, tables};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kinds of communicators with rows of their own below one parent, for each communicator that `MPISEE_ALIKE` allows of a
/// kind; beyond it new kinds share a row. In a tree of communicators the product over its levels counts.
const KINDS_PER_ALIKE: u64 = 8;
/// The most rows of communicators named by their members on one process, for each communicator that `MPISEE_ALIKE` allows of a
/// kind. Members of a new group have no ordinal in common, so that each process bounds its memory by itself, some 500 bytes
/// a row.
const NAMED_BY_MEMBERS_PER_ALIKE: u32 = 64;
/// The most rows of one process, likewise.
const ROWS_PER_ALIKE: u32 = 256;
/// Generations below `W` that have rows of their own. A name has all of its ancestors.
const MOST_GENERATIONS: u32 = 32;
/// Freed communicators of changing members that are remembered, since requests on them may still be open.
const MOST_FREED: usize = 1024;
/// Labels of one row that are kept; a loop may set another each time.
const MOST_LABELS: u8 = 16;

/// The row in which each communicator is counted.
pub struct RowSharing {
    state: Mutex<State>,
}

struct State {
    /// Those in the log, by number.
    rows: Vec<Row>,
    /// Creating calls by parent row and letter.
    calls: HashMap<(u32, u8), u32>,
    families: HashMap<FamilyKey, Family>,
    /// Rows of single communicators that are named by their members.
    named_by_members: u32,
    /// The rows for communicators of changing members, by parent row and letter.
    changing: HashMap<(u32, u8), u32>,
    /// Communicators of changing members, by their passing number.
    passing: HashMap<u32, Passing>,
    next_passing: u32,
    /// Those that were freed, in that order.
    freed: VecDeque<u32>,
    labels: HashMap<u32, Label>,
    /// Degrees of distributed graphs as far as they are known, by row.
    degrees: HashMap<u32, String>,
    /// Those whose members are not listed here.
    elided: Elided,
    names: HashMap<u32, String>,
    counters: Counters,
}

struct Row {
    generation: u32,
    sharing: Sharing,
    /// Ordinals of the creating calls by letter, multiplied over the generations: a measure, alike on all members, of how many
    /// rows there may be beside this one.
    weight: u64,
    /// Creating calls on the communicator.
    creations: u32,
    members: Arc<Members>,
}

/// Communicators in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// One.
    Single,
    /// Several with the same members.
    Alike,
    /// Several with different members.
    Changing,
}

/// Properties of communicators that are alike. Every member of one was part of all the others.
#[derive(PartialEq, Eq, Hash)]
struct FamilyKey {
    /// The row of the parent; [`NONE`] where there is none.
    parent: u32,
    operation: u32,
    r: u32,
    reorder: u32,
    /// Of topologies that are the same for all members.
    topology: Option<String>,
    /// As [`Members::hash`]; two that are the same by chance are not to be expected.
    members: u64,
    /// As [`Created::code`].
    code: u64,
}

#[derive(Default)]
struct Family {
    /// Communicators so far.
    created: u32,
    /// Those with rows of their own.
    single: u32,
    /// The row of all others.
    row: Option<u32>,
}

struct Passing {
    row: u32,
    members: Arc<Members>,
}

struct Label {
    hash: u64,
    changes: u8,
}

/// A communicator about to be entered.
pub struct NewCommunicator<'n> {
    /// Its handle; while the choice comes before it, as with `MPI_Comm_idup`, that of the parent.
    pub comm: Comm,
    pub kind: CreationKind,
    pub number: Number,
    pub created: Created,
    pub members: Arc<Members>,
    pub topology: Option<&'n str>,
}

/// First message from a peer of a freed communicator.
pub struct Unknown;

/// The row of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChoice {
    /// One of its own, with the ordinal that its name has.
    Single { n: u32 },
    /// That of communicators like it.
    Alike { row: u32 },
    /// That of communicators of changing members.
    Changing { row: u32 },
    /// None: the segment has no room for it.
    Unseen,
}

impl RowSharing {
    pub fn new() -> Self {
        RowSharing {
            state: Mutex::new(State {
                rows: Vec::new(),
                calls: HashMap::new(),
                families: HashMap::new(),
                named_by_members: 0,
                changing: HashMap::new(),
                passing: HashMap::new(),
                next_passing: FIRST_PASSING,
                freed: VecDeque::new(),
                labels: HashMap::new(),
                degrees: HashMap::new(),
                elided: Elided::default(),
                names: HashMap::new(),
                counters: Counters::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a creating call on a communicator, before it is made.
    pub fn number(&self, parent: u32, letter: u8) -> Number {
        let mut state = self.state();
        let row = state.row_of(parent).filter(|&row| state.rows[row as usize].sharing == Sharing::Single);
        let Some(row) = row else { return Number::default() };
        let of_letter = state.calls.entry((row, letter)).or_default();
        *of_letter += 1;
        let of_letter = *of_letter;
        let creations = &mut state.rows[row as usize].creations;
        *creations += 1;
        Number { n: *creations, of_letter }
    }

    /// Chooses the row of a new communicator, by what all its members know alike.
    pub fn choose(&self, process: &Process, new: &NewCommunicator) -> RowChoice {
        let segment = &process.segment;
        let mut state = self.state();
        let parent = new.created.parent;
        let (generation, weight, sharing) = match state.rows.get(parent as usize) {
            Some(row) => (
                row.generation + 1,
                row.weight.saturating_mul(u64::from(new.number.of_letter.max(1))),
                row.sharing,
            ),
            None => (1, 1, Sharing::Single),
        };
        match sharing {
            Sharing::Single => {}
            // Communicators of one row may be used by threads in any order, so that ordinals below it tell nothing.
            Sharing::Alike => return state.changing(segment, generation, new),
            Sharing::Changing => return RowChoice::Changing { row: parent },
        }
        let alike = process.options.alike;
        let is_over = weight > KINDS_PER_ALIKE * u64::from(alike)
            || generation > MOST_GENERATIONS
            || state.rows.len() >= alike.saturating_mul(ROWS_PER_ALIKE) as usize
            || new.created.code != 0
                && state.named_by_members >= alike.saturating_mul(NAMED_BY_MEMBERS_PER_ALIKE);
        let key = FamilyKey::of(new);
        if is_over && !state.families.contains_key(&key) {
            return state.changing(segment, generation, new);
        }
        let family = state.families.entry(key).or_default();
        family.created += 1;
        let n = if new.created.code == 0 { new.number.n } else { family.created };
        if let Some(row) = family.row {
            return RowChoice::Alike { row };
        }
        if family.single < alike && !is_over {
            family.single += 1;
            state.named_by_members += u32::from(new.created.code != 0);
            return RowChoice::Single { n };
        }
        // An elided list does not tell whether the order of the members is the same.
        if !new.members.is_exact {
            return state.changing(segment, generation, new);
        }
        let created = Created { n, ..new.created.clone() };
        let Some(row) = state.log_created(segment, generation, weight, Sharing::Alike, new, created) else {
            return RowChoice::Unseen;
        };
        segment.log(&Record::Folded { id: row, changing: false });
        state.families.entry(FamilyKey::of(new)).or_default().row = Some(row);
        RowChoice::Alike { row }
    }

    /// Enters a new communicator into the row that was chosen; returns its number.
    pub fn enter(&self, process: &Process, choice: RowChoice, new: &NewCommunicator) -> u32 {
        let segment = &process.segment;
        let mut state = self.state();
        let id = match choice {
            RowChoice::Single { n } => {
                let (generation, weight) = match state.rows.get(new.created.parent as usize) {
                    Some(row) => (
                        row.generation + 1,
                        row.weight.saturating_mul(u64::from(new.number.of_letter.max(1))),
                    ),
                    None => (1, 1),
                };
                let created = Created { n, ..new.created.clone() };
                let id = state.log_created(segment, generation, weight, Sharing::Single, new, created);
                id.unwrap_or(UNLOGGED)
            }
            RowChoice::Alike { row } => {
                state.count_created(segment, row, &new.created);
                state.widen_degrees(segment, row, new.topology);
                row
            }
            RowChoice::Changing { row } => state.pass(segment, row, new),
            RowChoice::Unseen => UNLOGGED,
        };
        if new.members.is_elided() && id != UNLOGGED {
            state.elided.enter(id, new.comm);
        }
        id
    }

    /// Enters a communicator that comes with the world.
    pub fn enter_predefined(&self, process: &Process, created: Created, members: Members) {
        let new = NewCommunicator {
            comm: process.predefined.world,
            kind: CreationKind::WITH_WORLD,
            number: Number::default(),
            created: created.clone(),
            members: Arc::new(members),
            topology: None,
        };
        self.state().log_created(&process.segment, 0, 1, Sharing::Single, &new, created);
    }

    /// The members of a communicator that is in the log.
    pub fn members(&self, id: u32) -> Option<Arc<Members>> {
        let state = self.state();
        match state.passing.get(&id) {
            Some(passing) => Some(passing.members.clone()),
            None => state.rows.get(id as usize).map(|row| row.members.clone()),
        }
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
                let members = &passing.members;
                let world_rank = match members.is_elided() {
                    false => members.remote.as_ref().unwrap_or(&members.own).get(peer.peer),
                    true => state.elided.world_rank(process, peer.communicator, peer.peer),
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
            Some(row) if row.members.is_elided() => {
                state.elided.world_rank(process, communicator, peer).map(Some).ok_or(Unknown)
            }
            _ => Ok(None),
        }
    }

    /// The program freed a communicator.
    pub fn free(&self, segment: &Segment, id: u32) {
        let mut state = self.state();
        let Some(row) = state.row_of(id) else { return };
        state.elided.free(id);
        if state.rows[row as usize].sharing == Sharing::Single {
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

    /// The program named a communicator. The label of a row that stands for several is the name that all of them have.
    pub fn label(&self, segment: &Segment, id: u32, text: String) {
        let Some(row) = self.row_of(id) else { return };
        let mut state = self.state();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        let is_shared = state.rows[row as usize].sharing != Sharing::Single;
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
        self.state().names.insert(row, name.clone());
        name
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

    /// The row for communicators of changing members below a parent.
    fn changing(&mut self, segment: &Segment, generation: u32, new: &NewCommunicator) -> RowChoice {
        let key = (new.created.parent, new.kind.letter);
        if let Some(&row) = self.changing.get(&key) {
            return RowChoice::Changing { row };
        }
        let created = &new.created;
        let itself = created.group.get(created.rank).unwrap_or(OUTSIDE);
        let created = Created {
            n: NONE,
            r: NONE,
            code: 0,
            local: NONE,
            rank: 0,
            reorder: NONE,
            group: [itself].into_iter().collect(),
            remote: None,
            ..created.clone()
        };
        let first = NewCommunicator {
            topology: None,
            members: new.members.clone(),
            created: created.clone(),
            ..*new
        };
        let Some(row) = self.log_created(segment, generation, 1, Sharing::Changing, &first, created) else {
            return RowChoice::Unseen;
        };
        segment.log(&Record::Folded { id: row, changing: true });
        self.changing.insert(key, row);
        RowChoice::Changing { row }
    }

    /// Gives a communicator of the row `row` a passing number.
    fn pass(&mut self, segment: &Segment, row: u32, new: &NewCommunicator) -> u32 {
        self.count_created(segment, row, &new.created);
        let mut id = self.next_passing;
        while self.passing.contains_key(&id) {
            id = following(id);
        }
        self.next_passing = following(id);
        self.passing.insert(id, Passing { row, members: new.members.clone() });
        id
    }

    /// Gives a row the next number and writes it to the log, in the order of the numbers. `None` if there is no room.
    fn log_created(
        &mut self,
        segment: &Segment,
        generation: u32,
        weight: u64,
        sharing: Sharing,
        new: &NewCommunicator,
        created: Created,
    ) -> Option<u32> {
        let id = self.rows.len() as u32;
        let created = Created { id, ..created };
        if id >= FIRST_PASSING || !segment.log(&Record::Created(created)) {
            return None;
        }
        if let Some(topology) = new.topology {
            segment.log(&Record::Topology { id, text: topology.to_owned() });
        }
        let members = new.members.clone();
        self.rows.push(Row { generation, sharing, weight, creations: 0, members });
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
    fn of(new: &NewCommunicator<'_>) -> FamilyKey {
        let Created { parent, operation, r, reorder, code, .. } = new.created;
        // Of a distributed graph each process knows its own degrees.
        let is_known_to_all = matches!(new.kind.topology, TopologyFrom::Call(Kind::Cart | Kind::Graph));
        FamilyKey {
            parent,
            operation,
            r,
            reorder,
            topology: new.topology.filter(|_| is_known_to_all).map(str::to_owned),
            members: new.members.hash,
            code,
        }
    }
}

/// The passing number after `id`.
fn following(id: u32) -> u32 {
    if id + 1 == MOST_COMMUNICATORS { FIRST_PASSING } else { id + 1 }
}
