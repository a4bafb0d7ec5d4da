//! Harness of the end-to-end tests: compiles a program of `tests/programs` for each MPI on the machine, runs it
//! under its launcher and `mpisee`, reads the profile back through `mpisee-profile`.
//!
//! A program is named by its path in `tests/programs`, without the ending: `requests/recycled`.
//!
//! The tests use the installation that `cargo xtask dist` makes, in `target/dist`.

pub mod bench;
pub mod nodes;
pub mod place;
pub mod profile;
pub mod python;
pub mod signal;
pub mod soak;

pub use nodes::Cluster;
pub use place::{Ended, Place};
pub use profile::Tables;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace")
}

/// The installation under test.
pub fn dist() -> PathBuf {
    let dist = root().join("target/dist");
    assert!(dist.join("bin/mpisee").exists(), "there is no {}; run `cargo xtask dist`", dist.display());
    dist
}

/// Compiles a C program with AddressSanitizer. Its library has to know C++'s: drivers that hwloc loads in MPI_Init may throw,
/// as Mesa's OpenCL does, and a C program that does not link it ends there, with the profiler and without.
pub const ADDRESS_SANITIZER: &[&str] = &["-fsanitize=address", "-Wl,--no-as-needed", "-lstdc++"];

/// An MPI for which there is a flavour.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// The flavour: `openmpi-4.1`.
    pub name: String,
    /// True if it is an Open MPI.
    pub is_open_mpi: bool,
    /// The binary interface: `openmpi`, `mpich`, `standard`.
    pub family: String,
    mpicc: PathBuf,
    /// MPI functions that its library exports.
    functions: BTreeSet<String>,
    /// A folder that goes before others in `PATH`.
    programs: Option<PathBuf>,
    /// A Python that has mpi4py.
    python: Option<PathBuf>,
}

impl Mpi {
    /// Every MPI for which there is a flavour; at least one. `TEST_MPIS` in the environment selects some: `system`,
    /// those that were not installed for the tests; `wheels`, those from Python's package index; else by the begin of
    /// their names, `mpich openmpi-5`.
    pub fn all() -> Vec<Mpi> {
        Mpi::all_in(&dist())
    }

