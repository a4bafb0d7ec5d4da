//! Functions of a library that the program may have loaded, as a GPU's driver.
//!
//! They are looked for by a thread of its own, see [`apart`], since a library that the loader is still about to begin cannot be called. One that
//! the program has initialised is kept loaded, as its functions may be called at any time from then on. Until then the program may close
//! it, which each use has to see.
//!
//! [`apart`]: super::apart

use crate::binaries::mapping::{self, Mapping};
use mpisee_symbols::{LoadedObject, find_object, keep_loaded};
use std::ffi::CStr;
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Functions of a library.
pub struct Functions<T: 'static> {
    /// Null before they are found; what was found before is not freed, as another thread may use it.
    found: AtomicPtr<FoundFunctions<T>>,
}

struct FoundFunctions<T> {
    functions: T,
    /// Where the library is; `None` of one that is kept loaded.
    mapping: Option<Mapping>,
    /// True once the answer was that it should be kept.
    is_to_be_kept: AtomicBool,
}

/// How long a library stays loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The program has initialised it.
    Loaded,
    /// The program may close it, if the C library tells when.
    AsLongAsTheProgram,
}

impl<T: Sync> Functions<T> {
    /// None so far.
    pub const fn new() -> Functions<T> {
        Functions { found: AtomicPtr::new(ptr::null_mut()) }
    }

    fn found(&self) -> Option<&'static FoundFunctions<T>> {
        // SAFETY: it is null, or was leaked.
        unsafe { self.found.load(Ordering::Acquire).as_ref() }
    }

    /// The functions, if they were found and the library is still where it was.
    pub fn get(&self) -> Option<&'static T> {
        let found = self.found()?;
        let is_there = |mapping: &Mapping| mapping::at(mapping.range.start).as_ref() == Some(mapping);
        found.mapping.as_ref().is_none_or(is_there).then_some(&found.functions)
    }

    /// To be called when the program has initialised the library; true once if it is not kept loaded yet.
    pub fn is_to_be_kept(&self) -> bool {
        let loose = self.found().filter(|found| found.mapping.is_some());
        loose.is_some_and(|found| !found.is_to_be_kept.swap(true, Ordering::Relaxed))
    }

    /// Looks for them in the first library whose file `is_wanted`, by its name without the folder; `None` if there is none, or it does not
    /// have what `of` takes. `of` may neither allocate nor free. Only for work in a thread of its own, see [`apart`](super::apart).
    pub fn look(
        &self,
        keep: Keep,
        is_wanted: impl Fn(&[u8]) -> bool,
        of: impl Fn(LoadedObject<'_>) -> Option<T>,
    ) -> Option<&'static T> {
        let (functions, start) = find_object(|object| {
            let start = || mapping::mapped(object.bias(), object.headers()).start;
            is_wanted(object.file_name()).then(|| Some((of(object)?, start())))
        })??;
        let mapping = if keep == Keep::Loaded || !mapping::has_finder() {
            keep_loaded(start).then_some(())?;
            None
        } else {
            Some(mapping::at(start)?)
        };
        self.set(FoundFunctions { functions, mapping, is_to_be_kept: AtomicBool::new(false) });
        self.get()
    }

    fn set(&self, found: FoundFunctions<T>) {
        self.found.store(Box::into_raw(Box::new(found)), Ordering::Release);
    }

    /// Takes functions that are always there, for the tests of this process.
    #[cfg(test)]
    pub fn replace(&self, functions: T) {
        self.set(FoundFunctions { functions, mapping: None, is_to_be_kept: AtomicBool::new(false) });
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
    use std::ffi::c_long;

    type Absolute = extern "C" fn(c_long) -> c_long;

    #[test]
    fn functions_are_those_of_the_library_that_is_looked_for_if_it_is_there_and_has_them() {
        static FUNCTIONS: Functions<Absolute> = Functions::new();
        // SAFETY: it has this type in stdlib.h.
        let of = |library: LoadedObject<'_>| unsafe { function::<Absolute>(library, c"labs") };
        assert!(FUNCTIONS.get().is_none());
        let look = |name: &[u8]| FUNCTIONS.look(Keep::AsLongAsTheProgram, |file| file.starts_with(name), of);
        assert!(look(b"libnone.so").is_none());
        assert!(look(b"ld-linux").is_none(), "it does not have it");
        assert!(FUNCTIONS.get().is_none());
        let absolute = look(b"libc.so").expect("the C library has it");
        assert_eq!((absolute(-7), FUNCTIONS.get().map(|absolute| absolute(-8))), (7, Some(8)));
    }

    #[test]
    fn a_library_that_is_gone_has_no_functions_and_one_that_is_kept_does_not_go() {
        static FUNCTIONS: Functions<u32> = Functions::new();
        // No program needs it, so that it is gone when it is closed.
        const NAME: &CStr = c"libanl.so.1";
        let open = || {
            // SAFETY: the name ends in a zero.
            let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW) };
            assert!(!library.is_null());
            library
        };
        // SAFETY: the handle was opened, and is closed once.
        let close = |library| unsafe { libc::dlclose(library) };
        let look = |keep| FUNCTIONS.look(keep, |file| file == NAME.to_bytes(), |_| Some(4));
        let library = open();
        assert!(look(Keep::AsLongAsTheProgram).is_some() && FUNCTIONS.get().is_some());
        assert_eq!([FUNCTIONS.is_to_be_kept(), FUNCTIONS.is_to_be_kept()], [mapping::has_finder(), false]);
        close(library);
        assert_eq!(FUNCTIONS.get().is_some(), !mapping::has_finder());
        assert_eq!(look(Keep::AsLongAsTheProgram).is_some(), !mapping::has_finder());
        let library = open();
        assert!(look(Keep::Loaded).is_some());
        close(library);
        assert!(FUNCTIONS.get().is_some() && !FUNCTIONS.is_to_be_kept());
    }
}
