//! The rule about ranks that were ready to run and had no core. It comes first: without a core every time is longer, in
//! MPI and outside.

use super::facts::Facts;
use super::finding::{Finding, percent};
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
    evidence.extend((more > 0).then(|| format!("So it is on {more} more of {} nodes.", lack.nodes_of_run)));
    let left = waiting::left_to_cores(facts).into_iter().flat_map(|waits| waits.ranks);
    let left: RankSet = left.map(WorldRank::new).collect();
    evidence.extend((!left.is_empty()).then(|| {
        format!(
            "Others wait for {} (mpisee-through waits), which lacked a core about as long: that waiting is no finding of its own.",
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
                false => ": times in MPI are partly waiting for ranks that had no core",
            }
        ),
    })
}

/// Rules about what the program asked for, which a core more would not change.
const OF_PROGRAM: [&str; 3] = ["creation", "reorder", "scattered"];

/// Sets another finding in relation to this one, from which it may follow.
pub fn put_first(finding: &mut Finding) {
    if !OF_PROGRAM.contains(&finding.rule) {
        finding.advice = format!("Look at {RULE} first: this may follow from it. {}", finding.advice);
    }
}

fn on_node(node: &NodeLack) -> String {
    let mut reasons: Vec<String> = node.reasons.iter().take(NAMED).map(reason).collect();
    let more = node.reasons.len().saturating_sub(NAMED);
    reasons.extend((more > 0).then(|| format!("so it is with {more} more groups of ranks")));
    format!("On {}, {}: {}.", node.host, node.ranks_text(), reasons.join("; "))
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Quota { cores } => {
            format!("their cgroup has a quota of {}, and most of it was used", cores_text(*cores))
        }
        Reason::Ranks(crowd) => {
            let ranks = match crowd.is_whole {
                true => format!(
                    "{} on {}{}",
                    count(crowd.count, "rank"),
                    count(crowd.cpus.len(), "core"),
                    of_node(crowd)
                ),
                false => format!("{} are bound to {}", crowd.ranks, cpus_text(crowd)),
            };
            ranks + &crowd.others.map_or_else(String::new, others_text)
        }
        Reason::Threads(crowd) => format!("{}; they used these up themselves", threads_text(crowd)),
        Reason::ThreadsOrOthers(crowd) => format!(
            "{}; {:.1} of them ran. Whether other processes or their own threads were in the way is not measured",
            threads_text(crowd),
            crowd.ran
        ),
        Reason::Others => {
            "no more ranks and threads were ready than they may use cores, so that another process was on these".to_owned()
        }
        Reason::Unknown => "which cores they may use is not known".to_owned(),
    }
}

/// The threads of some ranks beside the cores that these may use.
fn threads_text(crowd: &Crowd) -> String {
    format!(
        "{:.1} threads of {} ran or were ready to on average, on {}{}",
        crowd.wanted,
        crowd.ranks,
        count(crowd.cpus.len(), "core"),
        of_node(crowd)
    )
}

/// The time of other processes there, which is a lower bound.
fn others_text(Others { least_s, ranks_s, all_s }: Others) -> String {
    format!(
        ", and of {} of core time there the ranks ran {}, other processes {} or more (if each rank has one thread)",
        time(all_s),
        time(ranks_s),
        time(least_s)
    )
}

/// The cores of the node, where ranks may use only some of them.
fn of_node(crowd: &Crowd) -> String {
    let cpus = crowd.node_cpus.filter(|_| has_more_cores(crowd));
    cpus.map_or(String::new(), |cpus| format!(" that they may use, of {cpus} of the node"))
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
            "Ask for as many cores as there are ranks and threads (Slurm: --cpus-per-task; a container: --cpus), or start \
             fewer."
        }
        Reason::Ranks(crowd) if crowd.is_whole && has_more_cores(crowd) => {
            "See how ranks are bound, since the node has more cores (Open MPI: --report-bindings; Slurm: \
             --cpu-bind=verbose): two launches on one node may have taken the same cores, or the job asked for too few. Else \
             start fewer ranks on a node."
        }
        Reason::Ranks(Crowd { is_whole: true, .. }) => {
            "Start no more ranks on a node than it has cores (Open MPI: no --oversubscribe; Slurm: --ntasks-per-node; MPICH: \
             -ppn)."
        }
        Reason::Ranks(_) => {
            "Bind each rank to cores of its own (Open MPI: --map-by core --bind-to core; MPICH: -bind-to core; Slurm: \
             --cpu-bind=cores), or to none, and see whether the program or a script around it binds again."
        }
        Reason::Threads(crowd) if crowd.wanted < SEVERAL_THREADS * crowd.count as f64 => {
            "Leave a core to threads beside those of the program, such as those of the MPI library: start one rank fewer there, or \
             let ranks use one core more."
        }
        Reason::Threads(_) => {
            "Start fewer threads on each rank (OMP_NUM_THREADS), or give each rank as many cores as it has threads (Open \
             MPI: --map-by slot:PE=N; MPICH: -bind-to core:N; Slurm: --cpus-per-task)."
        }
        Reason::ThreadsOrOthers(_) => {
            "See what else runs on these cores (top), such as another job. If nothing does, see how many threads ranks have at times \
             (top -H), and give each rank as many cores."
        }
        Reason::Others => {
            "See what else runs on these cores (top), such as another job, and ask for whole nodes (Slurm: --exclusive)."
        }
        Reason::Unknown => "See how many ranks and threads the node has, and what else runs there.",
    }
}
