//! `mpisee-bench` between GPUs that are pretended: a driver and an NCCL that move data between
//! processes, late, and behind addresses at which a processor finds nothing.

use mpisee_profile::rows::Memory;
use mpisee_tests::bench::has_bench;
use mpisee_tests::bench::rows;
use mpisee_tests::{Cluster, Finished, Mpi, Place, Run, case, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder with these libraries: the name that each is loaded by, and its source.
fn libraries(name: &str, sources: &[(&str, &str)]) -> PathBuf {
    let folder = root().join("target/tests/pretended_gpu").join(name);
    std::fs::create_dir_all(&folder).expect("target can be written");
    for (library, source) in sources {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-shared", "-fPIC", &format!("-Wl,-soname,{library}"), "-o"]);
        compiler.arg(folder.join(library)).arg(root().join("tests/programs/gpu").join(source));
        assert!(compiler.status().expect("cc starts").success());
    }
    folder
}

const DRIVER: (&str, &str) = ("libcuda.so.1", "pretended_gpu.c");
const NCCL: (&str, &str) = ("libnccl.so.2", "pretended_gpu_nccl.c");

/// The driver and NCCL.
fn both() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| libraries("both", &[DRIVER, NCCL]))
}

/// The driver, without NCCL.
fn driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| libraries("driver", &[DRIVER]))
}

/// `mpisee-bench` with these words and libraries, each work of a GPU a little late.
fn bench<'m>(mpi: &'m Mpi, words: &str, libraries: &Path) -> Run<'m> {
    let run = mpisee_tests::bench::bench(mpi, words);
    run.variable("LD_LIBRARY_PATH", &libraries.display().to_string()).variable("PRETEND_LATE_US", "30")
}

/// Asserts that all bytes have arrived, and by what.
fn assert_verified(finished: &Finished, sizes: usize, backend: &str, memory: &str) {
    let rows = rows(finished);
    assert_eq!(rows.len(), sizes, "{}", finished.stdout);
    for row in rows {
        assert_eq!((&*row["verified"], &*row["backend"], &*row["memory"]), ("true", backend, memory));
    }
}

/// The one sentence of `mpisee-bench` on standard error.
fn sentence(finished: &Finished) -> &str {
    assert_eq!(finished.stderr.matches("mpisee-bench: ").count(), 1, "{}", finished.stderr);
    let said = finished.stderr.split_once("mpisee-bench: ").expect("it is there").1;
    said.lines().next().unwrap_or_default()
}