    /// Every MPI for which an installation has a flavour; at least one.
    pub fn all_in(installation: &Path) -> Vec<Mpi> {
        let folder = installation.join("lib/mpisee");
        let mut found: Vec<Mpi> = std::fs::read_dir(&folder)
            .expect("the installation has flavours")
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("flavour.json")).ok())
            .map(|text| {
                let json: serde_json::Value = serde_json::from_str(&text).expect("flavour.json is JSON");
                let text = |key: &str| json[key].as_str().expect("flavour.json is complete").to_owned();
                Mpi {
                    name: text("name"),
                    is_open_mpi: text("family") == "openmpi",
                    family: text("family"),
                    mpicc: PathBuf::from(text("mpicc")),
                    functions: serde_json::from_value(json["functions"].clone()).expect("a list of names"),
                    programs: None,
                    python: None,
                }
            })
            .collect();
        if let Ok(wanted) = std::env::var("TEST_MPIS") {
            found.retain(|mpi| wanted.split_whitespace().any(|word| mpi.is_meant_by(word)));
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!found.is_empty(), "no flavour in {}; run `cargo xtask dist`", folder.display());
        found
    }

    /// True, and says why, if a test leaves this MPI out: the name begins with one of `beginnings`, and the MPI fails
    /// without the profiler, too.
    pub fn is_left_out(&self, beginnings: &[&str], why: &str) -> bool {
        let is_one = beginnings.iter().any(|begin| self.name.starts_with(begin));
        if is_one {
            eprintln!("left out: {why}");
        }
        is_one
    }

    fn is_meant_by(&self, word: &str) -> bool {
        let is_wheel = self.mpicc.starts_with(python::environments());
        match word {
            "system" => !is_wheel,
            "wheels" => is_wheel,
            _ => self.name.starts_with(word),
        }
    }

    /// An MPI, of this family, with its programs in a folder.
    pub(crate) fn in_folder(name: String, family: &str, programs: &Path) -> Mpi {
        Mpi {
            name,
            is_open_mpi: family == "openmpi",
            family: family.to_owned(),
            mpicc: programs.join("mpicc"),
            functions: BTreeSet::new(),
            programs: Some(programs.to_owned()),
            python: Some(python::interpreter(programs)),
        }
    }

    /// The folder of its compiler wrapper and its launcher.
    pub fn programs_folder(&self) -> &Path {
        self.mpicc.parent().expect("mpicc is in a folder")
    }

    /// A Python that has mpi4py.
    pub fn python(&self) -> &Path {
        self.python.as_deref().expect("an MPI with mpi4py")
    }

    /// The options of `mpisee` for that Python. It does not show which MPI it will load, and MPICH's
    /// launcher does not show whether that is to be the standard's own interface.
    pub fn python_options(&self) -> Vec<&str> {
        if self.family == "standard" { vec!["--flavour", &self.name] } else { Vec::new() }
    }

    /// The functions of this MPI that a flavour stands in for.
    pub fn counted_functions(&self) -> BTreeSet<String> {
        let exports = std::fs::read_to_string(root().join("mpisee-rs/src/generated/exports.rs"))
            .expect("the generated sources are there");
        let names = exports.lines().filter_map(|line| line.strip_prefix("#[cfg(mpi = \""));
        let names = names.filter_map(|rest| rest.strip_suffix("\")]"));
        names.filter(|&name| self.functions.contains(name)).map(str::to_owned).collect()
    }

    /// The flavour's library.
    pub fn library(&self) -> PathBuf {
        dist().join("lib/mpisee").join(&self.name).join("libmpisee.so")
    }

    /// Its launcher, which has the ending of the compiler wrapper: `mpirun.mpich` beside `mpicc.mpich`; or
    /// none, where one launcher serves two wrappers, as of `mpicc` and `mpicc_abi`.
    fn mpirun(&self) -> PathBuf {
        let name = self.mpicc.file_name().expect("mpicc is a file").to_string_lossy();
        let paired = self.mpicc.with_file_name(name.replacen("mpicc", "mpirun", 1));
        if paired.exists() { paired } else { self.mpicc.with_file_name("mpirun") }
    }

    /// `mpirun -n RANKS`, with what a container and too few cores ask for, and options that set `variables`.
    pub fn launcher(&self, ranks: u32, variables: &[(String, String)]) -> Command {
        let mut command = Command::new(self.mpirun());
        command.arg("-n").arg(ranks.to_string());
        if self.is_open_mpi {
            // As options, since the variables that say the same have other names from Open MPI 5 on.
            command.args(["--allow-run-as-root", "--oversubscribe"]);
        }
        for (name, value) in variables {
            if self.is_open_mpi {
                command.arg("-x").arg(format!("{name}={value}"));
            } else {
                command.arg("-genv").arg(name).arg(value);
            }
        }
        if let Some(programs) = &self.programs {
            // Intel MPI's mpirun starts the next program by its bare name.
            let before = std::env::var_os("PATH").unwrap_or_default();
            let all = std::iter::once(programs.clone()).chain(std::env::split_paths(&before));
            command.env("PATH", std::env::join_paths(all).expect("no colon in the path of the workspace"));
        }
        // Ranks that share a core must not spin while they wait for each other.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.stdin(Stdio::null());
        command
    }

    /// Compiles `tests/programs/NAME.c`, once per run of the tests.
    pub fn compile(&self, name: &str) -> PathBuf {
        self.compile_with(name, &[])
    }

    /// Compiles with further arguments; those of one program are always the same.
    pub fn compile_with(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let source = format!("{name}.c");
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wno-stringop-overflow"]);
        self.compile_by(compiler, &source, name, arguments)
    }

    /// Compiles a variant with further arguments, as a program of its own.
    pub fn compile_variant(&self, name: &str, variant: &str, arguments: &[&str]) -> PathBuf {
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=gnu11", "-g"]);
        self.compile_by(compiler, &format!("{name}.c"), &format!("{name}-{variant}"), arguments)
    }

    /// Compiles `bench/NAME.c`.
    pub fn compile_benchmark(&self, name: &str) -> PathBuf {
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=gnu11", "-O2"]);
        self.compile_by(compiler, &format!("../../bench/{name}.c"), &format!("bench/{name}"), &[])
    }

    /// Compiles `examples/NAME.c`.
    pub fn compile_example(&self, name: &str) -> PathBuf {
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=gnu11", "-O2"]);
        self.compile_by(compiler, &format!("../../examples/{name}.c"), &format!("examples/{name}"), &["-lm"])
    }

    /// Compiles `tests/programs/NAME.cpp`; `None` where the wrapper for C++ or its compiler is missing.
    pub fn compile_cpp(&self, name: &str) -> Option<PathBuf> {
        let file = self.mpicc.file_name().expect("mpicc is a file").to_string_lossy();
        let mpicxx = self.mpicc.with_file_name(file.replacen("mpicc", "mpicxx", 1));
        let works = Command::new(&mpicxx).arg("--version").output().is_ok_and(|it| it.status.success());
        let mut compiler = Command::new(&mpicxx);
        compiler.args(["-O1", "-g", "-Wall"]);
        works.then(|| self.compile_by(compiler, &format!("{name}.cpp"), &format!("{name}-cpp"), &[]))
    }

    /// The options by which the wrapper has a compiler find headers.
    pub fn include_flags(&self) -> Vec<String> {
        let output = Command::new(&self.mpicc).arg("-show").output().expect("the wrapper starts");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        shown.split_whitespace().filter(|it| it.starts_with("-I")).map(str::to_owned).collect()
    }

    /// The compiler wrapper of this name (`mpifort`), with the ending that `mpicc` has; `None` where the MPI comes
    /// without.
    pub fn wrapper(&self, name: &str) -> Option<PathBuf> {
        let mpicc = self.mpicc.file_name().expect("mpicc is a file").to_string_lossy();
        let wrapper = self.mpicc.with_file_name(mpicc.replacen("mpicc", name, 1));
        wrapper.exists().then_some(wrapper)
    }

    /// Compiles `tests/programs/NAME.F90` with one of the interfaces to Fortran: `MPIF_H`, `USE_MPI` or
    /// `USE_MPI_F08`. `None` where the MPI comes without Fortran.
    pub fn compile_fortran(&self, name: &str, interface: &str) -> Option<PathBuf> {
        self.compile_fortran_with(name, interface, &[])
    }

    /// The same with further arguments; those of one program are always the same.
    pub fn compile_fortran_with(&self, name: &str, interface: &str, arguments: &[&str]) -> Option<PathBuf> {
        let mut compiler = Command::new(self.wrapper("mpifort")?);
        // gfortran reports a false mismatch, because mpif.h declares untyped buffers.
        compiler.args(["-O1", "-g", "-ffree-line-length-none", "-fallow-argument-mismatch", "-w"]);
        compiler.arg(format!("-D{interface}"));
        let modules = root().join("target/tests").join(&self.name).join("modules").join(interface);
        std::fs::create_dir_all(&modules).expect("target can be written");
        compiler.arg("-J").arg(modules);
        for (function, macro_) in [("MPI_Isendrecv", "HAS_MPI_4"), ("MPIX_Bcast_init", "HAS_MPIX")] {
            if self.functions.contains(function) {
                compiler.arg(format!("-D{macro_}"));
            }
        }
        let program = format!("{name}-{interface}");
        Some(self.compile_by(compiler, &format!("{name}.F90"), &program, arguments))
    }

    fn compile_by(&self, mut compiler: Command, source: &str, name: &str, arguments: &[&str]) -> PathBuf {
        static DONE: Mutex<BTreeMap<(String, String), PathBuf>> = Mutex::new(BTreeMap::new());
        let mut done = DONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = (self.name.clone(), name.to_owned());
        if let Some(program) = done.get(&key) {
            return program.clone();
        }
        let folder = root().join("target/tests").join(&self.name);
        let program = folder.join(name);
        std::fs::create_dir_all(program.parent().expect("it is below the folder"))
            .expect("target can be written");
        // Test binaries run one after the other, but two may be built by one call of cargo.
        let fresh = folder.join(format!("{name}.{}", std::process::id()));
        let programs = root().join("tests/programs");
        let output = compiler
            .arg("-I")
            .arg(root().join("include"))
            .arg("-I")
            .arg(&programs)
            .arg(programs.join(source))
            .arg("-o")
            .arg(&fresh)
            .args(arguments)
            .output()
            .expect("the compiler wrapper starts");
        assert!(output.status.success(), "{source}:\n{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&fresh, &program).expect("target can be written");
        done.insert(key, program.clone());
        program
    }
}

