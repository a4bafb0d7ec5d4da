//! MPICH and what shares its binary interface (Intel MPI, MVAPICH, Cray MPICH): handles are
//! integers.

use super::{Datatype, Element, FromFortran, Numbering, Predefined, Request, Status, bits, from_bits};
use crate::generated::pmpi;
use std::ffi::{CStr, c_int, c_void};

/// `MPI_IN_PLACE`.
pub const IN_PLACE: *const c_void = std::ptr::without_provenance(usize::MAX);
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub const STATUS_IGNORE: *mut Status = std::ptr::without_provenance_mut(1);
/// The objects whose addresses are `MPI_IN_PLACE` in `mpi_f08`; the older interfaces arrive as
/// calls of C.
pub const FORTRAN_IN_PLACE: &[&CStr] = &[c"MPIR_F08_MPI_IN_PLACE"];
/// The same for `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub const FORTRAN_STATUS_IGNORE: &[&CStr] =
    &[c"MPIR_F08_MPI_STATUS_IGNORE_OBJ", c"MPIR_F08_MPI_STATUSES_IGNORE_OBJ"];

/// Returns whether the text of `MPI_Get_library_version` is that of a library with this binary
/// interface.
pub fn is_named_in(version: &str) -> bool {
    ["MPICH", "Intel(R) MPI", "MVAPICH", "CRAY"].iter().any(|name| version.contains(name))
}

/// The predefined handles: constants of the common ABI of MPICH and its relatives.
pub fn resolve(_has_world: bool) -> Option<Predefined> {
    Some(Predefined {
        world: from_bits(0x4400_0000),
        itself: from_bits(0x4400_0001),
        comm_null: from_bits(0x0400_0000),
        datatype_null: from_bits(0x0c00_0000),
        request_null: from_bits(0x2c00_0000),
        byte: from_bits(0x4c00_010d),
        int: from_bits(0x4c00_0405),
        max: from_bits(0x5800_0001),
        no_op: from_bits(0x5800_000e),
        errors_return: from_bits(0x5400_0001),
    })
}

/// Handles are the same integers in both languages. A file alone is a pointer in C.
impl<H: Copy> FromFortran for H {
    #[inline]
    fn from_fortran(handle: c_int) -> Self {
        if size_of::<H>() == size_of::<c_int>() {
            from_bits(u64::from(handle as u32))
        } else {
            // SAFETY: the function takes every integer; one that is no handle's gives an invalid
            // handle.
            from_bits(bits(unsafe { pmpi::MPI_File_f2c.get()(handle) }.get()))
        }
    }
}

/// Returns whether other open requests may have the same handle: MPICH gives predefined requests to
/// operations that are complete when they start. The two highest bits of a handle are its kind; 01
/// is predefined.
#[inline]
pub fn is_aliased_request(request: Request) -> bool {
    bits(request) >> 30 == 0b01
}

/// Returns whether a datatype is one of MPI's own, which live as long as the program. The two
/// highest bits of a handle are its kind; 01 is predefined. `MPI_DOUBLE_INT` and its like are
/// objects, the first five that there are.
pub fn is_predefined_datatype(datatype: Datatype) -> bool {
    let handle = bits(datatype);
    handle >> 30 == 0b01 || (0x8c00_0000..=0x8c00_0004).contains(&handle)
}

/// No aliased handle needs to be learnt at run time: [`is_aliased_request`] recognises all of them.
pub fn learn_aliased_request(_key: u64) -> bool {
    false
}

/// The bytes that arrived, from the status of a completed receive, or that a completed access to a
/// file transferred.
#[inline]
pub fn received_bytes(status: &Status) -> u64 {
    // The lowest bit of the upper word says whether the operation was cancelled.
    u64::from(status.count_hi_and_cancelled as u32 >> 1) << 32 | u64::from(status.count_lo as u32)
}

/// Returns whether the run goes on when a process ends early. MPICH has functions for it, and ends
/// all processes.
pub fn is_fault_tolerant() -> bool {
    false
}

/// How it numbers the constants of the interface for tools.
pub const NUMBERING: Numbering = Numbering { first_class: 240, unbound: 9700 };

/// The type of a variable's values; `None` for one that no variable has.
pub fn element_of(datatype: Datatype) -> Option<Element> {
    Some(match bits(datatype) {
        0x4c00_0405 | 0x4c00_0439 => Element::I32,
        0x4c00_0406 | 0x4c00_043d => Element::U32,
        0x4c00_0807 | 0x4c00_0809 | 0x4c00_083a | 0x4c00_0845 => Element::I64,
        0x4c00_0808 | 0x4c00_0819 | 0x4c00_083e => Element::U64,
        0x4c00_080b => Element::F64,
        0x4c00_013f => Element::Bool,
        0x4c00_0101 => Element::Char,
        _ => return None,
    })
}

/// The environment variables that set a control variable.
pub fn settings_of(control: &str) -> Vec<String> {
    let name = control.strip_prefix("MPIR_CVAR_").unwrap_or(control);
    ["MPIR_CVAR_", "MPIR_PARAM_", "MPICH_"].iter().map(|prefix| format!("{prefix}{name}")).collect()
}

/// The performance variables that may be read, by number; `None`: all of them.
pub fn variables_in_use() -> Option<Vec<bool>> {
    None
}
