//! `recover`: profiles of programs that ended without `MPI_Finalize`, from the segments that they
//! left.

use super::job_selection::{elsewhere, is_called};
use super::top::prove_deadlocks;
use super::{Outcome, skipped};
use crate::interrupted;
use crate::output::printable;
use crate::units::count;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use clap::Args;
use mpisee_collect::gathering;
use mpisee_collect::profile::{self, Described, Overrides, Recovered};
use mpisee_collect::segments::{self, Empty, Segment, Skipped, WorldSegments};
use mpisee_profile::RankSet;
use mpisee_profile::path_text::shell_path;
use mpisee_profile::run::{EndedIn, rfc3339};
use mpisee_profile::writer::since_taken;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through recover                            profiles of all ended runs on this node
  mpisee-through recover --clean                    the same, and removes recovered segments
  mpisee-through recover --list                     only lists the runs
  mpisee-through recover --only app --only 4711     the run app, and the run of process 4711
  mpisee-through recover --segments /local/shm      after mpisee --segments /local/shm
  mpisee-through recover shm.n1 shm.n2              one profile, from copies of several nodes";

/// Write the profiles of programs that were killed or aborted
///
/// Each rank counts in a segment, a file in memory that stays when the rank is killed. The segments
/// of a run become the profile NAME.mpisee, or NAME-2.mpisee if that exists. --list shows the runs,
/// and --only chooses some. The profile is marked incomplete. It names missing ranks, the MPI call
/// of each rank, and a deadlock that the last calls prove.
///
/// Segments of running processes are left alone. Processes of other nodes count as ended. Exit code
/// 2 if a segment cannot be read. See docs/how-to/crashed-job.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoverArgs {
    /// Directories of segments, of one node or of several (default: MPISEE_SEGMENTS, else /dev/shm)
    directories: Vec<PathBuf>,

    /// Directory of segments, as for mpisee --segments; repeatable
    #[arg(long, value_name = "DIR")]
    segments: Vec<PathBuf>,

    /// Profile to write, or the folder for it (ending in a slash); a number is added if it exists
    /// (default: the program's own name for it, in the working directory)
    #[arg(short = 'o', long, value_name = "NAME.mpisee")]
    output: Option<PathBuf>,

    /// Aggregate over ranks in runs of more than RANKS ranks (default: as the program's own
    /// profile)
    #[arg(long, value_name = "RANKS")]
    fold: Option<u32>,

    /// List the runs, and write nothing
    #[arg(long)]
    list: bool,

    /// Only runs of this name, process or job: app, 4711, "Slurm 4711_3"; repeatable (default: all)
    #[arg(long, value_name = "RUN")]
    only: Vec<String>,

    /// Remove recovered segments, unless other processes of the run go on, and segments of ended
    /// processes without counts
    #[arg(long)]
    clean: bool,

    /// Assume that processes of other containers, which are not visible from here, have ended
    #[arg(long)]
    ended: bool,

    /// User ID of the segments; root can read those of others (default: your own)
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
}

/// Runs the command. What cannot be read is said, the rest is recovered all the same, and the exit
/// code tells.
pub fn run(args: &RecoverArgs) -> Result<Outcome> {
    let mut directories = [&args.directories[..], &args.segments].concat();
    if directories.is_empty() {
        directories.push(segments::directory()?);
    }
    if let Some(output) = args.output.as_ref().filter(|output| output.file_name().is_none()) {
        bail!("--output '{}' does not end in the name of a directory", output.display());
    }
    let user = match args.user {
        Some(user) => user,
        None => segments::own_user()?,
    };
    let (mut worlds, mut unreadable, mut empty) = find_worlds(&directories, user, args.ended)?;
    if !args.only.is_empty() {
        (unreadable, empty) = (Vec::new(), Vec::new());
        worlds = only(worlds, &args.only)?;
    }
    if args.list {
        skipped::report(&unreadable);
        return list(&worlds, &directories);
    }
    unreadable.extend(clean_empty(empty, args.clean)?);
    if args.clean && args.only.is_empty() {
        clean_gpu_files(&directories, user)?;
    }
    if let Some(folder) = args.output.as_deref().and_then(folder_of).filter(|folder| !folder.is_dir()) {
        bail!("--output: there is no folder '{}'; create it first", folder.display());
    }
    skipped::report(&unreadable);
    let mut failures = unreadable.len();
    let mut is_left = false;
    for world in &worlds {
        tell_running(world)?;
        let done = recover_world(world, args)?;
        failures += done.failures;
        is_left |= done.is_left;
    }
    if worlds.iter().all(|world| world.ended().next().is_none()) && failures == 0 {
        match args.only.is_empty() {
            true => say(&format!(
                "no segment of a process that ended is in {}{}",
                quoted(&directories),
                directories.first().map_or("", |directory| elsewhere(directory))
            ))?,
            false => say("no process of the runs that --only chooses has ended")?,
        }
    } else if is_left && !args.clean {
        say(&format!(
            "the segments are still in {}; --clean removes what is recovered",
            quoted(&directories)
        ))?;
    }
    let runs = worlds.iter().filter(|world| world.ended().next().is_some()).count();
    if runs > 1 && !args.clean {
        say(&format!("these were {runs} runs; --list shows them, --only NAME|PID|JOB chooses"))?;
    }
    match failures {
        0 => Ok(Outcome::Done),
        1 => bail!("a segment could not be read; it is left as it is"),
        _ => bail!("{failures} segments could not be read; they are left as they are"),
    }
}

