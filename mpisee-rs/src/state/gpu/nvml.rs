//! NVLinks of a GPU, by NVIDIA's management library, where the program has loaded and initialised
//! it, as NCCL does. Types and constants are those of nvml-wrapper-sys, whose own functions load
//! the library.

use crate::binaries::apart;
use crate::binaries::library::{self, Functions, function};
use mpisee_collect::process::gpu::{MOST_NVLINKS, kernel_address};
use mpisee_in_process::symbols::{LoadedObject, find_object};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEnableState_enum_NVML_FEATURE_DISABLED as NVML_FEATURE_DISABLED, nvmlEnableState_t,
    nvmlPciInfo_t, nvmlReturn_enum_NVML_SUCCESS as NVML_SUCCESS, nvmlReturn_t,
};
use std::ffi::{CStr, CString, c_char, c_uint};
use std::mem::MaybeUninit;
use std::ptr;

type GetHandle = unsafe extern "C" fn(*const c_char, *mut nvmlDevice_t) -> nvmlReturn_t;
type GetState = unsafe extern "C" fn(nvmlDevice_t, c_uint, *mut nvmlEnableState_t) -> nvmlReturn_t;
type GetRemote = unsafe extern "C" fn(nvmlDevice_t, c_uint, *mut nvmlPciInfo_t) -> nvmlReturn_t;

/// The begin of the file's name.
const FILE: &[u8] = b"libnvidia-ml.so";
/// The library, once it was found.
static NVML: Functions<Nvml> = Functions::new();

/// The library, with what is asked of it.
pub struct Nvml {
    get_handle: GetHandle,
    get_state: GetState,
    get_remote: GetRemote,
}

impl Nvml {
    /// The library, if the program has loaded it.
    pub fn loaded() -> Option<&'static Nvml> {
        let is_there = || find_object(|object| object.file_name().starts_with(FILE).then_some(())).is_some();
        if NVML.get().is_none() && is_there() {
            apart::run(Nvml::look);
        }
        NVML.get()
    }

    fn look() {
        // SAFETY: the functions have these types in nvml.h.
        let of = |library: LoadedObject<'_>| unsafe {
            Some(Nvml {
                get_handle: function(library, c"nvmlDeviceGetHandleByPciBusId_v2")?,
                get_state: function(library, c"nvmlDeviceGetNvLinkState")?,
                get_remote: function(library, c"nvmlDeviceGetNvLinkRemotePciInfo_v2")?,
            })
        };
        library::keep(|file| file.starts_with(FILE)).into_iter().find_map(|library| NVML.take(library, of));
    }

    /// The PCI addresses of what the active NVLinks of a GPU lead to, a switch or a GPU; empty
    /// where that is unknown of one. `None` if the program has not initialised the library, or the
    /// GPU has no such links.
    pub fn remotes(&self, pci_address: &str) -> Option<Vec<String>> {
        let address = CString::new(pci_address).ok()?;
        let mut device: nvmlDevice_t = ptr::null_mut();
        // SAFETY: the text ends in a zero, and a handle is written. Before the library is
        // initialised the call fails.
        if unsafe { (self.get_handle)(address.as_ptr(), &raw mut device) } != NVML_SUCCESS {
            return None;
        }
        let mut has_links = false;
        let mut remotes = Vec::new();
        for link in 0..MOST_NVLINKS {
            let mut is_active = NVML_FEATURE_DISABLED;
            // SAFETY: the handle is of this library, and a number is written.
            if unsafe { (self.get_state)(device, link, &raw mut is_active) } != NVML_SUCCESS {
                continue;
            }
            has_links = true;
            if is_active != NVML_FEATURE_DISABLED {
                remotes.push(self.remote(device, link));
            }
        }
        has_links.then_some(remotes)
    }

    fn remote(&self, device: nvmlDevice_t, link: c_uint) -> String {
        let mut about = MaybeUninit::<nvmlPciInfo_t>::zeroed();
        // SAFETY: the handle is of this library, and this version of the function writes this
        // structure, of numbers alone, which may all be zero.
        let (status, about) =
            unsafe { ((self.get_remote)(device, link, about.as_mut_ptr()), about.assume_init()) };
        match CStr::from_bytes_until_nul(&about.busId.map(|byte| byte as u8)) {
            Ok(text) if status == NVML_SUCCESS => kernel_address(&text.to_string_lossy()),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvml_wrapper_sys::bindings::{
        nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as NVML_ERROR_INVALID_ARGUMENT,
        nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NVML_ERROR_NOT_SUPPORTED,
    };

    unsafe extern "C" fn handle(_: *const c_char, handle: *mut nvmlDevice_t) -> nvmlReturn_t {
        // SAFETY: there is room for it.
        unsafe { handle.write(ptr::without_provenance_mut(7)) };
        NVML_SUCCESS
    }

    /// Links 0 to 3, of which the last is not active.
    unsafe extern "C" fn state(
        device: nvmlDevice_t,
        link: c_uint,
        is_active: *mut nvmlEnableState_t,
    ) -> nvmlReturn_t {
        assert_eq!(device.addr(), 7);
        // SAFETY: there is room for it.
        unsafe { is_active.write(c_uint::from(link < 3)) };
        if link < 4 { NVML_SUCCESS } else { NVML_ERROR_INVALID_ARGUMENT }
    }

    unsafe extern "C" fn remote(_: nvmlDevice_t, link: c_uint, about: *mut nvmlPciInfo_t) -> nvmlReturn_t {
        if link == 1 {
            return NVML_ERROR_NOT_SUPPORTED;
        }
        // SAFETY: there is room for it, and it is zero.
        let bus_id = unsafe { &mut (*about).busId };
        bus_id.iter_mut().zip(c"00000000:AB:00.0".to_bytes()).for_each(|(to, &byte)| *to = byte as c_char);
        NVML_SUCCESS
    }

    #[test]
    fn active_links_are_listed_by_what_they_lead_to() {
        let nvml = Nvml { get_handle: handle, get_state: state, get_remote: remote };
        assert_eq!(nvml.remotes("0000:17:00.0").unwrap(), ["0000:ab:00.0", "", "0000:ab:00.0"]);
        assert!(Nvml::loaded().is_none());
    }
}
