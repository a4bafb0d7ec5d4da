//! The processes and the communicators of a run.

use crate::family::{self, FamilyMembers};
use crate::filter::CommFilter;
use crate::load;
use crate::useful::Useful;
use mpisee_profile::rows::{CommRow, Members, NodeRow, RankRow};
use mpisee_profile::{Profile, ProfileError, RankSet};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// The table of processes.
pub enum ProcessRows {
    /// `ranks.csv`, a row of each rank.
    Ranks(Vec<RankRow>),
    /// `nodes.csv`, with sums over the ranks of each node.
    Nodes(Vec<NodeRow>),
}

/// The communicators and the processes of a run.
pub struct Processes {
    pub rows: ProcessRows,
    /// The ranks in `ranks.csv`.
    present: HashSet<u32>,
    /// `comms.csv`, by name.
    pub comms: HashMap<String, CommRow>,
    /// Made when a filter first asks for one.
    families: OnceLock<FamilyMembers>,
}

impl Processes {
    /// Reads the table of processes and `comms.csv`.
    pub fn load(profile: &Profile) -> Result<Self, ProfileError> {
        let rows = match profile.run().is_aggregate {
            true => ProcessRows::Nodes(load::all(profile)?),
            false => ProcessRows::Ranks(load::all(profile)?),
        };
        let present = match &rows {
            ProcessRows::Ranks(ranks) => ranks.iter().map(|row| row.rank).collect(),
            ProcessRows::Nodes(_) => HashSet::new(),
        };
        let comms = load::all::<CommRow>(profile)?.into_iter().map(|row| (row.comm.clone(), row)).collect();
        Ok(Processes { rows, present, comms, families: OnceLock::new() })
    }

    /// The families of like communicators, by names with sizes: `W_s2.*@4`.
    pub fn families(&self) -> &FamilyMembers {
        self.families.get_or_init(|| {
            let are_families = matches!(self.rows, ProcessRows::Nodes(_));
            family::members_by_sized_name(self.comms.values(), are_families)
        })
    }

    /// Returns whether the filter takes the communicator of this name.
    pub fn takes_comm(&self, filter: &CommFilter, comm: &str) -> bool {
        filter.takes_comm(comm, self.comms.get(comm), || self.families())
    }

    /// Returns whether the filter takes the communicator, and some member.
    pub fn takes_row(&self, filter: &CommFilter, row: &CommRow) -> bool {
        filter.takes_comm(&row.comm, Some(row), || self.families()) && filter.takes_members(&row.members)
    }

    /// The rows of ranks; none where there are only sums over the ranks of a node.
    pub fn ranks(&self) -> &[RankRow] {
        match &self.rows {
            ProcessRows::Ranks(ranks) => ranks,
            ProcessRows::Nodes(_) => &[],
        }
    }

    /// The rows of nodes; none where each rank has a row.
    pub fn nodes(&self) -> &[NodeRow] {
        match &self.rows {
            ProcessRows::Ranks(_) => &[],
            ProcessRows::Nodes(nodes) => nodes,
        }
    }

    /// How many processes there are.
    pub fn count(&self) -> u64 {
        self.ranks().len() as u64 + self.nodes().iter().map(|row| row.ranks).fold(0, u64::saturating_add)
    }

    /// How many processes the filter takes.
    pub fn chosen(&self, filter: &CommFilter) -> u64 {
        match &self.rows {
            ProcessRows::Ranks(ranks) => {
                ranks.iter().filter(|row| filter.takes_rank(row.rank)).count() as u64
            }
            ProcessRows::Nodes(_) => self.count(),
        }
    }

    /// The wall time of the longest rank.
    pub fn wall_max_s(&self) -> f64 {
        let nodes = self.nodes().iter().map(|row| row.wall_max_s.0);
        self.ranks().iter().map(|row| row.wall_s.0).chain(nodes).fold(0.0, f64::max)
    }

    /// The wall times of all ranks.
    pub fn wall_s(&self) -> f64 {
        let nodes = self.nodes().iter().map(|row| row.wall_s.0);
        self.ranks().iter().map(|row| row.wall_s.0).chain(nodes).sum()
    }

    /// The time of all ranks outside of MPI.
    pub fn useful(&self) -> Useful {
        self.chosen_useful(&CommFilter::default())
    }

    /// The time outside of MPI of the processes that the filter takes.
    fn chosen_useful(&self, filter: &CommFilter) -> Useful {
        let mut all = Useful::default();
        let ranks = self.ranks().iter().filter(|row| filter.takes_rank(row.rank));
        ranks.for_each(|row| all.add(Useful::of_rank(row)));
        self.nodes().iter().for_each(|row| all.add(Useful::of_node(row)));
        all
    }

    /// The part of their time that ranks were in MPI. `None` where they have none, or threads were
    /// in MPI at once and it is unknown how many.
    pub fn mpi_share(&self) -> Option<f64> {
        let useful = self.useful();
        (useful.thread_s > 0.0 && !useful.is_unknown).then(|| self.mpi_s() / useful.thread_s)
    }

