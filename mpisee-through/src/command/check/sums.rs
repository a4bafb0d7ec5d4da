//! The checks of a profile whose rows are sums over ranks.

use super::findings::{Check, Claims, Findings};
use super::sites::SiteCheck;
use super::times::{self, NOT_COMPARED, ROUNDING_S, SUMMATION, Times, WITHIN_LIVES, WITHOUT_TIMES};
use super::{explanation, gpu, traffic};
use crate::load::{self, is_one_per_process};
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::comm_name::{self, CommName, Root, is_shared_row};
use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::{
    CommRow, NodeRow, OffsetRow, OutsideTotalRow, Ranks, Row, Seconds, SiteTotalRow, SpreadRow, TotalRow,
};
use mpisee_profile::{Profile, ProfileError, RankSet, RunInfo, SiteId};
use std::collections::{BTreeMap, HashMap, HashSet};

const CLAIMS: Claims = Claims {
    ranks: "nodes.csv has every rank once",
    names: "names, parents and members of communicators agree",
    rows: "communicators, calls and bytes of totals.csv, spread.csv and offsets.csv agree",
    traffic: "what was sent is what was received, on each communicator at each distance",
    time: "the MPI time of all ranks is that of their calls",
    within_wall_time: "within their wall time",
};

/// Checks that the sums agree with each other.
pub fn check(view: &ProfileView, nodes: &[NodeRow], findings: &mut Findings) -> Result<()> {
    let (profile, run) = (view.profile(), view.run());
    findings.claims = CLAIMS;
    if run.is_without_mpi() {
        (findings.claims.time, findings.claims.within_wall_time) = WITHOUT_TIMES;
    }
    let comms: Vec<CommRow> = load::all(profile)?;
    let totals: Vec<TotalRow> = load::all(profile)?;
    let spread: Vec<SpreadRow> = load::all(profile)?;
    let offsets: Vec<OffsetRow> = load::all(profile)?;
    check_ranks(run, nodes, findings);
    check_names(run, &comms, findings);
    let rows_by_name: HashMap<&str, &CommRow> = comms.iter().map(|row| (row.comm.as_str(), row)).collect();
    let mut rows = Rows { comms: rows_by_name, reported: HashSet::new() };
    let mut sites = SiteCheck::read(profile, None, findings)?;
    for row in &totals {
        rows.check("totals.csv", &row.comm, Some(row.time_max_rank), findings);
        sites.total(row, findings);
    }
    sites.finish(explanation::incomplete(run), findings);
    for row in spread.iter().filter(|row| !row.comm.is_empty()) {
        rows.check("spread.csv", &row.comm, Some(row.time_max_rank), findings);
    }
    offsets.iter().for_each(|row| rows.check("offsets.csv", &row.comm, None, findings));
    for row in profile.rows_if_any::<OutsideTotalRow>()? {
        rows.check("outside-totals.csv", &row?.comm, None, findings);
    }
    check_times(run, nodes, &totals, findings);
    check_spread(&totals, &spread, findings);
    check_sites(&totals, &load_if_any(profile)?, findings);
    check_traffic(run, &offsets, findings);
    gpu::check_sums(profile, findings)
}

/// Every rank is on one node.
fn check_ranks(run: &RunInfo, nodes: &[NodeRow], findings: &mut Findings) {
    let mut all = Ranks::default();
    let mut sum = 0u64;
    for row in nodes {
        sum = sum.saturating_add(row.members.len());
        if row.members.len() != row.ranks {
            findings.differs(Check::Ranks, || {
                format!("node {} has {} ranks and the members {}", row.host, row.ranks, row.members)
            });
        }
        all.join(row.members.clone());
    }
    if all.len() < sum {
        findings.differs(Check::Ranks, || "a rank is on two nodes of nodes.csv".to_owned());
    }
    let last = match &all {
        Ranks::Listed(set) => set.ranges().iter().map(|range| range.last).max(),
        Ranks::Counted(_) => None,
    };
    if let Some(last) = last.filter(|&last| last >= run.ranks) {
        findings.differs(Check::Ranks, || {
            format!("rank {last} is in nodes.csv, and run.json has {} ranks", run.ranks)
        });
    }
    if sum != u64::from(run.ranks) {
        let because = explanation::incomplete(run);
        findings.differs_unless(because, Check::Ranks, || {
            format!("nodes.csv has {sum} ranks, and run.json has {}", run.ranks)
        });
    }
}

