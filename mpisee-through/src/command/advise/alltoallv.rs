//! The rule about MPI_Alltoallv, by size of communicator, and the settings of MPI libraries that choose its algorithm.
//!
//! Section IV-C of the mpisee paper did this by hand: another algorithm of Open MPI made the program faster on
//! communicators of 256 processes alone.

use super::facts::{Facts, Family, Used};
use super::finding::{Finding, percent};
use crate::units::{count, human_bytes};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;

/// The share of the run from which another algorithm is worth trying.
const OF_RUN: f64 = 0.05;
const CALL: &str = "MPI_Alltoallv";

/// MPI_Alltoallv on all communicators of one size.
#[derive(Default)]
struct OfSize<'f> {
    /// The names of their families, in the order of the families.
    families: Vec<&'f str>,
    comms: u64,
    calls: u64,
    bytes: u64,
    time_s: f64,
}

fn by_size<'f>(families: &[Family<'f>], facts: &Facts<'_>) -> BTreeMap<u32, OfSize<'f>> {
    let mut sizes: BTreeMap<u32, OfSize<'f>> = BTreeMap::new();
    for family in families {
        for comm in family.comms.iter().filter(|comm| comm.size() > 1) {
            let Some(Used { calls, bytes, time_s, .. }) = comm.call(CALL) else { continue };
            let of = sizes.entry(comm.size()).or_default();
            if of.families.last() != Some(&family.name) {
                of.families.push(family.name);
            }
            of.comms += 1;
            of.calls += calls;
            of.bytes = of.bytes.saturating_add(*bytes);
            of.time_s += time_s;
        }
    }
    sizes.retain(|_, of| facts.share_of_run(of.time_s) >= OF_RUN);
    sizes
}

/// Sizes of communicators on which MPI_Alltoallv takes much of the run.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |(size, of): (u32, OfSize<'_>)| {
        let about = match of.families[..] {
            [only] => only.to_owned(),
            [first, ..] => format!("{first} and {} more", of.families.len() - 1),
            [] => String::new(),
        };
        Finding {
            rule: "alltoallv",
            cost_s: of.time_s,
            what: format!(
                "{} of the run is in {CALL} on communicators of {size} processes.",
                percent(facts.share_of_run(of.time_s))
            ),
            evidence: format!(
                "{} on {}, {} per call and process, {} per second and process.",
                count(of.calls, "call"),
                count(of.comms, "communicator"),
                human_bytes(of.bytes / of.calls.max(1)),
                human_bytes((of.bytes as f64 / of.time_s.max(f64::MIN_POSITIVE)) as u64),
            ),
            threshold: format!("{} of the run in {CALL} on communicators of one size", percent(OF_RUN)),
            advice: setting(facts, size),
            about,
        }
    };
    let families: Vec<Family<'_>> = facts.families().collect();
    by_size(&families, facts).into_iter().map(finding).collect()
}

/// The setting to try with the MPI library that ran.
fn setting(facts: &Facts<'_>, size: u32) -> String {
    if facts.library.contains("Intel") {
        return "Set I_MPI_ADJUST_ALLTOALLV=1 or =2 and compare; it is for communicators of any size."
            .to_owned();
    }
    match facts.flavour.split('-').next() {
        Some("openmpi") => format!(
            "Whether another algorithm is faster has to be measured. The default of Open MPI's component tuned for this \
             size is {}; compare {} for this size alone: mpisee-through advise --write-rules FILE, then run with --mca \
             coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE.",
            Algorithm::of_default(size),
            Algorithm::of_default(size).other()
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Algorithm {
    Linear = 1,
    Pairwise = 2,
}

impl Algorithm {
    /// The choice of Open MPI 4.1 and 5.0 without rules (`ompi_coll_tuned_alltoallv_intra_dec_fixed`).
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
    let families: Vec<Family<'_>> = facts.families().collect();
    let sizes: Vec<u32> = by_size(&families, facts).into_keys().collect();
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
            1 => Algorithm::Linear.into(),
            2 => Algorithm::Pairwise.into(),
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
