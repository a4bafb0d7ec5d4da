//! `mpisee-through gpu`: gpu.csv summed up.

mod support;

use support::{Builder, Written};

const HEADER: &str = "rank,device,peer_rank,peer_device,memory,kernel,source,object,access,width,accesses,bytes,sampled,error\n";

/// Two ranks that share memory, and one that only sends messages.
fn profile(rows: &str) -> Written {
    let profile = Builder::new(3).messages("W", 0, 1, 2, 1000).messages("W", 1, 2, 1, 77).write();
    if !rows.is_empty() {
        std::fs::write(profile.directory.join("gpu.csv"), format!("{HEADER}{rows}")).unwrap();
    }
    profile
}

const STENCIL: &str = "\
0,GPU-a,1,GPU-b,ipc,halo,stencil.cu:41,ghost cells,store,8,640,5120,1,0.0
0,GPU-a,1,GPU-b,ipc,halo,stencil.cu:42,ghost cells,load,4,100,400,1,0.0
1,GPU-b,0,GPU-a,ipc,halo,stencil.cu:41,ghost cells,store,8,640,5120,1,0.0
1,GPU-b,1,host,pinned,norm,stencil.cu:77,app+0x12,atomic,8,3,24,1,0.0
1,GPU-b,,,ipc,norm,stencil.cu:78,app+0x13,load,0,1,65536,1,0.0
";

#[test]
fn traffic_of_kernels_stands_beside_that_of_mpi() {
    profile(STENCIL).run(&["gpu", "app.mpisee"]).prints(
        "\
RANK      OWNER  ACCESSES  LOADED  STORED  ATOMIC  MPI SENT  MPI RECEIVED
   1  (unknown)         1   65536       0       0         -             -
   0          1       740     400    5120       0      1000             0
   1          0       640       0    5120       0         0          1000
   1       host         3       0       0      24         -             -
",
    );
    profile(STENCIL).run(&["gpu", "app.mpisee", "--ranks", "0", "--output", "csv"]).prints(
        "\
rank,owner,accesses,loaded_bytes,stored_bytes,atomic_bytes,mpi_sent_bytes,mpi_received_bytes
0,1,740,400,5120,0,1000,0
",
    );
}

#[test]
fn traffic_is_of_devices_kernels_lines_and_objects() {
    let stencil = profile(STENCIL);
    stencil.run(&["gpu", "app.mpisee", "--by", "device"]).prints(
        "\
DEVICE  MEMORY OF  ACCESSES  LOADED  STORED  ATOMIC
GPU-b   (unknown)         1   65536       0       0
GPU-a   GPU-b           740     400    5120       0
GPU-b   GPU-a           640       0    5120       0
GPU-b   host              3       0       0      24
",
    );
    stencil.run(&["gpu", "app.mpisee", "--by", "line", "--kernel", "h*", "--human"]).prints(
        "\
LINE           KERNEL  ACCESSES  LOADED     STORED  ATOMIC
stencil.cu:41  halo        1280     0 B  10.00 KiB     0 B
stencil.cu:42  halo         100   400 B        0 B     0 B
",
    );
    stencil.run(&["gpu", "app.mpisee", "--by", "kernel", "--top", "1"]).prints(
        "\
KERNEL  ACCESSES  LOADED  STORED  ATOMIC
norm           4   65536       0      24

1 more row is left out; --all shows all, --top N the first N.
",
    );
    stencil.run(&["gpu", "app.mpisee", "--by", "object", "--top", "2"]).prints(
        "\
OBJECT           OWNER  ACCESSES  LOADED  STORED  ATOMIC
app+0x13     (unknown)         1   65536       0       0
ghost cells          1       740     400    5120       0

2 more rows are left out; --all shows all, --top N the first N.
",
    );
}

#[test]
fn what_was_sampled_has_its_error() {
    let rows = "0,GPU-a,0,host,pinned,norm,a.cu:1,x,load,4,3000,12000,10,300.0\n\
                0,GPU-a,0,host,pinned,norm,a.cu:2,x,load,4,4000,16000,10,400.0\n";
    profile(rows).run(&["gpu", "app.mpisee", "--by", "kernel"]).prints(
        "\
KERNEL  ACCESSES  LOADED  STORED  ATOMIC  ERROR
norm        7000   28000       0       0    500
",
    );
}

#[test]
fn a_profile_without_such_accesses_says_so() {
    profile("")
        .run(&["gpu", "app.mpisee"])
        .prints("The profile has no accesses of GPU kernels; `mpisee --gpu` counts them.\n");
    profile(STENCIL).run(&["gpu", "app.mpisee", "--kernel", "x"]).prints("No access matches the filters.\n");
    profile("0,GPU-a,0,host,pinned,norm,a.cu:1,x,read,4,1,4,1,0.0\n")
        .run(&["gpu", "app.mpisee"])
        .fails_with(&["gpu.csv", "read"]);
}
