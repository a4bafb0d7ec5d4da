//! scripts/gpu-check, as far as it can be tried without a GPU: that its programs compile where
//! CUDA's compiler is found, that its comparisons see what differs, that it counts what it leaves
//! out, and what it says where there is no GPU.

use mpisee_tests::{LIMIT, Mpi, case, root, within};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// CUDA's compiler, where scripts/gpu-check or `cargo xtask gpu` would find it.
fn nvcc() -> Option<PathBuf> {
    let named = std::env::var_os("CUDA_HOME").map(PathBuf::from);
    let places = [PathBuf::from("/usr/local/cuda"), root().join("target/cuda/packages/nvidia/cu13")];
    named.into_iter().chain(places).map(|it| it.join("bin/nvcc")).find(|it| it.is_file())
}

fn is_newer(file: &Path, than: &[&Path]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    than.iter().all(|it| modified(file) > modified(it))
}

#[case]
fn the_programs_compile() {
    let Some(nvcc) = nvcc() else {
        mpisee_tests::harness::leave_out(
            "no CUDA compiler is found, so the programs of scripts/gpu-check are not compiled",
        );
        return;
    };
    let folder = root().join("target/tests/gpu-check");
    fs::create_dir_all(&folder).expect("target can be written");
    let programs = root().join("tests/gpu");
    let mut sources: Vec<PathBuf> =
        fs::read_dir(&programs).expect("it is there").map(|it| it.expect("an entry").path()).collect();
    sources.push(root().join("tools/overhead/gpu_cost.cu"));
    sources.retain(|it| it.extension().is_some_and(|it| it == "cu"));
    assert!(sources.len() > 8, "{sources:?}");
    let headers = ["check.h", "check_nccl.h", "driver.h"].map(|it| programs.join(it));
    let home = |library: &str| {
        let named = std::env::var_os(format!("{}_HOME", library.to_uppercase())).map(PathBuf::from);
        if named.is_none() {
            mpisee_tests::note!(
                "{}_HOME is not set, so programs with it are not compiled",
                library.to_uppercase()
            );
        }
        named
    };
    let libraries = ["nvshmem", "nccl"].map(|it| (it, home(it)));
    for source in &sources {
        let object = folder.join(source.file_name().expect("a file")).with_extension("o");
        let [check, check_nccl, driver] = &headers;
        if is_newer(&object, &[source, check, check_nccl, driver, &nvcc]) {
            continue;
        }
        let mut compiler = Command::new(&nvcc);
        compiler.args(["-std=c++17", "-O2", "-g", "-lineinfo", "-arch=sm_90", "-c"]);
        compiler.args(["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror"]);
        compiler.arg("-I").arg(root().join("include")).args(Mpi::all()[0].include_flags());
        let name = source.file_stem().expect("a file").to_string_lossy();
        if let Some((_, home)) = libraries.iter().find(|(library, _)| name.split('_').next() == Some(library))
        {
            let Some(home) = home else { continue };
            compiler.args(["-rdc=true", "-isystem"]).arg(home.join("include"));
        }
        let output = within(LIMIT, compiler.arg(source).arg("-o").arg(&object));
        assert!(output.status.success(), "{}", text(&output));
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Runs the script's comparison of a profile of one row, with these accesses, with the expected
/// one.
fn compare(folder: &Path, accesses: &str, more: &str) -> Output {
    compare_with(folder, accesses, more, "[]", &[])
}

/// The same of a profile with these notes, and with further options.
fn compare_with(folder: &Path, accesses: &str, more: &str, notes: &str, options: &[&str]) -> Output {
    let profile = folder.join("test.mpisee");
    fs::create_dir_all(&profile).expect("it can be made");
    let expected = folder.join("expected");
    fs::create_dir_all(&expected).expect("it can be made");
    let line = 1 + fs::read_to_string(root().join("tests/gpu/killed.cu"))
        .expect("it is there")
        .lines()
        .position(|it| it.ends_with("// @before"))
        .expect("the line is marked");
    // An unknown column, and the others in another order than in a profile.
    let head = "new,rank,peer_rank,memory,kernel,source,object,access,width,accesses,bytes,error\n";
    let row = format!("x,1,0,ipc,before,/src/killed.cu:{line},ghost cells,store,4,{accesses},1408,0\n");
    fs::write(profile.join("gpu.csv"), format!("{head}{row}{more}")).expect("it can be written");
    fs::write(profile.join("run.json"), format!("{{\"notes\": {notes}}}")).expect("it can be written");
    let wanted = "rank,peer_rank,memory,kernel,access,width,object,line,accesses,bytes\n\
                  1,0,ipc,before,store,4,ghost cells,before,352,1408\n";
    fs::write(expected.join("1.csv"), wanted).expect("it can be written");
    let mut python = Command::new("python3");
    python.arg(root().join("tests/gpu/compare.py")).arg("rows").arg("--expected").arg(expected);
    within(LIMIT, python.args(["--source", "killed.cu"]).args(options).arg(profile))
}

#[case]
fn the_comparison_sees_what_differs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let right = compare(folder.path(), "352", "");
    assert!(right.status.success() && !text(&right).contains("DIFFERS"), "{}", text(&right));
    let fewer = compare(folder.path(), "351", "");
    assert_eq!(fewer.status.code(), Some(1));
    assert!(text(&fewer).contains("expected (352, 1408), counted (351, 1408)"), "{}", text(&fewer));
    let more = compare(folder.path(), "352", "x,1,1,pinned,before,/src/killed.cu:9,words,store,4,5,20,0\n");
    assert_eq!(more.status.code(), Some(1));
    assert!(text(&more).contains("expected (0, 0), counted (5, 20)"), "{}", text(&more));
}

#[case]
fn fewer_accesses_of_some_kernels_need_a_note() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let note = "[\"rank 0: of modules that were loaded where others had been unloaded\"]";
    for (accesses, notes, kernels, is_right) in [
        ("351", note, "bef*", true),
        ("351", "[]", "bef*", false),
        ("351", note, "late*", false),
        ("353", note, "bef*", false),
        ("352", note, "bef*", false),
    ] {
        let compared = compare_with(folder.path(), accesses, "", notes, &["--some", kernels]);
        assert_eq!(compared.status.success(), is_right, "{accesses} {notes}: {}", text(&compared));
    }
}

