//! At `MPI_Finalize`: every rank makes its rows, rank 0 writes them. In a run that outlives some of its processes
//! the first of the others does, and says who is missing.
//!
//! Rows travel as CSV text, one rank after the other and in pieces of limited size, so that no rank holds
//! more than its own rows and one piece of another's.

use crate::abi::Comm;
use crate::by_hand::{FLAVOUR, was_spawned};
use crate::clock;
use crate::message::say;
use crate::naming;
use crate::process::{self, Process};
use mpisee_profile::files::{ProfileFiles, TABLES, parts};
use mpisee_profile::rows::Seconds;
use mpisee_profile::run::{MpiInfo, ProfilerInfo, RunInfo, rfc3339};
use mpisee_profile::segment::layout::{Header, price};
use mpisee_profile::segment::log::Fact;
use mpisee_profile::segment::tables::{Moment, call_ns};
use mpisee_profile::segment::{NotSeen, RankTables, Snapshot};
use mpisee_profile::{FORMAT_VERSION, RankSet};
use std::path::{Path, PathBuf};

mod link;

use link::Link;

/// What is summed over ranks, by place: calls not seen by reason, and then these.
const RECORDING_WAS_OFF: usize = NotSeen::ALL.len();
const UNSTEADY_CLOCK: usize = RECORDING_WAS_OFF + 1;
const WALL_NS: usize = UNSTEADY_CLOCK + 1;
const PROFILER_NS: usize = WALL_NS + 1;

/// Writes the profile, together with all other ranks.
pub fn write_profile() {
    if let Some(process) = process::process() {
        write_over(process, Link::open);
    }
}

/// The same through a communicator of all processes, which is freed then: where there is no world.
pub fn write_profile_through(comm: Comm) {
    if let Some(process) = process::process() {
        write_over(process, |process| Link::through(process, comm));
    }
}

fn write_over(process: &Process, open: impl FnOnce(&Process) -> Link) {
    let _held = crate::file_limit::hold();
    let end = clock::moment();
    let end_realtime_ns = clock::realtime_ns();
    naming::finish_duplications(process, true);
    let link = open(process);
    let absent = link.absent(process);
    let own = own_rows(process, end, &absent);
    let header = process.segment.header();
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let mut counts: Vec<u64> =
        NotSeen::ALL.iter().map(|&reason| header.not_seen[reason as usize].load(relaxed)).collect();
    counts.push(header.recording_was_off.load(relaxed));
    counts.push(u64::from(!clock::is_steady(start_of(header), end)));
    counts.extend([own.wall_ns, own.profiler_ns]);
    let counts = link.sum(process, &counts);
    let nodes = link.node_of_each_rank(process);
    if link.rank == 0 {
        let gathered = Gathered { counts: &counts, nodes: &nodes, absent, end_realtime_ns };
        write(process, &link, own, gathered);
    } else {
        link.send(process, &own.parts);
    }
    link.close();
    process.segment.remove();
}

/// What a rank contributes.
#[derive(Default)]
struct Own {
    /// Its rows as CSV text, by table.
    parts: [Vec<u8>; TABLES],
    wall_ns: u64,
    profiler_ns: u64,
    /// What a recorded call costs.
    call_ns: f64,
    /// What `MPI_Init` took longer.
    init_ns: u64,
}

/// When recording began.
fn start_of(header: &Header) -> Moment {
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    Moment { monotonic_ns: header.start_monotonic_ns.load(relaxed), ticks: header.start_ticks.load(relaxed) }
}

fn own_rows(process: &Process, end: Moment, absent: &RankSet) -> Own {
    match Snapshot::read(&process.segment) {
        Ok(snapshot) => {
            let tables = RankTables::without(absent, &snapshot, end);
            let ns = |seconds: Seconds| (seconds.0 * 1e9) as u64;
            Own {
                wall_ns: ns(tables.rank.wall_s),
                profiler_ns: ns(tables.rank.profiler_s),
                call_ns: call_ns(&snapshot, end),
                init_ns: snapshot.price[price::INIT_NS],
                parts: parts(&tables),
            }
        }
        Err(error) => {
            say(format_args!("rank {}: {error}; its counts are lost", process.world_rank));
            Default::default()
        }
    }
}

/// What is known of all ranks before their rows come.
struct Gathered<'g> {
    /// What is summed over ranks.
    counts: &'g [u64],
    /// The number of each rank's node, in the order of the link.
    nodes: &'g [u32],
    /// The ranks that are not there any more.
    absent: RankSet,
    end_realtime_ns: u64,
}

