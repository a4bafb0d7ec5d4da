//! Collection on one node: the last rank to reach the end of MPI writes the profile from the
//! segments of all.
//!
//! No rank waits for another, and no message is sent: each rank leaves its counts in its segment
//! and goes on.

use super::written::{ended_before, has_memory_to_write, write_to};
use super::{RunEnd, parts};
use crate::state::gpu::tracer;
use crate::state::process;
use crate::state::start_folder::start_folder;
use crate::state::world::{World, recover_command};
use crate::storage::message::say;
use crate::storage::segment::Segment;
use mpisee_collect::node_ranks::NodeRanks;
use mpisee_collect::segments::{Segment as Left, WorldSegments, missing, own_user, save_copy};
use mpisee_profile::path_text::{shell_path, to_text};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::state;
use mpisee_profile::segment::{NotSeen, Snapshot};
use mpisee_profile::{RankSet, WorldRank};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The ranks of this process's world that have an active profiler on this node.
pub fn ranks_here(world: &World) -> NodeRanks {
    // MPI_Init has waited for all ranks; sessions wait for none.
    let local_size = world.segment.header().local_size.load(Ordering::Relaxed);
    let least = if process::has_world() { 0 } else { u32::try_from(local_size).unwrap_or(0) };
    read_ranks(world, |folder, own, user| NodeRanks::wait_for(folder, own, user, least))
}

/// Returns whether all ranks of the world are on this node, as far as their segments show it.
pub fn has_all_ranks(world: &World) -> bool {
    ranks_here(world).entries.len() as u64 == u64::from(world.size)
}

fn read_ranks(world: &World, read: impl FnOnce(&Path, &Snapshot, u32) -> NodeRanks) -> NodeRanks {
    match (Snapshot::read_header(&world.segment), own_user()) {
        (Ok((own, _)), Ok(user)) => read(&world.options.segments, &own, user),
        _ => NodeRanks::default(),
    }
}

/// Marks this rank as arrived, and writes the profile if all other ranks of the node have arrived.
pub fn arrive(world: &World, end: RunEnd) {
    if !world.segment.is_in_file() {
        return leave_copy(world, end);
    }
    tracer::complete(world);
    log_wanted(world);
    if !save_private(&world.segment) {
        world.segment.header().not_seen[NotSeen::LostCounts as usize].fetch_add(1, Ordering::Relaxed);
        say(format_args!("rank {}: part of what it counted found no room in a file and is lost", world.rank));
    }
    super::leave_rows(world, end);
    // From now on the rank that writes the profile may remove it.
    let was_there = world.segment.is_there();
    mark_arrived(world, end);
    if !was_there {
        return say(format_args!(
            "no profile of rank {}: its segment in {} was removed or cannot be reached",
            world.rank,
            world.options.segments.display()
        ));
    }
    let node_ranks = ranks_here(world);
    if node_ranks.failure.is_some() {
        return say_unread(world, &node_ranks);
    }
    if node_ranks.entries.get(&world.rank).is_some_and(|own| own.header.state != state::ARRIVED) {
        return leave_apart(world);
    }
    if !node_ranks.entries.contains_key(&world.rank) {
        // If this rank's segment is gone, the profile is written already.
        if world.segment.is_there() {
            say(format_args!(
                "no profile of rank {}: its segment in {} is there, but it cannot be read, or does not show as that of a \
                 running process; from where it does, run: {}",
                world.rank,
                world.options.segments.display(),
                world.recover_command()
            ));
        }
        return;
    }
    if process::is_without_mpi() {
        return write_in_turn(world, &node_ranks.entries[&world.rank].path);
    }
    if node_ranks.has_arrived()
        && let Some(_writes) = lock(&node_ranks)
    {
        write(world, &node_ranks);
    }
}

/// The longest that a rank waits for another one that writes a profile.
const MOST_WRITING: Duration = Duration::from_secs(10);

