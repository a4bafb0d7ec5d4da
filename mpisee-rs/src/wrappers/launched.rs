//! The program that the launcher became, if it ends without having called `MPI_Init`: there is no
//! profile, and one line says why, or where the counts of processes are that ended before they
//! could write one.

use crate::binaries::objects;
use crate::generated::pmpi;
use crate::mpi::symbol;
use crate::state::world::{self, recover_command};
use crate::storage::message;
use mpisee_collect::process::linked_mpi::{LinkedMpi, ProgramFile};
use mpisee_collect::process::mapped_files::{has_mpi, mapped_files};
use mpisee_collect::process::{self as identity, begin_socket};
use mpisee_collect::segments::{self, Segment};
use mpisee_in_process::guards::descriptors;
use mpisee_profile::options::{BEGIN_SOCKET, LAUNCHED, NOT_COUNTED, Options};
use mpisee_profile::own_process;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::layout::state::ARRIVED;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{Arguments, Display};
use std::fs::File;
use std::mem::MaybeUninit;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// In the name of the library that counts NCCL's calls.
const NCCL: &[u8] = b"libmpisee_nccl.";

/// The process that the launcher became, this one or an ancestor of it; 0 if that is unknown.
static PROGRAM: AtomicU32 = AtomicU32::new(0);
/// Page faults, when the library was loaded, of children that the process had waited for: the
/// launcher has some.
static CHILDRENS_FAULTS: AtomicI64 = AtomicI64::new(0);
/// True if MPI was initialised, or at least tried to be.
static HAS_INIT: AtomicBool = AtomicBool::new(false);

/// True if recording was begun, or at least tried to be.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// True if communicators of NCCL were made while an MPI was expected to be initialised.
static WAITED_FOR_MPI: AtomicBool = AtomicBool::new(false);

/// The socket of the launcher's standby, which says why there is no profile if nobody else does.
static STANDBY: OnceLock<OsString> = OnceLock::new();

/// Tells the standby, once, that this process records, or says what there is to say.
pub fn dismiss_standby() {
    static IS_DISMISSED: AtomicBool = AtomicBool::new(false);
    if let Some(socket) = STANDBY.get().filter(|_| !IS_DISMISSED.swap(true, Ordering::Relaxed)) {
        let _held = descriptors::hold();
        begin_socket::notify(socket);
    }
}

/// Writes one line in the standby's stead, unless the program has closed its stderr.
fn say(text: Arguments<'_>) {
    if message::has_stderr() {
        dismiss_standby();
        message::say(text);
    }
}

/// Notes that a communicator of NCCL is not recorded, since an MPI is there that is expected to be
/// initialised.
pub fn note_waiting_for_mpi() {
    WAITED_FOR_MPI.store(true, Ordering::Relaxed);
}

/// Notes that recording begins, in a program of MPI or of NCCL.
pub fn note_begin() {
    HAS_BEGUN.store(true, Ordering::Relaxed);
}

/// Notes that the program initialises MPI, or a session of it.
pub fn note_init() {
    HAS_INIT.store(true, Ordering::Relaxed);
}

/// Returns whether the program has initialised MPI, or at least tried to.
pub fn has_init() -> bool {
    HAS_INIT.load(Ordering::Relaxed)
}

/// The process that the launcher became, this one or an ancestor of it; 0 if that is unknown.
pub fn program_pid() -> u32 {
    PROGRAM.load(Ordering::Relaxed)
}

/// Sentences of the launcher on what cannot be counted.
pub fn not_counted() -> Vec<String> {
    std::env::var(NOT_COUNTED).map_or(Vec::new(), |text| text.lines().map(str::to_owned).collect())
}

/// Returns whether this process is the program that the launcher became, and not a child of it.
pub fn is_program() -> bool {
    program_pid() == std::process::id()
}

/// Reads the launcher's variable when the library is loaded: a program may clear its environment.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let launched = std::env::var(LAUNCHED).ok().and_then(|number| number.parse().ok());
        PROGRAM.store(launched.unwrap_or(0), Ordering::Relaxed);
        if let Some(socket) = std::env::var_os(BEGIN_SOCKET) {
            let _ = STANDBY.set(socket);
        }
        // Its children have the variable, too.
        if is_program() {
            CHILDRENS_FAULTS.store(childrens_faults(), Ordering::Relaxed);
        }
    }
    at_load
};

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        // A panic would end the process with another code.
        let _ = catch_unwind(say_if_unprofiled);
    }
    at_exit
};

