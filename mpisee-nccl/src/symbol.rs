//! The functions of the program's own NCCL.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of NCCL, looked up at its first use.
pub struct Symbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    /// The function called `name`.
    pub const fn new(name: &'static CStr) -> Symbol {
        Symbol { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The function, of type `F`; `None` if the program's NCCL has none of the name.
    pub fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = find(self.name)?;
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: `F` is the type that the spec gives the function of this name.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The address of a function: the next one after ours in the search order, else that of a library which the program has
/// loaded for itself, as Python loads PyTorch and its NCCL.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `name` ends in a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() { in_private_library(name) } else { Some(next) }
}

/// The address of a function in a loaded library that is not in the search order.
fn in_private_library(name: &CStr) -> Option<*mut c_void> {
    let mut libraries: Vec<CString> = Vec::new();
    // SAFETY: the callback has the signature that dl_iterate_phdr documents, and `libraries` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect_name), (&raw mut libraries).cast()) };
    let ours = base(in_private_library as *const () as *mut c_void);
    libraries.into_iter().find_map(|library| {
        // SAFETY: the name ends in a zero. RTLD_NOLOAD runs no constructor: the library is loaded already.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle was just opened; `name` ends in a zero.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if !found.is_null() && base(found) != ours {
            return Some(found); // The handle keeps the library loaded as long as its function may be called.
        }
        // SAFETY: the handle was just opened, and is not used again.
        unsafe { libc::dlclose(handle) };
        None
    })
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

unsafe extern "C" fn collect_name(info: *mut libc::dl_phdr_info, _size: usize, names: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info, and the pointer that it was given.
    let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<CString>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's names end in a zero.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        // The program itself has an empty name, and is before ours in the search order.
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}
