//! The profile at the end of MPI.
//!
//! If all ranks are on one node, the last one to reach the end of MPI writes the profile from the
//! segments of all (`node.rs`): no rank waits, and no message is sent. The same holds if the node's
//! segments show that some ranks have no active profiler, since every rank there sees the same
//! segments.
//!
//! Otherwise the ranks meet in one collective operation over the world, which cannot match a
//! message of the program. A rank on another node may have no profiler and never arrive: after
//! `MPISEE_WAIT` the ranks of each node continue on their own. The ranks that met make their rows,
//! and rank 0 writes them; in a run that survives failures, the first surviving rank writes them,
//! and records who is missing.
//!
//! Rows travel as CSV text through a tree (`tree.rs`), in pieces of bounded size. Each rank keeps
//! its rows and its segment until rank 0 reports that the profile is written.

use crate::generated::pmpi;
use crate::mpi::abi::is_fault_tolerant;
use crate::mpi::compatibility;
use crate::mpi::query;
use crate::recording::{gpu_time, polls};
use crate::state::cpu;
use crate::state::gpu::{devices, tracer};
use crate::state::order;
use crate::state::process;
use crate::state::start_folder::{from_start_folder, start_folder};
use crate::state::world::{self, World};
use crate::storage::clock;
use crate::storage::message::say;
use crate::storage::segment::has_memory;
use mpisee_collect::RankTables;
use mpisee_collect::files::{AggregateFiles, Files, ProfileFiles, parts};
use mpisee_collect::form::AsText;
use mpisee_collect::gpu::GpuPart;
use mpisee_collect::nodes::Nodes;
use mpisee_collect::overhead::call_ns;
use mpisee_collect::process as identity;
use mpisee_collect::run::{RunSums, in_numbers};
use mpisee_collect::segments::Segment as Left;
use mpisee_collect::wire::pieces::TABLES;
use mpisee_collect::wire::{RankSummary, Ranks, RootCommand};
use mpisee_in_process::guards::{ThreadState, descriptors, keep_thread_state, signals};
use mpisee_profile::path_text::shell_path;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::snapshot::RunEnd;
use mpisee_profile::writer::since_taken;
use mpisee_profile::{CommRank, ProfileError, RankSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod channel;
#[cfg(test)]
mod extremes;
mod node;
mod output_dir;
mod parts;
mod run_json;
mod sums;
mod tree;
mod written;

use channel::Channel;
use mpisee_collect::output_places::Candidates;
pub use run_json::log_facts;
use tree::Tree;

/// Writes the profile in `MPI_Finalize`, or leaves what the rank counted for another to write.
pub fn write_profile() {
    let Some(world) = world::world() else { return };
    let _held = hold();
    polls::release_own();
    order::publish();
    if let Some(note) = run_json::open_sessions() {
        world.segment.log(&Fact::Note.record(note));
    }
    for note in run_json::sites_without_number(world).into_iter().chain(run_json::paths_left_out(world)) {
        world.segment.log(&Fact::NoteOfRank.record(&note));
    }
    let end = end_of(world);
    world.segment.note_moment();
    if !has_memory(LEAST_MEMORY) {
        return node::leave_without_memory(world, end);
    }
    devices::note(world);
    cpu::note_end(world);
    if !(meets_by_messages(world) && collect_by_messages(world, end)) {
        node::arrive(world, end);
    }
}

/// Memory that the end takes at least on a rank that writes nothing.
const LEAST_MEMORY: usize = 4 << 20;

/// Guards the program while files are written: no signal ends it, no file gets the number of a
/// standard descriptor, and the state of the thread stays as it is.
fn hold() -> (Option<signals::Held<2>>, descriptors::Held, ThreadState) {
    let kept = keep_thread_state();
    (signals::hold([libc::SIGXFSZ, libc::SIGPIPE]), descriptors::hold(), kept)
}

/// Returns whether the ranks collect the profile by messages. All ranks of a node decide by the
/// same facts.
fn meets_by_messages(world: &World) -> bool {
    let node_ranks = node::ranks_here(world);
    let is_missing = !node_ranks.entries.contains_key(&world.rank);
    if node_ranks.failure.is_some() || is_missing && world.segment.is_in_file() {
        return false; // The other ranks see their segments, and go on.
    }
    let (mut there, size) = (node_ranks.entries.len() as u64, u64::from(world.size));
    if is_fault_tolerant() {
        there += node_ranks.ended.len() as u64;
    }
    let own_local_size = world.segment.header().local_size.load(Ordering::Relaxed);
    let local_size = u64::from(node_ranks.local_size()).max(own_local_size);
    // A rank without a segment in a file sees whether others have theirs.
    let is_seen = !is_missing || there > 0;
    let is_lacking = is_seen && there < local_size && !node_ranks.has_foreign;
    if there == size {
        return is_fault_tolerant() || node_ranks.wants_messages();
    }
    !is_lacking && world.options.wait_s > 0
}

/// Runs after all exit handlers: a session may end in one that was registered before ours.
#[used]
#[unsafe(link_section = ".fini_array")]
static AFTER_EXIT_HANDLERS: extern "C" fn() = {
    extern "C" fn after_exit_handlers() {
        if !process::has_world() && process::is_tracking() {
            at_exit();
        }
    }
    after_exit_handlers
};

/// Exit handler. The process may have ended MPI in another way (its sessions ended, or it called
/// `PMPI_Finalize`), or other ranks may have exited without ending MPI. Counts of a process that
/// never ends MPI are left to `mpisee-through recover`.
pub extern "C" fn at_exit() {
    // A child may lack the memory that it would have to read.
    let Some(world) = world::world().filter(|world| !process::is_forked() && is_of_process(world)) else {
        return;
    };
    let is_over = || match process::has_world() {
        true => is_finalized(),
        false => process::is_without_mpi() || process::open_sessions() == 0,
    };
    let write = || {
        let _held = hold();
        if !process::is_tracking() {
            node::look_again(world);
        } else if is_over() {
            gpu_time::end_at_exit();
            if process::end() {
                arrive(world);
            }
        }
    };
    if catch_unwind(AssertUnwindSafe(write)).is_err() {
        say(format_args!("writing the profile failed inside the profiler"));
    }
}

/// Ends the profile of a process without MPI when it initialises one: calls of an MPI that comes
/// later are not recorded.
pub fn end_without_mpi() {
    let is_here = |world: &&World| process::is_without_mpi() && !process::is_forked() && is_of_process(world);
    let Some(world) = world::world().filter(is_here) else {
        return;
    };
    let write = || {
        let _held = hold();
        gpu_time::end_of_profile();
        if process::end() {
            const WHY: &str = "MPI is initialised after the first communicator of NCCL: the profile ends here, and has nothing of MPI";
            if world.rank.get() == 0 {
                say(format_args!("{WHY}"));
            }
            world.segment.log(&Fact::Note.record(WHY));
            arrive(world);
        }
    };
    if catch_unwind(AssertUnwindSafe(write)).is_err() {
        say(format_args!("writing the profile failed inside the profiler"));
    }
}

/// Returns whether this is the process that is counted, and not a child of which `fork` and its
/// handlers know nothing (`_Fork`, `clone`).
fn is_of_process(world: &World) -> bool {
    world.segment.header().pid.load(Ordering::Relaxed) == u64::from(std::process::id())
}

/// Ends the counts of a process that does not end MPI.
fn arrive(world: &World) {
    polls::release_own();
    order::publish();
    let end = end_of(world);
    if !has_memory(LEAST_MEMORY) {
        return node::leave_without_memory(world, end);
    }
    cpu::note_end(world);
    node::arrive(world, end);
}

fn is_finalized() -> bool {
    let mut flag = 0;
    // SAFETY: the flag is written; the call may be made at any time.
    unsafe { pmpi::MPI_Finalized.get()(&raw mut flag) };
    flag != 0
}

fn end_of(world: &World) -> RunEnd {
    clock::compare(&world.segment.header().clocks_apart_ns);
    RunEnd { moment: clock::moment(), realtime_ns: clock::realtime_ns() }
}

/// Limit on attempts to collect the profile while ranks die.
const MOST_DEATHS: usize = 8;

/// For how long no rank calls MPI after the verdict where none may enter the MPI library's
/// `MPI_Finalize` while another one still answers from outside of it. The verdict takes some
/// milliseconds to get to all ranks of a tree.
const SILENCE: Duration = Duration::from_millis(100);

/// Collects the profile by messages; `false` if not all ranks came.
fn collect_by_messages(world: &World, end: RunEnd) -> bool {
    // The segments of others are there until the verdict.
    let leaves_together =
        compatibility::hangs_if_left_early(&query::library_text()) && !node::has_all_ranks(world);
    let mut last = None;
    for _ in 0..MOST_DEATHS {
        let Some(channel) = Channel::open(world) else { return false };
        let absent = channel.absent(world);
        let own = own_rows(world, end, &absent);
        let is_over = collect(world, &channel, own, absent, &mut last);
        channel.close();
        if is_over {
            break;
        }
    }
    if matches!(last, Some(RootCommand::Written)) {
        world.segment.remove();
        tracer::remove(world);
    }
    if leaves_together {
        // By a pause rather than a barrier, whose last messages some ranks would receive after
        // others have left.
        std::thread::sleep(SILENCE);
    }
    // A rank that arrives after the others have given up gets no command.
    last.is_some()
}

/// A rank's contribution to the profile.
#[derive(Default)]
pub struct Own {
    /// Its rows as CSV text, by table; `None` if its counters cannot be read.
    parts: Option<[Vec<u8>; TABLES]>,
    /// The accesses of its GPU kernels.
    kernels: Vec<GpuPart>,
    sums: RunSums,
    /// Nanoseconds that a recorded call costs.
    call_ns: f64,
    /// When it entered `MPI_Finalize`; `None` if its counters cannot be read.
    end: Option<RunEnd>,
}

impl Own {
    /// The contribution of a rank with these counts; `sums` are those of its header.
    fn from_snapshot(
        snapshot: &Snapshot,
        end: RunEnd,
        absent: &RankSet,
        sums: &RunSums,
        kernels: Vec<GpuPart>,
    ) -> Own {
        let tables = RankTables::<AsText>::of_arrived(absent, snapshot, end.moment);
        let mut tables = tables.with_kernels(kernels);
        Own {
            sums: sums.clone().with_rows(&tables, snapshot),
            call_ns: call_ns(snapshot, end.moment),
            parts: Some(parts(&mut tables)),
            kernels: tables.gpu,
            end: Some(end),
        }
    }

    fn rows(&self) -> [&[u8]; TABLES] {
        self.parts.as_ref().map_or([&[]; TABLES], |parts| parts.each_ref().map(Vec::as_slice))
    }
}

fn own_rows(world: &World, end: RunEnd, absent: &RankSet) -> Own {
    let header = Snapshot::read_header(&world.segment);
    let sums =
        header.map_or_else(|_| RunSums::default(), |(header, _)| RunSums::of_header(&header, Some(end)));
    make_rows(world, end, absent, &sums).unwrap_or_else(|why| {
        say(format_args!("rank {}: {why}; its counts are not in the profile", world.rank));
        Own { sums, ..Own::default() }
    })
}

/// Makes the rows of this rank; `sums` are those of its header.
fn make_rows(world: &World, end: RunEnd, absent: &RankSet, sums: &RunSums) -> Result<Own, String> {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let snapshot = Snapshot::read(&world.segment).map_err(|error| error.to_string())?;
        Ok(Own::from_snapshot(&snapshot, end, absent, sums, tracer::parts(world)))
    }));
    made.unwrap_or_else(|_| Err("an error inside the profiler".to_owned()))
}

