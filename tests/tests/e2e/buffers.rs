//! The kind of memory that has the buffers of calls, by a driver that is pretended: MPI itself sees
//! ordinary memory.

use crate::exact::assert_all_seen;
use mpisee_profile::rows::Memory;
use mpisee_tests::{Mpi, Run, Tables, case, root, through};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A driver, compiled; under a name of its own the profiler would not know it.
fn compiled(source: &str, soname: &str, options: &[&str]) -> PathBuf {
    let library = root().join("target/tests/pretended").join(soname);
    std::fs::create_dir_all(library.parent().expect("it is in a folder")).expect("target can be written");
    let soname = library.file_name().expect("it has a name").display();
    let source = root().join("tests/programs/gpu").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-shared", "-fPIC", &format!("-Wl,-soname,{soname}"), "-o"]);
    compiler.arg(&library).arg(source).args(options);
    assert!(compiler.status().expect("cc starts").success());
    library
}

/// CUDA's.
pub fn driver() -> PathBuf {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| compiled("pretended_driver.c", "libcuda.so.1", &[])).clone()
}

/// The same as it was before CUDA 12.5.
pub fn driver_before_12_5() -> PathBuf {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || compiled("pretended_driver.c", "before_12_5/libcuda.so.1", &["-DBEFORE_12_5"]);
    DRIVER.get_or_init(compiled).clone()
}

/// AMD's HIP, which must not be called, and HSA below it.
fn hip() -> PathBuf {
    static HIP: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || {
        let runtime = compiled("pretended_hip.c", "libhsa-runtime64.so.1", &["-DRUNTIME"]);
        compiled(
            "pretended_hip.c",
            "libamdhip64.so.6",
            &[&runtime.display().to_string(), "-Wl,-rpath,$ORIGIN"],
        )
    };
    HIP.get_or_init(compiled).clone()
}

/// The sums of a run on 2 ranks.
fn run(mpi: &Mpi, driver: &Path, when: &str, options: &[&str]) -> Sums {
    run_of(mpi, mpi.compile_with("gpu/buffers", &["-ldl"]), driver, when, options)
}

fn run_of(mpi: &Mpi, program: PathBuf, driver: &Path, when: &str, options: &[&str]) -> Sums {
    let run = Run::from_program(mpi, program).ranks(2).argument(when).argument(driver.display());
    let finished = run.options(options).profiled();
    let profile = finished.directory().display().to_string();
    let output = through(&["check", &profile]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    sums(finished.tables())
}

type Sums = BTreeMap<(String, Memory), (u64, u64)>;

/// Calls and bytes of rank 0 by operation and kind of memory, on the communicator with buffers of
/// several kinds.
fn sums(tables: &Tables) -> Sums {
    assert_all_seen(tables);
    let mut sums = Sums::new();
    for row in tables.calls.iter().filter(|row| row.comm == "W_d1" && row.rank == 0) {
        let sum = sums.entry((row.call.clone(), row.memory)).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.bytes);
    }
    sums
}

fn expected(of: impl Fn(Memory) -> Memory) -> Sums {
    use Memory::{Device, Host, Managed, Pinned};
    let rows = [
        ("MPI_Allreduce", Device, 1, 211),
        ("MPI_Allreduce", Managed, 1, 227),
        ("MPI_Allreduce", Pinned, 1, 223),
        ("MPI_Barrier", Host, 1, 0),
        ("MPI_Bcast", Host, 1, 0),
        ("MPI_Comm_free", Host, 1, 0),
        ("MPI_Gather", Host, 1, 701),
        ("MPI_Gather", Device, 1, 727),
        ("MPI_Scatter", Pinned, 1, 709),
        ("MPI_Reduce", Managed, 1, 719),
        ("MPI_Irecv", Device, 4, 101 + 102 + 103 + 104),
        ("MPI_Isend", Device, 1, 102),
        ("MPI_Isend", Host, 1, 101),
        ("MPI_Isend", Managed, 1, 103),
        ("MPI_Isend", Pinned, 1, 104),
        ("MPI_Put", Pinned, 1, 503),
        ("MPI_Recv_init", Pinned, 1, 0),
        ("MPI_Send_init", Device, 1, 0),
        ("MPI_Sendrecv", Device, 1, 2 * 307),
        ("MPI_Startall", Device, 3, 3 * 2 * 401),
        ("MPI_Start", Pinned, 1, 401),
        ("MPI_Start", Device, 1, 401),
        ("MPI_Waitall", Host, 8, 0),
        ("MPI_Win_create", Device, 1, 0),
    ];
    let mut sums = Sums::new();
    for (call, memory, calls, bytes) in rows {
        let sum: &mut (u64, u64) = sums.entry((call.to_owned(), of(memory))).or_default();
        *sum = (sum.0 + calls, sum.1 + bytes);
    }
    sums
}

/// HSA does not know managed memory.
fn of_hsa(memory: Memory) -> Memory {
    if memory == Memory::Managed { Memory::Host } else { memory }
}

