//! The functions of the program's own NCCL.

use mpisee_symbols::Library;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;
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
            address = library_with(self.name)?.symbol(self.name)?.as_ptr();
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: `F` is the type that the spec gives the function of this name.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The program's NCCL, by the first of its functions that is called. A communicator means nothing to another library, so that all
/// functions are taken from this one.
fn library_with(name: &CStr) -> Option<Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Some(*library);
    }
    // Python loads PyTorch with its NCCL for itself.
    let found = mpisee_symbols::next_library(name).or_else(|| Some(mpisee_symbols::loaded_with(name)?.0))?;
    Some(*LIBRARY.get_or_init(|| found))
}
