//! The MPI library's symbols, looked up while the program runs.
//!
//! `libmpisee.so` is not linked with an MPI: it is preloaded into shells and launchers as well, it must not
//! drag an MPI into them, and a program may load its MPI late and privately (Python does).

use crate::mpi::abi::header::constant;
use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the MPI library, of type `F`.
pub struct Symbol<F> {
    name: &'static CStr,
    /// The name that it has in another MPI.
    or: Option<&'static CStr>,
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

// SAFETY: it holds the address of a function, which every thread may call.
unsafe impl<F> Sync for Symbol<F> {}

impl<F: Copy> Symbol<F> {
    /// The function called `name`.
    pub const fn new(name: &'static CStr) -> Self {
        Symbol { name, or: None, address: AtomicPtr::new(ptr::null_mut()), function: PhantomData }
    }

    /// The function called `name` in one MPI, `or` in another.
    #[allow(dead_code, reason = "an MPI may come without Fortran")]
    pub const fn either(name: &'static CStr, or: &'static CStr) -> Self {
        Symbol { or: Some(or), ..Symbol::new(name) }
    }

    /// The function: the `PMPI` twin; without a twin, the function that the program would call without the profiler;
    /// without either, a stub that returns `MPI_ERR_OTHER`.
    #[inline]
    pub fn get(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.look_up();
        }
        // SAFETY: `F` is the type that the spec gives the function of this name, or, for a function that is
        // missing, one that takes any arguments: with the C calling convention the caller clears them.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// Replaces the function, for the tests of this process.
    #[cfg(test)]
    pub fn replace(&self, function: F) {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: `F` is the type of a function, whose address has this size.
        let address = unsafe { std::mem::transmute_copy(&function) };
        self.address.store(address, Ordering::Relaxed);
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let found = function(self.name).or_else(|| function(self.or?)).or_else(|| without_twin(self.name));
        let found = found.unwrap_or(missing as *const () as *mut c_void);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

extern "C-unwind" fn missing() -> c_int {
    constant::ERR_OTHER
}

/// The address of an MPI function: the next one after ours in the search order, else that of the MPI that
/// the program loaded for itself.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `name` ends in a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() { in_private_library(name) } else { Some(next) }
}

/// The address of the `MPI` function for `twin`, in a library without `PMPI` twins. Sequential libraries come with such
/// stubs of MPI for one process (MUMPS does): a program may have one beside MPI, and its children, which inherit the
/// preload, may have only the stub.
fn without_twin(twin: &CStr) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(twin.to_bytes_with_nul().get(1..)?).ok()?;
    // SAFETY: `name` ends in a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return Some(next);
    }
    // SAFETY: as above; the handle comes from dlopen.
    let found = unsafe { libc::dlsym(mapped_library(name)?, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The begin of the object that contains an address.
fn base(address: *mut c_void) -> usize {
    // SAFETY: all that a `Dl_info` consists of may be zero; dladdr fills it, or leaves it alone.
    let info = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address, &raw mut info);
        info
    };
    info.dli_fbase.addr()
}

/// Returns whether an address lies in an object that the loader has mapped, and not in memory that was allocated.
#[allow(dead_code, reason = "handles of other MPIs are no addresses")]
pub fn is_static(address: *const c_void) -> bool {
    base(address.cast_mut()) != 0
}

/// The address of an object of the MPI library.
///
/// A program linked in the ordinary way has its own copy of the object, and that is the one whose address
/// the library and the program use; it is first in the global search order.
pub fn data(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `name` ends in a zero.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if global.is_null() { in_private_library(name) } else { Some(global) }
}

fn in_private_library(name: &CStr) -> Option<*mut c_void> {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let mut handle = LIBRARY.get().copied();
    if handle.is_none() {
        // Until it is mapped there is nothing to remember.
        handle = mapped_library(c"PMPI_Init_thread").map(|found| *LIBRARY.get_or_init(|| found as usize));
    }
    // SAFETY: the handle comes from dlopen and is never closed; `name` ends in a zero.
    let found = unsafe { libc::dlsym(handle? as *mut c_void, name.as_ptr()) };
    if !found.is_null() {
        return Some(found);
    }
    // MPI's Fortran is in a library of its own.
    // SAFETY: as above.
    let found = unsafe { libc::dlsym(mapped_library(name)?, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// A handle of the mapped library that defines `symbol`, other than this one.
fn mapped_library(symbol: &CStr) -> Option<*mut c_void> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback has the signature that dl_iterate_phdr documents, and `names` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect_name), (&raw mut names).cast()) };
    let ours = base(mapped_library as *const () as *mut c_void);
    names.into_iter().find_map(|name| {
        // SAFETY: `name` ends in a zero. RTLD_NOLOAD runs no constructor: the object is mapped already.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle was just opened.
        let defines = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        (!defines.is_null() && base(defines) != ours).then_some(handle)
    })
}

unsafe extern "C" fn collect_name(info: *mut libc::dl_phdr_info, _size: usize, names: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info, and the pointer that `mapped_library` gave it.
    let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<CString>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's names end in a zero.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        // The program itself has an empty name; asking for it would ask for everything global again.
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}