/// Writes the profile of the ranks that are there, if all have arrived. Without MPI ranks need not
/// know each other: one may come to its end while another writes the profile of those that it has
/// found.
fn write_in_turn(world: &World, own: &Path) {
    let begin = Instant::now();
    // Of two that find each other in the way, one comes back sooner.
    let pause = Duration::from_millis(1 + u64::from(world.rank.get() % 16));
    while begin.elapsed() < MOST_WRITING {
        match Lock::for_path(own) {
            // Another one has written it.
            Lock::Gone => return,
            Lock::Busy => {}
            Lock::Taken(_own) => {
                let node_ranks = read_ranks(world, NodeRanks::now);
                if node_ranks.failure.is_some() || !node_ranks.has_arrived() {
                    return;
                }
                let mut others = node_ranks.entries.iter().filter(|&(&rank, _)| rank != world.rank);
                if others.all(|(_, entry)| matches!(Lock::for_path(&entry.path), Lock::Taken(_))) {
                    return write(world, &node_ranks);
                }
            }
        }
        std::thread::sleep(pause);
    }
    say(format_args!(
        "rank {} is in no profile, since another process has been writing one for long; run: {}",
        world.rank,
        world.recover_command()
    ));
}

/// Writes the profile at the exit of a process that has arrived, if other ranks have since ended
/// without arriving: then no other rank would write it.
pub fn look_again(world: &World) {
    let header = world.segment.header();
    let has_arrived = header.state.load(Ordering::Relaxed) == state::ARRIVED;
    let is_forked = header.pid.load(Ordering::Relaxed) != u64::from(std::process::id());
    if !has_arrived || is_forked || !world.segment.is_there() {
        return;
    }
    let node_ranks = read_ranks(world, NodeRanks::now);
    if node_ranks.failure.is_some() || !node_ranks.entries.contains_key(&world.rank) {
        return;
    }
    if !node_ranks.has_arrived() {
        return say_late(world, &node_ranks);
    }
    if !node_ranks.ended.is_empty()
        && let Some(_writes) = lock(&node_ranks)
    {
        write(world, &node_ranks);
    }
}

/// Prints which ranks have not arrived when the first of those that have exits: mostly they have
/// left MPI by another way, since MPI libraries let ranks leave `MPI_Finalize` together.
fn say_late(world: &World, node_ranks: &NodeRanks) {
    let (arrived, late): (Vec<_>, Vec<_>) =
        node_ranks.entries.iter().partition(|(_, entry)| entry.header.state == state::ARRIVED);
    if arrived.first().is_some_and(|&(&rank, _)| rank == world.rank) {
        let late: RankSet = late.into_iter().map(|(&rank, _)| rank).collect();
        say(format_args!(
            "no profile yet: {} not in MPI_Finalize so far; if none follows, run: {}",
            late.named(),
            world.recover_command()
        ));
    }
}

/// Leaves the counts in the segment where there is no memory to write a profile: an allocation that
/// fails ends the program.
pub fn leave_without_memory(world: &World, end: RunEnd) {
    mark_arrived(world, end);
    say(format_args!(
        "rank {} has no memory to write the profile; if no other rank does, run: {}",
        world.rank,
        world.recover_command()
    ));
}

/// Saves the counters of a rank that has no segment in a file, for others to find.
fn leave_copy(world: &World, end: RunEnd) {
    let (rank, folder) = (world.rank, world.options.segments.display());
    tracer::complete(world);
    log_wanted(world);
    mark_arrived(world, end);
    match save_copy(&world.segment) {
        // Where MPI is, a single rank needs no file.
        Ok(copy) if process::is_without_mpi() && world.size == 1 => write_alone(world, &copy),
        Ok(copy) => say(format_args!(
            "rank {rank} found no room for a segment in {folder}: what it counted is in {0}; for one profile, run: \
             {1} {2}",
            folder_of(&copy).display(),
            world.recover_command(),
            shell_path(folder_of(&copy))
        )),
        Err(why) => {
            say(format_args!("no profile of rank {rank}: it found no room for its counters ({why:#})"));
        }
    }
}