/// Bytes of a segment from which on its rank makes its rows itself, rather than leave that to the
/// one that writes the profile.
const MANY_BYTES: u64 = 1 << 18;

/// Making rows takes this many times the bytes of the segment, with their text and its file; that
/// of all ranks of a node at once takes no more memory than `MOST_AT_ONCE`. Beyond it, one rank
/// makes the rows of all, one after the other.
const BYTES_OF_ROWS: u64 = 16;
const MOST_AT_ONCE: u64 = 1 << 30;

/// Leaves the rows of a rank that has many for the one that writes the profile of the node, which
/// makes them where there are none.
fn leave_rows(world: &World, end: RunEnd) {
    let header = world.segment.header();
    let used = header.used.load(Ordering::Relaxed);
    let has_rows = (2..=world.options.fold).contains(&world.size) && used >= MANY_BYTES;
    let at_once = used.saturating_mul(BYTES_OF_ROWS).saturating_mul(world.size.into());
    let (Some(path), true) = (world.segment.path(), has_rows && at_once <= MOST_AT_ONCE) else { return };
    if !written::has_memory_to_write([path.as_path()].into_iter()) {
        return;
    }
    let Ok((header, _)) = Snapshot::read_header(&world.segment) else { return };
    let sums = RunSums::of_header(&header, Some(end));
    if let Ok(own) = make_rows(world, end, &RankSet::default(), &sums) {
        let _ = Left::leave_rows(&path, own.sums.clone(), own.rows());
    }
}

