//! Copies and launches of the host in a program, with a fake driver and CUPTI.

mod support;

use mpisee_collect::gpu::{copies, name_communicators, parts};
use mpisee_profile::gpu::{FileEntry, GpuFile};
use mpisee_profile::rows::{CopyMode, CopyRow, Memory, MessageEnd, StagedRow};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{BESIDE, build, tracer};

/// A folder with what a run needs, and what it leaves.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Stage {
        let stage = Stage(tempfile::tempdir().unwrap());
        fs::copy(tracer(), stage.path("libmpisee_gpu.so")).unwrap();
        fs::create_dir(stage.path("segments")).unwrap();
        let driver = stage.path("libcuda.so.1");
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl"];
        build(&["tests/fake/copies/driver.c"], &driver, &shared);
        let linked = [driver.to_str().unwrap(), BESIDE, "-rdynamic"];
        build(&["tests/fake/copying.c"], &stage.path("program"), &linked);
        build(&["tests/fake/copies/cases.c"], &stage.path("cases"), &linked);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, end: &str, variables: &[(&str, &str)]) -> Output {
        self.run_program("program", end, variables)
    }

    /// A case of `tests/fake/copies/cases.c`, which succeeds and has nothing to say.
    fn run_case(&self, case: &str) {
        let output = self.run_program("cases", case, &[]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", output.status);
        assert!(output.status.success(), "{}", output.status);
    }

    fn run_program(&self, program: &str, argument: &str, variables: &[(&str, &str)]) -> Output {
        Command::new(self.path(program))
            .arg(argument)
            .env("MPISEE_GPU_COPIES", "on")
            .env("MPISEE_GPU_CUPTI", self.path("libcuda.so.1"))
            .env("MPISEE_SEGMENTS", self.path("segments"))
            .env("CUDA_INJECTION64_PATH", self.path("libmpisee_gpu.so"))
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    /// Notes of the process.
    fn notes(&self) -> Vec<String> {
        let file = GpuFile::read(&self.left()[0]).unwrap().unwrap();
        let note = |entry| if let FileEntry::Note(text) = entry { Some(text) } else { None };
        file.entries.into_iter().filter_map(note).collect()
    }

    /// Files but for segments.
    fn left(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path("segments")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|it| it.extension().is_none_or(|it| it != "segment")).collect()
    }

    /// Rows of the run, as if it had been rank 5.
    fn rows(&self) -> (Vec<CopyRow>, Vec<StagedRow>) {
        let files = self.left();
        assert_eq!(files.len(), 1, "{files:?}");
        let mut parts = parts(&GpuFile::read(&files[0]).unwrap().unwrap(), 5);
        name_communicators(&mut parts, &["", "", "", "W", "W_d1"].map(str::to_owned));
        copies(&parts)
    }
}

/// Calls and bytes of rows: function, mode, and both ends with the last digit of the device.
fn seen(rows: &[CopyRow]) -> Vec<(&str, CopyMode, String, u64, u64)> {
    let end = |memory: Option<Memory>, device: &str| match memory {
        None => String::new(),
        Some(memory) => format!("{memory:?}{}", device.chars().last().map_or(String::new(), String::from)),
    };
    let row = |row: &'_ CopyRow| {
        let ends = format!("{}>{}", end(row.from, &row.from_device), end(row.to, &row.to_device));
        (ends, row.calls, row.bytes)
    };
    let mut seen: Vec<_> = rows
        .iter()
        .map(|it| {
            let (ends, calls, bytes) = row(it);
            (it.call.as_str(), it.mode, ends, calls, bytes)
        })
        .collect();
    seen.sort_unstable();
    seen
}

