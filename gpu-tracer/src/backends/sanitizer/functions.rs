//! The functions of `libsanitizer-public.so`, found in the file that the user or the launcher
//! names; nothing is linked.

use super::abi::{Callback, Status};
use crate::generated::sanitizer::{Sanitizer_InstructionId, Sanitizer_LaunchHandle, Sanitizer_StreamHandle};
use crate::process::driver::{Handle, symbol};
use cudarc::driver::sys::CUfunction;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

macro_rules! functions {
    ($($field:ident = $name:literal : fn($($argument:ty),*);)*) => {
        /// The functions; all of them return a status.
        #[allow(missing_docs)] // each is named as NVIDIA's headers document it
        pub struct Functions { $(pub $field: unsafe extern "C" fn($($argument),*) -> Status,)* }

        impl Functions {
            /// Looks all of them up; the error names one that is missing.
            ///
            /// # Safety
            /// `library` is open, and is not closed.
            unsafe fn find(library: *mut c_void) -> Result<Functions, String> {
                Ok(Functions { $($field: {
                    // SAFETY: the caller says that the library is open.
                    let address = unsafe { symbol(library, $name) }
                        .ok_or_else(|| format!("it has no {}", $name.to_string_lossy()))?;
                    // SAFETY: the function of that name has this type in NVIDIA's headers.
                    unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> Status>(address)
                    }
                },)* })
            }
        }
    };
}

functions! {
    subscribe = c"sanitizerSubscribe": fn(*mut Handle, Callback, *mut c_void);
    enable_callback = c"sanitizerEnableCallback": fn(u32, Handle, u32, u32);
    enable_domain = c"sanitizerEnableDomain": fn(u32, Handle, u32);
    add_patches = c"sanitizerAddPatchesFromFile": fn(*const c_char, Handle);
    patch_instructions = c"sanitizerPatchInstructions": fn(Sanitizer_InstructionId, Handle, *const c_char);
    patch_module = c"sanitizerPatchModule": fn(Handle);
    unpatch_module = c"sanitizerUnpatchModule": fn(Handle);
    set_launch_data = c"sanitizerSetLaunchCallbackData": fn(Sanitizer_LaunchHandle, CUfunction, Sanitizer_StreamHandle, *const c_void);
    function = c"sanitizerGetFunctionPcAndSize": fn(Handle, *const c_char, *mut u64, *mut u64);
    stream_handle = c"sanitizerGetStreamHandle": fn(Handle, Handle, *mut Handle);
    stream_wait = c"sanitizerStreamSynchronize": fn(Handle);
    alloc = c"sanitizerAlloc": fn(Handle, *mut *mut c_void, usize);
    write = c"sanitizerMemcpyHostToDeviceAsync": fn(*mut c_void, *const c_void, usize, Handle);
    read = c"sanitizerMemcpyDeviceToHost": fn(*mut c_void, *const c_void, usize, Handle);
    set = c"sanitizerMemset": fn(*mut c_void, c_int, usize, Handle);
}

impl Functions {
    /// Loads the library.
    pub fn load(path: &Path) -> Result<Functions, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its name has a zero".to_owned())?;
        // SAFETY: the name ends in a zero. The library's constructors are NVIDIA's.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(last_error());
        }
        // SAFETY: the library was just opened, and is not closed.
        unsafe { Functions::find(library) }
    }
}

fn last_error() -> String {
    // SAFETY: the text, if any, is the loader's until the next call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the loader does not say why".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}
