//! `advise`: findings in plain words, the most costly first.

mod alltoallv;
mod at;
mod at_end;
mod barriers;
mod cause;
mod creation;
mod deadlock;
mod facts;
mod finding;
mod gpu_far;
mod messages;
mod nccl;
mod network;
mod no_core;
mod one_rank;
mod polling;
mod profiler;
mod rules;
mod skewed_volume;
mod slow_transfer;
mod small_messages;
mod staging;
mod text;
mod uneven_work;
mod verdict;
mod waiting;
mod work;

use super::Outcome;
use crate::beside_network::{Comparison, NetworkArgs};
use crate::filter::CommFilter;
use crate::interrupted;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use facts::Facts;
use finding::Finding;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through advise app.mpisee                             what to look at first
  mpisee-through advise app.mpisee --comm 'W_s2.*'             on some communicators
  mpisee-through advise app.mpisee --network network.json      also beside a replay of mpisee-bench --like
  mpisee-through advise app.mpisee --format json               for other programs";

/// Findings in plain words: what takes most time, and what to try
///
/// What dominates comes first, then findings, each with its evidence and the rule's threshold.
/// There is one finding per cause: where the same ranks hold up others on several communicators, or
/// only pass on what others cause, one finding has all of it. Findings below 1 % of the run have a
/// line each at the end. The rules:
///
/// deadlock: ranks that waited for each other when they were killed, as far as that is proved. It comes
/// first.
/// no-core: ranks that were ready to run and had no core, because of more ranks or threads than cores,
/// ranks bound to the same core, a quota, or other processes. It comes before others, whatever its time.
/// dominating: collectives, or point-to-point messages, of one communicator that take much of the MPI
/// time, beside what other findings explain.
/// tiny-allreduces: very many MPI_Allreduce of a few bytes.
/// waiting: members that wait for others in collectives, as measured by the arrivals of all members, or
/// in point-to-point messages, as measured by both ends (mpisee-through waits). The finding says for
/// whom, where ranks, a node or a root stand out, and at which end of messages.
/// uneven-work: a rank that is outside of MPI for much longer than the others, by more than it may have
/// waited for a core, where no finding is about as much waiting for it.
/// scattered: communicators no larger than a node that span several.
/// alltoallv: MPI_Alltoallv that takes much of the run, and for which the MPI library has other
/// algorithms; mpisee-bench tune measures them.
/// skewed-volume: collectives with counts for each member (MPI_Alltoallv, MPI_Gatherv and the like) in
/// which one has far more bytes than the mean, and that take long beside waiting.
/// needless-barriers: MPI_Barrier right before a collective that synchronises anyway, as measured by
/// the arrivals of all members.
/// slow-transfer: collectives whose transfers take many times as long as the shortest ones of this
/// run.
/// shared-network, network: operations of which communicators in each other's way, or the network itself,
/// take much of the run; where network.json beside the profile, or --network, has its replay.
/// through-one-rank: messages of which one rank is an end of nearly all, and in which the others spend
/// much time.
/// small-messages: many small messages to the same rank between two calls that bring the sender
/// something.
/// creation: like communicators created many times, or not freed.
/// reorder: a topology for which MPI was allowed to reorder ranks and did not.
/// blocking-sends: MPI_Send of long messages at a low rate, as far as it is not known to be waiting.
/// gpu-far: ranks whose cores are on another NUMA node than their GPU.
/// staging: blocking copies between GPUs and the host for messages, that take 1 % of the run or more (of
/// mpisee --gpu-copies).
/// nccl-uneven: few ranks whose GPUs spend less in collectives of NCCL than those of the others (of
/// mpisee --nccl-gpu-time): they come last, or are done earlier.
/// nccl-time: operations of NCCL in which GPUs spend much of the run.
/// polling: very many tests for completion, or probes that do not wait.
/// profiler: ranks of whose time the profiler itself took much.
/// finalize: ranks that wait long in MPI_Finalize for the last ones.
///
/// A finding is a hint from sums over the run, not a proof. Its time is that of all ranks in the
/// calls that it is about, of which some part may be saved; its share of the run is by ranks x the
/// wall time of the longest rank, as in efficiency. Findings may overlap. Like communicators are
/// judged together: W_s2.* (4 × 8) are 4 of 8 processes. Where half of the calls or more, or of their
/// time, are at one place in the program, the finding names it (mpisee-through sites).
///
/// Of a run that hung, crashed or was killed, the first lines say where each rank was, which is what
/// to look at first. Times are lower bounds then, and what a hang or the early end explains is no
/// finding, such as tests and probes in which ranks ended, or communicators that were not freed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct AdviseArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    #[command(flatten)]
    network: NetworkArgs,

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// The note on findings in a run that did not come to its end.
const OF_INTERRUPTED: &str = "Times are lower bounds: calls in progress when ranks ended are not counted, nor what came after the last call that \
     is known of each rank; shares are of what is known, and those of the whole run may be larger or smaller. Since a hang or the early end explains \
     them, tests and probes in which ranks ended, or between which they may have, and communicators that were not freed are left \
     out.";