/// The calls that the program makes before it stages messages.
fn expected() -> Vec<(&'static str, CopyMode, String, u64, u64)> {
    use CopyMode::{Blocking, Stream};
    let row = |call, mode, ends: &str, calls, bytes| (call, mode, ends.to_owned(), calls, bytes);
    let mut rows = vec![
        row("cuMemcpyHtoD", Blocking, "Host>Device0", 2, 203),
        row("cuMemcpyDtoH", Blocking, "Device0>Host", 1, 103),
        row("cuMemcpyDtoHAsync", Stream, "Device0>Pinned", 1, 104),
        row("cuMemcpy", Blocking, "Device0>Device1", 1, 105),
        row("cuMemcpyAsync", Stream, "Device0>Managed", 2, 213),
        row("cuMemcpyPeer", Blocking, "Device0>Device1", 1, 108),
        row("cuMemcpyHtoA", Blocking, "Host>Device0", 1, 109),
        row("cuMemcpy2D", Blocking, "Device0>Host", 1, 110),
        row("cuMemcpyBatchAsync", Stream, "Device0>Host", 1, 111),
        row("cuMemcpyBatchAsync", Stream, "Host>Device0", 1, 112),
        row("cuMemsetD32", Blocking, ">Device0", 1, 4 * 113),
        row("cuLaunchKernel", Stream, ">", 3, 0),
        row("cuGraphLaunch", Stream, ">", 1, 0),
        row("cuMemcpyAsync", Stream, "Host>Device0", 1, 115),
    ];
    rows.sort_unstable();
    rows
}

