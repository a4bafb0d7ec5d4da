//! The functions of the program's own NCCL.

use std::ffi::{CStr, c_void};
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
            let found = mpisee_symbols::next(self.name);
            // Python loads PyTorch with its NCCL for itself.
            address = found.or_else(|| Some(mpisee_symbols::loaded_with(self.name)?.1))?.as_ptr();
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: `F` is the type that the spec gives the function of this name.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}
