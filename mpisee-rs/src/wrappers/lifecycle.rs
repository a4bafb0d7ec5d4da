//! Begin and end of MPI.

use super::{dynamic, launched};
use crate::finalize;
use crate::generated::pmpi;
use crate::mpi::abi::{self, Group, Predefined, Raw, Status, constant};
use crate::mpi::compatibility::{self, FLAVOUR};
use crate::mpi::query;
use crate::mpi::symbol;
use crate::naming;
use crate::recording::{gpu_time, overhead, paths, samples, streams};
use crate::state::communicator::COMMUNICATORS;
use crate::state::communicator::Communicator;
use crate::state::cpu;
use crate::state::datatype::FREED;
use crate::state::gpu::memory_kind;
use crate::state::handles;
use crate::state::order;
use crate::state::process::{self, Mode};
use crate::state::request::REQUESTS;
use crate::state::sites::{self, SITES};
use crate::state::stack;
use crate::state::switching::{at_switch, switch};
use crate::state::thread::{self, Inside};
use crate::state::variables;
use crate::state::world::{self, Settling, World};
use crate::storage::clock;
use crate::storage::frame::CalledFrom;
use crate::storage::message::{self, say};
use crate::storage::segment::{self, Segment};
use mpisee_collect::process as identity;
use mpisee_in_process::guards::keep_thread_state;
use mpisee_profile::options::{Collect, Options};
use mpisee_profile::run::WITHOUT_MPI;
use mpisee_profile::segment::awaited::{self, Wildcards};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::{HOST_BYTES, Header, state};
use mpisee_profile::segment::log::Runs;
use mpisee_profile::segment::{Moment, active_call};
use mpisee_profile::{CommId, CommRank, WorldRank};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `MPI_Init` (MPI 4.1, 11.2.1).
///
/// # Safety
/// `make` makes the application's call; so for every function here.
pub unsafe fn init(make: impl FnOnce() -> c_int) -> c_int {
    finalize::end_without_mpi();
    let started = begin();
    let code = make();
    start_if(code, started);
    code
}

/// `MPI_Init_thread`.
///
/// # Safety
/// See [`init`].
pub unsafe fn init_thread(make: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: `make` makes the application's call.
    unsafe { init(make) }
}

/// `MPI_Finalize`: the profile is written while MPI still works.
///
/// # Safety
/// See [`init`].
pub unsafe fn finalize(make: impl FnOnce() -> c_int) -> c_int {
    let kept = keep_thread_state();
    gpu_time::end_of_profile();
    let _inside = publish_call(active_call::CurrentFunction::Finalize, CommId::WORLD, sites::called_from());
    if process::is_tracking() {
        world::guarded(variables::end);
    }
    if process::end() && catch_unwind(finalize::write_profile).is_err() {
        say(format_args!("writing the profile failed inside the profiler; the program goes on"));
    }
    drop(kept);
    make()
}

/// `MPI_Abort`: what was counted stays in the segment.
///
/// # Safety
/// See [`init`].
pub unsafe fn abort(make: impl FnOnce() -> c_int) -> c_int {
    let inside = publish_call(active_call::CurrentFunction::Abort, CommId::NONE, sites::called_from());
    if inside.is_some()
        && let Some(world) = world::world()
    {
        say_kept(world);
    }
    make()
}

/// Prints that a run which ends here leaves its counts.
fn say_kept(world: &World) {
    // A lock may be held by the call in which a signal came whose handler aborts.
    let is_in_file = world.segment.header().shared.load(Ordering::Relaxed) > 0;
    if is_in_file && !world.options.quiet {
        say(format_args!(
            "rank {} aborts the run; what the ranks counted is kept in {}: for a profile, run: {}",
            world.rank,
            world.options.segments.display(),
            world.recover_command()
        ));
    }
}

/// Publishes the call that the thread is in, until the returned guard is dropped.
fn publish_call(
    call: active_call::CurrentFunction,
    communicator: CommId,
    from: CalledFrom,
) -> Option<Inside> {
    if !process::is_tracking() {
        return None;
    }
    let inside = Inside::enter()?;
    inside.publish(call, communicator, clock::ticks(), from, awaited::UNKNOWN);
    Some(inside)
}

