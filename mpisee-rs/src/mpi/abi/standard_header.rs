//! The types and constants of the standard's own binary interface (MPI 5.0, chapter 20). They are
//! the same for every MPI that has it, so they are written down here rather than taken from an
//! `mpi.h`.

use std::ffi::{c_int, c_void};

/// Handles are as wide as a pointer, and no pointers: predefined ones are small numbers.
macro_rules! handles {
    ($($name:ident)*) => {
        $(
            /// A handle.
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq)]
            pub struct $name(*mut c_void);
        )*
    };
}

handles!(Comm Datatype Errhandler File Group Info Message Op Request Session Win);

/// `MPI_Aint`.
pub type Aint = isize;
/// `MPI_Offset`.
pub type Offset = i64;
/// `MPI_Count`.
pub type Count = i64;

/// `MPI_Status`. What the last five words hold is the library's own affair.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_snake_case)]
pub struct Status {
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
    MPI_internal: [c_int; 5],
}

/// Constants.
pub mod constant {
    use std::ffi::c_int;

    /// `MPI_SUCCESS`.
    pub const SUCCESS: c_int = 0;
    /// `MPI_ERR_OTHER`.
    pub const ERR_OTHER: c_int = 16;
    /// `MPI_ERR_IN_STATUS`.
    pub const ERR_IN_STATUS: c_int = 19;
    /// `MPI_ERR_PENDING`.
    pub const ERR_PENDING: c_int = 18;
    /// `MPI_ERR_TRUNCATE`.
    pub const ERR_TRUNCATE: c_int = 15;
    /// `MPI_ERR_REQUEST`.
    pub const ERR_REQUEST: c_int = 7;
    /// `MPI_ERR_ARG`.
    pub const ERR_ARG: c_int = 13;
    /// `MPI_MAX_OBJECT_NAME`.
    pub const MAX_OBJECT_NAME: usize = 128;
    /// `MPI_ANY_SOURCE`.
    pub const ANY_SOURCE: c_int = -1;
    /// `MPI_ANY_TAG`.
    pub const ANY_TAG: c_int = -2;
    /// `MPI_PROC_NULL`.
    pub const PROC_NULL: c_int = -3;
    /// `MPI_ROOT`.
    pub const ROOT: c_int = -4;
    /// `MPI_UNDEFINED`.
    pub const UNDEFINED: c_int = -32766;
    /// `MPI_THREAD_SINGLE`, `FUNNELED`, `SERIALIZED`, `MULTIPLE`.
    pub const THREAD_LEVELS: [c_int; 4] = [0, 1024, 2048, 4096];
}
