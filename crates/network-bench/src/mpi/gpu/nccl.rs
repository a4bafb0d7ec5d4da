//! The border to NCCL: its functions, and communicators that are made once for each list of
//! members.
//!
//! cudarc has NCCL, too, but looks for it as `libnccl.so` alone, which installations without
//! headers lack; they have `libnccl.so.2`.

use super::fatal;
use crate::agree::{Failed, agree};
use cudarc::driver::sys::CUstream;
use libloading::Library;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::verification::View;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// NCCL's `ncclResult_t`; 0 is success.
type Code = c_int;
/// NCCL's `ncclComm_t`.
pub type CommHandle = *mut c_void;

const ID_BYTES: usize = 128;
const SUCCESS: Code = 0;
/// NCCL was used in a way that it does not allow.
const INVALID_USAGE: Code = 5;
/// A communicator that works on something.
const IN_PROGRESS: Code = 7;

/// NCCL's `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; ID_BYTES]);

/// NCCL's `ncclDataType_t`, of which these have the same numbers in all versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum DataType {
    /// Unsigned numbers of a byte.
    Uint8 = 1,
    /// C's `float`.
    Float32 = 7,
    /// C's `double`.
    Float64 = 8,
}

/// `ncclSum`.
pub const SUM: c_int = 0;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($kind:ty),*);)*) => {
        /// The functions of NCCL.
        #[allow(missing_docs, reason = "they are called as NCCL calls them")]
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($kind),*) -> Code,)*
            get_error_string: unsafe extern "C" fn(Code) -> *const c_char,
        }

        impl Functions {
            /// The functions of a library, which stays loaded.
            fn from_library(library: &'static Library) -> Result<Functions, libloading::Error> {
                // SAFETY: NCCL's functions have these signatures since version 2.7, the first with
                // messages.
                unsafe {
                    Ok(Functions {
                        $($field: *library.get($name)?,)*
                        get_error_string: *library.get("ncclGetErrorString")?,
                    })
                }
            }
        }
    };
}

functions! {
    get_unique_id = "ncclGetUniqueId": fn(*mut UniqueId);
    comm_init_rank = "ncclCommInitRank": fn(*mut CommHandle, c_int, UniqueId, c_int);
    comm_destroy = "ncclCommDestroy": fn(CommHandle);
    comm_get_async_error = "ncclCommGetAsyncError": fn(CommHandle, *mut Code);
    group_start = "ncclGroupStart": fn();
    group_end = "ncclGroupEnd": fn();
    send = "ncclSend": fn(*const c_void, usize, DataType, c_int, CommHandle, CUstream);
    recv = "ncclRecv": fn(*mut c_void, usize, DataType, c_int, CommHandle, CUstream);
    broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, DataType, c_int, CommHandle, CUstream);
    reduce = "ncclReduce": fn(*const c_void, *mut c_void, usize, DataType, c_int, c_int, CommHandle, CUstream);
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, DataType, c_int, CommHandle, CUstream);
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, DataType, CommHandle, CUstream);
    reduce_scatter = "ncclReduceScatter": fn(*const c_void, *mut c_void, usize, DataType, c_int, CommHandle, CUstream);
}

static NCCL: OnceLock<Functions> = OnceLock::new();

/// Loads NCCL, together with all ranks. Nothing where that was done before.
pub fn open(world: &SimpleCommunicator) -> Result<(), Failed> {
    let loaded = if NCCL.get().is_some() { Ok(()) } else { load() };
    agree(world, loaded.map_err(|why| format!("rank {} has no NCCL: {why}", world.rank())))
}

fn load() -> Result<(), String> {
    // SAFETY: NCCL's initialisers run when it is loaded, as in every program of it.
    let found = unsafe {
        Library::new("libnccl.so.2").or_else(|first| Library::new("libnccl.so").map_err(|_| first))
    };
    let library = found
        .map_err(|why| format!("{}; install it, or say where it is in LD_LIBRARY_PATH", reason(&why)))?;
    let functions = Functions::from_library(Box::leak(Box::new(library)))
        .map_err(|why| format!("{}; version 2.7 is the first with messages", reason(&why)))?;
    NCCL.get_or_init(|| functions);
    Ok(())
}