/// Runs `test` under every MPI.
pub fn on_each_mpi(test: impl Fn(&Mpi)) {
    for mpi in Mpi::all() {
        eprintln!("--- {}", mpi.name);
        test(&mpi);
    }
}

/// A program about to run under the profiler.
pub struct Run<'m> {
    mpi: &'m Mpi,
    program: PathBuf,
    ranks: u32,
    arguments: Vec<String>,
    options: Vec<String>,
    launcher_options: Vec<String>,
    variables: Vec<(String, String)>,
    cluster: Option<&'m Cluster>,
    exit_code: i32,
    limit: Duration,
    tries: u32,
}

impl<'m> Run<'m> {
    /// `tests/programs/NAME.c` on 4 ranks, expected to exit with 0 within four minutes.
    pub fn new(mpi: &'m Mpi, name: &str) -> Self {
        Self::of(mpi, mpi.compile(name))
    }

    /// Python with these arguments; one that ends in `.py` is in `tests/programs`.
    pub fn python(mpi: &'m Mpi, arguments: &[&str]) -> Self {
        let mut run = Self::of(mpi, mpi.python().to_owned()).options(&mpi.python_options());
        for argument in arguments {
            let script = root().join("tests/programs").join(argument);
            let is_script = argument.ends_with(".py");
            run = if is_script { run.argument(script.display()) } else { run.argument(argument) };
        }
        run
    }

