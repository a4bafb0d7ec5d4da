//! Rarer calls of programs: patches that come out again, graphs, functions that kernels call,
//! libraries that are unloaded. With a fake driver, Sanitizer and NVBit.

mod support;

use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{GpuMemory, GpuRow};
use std::path::Path;
use support::stage::{BOTH, Backend, Stage};

/// Runs `tests/fake/calls.c`; what it says, and the rows.
fn run(backend: Backend, what: &str) -> (String, Vec<GpuRow>) {
    run_of(backend, what, "*")
}

/// The same of kernels of a pattern.
fn run_of(backend: Backend, what: &str, kernels: &str) -> (String, Vec<GpuRow>) {
    let (said, rows, notes) = run_with_notes(backend, what, kernels);
    assert_eq!(notes, Vec::<String>::new());
    (said, rows)
}

fn run_with_notes(backend: Backend, what: &str, kernels: &str) -> (String, Vec<GpuRow>, Vec<String>) {
    run_on(&Stage::without_program(backend), what, &[("MPISEE_GPU_KERNELS", kernels)])
}

/// The same with options.
fn run_on(stage: &Stage, what: &str, options: &[(&str, &str)]) -> (String, Vec<GpuRow>, Vec<String>) {
    let backend = stage.backend;
    stage.build(&["tests/fake/calls.c"], "calls", &["-pthread"]);
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/lines.cubin");
    let output = stage
        .command(&stage.path("calls"))
        .envs(options.iter().copied())
        .arg(module)
        .arg(what)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{backend:?} {what}: {said}");
    let (rows, notes) = stage.rows();
    (String::from_utf8(output.stdout).unwrap(), rows, notes)
}

/// Kernel, source, accesses, sorted; of one kind.
fn seen(rows: &[GpuRow], access: Access) -> Vec<(&str, &str, u64)> {
    let of_kind = rows.iter().filter(|row| row.access == access);
    let mut seen: Vec<_> =
        of_kind.map(|row| (row.kernel.as_str(), row.source.as_str(), row.accesses)).collect();
    seen.sort_unstable();
    seen
}

#[test]
fn patches_come_out_when_nothing_remote_is_left_and_in_again() {
    let (said, rows) = run(Backend::Sanitizer, "idle");
    // Each time they stay while memory is there, and then for twice as many waits; who allocates in
    // each turn is patched once.
    assert_eq!(said, "0 1 2 1 3 1 5 1 9\n1\n");
    let sum: u64 = rows.iter().map(|row| row.accesses).sum();
    assert_eq!((rows[0].kernel.as_str(), sum), ("count", 32 * (4 + 100)));
    // NVBit has calls in kernels that may access such memory alone.
    let (said, rows) = run(Backend::Nvbit, "idle");
    assert_eq!(said, "0 1 0 1 0 1 0 1 0\n0\n");
    assert_eq!(rows.iter().map(|row| row.accesses).sum::<u64>(), 32 * (4 + 100));
}

#[test]
fn of_some_intervals_all_is_counted_and_of_the_others_the_launches() {
    for backend in BOTH {
        let stage = Stage::without_program(backend);
        let (said, rows, notes) = run_on(&stage, "intervals", &[("MPISEE_GPU_INTERVALS", "20")]);
        let (all_patched, in_streams, _) = run_on(
            &Stage::without_program(backend),
            "intervals of streams",
            &[("MPISEE_GPU_INTERVALS", "20")],
        );
        assert_eq!(notes, Vec::<String>::new());
        // All launches of a kernel are alike, so that the estimates are exact.
        let sums = |access| seen(&rows, access).iter().map(|(_, _, accesses)| *accesses).collect::<Vec<_>>();
        assert_eq!(sums(Access::Atomic), [32 * 3 * 2 * 400], "{backend:?} {rows:#?}");
        assert_eq!(sums(Access::Store), [32 * 5 * 200], "{backend:?} {rows:#?}");
        assert_eq!(sums(Access::Load), [32 * 7], "{backend:?} {rows:#?}");
        assert!(rows.iter().all(|it| (it.sampled, it.error) == (20, 0.0)), "{rows:#?}");
        if backend == Backend::Sanitizer {
            // By chance 20 steps of 400, with two or three launches each, besides those that begin
            // with a new kernel.
            let patched: u32 = said.trim().parse().unwrap();
            assert!((4..150).contains(&patched), "{patched}");
            assert_eq!(all_patched.trim(), "1001", "patches stay where they could not be put in again");
        }
        let sums = |rows| seen(rows, Access::Atomic).iter().map(|(_, _, accesses)| *accesses).sum::<u64>();
        assert_eq!(sums(&in_streams), sums(&rows), "{backend:?}");
    }
}

#[test]
fn nothing_is_patched_at_a_launch_in_a_stream_of_the_program() {
    let (said, rows, notes) = run_with_notes(Backend::Sanitizer, "own stream", "*");
    assert_eq!(seen(&rows, Access::Atomic).iter().map(|it| it.2).sum::<u64>(), 32 * (3 + 5));
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.contains("in streams of the program's own"), "{note}");
    assert_eq!(said, "-1\n", "patches stay");
    // NVBit has calls in single kernels.
    let (_, rows) = run(Backend::Nvbit, "own stream");
    assert_eq!(seen(&rows, Access::Atomic).iter().map(|it| it.2).sum::<u64>(), 32 * (2 + 3 + 5));
}

