//! NVLinks of a GPU, by NVIDIA's management library, where the program has loaded and initialised it, as NCCL does.

use crate::binaries::objects;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

/// NVLinks of a GPU, at most.
const MOST_LINKS: c_uint = 36;
/// `nvmlPciInfo_t` with room for what later versions may add, and where in it the address is.
type PciInfo = [u8; 256];
const BUS_ID: usize = 36;

type GetHandle = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type GetState = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int;
type GetRemote = unsafe extern "C" fn(*mut c_void, c_uint, *mut PciInfo) -> c_int;

/// The library, with what is asked of it.
pub struct Nvml {
    get_handle: GetHandle,
    get_state: GetState,
    get_remote: GetRemote,
}

impl Nvml {
    /// The library, if the program has loaded it. It stays loaded.
    pub fn loaded() -> Option<Nvml> {
        // The loader itself would look for a library that is not there in all of its folders.
        objects::named(|file| file.starts_with(b"libnvidia-ml.so"))?;
        // SAFETY: the name ends in a zero, and nothing is loaded.
        let library =
            unsafe { libc::dlopen(c"libnvidia-ml.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is loaded, and stays so with the handle; the name ends in a zero.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        let handle = symbol(c"nvmlDeviceGetHandleByPciBusId_v2")?;
        let state = symbol(c"nvmlDeviceGetNvLinkState")?;
        let remote = symbol(c"nvmlDeviceGetNvLinkRemotePciInfo_v2")?;
        // SAFETY: the functions have these types in nvml.h.
        unsafe {
            Some(Nvml {
                get_handle: std::mem::transmute::<*mut c_void, GetHandle>(handle),
                get_state: std::mem::transmute::<*mut c_void, GetState>(state),
                get_remote: std::mem::transmute::<*mut c_void, GetRemote>(remote),
            })
        }
    }

    /// The PCI addresses of what the active NVLinks of a GPU lead to, a switch or a GPU; empty where that is unknown of one. `None`
    /// if the program has not initialised the library, or the GPU has no such links.
    pub fn remotes(&self, pci_address: &str) -> Option<Vec<String>> {
        let address = CString::new(pci_address).ok()?;
        let mut device = ptr::null_mut();
        // SAFETY: the text ends in a zero, and a handle is written. Before the library is initialised the call fails.
        if unsafe { (self.get_handle)(address.as_ptr(), &raw mut device) } != 0 {
            return None;
        }
        let mut has_links = false;
        let mut remotes = Vec::new();
        for link in 0..MOST_LINKS {
            let mut is_active = 0;
            // SAFETY: the handle is of this library, and a number is written.
            if unsafe { (self.get_state)(device, link, &raw mut is_active) } != 0 {
                continue;
            }
            has_links = true;
            if is_active != 0 {
                remotes.push(self.remote(device, link));
            }
        }
        has_links.then_some(remotes)
    }

    fn remote(&self, device: *mut c_void, link: c_uint) -> String {
        let mut about: PciInfo = [0; 256];
        // SAFETY: the handle is of this library, and there is room for more than the 68 bytes that are written.
        let status = unsafe { (self.get_remote)(device, link, &raw mut about) };
        match CStr::from_bytes_until_nul(&about[BUS_ID..]) {
            Ok(text) if status == 0 => kernel_address(&text.to_string_lossy()),
            _ => String::new(),
        }
    }
}

/// As the kernel writes it: `0000:17:00.0` of `00000000:17:00.0`.
fn kernel_address(bus_id: &str) -> String {
    let bus_id = bus_id.to_lowercase();
    match bus_id.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => bus_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn handle(_: *const c_char, handle: *mut *mut c_void) -> c_int {
        // SAFETY: there is room for it.
        unsafe { handle.write(ptr::without_provenance_mut(7)) };
        0
    }

    /// Links 0 to 3, of which the last is not active.
    unsafe extern "C" fn state(device: *mut c_void, link: c_uint, is_active: *mut c_uint) -> c_int {
        assert_eq!(device.addr(), 7);
        // SAFETY: there is room for it.
        unsafe { is_active.write(c_uint::from(link < 3)) };
        if link < 4 { 0 } else { 2 }
    }

    unsafe extern "C" fn remote(_: *mut c_void, link: c_uint, about: *mut PciInfo) -> c_int {
        if link == 1 {
            return 3;
        }
        // SAFETY: there is room for it.
        unsafe { (&mut *about)[BUS_ID..BUS_ID + 16].copy_from_slice(b"00000000:AB:00.0") };
        0
    }

    #[test]
    fn active_links_are_listed_by_what_they_lead_to() {
        let nvml = Nvml { get_handle: handle, get_state: state, get_remote: remote };
        assert_eq!(nvml.remotes("0000:17:00.0").unwrap(), ["0000:ab:00.0", "", "0000:ab:00.0"]);
        assert!(Nvml::loaded().is_none());
    }
}
