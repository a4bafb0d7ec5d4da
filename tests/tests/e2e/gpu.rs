//! Accesses of GPU kernels in the profile, beside MPI: with a fake driver and a fake Sanitizer, and
//! where there is no GPU.

mod copies;
mod sharing;

use crate::sums;
use mpisee_profile::Profile;
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{GpuMemory, GpuRow, GpuTotalRow, PeerDevice, RankRow};
use mpisee_tests::{LIMIT, Mpi, Run, Tables, case, dist, root, within};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Also writes down every access.
const RECORDS: [&str; 2] = ["--gpu-records", "records"];
const BY_OBJECT: [&str; 4] = ["--by", "object", "--format", "csv"];
/// The arguments for the places of accesses in an object.
const BY_ADDRESS: [&str; 6] = ["--by", "address", "--records", "records", "--format", "csv"];

/// The fake driver, compiled; it contains a fake Sanitizer.
fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = root().join("target/tests/gpu");
        std::fs::create_dir_all(&folder).expect("target can be written");
        let library = folder.join("libcuda.so.1");
        let sources =
            root().join("gpu-tracer/tests/fake/cuda").read_dir().expect("it is part of the project");
        let sources = sources.map(|entry| entry.expect("it can be read").path());
        let compiled = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"])
            .arg(&library)
            .args(sources.filter(|path| path.extension().is_some_and(|it| it == "c")))
            .status();
        assert!(compiled.expect("cc starts").success());
        library
    })
}

/// An installation as `cargo xtask dist` makes it where it finds CUDA's compiler; the patches are
/// not run here.
fn installation() -> tempfile::TempDir {
    let prefix = tempfile::tempdir().expect("a temporary folder");
    let make = |folder: &str| std::fs::create_dir_all(prefix.path().join(folder)).expect("it is empty");
    make("bin");
    make("lib/mpisee/gpu");
    // The launcher looks where its file really is.
    std::fs::copy(dist().join("bin/mpisee"), prefix.path().join("bin/mpisee")).expect("dist has it");
    for entry in std::fs::read_dir(dist().join("lib/mpisee")).expect("dist has it").flatten() {
        if entry.file_name() != "gpu" {
            let link = prefix.path().join("lib/mpisee").join(entry.file_name());
            std::os::unix::fs::symlink(entry.path(), link).expect("it is empty");
        }
    }
    let tracer = "lib/mpisee/gpu/libmpisee_gpu.so";
    std::fs::copy(dist().join(tracer), prefix.path().join(tracer)).expect("dist has it");
    std::fs::write(prefix.path().join("lib/mpisee/gpu/patches.fatbin"), "").expect("it can be written");
    prefix
}

/// Runs the program with its argument on 3 ranks in the installation, with further options.
fn run(mpi: &Mpi, prefix: &Path, program: &str, argument: &str, options: &[&str]) -> Output {
    run_with(mpi, prefix, program, argument, options, &[])
}

/// The same, of a program that is compiled with more: another library beside the driver.
fn run_with(
    mpi: &Mpi,
    prefix: &Path,
    program: &str,
    argument: &str,
    options: &[&str],
    library: &[&str],
) -> Output {
    let program = compile(mpi, program, library);
    within(LIMIT, launch(mpi, prefix, options).arg(program).arg(argument))
}

/// Compiles a program with the driver.
fn compile(mpi: &Mpi, program: &str, options: &[&str]) -> PathBuf {
    let driver = driver();
    let headers = format!("-I{}", root().join("gpu-tracer/tests/fake").display());
    let library_path = driver.parent().expect("a folder").display().to_string();
    let here = format!("-Wl,-rpath,{library_path}");
    let driver = driver.display().to_string();
    mpi.compile_with(program, &[&[headers.as_str(), &driver, &here], options].concat())
}

/// Begins to launch 3 ranks of what comes as further arguments.
fn launch(mpi: &Mpi, prefix: &Path, options: &[&str]) -> Command {
    let driver = driver();
    let library_path = driver.parent().expect("a folder").display().to_string();
    std::fs::create_dir_all(prefix.join("segments")).expect("it can be made");
    let disassembler = prefix.join("nvdisasm").display().to_string();
    let variables = [("LD_LIBRARY_PATH".to_owned(), library_path), ("NVDISASM".to_owned(), disassembler)];
    let mut command = mpi.launcher(3, &variables);
    command.arg(prefix.join("bin/mpisee")).args(["--gpu", "--output", "test.mpisee", "--gpu-sanitizer"]);
    command.arg(driver).arg("--segments").arg(prefix.join("segments")).args(options);
    command.current_dir(prefix);
    command
}