/// Collects the profile over one channel. `false` if it must be repeated over another; `last` is
/// the last command.
fn collect(
    world: &World,
    channel: &Channel,
    own: Own,
    absent: RankSet,
    last: &mut Option<RootCommand>,
) -> bool {
    let tree = Tree::over(channel);
    let summary = tree.gather(summary_of(world, channel, &own), RankSummary::add);
    if tree.is_root() {
        let mut writing = Writing::new(world, channel, summary, absent);
        return writing.lead(world, &tree, &own, last);
    }
    loop {
        *last = tree.pass(None);
        let is_over = match last {
            Some(RootCommand::Bring) => {
                tree.relay(own.rows(), |_| ());
                false
            }
            Some(RootCommand::BringSums) => {
                sums::gather(world, channel, &tree, own.end, &own.kernels, &absent);
                false
            }
            Some(RootCommand::Written | RootCommand::Keep) | None => true,
        };
        if !channel.is_whole() {
            return false;
        }
        if is_over {
            return true;
        }
    }
}

fn summary_of(world: &World, channel: &Channel, own: &Own) -> RankSummary {
    let host = world.segment.header().host.iter();
    let host = host.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
    let has_segment = world.segment.is_in_file();
    let mut summary = RankSummary::of_one(own.sums.clone(), has_segment, identity::host_number(host));
    if own.parts.is_none() {
        summary.lost.push(channel.itself());
    }
    summary
}

