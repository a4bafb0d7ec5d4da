//! The rule about MPI_Alltoallv, by size of communicator.
//!
//! Section IV-C of the mpisee paper found by hand that another algorithm of Open MPI made the
//! program faster on communicators of 256 processes alone. Whether one does has to be measured:
//! `mpisee-bench tune`.

use super::facts::{Facts, FamilyFacts, Used};
use super::finding::{Finding, percent};
use crate::units::{count, human_bytes};
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

fn by_size<'f>(families: &[FamilyFacts<'f>], facts: &Facts<'_>) -> BTreeMap<u32, OfSize<'f>> {
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
            advice: measurement(facts),
            about,
        }
    };
    let families: Vec<FamilyFacts<'_>> = facts.families().collect();
    by_size(&families, facts).into_iter().map(finding).collect()
}

/// The way to find out whether another algorithm of the MPI library that ran is faster.
fn measurement(facts: &Facts<'_>) -> String {
    if facts.library.contains("Intel") {
        return "Set I_MPI_ADJUST_ALLTOALLV=1 or =2 and compare. The setting applies to communicators of any \
                size."
            .to_owned();
    }
    match facts.flavour.split('-').next() {
        Some("openmpi" | "mpich") => format!(
            "Measure whether another algorithm is faster. mpisee-bench tune PROFILE -- mpirun -n {} tries \
             the algorithms of the MPI in turn. The command writes settings for faster algorithms.",
            facts.view.run().ranks
        ),
        _ => "Find the algorithms that your MPI has for MPI_Alltoallv, and compare them.".to_owned(),
    }
}
