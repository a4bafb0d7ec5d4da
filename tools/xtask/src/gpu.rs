//! Builds the GPU tracer: the library that CUDA's driver loads, and the patches that run on the
//! GPU.
//!
//! The library needs nothing of CUDA. The patches need its compiler, which is in every toolkit, and
//! in packages of Python's index for a machine that has none. Where neither can be had the
//! installation is without them, and `mpisee --gpu` says so. The backend that uses NVBit is a
//! library of its own, made where NVBIT_HOME names an NVBit.

mod nvbit;

use crate::build::{self, Programs};
use crate::root;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that have what is needed, by the version that the tracer was written for.
const PACKAGES: [&str; 6] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-sanitizer-api==13.0.85",
];
/// The first architecture that has what the patches use: `match` in a warp, and threads that go on
/// independently.
const FIRST_ARCHITECTURE: u32 = 75;

/// Files of the GPU tracer that were built.
pub struct Tracer {
    /// `libmpisee_gpu.so`
    pub library: PathBuf,
    /// `patches.fatbin`; none without CUDA's compiler.
    pub patches: Option<PathBuf>,
    /// `libmpisee_gpu_nvbit.so`; none without NVBit or CUDA's compiler.
    pub nvbit: Option<PathBuf>,
}

impl Tracer {
    /// All that there is.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.library).chain(&self.patches).chain(&self.nvbit)
    }
}

/// Adds to the tracer's library what runs on the GPU. `fetch` gets CUDA's compiler from Python's
/// index if there is none.
pub fn build(programs: &Programs, fetch: bool) -> Result<Tracer> {
    let (patches, nvbit) = match Toolkit::find_or_fetch(fetch) {
        Some(toolkit) => (Some(toolkit.patches()?), nvbit::build(&toolkit)?),
        None => {
            eprintln!(
                "no CUDA compiler is found (CUDA_HOME, /usr/local/cuda, PATH), so the GPU tracer is built without what \
                 runs on a GPU; `cargo xtask gpu --fetch` gets one from Python's package index"
            );
            (None, None)
        }
    };
    Ok(Tracer { library: programs.tracer.clone(), patches, nvbit })
}

/// Writes the tracer's bindings of the Sanitizer from its headers.
pub fn write_bindings(fetch: bool) -> Result<()> {
    let toolkit = Toolkit::find_or_fetch(fetch)
        .context("no CUDA is found (CUDA_HOME, /usr/local/cuda, PATH); --fetch gets its headers")?;
    toolkit.bindings(&["--write"])
}

/// The toolkit from Python's index, or a sentence.
fn fetched() -> Option<Toolkit> {
    match fetch() {
        Ok(toolkit) => Some(toolkit),
        Err(why) => {
            eprintln!("CUDA's compiler cannot be had from Python's package index: {why:#}");
            None
        }
    }
}

/// The folder for packages of Python's index.
fn own_folder() -> PathBuf {
    root().join("target/cuda")
}

fn fetch() -> Result<Toolkit> {
    let folder = own_folder();
    let environment = folder.join("venv");
    let python = environment.join("bin/python3");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let pip = [
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--no-deps",
        "--no-cache-dir",
        "--retries",
        "1",
    ];
    succeed(
        Command::new(&python)
            .args(pip)
            .arg("--upgrade")
            .arg("--target")
            .arg(folder.join("packages"))
            .args(PACKAGES),
    )?;
    Toolkit::of_packages().context("the packages have no nvcc where it was expected")
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} did not succeed");
    }
    Ok(())
}

/// CUDA's compiler, and the headers of the Sanitizer.
struct Toolkit {
    nvcc: PathBuf,
    headers: PathBuf,
}

impl Toolkit {
    fn find_or_fetch(fetch: bool) -> Option<Toolkit> {
        Toolkit::find().or_else(|| if fetch { fetched() } else { None })
    }