const HEADS: [Head; 8] = [
    sheet::fixed("rule", "RULE"),
    sheet::fixed("about", "ABOUT"),
    sheet::number("cost_s", "TIME"),
    sheet::number("share_of_run", "% of run"),
    sheet::fixed("finding", "FINDING"),
    sheet::fixed("evidence", "EVIDENCE"),
    sheet::fixed("threshold", "THRESHOLD"),
    sheet::fixed("try", "TRY"),
];

/// Runs the command.
pub fn run(args: &AdviseArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    no_match::need_chosen(&view, &args.filter)?;
    let mut facts = Facts::gather(&view, &args.filter)?;
    (facts.network, facts.unreadable_network) = Comparison::find(&view, &args.network)?;
    let findings = findings(&facts, &view);
    let verdict = verdict::verdict(&facts);
    let drawn = match args.output.format() {
        Format::Table => Some(text::numbered(&verdict, &findings, &facts, args.output.page())),
        Format::Csv | Format::Json => None,
    };
    let mut answer = answer(&view, facts, &findings, &verdict);
    if let Some(text) = drawn {
        answer.sheets.clear();
        answer.lead = text;
    }
    answer.write(&args.output)
}

/// A text with the profile as a shell takes it, where rules say `PROFILE`.
fn with_profile(text: &str, view: &ProfileView) -> String {
    let name = view.profile().directory().display().to_string();
    let is_plain = name.chars().all(|one| one.is_alphanumeric() || "/._-+=,@%".contains(one));
    text.replace("PROFILE", &if is_plain { name } else { format!("'{}'", name.replace('\'', r"'\''")) })
}

/// The answer of the command on all communicators and ranks, as for programs.
pub fn of_run(view: &ProfileView) -> Result<Answer> {
    let everything = CommFilter::default();
    let mut facts = Facts::gather(view, &everything)?;
    (facts.network, facts.unreadable_network) = Comparison::find(view, &NetworkArgs::default())?;
    let findings = findings(&facts, view);
    let verdict = verdict::verdict(&facts);
    Ok(answer(view, facts, &findings, &verdict))
}

/// Said beside a replay without findings.
const NOTHING_OF_NETWORK: &str = "Beside the replay (network.json) neither the network nor siblings are known to take 5 % of the run in any operation; \
                                  mpisee-through compare-network has the parts of each.";

/// The findings in their order; the commands in them have the name of the profile.
fn findings(facts: &Facts<'_>, view: &ProfileView) -> Vec<Finding> {
    let mut findings = rules::all(facts);
    for Finding { evidence, advice, .. } in &mut findings {
        for text in [evidence, advice] {
            *text = with_profile(text, view);
        }
    }
    findings.sort_by(|left, right| {
        order(left)
            .cmp(&order(right))
            .then_with(|| right.cost_s.total_cmp(&left.cost_s))
            .then_with(|| (left.rule, &left.about).cmp(&(right.rule, &right.about)))
    });
    findings
}

/// Deadlocks come first, then lack of cores, and findings by their time.
fn order(finding: &Finding) -> u8 {
    match finding.rule {
        deadlock::RULE => 0,
        no_core::RULE => 1,
        _ => 2,
    }
}

fn answer(view: &ProfileView, mut facts: Facts<'_>, findings: &[Finding], verdict: &str) -> Answer {
    let rows = findings.iter().map(|finding| row(finding, &facts)).collect();
    let sheet = Sheet { name: "findings", heads: HEADS.to_vec(), rows };
    let mut answer = Answer::new(view.profile(), sheet, facts.cut_off.take());
    if let Some(places) = interrupted::last_places(view) {
        answer.caveats.splice(0..0, [places, OF_INTERRUPTED.to_owned()]);
    }
    answer.caveats.extend(nccl::note(&facts));
    answer.caveats.extend(nccl::note_on_untimed(&facts));
    answer.caveats.extend(facts.unreadable_network.take());
    if facts.network.is_some() && !findings.iter().any(|it| network::RULES.contains(&it.rule)) {
        answer.caveats.push(NOTHING_OF_NETWORK.to_owned());
    }
    answer.values.push(("verdict", verdict.into()));
    answer
}

fn row(finding: &Finding, facts: &Facts<'_>) -> Vec<Value> {
    vec![
        finding.rule.into(),
        finding.about.as_str().into(),
        Value::Seconds(finding.cost_s),
        Value::Share(facts.share_of_run(finding.cost_s)),
        finding.what.as_str().into(),
        finding.evidence.as_str().into(),
        finding.threshold.as_str().into(),
        finding.advice.as_str().into(),
    ]
}
