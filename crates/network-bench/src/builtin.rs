//! The built-in patterns.

use crate::backend::Backend;
use crate::collective::Collective;
use crate::pattern::{CollectiveCall, Message, Pattern, Step};
use std::collections::HashMap;
use std::fmt;

/// The directions in which groups exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    /// The first group sends to each other one
    #[default]
    Uni,
    /// The first group sends to each other one, and they to it
    Bi,
    /// Each group sends to each other one
    Omni,
}

impl fmt::Display for Direction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Direction::Uni => "uni",
            Direction::Bi => "bi",
            Direction::Omni => "omni",
        })
    }
}

/// The directions of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Around {
    /// Each rank to the next one
    #[default]
    Uni,
    /// Each rank to the next one and to the one before
    Bi,
}

/// How two ranks exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Exchange {
    /// A message there and one back; the time is that of one way
    #[default]
    PingPong,
    /// A window of messages one way, and an empty reply
    Uni,
    /// A window of messages each way, and an empty reply
    Bi,
}

/// Groups of consecutive ranks, of which the first `active` of each take part: the paper's (n, g,
/// k).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// n, the number of groups.
    pub count: u32,
    /// g, the ranks of a group.
    pub size: u32,
    /// k, the ranks of a group that take part.
    pub active: u32,
}

/// A pattern that comes with the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// Two ranks.
    PointToPoint {
        /// The ranks.
        ranks: [u32; 2],
        /// How they exchange.
        exchange: Exchange,
        /// Messages in a window.
        window: u32,
    },
    /// Rank i of a group with rank i of another.
    Rail(Groups, Direction),
    /// k ranks of the first group to all ranks of the second: the paper's asymmetric pattern.
    Fan(Groups, Direction),
    /// k ranks of a group to k ranks of another: the paper's symmetric pattern.
    Dense(Groups, Direction),
    /// Each rank to its neighbours on a ring.
    Ring(Around),
    /// Each rank of a grid to its neighbours.
    Halo {
        /// Ranks along each dimension.
        dimensions: Vec<u32>,
        /// True if the ends are neighbours.
        periodic: bool,
    },
    /// Each rank to each other one.
    AllToAll,
    /// From rank 0 to all, through a binomial tree, each of whose levels depends on the one before.
    Tree,
    /// From the first rank of one group to the first of the next, in stripes through all ranks of
    /// both.
    Stripe {
        /// The ranks of a group.
        size: u32,
        /// The backend of the steps within a group.
        within: Backend,
    },
    /// A collective operation on each of these lists of ranks at the same time; on all ranks if
    /// there is none.
    Collective {
        /// The operation.
        collective: Collective,
        /// Members of each communicator.
        members: Vec<Vec<u32>>,
        /// The position of the root among the members.
        root: u32,
    },
}

/// Places of messages: each has its own at both ends.
#[derive(Default)]
pub struct Places {
    ends: HashMap<u32, u64>,
    messages: Vec<Message>,
}

impl Places {
    fn place(&mut self, rank: u32, bytes: u64) -> u64 {
        let end = self.ends.entry(rank).or_insert(0);
        let alignment = if bytes < 4096 { 64 } else { 4096 };
        let begin = end.next_multiple_of(alignment);
        *end = begin + bytes;
        begin
    }

    fn add(&mut self, source: u32, destination: u32, bytes: u64) {
        self.add_times(source, destination, bytes, 1);
    }

    /// Adds a message that is sent several times from one place to one place.
    pub fn add_times(&mut self, source: u32, destination: u32, bytes: u64, times: u32) {
        let source_offset = self.place(source, bytes);
        let destination_offset = self.place(destination, bytes);
        self.messages.push(Message { source, destination, bytes, source_offset, destination_offset, times });
    }

    /// The messages.
    pub fn messages(self) -> Vec<Message> {
        self.messages
    }

    fn step(self, name: &str, backend: Backend) -> Pattern {
        let step = Step { name: name.to_owned(), backend, messages: self.messages, collectives: Vec::new() };
        Pattern::from_steps(vec![step])
    }
}