/// The folder in which the profile shall be; `None` for the working directory.
fn folder_of(output: &Path) -> Option<&Path> {
    match output.as_os_str().as_encoded_bytes().ends_with(b"/") {
        true => Some(output),
        false => output.parent().filter(|folder| !folder.as_os_str().is_empty()),
    }
}

/// Removes segments without counts where `clean` is set and their process has ended; returns the
/// others.
fn clean_empty(empty: Vec<Empty>, clean: bool) -> Result<Vec<Skipped>> {
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    for Empty { path, why, has_ended } in empty {
        if clean && has_ended && std::fs::remove_file(&path).is_ok() {
            removed.push((path, why));
        } else {
            kept.push((path, why));
        }
    }
    skipped::sentences(&removed, "removed").iter().try_for_each(|sentence| say(sentence))?;
    Ok(kept)
}

/// Removes what GPU tracers of processes without a segment have left.
fn clean_gpu_files(directories: &[PathBuf], user: u32) -> Result<()> {
    let left = directories.iter().flat_map(|directory| segments::without_segment(directory, user));
    let removed = left.filter(|path| std::fs::remove_file(path).is_ok()).count() as u64;
    match removed {
        0 => Ok(()),
        _ => say(&format!(
            "--clean removed {} with counts of GPUs, of processes that ended and left no segment",
            count(removed, "file")
        )),
    }
}

/// The outcome of recovering one world.
struct WorldOutcome {
    /// The number of segments that could not be read.
    failures: usize,
    /// True if segments of which there is a profile are still there.
    is_left: bool,
}

/// Writes the profile of a world, unless an earlier recovery did, and removes its segments if that
/// is wanted.
fn recover_world(world: &WorldSegments, args: &RecoverArgs) -> Result<WorldOutcome> {
    let goes_on = world.running().next().is_some();
    if tell_recovered_before(world, args)? {
        if args.clean && !goes_on {
            world.ended().try_for_each(Segment::remove)?;
            let removed = world.ended().count() as u64;
            say(&format!("--clean removed {} of these ranks", count(removed, "segment")))?;
        }
        return Ok(WorldOutcome { failures: 0, is_left: !args.clean });
    }
    let wish = Overrides { output: args.output.as_deref(), fold: args.fold };
    let (recovered, unreadable) = profile::recover(world, wish, prove_deadlocks(world))?;
    let failures = unreadable.len();
    let unreadable = unreadable.into_iter().map(|(segment, why)| (segment.path.clone(), why));
    skipped::report(&unreadable.collect::<Vec<_>>());
    let Some(recovered) = recovered else { return Ok(WorldOutcome { failures, is_left: false }) };
    tell_recovered(world, &recovered)?;
    if args.clean && !goes_on {
        recovered.segments.iter().try_for_each(|segment| segment.remove())?;
    }
    Ok(WorldOutcome { failures, is_left: !args.clean || goes_on })
}

/// The worlds that some word names; each has to name one.
fn only(worlds: Vec<WorldSegments>, words: &[String]) -> Result<Vec<WorldSegments>> {
    let described: Vec<(Option<Described>, WorldSegments)> =
        worlds.into_iter().map(|world| (profile::describe(&world), world)).collect();
    for word in words {
        if !described.iter().any(|(about, world)| is_meant(about.as_ref(), world, word)) {
            bail!("no run left here is called '{word}', or has that process or job; --list lists them");
        }
    }
    let is_wanted = |(about, world): &(Option<Described>, WorldSegments)| {
        words.iter().any(|word| is_meant(about.as_ref(), world, word))
    };
    Ok(described.into_iter().filter(is_wanted).map(|(_, world)| world).collect())
}

/// Returns whether a word is the name of the run's profile, the number of one of its processes, or
/// its job.
fn is_meant(about: Option<&Described>, world: &WorldSegments, word: &str) -> bool {
    let is_process = word.parse().is_ok_and(|pid: u32| world.segments().any(|it| it.header.pid == pid));
    is_process || is_called(about, word)
}

