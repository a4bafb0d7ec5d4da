//! Checks communicators: their names, parents and members, and the rows that refer to them.

use super::findings::{Check, Findings};
use crate::load::is_one_per_process;
use mpisee_profile::comm_name::{Step, is_nccl};
use mpisee_profile::rows::CommRow;
use mpisee_profile::run::Lacking;
use mpisee_profile::{CommRank, RankSet, RunInfo};
use std::collections::{HashMap, HashSet};

/// Checks `comms.csv` by itself. Where the profile is `incomplete`, ranks that know a parent or a
/// number may be missing; an imported one may have no parents, and names of another kind.
pub fn check(run: &RunInfo, rows: &[CommRow], incomplete: Option<&'static str>, findings: &mut Findings) {
    let names: HashSet<&str> = rows.iter().map(|row| row.comm.as_str()).collect();
    let mut seen = HashSet::new();
    for row in rows {
        let name = &row.comm;
        if !seen.insert(name) {
            findings.differs(Check::Names, || format!("{name} is in comms.csv more than once"));
        }
        if let Some(what) = wrong_parent(row, &names).filter(|_| !run.lacks(Lacking::Ancestry)) {
            findings.differs_unless(incomplete, Check::Names, || what);
        }
        if let Some(what) = wrong_members(row, run.ranks) {
            findings.differs(Check::Names, || what);
        }
    }
}

fn wrong_parent(row: &CommRow, names: &HashSet<&str>) -> Option<String> {
    let CommRow { comm, parent, created_by, .. } = row;
    if parent.is_empty() {
        // A communicator from groups of a session has no parent, nor has that with the processes
        // which spawned these.
        let from_group = ["MPI_Comm_create_from_group", "MPI_Intercomm_create_from_groups"];
        let has_none = ["W", "S", "P"].contains(&comm.as_str())
            || from_group.contains(&created_by.as_str())
            || is_nccl(comm);
        return (!has_none).then(|| format!("{comm} has no parent"));
    }
    if !names.contains(parent.as_str()) {
        return Some(format!("{comm} has the parent {parent}, which is not in comms.csv"));
    }
    let step = comm.strip_prefix(parent.as_str()).and_then(|rest| rest.strip_prefix('_'));
    match step {
        Some(step) if step.parse::<Step>().is_ok() => None,
        Some(_) => Some(format!("{comm} is not {parent} followed by one creation like _s2.0")),
        None => Some(format!("{comm} does not begin with the name of its parent {parent}")),
    }
}

fn wrong_members(row: &CommRow, ranks: u32) -> Option<String> {
    let CommRow { comm, size, members, .. } = row;
    let groups = || std::iter::once(&members.group).chain(&members.remote);
    if let Some(range) = groups().flat_map(RankSet::ranges).find(|range| range.last >= ranks) {
        return Some(format!("{comm} has the member {}, and run.json has {ranks} ranks", range.last));
    }
    // Every rank is below `ranks` here, so that the sets are small enough to be walked.
    let ranks: u64 = groups().map(RankSet::len).sum();
    if members.all().iter().collect::<HashSet<u32>>().len() as u64 != ranks {
        return Some(format!("{comm} lists a member twice"));
    }
    let listed = members.len().saturating_add(members.outsiders());
    match is_one_per_process(comm) {
        true if *size != 1 => {
            Some(format!("{comm} has size {size}, and is one communicator of size 1 per process"))
        }
        // A process may have several ranks of it.
        false if is_nccl(comm) => (u64::from(*size) < listed)
            .then(|| format!("{comm} has size {size} and {listed} processes as members")),
        false if u64::from(*size) != listed => Some(format!("{comm} has size {size} and {listed} members")),
        _ => None,
    }
}

/// Checks that rows of other tables name a communicator and members of it.
pub struct RowCheck<'a> {
    comms: HashMap<&'a str, &'a CommRow>,
    /// Why a communicator may be missing.
    incomplete: Option<&'static str>,
    /// Findings that are reported once, and not again for each row.
    reported: HashSet<(&'static str, String, Option<u32>)>,
}

impl<'a> RowCheck<'a> {
    /// Refers to `comms.csv`.
    pub fn new(rows: &'a [CommRow], incomplete: Option<&'static str>) -> Self {
        let comms = rows.iter().map(|row| (row.comm.as_str(), row)).collect();
        RowCheck { comms, incomplete, reported: HashSet::new() }
    }

    /// Checks that `rank` can have a row with `comm` in `file`.
    pub fn row(&mut self, file: &'static str, comm: &str, rank: u32, findings: &mut Findings) {
        match self.comms.get(comm) {
            None => {
                if self.reported.insert((file, comm.to_owned(), None)) {
                    findings.differs_unless(self.incomplete, Check::Rows, || {
                        format!("{comm} is in {file} and not in comms.csv")
                    });
                }
            }
            Some(row) => {
                let members = &row.members;
                let is_member = members.contains(rank) || members.has_elided();
                if !is_member && self.reported.insert((file, comm.to_owned(), Some(rank))) {
                    findings.differs(Check::Rows, || {
                        format!("rank {rank} is in {file} on {comm} and not among its members {members}")
                    });
                }
            }
        }
    }

    /// Checks that a process of another world can have this rank in `comm`, as a row of `file`
    /// says.
    pub fn outsider(
        &mut self,
        file: &'static str,
        comm: &str,
        rank_in_comm: CommRank,
        findings: &mut Findings,
    ) {
        let Some(row) = self.comms.get(comm) else { return };
        let is_possible = row.members.outsiders() > 0 && rank_in_comm.get() < row.size;
        if !is_possible && self.reported.insert((file, comm.to_owned(), None)) {
            let members = &row.members;
            findings.differs(Check::Rows, || {
                format!(
                    "{file} has the rank {} in {comm} as a process of another world, and its members \
                     are {members}",
                    rank_in_comm.get()
                )
            });
        }
    }
}
