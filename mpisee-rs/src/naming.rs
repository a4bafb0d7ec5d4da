//! Names of communicators: what must be agreed so that they are equal on all members.
//!
//! A name is `<parent's name>_<letter><n>[.<r>]`, after section III-A of the mpisee paper. `n` is the largest
//! count, over the parent's processes, of communicators that a process has been part of; then every member
//! sets its own count to n+1. So the names below one parent differ: each agreement on it has a larger n
//! than the last. `r`, the smallest parent rank of the members, tells apart those of one call.
//!
//! A communicator may have processes of other worlds, which need not have the profiler: to wait for their answer
//! could be to wait for ever. There the number is counted on each member, which makes the same calls on it as all
//! others, and the processes of one world have the same names.
//!
//! A program may create and free communicators without end, and what is kept of each must end. Communicators are alike
//! if parent, creating call, and members in their order are the same: then each member has been part of all of them, and
//! counts them alike, without a word. The first `MPISEE_ALIKE` have a row each. The next makes a row for itself
//! and all that follow, `W_s1001+.0`, and those give the agreed number back, since no name has it: so numbers do not
//! grow with them, and say how many rows there are. This holds wherever the agreement is, over the parent, over
//! the new communicator, by the leaders of an intercommunicator, or nowhere. `MPI_Comm_idup` counts when it starts,
//! in the order in which all start; those that complete may come in any. What is below a row of many is below the
//! name of the row, so that numbers kept with a communicator are kept for its row ([`folding`]).
//!
//! Where members change with each call, or a communicator is made of the last one again and again, there is no end
//! of kinds. When the agreed number exceeds 64 times `MPISEE_ALIKE`, or the generation 32, new kinds go into one row per
//! parent and letter, `W_s+`, and their children into the same; all members see the same number. Those have different
//! members, and so numbers that pass: [`crate::counters`] resolves each, when it first meets it, to the slot of
//! the row, in which peers are world ranks.

use crate::abi::{Comm, Group, Raw, constant};
use crate::communicator::{Communicator, UNLOGGED};
use crate::generated::pmpi;
use crate::price::Naming;
use crate::process::{self, COMMUNICATORS, Process};
use crate::topology::{self, Topology};
use mpisee_profile::segment::log::{Created, NONE, OUTSIDE, Record, Runs};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

mod birth;
mod duplication;
mod folding;
mod unlisted;

pub use birth::Birth;
use birth::TopologyFrom;
pub use duplication::{
    abandon_duplication, duplicated, finish_duplications, has_duplicated, start_duplication,
};
pub use folding::Folding;
use folding::{Kin, Newborn};

