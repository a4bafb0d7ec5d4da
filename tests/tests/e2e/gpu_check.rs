//! scripts/gpu-check, as far as it can be tried without a GPU: that its programs compile where CUDA's compiler is found, that
//! its comparisons see what differs, that it counts what it leaves out, and what it says where there is no GPU.

use mpisee_tests::{Mpi, root, within};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

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

#[test]
fn the_programs_compile() {
    let Some(nvcc) = nvcc() else {
        eprintln!("no CUDA compiler is found, so the programs of scripts/gpu-check are not compiled");
        return;
    };
    let folder = root().join("target/tests/gpu-check");
    fs::create_dir_all(&folder).expect("target can be written");
    let programs = root().join("tests/gpu");
    let mut sources: Vec<PathBuf> =
        fs::read_dir(&programs).expect("it is there").map(|it| it.expect("an entry").path()).collect();
    sources.push(root().join("bench/gpu_cost.cu"));
    sources.retain(|it| it.extension().is_some_and(|it| it == "cu"));
    assert!(sources.len() > 8, "{sources:?}");
    let headers = ["check.h", "check_nccl.h", "driver.h"].map(|it| programs.join(it));
    let home = |library: &str| {
        let named = std::env::var_os(format!("{}_HOME", library.to_uppercase())).map(PathBuf::from);
        if named.is_none() {
            eprintln!("{}_HOME is not set, so programs with it are not compiled", library.to_uppercase());
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

/// Runs the script's comparison of a profile of one row, with these accesses, with the expected one.
fn compare(folder: &Path, accesses: &str, more: &str) -> Output {
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
    fs::write(profile.join("run.json"), "{\"notes\": []}").expect("it can be written");
    let wanted = "rank,peer_rank,memory,kernel,access,width,object,line,accesses,bytes\n\
                  1,0,ipc,before,store,4,ghost cells,before,352,1408\n";
    fs::write(expected.join("1.csv"), wanted).expect("it can be written");
    let mut python = Command::new("python3");
    python.arg(root().join("tests/gpu/compare.py")).arg("rows").arg("--expected").arg(expected);
    within(LIMIT, python.args(["--source", "killed.cu"]).arg(profile))
}

#[test]
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

/// A file, which is a program if it begins like a script.
fn write_file(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
    let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// An installation, an MPI, a compiler and a GPU that only look like ones; `bench` is what mpisee-bench does.
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

#[test]
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

#[test]
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

#[test]
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

#[test]
fn without_a_gpu_it_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_file(&folder.path().join("nvidia-smi"), "#!/bin/sh\nexit 9\n");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let output = within(LIMIT, Command::new(root().join("scripts/gpu-check")).env("PATH", path));
    assert_eq!(output.status.code(), Some(1));
    let said = "gpu-check: there is no GPU here (nvidia-smi lists none), so nothing can be checked\n";
    assert_eq!(text(&output), said);
}