fn check_names(run: &RunInfo, comms: &[CommRow], findings: &mut Findings) {
    let incomplete = explanation::incomplete(run);
    let names: HashSet<&str> = comms.iter().map(|row| row.comm.as_str()).collect();
    let mut seen = HashSet::new();
    for row in comms {
        let CommRow { comm, parent, members, size, count, .. } = row;
        if !seen.insert(comm) {
            findings.differs(Check::Names, || format!("{comm} is in comms.csv more than once"));
        }
        if !parent.is_empty() && !names.contains(parent.as_str()) {
            findings.differs_unless(incomplete, Check::Names, || {
                format!("{comm} has the parent {parent}, which is not in comms.csv")
            });
        } else if !parent.is_empty() && !descends(comm, parent) {
            findings.differs(Check::Names, || format!("{comm} does not begin as its parent {parent} does"));
        }
        let groups = || std::iter::once(&members.group).chain(&members.remote);
        let last = groups().flat_map(RankSet::ranges).map(|range| range.last).max();
        if let Some(last) = last.filter(|&last| last >= run.ranks) {
            findings.differs(Check::Names, || {
                format!("{comm} has the member {last}, and run.json has {} ranks", run.ranks)
            });
        }
        let (listed, expected) =
            (members.len().saturating_add(members.outsiders()), count.saturating_mul((*size).into()));
        // Of a row for communicators without end each of its processes was in many.
        // A process may have several ranks of a communicator of NCCL.
        let is_plain = !is_one_per_process(comm) && !is_shared_row(comm) && !comm_name::is_nccl(comm);
        let agrees = if may_overlap(comm) { listed <= expected } else { listed == expected };
        if is_plain && !agrees {
            findings.differs_unless(incomplete, Check::Names, || {
                format!("{comm} stands for {count} communicators of size {size}, and has {listed} members")
            });
        }
    }
}

/// Returns whether communicators of a family may have members in common: those that several calls
/// made of groups, which their digests tell apart.
fn may_overlap(comm: &str) -> bool {
    comm.parse().is_ok_and(|name: CommName| {
        matches!(name.root(), Root::FromGroups(_))
            || name.steps().iter().any(|step| b"gx".contains(&step.letter))
    })
}

/// Returns whether the name is the parent's and one creation more, whatever the sizes and the
/// numbers of what one call made.
fn descends(comm: &str, parent: &str) -> bool {
    let pattern = |name: &str| name.parse().map(|name: CommName| name.pattern());
    match (pattern(comm), pattern(parent)) {
        (Ok(comm), Ok(parent)) => comm.parent() == Some(parent),
        _ => false,
    }
}

/// Rows of other tables name communicators of `comms.csv`, and members of them.
struct Rows<'a> {
    comms: HashMap<&'a str, &'a CommRow>,
    /// Findings that are reported once, and not again for each row.
    reported: HashSet<(&'static str, String)>,
}

impl Rows<'_> {
    fn check(&mut self, file: &'static str, comm: &str, rank: Option<u32>, findings: &mut Findings) {
        let what = match (self.comms.get(comm), rank) {
            (None, _) => format!("{comm} is in {file} and not in comms.csv"),
            (Some(row), Some(rank)) if !row.members.has_elided() && !row.members.contains(rank) => {
                format!("rank {rank} is in {file} on {comm} and not among its members {}", row.members)
            }
            _ => return,
        };
        if self.reported.insert((file, comm.to_owned())) {
            findings.differs(Check::Rows, || what);
        }
    }
}

/// The time in MPI of all ranks is that of their calls, and not longer than they ran.
fn check_times(run: &RunInfo, nodes: &[NodeRow], totals: &[TotalRow], findings: &mut Findings) {
    // Calls of NCCL are not in MPI.
    let of_mpi = totals.iter().filter(|row| !is_nccl(&row.call));
    let calls_s: f64 = of_mpi.map(|row| row.time_s.0).sum();
    let mpi_s: f64 = nodes.iter().map(|row| row.mpi_s.0).sum();
    let parts: u64 = totals.iter().map(|row| row.ranks).chain(nodes.iter().map(|row| row.ranks)).sum();
    let tolerance_s = ROUNDING_S * (parts + (totals.len() + nodes.len()) as u64) as f64 + SUMMATION * mpi_s;
    if (calls_s - mpi_s).abs() > tolerance_s {
        findings.differs(Check::Time, || {
            format!("the mpi_s of nodes.csv are {mpi_s:.9} s, and the times of totals.csv {calls_s:.9} s")
        });
    }
    if times::may_overlap(run) {
        findings.claims.within_wall_time = WITHIN_LIVES;
        return check_lives(nodes, tolerance_s, findings);
    }
    for row in nodes.iter().filter(|row| row.mpi_max_s.0 > row.wall_max_s.0 + tolerance_s.min(1e-6)) {
        findings.differs(Check::Time, || {
            format!(
                "rank {} on {} spent {:.9} s in MPI calls, and no rank there ran longer than {:.9} s",
                row.mpi_max_rank, row.host, row.mpi_max_s.0, row.wall_max_s.0
            )
        });
    }
}

