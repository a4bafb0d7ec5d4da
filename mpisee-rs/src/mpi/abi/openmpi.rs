//! Open MPI: handles are pointers to the library's objects.

use super::{
    Comm, Datatype, Element, File, FromFortran, Message, Numbering, Op, Predefined, Request, Session, Status,
    Win, from_bits,
};
use crate::generated::pmpi;
use crate::mpi::symbol;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// `MPI_IN_PLACE`.
pub const IN_PLACE: *const c_void = std::ptr::without_provenance(1);
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub const STATUS_IGNORE: *mut Status = std::ptr::null_mut();
/// The objects whose addresses are `MPI_IN_PLACE` in Fortran, in the spelling of each compiler.
pub const FORTRAN_IN_PLACE: &[&CStr] =
    &[c"mpi_fortran_in_place_", c"mpi_fortran_in_place", c"mpi_fortran_in_place__", c"MPI_FORTRAN_IN_PLACE"];
/// The same for `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
pub const FORTRAN_STATUS_IGNORE: &[&CStr] = &[
    c"mpi_fortran_status_ignore_",
    c"mpi_fortran_statuses_ignore_",
    c"mpi_fortran_status_ignore",
    c"mpi_fortran_statuses_ignore",
    c"mpi_fortran_status_ignore__",
    c"mpi_fortran_statuses_ignore__",
    c"MPI_FORTRAN_STATUS_IGNORE",
    c"MPI_FORTRAN_STATUSES_IGNORE",
];

/// The handles that Open MPI shares among requests that are complete when they start; 0 is none.
/// `ompi_request_empty` is known from the start. Others have no exported name and are learnt:
/// pml/ucx has one for sends, Open MPI 5 may have another.
static SHARED_REQUESTS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
/// The lowest of them, and how far above it the highest is.
static LOWEST: AtomicU64 = AtomicU64::new(u64::MAX);
static SPAN: AtomicU64 = AtomicU64::new(0);

/// Returns whether the text of `MPI_Get_library_version` is that of a library with this binary
/// interface.
pub fn is_named_in(version: &str) -> bool {
    version.contains("Open MPI")
}

/// Looks the predefined handles up.
pub fn resolve(_has_world: bool) -> Option<Predefined> {
    fn address<T: Copy>(name: &CStr) -> Option<T> {
        // The program's own copy of the object, if it was linked with one, is the one that counts.
        Some(from_bits(symbol::data(name)? as u64))
    }
    if let Some(empty) = address::<u64>(c"ompi_request_empty") {
        learn(empty);
    }
    Some(Predefined {
        world: address::<Comm>(c"ompi_mpi_comm_world")?,
        itself: address::<Comm>(c"ompi_mpi_comm_self")?,
        comm_null: address::<Comm>(c"ompi_mpi_comm_null")?,
        datatype_null: address::<Datatype>(c"ompi_mpi_datatype_null")?,
        request_null: address::<Request>(c"ompi_request_null")?,
        byte: address::<Datatype>(c"ompi_mpi_byte")?,
        int: address::<Datatype>(c"ompi_mpi_int")?,
        max: address(c"ompi_mpi_op_max")?,
        no_op: address(c"ompi_mpi_op_no_op")?,
        errors_return: address(c"ompi_mpi_errors_return")?,
    })
}

/// In Fortran a handle is the index of a table.
macro_rules! from_fortran {
    ($($handle:ty, $convert:ident;)*) => {$(
        impl FromFortran for $handle {
            #[inline]
            fn from_fortran(handle: c_int) -> Self {
                // SAFETY: the function takes every integer; one that is no handle's gives an
                // invalid handle.
                unsafe { pmpi::$convert.get()(handle) }.get()
            }
        }
    )*};
}

from_fortran! {
    Comm, MPI_Comm_f2c;
    Datatype, MPI_Type_f2c;
    File, MPI_File_f2c;
    Message, MPI_Message_f2c;
    Op, MPI_Op_f2c;
    Request, MPI_Request_f2c;
    Session, MPI_Session_f2c;
    Win, MPI_Win_f2c;
}

/// Returns whether other requests may have the same handle at the same time.
///
/// PERF: as a rule no other request lies between the objects of libraries, so that one comparison
/// is enough.
#[inline]
pub fn is_aliased_request(request: Request) -> bool {
    let key = super::bits(request);
    key.wrapping_sub(LOWEST.load(Ordering::Relaxed)) <= SPAN.load(Ordering::Relaxed) && is_learnt(key)
}

#[cold]
#[inline(never)]
fn is_learnt(key: u64) -> bool {
    SHARED_REQUESTS.iter().any(|known| known.load(Ordering::Relaxed) == key)
}

/// Marks a handle that two open requests have as aliased, if it points into the static data of a
/// library: an object that was made for one request would be allocated. False if it is not marked.
pub fn learn_aliased_request(key: u64) -> bool {
    symbol::is_static(std::ptr::without_provenance(key as usize)) && learn(key)
}

