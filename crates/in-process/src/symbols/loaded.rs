//! The objects that the loader has mapped: the program and its libraries.

use crate::guards::signals;
use std::ffi::{CStr, c_int, c_void};
use std::slice;

/// The program or a library, while the loader shows it.
#[derive(Clone, Copy)]
pub struct LoadedObject<'a>(&'a libc::dl_phdr_info);

impl<'a> LoadedObject<'a> {
    /// The file as the loader names it; empty for the program.
    pub fn name(self) -> &'a CStr {
        if self.0.dlpi_name.is_null() {
            return c"";
        }
        // SAFETY: the loader's names end in a zero, and stay while it shows the object.
        unsafe { CStr::from_ptr(self.0.dlpi_name) }
    }

    /// The file's name without its folder.
    pub fn file_name(self) -> &'a [u8] {
        self.name().to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    /// The program headers.
    pub fn headers(self) -> &'a [libc::Elf64_Phdr] {
        if self.0.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader's array has that many headers, and stays while it shows the object.
        unsafe { slice::from_raw_parts(self.0.dlpi_phdr, usize::from(self.0.dlpi_phnum)) }
    }

    /// Returns whether an address is in it.
    pub fn has(self, address: usize) -> bool {
        let offset = (address as u64).wrapping_sub(self.bias());
        let mut loaded = self.headers().iter().filter(|header| header.p_type == libc::PT_LOAD);
        loaded.any(|header| offset.wrapping_sub(header.p_vaddr) < header.p_memsz)
    }

    /// Added to addresses in the file, it gives those in memory.
    pub fn bias(self) -> u64 {
        self.0.dlpi_addr
    }

    /// How many objects were loaded and unloaded in this process so far.
    pub fn changes(self) -> (u64, u64) {
        (self.0.dlpi_adds, self.0.dlpi_subs)
    }
}

/// Looks at each object that is loaded, the program first, until there is an answer.
///
/// The loader's lock is held meanwhile. The program's allocator may list the objects as well, with
/// its own lock held, so nothing may be allocated or freed. A signal's handler that jumps out of
/// here would keep the lock for good, so that none is handled.
pub fn find_object<T, F: FnMut(LoadedObject) -> Option<T>>(look: F) -> Option<T> {
    struct Search<T, F> {
        look: F,
        answer: Option<T>,
    }
    unsafe extern "C" fn show<T, F: FnMut(LoadedObject) -> Option<T>>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr passes a description that is valid during the call, and the
        // pointer that it was given below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<T, F>>()) };
        search.answer = (search.look)(LoadedObject(info));
        c_int::from(search.answer.is_some())
    }
    let mut search = Search { look, answer: None };
    let _held = signals::hold_all([]);
    // SAFETY: the function is of the kind that dl_iterate_phdr documents, and `search` outlives the
    // call.
    unsafe { libc::dl_iterate_phdr(Some(show::<T, F>), (&raw mut search).cast()) };
    search.answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_comes_first_and_libraries_have_names() {
        let (mut names, mut own) = (0, None);
        let here = the_program_comes_first_and_libraries_have_names as *const () as usize;
        let end: Option<()> = find_object(|object| {
            if object.has(here) {
                own = Some(names);
            }
            names += 1;
            None
        });
        assert!(end.is_none() && own == Some(0) && names > 1);
        let libc = find_object(|object| object.file_name().starts_with(b"libc.so").then(|| object.changes()));
        assert!(libc.is_some_and(|(loaded, unloaded)| loaded > unloaded));
    }

    #[test]
    fn signals_wait_until_all_have_been_shown() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static HANDLED: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handle(_signal: c_int) {
            HANDLED.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: the handler only counts, and no other test uses this signal.
        unsafe { libc::signal(libc::SIGUSR2, handle as *const () as libc::sighandler_t) };
        let raise = || {
            // SAFETY: the signal has a handler.
            unsafe { libc::raise(libc::SIGUSR2) };
            HANDLED.load(Ordering::SeqCst)
        };
        assert_eq!(find_object(|_| Some(raise())), Some(0));
        assert_eq!(HANDLED.load(Ordering::SeqCst), 1);
        assert_eq!(raise(), 2);
    }
}
