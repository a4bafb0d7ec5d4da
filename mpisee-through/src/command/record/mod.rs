//! `record`: switches the recording of a running job on or off, from outside.

mod asked;

use super::Outcome;
use super::agent::search::Search;
use super::job_selection::SegmentsArgs;
use super::top::parse_interval;
use crate::output::printable;
use crate::units::count;
use anyhow::{Result, bail};
use asked::{Asked, State};
use clap::{Args, ValueEnum};
use mpisee_collect::segments::short_seconds;
use mpisee_profile::RankSet;
use mpisee_profile::WorldRank;
use mpisee_profile::segment::switch_request::SwitchRequest;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through record off               stops recording in the job of this node
  mpisee-through record on 4711           resumes in the job of process 4711, or that it started
  mpirun -n 64 mpisee --record off ./app  starts without recording; ten minutes of it are then:
  mpisee-through record on && sleep 600 && mpisee-through record off
  mpirun --map-by ppr:1:node mpisee-through record off
                                          on all nodes of a job (MPICH: mpiexec -ppn 1; Slurm:
                                          srun --overlap --jobid JOB -N NODES --ntasks-per-node 1)";

/// Switch recording on or off in a running job
///
/// Each rank on this node switches at its next MPI call. The program does not wait. Calls are not
/// recorded while recording is off. The profile has the times of the switches. The last request
/// wins, including MPI_Pcontrol(0) and MPI_Pcontrol(1) in the program. See
/// docs/how-to/running-job.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    /// Switch recording on or off
    #[arg(value_name = "on|off")]
    to: To,

    /// Job: one of its processes or a parent of it, its profile's name (app), its batch job, or the
    /// folder of its segments (default: the job in MPISEE_SEGMENTS, else in /dev/shm)
    #[arg(value_name = "PID|NAME|JOB|DIR")]
    which: Option<String>,

    #[command(flatten)]
    segments: SegmentsArgs,

    /// Time to wait for ranks to switch; ranks that call MPI later switch then
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "2s")]
    wait: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    On,
    Off,
}

/// Runs the command.
pub fn run(args: &RecordArgs) -> Result<Outcome> {
    let search = Search::new(&args.segments, args.which.as_deref())?;
    let Some(world) = search.running()? else { bail!("{}", search.nothing("")) };
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let request = SwitchRequest::new(args.to == To::On, now_ns);
    let mut ranks = Vec::new();
    let mut failures = Vec::new();
    for segment in world.running() {
        match Asked::new(segment, request) {
            Ok(rank) => ranks.push(rank),
            Err(why) => failures.push(format!("rank {} cannot be asked: {why:#}", segment.header.world_rank)),
        }
    }
    if let Some(why) = failures.first().filter(|_| ranks.is_empty()) {
        bail!("{why}");
    }
    let states = wait(&mut ranks, Duration::from_secs_f64(args.wait));
    let command = ranks[0].command();
    let mut lines = vec![switched(request, &states, &command)];
    lines.extend(late(request, &states));
    lines.extend(failures);
    lines.iter().try_for_each(|line| writeln!(std::io::stdout(), "{}", printable(line)))?;
    Ok(Outcome::Done)
}

/// Marks the ranks until all have switched, or that time has passed; returns how far each of them
/// is.
fn wait(ranks: &mut [Asked], most: Duration) -> BTreeMap<WorldRank, State> {
    const PAUSE: Duration = Duration::from_millis(20);
    let begin = Instant::now();
    loop {
        let is_over = begin.elapsed() >= most;
        let states: BTreeMap<_, _> = ranks.iter_mut().map(|rank| (rank.rank(), rank.mark())).collect();
        if is_over || states.values().all(State::is_settled) {
            return states;
        }
        std::thread::sleep(PAUSE);
    }
}

/// `recording is off on 8 of 8 ranks of ./app`
fn switched(request: SwitchRequest, states: &BTreeMap<WorldRank, State>, command: &str) -> String {
    let done = states.values().filter(|state| **state == State::Switched).count();
    format!(
        "recording is {} on {done} of {} of {command}",
        if request.on { "on" } else { "off" },
        count(states.len() as u64, "rank"),
    )
}

/// A line for ranks that have not switched, by the reason.
fn late(request: SwitchRequest, states: &BTreeMap<WorldRank, State>) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<WorldRank>> = BTreeMap::new();
    for (&rank, state) in states {
        if let Some(reason) = reason(request, state) {
            by_reason.entry(reason).or_default().push(rank);
        }
    }
    let line = |(reason, ranks): (String, Vec<WorldRank>)| {
        let plural = if ranks.len() == 1 { "" } else { "s" };
        format!("rank{plural} {}: {reason}", ranks.into_iter().collect::<RankSet>())
    };
    by_reason.into_iter().map(line).collect()
}

fn reason(request: SwitchRequest, state: &State) -> Option<String> {
    // While recording is off, calls that are only counted, such as probes, are made without a look
    // at anything.
    let next = if request.on { "next call on a communicator" } else { "next MPI call" };
    Some(match state {
        State::Switched => return None,
        State::Marked => format!("has not called MPI since, and switches at its {next}"),
        State::Inside { call, for_s } => {
            format!(
                "is in {call} for {}, and switches at the {next} or the one after it",
                short_seconds(*for_s)
            )
        }
        State::Unmarked => format!("has not called MPI yet, and switches at its {next}"),
        State::Overridden => "follows another request, which came later".to_owned(),
        State::Ended => "has come to its end".to_owned(),
        State::Unreadable(why) => format!("cannot be read any more: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(states: impl IntoIterator<Item = State>) -> BTreeMap<WorldRank, State> {
        (0..).map(WorldRank::new).zip(states).collect()
    }

    #[test]
    fn ranks_that_have_not_switched_are_named_with_the_reason() {
        let off = SwitchRequest::new(false, 4);
        let inside = State::Inside { call: "MPI_Recv".to_owned(), for_s: 12.0 };
        let states = states([State::Switched, State::Marked, inside, State::Marked, State::Ended]);
        assert_eq!(switched(off, &states, "./app"), "recording is off on 1 of 5 ranks of ./app");
        assert_eq!(
            late(off, &states),
            [
                "rank 4: has come to its end",
                "ranks 1,3: has not called MPI since, and switches at its next MPI call",
                "rank 2: is in MPI_Recv for 12 s, and switches at the next MPI call or the one after it",
            ]
        );
    }
}
