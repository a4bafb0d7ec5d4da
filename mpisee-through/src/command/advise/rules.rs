//! The rules: each looks at the facts and returns what it finds.

use super::at;
use super::cause::{self, Caused};
use super::creation;
use super::facts::{Comm, Facts, FamilyFacts, OfSize, Used};
use super::finding::{Finding, percent};
use super::messages::{self, is_message};
use super::registry::{self, TimeIn};
use super::{alltoallv, at_end, barriers, deadlock, gpu_far, nccl, profiler, staging};
use super::{
    network, no_core, one_rank, polling, skewed_volume, slow_transfer, small_messages, uneven_work, waiting,
};
use crate::shape::Shape;
use crate::units::{count, count_of, human_bytes, time};
use mpisee_profile::OperationKind;

/// Everything that the rules find.
pub fn all(facts: &Facts<'_>) -> Vec<Finding> {
    let rules: [fn(&Facts<'_>) -> Vec<Finding>; 14] = [
        deadlock::rule,
        tiny_allreduces,
        scattered,
        alltoallv::rule,
        skewed_volume::rule,
        barriers::rule,
        slow_transfer::rule,
        creation::rule,
        creation::reorder,
        blocking_sends,
        polling::rule,
        gpu_far::rule,
        staging::rule,
        nccl::rule,
    ];
    let (hubs, small) = on_messages(facts);
    let of_rules = rules.iter().flat_map(|rule| rule(facts)).chain(profiler::rule(facts)).chain(small);
    let of_rules = of_rules.map(|finding| (registry::rule_by_name(finding.rule).time_in, finding));
    let others: Vec<(TimeIn, Finding)> = of_rules.chain(network::rule(facts)).collect();
    let caused = on_waiting(facts, hubs);
    let general = dominating(facts, &others, &caused);
    let mut findings: Vec<Finding> = others.into_iter().map(|(_, finding)| finding).chain(general).collect();
    findings.extend(cause::merge(caused, facts));
    if let Some(first) = no_core::rule(facts) {
        findings.iter_mut().for_each(no_core::put_first);
        findings.push(first);
    }
    findings
}

/// The findings about waiting, and those about its causes.
fn on_waiting(facts: &Facts<'_>, hubs: Vec<Caused>) -> Vec<Caused> {
    let mut caused = waiting::rule(facts);
    caused.extend(at_end::rule(facts));
    if let Some(work) = uneven_work::rule(facts) {
        add_work(work, &mut caused);
    }
    caused.extend(hubs);
    caused
}

/// Waiting stands for uneven work, too, if it is this part of it.
const STANDS_FOR_WORK: f64 = 0.5;

/// Adds uneven work where waiting does not stand for it: that for the rank with most work, or, if
/// no rank is named, that which it may explain.
fn add_work(work: Caused, caused: &mut Vec<Caused>) {
    let is_named = caused.iter().any(|one| !one.ranks.is_empty());
    let is_of_work = |one: &&mut Caused| !is_named || !one.ranks.is_disjoint(&work.ranks);
    let waiting = caused.iter_mut().filter(is_of_work);
    let waiting = waiting.max_by(|one, other| one.finding.cost_s.total_cmp(&other.finding.cost_s));
    match waiting.filter(|one| one.finding.cost_s >= STANDS_FOR_WORK * work.finding.cost_s) {
        None => caused.push(work),
        Some(waiting) if waiting.ranks.is_empty() => {
            let Finding { what, evidence, .. } = work.finding;
            waiting.finding.evidence += &format!(" {what} {evidence}");
        }
        Some(_) => {}
    }
}

/// Below this share of the run in messages on like communicators, the table of senders and
/// receivers is not read.
const MESSAGES_OF_RUN: f64 = 0.02;

/// The findings in messages by sender and receiver: those about one rank, and those about small
/// messages.
fn on_messages(facts: &Facts<'_>) -> (Vec<Caused>, Vec<Finding>) {
    let takes_time =
        |family: &FamilyFacts<'_>| facts.share_of_run(family.time_s(is_message)) >= MESSAGES_OF_RUN;
    let families: Vec<FamilyFacts<'_>> = facts.families().filter(takes_time).collect();
    let messages = if families.is_empty() { None } else { messages::read(facts) };
    let Some(messages) = messages else { return (Vec::new(), Vec::new()) };
    let hubs = families.iter().filter_map(|family| one_rank::finding(facts, family, &messages));
    let small = families.iter().filter_map(|family| small_messages::finding(facts, family, &messages));
    (hubs.collect(), small.collect())
}

pub fn is_collective(used: &Used) -> bool {
    used.kind == Some(OperationKind::Collective)
}

/// The least part of all MPI time, and of the run, that makes a communicator dominating.
const DOMINATING_OF_MPI: f64 = 0.4;
const DOMINATING_OF_RUN: f64 = 0.1;

/// Communicators whose collectives, or messages, take much of the MPI time that other findings do
/// not explain.
fn dominating(facts: &Facts<'_>, others: &[(TimeIn, Finding)], caused: &[Caused]) -> Vec<Finding> {
    let families: Vec<FamilyFacts<'_>> = facts.families().collect();
    let of_cores = waiting::left_to_cores(facts);
    let found = |family: &FamilyFacts<'_>, part: Part| {
        let of_part = others.iter().filter(|(time_in, one)| one.about == family.name && part.is_in(*time_in));
        let waits = caused.iter().map(|one| (&one.finding.about, one.parts_s));
        let waits = waits.chain(of_cores.iter().map(|one| (&one.about, one.parts_s)));
        let here = waits.filter(|(about, _)| *about == family.name);
        // Messages through one rank take the time in which others wait for it, too.
        let waiting_s = here.map(|(_, parts_s)| parts_s[part as usize]).fold(0.0, f64::max);
        dominating_on(family, part, facts, of_part.map(|(_, one)| one.cost_s).sum::<f64>() + waiting_s)
    };
    let collectives = families.iter().filter_map(|family| found(family, Part::Collectives));
    let messages = families.iter().filter_map(|family| found(family, Part::Messages));
    collectives.chain(messages).collect()
}

