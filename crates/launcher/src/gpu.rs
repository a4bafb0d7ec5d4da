//! `--gpu` and `--gpu-copies`: whether what GPU kernels access, or the host copies, can be counted
//! here, and what the program's environment needs for it.

use mpisee_profile::options::{GpuBackend, Options};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

/// The tracer, in a folder beside the flavours.
const LIBRARY: &str = "gpu/libmpisee_gpu.so";
/// The part of it that runs on the GPU, which exists if the installation was built with CUDA's
/// compiler.
const PATCHES: &str = "gpu/patches.fatbin";
/// The backend that has NVBit, which is there if the installation was made with one.
const NVBIT: &str = "gpu/libmpisee_gpu_nvbit.so";
/// The command of CUDA that NVBit takes kernels apart with.
const DISASSEMBLER: &str = "nvdisasm";
/// The variable that names the library that CUDA's driver loads when a program initialises it.
const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// Paths of the Sanitizer below the root of a CUDA toolkit, and below that of the packages in
/// Python's index.
const SANITIZER: [&str; 3] = [
    "compute-sanitizer/libsanitizer-public.so",
    "extras/compute-sanitizer/libsanitizer-public.so",
    "lib/libsanitizer-public.so",
];

/// Folders of CUPTI below the root of a CUDA toolkit, and the names of the library in them.
const CUPTI_FOLDERS: [&str; 4] = ["extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib"];
const CUPTI: [&str; 2] = ["libcupti.so.13", "libcupti.so.12"];
/// Its folders in the packages of Python's index, below `site-packages`.
const CUPTI_PACKAGES: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"];

