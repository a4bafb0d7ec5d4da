//! The program that the launcher became, if it ends without having called `MPI_Init`: there is no profile, and one line
//! says why, or where the counts of processes are that ended before they could write one.

use crate::binaries::objects;
use crate::state::world;
use crate::storage::message::say;
use mpisee_collect::{process as identity, segments};
use mpisee_profile::options::{LAUNCHED, Options};
use mpisee_profile::segment::Snapshot;
use std::mem::MaybeUninit;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// In the name of the library that counts NCCL's calls.
const NCCL: &[u8] = b"libmpisee_nccl.";

/// The process number with which the launcher became this program; 0 if it did not.
static PROGRAM: AtomicU32 = AtomicU32::new(0);
/// Page faults, when the library was loaded, of children that the process had waited for: the launcher has some.
static CHILDRENS_FAULTS: AtomicI64 = AtomicI64::new(0);
/// True if MPI was initialised, or at least tried to be.
static HAS_INIT: AtomicBool = AtomicBool::new(false);

/// True if communicators of NCCL were made while an MPI was expected to be initialised.
static WAITED_FOR_MPI: AtomicBool = AtomicBool::new(false);

/// Notes that a communicator of NCCL is not recorded, since an MPI is there that is expected to be initialised.
pub fn note_waiting_for_mpi() {
    WAITED_FOR_MPI.store(true, Ordering::Relaxed);
}

/// Notes that the program initialises MPI, or a session of it.
pub fn note_init() {
    HAS_INIT.store(true, Ordering::Relaxed);
}

/// Returns whether the program has initialised MPI, or at least tried to.
pub fn has_init() -> bool {
    HAS_INIT.load(Ordering::Relaxed)
}

/// Returns whether this process is the program that the launcher became, and not a child of it.
pub fn is_program() -> bool {
    let program = PROGRAM.load(Ordering::Relaxed);
    program != 0 && program == std::process::id()
}

/// Reads the launcher's variable when the library is loaded: a program may clear its environment.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let launched = std::env::var(LAUNCHED).ok().and_then(|number| number.parse().ok());
        // Its children have the variable, too.
        if let Some(program) = launched.filter(|&number: &u32| number == std::process::id()) {
            PROGRAM.store(program, Ordering::Relaxed);
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
    let is_worker = identity::is_of_torchrun();
    if has_init() || world::world().is_some() || !(is_program() || is_worker) || !identity::speaks() {
        return;
    }
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).display();
    if WAITED_FOR_MPI.load(Ordering::Relaxed) {
        return say(format_args!(
            "{name} made communicators of NCCL, of which nothing is recorded: an MPI is loaded that it has not initialised, and no \
             torchrun started it"
        ));
    }
    if is_program()
        && let Some(left) = left()
    {
        return say(format_args!("{}", left.sentence(&name.to_string())));
    }
    let counts_nccl = std::env::var_os("LD_PRELOAD")
        .is_some_and(|all| all.as_encoded_bytes().windows(NCCL.len()).any(|part| part == NCCL));
    if counts_nccl && objects::named(|file| file.starts_with(b"libcuda.so")).is_some() {
        return say(format_args!(
            "no call of NCCL was seen in {name} itself, which has used CUDA, so there is no profile of it; an NCCL that is linked \
             statically, or whose functions are asked of the library, is not seen"
        ));
    }
    // A shell has run others and waited for them: they may have used MPI. A process of torchrun has others as helpers, which come here, too.
    let was_alone = childrens_faults() == CHILDRENS_FAULTS.load(Ordering::Relaxed);
    if is_program() && (was_alone || is_worker) {
        let or = if counts_nccl { ", or one that makes a communicator of NCCL" } else { "" };
        say(format_args!("{name} ended without a call of MPI_Init{or}, so there is no profile"));
    }
}

/// Counts that have no profile.
enum Left {
    /// Of the program that this process ran before it called `exec`.
    BeforeExec { folder: PathBuf },
    /// Of processes that this one started.
    ByProcesses { count: usize, folder: PathBuf },
}

impl Left {
    fn sentence(&self, name: &str) -> String {
        let (what, folder) = match self {
            Left::BeforeExec { folder } => (
                format!("of what ran before {name} in its process, and ended by exec, the counts are left"),
                folder,
            ),
            Left::ByProcesses { count: 1, folder } => (
                format!(
                    "of a process that {name} started, and that ended before its exit, the counts are left"
                ),
                folder,
            ),
            Left::ByProcesses { count, folder } => (
                format!(
                    "of {count} processes that {name} started, and that ended before their exit, the counts are left"
                ),
                folder,
            ),
        };
        format!("{what}: for a profile, run: mpisee-through recover {}", folder.display())
    }
}

/// The segments that are left, in which this process has a part.
fn left() -> Option<Left> {
    let (options, _) = Options::of_process();
    let folder = options.segments;
    let found = segments::find(&folder, segments::own_user().ok()?, false).ok()?.segments;
    let is_here =
        |header: &Snapshot| header.boot == identity::boot() && header.namespace == identity::namespace();
    let is_own = |header: &Snapshot| {
        header.pid == std::process::id()
            && identity::runs(header.pid, header.process_start)
            && is_here(header)
    };
    if found.iter().any(|segment| is_own(&segment.header)) {
        return Some(Left::BeforeExec { folder });
    }
    let mut ended = found.iter().filter(|segment| !segment.is_running).peekable();
    ended.peek()?;
    let jobs = identity::jobs_started_here();
    let count = ended.filter(|segment| jobs.contains(&segment.header.job)).count();
    (count > 0).then_some(Left::ByProcesses { count, folder })
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
