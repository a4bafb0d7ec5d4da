//! The input of the rules: a profile summed up by communicator, operation and size.

use crate::beside_network::Comparison;
use crate::cores::{self, Lack};
use crate::family::range;
use crate::family_rows;
use crate::filter::{CallFilter, CommFilter};
use crate::group::{By, Cell, GroupKey, Groups, seconds};
use crate::interrupted;
use crate::polls::may_be_of_hang;
use crate::processes::Processes;
use crate::several_comms;
use crate::shape::{self, Shape};
use crate::sites::{PlaceSum, SiteArgs, Sites, place_sums};
use crate::view::ProfileView;
use crate::waits::{self, Report};
use anyhow::Result;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::CommRow;
use mpisee_profile::{Operation, OperationKind, ProfileError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Calls, bytes and time of one size class.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfSize {
    pub size_min: u64,
    pub size_max: u64,
    pub calls: u64,
    pub bytes: u64,
    pub time_s: f64,
    /// The shortest call.
    pub min_s: f64,
}

impl OfSize {
    /// The time of its calls if all were as short as the shortest, in seconds.
    pub fn least_s(&self) -> f64 {
        self.calls as f64 * self.min_s
    }
}

/// An operation on a communicator.
#[derive(Clone, Debug)]
pub struct Used {
    pub call: String,
    pub kind: Option<OperationKind>,
    pub calls: u64,
    pub bytes: u64,
    pub time_s: f64,
    pub sizes: Vec<OfSize>,
}

/// A communicator with what happened on it.
#[derive(Clone, Debug)]
pub struct Comm<'a> {
    pub name: String,
    pub row: Option<&'a CommRow>,
    pub shape: Shape,
    pub used: Vec<Used>,
}

impl Comm<'_> {
    /// The number of processes; 0 if it is unknown.
    pub fn size(&self) -> u32 {
        self.row.map_or(0, |row| row.size)
    }

    /// The operation of that name, if it was used.
    pub fn call(&self, call: &str) -> Option<&Used> {
        self.used.iter().find(|used| used.call == call)
    }

    /// The time in the operations that are chosen.
    pub fn time_s(&self, chosen: impl Fn(&Used) -> bool) -> f64 {
        self.used.iter().filter(|used| chosen(used)).map(|used| used.time_s).sum()
    }
}

/// Like communicators, or a single one, with the sums of what happened on them.
pub struct FamilyFacts<'f> {
    /// `W_s2.*`, or the name of the only one.
    pub name: &'f str,
    /// The name, of several with their number and size: `W_s2.* (4 × 8)`.
    pub title: &'f str,
    pub comms: Vec<&'f Comm<'f>>,
    /// The sum of each operation.
    pub used: Vec<Used>,
}

impl FamilyFacts<'_> {
    /// The value of `--comm` for all of its members, and nothing that was made of them.
    pub fn filter_text(&self) -> String {
        match self.comms.len() {
            1 => self.name.to_owned(),
            _ if self.name.contains('@') => self.name.to_owned(),
            _ => format!("{}@{}", self.name, range(self.comms.iter().map(|comm| comm.size()))),
        }
    }

    /// How many processes the largest has; 0 if that is unknown.
    pub fn size(&self) -> u32 {
        self.comms.iter().map(|comm| comm.size()).max().unwrap_or(0)
    }

    /// The operation of that name, if it was used.
    pub fn call(&self, call: &str) -> Option<&Used> {
        self.used.iter().find(|used| used.call == call)
    }

    /// The time in the operations that are chosen.
    pub fn time_s(&self, chosen: impl Fn(&Used) -> bool) -> f64 {
        self.used.iter().filter(|used| chosen(used)).map(|used| used.time_s).sum()
    }
}

/// Name, title and members of a family.
struct Named {
    name: String,
    title: String,
    comms: Vec<String>,
}