/// The profile, on the first rank.
struct Writing<'l> {
    channel: &'l Channel,
    summary: RankSummary,
    absent: RankSet,
    lost: Vec<Ranks>,
    /// The ranks whose rows are not in the profile.
    lacking: RankSet,
    candidates: Candidates,
    /// The directory in use.
    directory: PathBuf,
    /// The errors of directories to which it could not be written.
    failures: Vec<ProfileError>,
    written: Option<PathBuf>,
}

impl<'l> Writing<'l> {
    fn new(world: &World, channel: &'l Channel, summary: RankSummary, absent: RankSet) -> Self {
        let wanted = output_dir::wanted(world, &run_json::command_line());
        let candidates = Candidates::new(wanted, start_folder().to_owned(), world.options.segments.clone());
        let (lost, failures) = (Vec::new(), Vec::new());
        Writing {
            channel,
            summary,
            absent,
            lost,
            lacking: RankSet::default(),
            candidates,
            directory: PathBuf::new(),
            failures,
            written: None,
        }
    }

    /// Sends commands to all ranks until the profile is written or no directory is left. Returns as
    /// [`collect`].
    fn lead(&mut self, world: &World, tree: &Tree, own: &Own, last: &mut Option<RootCommand>) -> bool {
        loop {
            let is_written = matches!(last, Some(RootCommand::Written));
            let files = if is_written { None } else { self.begin(world) };
            let command = match &files {
                Some(Files::Rows(_)) => RootCommand::Bring,
                Some(Files::Sums(_)) => RootCommand::BringSums,
                None if is_written => RootCommand::Written,
                None => RootCommand::Keep,
            };
            *last = tree.pass(Some(command));
            let brought = files.map(|files| match files {
                Files::Rows(files) => self.take_rows(tree, own.rows(), files),
                Files::Sums(files) => Ok(self.take_sums(world, tree, own, files)),
            });
            if !self.channel.is_whole() {
                return false;
            }
            let Some(files) = brought else {
                self.say_where(world, command);
                return true;
            };
            if self.finish(world, own, files) {
                *last = Some(RootCommand::Written);
            }
        }
    }

    /// Makes the files in the next directory where that can be done.
    fn begin(&mut self, world: &World) -> Option<Files> {
        while let Some(directory) = self.candidates.next() {
            self.directory = directory;
            let nodes = || nodes(self.channel, &self.summary);
            let create = || Files::create(&self.directory, world.size, world.options.fold, nodes);
            match caught(create) {
                Ok(files) => return Some(files),
                Err(error) => self.fail(error),
            }
        }
        None
    }

