//! Functions of a library that the program may have loaded, as a GPU's driver.
//!
//! They are looked for by a thread of its own, see [`apart`], since a library that the loader is
//! still about to begin cannot be called. One that was found stays loaded, though the program may
//! close it: its functions may be called at any time from then on. `dlclose` need not unload a
//! library, so that no program can rely on that.
//!
//! [`apart`]: super::apart

use crate::binaries::mapping;
use mpisee_in_process::symbols::{LoadedObject, find_object, keep_loaded};
use std::ffi::CStr;
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Libraries of one kind that are looked at; a program has one driver, seldom two.
const MOST: usize = 8;

/// A library that stays loaded, by an address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(usize);

/// Keeps the libraries loaded whose file `is_wanted`, by its name without the folder; those in the
/// order in which they were loaded. Only for work in a thread of its own, see
/// [`apart`](super::apart).
pub fn keep(is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Kept> {
    let (mut starts, mut count) = ([0; MOST], 0);
    find_object::<(), _>(|object| {
        if is_wanted(object.file_name()) && count < MOST {
            starts[count] = mapping::mapped(object.bias(), object.headers()).start;
            count += 1;
        }
        None
    });
    // The loader keeps it once its constructors have run; one that is closed meanwhile is none.
    starts[..count].iter().filter(|&&start| keep_loaded(start)).map(|&start| Kept(start)).collect()
}

impl Kept {
    /// Applies `of` to it, which may neither allocate nor free, see [`find_object`].
    pub fn take<T>(self, of: impl Fn(LoadedObject<'_>) -> T) -> Option<T> {
        find_object(|object| object.has(self.0).then(|| of(object)))
    }
}

/// Functions of a library.
pub struct Functions<T: 'static> {
    /// Null before they are found; what was found before is not freed, as another thread may use
    /// it.
    found: AtomicPtr<T>,
    /// The address of the library that has them.
    library: AtomicUsize,
}

impl<T: Sync> Functions<T> {
    /// None so far.
    pub const fn new() -> Functions<T> {
        Functions { found: AtomicPtr::new(ptr::null_mut()), library: AtomicUsize::new(0) }
    }

    /// The functions, if they were found.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: it is null, or was leaked.
        unsafe { self.found.load(Ordering::Acquire).as_ref() }
    }

    /// Takes them from a library; `None` if it does not have what `of` takes, as [`Kept::take`] has
    /// it. One thread at a time.
    pub fn take(&self, library: Kept, of: impl Fn(LoadedObject<'_>) -> Option<T>) -> Option<&'static T> {
        if self.library.load(Ordering::Relaxed) != library.0 {
            self.set(library.take(of)??);
            self.library.store(library.0, Ordering::Relaxed);
        }
        self.get()
    }

    fn set(&self, functions: T) {
        self.found.store(Box::into_raw(Box::new(functions)), Ordering::Release);
    }

    /// Takes functions that are always there, for the tests of this process.
    #[cfg(test)]
    pub fn replace(&self, functions: T) {
        self.set(functions);
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
    fn functions_are_those_of_a_library_that_has_them() {
        static FUNCTIONS: Functions<Absolute> = Functions::new();
        // SAFETY: it has this type in stdlib.h.
        let of = |library: LoadedObject<'_>| unsafe { function::<Absolute>(library, c"labs") };
        let look = |name: &[u8]| {
            let kept = keep(|file| file.starts_with(name));
            kept.into_iter().find_map(|library| FUNCTIONS.take(library, of))
        };
        assert!(look(b"libnone.so").is_none());
        assert!(look(b"ld-linux").is_none(), "it does not have it");
        assert!(FUNCTIONS.get().is_none());
        let absolute = look(b"libc.so").expect("the C library has it");
        assert_eq!((absolute(-7), FUNCTIONS.get().map(|absolute| absolute(-8))), (7, Some(8)));
        assert!(ptr::eq(look(b"libc.so").expect("it is still there"), absolute), "it is taken once");
    }

    #[test]
    fn a_library_that_was_found_stays_loaded() {
        // No program needs it, so that it is gone when it is closed.
        const NAME: &CStr = c"libanl.so.1";
        let is_loaded =
            || find_object(|object| (object.file_name() == NAME.to_bytes()).then_some(())).is_some();
        let open = || {
            // SAFETY: the name ends in a zero.
            let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW) };
            assert!(!library.is_null());
            library
        };
        // SAFETY: the handle was opened, and is closed once.
        let close = |library| unsafe { libc::dlclose(library) };
        close(open());
        assert!(!is_loaded() && keep(|file| file == NAME.to_bytes()).is_empty());
        let library = open();
        let [kept] = keep(|file| file == NAME.to_bytes())[..] else { panic!("it is loaded") };
        close(library);
        assert!(is_loaded());
        assert_eq!(kept.take(|object| object.file_name() == NAME.to_bytes()), Some(true));
    }
}