/// The operations that may dominate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Collectives,
    Messages,
}

impl Part {
    fn has(self) -> fn(&Used) -> bool {
        match self {
            Part::Collectives => is_collective,
            Part::Messages => is_message,
        }
    }

    /// Returns whether findings with their time there explain time in these operations.
    fn is_in(self, time_in: TimeIn) -> bool {
        let alone = match self {
            Part::Collectives => TimeIn::Collectives,
            Part::Messages => TimeIn::Messages,
        };
        [alone, TimeIn::Both].contains(&time_in)
    }

    /// Their name on a family. Completions alone are for nonblocking collectives, files or windows.
    fn title(self, family: &FamilyFacts<'_>) -> &'static str {
        let has = |kind| family.used.iter().any(|used| used.kind == Some(kind));
        match self {
            Part::Collectives => "collectives",
            Part::Messages if has(OperationKind::PointToPoint) => "point-to-point messages and waits",
            Part::Messages if has(OperationKind::Probe) => "probes",
            Part::Messages => "waits for nonblocking operations other than messages",
        }
    }
}

/// The finding about these operations on a family, if they take enough time there beside that which
/// is explained.
fn dominating_on(
    family: &FamilyFacts<'_>,
    part: Part,
    facts: &Facts<'_>,
    explained_s: f64,
) -> Option<Finding> {
    let (chosen, what) = (part.has(), part.title(family));
    let all_s = family.time_s(chosen);
    let cost_s = (all_s - explained_s).max(0.0);
    let of_mpi = |time_s: f64| time_s / facts.mpi_s.max(f64::MIN_POSITIVE);
    if of_mpi(cost_s) < DOMINATING_OF_MPI || facts.share_of_run(cost_s) < DOMINATING_OF_RUN {
        return None;
    }
    let most = family.used.iter().filter(|used| chosen(used));
    let most = most.max_by(|left, right| left.time_s.total_cmp(&right.time_s))?;
    let comms = family.filter_text();
    let (beside, explained) = match cost_s < all_s {
        true => (
            ", without the part that other findings explain",
            format!(
                " All {what} on {} take {}; other findings explain {} of this time.",
                family.title,
                time(all_s),
                time(all_s - cost_s)
            ),
        ),
        false => ("", String::new()),
    };
    let at = at::of_time(facts, family, &format!("the time in {}", most.call), |call| call == most.call);
    Some(Finding {
        rule: "dominating",
        about: family.name.to_owned(),
        cost_s,
        what: format!(
            "{} of the MPI time is in {what} on {}{beside}.",
            percent(of_mpi(cost_s)),
            family.title
        ),
        evidence: format!("{}{at}{explained}", largest_part(most, family, facts)),
        threshold: format!(
            "{} of the MPI time and {} of the run that no other finding explains",
            percent(DOMINATING_OF_MPI),
            percent(DOMINATING_OF_RUN)
        ),
        advice: format!(
            "See how evenly ranks share the time: mpisee-through ranks PROFILE --comm '{comms}'. See how \
             many calls of each size there are: mpisee-through sizes PROFILE --comm '{comms}'."
        ),
    })
}

/// The operation that takes most time; without its calls where these are not those of the program.
fn largest_part(most: &Used, family: &FamilyFacts<'_>, facts: &Facts<'_>) -> String {
    let Used { call, calls, time_s, .. } = most;
    if facts.is_counted_on_each(call) {
        return format!(
            "The largest part is {call}: {} summed over ranks. A call counts on each communicator of its \
             requests, with a part of its time. The number of calls and their mean time are therefore \
             unknown.",
            time(*time_s)
        );
    }
    let known = waiting::of_family(facts, family, Some(call));
    format!(
        "The largest part is {call}: {} of {} on average, {} summed over ranks{}.",
        count(*calls, "call"),
        time(time_s / (*calls).max(1) as f64),
        time(*time_s),
        known.map_or_else(String::new, |known| format!(", {}", waiting::in_seconds(known)))
    )
}

/// Bytes up to which a reduction costs latency alone.
const TINY_BYTES: u64 = 63;
/// The least number of them per process, and their share of the run.
const TINY_CALLS: u64 = 1000;
const TINY_OF_RUN: f64 = 0.02;

/// Very many reductions of a few bytes on like communicators.
fn tiny_allreduces(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |family: FamilyFacts<'_>| {
        let used = family.call("MPI_Allreduce")?;
        let tiny = used.sizes.iter().filter(|of| of.size_max <= TINY_BYTES);
        let (calls, cost_s) =
            tiny.fold((0, 0.0), |(calls, time_s), of| (calls + of.calls, time_s + of.time_s));
        let processes = facts.processes_of(&family);
        let per_process = calls / processes;
        // Fewer calls do not save what their members wait for each other.
        let known = waiting::of_family(facts, &family, Some("MPI_Allreduce"));
        let transfer = known.map_or(1.0, |(time_s, waiting)| 1.0 - (waiting.total / time_s).clamp(0.0, 1.0));
        let all_s = cost_s;
        let cost_s = all_s * transfer;
        let is_much = per_process >= TINY_CALLS && facts.share_of_run(cost_s) >= TINY_OF_RUN;
        (family.size() > 1 && is_much).then(|| Finding {
            rule: "tiny-allreduces",
            about: family.name.to_owned(),
            cost_s,
            what: format!(
                "{per_process} MPI_Allreduce of at most {TINY_BYTES} bytes per process on {}.",
                family.title
            ),
            evidence: format!(
                "{} by {}, {} each on average.{}{}",
                count(calls, "call"),
                count_of(processes, "process", "processes"),
                time(all_s / calls.max(1) as f64),
                known.map_or(String::new(), |known| format!(
                    " Waiting for others takes {} of MPI_Allreduce of all sizes, and is not in Time.",
                    waiting::share(known)
                )),
                at::of_calls(facts, &family, "calls of MPI_Allreduce", |call| call == "MPI_Allreduce"),
            ),
            threshold: format!("{TINY_CALLS} calls per process and {} of the run", percent(TINY_OF_RUN)),
            advice: format!(
                "Reduce several values at once in one array. Test for convergence less often. Or start the \
                 reduction with MPI_Iallreduce and compute meanwhile.{}",
                match known {
                    Some(_) => "",
                    None => " Waiting for late processes was not measured; fewer calls do not save it.",
                }
            ),
        })
    };
    facts.families().filter_map(finding).collect()
}

