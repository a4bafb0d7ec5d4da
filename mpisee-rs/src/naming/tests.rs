//! Names and rows over a fake MPI: each rank enters its communicators by itself, and the names are
//! compared.

use super::creation_kind::CreationKind;
use super::row_sharing::{NewCommunicator, RowSharing};
use super::*;
use crate::mpi::abi::bits;
use crate::state::fake_mpi::{FakeMpi, comm};
use mpisee_profile::WorldRank;
use mpisee_profile::options::Options;
use mpisee_profile::segment::{PeerKey, SlotKey};

const DUP: CreationKind = CreationKind::by(Operation::CommDup);
const SPLIT: CreationKind = CreationKind::by(Operation::CommSplit);

/// A group of one process.
fn just(rank: u32) -> Runs {
    [WorldRank::new(rank)].into_iter().collect()
}

/// The key of messages to and from a peer.
fn key(communicator: CommId, peer: u32) -> SlotKey {
    PeerKey { communicator, peer: CommRank::new(peer) }.pack()
}

/// A rank and the rows of its communicators.
struct Rank {
    rows: RowSharing,
    fake: FakeMpi,
}

impl Rank {
    fn new(rank: u32, size: u32, options: Options) -> Rank {
        let rank = Rank { rows: RowSharing::new(), fake: FakeMpi::new(rank, size, options) };
        let world = &rank.fake.world;
        let all = Runs::first(size);
        for (own, members) in [(world.rank.in_world(), all), (CommRank::FIRST, just(world.rank.get()))] {
            let created = Created::with_world(CommId::WORLD, own, members.clone());
            rank.rows.enter_predefined(world, created, Groups::new(members, None));
        }
        rank
    }

    /// Makes a call on `parent` that creates a communicator of `members`; returns its number.
    fn create(&self, parent: CommId, kind: CreationKind, members: &[u32]) -> CommId {
        self.fake.become_current();
        let world = &self.fake.world;
        let NumberedCreation { number, parent: known_parent } = self.rows.number(parent, kind.letter);
        let comm = comm(members);
        let members = Arc::new(Groups::from_communicator(world, comm, false));
        let (parent_row, parent_members) = known_parent.expect("the parent is in a row");
        let r = kind.several.then(|| {
            let ranks =
                members.own.iter().filter_map(|rank| parent_members.own.iter().position(|it| it == rank));
            CommRank::new(ranks.min().expect("members are in the parent") as u32)
        });
        let created = Created {
            parent: Some(parent_row),
            letter: kind.letter,
            n: number.n,
            r,
            members: members.hash,
            operation: kind.operation.map_or(NONE, |operation| operation as u32),
            group: members.own.clone(),
            ..Created::with_world(CommId::WORLD, query::rank(comm), Runs::default())
        };
        let mut new = NewCommunicator { comm, kind, number, created, members, topology: None };
        new.elide(world.options.listed as usize);
        self.rows.enter(world, None, new)
    }

    fn name(&self, id: CommId) -> String {
        self.rows.name(&self.fake.world.segment, id)
    }
}

fn alike(alike: u32) -> Options {
    Options { alike, ..Options::default() }
}

#[test]
fn members_agree_on_names_whatever_else_each_of_them_creates() {
    let ranks = [0, 1, 2, 3].map(|rank| Rank::new(rank, 4, Options::default()));
    let name = |rank: &Rank| {
        let own = rank.fake.world.rank.get();
        for _ in 0..own {
            rank.create(CommId::SELF, DUP, &[own]);
        }
        let copy = rank.create(CommId::WORLD, DUP, &[0, 1, 2, 3]);
        let half = if own < 2 { [0, 1] } else { [3, 2] };
        let half_id = rank.create(copy, SPLIT, &half);
        [rank.name(copy), rank.name(half_id), rank.name(rank.create(half_id, DUP, &half))]
    };
    let [low, also_low, high, also_high] = ranks.each_ref().map(name);
    assert_eq!(low, ["W_d1", "W_d1_s1.0", "W_d1_s1.0_d1"]);
    assert_eq!(also_low, low);
    assert_eq!(high, ["W_d1", "W_d1_s1.2", "W_d1_s1.2_d1"]);
    assert_eq!(also_high, high);
}

