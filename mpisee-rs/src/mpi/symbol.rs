//! The MPI library's symbols, looked up while the program runs.
//!
//! `libmpisee.so` is not linked with an MPI: it is preloaded into shells and launchers as well, it
//! must not drag an MPI into them, and a program may load its MPI late and privately (Python does).

use crate::mpi::abi::header::constant;
use mpisee_in_process::symbols::{Address, Library};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the MPI library, of type `F`.
pub struct Symbol<F> {
    place: SymbolSlot,
    function: PhantomData<F>,
}

/// Where a function is.
pub struct SymbolSlot {
    name: &'static CStr,
    /// The name that it has in another MPI.
    or: Option<&'static CStr>,
    /// Null until it was looked up.
    address: AtomicPtr<c_void>,
}

// SAFETY: it holds the address of a function, which every thread may call.
unsafe impl<F> Sync for Symbol<F> {}

impl<F: Copy> Symbol<F> {
    /// The function called `name`.
    pub const fn new(name: &'static CStr) -> Self {
        let place = SymbolSlot { name, or: None, address: AtomicPtr::new(ptr::null_mut()) };
        Symbol { place, function: PhantomData }
    }

    /// The function called `name` in one MPI, `or` in another.
    #[allow(dead_code, reason = "an MPI may come without Fortran")]
    pub const fn either(name: &'static CStr, or: &'static CStr) -> Self {
        let place = SymbolSlot { name, or: Some(or), address: AtomicPtr::new(ptr::null_mut()) };
        Symbol { place, function: PhantomData }
    }

    /// Where it is, whatever its type.
    pub const fn place(&self) -> &SymbolSlot {
        &self.place
    }

    /// The function: the `PMPI` twin; without a twin, the function that the program would call
    /// without the profiler; without either, a stub that returns `MPI_ERR_OTHER`.
    #[inline]
    pub fn get(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.place.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.place.look_up();
        }
        // SAFETY: `F` is the type that the spec gives the function of this name, or, for a function
        // that is missing, one that takes any arguments: with the C calling convention the caller
        // clears them.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// Replaces the function, for the tests of this process.
    #[cfg(test)]
    pub fn replace(&self, function: F) {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: `F` is the type of a function, whose address has this size.
        let address = unsafe { std::mem::transmute_copy(&function) };
        self.place.address.store(address, Ordering::Relaxed);
    }
}

impl SymbolSlot {
    #[cold]
    fn look_up(&self) -> *mut c_void {
        let found = function(self.name).or_else(|| function(self.or?)).or_else(|| without_twin(self.name));
        let found = found.unwrap_or(missing as *const () as *mut c_void);
        self.address.store(found, Ordering::Relaxed);
        found
    }

    /// Looks for the function where it is in most programs, unless it was looked up before.
    fn look_ahead(&self, library: Option<Library>) {
        if self.address.load(Ordering::Relaxed).is_null()
            && let Some(found) =
                library.map_or_else(|| mpisee_in_process::symbols::next(self.name), |it| it.symbol(self.name))
        {
            self.address.store(found.as_ptr(), Ordering::Relaxed);
        }
    }
}

/// Looks functions up before they are called. The loader's lock is taken for that, and a program
/// may hold it for as long as a library's constructor or destructor waits for a thread, whose call
/// would have to wait in turn.
pub fn look_ahead(places: &[&SymbolSlot]) {
    let library = match mpisee_in_process::symbols::next(c"PMPI_Init") {
        Some(_) => None,
        None => private_library(),
    };
    places.iter().for_each(|place| place.look_ahead(library));
}

extern "C-unwind" fn missing() -> c_int {
    constant::ERR_OTHER
}

/// The address of an MPI function: the next one after ours in the search order, else that of the
/// MPI that the program loaded for itself.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    mpisee_in_process::symbols::next(name).or_else(|| in_private_library(name)).map(Address::as_ptr)
}

/// The address of the `MPI` function for `twin`, in a library without `PMPI` twins. Sequential
/// libraries come with such stubs of MPI for one process (MUMPS does): a program may have one
/// beside MPI, and its children, which inherit the preload, may have only the stub.
fn without_twin(twin: &CStr) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(twin.to_bytes_with_nul().get(1..)?).ok()?;
    let found = mpisee_in_process::symbols::next(name)
        .or_else(|| Some(mpisee_in_process::symbols::loaded_with(name)?.1));
    found.map(Address::as_ptr)
}

/// Returns whether an address lies in an object that the loader has mapped, and not in memory that
/// was allocated.
#[allow(dead_code, reason = "handles of other MPIs are no addresses")]
pub fn is_static(address: *const c_void) -> bool {
    mpisee_in_process::symbols::base(address.addr()) != 0
}

/// The address of an object of the MPI library.
///
/// A program linked in the ordinary way has its own copy of the object, and that is the one whose
/// address the library and the program use; it is first in the global search order.
pub fn data(name: &CStr) -> Option<*mut c_void> {
    mpisee_in_process::symbols::first(name).or_else(|| in_private_library(name)).map(Address::as_ptr)
}

fn in_private_library(name: &CStr) -> Option<Address> {
    // MPI's Fortran is in a library of its own.
    private_library()?.symbol(name).or_else(|| Some(mpisee_in_process::symbols::loaded_with(name)?.1))
}

/// The MPI that the program loaded for itself.
fn private_library() -> Option<Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    // Until it is loaded there is nothing to remember.
    LIBRARY.get().copied().or_else(|| {
        mpisee_in_process::symbols::loaded_with(c"PMPI_Init_thread")
            .map(|(found, _)| *LIBRARY.get_or_init(|| found))
    })
}
