//! The rules: each looks at the facts and returns what it finds.

use super::alltoallv;
use super::creation;
use super::facts::{Comm, Facts, OfSize, Used};
use super::finding::{Finding, percent};
use crate::shape::Shape;
use crate::units::{count, human_bytes};
use mpisee_profile::Kind;
use mpisee_profile::comm_name::creation;
use std::collections::BTreeMap;

/// Everything that the rules find.
pub fn all(facts: &Facts<'_>) -> Vec<Finding> {
    let rules: [fn(&Facts<'_>) -> Vec<Finding>; 8] = [
        tiny_allreduces,
        late_member,
        scattered,
        alltoallv::rule,
        creation::rule,
        creation::reorder,
        blocking_sends,
        polling,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(facts)).collect();
    let general = dominating(facts, &findings);
    findings.extend(general);
    findings
}

pub fn is_collective(used: &Used) -> bool {
    used.kind == Some(Kind::Collective)
}

/// The least part of all MPI time, and of the run, that makes a communicator dominating.
const DOMINATING_OF_MPI: f64 = 0.4;
const DOMINATING_OF_RUN: f64 = 0.1;
/// A communicator is not reported as dominating if other findings explain this share of its time.
const EXPLAINED: f64 = 0.5;

/// One communicator whose collectives, or messages, take much of the MPI time.
fn dominating(facts: &Facts<'_>, others: &[Finding]) -> Vec<Finding> {
    let collectives = dominating_in("collectives", is_collective, facts, others);
    let messages = dominating_in("messages between two processes", is_message, facts, others);
    collectives.into_iter().chain(messages).collect()
}

/// Whether it is about messages between two processes; waits and tests are mostly for these.
fn is_message(used: &Used) -> bool {
    matches!(used.kind, Some(Kind::PointToPoint | Kind::Completion | Kind::Probe))
}

fn dominating_in(
    what: &str,
    chosen: fn(&Used) -> bool,
    facts: &Facts<'_>,
    others: &[Finding],
) -> Option<Finding> {
    let time_s = |comm: &Comm<'_>| comm.time_s(chosen);
    let comm = facts.comms.values().max_by(|left, right| time_s(left).total_cmp(&time_s(right)))?;
    let cost_s = time_s(comm);
    let explained_s: f64 =
        others.iter().filter(|finding| finding.about == comm.name).map(|finding| finding.cost_s).sum();
    let of_mpi = cost_s / facts.mpi_s.max(f64::MIN_POSITIVE);
    if of_mpi < DOMINATING_OF_MPI
        || facts.share_of_run(cost_s) < DOMINATING_OF_RUN
        || explained_s >= EXPLAINED * cost_s
    {
        return None;
    }
    let most = comm.used.iter().filter(|used| chosen(used));
    let most = most.max_by(|left, right| left.time_s.total_cmp(&right.time_s))?;
    Some(Finding {
        rule: "dominating",
        about: comm.name.clone(),
        cost_s,
        what: format!("Much of the MPI time is in {what} on {}.", comm.name),
        evidence: format!(
            "{} of the MPI time of all ranks; most of it in {}: {} of {:.1} us.",
            percent(of_mpi),
            most.call,
            count(most.calls, "call"),
            1e6 * most.time_s / most.calls.max(1) as f64
        ),
        threshold: format!(
            "{} of the MPI time and {} of the run",
            percent(DOMINATING_OF_MPI),
            percent(DOMINATING_OF_RUN)
        ),
        advice: format!(
            "Look at it alone: mpisee-through ranks PROFILE --comm '{}' shows whether members wait for others, \
             mpisee-through sizes PROFILE --comm '{}' whether calls could be fewer or larger.",
            comm.name, comm.name
        ),
    })
}

/// Bytes up to which a reduction costs latency alone.
const TINY_BYTES: u64 = 63;
/// So many of them per member, and so much of the run, are worth a word.
const TINY_CALLS: u64 = 1000;
const TINY_OF_RUN: f64 = 0.02;

/// Very many reductions of a few bytes on one communicator.
fn tiny_allreduces(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |comm: &Comm<'_>| {
        let used = comm.call("MPI_Allreduce")?;
        let tiny = used.sizes.iter().filter(|of| of.size_max <= TINY_BYTES);
        let (calls, cost_s) =
            tiny.fold((0, 0.0), |(calls, time_s), of| (calls + of.calls, time_s + of.time_s));
        let per_member = calls / u64::from(comm.size().max(1));
        (comm.size() > 1 && per_member >= TINY_CALLS && facts.share_of_run(cost_s) >= TINY_OF_RUN).then(|| Finding {
            rule: "tiny-allreduces",
            about: comm.name.clone(),
            cost_s,
            what: format!("{} MPI_Allreduce of a few bytes per member of {}.", per_member, comm.name),
            evidence: format!(
                "{} of at most {TINY_BYTES} bytes take {:.1} us each on {} processes.",
                count(calls, "call"),
                1e6 * cost_s / calls as f64,
                comm.size()
            ),
            threshold: format!("{TINY_CALLS} calls per member and {} of the run", percent(TINY_OF_RUN)),
            advice: "Reduce several values at once in one array; test for convergence less often; or start it with \
                     MPI_Iallreduce and compute meanwhile."
                .to_owned(),
        })
    };
    facts.comms.values().filter_map(finding).collect()
}

