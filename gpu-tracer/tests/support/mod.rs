//! The device's part of the tracer, compiled by the host's C compiler and loaded.

#![allow(dead_code)] // each test uses a part

use mpisee_gpu::layout::Launch;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Command;

/// Compiles C sources of this crate, with warnings as errors.
pub fn build(sources: &[&str], to: &Path, options: &[&str]) {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-g", "-o"])
        .arg(to)
        .args(sources.iter().map(|source| crate_root.join(source)))
        .args(options)
        .status()
        .expect("a C compiler, cc or the one in CC, is needed");
    assert!(status.success(), "{sources:?} do not compile");
}

type Access = unsafe extern "C" fn(*const Launch, u64, *const u64, u32, u32, u32, u64);
type Bulk = unsafe extern "C" fn(*const Launch, u64, u64, u64, u32);

/// The functions of `device/host.c`.
pub struct Core {
    access: Access,
    bulk: Bulk,
    width: unsafe extern "C" fn(u32) -> u32,
    layout: unsafe extern "C" fn(u32) -> u64,
}

impl Core {
    /// Compiles and loads them.
    pub fn load() -> Core {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libdevice.so");
        build(&["device/host.c"], &library, &["-shared", "-fPIC"]);
        let name = CString::new(library.to_str().expect("a path of the project")).unwrap();
        // SAFETY: the name ends in a zero; the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} cannot be loaded", library.display());
        let symbol = |name: &std::ffi::CStr| -> *mut c_void {
            // SAFETY: the handle is a loaded library, the name ends in a zero.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!address.is_null(), "{name:?} is missing");
            address
        };
        // SAFETY: the types are those of the functions in device/host.c.
        unsafe {
            Core {
                access: std::mem::transmute::<*mut c_void, Access>(symbol(c"mp_host_access")),
                bulk: std::mem::transmute::<*mut c_void, Bulk>(symbol(c"mp_host_bulk")),
                width: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32) -> u32>(symbol(
                    c"mp_host_width",
                )),
                layout: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u32) -> u64>(symbol(
                    c"mp_host_layout",
                )),
            }
        }
    }

    /// A warp's access. The launch's pointers must hold.
    #[allow(clippy::too_many_arguments)] // those of the C function
    pub fn access(
        &self,
        launch: &Launch,
        pc: u64,
        address: &[u64],
        active: u32,
        bytes: u32,
        kind: u32,
        seed: u64,
    ) {
        assert_eq!(address.len(), 32);
        // SAFETY: 32 addresses, and tests keep what the launch points to.
        unsafe { (self.access)(launch, pc, address.as_ptr(), active, bytes, kind, seed) }
    }

    /// A warp's bulk copy.
    pub fn bulk(&self, launch: &Launch, pc: u64, address: u64, bytes: u64, kind: u32) {
        // SAFETY: tests keep what the launch points to.
        unsafe { (self.bulk)(launch, pc, address, bytes, kind) }
    }

    /// The code of a width.
    pub fn width(&self, bytes: u32) -> u32 {
        // SAFETY: a function of a number.
        unsafe { (self.width)(bytes) }
    }

    /// A size or an offset.
    pub fn layout(&self, index: u32) -> u64 {
        // SAFETY: a function of a number.
        unsafe { (self.layout)(index) }
    }
}
