//! A run as it is compared with others: its time, divided among the operations of each family of
//! communicators.

use crate::command::efficiency::Efficiency;
use crate::cores;
use crate::family_rows;
use crate::filter::CallFilter;
use crate::group::By;
use crate::interrupted;
use crate::sheet::caveats;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::comm_name::derived;
use mpisee_profile::comm_name::is_nccl as is_nccl_comm;
use mpisee_profile::operation::is_nccl;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// An operation on a family of communicators; or a time that is in no operation, as a family
/// without operation.
pub type Part = (String, String);

/// The time that ranks spend outside of MPI, and in no call of NCCL.
pub const OUTSIDE: &str = "outside of MPI";
/// The same of runs without MPI.
pub const OUTSIDE_OF_NCCL: &str = "outside of NCCL";
/// The time that ranks wait in `MPI_Finalize` for the last one.
pub const AT_END: &str = "waiting in MPI_Finalize";

/// Sums over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    pub time_s: f64,
    pub calls: f64,
    pub bytes: f64,
}

/// A run.
pub struct Run {
    pub path: PathBuf,
    pub command: Vec<String>,
    pub ranks: u64,
    pub nodes: u32,
    /// Name and version of the MPI library.
    pub library: String,
    /// When it began, in a form that sorts by time.
    pub start: String,
    /// The wall time of the longest rank.
    pub runtime_s: f64,
    /// Over all ranks, the time in MPI.
    pub mpi_s: f64,
    pub is_without_mpi: bool,
    pub efficiency: Efficiency,
    /// The times add up to that of all ranks: ranks x runtime.
    pub parts: BTreeMap<Part, Sums>,
    /// The ranks that had no core, if any.
    pub lack: Option<String>,
    /// Limits of the profile.
    pub limits: Vec<String>,
    /// The note on times of NCCL's calls, if there are any.
    pub on_nccl: Option<String>,
}

impl Run {
    /// Reads the profile.
    pub fn read(path: &Path) -> Result<Self> {
        let view = ProfileView::open(path)?;
        let efficiency = Efficiency::of_run(&view);
        let processes = view.processes();
        let parts = parts(&view, &efficiency)?;
        let info = view.run();
        let library = info.mpi.library.split([',', '\n']).next().unwrap_or_default();
        let mut limits = caveats(view.profile());
        limits.extend(interrupted::warning(&view));
        let on_nccl = view.note_on_times();
        Ok(Run {
            path: path.to_owned(),
            command: info.command.clone(),
            ranks: info.ranks.into(),
            nodes: info.nodes,
            library: library.split_whitespace().collect::<Vec<_>>().join(" "),
            start: info.start.clone(),
            runtime_s: processes.wall_max_s(),
            mpi_s: processes.mpi_s(),
            is_without_mpi: info.is_without_mpi(),
            parts,
            lack: cores::lack(processes, |_| true).map(|lack| lack.sentence()),
            limits,
            on_nccl,
            efficiency,
        })
    }

    /// The name of the profile for a reader who knows the folder.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Time, calls and bytes of a part; nothing if the run has no such part.
    pub fn part(&self, part: &Part) -> Sums {
        self.parts.get(part).copied().unwrap_or_default()
    }

    /// The time of a part by rank of the run.
    pub fn time_per_rank_s(&self, part: &Part) -> f64 {
        self.part(part).time_s / self.ranks.max(1) as f64
    }
}

/// The parts of all ranks' time.
fn parts(view: &ProfileView, efficiency: &Efficiency) -> Result<BTreeMap<Part, Sums>> {
    let names = names(view);
    let by = By { comm: true, call: true, without_times: true, ..By::default() };
    let groups = view.group(&CallFilter::default(), by)?;
    let mut parts: BTreeMap<Part, Sums> = BTreeMap::new();
    // Outside of MPI, and a part of its own.
    let mut nccl_s = 0.0;
    for (key, cell) in &groups.cells {
        let comm = groups.comm(key);
        let name = names.get(comm).cloned().unwrap_or_else(|| comm.to_owned());
        let sums = parts.entry((name, groups.call(key).to_owned())).or_default();
        sums.time_s += cell.time_s();
        if is_nccl(groups.call(key)) {
            nccl_s += cell.time_s();
        }
        sums.calls += cell.calls as f64;
        sums.bytes += cell.bytes as f64;
    }
    if let Some(error) = groups.cut_off {
        // Sums of a part of the table compare with nothing.
        return Err(error.into());
    }
    let mut add = |name: &str, time_s: f64| {
        parts.insert((name.to_owned(), String::new()), Sums { time_s, ..Sums::default() });
    };
    let is_without_mpi = view.run().is_without_mpi();
    let outside = if is_without_mpi { OUTSIDE_OF_NCCL } else { OUTSIDE };
    add(outside, (efficiency.useful.outside_s - nccl_s).max(0.0));
    let processes = view.processes();
    let at_end_s = processes.early_s();
    // Where ranks ended without MPI_Finalize, or are without MPI, none waited there.
    let have_finalized = !interrupted::is_of(view.run()) && !is_without_mpi;
    if at_end_s > 0.0 && have_finalized {
        add(AT_END, at_end_s);
    }
    Ok(parts)
}

/// For each communicator the name of its family, which runs with other numbers of ranks have as
/// well: without sizes, and with `*` for each number that depends on ranks. Those of NCCL that are
/// made of ids differ in nothing else: their size tells them apart from the one of all ranks.
fn names(view: &ProfileView) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for family in family_rows::of_table(view, |_| true, true) {
        let without_size = family.name.split('@').next().unwrap_or_default();
        let common = derived(without_size, |name| name.without_ranks().without_size());
        names.extend(family.rows.iter().map(|row| {
            let is_part_of_run =
                is_nccl_comm(&row.comm) && row.parent.is_empty() && row.size < view.run().ranks;
            let name = if is_part_of_run { format!("{common}@{}", row.size) } else { common.clone() };
            (row.comm.clone(), name)
        }));
    }
    names
}
