//! The whole tracer in a program, with a fake driver, Sanitizer and NVBit. What holds for one
//! backend is to hold for the other.

mod support;

use mpisee_profile::gpu::Access;
use mpisee_profile::gpu::records::{Description, Item, RecordReader};
use mpisee_profile::rows::{GpuMemory, GpuRow};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use support::stage::{BOTH, Backend, Stage};

fn kernel<'r>(rows: &'r [GpuRow], kernel: &str, access: Access, memory: GpuMemory) -> Vec<&'r GpuRow> {
    rows.iter().filter(|it| it.kernel == kernel && it.access == access && it.memory == memory).collect()
}

/// Events of the program until it ends, in each way.
fn check(rows: &[GpuRow]) {
    let of_stores = kernel(rows, "copy", Access::Store, GpuMemory::Device);
    assert_eq!(of_stores.len(), 2, "{rows:#?}");
    // Two allocations by one call at one address: two objects in the file, one call stack or two in
    // the rows.
    assert_eq!(of_stores.iter().map(|it| it.accesses).sum::<u64>(), 32 * 11 + 8 + 4 + 2);
    assert_eq!(of_stores.iter().map(|it| it.bytes).sum::<u64>(), 8 * (32 * 11 + 8 + 4 + 2));
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
fn accesses_of_kernels_are_counted_and_outlive_the_process() {
    for backend in BOTH {
        let stage = Stage::new(backend);
        let output = stage.run("leave", &[]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        // The Sanitizer's patches stay, and find nothing to count.
        let at_end = u32::from(backend == Backend::Sanitizer);
        let printed = format!("0 patched\n{at_end} patched at the end\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
        assert!(output.status.success());
        let (rows, notes) = stage.rows();
        check(&rows);
        assert_eq!(kernel(&rows, "ignored", Access::Load, GpuMemory::Device)[0].accesses, 160);
        assert_eq!(notes, Vec::<String>::new());
    }
}

#[test]
fn devices_are_those_of_contexts_also_with_a_later_sanitizer() {
    let stage = Stage::new(Backend::Sanitizer);
    let output = stage.run("leave", &[("FAKE_GREEN_CONTEXTS", "1")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&stage.rows().0);
}

#[test]
fn a_killed_process_leaves_what_was_counted_when_it_last_waited() {
    for backend in BOTH {
        let stage = Stage::new(backend);
        let output = stage.run("kill", &[("MPISEE_GPU_KERNELS", "?o*")]);
        assert_eq!(output.status.signal(), Some(9));
        let (rows, _) = stage.rows();
        let stores: u64 =
            kernel(&rows, "copy", Access::Store, GpuMemory::Device).iter().map(|it| it.accesses).sum();
        assert_eq!(stores, 32 * 11 + 8 + 4 + 2);
        assert!(rows.iter().all(|it| it.kernel != "ignored"), "the pattern leaves it out");
    }
}

#[test]
fn a_program_without_mpi_leaves_nothing_behind() {
    for backend in BOTH {
        let stage = Stage::new(backend);
        // C++ objects are destroyed by then, in this NVBit, too.
        let ends = if backend == Backend::Sanitizer { &["return", "unload"][..] } else { &["return"] };
        for end in ends {
            let output = stage.run(end, &[]);
            assert!(output.status.success() && output.stderr.is_empty(), "{backend:?} {end}: {output:?}");
            assert_eq!(stage.left(), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn a_sampled_run_is_scaled_and_says_so() {
    for backend in BOTH {
        let stage = Stage::new(backend);
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
}

/// Accesses by kernel, kind, width and place.
type Sums = BTreeMap<(String, u8, u32, String), u64>;

/// The accesses of the records of a run, and of how many launches they are.
fn recorded(folder: &Path) -> (Sums, usize) {
    let files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let reader = RecordReader::new(zstd::Decoder::new(fs::File::open(&files[0]).unwrap()).unwrap()).unwrap();
    let (mut instructions, mut places) = (HashMap::new(), HashMap::new());
    let (mut sums, mut launches) = (BTreeMap::new(), HashSet::new());
    for item in reader {
        match item.unwrap() {
            Item::Description(Description::Instruction { id, kernel, source, .. }) => {
                assert!(kernel != "copy" || source.ends_with("lines.cu:12"), "{source}");
                instructions.insert(id, kernel);
            }
            Item::Description(Description::Allocation { id, begin, bytes, place, object, .. }) => {
                assert!(object.contains("program+0x"), "{object}");
                let place = format!("{place:?}").split('(').next().unwrap().to_owned();
                places.insert(id, (begin..begin + bytes, place));
            }
            Item::Description(printed) => assert_eq!(printed, Description::Sampled(1)),
            Item::Access(it) => {
                let (range, place) = &places[&it.allocation];
                assert!(it.width == 0 || it.words.len() == it.lanes.count_ones() as usize);
                assert!(it.width == 0 || it.words.iter().all(|address| range.contains(address)), "{it:?}");
                launches.insert(it.launch);
                let key = (instructions[&it.instruction].clone(), it.access as u8, it.width, place.clone());
                *sums.entry(key).or_default() += u64::from(it.lanes.count_ones());
            }
        }
    }
    (sums, launches.len())
}

#[test]
fn records_of_accesses_are_those_that_are_counted() {
    for backend in BOTH {
        let stage = Stage::new(backend);
        let folder = stage.path("records");
        let output = stage.run("leave", &[("MPISEE_GPU_RECORDS", folder.to_str().unwrap())]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let (rows, notes) = stage.rows();
        check(&rows);
        assert_eq!(notes, Vec::<String>::new());
        let mut counted = Sums::new();
        for row in &rows {
            let place = format!("{:?}", row.memory);
            *counted.entry((row.kernel.clone(), row.access as u8, row.width, place)).or_default() +=
                row.accesses;
        }
        let (sums, launches) = recorded(&folder);
        assert_eq!(sums, counted, "{backend:?}");
        // Six of different memory and one of a graph, two of memory that is freed, 1000 of such
        // that passes, and one more.
        assert_eq!(launches, 7 + 2 + 1000 + 1, "{backend:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_costs_the_records_alone() {
    for backend in BOTH {
        let stage = Stage::new(backend);
        let output = stage.run("leave", &[("MPISEE_GPU_RECORDS", "/dev/null/records")]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let (rows, notes) = stage.rows();
        check(&rows);
        assert!(notes[0].contains("there are no records of accesses: '/dev/null/records'"), "{notes:?}");
    }
}

/// Runs the program with a trace, and how many of its lines have all these parts.
fn traced(stage: &Stage, variables: &[(&str, &str)]) -> impl Fn(&[&str]) -> usize {
    let trace = stage.path("trace");
    let output = stage.run("leave", &[variables, &[("MPISEE_GPU_TRACE", trace.to_str().unwrap())]].concat());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let files = fs::read_dir(stage.path("")).unwrap().map(|it| it.unwrap().path());
    let traces: Vec<PathBuf> = files.filter(|it| it.file_stem() == trace.file_name()).collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let text = fs::read_to_string(&traces[0]).unwrap();
    move |parts| text.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
}

#[test]
fn patches_that_do_nothing_count_nothing() {
    for (backend, given) in [(Backend::Sanitizer, "launch gets 0x0"), (Backend::Nvbit, "gets Some(0)")] {
        let stage = Stage::new(backend);
        let lines_with = traced(&stage, &[("MPISEE_GPU_EMPTY", "1")]);
        assert_eq!(stage.rows(), (Vec::new(), Vec::new()), "{backend:?}");
        assert!(lines_with(&[given]) > 1000, "{backend:?}");
        let patched = if backend == Backend::Nvbit { "calls=" } else { "patch \"mpisee_access\"" };
        assert!(lines_with(&[patched]) > 0, "{backend:?}");
    }
}

#[test]
fn debug_log_has_the_events_of_the_driver_and_their_effects() {
    for backend in BOTH {
        let stage = Stage::new(backend);
        let lines_with = traced(&stage, &[]);
        check(&stage.rows().0);
        assert_eq!(lines_with(&["listening"]), 1, "{backend:?}");
        assert_eq!(lines_with(&["allocated", "bytes=512 ", "Pinned"]), 1000, "{backend:?}");
        assert_eq!(lines_with(&["counter", "lines.cu:12", "kernel=copy", "width=8"]), 2, "{backend:?}");
        let given = if backend == Backend::Nvbit { "gets Some(" } else { "" };
        assert_eq!(lines_with(&["launch kernel=count", given]), 2 + 1000 + 1, "{backend:?}");
    }
}

#[test]
fn failures_leave_the_program_alone_and_are_reported() {
    let no_memory = "rank 5: the device had no memory for counters";
    let not_read = "rank 5: counters could not be read from the device";
    for (backend, fails, note) in [
        (Backend::Sanitizer, "alloc", no_memory),
        (
            Backend::Sanitizer,
            "patch",
            "rank 5: a module could not be patched, and its kernels are not counted",
        ),
        (Backend::Sanitizer, "read", not_read),
        (Backend::Nvbit, "alloc", no_memory),
        (Backend::Nvbit, "read", not_read),
    ] {
        let stage = Stage::new(backend);
        let output = stage.run("leave", &[("FAKE_FAILS", fails)]);
        assert!(output.status.success(), "{backend:?} {fails}: {output:?}");
        assert_eq!(output.stderr, b"", "{backend:?} {fails}");
        let (rows, notes) = stage.rows();
        assert_eq!((rows, notes), (Vec::new(), vec![note.to_owned()]), "{backend:?} {fails}");
    }
}

#[test]
fn a_tracer_that_cannot_begin_leaves_the_program_alone_and_says_why() {
    let sanitizer = Stage::new(Backend::Sanitizer);
    let nvbit = Stage::new(Backend::Nvbit);
    for (stage, name, value) in [
        (&sanitizer, "FAKE_FAILS", "subscribe"),
        (&sanitizer, "MPISEE_GPU_SANITIZER", "/nowhere/libsanitizer-public.so"),
    ] {
        let output = stage.run("leave", &[(name, value)]);
        assert!(output.status.success());
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let begin = "mpisee: what GPU kernels access is not counted: ";
        assert!(printed.starts_with(begin) && printed.lines().count() == 1, "{printed}");
    }
    // Without the tracer beside it NVBit's part does nothing.
    fs::remove_file(nvbit.path("libmpisee_gpu.so")).unwrap();
    let output = nvbit.run("leave", &[]);
    assert!(output.status.success());
    let printed = b"0 patched\n0 patched at the end\n".to_vec();
    assert_eq!((output.stdout, nvbit.left()), (printed, Vec::new()));
}
