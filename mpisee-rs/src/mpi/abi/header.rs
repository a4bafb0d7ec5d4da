//! The types and constants of the flavour's `mpi.h`, through `mpi-sys`.

pub use mpi_sys::{
    MPI_Aint as Aint, MPI_Comm as Comm, MPI_Count as Count, MPI_Datatype as Datatype,
    MPI_Errhandler as Errhandler, MPI_File as File, MPI_Group as Group, MPI_Info as Info,
    MPI_Message as Message, MPI_Offset as Offset, MPI_Op as Op, MPI_Request as Request, MPI_Status as Status,
    MPI_Win as Win,
};

#[cfg(mpi = "MPI_Session_init")]
pub use mpi_sys::MPI_Session as Session;
/// This MPI has no sessions; a place-holder for the signatures that name them.
#[cfg(not(mpi = "MPI_Session_init"))]
pub type Session = *mut std::ffi::c_void;

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
    /// `MPI_ERR_TRUNCATE`.
    pub const ERR_TRUNCATE: c_int = mpi_sys::MPI_ERR_TRUNCATE as c_int;
    /// `MPI_ERR_REQUEST`.
    pub const ERR_REQUEST: c_int = mpi_sys::MPI_ERR_REQUEST as c_int;
    /// `MPI_ERR_ARG`.
    pub const ERR_ARG: c_int = mpi_sys::MPI_ERR_ARG as c_int;
    /// `MPI_MAX_OBJECT_NAME`.
    pub const MAX_OBJECT_NAME: usize = mpi_sys::MPI_MAX_OBJECT_NAME as usize;
    /// `MPI_ANY_SOURCE`.
    pub const ANY_SOURCE: c_int = mpi_sys::MPI_ANY_SOURCE;
    /// `MPI_ANY_TAG`.
    pub const ANY_TAG: c_int = mpi_sys::MPI_ANY_TAG;
    /// `MPI_PROC_NULL`.
    pub const PROC_NULL: c_int = mpi_sys::MPI_PROC_NULL;
    /// `MPI_ROOT`.
    pub const ROOT: c_int = mpi_sys::MPI_ROOT;
    /// `MPI_UNDEFINED`.
    pub const UNDEFINED: c_int = mpi_sys::MPI_UNDEFINED;
    /// `MPI_THREAD_SINGLE`, `FUNNELED`, `SERIALIZED`, `MULTIPLE`.
    pub const THREAD_LEVELS: [c_int; 4] = [
        mpi_sys::MPI_THREAD_SINGLE as c_int,
        mpi_sys::MPI_THREAD_FUNNELED as c_int,
        mpi_sys::MPI_THREAD_SERIALIZED as c_int,
        mpi_sys::MPI_THREAD_MULTIPLE as c_int,
    ];
}