    /// A program that is compiled already, else as [`Run::new`].
    pub fn of(mpi: &'m Mpi, program: PathBuf) -> Self {
        Run {
            mpi,
            program,
            ranks: 4,
            arguments: Vec::new(),
            options: Vec::new(),
            launcher_options: Vec::new(),
            variables: Vec::new(),
            cluster: None,
            exit_code: 0,
            limit: Duration::from_secs(240),
            tries: 1,
        }
    }

    /// Runs again, so many times in all, where a run does not end: for an MPI that hangs now and then, also without the
    /// profiler.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self.limit = Duration::from_secs(60);
        self
    }

    /// Sets the number of ranks.
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// An argument of the program.
    pub fn argument(mut self, argument: impl ToString) -> Self {
        self.arguments.push(argument.to_string());
        self
    }

    /// Options of `mpisee`.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Options of `mpirun`.
    pub fn launched_with(mut self, options: &[&str]) -> Self {
        self.launcher_options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// A variable in the environment of every rank.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On these nodes, evenly. The folder in which it runs is the same on all.
    pub fn on(mut self, cluster: &'m Cluster) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// The exit code to expect of the program.
    pub fn exits_with(mut self, code: i32) -> Self {
        self.exit_code = code;
        self
    }

    fn launcher(&self) -> Command {
        let mut command = self.mpi.launcher(self.ranks, &self.variables);
        if let Some(cluster) = self.cluster {
            cluster.launch(self.mpi, &mut command, self.ranks / cluster.names().count() as u32);
        }
        command.args(&self.launcher_options);
        command
    }

    /// Runs it without the profiler.
    pub fn plain(self) -> Finished {
        let mut command = self.launcher();
        command.arg(&self.program).args(&self.arguments);
        self.finish(command, false)
    }

    /// Runs it under `mpisee`, and reads its profile.
    pub fn profiled(self) -> Finished {
        let command = self.below_mpisee();
        self.finish(command, true)
    }

    /// Runs it under `mpisee` with options by which the profile has sums over ranks.
    pub fn folded(self) -> Finished {
        let command = self.below_mpisee();
        self.finish(command, false)
    }

    fn below_mpisee(&self) -> Command {
        let mut command = self.launcher();
        command.arg(dist().join("bin/mpisee")).args(["--output", "test.mpisee"]).args(&self.options);
        command.arg(&self.program).args(&self.arguments);
        command
    }

    /// Runs it with the library preloaded by the launcher's own option, and reads its profile.
    pub fn preloaded(self) -> Finished {
        let mpi = self.mpi;
        self.preloaded_with(mpi)
    }

    /// Runs it with the library for another MPI preloaded, and reads its profile.
    pub fn preloaded_with(self, other: &Mpi) -> Finished {
        self.preload(other, true)
    }

    /// Runs it with the library for an MPI that it does not fit; there will be no profile.
    pub fn preloaded_in_vain(self, other: &Mpi) -> Finished {
        self.preload(other, false)
    }

    /// Runs it with the library preloaded; its profile goes to `output`.
    pub fn preloaded_to(mut self, output: &str) -> Finished {
        let mpi = self.mpi;
        self.variables.push(("MPISEE_OUTPUT".to_owned(), output.to_owned()));
        self.preload(mpi, false)
    }

    fn preload(mut self, other: &Mpi, profiled: bool) -> Finished {
        let library = other.library().display().to_string();
        self.variables.push(("LD_PRELOAD".to_owned(), library));
        if !self.variables.iter().any(|(name, _)| name == "MPISEE_OUTPUT") {
            self.variables.push(("MPISEE_OUTPUT".to_owned(), "test.mpisee".to_owned()));
        }
        let mut command = self.launcher();
        command.arg(&self.program).args(&self.arguments);
        self.finish(command, profiled)
    }

    fn finish(self, mut command: Command, profiled: bool) -> Finished {
        let in_launcher = self.variables.iter().any(|(name, _)| name == "LD_PRELOAD");
        let (place, output) = (1..)
            .find_map(|attempt| {
                let place = self.cluster.map_or_else(Place::new, Place::on);
                command.current_dir(place.folder());
                let mut entered = self.cluster.map(|cluster| cluster.on("login", &command));
                match run_within(self.limit, entered.as_mut().unwrap_or(&mut command)) {
                    // A rank's death is an exit code of the launcher. Open MPI's mpirun itself has died of a signal after a program without the
                    // profiler had written all that it writes.
                    Ok(output) if output.status.code().is_none() && attempt == 1 && !in_launcher => {
                        eprintln!("run again: the launcher itself was ended by {}", output.status);
                        None
                    }
                    Ok(output) => Some((place, output)),
                    Err(why) if attempt == self.tries => panic!("{why}"),
                    Err(why) => {
                        eprintln!("run again: {why}");
                        None
                    }
                }
            })
            .expect("it ended, or the last try has failed");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert_eq!(
            code,
            Some(self.exit_code),
            "{command:?}\n{}\nstdout:\n{stdout}\nstderr:\n{stderr}",
            output.status
        );
        let tables = profiled.then(|| Tables::read(&place.path("test.mpisee"), &stderr));
        Finished { place, stdout, stderr, tables }
    }
}

/// A program that has run.
pub struct Finished {
    /// The folder in which it ran.
    pub place: Place,
    /// Its standard output.
    pub stdout: String,
    /// Standard error of the program, the launcher and the profiler.
    pub stderr: String,
    tables: Option<Tables>,
}

impl Finished {
    /// The profile.
    pub fn tables(&self) -> &Tables {
        self.tables.as_ref().expect("it ran under the profiler")
    }

    /// The profile directory.
    pub fn directory(&self) -> PathBuf {
        self.place.path("test.mpisee")
    }

    /// Lines of the profiler and its launcher.
    pub fn said(&self) -> Vec<&str> {
        place::said(&self.stderr)
    }

    /// By how much the machine held the ranks up, as a part of the run: how much longer their work took than was meant, as programs
    /// with `work.h` print, and for how long they had no core, as the kernel says. Others may have waited so long for each.
    pub fn disturbance(&self) -> f64 {
        let ranks = &self.tables().ranks;
        let said = self.stdout.lines().filter_map(|line| line.strip_prefix("disturbed "));
        let longer_s: Vec<f64> = said.map(|text| text.parse().expect("seconds")).collect();
        assert_eq!(longer_s.len(), ranks.len(), "{}", self.stdout);
        let without_core_s = ranks.iter().filter_map(|row| row.cpu_wait_s).map(|time_s| time_s.0);
        let wall_s = ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
        (longer_s.iter().sum::<f64>() + without_core_s.sum::<f64>()) / wall_s
    }

    /// Asserts that `mpisee-through check` finds nothing wrong with the profile.
    pub fn check(&self) -> &Self {
        let output = through(&["check", &self.directory().display().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        self
    }
}

/// Runs `mpisee-through`.
pub fn through(arguments: &[&str]) -> Output {
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    command.args(arguments).stdin(Stdio::null());
    within(Duration::from_secs(60), &mut command)
}

/// Runs a command; one that takes longer than `limit` is killed with all that it started, and fails the test.
pub fn within(limit: Duration, command: &mut Command) -> Output {
    run_within(limit, command).unwrap_or_else(|why| panic!("{why}"))
}

fn run_within(limit: Duration, command: &mut Command) -> Result<Output, String> {
    use std::os::unix::process::CommandExt;
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().expect("it starts");
    let group = child.id();
    let waiting = std::thread::spawn(move || child.wait_with_output());
    let begin = Instant::now();
    while !waiting.is_finished() {
        if begin.elapsed() > limit {
            signal::send_to_group(signal::SIGKILL, group);
            let output = waiting.join().expect("the thread only waits").expect("its output can be read");
            return Err(format!(
                "{command:?} did not end within {limit:?}\nstdout:\n{}\nstderr:\n{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(waiting.join().expect("the thread only waits").expect("its output can be read"))
}