/// The parent as this process knows it.
pub enum Parent<'p> {
    /// It is a member.
    Known(&'p Communicator),
    /// It was told the parent's name, and the smallest rank there.
    Named(&'p str, u32),
    /// There is none.
    None,
}

/// The numbers of `MPI_COMM_WORLD` and `MPI_COMM_SELF`, which are the first in the log.
pub const WORLD: u32 = 0;
/// See [`WORLD`].
pub const ITSELF: u32 = 1;

/// A number that was agreed on.
#[derive(Clone, Copy)]
pub struct Number {
    /// The number.
    pub n: u32,
    /// The own count before.
    before: u32,
}

impl Number {
    /// Takes note of an agreement: the own count grows.
    pub fn agreed(process: &Process, n: u32) -> Number {
        Number { n, before: process.communicators_so_far.fetch_max(n + 1, Ordering::Relaxed) }
    }

    /// One that came about without the count.
    pub fn of_another_count(n: u32) -> Number {
        Number { n, before: u32::MAX }
    }

    /// The second agreement on the same communicator, after `first`.
    pub fn or_before(self, first: Number) -> Number {
        Number { before: self.before.min(first.before), ..self }
    }

    /// No communicator of this process has it as its name. Another process of the same call may have one; then that one's
    /// count keeps it from coming again, and that process takes part in all agreements on names below this parent
    /// that could be the same.
    pub fn give_back(self, process: &Process) {
        if self.before <= self.n {
            // Not if another thread has counted on from there.
            let (relaxed, so_far) = (Ordering::Relaxed, &process.communicators_so_far);
            let _ = so_far.compare_exchange(self.n + 1, self.before, relaxed, relaxed);
        }
    }
}

/// The processes' agreement on the number of the communicators about to be created below `parent`.
pub fn agree(process: &Process, parent: &Communicator) -> Number {
    finish_duplications(process, false);
    let n = if parent.has_outsiders {
        next_number(process, parent)
    } else {
        largest(process, parent, process.so_far())
    };
    agreed(process, parent, n)
}

/// Takes note of an agreement, on every member of the parent.
fn agreed(process: &Process, parent: &Communicator, n: u32) -> Number {
    if parent.keeps_next_number() {
        COMMUNICATORS.insert(parent.with_next_number(n + 1));
        process.folding.note_next_number(parent.id, n + 1);
    }
    Number::agreed(process, n)
}

/// The next number below a communicator that keeps it.
fn next_number(process: &Process, parent: &Communicator) -> u32 {
    process.folding.next_number(parent.id, parent.next_number)
}

/// The largest `own` over all processes of `comm`, on all of them.
pub fn largest(process: &Process, comm: &Communicator, own: u32) -> u32 {
    largest_over(process, comm.comm, comm.is_inter(), comm.size, own)
}

/// The agreement on the number of a communicator that was just created, over itself: at least `own`. All its
/// processes are of this world.
pub fn agree_within(process: &Process, comm: Comm, own: u32) -> Number {
    Number::agreed(process, largest_over(process, comm, is_inter(comm), process::size(comm), own))
}

fn largest_over(process: &Process, comm: Comm, is_inter: bool, size: u32, own: u32) -> u32 {
    match is_inter {
        false if size == 1 => own,
        false => allreduce_max(process, comm, own),
        // The result comes from the other group: once its maximum, then ours as it came to them.
        true => {
            let theirs = allreduce_max(process, comm, own);
            allreduce_max(process, comm, theirs).max(theirs)
        }
    }
}

/// `PMPI_Allreduce(MPI_MAX)` of one number.
fn allreduce_max(process: &Process, comm: Comm, own: u32) -> u32 {
    let _price = Naming::begin(process);
    let own = own as c_int;
    let mut most = own;
    let (int, max) = (Raw::new(process.predefined.int), Raw::new(process.predefined.max));
    let (from, to) = ((&raw const own).cast(), (&raw mut most).cast());
    // SAFETY: both buffers hold one int; all processes of the communicator are in the same creating call.
    unsafe { pmpi::MPI_Allreduce.get()(from, to, 1, int, max, Raw::new(comm)) };
    most.max(own) as u32
}

/// Enters a new communicator: its members, its place in the tree, its topology.
pub fn enter(process: &Process, comm: Comm, parent: &Parent<'_>, birth: Birth, number: Number) -> u32 {
    enter_as(process, comm, parent, birth, number, None)
}

/// The same, where it may be decided already which row it is counted in.
fn enter_as(
    process: &Process,
    comm: Comm,
    parent: &Parent<'_>,
    birth: Birth,
    number: Number,
    kin: Option<Kin>,
) -> u32 {
    let _price = Naming::begin(process);
    let Described { mut communicator, created, topology } = describe(process, comm, parent, birth, number.n);
    let text = topology.as_ref().map(|topology| topology.text.as_str());
    let newborn = Newborn { comm, parent, birth, created, topology: text };
    let kin = kin.unwrap_or_else(|| process.folding.decide(process, &newborn));
    communicator.id = process.folding.enter(process, kin, newborn);
    if !kin.needs_number() {
        number.give_back(process);
    }
    if let Some(topology) = topology {
        communicator = communicator.with_neighbours(topology.out_neighbours);
    }
    COMMUNICATORS.insert(communicator);
    communicator.id
}

/// What there is to say of a communicator.
struct Described {
    communicator: Communicator,
    created: Created,
    topology: Option<Topology>,
}

fn describe(process: &Process, comm: Comm, parent: &Parent<'_>, birth: Birth, n: u32) -> Described {
    let rank = process::rank(comm);
    let members = Membership::of(process, comm);
    let mut communicator = Communicator::new(UNLOGGED, comm, rank, members.own.len() as u32);
    communicator.remote_size = members.remote.as_ref().map_or(0, Runs::len) as u32;
    communicator.next_number = n.wrapping_add(1);
    communicator.own_group_first = members.own_comes_first();
    communicator.has_outsiders = members.has_outsiders();
    let r = match parent {
        _ if !birth.several => NONE,
        Parent::Named(_, r) => *r,
        Parent::None => members.smallest(),
        Parent::Known(parent) => smallest_rank_in(parent, comm, members.remote.is_some()),
    };
    let kind = match (birth.topology, parent) {
        (TopologyFrom::Call(kind), _) => Some(kind),
        (TopologyFrom::Parent, Parent::Known(parent)) => parent.topology,
        _ => None,
    };
    let topology = kind.and_then(|kind| topology::of(comm, rank, kind));
    communicator.topology = kind.filter(|_| topology.is_some());
    let created = Created {
        id: 0,
        parent: match parent {
            Parent::Known(parent) => process.folding.row_of(parent.id).unwrap_or(NONE),
            Parent::Named(..) | Parent::None => NONE,
        },
        letter: birth.letter,
        n,
        r,
        operation: birth.operation.map_or(NONE, |operation| operation as u32),
        rank,
        reorder: birth.reorder.map_or(NONE, u32::from),
        group: members.own,
        remote: members.remote,
    };
    Described { communicator, created, topology }
}

/// The intercommunicator with the processes that spawned this world, which comes with it. Its name is `P`: the
/// other side has one below the communicator that spawned, and cannot be asked for it.
pub fn enter_parent(process: &Process, comm: Comm) {
    let birth = Birth { letter: Birth::MET, ..Birth::WITH_WORLD };
    enter(process, comm, &Parent::None, birth, Number::of_another_count(0));
}

/// Tells the log of `MPI_COMM_WORLD` or `MPI_COMM_SELF`.
pub fn log_predefined(process: &Process, rank: u32, members: Runs) {
    let created = Created::with_world(0, rank, members);
    process.folding.enter_predefined(process, Birth::WITH_WORLD, created);
}

/// Writes to the log about a communicator of which it tells.
pub fn log_about(process: &Process, id: u32, record: impl FnOnce(u32) -> Record) {
    if id != UNLOGGED {
        process.segment.log(&record(id));
    }
}

fn is_inter(comm: Comm) -> bool {
    let mut flag = 0;
    // SAFETY: the communicator is valid, the flag is written.
    unsafe { pmpi::MPI_Comm_test_inter.get()(Raw::new(comm), &raw mut flag) };
    flag != 0
}

/// The group of a communicator, or the other one of an intercommunicator.
pub fn group_of(comm: Comm, remote: bool) -> Group {
    let mut group = std::mem::MaybeUninit::<Group>::uninit();
    let ask = if remote { pmpi::MPI_Comm_remote_group.get() } else { pmpi::MPI_Comm_group.get() };
    // SAFETY: the communicator is valid, and has a remote group if that is asked for; the call writes the
    // handle.
    unsafe {
        ask(Raw::new(comm), group.as_mut_ptr());
        group.assume_init()
    }
}

fn free_group(mut group: Group) {
    // SAFETY: the group is ours.
    unsafe { pmpi::MPI_Group_free.get()(&raw mut group) };
}

/// Ranks translated at a time.
const BLOCK: usize = 1024;

/// Calls `take` with each rank of `group`, translated to `target`; negative where it is no member.
fn translate(group: Group, size: u32, target: Group, mut take: impl FnMut(c_int)) {
    let mut from = [0; BLOCK];
    let mut to = [0; BLOCK];
    for first in (0..size).step_by(BLOCK) {
        let count = BLOCK.min((size - first) as usize);
        from[..count].iter_mut().zip(first..).for_each(|(place, rank)| *place = rank as c_int);
        let (ranks, translated) = (from.as_ptr(), to.as_mut_ptr());
        // SAFETY: `count` ranks of the group are read, as many written.
        unsafe {
            pmpi::MPI_Group_translate_ranks.get()(
                Raw::new(group),
                count as c_int,
                ranks,
                Raw::new(target),
                translated,
            )
        };
        to[..count].iter().for_each(|&rank| take(rank));
    }
}

fn size_of_group(group: Group) -> u32 {
    let mut size = 0;
    // SAFETY: the group is valid, the size is written.
    unsafe { pmpi::MPI_Group_size.get()(Raw::new(group), &raw mut size) };
    size as u32
}

/// The world ranks of a communicator's processes.
pub struct Membership {
    /// The own group, in its order.
    pub own: Runs,
    /// The other group of an intercommunicator.
    remote: Option<Runs>,
    /// Whether there are processes of this world that have no profiler, or may have none.
    has_strangers: bool,
}

impl Membership {
    /// Asks MPI, without communication.
    pub fn of(process: &Process, comm: Comm) -> Membership {
        let mut has_strangers = false;
        let mut world_ranks = |remote: bool| {
            let group = group_of(comm, remote);
            let mut members = Runs::default();
            translate(group, size_of_group(group), process.world_group, |rank| {
                let rank = u32::try_from(rank);
                has_strangers |= rank.is_ok_and(|rank| !process.companions.has(rank));
                members.push(rank.unwrap_or(OUTSIDE));
            });
            free_group(group);
            members
        };
        let own = world_ranks(false);
        let remote = is_inter(comm).then(|| world_ranks(true));
        Membership { own, remote, has_strangers }
    }

    /// Whether there are processes with which nothing may be agreed: of other worlds, or without the profiler.
    pub fn has_outsiders(&self) -> bool {
        self.has_strangers
            || self.own.outsiders() > 0
            || self.remote.as_ref().is_some_and(|remote| remote.outsiders() > 0)
    }

    /// Whether the own group is the one with the smallest world rank; one of another world has none.
    pub fn own_comes_first(&self) -> bool {
        self.remote.as_ref().is_none_or(|remote| self.own.comes_before(remote))
    }

    /// The smallest world rank.
    pub fn smallest(&self) -> u32 {
        self.remote.iter().chain([&self.own]).filter_map(Runs::min).min().unwrap_or(NONE)
    }
}

/// Whether nothing may be agreed with the process with that rank in `comm`, of an intercommunicator in its other group:
/// it is of another world, or some of this world have no profiler, and nobody knows for whom it would speak.
pub fn is_outside(process: &Process, comm: Comm, rank: c_int) -> bool {
    let group = group_of(comm, is_inter(comm));
    let translated = world_rank_in(process, group, rank);
    free_group(group);
    translated < 0 || process.companions.is_partial()
}

/// The rank in the world of the process with that rank in `group`; negative if it has none.
fn world_rank_in(process: &Process, group: Group, rank: c_int) -> c_int {
    let mut translated = constant::UNDEFINED;
    let (from, to) = (&raw const rank, &raw mut translated);
    // SAFETY: one rank of the group is read, one is written; both groups are valid.
    unsafe {
        let translate = pmpi::MPI_Group_translate_ranks.get();
        translate(Raw::new(group), 1, from, Raw::new(process.world_group), to)
    };
    translated
}

/// The smallest rank, in the parent, of the new communicator's processes; below an intercommunicator those
/// count that are in its group with the smallest world rank, so that both sides see the same.
fn smallest_rank_in(parent: &Communicator, comm: Comm, is_inter: bool) -> u32 {
    let from_remote = !parent.own_group_first;
    let group = group_of(comm, from_remote && is_inter);
    let parent_group = group_of(parent.comm, from_remote && parent.is_inter());
    let mut least = NONE;
    translate(group, size_of_group(group), parent_group, |rank| {
        if let Ok(rank) = u32::try_from(rank) {
            least = least.min(rank);
        }
    });
    free_group(parent_group);
    free_group(group);
    least
}
