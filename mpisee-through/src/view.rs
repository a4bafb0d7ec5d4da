//! A profile as commands see it, with a row of each rank or with sums over ranks.
//!
//! Commands ask the view for what they need and get it from the tables that the profile has, or
//! [`Unanswerable`]. Where the two layouts have different answers, a command matches on
//! [`ProcessRows`], which holds the rows of either.

use crate::filter::{CallFilter, CommFilter};
use crate::group::{self, By, Cell, Groups, Times};
use crate::load;
use crate::processes::{ProcessRows, Processes};
use crate::several_comms;
use crate::useful::Useful;
use anyhow::{Result, bail};
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::operation;
use mpisee_profile::rows::{CommRow, NcclTimeRow, RankRow, RegionRow, RegionTotalRow, Row};
use mpisee_profile::run::Lacking;
use mpisee_profile::{Profile, ProfileError, RunInfo};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// The note on times of calls of NCCL.
pub const TIMES_OF_NCCL: &str =
    "Times of NCCL calls are host times: a call returns when its work is in the stream.";

/// A profile that is open, with its processes and communicators.
pub struct ProfileView {
    profile: Profile,
    processes: Processes,
}

/// A question that sums over ranks do not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswerable {
    profile: PathBuf,
    ranks: u32,
    /// The data that sums over ranks do not have.
    missing: &'static str,
}

impl fmt::Display for Unanswerable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unanswerable { profile, ranks, missing } = self;
        write!(
            out,
            "'{}' has sums over ranks, which do not tell {missing}. A run with mpisee --fold {ranks} \
             (MPISEE_FOLD={ranks}) keeps rows of each rank",
            profile.display()
        )
    }
}

impl Error for Unanswerable {}

/// A region of the program, over the ranks that entered it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionSum {
    pub ranks: u64,
    pub entries: u64,
    pub wall_s: f64,
    pub wall_max_s: f64,
    pub useful: Useful,
    /// True if the profile does not tell which of a rank's threads call MPI there, so that all
    /// count.
    has_all_threads: bool,
    /// Ranks whose time on cores is unknown.
    pub without_cpu: u64,
    /// Time on cores, of the others.
    pub cpu_s: f64,
}

/// An operation over all communicators.
pub struct OperationOverComms {
    pub call: String,
    /// The number of communicators on which it was called.
    pub comms: u64,
    /// True if one call of the program may count on several of these, see [`several_comms`].
    pub is_counted_on_each: bool,
    pub sum: Cell,
}

impl ProfileView {
    /// Opens the profile directory.
    pub fn open(directory: &Path) -> Result<Self> {
        let profile = load::open(directory)?;
        let processes = Processes::load(&profile)?;
        Ok(ProfileView { profile, processes })
    }

    /// The profile, for tables that both layouts have.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The contents of `run.json`.
    pub fn run(&self) -> &RunInfo {
        self.profile.run()
    }

    /// The name of the program that ran: of a script, where that is what its interpreter ran.
    pub fn program(&self) -> String {
        let words = &self.run().command;
        let name =
            |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
        let is_python = |name: &String| name.starts_with("python");
        words.first().and_then(name).map_or_else(
            || "(unknown program)".to_owned(),
            |program| script.filter(|_| is_python(&program)).and_then(name).unwrap_or(program),
        )
    }

    /// The processes and communicators.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// The rows of ranks, for a question about `what`, which only they answer.
    pub fn ranks(&self, what: &'static str) -> Result<&[RankRow], Unanswerable> {
        match &self.processes.rows {
            ProcessRows::Ranks(ranks) => Ok(ranks),
            ProcessRows::Nodes(_) => Err(self.unanswerable(what)),
        }
    }

    /// An error if the profile is imported from a tool that does not record this.
    pub fn need(&self, what: Lacking) -> Result<()> {
        match &self.run().imported {
            Some(imported) if imported.lacks.contains(&what) => bail!(
                "'{}' is imported from {}, which does not have {}",
                self.profile.directory().display(),
                imported.tool,
                what.text()
            ),
            _ => Ok(()),
        }
    }