/// Time on scattered communicators, of the run.
const SCATTERED_OF_RUN: f64 = 0.02;

/// Communicators that would fit a node and are spread over several.
fn scattered(facts: &Facts<'_>) -> Vec<Finding> {
    let is_scattered = |comm: &&Comm<'_>| {
        let is_small = |size: u32| size > 1 && size <= facts.ranks_per_node;
        let spread = comm.row.is_some_and(|row| row.nodes > 1 && row.count == 1 && is_small(row.size));
        spread && comm.shape != Shape::Leaders
    };
    let talks = |used: &Used| used.kind != Some(OperationKind::Communicator);
    let finding = |family: FamilyFacts<'_>| {
        let comms: Vec<&Comm<'_>> = family.comms.iter().copied().filter(is_scattered).collect();
        let cost_s: f64 = comms.iter().map(|comm| comm.time_s(talks)).sum();
        let size = comms.iter().map(|comm| comm.size()).max()?;
        let nodes = comms.iter().filter_map(|comm| comm.row).map(|row| row.nodes).max()?;
        let is_one = family.comms.len() == 1;
        let some =
            if comms.len() < family.comms.len() { format!("{} of ", comms.len()) } else { String::new() };
        (facts.share_of_run(cost_s) >= SCATTERED_OF_RUN).then(|| Finding {
            rule: "scattered",
            about: family.name.to_owned(),
            cost_s,
            what: match is_one {
                true => format!("{} would fit on one node and is on several.", family.title),
                false => format!("{} would each fit on one node and are on several.", family.title),
            },
            evidence: format!(
                "{some}{} of up to {}, on up to {} each. A node has {}.",
                count(family.comms.len() as u64, "communicator"),
                count_of(size.into(), "process", "processes"),
                count(nodes.into(), "node"),
                count(facts.ranks_per_node.into(), "rank"),
            ),
            threshold: format!("{} of the run on these communicators", percent(SCATTERED_OF_RUN)),
            advice: "The part of the network in this time is not measured. mpisee-through locality PROFILE \
                     has the traffic across nodes. Try to place neighbouring ranks differently (Open MPI: \
                     mpirun --map-by or --rank-by; Slurm: --distribution; MPICH: -map-by). Or choose members \
                     by node with MPI_Comm_split_type."
                .to_owned(),
        })
    };
    facts.families().filter_map(finding).collect()
}