/// A profiler that is about to start.
struct StartingProfiler {
    version: String,
    options: Options,
    complaints: Vec<String>,
    segment: Segment,
    /// Why the segment is not in a file, if it is not.
    complaint: Option<String>,
    before: Moment,
    /// The same by the kernel's clock.
    kernel_before: Moment,
    /// Nanoseconds that this took.
    spent_ns: u64,
}

/// Creates the segment before `MPI_Init`. No rank leaves `MPI_Init` before all have entered it, so
/// at the end of MPI every rank finds the segments of all active profilers on the node.
fn begin() -> Option<StartingProfiler> {
    launched::note_init();
    // A library without a version string is a stub of MPI for one process.
    begin_with(|| Some(library_version()).filter(|version| abi::library_is_of_family(version)))
}

/// The same with an MPI of that version, if it has one that is to be recorded.
fn begin_with(version: impl FnOnce() -> Option<String>) -> Option<StartingProfiler> {
    let _kept = keep_thread_state();
    launched::note_begin();
    let began_ns = clock::monotonic_ns();
    let started = || {
        if world::world().is_some() {
            return None;
        }
        let version = version()?;
        let (options, complaints) = Options::of_process();
        clock::choose(options.clock);
        let (before, kernel_before) = (clock::moment(), clock::kernel_moment());
        let Some((segment, complaint)) = Segment::create(&options.segments) else {
            say(format_args!("no memory for counters: nothing is recorded on this rank"));
            return None;
        };
        mark_starting(segment.header(), &options);
        let spent_ns = clock::monotonic_ns().saturating_sub(began_ns);
        Some(StartingProfiler {
            version,
            options,
            complaints,
            segment,
            complaint,
            before,
            kernel_before,
            spent_ns,
        })
    };
    catch_unwind(AssertUnwindSafe(started)).ok().flatten()
}

/// Fills the header fields by which other ranks recognise an active profiler. The job is set as for
/// several ranks, since only these look for each other; a single rank corrects it in
/// [`fill_header`].
fn mark_starting(header: &Header, options: &Options) {
    let set = |field: &AtomicU64, value: u64| field.store(value, Ordering::Relaxed);
    set(&header.pid, u64::from(std::process::id()));
    set(&header.job, identity::job(u32::MAX));
    set(&header.process_start, identity::look_at(std::process::id()).map_or(0, |seen| seen.start));
    set(&header.boot, identity::boot());
    set(&header.namespace, identity::namespace());
    set(&header.program, u64::from(launched::program_pid()));
    set(&header.local_size, u64::from(identity::local_size().unwrap_or(0)));
    set(&header.by_messages, u64::from(options.collect != Collect::Auto));
    set(&header.start_realtime_ns, clock::realtime_ns());
    set(&header.state, state::STARTING);
    segment::publish(header);
}

fn start_if(code: c_int, started: Option<StartingProfiler>) {
    if code != constant::SUCCESS {
        return;
    }
    guarded(|| {
        launched::dismiss_standby();
        match (world::world(), started) {
            (Some(world), _) => enter_world(world),
            (None, Some(started)) => start(started, Processes::OfWorld),
            (None, None) => tell_if_misfit(),
        }
    });
}

/// Begins to record a process that has a session, whose group of all processes `world` finds.
pub fn start_without_world(world: impl FnOnce() -> Option<Group>) {
    guarded(|| {
        // No handle may be passed to MPI before the library is known to match.
        launched::dismiss_standby();
        let Some(started) = begin() else { return tell_if_misfit() };
        if let Some(group) = world() {
            start(started, Processes::OfSessions(group));
        }
    });
}

/// Begins to record a process that uses no MPI, at its first communicator of NCCL. Rank and number
/// of ranks are those of the launcher's variables; where these are missing, or cannot be right,
/// those that the process has in the communicator; else those of a process alone.
pub fn start_without_mpi(in_comm: Option<(u32, u32)>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        guarded(|| {
            // An MPI that is there will be initialised later, but in a process of torchrun, whose
            // PyTorch may be linked with one.
            let is_for_mpi = || symbol::function(c"PMPI_Init").is_some() && !identity::is_of_torchrun();
            if launched::has_init() {
                return;
            }
            if is_for_mpi() {
                return launched::note_waiting_for_mpi();
            }
            let Some(started) = begin_with(|| Some(WITHOUT_MPI.to_owned())) else { return };
            launched::dismiss_standby();
            process::note_without_mpi();
            let in_comm = in_comm.filter(|_| !launched::is_program());
            let (rank, size) = place_of(identity::stated_rank(), in_comm);
            start(started, Processes::Launched { rank, size });
        });
    });
}