fn say_if_unprofiled() {
    let is_worker = identity::is_child_of_torchrun();
    if has_init() || !(is_program() || is_worker) {
        return;
    }
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).display();
    let left = || Left::find().filter(|_| is_program());
    // A shell has run others and waited for them: they may have used MPI. A process of torchrun has
    // others as helpers, which come here, too.
    let was_alone = childrens_faults() == CHILDRENS_FAULTS.load(Ordering::Relaxed);
    if world::world().is_some() {
        let is_of_others = |left: &Left| matches!(left, Left::ByProcesses { .. });
        if !was_alone && identity::speaks() {
            left().filter(is_of_others).iter().for_each(|left| left.say(&name));
        }
        return;
    }
    if HAS_BEGUN.load(Ordering::Relaxed) {
        return;
    }
    if !identity::speaks() {
        // Of several processes that called `exec` the first speaks, which need not be rank 0.
        left().filter(Left::is_of_first).iter().for_each(|left| left.say(&name));
        return;
    }
    if WAITED_FOR_MPI.load(Ordering::Relaxed) {
        return say(format_args!(
            "nothing is recorded of the communicators of NCCL that {name} made: an MPI is loaded and not \
             initialised, and no torchrun started the program"
        ));
    }
    if let Some(left) = left() {
        return left.say(&name);
    }
    if mpi_is_initialised() {
        return say(format_args!(
            "no profile was written: {name} called MPI, and its call of MPI_Init did not reach the profiler. \
             Possible causes are another PMPI tool loaded before mpisee, RTLD_DEEPBIND, dlmopen and dlsym \
             (docs/reference/limitations.md)"
        ));
    }
    if has_hidden_mpi() {
        return say(format_args!(
            "no profile was written: {name} has loaded MPI by dlmopen, and no call from that name space \
             reaches the profiler (docs/reference/limitations.md)"
        ));
    }
    let counts_nccl = std::env::var_os("LD_PRELOAD")
        .is_some_and(|all| all.as_encoded_bytes().windows(NCCL.len()).any(|part| part == NCCL));
    if counts_nccl && objects::named(|file| file.starts_with(b"libcuda.so")).is_some() {
        return say(format_args!(
            "no call of NCCL was seen in {name} itself, so there is no profile of this program, which has \
             used CUDA. The profiler does not see an NCCL that is linked statically, or whose functions are \
             asked of the library"
        ));
    }
    if is_program() && has_static_mpi() {
        return say(format_args!(
            "no profile was written: {name} is linked with a static MPI, whose calls do not reach the profiler; link MPI \
             dynamically"
        ));
    }
    // One that it has not waited for may record yet. The standby sees that, and says later what
    // there is to say.
    let is_alone = was_alone && !has_children();
    if is_program() && (is_alone || is_worker) && !standby_has_ended() {
        let or = if counts_nccl { ", or one that makes a communicator of NCCL" } else { "" };
        say(format_args!("{name} ended without a call of MPI_Init{or}, so there is no profile"));
    }
}

/// Returns whether the launcher's standby was dismissed: the program that this process ran before
/// it called `exec` has recorded, or has said why not.
fn standby_has_ended() -> bool {
    let _held = descriptors::hold();
    STANDBY.get().is_some_and(|socket| !begin_socket::is_listened_to(socket))
}

/// Returns whether the process has initialised an MPI though no such call arrived here.
fn mpi_is_initialised() -> bool {
    let mut flag = 0;
    // SAFETY: the flag is written; the call may be made at any time.
    unsafe { pmpi::MPI_Initialized.get()(&raw mut flag) };
    flag != 0
}

/// Returns whether the program has an MPI in itself, and no other is loaded. Whether it was called
/// is unknown.
fn has_static_mpi() -> bool {
    let program = || ProgramFile::read(File::open(own_process::folder().join("exe")).ok()?);
    !mapped_files(own_process::folder()).is_ok_and(|files| has_mpi(&files))
        && program().is_some_and(|program| program.linked_mpi() == LinkedMpi::Linked)
}

/// Returns whether an MPI is in a link namespace of its own: its file is mapped, and its functions
/// are not here. Whether it was called is unknown.
fn has_hidden_mpi() -> bool {
    symbol::function(c"PMPI_Init").is_none()
        && mapped_files(own_process::folder()).is_ok_and(|files| has_mpi(&files))
}