impl Builtin {
    /// The pattern for messages of `bytes` on `ranks` ranks.
    pub fn pattern(&self, bytes: u64, ranks: u32, backend: Backend) -> Result<Pattern, String> {
        let pattern = self.on(bytes, ranks, backend)?;
        let is_empty = |step: &Step| step.messages.is_empty() && step.collectives.is_empty();
        match ranks < 2 && pattern.steps.iter().all(is_empty) {
            true => {
                Err("on one rank, this pattern has no message: start two or more with mpirun -n".to_owned())
            }
            false => Ok(pattern),
        }
    }

    fn on(&self, bytes: u64, ranks: u32, backend: Backend) -> Result<Pattern, String> {
        match self {
            &Builtin::PointToPoint { ranks, exchange, window } => {
                Ok(point_to_point(ranks, exchange, window, bytes, backend))
            }
            &Builtin::Rail(groups, direction) => {
                groups.check(ranks)?;
                Ok(groups.pattern("rail", direction, backend, |all, [from, to]| {
                    (0..groups.active)
                        .for_each(|at| all.add(groups.rank(from, at), groups.rank(to, at), bytes));
                }))
            }
            &Builtin::Fan(groups, direction) => {
                groups.check(ranks)?;
                if groups.count != 2 || direction == Direction::Omni {
                    return Err("a fan is from one group to one other, with --direction uni or bi".to_owned());
                }
                Ok(groups.pattern("fan", direction, backend, |all, [from, to]| {
                    // The k ranks are those of the first group in both directions.
                    let parts = [from, to].map(|group| if group == 0 { groups.active } else { groups.size });
                    for at in 0..parts[0] {
                        (0..parts[1]).for_each(|other| {
                            all.add(groups.rank(from, at), groups.rank(to, other), bytes);
                        });
                    }
                }))
            }
            &Builtin::Dense(groups, direction) => {
                groups.check(ranks)?;
                Ok(groups.pattern("dense", direction, backend, |all, [from, to]| {
                    for at in 0..groups.active {
                        (0..groups.active).for_each(|other| {
                            all.add(groups.rank(from, at), groups.rank(to, other), bytes);
                        });
                    }
                }))
            }
            Builtin::Ring(direction) => Ok(ring(*direction, bytes, ranks, backend)),
            Builtin::Halo { dimensions, periodic } => halo(dimensions, *periodic, bytes, ranks, backend),
            Builtin::AllToAll => {
                let mut all = Places::default();
                for source in 0..ranks {
                    // Each begins with its own neighbour, so that no rank is everybody's first.
                    (1..ranks).for_each(|distance| all.add(source, (source + distance) % ranks, bytes));
                }
                Ok(all.step("all-to-all", backend))
            }
            Builtin::Tree => Ok(tree(bytes, ranks, backend)),
            &Builtin::Stripe { size, within } => stripe(size, bytes, ranks, [within, backend]),
            Builtin::Collective { collective, members, root } => {
                let all = [(0..ranks).collect()];
                let members = if members.is_empty() { &all[..] } else { members.as_slice() };
                Ok(collective_call(*collective, members, *root, bytes, backend))
            }
        }
    }
}

/// A collective operation on each of these lists of ranks, all at the same time.
fn collective_call(
    collective: Collective,
    members: &[Vec<u32>],
    root: u32,
    bytes: u64,
    backend: Backend,
) -> Pattern {
    let call = |members: &Vec<u32>| CollectiveCall {
        collective,
        members: members.clone(),
        // No size changes what a barrier does.
        bytes: if collective == Collective::Barrier { 0 } else { bytes },
        root,
    };
    let collectives = members.iter().map(call).collect();
    let name = collective.name().to_owned();
    Pattern::from_steps(vec![Step { name, backend, messages: Vec::new(), collectives }])
}

impl Groups {
    fn rank(&self, group: u32, at: u32) -> u32 {
        group * self.size + at
    }

    fn check(&self, ranks: u32) -> Result<(), String> {
        let Groups { count, size, active } = *self;
        let needed = u64::from(count) * u64::from(size);
        if size == 0 && ranks < count {
            let noun = if ranks == 1 { "rank" } else { "ranks" };
            return Err(format!(
                "{count} groups need {count} ranks or more, and this run has {ranks} {noun}: start more with mpirun -n"
            ));
        }
        if count < 2 || size == 0 || active == 0 {
            return Err("groups are two or more, and each has an active rank".to_owned());
        }
        if active > size {
            return Err(format!("{active} active ranks are more than the {size} ranks of a group"));
        }
        if needed > u64::from(ranks) {
            return Err(format!(
                "{count} groups of {size} ranks need {needed} ranks, and there are {ranks}: start {needed} or more \
                 with mpirun -n"
            ));
        }
        Ok(())
    }

