//! Builds the library once per MPI.

use crate::flavour::{Family, Flavour};
use crate::{mpi, reuse, root};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The MPIs to build for.
#[derive(Args)]
pub struct MpiSelection {
    /// Build for the MPI of this compiler wrapper, rather than for every MPI in PATH (repeatable)
    #[arg(long, value_name = "PATH")]
    mpicc: Vec<PathBuf>,

    /// Leave out mpisee-bench, which is built once per MPI, too
    #[arg(long)]
    without_bench: bool,

    /// Leave out optimisations, and mpisee-bench, for the MPIs below this folder
    #[arg(long, value_name = "DIR")]
    quick_below: Option<PathBuf>,

    /// Leave out mpisee-serve, the web server
    #[arg(long)]
    without_serve: bool,

    /// Build the programs as `cargo test` does, so that nothing compiles twice; the libraries are
    /// optimised
    #[arg(long)]
    unoptimised: bool,

    /// The compiler for other machines, too.
    #[arg(skip)]
    portable: Option<Portable>,
}

/// The program that compiles C and links for every machine with glibc 2.28.
#[derive(Clone)]
pub struct Portable {
    /// Its program, with the options of `cc`.
    pub compiler: PathBuf,
}

/// For this the portable programs are built, and the folder below which cargo has them.
pub const PORTABLE_TARGET: &str = "x86_64-unknown-linux-gnu";

impl MpiSelection {
    /// The library alone.
    pub fn library(mpicc: Vec<PathBuf>) -> MpiSelection {
        MpiSelection {
            mpicc,
            without_bench: true,
            quick_below: None,
            without_serve: true,
            unoptimised: true,
            portable: None,
        }
    }

    /// Everything, to run on other machines, too.
    pub fn portable(mpicc: Vec<PathBuf>, portable: Portable) -> MpiSelection {
        let library = MpiSelection::library(mpicc);
        let portable = Some(portable);
        MpiSelection { without_bench: false, without_serve: false, unoptimised: false, portable, ..library }
    }

    /// The programs that are the same for every MPI.
    pub fn programs(&self) -> Result<Programs> {
        Programs::build(!self.without_serve, self.unoptimised, self.portable.as_ref())
    }

    /// The folder for the flavours, each in a folder of its name.
    fn flavours_folder(&self) -> PathBuf {
        root().join(if self.portable.is_some() { "target/package/flavours" } else { "target/flavours" })
    }

    /// The compiler wrappers that were named; none is all that are found.
    pub fn mpicc(&self) -> &[PathBuf] {
        &self.mpicc
    }

    /// Returns whether what is built for an MPI is not to be optimised.
    fn is_quick(&self, flavour: &Flavour) -> bool {
        self.quick_below.as_ref().is_some_and(|folder| flavour.mpicc.starts_with(root().join(folder)))
    }

    /// Returns whether mpisee-bench is wanted for an MPI.
    fn with_bench(&self, flavour: &Flavour) -> bool {
        !self.without_bench && !self.is_quick(flavour)
    }
}

/// A library that was built.
pub struct Built {
    /// For which MPI.
    pub flavour: Flavour,
    /// `libmpisee.so`.
    pub library: PathBuf,
    /// `mpisee-bench` for this MPI, if it was asked for and could be built.
    pub bench: Option<PathBuf>,
}

/// Builds the library for every selected MPI, and passes on each one built. A failure is printed
/// and does not stop the others; the result is an error then.
pub fn flavours(wanted: &MpiSelection, hand_over: impl FnOnce(&[Built]) -> Result<()>) -> Result<()> {
    let built = Mutex::new(Vec::new());
    let failed = each(wanted, "building", "library", |workplace| {
        let with_bench = wanted.with_bench(&workplace.flavour);
        let packages = workplace.packages(!with_bench || wanted.unoptimised);
        let (build, folder): (&[&str], _) = match wanted.is_quick(&workplace.flavour) {
            true => (&["build"], "debug"),
            false => (&["build", "--profile", "library"], "library"),
        };
        // The library's own crate is compiled by one processor alone, so that another one has time
        // for what is not optimised.
        let bench = thread::scope(|scope| {
            let apart = with_bench && wanted.unoptimised && workplace.has_bench();
            let beside = apart.then(|| scope.spawn(|| workplace.build_tests()));
            cargo(&[build, &packages[..]].concat(), Some(workplace))?;
            if let Some(beside) = beside {
                beside.join().map_err(|_| anyhow!("building the tests panicked"))??;
            }
            anyhow::Ok(with_bench.then(|| workplace.bench(wanted.unoptimised)).flatten())
        })?;
        let library = workplace.built().join(folder).join("libmpisee.so");
        mpi::check_independence(&library)?;
        lock(&built).push(Built { flavour: workplace.flavour.clone(), library, bench });
        Ok(())
    })?;
    let mut built = built.into_inner().unwrap_or_else(PoisonError::into_inner);
    built.sort_by(|a, b| a.flavour.name.cmp(&b.flavour.name));
    hand_over(&built)?;
    if failed > 0 {
        bail!("{failed} of the MPIs found got no libmpisee.so");
    }
    Ok(())
}

