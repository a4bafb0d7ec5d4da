//! Every shim hands its call on as it came: one call of its own twin, with the same arguments bit
//! by bit, which point to what they pointed to, and the twin's return code. So for C and for
//! Fortran, there also without the error code where it may be left away. It is tried without an
//! MPI: `tests/stub/` has a library that takes its place and a program that drives every function
//! which libmpisee.so exports. The thread that calls has an unusual state, which no function
//! changes.

use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{LIMIT, Mpi, Tables, case, root, within};
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Output of the program.
struct Driven {
    /// The functions that it called.
    functions: BTreeSet<String>,
    /// The functions that have a meaning, but were not there.
    absent: BTreeSet<String>,
    /// Its stderr, and the profiler's.
    said: String,
}

/// The program, linked with the stub of one MPI.
struct Stub {
    driver: PathBuf,
}

impl Stub {
    /// Compiles both; no compiler wrapper and no mpi.h are involved.
    fn compile(mpi: &Mpi, library_version: &str, folder: &Path) -> Stub {
        let (library, driver) = (folder.join("libstub.so"), folder.join("driver"));
        let sources = root().join("tests/stub");
        let family = match mpi.family.as_str() {
            "openmpi" => "-DOPEN_MPI",
            "mpich" => "-DMPICH",
            _ => "-DSTANDARD",
        };
        let version = format!("-DLIBRARY_VERSION={library_version:?}");
        let shared = ["-shared", "-fPIC", family, &version];
        cc(&shared, &[sources.join("stub_mpi.c"), sources.join("stub.c")], &library);
        for program in ["driver", "session_threads"] {
            let source = sources.join(program).with_extension("c");
            cc(&["-Wl,-rpath,$ORIGIN", family], &[source, library.clone()], &folder.join(program));
        }
        Stub { driver }
    }

    /// Drives every function.
    fn drive(&self, mpi: &Mpi, folder: &Path, [init, finalize]: [&str; 2]) -> Driven {
        let mut command = Command::new(&self.driver);
        command.args([init, finalize]).current_dir(folder).env("LD_PRELOAD", mpi.library());
        command.env("MPISEE_OUTPUT", profile(folder, init));
        let output = within(LIMIT, &mut command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}, {init}: {}\n{said}", mpi.name, output.status);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let named = |mark: &str| {
            stdout.lines().filter_map(|line| line.strip_prefix(mark)).map(str::to_owned).collect()
        };
        Driven { functions: named("driven "), absent: named("absent "), said }
    }
}

fn cc(arguments: &[&str], inputs: &[PathBuf], output: &Path) {
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra"]).args(arguments).args(inputs);
    let output = command.arg("-o").arg(output).arg("-ldl").output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The profile of a program that begins with `init`.
fn profile(folder: &Path, init: &str) -> PathBuf {
    folder.join(format!("{init}.mpisee"))
}

/// The functions of MPI that the library exports: `MPI_Send`, `MPIX_…` where an MPI has its own,
/// and Fortran's `mpi_send_` and `mpi_send__`.
fn exported(library: &Path) -> BTreeSet<String> {
    let data = std::fs::read(library).expect("the library can be read");
    let file = object::File::parse(&*data).expect("the library is an object file");
    let is_of_mpi = |name: &&str| {
        let beginning = name.split('_').next().unwrap_or_default();
        ["mpi", "mpix"].iter().any(|known| beginning.eq_ignore_ascii_case(known))
    };
    let names = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    names.filter_map(|symbol| symbol.name().ok()).filter(is_of_mpi).map(str::to_owned).collect()
}

/// The first line that the MPI says of its version, and the functions that it has.
fn description(mpi: &Mpi) -> (String, BTreeSet<String>) {
    let path = mpi.library().with_file_name("flavour.json");
    let text = std::fs::read_to_string(path).expect("a flavour has a description");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let functions = json["functions"].as_array().expect("it lists functions").iter();
    let functions = functions.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    (json["library_version"].as_str().expect("it has the version").to_owned(), functions)
}

/// The counted operation that a function, its large-count variant, an extension or a forerunner is.
fn operation(function: &str) -> Option<Operation> {
    let name = function.replacen("MPIX_", "MPI_", 1);
    let standard = Operation::from_name(name.strip_suffix("_c").unwrap_or(&name));
    Operation::from_name(function).or(standard)
}

/// Functions that begin and end MPI in a run of the program.
const WAYS: [[&str; 2]; 5] = [
    ["MPI_Init", "MPI_Finalize"],
    ["MPI_Init_thread", "MPI_Finalize"],
    ["mpi_init_", "mpi_finalize_"],
    ["mpi_init_thread__", "mpi_finalize__"],
    ["mpi_init_f08_", "mpi_finalize_f08_"],
];

#[case]
fn every_shim_makes_exactly_the_call_that_it_stands_for(mpi: &Mpi) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (version, functions) = description(mpi);
    let stub = Stub::compile(mpi, &version, folder.path());
    let exported = exported(&mpi.library());
    for [init, finalize] in WAYS.into_iter().filter(|[init, _]| exported.contains(*init)) {
        let Driven { functions: driven, absent, said } = stub.drive(mpi, folder.path(), [init, finalize]);
        assert_eq!(driven, exported, "{}: what is exported is driven", mpi.name);
        let forgotten: Vec<_> = absent.intersection(&functions).collect();
        assert!(forgotten.is_empty(), "{}: the MPI has {forgotten:?}, the library does not", mpi.name);
        // Else the calls would have been handed on without anything between.
        let tables = Tables::read(&profile(folder.path(), init), &said);
        let recorded: BTreeSet<&str> = tables.calls.iter().map(|row| row.call.as_str()).collect();
        let operations: BTreeSet<&str> =
            driven.iter().filter_map(|name| Some(operation(name)?.name())).collect();
        assert_eq!(recorded, operations, "{}: what is counted is in the profile", mpi.name);
        assert_eq!(tables.not_seen(NotSeen::InternalError), 0, "{}", mpi.name);
        mpisee_tests::note!("{}: {} functions driven after {init}", mpi.name, driven.len());
    }
}

#[case]
fn threads_of_a_session_beside_a_world_of_one_thread_are_counted_exactly(mpi: &Mpi) {
    const THREADS: u64 = 8;
    const REQUESTS: u64 = 20_000;
    if !mpi.counted_functions().contains("MPI_Session_init") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    Stub::compile(mpi, &description(mpi).0, folder.path());
    let mut command = Command::new(folder.path().join("session_threads"));
    command.args([THREADS, REQUESTS].map(|number| number.to_string())).current_dir(folder.path());
    command.env("LD_PRELOAD", mpi.library()).env("MPISEE_OUTPUT", profile(folder.path(), "threads"));
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {}\n{said}", mpi.name, output.status);
    let tables = Tables::read(&profile(folder.path(), "threads"), &said);
    assert_eq!(tables.run.mpi.thread_level, "multiple");
    for call in ["MPI_Irecv", "MPI_Wait"] {
        assert_eq!(tables.of_rank("W", call, 0).calls, THREADS * REQUESTS, "{}: {call}", mpi.name);
    }
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
}