/// A file that differs from the one that agrees: in this file the first text in place of the
/// second, and a line that says so.
type Change = (&'static str, &'static str, &'static str, &'static str);

/// Runs a comparison in a folder with these files, which agree, and once more for each change.
fn sees(arguments: &[&str], files: &[(&str, &str)], changes: &[Change]) {
    let compare = |change: Option<&Change>| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            let mut text = (*text).to_owned();
            if let Some((_, from, to, _)) = change.filter(|it| it.0 == *name) {
                assert!(text.contains(from), "{name} has no {from}");
                text = text.replacen(from, to, 1);
            }
            write_file(&folder.path().join(name), &text);
        }
        let mut python = Command::new("python3");
        python.arg(root().join("tests/gpu/compare.py")).args(arguments).current_dir(folder.path());
        within(LIMIT, &mut python)
    };
    let right = compare(None);
    assert!(right.status.success() && !text(&right).contains("DIFFERS"), "{}", text(&right));
    for change in changes {
        assert!(files.iter().any(|it| it.0 == change.0), "{change:?}");
        let other = compare(Some(change));
        assert_eq!(other.status.code(), Some(1), "{change:?}: {}", text(&other));
        let found = text(&other);
        assert!(
            found.lines().any(|it| it.starts_with("DIFFERS") && it.contains(change.3)),
            "{change:?}: {found}"
        );
    }
}