/// Returns whether a datatype is one of MPI's own, which live as long as the program: objects of
/// the library's, or the program's copies of them. Those that the program makes are allocated.
///
/// PERF: the loader goes through all libraries to find that an address is in none of them, so
/// handles of which this is known are kept. If a library is mapped where one of them was, a size
/// that could be cached is not.
pub fn is_predefined_datatype(datatype: Datatype) -> bool {
    static ALLOCATED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    let handle = super::bits(datatype);
    let known = &ALLOCATED[(handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize];
    if known.load(Ordering::Relaxed) == handle {
        return false;
    }
    let is_static = symbol::is_static(std::ptr::without_provenance(handle as usize));
    if !is_static {
        known.store(handle, Ordering::Relaxed);
    }
    is_static
}

/// Keeps the handle; false if there is no room for it.
fn learn(key: u64) -> bool {
    let is_place = |place: &AtomicU64| {
        let there = place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
        there.is_ok() || there == Err(key)
    };
    let found = SHARED_REQUESTS.iter().any(is_place);
    let known = || SHARED_REQUESTS.iter().map(|known| known.load(Ordering::Relaxed)).filter(|&key| key != 0);
    let (lowest, highest) = (known().min().unwrap_or(u64::MAX), known().max().unwrap_or(0));
    // In this order a known handle is recognised at every moment.
    SPAN.store(highest.saturating_sub(lowest), Ordering::Release);
    LOWEST.store(lowest, Ordering::Release);
    found
}

/// The bytes that arrived, from the status of a completed receive, or that a completed access to a
/// file transferred.
#[inline]
pub fn received_bytes(status: &Status) -> u64 {
    status._ucount as u64
}

/// Returns whether the run goes on when a process ends early (`mpirun --with-ft ulfm`, from Open
/// MPI 5 on). Looked up once, when MPI is initialised: at the end, a program with an error of its
/// own may have overwritten what the loader keeps.
pub fn is_fault_tolerant() -> bool {
    static ENABLED: OnceLock<bool> = OnceLock::new();
    *ENABLED.get_or_init(|| match symbol::data(c"ompi_ftmpi_enabled") {
        // SAFETY: the object is a `bool` of C.
        Some(enabled) => unsafe { *enabled.cast::<u8>() != 0 },
        None => false,
    })
}

/// How it numbers the constants of the interface for tools.
pub const NUMBERING: Numbering = Numbering { first_class: 0, unbound: 0 };

/// The type of a variable's values; `None` for one that no variable has.
pub fn element_of(datatype: Datatype) -> Option<Element> {
    const TYPES: [(&CStr, Element); 14] = [
        (c"ompi_mpi_int", Element::I32),
        (c"ompi_mpi_int32_t", Element::I32),
        (c"ompi_mpi_unsigned", Element::U32),
        (c"ompi_mpi_uint32_t", Element::U32),
        (c"ompi_mpi_long", Element::I64),
        (c"ompi_mpi_long_long_int", Element::I64),
        (c"ompi_mpi_int64_t", Element::I64),
        (c"ompi_mpi_count", Element::I64),
        (c"ompi_mpi_unsigned_long", Element::U64),
        (c"ompi_mpi_unsigned_long_long", Element::U64),
        (c"ompi_mpi_uint64_t", Element::U64),
        (c"ompi_mpi_double", Element::F64),
        (c"ompi_mpi_c_bool", Element::Bool),
        (c"ompi_mpi_char", Element::Char),
    ];
    static ADDRESSES: OnceLock<Vec<(u64, Element)>> = OnceLock::new();
    let known = ADDRESSES.get_or_init(|| {
        let address = |name: &CStr| symbol::data(name).map(|address| address as u64);
        TYPES.iter().filter_map(|&(name, element)| Some((address(name)?, element))).collect()
    });
    let handle = super::bits(datatype);
    known.iter().find(|&&(address, _)| address == handle).map(|&(_, element)| element)
}

/// The environment variables that set a control variable.
pub fn settings_of(control: &str) -> Vec<String> {
    vec![format!("OMPI_MCA_{control}")]
}

/// The performance variables of components that are in use, by number, before the interface for
/// tools is initialised: that makes Open MPI offer the variables of all components, and some of
/// those that are not in use crash when they are read (`mtl_psm2` of 4.1). `None` if it cannot be
/// known.
pub fn variables_in_use() -> Option<Vec<bool>> {
    type Count = unsafe extern "C" fn(*mut c_int) -> c_int;
    type Get = unsafe extern "C" fn(c_int, *mut *const c_void) -> c_int;
    let get_count = symbol::function(c"mca_base_pvar_get_count")?;
    let get = symbol::function(c"mca_base_pvar_get")?;
    // SAFETY: Open MPI's functions of these names have these types, in 4.1 and 5.0.
    let (get_count, get) = unsafe {
        (std::mem::transmute::<*mut c_void, Count>(get_count), std::mem::transmute::<*mut c_void, Get>(get))
    };
    let mut count = 0;
    // SAFETY: the number is written.
    unsafe { get_count(&raw mut count) };
    let is_in_use = |index| {
        let mut variable = std::ptr::null();
        // SAFETY: a pointer is written, unless the variable is of a component that is closed.
        unsafe { get(index, &raw mut variable) == 0 }
    };
    Some((0..count).map(is_in_use).collect())
}
