//! Rows of communicators: one each, until there are too many.
//!
//! Counters cannot be moved when a communicator is freed: each thread has slots of its own, and
//! readers look at any time. So the row is chosen when a communicator begins, by what all its
//! members know alike; see the comment on [`super`].

mod family;

pub use family::NewCommunicator;

use super::elided::{Elided, Peers};
use super::membership::Groups;
use super::{NumberedCreation, Ordinals};
use crate::mpi::topology::Topology;
use crate::state::world::World;
use crate::storage::counters::{Counters, Lasting, add, update};
use crate::storage::segment::Segment;
use family::{Family, SiblingCount};
use mpisee_collect::rank_tables::merge_degrees;
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::shared_row;
use mpisee_profile::segment::log::{Created, NONE, Record};
use mpisee_profile::segment::membership::reports;
use mpisee_profile::segment::names::name_of;
use mpisee_profile::segment::{CallKey, GpuTimeKey, PathKey, PeerKey, SlotKey, TargetKey};
use mpisee_profile::{CommId, CommRank, RankSet, WorldRank};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Limit on kinds of communicators with rows of their own below one parent, as a multiple of
/// `MPISEE_ALIKE`; beyond it new kinds share a row. In a tree of communicators the product over its
/// levels counts.
const KINDS_PER_ALIKE: u64 = 8;
/// Limit on rows of communicators named by their members, per process, as a multiple of
/// `MPISEE_ALIKE`. Members of a new group have no ordinal in common, so each process bounds its own
/// memory, some 500 bytes a row.
const NAMED_BY_MEMBERS_PER_ALIKE: u32 = 64;
/// Limit on the rows of one process, as a multiple of `MPISEE_ALIKE`.
const ROWS_PER_ALIKE: u32 = 256;
/// Limit on generations below `W` with rows of their own; a name contains all ancestors.
const MOST_GENERATIONS: u32 = 32;
/// Limit on freed communicators of changing members that are kept, since requests on them may still
/// be open.
const MOST_FREED: usize = 1024;
/// Labels of one row that are kept; a loop may set another each time.
const MOST_LABELS: u8 = 16;

/// The rows of this process's communicators.
pub static ROWS: LazyLock<RowSharing> = LazyLock::new(RowSharing::new);

/// The row in which each communicator is counted.
pub struct RowSharing {
    state: Mutex<State>,
}

struct State {
    /// The communicators in the log, by number.
    rows: Vec<Row>,
    /// Creating calls by parent row and letter.
    calls: FxHashMap<(CommId, u8), u32>,
    families: FxHashMap<SiblingCount, Family>,
    /// Rows of single communicators that are named by their members.
    named_by_members: u32,
    /// The rows for communicators of changing members, by parent row and letter.
    changing: FxHashMap<(Option<CommId>, u8), CommId>,
    /// Communicators of changing members, by temporary number.
    temporary: FxHashMap<CommId, Temporary>,
    next_temporary: CommId,
    /// The communicators that were freed, in that order.
    freed: VecDeque<CommId>,
    labels: FxHashMap<CommId, Label>,
    /// Degrees of distributed graphs as far as they are known, by row.
    degrees: FxHashMap<CommId, String>,
    /// The communicators whose members are not listed here.
    elided: Elided,
    names: FxHashMap<CommId, String>,
    counters: Counters,
}

// SAFETY: the index and the slots of its counters live as long as the process, and who holds the
// lock uses them alone.
unsafe impl Send for State {}

struct Row {
    generation: u32,
    sharing: Sharing,
    /// Ordinals of the creating calls by letter, multiplied over the generations: a measure, alike
    /// on all members, of how many rows there may be beside this one.
    weight: u64,
    /// Creating calls on the communicator.
    creations: u32,
    members: Arc<Groups>,
}

impl Row {
    fn new(generation: u32, weight: u64, sharing: Sharing, members: Arc<Groups>) -> Row {
        Row { generation, sharing, weight, creations: 0, members }
    }
}

/// The position of a communicator in the tree.
struct Position {
    generation: u32,
    weight: u64,
    /// True if the parent's row stands for several.
    below: Sharing,
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

struct Temporary {
    row: CommId,
    members: Arc<Groups>,
    /// Open windows on it, whose targets are translated by its members.
    windows: u32,
}

struct Label {
    hash: u64,
    changes: u8,
}

/// The row of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChoice {
    /// One of its own, with the ordinal that its name has.
    Single { n: u32 },
    /// The row of communicators like it.
    Alike { row: CommId },
    /// The row of communicators of changing members.
    Changing { row: CommId },
    /// None: the segment has no room for it.
    Unseen,
}