/// Synchronising collectives: no rank returns before all have entered.
const SYNCHRONISING: [&str; 9] = [
    "MPI_Allgather",
    "MPI_Allgatherv",
    "MPI_Allreduce",
    "MPI_Alltoall",
    "MPI_Alltoallv",
    "MPI_Alltoallw",
    "MPI_Barrier",
    "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block",
];
/// The least share of the run that the other members wait.
const LATE_OF_RUN: f64 = 0.05;
/// The late member spends at most this share of the time of the next one.
const LATE_OF_NEXT: f64 = 0.5;
/// The fewest members for which the rule applies: of two processes, each may wait for the other.
const LATE_MEMBERS: usize = 3;

/// Members that wait for a late one, which spends the least time in synchronising collectives.
fn late_member(facts: &Facts<'_>) -> Vec<Finding> {
    facts.comms.values().filter_map(|comm| late_on(comm, facts)).collect()
}

fn late_on(comm: &Comm<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let row = comm.row?;
    let members = facts.processes.present_members(&row.members);
    if members.len() < LATE_MEMBERS || row.size == 1 {
        return None;
    }
    let mut times: BTreeMap<u32, f64> = members.iter().map(|&rank| (rank, 0.0)).collect();
    for used in comm.used.iter().filter(|used| SYNCHRONISING.contains(&used.call.as_str())) {
        for &(rank, time_s) in &used.ranks {
            *times.entry(rank).or_default() += time_s;
        }
    }
    let mut sorted: Vec<(u32, f64)> = times.into_iter().collect();
    sorted.sort_by(|left, right| left.1.total_cmp(&right.1));
    let [(late, least_s), (_, next_s), ..] = sorted[..] else { return None };
    let cost_s: f64 = sorted.iter().map(|&(_, time_s)| time_s - least_s).sum();
    if facts.share_of_run(cost_s) < LATE_OF_RUN || least_s > LATE_OF_NEXT * next_s {
        return None;
    }
    let others_s = sorted[1..].iter().map(|&(_, time_s)| time_s).sum::<f64>() / (sorted.len() - 1) as f64;
    let host =
        facts.processes.ranks().iter().find(|row| row.rank == late).map_or("?", |row| row.host.as_str());
    Some(Finding {
        rule: "late-member",
        about: comm.name.clone(),
        cost_s,
        what: format!("The members of {} wait for rank {late}.", comm.name),
        evidence: format!(
            "In collectives that nobody leaves before all have come, rank {late} (on {host}) spent {least_s:.3} s, the \
             others {others_s:.3} s on average, the least of them {next_s:.3} s."
        ),
        threshold: format!(
            "the others wait {} of the run, and the next one spends more than {} times as much",
            percent(LATE_OF_RUN),
            1.0 / LATE_OF_NEXT
        ),
        advice: format!(
            "Find out what rank {late} does besides: more work than its share, input and output for all, or a slow \
             node ({host})."
        ),
    })
}

