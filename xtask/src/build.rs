//! Builds the library once per MPI.

use crate::flavour::{Family, Flavour};
use crate::{mpi, reuse, root};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The MPIs to build for.
#[derive(Args)]
pub struct Wanted {
    /// Build for the MPI of this compiler wrapper, rather than for every MPI in PATH (repeatable)
    #[arg(long, value_name = "PATH")]
    mpicc: Vec<PathBuf>,

    /// Leave out mpisee-bench, which is built once per MPI, too
    #[arg(long)]
    without_bench: bool,
}

impl Wanted {
    /// The compiler wrappers that were named; none is all that are found.
    pub fn mpicc(&self) -> &[PathBuf] {
        &self.mpicc
    }
}

/// A library that was built.
pub struct Built {
    /// For which MPI.
    pub flavour: Flavour,
    /// `libmpisee.so`.
    pub library: PathBuf,
    /// Its `flavour.json`.
    pub description: PathBuf,
    /// `mpisee-bench` for this MPI, if it was asked for and could be built.
    pub bench: Option<PathBuf>,
}

/// Builds the library for every selected MPI, and passes on each one built. A failure is printed and does not stop the
/// others; the result is an error then.
pub fn flavours(wanted: &Wanted, hand_over: impl FnOnce(&[Built]) -> Result<()>) -> Result<()> {
    let mut built = Vec::new();
    let failed = each(wanted, "building", |workplace| {
        cargo(&["build", "--profile", "library", "--package", "mpisee-rs"], Some(workplace))?;
        let library = workplace.folder.join("library/libmpisee.so");
        mpi::check_independence(&library)?;
        let (flavour, description) = (workplace.flavour.clone(), workplace.description());
        let bench = if wanted.without_bench { None } else { bench(workplace)? };
        built.push(Built { flavour, library, description, bench });
        Ok(())
    })?;
    hand_over(&built)?;
    if failed > 0 {
        bail!("{failed} of the MPIs found got no libmpisee.so");
    }
    Ok(())
}

/// Builds `mpisee-bench` for one MPI; none for the standard's own interface, whose header rsmpi does not read.
fn bench(workplace: &Workplace) -> Result<Option<PathBuf>> {
    if workplace.flavour.family == Family::Standard {
        eprintln!("there is no mpisee-bench for {}", workplace.flavour.name);
        return Ok(None);
    }
    let arguments =
        ["build", "--profile", "library", "--package", "mpisee-bench", "--features", "mpi", "--bin", BENCH];
    cargo(&arguments, Some(workplace))?;
    Ok(Some(workplace.folder.join("library").join(BENCH)))
}

/// The program that is installed as `mpisee-bench` beside the library; in `bin` is one that picks it.
const BENCH: &str = "mpisee-bench-mpi";

/// The programs that are built once, for all MPIs.
pub struct Programs {
    /// `mpisee`, `mpisee-through` and `mpisee-bench`.
    pub commands: [PathBuf; 3],
    /// The library of the GPU tracer.
    pub tracer: PathBuf,
    /// The library that interposes NCCL.
    pub nccl: PathBuf,
    /// Writes manual pages and shell completions.
    manuals: PathBuf,
}

impl Programs {
    /// Builds them, by one call of cargo: in calls of their own, the features of what they share would differ, and it
    /// would be compiled for each.
    pub fn build() -> Result<Self> {
        const PACKAGES: [&str; 6] =
            ["mpisee", "mpisee-through", "mpisee-bench", "mpisee-manuals", "mpisee-gpu", "mpisee-nccl"];
        eprintln!(
            "building mpisee, mpisee-through, mpisee-bench's starter, and the libraries for GPUs and NCCL"
        );
        let target = root().join("target");
        let target_dir = target.to_str().context("the path of the workspace is not UTF-8")?;
        let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
        let arguments = ["build", "--release", "--target-dir", target_dir].into_iter().chain(packages);
        cargo(&arguments.collect::<Vec<_>>(), None)?;
        let there = |name: &str| target.join("release").join(name);
        Ok(Programs {
            commands: ["mpisee", "mpisee-through", "mpisee-bench"].map(there),
            tracer: there("libmpisee_gpu.so"),
            nccl: there("libmpisee_nccl.so"),
            manuals: there("mpisee-manuals"),
        })
    }

    /// Writes manual pages and shell completions below `folder`.
    pub fn write_manuals(&self, folder: &Path) -> Result<()> {
        let status = Command::new(&self.manuals).arg(folder).status();
        let status = status.with_context(|| format!("starting {}", self.manuals.display()))?;
        ensure!(status.success(), "{} did not succeed; its message is above", self.manuals.display());
        Ok(())
    }
}

/// Runs clippy over everything; over the library as built for every MPI wanted.
pub fn clippy(wanted: &Wanted) -> Result<()> {
    let strict = ["--", "--deny", "warnings"];
    eprintln!("checking everything but the library");
    cargo(
        &[&["clippy", "--workspace", "--exclude", "mpisee-rs", "--all-targets"], &strict[..]].concat(),
        None,
    )?;
    let failed = each(wanted, "checking", |workplace| {
        cargo(
            &[&["clippy", "--package", "mpisee-rs", "--all-targets"], &strict[..]].concat(),
            Some(workplace),
        )?;
        if wanted.without_bench || workplace.flavour.family == Family::Standard {
            return Ok(());
        }
        let bench = ["clippy", "--package", "mpisee-bench", "--features", "mpi", "--bins"];
        cargo(&[&bench, &strict[..]].concat(), Some(workplace))
    })?;
    if failed > 0 {
        bail!("clippy does not pass for {failed} of the MPIs found");
    }
    Ok(())
}

