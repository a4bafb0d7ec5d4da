//! `--gpu`: whether what GPU kernels access can be counted here, and what the program's environment needs for it.

use mpisee_profile::options::Options;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

/// The tracer, in a folder beside the flavours.
const LIBRARY: &str = "gpu/libmpisee_gpu.so";
/// What of it runs on the GPU, which is there if the installation was made with CUDA's compiler.
const PATCHES: &str = "gpu/patches.fatbin";
/// By which CUDA's driver is told what to load when a program initialises it.
const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// Where the Sanitizer is below the root of a CUDA toolkit, and of the packages that Python's index has.
const SANITIZER: [&str; 3] = [
    "compute-sanitizer/libsanitizer-public.so",
    "extras/compute-sanitizer/libsanitizer-public.so",
    "lib/libsanitizer-public.so",
];

/// What this process is asked to do about GPUs.
pub struct Asked<'a> {
    /// The folder of the flavours.
    pub folder: &'a Path,
    /// The profiler's options, as they will be read.
    pub options: &'a Options,
    /// The variables of this process.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Asked<'_> {
    /// The variables for the program; or why kernels cannot be traced, as the end of a sentence.
    pub fn prepare(&self) -> Result<Vec<(&'static str, String)>, String> {
        let (library, patches) = (self.folder.join(LIBRARY), self.folder.join(PATCHES));
        if let Some(missing) = [&library, &patches].into_iter().find(|it| !it.is_file()) {
            return Err(format!(
                "there is no {}, which `cargo xtask dist` makes where it finds CUDA's compiler (CUDA_HOME)",
                missing.display()
            ));
        }
        if let Some(other) = (self.variable)(INJECTION).filter(|it| Path::new(it) != library) {
            return Err(format!("another tool is to be loaded, {other} ({INJECTION} is set)"));
        }
        count_devices()?;
        let sanitizer = self.sanitizer()?;
        Ok(vec![
            (INJECTION, library.to_string_lossy().into_owned()),
            ("MPISEE_GPU", "on".to_owned()),
            ("MPISEE_GPU_SANITIZER", sanitizer.to_string_lossy().into_owned()),
        ])
    }

    fn sanitizer(&self) -> Result<PathBuf, String> {
        if let Some(given) = &self.options.gpu_sanitizer {
            return match given.is_file() {
                true => Ok(given.clone()),
                false => Err(format!("there is no {} (--gpu-sanitizer)", given.display())),
            };
        }
        let told = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(self.variable);
        let roots = told.chain(["/usr/local/cuda", "/opt/cuda"].map(str::to_owned));
        let places = roots.flat_map(|root| SANITIZER.map(|it| Path::new(&root).join(it)));
        places.into_iter().find(|it| it.is_file()).ok_or_else(|| {
            "libsanitizer-public.so is not below CUDA_HOME or /usr/local/cuda; name it with --gpu-sanitizer".to_owned()
        })
    }
}

/// Asks the driver for GPUs, in a process of its own: it opens files and starts threads.
fn count_devices() -> Result<(), String> {
    const NO_DRIVER: c_int = 2;
    // SAFETY: the launcher has one thread, so that the child may do anything.
    match unsafe { libc::fork() } {
        0 => {
            let code = match ask_driver() {
                None => NO_DRIVER,
                Some(devices) => c_int::from(devices < 1),
            };
            // SAFETY: ends the child, without what belongs to the parent.
            unsafe { libc::_exit(code) }
        }
        -1 => Err("no process can be started to look for one".to_owned()),
        child => {
            let mut status = 0;
            // SAFETY: the child is ours, the status is written.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {}
            match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
                (true, 0) => Ok(()),
                (true, NO_DRIVER) => {
                    Err("there is no CUDA driver here (libcuda.so.1 cannot be loaded)".to_owned())
                }
                _ => Err("the CUDA driver finds no GPU here".to_owned()),
            }
        }
    }
}

/// The number of GPUs; none without a driver.
fn ask_driver() -> Option<c_int> {
    // SAFETY: the name ends in a zero.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    if driver.is_null() {
        return None;
    }
    let symbol = |name: &CStr| -> Option<*mut c_void> {
        // SAFETY: the driver is loaded, the name ends in a zero.
        let address = unsafe { libc::dlsym(driver, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    let (init, count) = (symbol(c"cuInit")?, symbol(c"cuDeviceGetCount")?);
    let mut devices = 0;
    // SAFETY: the functions have these types in cuda.h, and the count is written.
    unsafe {
        let init = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint) -> c_int>(init);
        let count = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(count);
        if init(0) != 0 || count(&raw mut devices) != 0 {
            devices = 0;
        }
    }
    Some(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(folder: &Path, set: &[(&str, &str)], options: &Options) -> String {
        let variable =
            |wanted: &str| set.iter().find(|(it, _)| *it == wanted).map(|(_, it)| (*it).to_owned());
        Asked { folder, options, variable: &variable }.prepare().unwrap_err()
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::default();
        assert!(prepare(folder.path(), &[], &options).contains("there is no /"));
        std::fs::create_dir(folder.path().join("gpu")).unwrap();
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        assert!(prepare(folder.path(), &[], &options).contains("patches.fatbin"));
        std::fs::write(folder.path().join(PATCHES), "").unwrap();
        assert!(prepare(folder.path(), &[(INJECTION, "/x.so")], &options).contains("another tool"));
    }

    #[test]
    fn the_sanitizer_is_where_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join(SANITIZER[0]);
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "").unwrap();
        let root = folder.path().to_string_lossy().into_owned();
        let variable = |name: &str| (name == "CUDA_HOME").then(|| root.clone());
        let find =
            |options: &Options| Asked { folder: folder.path(), options, variable: &variable }.sanitizer();
        assert_eq!(find(&Options::default()), Ok(library));
        let given = Options { gpu_sanitizer: Some(PathBuf::from("/none.so")), ..Options::default() };
        assert!(find(&given).unwrap_err().contains("/none.so"));
    }
}
