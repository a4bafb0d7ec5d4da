//! `mpisee --gpu-copies`: copies of the host and what of it was for messages, with a fake driver
//! and CUPTI.

use super::{LIMIT, installation, left};
use mpisee_profile::Profile;
use mpisee_profile::rows::{CopyMode, CopyRow, Memory, MessageEnd, Row, StagedRow};
use mpisee_tests::{Mpi, case, dist, root, within};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The fake driver, compiled; it contains a fake CUPTI.
fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = root().join("target/tests/gpu-copies");
        std::fs::create_dir_all(&folder).expect("target can be written");
        let library = folder.join("libcuda.so.1");
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
            .arg(&library)
            .arg(root().join("gpu-tracer/tests/fake/copies/driver.c"))
            .arg("-ldl")
            .status();
        assert!(compiled.expect("cc starts").success());
        library
    })
}

/// Runs the program on 2 ranks in the installation.
fn run(mpi: &Mpi, prefix: &Path, argument: &str, options: &[&str]) -> Output {
    let library_path = driver().parent().expect("a folder").display().to_string();
    let headers = format!("-I{}", root().join("gpu-tracer/tests/fake").display());
    let here = format!("-Wl,-rpath,{library_path}");
    let driver = driver().display().to_string();
    let program = mpi.compile_with("gpu/copies", &[&headers, &driver, &here]);
    std::fs::create_dir_all(prefix.join("segments")).expect("it can be made");
    let mut command = mpi.launcher(2, &[("LD_LIBRARY_PATH".to_owned(), library_path)]);
    command.arg(prefix.join("bin/mpisee")).args(["--gpu-copies", "--output", "test.mpisee", "--gpu-cupti"]);
    command.arg(driver).arg("--segments").arg(prefix.join("segments")).args(options);
    within(LIMIT, command.arg(program).arg(argument).current_dir(prefix))
}

fn rows<R: Row>(directory: &Path) -> Vec<R> {
    let profile = Profile::open(directory).expect("there is a profile");
    profile.rows_if_any().expect("the table can be read").map(|row| row.expect("a row")).collect()
}

/// A row of copies.csv: function, mode, memory of both ends, calls, bytes.
type Calls<'r> = (&'r str, CopyMode, Option<Memory>, Option<Memory>, u64, u64);

/// The rows of a rank.
fn calls(rows: &[CopyRow], rank: u32) -> Vec<Calls<'_>> {
    let of_rank = rows.iter().filter(|row| row.rank == rank);
    let mut seen: Vec<_> =
        of_rank.map(|it| (it.call.as_str(), it.mode, it.from, it.to, it.calls, it.bytes)).collect();
    seen.sort_unstable();
    seen
}

fn staged(rows: &[StagedRow], rank: u32) -> Vec<(&str, MessageEnd, Memory, CopyMode, u64, u64)> {
    let of_rank = rows.iter().filter(|row| row.rank == rank);
    let mut seen: Vec<_> = of_rank
        .map(|it| (it.comm.as_str(), it.direction, it.memory, it.mode, it.matches, it.bytes))
        .collect();
    seen.sort_unstable_by_key(|it| (it.0, it.1 as u8, it.4));
    seen
}

/// The copies and launches of a rank.
fn check(directory: &Path, said: &str, at_end: Option<(u64, u64)>) {
    use CopyMode::{Blocking, Stream};
    let (host, pinned, device) = (Some(Memory::Host), Some(Memory::Pinned), Some(Memory::Device));
    let copies: Vec<CopyRow> = rows(directory);
    for rank in [0, 1] {
        // One rank sends what the other receives.
        let (to_host, to_device) = if rank == 0 { (3001, 0) } else { (0, 3001) };
        let mut expected = vec![
            ("cuLaunchKernel", Stream, None, None, 1, 0),
            ("cuMemcpyAsync", Stream, pinned, device, 1, 1500),
            ("cuMemcpyDtoH", Blocking, device, host, 2 + u64::from(to_host > 0), 4700 + to_host),
            ("cuMemcpyDtoHAsync", Stream, device, pinned, 1, 3011),
            ("cuMemcpyHtoD", Blocking, host, device, 1 + u64::from(to_device > 0), 4000 + to_device),
        ];
        expected.extend(at_end.map(|(calls, bytes)| ("cuMemsetD32", Blocking, None, device, calls, bytes)));
        expected.sort_unstable();
        assert_eq!(calls(&copies, rank), expected, "rank {rank}\n{said}");
    }
    let device_of = |row: &CopyRow| row.device.chars().last();
    assert!(copies.iter().all(|row| device_of(row) == char::from_digit(row.rank, 10)), "{copies:#?}");
    let staged_rows: Vec<StagedRow> = rows(directory);
    let pinned = |direction| ("W_d1", direction, Memory::Pinned, Stream, 2, 1500);
    let host = |comm, direction, matches, bytes| (comm, direction, Memory::Host, Blocking, matches, bytes);
    for (rank, direction) in [(0, MessageEnd::Sent), (1, MessageEnd::Received)] {
        let mut expected = vec![
            host("W", MessageEnd::Sent, 2, 4700),
            host("W", MessageEnd::Received, 1, 4000),
            host("W_d1", direction, 1, 3001),
            pinned(MessageEnd::Sent),
            pinned(MessageEnd::Received),
        ];
        expected.sort_unstable_by_key(|it| (it.0, it.1 as u8, it.4));
        assert_eq!(staged(&staged_rows, rank), expected, "rank {rank}\n{said}");
    }
    assert!(staged_rows.iter().all(|row| row.time_s.0 > 0.0), "{staged_rows:#?}");
}

