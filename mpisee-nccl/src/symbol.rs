//! The functions of the program's own NCCL.

use mpisee_symbols::{Address, Library};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of NCCL, of type `F`, looked up at its first use.
pub struct Symbol<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

// SAFETY: it holds the address of a function, which every thread may call.
unsafe impl<F> Sync for Symbol<F> {}

impl<F: Copy> Symbol<F> {
    /// The function called `name`.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of this name in nccl.h.
    pub const unsafe fn new(name: &'static CStr) -> Symbol<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Symbol { name, address: AtomicPtr::new(ptr::null_mut()), function: PhantomData }
    }

    /// The function; `None` if the program's NCCL has none of the name.
    pub fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = address_of(self.name)?.as_ptr();
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: `F` is the type of the function, as `new` needs it, and as large as an address.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The function that the program would call without this library: the next one in the search order, which may be that of a tool between.
/// Where there is none, as Python loads PyTorch with its NCCL for itself, all functions are those of one library from then on, since
/// a communicator means nothing to another.
fn address_of(name: &CStr) -> Option<Address> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return library.symbol(name);
    }
    mpisee_symbols::next(name).or_else(|| {
        let (library, address) = mpisee_symbols::loaded_with(name)?;
        // Another thread may have been first.
        if LIBRARY.set(library).is_ok() { Some(address) } else { LIBRARY.get()?.symbol(name) }
    })
}