/// The lines that the pretended driver has written, without the numbers of processes.
fn log(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let without_process = |line: &str| match line.split_once(' ') {
        Some((word @ ("loaded" | "opened"), _)) => word.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(without_process).collect()
}

#[case(only = has_bench)]
fn messages_go_between_gpus_where_the_processor_finds_nothing(mpi: &Mpi) {
    for (words, backend) in [
        ("ring --direction bi --backend ipc", "ipc"),
        ("ring --direction bi --backend nccl", "nccl"),
        ("p2p --backend ipc", "ipc"),
        ("p2p --exchange bi --window 3 --backend ipc", "ipc"),
        ("p2p --exchange uni --window 3 --backend nccl", "nccl+isend"),
        ("tree --backend nccl", "nccl"),
        ("all-to-all --backend ipc", "ipc"),
        ("stripe --within ipc --backend nccl", "ipc+nccl"),
    ] {
        let run = bench(mpi, &format!("{words} --sizes 1,911,150k"), both()).ranks(4);
        let run = run.variable("PRETEND_APART", "1");
        assert_verified(&run.plain(), 3, backend, "device");
    }
}

/// Each rank has the GPU of its number on the node, and ranks open the memory of those with which
/// they have messages.
#[case(only = has_bench)]
fn gpus_are_taken_in_turn_and_opened_once(mpi: &Mpi) {
    let place = Place::new();
    let file = place.path("log");
    let run = bench(mpi, "ring --backend ipc --sizes 8", both()).ranks(3).variable("PRETEND_GPUS", "2");
    run.variable("PRETEND_LOG", &file.display().to_string()).plain();
    let mut found = log(&file);
    found.sort();
    let expected = [&["loaded"; 3][..], &["opened"; 6], &["takes 0"; 2], &["takes 1"]].concat();
    assert_eq!(found.iter().filter(|line| *line != "loaded").count(), expected.len() - 3, "{found:?}");
    found.dedup();
    assert_eq!(found, ["loaded", "opened", "takes 0", "takes 1"]);
}

#[case(only = has_bench)]
fn the_driver_is_loaded_when_it_is_asked_for(mpi: &Mpi) {
    let place = Place::new();
    let file = place.path("log");
    let logged = |words: &str| {
        let run = bench(mpi, words, both()).ranks(2).variable("PRETEND_LOG", &file.display().to_string());
        run.plain();
        log(&file)
    };
    assert_eq!(logged("ring --sizes 8"), [""; 0], "{}", mpi.name);
    assert!(logged("ring --sizes 8 --memory pinned").contains(&"loaded".to_owned()));
}

/// Ranks that wait for a GPU still progress their messages by MPI, and the other way round: in a
/// file of steps of all kinds, each rank waits for a step that another one has behind something
/// else.
#[case(only = has_bench)]
fn steps_of_all_backends_of_gpus_wait_for_what_they_read(mpi: &Mpi) {
    const TEXT: &str = "step a using ipc\n  0 -> 1 : n to 0\n  1 -> 2 : n from n to 0\n\
                        step b using isend\n  1 -> 0 : n from 0 to n\n  2 -> 1 : n from 0 to 4*n\n\
                        step c using put\n  0 -> 2 : n from n to n\n\
                        step d using nccl\n  2 -> 0 : n from n to 2*n\n  0 -> 0 : n from n to 3*n\n\
                        step e\n  MPI_Allreduce : 8\n\
                        step f using nccl\n  0 -> 1 : n from 3*n to 0 times 3\n  MPI_Allreduce : 24\n\
                        step g using ipc\n  1 -> 2 : n from 0 to 0 times 3\n  2 -> 0 : n from n to 0\n";
    let place = Place::new();
    let file = place.path("mixed.pattern");
    std::fs::write(&file, TEXT).unwrap();
    // Below and above the sizes that MPI sends before they are received.
    let words = format!("run {} --sizes 1,911,300k --assume-gpu-aware", file.display());
    let finished = bench(mpi, &words, both()).ranks(3).plain();
    assert_verified(&finished, 3, "ipc+isend+put+nccl", "device");
}

#[case(only = has_bench)]
fn every_collective_of_nccl_runs_on_two_communicators_at_once(mpi: &Mpi) {
    let words = "collective all --backend nccl --members 0,2 --members 1,3 --root 1 --sizes 8,12,37,70k";
    let finished = bench(mpi, words, both()).ranks(4).variable("PRETEND_APART", "1").plain();
    assert_verified(&finished, 8 * 4, "nccl", "device");
    let names: BTreeSet<String> = rows(&finished).into_iter().map(|row| row["pattern"].clone()).collect();
    let expected = [
        "ncclAllGather",
        "ncclAllReduce",
        "ncclAlltoAll",
        "ncclBroadcast",
        "ncclGather",
        "ncclReduce",
        "ncclReduceScatter",
        "ncclScatter",
    ];
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// MPI gets the kind of memory that was asked for, as the profiler sees it; of the kinds that it
/// does not take it gets none.
#[case(only = has_bench)]
fn mpi_gets_the_memory_that_was_asked_for(mpi: &Mpi) {
    for (kind, memory) in
        [("pinned", Memory::Pinned), ("managed", Memory::Managed), ("device", Memory::Device)]
    {
        for (words, call) in
            [("ring --sizes 1733", "MPI_Isend"), ("collective allreduce --sizes 1733", "MPI_Allreduce")]
        {
            let words = format!("{words} --memory {kind}");
            if memory != Memory::Pinned {
                let refused = bench(mpi, &words, both()).ranks(2).exits_with(2).plain();
                let expected = format!("MPI would get {kind} memory, and this MPI (");
                assert!(sentence(&refused).starts_with(&expected), "{}", refused.stderr);
            }
            let run = bench(mpi, &format!("{words} --assume-gpu-aware"), both()).ranks(2);
            let finished = run.profiled();
            let is_moved = |row: &mpisee_profile::rows::CallRow| row.call == call && row.bytes > 0;
            let moved = finished.tables().sum_where(|row| is_moved(row) && row.memory == memory);
            assert!(moved.calls >= 2 * 3 && moved.bytes == 1733 * moved.calls, "{words}: {moved:?}");
            finished.check();
        }
    }
}

/// Data that arrive wrong are reported, and nothing is measured.
#[case(only = has_bench)]
fn wrong_data_are_found(mpi: &Mpi) {
    for (variable, words, expected) in [
        (
            ("PRETEND_WRONG", "1"),
            "ring --backend ipc",
            "after the pattern, rank 0 has a wrong byte at 2047; what carries ipc between these GPUs is broken",
        ),
        (
            ("PRETEND_NCCL", "wrong"),
            "ring --backend nccl",
            "after the pattern, rank 0 has a wrong byte at 2047; what carries nccl between",
        ),
        (
            ("PRETEND_NCCL", "wrong"),
            "collective reduce --backend nccl",
            "rank 0 got a wrong result from MPI_Reduce; what carries nccl between",
        ),
    ] {
        let run = bench(mpi, &format!("{words} --sizes 1k"), both()).ranks(3).exits_with(2);
        let finished = run.variable(variable.0, variable.1).plain();
        assert!(sentence(&finished).starts_with(expected), "{words}: {}", finished.stderr);
        assert_eq!(finished.stdout, "", "{words}");
    }
}

/// A measurement that cannot be made ends with one sentence, and nothing hangs.
#[case(only = has_bench)]
fn what_gpus_lack_is_said_once(mpi: &Mpi) {
    let nowhere = Path::new("/nowhere");
    for (libraries, variable, words, expected) in [
        (nowhere, None, "ring --backend ipc", "rank 0 has no GPU: there is no CUDA driver (libcuda.so.1);"),
        (nowhere, None, "ring --memory pinned", "rank 0 has no GPU: there is no CUDA driver"),
        (driver(), None, "ring --backend nccl", "rank 0 has no NCCL: libnccl.so.2: cannot open shared"),
        (
            both(),
            Some(("PRETEND_GPUS", "0")),
            "ring --backend nccl",
            "rank 0 has no GPU: cuInit failed with CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)",
        ),
        (
            both(),
            Some(("PRETEND_GPUS", "1")),
            "ring --backend nccl",
            "rank 0: ncclCommInitRank failed with 5 (invalid usage); NCCL takes each GPU for one rank alone",
        ),
        (
            both(),
            Some(("PRETEND_BYTES", "3000000")),
            "ring --backend ipc --sizes 2M",
            "rank 0: 4 MiB of device memory cannot be had (CUDA_ERROR_OUT_OF_MEMORY); its GPU has 2.86 MiB",
        ),
        (both(), None, "ring --backend ipc --memory host", "ipc moves data between GPUs, so --memory host"),
        (both(), None, "ring --backend shared --memory device", "shared copies in the memory of the host"),
        (both(), None, "collective scan --backend nccl", "NCCL has nothing like MPI_Scan; it has MPI_Bcast"),
    ] {
        let run = bench(mpi, words, libraries).ranks(2).exits_with(2);
        let run = variable.into_iter().fold(run, |run, (name, value)| run.variable(name, value));
        let finished = run.plain();
        assert!(sentence(&finished).starts_with(expected), "{words}: {}\n{expected}", finished.stderr);
        assert_eq!(finished.stdout, "", "{words}");
    }
}

/// An NCCL that has failed while it worked ends the program, rather than let it wait for ever.
#[case(only = has_bench)]
fn an_nccl_that_is_stuck_ends_the_program(mpi: &Mpi) {
    let run = bench(mpi, "ring --backend nccl --sizes 8", both()).ranks(2).exits_with(2);
    let finished = run.variable("PRETEND_NCCL", "stuck").plain();
    let said = "mpisee-bench: NCCL's work failed with 6 (remote process error)";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
}

/// GPUs of two nodes have no memory to open: a sentence where a message would cross, and none where
/// each node has its own.
#[case(only = has_bench)]
fn memory_of_gpus_is_opened_within_a_node(mpi: &Mpi) {
    if !mpi.name.starts_with("openmpi-4") {
        return;
    }
    let Some(cluster) = Cluster::begin(2) else { return };
    let within = "stripe --group-size 2 --within ipc --sizes 911,300k --assume-gpu-aware";
    let finished = bench(mpi, within, both()).ranks(4).on(&cluster).plain();
    assert_verified(&finished, 2, "ipc+isend", "device");
    let across = bench(mpi, "ring --backend ipc --sizes 911", both()).ranks(4).on(&cluster).exits_with(2);
    let finished = across.plain();
    let expected = "in step ring, ranks 1 and 2 are on two nodes, which share no memory; take another --backend than ipc";
    assert_eq!(finished.stderr.matches(expected).count(), 1, "{}", finished.stderr);
}