#[case]
fn copies_for_messages_are_staged_once_on_their_communicator(mpi: &Mpi) {
    let prefix = installation();
    let output = run(mpi, prefix.path(), "end", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    check(&prefix.path().join("test.mpisee"), &said, None);
    assert_eq!(left(prefix.path()), 0, "nothing is left behind");
    let answer = Command::new(dist().join("bin/mpisee-through"))
        .args(["gpu", "test.mpisee", "--by", "staging"])
        .current_dir(prefix.path())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.status.success() && text.contains("W_d1: 11.7 KiB staged, "), "{text}");
}

#[case]
fn collectives_stage_what_each_process_sends_and_receives(mpi: &Mpi) {
    use MessageEnd::{Received, Sent};
    let prefix = installation();
    let output = run(mpi, prefix.path(), "collectives", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let rows: Vec<StagedRow> = rows(&prefix.path().join("test.mpisee"));
    let row =
        |comm, direction, matches, bytes| (comm, direction, Memory::Host, CopyMode::Blocking, matches, bytes);
    // Rank 0 sends 8009 bytes and gets 41, rank 1 sends 41 and gets 8009; both send the other copy,
    // of which the first byte was received.
    let expected = |rank: u32| {
        vec![
            row("W_d2", Sent, 1, 5003),
            row("W_d2", Received, 1, 5003),
            row("W_d3", if rank == 0 { Sent } else { Received }, 1, 2003),
            row("W_d4", Sent, 2, if rank == 0 { 8009 } else { 41 } + 1008),
        ]
    };
    for rank in [0, 1] {
        assert_eq!(staged(&rows, rank), expected(rank), "rank {rank}\n{said}");
    }
}

#[case]
fn copies_of_killed_ranks_are_recovered(mpi: &Mpi) {
    let prefix = installation();
    let output = run(mpi, prefix.path(), "kill", &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let recovered = Command::new(dist().join("bin/mpisee-through"))
        .args(["recover", "segments", "--output", "recovered.mpisee"])
        .current_dir(prefix.path())
        .output()
        .expect("it starts");
    assert!(recovered.status.success(), "{said}{}", String::from_utf8_lossy(&recovered.stderr));
    check(&prefix.path().join("recovered.mpisee"), &said, Some((1, 44)));
}

#[case]
fn sums_over_ranks_say_that_copies_are_left_out(mpi: &Mpi) {
    let prefix = installation();
    let output = run(mpi, prefix.path(), "end", &["--fold", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let directory = prefix.path().join("test.mpisee");
    assert_eq!(rows::<CopyRow>(&directory).len(), 0);
    let profile = Profile::open(&directory).expect("there is a profile");
    let notes = &profile.run().notes;
    assert!(notes.iter().any(|it| it.contains("copies between host and GPUs were counted")), "{notes:?}");
}

#[case]
fn with_gpu_kernels_traced_copies_are_refused_in_one_sentence(mpi: &Mpi) {
    let prefix = installation();
    let sanitizer = driver().display().to_string();
    let output = run(mpi, prefix.path(), "end", &["--gpu", "--gpu-sanitizer", &sanitizer]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let why = "--gpu and --gpu-copies exclude each other";
    assert_eq!(said.matches(why).count(), 1, "{said}");
    assert_eq!(rows::<CopyRow>(&prefix.path().join("test.mpisee")).len(), 0);
}