    /// One step with what `add` adds for each pair of groups that the direction has.
    fn pattern(
        &self,
        name: &str,
        direction: Direction,
        backend: Backend,
        mut add: impl FnMut(&mut Places, [u32; 2]),
    ) -> Pattern {
        let mut all = Places::default();
        for from in 0..self.count {
            for to in (0..self.count).filter(|&to| to != from) {
                let is_in_it = match direction {
                    Direction::Uni => from == 0,
                    Direction::Bi => from == 0 || to == 0,
                    Direction::Omni => true,
                };
                if is_in_it {
                    add(&mut all, [from, to]);
                }
            }
        }
        all.step(name, backend)
    }
}

fn point_to_point(
    [one, other]: [u32; 2],
    exchange: Exchange,
    window: u32,
    bytes: u64,
    backend: Backend,
) -> Pattern {
    let message = |source, destination, bytes, offset: u64, times| Message {
        source,
        destination,
        bytes,
        source_offset: 0,
        destination_offset: offset,
        times,
    };
    let step =
        |name: &str, messages| Step { name: name.to_owned(), backend, messages, collectives: Vec::new() };
    let behind = bytes.max(1).next_multiple_of(4096);
    // An empty message of other backends may be nothing at all.
    let is_handshake = matches!(backend, Backend::Shared | Backend::Ipc);
    let of_reply = if is_handshake { backend } else { Backend::Isend };
    match exchange {
        Exchange::PingPong => {
            let there = step("there", vec![message(one, other, bytes, 0, 1)]);
            let back = step("back", vec![message(other, one, bytes, 0, 1)]);
            Pattern { steps: vec![there, back], parts: 2 }
        }
        Exchange::Uni => {
            let there = step("there", vec![message(one, other, bytes, 0, window)]);
            let reply = Step { backend: of_reply, ..step("reply", vec![message(other, one, 0, 0, 1)]) };
            Pattern::from_steps(vec![there, reply])
        }
        Exchange::Bi => {
            let both =
                vec![message(one, other, bytes, behind, window), message(other, one, bytes, behind, window)];
            let reply = Message { source_offset: behind, ..message(other, one, 0, behind, 1) };
            let reply = Step { backend: of_reply, ..step("reply", vec![reply]) };
            Pattern::from_steps(vec![step("both-ways", both), reply])
        }
    }
}

fn ring(direction: Around, bytes: u64, ranks: u32, backend: Backend) -> Pattern {
    let mut all = Places::default();
    for rank in 0..ranks {
        all.add(rank, (rank + 1) % ranks, bytes);
    }
    if direction == Around::Bi {
        (0..ranks).for_each(|rank| all.add((rank + 1) % ranks, rank, bytes));
    }
    all.step("ring", backend)
}

/// As even a grid as there is: the prime factors of `ranks`, the largest first, each to the
/// shortest dimension.
pub fn grid(ranks: u32, dimensions: u32) -> Vec<u32> {
    let mut factors = Vec::new();
    let (mut rest, mut factor) = (ranks.max(1), 2);
    while rest > 1 {
        while rest.is_multiple_of(factor) {
            factors.push(factor);
            rest /= factor;
        }
        factor = if factor * factor > rest { rest.max(2) } else { factor + 1 };
    }
    let mut grid = vec![1; dimensions.max(1) as usize];
    for factor in factors.into_iter().rev() {
        let shortest = grid.iter_mut().min().expect("there is a dimension");
        *shortest *= factor;
    }
    grid.sort_unstable_by(|one, other| other.cmp(one));
    grid
}