    /// An error if the processes did not use MPI, of whose calls this is.
    pub fn need_mpi(&self, what: &str) -> Result<()> {
        if self.run().is_without_mpi() {
            bail!(
                "'{}' has no {what}, because its processes ran without MPI. `summary`, `ops`, `ranks` and \
                 `gpu` show their NCCL calls",
                self.profile.directory().display()
            );
        }
        Ok(())
    }

    /// A note for an answer that is of MPI's communicators alone, where NCCL has some, too.
    pub fn note_of_mpi_alone(&self) -> Option<String> {
        let has_nccl = self.processes.comms.keys().any(|comm| is_nccl(comm));
        has_nccl.then(|| "NCCL communicators are left out; mpisee-through gpu shows them.".to_owned())
    }

    /// The note of an answer on calls in memory that is not the host's, where the program has
    /// waited for MPI.
    pub fn note_on_waits(&self, filter: &CallFilter) -> Option<String> {
        let sentence = "MPI_Wait, MPI_Win_fence and similar calls have no buffers. Waiting for data in these \
                        calls, also between GPUs, is under --memory host.";
        (filter.leaves_out_host() && !self.run().is_without_mpi()).then(|| sentence.to_owned())
    }

    /// The note of an answer with times of these calls, if NCCL's are among them.
    pub fn note_on_nccl_times<'c>(&self, calls: impl IntoIterator<Item = &'c str>) -> Option<String> {
        calls.into_iter().any(operation::is_nccl).then(|| self.times_of_nccl())
    }

    /// The same of an answer on all calls of the profile.
    pub fn note_on_times(&self) -> Option<String> {
        let has_nccl = self.processes.comms.keys().any(|comm| is_nccl(comm));
        has_nccl.then(|| self.times_of_nccl())
    }

    fn times_of_nccl(&self) -> String {
        match self.profile.directory().join(NcclTimeRow::FILE).exists() {
            true => format!("{TIMES_OF_NCCL} mpisee-through gpu has the GPU times."),
            false => TIMES_OF_NCCL.to_owned(),
        }
    }

    /// The error for a question about `missing`, which sums over ranks do not have.
    pub fn unanswerable(&self, missing: &'static str) -> Unanswerable {
        let profile = self.profile.directory().to_owned();
        Unanswerable { profile, ranks: self.run().ranks, missing }
    }

    /// Returns whether the other profile has its tables in the same layout.
    pub fn is_laid_out_as(&self, other: &ProfileView) -> bool {
        std::mem::discriminant(&self.processes.rows) == std::mem::discriminant(&other.processes.rows)
    }

    /// A note on the layout for the reader of its numbers.
    pub fn note(&self) -> Option<&'static str> {
        match &self.processes.rows {
            ProcessRows::Ranks(_) => None,
            ProcessRows::Nodes(_) => {
                Some("Rows are sums over ranks. Like communicators share one row (how many × size).")
            }
        }
    }

    /// Returns whether tables name the rank that took longest: of sums over ranks it is all that is
    /// known of single ranks.
    pub fn names_slowest_rank(&self) -> bool {
        !self.processes.nodes().is_empty()
    }

    /// Returns whether tables may put like communicators on one row: of sums over ranks the profile
    /// has done so.
    pub fn may_share_rows(&self) -> bool {
        matches!(self.processes.rows, ProcessRows::Ranks(_))
    }

    /// Sums of calls, by the columns of `by`, of the rows that the filter takes.
    pub fn group(&self, filter: &CallFilter, by: By) -> Result<Groups> {
        match &self.processes.rows {
            ProcessRows::Ranks(_) => group::of_rows(&self.profile, &self.processes, filter, by),
            ProcessRows::Nodes(_) => {
                self.need_no_choice_of_ranks(&filter.comms)?;
                if by.rank {
                    return Err(self.unanswerable("what single ranks did").into());
                }
                group::of_sums(&self.profile, &self.processes, filter, by)
            }
        }
    }

    /// A sentence about the operations among `shown` of which one call counts on several
    /// communicators. Each of `shown` is an operation, and the number of communicators over which
    /// its calls are added up.
    ///
    /// # Errors
    /// As [`ProfileView::group`].
    pub fn note_on_calls<'s>(
        &self,
        filter: &CallFilter,
        shown: impl IntoIterator<Item = (&'s str, usize)>,
    ) -> Result<Option<String>> {
        let of_several = shown.into_iter().filter(|&(_, comms)| comms > 1).map(|(call, _)| call);
        let of_several: HashSet<&str> = of_several.collect();
        if of_several.is_empty() {
            return Ok(None);
        }
        let groups = self.group(filter, By { comm: true, call: true, ..By::default() })?;
        let on_each = several_comms::counted_on_each(&groups);
        let named = on_each.iter().map(String::as_str).filter(|call| of_several.contains(call));
        Ok(several_comms::sentence(named))
    }

    fn need_no_choice_of_ranks(&self, filter: &CommFilter) -> Result<(), Unanswerable> {
        if filter.names_ranks() { self.ranks("single ranks apart").map(drop) } else { Ok(()) }
    }

    /// Sums of operations over all communicators, and the error that ended reading.
    pub fn operations(&self, filter: &CallFilter) -> Result<(Vec<OperationOverComms>, Option<ProfileError>)> {
        let groups = self.group(filter, By { comm: true, call: true, ..By::default() })?;
        let on_each = several_comms::counted_on_each(&groups);
        let mut calls: BTreeMap<&str, (u64, Cell)> = BTreeMap::new();
        for (key, cell) in &groups.cells {
            let (comms, sum) = calls.entry(groups.call(key)).or_insert((0, Cell::EMPTY));
            *comms += 1;
            sum.merge(cell.clone());
        }
        if let ProcessRows::Nodes(_) = &self.processes.rows {
            // Statistics over the ranks of single communicators do not add up; those over all
            // communicators have rows of their own.
            let over_all = self.group(filter, By { call: true, ..By::default() })?;
            for (key, cell) in &over_all.cells {
                if let Some((_, sum)) = calls.get_mut(over_all.call(key)) {
                    sum.ranks = cell.ranks.clone();
                }
            }
        }
        // Other tools do not split calls among the communicators of their requests.
        let is_split = self.run().imported.is_none();
        let operation = |(call, (comms, sum)): (&str, (u64, Cell))| OperationOverComms {
            call: call.to_owned(),
            comms,
            is_counted_on_each: is_split && on_each.contains(call),
            sum,
        };
        let operations = calls.into_iter().map(operation).collect();
        Ok((operations, groups.cut_off))
    }

    /// The filter with bounds on times replaced by the operations whose slowest rank is within
    /// them.
    pub fn with_times_as_operations(&self, filter: &CallFilter) -> Result<CallFilter> {
        Ok(match self.operations_within_times(filter)? {
            Some(operations) => filter.of_operations(operations),
            None => filter.clone(),
        })
    }

    /// The operations whose slowest rank is within the filter's bounds on times, over the
    /// communicators that it takes; none if it has no bound.
    pub fn operations_within_times(&self, filter: &CallFilter) -> Result<Option<BTreeSet<String>>> {
        let (of_any_time, has_bound) = filter.without_times();
        if !has_bound {
            return Ok(None);
        }
        let (mut operations, _) = self.operations(&of_any_time)?;
        operations.retain(|of| filter.takes_time(of.sum.ranks.most_ns().map(group::seconds)));
        Ok(Some(operations.into_iter().map(|of| of.call).collect()))
    }

    /// How the times of ranks in all operations on a communicator differ, by name; only where this
    /// does not follow from the times in each operation.
    pub fn times_over_operations(&self, filter: &CallFilter) -> Result<HashMap<String, Times>> {
        match &self.processes.rows {
            ProcessRows::Ranks(_) => Ok(HashMap::new()),
            ProcessRows::Nodes(_) => {
                let mut groups = self.group(filter, By { comm: true, ..By::default() })?;
                let cells = std::mem::take(&mut groups.cells).into_iter();
                Ok(cells.map(|(key, cell)| (groups.comm(&key).to_owned(), cell.ranks)).collect())
            }
        }
    }

    /// The number of ranks over which means on communicators are taken: their members that have a
    /// profile and that the filter takes, and any others that have times.
    pub fn ranks_on<'t>(
        &self,
        rows: &[&CommRow],
        times: impl Iterator<Item = &'t Times>,
        filter: &CommFilter,
    ) -> u64 {
        if let ProcessRows::Nodes(_) = &self.processes.rows {
            let with_rows = times.filter_map(Times::ranks).max().unwrap_or(0);
            return rows.iter().map(|row| row.members.len()).sum::<u64>().max(with_rows).max(1);
        }
        let members = rows.iter().flat_map(|row| self.processes.present_members(&row.members));
        let mut ranks: HashSet<u32> = members.filter(|&rank| filter.takes_rank(rank)).collect();
        ranks.extend(times.flat_map(|times| times.each().map(|(rank, _)| rank)));
        ranks.len() as u64
    }

    /// The regions by name, over the ranks that the filter takes.
    pub fn regions(&self, filter: &CommFilter) -> Result<BTreeMap<String, RegionSum>> {
        let mut regions: BTreeMap<String, RegionSum> = BTreeMap::new();
        if let ProcessRows::Nodes(_) = &self.processes.rows {
            self.need_no_choice_of_ranks(filter)?;
            let (run, ranks) = (self.processes.useful(), self.processes.count());
            for row in load::all::<RegionTotalRow>(&self.profile)? {
                let useful = Useful::of_region_total(&row, &run, ranks);
                regions.entry(row.region).or_default().add(RegionSum {
                    ranks: row.ranks,
                    entries: row.entries,
                    wall_s: row.wall_s.0,
                    wall_max_s: row.wall_max_s.0,
                    useful,
                    has_all_threads: row.mpi_threads.is_none() && run.most_threads > 1,
                    without_cpu: row.ranks,
                    cpu_s: 0.0,
                });
            }
            return Ok(regions);
        }
        let ranks: HashMap<u32, &RankRow> =
            self.processes.ranks().iter().map(|row| (row.rank, row)).collect();
        let unknown = RankRow::default();
        for row in load::all::<RegionRow>(&self.profile)? {
            if filter.takes_rank(row.rank) {
                let rank = ranks.get(&row.rank).copied().unwrap_or(&unknown);
                let useful = Useful::of_region(&row, rank);
                regions.entry(row.region).or_default().add(RegionSum {
                    ranks: 1,
                    entries: row.entries,
                    wall_s: row.wall_s.0,
                    wall_max_s: row.wall_s.0,
                    useful,
                    has_all_threads: row.mpi_threads.is_none() && rank.threads() > 1.0,
                    without_cpu: u64::from(row.cpu_s.is_none()),
                    cpu_s: row.cpu_s.map_or(0.0, |cpu_s| cpu_s.0),
                });
            }
        }
        Ok(regions)
    }
}

impl RegionSum {
    fn add(&mut self, other: RegionSum) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.entries = self.entries.saturating_add(other.entries);
        self.wall_s += other.wall_s;
        self.wall_max_s = self.wall_max_s.max(other.wall_max_s);
        self.useful.add(other.useful);
        self.has_all_threads |= other.has_all_threads;
        self.without_cpu = self.without_cpu.saturating_add(other.without_cpu);
        self.cpu_s += other.cpu_s;
    }

    /// The note on shares of regions, where the profile does not tell which threads call MPI in
    /// them.
    pub fn note_on_threads<'r>(mut regions: impl Iterator<Item = &'r RegionSum>) -> Option<String> {
        regions.any(|region| region.has_all_threads).then(|| {
            "The profile does not tell which threads call MPI in a region. Shares of regions count all \
             threads of a rank that call MPI. Shares are too small if fewer threads call MPI in the region."
                .to_owned()
        })
    }

    /// Time on cores, if it is known of all ranks.
    pub fn cpu_s(&self) -> Option<f64> {
        (self.ranks > 0 && self.without_cpu == 0).then_some(self.cpu_s)
    }
}