fn left(prefix: &Path) -> usize {
    std::fs::read_dir(prefix.join("segments")).expect("it was made").count()
}

/// The one row that there is to be.
fn check(directory: &Path, said: &str) {
    let profile = Profile::open(directory).unwrap_or_else(|error| panic!("{error}\n{said}"));
    let rows: Vec<GpuRow> =
        profile.rows_if_any().expect("gpu.csv can be read").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 1, "{rows:#?}\n{said}");
    let row = &rows[0];
    assert_eq!((row.rank, row.peer_rank, row.memory), (1, Some(0), GpuMemory::Ipc));
    assert_eq!((row.access, row.width, row.accesses, row.bytes), (Access::Store, 8, 9 * 32, 9 * 32 * 8));
    assert_eq!((row.object.as_str(), row.kernel.as_str()), ("ghost cells", "copy"));
    assert_eq!(row.source, "copy+0xe0");
    assert!(row.device.ends_with("0001") && row.peer_device.ends_with("0000"), "{row:?}");
    assert_eq!(profile.run().notes, Vec::<String>::new());
    let tables = Tables::read(directory, said);
    assert_eq!(tables.peer("W", 1, 0), [1, 13, 0, 0]);
    // Rank 0 launches nothing; rank 2 does, and has no row.
    let gpus = profile.rows::<RankRow>().expect("ranks.csv can be read").map(|row| row.expect("a row").gpu);
    let endings: Vec<String> =
        gpus.map(|gpu| gpu.chars().skip("GPU-00000000-0000-0000-0000-".len()).collect()).collect();
    assert_eq!(endings, ["", "000000000001", "000000000002"]);
}

