//! How the functions of the program's own NCCL are found.
//!
//! The first of them that the program calls is looked up, and all others with it: each look-up
//! takes the loader's lock, which a thread has while a library's constructor runs, and that may
//! wait for a thread which calls NCCL.

use mpisee_in_process::guards::errno;
use mpisee_in_process::symbols::{Address, Library};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of NCCL, of type `F`.
pub struct Symbol<F> {
    lookup: Lookup,
    /// The functions that are looked up with it.
    all: &'static [&'static Lookup],
    function: PhantomData<F>,
}

// SAFETY: it holds the address of a function, which every thread may call.
unsafe impl<F> Sync for Symbol<F> {}

/// The address of a function by its name.
pub struct Lookup {
    name: &'static CStr,
    /// Null if it is not found so far.
    address: AtomicPtr<c_void>,
}

impl<F: Copy> Symbol<F> {
    /// The function called `name`, which is looked up with all others.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of this name in nccl.h.
    pub const unsafe fn new(name: &'static CStr, all: &'static [&'static Lookup]) -> Symbol<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let lookup = Lookup { name, address: AtomicPtr::new(ptr::null_mut()) };
        Symbol { lookup, all, function: PhantomData }
    }

    /// Its name and address.
    pub const fn lookup(&'static self) -> &'static Lookup {
        &self.lookup
    }

    /// The function; `None` if the program's NCCL has none of the name.
    pub fn get(&self) -> Option<F> {
        let mut address = self.lookup.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.lookup.find(self.all)?.as_ptr();
        }
        // SAFETY: `F` is the type of the function, as `new` needs it, and as large as an address.
        Some(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// Where functions are looked up.
#[derive(Clone, Copy)]
enum Place {
    /// The libraries after this one in the search order, as the program would find them without
    /// this library; the next one may be that of a tool between.
    SearchOrder,
    /// One that is in no search order, as Python loads PyTorch with its NCCL for itself. From then
    /// on all functions are those of this library, since a communicator means nothing to another.
    Library(Library),
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

impl Lookup {
    /// Looks for it, and where it is found for all others. A function that is missing there is
    /// looked for again when it is called.
    fn find(&self, all: &[&Lookup]) -> Option<Address> {
        let _errno = errno::keep();
        let (place, address) = place_of(self.name)?;
        self.address.store(address.as_ptr(), Ordering::Relaxed);
        for other in all.iter().filter(|other| other.address.load(Ordering::Relaxed).is_null()) {
            if let Some(address) = place.address(other.name) {
                other.address.store(address.as_ptr(), Ordering::Relaxed);
            }
        }
        Some(address)
    }
}

fn place_of(name: &CStr) -> Option<(Place, Address)> {
    let of_library = |library: &Library| Some((Place::Library(*library), library.symbol(name)?));
    if let Some(library) = LIBRARY.get() {
        return of_library(library);
    }
    if let Some(address) = Place::SearchOrder.address(name) {
        return Some((Place::SearchOrder, address));
    }
    let (library, _) = mpisee_in_process::symbols::loaded_with(name)?;
    // Another thread may have been first.
    of_library(LIBRARY.get_or_init(|| library))
}

impl Place {
    /// The address of a function, which stays valid: the program may close the library that has it.
    fn address(self, name: &CStr) -> Option<Address> {
        match self {
            Place::SearchOrder => mpisee_in_process::symbols::next(name)
                .filter(|it| mpisee_in_process::symbols::keep_loaded(it.addr().get())),
            Place::Library(library) => library.symbol(name),
        }
    }
}