/// A file, which is a program if it begins like a script.
fn write_file(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
    let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

const NO_NOTES: (&str, &str) = ("p/run.json", "{\"notes\": []}");

#[case]
fn estimates_out_of_their_errors_differ() {
    let wanted = "rank,peer_rank,memory,kernel,access,width,object,line,accesses,bytes\n\
                  1,0,ipc,k,store,4,cells,x.cu:3,1000,4000\n";
    let counted = "rank,peer_rank,memory,kernel,source,object,access,width,accesses,bytes,error\n\
                   1,0,ipc,k,/src/x.cu:3,cells,store,4,1030,4120,10\n";
    let changes = [
        ("p/gpu.csv", "1030,", "1050,", "1000 within 4 x 10, counted 1050"),
        ("p/gpu.csv", ",cells,", ",words,", "counted 1030"),
    ];
    sees(&["sampled", "--expected", "e", "p"], &[("e/1.csv", wanted), ("p/gpu.csv", counted)], &changes);
}

#[case]
fn records_that_are_not_in_the_sums_differ() {
    let counted = "kernel,access,width,memory,source,accesses\nk,load,4,ipc,x.cu:3,3\n";
    let records = "#!/bin/sh\nprintf 'kernel,access,width,memory,source,lanes\\n'\n\
                   printf 'k,load,4,ipc,x.cu:3,0x3\\nk,load,4,ipc,x.cu:3,0x1\\n'\n";
    let files = [("p/gpu.csv", counted), ("through", records), ("r/0.zst", ""), NO_NOTES];
    let changes = [
        ("through", "0x3", "0x7", "expected 3, counted 4"),
        ("p/run.json", "[]", "[\"of the GPU\"]", "counted of the GPU"),
    ];
    sees(&["records", "--through", "./through", "p", "r"], &files, &changes);
}

#[case]
fn other_lines_of_python_differ() {
    let counted = "rank,peer_rank,memory,access,bytes,launched\n1,0,ipc,load,404,/src/x.py:7\n";
    let changes = [
        ("p/gpu.csv", "x.py:7", "x.py:8", "the Python line"),
        ("p/gpu.csv", "404", "400", "expected 404, counted 400"),
        ("p/gpu.csv", "1,0,ipc", "0,1,ipc", "who accesses whose memory"),
    ];
    let files = [("p/gpu.csv", counted), ("expected", "404,x.py:7\n"), NO_NOTES];
    sees(&["launched", "p", "expected"], &files, &changes);
}

#[case]
fn calls_that_are_not_expected_differ() {
    let wanted = "rank,comm,call,memory,calls,bytes\n0,N1-*,ncclAllReduce,device,4,64\n";
    let counted = "rank,comm,call,memory,calls,bytes\n0,W,MPI_Barrier,host,1,0\n\
                   0,N1-ab,ncclAllReduce,device,3,48\n0,N1-cd,ncclAllReduce,device,1,16\n";
    let changes = [
        ("p/calls.csv", "3,48", "3,44", "expected (4, 64), counted (4, 60)"),
        ("p/calls.csv", "0,W,", "0,W_d1,", "0 W_d1 MPI_Barrier host: expected (0, 0), counted (1, 0)"),
        ("p/calls.csv", "0,W,", "1,N2-ef,", "1 N2-ef MPI_Barrier host"),
        ("p/calls.csv", "0,W,MPI_Barrier", "0,N1-ab,ncclReduce", "0 N1-* ncclReduce"),
    ];
    let files = [("e/0.csv", wanted), ("p/calls.csv", counted)];
    sees(&["calls", "--expected", "e", "p"], &files, &changes);
}

#[case]
fn times_of_nccl_that_are_not_expected_differ() {
    let wanted =
        "rank,comm,call,calls,untimed,gpu_s\n0,N1-*,ncclAllReduce,1,0,*\n0,N1-*,ncclReduce,3,1,0.5\n";
    let counted = "comm,rank,call,calls,untimed,gpu_s\nN1-ab,0,ncclAllReduce,1,0,0.25\n\
                   N1-ab,0,ncclReduce,1,1,0.30\nN1-cd,0,ncclReduce,2,0,0.23\n";
    let changes = [
        ("p/nccl-times.csv", "1,0,0.25", "999,0,0.25", "expected (1, 0), counted (999, 0)"),
        ("p/nccl-times.csv", "0.23", "0.13", "seconds on the GPU: expected 0.500000, counted 0.430000"),
        (
            "p/nccl-times.csv",
            "N1-cd,0,ncclReduce",
            "N1-cd,0,ncclGather",
            "ncclGather, timed and not: expected (0, 0)",
        ),
        ("p/nccl-times.csv", "N1-cd,0", "N2-cd,1", "rank 1 N2-cd ncclReduce, timed and not: expected (0, 0)"),
    ];
    let files = [("e/0.csv", wanted), ("p/nccl-times.csv", counted)];
    sees(&["nccl-times", "--expected", "e", "p"], &files, &changes);
}

#[case]
fn copies_that_are_not_expected_differ() {
    let wanted = "rank,table,comm,direction,mode,from,to,calls,bytes\n\
                  0,copies,,,blocking,host,device,2,20\n0,staged,W_d1,sent,stream,pinned,,1,10\n";
    let copies =
        "rank,call,mode,from,to,line,calls,bytes,time_s\n0,cuMemcpyHtoD,blocking,host,device,,2,20,0.1\n";
    let staged = "rank,comm,direction,mode,memory,matches,bytes,time_s\n0,W_d1,sent,stream,pinned,1,10,0.1\n";
    let changes = [
        ("p/copies.csv", "2,20", "2,21", "expected (2, 20), counted (2, 21)"),
        ("p/copies.csv", "20,0.1", "20,0", "seconds: expected some"),
        (
            "p/staged.csv",
            "sent",
            "received",
            "W_d1 received stream pinned - (): expected (0, 0), counted (1, 10)",
        ),
    ];
    let files = [("e/0.csv", wanted), ("p/copies.csv", copies), ("p/staged.csv", staged), NO_NOTES];
    sees(&["copies", "--expected", "e", "p"], &files, &changes);
}

#[case]
fn another_gpu_of_the_agent_differs() {
    let read = "device,uuid,pci_address,memory_bytes,mig\ngpu0,GPU-a,0000:17:00.0,1073741824,0\n";
    let rates = "#!/bin/sh\nprintf 'source,device,quantity,value\\ngpu,gpu0,busy_s,0.97\\n'\n\
                 printf 'gpu,gpu0,used_bytes,3000000000\\n'\n";
    let changes = [
        ("t/n.gpus.csv", "gpu0", "gpu1", "device of GPU-a"),
        ("t/n.gpus.csv", "17:00", "18:00", "PCI address"),
        ("t/n.gpus.csv", ",0\n", ",\n", "divided by MIG"),
        ("through", "0.97", "0.5", "a kernel ran"),
        ("through", "used_bytes", "free_bytes", "memory in use"),
    ];
    let seen = "0, GPU-a, 00000000:17:00.0, 1024, Disabled";
    sees(
        &["agent", "--through", "./through", "t", seen],
        &[("t/n.gpus.csv", read), ("through", rates)],
        &changes,
    );
}

#[case]
fn other_ways_between_gpus_differ() {
    let ranks = "rank,gpu,cpus_allowed,numa_nodes\n0,GPU-a,,\n1,,,\n";
    let gpus = "uuid,pci_address,model,memory_bytes,mig,nvlinks,ranks\n\
                GPU-a,ffff:17:1f.7,H,1073741824,0,4,0\nGPU-b,ffff:18:1f.7,H,1073741824,0,,\n";
    let links = "device,peer,path,nvlinks\nGPU-a,GPU-b,SYS,4\nGPU-a,mlx5_0,PIX,\nGPU-b,mlx5_0,SYS,\n";
    let listed = "GPU-a, FFFF:17:1f.7, H, 1024\nGPU-b, FFFF:18:1f.7, H, 1024";
    let topology = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV4\tPIX\t0-1\nGPU1\tNV4\t X \tSYS\t0-1\n\
                    NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n";
    let changes = [
        ("p/ranks.csv", "1,,", "1,GPU-b,", "GPU of rank 1"),
        ("p/gpus.csv", "H,1073741824,0,4", "H,1073741824,0,", "active NVLinks: expected 4, counted unknown"),
        ("p/gpus.csv", "0,4,0", "0,4,0-1", "ranks of GPU-a"),
        (
            "p/gpu-links.csv",
            "GPU-a,mlx5_0,PIX",
            "GPU-a,mlx5_0,",
            "GPU0 to mlx5_0: expected PIX, counted unknown",
        ),
        ("p/gpu-links.csv", "GPU-b,mlx5_0", "GPU-b,eth0", "GPU1 to mlx5_0: expected SYS, counted no row"),
        ("p/gpu-links.csv", "SYS,4", "SYS,3", "NVLinks from GPU0 to GPU1: expected 4, counted 3"),
        (
            "p/gpu-links.csv",
            "GPU-a,GPU-b,SYS,4\n",
            "",
            "NVLinks from GPU0 to GPU1: expected 4, counted no row",
        ),
    ];
    let files = [("p/ranks.csv", ranks), ("p/gpus.csv", gpus), ("p/gpu-links.csv", links)];
    sees(&["gpus", "--users", "0", "--nvlinks", "4", "p", listed, topology], &files, &changes);
}

#[case]
fn bytes_that_do_not_arrive_differ() {
    let log = "a,b,c,d,e,f,verified\n1,2,3,4,5,6,true\n1,2,3,4,5,7,true\n";
    let changes = [
        ("log", "7,true", "7,false", "all bytes arrive: p2p"),
        ("log", "1,2,3,4,5,6,true\n1,2,3,4,5,7,true\n", "", "counted []"),
    ];
    sees(&["bench", "p2p", "log"], &[("log", log)], &changes);
}

#[case]
fn costs_that_were_not_measured_differ() {
    let table = "kind,call_ns\nhost,100.0\n";
    let changes = [
        ("r/profiled.1.csv", "host,100.0", "host,0", "cost of host, without and profiled"),
        ("r/without.1.csv", "host,100.0\n", "", "expected two numbers, counted (None, 100.0)"),
    ];
    sees(&["price", "r"], &[("r/without.1.csv", table), ("r/profiled.1.csv", table)], &changes);
    let empty = [("r/without.1.csv", ""), ("r/other", "a")];
    let folder = tempfile::tempdir().expect("a temporary folder");
    empty.iter().for_each(|(name, text)| write_file(&folder.path().join(name), text));
    for arguments in [&["price", "r"][..], &["cost", "--workload", "ring", "r"]] {
        let mut python = Command::new("python3");
        python.arg(root().join("tests/gpu/compare.py")).args(arguments).current_dir(folder.path());
        let output = within(LIMIT, &mut python);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    }
}

#[case]
fn slow_kernels_and_missing_modes_differ() {
    let head = "workload,kernel_us,mean_kernel_us,step_us\n";
    let fast = format!("{head}stencil,10.0,10.0,20.0\nstart,,,100\n");
    let slow = format!("{head}stencil,29.0,90.0,50.0\nstart,,,100\n");
    let files = [
        ("r/untraced.1.csv", &*fast),
        ("r/empty.1.csv", &slow),
        ("r/aggregated.1.csv", &slow),
        ("r/sampled.1.csv", &slow),
        ("r/intervals.1.csv", &fast),
        ("r/records.1.csv", &slow),
    ];
    let changes = [
        ("r/aggregated.1.csv", "29.0", "31.0", "stencil, aggregated: expected at most 3.0, counted 3.10"),
        (
            "r/intervals.1.csv",
            "10.0,10.0",
            "10.0,16.0",
            "stencil, intervals: expected at most 1.5, counted 1.60",
        ),
        ("r/records.1.csv", "stencil", "ring", "modes in which stencil was timed"),
        ("r/untraced.1.csv", "stencil,10.0", "stencil,", "counted nan"),
    ];
    sees(&["cost", "--workload", "stencil", "r"], &files, &changes);
}

/// An installation, an MPI, a compiler and a GPU that only look like ones; `bench` is what
/// mpisee-bench does.
fn pretended(folder: &Path, bench: &str) -> Command {
    let says = |text: &str| format!("#!/bin/sh\n{text}\n");
    let list = "case $1 in --list-gpus) echo \"${GPUS:-GPU 0}\" ;; --query-gpu=compute_cap) echo 9.0 ;; --query-gpu=uuid) exit 9 ;; esac";
    let programs = [
        ("path/nvidia-smi", list),
        (
            "cuda/bin/nvcc",
            "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && touch \"$2\" && chmod +x \"$2\"; shift; done",
        ),
        ("mpi/bin/mpicc", ""),
        ("mpi/bin/mpirun", "shift 2; exec \"$@\""),
        ("mpisee/bin/mpisee", ""),
        ("mpisee/bin/mpisee-through", ""),
        ("mpisee/bin/mpisee-bench", bench),
        ("mpisee/lib/mpisee/gpu/patches.fatbin", ""),
    ];
    programs.iter().for_each(|(name, does)| write_file(&folder.join(name), &says(does)));
    let path = format!("{}:{}", folder.join("path").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(root().join("scripts/gpu-check"));
    command.env("PATH", path).env("CUDA_HOME", folder.join("cuda"));
    command.arg("--mpi").arg(folder.join("mpi")).arg("--installation").arg(folder.join("mpisee"));
    command
}

const BENCH: &str = "case \"$*\" in *'p2p --backend nccl'*) exit 1 ;; esac
printf 'a,b,c,d,e,f,verified\\n1,2,3,4,5,6,true\\n'";

#[case]
fn the_last_line_counts_what_is_left_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = within(LIMIT, pretended(folder.path(), BENCH).args(["bench", "nccl-cost"]));
    assert!(output.status.success(), "{}", text(&output));
    let last = "== All 9 comparisons are as expected; 2 left out: sanitizer nccl-cost: the whole step; nvbit all: every step\n";
    assert!(text(&output).ends_with(last), "{}", text(&output));
    let output = within(LIMIT, pretended(folder.path(), BENCH).arg("bench").env("GPUS", "GPU 0\nGPU 1"));
    let last = "expected; 1 left out: without bench: patterns of NCCL between GPUs\n";
    assert!(text(&output).ends_with(last), "{}", text(&output));
    let output = within(LIMIT, pretended(folder.path(), BENCH).arg("bench"));
    assert!(
        text(&output).ends_with("== All 9 comparisons are as expected; nothing was left out\n"),
        "{}",
        text(&output)
    );
}

#[case]
fn a_command_that_fails_ends_its_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = within(LIMIT, pretended(folder.path(), BENCH).args(["gpus", "bench"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("without gpus: DIFFERS  the step ended early, with 9\n"),
        "{}",
        text(&output)
    );
    assert!(text(&output).contains("gpu-check: 1 of 10 comparisons differ; "), "{}", text(&output));
}

#[case]
fn a_comparison_that_python_does_not_begin_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut script = pretended(folder.path(), BENCH);
    write_file(&folder.path().join("path/python3"), "#!/bin/sh\necho no module >&2\nexit 2\n");
    let output = within(LIMIT, script.arg("bench"));
    assert_eq!(output.status.code(), Some(1));
    let said = "DIFFERS  compare.py bench ended with 2 before it compared\n";
    assert!(text(&output).contains(said), "{}", text(&output));
    assert!(text(&output).contains("gpu-check: 9 of 9 comparisons differ; "), "{}", text(&output));
}

#[case]
fn without_a_gpu_it_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_file(&folder.path().join("nvidia-smi"), "#!/bin/sh\nexit 9\n");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let output = within(LIMIT, Command::new(root().join("scripts/gpu-check")).env("PATH", path));
    assert_eq!(output.status.code(), Some(1));
    let said = "gpu-check: there is no GPU here (nvidia-smi lists none), so nothing can be checked\n";
    assert_eq!(text(&output), said);
}