/// The input of the rules.
pub struct Facts<'a> {
    /// The profile, for rules that need more than its sums.
    pub view: &'a ProfileView,
    pub processes: &'a Processes,
    filter: &'a CommFilter,
    /// True if ranks ended without `MPI_Finalize`.
    pub is_interrupted: bool,
    /// The MPI library's description and the flavour that recorded.
    pub library: String,
    pub flavour: String,
    /// The number of chosen ranks × the wall time of the longest rank; of an incomplete profile
    /// their own wall times.
    pub run_s: f64,
    /// The time in MPI of the chosen ranks, over all of them.
    pub mpi_s: f64,
    /// The operations of which one call may count on several communicators.
    counted_on_each: BTreeSet<String>,
    /// How many ranks the fullest node has.
    pub ranks_per_node: u32,
    /// The chosen ranks that were ready to run and had no core.
    pub lack: Option<Lack>,
    /// True if it was measured.
    pub knows_waits: bool,
    /// All communicators with or without calls, by name, with the calls of chosen ranks.
    pub comms: BTreeMap<String, Comm<'a>>,
    /// The tests or probes on a communicator that take most of the time that a hang may explain.
    pub of_hang: Option<OfHang>,
    /// The chosen communicators.
    families: Vec<Named>,
    /// The index of each one's family.
    family_indices: HashMap<String, usize>,
    /// Who waits for whom in collectives and messages, if the profile has that.
    pub waits: Option<Report>,
    /// The network as the program got it beside a replay, if there is one.
    pub network: Option<Comparison>,
    /// A sentence on a file beside the profile that cannot be read.
    pub unreadable_network: Option<String>,
    /// Where in the program calls are made that no hang may explain; nothing of a profile without
    /// call sites.
    pub places: Vec<PlaceSum>,
    pub cut_off: Option<ProfileError>,
}

impl<'a> Facts<'a> {
    /// Sums the profile up.
    pub fn gather(view: &'a ProfileView, filter: &'a CommFilter) -> Result<Self> {
        let processes = view.processes();
        // A creation is a call on the parent, which need not be among the chosen ones.
        let of_ranks = CallFilter::from_comms(filter.without_comms());
        let by = By { comm: true, call: true, ..By::default() };
        let mut groups = view.group(&of_ranks, by)?;
        let by_size = By { size: true, without_times: true, ..by };
        let sizes = view.group(&of_ranks, by_size)?;
        let comms = used_comms(view, &groups, &sizes);
        let families = named_families(view, filter, &comms);
        let indices = families.iter().enumerate();
        let indices =
            indices.flat_map(|(index, named)| named.comms.iter().map(move |comm| (comm.clone(), index)));
        Ok(Facts {
            view,
            processes,
            filter,
            is_interrupted: interrupted::is_of(view.run()),
            library: view.run().mpi.library.clone(),
            flavour: view.run().mpi.flavour.clone(),
            run_s: processes.run_s(filter, view.run().complete),
            mpi_s: processes.chosen_mpi_s(filter),
            ranks_per_node: u32::try_from(processes.ranks_per_node()).unwrap_or(u32::MAX),
            lack: cores::lack(processes, |rank| filter.takes_rank(rank)),
            knows_waits: cores::is_measured(processes),
            counted_on_each: several_comms::counted_on_each(&groups),
            family_indices: indices.collect(),
            families,
            comms,
            of_hang: longest_of_hang(view, &groups, filter),
            waits: measured_waits(view, filter)?,
            network: None,
            unreadable_network: None,
            places: places(view, &of_ranks)?,
            cut_off: groups.cut_off.take(),
        })
    }

