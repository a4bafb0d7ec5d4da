//! Sums over ranks.

use super::{drawn, has};
use crate::support::{Builder, Written};
use mpisee_profile::rows::{NodeRow, Row};

const TOTALS: &str = "\
memory,offset_min,offset_max,peer_device,kernel,source,launched,object,access,width,count,accesses,bytes,bytes_min,bytes_max,bytes_max_rank,sampled,error
ipc,1,1,another,halo,stencil.cu:41,,ghost cells,store,8,4000,640,5120,1,2,3,1,0.0
ipc,4,7,another,halo,stencil.cu:42,,ghost of *,load,4,10,100,400,40,40,0,10,30.0
ipc,,,,halo,stencil.cu:42,,*,load,4,10,50,200,40,40,0,10,40.0
ipc,-1,-1,same,halo,stencil.cu:41,,ghost cells,store,8,10,64,512,40,40,0,10,0.0
pinned,0,0,host,norm,stencil.cu:77,,flags,atomic,8,10,3,24,24,24,0,1,0.0
";
const OFFSETS: &str = "\
comm,offset_min,offset_max,pairs,sent_messages,sent_bytes,received_messages,received_bytes
W,1,1,7,7,700,0,0
W_s1.0,1,1,1,1,11,0,0
W,-1,-1,7,0,0,7,711
W,5,8,1,1,9,1,9
";

/// Of 8000 ranks, with sums over them.
fn profile_of_sums() -> Written {
    let profile = Builder::new(8).write();
    let run = profile.directory.join("run.json");
    let text = std::fs::read_to_string(&run).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["folded"] = true.into();
    std::fs::write(&run, value.to_string()).unwrap();
    let nodes = NodeRow::columns().join(",") + "\n";
    std::fs::write(profile.directory.join("nodes.csv"), nodes).unwrap();
    std::fs::write(profile.directory.join("gpu-totals.csv"), TOTALS).unwrap();
    std::fs::write(profile.directory.join("offsets.csv"), OFFSETS).unwrap();
    profile
}

#[test]
fn times_that_sums_do_not_have_are_said_to_have_been_measured() {
    let profile = profile_of_sums();
    let run = profile.directory.join("run.json");
    let mut value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&run).unwrap()).unwrap();
    value["notes"] = serde_json::json!([
        "rank 0 and 7 others: the GPU's time in calls of NCCL was measured, but is not in profiles with sums over ranks; MPISEE_FOLD sets \
         from how many ranks on there are sums"
    ]);
    std::fs::write(&run, value.to_string()).unwrap();
    let comms = profile.directory.join("comms.csv");
    let text = std::fs::read_to_string(&comms).unwrap();
    let rows = "N1-5e1c09tz,,ncclCommInitRank,8,1,0-7,,,,1,0,\nN1-5e1c09tz_s1.*@2,N1-5e1c09tz,ncclCommSplit,2,4,0-7,,,,1,0,\n";
    assert!(
        text.starts_with(
            "comm,parent,created_by,size,count,members,label,topology,reorder,nodes,freed,between\n"
        ),
        "{text}"
    );
    std::fs::write(&comms, format!("{text}{rows}")).unwrap();
    let totals = "comm,region,call,size_min,size_max,memory,site,ranks,calls,bytes,time_s,time_min_s,time_min_rank,time_max_s,time_max_rank,\
                  time_deviation_s,min_s,max_s\n\
                  N1-5e1c09tz,,ncclAllReduce,1024,2047,device,,8,80,81920,0.08,0.01,0,0.01,0,0.0,0.001,0.001\n\
                  N1-5e1c09tz_s1.*@2,,ncclAllReduce,512,1023,device,,8,80,40960,0.08,0.01,0,0.01,0,0.0,0.001,0.001\n";
    std::fs::write(profile.directory.join("totals.csv"), totals).unwrap();
    let spread = "comm,call,ranks,calls,calls_min,calls_max,calls_max_rank,bytes,bytes_min,bytes_max,bytes_max_rank,time_s,time_min_s,\
                  time_min_rank,time_max_s,time_max_rank,time_deviation_s\n\
                  N1-5e1c09tz,ncclAllReduce,8,80,10,10,0,81920,10240,10240,0,0.08,0.01,0,0.01,0,0.0\n\
                  N1-5e1c09tz_s1.*@2,ncclAllReduce,8,80,10,10,0,40960,5120,5120,0,0.08,0.01,0,0.01,0,0.0\n";
    std::fs::write(profile.directory.join("spread.csv"), spread).unwrap();
    let ran = profile.run(&["gpu", "app.mpisee", "--format", "json"]);
    let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let same = |place: usize| &page["nccl"][place]["same_as"];
    assert_eq!((same(0), same(1)), (&"W".into(), &serde_json::Value::Null), "{page}");
    let ran = profile.run(&["gpu", "app.mpisee", "--width", "400"]);
    let text = &ran.exits(0).stdout;
    assert!(
        text.contains(
            "The GPU's time in calls of NCCL was measured, but profiles with sums over ranks leave it out"
        ),
        "{text}"
    );
}

