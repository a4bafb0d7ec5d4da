//! The libraries that are loaded into a process, for one that is preloaded: the objects, their
//! names and functions ([`find_object`], [`mapped_at`], [`is_mpi_library`]), and the next
//! definition of a symbol ([`next`], [`loaded_with`], [`keep_loaded`]).
//!
//! The libraries that are looked through are left as they are: not one is loaded, and only that in
//! which a symbol was found is kept from being unloaded.

mod definitions;
mod loaded;
mod mapped;
mod mpi_libraries;

pub use loaded::{LoadedObject, find_object};
pub use mapped::{Mapped, can_find_mapped, mapped_at};
pub use mpi_libraries::{is_mpi_library, is_mpich_fortran_bindings};

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

/// The address of a symbol.
pub type Address = NonNull<c_void>;

/// A loaded library, which stays loaded.
#[derive(Clone, Copy, Debug)]
pub struct Library(Address);

// SAFETY: every thread may use a handle of the dynamic loader.
unsafe impl Send for Library {}
// SAFETY: the handle is only passed to the loader, which any thread may call.
unsafe impl Sync for Library {}

impl Library {
    /// The address of a symbol in the library, or in those that it needs.
    pub fn symbol(self, name: &CStr) -> Option<Address> {
        // SAFETY: the handle was opened and is never closed; `name` ends in a zero.
        Address::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

/// The address of a symbol, the next one after this library's own in the search order.
pub fn next(name: &CStr) -> Option<Address> {
    // SAFETY: `name` ends in a zero.
    Address::new(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) })
}

/// The address of a symbol, the first one in the search order.
pub fn first(name: &CStr) -> Option<Address> {
    // SAFETY: `name` ends in a zero.
    Address::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// A library that defines a symbol, whether in the search order or not, and the symbol's address;
/// not this library.
pub fn loaded_with(name: &CStr) -> Option<(Library, Address)> {
    let here = loaded_with as *const () as usize;
    if !definitions::may_be_defined(name, here) {
        return None;
    }
    let ours = base(here);
    let names = loaded_names();
    let mut names =
        names.split_inclusive(|&byte| byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    names.find_map(|library| {
        // SAFETY: the library's name ends in a zero. RTLD_NOLOAD runs no constructor: the library
        // is loaded already.
        let handle =
            Address::new(unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) })?;
        let library = Library(handle);
        if let Some(found) = library.symbol(name).filter(|found| base(found.addr().get()) != ours) {
            return Some((library, found));
        }
        // The program may unload it.
        // SAFETY: the handle was just opened, and is not used again.
        unsafe { libc::dlclose(handle.as_ptr()) };
        None
    })
}

/// Keeps the library that has an address loaded, though the program may close it; false if it is
/// gone by now. The program itself stays in any case.
pub fn keep_loaded(address: usize) -> bool {
    const NAME_BYTES: usize = libc::PATH_MAX as usize;
    // Not on the stack: the thread's may be small, and dlopen needs some.
    let mut name = vec![0u8; NAME_BYTES];
    let copied = find_object(|object| {
        let text = object.name().to_bytes();
        object.has(address).then(|| {
            let room = name.get_mut(..text.len()).filter(|_| text.len() < NAME_BYTES);
            room.map(|room| room.copy_from_slice(text)).is_some()
        })
    });
    if copied != Some(true) || name[0] == 0 {
        return copied == Some(true);
    }
    const FLAGS: c_int = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the name ends in a zero, as it was shorter than the room for it. RTLD_NOLOAD runs no
    // constructor: the library is loaded already.
    !unsafe { libc::dlopen(name.as_ptr().cast(), FLAGS) }.is_null()
}

/// The begin of the object that contains an address; 0 if none does.
pub fn base(address: usize) -> usize {
    if can_find_mapped() {
        return mapped_at(address).map_or(0, |mapped| mapped.range.start);
    }
    // SAFETY: all that a `Dl_info` consists of may be zero; dladdr fills it, or leaves it alone.
    let info = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(std::ptr::without_provenance(address), &raw mut info);
        info
    };
    info.dli_fbase.addr()
}

/// The names of the loaded libraries, each with a zero at its end; fewer if very many are loaded
/// meanwhile.
fn loaded_names() -> Vec<u8> {
    const TRIES: usize = 4;
    let mut names = Names { text: Vec::with_capacity(1 << 14), bytes: 0 };
    for _ in 0..TRIES {
        (names.bytes, names.text) = (0, Vec::with_capacity(names.text.capacity().max(2 * names.bytes)));
        names.fill();
        if names.bytes == names.text.len() {
            break;
        }
    }
    names.text
}

struct Names {
    text: Vec<u8>,
    /// The length of all names, of those as well for which there was no room.
    bytes: usize,
}

impl Names {
    /// Appends as many names as there is room for.
    fn fill(&mut self) {
        find_object::<(), _>(|object| {
            // The program itself has an empty name, and is in the search order.
            if !object.name().is_empty() {
                let name = object.name().to_bytes_with_nul();
                self.bytes += name.len();
                if self.text.capacity() - self.text.len() >= name.len() {
                    self.text.extend_from_slice(name);
                }
            }
            None
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_by_what_it_defines() {
        let (library, found) = loaded_with(c"qsort").expect("the C library is loaded");
        assert_eq!(library.symbol(c"qsort"), Some(found));
        assert_eq!(first(c"qsort"), Some(found));
        assert_eq!(base(found.addr().get()), base(first(c"free").expect("as qsort is").addr().get()));
        assert!(loaded_with(c"mpisee_none_has_this").is_none());
    }

    #[test]
    fn a_library_that_is_kept_is_there_after_the_program_has_closed_it() {
        // No program needs either, so that it is gone when it is closed.
        let is_there = |name: &[u8]| find_object(|it| (it.file_name() == name).then_some(())).is_some();
        for (name, is_kept) in [(c"libBrokenLocale.so.1", false), (c"libanl.so.1", true)] {
            // SAFETY: the name ends in a zero.
            let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
            assert!(is_there(name.to_bytes()), "{name:?}");
            if is_kept {
                let base = find_object(|it| (it.file_name() == name.to_bytes()).then(|| it.bias() as usize));
                assert!(keep_loaded(base.expect("it is loaded")));
            }
            // SAFETY: the handle was opened, and is closed once.
            unsafe { libc::dlclose(library) };
            assert_eq!(is_there(name.to_bytes()), is_kept, "{name:?}");
        }
        assert!(keep_loaded(keep_loaded as *const () as usize));
        assert!(!keep_loaded(1));
    }

    #[test]
    fn names_are_those_of_the_loader_and_room_is_made_for_them() {
        let names = loaded_names();
        assert!(names.windows(7).any(|part| part == b"libc.so"));
        assert_eq!(names.last(), Some(&0));
        let mut full = Names { text: Vec::with_capacity(1), bytes: 0 };
        full.fill();
        assert_eq!((full.bytes, full.text.len()), (names.len(), 0));
    }
}
