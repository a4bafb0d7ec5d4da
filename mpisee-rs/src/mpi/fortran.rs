//! Helpers of the generated Fortran shims (`generated/fortran.rs`): convert the application's
//! arguments for the wrappers.
//!
//! A shim calls its `PMPI` twin by the Fortran name, with the arguments unchanged. Nothing is
//! translated for MPI, neither handles nor special addresses such as `MPI_IN_PLACE`; only what the
//! profiler itself reads is converted.

// An MPI may come without Fortran.
#![allow(dead_code)]

use crate::generated::pmpi;
use crate::mpi::abi::{
    self, FORTRAN_IN_PLACE, FORTRAN_STATUS_IGNORE, FromFortran, IN_PLACE, Raw, STATUS_IGNORE, Status, bits,
    constant,
};
use crate::mpi::symbol::{self, Symbol};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// `INTEGER`: xtask finds Fortran only in an MPI that was built with one of 4 bytes.
pub type Fint = c_int;

/// Makes a call and returns its error code, which Fortran has as the last argument. It is optional
/// in `mpi_f08`: where the application leaves it away MPI gets a place of ours, which changes
/// nothing for MPI but tells us whether the call succeeded.
///
/// # Safety
/// `ierror` is the application's argument.
#[inline]
pub unsafe fn code(ierror: *mut Fint, make: impl FnOnce(*mut Fint)) -> c_int {
    let mut own = constant::ERR_OTHER;
    let place = if ierror.is_null() { &raw mut own } else { ierror };
    make(place);
    // SAFETY: the application's own place for the error code, or ours; MPI has written it.
    unsafe { *place }
}

/// A handle that was passed in.
///
/// # Safety
/// `handle` points to one.
#[inline]
pub unsafe fn handle<H: FromFortran>(handle: *const Fint) -> Raw<H> {
    // SAFETY: the compiler passes the address of a handle.
    Raw::new(H::from_fortran(unsafe { *handle }))
}

/// A buffer; in place of the address that Fortran has for it, C's `MPI_IN_PLACE`.
#[inline]
pub fn buffer<T>(buffer: *const T) -> *const c_void {
    static IN_PLACES: Sentinels = Sentinels::new(FORTRAN_IN_PLACE);
    if IN_PLACES.have(buffer.addr()) { IN_PLACE } else { buffer.cast() }
}

/// The place for a status, or an array of them; in place of the addresses that Fortran has for
/// them, C's `MPI_STATUS_IGNORE`.
#[inline]
pub fn status(status: *mut Fint) -> *mut Status {
    static IGNORES: Sentinels = Sentinels::new(FORTRAN_STATUS_IGNORE);
    if IGNORES.have(status.addr()) { STATUS_IGNORE } else { status.cast() }
}

/// The status to pass to MPI: the wrapper's choice, or `given` if the wrapper ignores the status.
#[inline]
pub fn chosen(chosen: *mut Status, given: *mut Fint) -> *mut Fint {
    if chosen == STATUS_IGNORE { given } else { chosen.cast() }
}

/// The first index of an array: 1, but 0 in `mpi_f08` of MPICH 4.0, which forgets to add it.
/// MPICH's other interfaces do not come here.
#[inline]
pub fn first_index() -> Fint {
    static FIRST: OnceLock<Fint> = OnceLock::new();
    if cfg!(mpi_family = "openmpi") { 1 } else { *FIRST.get_or_init(try_first_index) }
}

/// Queries MPI for the index of the second of two requests.
#[cold]
fn try_first_index() -> Fint {
    type Waitany = unsafe extern "C-unwind" fn(*mut Fint, *mut Fint, *mut Fint, *mut Fint, *mut Fint);
    static WAITANY: Symbol<Waitany> = Symbol::either(c"pmpi_waitany_f08_", c"pmpir_waitany_f08_");
    let Some(known) = abi::resolve(true) else { return 1 };
    let (null, byte, itself) = (known.request_null, Raw::new(known.byte), Raw::new(known.itself));
    let mut request = null;
    // SAFETY: nothing is received, the request is written.
    unsafe {
        let nobody = constant::PROC_NULL;
        pmpi::MPI_Irecv.get()(std::ptr::null_mut(), 0, byte, nobody, 0, itself, &raw mut request);
    }
    let mut requests = [null, request].map(|request| bits(request) as Fint);
    let (mut count, mut index, mut code) = (2, 2, 0);
    let mut status = MaybeUninit::<Status>::uninit();
    // SAFETY: the requests are valid, their handles the same in both languages; the other arguments
    // are written.
    unsafe {
        let status = status.as_mut_ptr().cast();
        WAITANY.get()(&raw mut count, requests.as_mut_ptr(), &raw mut index, status, &raw mut code);
    }
    index - 1
}

/// Addresses with a special meaning, looked up at first use: those of the program's own copies of
/// objects in the MPI library.
struct Sentinels {
    names: &'static [&'static CStr],
    addresses: OnceLock<Vec<usize>>,
}

impl Sentinels {
    const fn new(names: &'static [&'static CStr]) -> Self {
        Sentinels { names, addresses: OnceLock::new() }
    }

    #[inline]
    fn have(&self, address: usize) -> bool {
        let look_up = || self.names.iter().filter_map(|name| Some(symbol::data(name)?.addr())).collect();
        self.addresses.get_or_init(look_up).contains(&address)
    }
}
