//! Arguments of the application in C and in Fortran: the wrappers read them through these types,
//! whatever the language.

// An MPI may come without Fortran.
#![allow(dead_code)]

use crate::mpi::abi::{FromFortran, constant};
use crate::mpi::fortran::Fint;
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;

/// Pointer to a handle of the application, or to an array of them. In Fortran a handle is an
/// integer that may differ from the handle in C.
pub struct HandlePtr<H> {
    address: *const u8,
    is_fortran: bool,
    handle: PhantomData<H>,
}

impl<H> Clone for HandlePtr<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for HandlePtr<H> {}

impl<H: FromFortran> HandlePtr<H> {
    /// A handle of C.
    #[inline]
    pub fn c(place: *const H) -> Self {
        HandlePtr { address: place.cast(), is_fortran: false, handle: PhantomData }
    }

    /// A handle of Fortran.
    #[inline]
    pub fn fortran(place: *const Fint) -> Self {
        HandlePtr { address: place.cast(), is_fortran: true, handle: PhantomData }
    }

    /// The handle that is there now, as `read` copies memory that may not be mapped any more; it
    /// returns how many bytes it copied.
    pub fn handle_by(self, read: impl FnOnce(usize, &mut [u8]) -> usize) -> Option<H> {
        #[repr(align(8))]
        struct Copied([u8; 8]);
        let mut copy = Copied([0; 8]);
        const { assert!(size_of::<H>() <= 8 && align_of::<H>() <= 8) };
        let size = if self.is_fortran { size_of::<Fint>() } else { size_of::<H>() };
        if read(self.address.addr(), &mut copy.0[..size]) != size {
            return None;
        }
        let copied = HandlePtr { address: (&raw const copy).cast(), ..self };
        // SAFETY: the bytes of a handle of the kind that `self` has were copied there, and the copy
        // is aligned for both kinds.
        Some(unsafe { copied.handle() })
    }

    /// The handle that is there now.
    ///
    /// # Safety
    /// There is one.
    #[inline]
    pub unsafe fn handle(self) -> H {
        // SAFETY: there is a handle; the constructors had the pointer from its type.
        unsafe {
            if self.is_fortran {
                H::from_fortran(self.address.cast::<Fint>().read())
            } else {
                self.address.cast::<H>().read()
            }
        }
    }

    /// The place of an array's element.
    #[inline]
    pub fn at(self, index: usize) -> Self {
        let width = if self.is_fortran { size_of::<Fint>() } else { size_of::<H>() };
        HandlePtr { address: self.address.wrapping_add(index * width), ..self }
    }

    /// The address, which distinguishes requests with the same handle.
    #[inline]
    pub fn address(self) -> usize {
        self.address.addr()
    }

    /// Returns whether the application passed a null pointer, which MPI reports as an error.
    #[inline]
    pub fn is_null(self) -> bool {
        self.address.is_null()
    }
}

/// Indices into an array, as a call stores them: they begin with 0 in C, as a rule with 1 in
/// Fortran.
#[derive(Clone, Copy)]
pub struct Indices {
    address: *const c_int,
    first: c_int,
}

impl Indices {
    /// Of C.
    #[inline]
    pub fn c(address: *const c_int) -> Self {
        Indices { address, first: 0 }
    }

    /// Of Fortran.
    #[inline]
    pub fn fortran(address: *const Fint) -> Self {
        Indices { address, first: crate::mpi::fortran::first_index() }
    }

    /// The index at `at`, counted from 0; `None` for `MPI_UNDEFINED`.
    ///
    /// # Safety
    /// The call stored one there.
    #[inline]
    pub unsafe fn index(self, at: usize) -> Option<usize> {
        // SAFETY: the call stored an index there.
        let index = unsafe { *self.address.add(at) };
        usize::try_from(index.checked_sub(self.first)?).ok()
    }
}

/// A text: up to a zero in C, with its length and filled up with blanks in Fortran.
#[derive(Clone, Copy)]
pub struct Text {
    address: *const c_char,
    length: Option<usize>,
}

impl Text {
    /// Of C.
    #[inline]
    pub fn c(address: *const c_char) -> Self {
        Text { address, length: None }
    }

    /// Of Fortran.
    #[inline]
    pub fn fortran(address: *const c_char, length: usize) -> Self {
        Text { address, length: Some(length) }
    }

    /// The text itself.
    ///
    /// # Safety
    /// It is a text of its language.
    pub unsafe fn read(self) -> String {
        // SAFETY: it is a text of its language.
        unsafe { self.read_most(usize::MAX) }
    }

    /// The text as the name of an object of MPI, which keeps `MPI_MAX_OBJECT_NAME` bytes with a
    /// zero at the end. Not a part of a character is kept.
    ///
    /// # Safety
    /// See [`Text::read`].
    pub unsafe fn read_name(self) -> String {
        // SAFETY: it is a text of its language.
        unsafe { self.read_most(constant::MAX_OBJECT_NAME - 1) }
    }

    /// At most `most` bytes of the text.
    unsafe fn read_most(self, most: usize) -> String {
        // SAFETY: a text of C ends with a zero, one of Fortran has this length.
        let bytes = unsafe {
            match self.length {
                None => CStr::from_ptr(self.address).to_bytes(),
                Some(length) => std::slice::from_raw_parts(self.address.cast::<u8>(), length),
            }
        };
        // MPI takes the blanks of Fortran away on both sides (MPI 4.1, 7.8).
        let bytes = if self.length.is_some() { trimmed(bytes) } else { bytes };
        let mut end = most.min(bytes.len());
        while end > 0 && bytes.get(end).is_some_and(|next| next & 0b1100_0000 == 0b1000_0000) {
            end -= 1;
        }
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Without blanks on both sides.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != b' ';
    let from = bytes.iter().position(is_text).unwrap_or(bytes.len());
    let to = bytes.iter().rposition(is_text).map_or(from, |last| last + 1);
    &bytes[from..to]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn texts_of_both_languages_are_the_same() {
        let blanks = b"a name   ";
        // SAFETY: both are texts of their language.
        let both = unsafe {
            [Text::c(c"a name".as_ptr()).read(), Text::fortran(blanks.as_ptr().cast(), blanks.len()).read()]
        };
        assert_eq!(both, ["a name", "a name"]);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let most = constant::MAX_OBJECT_NAME - 1;
        let long = CString::new("a".repeat(most - 1) + "é" + "b").expect("no zero in it");
        let fits = CString::new("a".repeat(most - 2) + "é").expect("no zero in it");
        // SAFETY: both are texts of C.
        let names = unsafe { [&long, &fits].map(|name| Text::c(name.as_ptr()).read_name()) };
        assert_eq!(names, ["a".repeat(most - 1), "a".repeat(most - 2) + "é"]);
        // SAFETY: the text has that length.
        let blanks = unsafe { Text::fortran(c"   ".as_ptr(), 3).read_name() };
        assert_eq!(blanks, "");
    }

    #[test]
    fn indices_of_both_languages_count_from_zero() {
        // SAFETY: the indices are there.
        unsafe {
            assert_eq!(Indices::c(&4).index(0), Some(4));
            let first = crate::mpi::fortran::first_index();
            assert_eq!(Indices::fortran(&(4 + first)).index(0), Some(4));
            let undefined = crate::mpi::abi::constant::UNDEFINED;
            assert_eq!(Indices::c(&undefined).index(0), None);
            assert_eq!(Indices::fortran(&undefined).index(0), None);
        }
    }
}