/// Time on scattered communicators, of the run.
const SCATTERED_OF_RUN: f64 = 0.02;

/// Communicators that would fit a node and are spread over several; those that one call made together.
fn scattered(facts: &Facts<'_>) -> Vec<Finding> {
    let mut families: BTreeMap<&str, Vec<&Comm<'_>>> = BTreeMap::new();
    for comm in facts.comms.values() {
        let is_small = |size: u32| size > 1 && size <= facts.ranks_per_node;
        let spread = comm.row.is_some_and(|row| row.nodes > 1 && row.count == 1 && is_small(row.size));
        if spread && comm.shape != Shape::Leaders {
            families.entry(creation(&comm.name)).or_default().push(comm);
        }
    }
    let finding = |(made, comms): (&str, Vec<&Comm<'_>>)| {
        let talks = |used: &Used| used.kind != Some(Kind::Communicator);
        let cost_s: f64 = comms.iter().map(|comm| comm.time_s(talks)).sum();
        let (first, sizes) = (comms[0], comms.iter().map(|comm| comm.size()).max().unwrap_or(0));
        let about = if comms.len() == 1 { first.name.clone() } else { format!("{made}.*") };
        (facts.share_of_run(cost_s) >= SCATTERED_OF_RUN).then(|| Finding {
            rule: "scattered",
            what: format!("{about} would fit a node and is on several."),
            evidence: format!(
                "{} of up to {sizes} processes, on up to {} each; a node has {}.",
                count(comms.len() as u64, "communicator"),
                count(
                    u64::from(
                        comms.iter().filter_map(|comm| comm.row).map(|row| row.nodes).max().unwrap_or(0)
                    ),
                    "node"
                ),
                count(u64::from(facts.ranks_per_node), "rank"),
            ),
            threshold: format!("{} of the run on them", percent(SCATTERED_OF_RUN)),
            advice: "Place neighbouring ranks differently (Open MPI: mpirun --map-by or --rank-by; Slurm: \
                     --distribution; MPICH: -map-by), or choose the members by MPI_Comm_split_type and node."
                .to_owned(),
            about,
            cost_s,
        })
    };
    families.into_iter().filter_map(finding).collect()
}

/// The smallest of the sizes from which usual MPI libraries send no more eagerly: Open MPI's in shared memory.
const RENDEZVOUS_BYTES: u64 = 4096;
/// A send is no matter of bandwidth if it takes longer than its bytes at this rate, per second.
const SLOW_BYTES_PER_S: f64 = (512 << 20) as f64;
const BLOCKING_OF_RUN: f64 = 0.05;

