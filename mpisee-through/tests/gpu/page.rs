//! `mpisee-through gpu` without options: all of it on a page.

use super::support::{Builder, Written};
use super::{HEADER, has, profile};
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, Memory};

const A: &str = "GPU-0aaaaaaa-1111-2222-3333-444444444444";
const B: &str = "GPU-0bbbbbbb-1111-2222-3333-444444444444";

/// Three ranks, of which 0 and 1 have a GPU each and 2 none; with messages, copies, kernels' accesses and a communicator of NCCL.
fn two_gpus() -> Written {
    let device = |uuid: &str, ranks: &str| DeviceRow {
        host: "n1".to_owned(),
        uuid: uuid.to_owned(),
        model: "H100".to_owned(),
        numa_node: Some(1),
        memory_bytes: Some(80 << 30),
        ranks: ranks.parse().unwrap(),
        ..DeviceRow::default()
    };
    let link = DeviceLinkRow {
        host: "n1".to_owned(),
        device: A.to_owned(),
        peer: B.to_owned(),
        path: "SYS".to_owned(),
        nvlinks: Some(18),
        peer_access: Some(1),
        native_atomics: Some(0),
        performance: Some(0),
    };
    let written = Builder::new(3)
        .comm("W_s1.0", "W", "MPI_Comm_split", "0-1", |_| {})
        .comm("W_s1.0_d1", "W_s1.0", "MPI_Comm_dup", "0-1", |_| {})
        .comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-1", |_| {})
        .messages("W", 0, 1, 2, 1000)
        .messages("W_s1.0", 1, 0, 1, 70)
        .messages("W", 1, 2, 1, 7777)
        .call_with("W", 0, "MPI_Send", 2, 1000, 0.25, |row| row.memory = Memory::Device)
        .call("W", 1, "MPI_Recv", 2, 1000, 0.5)
        .call("W", 1, "MPI_Barrier", 9, 0, 0.5)
        .call_with("N1-5e1c09tz", 0, "ncclAllReduce", 3, 3333, 0.001, |row| row.memory = Memory::Device)
        .call_with("N1-5e1c09tz", 1, "ncclAllReduce", 3, 3333, 0.002, |row| row.memory = Memory::Device)
        .with(|profile| {
            profile.devices = vec![device(A, "0"), device(B, "1")];
            profile.links = vec![link];
            profile.ranks.iter_mut().zip([A, B]).for_each(|(row, gpu)| row.gpu = gpu.to_owned());
        })
        .write();
    let copies = format!(
        "rank,device,call,mode,from,from_device,to,to_device,line,calls,bytes,time_s\n\
         0,{A},cuMemcpyDtoHAsync,stream,device,{A},pinned,,,3,3000,0.000003\n\
         1,{B},cuMemcpyPeer,blocking,device,{B},device,{A},,1,5000,0.000002\n\
         1,{B},cuMemsetD8,stream,,,device,{B},,1,900000,0.000002\n\
         1,{B},cuLaunchKernel,stream,,,,,,70,0,0.000210\n"
    );
    let staged =
        "comm,rank,direction,memory,mode,matches,bytes,time_s\nW,0,sent,pinned,stream,2,1000,0.000001\n";
    let accessed = format!(
        "{HEADER}0,{A},1,{B},ipc,halo,stencil.cu:41,ghost cells,store,8,640,5120,1,0.0\n\
         0,{A},1,{B},ipc,halo,stencil.cu:42,ghost cells,load,4,100,400,1,0.0\n\
         1,{B},1,host,pinned,norm,stencil.cu:77,app+0x12,atomic,8,3,24,1,0.0\n"
    );
    let nccl = "comm,rank,rank_in_comm,peer_in_comm,sent_messages,sent_bytes,received_messages,received_bytes\n\
         N1-5e1c09tz,0,1,0,2,211,0,0\nN1-5e1c09tz,1,0,1,0,0,2,211\n";
    let files = [
        ("copies.csv", copies.as_str()),
        ("staged.csv", staged),
        ("gpu.csv", &accessed),
        ("nccl-peers.csv", nccl),
    ];
    for (name, text) in files {
        std::fs::write(written.directory.join(name), text).unwrap();
    }
    written
}

#[test]
fn all_of_it_is_on_a_page() {
    two_gpus().golden_at(120, "gpu-all_of_it_is_on_a_page", &["gpu", "app.mpisee"]);
}

#[test]
fn each_way_between_two_gpus_has_its_bytes() {
    two_gpus().run(&["gpu", "app.mpisee", "--format", "csv"]).prints(&format!(
        "from,to,mpi_bytes,nccl_bytes,copied_bytes,kernel_bytes\n\
         {A},{B},1000,211,0,5120\n\
         {B},{A},70,0,5000,400\n\
         {A},host,0,0,3000,0\n\
         {B},host,0,0,0,24\n"
    ));
}

#[test]
fn the_lists_are_in_json_by_name() {
    let ran = two_gpus().run(&["gpu", "app.mpisee", "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let lengths = ["ways", "devices", "links", "buffers", "copies", "staged", "nccl", "gpu"]
        .map(|list| page[list].as_array().map(Vec::len));
    assert_eq!(lengths, [4, 2, 1, 3, 4, 1, 1, 2].map(Some), "{page:#}");
    let nccl = &page["nccl"][0];
    assert_eq!((&nccl["same_as"], &nccl["bytes"]), (&"W_s1.0".into(), &6666.into()), "{nccl}");
    let of_host = &page["buffers"][0];
    assert_eq!((&of_host["memory"], &of_host["bytes"]), (&"host".into(), &1000.into()), "{of_host}");
}

#[test]
fn messages_of_ranks_with_several_gpus_are_said_to_be_left_out() {
    let several = Builder::new(2)
        .messages("W", 0, 1, 2, 2048)
        .with(|profile| {
            profile.ranks[0].gpu = A.to_owned();
            profile.ranks[1].gpu = format!("{A}|{B}");
            profile.devices = vec![DeviceRow { uuid: A.to_owned(), ..DeviceRow::default() }];
        })
        .write();
    let ran = several.run(&["gpu", "app.mpisee"]);
    has(&ran.exits(0).stdout, &["2.00 KiB of messages are in no row of FROM and TO"]);
}

#[test]
fn a_profile_without_gpus_says_what_would_count_them() {
    let ran = profile("").run(&["gpu", "app.mpisee"]);
    has(
        &ran.exits(0).stdout,
        &["The profile has nothing of GPUs.", "`mpisee --gpu-copies`", "`mpisee --gpu`"],
    );
    assert!(!ran.stdout.contains("CALLS"), "{}", ran.stdout);
}