/// Threads that may call MPI at once are no longer in MPI than they lived.
fn check_lives(nodes: &[NodeRow], tolerance_s: f64, findings: &mut Findings) {
    for row in nodes {
        // Less than the wall time is that of some ranks alone.
        let Some(lived_s) = row.mpi_thread_s.filter(|lived_s| lived_s.0 >= row.wall_s.0 - tolerance_s) else {
            findings.skipped = Some(NOT_COMPARED);
            continue;
        };
        if row.mpi_s.0 > lived_s.0 + tolerance_s {
            findings.differs(Check::Time, || {
                format!(
                    "ranks on {} spent {:.9} s in MPI calls, more than their mpi_thread_s {:.9}",
                    row.host, row.mpi_s.0, lived_s.0
                )
            });
        }
    }
}

/// The sums of those rows of `totals.csv` that one of `spread.csv` is about.
#[derive(Default)]
struct Sums {
    time: Times,
    calls: u128,
    bytes: u128,
}

/// Calls, bytes and times are the same in both tables.
fn check_spread(totals: &[TotalRow], spread: &[SpreadRow], findings: &mut Findings) {
    let mut sums: HashMap<(&str, &str), Sums> = HashMap::new();
    for row in totals {
        let (comm, call) = (row.comm.as_str(), row.call.as_str());
        for about in [(comm, call), (comm, ""), ("", call), ("", "")] {
            let sum = sums.entry(about).or_default();
            sum.time.add(row.time_s);
            sum.calls += u128::from(row.calls);
            sum.bytes += u128::from(row.bytes);
        }
    }
    let nothing = Sums::default();
    for row in spread {
        let Sums { time, calls, bytes } =
            sums.get(&(row.comm.as_str(), row.call.as_str())).unwrap_or(&nothing);
        let Seconds(expected_s) = row.time_s;
        if !time.is_close_to(row.time_s) {
            findings.differs(Check::Time, || {
                let time_s = time.sum_s;
                format!("{} has {expected_s:.9} s in spread.csv and {time_s:.9} s in totals.csv", named(row))
            });
        }
        if (*calls, *bytes) != (row.calls.into(), row.bytes.into()) {
            findings.differs(Check::Rows, || {
                format!(
                    "{} has {} calls and {} bytes in spread.csv, and {calls} and {bytes} in totals.csv",
                    named(row),
                    row.calls,
                    row.bytes
                )
            });
        }
    }
}

/// The rows of a table that a profile may be without.
fn load_if_any<R: Row>(profile: &Profile) -> Result<Vec<R>, ProfileError> {
    profile.rows_if_any()?.collect()
}

/// Calls and times of each site are the same in both tables.
fn check_sites(totals: &[TotalRow], of_sites: &[SiteTotalRow], findings: &mut Findings) {
    let mut sums: HashMap<(SiteId, &str), Sums> = HashMap::new();
    for row in totals {
        if let Some(site) = row.site {
            let sum = sums.entry((site, row.call.as_str())).or_default();
            sum.time.add(row.time_s);
            sum.calls += u128::from(row.calls);
        }
    }
    let nothing = Sums::default();
    for row in of_sites {
        let SiteTotalRow { site, call, calls, time_s, .. } = row;
        let sum = sums.get(&(*site, call.as_str())).unwrap_or(&nothing);
        if sum.calls != u128::from(*calls) || !sum.time.is_close_to(*time_s) {
            findings.differs(Check::Rows, || {
                format!(
                    "{call} at site {site} has {calls} calls, {:.9} s, in site-totals.csv, and {}, {:.9} s, in totals.csv",
                    time_s.0, sum.calls, sum.time.sum_s
                )
            });
        }
    }
}

fn named(row: &SpreadRow) -> String {
    match (row.call.is_empty(), row.comm.is_empty()) {
        (true, true) => "the run".to_owned(),
        (true, false) => row.comm.clone(),
        (false, true) => row.call.clone(),
        (false, false) => format!("{} on {}", row.call, row.comm),
    }
}

/// Checks that messages sent over an offset were received over the opposite one, of the same
/// communicator.
fn check_traffic(run: &RunInfo, offsets: &[OffsetRow], findings: &mut Findings) {
    let explained_by = explanation::of_traffic(run);
    let mut open: BTreeMap<(&str, i64, i64), traffic::Balance> = BTreeMap::new();
    for row in offsets {
        let sent = open.entry((&row.comm, row.offset_min, row.offset_max)).or_default();
        sent.add(row.sent_messages, row.sent_bytes);
        let opposite = (row.offset_max.saturating_neg(), row.offset_min.saturating_neg());
        let received = open.entry((&row.comm, opposite.0, opposite.1)).or_default();
        received.take(row.received_messages, row.received_bytes);
    }
    for ((comm, first, last), balance) in open.into_iter().filter(|(_, balance)| !balance.is_even()) {
        findings.differs_unless(explained_by, Check::Traffic, || {
            let offset = if first == last { format!("{first:+}") } else { format!("{first:+} to {last:+}") };
            format!(
                "on {comm}, ranks sent to those at {offset} {} than these received from them",
                traffic::difference(balance)
            )
        });
    }
}
