//! Queries to NVSHMEM, where the program has it: which PE a process is, and where memory of others
//! is. It is never loaded here, nor linked.
//!
//! `nvshmem_my_pe` and `nvshmemx_init_status` read a number, and may be called at any time by any
//! thread. `nvshmem_ptr` reads what `nvshmem_finalize` frees before it says that NVSHMEM is no
//! longer initialised, so that it must not be called while the driver reports a call: that may be
//! one of `nvshmem_finalize`, in this thread or another. It is called when the program names memory
//! that NVSHMEM made, and only of an address that it names. That is memory of the program, which it
//! does not free meanwhile.

use crate::process::driver::symbol;
use mpisee_in_process::symbols::find_object;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

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

type Number = unsafe extern "C" fn() -> c_int;
type Pointer = unsafe extern "C" fn(*const c_void, c_int) -> *const c_void;

/// The library, which stays loaded from then on.
struct Library {
    status: Number,
    own_pe: Number,
    count: Number,
    pointer: Pointer,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Looks for NVSHMEM as the tracer starts, so that later calls need not, which may be made while a
/// thread has the loader's lock and waits.
pub fn look() {
    Library::find();
}

impl Library {
    /// The library, if it is loaded. Its constructors have run by then: `dlopen` waits for these.
    fn find() -> Option<&'static Library> {
        if let Some(library) = LIBRARY.get() {
            return Some(library);
        }
        // Without NVSHMEM the loader's lock is not taken.
        let name =
            find_object(|object| NAMES.into_iter().find(|name| object.file_name() == name.to_bytes()))?;
        // SAFETY: the name ends in a zero, and nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle was just opened.
        let Some(library) = (unsafe { Library::from_handle(handle) }) else {
            // SAFETY: the handle was just opened, and is not used again.
            unsafe { libc::dlclose(handle) };
            return None;
        };
        // Another thread may have been first.
        let _ = LIBRARY.set(library);
        LIBRARY.get()
    }

    /// # Safety
    /// The handle is open.
    unsafe fn from_handle(handle: *mut c_void) -> Option<Library> {
        // SAFETY: the handle is open; the functions of these names have these types in
        // nvshmem_api.h.
        unsafe {
            let number = |name: &CStr| Some(transmute::<*mut c_void, Number>(symbol(handle, name)?));
            Some(Library {
                status: number(c"nvshmemx_init_status")?,
                own_pe: number(c"nvshmem_my_pe")?,
                count: number(c"nvshmem_n_pes")?,
                pointer: transmute::<*mut c_void, Pointer>(symbol(handle, c"nvshmem_ptr")?),
            })
        }
    }

    fn is_initialized(&self) -> bool {
        // SAFETY: it may be called at any time.
        (INITIALIZED..=LAST).contains(&unsafe { (self.status)() })
    }

    fn own_pe(&self) -> Option<u32> {
        // SAFETY: it may be called at any time.
        u32::try_from(unsafe { (self.own_pe)() }).ok()
    }
}

/// The PE of this process.
pub fn own_pe() -> Asked {
    let Some(library) = Library::find() else { return Asked::NotThere };
    if library.is_initialized() { library.own_pe().map_or(Asked::NotThere, Asked::Pe) } else { Asked::NotYet }
}

/// The addresses of the same memory on other PEs; `None` if it is not NVSHMEM's. To be called for
/// memory that NVSHMEM made, by the program's thread, in a call by which the program says that it
/// has that memory.
pub fn symmetric(begin: u64, bytes: u64) -> Option<Symmetric> {
    let library = Library::find().filter(|it| it.is_initialized())?;
    // SAFETY: it may be called while NVSHMEM is initialised.
    let (own, count) = (library.own_pe()?, unsafe { (library.count)() });
    let last = begin.checked_add(bytes.checked_sub(1)?)?;
    let at = |address: u64, pe: u32| {
        let address = std::ptr::without_provenance::<c_void>(address as usize);
        // SAFETY: any address may be passed while NVSHMEM has the memory, see above.
        let found = unsafe { (library.pointer)(address, c_int::try_from(pe).ok()?) };
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
            // SAFETY: the library is open.
            assert!(unsafe { symbol(library, function) }.is_some(), "{function:?}");
        }
        assert_eq!((own_pe(), symmetric(0x1000, 64)), (Asked::NotYet, None));
    }
}
