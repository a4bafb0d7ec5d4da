//! The application binary interface of the MPI that this flavour is built for: the one place where
//! types and constants of an MPI library appear.
//!
//! There are three families of interfaces. Types and constants of Open MPI's and MPICH's come from
//! the `mpi.h` of the flavour, by `mpi-sys`; those of the MPI standard's own interface are fixed.
//! Predefined handles are looked up at run time: in Open MPI they are addresses of the library's
//! data, which may be mapped later or privately.

use crate::mpi::symbol::Symbol;
use std::ffi::c_int;
use std::marker::PhantomData;

#[cfg_attr(mpi_family = "openmpi", path = "openmpi.rs")]
#[cfg_attr(mpi_family = "mpich", path = "mpich.rs")]
#[cfg_attr(mpi_family = "standard", path = "standard.rs")]
mod family;
#[cfg_attr(mpi_family = "standard", path = "standard_header.rs")]
pub mod header;
mod tool;

pub use family::{
    FORTRAN_IN_PLACE, FORTRAN_STATUS_IGNORE, IN_PLACE, NUMBERING, STATUS_IGNORE, element_of,
    is_aliased_request, is_fault_tolerant, is_predefined_datatype, learn_aliased_request, received_bytes,
    resolve, settings_of, variables_in_use,
};
pub use header::*;
pub use tool::{Element, Numbering};

/// A handle that can be converted from its Fortran integer.
pub trait FromFortran: Copy {
    /// The handle of C.
    fn from_fortran(handle: c_int) -> Self;
}

/// Returns whether the MPI that runs, which calls itself `version`, has the binary interface of
/// this flavour.
///
/// A library reports the same version string with the standard's interface and with its own, so the
/// version of the interface is queried, too.
pub fn library_is_of_family(version: &str) -> bool {
    let is_standard = version_of_standard_interface() == 1;
    is_standard == cfg!(mpi_family = "standard") && family::is_named_in(version)
}

/// The major version of the standard's binary interface that the running MPI has; negative if it
/// has another.
fn version_of_standard_interface() -> c_int {
    static GET_VERSION: Symbol<unsafe extern "C-unwind" fn(*mut c_int, *mut c_int) -> c_int> =
        Symbol::new(c"PMPI_Abi_get_version");
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: both numbers are written, or left alone where there is no such function.
    unsafe { GET_VERSION.get()(&raw mut major, &raw mut minor) };
    major
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
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: Datatype,
    /// `MPI_REQUEST_NULL`.
    pub request_null: Request,
    /// `MPI_BYTE`.
    pub byte: Datatype,
    /// `MPI_INT`.
    pub int: Datatype,
    /// `MPI_MAX`.
    pub max: Op,
    /// `MPI_NO_OP`.
    pub no_op: Op,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: Errhandler,
}

impl Predefined {
    /// Stand-ins in a process without MPI, whose recording ends when one is initialised. Those of
    /// the communicators are keys.
    pub fn without_mpi() -> Self {
        Predefined {
            world: from_bits(1),
            itself: from_bits(2),
            comm_null: from_bits(0),
            datatype_null: from_bits(0),
            request_null: from_bits(0),
            byte: from_bits(0),
            int: from_bits(0),
            max: from_bits(0),
            no_op: from_bits(0),
            errors_return: from_bits(0),
        }
    }
}

// SAFETY: handles are names of objects of the MPI library; they are never dereferenced here.
unsafe impl Send for Predefined {}
// SAFETY: the handles are only copied, and nothing changes them.
unsafe impl Sync for Predefined {}

/// A status of the application's.
///
/// # Safety
/// A call has filled it. One of Fortran is aligned as an integer is.
#[inline(always)]
pub unsafe fn read_status(status: *const Status) -> Status {
    // SAFETY: a call has filled it, and nothing is assumed of its alignment.
    unsafe { status.read_unaligned() }
}

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

/// A handle as an argument: a whole register, whatever its width in the running MPI.
///
/// MPICH's handles are 4 bytes, Open MPI's are 8. A library that turns out to be preloaded into a
/// program of the other MPI still hands on what it was given, bit by bit, when arguments are passed
/// like this. It holds on every 64-bit Linux ABI: an `int` argument has a register, or 8 bytes on
/// the stack, to itself.
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