#[test]
fn sums_over_ranks_are_told_by_how_far_the_owner_is() {
    let sums = profile_of_sums();
    // A blank at the begin of a text in lines is none.
    sums.run(&["gpu", "app.mpisee", "--by", "rank"]).prints(
        "\x20\
 OWNER AT  ACCESSES  LOADED    STORED  ATOMIC  % of bytes  ERROR  MPI SENT  MPI RECEIVED
       +1       640     0 B  5.00 KiB     0 B        81.8      0     711 B           0 B
       -1        64     0 B     512 B     0 B         8.2      0       0 B         711 B
 +4 to +7       100   400 B       0 B     0 B         6.4     30         -             -
(unknown)        50   200 B       0 B     0 B         3.2     40         -             -
     host         3     0 B       0 B    24 B         0.4      0         -             -
",
    );
    sums.run(&["gpu", "app.mpisee", "--by", "device"]).prints(
        "\
MEMORY OF       ACCESSES  LOADED    STORED  ATOMIC  % of bytes  ERROR
another device       740   400 B  5.00 KiB     0 B        88.2     30
same device           64     0 B     512 B     0 B         8.2      0
(unknown)             50   200 B       0 B     0 B         3.2     40
host                   3     0 B       0 B    24 B         0.4      0
",
    );
    sums.run(&["gpu", "app.mpisee", "--by", "object", "--peer-device", "another*"]).prints(
        "\
OBJECT       OWNER AT  ACCESSES  LOADED    STORED  ATOMIC  % of bytes  ERROR
ghost cells        +1       640     0 B  5.00 KiB     0 B        92.8      0
ghost of *   +4 to +7       100   400 B       0 B     0 B         7.2     30
",
    );
    // Errors add up as squares.
    sums.run(&["gpu", "app.mpisee", "--by", "line", "--line", "*:42"]).prints(
        "\
LINE           KERNEL  ACCESSES  LOADED  STORED  ATOMIC  % of bytes  ERROR
stencil.cu:42  halo         150   600 B     0 B     0 B       100.0     50
",
    );
    let detail = sums.run(&["gpu", "app.mpisee", "--detail", "--line", "*:41"]);
    has(
        &detail.exits(0).stdout,
        &[
            "OWNER AT  OBJECT       OWNER AT  ACCESSES",
            "      +1  ghost cells        +1       640",
            "      -1  same device           64",
        ],
    );
    let picture = drawn(&sums, &[]);
    has(
        &picture,
        &[
            "<title>splatt: bytes that GPU kernels accessed, by offset of the owner</title>",
            "<title>memory of rank +1: 640 accesses with a standard error of 0, 0 bytes loaded, 5120 stored, 0 by atomics; \
             MPI sent 711 bytes there, and received 0</title>",
            ">memory of rank +4 to +7</text>",
        ],
    );
    has(&drawn(&sums, &["--by", "device", "--detail"]), &[">memory of same device: 1 kind of access</text>"]);
}

#[test]
fn views_that_sums_lack_are_refused_in_a_sentence() {
    let sums = profile_of_sums();
    for arguments in [
        &["--ranks", "1"][..],
        &["--device", "GPU*"],
        &["--graph", "--image", "a.svg"],
        &["--by", "address", "--records", "."],
    ] {
        sums.run(&[&["gpu", "app.mpisee"], arguments].concat())
            .fails_with(&["has sums over ranks", "MPISEE_FOLD=8"]);
    }
    std::fs::remove_file(sums.directory.join("gpu-totals.csv")).unwrap();
    sums.run(&["gpu", "app.mpisee", "--by", "rank"])
        .prints("The profile has no accesses of GPU kernels; `mpisee --gpu` counts them.\n");
}