fn halo(
    dimensions: &[u32],
    periodic: bool,
    bytes: u64,
    ranks: u32,
    backend: Backend,
) -> Result<Pattern, String> {
    let cells = dimensions.iter().map(|&length| u64::from(length)).product::<u64>();
    if cells == 0 || cells > u64::from(ranks) {
        let shape: Vec<String> = dimensions.iter().map(u32::to_string).collect();
        return Err(format!(
            "a grid of {} needs {cells} ranks, and there are {ranks}: take another --dims, or other ranks with \
             mpirun -n",
            shape.join("x")
        ));
    }
    let mut all = Places::default();
    for rank in 0..cells as u32 {
        // The last dimension varies fastest, as MPI_Cart_create numbers them.
        let mut distance = 1;
        for &length in dimensions.iter().rev() {
            let at = rank / distance % length;
            let next = if at + 1 < length { Some(at + 1) } else { periodic.then_some(0) };
            let before = if at > 0 { Some(at - 1) } else { periodic.then_some(length - 1) };
            for to in [next, before].into_iter().flatten().filter(|&to| to != at) {
                all.add(rank, rank - at * distance + to * distance, bytes);
            }
            distance *= length;
        }
    }
    if all.messages.is_empty() {
        return Err("no rank of the grid has a neighbour; start more ranks with mpirun -n".to_owned());
    }
    Ok(all.step("halo", backend))
}

fn tree(bytes: u64, ranks: u32, backend: Backend) -> Pattern {
    let mut steps = Vec::new();
    let mut reached = 1;
    while reached < ranks {
        let message = |source| Message {
            source,
            destination: source + reached,
            bytes,
            source_offset: 0,
            destination_offset: 0,
            times: 1,
        };
        let messages = (0..reached.min(ranks - reached)).map(message).collect();
        let name = format!("level-{}", steps.len() + 1);
        steps.push(Step { name, backend, messages, collectives: Vec::new() });
        reached *= 2;
    }
    Pattern::from_steps(steps)
}

