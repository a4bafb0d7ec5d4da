//! The part of the tracer that calls NVBit, with the real one of NVBIT_HOME, and without a GPU.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of NVBit's headers and library; where there is none, that is said.
fn core() -> Option<PathBuf> {
    let home = std::env::var_os("NVBIT_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    let found = home
        .and_then(|home| [home.join("core"), home].into_iter().find(|it| it.join("libnvbit.a").is_file()));
    if found.is_none() {
        eprintln!("NVBIT_HOME does not name an NVBit, so nothing is tried with the real one");
    }
    found
}

/// A folder with a fake driver, and beside it what `sources` and NVBit make.
fn build(core: &Path, name: &str, sources: &[&str], options: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("libcuda.so.1");
    support::build_driver(&driver, &["tests/nvbit/driver.c"]);
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
        .args(["-std=c++17", "-O1", "-w", "-o"])
        .arg(folder.path().join(name))
        .arg(format!("-I{}", crate_root.join("nvbit").display()))
        .arg(format!("-isystem{}", core.display()))
        .args(sources.iter().map(|source| crate_root.join(source)))
        .arg(core.join("libnvbit.a"))
        .arg(&driver)
        .arg(format!("-Wl,-rpath,{}", folder.path().display()))
        .args(["-ldl", "-lpthread"])
        .args(options)
        .status();
    assert!(compiled.expect("a C++ compiler, c++ or the one in CXX, is needed").success());
    folder
}

/// An instruction, as nvdisasm writes it; whether it counts, its kind, its bytes, which of its
/// references to memory or uniform registers, and the register of a length.
const INSTRUCTIONS: [(&str, [i32; 5]); 40] = [
    ("LDG.E.64 R4, desc[UR10][R6.64] ;", [1, 0, 8, 0, -1]),
    ("LDG.E.S8 R18, desc[UR10][R8.64] ;", [1, 0, 1, 0, -1]),
    ("@!P1 LDG.E.128.CONSTANT R12, [R14.64+0x10] ;", [1, 0, 16, 0, -1]),
    ("LD.E R12, [R14.64] ;", [1, 0, 4, 0, -1]),
    ("STG.E.128 desc[UR10][R8.64], R4 ;", [1, 1, 16, 0, -1]),
    ("ST.E.U16 [R8.64], R4 ;", [1, 1, 2, 0, -1]),
    ("REDG.E.ADD.STRONG.GPU desc[UR10][R14.64], R25 ;", [1, 2, 4, 0, -1]),
    ("RED.E.ADD.STRONG.GPU [R14.64], R25 ;", [1, 2, 4, 0, -1]),
    ("REDG.E.ADD.F64.RN.STRONG.GPU desc[UR10][R6.64], R12 ;", [1, 2, 8, 0, -1]),
    ("REDG.E.ADD.F32x2.FTZ.RN.STRONG.GPU desc[UR10][R4.64], R6 ;", [1, 2, 8, 0, -1]),
    ("REDG.E.ADD.F32x4.FTZ.RN.STRONG.GPU desc[UR10][R2.64], R16 ;", [1, 2, 16, 0, -1]),
    ("REDG.E.ADD.F16x2.RN.STRONG.GPU desc[UR10][R16.64], R0 ;", [1, 2, 4, 0, -1]),
    ("REDG.E.ADD.BF16x4.RN.STRONG.GPU desc[UR6][R2.64], R4 ;", [1, 2, 8, 0, -1]),
    ("REDG.E.ADD.F16x8.RN.STRONG.GPU desc[UR10][R24.64], R4 ;", [1, 2, 16, 0, -1]),
    ("LDG.E.ENL2.256 R20, R16, desc[UR4][R2.64] ;", [1, 0, 32, 0, -1]),
    ("STG.E.ENL2.256 desc[UR4][R12.64+0x20], R16, R20 ;", [1, 1, 32, 0, -1]),
    ("LDG.E R4, desc[UR10][UR4.64] ;", [1, 0, 4, 0, -1]),
    ("ATOM.E.ADD.STRONG.GPU PT, RZ, desc[UR4][R14.64], R17 ;", [1, 2, 4, 0, -1]),
    ("ATOMG.E.CAS.128.STRONG.GPU PT, R12, [R6], R8, R12 ;", [1, 2, 16, 0, -1]),
    ("@P0 ATOMG.E.ADD.64.STRONG.GPU PT, R16, desc[UR10][R12.64], R16 ;", [1, 2, 8, 0, -1]),
    ("ATOMG.E.CAS.64.STRONG.GPU PT, R4, [R12+0x2e0], R4, R6 ;", [1, 2, 8, 0, -1]),
    ("LDGSTS.E.BYPASS.128 [R19], desc[UR10][R14.64] ;", [1, 0, 16, 1, -1]),
    ("LDGSTS.E [0x40], desc[UR10][R8.64+-0x800] ;", [1, 0, 4, 1, -1]),
    ("UBLKCP.S.G [UR6], [UR4], UR8 ;", [1, 0, 0, 4, 8]),
    ("UBLKCP.S.G.MULTICAST [UR6], [UR10], UR12, desc[UR8] ;", [1, 0, 0, 10, 12]),
    ("UBLKCP.G.S [UR4], [UR6], UR10, desc[UR8] ;", [1, 1, 0, 4, 10]),
    ("UBLKCP.G.S [UR4], [UR6], UR7 ;", [1, 1, 0, 4, 7]),
    ("UBLKRED.G.S.ADD [UR4], [UR6], UR8 ;", [1, 2, 0, 4, 8]),
    ("UBLKCP.S.S [UR6], [UR8], UR10 ;", [0, 1, 0, 6, 10]),
    ("UBLKPF.L2 [UR4], UR9 ;", [0, 0, 0, 0, -1]),
    ("REDUX.SUM UR4, R0 ;", [0, 0, 0, 0, -1]),
    ("STAS [R20.64], R19 ;", [0, 0, 0, 0, -1]),
    ("LDSM.16.M88.4 R4, [R2] ;", [0, 0, 0, 0, -1]),
    ("ATOMS.ADD RZ, [UR4], R0 ;", [0, 0, 0, 0, -1]),
    ("LDGDEPBAR ;", [0, 0, 0, 0, -1]),
    ("CCTL.E.PF2 [R2] ;", [0, 0, 0, 0, -1]),
    ("LDS.64 R2, [R4] ;", [0, 0, 0, 0, -1]),
    ("STL [R1], R4 ;", [0, 0, 0, 0, -1]),
    ("LDC R1, c[0x0][0x28] ;", [0, 0, 0, 0, -1]),
    ("IADD3 R4, R4, 0x10, RZ ;", [0, 0, 0, 0, -1]),
];

#[test]
fn instructions_that_count_are_recognised() {
    let Some(core) = core() else { return };
    let folder = build(&core, "decode", &["tests/nvbit/decode.cpp"], &[]);
    let mut running = Command::new(folder.path().join("decode"))
        .env("NOBANNER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = INSTRUCTIONS.iter().map(|(text, _)| format!("{text}\n")).collect();
    running.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), INSTRUCTIONS.len(), "{printed}");
    for ((text, expected), printed) in INSTRUCTIONS.iter().zip(printed.lines()) {
        let printed: Vec<i32> = printed.split(' ').map(|it| it.parse().unwrap()).collect();
        assert_eq!(printed, expected, "{text}");
    }
}

/// As the driver loads it, with the profiler preloaded: NVBit finds its tool, and that the tracer
/// beside it. Nothing is printed.
#[test]
fn nvbit_brings_the_tracer_with_it() {
    let Some(core) = core() else { return };
    let folder = build(&core, "libmpisee_gpu_nvbit.so", &["nvbit/tool.cpp"], &["-shared", "-fPIC"]);
    let path = |name: &str| folder.path().join(name);
    support::build(&["tests/nvbit/load.c"], &path("load"), &["-ldl"]);
    std::fs::copy(support::tracer(), path("libmpisee_gpu.so")).unwrap();
    let output = Command::new(path("load"))
        .arg(path("libmpisee_gpu.so"))
        .env("CUDA_INJECTION64_PATH", path("libmpisee_gpu_nvbit.so"))
        .env("LD_PRELOAD", path("libcuda.so.1"))
        .envs([("NOBANNER", "1"), ("MPISEE_GPU", "on")])
        .env("MPISEE_SEGMENTS", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
}
