//! `top`: where the ranks of a running job are, and what its communicators cost, from the segments
//! of this node.

mod call_stacks;
mod comm_table;
mod deadlock;
mod gather;
#[cfg(test)]
mod golden;
mod graph;
mod groups;
mod growth;
mod hang;
mod job;
pub mod live;
mod most_called;
mod part;
mod report;
mod roll;
mod screen;
mod traffic;

use super::job_selection::{JobSelection, SegmentsArgs};
use super::{Outcome, skipped};
use crate::debug_info::SearchDirs;
use crate::output::{Format, OutputArgs, printable};
use crate::units::parse_seconds;
use anyhow::{Result, bail};
use call_stacks::CallStacks;
use clap::Args;
use gather::Reader;
use job::Job;
use mpisee_collect::segments::{self, Skipped, WorldSegments, short_seconds};
use mpisee_profile::run::EndedDeadlock;
use part::NodeReport;
use report::{Document, JobDocument, Report, SkippedDocument, SortKey};
use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through top                      jobs of this node, until you press q
  mpisee-through top 4711                 the job of process 4711, or that it started
  mpisee-through top app                  the job whose profile will be app.mpisee
  mpisee-through top --once               one report, as text
  mpisee-through top --stacks             with functions and lines of the program
  mpisee-through top --format json        for scripts
  mpisee-through top --segments /local/shm    after mpisee --segments /local/shm
  mpirun --map-by ppr:1:node mpisee-through top --stacks --to roll
                                          the whole job, by one reader per node, through a folder
                                          that all nodes see (MPICH: mpiexec -ppn 1; Slurm:
                                          srun --overlap --jobid JOB -N NODES --ntasks-per-node 1)
  mpisee-through top --from roll          the same report again
KEYS:
  q, Esc  quit      p, blank  pause      t, c, b, n  sort by time, calls, bytes, name
  up, down, page up, page down  scroll   Tab  next job";

/// Running jobs: where each rank is, and who is missing from a collective
///
/// Reads the counters that ranks on this node keep in memory, at no cost for the ranks. Ranks are
/// read one after the other; the head says within which time, and who lacked a core. Ranks at the
/// same place share a line. If ranks have been in a collective for --hang or longer, a line
/// says who is in it and who is missing.
///
/// HERE is the number of members on this node. Calls/s and Volume/s are rates since the last
/// update. % of interval and % of run are time in calls on the communicator, relative to the time
/// of all ranks on this node. Unfinished calls count, too. See docs/how-to/running-job.md for hangs
/// and deadlocks.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// Job: one of its processes or a parent of it, its profile's name (app), its batch job, or the
    /// folder of its segments (default: all jobs in MPISEE_SEGMENTS, else in /dev/shm)
    #[arg(value_name = "PID|NAME|JOB|DIR")]
    which: Option<String>,

    #[command(flatten)]
    segments: SegmentsArgs,

    /// Time between updates
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "1s")]
    interval: f64,

    /// Shortest wait in a collective to report
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "5s")]
    hang: f64,

    /// Order of communicators, largest first; name is ascending
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Time)]
    sort: SortKey,

    /// Show functions and lines where each rank calls MPI or sleeps, innermost first, without
    /// stopping it; needs root if kernel.yama.ptrace_scope is not 0
    #[arg(long)]
    stacks: bool,

    /// Search below DIR for files of the program that were moved or changed since its start, for
    /// --stacks; repeatable
    #[arg(long, value_name = "DIR", requires = "stacks")]
    source: Vec<PathBuf>,

    /// Write the ranks of this node to DIR, a folder that all nodes see; the first of several
    /// readers shows the job, without colours unless --color always
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    /// Show the job that readers on several nodes wrote to DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "which", "segments", "user", "stacks"])]
    from: Option<PathBuf>,

    /// Write one report and end (default if the output is no terminal)
    #[arg(long)]
    once: bool,

    /// User ID of the jobs; root can see those of others (default: your own)
    #[arg(long, value_name = "UID")]
    user: Option<u32>,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn parse_interval(text: &str) -> Result<f64, String> {
    const SHORTEST_S: f64 = 0.05;
    const LONGEST_S: f64 = 3600.0;
    let seconds = parse_seconds(text)?;
    if (SHORTEST_S..=LONGEST_S).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("'{text}' is not between 50ms and 3600s"))
    }
}