    fn find() -> Option<Toolkit> {
        let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let in_path = std::env::var_os("PATH").unwrap_or_default();
        let in_path: Vec<PathBuf> =
            std::env::split_paths(&in_path).filter_map(|it| Some(it.parent()?.to_owned())).collect();
        let mut roots = named.chain([PathBuf::from("/usr/local/cuda")]).chain(in_path);
        roots.find_map(|root| Toolkit::at(&root)).or_else(Toolkit::of_packages)
    }

    fn of_packages() -> Option<Toolkit> {
        Toolkit::at(&own_folder().join("packages/nvidia/cu13"))
    }

    fn at(root: &Path) -> Option<Toolkit> {
        let nvcc = root.join("bin/nvcc");
        let headers =
            ["compute-sanitizer/include", "extras/Sanitizer/include", "include"].map(|it| root.join(it));
        let headers = headers.into_iter().find(|it| it.join("sanitizer_patching.h").is_file())?;
        nvcc.is_file().then_some(Toolkit { nvcc, headers })
    }

    /// Compiles the patches for every architecture that this compiler supports, unless that was
    /// done.
    fn patches(&self) -> Result<PathBuf> {
        let device = root().join("gpu-tracer/device");
        let folder = root().join("target/gpu");
        let patches = folder.join("patches.fatbin");
        let made_by = folder.join("made-by");
        let compiler = self.compiler()?;
        if fs::read_to_string(&made_by).is_ok_and(|it| it == compiler)
            && is_newer(
                &patches,
                &["core.h", "patch.cu", "../src/generated/sanitizer.rs"].map(|it| device.join(it)),
            )
        {
            return Ok(patches);
        }
        eprintln!("compiling the patches with {}", self.nvcc.display());
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        self.bindings(&[]).context("comparing the Sanitizer's headers with what the GPU tracer reads")?;
        let mut nvcc = Command::new(&self.nvcc);
        nvcc.args(["-fatbin", "--compile-as-tools-patch", "--threads", "0"]);
        nvcc.args(self.targets()?);
        succeed(
            nvcc.arg(format!("-I{}", self.headers.display()))
                .arg("-o")
                .arg(&patches)
                .arg(device.join("patch.cu")),
        )?;
        fs::write(&made_by, compiler)?;
        Ok(patches)
    }

    /// The compiler's path and version: the path alone stays as it is when the toolkit there is
    /// replaced.
    fn compiler(&self) -> Result<String> {
        let output = Command::new(&self.nvcc).arg("--version").output().context("starting nvcc")?;
        Ok(format!("{}\n{}", self.nvcc.display(), String::from_utf8_lossy(&output.stdout)))
    }

    /// Compares the bindings of the Sanitizer with its headers, or writes them.
    fn bindings(&self, how: &[&str]) -> Result<()> {
        let cuda = self.nvcc.parent().and_then(Path::parent).unwrap_or(Path::new("")).join("include");
        let folders = [&self.headers, &cuda].map(|it| it.display().to_string());
        build::bindings(&[&["sanitizer"], how, &folders.each_ref().map(String::as_str)].concat())
    }

    /// The compiler's options for every architecture that it supports.
    fn targets(&self) -> Result<Vec<String>> {
        let target = |number: u32| format!("--generate-code=arch=compute_{number},code=sm_{number}");
        Ok(self.architectures()?.into_iter().map(target).collect())
    }

    /// 75, 80, …: not those with a letter, which are variants.
    fn architectures(&self) -> Result<Vec<u32>> {
        let output = Command::new(&self.nvcc).arg("--list-gpu-code").output().context("starting nvcc")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers = text.split_whitespace().filter_map(|it| it.strip_prefix("sm_")?.parse().ok());
        let numbers: Vec<u32> = numbers.filter(|&it| it >= FIRST_ARCHITECTURE).collect();
        if numbers.is_empty() {
            bail!("{} supports no architecture from sm_{FIRST_ARCHITECTURE} on", self.nvcc.display());
        }
        Ok(numbers)
    }
}

fn is_newer(file: &Path, than: &[PathBuf]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    than.iter().all(|it| modified(file) > modified(it))
}