/// Writes the profile of the only process of its job from a copy of its counters.
fn write_alone(world: &World, copy: &Path) {
    let only = own_user().and_then(|user| Left::of_arrived(copy, user));
    let all = WorldSegments::from_segments(only);
    let recover = recover_command(&[std::process::id()], folder_of(copy));
    if write_to(world, &all, None, None, first_wanted(world, &all), &recover) {
        all.segments().for_each(|segment| drop(segment.remove()));
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(file)
}

/// Saves the counters of a rank whose memory is not its file's any more: something has moved the
/// library's data, of which the segment's begin is a part, to memory of its own.
fn leave_apart(world: &World) {
    let (rank, folder) = (world.rank, world.options.segments.display());
    match save_copy(&world.segment) {
        Ok(copy) => say(format_args!(
            "the counters of rank {rank} are no longer in its segment in {folder}, as if the program had moved the memory \
             of its libraries; they are in {}: for a profile, run: {}",
            folder_of(&copy).display(),
            recover_command(&[std::process::id()], folder_of(&copy))
        )),
        Err(why) => say(format_args!(
            "no profile of rank {rank}: its counters are no longer in its segment, and find no other place ({why:#})"
        )),
    }
}

/// Prints that this rank cannot see whether all others have arrived.
fn say_unread(world: &World, node_ranks: &NodeRanks) {
    let (rank, folder) = (world.rank, world.options.segments.display());
    let why = node_ranks.failure.as_deref().unwrap_or_default();
    say(format_args!(
        "rank {rank} cannot read the segments in {folder} ({why}); if no other rank writes the profile, run: \
         {}",
        world.recover_command()
    ));
}

fn mark_arrived(world: &World, end: RunEnd) {
    let header = world.segment.header();
    let relaxed = Ordering::Relaxed;
    header.end_realtime_ns.store(end.realtime_ns, relaxed);
    header.end_monotonic_ns.store(end.moment.monotonic_ns, relaxed);
    header.end_ticks.store(end.moment.ticks.get(), relaxed);
    // Of two ranks that arrive at once, at least one sees both as arrived.
    header.state.store(state::ARRIVED, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Logs where this rank wants the profile, for the rank that writes it; the first rank's choice is
/// used.
fn log_wanted(world: &World) {
    let wanted = super::output_dir::wanted(world, &super::run_json::command_line());
    let text = [wanted.as_os_str(), start_folder().as_os_str()].map(to_text).join("\0");
    world.segment.log(&Fact::Wanted.record(text));
}

/// Elects the one process that writes: a lock on the first rank's segment, while that file exists.
fn lock(node_ranks: &NodeRanks) -> Option<File> {
    match Lock::for_path(&node_ranks.entries.values().next()?.path) {
        Lock::Taken(file) => Some(file),
        Lock::Busy | Lock::Gone => None,
    }
}

/// The lock on a segment, which whoever writes the profile of it has.
enum Lock {
    /// It is ours as long as the file is open.
    Taken(File),
    /// Another process has it.
    Busy,
    /// An earlier holder has written the profile and removed the file.
    Gone,
}

impl Lock {
    /// Takes it, if it is free.
    fn for_path(path: &Path) -> Lock {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Lock::Gone,
            // For want of a descriptor nobody can say who has it.
            Err(_) => return Lock::Busy,
        };
        // SAFETY: the descriptor is open.
        let code = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        // A file system without locks keeps nobody from writing.
        if code != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EWOULDBLOCK) {
            return Lock::Busy;
        }
        let same = |there: &Metadata, own: &Metadata| (there.dev(), there.ino()) == (own.dev(), own.ino());
        match (std::fs::symlink_metadata(path), file.metadata()) {
            (Ok(there), Ok(own)) if same(&there, &own) => Lock::Taken(file),
            _ => Lock::Gone,
        }
    }
}

fn write(world: &World, node_ranks: &NodeRanks) {
    let Ok(user) = own_user() else { return };
    let recover = world.recover_command();
    if !has_memory_to_write(node_ranks.entries.values().map(|entry| entry.path.as_path())) {
        return say(format_args!("no memory to write the profile; run: {recover}"));
    }
    let before_exec: RankSet = node_ranks.before_exec.keys().copied().collect();
    let note = || format!("what {} counted before a call of exec is not in it", before_exec.named());
    let note = (!before_exec.is_empty()).then(note);
    let segments = node_ranks.entries.values().map(|entry| Left::of_arrived(&entry.path, user));
    let all = WorldSegments::from_segments(segments.filter_map(Result::ok));
    let absent = missing(world.size, all.segments().map(|segment| segment.header.world_rank));
    let ended: RankSet =
        node_ranks.ended.keys().copied().filter(|rank| absent.contains(rank.get())).collect();
    let why = (!absent.is_empty()).then(|| why_absent(world, node_ranks, &absent, &ended));
    let [wanted, folder] = first_wanted(world, &all);
    let is_gathered =
        why.is_some() && process::is_without_mpi() && parts::gather(world, &all, &ended, &wanted);
    if is_gathered || write_to(world, &all, why.as_deref(), note.as_deref(), [wanted, folder], &recover) {
        // The first segment goes last: it has the lock.
        all.segments().rev().for_each(|segment| drop(segment.remove()));
    }
    // Who started several processes says at its own exit what these left.
    let header = world.segment.header();
    let is_program = header.program.load(Ordering::Relaxed) == header.pid.load(Ordering::Relaxed);
    let ended = if is_program { ended } else { RankSet::default() };
    let left =
        [(&before_exec, &node_ranks.before_exec, "a call of exec"), (&ended, &node_ranks.ended, "the end")];
    for (ranks, processes, end) in left {
        // The processes of a world are recovered together.
        let first = ranks.iter().next().and_then(|rank| processes.get(&WorldRank::new(rank)));
        if let Some(&process) = first {
            say(format_args!(
                "what {} counted before {end} is left: for a profile of it, run: {}",
                ranks.named(),
                recover_command(&[process], &world.options.segments)
            ));
        }
    }
}

/// The directory that the first rank wants for the profile, and its working directory.
fn first_wanted(world: &World, all: &WorldSegments) -> [PathBuf; 2] {
    let first = all.segments().next().and_then(|segment| segment.read_program().ok());
    first.and_then(|program| program.wanted).unwrap_or_else(|| {
        let wanted = super::output_dir::wanted(world, &super::run_json::command_line());
        [wanted, start_folder().to_owned()]
    })
}

/// The reason for which ranks are absent, as far as the node shows it.
fn why_absent(world: &World, node_ranks: &NodeRanks, absent: &RankSet, ended: &RankSet) -> String {
    if ended.len() == absent.len() {
        return ended_before(ended);
    }
    let ranks = absent.named();
    let here = u64::from(node_ranks.local_size());
    let are_elsewhere = here > 0 && here < u64::from(world.size);
    let has_lacking = here > node_ranks.entries.len() as u64;
    if process::is_without_mpi() {
        return format!(
            "{ranks} had not begun when the others had ended, ran without an active profiler, or ran elsewhere"
        );
    }
    match (has_lacking, are_elsewhere) {
        (true, false) => format!("{ranks} ran without an active profiler, or in another container"),
        (false, true) => format!("{ranks} ran on other nodes"),
        _ => format!("{ranks} ran without an active profiler, on other nodes, or in another container"),
    }
}

/// Saves a copy of the segment where parts of it are in private memory; `false` if that fails.
fn save_private(segment: &Segment) -> bool {
    let header = segment.header();
    let (used, shared) = (header.used.load(Ordering::Relaxed), header.shared.load(Ordering::Relaxed));
    used == shared || !segment.is_in_file() || save_copy(segment).is_ok()
}