fn guarded(start: impl FnOnce()) {
    let _kept = keep_thread_state();
    if catch_unwind(AssertUnwindSafe(start)).is_err() {
        process::set_mode(Mode::Bystander);
        say(format_args!("starting failed inside the profiler; the program runs without it"));
    }
}

/// Rank and number of ranks by what the launcher says and by the communicator. The variables may be
/// a shell's, or the node's.
fn place_of(launched: Option<(u32, u32)>, in_comm: Option<(u32, u32)>) -> (u32, u32) {
    let is_right = |&(rank, size): &(u32, u32)| {
        in_comm.is_none_or(|(own, all)| all < size || all == size && own == rank)
    };
    launched.filter(is_right).or(in_comm).or(launched).unwrap_or((0, 1))
}

/// `MPI_Init` after the first session: from now on there is a world.
fn enter_world(world: &World) {
    if process::is_tracking() && process::world_began() {
        for (id, comm, rank, size) in [
            (CommId::WORLD, world.predefined.world, world.rank.in_world(), world.size),
            (CommId::SELF, world.predefined.itself, CommRank::FIRST, 1),
        ] {
            COMMUNICATORS.insert(Communicator::new(id, comm, rank, size));
        }
        dynamic::note_parent(world);
    }
}

fn tell_if_misfit() {
    let version = library_version();
    if !abi::library_is_of_family(&version) {
        report_wrong_mpi(&version);
    }
}

/// Prints once that the library is for another MPI.
fn report_wrong_mpi(version: &str) {
    static REPORTED: Once = Once::new();
    // A stub of MPI has no version string. The rank cannot be queried from MPI here.
    if !version.is_empty() && identity::speaks() {
        REPORTED.call_once(|| {
            say(format_args!(
                "this libmpisee.so is for {FLAVOUR}, the program runs {version}: nothing is recorded, and functions that \
                 {FLAVOUR} has and the other MPI lacks return an error; start it by that MPI's mpirun with the mpisee command; \
                 if mpisee takes the wrong MPI, name it by --flavour"
            ));
        });
    }
}

/// The processes that a profile is of, by how they are known.
#[derive(Clone, Copy)]
enum Processes {
    /// `MPI_COMM_WORLD`.
    OfWorld,
    /// The group of all processes where there is no world.
    OfSessions(Group),
    /// Those that a launcher started, without MPI.
    Launched { rank: u32, size: u32 },
}

/// Handles, and the process among all.
struct Place {
    predefined: Predefined,
    group: Group,
    rank: u32,
    size: u32,
}

impl Processes {
    /// `None` if the MPI that runs is not the one that this library is for.
    fn place(self) -> Option<Place> {
        if let Processes::Launched { rank, size } = self {
            return Some(Place {
                predefined: Predefined::without_mpi(),
                group: abi::from_bits(0),
                rank,
                size,
            });
        }
        let predefined = abi::resolve(matches!(self, Processes::OfWorld));
        let predefined = predefined.filter(|&predefined| status_is_understood(predefined))?;
        symbol::look_ahead(pmpi::ALL);
        let group = match self {
            Processes::OfSessions(group) => group,
            _ => query::group_of(predefined.world, false),
        };
        let (rank, size) = query::rank_in(group);
        Some(Place { predefined, group, rank, size })
    }

    /// Sentences on what of this MPI is not recorded as it should be; one that is urgent is
    /// printed.
    fn notes(self, size: u32, version: &str) -> Vec<String> {
        if matches!(self, Processes::Launched { .. }) {
            return Vec::new();
        }
        let mut notes = compatibility::notes(version);
        let apart = compatibility::launched_apart(size, version);
        if let Some((sentence, is_urgent)) = apart.filter(|_| matches!(self, Processes::OfWorld)) {
            if is_urgent {
                say(format_args!("{sentence}"));
            }
            notes.push(sentence);
        }
        notes
    }
}

