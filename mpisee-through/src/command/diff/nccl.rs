//! Communicators of NCCL in two runs: their names have digests of unique ids, which differ from run
//! to run.

use crate::load;
use crate::processes::{ProcessRows, Processes};
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Names of a run's communicators of NCCL in another run, which stands for both.
#[derive(Debug, Default)]
pub struct NcclNames(HashMap<String, String>);

impl NcclNames {
    /// The names of `run` in `first`. Those made of ids are paired by creating call, label, size
    /// and members, several in the order of their creation if both runs have as many; what was made
    /// of a paired one has the same steps behind the other's name.
    pub fn new(first: &ProfileView, run: &ProfileView) -> Result<Self> {
        if [first, run].iter().any(|view| !view.processes().comms.keys().any(|comm| is_nccl(comm))) {
            return Ok(NcclNames::default());
        }
        let rows = [load::all::<CommRow>(first.profile())?, load::all::<CommRow>(run.profile())?];
        Ok(NcclNames(paired(&rows, have_order(first.processes()) && have_order(run.processes()))))
    }

    /// The name of a communicator in the other run; its own where there is none like it.
    pub fn common<'a>(&'a self, comm: &'a str) -> String {
        let (root, steps) = comm.split_at(comm.find('_').unwrap_or(comm.len()));
        self.0.get(root).map_or_else(|| comm.to_owned(), |name| format!("{name}{steps}"))
    }
}

/// Returns whether `comms.csv` has communicators in the order in which they were made: that of sums
/// over ranks is by name.
fn have_order(processes: &Processes) -> bool {
    matches!(processes.rows, ProcessRows::Ranks(_))
}

/// The communicators made of ids in the second run by the names that they have in the first one.
fn paired(rows: &[Vec<CommRow>; 2], have_order: bool) -> HashMap<String, String> {
    let is_root = |row: &&CommRow| is_nccl(&row.comm) && !row.comm.contains('_');
    let names = rows
        .each_ref()
        .map(|rows| rows.iter().filter(is_root).map(|row| row.comm.as_str()).collect::<HashSet<&str>>());
    let groups = rows.each_ref().map(|rows| {
        let mut groups: BTreeMap<(&str, &str, u32, String), Vec<&str>> = BTreeMap::new();
        // Equal names are equal ids, as where a program makes them itself.
        let only_here = |row: &&CommRow| !names.iter().all(|names| names.contains(row.comm.as_str()));
        for row in rows.iter().filter(is_root).filter(only_here) {
            let likeness = (row.created_by.as_str(), row.label.as_str(), row.size, row.members.to_string());
            groups.entry(likeness).or_default().push(&row.comm);
        }
        groups
    });
    let [first, second] = &groups;
    let mut found = HashMap::new();
    for (likeness, names) in second {
        let Some(others) = first.get(likeness) else { continue };
        if names.len() == others.len() && (names.len() == 1 || have_order) {
            let pairs =
                names.iter().zip(others).map(|(name, other)| ((*name).to_owned(), (*other).to_owned()));
            found.extend(pairs);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(comms: &[(&str, u32, &str)]) -> Vec<CommRow> {
        let row = |&(comm, size, members): &(&str, u32, &str)| CommRow {
            comm: comm.to_owned(),
            created_by: "ncclCommInitRank".to_owned(),
            size,
            members: members.parse().unwrap(),
            ..CommRow::default()
        };
        comms.iter().map(row).collect()
    }

    #[test]
    fn several_alike_are_paired_in_the_order_of_their_creation() {
        let first = [("N1-zzzzzzzz", 4, "0-3"), ("N1-aaaaaaaa", 4, "0-3"), ("N1-bbbbbbbb", 2, "0-1")];
        let second = [("N1-cccccccc", 4, "0-3"), ("N1-dddddddd", 2, "0-1"), ("N1-00000000", 4, "0-3")];
        let both = [rows(&first), rows(&second)];
        let names = NcclNames(paired(&both, true));
        assert_eq!(names.common("N1-cccccccc"), "N1-zzzzzzzz");
        assert_eq!(names.common("N1-00000000_s2.1_k1-0123456z"), "N1-aaaaaaaa_s2.1_k1-0123456z");
        assert_eq!(names.common("N1-dddddddd"), "N1-bbbbbbbb");
        assert_eq!(names.common("W_s1.0"), "W_s1.0");
        let names = NcclNames(paired(&both, false));
        assert_eq!(names.common("N1-cccccccc"), "N1-cccccccc", "their order is not known");
        assert_eq!(names.common("N1-dddddddd"), "N1-bbbbbbbb");
    }

    #[test]
    fn a_label_tells_those_apart_that_are_made_in_another_order() {
        let first = [("N1-zzzzzzzz", 4, "0-3"), ("N1-aaaaaaaa", 4, "0-3")];
        let second = [("N1-cccccccc", 4, "0-3"), ("N1-00000000", 4, "0-3")];
        let mut both = [rows(&first), rows(&second)];
        both[0][0].label = "dp".to_owned();
        both[1][1].label = "dp".to_owned();
        let names = NcclNames(paired(&both, true));
        assert_eq!(names.common("N1-00000000"), "N1-zzzzzzzz");
        assert_eq!(names.common("N1-cccccccc"), "N1-aaaaaaaa");
    }

    #[test]
    fn unequal_numbers_and_equal_names_are_not_paired_anew() {
        let first = [("N1-aaaaaaaa", 4, "0-3"), ("N1-bbbbbbbb", 4, "0-3"), ("N1-ffffffff", 2, "0-1")];
        let second = [("N1-ffffffff", 2, "0-1"), ("N1-cccccccc", 4, "0-3"), ("N1-eeeeeeee", 2, "0-1")];
        assert!(paired(&[rows(&first), rows(&second)], true).is_empty());
    }
}
