//! Profiles of programs that use GPUs and NCCL.

use super::{Builder, Written};
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, Memory};

/// The columns of `gpu.csv`.
pub const HEADER: &str = "rank,device,peer_rank,peer_device,memory,kernel,source,object,access,width,accesses,bytes,sampled,error\n";

/// The columns of `nccl-peers.csv`.
pub const NCCL_PEERS: &str =
    "comm,rank,rank_in_comm,peer_in_comm,sent_messages,sent_bytes,received_messages,received_bytes\n";

/// The GPUs of [`two_gpus`].
pub const A: &str = "GPU-0aaaaaaa-1111-2222-3333-444444444444";
/// The second one.
pub const B: &str = "GPU-0bbbbbbb-1111-2222-3333-444444444444";

/// Three ranks, of which 0 and 1 have a GPU each and 2 none; with messages, copies, kernels'
/// accesses and a communicator of NCCL.
pub fn two_gpus() -> Written {
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
            profile.ranks.iter_mut().for_each(|row| row.host = "n1".to_owned());
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
    let nccl = format!("{NCCL_PEERS}N1-5e1c09tz,0,1,0,2,211,0,0\nN1-5e1c09tz,1,0,1,0,0,2,211\n");
    let files = [
        ("copies.csv", copies.as_str()),
        ("staged.csv", staged),
        ("gpu.csv", &accessed),
        ("nccl-peers.csv", &nccl),
    ];
    for (name, text) in files {
        std::fs::write(written.directory.join(name), text).unwrap();
    }
    written
}

/// Two ranks that spend 10 s, of which 1 s is in MPI and 3 s in NCCL, both in a region, at known
/// places and on known paths.
pub fn beside_nccl() -> Builder {
    let mut profile = Builder::new(2)
        .comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-1", |_| {})
        .with(|profile| profile.run.command = vec!["./train".to_owned()]);
    let main = profile.line("main", "train.c", 10);
    let reduce = profile.line("average", "train.c", 31);
    let gradients = profile.line("gradients", "train.c", 52);
    for rank in 0..2 {
        profile = profile
            .call_with("W", rank, "MPI_Allreduce", 4, 32, 1.0, |row| {
                (row.region, row.site) = ("step".to_owned(), Some(reduce));
            })
            .call_with("N1-5e1c09tz", rank, "ncclAllReduce", 8, 1 << 20, 3.0, |row| {
                (row.region, row.site) = ("step".to_owned(), Some(gradients));
                row.memory = Memory::Device;
            })
            .region("step", rank, 1, 8.0, 1.0);
        profile.path("W", rank, "MPI_Allreduce", 1, 0.5, &[reduce, main]);
        profile.path("N1-5e1c09tz", rank, "ncclAllReduce", 2, 1.5, &[gradients, main]);
    }
    profile
}

/// Two processes without MPI that end at different times, with calls of NCCL at a known place and
/// on a known path.
pub fn nccl_alone() -> Builder {
    let mut profile =
        Builder::new(2).comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-1", |_| {}).with(|profile| {
            profile.run.command = vec!["./train".to_owned()];
            (profile.run.mpi.library, profile.run.mpi.flavour) = ("none".to_owned(), String::new());
            profile.ranks[1].wall_s.0 = 30.0;
        });
    let main = profile.line("main", "train.c", 10);
    let gradients = profile.line("gradients", "train.c", 52);
    for rank in 0..2 {
        profile = profile.call_with("N1-5e1c09tz", rank, "ncclAllReduce", 8, 1 << 20, 0.003, |row| {
            (row.site, row.memory) = (Some(gradients), Memory::Device);
        });
        profile.path("N1-5e1c09tz", rank, "ncclAllReduce", 2, 0.0015, &[gradients, main]);
    }
    profile
}