/// The program that is installed as `mpisee-bench` beside the library; in `bin` is one that picks
/// it.
const BENCH: &str = "mpisee-bench-mpi";

/// The arguments for cargo that select everything but the library, and the macros, which have no
/// tests. Every step of `scripts/test` uses these. Another selection has other features, and would
/// compile what is shared again. Macros that are selected have debug information in a build and
/// none in tests, so that all that uses them would be compiled for each.
pub const WITHOUT_LIBRARY: [&str; 7] = [
    "--workspace",
    "--exclude",
    "mpisee-rs",
    "--exclude",
    "mpisee-case",
    "--exclude",
    "mpisee-profile-derive",
];

/// The programs that are built once, for all MPIs.
pub struct Programs {
    /// `mpisee`, `mpisee-through`, `mpisee-bench`, and `mpisee-serve` if it is wanted.
    pub commands: Vec<PathBuf>,
    /// The library of the GPU tracer.
    pub tracer: PathBuf,
    /// The library that interposes NCCL.
    pub nccl: PathBuf,
    /// Writes manual pages and shell completions.
    manuals: PathBuf,
}

impl Programs {
    /// Builds them, by one call of cargo: in calls of their own, the features of what they share
    /// would differ, and it would be compiled for each.
    pub fn build(with_serve: bool, unoptimised: bool, portable: Option<&Portable>) -> Result<Self> {
        const PACKAGES: [&str; 6] =
            ["mpisee", "mpisee-through", "mpisee-bench", "mpisee-manuals", "mpisee-gpu", "mpisee-nccl"];
        eprintln!(
            "building mpisee, mpisee-through, mpisee-bench's starter, and the libraries for GPUs and NCCL"
        );
        let serve = with_serve.then_some("mpisee-serve");
        let built = if unoptimised {
            cargo(&[&["build", "--all-targets"], &WITHOUT_LIBRARY[..]].concat(), None)?;
            root().join("target/debug")
        } else {
            packages("release", PACKAGES.into_iter().chain(serve), portable)?
        };
        let there = |name: &str| built.join(name);
        Ok(Programs {
            commands: ["mpisee", "mpisee-through", "mpisee-bench"]
                .into_iter()
                .chain(serve)
                .map(there)
                .collect(),
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

/// Builds `mpisee` and `mpisee-through` without optimisation.
pub fn quick_commands() -> Result<Vec<PathBuf>> {
    const COMMANDS: [&str; 2] = ["mpisee", "mpisee-through"];
    eprintln!("building mpisee and mpisee-through, without optimisation");
    let built = packages("quick", COMMANDS, None)?;
    Ok(COMMANDS.iter().map(|command| built.join(command)).collect())
}

/// Builds packages by a profile of cargo's, and returns the folder that has their programs.
fn packages(
    profile: &str,
    packages: impl IntoIterator<Item = &'static str>,
    portable: Option<&Portable>,
) -> Result<PathBuf> {
    let target = root().join(if portable.is_some() { "target/package/programs" } else { "target" });
    let target_dir = target.to_str().context("the path of the workspace is not UTF-8")?;
    let packages = packages.into_iter().flat_map(|package| ["--package", package]);
    let arguments = ["build", "--profile", profile, "--target-dir", target_dir].into_iter().chain(packages);
    run_cargo(&arguments.collect::<Vec<_>>(), None, portable)?;
    Ok(built_below(&target, portable).join(profile))
}

/// The folder in which cargo makes a folder for each profile.
fn built_below(target: &Path, portable: Option<&Portable>) -> PathBuf {
    if portable.is_some() { target.join(PORTABLE_TARGET) } else { target.to_owned() }
}

/// Runs the program that reads C headers. It is a package of its own, since bindgen takes longer to
/// compile than all of xtask. It is built with the features of all packages, as the tests build it.
pub fn bindings(arguments: &[&str]) -> Result<()> {
    const NAME: &str = "mpisee-bindings";
    cargo(&[&["build", "--bin", NAME], &WITHOUT_LIBRARY[..]].concat(), None)?;
    let mut program = Command::new(root().join("target/debug").join(NAME));
    // As cargo does for what it runs.
    program.current_dir(root()).env("CARGO_MANIFEST_DIR", root().join("tools/bindings"));
    let status = program.args(arguments).status();
    let status = status.with_context(|| format!("starting {NAME}"))?;
    ensure!(status.success(), "{NAME} {} did not succeed; its messages are above", arguments.join(" "));
    Ok(())
}

/// Runs clippy over everything; over the library as built for every MPI wanted.
pub fn clippy(wanted: &MpiSelection) -> Result<()> {
    let strict = ["--", "--deny", "warnings"];
    eprintln!("checking everything but the library");
    cargo(&[&["clippy", "--all-targets"], &WITHOUT_LIBRARY[..], &strict].concat(), None)?;
    let failed = each(wanted, "checking", "debug", |workplace| {
        let packages = workplace.packages(!wanted.with_bench(&workplace.flavour));
        cargo(&[&["clippy", "--all-targets"], &packages[..], &strict].concat(), Some(workplace))
    })?;
    if failed > 0 {
        bail!("clippy does not pass for {failed} of the MPIs found");
    }
    Ok(())
}

/// Runs the unit tests of the library, which is not among the default members, for every MPI
/// wanted; and those of `mpisee-bench` with it, unless it is left out.
pub fn test(wanted: &MpiSelection) -> Result<()> {
    let failed = each(wanted, "testing the library for", "debug", |workplace| {
        cargo(
            &[&["test"], &workplace.packages(!wanted.with_bench(&workplace.flavour))[..]].concat(),
            Some(workplace),
        )
    })?;
    if failed > 0 {
        bail!("the library's unit tests do not pass for {failed} of the MPIs found");
    }
    Ok(())
}

/// For this the sanitizer's runtime is there.
const SANITIZED_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the library with ThreadSanitizer in it, for every MPI wanted, and hands over what was
/// built. Its unit tests cannot be run so: the sanitizer would have to be in Rust's own test
/// harness, too.
pub fn sanitized(wanted: &MpiSelection, hand_over: impl Fn(&Flavour, &Path) + Sync) -> Result<()> {
    let failed = each(wanted, "building with ThreadSanitizer", "sanitized", |workplace| {
        let folder = workplace.folder.join("sanitized");
        let flavour = workplace.flavour.clone();
        let workplace = Workplace { flavour, folder, sanitized: true, portable: None };
        std::fs::create_dir_all(&workplace.folder)?;
        workplace.flavour.write(&workplace.description())?;
        // With a standard library that is built so, too: it has the locks that the sanitizer must
        // see.
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
    portable: Option<Portable>,
}

impl Workplace {
    fn new(flavour: Flavour, wanted: &MpiSelection) -> Result<Self> {
        let folder = wanted.flavours_folder().join(&flavour.name);
        let workplace = Workplace { flavour, folder, sanitized: false, portable: wanted.portable.clone() };
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

    fn built(&self) -> PathBuf {
        built_below(&self.folder, self.portable.as_ref())
    }

    fn description(&self) -> PathBuf {
        self.folder.join("flavour.json")
    }

    /// False for the standard's own interface, whose header rsmpi does not read.
    fn has_bench(&self) -> bool {
        self.flavour.family != Family::Standard
    }

    /// Builds the unit tests of the library and `mpisee-bench`, without optimisation: what
    /// [`test()`] runs, and no more.
    fn build_tests(&self) -> Result<()> {
        cargo(&[&["test", "--no-run"], &self.packages(false)[..]].concat(), Some(self))
    }

    /// `mpisee-bench` for this MPI, as it was built beside the library or with the tests.
    fn bench(&self, unoptimised: bool) -> Option<PathBuf> {
        if !self.has_bench() {
            eprintln!("there is no mpisee-bench for {}", self.flavour.name);
            return None;
        }
        Some(self.built().join(if unoptimised { "debug" } else { "library" }).join(BENCH))
    }

    /// The arguments for cargo that select what is built for each MPI: the library, and
    /// mpisee-bench. By one call, since in calls of their own the features of what both share would
    /// differ, and it would be compiled for each.
    fn packages(&self, without_bench: bool) -> Vec<&'static str> {
        let mut packages = vec!["--package", "mpisee-rs"];
        if !without_bench {
            packages.extend(["--package", "mpisee-bench"]);
            if self.has_bench() {
                packages.extend(["--features", "mpisee-bench/mpi"]);
            }
        }
        packages
    }
}

/// Does something for every MPI wanted, for as many at a time as there are processors, and counts
/// the failures. If nothing was compiled yet with this profile, the first goes alone: the others
/// take from its folder what is the same for all.
fn each(
    wanted: &MpiSelection,
    doing: &str,
    profile: &str,
    act: impl Fn(&Workplace) -> Result<()> + Sync,
) -> Result<usize> {
    let found = mpi::find(&wanted.mpicc)?;
    let mut flavours: VecDeque<Flavour> = match wanted.portable {
        Some(_) => found.into_iter().map(crate::package::portable_flavour).collect::<Result<_>>()?,
        None => found.into(),
    };
    let failed = AtomicUsize::new(0);
    let note = |name: &str, result: Result<()>| {
        if let Err(why) = result {
            eprintln!("{doing} {name} failed: {why:#}");
            failed.fetch_add(1, Relaxed);
        }
    };
    let act = |workplace: &Workplace| {
        eprintln!("{doing} {}", workplace.flavour);
        note(&workplace.flavour.name, act(workplace));
    };
    if !mpi_folders(wanted)?.any(|folder| folder.join(profile).is_dir()) {
        let first = flavours.pop_front().context("there is an MPI")?;
        let name = first.name.clone();
        Workplace::new(first, wanted).map_or_else(|why| note(&name, Err(why)), |workplace| act(&workplace));
    }
    // All are set up before one of them compiles, so that nothing is copied while it is written.
    let mut workplaces = VecDeque::new();
    for flavour in flavours {
        let name = flavour.name.clone();
        Workplace::new(flavour, wanted)
            .map_or_else(|why| note(&name, Err(why)), |workplace| workplaces.push_back(workplace));
    }
    let at_a_time = thread::available_parallelism().map_or(1, usize::from).min(workplaces.len());
    let workplaces = Mutex::new(workplaces);
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(workplace) = { lock(&workplaces).pop_front() } {
                    act(&workplace);
                }
            });
        }
    });
    Ok(failed.into_inner())
}

/// The folders of the flavours that were built here.
fn mpi_folders(wanted: &MpiSelection) -> Result<impl Iterator<Item = PathBuf>> {
    let folder = wanted.flavours_folder();
    std::fs::create_dir_all(&folder)?;
    let portable = wanted.portable.clone();
    Ok(folder.read_dir()?.flatten().map(move |entry| built_below(&entry.path(), portable.as_ref())))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs cargo in the workspace; for a flavour, with what the build scripts of mpi-sys and of the
/// library want to know.
fn cargo(arguments: &[&str], workplace: Option<&Workplace>) -> Result<()> {
    run_cargo(arguments, workplace, workplace.and_then(|workplace| workplace.portable.as_ref()))
}

fn run_cargo(arguments: &[&str], workplace: Option<&Workplace>, portable: Option<&Portable>) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let (&command_name, rest) = arguments.split_first().context("cargo needs a command")?;
    let mut command = Command::new(program);
    command.current_dir(root());
    match portable {
        None => drop(command.args([command_name, "--quiet"])),
        Some(portable) => portable.build_by(&mut command)?,
    }
    // It would add another version of CUDA to the one in Cargo.toml, and cudarc does not compile
    // for two.
    command.env_remove("CUDARC_CUDA_VERSION");
    // Clippy compiles for `scripts/test`, and leaves out optimisations: what is optimised is
    // compiled without it.
    if rest.contains(&"--profile") {
        command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    }
    // The user's flags take the place of those in .cargo/config.toml.
    if portable.is_none()
        && let Some(mut flags) = std::env::var_os("RUSTFLAGS")
    {
        flags.push(" -C force-frame-pointers=yes");
        command.env("RUSTFLAGS", flags);
    }
    if let Some(workplace) = workplace {
        command.arg("--target-dir").arg(&workplace.folder);
        match workplace.flavour.family {
            // Its types and constants are the standard's; mpi-sys cannot read its header, either.
            Family::Standard => command.arg("--no-default-features"),
            _ => command.env("MPICC", &workplace.flavour.mpicc),
        };
        command.env("MPISEE_BUILD_FLAVOUR", workplace.description());
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

impl Portable {
    /// Has cargo link by it, without what only a debugger needs.
    fn build_by(&self, command: &mut Command) -> Result<()> {
        command.args(["build", "--quiet", "--target", PORTABLE_TARGET]);
        command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", &self.compiler);
        command.env("CC_x86_64_unknown_linux_gnu", &self.compiler);
        for profile in ["LIBRARY", "RELEASE"] {
            command.env(format!("CARGO_PROFILE_{profile}_STRIP"), "symbols");
            command.env(format!("CARGO_PROFILE_{profile}_DEBUG"), "0");
        }
        // An exception of C++ that passes through the library is unwound by the program's libgcc_s.
        // Zig would link an unwinder of its own, and the two do not understand each other. The
        // builder's libgcc_s may need a newer C library than zig has.
        let unwinder = Command::new("cc").arg("-print-file-name=libgcc_s.so.1").output();
        let unwinder = unwinder.context("starting cc, the C compiler by which Rust links")?;
        let unwinder = String::from_utf8_lossy(&unwinder.stdout);
        let flags = [
            "force-frame-pointers=yes",
            &format!("link-arg={}", unwinder.trim()),
            "link-arg=-Wl,--allow-shlib-undefined",
        ];
        command.env("RUSTFLAGS", flags.map(|flag| format!("-C {flag}")).join(" "));
        Ok(())
    }
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
