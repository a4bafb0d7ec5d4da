//! `check`: does the profile agree with itself?

mod copies;
mod devices;
mod explanation;
mod findings;
mod gpu;
mod names;
mod nccl_times;
mod ranks;
mod render;
mod rows;
mod sites;
mod sums;
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
  mpisee-through check app.mpisee                  exit code 1 and differences, or 0
  mpisee-through check app.mpisee --all            every difference
  mpisee-through check app.mpisee --format json    for other programs";

/// Check that the tables of a profile agree with each other. Exit code 1 if they differ.
///
/// ranks: ranks.csv has every rank of MPI_COMM_WORLD once.
/// names: names of communicators are unique, a name begins with its parent's, the parent exists, and
/// the size is the number of members; every name stands for the same members on all of them, as
/// run.json says.
/// rows: communicators and ranks of calls.csv, peers.csv, outside.csv and nccl-peers.csv are in comms.csv and its
/// members; ranks of gpu.csv are those of the run, and its bytes those of the accesses; ranks of gpus.csv
/// use the GPU in ranks.csv, and links are between GPUs and adapters that there are; bytes of staged.csv
/// are among those of copies.csv, and calls of nccl-times.csv among those of calls.csv; sites.csv has
/// every call site of calls.csv, stacks.csv every call path of paths.csv with its sites, and paths have
/// no more calls and time than their first site.
/// traffic: on every communicator, what a rank sent to another is what the other received from it; on those of NCCL ranks are theirs.
/// time: mpi_s of a rank is the sum of its rows in calls.csv, and not more than wall_s (than mpi_thread_s
/// if the thread level is multiple, where calls of threads overlap); no clock jumped.
///
/// In a profile with sums over ranks the same is checked of the sums.
///
/// Traffic that differs is no error of the profile where run.json says that recording was off for a
/// part of the run, that the profile is incomplete, or that some messages are in no table: of
/// receives that were freed before they completed, that had less room than their message, or of which
/// the MPI library does not say what came, and of calls in callbacks; nor is a missing rank, or a
/// communicator that only missing ranks know, in an incomplete profile. Such differences are shown as
/// explained and leave the exit code 0.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub struct CheckArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// Show N differences (default: 10 in a table, all in csv and json)
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

/// Members of a communicator count its creating calls each for itself, so that one which made a call out of the profiler's
/// sight has other names than the rest.
fn check_agreement(run: &RunInfo, findings: &mut Findings) {
    if run.names_agree == Some(false) {
        findings.differs(Check::Names, || {
            "names do not stand for the same members on all ranks: some rank made a communicator by a call that was not \
             seen (by PMPI_, by dlsym, in a callback, or left by a longjmp)"
                .to_owned()
        });
    }
}
