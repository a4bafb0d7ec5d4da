//! The whole tracer in a program, with a driver and a Sanitizer that only pretend.

mod support;

use mpisee_profile::gpu::{Access, GpuFile, Part, join, parts};
use mpisee_profile::rows::{GpuMemory, GpuRow};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with what a run needs.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage { folder };
        fs::copy(tracer(), stage.path("libmpisee_gpu.so")).unwrap();
        fs::write(stage.path("patches.fatbin"), "").unwrap();
        fs::create_dir(stage.path("segments")).unwrap();
        support::build(
            &["tests/fake/fake.c"],
            &stage.path("libcuda.so.1"),
            &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"],
        );
        let driver = stage.path("libcuda.so.1");
        let here = format!("-Wl,-rpath,{}", stage.folder.path().display());
        support::build(&["tests/fake/program.c"], &stage.path("program"), &[driver.to_str().unwrap(), &here]);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, end: &str, variables: &[(&str, &str)]) -> Output {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/lines.cubin");
        let mut command = Command::new(self.path("program"));
        command
            .args([module.to_str().unwrap(), end])
            .env("MPISEE_GPU", "on")
            .env("MPISEE_SEGMENTS", self.path("segments"))
            .env("MPISEE_GPU_SANITIZER", self.path("libcuda.so.1"))
            .env("CUDA_INJECTION64_PATH", self.path("libmpisee_gpu.so"))
            .envs(variables.iter().copied());
        command.output().unwrap()
    }

    /// What the run left, as if it had been rank 5.
    fn rows(&self) -> (Vec<GpuRow>, Vec<String>) {
        join(self.parts())
    }

    fn parts(&self) -> Vec<Part> {
        let files: Vec<PathBuf> = self.left();
        assert_eq!(files.len(), 1, "{files:?}");
        parts(&GpuFile::read(&files[0]).unwrap().unwrap(), 5)
    }

    fn left(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("segments")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// The library that was built with these tests.
fn tracer() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let places = [deps.join("libmpisee_gpu.so"), deps.join("../libmpisee_gpu.so")];
    let newest = places
        .into_iter()
        .filter(|it| it.is_file())
        .max_by_key(|it| it.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the library before its tests")
}

fn kernel<'r>(rows: &'r [GpuRow], kernel: &str, access: Access, memory: GpuMemory) -> Vec<&'r GpuRow> {
    rows.iter().filter(|it| it.kernel == kernel && it.access == access && it.memory == memory).collect()
}

/// What the program does until it ends, in each way.
fn check(rows: &[GpuRow]) {
    let of_stores = kernel(rows, "copy", Access::Store, GpuMemory::Device);
    assert_eq!(of_stores.len(), 2, "{rows:#?}");
    // Two allocations by one call at one address: two objects in the file, one call stack or two in the rows.
    assert_eq!(of_stores.iter().map(|it| it.accesses).sum::<u64>(), 32 * 11 + 4 + 2);
    assert_eq!(of_stores.iter().map(|it| it.bytes).sum::<u64>(), 8 * (32 * 11 + 4 + 2));
    for row in &of_stores {
        assert!(row.source.ends_with("lines.cu:12"), "{row:?}");
        assert_eq!((row.rank, row.peer_rank, row.width), (5, Some(5), 8));
        assert_eq!(row.device, "GPU-00000000-0000-0000-0000-000000000000");
        assert_eq!(row.peer_device, "GPU-00000000-0000-0000-0000-000000000001");
        assert!(row.object.contains("program+0x"), "{row:?}");
    }
    let sole = |name: &str, access, memory| {
        let found = kernel(rows, name, access, memory);
        assert_eq!(found.len(), 1, "{name} {access:?} {memory:?}: {found:#?}");
        (found[0].accesses, found[0].bytes, found[0].width)
    };
    assert_eq!(sole("count", Access::Atomic, GpuMemory::Pinned), (3, 12, 4));
    assert_eq!(sole("count", Access::Load, GpuMemory::Managed), (3, 48, 16));
    assert_eq!(sole("other", Access::Load, GpuMemory::Registered), (16, 16, 1));
    assert_eq!(sole("other", Access::Store, GpuMemory::Device), (5, 5 * 4096, 0));
    // Those of 1000 allocations that one call made, and one more.
    let passing = kernel(rows, "count", Access::Load, GpuMemory::Pinned);
    assert_eq!(passing.iter().map(|it| it.accesses).sum::<u64>(), 1001);
    assert!(passing.iter().any(|it| it.accesses == 1000), "{passing:#?}");
    assert!(kernel(rows, "copy", Access::Load, GpuMemory::Device).is_empty(), "its own memory");
}