    /// The chosen communicators, like ones together.
    pub fn families(&self) -> impl Iterator<Item = FamilyFacts<'_>> {
        self.families.iter().map(|named| {
            let comms: Vec<&Comm<'_>> = named.comms.iter().filter_map(|comm| self.comms.get(comm)).collect();
            FamilyFacts { name: &named.name, title: &named.title, used: sums(&comms), comms }
        })
    }

    /// Name and title of the family of a chosen communicator; of another one its own name.
    pub fn family_of<'f>(&'f self, comm: &'f str) -> (&'f str, &'f str) {
        let family = self.family_indices.get(comm).map(|&index| &self.families[index]);
        family.map_or((comm, comm), |family| (&family.name, &family.title))
    }

    /// Returns whether one call of the operation may count on several communicators, so that its
    /// number of calls and their mean time are not those of the program.
    pub fn is_counted_on_each(&self, call: &str) -> bool {
        self.counted_on_each.contains(call)
    }

    /// Returns whether ranks or communicators are chosen.
    pub fn is_a_part(&self) -> bool {
        self.filter.names_ranks() || self.filter.names_comms()
    }

    /// Returns whether ranks are chosen.
    pub fn names_ranks(&self) -> bool {
        self.filter.names_ranks()
    }

    /// Returns whether the communicator is chosen.
    pub fn is_chosen(&self, row: &CommRow) -> bool {
        self.processes.takes_row(self.filter, row)
    }

    /// Returns whether the communicator of that name is chosen.
    pub fn is_chosen_name(&self, comm: &str) -> bool {
        self.family_indices.contains_key(comm)
    }

    /// Returns whether the rank is chosen.
    pub fn takes_rank(&self, rank: u32) -> bool {
        self.filter.takes_rank(rank)
    }

    /// The chosen members of a communicator of which the profile has counts.
    pub fn members(&self, row: &CommRow) -> Vec<u32> {
        let mut members = self.processes.present_members(&row.members);
        members.retain(|&rank| self.filter.takes_rank(rank));
        members
    }

    /// The number of processes that are chosen members of some communicator of the family, 1 at
    /// least.
    pub fn processes_of(&self, family: &FamilyFacts<'_>) -> u64 {
        let rows = || family.comms.iter().filter_map(|comm| comm.row);
        let chosen: BTreeSet<u32> = rows().flat_map(|row| self.members(row)).collect();
        match self.processes.nodes().is_empty() {
            true => (chosen.len() as u64).max(1),
            false => self.processes.count_in_any(rows()).max(1),
        }
    }

    /// A time over all chosen ranks as a share of [`Facts::run_s`].
    pub fn share_of_run(&self, time_s: f64) -> f64 {
        if self.run_s > 0.0 { time_s / self.run_s } else { 0.0 }
    }
}

/// The waits of a profile that has samples of single ranks.
fn measured_waits(view: &ProfileView, filter: &CommFilter) -> Result<Option<Report>> {
    let has_samples = waits::has_samples(view.profile());
    has_samples.then(|| waits::measure(view, &waits::filter(filter, &[]))).transpose()
}

fn places(view: &ProfileView, filter: &CallFilter) -> Result<Vec<PlaceSum>> {
    let Some(mut sites) = Sites::from_view(view, &SiteArgs::default(), &[])? else { return Ok(Vec::new()) };
    let mut sums = place_sums(view, &mut sites, filter)?.sums;
    for PlaceSum { call, comms, .. } in &mut sums {
        comms.retain(|comm, _| !may_be_of_hang(call, comm, &view.run().ended_in));
    }
    Ok(sums)
}

fn named_families(view: &ProfileView, filter: &CommFilter, comms: &BTreeMap<String, Comm<'_>>) -> Vec<Named> {
    let processes = view.processes();
    let is_chosen = |row: &CommRow| processes.takes_row(filter, row);
    let named = |family: family_rows::Family<'_>| Named {
        title: match family.count() {
            1 => family.name.clone(),
            _ => format!("{} ({})", family.name, family.size_text()),
        },
        comms: family.rows.iter().map(|row| row.comm.clone()).collect(),
        name: family.name,
    };
    let mut families: Vec<Named> =
        family_rows::of_table(view, is_chosen, true).into_iter().map(named).collect();
    let unknown =
        comms.values().filter(|comm| comm.row.is_none() && processes.takes_comm(filter, &comm.name));
    families.extend(unknown.map(|comm| Named {
        name: comm.name.clone(),
        title: comm.name.clone(),
        comms: vec![comm.name.clone()],
    }));
    families
}