/// Counts that are in no profile.
enum Left {
    /// Of the program that this process ran before it called `exec`. `is_first` if no lower rank
    /// left before its exit.
    BeforeExec { folder: PathBuf, is_first: bool },
    /// Of processes that this one started, or that these started: those that have ended, before
    /// their exit or by it, and those that run. `one_each` has a process of each of their runs.
    ByProcesses { folder: PathBuf, one_each: Vec<u32>, ended: usize, before_exit: usize, running: usize },
}

impl Left {
    /// Looks for segments in which this process has a part.
    fn find() -> Option<Left> {
        let folder = Options::of_process().0.segments;
        let found = segments::find(&folder, segments::own_user().ok()?, false).ok()?.segments;
        let own = std::process::id();
        let began = identity::look_at(own)?.start;
        let is_here =
            |header: &Snapshot| header.boot == identity::boot() && header.namespace == identity::namespace();
        let here: Vec<_> = found.iter().filter(|segment| is_here(&segment.header)).collect();
        let is_own = |header: &Snapshot| header.pid == own && header.process_start == began;
        if let Some(before) = here.iter().find(|segment| is_own(&segment.header))
            && world::world().is_none()
        {
            let rank = before.header.world_rank;
            let left_before = |header: &Snapshot| {
                header.job == before.header.job && header.world_rank < rank && header.state != ARRIVED
            };
            let is_first = !here.iter().any(|segment| left_before(&segment.header));
            return Some(Left::BeforeExec { folder, is_first });
        }
        let is_below = |header: &Snapshot| {
            header.program_pid == u64::from(own) && header.pid != own && header.process_start >= began
        };
        let below: Vec<_> = here.iter().filter(|segment| is_below(&segment.header)).collect();
        let running = below.iter().filter(|segment| segment.is_running).count();
        let is_before_exit = |segment: &&&&Segment| !segment.is_running && segment.header.state != ARRIVED;
        let before_exit = below.iter().filter(is_before_exit).count();
        let ended = below.len() - running;
        let runs: BTreeMap<(u64, u32), u32> = below
            .iter()
            .map(|segment| ((segment.header.job, segment.header.world_size), segment.header.pid))
            .collect();
        let one_each = runs.into_values().collect();
        (ended + running > 0).then_some(Left::ByProcesses { folder, one_each, ended, before_exit, running })
    }

    fn is_of_first(&self) -> bool {
        matches!(self, Left::BeforeExec { is_first: true, .. })
    }

    fn say(&self, name: &dyn Display) {
        let own = [std::process::id()];
        let (what, processes_left, folder) = match self {
            Left::BeforeExec { folder, .. } => (
                format!(
                    "the counts are left of the program that ran before {name} in its process and ended by \
                     exec; for a profile, run"
                ),
                &own[..],
                folder,
            ),
            Left::ByProcesses { folder, one_each, ended: 0, running, .. } => (
                format!(
                    "{} that {name} started still ran at its end; if they leave no profile, run",
                    processes(*running)
                ),
                one_each.as_slice(),
                folder,
            ),
            Left::ByProcesses { folder, one_each, ended, before_exit, .. } => {
                let before_exit = match before_exit {
                    all if all == ended && *all == 1 => " and that ended before its exit".to_owned(),
                    all if all == ended => " and that ended before their exit".to_owned(),
                    0 => String::new(),
                    some => format!(", of which {some} ended before the exit"),
                };
                let ended = processes(*ended);
                (
                    format!(
                        "the counts are left of {ended} that {name} started{before_exit}; for a profile, run"
                    ),
                    one_each.as_slice(),
                    folder,
                )
            }
        };
        say(format_args!("{what}: {}", recover_command(processes_left, folder)));
    }
}

fn processes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "process" } else { "processes" })
}

/// Returns whether there are children that this process has not waited for.
fn has_children() -> bool {
    let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the structure is valid for writing. By the flags, the call neither waits nor takes
    // the end of a child from the program.
    unsafe { libc::waitid(libc::P_ALL, 0, about.as_mut_ptr(), flags) == 0 }
}

/// Page faults of the children that this process waited for.
fn childrens_faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is valid for writing, and valid if it is all zeros.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt
}
