//! MPI_Alltoallv by size of communicator, and the settings of MPI libraries that choose its algorithm.
//!
//! Section IV-C of the mpisee paper did this by hand: of communicators of 256 processes alone the other algorithm of Open
//! MPI made the program faster.

use super::facts::{Facts, Used};
use super::finding::{Finding, percent};
use crate::units::{count, human_bytes};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;

/// The share of the run from which another algorithm is worth trying.
const OF_RUN: f64 = 0.05;
const CALL: &str = "MPI_Alltoallv";

/// MPI_Alltoallv on all communicators of one size.
struct OfSize<'a> {
    comms: Vec<&'a str>,
    calls: u64,
    bytes: u64,
    time_s: f64,
}

fn by_size<'a>(facts: &'a Facts<'_>) -> BTreeMap<u32, OfSize<'a>> {
    let mut sizes: BTreeMap<u32, OfSize<'a>> = BTreeMap::new();
    for comm in facts.comms.values().filter(|comm| comm.size() > 1) {
        if let Some(Used { calls, bytes, time_s, .. }) = comm.call(CALL) {
            let nothing = || OfSize { comms: Vec::new(), calls: 0, bytes: 0, time_s: 0.0 };
            let of = sizes.entry(comm.size()).or_insert_with(nothing);
            of.comms.push(&comm.name);
            of.calls += calls;
            of.bytes = of.bytes.saturating_add(*bytes);
            of.time_s += time_s;
        }
    }
    sizes.retain(|_, of| facts.share_of_run(of.time_s) >= OF_RUN);
    sizes
}

/// Sizes of communicators on which MPI_Alltoallv is costly.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |(size, of): (u32, OfSize<'_>)| {
        let about = match of.comms[..] {
            [only] => only.to_owned(),
            [first, ..] => format!("{first} and {} more", of.comms.len() - 1),
            [] => String::new(),
        };
        Finding {
            rule: "alltoallv",
            cost_s: of.time_s,
            what: format!(
                "{CALL} on communicators of {size} processes is costly; another algorithm may serve."
            ),
            evidence: format!(
                "{} on {}, {} per call and process, {} per second and process.",
                count(of.calls, "call"),
                count(of.comms.len() as u64, "communicator"),
                human_bytes(of.bytes / of.calls.max(1)),
                human_bytes((of.bytes as f64 / of.time_s.max(f64::MIN_POSITIVE)) as u64),
            ),
            threshold: format!("{} of the run in {CALL} on communicators of one size", percent(OF_RUN)),
            advice: setting(facts, size),
            about,
        }
    };
    by_size(facts).into_iter().map(finding).collect()
}

/// What to set in the MPI that ran.
fn setting(facts: &Facts<'_>, size: u32) -> String {
    if facts.library.contains("Intel") {
        return "Set I_MPI_ADJUST_ALLTOALLV=1 or =2 and compare; it is for communicators of any size."
            .to_owned();
    }
    match facts.flavour.split('-').next() {
        Some("openmpi") => format!(
            "Its default for this size is {}; try {} for this size alone: mpisee-through advise --write-rules FILE, \
             then run with --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE.",
            Algorithm::of_default(size).name(),
            Algorithm::of_default(size).other().name()
        ),
        Some("mpich") => {
            "Set MPIR_CVAR_ALLTOALLV_INTRA_ALGORITHM=nb or =scattered and compare; it is for communicators \
                          of any size."
                .to_owned()
        }
        _ => "See which algorithms your MPI has for it, and compare them.".to_owned(),
    }
}

/// The algorithms that Open MPI's component tuned has for MPI_Alltoallv, by their numbers in rules files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Linear = 1,
    Pairwise = 2,
}

impl Algorithm {
    /// What Open MPI 4.1 and 5.0 do without rules (`ompi_coll_tuned_alltoallv_intra_dec_fixed`).
    fn of_default(size: u32) -> Self {
        match size {
            0..4 | 64..128 | 256..1024 => Algorithm::Pairwise,
            _ => Algorithm::Linear,
        }
    }

    fn other(self) -> Self {
        match self {
            Algorithm::Linear => Algorithm::Pairwise,
            Algorithm::Pairwise => Algorithm::Linear,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Algorithm::Linear => "linear",
            Algorithm::Pairwise => "pairwise",
        }
    }
}

/// The number of MPI_Alltoallv in rules files (`ALLTOALLV` in Open MPI's coll_base_functions.h).
const COLLECTIVE: u32 = 4;
/// The algorithm of a rule that leaves the choice to Open MPI.
const DEFAULT: u32 = 0;

/// A rules file for Open MPI: the other algorithm for each size that the rule found, and its own choice for all others.
///
/// A rule holds from its size to the next one's, so that each size is followed by a rule that ends it. For MPI_Alltoallv
/// Open MPI looks at the size of the communicator alone, as if messages had no bytes.
pub fn open_mpi_rules(facts: &Facts<'_>) -> Result<String> {
    let sizes: Vec<u32> = by_size(facts).into_keys().collect();
    ensure!(
        !sizes.is_empty(),
        "there is nothing to write rules for: {CALL} takes less than {} of the run on communicators of any one size",
        percent(OF_RUN)
    );
    Ok(rules_file(&sizes))
}

fn rules_file(sizes: &[u32]) -> String {
    let mut rules: BTreeMap<u32, u32> = BTreeMap::from([(0, DEFAULT)]);
    for &size in sizes {
        rules.insert(size, Algorithm::of_default(size).other() as u32);
        rules.entry(size + 1).or_insert(DEFAULT);
    }
    // A size that ends one rule may begin the next.
    for &size in sizes {
        rules.insert(size, Algorithm::of_default(size).other() as u32);
    }
    let mut text = format!(
        "# {CALL} in Open MPI: another algorithm for some sizes of communicators. Use with\n\
         # --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename THIS_FILE\n\
         1 # collectives\n\
         {COLLECTIVE} # {CALL}\n\
         {} # sizes of communicators\n",
        rules.len()
    );
    for (size, algorithm) in rules {
        let name = match algorithm {
            1 => Algorithm::Linear.name(),
            2 => Algorithm::Pairwise.name(),
            _ => "as without rules",
        };
        text += &format!("{size} # processes and more\n1 # message size\n0 {algorithm} 0 0 # {name}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_size_gets_the_paper_s_algorithm() {
        assert_eq!(
            rules_file(&[256]),
            "\
# MPI_Alltoallv in Open MPI: another algorithm for some sizes of communicators. Use with
# --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename THIS_FILE
1 # collectives
4 # MPI_Alltoallv
3 # sizes of communicators
0 # processes and more
1 # message size
0 0 0 0 # as without rules
256 # processes and more
1 # message size
0 1 0 0 # linear
257 # processes and more
1 # message size
0 0 0 0 # as without rules
"
        );
    }

    #[test]
    fn neighbouring_sizes_follow_each_other() {
        let text = rules_file(&[2, 3, 5]);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("0 #") || line.contains("more")).collect();
        let sizes: Vec<&str> = lines.iter().filter(|line| line.contains("more")).copied().collect();
        assert_eq!(sizes.len(), 6, "0, 2, 3, 4, 5, 6");
        assert!(text.contains("4 # processes and more\n1 # message size\n0 0 0 0"));
        assert!(text.contains("3 # processes and more\n1 # message size\n0 1 0 0 # linear"));
        assert!(text.contains("5 # processes and more\n1 # message size\n0 2 0 0 # pairwise"));
    }
}