/// Begins to record.
fn start(started: StartingProfiler, processes: Processes) {
    let began_ns = clock::monotonic_ns();
    let has_world = matches!(processes, Processes::OfWorld);
    message::announce_panics();
    let StartingProfiler {
        version,
        options,
        complaints,
        segment,
        complaint,
        before,
        kernel_before,
        spent_ns,
    } = started;
    let Some(Place { predefined, group, rank, size }) = processes.place() else {
        return report_wrong_mpi(&version);
    };
    if rank == 0 {
        complaints.iter().chain(&complaint).for_each(|complaint| say(format_args!("{complaint}")));
    }
    let unfit = processes.notes(size, &version);
    let record = options.record;
    let reports_isendrecv_status = reports_isendrecv_status(has_world, predefined);
    let settling = Settling::new(reports_isendrecv_status, options.order);
    let installed = world::install(World {
        options,
        predefined,
        segment,
        group,
        rank: WorldRank::new(rank),
        size,
        start_realtime_ns: clock::realtime_ns(),
        reports_isendrecv_status,
        settling,
        library_version: version,
        thread_level_of_init: if has_world { thread_level() } else { "multiple" },
        has_had_session: AtomicBool::new(false),
        ticks_are_tsc: clock::is_tsc(),
        notes: complaint.into_iter().chain(unfit).chain(launched::not_counted()).collect(),
    });
    let Some(world) = world::world().filter(|_| installed) else { return };
    if world.thread_level() == "multiple" {
        share();
    }
    naming::log_predefined(world, world.rank.in_world(), Runs::first(size));
    naming::log_predefined(world, CommRank::FIRST, [world.rank].into_iter().collect());
    // SAFETY: the first handler only stores to an atomic, as one that runs between fork and exec
    // may; the second is there until the process ends.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_forked_child));
        libc::atexit(finalize::at_exit);
    }
    begin_tracking(world, has_world);
    fill_header(world, before);
    clock::begin_comparison(kernel_before, clock::kernel_moment());
    if world.options.order {
        // Requests that several threads may use are recorded in one general way, which notes each
        // step.
        REQUESTS.share();
        samples::look_at_each();
        order::begin();
    }
    overhead::note_init(world, began_ns.saturating_sub(spent_ns));
    switch(world, record);
}

/// Calls are looked at from here on.
fn begin_tracking(world: &'static World, has_world: bool) {
    thread::prepare();
    stack::prepare();
    sites::prepare(world);
    abi::is_fault_tolerant();
    process::set_mode(Mode::Tracking);
    if has_world {
        enter_world(world);
    }
    overhead::find_out(world);
    paths::prepare();
    at_switch(|world, on| {
        streams::note_switch(world, on);
        order::note_switch(on);
    });
    memory_kind::look_for_driver();
    finalize::log_facts(world);
    variables::begin(world);
}

/// The program opens a session beside a world that may have a lower thread level than
/// `MPI_THREAD_MULTIPLE`: from now on several threads may call MPI at the same time.
///
/// It is called before the session is made. A thread that is in a table at this moment, as of a
/// single one, has left the table long before another thread can use what the session makes.
pub fn note_session(world: &World) {
    if !process::is_tracking() || world.thread_level() == "multiple" {
        return;
    }
    world.has_had_session.store(true, Ordering::Relaxed);
    share();
    world.segment.log(&Fact::ThreadLevel.record(world.thread_level()));
}

/// Several threads call MPI at the same time.
fn share() {
    COMMUNICATORS.share();
    REQUESTS.share();
    handles::share();
    FREED.share();
    SITES.share();
}

/// A forked child shares the segment's memory, and is not a rank.
extern "C" fn in_forked_child() {
    process::note_fork();
}

