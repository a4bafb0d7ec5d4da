//! The rules by name: what `--help` says of each, and what others have to know of it.

/// A rule of `advise`.
pub struct Rule {
    /// The name, as findings have it.
    pub name: &'static str,
    /// The line of `--help` on its findings.
    pub finds: &'static str,
    /// The chart of the report that shows its evidence.
    pub chart: &'static str,
    /// The time that its findings explain.
    pub time_in: TimeIn,
    /// True if the program asked for what is found, which a core more would not change.
    pub is_of_program: bool,
    /// True if its findings were never compared with the hardware that they are about;
    /// `--experimental` shows them.
    pub is_experimental: bool,
}

/// The calls that a rule's findings explain the time of; [`super::rules`] finds dominating
/// communicators in the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TimeIn {
    /// Collectives alone.
    Collectives,
    /// Messages, tests and probes alone.
    Messages,
    /// Either.
    Both,
    /// Neither, as the creation of communicators.
    Neither,
}

const fn rule(name: &'static str, chart: &'static str, time_in: TimeIn, finds: &'static str) -> Rule {
    Rule { name, finds, chart, time_in, is_of_program: false, is_experimental: false }
}

const fn program_choice(rule: Rule) -> Rule {
    Rule { is_of_program: true, ..rule }
}

const fn experimental(rule: Rule) -> Rule {
    Rule { is_experimental: true, ..rule }
}

use TimeIn::{Both, Collectives, Messages, Neither};

/// The rules, in the order of `--help`.
#[rustfmt::skip]
const RULES: [Rule; 25] = [
    rule("deadlock", "operations", Both,
        "ranks waited for each other when they were killed, with proof; comes first"),
    rule("no-core", "cpu", Both,
        "ranks were ready to run and had no core; comes next, whatever its time"),
    rule("dominating", "operations", Both,
        "collectives or messages of one communicator take much of the MPI time"),
    rule("tiny-allreduces", "sizes", Collectives,
        "very many MPI_Allreduce of a few bytes"),
    rule("waiting", "waits", Both,
        "members wait for others in collectives or messages (mpisee-through waits)"),
    rule("uneven-work", "ranks", Both,
        "ranks are outside MPI for much longer than others"),
    program_choice(rule("scattered", "locality", Both,
        "communicators fit on a node, and span several")),
    rule("alltoallv", "sizes", Collectives,
        "MPI_Alltoallv takes much of the run; the MPI library may have faster algorithms"),
    rule("skewed-volume", "ranks", Collectives,
        "one member has far more bytes in collectives than the mean"),
    rule("needless-barriers", "waits", Collectives,
        "MPI_Barrier right before a collective that synchronises anyway"),
    rule("slow-transfer", "sizes", Collectives,
        "transfers of collectives take many times as long as the shortest ones"),
    rule("network", "operations", Both,
        "the network itself takes much of the run (--network)"),
    rule("shared-network", "operations", Both,
        "communicators that share the network take much of the run (--network)"),
    rule("through-one-rank", "matrix", Both,
        "one rank sends or receives nearly all messages"),
    rule("small-messages", "sizes", Messages,
        "many small messages to the same rank"),
    program_choice(rule("creation", "comms", Neither,
        "like communicators are created many times, or not freed")),
    program_choice(rule("reorder", "grid", Both,
        "a topology that MPI was allowed to reorder kept the order of ranks")),
    rule("blocking-sends", "sizes", Messages,
        "MPI_Send of long messages at a low rate"),
    rule("gpu-far", "gpus", Both,
        "the cores of ranks are on another NUMA node than their GPU"),
    rule("staging", "gpus", Both,
        "blocking copies between GPUs and the host for messages (mpisee --gpu-copies)"),
    experimental(rule("nccl-uneven", "gpus", Both,
        "the GPUs of few ranks spend less time in NCCL (mpisee --nccl-gpu-time)")),
    experimental(rule("nccl-time", "gpus", Both,
        "GPUs spend much of the run in an operation of NCCL (mpisee --nccl-gpu-time)")),
    rule("polling", "operations", Messages,
        "very many tests or probes that find nothing"),
    rule("profiler", "operations", Both,
        "the profiler itself takes much of the time of ranks"),
    rule("finalize", "ranks", Both,
        "ranks wait long in MPI_Finalize for the last ones"),
];

/// The rule of that name; every rule that makes a finding is in the list.
pub fn rule_by_name(name: &str) -> &'static Rule {
    RULES.iter().find(|rule| rule.name == name).expect("every rule is in the list")
}

/// The long help of the command, with every rule.
pub fn help() -> String {
    let line = |rule: &Rule| {
        let when = if rule.is_experimental { "; with --experimental" } else { "" };
        format!("- {}: {}{when}", rule.name, rule.finds)
    };
    let rules: Vec<String> = RULES.iter().map(line).collect();
    format!("{ABOUT}\n\n{}", rules.join("\n"))
}

const ABOUT: &str = "\
Findings: what costs most time, the evidence, and what to try

Each finding has its time, its evidence, the threshold of its rule, and what to try. The time is
that of all ranks in the calls of the finding; a part of it can be saved. Times of findings may
overlap. Findings are hints from sums, not proofs. Below 1 % of the run they have a line each,
at the end. After a crash, the first lines say where each rank was, and times are lower bounds.
See docs/explanation/advice.md for thresholds and limits. The rules:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