/// The dynamic linker's words about a library, or a function of it.
fn reason(why: &libloading::Error) -> String {
    why.source().map_or_else(|| why.to_string(), ToString::to_string)
}

/// NCCL's functions; it is open.
pub fn functions() -> &'static Functions {
    NCCL.get().expect("NCCL is opened before it is used")
}

/// A failure of a function, as a part of a sentence.
fn said(function: &str, code: Code) -> String {
    // SAFETY: NCCL has a text for every number, which lives as long as the library.
    let text = unsafe { CStr::from_ptr((functions().get_error_string)(code)) };
    format!("{function} failed with {code} ({})", text.to_string_lossy())
}

/// Ends the program if a call in a run has failed.
pub fn must(function: &str, code: Code) {
    if code != SUCCESS {
        fatal(&said(function, code));
    }
}

/// A communicator of NCCL, as long as [`close`] was not called.
#[derive(Clone, Copy)]
pub struct NcclComm {
    /// NCCL's handle.
    pub handle: CommHandle,
}

impl NcclComm {
    /// Ends the program if NCCL has found, while it worked, that it cannot go on.
    pub fn check(self) {
        let mut found = SUCCESS;
        // SAFETY: the communicator is alive; the number is written to.
        let code = unsafe { (functions().comm_get_async_error)(self.handle, &mut found) };
        must("ncclCommGetAsyncError", code);
        if found != IN_PROGRESS {
            must("NCCL's work", found);
        }
    }
}

/// Lists of members of communicators that are made together.
pub type Lists = Vec<Vec<u32>>;

thread_local! {
    /// By lists of members the communicator that this rank is a member of; alike on all ranks, but
    /// for the communicators.
    static MADE: RefCell<BTreeMap<Lists, Option<NcclComm>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The communicator of the list that this rank is in, as `own` sees it; together with all ranks.
pub fn communicator(
    world: &SimpleCommunicator,
    lists: Lists,
    own: Option<(usize, View)>,
) -> Result<Option<NcclComm>, Failed> {
    if let Some(made) = MADE.with_borrow(|made| made.get(&lists).copied()) {
        return Ok(made);
    }
    let members = crate::collective::members(world, own);
    let mut id = UniqueId([0; ID_BYTES]);
    let is_first = members.as_ref().is_some_and(|members| members.rank() == 0);
    let code = match is_first {
        // SAFETY: the id is written to.
        true => unsafe { (functions().get_unique_id)(&mut id) },
        false => SUCCESS,
    };
    let outcome = |function, code| if code == SUCCESS { Ok(()) } else { Err(said(function, code)) };
    agree(world, outcome("ncclGetUniqueId", code))?;
    let mut made = None;
    let mut code = SUCCESS;
    if let Some(members) = &members {
        members.process_at_rank(0).broadcast_into(&mut id.0[..]);
        let mut handle = std::ptr::null_mut();
        // SAFETY: all members take part, with the id of the first of them; this process has a GPU
        // as its current one.
        code = unsafe { (functions().comm_init_rank)(&mut handle, members.size(), id, members.rank()) };
        made = Some(NcclComm { handle });
    }
    let initialised = outcome("ncclCommInitRank", code);
    let hint = match code {
        INVALID_USAGE => {
            "; NCCL takes each GPU for one rank alone, so start no more ranks on a node than it has GPUs"
        }
        _ => "; NCCL_DEBUG=WARN says more",
    };
    agree(world, initialised.map_err(|why| format!("rank {}: {why}{hint}", world.rank())))?;
    MADE.with_borrow_mut(|all| all.insert(lists, made));
    Ok(made)
}

/// Destroys all communicators, when nothing is under way any more; together with all ranks.
pub fn close() {
    for communicator in MADE.take().into_values().flatten() {
        // SAFETY: the communicator is alive, and used no more.
        must("ncclCommDestroy", unsafe { (functions().comm_destroy)(communicator.handle) });
    }
}