#[test]
fn a_call_that_creates_nothing_here_counts() {
    let rank = Rank::new(0, 2, Options::default());
    // It failed, or this process is in none of the parts.
    rank.rows.number(CommId::WORLD, SPLIT.letter);
    assert_eq!(rank.name(rank.create(CommId::WORLD, SPLIT, &[0, 1])), "W_s2.0");
}

#[test]
fn like_communicators_beyond_the_limit_share_a_row() {
    let rank = Rank::new(1, 2, alike(2));
    let copies: Vec<CommId> = (0..5).map(|_| rank.create(CommId::WORLD, DUP, &[0, 1])).collect();
    let names: Vec<String> = copies.iter().map(|&id| rank.name(id)).collect();
    assert_eq!(names, ["W_d1", "W_d2", "W_d3+", "W_d3+", "W_d3+"]);
    assert_eq!((copies[2], copies[2]), (copies[3], copies[4]));
    // Threads may use communicators of one row in any order: what is made of them has no ordinal.
    let below = rank.create(copies[4], DUP, &[0, 1]);
    assert_eq!(rank.name(below), "W_d3+_d+");
    // Others are distinguished as before.
    assert_eq!(rank.name(rank.create(CommId::WORLD, SPLIT, &[1])), "W_s6.1");
}

#[test]
fn communicators_of_ever_changing_members_share_a_row_and_keep_their_peers() {
    let rank = Rank::new(0, 20, alike(1));
    let pair = |other: u32| rank.create(CommId::WORLD, SPLIT, &[0, other]);
    // As many kinds as have rows of their own.
    let ids: Vec<CommId> = (1..20).map(pair).collect();
    let (own, shared): (Vec<CommId>, Vec<CommId>) = ids.iter().partition(|id| !id.is_temporary());
    assert_eq!((own.len(), rank.name(own[7]).as_str()), (8, "W_s8.0"));
    assert!(shared.iter().all(|&id| rank.name(id) == "W_s+"));
    let row = rank.rows.row_of(shared[0]).expect("it has one");
    for (&communicator, world_rank) in shared.iter().zip(9..) {
        let lasting = rank.rows.lasting(&rank.fake.world, key(communicator, 1));
        let lasting = lasting.expect("its members are known");
        assert_eq!(lasting.key, key(row, world_rank));
    }
}

#[test]
fn peers_of_a_temporary_communicator_without_a_list_are_those_of_its_group() {
    let options = Options { listed: 1, ..alike(1) };
    let rank = Rank::new(0, 40, options);
    let without_order = |first: u32| [0, first + 7, first + 1, first + 9, first + 2];
    let ids: Vec<CommId> =
        (1..30).map(|first| rank.create(CommId::WORLD, SPLIT, &without_order(first))).collect();
    let (at, &communicator) =
        ids.iter().enumerate().rfind(|(_, id)| id.is_temporary()).expect("not all have a row");
    let first = at as u32 + 1;
    let row = rank.rows.row_of(communicator).expect("it has one");
    for (peer, world_rank) in (0..).zip(without_order(first)) {
        let lasting = rank.rows.lasting(&rank.fake.world, key(communicator, peer));
        assert_eq!(lasting.expect("MPI is queried").key, key(row, world_rank));
    }
}

#[test]
fn entered_communicator_is_described_by_its_groups() {
    // The one test that uses the rows of the process.
    let fake = FakeMpi::new(3, 4, Options::default());
    let world = &fake.world;
    log_predefined(world, CommRank::new(3), Runs::first(4));
    log_predefined(world, CommRank::FIRST, just(3));
    let parent = Communicator::new(CommId::WORLD, world.predefined.world, CommRank::new(3), 4);
    let number = number(&parent, SPLIT);
    let part = comm(&[3, 1]);
    let id = enter(world, part, &parent, SPLIT, number);
    assert_eq!(ROWS.name(&world.segment, id), "W_s1.1");
    let known = COMMUNICATORS.get(part).expect("it is entered");
    assert_eq!((known.id, known.rank, known.size, bits(known.comm)), (id, CommRank::FIRST, 2, bits(part)));
    let by_members = enter_by_members(
        world,
        comm(&[3, 0]),
        Some(&parent),
        CreationKind::by(Operation::CommCreateGroup),
        &[7],
    );
    let name = ROWS.name(&world.segment, by_members);
    assert!(name.starts_with("W_g1.") && name.contains('-'), "{name}");
}
