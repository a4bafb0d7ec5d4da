//! `check`: does the profile agree with itself?

mod copies;
mod devices;
mod explanation;
mod findings;
mod gpu;
mod names;
mod nccl_times;
mod order;
mod ranks;
mod render;
mod rows;
mod sites;
mod sums;
mod targets;
mod times;
mod traffic;

use super::Outcome;
use crate::output::OutputArgs;
use crate::processes::ProcessRows;
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use findings::{Check, Findings};
use mpisee_profile::RunInfo;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through check app.mpisee                  exit code 1 and the differences, or 0
  mpisee-through check app.mpisee --all            every difference
  mpisee-through check app.mpisee --format json    for scripts";

/// Check that the tables of a profile agree with each other
///
/// Exit code 1 if they differ. The checks are:
///
/// - ranks: ranks.csv has every rank of MPI_COMM_WORLD once.
/// - names: a communicator's name is unique and begins with the name of its parent, which exists.
///   The size is the number of members. A name has the same members on all of them (run.json).
/// - rows: communicators of all tables are in comms.csv, and ranks are their members. Call sites
///   and paths are in sites.csv and stacks.csv. A path has at most the calls and time of its first
///   site. Bytes of gpu.csv are those of its accesses. Ranks of gpus.csv use that GPU in ranks.csv,
///   and links join known GPUs and adapters. Bytes of staged.csv are among those of copies.csv,
///   calls of nccl-times.csv among those of calls.csv. Steps of order.csv add up to the calls.
/// - traffic: on each communicator, a rank received what another sent to it. Ranks of NCCL's
///   communicators are NCCL's.
/// - time: mpi_s of a rank is the sum of its rows in calls.csv, and at most wall_s. The limit is
///   mpi_thread_s if threads call MPI at once. No clock jumped.
///
/// Profiles with sums over ranks have these checks on the sums. A difference with a known cause is
/// shown as explained, and leaves exit code 0. Known causes are:
///
/// - recording was off for a part of the run
/// - the profile is incomplete; ranks may be missing, and communicators that only these ranks know
/// - run.json counts messages in no table: receives freed early or truncated, unknown lengths,
///   calls in callbacks
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct CheckArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Show N differences (default: 10 in a table, all in CSV and JSON)
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Show all differences (default: see --top)
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let mut findings = Findings::new(args.output.limit(args.top, args.all));
    check_all(&view, &mut findings)?;
    args.output.write(&render::render(view.profile(), &findings, &args.output)?)?;
    Ok(if findings.differences() == 0 { Outcome::Done } else { Outcome::Differs })
}

/// Checks the tables that the profile has.
fn check_all(view: &ProfileView, findings: &mut Findings) -> Result<()> {
    check_agreement(view.run(), findings);
    if let Some(sentence) = view.run().clock_sentence() {
        findings.differs(Check::Time, || sentence);
    }
    match &view.processes().rows {
        ProcessRows::Ranks(ranks) => rows::check(view, ranks, findings),
        ProcessRows::Nodes(nodes) => sums::check(view, nodes, findings),
    }
}

/// Members of a communicator count its creating calls each for itself, so that one which made a
/// call out of the profiler's sight has other names than the rest.
fn check_agreement(run: &RunInfo, findings: &mut Findings) {
    if run.names_agree == Some(false) {
        findings.differs(Check::Names, || {
            "names do not stand for the same members on all ranks: some rank made a communicator by a call that was not \
             seen (by PMPI_, by dlsym, in a callback, or left by a longjmp)"
                .to_owned()
        });
    }
}
