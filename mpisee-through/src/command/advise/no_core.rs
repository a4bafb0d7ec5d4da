//! The rule about ranks that were ready to run and had no core. It comes first: without a core
//! every time is longer, in MPI and outside.

use super::facts::Facts;
use super::finding::{Finding, percent};
use super::registry;
use super::waiting;
use crate::cores::{Crowd, LEAST_WAIT_S, NodeLack, Others, Reason};
use crate::units::{count, time};
use mpisee_profile::network::LACKING_FROM;
use mpisee_profile::run::WITHOUT_MPI;
use mpisee_profile::{RankSet, WorldRank};

/// The rule's name.
pub const RULE: &str = "no-core";
/// Threads of a rank that wanted a core on average, from which on the program itself has several.
const SEVERAL_THREADS: f64 = 1.5;
/// Nodes, and reasons on each, that the evidence names.
const NAMED: usize = 3;

/// The finding, where ranks lacked a core.
pub fn rule(facts: &Facts<'_>) -> Option<Finding> {
    let lack = facts.lack.as_ref()?;
    let about = match &lack.nodes[..] {
        [only] => only.host.clone(),
        several => format!("{} nodes", several.len()),
    };
    let mut evidence: Vec<String> = lack.nodes.iter().take(NAMED).map(on_node).collect();
    let more = lack.nodes.len().saturating_sub(NAMED);
    evidence.extend(
        (more > 0)
            .then(|| format!("Ranks on {more} more of {} nodes lacked a core, too.", lack.nodes_of_run)),
    );
    let left = waiting::left_to_cores(facts).into_iter().flat_map(|waits| waits.ranks);
    let left: RankSet = left.map(WorldRank::new).collect();
    evidence.extend((!left.is_empty()).then(|| {
        format!(
            "Other ranks wait for {} (mpisee-through waits), which lacked a core about as long. This waiting \
             is no finding of its own.",
            left.named()
        )
    }));
    let mut advice: Vec<&str> = Vec::new();
    for text in lack.nodes.iter().flat_map(|node| &node.reasons).flat_map(advice_for) {
        if !advice.contains(&text) {
            advice.push(text);
        }
    }
    Some(Finding {
        rule: RULE,
        about,
        cost_s: lack.wait_s,
        what: format!("{}.", lack.sentence()),
        evidence: evidence.join(" "),
        threshold: format!("{} of a rank's wall time, and {}", percent(LACKING_FROM), time(LEAST_WAIT_S)),
        advice: format!(
            "{} Then measure again{}.",
            advice.join(" "),
            match facts.library == WITHOUT_MPI {
                true => "",
                false => ": times in MPI are partly waiting for ranks without a core",
            }
        ),
    })
}

/// Sets another finding in relation to this one, from which it may follow.
pub fn put_first(finding: &mut Finding) {
    if !registry::rule_by_name(finding.rule).is_of_program {
        finding.advice =
            format!("Look at {RULE} first: the lack of cores may cause this. {}", finding.advice);
    }
}

fn on_node(node: &NodeLack) -> String {
    let named = || node.reasons.iter().take(NAMED);
    let mut reasons: Vec<String> = named().map(reason).collect();
    let more = node.reasons.len().saturating_sub(NAMED);
    reasons.extend((more > 0).then(|| format!("and {} of ranks", count(more as u64, "more group"))));
    let others: String = named().filter_map(others_text).collect();
    format!("On {}, {}: {}.{others}", node.host, node.ranks_text(), reasons.join("; "))
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Quota { cores } => {
            format!("their cgroup used most of its quota of {}", cores_text(*cores))
        }
        Reason::Ranks(crowd) if crowd.is_whole => format!(
            "{} share {}{}",
            count(crowd.count, "rank"),
            count(crowd.cpus.len(), "core"),
            of_node(crowd)
        ),
        Reason::Ranks(crowd) => format!("{} are bound to {}", crowd.ranks, cpus_text(crowd)),
        Reason::Threads(crowd) => format!("{}, and used up the cores themselves", threads_text(crowd)),
        Reason::ThreadsOrOthers(crowd) => format!(
            "{}; {:.1} of the threads ran. Other processes or the ranks' own threads were in the way; which \
             of the two is not measured",
            threads_text(crowd),
            crowd.ran
        ),
        Reason::Others => {
            "another process used these cores (ranks and threads never exceeded the allowed cores)".to_owned()
        }
        Reason::Unknown => "the allowed cores are unknown".to_owned(),
    }
}

