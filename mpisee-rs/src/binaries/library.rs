//! Functions of a library that the program may have loaded, as a GPU's driver.
//!
//! They are looked for in calls of the program, so that neither `dlopen` nor `dlsym` may be called: the lock that these take may be held by
//! a thread that waits for this one. So the library is not kept loaded either, and each use sees that it is still there.

use crate::binaries::mapping::{self, Mapping};
use crate::binaries::objects;
use mpisee_symbols::{LoadedObject, find_object};
use std::ffi::CStr;
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Functions of a library.
pub struct Functions<T: 'static> {
    /// Null before they are found; what was found before is not freed, as another thread may use it.
    found: AtomicPtr<Found<T>>,
}

struct Found<T> {
    functions: T,
    /// Where the library is; `None` of one that is kept loaded, where the C library cannot tell.
    mapping: Option<Mapping>,
}

impl<T: Sync> Functions<T> {
    /// None so far.
    pub const fn new() -> Functions<T> {
        Functions { found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The functions, if they were found and the library is still where it was.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: it is null, or was leaked.
        let found = unsafe { self.found.load(Ordering::Acquire).as_ref() }?;
        let is_there = |mapping: &Mapping| mapping::at(mapping.range.start).as_ref() == Some(mapping);
        found.mapping.as_ref().is_none_or(is_there).then_some(&found.functions)
    }

    /// Looks for them in the first library whose file `is_wanted`, by its name without the folder; `None` if there is none, or it does not
    /// have what `of` takes. `of` may neither allocate nor free.
    pub fn look(
        &self,
        is_wanted: impl Fn(&[u8]) -> bool,
        of: impl Fn(LoadedObject<'_>) -> Option<T>,
    ) -> Option<&'static T> {
        let (functions, start) = find_object(|object| {
            let start = || mapping::mapped(object.bias(), object.headers()).start;
            is_wanted(object.file_name()).then(|| Some((of(object)?, start())))
        })??;
        let mapping = match mapping::has_finder() {
            true => Some(mapping::at(start)?),
            false => {
                objects::keep_loaded(&objects::object_at(start)?).then_some(())?;
                None
            }
        };
        self.set(Found { functions, mapping });
        self.get()
    }

    fn set(&self, found: Found<T>) {
        self.found.store(Box::into_raw(Box::new(found)), Ordering::Release);
    }

    /// Takes functions that are always there, for the tests of this process.
    #[cfg(test)]
    pub fn replace(&self, functions: T) {
        self.set(Found { functions, mapping: None });
    }
}

/// A function of a library.
///
/// # Safety
/// The function of this name has the type `F`, that of a pointer to a function.
pub unsafe fn function<F: Copy>(library: LoadedObject<'_>, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
    // SAFETY: the function has the type `F`, which is as large as a pointer.
    library.function(name).map(|address| unsafe { transmute_copy(&address.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_double;

    type Cosine = extern "C" fn(c_double) -> c_double;

    #[test]
    fn functions_are_those_of_a_library_that_is_there() {
        static FUNCTIONS: Functions<Cosine> = Functions::new();
        // SAFETY: it has this type in math.h.
        let of = |library: LoadedObject<'_>| unsafe { function::<Cosine>(library, c"cos") };
        assert!(FUNCTIONS.get().is_none());
        assert!(FUNCTIONS.look(|file| file == b"libnone.so", of).is_none());
        assert!(FUNCTIONS.look(|file| file.starts_with(b"libc.so"), of).is_none(), "it does not have it");
    }

    #[test]
    fn a_library_that_is_gone_has_no_functions() {
        static FUNCTIONS: Functions<u32> = Functions::new();
        // No program needs it, so that it is gone when it is closed.
        const NAME: &CStr = c"libanl.so.1";
        // SAFETY: the name ends in a zero.
        let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        let look = || FUNCTIONS.look(|file| file == NAME.to_bytes(), |_| Some(4));
        assert!(look().is_some() && FUNCTIONS.get().is_some());
        // SAFETY: the handle was just opened.
        unsafe { libc::dlclose(library) };
        assert_eq!(FUNCTIONS.get().is_some(), !mapping::has_finder());
        assert_eq!(look().is_some(), !mapping::has_finder());
    }
}
