//! `mpisee-through gpu` without options: all of it on a page.

use super::{has, profile};
use crate::support::gpus::{A, B, NCCL_PEERS, two_gpus};
use crate::support::{Builder, Written};
use mpisee_profile::rows::{DeviceRow, Memory};

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
    has(
        &ran.exits(0).stdout,
        &["2.00 KiB of messages are not shown between GPUs, since their ranks use several"],
    );
}

/// Rank 0 uses A and B, the others one each.
#[test]
fn messages_that_may_have_gone_between_other_gpus_are_not_known() {
    const C: &str = "GPU-0ccccccc-1111-2222-3333-444444444444";
    let several = Builder::new(3)
        .comm("N1-5e1c09tz", "", "ncclCommInitAll", "0-1", |_| {})
        .messages("W", 0, 1, 2, 2048)
        .messages("W", 2, 1, 3, 30)
        .with(|profile| {
            let gpus = [format!("{A}|{B}"), C.to_owned(), B.to_owned()];
            profile.ranks.iter_mut().zip(gpus).for_each(|(row, gpu)| row.gpu = gpu);
        })
        .write();
    let sent = |from: u32, [rank, peer]: [u32; 2], device: &str, bytes: u32| {
        format!("N1-5e1c09tz,{from},{rank},{peer},{device},1,{bytes},0,0\n")
    };
    let rows = [sent(0, [0, 2], A, 5), sent(0, [1, 0], B, 6), sent(1, [2, 0], C, 7)].concat();
    let header = NCCL_PEERS.replace("peer_in_comm,", "peer_in_comm,device,");
    std::fs::write(several.directory.join("nccl-peers.csv"), header + &rows).unwrap();
    // Rank 0 may have sent from A, or from B, to C, and nothing to itself.
    several.run(&["gpu", "app.mpisee", "--format", "csv"]).prints(&format!(
        "from,to,mpi_bytes,nccl_bytes,copied_bytes,kernel_bytes\n\
         {B},{C},30,0,,\n\
         {C},{A},0,7,,\n\
         {B},{A},0,6,,\n\
         {A},{C},,5,,\n"
    ));
    let ran = several.run(&["gpu", "app.mpisee", "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert!(page["ways"][3]["mpi_bytes"].is_null(), "{}", page["ways"]);
    has(&page["caveats"].to_string(), &["2.00 KiB of messages are in no row"]);
}

/// Two processes without MPI, each with a GPU; and the rows of `nccl-peers.csv` behind its columns.
fn without_mpi(peers: &str) -> Written {
    let profile = Builder::new(2)
        .comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-1", |_| {})
        .call_with("N1-5e1c09tz", 0, "ncclAllReduce", 3, 3333, 0.001, |row| row.memory = Memory::Device)
        .with(|profile| {
            profile.run.mpi.library = "none".to_owned();
            profile.ranks.iter_mut().zip([A, B]).for_each(|(row, gpu)| row.gpu = gpu.to_owned());
        })
        .write();
    if !peers.is_empty() {
        std::fs::write(profile.directory.join("nccl-peers.csv"), format!("{NCCL_PEERS}{peers}")).unwrap();
    }
    profile
}

#[test]
fn ways_that_were_not_counted_have_no_bytes() {
    let sent = without_mpi("N1-5e1c09tz,0,0,1,2,211,0,0\nN1-5e1c09tz,1,1,0,0,0,2,211\n");
    sent.run(&["gpu", "app.mpisee", "--format", "csv"]).prints(&format!(
        "from,to,mpi_bytes,nccl_bytes,copied_bytes,kernel_bytes\n\
         {A},{B},,211,,\n"
    ));
    let ran = sent.run(&["gpu", "app.mpisee", "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let row = &page["ways"][0];
    assert!(["mpi_bytes", "copied_bytes", "kernel_bytes"].iter().all(|way| row[way].is_null()), "{row}");
    let ran = sent.run(&["gpu", "app.mpisee"]);
    has(&ran.exits(0).stdout, &["FROM          TO             NCCL\nGPU-0aaaaaaa  GPU-0bbbbbbb  211 B\n"]);
    assert!(!ran.stdout.contains("not known"), "{}", ran.stdout);
}

#[test]
fn collectives_are_said_to_be_in_no_table() {
    let ran = without_mpi("").run(&["gpu", "app.mpisee", "--width", "200"]);
    has(
        &ran.exits(0).stdout,
        &[
            "3.25 KiB of collectives are not shown between GPUs, since who sends to whom in them is not known.",
            "\nCommunicators of NCCL\n",
        ],
    );
    assert!(!ran.stdout.contains("FROM"), "{}", ran.stdout);
}

/// As with AMD's GPUs, which are in no table.
#[test]
fn messages_of_gpus_that_are_not_known_are_said_to_be_left_out() {
    let profile = Builder::new(2)
        .messages("W", 0, 1, 2, 4711)
        .call_with("W", 0, "MPI_Isend", 2, 4711, 0.25, |row| row.memory = Memory::Device)
        .call_with("W", 0, "MPI_Allreduce", 2, 16, 0.25, |row| row.memory = Memory::Device)
        .write();
    let ran = profile.run(&["gpu", "app.mpisee", "--width", "200"]);
    let sentence = "4.60 KiB of messages are not shown between GPUs, since no GPU of a rank is known.";
    has(&ran.exits(0).stdout, &[sentence, "MPI_Wait, MPI_Win_fence and their kind have no buffers"]);
    has(&ran.stdout, &["16 B of collectives are not shown between GPUs"]);
}

/// As where ranks 2 and 3 destroyed their contexts before the end.
#[test]
fn messages_of_ranks_without_a_gpu_are_left_out_where_others_have_one() {
    let profile = Builder::new(4)
        .messages("W", 2, 3, 10, 4000)
        .call_with("W", 2, "MPI_Send", 10, 4000, 0.25, |row| row.memory = Memory::Device)
        .call_with("W", 0, "MPI_Allreduce", 2, 16, 0.25, |row| row.memory = Memory::Device)
        .with(|profile| profile.ranks.iter_mut().zip([A, B]).for_each(|(row, gpu)| row.gpu = gpu.to_owned()))
        .write();
    let ran = profile.run(&["gpu", "app.mpisee", "--width", "200"]);
    let sentence = "3.91 KiB of messages are not shown between GPUs, since no GPU of a rank is known.";
    has(&ran.exits(0).stdout, &[sentence]);
}

/// Two ranks with a GPU each, whose data take no message but `call`.
fn one_sided(call: &str) -> Builder {
    Builder::new(2)
        .call_with("W", 0, call, 20, 20 << 20, 0.25, |row| row.memory = Memory::Device)
        .call_with("W", 0, "MPI_Allreduce", 1, 8, 0.25, |row| row.memory = Memory::Host)
        .with(|profile| profile.ranks.iter_mut().zip([A, B]).for_each(|(row, gpu)| row.gpu = gpu.to_owned()))
}

#[test]
fn one_sided_operations_are_said_to_be_left_out() {
    for call in ["MPI_Put", "MPI_Raccumulate", "ncclPutSignal"] {
        let profile = one_sided(call).write();
        let ran = profile.run(&["gpu", "app.mpisee", "--width", "200"]);
        let sentence = "20.0 MiB of one-sided operations are not shown between GPUs, since the GPU of a window is not known.";
        has(&ran.exits(0).stdout, &[sentence, "8 B of collectives are not shown between GPUs"]);
        let ran = profile.run(&["gpu", "app.mpisee", "--format", "json"]);
        let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        assert!(page["caveats"].to_string().contains(sentence), "{page:#}");
    }
    let beside_messages = one_sided("MPI_Get").messages("W", 0, 1, 2, 100).write();
    let ran = beside_messages.run(&["gpu", "app.mpisee", "--width", "200"]);
    let sentence = "20.0 MiB of one-sided operations are in no row of FROM and TO, since the GPU of a window is not known.";
    has(&ran.exits(0).stdout, &[sentence]);
    assert!(!ran.stdout.contains("of collectives"), "{}", ran.stdout);
}

/// The sentence on copies for messages.
fn staged(rows: &str) -> String {
    let profile = two_gpus();
    let text = format!("comm,rank,direction,memory,mode,matches,bytes,time_s\n{rows}");
    std::fs::write(profile.directory.join("staged.csv"), text).unwrap();
    profile.run(&["gpu", "app.mpisee", "--width", "250"]).exits(0).stdout.clone()
}

#[test]
fn copies_for_messages_are_a_bound_where_the_host_waits_for_them() {
    let text = staged("W,0,sent,host,blocking,2,1000,0.25\nW,1,received,host,blocking,2,1000,0.5\n");
    let bound = "W: 1.95 KiB staged, 750 ms in the copies, 500 ms on rank 1: what an MPI that knows GPUs would save at most.";
    has(&text, &[bound]);
    let text = staged("W,0,sent,pinned,stream,2,1000,0.25\n");
    has(
        &text,
        &["W: 1000 B staged, 250 ms of the host in the copies: an MPI that knows GPUs would save that, and"],
    );
    assert!(!text.contains("at most"), "{text}");
}

#[test]
fn messages_to_a_rank_without_a_row_are_said_to_be_left_out() {
    let ran = without_mpi("N1-5e1c09tz,0,0,1,1,4711,0,0\n").run(&["gpu", "app.mpisee", "--width", "200"]);
    let sentence =
        "4.60 KiB of messages are not shown between GPUs, since the profile does not have who received them.";
    has(&ran.exits(0).stdout, &[sentence]);
}

#[test]
fn filters_of_nothing_lead_back_to_the_page() {
    let ran = without_mpi("").run(&["gpu", "app.mpisee", "--ranks", "0", "--width", "200"]);
    has(&ran.exits(0).stdout, &["no accesses of GPU kernels, among which filters choose", "Without filters"]);
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

#[test]
fn communicators_of_nccl_have_the_labels_that_the_program_gives() {
    let page = |label: &str| {
        let profile = Builder::new(2)
            .comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-1", |row| row.label = label.to_owned())
            .call("N1-5e1c09tz", 0, "ncclAllReduce", 3, 3333, 0.001)
            .write();
        profile.run(&["gpu", "app.mpisee", "--width", "200"]).exits(0).stdout.clone()
    };
    has(
        &page("tensor parallel"),
        &["COMM         LABEL            SIZE", "N1-5e1c09tz  tensor parallel     2"],
    );
    assert!(!page("").contains("LABEL"));
}

#[test]
fn calls_in_memory_of_gpus_are_said_not_to_have_the_waits() {
    let profile = Builder::new(2)
        .call_with("W", 0, "MPI_Isend", 2, 4711, 0.25, |row| row.memory = Memory::Device)
        .call("W", 0, "MPI_Wait", 2, 0, 0.5)
        .write();
    let sentence = "MPI_Wait, MPI_Win_fence and similar calls have no buffers. Waiting for data in these calls, also between GPUs, is under \
                    --memory host.";
    for command in ["summary", "ops", "ranks"] {
        let said = |more: &[&str]| {
            let ran = profile.run(&[&[command, "app.mpisee", "--width", "200"], more].concat());
            ran.exits(0).stdout.contains(sentence)
        };
        assert!(
            said(&["--memory", "device"]) && !said(&[]) && !said(&["--memory", "device,host"]),
            "{command}"
        );
    }
}