    fn fail(&mut self, error: ProfileError) {
        self.candidates.note(&self.directory, &error);
        self.failures.push(error);
    }

    /// Receives the rows of all ranks. After an error the remaining rows are still received, so
    /// that no rank blocks.
    fn take_rows(
        &mut self,
        tree: &Tree,
        own: [&[u8]; TABLES],
        files: Box<ProfileFiles>,
    ) -> Result<Files, ProfileError> {
        let mut files = Ok(files);
        self.lost = tree.relay(own, |piece| {
            if let Ok(open) = &mut files
                && let Err(error) = caught(|| open.append_piece(piece))
            {
                files = Err(error);
            }
        });
        files.map(Files::Rows)
    }

    /// Takes the sums over all ranks.
    fn take_sums(&mut self, world: &World, tree: &Tree, own: &Own, mut files: Box<AggregateFiles>) -> Files {
        let (sums, lost) = sums::gather(world, self.channel, tree, own.end, &own.kernels, &self.absent);
        self.lost = lost;
        files.merge(sums);
        Files::Sums(files)
    }

    /// Writes the remaining files. Returns whether the profile is written.
    fn finish(&mut self, world: &World, own: &Own, files: Result<Files, ProfileError>) -> bool {
        let lost = self.summary.lost.iter().chain(&self.lost);
        let lost = lost.fold(RankSet::default(), |lost, ranks| {
            lost.union(
                &self.channel.in_world(CommRank::new(ranks.start), ranks.end.saturating_sub(ranks.start)),
            )
        });
        let nodes = nodes(self.channel, &self.summary);
        let missing = run_json::missing(&self.absent, &lost);
        self.lacking = lost;
        let run = run_json::run_info(world, &self.summary, own, &nodes, missing);
        match files.and_then(|files| caught(|| files.finish(&run))) {
            Ok(directory) => self.written = Some(directory),
            Err(error) => self.fail(error),
        }
        self.written.is_some()
    }

    /// Prints where the profile is, or how to recover it.
    fn say_where(&self, world: &World, command: RootCommand) {
        let here = u64::from(world.size) - self.absent.len() - self.lacking.len();
        let segments = world.options.segments.display();
        let ranks = match self.lacking.is_empty() {
            true => in_numbers(here),
            false => format!(
                "{} of {} (the rows of {} did not arrive; what they counted may be left in {segments}, see mpisee-through recover)",
                in_numbers(here),
                world.size,
                self.lacking.named()
            ),
        };
        let why = self.failures.first().map_or(String::new(), ToString::to_string);
        match (&self.written, command) {
            (Some(directory), RootCommand::Written) if !self.failures.is_empty() => {
                let since = since_taken(&self.directory, directory);
                let directory = shell_path(directory);
                say(format_args!(
                    "{why}: the profile of {ranks} is in {directory} instead{since}; read it with: \
                     mpisee-through {directory}"
                ));
            }
            (Some(directory), RootCommand::Written) if !world.options.quiet || !self.lacking.is_empty() => {
                let since = since_taken(from_start_folder(&self.directory), from_start_folder(directory));
                let directory = shell_path(from_start_folder(directory));
                say(format_args!(
                    "profile of {ranks} in {directory}{since}; read it with: mpisee-through {directory}"
                ));
            }
            (_, RootCommand::Keep) => {
                let without = self.summary.without_segment;
                let but = if without > 0 {
                    format!(", but for {without} that had no segment")
                } else {
                    String::new()
                };
                say(format_args!(
                    "no profile: {why}, nor at any other place; what the ranks counted is kept in {segments}{but}; where \
                     there is room, run: {}",
                    world.recover_command()
                ));
            }
            _ => {}
        }
    }
}

/// Turns a panic into an error, since the other ranks wait for the next command.
fn caught<T>(write: impl FnOnce() -> Result<T, ProfileError>) -> Result<T, ProfileError> {
    catch_unwind(AssertUnwindSafe(write))
        .unwrap_or_else(|_| Err(ProfileError::Segment { why: "an error inside the profiler".to_owned() }))
}

/// The node of each rank.
fn nodes(channel: &Channel, summary: &RankSummary) -> Nodes {
    let each = summary.nodes().flat_map(|(ranks, node)| (0..ranks).map(move |_| node));
    Nodes::new(channel.world_ranks().zip(each).filter_map(|(rank, node)| Some((rank, 1, node?))))
}