/// The rows of operations that the expectation has; others are of no buffer.
fn compared(found: Sums, expected: &Sums, mpi: &Mpi) {
    for (key, sum) in &found {
        let is_expected = expected.keys().any(|(call, _)| *call == key.0);
        assert!(is_expected || key.1 == Memory::Host, "{}: {key:?} {sum:?}", mpi.name);
    }
    let known: Sums =
        found.into_iter().filter(|((call, _), _)| expected.keys().any(|(name, _)| name == call)).collect();
    assert_eq!(&known, expected, "{}", mpi.name);
}

#[case]
fn each_call_has_the_memory_of_its_buffers(mpi: &Mpi) {
    compared(run(mpi, &driver(), "before", &[]), &expected(|memory| memory), mpi);
    compared(run(mpi, &hip(), "before", &["--experimental"]), &expected(of_hsa), mpi);
}

#[case]
fn a_driver_that_is_loaded_in_the_run_is_noticed(mpi: &Mpi) {
    for options in [&[][..], &["--sites", "0"]] {
        compared(run(mpi, &driver(), "after", options), &expected(|memory| memory), mpi);
    }
}

/// As with an MPI that takes the memory of AMD's GPUs, too.
#[case]
fn a_driver_that_is_loaded_beside_hsa_is_noticed(mpi: &Mpi) {
    let folder = hip().parent().expect("it is in a folder").display().to_string();
    let linked = [format!("-L{folder}"), format!("-Wl,-rpath,{folder}")];
    let options = ["-ldl", &linked[0], &linked[1], "-Wl,--no-as-needed", "-l:libhsa-runtime64.so.1"];
    let program = mpi.compile_variant("gpu/buffers", "beside_hsa", &options);
    compared(run_of(mpi, program, &driver(), "after", &[]), &expected(|memory| memory), mpi);
}

#[case]
fn without_a_driver_all_memory_is_the_host_s(mpi: &Mpi) {
    compared(run(mpi, &driver(), "without", &[]), &expected(|_| Memory::Host), mpi);
}

#[case]
fn hsa_is_asked_whenever_it_was_loaded_and_hip_never(mpi: &Mpi) {
    for when in ["after", "late"] {
        compared(run(mpi, &hip(), when, &["--experimental"]), &expected(of_hsa), mpi);
    }
    let finished =
        Run::from_program(mpi, mpi.compile_with("gpu/buffers", &["-ldl"])).ranks(2).argument("before");
    let finished = finished.argument(hip().display()).profiled();
    assert!(
        finished.tables().calls.iter().all(|row| row.memory == Memory::Host),
        "it has never run on hardware"
    );
    let notes = &finished.tables().run.notes;
    assert!(notes.iter().any(|note| note.contains("--experimental")), "{notes:?}");
}

/// A library that needs the driver, and another one whose constructor takes a while and is called
/// first.
fn slow_library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || {
        let driver = driver();
        let folder = driver.parent().expect("it is in a folder");
        let compile = |name: &str, source: &str, with: &[&str]| {
            let (library, file) = (folder.join(name), folder.join(name).with_extension("c"));
            std::fs::write(&file, source).expect("target can be written");
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}"), "-Wl,--no-as-needed", "-o"]);
            compiler.arg(&library).arg(&file).arg(format!("-L{}", folder.display())).args(with);
            assert!(compiler.arg("-Wl,-rpath,$ORIGIN").status().expect("cc starts").success());
            library
        };
        // Until the program has made its calls; half a minute if these wait for the loader, which
        // is wrong.
        let constructor = "__attribute__((constructor)) static void wait_long(void) {
            volatile int *calls_are_made = dlsym(RTLD_DEFAULT, \"calls_are_made\");
            for (int ms = 0; !*calls_are_made && ms < 30000; ms++) usleep(1000);
        }";
        let head = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n";
        compile("libslow.so", &format!("{head}{constructor}\n"), &[]);
        compile("libneeds_driver.so", "", &["-l:libcuda.so.1", "-lslow"])
    };
    LIBRARY.get_or_init(compiled).clone()
}

/// It may be called at any time once it was found.
#[case]
fn a_driver_that_another_thread_closes_stays_where_it_was_found(mpi: &Mpi) {
    let program = mpi.compile_with("gpu/closing", &["-ldl", "-pthread"]);
    let finished = Run::from_program(mpi, program).ranks(1).argument(driver().display()).profiled();
    assert_eq!(finished.tables().sum("W", "MPI_Allreduce").calls, 200_000, "{}", mpi.name);
}

#[case]
fn a_driver_that_another_thread_is_loading_is_called_when_its_constructors_have_returned(mpi: &Mpi) {
    let program = mpi.compile_with("gpu/loading", &["-ldl", "-pthread", "-rdynamic"]);
    let finished = Run::from_program(mpi, program).ranks(2).argument(slow_library().display()).profiled();
    let mut sums = Sums::new();
    for row in finished.tables().calls.iter().filter(|row| row.call == "MPI_Bcast") {
        let sum = sums.entry((row.call.clone(), row.memory)).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.bytes);
    }
    let all = [(("MPI_Bcast".to_owned(), Memory::Device), (2 * 8, 7 * 53 + 59))];
    assert_eq!(sums, Sums::from(all), "{}", mpi.name);
}
