//! The contents of `run.json`: the run as a whole.

use super::Own;
use super::output_dir;
use crate::mpi::compatibility::FLAVOUR;
use crate::recording::paths;
use crate::state::gpu::memory_kind;
use crate::state::process::{self, was_spawned};
use crate::state::sites::SITES;
use crate::state::variables;
use crate::state::world::World;
use mpisee_collect::nodes::Nodes;
use mpisee_collect::process::batch_job;
use mpisee_collect::run::{FirstRank, set_incomplete};
use mpisee_collect::wire::RankSummary;
use mpisee_profile::run::{RunInfo, rfc3339};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::snapshot::Program;
use mpisee_profile::{RankSet, own_process};
use std::sync::atomic::Ordering;

/// `run.json`; `missing` states why it is incomplete.
pub fn run_info(
    world: &World,
    summary: &RankSummary,
    own: &Own,
    nodes: &Nodes,
    missing: Vec<String>,
) -> RunInfo {
    let first = FirstRank {
        program: program(world),
        world_id: world.segment.header().job.load(Ordering::Relaxed),
        start_realtime_ns: world.start_realtime_ns,
        ticks_are_tsc: world.ticks_are_tsc,
        call_ns: own.call_ns,
    };
    let mut run = first.run_info(world.size, nodes.count());
    run.notes.extend(open_sessions());
    run.end = rfc3339(own.end.map_or(0, |end| end.realtime_ns));
    summary.sums.fill(&mut run, "tree");
    set_incomplete(&mut run, missing);
    run.names_agree = run.complete.then_some(summary.sums.membership == 0);
    run
}

/// A note on sessions that are open when `MPI_Finalize` writes the profile.
pub fn open_sessions() -> Option<String> {
    (process::open_sessions() > 0).then(|| {
        "a session was open when MPI_Finalize wrote the profile; what it did from then on is not in it"
            .to_owned()
    })
}

/// Why ranks are missing: those that ended, and those that were there and whose rows did not come,
/// or came as another version of the library writes them.
pub fn missing(absent: &RankSet, lost: &RankSet) -> Vec<String> {
    let ended =
        (!absent.is_empty()).then(|| format!("{} ended before the profile was written", absent.named()));
    let lost = (!lost.is_empty()).then(|| format!("the rows of {} did not arrive", lost.named()));
    ended.into_iter().chain(lost).collect()
}

/// The description of the program for `run.json`.
fn program(world: &World) -> Program {
    let (variables, control) = variables::described();
    Program {
        command: command_line(),
        library: world.library_version.clone(),
        flavour: if process::is_without_mpi() { String::new() } else { FLAVOUR.to_owned() },
        thread_level: world.thread_level().to_owned(),
        job: batch_job(),
        notes: notes(world).collect(),
        variables,
        control,
        ..Program::default()
    }
}

fn notes(world: &World) -> impl Iterator<Item = String> {
    let spawned = was_spawned().then(|| {
        "these processes were spawned by others, to which the communicator P leads; what those did is in a profile \
         of their own, if they were profiled"
            .to_owned()
    });
    world.notes.iter().cloned().chain(spawned).chain(variables::notes()).chain(memory_kind::note_on_hsa())
}

/// Logs the program's part of `run.json` in the segment, for readers after the process has ended.
pub fn log_facts(world: &World) {
    const MOST_BYTES: usize = 1 << 12;
    let log = |fact: Fact, text: &str| world.segment.log(&fact.record(text));
    let program = program(world);
    let mut room = MOST_BYTES;
    for word in &program.command {
        let Some(left) = room.checked_sub(word.len()) else {
            log(Fact::Argument, "…");
            break;
        };
        room = left;
        log(Fact::Argument, word);
    }
    let wanted = output_dir::wanted(world, &program.command);
    log(Fact::Profile, &wanted.file_name().unwrap_or_default().to_string_lossy());
    log(Fact::Library, &program.library);
    log(Fact::Flavour, &program.flavour);
    log(Fact::ThreadLevel, &program.thread_level);
    log(Fact::Fold, &world.options.fold.to_string());
    if let Some(job) = &program.job {
        log(Fact::Job, job);
    }
    program.notes.iter().for_each(|note| {
        log(Fact::Note, note);
    });
}

/// Sentences on call sites that got no number, if there are any.
pub fn sites_without_number(world: &World) -> Vec<String> {
    let [over_limit, without_room] = SITES.without_number();
    let (rank, most) = (world.rank.get(), world.options.sites);
    let over_limit = (over_limit > 0).then(|| {
        format!(
            "rank {rank} called MPI at {over_limit} more places than the {most} that --sites tells apart: their calls have no site"
        )
    });
    let without_room = (without_room > 0).then(|| {
        format!(
            "rank {rank} had {without_room} times no room for the place of a call: such calls have no site"
        )
    });
    over_limit.into_iter().chain(without_room).collect()
}

/// The sentence on what call paths lack, if anything.
pub fn paths_left_out(world: &World) -> Option<String> {
    Some(format!("rank {}: {}", world.rank.get(), paths::note()?))
}

/// The arguments of the process. Those of a Rust library preloaded into another program are not in
/// `std::env::args` on every system, so they are read from the kernel.
pub fn command_line() -> Vec<String> {
    let text = std::fs::read(own_process::folder().join("cmdline")).unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|&byte| byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