/// Writes everything, on the first rank. An error is said once; the other ranks' rows are taken all the same, so
/// that nobody waits.
fn write(process: &Process, link: &Link, own: Own, gathered: Gathered) {
    let Gathered { counts, nodes, mut absent, end_realtime_ns } = gathered;
    let command = command_line();
    let nodes_by_rank = link.world_ranks().zip(nodes.iter().copied()).collect();
    let mut files = ProfileFiles::create(&wanted_directory(process, &command), nodes_by_rank);
    let mut add = |parts: &[Vec<u8>; TABLES]| {
        if let Ok(open) = &mut files
            && let Err(error) = open.append(parts)
        {
            files = Err(error);
        }
    };
    add(&own.parts);
    drop(own.parts);
    for (rank, world_rank) in (0..).zip(link.world_ranks()).skip(1) {
        match link.receive(process, rank) {
            Some(parts) => add(&parts),
            None => absent = absent.union(&RankSet::evenly_spaced(world_rank, 1, 1)),
        }
    }
    let mut distinct = nodes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let run = RunInfo {
        format_version: FORMAT_VERSION,
        mpisee_version: env!("CARGO_PKG_VERSION").to_owned(),
        mpi: MpiInfo {
            library: process.library_version.clone(),
            flavour: FLAVOUR.to_owned(),
            thread_level: process.thread_level.to_owned(),
        },
        command,
        start: rfc3339(process.start_realtime_ns),
        end: rfc3339(end_realtime_ns),
        ranks: process.world_size,
        nodes: distinct.len() as u32,
        complete: absent.is_empty(),
        incomplete_because: process.companions.why_incomplete().or_else(|| {
            if absent.is_empty() {
                return None;
            }
            let plural = if absent.len() == 1 { "rank" } else { "ranks" };
            Some(format!("{plural} {absent} ended before MPI_Finalize"))
        }),
        ended_in: Vec::new(),
        clock: if process.ticks_are_tsc { "tsc" } else { "monotonic" }.to_owned(),
        recording_was_off: counts[RECORDING_WAS_OFF] > 0,
        not_seen: NotSeen::named(counts),
        profiler: profiler(own.call_ns, own.init_ns, counts),
        notes: notes(process).chain(unsteady(counts)).collect(),
    };
    let ranks = u64::from(process.world_size) - absent.len();
    match files.and_then(|files| files.finish(&run)) {
        Ok(directory) if !process.options.quiet => {
            let directory = directory.display();
            let plural = if ranks == 1 { "" } else { "s" };
            say(format_args!(
                "profile of {ranks} rank{plural} in {directory}; read it with: mpisee-through {directory}"
            ));
        }
        Ok(_) => {}
        Err(error) => {
            say(format_args!("no profile: {error}; set MPISEE_OUTPUT to a directory that can be made"))
        }
    }
}

fn profiler(call_ns: f64, init_ns: u64, counts: &[u64]) -> ProfilerInfo {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let (wall_s, time_s) = (seconds(counts[WALL_NS]), seconds(counts[PROFILER_NS]));
    let share_of_wall = if wall_s > 0.0 { time_s / wall_s } else { 0.0 };
    ProfilerInfo { call_ns, init_s: seconds(init_ns), time_s, share_of_wall }
}

/// A sentence on clocks, if one is due.
fn unsteady(counts: &[u64]) -> Option<String> {
    let ranks = counts[UNSTEADY_CLOCK];
    let plural = if ranks == 1 { "" } else { "s" };
    (ranks > 0).then(|| {
        format!(
            "on {ranks} rank{plural} the time-stamp counter jumped or did not keep pace with the monotonic clock, so \
             that times there are wrong; MPISEE_CLOCK=monotonic does without it"
        )
    })
}

fn notes(process: &Process) -> impl Iterator<Item = String> {
    let spawned = was_spawned().then(|| {
        "these processes were spawned by others, to which the communicator P leads; what those did is in a profile \
         of their own, if they were profiled"
            .to_owned()
    });
    process.notes.iter().cloned().chain(spawned)
}

/// Puts what `run.json` says of the program into the segment, for a reader who comes when the process is gone.
pub fn log_facts(process: &Process) {
    const MOST_BYTES: usize = 1 << 12;
    let log = |fact: Fact, text: &str| process.segment.log(&fact.record(text));
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
    let wanted = wanted_directory(process, &command);
    log(Fact::Profile, &wanted.file_name().unwrap_or_default().to_string_lossy());
    log(Fact::Library, &process.library_version);
    log(Fact::Flavour, FLAVOUR);
    log(Fact::ThreadLevel, process.thread_level);
    notes(process).for_each(|note| {
        log(Fact::Note, &note);
    });
}

/// The arguments of the process. Those of a Rust library preloaded into another program are not in
/// `std::env::args` on every system, so the kernel is asked.
fn command_line() -> Vec<String> {
    let text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|&byte| byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// `MPISEE_OUTPUT`, or the program's name in the working directory; always `NAME.mpisee`. Spawned processes are
/// often of the same program and inherit the variable: theirs is `NAME-spawned.mpisee`, whoever ends first.
fn wanted_directory(process: &Process, command: &[String]) -> PathBuf {
    let program = command.first().map_or("profile", String::as_str);
    let name = Path::new(program).file_name().unwrap_or_else(|| "profile".as_ref());
    let wanted = process.options.output.clone().unwrap_or_else(|| PathBuf::from(name));
    let has_extension = wanted.extension().is_some_and(|extension| extension == "mpisee");
    let mut wanted = if has_extension { wanted.with_extension("") } else { wanted }.into_os_string();
    wanted.push(if was_spawned() { "-spawned.mpisee" } else { ".mpisee" });
    PathBuf::from(wanted)
}