/// The deadlocks of a world's ranks that ended, as far as their last states prove them.
pub(super) fn prove_deadlocks(world: &WorldSegments) -> Vec<EndedDeadlock> {
    deadlock::last_deadlocks(&Job::from_ended(world))
}

/// Where to look, and for what.
struct Watch {
    wanted: JobSelection,
    /// Where in the program ranks are, if that is asked for.
    stacks: Option<RefCell<CallStacks>>,
}

/// The state of the node at one moment.
struct Seen {
    /// When the look began and ended, nanoseconds since 1970, UTC.
    begin_ns: u64,
    end_ns: u64,
    /// Jobs of which processes run, in the order in which they began.
    jobs: Vec<Job>,
    skipped: Vec<Skipped>,
    /// Segments of processes that ended, of no job that runs.
    left_behind: usize,
}

/// Runs the command.
pub fn run(args: &TopArgs) -> Result<Outcome> {
    if let Some(folder) = &args.from {
        let (parts, remarks) = gather::last(folder)?;
        remarks.iter().for_each(|remark| say(remark));
        show_parts(args, &args.output, folder, parts)?;
        return Ok(Outcome::Done);
    }
    let watch = Watch::new(args)?;
    let first = watch.look()?;
    if let Some(folder) = &args.to {
        return gather(args, folder, &watch, &first);
    }
    if first.jobs.is_empty() {
        bail!("{}", watch.nothing(&first));
    }
    let is_screen = !args.once
        && args.output.format() == Format::Table
        && args.output.is_stdout()
        && std::io::stdout().is_terminal();
    if is_screen {
        screen::run(&watch, first, args.interval, args.hang, args.sort)?;
        return Ok(Outcome::Done);
    }
    std::thread::sleep(Duration::from_secs_f64(args.interval));
    let second = watch.look()?;
    if second.jobs.is_empty() {
        // Nothing went wrong: it is over.
        writeln!(std::io::stdout(), "the job has ended")?;
        return Ok(Outcome::Done);
    }
    let jobs: Vec<(&Job, &Job)> = second.jobs.iter().map(|job| (before(&first, job), job)).collect();
    let directory = &watch.wanted.directory;
    args.output.write(&written(args, &args.output, directory, &jobs, &second.skipped)?)?;
    Ok(Outcome::Done)
}

/// Writes the part of this node, and shows it, if that is all; the first of several readers joins
/// those of all.
fn gather(args: &TopArgs, folder: &Path, watch: &Watch, first: &Seen) -> Result<Outcome> {
    std::thread::sleep(Duration::from_secs_f64(args.interval));
    let second = watch.look()?;
    let jobs = second.jobs.iter().map(|job| (before(first, job), job));
    let skipped =
        second.skipped.iter().map(|(path, why)| (path.display().to_string(), why.clone())).collect();
    let reader = Reader::own();
    let between_ns = first.end_ns..second.begin_ns;
    let path = reader
        .write(folder, |launch, host, time| NodeReport::new(launch, host, time, between_ns, jobs, skipped))?;
    // Launchers give the programs that they start terminals, and write what these say to files as
    // well.
    let output =
        if reader.is_launched() { args.output.without_colours_unless_asked() } else { args.output.clone() };
    if !reader.has_others() {
        say(&format!(
            "wrote {}; mpisee-through top --from {} shows what all wrote",
            path.display(),
            folder.display()
        ));
        if !second.jobs.is_empty() {
            show_parts(args, &output, folder, vec![gather::read(&path)?])?;
        }
    } else if reader.joins() {
        let (parts, remark) = reader.wait_for_all(folder, &path)?;
        if let Some(remark) = remark {
            say(&remark);
        }
        show_parts(args, &output, folder, parts)?;
    }
    Ok(Outcome::Done)
}

fn say(remark: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "mpisee-through: {}", printable(remark));
}