#[test]
fn copies_of_every_kind_are_counted_with_the_memory_of_both_ends() {
    let stage = Stage::new();
    let output = stage.run("leave", &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    let (rows, staged) = stage.rows();
    let mut expected = expected();
    let mut add = |call: &str, ends: &str, calls: u64, bytes: u64| {
        let found = expected.iter_mut().find(|it| it.0 == call && it.2 == ends).expect("a row");
        (found.3, found.4) = (found.3 + calls, found.4 + bytes);
    };
    add("cuMemcpyDtoH", "Device0>Host", 1, 201);
    add("cuMemcpyDtoHAsync", "Device0>Pinned", 1, 202);
    add("cuMemcpyHtoD", "Host>Device0", 1, 300);
    assert_eq!(seen(&rows), expected);
    assert!(rows.iter().all(|row| row.rank == 5 && row.time_s.0 > 0.0), "{rows:#?}");
    assert!(rows.iter().all(|row| row.device == "GPU-00000000-0000-0000-0000-000000000000"), "{rows:#?}");
    let seen: Vec<_> = staged
        .iter()
        .map(|it| (it.comm.as_str(), it.direction, it.memory, it.mode, it.matches, it.bytes))
        .collect();
    let (host, pinned) = (Memory::Host, Memory::Pinned);
    assert_eq!(
        seen,
        [
            ("W", MessageEnd::Sent, host, CopyMode::Blocking, 1, 200),
            ("W", MessageEnd::Received, host, CopyMode::Blocking, 1, 200),
            ("W_d1", MessageEnd::Sent, pinned, CopyMode::Stream, 1, 200),
        ]
    );
    assert!(staged.iter().all(|it| it.time_s.0 > 0.0), "{staged:#?}");
}

#[test]
fn a_killed_process_leaves_what_was_copied() {
    let stage = Stage::new();
    let output = stage.run("kill", &[]);
    assert_eq!(output.status.signal(), Some(9));
    let (rows, _) = stage.rows();
    let mut expected = expected();
    expected.push(("cuMemcpy", CopyMode::Blocking, "Host>Device0".to_owned(), 1, 116));
    expected.sort_unstable();
    assert_eq!(seen(&rows), expected);
}

#[test]
fn a_program_without_mpi_leaves_nothing() {
    let stage = Stage::new();
    let output = stage.run("end", &[]);
    assert!(output.status.success());
    assert_eq!(stage.left(), Vec::<PathBuf>::new());
}

#[test]
fn where_cupti_cannot_be_used_the_program_goes_on_and_one_sentence_says_why() {
    let stage = Stage::new();
    for (variable, value, why) in [
        ("FAKE_CUPTI", "taken", "another tool uses CUPTI in this process"),
        ("MPISEE_GPU_CUPTI", "/none/libcupti.so.13", "/none/libcupti.so.13 cannot be loaded"),
        ("MPISEE_GPU_CUPTI", "auto", "--gpu-cupti"),
    ] {
        let output = stage.run("end", &[(variable, value)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.starts_with("mpisee: copies between host and GPUs are not counted: "), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert_eq!(stage.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn every_copy_of_a_large_batch_is_counted_without_memory_for_it() {
    let stage = Stage::new();
    stage.run_case("batch");
    let number = (1 << 20) + 10;
    let row = ("cuMemcpyBatchAsync", CopyMode::Stream, "Host>Device0".to_owned(), number, number);
    assert_eq!(seen(&stage.rows().0), [row]);
    assert_eq!(stage.notes(), Vec::<String>::new());
}

#[test]
fn devices_are_named_without_a_lock_that_a_thread_with_the_drivers_waits_for() {
    let stage = Stage::new();
    stage.run_case("names");
    let row = ("cuMemcpyHtoD", CopyMode::Blocking, "Host>Device0".to_owned(), 2, 3);
    assert_eq!(seen(&stage.rows().0), [row]);
}

#[test]
fn a_first_copy_that_a_constructor_waits_for_takes_no_lock_of_the_loader() {
    let stage = Stage::new();
    let library = ["-shared", "-fPIC"];
    build(&["tests/fake/copies/constructor.c"], &stage.path("libconstructor.so"), &library);
    stage.run_case("constructor");
    let row = ("cuMemcpyHtoD", CopyMode::Blocking, "Host>Device0".to_owned(), 1, 3);
    assert_eq!(seen(&stage.rows().0), [row]);
}

#[test]
fn a_thread_with_the_smallest_stack_has_room_for_its_copies_to_be_counted() {
    let stage = Stage::new();
    stage.run_case("small stack");
    let row = |call, ends: &str, bytes| (call, CopyMode::Blocking, ends.to_owned(), 2, bytes);
    let rows = [row("cuMemcpyDtoH", "Device0>Host", 12), row("cuMemcpyHtoD", "Host>Device0", 10)];
    assert_eq!(seen(&stage.rows().0), rows);
}

#[test]
fn blocks_of_arrays_have_the_bytes_of_the_arrays_elements() {
    let stage = Stage::new();
    stage.run_case("blocks");
    let row =
        |ends: &str, calls, bytes| ("cuMemcpy3DBatchAsync", CopyMode::Stream, ends.to_owned(), calls, bytes);
    let whole = 64 * 32 * 16;
    let (rows, staged) = stage.rows();
    assert_eq!(seen(&rows), [row("Device0>Host", 1, whole), row("Host>Device0", 3, whole + 64 * 32)]);
    assert_eq!(staged.iter().map(|it| it.bytes).collect::<Vec<_>>(), [whole]);
    let note = "1 copies to or from arrays are counted without their bytes: the size of the arrays' elements is not known";
    assert_eq!(stage.notes(), [note]);
}

#[test]
fn what_other_copies_wrote_is_not_staged() {
    let stage = Stage::new();
    stage.run_case("over");
    let (_, staged) = stage.rows();
    let seen: Vec<_> =
        staged.iter().map(|it| (it.comm.as_str(), it.direction, it.memory, it.bytes)).collect();
    assert_eq!(
        seen,
        [
            ("W", MessageEnd::Sent, Memory::Host, 1000),
            ("W", MessageEnd::Sent, Memory::Managed, 2000),
            ("W_d1", MessageEnd::Received, Memory::Host, 1000),
        ]
    );
}

#[test]
fn after_exec_counts_begin_anew() {
    let stage = Stage::new();
    stage.run_case("exec");
    let row = ("cuMemcpyHtoD", CopyMode::Blocking, "Host>Device0".to_owned(), 5, 320);
    assert_eq!(seen(&stage.rows().0), [row]);
}

#[test]
fn calls_in_exit_handlers_are_in_a_note_where_mpi_ends_there() {
    let stage = Stage::new();
    stage.run_case("exit");
    let (rows, staged) = stage.rows();
    assert_eq!(seen(&rows), [("cuMemcpyDtoH", CopyMode::Blocking, "Device0>Host".to_owned(), 1, 100)]);
    // Of the 30 bytes that were sent, those before the first such call.
    assert_eq!(staged.iter().map(|it| it.bytes).collect::<Vec<_>>(), [10]);
    let note =
        "7 calls that copy, set memory or launch came while the process was ending, and are not counted";
    assert_eq!(stage.notes(), [note]);
}
