//! Finds Python in the process.

use crate::symbols::{find_object, keep_loaded};
use std::ffi::{CStr, c_char, c_void};

/// The library that has Python, or the program.
pub fn library() -> Option<*mut c_void> {
    if let Some(runtime) = symbol(libc::RTLD_DEFAULT, c"_PyRuntime") {
        // A program that opened it may close it, and its functions are called later.
        keep_loaded(runtime.addr());
        return Some(libc::RTLD_DEFAULT);
    }
    // Loaded by a program, or a module of one, for itself alone.
    const NAME_BYTES: usize = libc::PATH_MAX as usize;
    // Not on the stack: the thread's may be small, and dlopen needs some.
    let mut name = vec![0; NAME_BYTES];
    find_object(|object| {
        let bytes = object.name().to_bytes();
        let is_python = object.file_name().starts_with(b"libpython3.") && bytes.len() < NAME_BYTES;
        is_python.then(|| name[..bytes.len()].copy_from_slice(bytes))
    })?;
    // SAFETY: the name ends in a zero; nothing new is loaded.
    let library = unsafe { libc::dlopen(name.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    (!library.is_null()).then_some(library)
}

/// A function or variable of a library that is loaded.
pub fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the library is loaded and stays so, the name ends in a zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// `3.11.2`, and the address of the function that says so.
pub fn version(library: *mut c_void) -> Option<(String, usize)> {
    type GetVersion = unsafe extern "C" fn() -> *const c_char;
    let function = symbol(library, c"Py_GetVersion")?;
    // SAFETY: the function has this type in each version, and needs nothing else.
    let text = unsafe { std::mem::transmute::<*mut c_void, GetVersion>(function)() };
    if text.is_null() {
        return None;
    }
    // SAFETY: a text of Python's that stays, and ends in a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Some((text.split_whitespace().next()?.to_owned(), function.addr()))
}

/// The minor version of Python 3.
pub fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("3.")?;
    rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_pythons_text() {
        for (text, expected) in
            [("3.11.2", Some(11)), ("3.15.0a1+", Some(15)), ("3.9", Some(9)), ("2.7.18", None)]
        {
            assert_eq!(minor(text), expected, "{text}");
        }
    }
}