/// Shows the jobs of which readers on several nodes wrote what they saw.
fn show_parts(args: &TopArgs, output: &OutputArgs, folder: &Path, parts: Vec<NodeReport>) -> Result<()> {
    let hosts: Vec<String> = parts.iter().map(|part| part.host.clone()).collect();
    let skipped = parts.iter().flat_map(|part| {
        part.skipped.iter().map(|(path, why)| (PathBuf::from(format!("{}:{path}", part.host)), why.clone()))
    });
    let skipped: Vec<Skipped> = skipped.collect();
    if !part::were_at_once(&parts) {
        let written = |part: &NodeReport| part.written_ns;
        let [first, last] = [parts.iter().map(written).min(), parts.iter().map(written).max()];
        let apart_s = (last.unwrap_or(0) - first.unwrap_or(0)) as f64 * 1e-9;
        say(&format!(
            "the nodes were read up to {} apart: ranks that are shown together may have been there at \
             different times",
            short_seconds(apart_s)
        ));
    }
    let jobs = part::joined(parts)?;
    if jobs.is_empty() {
        bail!("no program that mpisee records ran on {}", printable(&hosts.join(", ")));
    }
    let jobs: Vec<(&Job, &Job)> = jobs.iter().map(|(before, now)| (before, now)).collect();
    output.write(&written(args, output, folder, &jobs, &skipped)?)
}

/// Jobs, each as it was and as it is.
fn written(
    args: &TopArgs,
    output: &OutputArgs,
    directory: &Path,
    jobs: &[(&Job, &Job)],
    skipped: &[Skipped],
) -> Result<Vec<u8>> {
    let report = |&(before, job): &(&Job, &Job)| Report::new(before, job, args.sort, args.hang);
    match output.format() {
        Format::Json => {
            let skipped = skipped
                .iter()
                .map(|(path, why)| SkippedDocument { path: path.display().to_string(), why: why.clone() });
            crate::output::json(&Document {
                segments: directory.display().to_string(),
                skipped: skipped.collect(),
                jobs: jobs.iter().map(|job| JobDocument::new(job.1, report(job))).collect(),
            })
        }
        Format::Csv => {
            skipped::report(skipped);
            match jobs {
                [job] => report(job).sheet().csv(),
                jobs => {
                    bail!("{} jobs run here; name one or a process of it, or take --format json", jobs.len())
                }
            }
        }
        Format::Table => {
            skipped::report(skipped);
            let page = output.page();
            let texts: Vec<String> = jobs.iter().map(|job| report(job).short_text(job.1, page)).collect();
            Ok(texts.join("\n").into_bytes())
        }
    }
}

/// The same job as it was; one that is new is compared with itself.
fn before<'s>(seen: &'s Seen, job: &'s Job) -> &'s Job {
    seen.jobs.iter().find(|earlier| earlier.id == job.id).unwrap_or(job)
}

impl Watch {
    fn new(args: &TopArgs) -> Result<Watch> {
        let user = match args.user {
            Some(user) => user,
            None => segments::own_user()?,
        };
        let wanted = JobSelection::within(&args.segments, args.which.as_deref(), user)?;
        let stacks = || CallStacks::new(SearchDirs(args.source.clone())).map(RefCell::new);
        Ok(Watch { wanted, stacks: args.stacks.then(stacks).transpose()? })
    }

    /// Looks at everything once.
    fn look(&self) -> Result<Seen> {
        let begin_ns = gather::now_ns();
        let found = segments::find(&self.wanted.directory, self.wanted.user, false)?;
        let mut skipped = found.unreadable;
        skipped.retain(|(path, _)| self.wanted.may_be_of(path));
        let (mut jobs, mut left_behind) = (Vec::new(), 0);
        for world in segments::worlds(found.segments) {
            if world.running().next().is_none() {
                left_behind += world.segments().count();
            } else if self.wanted.takes(&world) {
                let mut stacks = self.stacks.as_ref().map(RefCell::borrow_mut);
                let (job, unreadable) = Job::read(&world, stacks.as_deref_mut());
                skipped.extend(unreadable.into_iter().map(|(segment, why)| (segment.path.clone(), why)));
                if !job.ranks.is_empty() && !job.is_over() {
                    jobs.push(job);
                }
            }
        }
        Ok(Seen { begin_ns, end_ns: gather::now_ns(), jobs, skipped, left_behind })
    }

    /// Why there is nothing to show.
    fn nothing(&self, seen: &Seen) -> String {
        let mut why = self.wanted.nothing();
        if seen.left_behind > 0 {
            why += &format!(
                "; 'mpisee-through recover' reads {} of processes that ended",
                crate::units::count(seen.left_behind as u64, "segment")
            );
        }
        if let Some((path, reason)) = seen.skipped.first() {
            why += &format!("; '{}' is skipped: {reason}", path.display());
        }
        printable(&why)
    }
}