fn stripe(size: u32, bytes: u64, ranks: u32, [within, across]: [Backend; 2]) -> Result<Pattern, String> {
    Groups { count: 2, size, active: size }.check(ranks)?;
    let part = bytes.div_ceil(size.into());
    let begin = |stripe: u32| (u64::from(stripe) * part).min(bytes);
    let message = |source, destination, stripe, source_offset, destination_offset| Message {
        source,
        destination,
        bytes: begin(stripe + 1) - begin(stripe),
        source_offset,
        destination_offset,
        times: 1,
    };
    let step = |name: &str, backend, messages| Step {
        name: name.to_owned(),
        backend,
        messages,
        collectives: Vec::new(),
    };
    Ok(Pattern::from_steps(vec![
        step("split", within, (1..size).map(|it| message(0, it, it, begin(it), 0)).collect()),
        step("translate", across, (0..size).map(|it| message(it, size + it, it, 0, 0)).collect()),
        step("assemble", within, (1..size).map(|it| message(size + it, size, it, 0, begin(it))).collect()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance;

    fn pairs(builtin: &Builtin, ranks: u32) -> Vec<(u32, u32)> {
        let pattern = builtin.pattern(24, ranks, Backend::Isend).unwrap();
        assert_eq!(pattern.check(ranks), Ok(()));
        pattern.steps[0].messages.iter().map(|it| (it.source, it.destination)).collect()
    }

    const GROUPS: Groups = Groups { count: 2, size: 3, active: 2 };

    #[test]
    fn groups_exchange_as_in_the_paper() {
        assert_eq!(pairs(&Builtin::Rail(GROUPS, Direction::Uni), 6), [(0, 3), (1, 4)]);
        assert_eq!(pairs(&Builtin::Rail(GROUPS, Direction::Bi), 6), [(0, 3), (1, 4), (3, 0), (4, 1)]);
        let fan = [(0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5)];
        assert_eq!(pairs(&Builtin::Fan(GROUPS, Direction::Uni), 6), fan);
        assert_eq!(pairs(&Builtin::Fan(GROUPS, Direction::Bi), 6).len(), 12);
        assert_eq!(pairs(&Builtin::Dense(GROUPS, Direction::Uni), 6), [(0, 3), (0, 4), (1, 3), (1, 4)]);
        let three = Groups { count: 3, size: 2, active: 2 };
        assert_eq!(pairs(&Builtin::Rail(three, Direction::Uni), 6), [(0, 2), (1, 3), (0, 4), (1, 5)]);
        assert_eq!(pairs(&Builtin::Rail(three, Direction::Omni), 6).len(), 12);
        assert_eq!(pairs(&Builtin::Dense(three, Direction::Omni), 6).len(), 24);
        let few = Builtin::Rail(GROUPS, Direction::Uni).pattern(8, 5, Backend::Put).unwrap_err();
        assert!(few.contains("need 6 ranks, and there are 5"), "{few}");
        assert!(Builtin::Fan(GROUPS, Direction::Omni).pattern(8, 6, Backend::Put).is_err());
    }

    #[test]
    fn grids_are_even() {
        assert_eq!(grid(12, 2), [4, 3]);
        assert_eq!(grid(64, 3), [4, 4, 4]);
        assert_eq!(grid(7, 2), [7, 1]);
        assert_eq!(grid(1, 3), [1, 1, 1]);
        assert_eq!(grid(30, 3), [5, 3, 2]);
    }

    #[test]
    fn halos_reach_the_neighbours_on_the_grid() {
        let halo = |dimensions: &[u32], periodic| Builtin::Halo { dimensions: dimensions.to_vec(), periodic };
        assert_eq!(pairs(&halo(&[3], false), 3), [(0, 1), (1, 2), (1, 0), (2, 1)]);
        assert_eq!(pairs(&halo(&[3], true), 3), [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)]);
        assert_eq!(pairs(&halo(&[2, 2], false), 4).len(), 8);
        assert_eq!(pairs(&halo(&[2], true), 2), [(0, 1), (0, 1), (1, 0), (1, 0)]);
        let inner = pairs(&halo(&[3, 3, 3], false), 27).into_iter().filter(|&(source, _)| source == 13);
        let mut reached: Vec<u32> = inner.map(|(_, destination)| destination).collect();
        reached.sort_unstable();
        assert_eq!(reached, [4, 10, 12, 14, 16, 22]);
        assert!(halo(&[4, 4], false).pattern(8, 8, Backend::Isend).unwrap_err().contains("4x4 needs 16"));
    }

    #[test]
    fn stripes_and_trees_bring_all_bytes_where_they_belong() {
        let stripe = Builtin::Stripe { size: 3, within: Backend::Put };
        for bytes in [1, 2, 100, 301] {
            let pattern = stripe.pattern(bytes, 6, Backend::Isend).unwrap();
            assert_eq!(pattern.check(6), Ok(()), "{pattern}");
            let arena = &provenance::after(&pattern, 6)[3];
            let arrived: Vec<_> = arena.pieces().take_while(|&(begin, _, _)| begin < bytes).collect();
            assert!(arrived.iter().all(|(begin, _, from)| (from.rank, from.offset) == (0, *begin)));
            assert!(arrived.last().is_some_and(|&(_, end, _)| end == bytes), "{bytes}");
        }
        let tree = Builtin::Tree.pattern(10, 7, Backend::Isend).unwrap();
        assert_eq!(tree.steps.iter().map(|step| step.messages.len()).collect::<Vec<_>>(), [1, 2, 3]);
        for arena in provenance::after(&tree, 7) {
            assert!(arena.pieces().all(|(_, _, from)| from.rank == 0));
        }
    }

    #[test]
    fn a_reply_waits_for_the_window_and_is_waited_for() {
        use crate::schedule::{Action, schedule};
        for exchange in [Exchange::PingPong, Exchange::Uni, Exchange::Bi] {
            let builtin = Builtin::PointToPoint { ranks: [0, 1], exchange, window: 8 };
            let pattern = builtin.pattern(100, 2, Backend::Isend).unwrap();
            assert_eq!(pattern.check(2), Ok(()), "{pattern}");
            let expected = [Action::Start(0), Action::Wait(0), Action::Start(1), Action::Wait(1)];
            assert_eq!(schedule(&pattern, 0), expected, "{pattern}");
            assert_eq!(schedule(&pattern, 1), expected, "{pattern}");
        }
    }

    #[test]
    fn one_rank_is_told_to_start_more() {
        let groups = Groups { count: 2, size: 0, active: 0 };
        for builtin in [
            Builtin::Rail(groups, Direction::Uni),
            Builtin::Stripe { size: 0, within: Backend::Isend },
            Builtin::AllToAll,
            Builtin::Tree,
        ] {
            let said = builtin.pattern(8, 1, Backend::Isend).unwrap_err();
            assert!(said.contains("with mpirun -n") && said.contains("more"), "{said}");
        }
    }

    #[test]
    fn an_all_to_all_has_each_pair_once() {
        let mut all = pairs(&Builtin::AllToAll, 4);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12);
    }
}