    /// The whole of which "% of run" is a part: the wall time of the longest rank for each thread
    /// that calls MPI, of each process that the filter takes. Where ranks ended before
    /// `MPI_Finalize`, `is_complete` is false, their wall times, which are known up to some call
    /// alone. Where it is unknown how many threads were in MPI at once, their time in MPI is the
    /// least that it may be.
    pub fn run_s(&self, filter: &CommFilter, is_complete: bool) -> f64 {
        let useful = self.chosen_useful(filter);
        let run_s = if is_complete { self.wall_max_s() * useful.threads } else { useful.thread_s };
        if useful.is_unknown { run_s.max(self.chosen_mpi_s(filter)) } else { run_s }
    }

    /// The time that ranks ended before the last one, over their threads that call MPI.
    pub fn early_s(&self) -> f64 {
        let useful = self.useful();
        let early_s = self.wall_max_s() * useful.threads - useful.thread_s;
        // What rounding leaves of equal times is nothing.
        if early_s > 1e-12 * useful.thread_s { early_s } else { 0.0 }
    }

    /// The time of all ranks in MPI.
    pub fn mpi_s(&self) -> f64 {
        let nodes = self.nodes().iter().map(|row| row.mpi_s.0);
        self.ranks().iter().map(|row| row.mpi_s.0).chain(nodes).sum()
    }

    /// The time in MPI of the processes that the filter takes.
    pub fn chosen_mpi_s(&self, filter: &CommFilter) -> f64 {
        let ranks = self.ranks().iter().filter(|row| filter.takes_rank(row.rank)).map(|row| row.mpi_s.0);
        ranks.chain(self.nodes().iter().map(|row| row.mpi_s.0)).sum()
    }

    /// How many ranks the fullest node has.
    pub fn ranks_per_node(&self) -> u64 {
        let mut on_node: HashMap<&str, u64> = HashMap::new();
        let ranks = self.ranks().iter().map(|row| (row.host.as_str(), 1));
        for (host, ranks) in ranks.chain(self.nodes().iter().map(|row| (row.host.as_str(), row.ranks))) {
            *on_node.entry(host).or_default() += ranks;
        }
        on_node.into_values().max().unwrap_or(0)
    }

    /// The number of members of which the profile has counts: those with a row in `ranks.csv`, in
    /// sums over ranks all.
    pub fn present_count(&self, members: &Members) -> u64 {
        match &self.rows {
            ProcessRows::Ranks(_) => self.present_members(members).len() as u64,
            ProcessRows::Nodes(_) => members.len(),
        }
    }

    /// As [`Processes::present_count`], of members that the filter takes.
    pub fn chosen_count(&self, members: &Members, filter: &CommFilter) -> u64 {
        match &self.rows {
            ProcessRows::Ranks(_) => {
                self.present_members(members).into_iter().filter(|&rank| filter.takes_rank(rank)).count()
                    as u64
            }
            ProcessRows::Nodes(_) => members.len(),
        }
    }

    /// The number of ranks that are members of some of these communicators. Of sums over ranks it
    /// is not known which ranks several of them share: the number is that of the largest.
    pub fn count_in_any<'c>(&self, comms: impl Iterator<Item = &'c CommRow>) -> u64 {
        match &self.rows {
            ProcessRows::Ranks(_) => {
                let members = comms.flat_map(|row| self.present_members(&row.members));
                members.collect::<HashSet<u32>>().len() as u64
            }
            ProcessRows::Nodes(_) => comms.map(|row| row.members.len()).max().unwrap_or(0),
        }
    }

    /// The processes that the filter takes; where communicators are chosen, members of these alone.
    pub fn chosen_rows(&self, filter: &CommFilter) -> Vec<&RankRow> {
        let comms = self.comms.values().filter(|row| self.takes_comm(filter, &row.comm));
        let members: Option<HashSet<u32>> = filter
            .names_comms()
            .then(|| comms.flat_map(|row| row.members.all().iter().collect::<Vec<_>>()).collect());
        let takes = |row: &&RankRow| {
            filter.takes_rank(row.rank) && members.as_ref().is_none_or(|members| members.contains(&row.rank))
        };
        self.ranks().iter().filter(takes).collect()
    }

    /// The members that have a row in `ranks.csv`, ascending.
    pub fn present_members(&self, members: &Members) -> Vec<u32> {
        let groups = || std::iter::once(&members.group).chain(&members.remote);
        let listed: u64 = groups().map(RankSet::len).sum();
        // PERF: of the two sets, the smaller is walked.
        let mut found: Vec<u32> = if listed <= self.present.len() as u64 {
            groups().flat_map(|group| group.iter()).filter(|rank| self.present.contains(rank)).collect()
        } else {
            let is_member = |rank: &u32| groups().any(|group| group.contains(*rank));
            self.present.iter().copied().filter(is_member).collect()
        };
        found.sort_unstable();
        found.dedup();
        found
    }
}