/// A line for each run.
fn list(worlds: &[WorldSegments], directories: &[PathBuf]) -> Result<Outcome> {
    if worlds.is_empty() {
        say(&format!("no segment is in {}", quoted(directories)))?;
    }
    for world in worlds {
        let about = profile::describe(world);
        let name = about.as_ref().map_or("?".into(), |about| about.wanted.display().to_string());
        let job = about
            .as_ref()
            .and_then(|about| about.job.as_ref())
            .map_or(String::new(), |job| format!(", {job}"));
        let ranks = |segments: &mut dyn Iterator<Item = &Segment>| -> RankSet {
            segments.map(|segment| segment.header.world_rank).collect()
        };
        let (ended, running) = (ranks(&mut world.ended()), ranks(&mut world.running()));
        let state = |set: &RankSet, what: &str| {
            if set.is_empty() { String::new() } else { format!(", {} {what}", set.named()) }
        };
        let pids: RankSet = world.segments().map(|segment| segment.header.pid).collect();
        let begun = world.segments().map(|segment| segment.header.start_realtime_ns).min().unwrap_or(0);
        let command = about.map_or(String::new(), |about| about.command.join(" "));
        say(&format!(
            "{name}: of {}{}{}, processes {pids}{job}, begun {}: {command}",
            count(u64::from(world.size()), "rank"),
            state(&ended, "ended"),
            state(&running, "running"),
            rfc3339(begun)
        ))?;
    }
    Ok(Outcome::Done)
}

/// Says where the profile of these processes is, if an earlier recovery wrote it and no other name
/// is wanted.
fn tell_recovered_before(world: &WorldSegments, args: &RecoverArgs) -> Result<bool> {
    if args.output.is_some() || args.fold.is_some() {
        return Ok(false);
    }
    let Some(before) = profile::describe(world).and_then(|it| profile::recovered_before(world, &it.wanted))
    else {
        return Ok(false);
    };
    say(&format!(
        "these ranks were recovered before: {0}; read it with: mpisee-through {0}",
        shell_path(&before)
    ))?;
    Ok(true)
}

/// The worlds of which there are segments, and the files that are none. Where one rank is killed
/// the launcher kills the others, and may be gone before they are: they get a moment.
fn find_worlds(
    directories: &[PathBuf],
    user: u32,
    others_ended: bool,
) -> Result<(Vec<WorldSegments>, Vec<Skipped>, Vec<Empty>)> {
    const MOST_WAITING: Duration = Duration::from_secs(2);
    let begin = Instant::now();
    loop {
        let mut found = segments::SegmentScan::default();
        for directory in directories {
            found.add(segments::find(directory, user, others_ended)?);
        }
        gathering::join(&mut found.segments);
        let worlds = segments::worlds(found.segments);
        let is_ending =
            |world: &WorldSegments| world.ended().next().is_some() && world.running().next().is_some();
        if !worlds.iter().any(is_ending) || begin.elapsed() > MOST_WAITING {
            return Ok((worlds, found.unreadable, found.empty));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn quoted(directories: &[PathBuf]) -> String {
    let quoted = directories.iter().map(|directory| format!("'{}'", directory.display()));
    quoted.collect::<Vec<_>>().join(", ")
}

/// A line on the ranks that run, whose segments are left alone.
fn tell_running(world: &WorldSegments) -> Result<()> {
    let Some(start_ns) = world.running().map(|segment| segment.header.start_realtime_ns).min() else {
        return Ok(());
    };
    let ranks: RankSet = world.running().map(|segment| segment.header.world_rank).collect();
    let pids: RankSet = world.running().map(|segment| segment.header.pid).collect();
    let (run, are) = if ranks.len() == 1 { ("runs", "segment is") } else { ("run", "segments are") };
    say(&format!(
        "{} of {} {run}, process {pids} since {}: the {are} left alone",
        ranks.named(),
        world.size(),
        rfc3339(start_ns)
    ))
}

fn tell_recovered(world: &WorldSegments, recovered: &Recovered) -> Result<()> {
    let ranks: RankSet = recovered.segments.iter().map(|segment| segment.header.world_rank).collect();
    let since = since_taken(&recovered.wanted, &recovered.directory);
    let directory = shell_path(&recovered.directory);
    // Runs of one name are distinguished by their command lines.
    let command =
        profile::describe(world).map_or(String::new(), |it| format!(" by '{}'", it.command.join(" ")));
    let start = recovered.segments.iter().map(|segment| segment.header.start_realtime_ns).min().unwrap_or(0);
    say(&format!(
        "incomplete profile of {} of {}, begun {}{command}, in {directory}{since}; read it with: mpisee-through {directory}",
        ranks.named(),
        world.size(),
        rfc3339(start)
    ))?;
    let places: Vec<&EndedIn> = recovered.ended_in.iter().collect();
    let view = ProfileView::open(&recovered.directory)?;
    interrupted::deadlocks(&view).iter().try_for_each(|sentence| say(&format!("  Deadlock: {sentence}")))?;
    interrupted::sentences(&view, &places).iter().try_for_each(|sentence| say(&format!("  {sentence}")))
}

fn say(sentence: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", printable(sentence))?)
}
