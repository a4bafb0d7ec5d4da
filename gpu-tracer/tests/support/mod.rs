//! The device's part of the tracer, compiled by the host's C compiler and loaded.

#![allow(dead_code)] // each test uses a part

pub mod stage;

use mpisee_gpu::device::layout::Launch;
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// For the linker: libraries are in the folder of the program.
pub const BESIDE: &str = "-Wl,-rpath,$ORIGIN";

/// Compiles C sources of this crate, with warnings as errors.
pub fn build(sources: &[&str], to: &Path, options: &[&str]) {
    compile(("CC", "cc"), "-std=gnu11", sources, to, options);
}

/// The same for C++: a library, with the fake NVBit.
pub fn build_cpp(sources: &[&str], to: &Path, options: &[&str]) {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = |folder: &str| format!("-I{}", crate_root.join(folder).display());
    let folders = ["tests/fake/nvbit", "tests/fake", "nvbit"].map(include);
    let folders = folders.iter().map(String::as_str).chain(["-shared", "-fPIC"]);
    let options: Vec<&str> = folders.chain(options.iter().copied()).collect();
    compile(("CXX", "c++"), "-std=c++17", sources, to, &options);
}

/// The fake driver, `tests/fake/cuda`, with what `further` adds to it.
pub fn build_driver(to: &Path, further: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/cuda");
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let own: Vec<String> =
        files.filter(|name| name.ends_with(".c")).map(|name| format!("tests/fake/cuda/{name}")).collect();
    let sources: Vec<&str> = own.iter().map(String::as_str).chain(further.iter().copied()).collect();
    build(&sources, to, &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]);
}

/// The compiled files, by compiler and arguments without the folder.
static COMPILED: Mutex<BTreeMap<Vec<String>, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());

/// Compiles once for all tests. The result does not depend on the folder: libraries of it are found
/// by [`BESIDE`].
fn compile(
    (variable, compiler): (&str, &str),
    standard: &str,
    sources: &[&str],
    to: &Path,
    options: &[&str],
) {
    let folder = to.parent().expect("a file in a folder").display().to_string();
    let key = [&compiler, &standard].into_iter().chain(sources).map(|word| (*word).to_owned());
    let key = key.chain(options.iter().map(|option| option.replace(&folder, ""))).collect();
    let slot = Arc::clone(COMPILED.lock().unwrap().entry(key).or_default());
    let compiled = slot.get_or_init(|| {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let kept = compiled_folder().join(NUMBER.fetch_add(1, Ordering::Relaxed).to_string());
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = Command::new(std::env::var_os(variable).unwrap_or_else(|| compiler.into()))
            .args([standard, "-Wall", "-Wextra", "-Werror", "-O2", "-g", "-o"])
            .arg(&kept)
            .args(sources.iter().map(|source| crate_root.join(source)))
            .args(options)
            .status()
            .unwrap_or_else(|error| panic!("{compiler} is needed, or the one in {variable}: {error}"));
        assert!(status.success(), "{sources:?} do not compile");
        kept
    });
    // By another process: a file that this one has open for writing cannot be run by a child of
    // another thread.
    assert!(Command::new("cp").arg(compiled).arg(to).status().unwrap().success());
}

/// A folder for what this process compiles. An earlier process with the same program has left its
/// own there.
fn compiled_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program.file_name().unwrap());
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        folder
    })
}

/// The library that was built with these tests.
pub fn tracer() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let places = [deps.join("libmpisee_gpu.so"), deps.join("../libmpisee_gpu.so")];
    let newest = places
        .into_iter()
        .filter(|it| it.is_file())
        .max_by_key(|it| it.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the library before its tests")
}

type Access = unsafe extern "C" fn(*const Launch, u64, *const u64, u32, u32, u32, u64);
type Bulk = unsafe extern "C" fn(*const Launch, u64, u64, u64, u32);

/// The functions of `device/host.c`.
pub struct Core {
    access: Access,
    bulk: Bulk,
    width: unsafe extern "C" fn(u32) -> u32,
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
}
