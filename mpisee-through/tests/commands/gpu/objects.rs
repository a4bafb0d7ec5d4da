//! Allocations by their calls, and where in them accesses are.

use super::{HEADER, STENCIL, profile};
use crate::support::Written;
use mpisee_profile::gpu::records::{
    Description, RECORDS_MAGIC, WarpAccess, accesses_block, description_block,
};
use mpisee_profile::gpu::{Access, Handle, RemoteMemory};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that prints the return addresses of the calls that lead to `take`, which is inlined in
/// `fill`.
const STACK: &str = r#"
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
extern "C" __attribute__((noinline)) void stack(void) {
    void *frames[8];
    int count = backtrace(frames, 8);
    for (int frame = 1; frame < count; frame++) {
        Dl_info info;
        if (!dladdr(frames[frame], &info)) continue;
        printf("%s%s+0x%zx", frame > 1 ? " < " : "", info.dli_fname, (char *)frames[frame] - (char *)info.dli_fbase);
    }
}
namespace grid {
static inline __attribute__((always_inline)) void take(void) {
    stack(); asm volatile("");
}
__attribute__((noinline)) void fill(int) {
    take(); asm volatile("");
}
}
int main() {
    grid::fill(1); asm volatile("");
    return 0;
}
"#;

/// Compiles `STACK` where the profile is, and says what it prints; `flags` make another build of
/// it.
fn stack(profile: &Written, flags: &[&str]) -> (PathBuf, String) {
    let (source, program) = (profile.beside().join("stack.cc"), profile.beside().join("stack"));
    std::fs::write(&source, STACK).unwrap();
    let mut compiler = Command::new("c++");
    compiler
        .args(["-g", "-O1", "-fPIE", "-pie", "-Wl,--build-id", "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags);
    assert!(compiler.status().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    (program, String::from_utf8(output.stdout).unwrap())
}

fn build_id(program: &Path) -> String {
    use object::Object;
    let bytes = std::fs::read(program).unwrap();
    let id = object::File::parse(&*bytes).unwrap().build_id().unwrap().unwrap().to_vec();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn allocations_are_told_by_their_calls_while_the_program_is_what_ran() {
    let profile = profile("");
    let (program, stack_text) = stack(&profile, &[]);
    let row = format!("0,GPU-a,0,host,pinned,norm,a.cu:1,{stack_text},load,4,1,4,1,0.0\n");
    std::fs::write(profile.directory.join("gpu.csv"), format!("{HEADER}{row}")).unwrap();
    let binaries = format!("file,build_id\n{},{}\n", program.display(), build_id(&program));
    std::fs::write(profile.directory.join("binaries.csv"), binaries).unwrap();
    let by_object = ["gpu", "app.mpisee", "--by", "object", "--format", "csv"];
    let csv = "object,owner,accesses,loaded_bytes,stored_bytes,atomic_bytes,share\n";
    let printed =
        "take at stack.cc:16 < grid::fill at stack.cc:19 < main at stack.cc:23,host,1,4,0,0,1.000000000";
    profile.run(&by_object).prints(&format!("{csv}{printed}\n"));

    // It has moved.
    let moved = profile.beside().join("moved");
    std::fs::create_dir(&moved).unwrap();
    std::fs::rename(&program, moved.join("stack")).unwrap();
    profile.run(&[&by_object[..], &["--source", "moved"]].concat()).prints(&format!("{csv}{printed}\n"));
    let ran = profile.run(&["gpu", "app.mpisee", "--by", "object"]);
    assert!(ran.exits(0).stdout.contains("stack' is not there; its calls"), "{}", ran.stdout);

    // It was built anew, and is another program.
    stack(&profile, &["-O2", "-DOTHER"]);
    let ran = profile.run(&["gpu", "app.mpisee", "--by", "object"]);
    let (was, is) = (build_id(&moved.join("stack")), build_id(&program));
    assert!(
        ran.stdout.contains(&format!("stack' is not what ran: its build ID was {was} and is {is}")),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(&stack_text), "{}", ran.stdout);
}

/// Writes the records of ranks 0 and 1 of `STENCIL`.
fn records(profile: &Written) {
    let write = |rank: u32, printed: &[Description], accesses: &[WarpAccess]| {
        let printed = printed.iter().flat_map(description_block).collect();
        let content = [RECORDS_MAGIC.to_vec(), printed, accesses_block(accesses)].concat();
        let (one, other) = content.split_at(content.len() / 2);
        let frames = [one, other].map(|part| zstd::encode_all(part, 0).unwrap());
        let folder = profile.beside().join("records");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("node0-{}.zst", 1000 + rank)), frames.concat()).unwrap();
    };
    let instruction = |id, device: &str, kernel: &str, line| Description::Instruction {
        id,
        device: device.to_owned(),
        kernel: kernel.to_owned(),
        source: format!("stencil.cu:{line}"),
        launched: format!("train.py:{line}"),
    };
    let allocation = |id, begin, bytes, place, object: &str| Description::Allocation {
        id,
        begin,
        bytes,
        place,
        object: object.to_owned(),
        is_named: false,
    };
    let export = |handle: &str, device: &str, object: &str| Description::Export {
        handle: Handle::Ipc(handle.to_owned()),
        device: device.to_owned(),
        object: object.to_owned(),
    };
    let access = |instruction, allocation, access, width, words: Vec<u64>| WarpAccess {
        launch: 1,
        instruction,
        allocation,
        lanes: u32::MAX,
        access,
        width,
        words,
    };
    let warp = |begin: u64| (0..32).map(|lane| begin + 8 * lane).collect();
    write(
        0,
        &[
            Description::Sampled(1),
            instruction(1, "GPU-a", "halo", 41),
            instruction(2, "GPU-a", "halo", 42),
            allocation(5, 0x7000, 4096, RemoteMemory::Ipc("ab".to_owned()), "app+0x99"),
            Description::Dropped(3),
        ],
        &[
            access(1, 5, Access::Store, 8, warp(0x7000)),
            access(1, 5, Access::Store, 8, warp(0x7000 + 2048)),
            access(2, 5, Access::Load, 0, vec![0x7000 + 1000, 100]),
        ],
    );
    write(
        1,
        &[
            Description::Sampled(10),
            export("ab", "GPU-b", "ghost cells"),
            instruction(7, "GPU-b", "norm", 77),
            allocation(9, 0x100, 64, RemoteMemory::Pinned, "flags"),
        ],
        &[access(7, 9, Access::Atomic, 4, vec![0x100, 0x104, 0x108, 0x130])],
    );
}

#[test]
fn records_show_where_in_an_object_accesses_are() {
    let stencil = profile(STENCIL);
    records(&stencil);
    let by_address = ["gpu", "app.mpisee", "--by", "address", "--records", "records"];
    let with = |more: &[&str]| stencil.run(&[&by_address[..], more].concat());
    with(&["--top", "3"]).golden("gpu-objects-records_show_where_in_an_object_accesses_are");
    with(&["--format", "csv", "--object", "flags"]).prints(
        "\
object,object_bytes,begin,end,accesses,loaded_bytes,stored_bytes,atomic_bytes,share,devices,lines
flags,64,0,16,30,0,0,120,0.750000000,GPU-b,stencil.cu:77
flags,64,48,64,10,0,0,40,0.250000000,GPU-b,stencil.cu:77
",
    );
    // Of memory of another process its device is known from its owner's file alone. Two warps are
    // 16 parts of 16 bytes each, and the copy from 1000 to 1100 is in 7.
    let ran = with(&["--format", "csv", "--peer-device", "GPU-b"]);
    let lines: Vec<&str> = ran.exits(0).stdout.lines().skip(1).collect();
    assert!(lines.len() == 2 * 16 + 7 && lines.iter().all(|line| line.starts_with("ghost cells,4096,")));
    with(&["--object", "ghost*", "--fold", "8x64x8", "--top", "1"])
        .golden("gpu-objects-records_show_where_in_an_object_accesses_are-2");
    with(&["--object", "ghost*", "--fold", "4x64x8", "--image", "a.svg"]).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("a.svg")).unwrap();
    assert_eq!(text.matches("<title>bytes ").count(), 32 + 13, "{text}");
    let first =
        "<title>bytes 0 to 8: 1 access, 0 bytes loaded, 8 stored, 0 by atomics; GPU-a; stencil.cu:41</title>";
    assert!(text.contains(first), "{text}");
    with(&["--image", "a.png"]).prints("");

    stencil.run(&["gpu", "app.mpisee", "--by", "address"]).fails_with(&["--by address needs --records DIR"]);
    stencil.run(&["gpu", "app.mpisee", "--fold", "2x2"]).fails_with(&["--fold is for --by address"]);
    with(&["--fold", "2"]).fails_with(&["--fold", "512x512"]);
    stencil.run(&[&by_address[..5], &["src"]].concat()).fails_with(&["cannot read 'src'"]);
    stencil.run(&[&by_address[..5], &["."]].concat()).fails_with(&["'.' has no records of this run's"]);

    // The end of a file is missing.
    let file = stencil.beside().join("records/node0-1000.zst");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
    let ran = with(&[]);
    assert!(ran.exits(0).stdout.contains("The records of rank 0 break off."), "{}", ran.stdout);

    // Nobody says whose memory it is: it is named by the call that mapped it.
    std::fs::write(&file, bytes).unwrap();
    std::fs::remove_file(stencil.beside().join("records/node0-1001.zst")).unwrap();
    let ran = with(&["--format", "csv"]);
    let objects: BTreeSet<&str> =
        ran.exits(0).stdout.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(objects, ["app+0x99"].into());
}