/// Runs the unit tests of the library, which is not among the default members, for every MPI wanted.
pub fn test(wanted: &Wanted) -> Result<()> {
    let failed = each(wanted, "testing the library for", |workplace| {
        cargo(&["test", "--package", "mpisee-rs"], Some(workplace))
    })?;
    if failed > 0 {
        bail!("the library's unit tests do not pass for {failed} of the MPIs found");
    }
    Ok(())
}

/// For this the sanitizer's runtime is there.
const SANITIZED_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the library with ThreadSanitizer in it, for every MPI wanted, and hands over what was built. Its unit tests
/// cannot be run so: the sanitizer would have to be in Rust's own test harness, too.
pub fn sanitized(wanted: &Wanted, mut hand_over: impl FnMut(&Flavour, &Path)) -> Result<()> {
    let failed = each(wanted, "building with ThreadSanitizer", |workplace| {
        let folder = workplace.folder.join("sanitized");
        let workplace = Workplace { flavour: workplace.flavour.clone(), folder, sanitized: true };
        std::fs::create_dir_all(&workplace.folder)?;
        workplace.flavour.write(&workplace.description())?;
        // With a standard library that is built so, too: it has the locks that the sanitizer must see.
        let build = ["build", "--profile", "library", "--package", "mpisee-rs", "-Zbuild-std"];
        cargo(&[&build[..], &["--target", SANITIZED_TARGET]].concat(), Some(&workplace))?;
        let library = workplace.folder.join(SANITIZED_TARGET).join("library/libmpisee.so");
        hand_over(&workplace.flavour, &library);
        Ok(())
    })?;
    if failed > 0 {
        bail!("{failed} of the MPIs found got no libmpisee.so with ThreadSanitizer");
    }
    Ok(())
}

/// The folders in which one flavour is built.
struct Workplace {
    flavour: Flavour,
    folder: PathBuf,
    /// True for a build with ThreadSanitizer.
    sanitized: bool,
}

impl Workplace {
    fn new(flavour: Flavour) -> Result<Self> {
        let folder = root().join("target/flavours").join(&flavour.name);
        let workplace = Workplace { flavour, folder, sanitized: false };
        let description = workplace.description();
        if Flavour::read(&description).ok().as_ref() != Some(&workplace.flavour) {
            // Another MPI under the same name: mpi-sys does not notice that its wrapper is another.
            if workplace.folder.exists() {
                std::fs::remove_dir_all(&workplace.folder)?;
            }
            std::fs::create_dir_all(&workplace.folder)?;
            workplace.flavour.write(&description)?;
        }
        reuse::copy_from_siblings(&workplace.folder)?;
        Ok(workplace)
    }

    fn description(&self) -> PathBuf {
        self.folder.join("flavour.json")
    }
}

/// Does something for every MPI wanted, and counts the failures.
fn each(wanted: &Wanted, doing: &str, mut act: impl FnMut(&Workplace) -> Result<()>) -> Result<usize> {
    let mut failed = 0;
    for flavour in mpi::find(&wanted.mpicc)? {
        eprintln!("{doing} {flavour}");
        let name = flavour.name.clone();
        if let Err(why) = Workplace::new(flavour).and_then(|workplace| act(&workplace)) {
            eprintln!("{doing} {name} failed: {why:#}");
            failed += 1;
        }
    }
    Ok(failed)
}

/// Runs cargo in the workspace; for a flavour, with what the build scripts of mpi-sys and of the library
/// want to know.
fn cargo(arguments: &[&str], workplace: Option<&Workplace>) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let (command_name, rest) = arguments.split_first().context("cargo needs a command")?;
    let mut command = Command::new(program);
    command.current_dir(root()).args([command_name, "--quiet"]);
    if let Some(workplace) = workplace {
        command.arg("--target-dir").arg(&workplace.folder);
        match workplace.flavour.family {
            // Its types and constants are the standard's; mpi-sys cannot read its header, either.
            Family::Standard => command.arg("--no-default-features"),
            _ => command.env("MPICC", &workplace.flavour.mpicc),
        };
        command.env("MPISEE_BUILD_FLAVOUR", workplace.description());
        // The user's flags take the place of those in .cargo/config.toml.
        if let Some(mut flags) = std::env::var_os("RUSTFLAGS") {
            flags.push(" -C force-frame-pointers=yes");
            command.env("RUSTFLAGS", flags);
        }
        if workplace.sanitized {
            // The sanitizer comes with the compiler, but is not stable.
            command.env("RUSTC_BOOTSTRAP", "1");
            command.env(
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
                "-Zsanitizer=thread -C force-frame-pointers=yes",
            );
            command.env("CARGO_PROFILE_LIBRARY_LTO", "off");
        }
    }
    let status = command.args(rest).status().context("starting cargo")?;
    if !status.success() {
        let hint = if libclang_exists() { "" } else { " (mpi-sys needs libclang: on Debian libclang-dev)" };
        bail!("cargo {} did not succeed; its messages are above{hint}", arguments.join(" "));
    }
    Ok(())
}

/// Returns whether libclang is where distributions put it; only to explain a failure.
fn libclang_exists() -> bool {
    let holds_it = |folder: &Path| {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("libclang"))
    };
    let llvm = Path::new("/usr/lib").read_dir().into_iter().flatten().flatten();
    let llvm = llvm.filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"));
    std::env::var_os("LIBCLANG_PATH").is_some()
        || ["/usr/lib", "/usr/lib64", "/usr/local/lib"].iter().any(|folder| holds_it(Path::new(folder)))
        || llvm.map(|entry| entry.path().join("lib")).any(|folder| holds_it(&folder))
}