/// The threads of some ranks beside the cores that these may use.
fn threads_text(crowd: &Crowd) -> String {
    format!(
        "{:.1} threads of {} ran or were ready on average, on {}{}",
        crowd.wanted,
        crowd.ranks,
        count(crowd.cpus.len(), "core"),
        of_node(crowd)
    )
}

/// A sentence on the time of other processes on the cores of ranks, which is a lower bound.
fn others_text(reason: &Reason) -> Option<String> {
    let Reason::Ranks(crowd) = reason else { return None };
    let Others { least_s, ranks_s, all_s } = crowd.others?;
    let noun = if crowd.cpus.len() == 1 { "CPU" } else { "CPUs" };
    Some(format!(
        " Other processes ran for {} or more of {} of core time on {noun} {}, the ranks for {} (if each rank \
         has one thread).",
        time(least_s),
        time(all_s),
        crowd.cpus,
        time(ranks_s)
    ))
}

/// The cores of the node, where ranks may use only some of them.
fn of_node(crowd: &Crowd) -> String {
    let cpus = crowd.node_cpus.filter(|_| has_more_cores(crowd));
    cpus.map_or(String::new(), |cpus| format!(" (of {cpus} on the node, no others are allowed)"))
}

fn has_more_cores(crowd: &Crowd) -> bool {
    crowd.node_cpus.is_some_and(|cpus| u64::from(cpus) > crowd.cpus.len())
}

fn cpus_text(crowd: &Crowd) -> String {
    match crowd.cpus.len() {
        1 => format!("one core (CPU {})", crowd.cpus),
        cores => format!("{cores} cores (CPUs {})", crowd.cpus),
    }
}

fn cores_text(cores: f64) -> String {
    let noun = if cores == 1.0 { "core" } else { "cores" };
    format!("{} {noun}", (cores * 100.0).round() / 100.0)
}

/// Advice, against the larger cause first.
fn advice_for(reason: &Reason) -> Vec<&'static str> {
    let own = advice_against(reason);
    match reason {
        Reason::Ranks(Crowd { others: Some(others), .. }) => {
            let other = advice_against(&Reason::Others);
            if others.least_s > others.ranks_s { vec![other, own] } else { vec![own, other] }
        }
        _ => vec![own],
    }
}

fn advice_against(reason: &Reason) -> &'static str {
    match reason {
        Reason::Quota { .. } => {
            "Request as many cores as there are ranks and threads (Slurm: --cpus-per-task; containers: \
             --cpus), or start fewer."
        }
        Reason::Ranks(crowd) if crowd.is_whole && has_more_cores(crowd) => {
            "Check how ranks are bound, because the node has more cores (Open MPI: --report-bindings; Slurm: \
             --cpu-bind=verbose). Two launches on one node may have taken the same cores, or the job \
             requested too few. Otherwise start fewer ranks on a node."
        }
        Reason::Ranks(Crowd { is_whole: true, .. }) => {
            "Start no more ranks on a node than it has cores (Open MPI: no --oversubscribe; Slurm: --ntasks-per-node; MPICH: \
             -ppn)."
        }
        Reason::Ranks(_) => {
            "Bind each rank to cores of its own (Open MPI: --map-by core --bind-to core; MPICH: -bind-to \
             core; Slurm: --cpu-bind=cores), or to none. Check whether the program or a script around it \
             binds ranks again."
        }
        Reason::Threads(crowd) if crowd.wanted < SEVERAL_THREADS * crowd.count as f64 => {
            "Leave a core to other threads than the program's, such as threads of the MPI library. Start one \
             rank fewer on these cores, or let ranks use one core more."
        }
        Reason::Threads(_) => {
            "Start fewer threads on each rank (OMP_NUM_THREADS), or give each rank as many cores as it has threads (Open \
             MPI: --map-by slot:PE=N; MPICH: -bind-to core:N; Slurm: --cpus-per-task)."
        }
        Reason::ThreadsOrOthers(_) => {
            "Check what else runs on these cores (top), such as another job. If nothing else runs, check how \
             many threads ranks have at times (top -H), and give each rank as many cores."
        }
        Reason::Others => {
            "Check what else runs on these cores (top), such as another job. Request whole nodes (Slurm: \
             --exclusive)."
        }
        Reason::Unknown => "Check how many ranks and threads the node has, and what else runs there.",
    }
}
