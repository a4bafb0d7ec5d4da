//! Differences between families of MPI in the variables that they offer to tools (MPI 4.1, chapter
//! 15).

/// The numbers of a family: of each kind the standard lists its constants in one order, and
/// libraries number them on from a first one.
#[derive(Clone, Copy)]
pub struct Numbering {
    /// `MPI_T_PVAR_CLASS_STATE`.
    pub first_class: i32,
    /// `MPI_T_BIND_NO_OBJECT`; the next one is `MPI_T_BIND_MPI_COMM`.
    pub unbound: i32,
}

/// The type of a variable's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `MPI_INT`, `MPI_INT32_T`.
    I32,
    /// `MPI_UNSIGNED`, `MPI_UINT32_T`.
    U32,
    /// `MPI_LONG`, `MPI_LONG_LONG`, `MPI_INT64_T`, `MPI_COUNT`.
    I64,
    /// `MPI_UNSIGNED_LONG`, `MPI_UNSIGNED_LONG_LONG`, `MPI_UINT64_T`.
    U64,
    /// `MPI_DOUBLE`.
    F64,
    /// `MPI_C_BOOL`.
    Bool,
    /// `MPI_CHAR`: the variable is a string.
    Char,
}
