//! The application binary interface of the MPI that this flavour is built for: the one place where types
//! and constants of an MPI library appear.
//!
//! Types come from `mpi-sys`, that is from the `mpi.h` of the flavour. Predefined handles cannot: in
//! Open MPI they are addresses of the library's data, which may be mapped later or privately, so that they
//! are looked up at run time.

use std::ffi::c_int;
use std::marker::PhantomData;

#[cfg_attr(mpi_family = "openmpi", path = "openmpi.rs")]
#[cfg_attr(mpi_family = "mpich", path = "mpich.rs")]
mod family;

pub use family::{
    CART, COMBINER_NAMED, DIST_GRAPH, FORTRAN_IN_PLACE, FORTRAN_STATUS_IGNORE, GRAPH, IN_PLACE,
    STATUS_IGNORE, is_shared_request, library_is_of_family, received_bytes, resolve,
    tells_of_combined_receives,
};
#[cfg(mpi = "MPI_Session_init")]
pub use mpi_sys::MPI_Session as Session;
pub use mpi_sys::{
    MPI_Aint as Aint, MPI_Comm as Comm, MPI_Count as Count, MPI_Datatype as Datatype,
    MPI_Errhandler as Errhandler, MPI_File as File, MPI_Group as Group, MPI_Info as Info,
    MPI_Message as Message, MPI_Offset as Offset, MPI_Op as Op, MPI_Request as Request, MPI_Status as Status,
    MPI_Win as Win,
};
/// This MPI has no sessions; a place-holder for the signatures that name them.
#[cfg(not(mpi = "MPI_Session_init"))]
pub type Session = *mut std::ffi::c_void;

/// A handle that can be had from the integer that it is in Fortran.
pub trait FromFortran: Copy {
    /// The handle of C.
    fn from_fortran(handle: c_int) -> Self;
}

/// The constants that every MPI has as plain integers.
pub mod constant {
    use std::ffi::c_int;

    /// `MPI_SUCCESS`.
    pub const SUCCESS: c_int = mpi_sys::MPI_SUCCESS as c_int;
    /// `MPI_ERR_OTHER`.
    pub const ERR_OTHER: c_int = mpi_sys::MPI_ERR_OTHER as c_int;
    /// `MPI_ERR_IN_STATUS`.
    pub const ERR_IN_STATUS: c_int = mpi_sys::MPI_ERR_IN_STATUS as c_int;
    /// `MPI_ERR_PENDING`.
    pub const ERR_PENDING: c_int = mpi_sys::MPI_ERR_PENDING as c_int;
    /// `MPI_PROC_NULL`.
    pub const PROC_NULL: c_int = mpi_sys::MPI_PROC_NULL;
    /// `MPI_ROOT`.
    pub const ROOT: c_int = mpi_sys::MPI_ROOT;
    /// `MPI_UNDEFINED`.
    pub const UNDEFINED: c_int = mpi_sys::MPI_UNDEFINED;
    /// `MPI_MAX_LIBRARY_VERSION_STRING`, with room to spare.
    pub const VERSION_TEXT: usize = mpi_sys::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1;
    /// `MPI_THREAD_SINGLE`, `FUNNELED`, `SERIALIZED`, `MULTIPLE`.
    pub const THREAD_LEVELS: [c_int; 4] = [
        mpi_sys::MPI_THREAD_SINGLE as c_int,
        mpi_sys::MPI_THREAD_FUNNELED as c_int,
        mpi_sys::MPI_THREAD_SERIALIZED as c_int,
        mpi_sys::MPI_THREAD_MULTIPLE as c_int,
    ];
}

/// Predefined handles of the MPI that runs.
#[derive(Clone, Copy)]
pub struct Predefined {
    /// `MPI_COMM_WORLD`.
    pub world: Comm,
    /// `MPI_COMM_SELF`.
    pub itself: Comm,
    /// `MPI_COMM_NULL`.
    pub comm_null: Comm,
    /// `MPI_REQUEST_NULL`.
    pub request_null: Request,
    /// `MPI_BYTE`.
    pub byte: Datatype,
    /// `MPI_INT`.
    pub int: Datatype,
    /// `MPI_UINT64_T`.
    pub u64: Datatype,
    /// `MPI_MAX`.
    pub max: Op,
    /// `MPI_SUM`.
    pub sum: Op,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: Errhandler,
}

// SAFETY: handles are names of objects of the MPI library; they are never dereferenced here.
unsafe impl Send for Predefined {}
// SAFETY: as above.
unsafe impl Sync for Predefined {}

/// The bits of a handle, for use as a key.
#[inline]
pub fn bits<T: Copy>(handle: T) -> u64 {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    if size_of::<T>() == 4 {
        // SAFETY: `T` has 4 bytes, all of them initialised: it is an integer or a wrapper of one.
        u64::from(unsafe { std::mem::transmute_copy::<T, u32>(&handle) })
    } else {
        // SAFETY: `T` has 8 bytes, all of them initialised: it is a pointer or a wrapper of one.
        unsafe { std::mem::transmute_copy::<T, u64>(&handle) }
    }
}

/// The handle with these bits.
pub fn from_bits<T: Copy>(bits: u64) -> T {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    if size_of::<T>() == 4 {
        // SAFETY: `T` has 4 bytes and is a wrapper of an integer, for which every value is valid.
        unsafe { std::mem::transmute_copy::<u32, T>(&(bits as u32)) }
    } else {
        // SAFETY: `T` has 8 bytes and is a raw pointer or a wrapper of one: every value is valid.
        unsafe { std::mem::transmute_copy::<u64, T>(&bits) }
    }
}

/// A handle as it travels as an argument: a whole register, whatever the MPI at hand makes of it.
///
/// MPICH's handles are 4 bytes, Open MPI's are 8. A library that turns out to be preloaded into a program
/// of the other MPI still hands on what it was given, bit by bit, when arguments are passed like this. It
/// holds on every 64-bit Linux ABI: an `int` argument has a register, or 8 bytes on the stack, to itself.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Raw<T> {
    register: usize,
    handle: PhantomData<T>,
}

impl<T: Copy> Raw<T> {
    /// The handle to pass.
    #[inline]
    pub fn new(handle: T) -> Self {
        Raw { register: bits(handle) as usize, handle: PhantomData }
    }

    /// The handle that was passed.
    #[inline]
    pub fn get(self) -> T {
        from_bits(self.register as u64)
    }
}
