//! `mpisee-through gpu-records`: records of GPU accesses as CSV.

use mpisee_profile::gpu::records::{
    Description, RECORDS_MAGIC, WarpAccess, accesses_block, description_block,
};
use mpisee_profile::gpu::{Access, RemoteMemory};
use std::path::Path;
use std::process::{Command, Output};

fn run(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mpisee-through")).arg("gpu-records").arg(file).output().unwrap()
}

/// Two frames, as a process writes them.
fn frames() -> [Vec<u8>; 2] {
    let instruction = Description::Instruction {
        id: 0,
        device: "GPU-a".to_owned(),
        kernel: "halo".to_owned(),
        source: "stencil.cu:41".to_owned(),
        launched: "train.py:7".to_owned(),
    };
    let allocation = Description::Allocation {
        id: 9,
        begin: 0x7000,
        bytes: 4096,
        place: RemoteMemory::Ipc("ab".to_owned()),
        object: "ghost cells".to_owned(),
        is_named: true,
    };
    let store = WarpAccess {
        launch: 3,
        instruction: 0,
        allocation: 9,
        lanes: 0b101,
        access: Access::Store,
        width: 8,
        words: vec![0x7000, 0x7010],
    };
    let copy = WarpAccess { launch: 4, lanes: 1, width: 0, words: vec![0x7100, 512], ..store.clone() };
    let first =
        [description_block(&instruction), description_block(&allocation), accesses_block(&[store])].concat();
    let second = [accesses_block(&[copy]), description_block(&Description::Dropped(5))].concat();
    let frame = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    [frame(&[&RECORDS_MAGIC[..], &first].concat()), frame(&second)]
}

const HEADER: &str =
    "launch,device,kernel,source,launched,memory,peer,object,allocation,access,width,lanes,offsets\n";
const STORE: &str = "3,GPU-a,halo,stencil.cu:41,train.py:7,ipc,ab,ghost cells,9,store,8,00000005,0 16\n";
const COPY: &str = "4,GPU-a,halo,stencil.cu:41,train.py:7,ipc,ab,ghost cells,9,store,0,00000001,256 512\n";

#[test]
fn records_are_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node1-7.zst");
    std::fs::write(&file, frames().concat()).unwrap();
    let output = run(&file);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), [HEADER, STORE, COPY].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "5 records are missing: the device had no room for them.\n");
}

#[test]
fn of_a_killed_process_there_is_what_was_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node1-7.zst");
    let [first, second] = frames();
    for end in 0..second.len() {
        std::fs::write(&file, [&first[..], &second[..end]].concat()).unwrap();
        let output = run(&file);
        assert!(output.status.success(), "{end}: {output:?}");
        let rows = String::from_utf8(output.stdout).unwrap();
        assert!(rows.starts_with(&[HEADER, STORE].concat()), "{end}: {rows}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("The records break off"), end > 0, "{end}: {said}");
    }
}

#[test]
fn other_files_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in
        [("text", b"launch,device\n".to_vec()), ("other", zstd::bulk::compress(b"mpgpu\0\0\x01", 1).unwrap())]
    {
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let output = run(&file);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(name) && said.lines().count() == 1, "{said}");
    }
    assert!(!run(&folder.path().join("none")).status.success());
}