/// Blocking sends of messages that wait for their receiver.
fn blocking_sends(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |comm: &Comm<'_>| {
        let sends = comm.used.iter().filter(|used| ["MPI_Send", "MPI_Ssend"].contains(&used.call.as_str()));
        let waits =
            |of: &&OfSize| of.size_min >= RENDEZVOUS_BYTES && of.time_s > of.bytes as f64 / SLOW_BYTES_PER_S;
        let long = sends.flat_map(|used| &used.sizes).filter(waits);
        let (calls, bytes, cost_s) = long.fold((0, 0, 0.0), |(calls, bytes, time_s), of| {
            (calls + of.calls, of.bytes.saturating_add(bytes), time_s + of.time_s)
        });
        (facts.share_of_run(cost_s) >= BLOCKING_OF_RUN).then(|| Finding {
            rule: "blocking-sends",
            about: comm.name.clone(),
            cost_s,
            what: format!("Blocking sends of long messages on {} take long.", comm.name),
            evidence: format!(
                "{} of {} on average take {:.1} us each: {} per second.",
                count(calls, "send"),
                human_bytes(bytes / calls.max(1)),
                1e6 * cost_s / calls.max(1) as f64,
                human_bytes((bytes as f64 / cost_s.max(f64::MIN_POSITIVE)) as u64)
            ),
            threshold: format!(
                "{} of the run in MPI_Send and MPI_Ssend of {} and more, at less than {} per second",
                percent(BLOCKING_OF_RUN),
                human_bytes(RENDEZVOUS_BYTES),
                human_bytes(SLOW_BYTES_PER_S as u64)
            ),
            advice:
                "A send of this size mostly returns when its message is taken. Why that takes long is not measured: late \
                     receivers, the network, or ranks that wait for a core. Where receivers are late, post receives \
                     earlier, or start the send with MPI_Isend and wait for it later."
                    .to_owned(),
        })
    };
    facts.comms.values().filter_map(finding).collect()
}

const TESTS: [&str; 7] = [
    "MPI_Iprobe",
    "MPI_Improbe",
    "MPI_Request_get_status",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
];
/// So many tests per member and per message or operation that could complete, and so much of the run.
const POLLS_PER_MEMBER: u64 = 1000;
const POLLS_PER_START: u64 = 10;
const POLLING_OF_RUN: f64 = 0.02;

/// Tests for completion again and again.
fn polling(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |comm: &Comm<'_>| {
        let tests = || comm.used.iter().filter(|used| TESTS.contains(&used.call.as_str()));
        let polls: u64 = tests().map(|used| used.calls).sum();
        let cost_s: f64 = tests().map(|used| used.time_s).sum();
        let starts: u64 = comm.used.iter().filter(|used| is_start(&used.call)).map(|used| used.calls).sum();
        let most = tests().max_by_key(|used| used.calls)?;
        (polls / u64::from(comm.size().max(1)) >= POLLS_PER_MEMBER
            && polls >= POLLS_PER_START * starts
            && facts.share_of_run(cost_s) >= POLLING_OF_RUN)
            .then(|| Finding {
                rule: "polling",
                about: comm.name.clone(),
                cost_s,
                what: format!("The members of {} poll for completion.", comm.name),
                evidence: format!(
                    "{}, mostly {}; {} started that they could complete.",
                    count(polls, "test"),
                    most.call,
                    if starts == 1 { "1 operation was".to_owned() } else { format!("{starts} operations were") },
                ),
                threshold: format!(
                    "{POLLS_PER_MEMBER} tests per member, {POLLS_PER_START} per operation started, {} of the run",
                    percent(POLLING_OF_RUN)
                ),
                advice: "Wait (MPI_Waitany, MPI_Waitsome) where there is nothing else to do; otherwise do more work \
                         between two tests."
                    .to_owned(),
            })
    };
    facts.comms.values().filter_map(finding).collect()
}

/// Whether a call starts something that a test may complete, or receives what a probe found.
fn is_start(call: &str) -> bool {
    let short = call.strip_prefix("MPI_").unwrap_or(call);
    let receives = ["Recv", "Mrecv", "Start", "Startall", "Rput", "Rget", "Raccumulate", "Rget_accumulate"];
    receives.contains(&short)
        || short.starts_with('I')
            && !["Iprobe", "Improbe", "Intercomm_create", "Intercomm_merge"].contains(&short)
}

#[cfg(test)]
mod tests {
    use super::is_start;

    #[test]
    fn calls_that_start_are_known() {
        for call in ["MPI_Irecv", "MPI_Iallreduce", "MPI_Start", "MPI_Mrecv"] {
            assert!(is_start(call), "{call}");
        }
        for call in ["MPI_Iprobe", "MPI_Intercomm_merge", "MPI_Test", "MPI_Send"] {
            assert!(!is_start(call), "{call}");
        }
    }
}
