//! The contents of `run.json`: the run as a whole.

use super::Own;
use super::output_dir;
use super::rank_summary::{PROFILER_NS, RECORDING_WAS_OFF, RankSummary, UNSTEADY_CLOCK, WALL_NS};
use crate::mpi::compatibility::FLAVOUR;
use crate::state::process::was_spawned;
use crate::state::world::World;
use mpisee_collect::nodes::Nodes;
use mpisee_collect::process::batch_job;
use mpisee_collect::profile::unsteady_clocks;
use mpisee_profile::run::{MpiInfo, ProfilerInfo, RunInfo, rfc3339};
use mpisee_profile::segment::NotSeen;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::{FORMAT_VERSION, RankSet};

/// `run.json`, but for what is missing.
pub fn run_info(world: &World, summary: &RankSummary, own: &Own, nodes: &Nodes) -> RunInfo {
    let counts = &summary.counts;
    RunInfo {
        format_version: FORMAT_VERSION,
        mpisee_version: env!("CARGO_PKG_VERSION").to_owned(),
        mpi: MpiInfo {
            library: world.library_version.clone(),
            flavour: FLAVOUR.to_owned(),
            thread_level: world.thread_level.to_owned(),
        },
        command: command_line(),
        job: batch_job(),
        start: rfc3339(world.start_realtime_ns),
        end: rfc3339(own.end.map_or(0, |end| end.realtime_ns)),
        ranks: world.size,
        nodes: nodes.count(),
        is_aggregate: false,
        complete: true,
        incomplete_because: None,
        ended_in: Vec::new(),
        clock: if world.ticks_are_tsc { "tsc" } else { "monotonic" }.to_owned(),
        recording_was_off: counts[RECORDING_WAS_OFF] > 0,
        not_seen: NotSeen::named(counts),
        names_agree: None,
        profiler: profiler(own.call_ns, own.init_ns, counts),
        notes: notes(world).chain(unsteady_clocks(counts[UNSTEADY_CLOCK])).collect(),
    }
}

/// `1 rank`, `4 ranks`.
pub fn in_numbers(ranks: u64) -> String {
    format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" })
}

/// Says which ranks are missing: those that ended, and those that were there and whose rows did not come.
pub fn note_missing(run: &mut RunInfo, absent: &RankSet, lost: &RankSet) {
    let ended =
        (!absent.is_empty()).then(|| format!("{} ended before the profile was written", absent.named()));
    let mut why: Vec<String> = ended.into_iter().collect();
    if !lost.is_empty() {
        why.push(format!("the rows of {} did not arrive", lost.named()));
    }
    run.complete = why.is_empty();
    run.incomplete_because = (!why.is_empty()).then(|| why.join("; "));
}

/// Says of how many ranks the sums could not be read, as those of another version of the library cannot.
pub fn note_unreadable(run: &mut RunInfo, ranks: u64) {
    if ranks > 0 {
        let why = format!("what {} sent could not be read", in_numbers(ranks));
        run.complete = false;
        run.incomplete_because =
            Some(run.incomplete_because.take().map_or(why.clone(), |before| format!("{before}; {why}")));
    }
}

fn profiler(call_ns: f64, init_ns: u64, counts: &[u64]) -> ProfilerInfo {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let (wall_s, time_s) = (seconds(counts[WALL_NS]), seconds(counts[PROFILER_NS]));
    let share_of_wall = if wall_s > 0.0 { time_s / wall_s } else { 0.0 };
    ProfilerInfo { call_ns, init_s: seconds(init_ns), time_s, share_of_wall, collected: "tree".to_owned() }
}

fn notes(world: &World) -> impl Iterator<Item = String> {
    let spawned = was_spawned().then(|| {
        "these processes were spawned by others, to which the communicator P leads; what those did is in a profile \
         of their own, if they were profiled"
            .to_owned()
    });
    world.notes.iter().cloned().chain(spawned)
}

/// Logs the program's part of `run.json` in the segment, for readers after the process has ended.
pub fn log_facts(world: &World) {
    const MOST_BYTES: usize = 1 << 12;
    let log = |fact: Fact, text: &str| world.segment.log(&fact.record(text));
    let command = command_line();
    let mut room = MOST_BYTES;
    for word in &command {
        let Some(left) = room.checked_sub(word.len()) else {
            log(Fact::Argument, "…");
            break;
        };
        room = left;
        log(Fact::Argument, word);
    }
    let wanted = output_dir::wanted(world, &command);
    log(Fact::Profile, &wanted.file_name().unwrap_or_default().to_string_lossy());
    log(Fact::Library, &world.library_version);
    log(Fact::Flavour, FLAVOUR);
    log(Fact::ThreadLevel, world.thread_level);
    log(Fact::Fold, &world.options.fold.to_string());
    if let Some(job) = batch_job() {
        log(Fact::Job, &job);
    }
    notes(world).for_each(|note| {
        log(Fact::Note, &note);
    });
}

/// The arguments of the process. Those of a Rust library preloaded into another program are not in
/// `std::env::args` on every system, so the kernel is asked.
pub fn command_line() -> Vec<String> {
    let text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|&byte| byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
