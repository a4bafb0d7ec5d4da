//! The ABI of the MPI standard (MPI 5.0, chapter 20), which several MPI libraries offer beside
//! their own: handles are as wide as a pointer, constants are fixed, and the contents of a status
//! are queried through MPI.

use super::{
    Comm, Count, Datatype, Element, FromFortran, Numbering, Predefined, Raw, Request, Status, bits, constant,
    from_bits,
};
use crate::generated::pmpi;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// `MPI_IN_PLACE`.
pub const IN_PLACE: *const c_void = std::ptr::without_provenance(1);
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub const STATUS_IGNORE: *mut Status = std::ptr::null_mut();
/// Nothing is exported for Fortran with this interface, so that none of its addresses comes here.
pub const FORTRAN_IN_PLACE: &[&CStr] = &[];
/// The same.
pub const FORTRAN_STATUS_IGNORE: &[&CStr] = &[];

/// `MPI_COMM_SELF`.
const SELF: u64 = 0x102;
/// `MPI_REQUEST_NULL`.
const REQUEST_NULL: u64 = 0x180;
/// `MPI_BYTE`.
const BYTE: u64 = 0x247;
/// The highest handle that the standard has room for: a library's own are no smaller than the first
/// page's end.
const LAST_PREDEFINED: u64 = 0xfff;

/// The handle shared by requests that are complete when they start, if there is one. With sessions
/// alone it cannot be determined, and the MPI is assumed to be derived from MPICH.
static COMPLETE_REQUEST: AtomicU64 = AtomicU64::new(0x6c00_0000);

/// Any name: [`super::library_is_of_family`] has checked the version of the interface.
pub fn is_named_in(_version: &str) -> bool {
    true
}

/// The predefined handles, which the standard fixes.
pub fn resolve(has_world: bool) -> Option<Predefined> {
    if has_world {
        COMPLETE_REQUEST.store(complete_request(), Ordering::Relaxed);
    }
    Some(Predefined {
        world: from_bits(0x101),
        itself: from_bits(SELF),
        comm_null: from_bits(0x100),
        datatype_null: from_bits(0x200),
        request_null: from_bits(REQUEST_NULL),
        byte: from_bits(BYTE),
        int: from_bits(0x209),
        max: from_bits(0x23),
        no_op: from_bits(0x3d),
        errors_return: from_bits(0x143),
    })
}

/// Nothing is exported for Fortran; predefined handles are the same integers in both languages.
impl<H: Copy> FromFortran for H {
    #[inline]
    fn from_fortran(handle: c_int) -> Self {
        from_bits(u64::from(handle as u32))
    }
}

/// Finds the handle that MPI shares among complete requests, by two sends to `MPI_PROC_NULL`.
fn complete_request() -> u64 {
    let start = || {
        let mut request: Request = from_bits(REQUEST_NULL);
        let (byte, itself) = (Raw::<Datatype>::new(from_bits(BYTE)), Raw::<Comm>::new(from_bits(SELF)));
        // SAFETY: MPI is initialised; nothing is sent, so no byte is read; the request is written.
        unsafe {
            pmpi::MPI_Isend.get()(
                std::ptr::dangling(),
                0,
                byte,
                constant::PROC_NULL,
                0,
                itself,
                &raw mut request,
            )
        };
        request
    };
    let mut requests = [start(), start()];
    let [first, second] = requests.map(bits);
    // SAFETY: both are requests that were just started.
    requests.iter_mut().for_each(|request| unsafe {
        pmpi::MPI_Wait.get()(request, STATUS_IGNORE);
    });
    if first == second { first } else { REQUEST_NULL }
}

/// Returns whether other requests may have the same handle at the same time. MPICH, also where it
/// has this interface, has one such handle per kind of request, all with 01 in the upper two of the
/// handle's 32 bits.
#[inline]
pub fn is_aliased_request(request: Request) -> bool {
    let complete = COMPLETE_REQUEST.load(Ordering::Relaxed);
    let (of_mpich, bits) = (complete >> 30 == 0b01, bits(request));
    bits == complete || of_mpich && bits >> 30 == 0b01
}

/// Returns whether a datatype is one of MPI's own, which live as long as the program: the standard
/// fixes their handles, below any that a library gives out.
pub fn is_predefined_datatype(datatype: Datatype) -> bool {
    bits(datatype) <= LAST_PREDEFINED
}

/// No aliased handle needs to be learnt at run time: [`is_aliased_request`] recognises all of them.
pub fn learn_aliased_request(_key: u64) -> bool {
    false
}

/// The bytes that arrived, from the status of a completed receive.
#[inline]
pub fn received_bytes(status: &Status) -> u64 {
    let mut count: Count = 0;
    let byte = Raw::<Datatype>::new(from_bits(BYTE));
    // SAFETY: the status is that of a completed receive, the count is written.
    let code = unsafe { pmpi::MPI_Get_elements_x.get()(status, byte, &raw mut count) };
    if code == constant::SUCCESS { u64::try_from(count).unwrap_or(0) } else { 0 }
}

/// Returns whether the run goes on when a process ends early. MPICH has functions for it, and ends
/// all processes.
pub fn is_fault_tolerant() -> bool {
    false
}

/// How the standard numbers the constants of the interface for tools.
pub const NUMBERING: Numbering = Numbering { first_class: 1, unbound: 1 };

/// The type of a variable's values; `None` for one that no variable has.
pub fn element_of(datatype: Datatype) -> Option<Element> {
    Some(match bits(datatype) {
        0x209 | 0x250 => Element::I32,
        0x20d | 0x251 => Element::U32,
        0x20a | 0x20b | 0x258 | 0x202 => Element::I64,
        0x20e | 0x20f | 0x259 => Element::U64,
        0x214 => Element::F64,
        0x238 => Element::Bool,
        0x243 => Element::Char,
        _ => return None,
    })
}

/// The environment variables that set a control variable of MPICH or of Open MPI, whichever runs.
pub fn settings_of(control: &str) -> Vec<String> {
    let name = control.strip_prefix("MPIR_CVAR_").unwrap_or(control);
    let prefixes = ["MPIR_CVAR_", "MPIR_PARAM_", "MPICH_", "OMPI_MCA_"];
    prefixes.iter().map(|prefix| format!("{prefix}{name}")).collect()
}

/// The performance variables that may be read, by number; `None`: all of them.
pub fn variables_in_use() -> Option<Vec<bool>> {
    None
}