impl RowSharing {
    pub fn new() -> Self {
        RowSharing {
            state: Mutex::new(State {
                rows: Vec::new(),
                calls: FxHashMap::default(),
                families: FxHashMap::default(),
                named_by_members: 0,
                changing: FxHashMap::default(),
                temporary: FxHashMap::default(),
                next_temporary: CommId::FIRST_TEMPORARY,
                freed: VecDeque::new(),
                labels: FxHashMap::default(),
                degrees: FxHashMap::default(),
                elided: Elided::default(),
                names: FxHashMap::default(),
                counters: Counters::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a creating call on a communicator, before it is made.
    pub fn number(&self, parent: CommId, letter: u8) -> NumberedCreation {
        let mut state = self.state();
        let Some((row, members)) = state.known(parent) else { return NumberedCreation::default() };
        NumberedCreation { number: state.number(row, letter), parent: Some((row, members)) }
    }

    /// Chooses the row of a new communicator, by what all its members know alike.
    pub fn choose(&self, world: &World, new: &NewCommunicator) -> RowChoice {
        let mut state = self.state();
        if state.has_room() { state.choose(world, new) } else { RowChoice::Unseen }
    }

    /// Enters a new communicator into its row, which may be chosen already; returns its number.
    pub fn enter(&self, world: &World, choice: Option<RowChoice>, new: NewCommunicator) -> CommId {
        let segment = &world.segment;
        // No call to MPI under the lock: a thread inside MPI may wait for the lock in a callback.
        let peers = new.members.is_elided().then(|| Peers::from_communicator(new.comm));
        let mut state = self.state();
        let choice = match choice {
            _ if !state.has_room() => RowChoice::Unseen,
            Some(choice) => choice,
            None => state.choose(world, &new),
        };
        let id = match choice {
            RowChoice::Single { n } => {
                let Position { generation, weight, .. } = state.position_of(&new);
                let created = Created { n, ..new.created };
                let row = Row::new(generation, weight, Sharing::Single, new.members);
                state.log_created(segment, row, new.topology.as_ref(), created).unwrap_or(CommId::NONE)
            }
            RowChoice::Alike { row } => {
                state.count_created(segment, row, &new.created);
                state.widen_degrees(segment, row, new.topology());
                row
            }
            RowChoice::Changing { row } => state.pass(segment, row, &new),
            RowChoice::Unseen => CommId::NONE,
        };
        let unneeded = match peers {
            Some(peers) if id != CommId::NONE => state.elided.enter(id, peers),
            peers => peers,
        };
        drop(state);
        drop(unneeded);
        id
    }

    /// Enters a communicator that MPI does not know, of which a process knows itself alone as a
    /// member, into a row of its own; returns its number.
    pub fn enter_foreign(&self, world: &World, created: Created) -> CommId {
        let mut state = self.state();
        let most = world.options.alike.saturating_mul(ROWS_PER_ALIKE) as usize;
        let parent = created.parent.and_then(|parent| state.rows.get(parent.index()));
        let generation = parent.map_or(1, |parent| parent.generation + 1);
        if !state.has_room() || state.rows.len() >= most || generation > MOST_GENERATIONS {
            return CommId::NONE;
        }
        let members = Groups::new(created.group.clone(), None);
        let row = Row::new(generation, 1, Sharing::Single, Arc::new(members));
        state.log_created(&world.segment, row, None, created).unwrap_or(CommId::NONE)
    }

    /// Enters a communicator that comes with the world.
    pub fn enter_predefined(&self, world: &World, created: Created, members: Groups) {
        let row = Row::new(0, 1, Sharing::Single, Arc::new(members));
        self.state().log_created(&world.segment, row, None, created);
    }

    /// The row of a communicator that is in the log, and its members.
    pub fn known(&self, id: CommId) -> Option<(CommId, Arc<Groups>)> {
        self.state().known(id)
    }

    /// Returns whether a communicator has a row of its own.
    pub fn has_own_row(&self, id: CommId) -> bool {
        !id.is_temporary()
            && self.state().rows.get(id.index()).is_some_and(|row| row.sharing == Sharing::Single)
    }

    /// The number that the next communicator in the log will have.
    pub fn next_id(&self) -> CommId {
        self.state().next_id()
    }

    /// The row of a communicator, which is in the log.
    pub fn row_of(&self, id: CommId) -> Option<CommId> {
        self.state().row_of(id)
    }

    /// The number of a communicator for the calls on a window that was made on it; valid until
    /// [`Self::close_window`].
    pub fn open_window(&self, id: CommId) -> Option<CommId> {
        let mut state = self.state();
        match state.temporary.get_mut(&id) {
            Some(temporary) => {
                temporary.windows += 1;
                Some(id)
            }
            None => state.row_of(id),
        }
    }

    /// A window was freed, for which [`Self::open_window`] has returned this number.
    pub fn close_window(&self, id: CommId) {
        if let Some(temporary) = self.state().temporary.get_mut(&id) {
            temporary.windows = temporary.windows.saturating_sub(1);
        }
    }

    /// The key under which readers find the counts of `key`, which a thread uses for the first
    /// time: with the row's number for a temporary one, and with the world rank of an elided peer.
    /// `None` if these can no longer be resolved.
    pub fn lasting(&self, world: &World, key: SlotKey) -> Option<Lasting> {
        // Keys that only calibrate stand for nothing.
        let Some(meaning) = key.meaning() else { return Some(Lasting::from_key(key)) };
        match meaning {
            Meaning::Call(call) if call.communicator.is_temporary() => {
                let communicator = self.state().temporary.get(&call.communicator)?.row;
                Some(Lasting::from_key(CallKey { communicator, ..call }.pack()))
            }
            Meaning::Path(path) if path.communicator.is_temporary() => {
                let communicator = self.state().temporary.get(&path.communicator)?.row;
                Some(Lasting::from_key(PathKey { communicator, ..path }.pack()))
            }
            Meaning::GpuTime(time) if time.communicator.is_temporary() => {
                let communicator = self.state().temporary.get(&time.communicator)?.row;
                Some(Lasting::from_key(GpuTimeKey { communicator, ..time }.pack()))
            }
            Meaning::Peer(peer) => self.lasting_peer(world, peer, PeerKey::pack),
            Meaning::Target(TargetKey { peer, kind }) => {
                self.lasting_peer(world, peer, |peer| TargetKey { peer, kind }.pack())
            }
            Meaning::Call(_)
            | Meaning::Region(_)
            | Meaning::SharedRow(_)
            | Meaning::Instances(_)
            | Meaning::Stream(_)
            | Meaning::Recorded(_)
            | Meaning::Path(_)
            | Meaning::GpuTime(_)
            // Its communicator has a row already.
            | Meaning::PollError(_)
            | Meaning::Variable(..) => Some(Lasting::from_key(key)),
        }
    }

    /// As [`Self::lasting`], for a key that `pack` makes of a peer.
    fn lasting_peer(
        &self,
        world: &World,
        peer: PeerKey,
        pack: impl Fn(PeerKey) -> SlotKey,
    ) -> Option<Lasting> {
        if peer.communicator.is_temporary() {
            let (communicator, members) = self.known(peer.communicator)?;
            let world_rank = match members.is_elided() {
                false => members.remote.as_ref().unwrap_or(&members.own).get(peer.peer),
                true => self.elided_rank(world, peer),
            };
            let world_rank = world_rank.filter(|&rank| rank != WorldRank::OUTSIDE)?;
            return Some(Lasting::from_key(pack(PeerKey { communicator, peer: world_rank.in_world() })));
        }
        let row_is_elided = |row: &Row| row.members.is_elided();
        if !self.state().rows.get(peer.communicator.index()).is_some_and(row_is_elided) {
            return Some(Lasting::from_key(pack(peer)));
        }
        Some(Lasting { key: pack(peer), world_rank: Some(self.elided_rank(world, peer)?) })
    }

    /// The rank in the world of a peer in a communicator whose members are not listed.
    fn elided_rank(&self, world: &World, peer: PeerKey) -> Option<WorldRank> {
        let peers = self.state().elided.peers(peer.communicator)?;
        Some(peers.world_rank(world, peer.peer))
    }

    /// The program freed a communicator.
    pub fn free(&self, segment: &Segment, id: CommId) {
        let mut state = self.state();
        let Some(row) = state.row_of(id) else { return };
        let unneeded = state.elided.free(id);
        state.note_freed(segment, row, id);
        drop(state);
        drop(unneeded);
    }

    /// The program named a communicator. The label of a row that stands for several is the name
    /// that all of them have.
    pub fn label(&self, segment: &Segment, id: CommId, text: String) {
        let Some(row) = self.row_of(id) else { return };
        let mut state = self.state();
        if !state.has_room() {
            return;
        }
        let mut hasher = FxHasher::default();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        let is_shared = state.rows[row.index()].sharing != Sharing::Single;
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
    pub fn name(&self, segment: &Segment, id: CommId) -> String {
        let Some(row) = self.row_of(id) else { return String::new() };
        if let Some(name) = self.state().names.get(&row) {
            return name.clone();
        }
        let name = name_of(segment, row).unwrap_or_default();
        self.state().names.insert(row, name.clone());
        name
    }
}

impl State {
    /// Returns whether there is memory for a further entry of each kind.
    fn has_room(&mut self) -> bool {
        self.rows.try_reserve(1).is_ok()
            && self.calls.try_reserve(1).is_ok()
            && self.families.try_reserve(1).is_ok()
            && self.changing.try_reserve(1).is_ok()
            && self.temporary.try_reserve(1).is_ok()
            && self.labels.try_reserve(1).is_ok()
            && self.degrees.try_reserve(1).is_ok()
            && self.names.try_reserve(1).is_ok()
            && self.elided.has_room()
    }

    /// As [`RowSharing::known`].
    fn known(&self, id: CommId) -> Option<(CommId, Arc<Groups>)> {
        if id.is_temporary() {
            return self.temporary.get(&id).map(|temporary| (temporary.row, temporary.members.clone()));
        }
        self.rows.get(id.index()).map(|row| (id, row.members.clone()))
    }

    /// The ordinals of a creating call on the communicator of a row; a row that stands for several
    /// has none.
    fn number(&mut self, row: CommId, letter: u8) -> Ordinals {
        let parent = &mut self.rows[row.index()];
        if parent.sharing != Sharing::Single {
            return Ordinals::default();
        }
        parent.creations += 1;
        if self.calls.try_reserve(1).is_err() {
            return Ordinals { n: parent.creations, of_letter: 0 };
        }
        let of_letter = self.calls.entry((row, letter)).or_default();
        *of_letter += 1;
        Ordinals { n: parent.creations, of_letter: *of_letter }
    }

    /// The row of a communicator.
    fn row_of(&self, id: CommId) -> Option<CommId> {
        match id {
            CommId::NONE => None,
            _ if id.is_temporary() => self.temporary.get(&id).map(|temporary| temporary.row),
            _ => Some(id),
        }
    }

    /// The number that the next row will have.
    fn next_id(&self) -> CommId {
        CommId::new(self.rows.len() as u32)
    }

    /// The position of a new communicator below its parent.
    fn position_of(&self, new: &NewCommunicator) -> Position {
        let parent = new.created.parent.and_then(|parent| self.rows.get(parent.index()));
        let Some(parent) = parent else {
            return Position { generation: 1, weight: 1, below: Sharing::Single };
        };
        let of_letter = u64::from(new.number.of_letter.max(1));
        Position {
            generation: parent.generation + 1,
            weight: parent.weight.saturating_mul(of_letter),
            below: parent.sharing,
        }
    }

    /// As [`RowSharing::choose`].
    fn choose(&mut self, world: &World, new: &NewCommunicator) -> RowChoice {
        let segment = &world.segment;
        let Position { generation, weight, below } = self.position_of(new);
        match (below, new.created.parent) {
            // Communicators of one row may be used by threads in any order, so that ordinals below
            // it have no meaning.
            (Sharing::Alike, _) => return self.changing(segment, generation, new),
            (Sharing::Changing, Some(parent)) => return RowChoice::Changing { row: parent },
            _ => {}
        }
        let alike = world.options.alike;
        let is_over = weight > KINDS_PER_ALIKE * u64::from(alike)
            || generation > MOST_GENERATIONS
            || self.rows.len() >= alike.saturating_mul(ROWS_PER_ALIKE) as usize
            || new.created.code != 0
                && self.named_by_members >= alike.saturating_mul(NAMED_BY_MEMBERS_PER_ALIKE);
        let key = SiblingCount::from_communicator(new);
        if is_over && !self.families.contains_key(&key) {
            return self.changing(segment, generation, new);
        }
        let family = self.families.entry(key).or_default();
        family.created += 1;
        let n = if new.created.code == 0 { new.number.n } else { family.created };
        if let Some(row) = family.row {
            return RowChoice::Alike { row };
        }
        if family.single < alike && !is_over {
            family.single += 1;
            self.named_by_members += u32::from(new.created.code != 0);
            return RowChoice::Single { n };
        }
        // An elided list does not show whether the order of the members is the same.
        if !new.members.is_exact {
            return self.changing(segment, generation, new);
        }
        let created = Created { n, ..new.created.clone() };
        let row = Row::new(generation, weight, Sharing::Alike, new.members.clone());
        let Some(row) = self.log_created(segment, row, new.topology.as_ref(), created) else {
            return RowChoice::Unseen;
        };
        segment.log(&Record::SharedRow { id: row, changing: false });
        self.families.entry(SiblingCount::from_communicator(new)).or_default().row = Some(row);
        RowChoice::Alike { row }
    }

    /// The row for communicators of changing members below a parent.
    fn changing(&mut self, segment: &Segment, generation: u32, new: &NewCommunicator) -> RowChoice {
        let key = (new.created.parent, new.kind.letter);
        if let Some(&row) = self.changing.get(&key) {
            return RowChoice::Changing { row };
        }
        let created = &new.created;
        let itself = created.group.get(created.rank).unwrap_or(WorldRank::OUTSIDE);
        let created = Created {
            n: NONE,
            r: None,
            code: 0,
            local: None,
            peer: None,
            rank: CommRank::FIRST,
            reorder: NONE,
            group: [itself].into_iter().collect(),
            remote: None,
            ..created.clone()
        };
        let row = Row::new(generation, 1, Sharing::Changing, new.members.clone());
        let Some(row) = self.log_created(segment, row, None, created) else { return RowChoice::Unseen };
        segment.log(&Record::SharedRow { id: row, changing: true });
        self.changing.insert(key, row);
        RowChoice::Changing { row }
    }

    /// Gives a communicator of the row `row` a temporary number.
    fn pass(&mut self, segment: &Segment, row: CommId, new: &NewCommunicator) -> CommId {
        self.count_created(segment, row, &new.created);
        let mut id = self.next_temporary;
        while self.temporary.contains_key(&id) {
            id = id.next_temporary();
        }
        self.next_temporary = id.next_temporary();
        self.temporary.insert(id, Temporary { row, members: new.members.clone(), windows: 0 });
        id
    }

    /// Gives a row the next number and writes it to the log, in the order of the numbers. `None` if
    /// there is no room.
    fn log_created(
        &mut self,
        segment: &Segment,
        row: Row,
        topology: Option<&Topology>,
        created: Created,
    ) -> Option<CommId> {
        let id = self.next_id();
        let created = Created { id, ..created };
        if id.is_temporary() || !segment.log(&Record::Created(created)) {
            return None;
        }
        if let Some(Topology { text, .. }) = topology {
            segment.log(&Record::Topology { id, text: text.clone() });
        }
        self.rows.push(row);
        Some(id)
    }

    /// Widens the row's range of degrees: of a distributed graph a process has its own degrees
    /// only.
    fn widen_degrees(&mut self, segment: &Segment, row: CommId, topology: Option<&str>) {
        let Some(topology) = topology.filter(|topology| topology.starts_with("dist_graph")) else { return };
        let known = self.degrees.entry(row).or_insert_with(|| topology.to_owned());
        let widened = merge_degrees(known, topology);
        if widened != *known {
            known.clone_from(&widened);
            segment.log(&Record::Topology { id: row, text: widened });
        }
    }

    fn note_freed(&mut self, segment: &Segment, row: CommId, id: CommId) {
        if self.rows[row.index()].sharing == Sharing::Single {
            segment.log(&Record::Freed { id });
            return;
        }
        // Without memory for that it is kept for ever.
        if id.is_temporary() && self.freed.try_reserve(1).is_ok() {
            self.freed.push_back(id);
            if self.freed.len() > MOST_FREED
                && let Some(oldest) = self.freed.pop_front()
            {
                // One with a window is asked again when as many others have been freed.
                match self.temporary.get(&oldest).is_some_and(|temporary| temporary.windows > 0) {
                    true => self.freed.push_back(oldest),
                    false => drop(self.temporary.remove(&oldest)),
                }
            }
        }
        self.count(segment, row, &[(shared_row::FREED, 1)]);
    }

    fn count_created(&mut self, segment: &Segment, row: CommId, created: &Created) {
        let reported = u64::from(reports(created, &RankSet::default()));
        self.count(segment, row, &[(shared_row::CREATED, 1), (shared_row::REPORTED, reported)]);
    }

    fn count(&mut self, segment: &Segment, row: CommId, counts: &[(usize, u64)]) {
        if let Some(slot) = self.counters.slot(segment, SlotKey::shared_row(row)) {
            update(slot, |values| counts.iter().for_each(|&(place, more)| add(&values[place], more)));
        }
    }
}
