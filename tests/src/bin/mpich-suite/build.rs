//! The suite's programs, compiled by its own configure and make.

use crate::list::Test;
use mpisee_tests::{Mpi, root, within};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The time limit of configure, and of make in one directory.
const LIMIT: Duration = Duration::from_secs(1800);

/// gfortran takes the untyped buffers of mpif.h for errors.
const FORTRAN_FLAGS: &str = "-w -O1 -fallow-argument-mismatch";

/// Open MPI's mpi.h turns functions of MPI 1 into errors, but its library has them.
const FLAGS: &str = "-DOMPI_OMIT_MPI1_COMPAT_DECLS=0";

/// The suite configured for an MPI, in a directory of its own.
pub struct Suite {
    /// The folder of the programs.
    pub build: PathBuf,
    source: PathBuf,
    jobs: usize,
}

impl Suite {
    /// Configures the suite, unless an earlier call has.
    pub fn configure(mpi: &Mpi, source: &Path, work: &Path, jobs: usize) -> Suite {
        let build = work.join("build");
        if !build.join("util/libmtest_single.la").exists() {
            std::fs::create_dir_all(&build).expect("target can be written");
            let mut configure = Command::new("sh");
            configure.arg(f08_configure(source, work)).arg(format!("--srcdir={}", source.display()));
            configure.args(["--disable-shared", "--enable-fortran=all", "--enable-threads=multiple"]);
            configure.arg(format!("CPPFLAGS={FLAGS}"));
            configure.args(["FFLAGS", "FCFLAGS"].map(|name| format!("{name}={FORTRAN_FLAGS}")));
            let wrappers =
                [("MPICC", "mpicc"), ("MPICXX", "mpicxx"), ("MPIF77", "mpif77"), ("MPIFC", "mpifort")];
            for (variable, name) in wrappers {
                if let Some(wrapper) = mpi.wrapper(name) {
                    configure.env(variable, wrapper);
                }
            }
            assert!(logged(&mut configure, &build, &work.join("configure.log")), "configure: see {work:?}");
            let mut make = make(jobs);
            make.args(["-C", "dtpools"]);
            logged(&mut make, &build, &work.join("dtpools.log"));
            let mut make = self::make(jobs);
            make.args(["-C", "util"]);
            logged(&mut make, &build, &work.join("util.log"));
        }
        Suite { build, source: source.to_owned(), jobs }
    }

    /// Builds the programs of these tests, of which not every MPI compiles each.
    pub fn make(&self, tests: &[Test]) {
        let mut programs: BTreeMap<&Path, BTreeSet<&str>> = BTreeMap::new();
        for test in tests.iter().filter(|test| !self.is_built(test)) {
            programs.entry(&test.directory).or_default().insert(&test.program);
        }
        for (directory, mut programs) in programs {
            // A test that spawns others needs all of the directory's programs.
            if directory.ends_with("spawn") {
                programs.insert("all");
            }
            let mut make = make(self.jobs);
            make.arg("TESTS=").args(programs);
            logged(&mut make, &self.build.join(directory), &self.build.join(directory).join("make.log"));
        }
    }

    /// Returns whether the test has a program.
    pub fn is_built(&self, test: &Test) -> bool {
        self.folder(test).join(&test.program).is_file()
    }

    /// The folder of the test's program.
    pub fn folder(&self, test: &Test) -> PathBuf {
        self.build.join(&test.directory)
    }

    /// The folder of the test's source.
    pub fn source_folder(&self, test: &Test) -> PathBuf {
        self.source.join(&test.directory)
    }
}

/// A copy of configure that leaves the tests of Fortran's mpi_f08 in although MPICH itself is not
/// built along with the suite.
fn f08_configure(source: &Path, work: &Path) -> PathBuf {
    let text = std::fs::read(source.join("configure")).expect("the suite of a release has configure");
    let text = String::from_utf8_lossy(&text);
    let text = text
        .replace(r#"test "$enable_f08" = "yes" -a "$FROM_MPICH" = "yes""#, r#"test "$enable_f08" = "yes""#);
    let configure = work.join("configure");
    std::fs::write(&configure, text).expect("target can be written");
    configure
}

/// The pauses of waiting ranks, which otherwise spin; `None` where no program can be compiled.
pub fn pause(mpi: &Mpi, work: &Path) -> Option<PathBuf> {
    let library = work.join("pause.so");
    let mut compiler = Command::new(mpi.wrapper("mpicc")?);
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(root().join("tools/overhead/pause.c"));
    let output = within(LIMIT, &mut compiler);
    assert!(output.status.success(), "tools/overhead/pause.c:\n{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

fn make(jobs: usize) -> Command {
    let mut make = Command::new("make");
    make.args(["--keep-going", "--jobs"]).arg(jobs.to_string());
    make
}

/// Runs a command in a folder and keeps what it prints.
fn logged(command: &mut Command, folder: &Path, log: &Path) -> bool {
    command.current_dir(folder);
    let output = within(LIMIT, command);
    std::fs::write(log, [output.stdout, output.stderr].concat()).expect("target can be written");
    output.status.success()
}
