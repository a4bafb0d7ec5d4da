//! Queries to NVSHMEM, where the program has it: which PE a process is, and where memory of others is. It is
//! never loaded here, nor linked.
//!
//! `nvshmem_my_pe` and `nvshmemx_init_status` read a number, and may be called at any time by any thread. `nvshmem_ptr` reads what
//! `nvshmem_finalize` frees before it says that NVSHMEM is no longer initialised, so that it must not be called while the
//! driver reports a call: that may be one of `nvshmem_finalize`, in this thread or another. It is called when the program
//! names memory that NVSHMEM made, and only of an address that it names. That is memory of the program, which it does not
//! free meanwhile.

use crate::process::driver::symbol;
use std::ffi::{CStr, c_int, c_void};

/// Begin of its file's name.
pub const NAME: &str = "libnvshmem_host";
/// Its names for the loader.
const NAMES: [&CStr; 2] = [c"libnvshmem_host.so.3", c"libnvshmem_host.so.2"];
/// `NVSHMEM_STATUS_IS_INITIALIZED`; what is more says that several PEs share a device.
const INITIALIZED: c_int = 2;
/// `NVSHMEM_STATUS_FULL_MPG`
const LAST: c_int = 4;

/// The answer to the query for a process's PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This one.
    Pe(u32),
    /// There is no NVSHMEM.
    NotThere,
    /// It is not initialised yet.
    NotYet,
}

/// Memory that every PE has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symmetric {
    /// The PE that this process is.
    pub own: u32,
    /// Its places on other PEs, as far as they are within reach.
    pub peers: Vec<Peer>,
}

/// A PE's copy of symmetric memory, as it is mapped in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The PE.
    pub pe: u32,
    /// The address, in this process.
    pub address: u64,
}

/// The library, which stays loaded as long as this is there.
struct Library(*mut c_void);

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the library was opened once more.
        unsafe { libc::dlclose(self.0) };
    }
}

impl Library {
    fn find() -> Option<Library> {
        // SAFETY: the names end in a zero, and nothing is loaded.
        let open = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        NAMES.into_iter().map(open).find(|it| !it.is_null()).map(Library)
    }

    /// Calls a function that returns a number.
    fn number(&self, name: &CStr) -> Option<c_int> {
        let address = symbol(self.0, name)?;
        // SAFETY: the function of that name has this type in nvshmem_api.h.
        let function =
            unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(address) };
        // SAFETY: it may be called at any time.
        Some(unsafe { function() })
    }

    fn is_initialized(&self) -> bool {
        self.number(c"nvshmemx_init_status").is_some_and(|it| (INITIALIZED..=LAST).contains(&it))
    }

    fn own_pe(&self) -> Option<u32> {
        u32::try_from(self.number(c"nvshmem_my_pe")?).ok()
    }
}

/// The PE of this process.
pub fn own_pe() -> Asked {
    let Some(library) = Library::find() else { return Asked::NotThere };
    if library.is_initialized() { library.own_pe().map_or(Asked::NotThere, Asked::Pe) } else { Asked::NotYet }
}

/// The addresses of the same memory on other PEs; `None` if it is not NVSHMEM's. To be called for memory that NVSHMEM made, by
/// the program's thread, in a call by which the program says that it has that memory.
pub fn symmetric(begin: u64, bytes: u64) -> Option<Symmetric> {
    type Pointer = unsafe extern "C" fn(*const c_void, c_int) -> *const c_void;
    let library = Library::find().filter(Library::is_initialized)?;
    let (own, count) = (library.own_pe()?, library.number(c"nvshmem_n_pes")?);
    // SAFETY: the function of that name has this type in nvshmem_api.h.
    let pointer = unsafe { std::mem::transmute::<*mut c_void, Pointer>(symbol(library.0, c"nvshmem_ptr")?) };
    let last = begin.checked_add(bytes.checked_sub(1)?)?;
    let at = |address: u64, pe: u32| {
        let address = std::ptr::without_provenance::<c_void>(address as usize);
        // SAFETY: any address may be passed while NVSHMEM has the memory, see above.
        let found = unsafe { pointer(address, c_int::try_from(pe).ok()?) };
        (!found.is_null()).then(|| found.addr() as u64)
    };
    if at(begin, own) != Some(begin) || at(last, own) != Some(last) {
        return None;
    }
    let peer = |pe: u32| {
        let address = at(begin, pe).filter(|it| pe != own && at(last, pe) == it.checked_add(bytes - 1))?;
        Some(Peer { pe, address })
    };
    Some(Symmetric { own, peers: (0..u32::try_from(count).ok()?).filter_map(peer).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::path::PathBuf;

    /// NVIDIA's library is loaded if NVSHMEM_HOME names one; without a GPU it stays uninitialised.
    #[test]
    fn uninitialised_library_gets_no_further_query() {
        assert_eq!((own_pe(), symmetric(0x1000, 64)), (Asked::NotThere, None));
        let Some(home) = std::env::var_os("NVSHMEM_HOME").map(PathBuf::from) else { return };
        let path = home.join("lib/libnvshmem_host.so.3");
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name ends in a zero.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{} is not loaded", path.display());
        for function in [c"nvshmemx_init_status", c"nvshmem_my_pe", c"nvshmem_n_pes", c"nvshmem_ptr"] {
            assert!(symbol(library, function).is_some(), "{function:?}");
        }
        assert_eq!((own_pe(), symmetric(0x1000, 64)), (Asked::NotYet, None));
    }
}
