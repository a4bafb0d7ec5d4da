//! The functions of CUPTI's library, which is looked for at run time; nothing is linked.

use super::abi::{Callback, Status};
use crate::process::driver::{Handle, symbol};
use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The libraries' names, the newest first.
const NAMES: [&CStr; 2] = [c"libcupti.so.13", c"libcupti.so.12"];

type Subscribe = unsafe extern "C" fn(*mut Handle, Callback, *mut c_void) -> Status;
type Enable = unsafe extern "C" fn(u32, Handle, u32, u32) -> Status;
type Unsubscribe = unsafe extern "C" fn(Handle) -> Status;

/// The functions.
pub struct Functions {
    /// `cuptiSubscribe`
    pub subscribe: Subscribe,
    /// `cuptiEnableCallback`
    pub enable_callback: Enable,
    /// `cuptiUnsubscribe`
    pub unsubscribe: Unsubscribe,
}

impl Functions {
    /// Loads the library: the one that the process has already, so that there are not two of them;
    /// else the one at the path, or one that the dynamic linker finds.
    pub fn load(path: Option<&Path>) -> Result<Functions, String> {
        let open = |name: &CStr, flags: i32| {
            // SAFETY: the name ends in a zero. The library's constructors, which run if it was not
            // there, are NVIDIA's.
            let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
            (!library.is_null()).then_some(library)
        };
        let loaded = NAMES.iter().find_map(|name| open(name, libc::RTLD_NOLOAD));
        let given = |path: &Path| {
            let name =
                CString::new(path.as_os_str().as_bytes()).map_err(|_| "its name has a zero".to_owned())?;
            open(&name, 0).ok_or_else(|| format!("{} cannot be loaded: {}", path.display(), last_error()))
        };
        let library = match (loaded, path) {
            (Some(library), _) => library,
            (None, Some(path)) => given(path)?,
            (None, None) => NAMES.iter().find_map(|name| open(name, 0)).ok_or_else(|| {
                "libcupti.so.13 or .12 is not below CUDA_HOME or /usr/local/cuda, nor among Python's packages; name it with \
                 --gpu-cupti"
                    .to_owned()
            })?,
        };
        let find = |name: &CStr| {
            // SAFETY: the library was just opened, and is not closed.
            unsafe { symbol(library, name) }.ok_or_else(|| format!("CUPTI has no {}", name.to_string_lossy()))
        };
        let [subscribe, enable, unsubscribe] =
            [find(c"cuptiSubscribe")?, find(c"cuptiEnableCallback")?, find(c"cuptiUnsubscribe")?];
        // SAFETY: the functions of these names have these types in NVIDIA's headers.
        Ok(unsafe {
            Functions {
                subscribe: transmute::<*mut c_void, Subscribe>(subscribe),
                enable_callback: transmute::<*mut c_void, Enable>(enable),
                unsubscribe: transmute::<*mut c_void, Unsubscribe>(unsubscribe),
            }
        })
    }
}

fn last_error() -> String {
    // SAFETY: the message, if there is one, ends in a zero.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: the message ends in a zero, and stays until the next call of the loader by this
    // thread.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}