/// Tests or probes on a communicator that no rule is about, since a hang may explain them.
pub struct OfHang {
    pub call: String,
    pub comm: String,
    pub time_s: f64,
}

/// Those that take most time on a chosen communicator.
fn longest_of_hang(view: &ProfileView, groups: &Groups, filter: &CommFilter) -> Option<OfHang> {
    let found = groups.cells.iter().filter_map(|(key, cell)| {
        let (call, comm) = (groups.call(key).to_owned(), groups.comm(key).to_owned());
        let is_here =
            may_be_of_hang(&call, &comm, &view.run().ended_in) && view.processes().takes_comm(filter, &comm);
        is_here.then(|| OfHang { call, comm, time_s: cell.time_s() })
    });
    found.max_by(|one, other| one.time_s.total_cmp(&other.time_s))
}

/// Sums over some communicators, by operation.
fn sums(comms: &[&Comm<'_>]) -> Vec<Used> {
    let mut sums: BTreeMap<&str, Used> = BTreeMap::new();
    for used in comms.iter().flat_map(|comm| &comm.used) {
        let nothing = || Used { sizes: Vec::new(), calls: 0, bytes: 0, time_s: 0.0, ..used.clone() };
        let sum = sums.entry(&used.call).or_insert_with(nothing);
        sum.calls = sum.calls.saturating_add(used.calls);
        sum.bytes = sum.bytes.saturating_add(used.bytes);
        sum.time_s += used.time_s;
        sum.sizes.extend_from_slice(&used.sizes);
    }
    sums.into_values().collect()
}

/// The communicators with what is called on them, by operation and by size.
fn used_comms<'a>(view: &'a ProfileView, groups: &Groups, sizes: &Groups) -> BTreeMap<String, Comm<'a>> {
    let mut comms = listed_comms(view.processes());
    for (key, cell) in &groups.cells {
        let name = groups.comm(key);
        // The rules are about MPI.
        if may_be_of_hang(groups.call(key), name, &view.run().ended_in) || is_nccl(name) {
            continue;
        }
        let comm = comms.entry(name.to_owned()).or_insert_with(|| Comm {
            name: name.to_owned(),
            row: None,
            shape: Shape::Other,
            used: Vec::new(),
        });
        comm.used.push(used(groups, key, cell));
    }
    for (key, cell) in &sizes.cells {
        let comm = comms.get_mut(sizes.comm(key));
        if let Some(used) = comm.and_then(|comm| {
            let call = sizes.call(key);
            comm.used.iter_mut().find(|used| used.call == call)
        }) {
            let (size_min, size_max) = sizes.size(key);
            let (calls, bytes) = (cell.calls, cell.bytes);
            let (time_s, min_s) = (cell.time_s(), seconds(cell.min_ns));
            used.sizes.push(OfSize { size_min, size_max, calls, bytes, time_s, min_s });
        }
    }
    comms
}

fn listed_comms(processes: &Processes) -> BTreeMap<String, Comm<'_>> {
    let of_mpi = processes.comms.values().filter(|row| !is_nccl(&row.comm));
    let rows: Vec<CommRow> = of_mpi.cloned().collect();
    let shapes = shape::shapes(&rows, processes);
    let comm = |(row, shape): (&CommRow, Shape)| {
        let known = processes.comms.get(&row.comm);
        (row.comm.clone(), Comm { name: row.comm.clone(), row: known, shape, used: Vec::new() })
    };
    rows.iter().zip(shapes).map(comm).collect()
}

fn used(groups: &Groups, key: &GroupKey, cell: &Cell) -> Used {
    let call = groups.call(key);
    Used {
        call: call.to_owned(),
        kind: Operation::from_name(call).map(Operation::kind),
        calls: cell.calls,
        bytes: cell.bytes,
        time_s: cell.time_s(),
        sizes: Vec::new(),
    }
}