#[test]
fn what_kernels_access_is_counted_and_outlives_the_process() {
    let stage = Stage::new();
    let output = stage.run("leave", &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 patched\n");
    assert!(output.status.success());
    let (rows, notes) = stage.rows();
    check(&rows);
    assert_eq!(kernel(&rows, "ignored", Access::Load, GpuMemory::Device)[0].accesses, 160);
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn a_killed_process_leaves_what_was_counted_when_it_last_waited() {
    let stage = Stage::new();
    let output = stage.run("kill", &[("MPISEE_GPU_KERNELS", "?o*")]);
    assert_eq!(output.status.signal(), Some(9));
    let (rows, _) = stage.rows();
    let stores: u64 =
        kernel(&rows, "copy", Access::Store, GpuMemory::Device).iter().map(|it| it.accesses).sum();
    assert_eq!(stores, 32 * 11 + 4 + 2);
    assert!(rows.iter().all(|it| it.kernel != "ignored"), "the pattern leaves it out");
}

#[test]
fn a_program_without_mpi_leaves_nothing_behind() {
    let stage = Stage::new();
    assert!(stage.run("return", &[]).status.success());
    assert_eq!(stage.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_sampled_run_is_scaled_and_says_so() {
    let stage = Stage::new();
    assert!(stage.run("leave", &[("MPISEE_GPU_SAMPLE", "2")]).status.success());
    let (rows, _) = stage.rows();
    for row in &rows {
        // Copies of any length are all counted.
        assert_eq!(row.sampled, if row.width == 0 { 1 } else { 2 });
        assert_eq!(row.error > 0.0, row.sampled == 2, "{row:?}");
    }
    let copies = kernel(&rows, "other", Access::Store, GpuMemory::Device);
    assert_eq!(copies[0].bytes, 5 * 4096);
}

#[test]
fn what_does_not_work_leaves_the_program_alone_and_is_told() {
    let stage = Stage::new();
    for (fails, note) in [
        ("alloc", "rank 5: the device had no memory for counters"),
        ("patch", "rank 5: a module could not be patched, and its kernels are not counted"),
        ("read", "rank 5: the device had no memory for counters"),
    ] {
        let output = stage.run("leave", &[("FAKE_FAILS", fails)]);
        assert!(output.status.success(), "{fails}: {output:?}");
        assert_eq!(output.stderr, b"", "{fails}");
        let (rows, notes) = stage.rows();
        assert_eq!((rows, notes), (Vec::new(), vec![note.to_owned()]), "{fails}");
        stage.left().iter().for_each(|file| fs::remove_file(file).unwrap());
    }
    let output = stage.run("leave", &[("FAKE_FAILS", "subscribe")]);
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.starts_with("mpisee: what GPU kernels access is not counted: ") && told.lines().count() == 1,
        "{told}"
    );
    let output = stage.run("leave", &[("MPISEE_GPU_SANITIZER", "/nowhere/libsanitizer-public.so")]);
    assert!(
        output.status.success()
            && output.stderr.starts_with(b"mpisee: what GPU kernels access is not counted: ")
    );
}