fn fill_header(world: &World, before: Moment) {
    let header = world.segment.header();
    let set = |field: &AtomicU64, value: u64| field.store(value, Ordering::Relaxed);
    set(&header.world_rank, u64::from(world.rank.get()));
    set(&header.world_size, u64::from(world.size));
    set(&header.ticks_are_tsc, u64::from(world.ticks_are_tsc));
    set(&header.start_realtime_ns, world.start_realtime_ns);
    for (word, bytes) in header.host.iter().zip(host_name().chunks_exact(8)) {
        set(word, u64::from_ne_bytes(bytes.try_into().expect("chunks of 8 bytes")));
    }
    if world.size == 1 {
        set(&header.job, identity::job(1));
    }
    let wildcards = Wildcards::words(constant::ANY_SOURCE, constant::ANY_TAG, constant::PROC_NULL);
    header.wildcards.iter().zip(wildcards).for_each(|(word, value)| set(word, value));
    set(&header.before_monotonic_ns, before.monotonic_ns);
    set(&header.before_ticks, before.ticks.get());
    cpu::note_start(world);
    let now = clock::moment();
    set(&header.start_monotonic_ns, now.monotonic_ns);
    set(&header.start_ticks, now.ticks.get());
    set(&header.last_ticks, now.ticks.get());
    header.state.store(state::ACTIVE, Ordering::Release);
}

/// The name of the host; one of [`HOST_BYTES`] bytes, the most that Linux allows, has no zero at
/// its end.
fn host_name() -> [u8; HOST_BYTES] {
    let mut name = [0u8; HOST_BYTES + 1];
    // SAFETY: there is room for as many bytes as are said.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    std::array::from_fn(|at| name[at])
}

/// The first line of `MPI_Get_library_version`.
fn library_version() -> String {
    let text = query::library_text();
    // MPICH has a tab in it.
    text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a status has the layout that this flavour expects, checked with a number that
/// cannot be there by chance.
fn status_is_understood(predefined: abi::Predefined) -> bool {
    const BYTES: u64 = 12_345;
    let mut status = MaybeUninit::<Status>::zeroed();
    let byte = Raw::new(predefined.byte);
    // SAFETY: the status is zeroed memory of the right size, for the call to fill; then it is read
    // as the plain integers that it consists of.
    unsafe {
        pmpi::MPI_Status_set_elements.get()(status.as_mut_ptr(), byte, BYTES as c_int);
        abi::received_bytes(&status.assume_init()) == BYTES
    }
}

/// Returns whether `MPI_Isendrecv` fills the status of its request, which MPICH up to 5.0 does not:
/// checked with a message to self, at a time when no other message can exist.
#[cfg(mpi = "MPI_Isendrecv")]
fn reports_isendrecv_status(has_world: bool, predefined: abi::Predefined) -> bool {
    if !has_world {
        return cfg!(mpi_family = "openmpi"); // MPI_COMM_SELF cannot be used.
    }
    const BYTES: usize = 113;
    let (out, mut back) = ([0u8; BYTES], [0u8; BYTES]);
    let (byte, itself) = (Raw::new(predefined.byte), Raw::new(predefined.itself));
    let mut request = predefined.request_null;
    let mut status = MaybeUninit::<Status>::zeroed();
    // SAFETY: both buffers have as many bytes as are said and live until the request is complete;
    // the status is zeroed memory of the right size, and consists of plain integers.
    unsafe {
        let (from, to, count) = (out.as_ptr().cast(), back.as_mut_ptr().cast(), BYTES as c_int);
        let isendrecv = pmpi::MPI_Isendrecv.get();
        let code = isendrecv(from, count, byte, 0, 0, to, count, byte, 0, 0, itself, &raw mut request);
        if code != constant::SUCCESS {
            return false;
        }
        pmpi::MPI_Wait.get()(&raw mut request, status.as_mut_ptr());
        abi::received_bytes(&status.assume_init()) == BYTES as u64
    }
}

/// This MPI has no `MPI_Isendrecv`.
#[cfg(not(mpi = "MPI_Isendrecv"))]
fn reports_isendrecv_status(_has_world: bool, _predefined: abi::Predefined) -> bool {
    true
}

fn thread_level() -> &'static str {
    let mut level = 0;
    // SAFETY: the level is written.
    unsafe { pmpi::MPI_Query_thread.get()(&raw mut level) };
    let names = ["single", "funneled", "serialized", "multiple"];
    let found = constant::THREAD_LEVELS.iter().position(|&known| known == level);
    // If the level is unknown, the highest is assumed.
    names[found.unwrap_or(3)]
}