/// The smallest of the sizes from which usual MPI libraries send no more eagerly: Open MPI's in
/// shared memory.
const RENDEZVOUS_BYTES: u64 = 4096;
/// A send is no matter of bandwidth if it takes longer than its bytes at this rate, per second.
const SLOW_BYTES_PER_S: f64 = (512 << 20) as f64;
const BLOCKING_OF_RUN: f64 = 0.05;

fn is_blocking_send(call: &str) -> bool {
    ["MPI_Send", "MPI_Ssend"].contains(&call)
}

/// Blocking sends of messages that are slower than their bytes explain.
fn blocking_sends(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |family: FamilyFacts<'_>| {
        let sends = family.used.iter().filter(|used| is_blocking_send(&used.call));
        let waits =
            |of: &&OfSize| of.size_min >= RENDEZVOUS_BYTES && of.time_s > of.bytes as f64 / SLOW_BYTES_PER_S;
        let long = sends.flat_map(|used| &used.sizes).filter(waits);
        let (calls, bytes, time_s) = long.fold((0, 0, 0.0), |(calls, bytes, time_s), of| {
            (calls + of.calls, of.bytes.saturating_add(bytes), time_s + of.time_s)
        });
        // What is known to be waiting is that of other rules.
        let known = waiting::of_sends(facts, &family);
        let waits = known.map_or(0.0, |(time_s, waiting)| (waiting.total / time_s).clamp(0.0, 1.0));
        let cost_s = (1.0 - waits) * time_s;
        let is_slow = cost_s > bytes as f64 / SLOW_BYTES_PER_S;
        (is_slow && facts.share_of_run(cost_s) >= BLOCKING_OF_RUN).then(|| Finding {
            rule: "blocking-sends",
            about: family.name.to_owned(),
            cost_s,
            what: format!(
                "Blocking sends of {} and more on {} move {} per second.",
                human_bytes(RENDEZVOUS_BYTES),
                family.title,
                human_bytes((bytes as f64 / cost_s.max(f64::MIN_POSITIVE)) as u64)
            ),
            evidence: format!(
                "{} of {} on average take {} each.{}{}",
                count(calls, "send"),
                human_bytes(bytes / calls.max(1)),
                time(time_s / calls.max(1) as f64),
                known.map_or(String::new(), |known| format!(
                    " Known waiting takes {} of blocking sends of all sizes. Without this part, these sends \
                     take {} each.",
                    waiting::share(known),
                    time(cost_s / calls.max(1) as f64)
                )),
                at::of_time(facts, &family, "the time in blocking sends", is_blocking_send),
            ),
            threshold: format!(
                "{} of the run in MPI_Send and MPI_Ssend of {} and more, without known waiting, at less than \
                 {} per second",
                percent(BLOCKING_OF_RUN),
                human_bytes(RENDEZVOUS_BYTES),
                human_bytes(SLOW_BYTES_PER_S as u64)
            ),
            advice: format!(
                "MPI libraries mostly return from a send of this size when the receiver takes the message. \
                 The send may wait for late receivers{}. mpisee-through waits PROFILE has the waiting part, \
                 as far as messages were sampled. MPI_Isend, completed later, lets the sender go on \
                 meanwhile.",
                match (&facts.lack, facts.knows_waits) {
                    (Some(_), _) => ", the network, and receivers that had no core",
                    (None, true) => ", or the network (no rank lacked a core)",
                    (None, false) => ", the network, or ranks that wait for a core",
                }
            ),
        })
    };
    facts.families().filter_map(finding).collect()
}
