//! `check`: does the profile agree with itself?

mod aggregate;
mod findings;
mod gpu;
mod names;
mod ranks;
mod render;
mod times;
mod traffic;

use super::Outcome;
use crate::load;
use crate::output::OutputArgs;
use anyhow::Result;
use clap::Args;
use findings::Findings;
use mpisee_profile::rows::{CallRow, CommRow, OutsideRow, PeerRow, RankRow};
use mpisee_profile::segment::NotSeen;
use mpisee_profile::{Profile, RunInfo};
use std::collections::HashSet;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through check app.mpisee                  exit code 1 and differences, or 0
  mpisee-through check app.mpisee --all            every difference
  mpisee-through check app.mpisee --format json    for other programs";

/// Does the profile agree with itself? Exit code 1 and the differences if not.
///
/// ranks: ranks.csv has every rank of MPI_COMM_WORLD once.
/// names: names of communicators are unique, a name begins with its parent's, the parent exists, and
/// the size is the number of members; every name stands for the same members on all of them, as run.json says.
/// rows: communicators and ranks of calls.csv, peers.csv and outside.csv are in comms.csv and its members; ranks of
/// gpu.csv are those of the run, and its bytes those of the accesses.
/// traffic: on every communicator, what a rank sent to another is what the other received from it.
/// time: mpi_s of a rank is the sum of its rows in calls.csv, and not more than wall_s (the latter
/// unless the thread level is multiple, where calls of threads overlap).
///
/// Where rows are sums over ranks, each of these is checked of the sums.
///
/// Traffic that differs is no error of the profile where run.json says that recording was off for a
/// part of the run, that the profile is incomplete, or that some messages are in no table: of receives that
/// were freed before they completed, that had less room than their message, or of which the MPI library does
/// not say what came, and of calls in callbacks; nor is a missing rank, or a communicator that only missing
/// ranks know, in an incomplete profile.
/// Such differences are shown as explained and leave the exit code 0.
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

/// What a difference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Ranks,
    Names,
    Rows,
    Traffic,
    Time,
}

impl Check {
    const ALL: [Check; 5] = [Check::Ranks, Check::Names, Check::Rows, Check::Traffic, Check::Time];

    fn name(self) -> &'static str {
        match self {
            Check::Ranks => "ranks",
            Check::Names => "names",
            Check::Rows => "rows",
            Check::Traffic => "traffic",
            Check::Time => "time",
        }
    }

    /// What holds where nothing is found, in a profile whose rows are sums over ranks.
    fn claim_of_sums(self) -> &'static str {
        match self {
            Check::Ranks => "nodes.csv has every rank once",
            Check::Names => "names, parents and members of communicators agree",
            Check::Rows => "communicators, calls and bytes of totals.csv, spread.csv and offsets.csv agree",
            Check::Traffic => "what was sent is what was received, on each communicator at each distance",
            Check::Time => "the MPI time of all ranks is that of their calls",
        }
    }

    /// What holds where nothing is found.
    fn claim(self) -> &'static str {
        match self {
            Check::Ranks => "ranks.csv has every rank once",
            Check::Names => "names, parents and members of communicators agree",
            Check::Rows => "calls.csv and peers.csv name communicators and their members only",
            Check::Traffic => "what was sent is what was received, between each two ranks",
            Check::Time => "the MPI time of each rank is that of its calls",
        }
    }
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<Outcome> {
    let profile = load::open(&args.profile)?;
    let mut findings = Findings::new(args.output.limit(args.top, args.all));
    check_all(&profile, &mut findings)?;
    args.output.write(&render::render(&profile, &findings, &args.output)?)?;
    Ok(if findings.differences() == 0 { Outcome::Done } else { Outcome::Differs })
}

/// Each table is read once; `calls.csv` and `peers.csv` are not held.
fn check_all(profile: &Profile, findings: &mut Findings) -> Result<()> {
    let run = profile.run();
    check_agreement(run, findings);
    if run.is_aggregate {
        return aggregate::check_all(profile, findings);
    }
    let ranks: Vec<RankRow> = load::all(profile)?;
    let comms: Vec<CommRow> = load::all(profile)?;
    ranks::check(run, &ranks, findings);
    let incomplete = (!run.complete).then_some("the profile is incomplete");
    names::check(run.ranks, &comms, incomplete, findings);

    let mut members = names::RowCheck::new(&comms, incomplete);
    let mut times = times::TimeCheck::new(&ranks, run.mpi.thread_level == "multiple");
    for row in profile.rows::<CallRow>()? {
        let row = row?;
        members.row("calls.csv", &row.comm, row.rank, findings);
        times.row(&row);
    }
    times.finish(findings);

    let mut traffic = traffic::TrafficCheck::default();
    for row in profile.rows::<PeerRow>()? {
        let row = row?;
        members.row("peers.csv", &row.comm, row.rank, findings);
        members.row("peers.csv", &row.comm, row.peer, findings);
        traffic.row(&row);
    }
    traffic.finish(traffic_explanation(run), findings);
    // What went to another world was received there; its own profile tells.
    for row in profile.rows_if_any::<OutsideRow>()? {
        let row = row?;
        members.row("outside.csv", &row.comm, row.rank, findings);
        members.outsider("outside.csv", &row.comm, row.peer_in_comm, findings);
    }
    let present: HashSet<u32> = ranks.iter().map(|row| row.rank).collect();
    gpu::check(profile, |rank| present.contains(&rank), findings)
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

/// Calls that move messages and are in no table, and what `check` says of them.
const UNCOUNTED: [(NotSeen, &str); 5] = [
    (NotSeen::UntoldReceive, "there were receives of which the MPI library does not tell what came"),
    (NotSeen::FreedReceive, "there were receives whose request was freed before they completed"),
    (
        NotSeen::TruncatedReceive,
        "there were receives with less room than their message, the bytes of which are in no table",
    ),
    (NotSeen::CallInCallback, "there were calls inside callbacks, which are in no table"),
    (NotSeen::CallLeft, "there were calls that an error handler left, which are in no table"),
];

/// Why sent and received may differ without a mistake in the profile.
fn traffic_explanation(run: &RunInfo) -> Option<&'static str> {
    let counts = |reason: NotSeen| run.not_seen.get(reason.name()).is_some_and(|&calls| calls > 0);
    if !run.complete {
        Some("the profile is incomplete")
    } else if run.recording_was_off {
        Some("recording was off for a part of the run")
    } else {
        UNCOUNTED.into_iter().find(|&(reason, _)| counts(reason)).map(|(_, why)| why)
    }
}