/// The words of a table, whatever the widths of its columns.
fn squeezed(table: &str) -> String {
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[case]
fn kernels_that_write_to_another_rank_are_in_the_profile(mpi: &Mpi) {
    let prefix = installation();
    let output = run(mpi, prefix.path(), "gpu/ipc", "finalize", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(output.stdout, b"");
    check(&prefix.path().join("test.mpisee"), &said);
    assert_eq!(left(prefix.path()), 0, "a clean run leaves nothing");
}

/// Runs `mpisee-through gpu` on the profile; returns its output.
fn ask(prefix: &Path, arguments: &[&str]) -> String {
    let mut through = Command::new(dist().join("bin/mpisee-through"));
    through.args(["gpu", "test.mpisee"]).args(arguments).current_dir(prefix);
    let output = within(LIMIT, &mut through);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// The number of the first line of the test program with this in it.
fn line_with(text: &str) -> usize {
    let source = std::fs::read_to_string(root().join("tests/programs/gpu/stencil.c")).expect("it is there");
    1 + source.lines().position(|line| line.contains(text)).expect("it has that line")
}

#[case]
fn stencil_is_shown_by_pairs_objects_lines_and_devices(mpi: &Mpi) {
    let prefix = installation();
    let prefix = prefix.path();
    let module = root().join("gpu-tracer/tests/modules/lines.cubin");
    let output = run(mpi, prefix, "gpu/stencil", &module.display().to_string(), &RECORDS);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // Rank r stores (5 + r) x 32 x 8 bytes and loads (2 + r) x 32 x 4.
    let csv = ["--format", "csv"];
    let by_rank = ask(prefix, &[&["--by", "rank", "--peer-device", "GPU*"], &csv[..]].concat());
    assert_eq!(
        by_rank,
        "rank,owner,accesses,loaded_bytes,stored_bytes,atomic_bytes,share,mpi_sent_bytes,mpi_received_bytes\n\
         2,0,352,512,1792,0,0.400000000,103,0\n\
         1,2,288,384,1536,0,0.333333333,102,0\n\
         0,1,224,256,1280,0,0.266666667,101,0\n"
    );

    // Memory allocated in a function that main calls, and in main itself.
    let [cells, made, flag] = ["= fake_alloc", "= make_cells", "= fake_host_alloc"].map(line_with);
    let objects = ask(prefix, &[&["--by", "object"], &csv[..]].concat());
    let cells = format!("make_cells at stencil.c:{cells} < main at stencil.c:{made},0,352,512,1792,0,");
    assert!(objects.contains(&cells), "{cells}\n{objects}");
    let flag = format!("main at stencil.c:{flag},host,18,0,0,72,");
    assert!(objects.contains(&flag), "{flag}\n{objects}");

    let folder = root().join("gpu-tracer/tests/modules");
    let source = ["--annotate", "--source", &folder.display().to_string()];
    let annotated = ask(prefix, &source);
    for line in [
        "576 0 B 4.50 KiB 0 B 79.0 10 │ out[i] = helper(in, i);",
        "288 1.12 KiB 0 B 0 B 19.8 4 │ return p[i]",
    ] {
        assert!(squeezed(&annotated).contains(line), "{line}\n{annotated}");
    }

    // Two ranks share a device, and so do their memory and their messages.
    let device = ["--by", "device", "--device", "*0001"];
    let pairs = ask(prefix, &[&device[..], &csv[..]].concat());
    assert!(pairs.contains("0000,288,384,1536,0,0.987654321,102,101\n"), "{pairs}");
    let detail = ask(prefix, &[&device[..], &["--detail"]].concat());
    for part in ["store 8 192 0 B 1.50 KiB 0 B 79.0", "count 6 0 B 0 B 24 B 1.2"] {
        assert!(squeezed(&detail).contains(part), "{part}\n{detail}");
    }

    // Memory of all ranks, and as much of it as was counted.
    let by_address = sums(&ask(prefix, &BY_ADDRESS));
    assert_eq!(by_address.len(), 2, "{by_address:?}");
    assert_eq!(by_address, sums(&ask(prefix, &BY_OBJECT)));
    assert_eq!(recorded(prefix).0, 3);

    assert_traffic_is_drawn(prefix);
}

/// Asserts that the pictures of the stencil's traffic have the bytes between ranks.
fn assert_traffic_is_drawn(prefix: &Path) {
    for (picture, begin) in [("a.svg", &b"<svg "[..]), ("a.png", b"\x89PNG")] {
        assert_eq!(ask(prefix, &["--image", picture]), "");
        let bytes = std::fs::read(prefix.join(picture)).expect("it was drawn");
        assert!(bytes.starts_with(begin));
    }
    let svg = std::fs::read_to_string(prefix.join("a.svg")).expect("it was drawn");
    let field = "<title>0 to 1: 1280 bytes stored by kernels of 0, 0 bytes loaded by those of 1</title>";
    assert!(svg.contains(field), "{svg}");
    assert!(svg.contains("<title>2 to 0: 103 bytes sent</title>"), "{svg}");
}

#[case]
fn gpu_counts_of_a_killed_run_are_recovered(mpi: &Mpi) {
    let prefix = installation();
    let output = run(mpi, prefix.path(), "gpu/ipc", "kill", &[]);
    assert!(!output.status.success());
    assert!(left(prefix.path()) >= 4);
    let recovered = prefix.path().join("recovered.mpisee");
    let mut recover = Command::new(dist().join("bin/mpisee-through"));
    recover.arg("recover").arg(prefix.path().join("segments")).arg("--clean").arg("-o").arg(&recovered);
    let output = within(LIMIT, &mut recover);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let profile = Profile::open(&recovered).expect("it was recovered");
    let rows: Vec<GpuRow> =
        profile.rows_if_any().expect("gpu.csv can be read").map(|row| row.expect("a row")).collect();
    let seen: Vec<_> =
        rows.iter().map(|it| (it.rank, it.peer_rank, it.accesses, it.object.as_str())).collect();
    assert_eq!(seen, [(1, Some(0), 288, "ghost cells")]);
    assert_eq!(left(prefix.path()), 0);
}

/// Three ranks in a ring have their right neighbour at +1, and the last at -2; ranks 0 and 2 share
/// a device.
#[case]
fn sums_over_ranks_agree_with_rows_in_every_view(mpi: &Mpi) {
    let (by_rank, aggregate) = (installation(), installation());
    let module = root().join("gpu-tracer/tests/modules/lines.cubin").display().to_string();
    let output = run(mpi, by_rank.path(), "gpu/stencil", &module, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let aggregate = aggregate.path();
    let output = run(mpi, aggregate, "gpu/stencil", &module, &["--fold", "2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.stdout, left(aggregate)), (Vec::new(), 0));
    sums::assert_sums_of(&by_rank.path().join("test.mpisee"), &aggregate.join("test.mpisee"));
    let run = Profile::open(aggregate.join("test.mpisee")).expect("it was written").run().clone();
    assert_eq!((run.is_aggregate, run.notes), (true, Vec::new()));

    let csv = |by: &str| ask(aggregate, &["--by", by, "--format", "csv"]);
    assert_eq!(
        csv("rank"),
        "owner_offset,accesses,loaded_bytes,stored_bytes,atomic_bytes,share,mpi_sent_bytes,mpi_received_bytes\n\
         +1,512,640,2816,0,0.592592593,203,0\n\
         -2,352,512,1792,0,0.395061728,103,0\n\
         host,18,0,0,72,0.012345679,,\n"
    );
    assert_eq!(
        csv("device"),
        "peer_device,accesses,loaded_bytes,stored_bytes,atomic_bytes,share\n\
         another device,512,640,2816,0,0.592592593\n\
         same device,352,512,1792,0,0.395061728\n\
         host,18,0,0,72,0.012345679\n"
    );
    let made = line_with("= make_cells");
    assert!(csv("object").contains(&format!(" < main at stencil.c:{made},+1,512,640,2816,0,")));
    for by in ["line", "kernel", "access"] {
        assert_eq!(csv(by), ask(by_rank.path(), &["--by", by, "--format", "csv"]), "{by}");
    }
    let sources = root().join("gpu-tracer/tests/modules").display().to_string();
    let annotate = ["--annotate", "--source", &sources];
    assert_eq!(ask(aggregate, &annotate), ask(by_rank.path(), &annotate));
    let detail = ask(aggregate, &["--by", "device", "--peer-device", "same*", "--detail"]);
    assert!(squeezed(&detail).contains("same device store 8 224 0 B 1.75 KiB 0 B 77.8 same"), "{detail}");
    for arguments in [&["--ranks", "1"][..], &["--device", "*"], &["--by", "address", "--records", "."]] {
        let mut through = Command::new(dist().join("bin/mpisee-through"));
        let output = through.args(["gpu", "test.mpisee"]).args(arguments).current_dir(aggregate).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("MPISEE_FOLD=3") && said.lines().count() == 1, "{said}");
    }
    let mut through = Command::new(dist().join("bin/mpisee-through"));
    let checked = through.arg("check").arg(aggregate.join("test.mpisee")).output().expect("it starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// Each rank has segments in a folder of its own, as in containers that share nothing.
const APART: &str = r#"export MPISEE_SEGMENTS=$PWD/segments/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
mkdir $MPISEE_SEGMENTS; unset OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS; exec "$0" "$@""#;

#[case]
fn an_owner_whose_file_cannot_be_seen_is_unknown_in_sums(mpi: &Mpi) {
    for (fold, offset) in [("2", None), ("3", Some(-1))] {
        let prefix = installation();
        let prefix = prefix.path();
        let program = compile(mpi, "gpu/ipc", &[]);
        // The shell does not show which of several flavours of MPICH fits.
        let mut command = launch(mpi, prefix, &["--fold", fold, "--flavour", &mpi.name]);
        let output = within(LIMIT, command.args(["sh", "-c", APART]).arg(program).arg("finalize"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let profile = Profile::open(prefix.join("test.mpisee")).expect("it was written");
        let rows: Vec<GpuRow> = sums::all(&profile);
        let totals: Vec<GpuTotalRow> = sums::all(&profile);
        let of_rows = rows.iter().map(|row| (row.peer_rank.map(|_| -1), row.accesses, row.bytes));
        let of_totals = totals.iter().map(|row| (row.offset_min, row.accesses, row.bytes));
        assert_eq!(of_rows.chain(of_totals).collect::<Vec<_>>(), [(offset, 288, 2304)]);
        let notes = &profile.run().notes;
        let is_said = notes
            .iter()
            .any(|note| note.starts_with("1 of the rows that gpu-totals.csv sums up is of memory"));
        assert_eq!((is_said, notes.len()), (offset.is_none(), usize::from(offset.is_none())), "{notes:?}");
        for rank in 0..3 {
            let left =
                std::fs::read_dir(prefix.join("segments").join(rank.to_string())).expect("it was made");
            assert_eq!(left.count(), 0, "a clean run leaves nothing");
        }
    }
}

#[case]
fn gpu_counts_of_a_killed_run_are_recovered_aggregated(mpi: &Mpi) {
    let prefix = installation();
    let output = run(mpi, prefix.path(), "gpu/ipc", "kill", &["--fold", "2"]);
    assert!(!output.status.success());
    let recovered = prefix.path().join("recovered.mpisee");
    let mut recover = Command::new(dist().join("bin/mpisee-through"));
    recover.arg("recover").arg(prefix.path().join("segments")).arg("--clean").arg("-o").arg(&recovered);
    let output = within(LIMIT, &mut recover);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::open(&recovered).expect("it was recovered");
    assert!(profile.run().is_aggregate);
    let rows: Vec<GpuTotalRow> = sums::all(&profile);
    let [row] = &rows[..] else { panic!("{rows:#?}") };
    assert_eq!(
        (row.offset_min, row.offset_max, row.peer_device),
        (Some(-1), Some(-1), Some(PeerDevice::Another))
    );
    assert_eq!((row.count, row.accesses, row.bytes, row.bytes_max_rank), (1, 288, 2304, 1));
    assert_eq!((row.object.as_str(), row.kernel.as_str()), ("ghost cells", "copy"));
    assert_eq!(left(prefix.path()), 0);
}

#[case]
fn without_a_driver_the_rest_is_profiled(mpi: &Mpi) {
    let finished = Run::new(mpi, "regions/regions").ranks(2).options(&["--gpu"]).profiled();
    let notes =
        finished.stderr.matches("so what GPU kernels access is not counted; the rest is profiled").count();
    // Where these tests run there may be a GPU, whose kernels this program has none of.
    let has_driver = Path::new("/proc/driver/nvidia").exists();
    assert_eq!(notes, usize::from(!has_driver), "{}", finished.stderr);
    assert!(!finished.directory().join("gpu.csv").exists());
    let in_profile = &finished.check().tables().run.notes;
    let is_said = |note: &&String| note.starts_with("what GPU kernels access is not counted: ");
    assert_eq!(in_profile.iter().filter(is_said).count(), notes, "{in_profile:?}");
}

/// NVBit's part of the tracer, compiled with the fake NVBit, beside the tracer of an installation.
fn add_nvbit(prefix: &Path) {
    let (driver, tracer) = (driver(), root().join("gpu-tracer"));
    let folders =
        ["tests/fake/nvbit", "tests/fake", "nvbit"].map(|it| format!("-I{}", tracer.join(it).display()));
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O1", "-g", "-shared", "-fPIC", "-o"])
        .arg(prefix.join("lib/mpisee/gpu/libmpisee_gpu_nvbit.so"))
        .args(folders)
        .args(["nvbit/tool.cpp", "tests/fake/nvbit.cpp"].map(|it| tracer.join(it)))
        .arg(driver)
        .arg(format!("-Wl,-rpath,{}", driver.parent().expect("a folder").display()))
        .status();
    assert!(compiled.expect("c++ starts").success());
    std::fs::write(prefix.join("nvdisasm"), "").expect("it can be written");
}

#[case]
fn with_nvbit_the_profile_is_the_same_and_records_have_each_access(mpi: &Mpi) {
    let prefix = installation();
    let prefix = prefix.path();
    add_nvbit(prefix);
    let options = [&["--gpu-backend", "nvbit"], &RECORDS[..]].concat();
    let output = run(mpi, prefix, "gpu/ipc", "finalize", &options);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(output.stdout, b"");
    check(&prefix.join("test.mpisee"), &said);
    assert_eq!(left(prefix), 0, "a clean run leaves nothing");
    // All ranks use a GPU, and rank 1 has the nine warps of the halo.
    let (files, rows) = recorded(prefix);
    assert_eq!((files, rows.len()), (3, 9), "{rows:#?}");
    assert!(
        rows.iter().all(|row| row.contains(",copy,copy+0xe0,,ipc,") && row.contains(",store,8,ffffffff,"))
    );
    assert!(rows[1].ends_with(",256 264 272 280 288 296 304 312 320 328 336 344 352 360 368 376 384 392 400 408 416 424 432 440 448 456 464 472 480 488 496 504"), "{}", rows[1]);
    assert_eq!(sums(&ask(prefix, &BY_ADDRESS)), sums(&ask(prefix, &BY_OBJECT)));
}

/// The number of files of records, and the rows of all of them.
fn recorded(prefix: &Path) -> (usize, Vec<String>) {
    let entries = std::fs::read_dir(prefix.join("records")).expect("it was made");
    let files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let mut rows = Vec::new();
    for file in &files {
        let mut through = Command::new(dist().join("bin/mpisee-through"));
        let output = within(LIMIT, through.arg("gpu-records").arg(file));
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("it is text");
        rows.extend(text.lines().skip(1).map(str::to_owned));
    }
    (files.len(), rows)
}

/// Accesses, and bytes loaded, stored and changed by atomics, by object.
fn sums(csv: &str) -> BTreeMap<String, [u64; 4]> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().expect("names of columns");
    let column = |name: &str| heads.iter().position(|head| *head == name).expect("it is there");
    let columns = ["accesses", "loaded_bytes", "stored_bytes", "atomic_bytes"].map(column);
    let mut sums: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for line in lines {
        let sum = sums.entry(line[column("object")].to_owned()).or_default();
        for (sum, at) in sum.iter_mut().zip(columns) {
            *sum += line[at].parse::<u64>().expect("a number");
        }
    }
    sums
}

/// One instruction writes to memory of two names, which another process exported.
#[case]
fn records_and_counts_of_another_ranks_memory_have_its_names_and_sums(mpi: &Mpi) {
    for backend in ["sanitizer", "nvbit"] {
        let prefix = installation();
        let prefix = prefix.path();
        add_nvbit(prefix);
        let output =
            run(mpi, prefix, "gpu/ipc", "two", &[&["--gpu-backend", backend], &RECORDS[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.stdout, left(prefix)), (Vec::new(), 0));

        let profile = Profile::open(prefix.join("test.mpisee")).expect("it was written");
        let rows = profile.rows_if_any::<GpuRow>().expect("gpu.csv can be read");
        let mut rows: Vec<_> = rows
            .map(|row| row.expect("a row"))
            .map(|row| (row.object, row.rank, row.peer_rank, row.accesses, row.bytes))
            .collect();
        rows.sort();
        assert_eq!(
            rows,
            [("flags".to_owned(), 1, Some(0), 12, 96), ("ghost cells".to_owned(), 1, Some(0), 288, 2304)]
        );
        let by_address = sums(&ask(prefix, &BY_ADDRESS));
        assert_eq!(by_address["flags"], [12, 0, 96, 0]);
        assert_eq!(by_address, sums(&ask(prefix, &BY_OBJECT)));

        // Three warps of four lanes, each 256 bytes after the other, are shown in parts of 16
        // bytes.
        let flags = ask(prefix, &[&BY_ADDRESS[..], &["--object", "flags"]].concat());
        let begins: Vec<&str> =
            flags.lines().skip(1).map(|line| line.split(',').nth(2).expect("a column")).collect();
        assert_eq!(begins, ["512", "528", "768", "784", "1024", "1040"]);
        assert!(flags.lines().skip(1).all(|line| line.starts_with("flags,4096,")
            && line.contains(",2,0,16,0,0.166666667,GPU-")
            && line.ends_with("0001,copy+0xe0")));

        assert_ghost_cells_by_address(prefix);

        let (files, rows) = recorded(prefix);
        let of_flags: Vec<&str> = rows
            .iter()
            .filter(|row| row.contains(",store,8,0000000f,"))
            .map(|row| row.rsplit(',').next().expect("a column"))
            .collect();
        assert_eq!((files, rows.len()), (3, 12), "{rows:#?}");
        assert_eq!(of_flags, ["512 520 528 536", "768 776 784 792", "1024 1032 1040 1048"]);
    }
}

/// Asserts that every element of the ghost cells has one access, as a table and as a picture.
fn assert_ghost_cells_by_address(prefix: &Path) {
    // Nine warps of 32 lanes fill a row of 256 elements, and 32 of the next.
    let aggregate =
        [&BY_ADDRESS[..], &["--object", "ghost*", "--peer-device", "*0000", "--fold", "64x256x8"]].concat();
    let aggregate = ask(prefix, &aggregate);
    let fields: Vec<String> = aggregate
        .lines()
        .skip(1)
        .map(|line| line.split(',').skip(1).take(7).collect::<Vec<_>>().join(","))
        .collect();
    let expected: Vec<String> = (0..288)
        .map(|at| format!("131072,{},{},{},{},1,0", at / 256, at % 256, 8 * at, 8 * at + 8))
        .collect();
    assert_eq!(fields, expected);
    let image = ["--by", "address", "--records", "records", "--fold", "64x256x8", "--image", "a.svg"];
    assert_eq!(ask(prefix, &image), "");
    let svg = std::fs::read_to_string(prefix.join("a.svg")).expect("it was drawn");
    assert_eq!(svg.matches("<title>bytes ").count(), 288);
}

/// Python that calls the driver with the interpreter's lock, and having released it.
#[case]
fn kernels_that_python_launched_have_its_lines(mpi: &Mpi) {
    let script = root().join("tests/programs/gpu/python.py").display().to_string();
    let text = std::fs::read_to_string(&script).expect("it is there");
    let lines = ["# first", "# second", "# package"].map(|mark| {
        let line = text.lines().position(|line| line.ends_with(mark)).expect("it has that line");
        format!("{script}:{}", line + 1)
    });
    let library = compile(mpi, "gpu/python", &["-shared", "-fPIC"]);
    for (backend, lock) in
        [("sanitizer", "held"), ("sanitizer", "released"), ("nvbit", "held"), ("nvbit", "released")]
    {
        let prefix = installation();
        let prefix = prefix.path();
        add_nvbit(prefix);
        let options = ["--gpu-backend", backend, "--flavour", &mpi.name];
        let mut command = launch(mpi, prefix, &[&options[..], &RECORDS].concat());
        let output = within(LIMIT, command.args(["python3", &script]).arg(&library).arg(lock));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{backend}, {lock}: {said}");
        assert_eq!((output.stdout, left(prefix)), (Vec::new(), 0));

        // Rank r stores with 3 + r and 2 (5 + r) warps, 7 of them for a package; and with 11 where
        // no Python runs.
        let profile = Profile::open(prefix.join("test.mpisee")).expect("it was written");
        let rows = profile.rows_if_any::<GpuRow>().expect("gpu.csv can be read");
        let mut found: Vec<_> = rows
            .map(|row| row.expect("a row"))
            .map(|row| (row.rank, row.launched, row.accesses, row.kernel, row.source))
            .collect();
        found.sort();
        let mut expected = Vec::new();
        for rank in 0..3u32 {
            let warps = u64::from(rank);
            for (line, warps) in
                [("", 11), (lines[0].as_str(), 3 + warps), (&lines[1], 2 * (5 + warps)), (&lines[2], 7)]
            {
                let place = "copy+0xe0".to_owned();
                expected.push((rank, line.to_owned(), 32 * warps, "copy".to_owned(), place));
            }
        }
        expected.sort();
        assert_eq!(found, expected, "{backend}, {lock}");
        assert_eq!(profile.run().notes, Vec::<String>::new());

        // Of 3 x 12 warps of 8 bytes a lane, and of those with the other lines.
        let csv = ["--format", "csv"];
        let launches = ask(prefix, &[&["--by", "launch"], &csv[..]].concat());
        let second = format!("\n{},copy,1152,0,9216,0,", lines[1]);
        assert!(launches.contains(&second), "{second}\n{launches}");
        let chosen = ["--launch", "*gpu/python.py:*", "--by", "kernel"];
        let chosen = ask(prefix, &[&chosen[..], &csv].concat());
        assert!(chosen.ends_with("\ncopy,2208,0,17664,0,1.000000000\n"), "{chosen}");
        let (_, rows) = recorded(prefix);
        let of_second = rows.iter().filter(|row| row.contains(&format!(",copy+0xe0,{},device,", lines[1])));
        assert_eq!(of_second.count(), 36);
    }
}
