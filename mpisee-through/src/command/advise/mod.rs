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
pub mod registry;
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
use crate::next_step;
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
  mpisee-through advise app.mpisee                           what to fix first
  mpisee-through advise app.mpisee --comm 'W_s2.*'           findings on some communicators
  mpisee-through advise app.mpisee --network network.json    with a replay of mpisee-bench
  mpisee-through advise app.mpisee --format json             for scripts";

/// Findings: what costs most time, the evidence, and what to try
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, long_about = registry::help())]
pub struct AdviseArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Show also findings that were never compared with hardware: nccl-uneven and nccl-time
    #[arg(long)]
    experimental: bool,

    #[command(flatten)]
    network: NetworkArgs,

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

/// The note on findings in a run that did not come to its end.
const OF_INTERRUPTED: &str = "Times are lower bounds. Times leave out calls in progress when ranks ended, \
                              and everything after the last known call of each rank. Shares are of the known \
                              time; shares of the whole run may be larger or smaller. A hang or the early end \
                              explains tests and probes in which ranks ended, or between which they may have \
                              ended, and communicators that were not freed. Findings leave them out.";

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
    let findings = findings(&facts, &view, args.experimental);
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
    if let Some(first) = findings.first() {
        let (command, question) = next(first);
        answer.next = next_step::line(view.profile(), command, question);
    }
    answer.write(&args.output)
}

/// The command to type after the first finding, and the question that it answers.
fn next(first: &Finding) -> (&'static str, &'static str) {
    match first.rule {
        cause::WAITING => ("waits", "which rank is late, and who waits for it"),
        no_core::RULE => ("ranks", "which ranks lack a core, and where they run"),
        _ => ("sites", "which lines of the program call MPI"),
    }
}

/// The finding that comes first, with its share of the run; none if no rule applies.
pub fn first(view: &ProfileView) -> Result<Option<String>> {
    let everything = CommFilter::default();
    let facts = Facts::gather(view, &everything)?;
    let first = findings(&facts, view, false).into_iter().next();
    Ok(first.map(|finding| match finding.rule {
        deadlock::RULE => finding.what,
        _ => {
            let share = finding::percent(facts.share_of_run(finding.cost_s));
            format!("{} ({share} of the run)", finding.what.trim_end_matches('.'))
        }
    }))
}

/// The answer of the command on all communicators and ranks, as for programs.
pub fn of_run(view: &ProfileView) -> Result<Answer> {
    let everything = CommFilter::default();
    let mut facts = Facts::gather(view, &everything)?;
    (facts.network, facts.unreadable_network) = Comparison::find(view, &NetworkArgs::default())?;
    let findings = findings(&facts, view, false);
    let verdict = verdict::verdict(&facts);
    Ok(answer(view, facts, &findings, &verdict))
}

/// The findings in their order, those of experimental rules only if they are asked for; the
/// commands in them have the name of the profile.
fn findings(facts: &Facts<'_>, view: &ProfileView, experimental: bool) -> Vec<Finding> {
    let mut findings = rules::all(facts);
    findings.retain(|finding| experimental || !registry::rule_by_name(finding.rule).is_experimental);
    let name = next_step::shell_name(view.profile());
    for Finding { evidence, advice, .. } in &mut findings {
        for text in [evidence, advice] {
            *text = text.replace("PROFILE", &name);
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
    if let Some(comparison) = &facts.network
        && !findings.iter().any(|it| network::RULES.contains(&it.rule))
    {
        answer.caveats.push(network::without_findings(comparison));
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
