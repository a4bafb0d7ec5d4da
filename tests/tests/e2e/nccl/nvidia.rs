//! NVIDIA's NCCL as it is: its header has what the spec has, its library the functions, and calls
//! return through mpisee what they return alone.

use super::without_mpi::OF_LAUNCHERS;
use mpisee_profile::nccl::{Config, ID_BYTES, IN_PROGRESS, INVALID_USAGE, SUCCESS, bytes_of};
use mpisee_tests::python::{Stack, nvidia};
use mpisee_tests::{LIMIT, case, dist, root, within};
use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Begins of the names of functions that are not interposed: they neither communicate nor make or
/// end a communicator.
const OTHERS: [&str; 31] = [
    // What there is.
    "ncclCommCount",
    "ncclCommCuDevice",
    "ncclCommGetUniqueId",
    "ncclCommMemStats",
    "ncclCommQueryProperties",
    "ncclCommUserRank",
    "ncclGetErrorString",
    "ncclGetLastError",
    "ncclGetUniqueId",
    "ncclGetVersion",
    // Memory, and the addresses by which the GPUs reach it.
    "ncclCommDeregister",
    "ncclCommRegister",
    "ncclCommResume",
    "ncclCommSuspend",
    "ncclGetCft",
    "ncclGetLsa",
    "ncclGetMultimem",
    "ncclGetPeer",
    "ncclMemAlloc",
    "ncclMemFree",
    "ncclWinGetUserPtr",
    // What the GPU's code communicates by; the GPU tracer sees what kernels access.
    "ncclDevComm",
    "ncclGin",
    "ncclLLA2A",
    "ncclLsaBarrier",
    "ncclTeam",
    // Settings.
    "ncclParam",
    "ncclRedOpCreatePreMulSum",
    "ncclRedOpDestroy",
    "ncclResetDebugInit",
    "ncclSetEncryption",
];

/// Functions of RCCL alone.
const OF_RCCL: [&str; 2] = ["ncclAllToAll", "ncclAllToAllv"];

/// Compiles a program or object file in `folder`.
fn compile(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let (result, packages) = (folder.join(name), nvidia());
    let headers = packages.join("cu13/include");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(packages.join("nccl/include"));
    compiler.arg("-isystem").arg(&headers).arg("-isystem").arg(headers.join("cccl")).arg("-o").arg(&result);
    compiler.arg(root().join("tests/programs/gpu").join(name).with_extension("c")).args(options);
    let output = compiler.output().expect("cc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    result
}

/// The functions of NCCL that a library exports, profilers' names for them aside.
fn functions(library: &Path) -> BTreeSet<String> {
    let content = std::fs::read(library).expect("it can be read");
    let file = object::File::parse(&*content).expect("it is a library");
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = defined.filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
    names.filter(|name| name.starts_with("nccl")).collect()
}

#[case]
fn functions_are_those_of_the_header_and_the_library() {
    if !Stack::are_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    compile(folder.path(), "nccl_functions", &["-c"]);
    let own = functions(&dist().join("lib/mpisee/nccl/libmpisee_nccl.so"));
    let of_nvidia = functions(&nvidia().join("nccl/lib/libnccl.so.2"));
    let missing: Vec<&String> = own.difference(&of_nvidia).collect();
    assert_eq!(missing, OF_RCCL, "the library exports all others");
    let is_known = |name: &&String| OTHERS.iter().any(|begin| name.starts_with(begin));
    let others = || of_nvidia.difference(&own);
    assert_eq!(others().filter(|name| !is_known(name)).collect::<Vec<_>>(), Vec::<&String>::new());
    let unused = OTHERS.iter().filter(|begin| !others().any(|name| name.starts_with(*begin)));
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[case]
fn constants_and_configurations_are_those_of_the_header() {
    if !Stack::are_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(compile(folder.path(), "nccl_header", &[])).output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("it prints names and numbers");
    let values: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once(' ').expect("a name and a value")).collect();
    let number = |name: &str| values[name].parse::<i32>().expect("a number");
    let constants = ["ncclSuccess", "ncclInvalidUsage", "ncclInProgress", "NCCL_UNIQUE_ID_BYTES"].map(number);
    assert_eq!(constants, [SUCCESS, INVALID_USAGE, IN_PROGRESS, ID_BYTES as i32]);
    let types = [
        (1, ["ncclInt8", "ncclUint8", "ncclFloat8e4m3", "ncclFloat8e5m2"].as_slice()),
        (2, &["ncclFloat16", "ncclBfloat16"]),
        (4, &["ncclInt32", "ncclUint32", "ncclFloat32"]),
        (8, &["ncclInt64", "ncclUint64", "ncclFloat64"]),
    ];
    let mut known = 0;
    for (bytes, names) in types {
        for name in names {
            assert_eq!(bytes_of(number(name)), Some(bytes), "{name}");
            known += 1;
        }
    }
    assert_eq!((number("ncclNumTypes"), bytes_of(known)), (known, None));
    let name = |which: &str| {
        let hex = values[which].as_bytes().chunks(16);
        let word = |digits: &[u8]| {
            let digits = str::from_utf8(digits).expect("hexadecimal digits");
            u64::from_str_radix(digits, 16).expect("hexadecimal digits").swap_bytes()
        };
        let words: Vec<u64> = hex.map(word).collect();
        // SAFETY: the words are those of a configuration, aligned as that is.
        unsafe { Config::name(words.as_ptr().cast()) }.map(<*const c_char>::addr)
    };
    assert_eq!([name("unnamed"), name("named")], [None, Some(0x1234_5678)]);
}

#[case]
fn calls_return_what_they_return_alone() {
    if !Stack::are_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("segments")).expect("it can be made");
    let libraries = nvidia().join("nccl/lib").display().to_string();
    let linked = [format!("-L{libraries}"), "-l:libnccl.so.2".to_owned(), format!("-Wl,-rpath,{libraries}")];
    let program = compile(folder.path(), "nccl_real", &linked.each_ref().map(String::as_str));
    let alone = within(LIMIT, &mut Command::new(&program));
    let printed = String::from_utf8_lossy(&alone.stdout).into_owned();
    let header = Command::new(compile(folder.path(), "nccl_header", &[])).output().expect("it starts");
    let header = String::from_utf8_lossy(&header.stdout).into_owned();
    let version = header.lines().next().and_then(|line| line.strip_prefix("NCCL_VERSION_CODE "));
    let version = version.expect("the header's version");
    assert!(printed.contains(&format!("version {version}\n")), "{printed}");
    let mut command = Command::new(dist().join("bin/mpisee"));
    command.args(["--output", "test.mpisee", "--segments"]).arg(folder.path().join("segments"));
    command.arg(&program).current_dir(folder.path());
    for name in OF_LAUNCHERS {
        command.env_remove(name);
    }
    let profiled = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&profiled.stderr);
    assert_eq!(
        (String::from_utf8_lossy(&profiled.stdout), profiled.status),
        (printed.into(), alone.status),
        "{said}"
    );
    assert!(said.starts_with("mpisee: profile of 1 rank in test.mpisee"), "{said}");
}