#[test]
fn patches_stay_while_another_threads_kernels_may_run() {
    let (said, rows) = run(Backend::Sanitizer, "threads");
    assert_eq!(said, "-1 1\n");
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_captured_stream_is_left_alone_and_each_launch_of_its_graph_counts() {
    for backend in BOTH {
        let (said, rows) = run(backend, "graph");
        // A graph may keep kernels as they are patched.
        assert_eq!(said, if backend == Backend::Sanitizer { "-1\n" } else { "0\n" });
        let stores: u64 = seen(&rows, Access::Store).iter().map(|(_, _, accesses)| accesses).sum();
        assert_eq!(stores, 32 * (1 + 1 + 4 * 3 + 3), "{backend:?} {rows:#?}");
        let atomics: u64 = seen(&rows, Access::Atomic).iter().map(|(_, _, accesses)| accesses).sum();
        assert_eq!(atomics, 32 * 3 * 5, "{backend:?} {rows:#?}");
    }
}

#[test]
fn kernels_of_a_graph_that_were_not_chosen_do_not_count() {
    for backend in BOTH {
        for (chosen, stores) in [("copy", 32 * 2), ("calls", 32 * 4)] {
            let (_, rows) = run_of(backend, "unchosen", chosen);
            let seen: Vec<_> =
                rows.iter().map(|row| (row.kernel.as_str(), row.access, row.accesses)).collect();
            assert_eq!(seen, [(chosen, Access::Store, stores)], "{backend:?} {rows:#?}");
        }
    }
}

#[test]
fn kernels_of_a_graph_count_though_memory_came_after_their_last_launch() {
    for backend in BOTH {
        let (_, rows) = run(backend, "late");
        assert_eq!(seen(&rows, Access::Atomic).iter().map(|it| it.2).sum::<u64>(), 32 * 3, "{backend:?}");
    }
}

#[test]
fn launches_before_the_device_has_its_counters_are_reported() {
    // NVBit's writes are done when a launch is made.
    let (_, rows, notes) = run_with_notes(Backend::Sanitizer, "behind", "*");
    assert_eq!(seen(&rows, Access::Atomic).iter().map(|it| it.2).sum::<u64>(), 32 * (2 + 5));
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.contains("before the device had its counters"), "{note}");
}

#[test]
fn a_stream_has_nothing_of_another_that_had_its_number() {
    // NVBit's writes are done when a launch is made.
    let stage = || Stage::without_program(Backend::Sanitizer);
    for later in [&[][..], &[("FAKE_GREEN_CONTEXTS", "1")]] {
        let (_, rows, _) = run_on(&stage(), "streams", later);
        assert_eq!(seen(&rows, Access::Atomic).iter().map(|it| it.2).sum::<u64>(), 32 * 8, "{later:?}");
    }
}

#[test]
fn memory_is_known_by_its_flags_and_parts_of_a_mapped_block_by_their_handles() {
    let (_, rows) = run(Backend::Sanitizer, "memory");
    let sum =
        |memory: GpuMemory| rows.iter().filter(|it| it.memory == memory).map(|it| it.accesses).sum::<u64>();
    assert_eq!([sum(GpuMemory::Pinned), sum(GpuMemory::Ipc)], [32 * 2, 32 * (3 + 5 + 11)], "{rows:#?}");
}

#[test]
fn functions_that_kernels_call_count_and_what_replaces_a_library_is_another() {
    for backend in BOTH {
        let (said, rows, notes) = run_with_notes(backend, "functions", "*");
        // NVBit takes functions with the same handles for those of the first library.
        let is_seen = backend == Backend::Sanitizer;
        let loads = if is_seen { 4 } else { 2 };
        assert_eq!(seen(&rows, Access::Load), [("calls", "calls+0x10", 32 * loads)], "{backend:?}");
        let stores = seen(&rows, Access::Store);
        let [also, calls, copy_with_lines, of_second @ ..] = &stores[..] else { panic!("{stores:#?}") };
        assert_eq!((also.0, also.2, calls.0, calls.2), ("also", 32 * 5, "calls", 32 * 3), "{backend:?}");
        // It has no image, and so no lines.
        let second = [("copy", "copy+0xe0", 32 * 11)];
        assert_eq!(*of_second, second[..usize::from(is_seen)], "{backend:?}");
        let is_noted = notes.iter().any(|it| it.contains("where others had been unloaded"));
        assert_eq!((is_noted, notes.len()), (!is_seen, usize::from(!is_seen)), "{backend:?} {notes:?}");
        assert!(copy_with_lines.1.ends_with("lines.cu:12"), "{copy_with_lines:?}");
        assert_eq!(copy_with_lines.2, 32 * 7, "{backend:?}");
        // NVBit says which functions there are; the Sanitizer where those are that the line table
        // names.
        let (helper, patched) = match backend {
            Backend::Sanitizer => ("?+0x7f0000704020", "4\n"),
            Backend::Nvbit => ("helper+0x20", "0\n"),
        };
        assert_eq!([also.1, calls.1], [helper, helper], "{backend:?}");
        // When nothing remote is left kernels run as they were compiled, and so does what they
        // call.
        assert_eq!(said, patched, "{backend:?}");
    }
}
