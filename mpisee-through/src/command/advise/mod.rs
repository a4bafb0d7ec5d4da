//! `advise`: findings in plain words, the most costly first.

mod alltoallv;
mod creation;
mod facts;
mod finding;
mod rules;
mod text;

use super::Outcome;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::view::ProfileView;
use anyhow::{Context, Result};
use clap::Args;
use facts::Facts;
use finding::Finding;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through advise app.mpisee                             what to look at first
  mpisee-through advise app.mpisee --format json               for other programs
  mpisee-through advise app.mpisee --write-rules rules.conf    a rules file for Open MPI to try";

/// What costs most and what to try, in plain words; each finding with its evidence and the rule's threshold.
///
/// dominating: a communicator whose collectives, or messages, take much of the MPI time.
/// tiny-allreduces: very many reductions of a few bytes on one communicator.
/// late-member: the members of a communicator wait for one of them.
/// scattered: small communicators over several nodes that would fit one.
/// alltoallv: costly MPI_Alltoallv, for which MPI has another algorithm.
/// creation: communicators created again and again, or never freed.
/// reorder: a topology that asked for reordering and did not get it.
/// blocking-sends: long messages with blocking sends, which wait for the receiver.
/// polling: tests for completion again and again.
///
/// A finding is a hint from sums over the run, not a proof. The share of the run is the time over all ranks that it is
/// about, by runtime and ranks; not all of it can be won. Shares of findings may overlap.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct AdviseArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// Write a file of rules for Open MPI's component tuned, with the other algorithm for each size of communicator
    /// of the finding alltoallv
    #[arg(long, value_name = "FILE")]
    write_rules: Option<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [Head; 8] = [
    sheet::fixed("rule", "RULE"),
    sheet::fixed("about", "ABOUT"),
    sheet::number("cost_s", "COST"),
    sheet::number("share_of_run", "SHARE%"),
    sheet::fixed("finding", "FINDING"),
    sheet::fixed("evidence", "EVIDENCE"),
    sheet::fixed("threshold", "THRESHOLD"),
    sheet::fixed("try", "TRY"),
];

/// Runs the command.
pub fn run(args: &AdviseArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let mut facts = Facts::gather(&view)?;
    let cut_off = facts.cut_off.take();
    let mut findings = rules::all(&facts);
    findings.sort_by(|left, right| {
        right
            .cost_s
            .total_cmp(&left.cost_s)
            .then_with(|| (left.rule, &left.about).cmp(&(right.rule, &right.about)))
    });
    if let Some(file) = &args.write_rules {
        let rules = alltoallv::open_mpi_rules(&facts)?;
        std::fs::write(file, rules).with_context(|| format!("cannot write '{}'", file.display()))?;
    }
    let rows = findings.iter().map(|finding| row(finding, &facts)).collect();
    let sheet = Sheet { name: "findings", heads: HEADS.to_vec(), rows };
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    if args.output.format() == Format::Table {
        answer.sheets.clear();
        answer.lead = text::numbered(&findings, &facts, args.output.page());
    }
    answer.write(&args.output)
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