/// The options of this process about GPUs.
pub struct Setup<'a> {
    /// The folder of the flavours.
    pub folder: &'a Path,
    /// The profiler's options, as they will be read.
    pub options: &'a Options,
    /// The variables of this process.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Setup<'_> {
    /// The variables for the program; or why kernels cannot be traced, as the end of a sentence.
    pub fn prepare(&self) -> Result<Vec<(&'static str, String)>, String> {
        let (needed, made_with) = match self.options.gpu_backend {
            GpuBackend::Sanitizer => (PATCHES, "CUDA's compiler (CUDA_HOME)"),
            GpuBackend::Nvbit => (NVBIT, "NVBit (NVBIT_HOME) and CUDA's compiler (CUDA_HOME)"),
        };
        let (tracer, needed) = (self.folder.join(LIBRARY), self.folder.join(needed));
        if let Some(missing) = [&tracer, &needed].into_iter().find(|it| !it.is_file()) {
            return Err(format!(
                "there is no {}, which `cargo xtask dist` makes if it finds {made_with}",
                missing.display()
            ));
        }
        let library = if self.options.gpu_backend == GpuBackend::Nvbit { needed } else { tracer };
        self.is_free_for(&library)?;
        count_devices()?;
        let own = match self.options.gpu_backend {
            GpuBackend::Sanitizer => [("MPISEE_GPU_SANITIZER", text(&self.sanitizer()?))].to_vec(),
            // NVBit would greet, and warn of what this tool does not do, beside what the program
            // prints.
            GpuBackend::Nvbit => {
                let silent = ["NOBANNER", "ACK_CTX_INIT_LIMITATION"].map(|name| (name, "1".to_owned()));
                [("NVDISASM", text(&self.disassembler()?))].into_iter().chain(silent).collect()
            }
        };
        Ok([(INJECTION, text(&library)), ("MPISEE_GPU", "on".to_owned())].into_iter().chain(own).collect())
    }

    /// The same for copies and launches of the host. CUPTI is looked for once more in the program,
    /// which may load one.
    pub fn prepare_copies(&self) -> Result<Vec<(&'static str, String)>, String> {
        if self.options.gpu {
            return Err("--gpu and --gpu-copies exclude each other, because both have NVIDIA's tools watch \
                        the driver"
                .to_owned());
        }
        let library = self.folder.join(LIBRARY);
        if !library.is_file() {
            return Err(format!("there is no {}, which `cargo xtask dist` makes", library.display()));
        }
        self.is_free_for(&library)?;
        count_devices()?;
        let own = self.cupti()?.map(|it| ("MPISEE_GPU_CUPTI", text(&it)));
        let all = [(INJECTION, text(&library)), ("MPISEE_GPU_COPIES", "on".to_owned())];
        Ok(all.into_iter().chain(own).collect())
    }

    /// Checks that the driver is to load no other library.
    fn is_free_for(&self, library: &Path) -> Result<(), String> {
        match (self.variable)(INJECTION).filter(|it| Path::new(it) != library) {
            Some(other) => Err(format!("another tool is to be loaded, {other} ({INJECTION} is set)")),
            None => Ok(()),
        }
    }

    fn cupti(&self) -> Result<Option<PathBuf>, String> {
        if let Some(given) = &self.options.gpu_cupti {
            return match given.is_file() {
                true => Ok(Some(given.clone())),
                false => Err(format!("there is no {} (--gpu-cupti)", given.display())),
            };
        }
        let of_toolkits = self.roots().flat_map(|root| CUPTI_FOLDERS.map(|it| Path::new(&root).join(it)));
        let of_packages =
            self.packages().into_iter().flat_map(|folder| CUPTI_PACKAGES.map(|it| folder.join(it)));
        let mut places =
            of_toolkits.chain(of_packages).flat_map(|folder| CUPTI.map(|name| folder.join(name)));
        Ok(places.find(|it| it.is_file()))
    }

    /// Folders of Python's packages: of the environment that is active, of the first `python3` in
    /// PATH, and of the user.
    fn packages(&self) -> Vec<PathBuf> {
        let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(self.variable).map(PathBuf::from);
        let path = (self.variable)("PATH").unwrap_or_default();
        let python = std::env::split_paths(&path).find(|it| it.join("python3").is_file());
        let of_python = python.and_then(|it| Some(it.parent()?.to_owned()));
        let of_user = (self.variable)("HOME").map(|home| Path::new(&home).join(".local"));
        let mut found = Vec::new();
        for prefix in active.chain(of_python).chain([PathBuf::from("/usr/local")]).chain(of_user) {
            let versions = prefix.join("lib").read_dir().into_iter().flatten().flatten();
            let mut versions: Vec<PathBuf> = versions
                .filter(|it| it.file_name().to_string_lossy().starts_with("python3"))
                .map(|it| it.path())
                .collect();
            versions.sort_unstable();
            let folders = |it: &PathBuf| ["site-packages", "dist-packages"].map(|folder| it.join(folder));
            found.extend(versions.iter().flat_map(folders));
        }
        found
    }

    fn disassembler(&self) -> Result<PathBuf, String> {
        let given = (self.variable)("NVDISASM").map(PathBuf::from);
        let path = (self.variable)("PATH").unwrap_or_default();
        let in_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let below_root = self.roots().map(|root| Path::new(&root).join("bin"));
        let folders = in_path.into_iter().chain(below_root).map(|folder| folder.join(DISASSEMBLER));
        let mut places = given.into_iter().chain(folders);
        places.find(|it| it.is_file()).ok_or_else(|| {
            format!("NVBit needs CUDA's {DISASSEMBLER}, which is not in PATH, nor below CUDA_HOME or /usr/local/cuda")
        })
    }

    /// Folders in which a CUDA toolkit may be.
    fn roots(&self) -> impl Iterator<Item = String> {
        let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(self.variable);
        named.chain(["/usr/local/cuda", "/opt/cuda"].map(str::to_owned))
    }

    fn sanitizer(&self) -> Result<PathBuf, String> {
        if let Some(given) = &self.options.gpu_sanitizer {
            return match given.is_file() {
                true => Ok(given.clone()),
                false => Err(format!("there is no {} (--gpu-sanitizer)", given.display())),
            };
        }
        let mut places = self.roots().flat_map(|root| SANITIZER.map(|it| Path::new(&root).join(it)));
        places.find(|it| it.is_file()).ok_or_else(|| {
            "libsanitizer-public.so is not below CUDA_HOME or /usr/local/cuda; name it with --gpu-sanitizer".to_owned()
        })
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Checks that the driver has a GPU, in a process of its own, since the driver opens files and
/// starts threads.
fn count_devices() -> Result<(), String> {
    const NO_DRIVER: c_int = 2;
    // SAFETY: the launcher has one thread, so that the child may do anything.
    match unsafe { libc::fork() } {
        0 => {
            // A tool that is named there, as our own of an mpisee around this one, is for the
            // program.
            // SAFETY: the child has one thread.
            unsafe { std::env::remove_var(INJECTION) };
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
        Setup { folder, options, variable: &variable }.prepare().unwrap_err()
    }

    #[test]
    fn missing_files_and_another_tool_are_named() {
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
    fn files_that_nvbit_needs_are_found_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { gpu_backend: GpuBackend::Nvbit, ..Options::default() };
        std::fs::create_dir(folder.path().join("gpu")).unwrap();
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        let missing = prepare(folder.path(), &[], &options);
        assert!(missing.contains("libmpisee_gpu_nvbit.so") && missing.contains("NVBIT_HOME"), "{missing}");
        std::fs::write(folder.path().join(NVBIT), "").unwrap();
        let tracer = folder.path().join(LIBRARY).display().to_string();
        assert!(prepare(folder.path(), &[(INJECTION, &tracer)], &options).contains("another tool"));
        let find = |name: &'static str| {
            let root = folder.path().display().to_string();
            let variable = move |wanted: &str| (wanted == name).then(|| root.clone());
            Setup { folder: folder.path(), options: &options, variable: &variable }.disassembler()
        };
        assert!(find("PATH").unwrap_err().contains("nvdisasm"));
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::fs::write(folder.path().join("bin/nvdisasm"), "").unwrap();
        assert_eq!(find("CUDA_HOME"), Ok(folder.path().join("bin/nvdisasm")));
        std::fs::write(folder.path().join("nvdisasm"), "").unwrap();
        assert_eq!(find("PATH"), Ok(folder.path().join("nvdisasm")));
    }

    #[test]
    fn cupti_is_found_in_toolkits_and_packages_and_copies_exclude_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_string_lossy().into_owned();
        let find = |name: &'static str, options: &Options| {
            let variable = |wanted: &str| (wanted == name).then(|| root.clone());
            Setup { folder: folder.path(), options, variable: &variable }.cupti()
        };
        let none = Options::default();
        let place = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        assert_eq!(find("VIRTUAL_ENV", &none), Ok(None));
        let of_package = place("lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
        assert_eq!(find("VIRTUAL_ENV", &none), Ok(Some(of_package)));
        let of_toolkit = place("extras/CUPTI/lib64/libcupti.so.13");
        assert_eq!(find("CUDA_HOME", &none), Ok(Some(of_toolkit)));
        let given = Options { gpu_cupti: Some(PathBuf::from("/none.so")), ..Options::default() };
        assert!(find("CUDA_HOME", &given).unwrap_err().contains("/none.so"));
        let both = Options { gpu: true, gpu_copies: true, ..Options::default() };
        let setup = Setup { folder: folder.path(), options: &both, variable: &|_| None };
        assert!(setup.prepare_copies().unwrap_err().contains("--gpu-copies"));
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
            |options: &Options| Setup { folder: folder.path(), options, variable: &variable }.sanitizer();
        assert_eq!(find(&Options::default()), Ok(library));
        let given = Options { gpu_sanitizer: Some(PathBuf::from("/none.so")), ..Options::default() };
        assert!(find(&given).unwrap_err().contains("/none.so"));
    }
}
