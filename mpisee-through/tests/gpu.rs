//! `mpisee-through gpu`: gpu.csv summed up.

mod support;

use mpisee_profile::gpu::records::{RECORDS_MAGIC, Told, WarpAccess, accesses_block, told_block};
use mpisee_profile::gpu::{Access, Handle, Place};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
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
RANK      OWNER  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  MPI SENT  MPI RECEIVED
   1  (unknown)         1   65536       0       0    86.0         -             -
   0          1       740     400    5120       0     7.2      1000             0
   1          0       640       0    5120       0     6.7         0          1000
   1       host         3       0       0      24     0.0         -             -
",
    );
    profile(STENCIL).run(&["gpu", "app.mpisee", "--ranks", "0", "--output", "csv"]).prints(
        "\
rank,owner,accesses,loaded_bytes,stored_bytes,atomic_bytes,share,mpi_sent_bytes,mpi_received_bytes
0,1,740,400,5120,0,1.000000000,1000,0
",
    );
    // The messages between ranks stand beside their devices, too.
    profile(STENCIL).run(&["gpu", "app.mpisee", "--by", "device"]).prints(
        "\
DEVICE  MEMORY OF  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  MPI SENT  MPI RECEIVED
GPU-b   (unknown)         1   65536       0       0    86.0         -             -
GPU-a   GPU-b           740     400    5120       0     7.2      1000             0
GPU-b   GPU-a           640       0    5120       0     6.7         0          1000
GPU-b   host              3       0       0      24     0.0         -             -
",
    );
}

#[test]
fn traffic_is_of_kernels_lines_objects_and_kinds() {
    let stencil = profile(STENCIL);
    stencil.run(&["gpu", "app.mpisee", "--by", "line", "--kernel", "h*", "--human"]).prints(
        "\
LINE           KERNEL  ACCESSES  LOADED     STORED  ATOMIC  SHARE%
stencil.cu:41  halo        1280     0 B  10.00 KiB     0 B    96.2
stencil.cu:42  halo         100   400 B        0 B     0 B     3.8
",
    );
    stencil.run(&["gpu", "app.mpisee", "--by", "kernel", "--of", "accesses", "--top", "1"]).prints(
        "\
KERNEL  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
halo        1380     400   10240       0    99.7

1 more row is left out; --all shows all, --top N the first N.
",
    );
    let objects = stencil.run(&["gpu", "app.mpisee", "--by", "object", "--top", "2"]);
    objects.prints(
        "\
Note       'app' is not there; its calls are told as addresses; --source DIR says where to look

OBJECT           OWNER  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
app+0x13     (unknown)         1   65536       0       0    86.0
ghost cells          1       740     400    5120       0     7.2

2 more rows are left out; --all shows all, --top N the first N.
",
    );
    stencil.run(&["gpu", "app.mpisee", "--by", "access", "--object", "ghost*"]).prints(
        "\
ACCESS  WIDTH  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
store       8      1280       0   10240       0    96.2
load        4       100     400       0       0     3.8
",
    );
}

#[test]
fn a_device_is_told_in_detail() {
    let device = ["gpu", "app.mpisee", "--by", "device", "--detail", "--device", "GPU-a"];
    profile(STENCIL).run(&device).prints(
        "\
DEVICE  MEMORY OF  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  MPI SENT  MPI RECEIVED
GPU-a   GPU-b           740     400    5120       0   100.0      1000             0

DEVICE  ACCESS  WIDTH  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
GPU-a   store       8       640       0    5120       0    92.8
GPU-a   load        4       100     400       0       0     7.2

DEVICE  OBJECT       OWNER  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
GPU-a   ghost cells      1       740     400    5120       0   100.0

DEVICE  LINE           KERNEL  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
GPU-a   stencil.cu:41  halo         640       0    5120       0    92.8
GPU-a   stencil.cu:42  halo         100     400       0       0     7.2
",
    );
}

#[test]
fn a_line_is_told_in_detail() {
    let line = ["gpu", "app.mpisee", "--by", "line", "--detail", "--line", "*:41"];
    profile(STENCIL).run(&line).prints(
        "\
LINE           KERNEL  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
stencil.cu:41  halo        1280       0   10240       0   100.0

LINE           KERNEL  ACCESS  WIDTH  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
stencil.cu:41  halo    store       8      1280       0   10240       0   100.0

LINE           KERNEL  OBJECT       OWNER  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
stencil.cu:41  halo    ghost cells      0       640       0    5120       0    50.0
stencil.cu:41  halo    ghost cells      1       640       0    5120       0    50.0

LINE           KERNEL  DEVICE  MEMORY OF  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
stencil.cu:41  halo    GPU-a   GPU-b           640       0    5120       0    50.0
stencil.cu:41  halo    GPU-b   GPU-a           640       0    5120       0    50.0
",
    );
}

/// A kernel that two lines of Python launched, and one that none did.
const TRAINING: &str = "\
0,GPU-a,1,GPU-b,ipc,allreduce,nccl.cu:9,/home/u/train.py:41,gradients,store,8,100,800,1,0.0
0,GPU-a,1,GPU-b,ipc,allreduce,nccl.cu:10,/home/u/train.py:41,gradients,load,8,50,400,1,0.0
1,GPU-b,0,GPU-a,ipc,allreduce,nccl.cu:9,/home/u/train.py:57,gradients,store,8,25,200,1,0.0
1,GPU-b,0,GPU-a,ipc,backward,grad.cu:3,,weights,load,4,15,60,1,0.0
";

#[test]
fn launches_are_told_by_lines_of_python() {
    let profile = profile("");
    let header = HEADER.replace("source,", "source,launched,");
    std::fs::write(profile.directory.join("gpu.csv"), format!("{header}{TRAINING}")).unwrap();
    let by_launch = ["gpu", "app.mpisee", "--by", "launch"];
    profile.run(&by_launch).prints(
        "\
LAUNCHED BY          KERNEL     ACCESSES  LOADED  STORED  ATOMIC  SHARE%
/home/u/train.py:41  allreduce       150     400     800       0    82.2
/home/u/train.py:57  allreduce        25       0     200       0    13.7
(no Python)          backward         15      60       0       0     4.1
",
    );
    let csv = ["--launch", "*train.py:41", "--output", "csv"];
    profile.run(&[&by_launch[..], &csv[..]].concat()).prints(
        "\
launched,kernel,accesses,loaded_bytes,stored_bytes,atomic_bytes,share
/home/u/train.py:41,allreduce,150,400,800,0,1.000000000
",
    );
    // Lines of kernels are summed up over those that launched them, and each is told of what.
    profile.run(&["gpu", "app.mpisee", "--by", "line", "--line", "nccl.cu:9", "--detail"]).prints(
        "\
LINE       KERNEL     ACCESSES  LOADED  STORED  ATOMIC  SHARE%
nccl.cu:9  allreduce       125       0    1000       0   100.0

LINE       KERNEL     ACCESS  WIDTH  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
nccl.cu:9  allreduce  store       8       125       0    1000       0   100.0

LINE       KERNEL     OBJECT     OWNER  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
nccl.cu:9  allreduce  gradients      1       100       0     800       0    80.0
nccl.cu:9  allreduce  gradients      0        25       0     200       0    20.0

LINE       KERNEL     LAUNCHED BY          ACCESSES  LOADED  STORED  ATOMIC  SHARE%
nccl.cu:9  allreduce  /home/u/train.py:41       100       0     800       0    80.0
nccl.cu:9  allreduce  /home/u/train.py:57        25       0     200       0    20.0

LINE       KERNEL     DEVICE  MEMORY OF  ACCESSES  LOADED  STORED  ATOMIC  SHARE%
nccl.cu:9  allreduce  GPU-a   GPU-b           100       0     800       0    80.0
nccl.cu:9  allreduce  GPU-b   GPU-a            25       0     200       0    20.0
",
    );
}

#[test]
fn kernels_are_told_as_they_are_written() {
    let rows = "0,GPU-a,1,GPU-b,ipc,_Z4haloIfLi4EEvPT_S1_i,a.cu:1,x,load,4,3,12,1,0.0\n\
                0,GPU-a,1,GPU-b,ipc,_Z4copyPfS_i,a.cu:2,x,load,4,2,8,1,0.0\n\
                0,GPU-a,1,GPU-b,ipc,_Z4copyPdS_i,a.cu:3,x,load,4,1,4,1,0.0\n";
    profile(rows).run(&["gpu", "app.mpisee", "--by", "kernel"]).prints(
        "\
KERNEL                       ACCESSES  LOADED  STORED  ATOMIC  SHARE%
halo<float, 4>                      3      12       0       0    50.0
copy(float*, float*, int)           2       8       0       0    33.3
copy(double*, double*, int)         1       4       0       0    16.7
",
    );
    profile(rows).run(&["gpu", "app.mpisee", "--by", "kernel", "--kernel", "copy", "--top", "1"]).prints(
        "\
KERNEL                     ACCESSES  LOADED  STORED  ATOMIC  SHARE%
copy(float*, float*, int)         2       8       0       0    66.7

1 more row is left out; --all shows all, --top N the first N.
",
    );
}

#[test]
fn what_was_sampled_has_its_error() {
    let rows = "0,GPU-a,0,host,pinned,norm,a.cu:1,x,load,4,3000,12000,10,300.0\n\
                0,GPU-a,0,host,pinned,norm,a.cu:2,x,load,4,4000,16000,10,400.0\n";
    profile(rows).run(&["gpu", "app.mpisee", "--by", "kernel"]).prints(
        "\
KERNEL  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  ERROR
norm        7000   28000       0       0   100.0    500
",
    );
}

/// The kernels of `STENCIL` in a file of that many lines.
fn source(lines: usize) -> String {
    (1..=lines).map(|line| format!("\tline {line};\n")).collect()
}

#[test]
fn the_source_has_each_lines_share() {
    let stencil = profile(STENCIL);
    std::fs::create_dir(stencil.beside().join("src")).unwrap();
    std::fs::write(stencil.beside().join("src/stencil.cu"), source(43)).unwrap();
    let ran = stencil.run(&["gpu", "app.mpisee", "--annotate", "--ranks", "0", "--source", "src"]);
    ran.prints(
        "\
Note       'src/stencil.cu' was written after the run: its lines may not be those that ran.

stencil.cu  100.0 %
ACCESSES  LOADED  STORED  ATOMIC  SHARE%  LINE
                                            39  │     line 39;
                                            40  │     line 40;
     640       0    5120       0    92.8    41  │     line 41;
     100     400       0       0     7.2    42  │     line 42;
                                            43  │     line 43;
",
    );
    let csv = ["gpu", "app.mpisee", "--annotate", "--output", "csv", "--source", "src", "--top", "2"];
    stencil.run(&csv).prints(
        "\
file,line,text,accesses,loaded_bytes,stored_bytes,atomic_bytes,share
stencil.cu,41,line 41;,1280,0,10240,0,0.134383202
stencil.cu,78,,1,65536,0,0,0.860052493
",
    );
}

#[test]
fn without_the_source_there_are_its_lines() {
    let rows = "0,GPU-a,0,host,pinned,norm,norm+0x40,x,load,4,1,4,1,0.0\n\
                0,GPU-a,0,host,pinned,norm,no/a.cu:2,x,load,4,3,12,1,0.0\n";
    profile(rows).run(&["gpu", "app.mpisee", "--annotate"]).prints(
        "\
Note       'no/a.cu' is not there; --source DIR says where to look.

no/a.cu  75.0 %
ACCESSES  LOADED  STORED  ATOMIC  SHARE%  LINE
       3      12       0       0    75.0     2  │

norm+0x40  25.0 %
",
    );
}

#[test]
fn pictures_have_kernels_and_messages_side_by_side() {
    let stencil = profile(STENCIL);
    stencil.run(&["gpu", "app.mpisee", "--image", "a.svg"]).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("a.svg")).unwrap();
    for part in [
        "<title>0 to 1: 5120 bytes stored by kernels of 0, 0 bytes loaded by those of 1</title>",
        "<title>1 to 0: 5120 bytes stored by kernels of 1, 400 bytes loaded by those of 0</title>",
        "<title>(unknown) to 1: 0 bytes stored by kernels of (unknown), 65536 bytes loaded by those of 1</title>",
        "<title>0 to 1: 1000 bytes sent</title>",
        ">By GPU kernels: 76200 bytes</text>",
        ">By MPI, point-to-point: 1000 bytes</text>",
        ">65536 bytes</text>",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Rank 2 has no kernels: it is on neither side.
    assert!(!text.contains("1 to 2"), "{text}");
    let devices = ["gpu", "app.mpisee", "--image", "b.svg", "--by", "device", "--of", "accesses"];
    stencil.run(&devices).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("b.svg")).unwrap();
    assert!(text.contains("<title>GPU-b to host: 3 accesses stored"), "{text}");
    assert!(!text.contains("By MPI"), "messages are no accesses\n{text}");

    stencil.run(&["gpu", "app.mpisee", "--image", "c.svg", "--graph"]).prints("");
    let text = std::fs::read_to_string(stencil.beside().join("c.svg")).unwrap();
    let edge = "<title>0 to 1: 1000 bytes sent</title></polygon>";
    assert!(text.contains(edge) && text.contains("<title>host</title></polygon>"), "{text}");

    stencil.run(&["gpu", "app.mpisee", "--image", "a.png"]).prints("");
    let file = std::fs::File::open(stencil.beside().join("a.png")).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.width, 1920);
    let darkest = pixels.chunks_exact(3).filter(|pixel| *pixel == [8, 48, 107]).count();
    assert!(darkest > 10_000, "a field of the largest");

    let graph = ["gpu", "app.mpisee", "--image", "a.svg", "--by", "line", "--graph"];
    stencil.run(&graph).fails_with(&["--graph draws pairs, --by rank or --by device"]);
    let none = ["gpu", "app.mpisee", "--image", "none.svg", "--kernel", "x"];
    stencil.run(&none).fails_with(&["there is nothing to draw: No access matches the filters"]);
    assert!(!stencil.beside().join("none.svg").exists());
}

/// What is written in a picture, and what shows under the pointer.
fn drawn(profile: &Written, arguments: &[&str]) -> String {
    profile.run(&[&["gpu", "app.mpisee", "--image", "a.svg"], arguments].concat()).prints("");
    std::fs::read_to_string(profile.beside().join("a.svg")).unwrap()
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn lines_kernels_objects_and_kinds_are_drawn_as_bars() {
    let stencil = profile(STENCIL);
    let lines = drawn(&stencil, &["--by", "line", "--kernel", "h*"]);
    has(
        &lines,
        &[
            "<title>Bytes that GPU kernels accessed, by line</title>",
            ">10.39 KiB in 2 lines</text>",
            "<title>stencil.cu:41, halo: 1280 accesses, 0 bytes loaded, 10240 stored, 0 by atomics</title>",
            ">stencil.cu:42</text>",
            ">96.2 %</text>",
            ">400 B</text>",
        ],
    );
    // The bar of the second, which loads, is as long beside that of the first, which stores.
    let wide = |colour: &str| -> f64 {
        let bar = lines.lines().find(|line| line.contains(colour) && line.contains("<title>")).unwrap();
        bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    assert!((wide("#9ec4e4") / wide("#08306b") - 400.0 / 10240.0).abs() < 1e-3, "{lines}");
    has(
        &drawn(&stencil, &["--by", "kernel", "--of", "accesses"]),
        &[">1384 accesses in 2 kernels</text>", ">99.7 %"],
    );
    let objects = drawn(&stencil, &["--by", "object", "--top", "1"]);
    has(
        &objects,
        &[
            ">3 more objects have 14.0 %; --top N draws N, and 256 at most.</text>",
            ">'app' is not there; its calls are told as addresses; --source DIR says where to look</text>",
        ],
    );
    has(
        &drawn(&stencil, &["--by", "access"]),
        &[">load, bulk copies</text>", ">store, 8 bytes wide</text>", ">by atomics</text>"],
    );
    let device = drawn(&stencil, &["--by", "device", "--detail", "--device", "GPU-a"]);
    has(
        &device,
        &[
            ">GPU-a: 2 kinds of access</text>",
            ">GPU-a: 1 object</text>",
            ">GPU-a: 2 lines</text>",
            "MPI sent 1000 bytes there, and received 0</title>",
            "<title>ghost cells, memory of rank 1: 740 accesses, 400 bytes loaded, 5120 stored, 0 by atomics</title>",
        ],
    );
    assert!(!drawn(&stencil, &["--by", "kernel", "--detail"]).contains(">halo: 2 lines, halo"), "known");
}

#[test]
fn names_in_pictures_are_escaped_cut_and_whole_under_the_pointer() {
    let long = "n".repeat(400);
    let row = |line: u32, object: &str| {
        format!("0,GPU-a,0,host,pinned,norm,a.cu:{line},\"{object}\",load,4,{line},4,1,0.0\n")
    };
    let rows: String = (1..=300).map(|line| row(line, "<halo> & \"\"co\"\"")).collect();
    let profile = profile(&format!("{rows}{}", row(301, &long)));
    let text = drawn(&profile, &["--by", "object"]);
    has(
        &text,
        &[">&lt;halo&gt; &amp; \"co\"</text>", &format!("<title>{long}, memory of host: "), "n…</text>"],
    );
    assert!(!text.contains(&format!(">{long}<")), "{text}");
    // As many as are asked for, and no more than there is room for.
    let rows = |text: String| text.matches(">norm</text>").count();
    let more = |text: &str, number: u32| has(text, &[&format!(">{number} more lines have ")]);
    let some = drawn(&profile, &["--by", "line", "--of", "accesses"]);
    more(&some, 301 - 24);
    assert_eq!(rows(some), 24);
    let all = drawn(&profile, &["--by", "line", "--all"]);
    more(&all, 301 - 256);
    assert_eq!(rows(all), 256);
    assert_eq!(rows(drawn(&profile, &["--by", "line", "--top", "7"])), 7);
}

#[test]
fn the_source_is_drawn_with_a_bar_for_each_line() {
    let stencil = profile(STENCIL);
    std::fs::create_dir(stencil.beside().join("src")).unwrap();
    let wide = format!("\tif (a<b && {}) {{", "x".repeat(200));
    let text = source(43).replace("\tline 42;", &wide);
    std::fs::write(stencil.beside().join("src/stencil.cu"), text).unwrap();
    let text = drawn(&stencil, &["--annotate", "--ranks", "0", "--source", "src"]);
    has(
        &text,
        &[
            "<title>Bytes that GPU kernels accessed, in the source</title>",
            "<title>stencil.cu: 740 accesses, 400 bytes loaded, 5120 stored, 0 by atomics</title>stencil.cu</text>",
            ">    line 39;</text>",
            "<title>line 41: 640 accesses, 0 bytes loaded, 5120 stored, 0 by atomics</title>    line 41;</text>",
            ">92.8 %</text>",
            &format!("<title>if (a&lt;b &amp;&amp; {}) {{; line 42: 100 accesses", "x".repeat(200)),
            "x…</text>",
            "was written after the run: its lines may not be those that ran.</text>",
        ],
    );
    let png = ["gpu", "app.mpisee", "--annotate", "--source", "src", "--image", "a.png"];
    stencil.run(&png).prints("");
    assert!(std::fs::read(stencil.beside().join("a.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(!text.contains("line 38;") && text.contains("xml:space=\"preserve\""), "{text}");
    let few = drawn(&stencil, &["--annotate", "--top", "1"]);
    has(&few, &[">3 more lines have 14.0 %; --top N draws N, and 200 at most.</text>"]);
}

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
    std::fs::write(profile.directory.join("gpu-totals.csv"), TOTALS).unwrap();
    std::fs::write(profile.directory.join("offsets.csv"), OFFSETS).unwrap();
    profile
}

#[test]
fn sums_over_ranks_are_told_by_how_far_the_owner_is() {
    let sums = profile_of_sums();
    // A blank at the begin of a text in lines is none.
    sums.run(&["gpu", "app.mpisee"]).prints(
        "\x20\
OWNER AT  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  ERROR  MPI SENT  MPI RECEIVED
       +1       640       0    5120       0    81.8      0       711             0
       -1        64       0     512       0     8.2      0         0           711
 +4 to +7       100     400       0       0     6.4     30         -             -
(unknown)        50     200       0       0     3.2     40         -             -
     host         3       0       0      24     0.4      0         -             -
",
    );
    sums.run(&["gpu", "app.mpisee", "--by", "device"]).prints(
        "\
MEMORY OF       ACCESSES  LOADED  STORED  ATOMIC  SHARE%  ERROR
another device       740     400    5120       0    88.2     30
same device           64       0     512       0     8.2      0
(unknown)             50     200       0       0     3.2     40
host                   3       0       0      24     0.4      0
",
    );
    sums.run(&["gpu", "app.mpisee", "--by", "object", "--peer-device", "another*"]).prints(
        "\
OBJECT       OWNER AT  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  ERROR
ghost cells        +1       640       0    5120       0    92.8      0
ghost of *   +4 to +7       100     400       0       0     7.2     30
",
    );
    // Errors add up as squares.
    sums.run(&["gpu", "app.mpisee", "--by", "line", "--line", "*:42"]).prints(
        "\
LINE           KERNEL  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  ERROR
stencil.cu:42  halo         150     600       0       0   100.0     50
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
            "<title>Bytes that GPU kernels accessed, by offset of the owner</title>",
            "<title>memory of rank +1: 640 accesses with a standard error of 0, 0 bytes loaded, 5120 stored, 0 by atomics; \
             MPI sent 711 bytes there, and received 0</title>",
            ">memory of rank +4 to +7</text>",
        ],
    );
    has(&drawn(&sums, &["--by", "device", "--detail"]), &[">memory of same device: 1 kind of access</text>"]);
}

#[test]
fn what_sums_do_not_have_is_said_in_a_sentence() {
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
    sums.run(&["gpu", "app.mpisee"])
        .prints("The profile has no accesses of GPU kernels; `mpisee --gpu` counts them.\n");
}

/// A program that prints the return addresses of the calls that lead to `take`, which is inlined in `fill`.
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

/// Compiles `STACK` where the profile is, and says what it prints; `flags` make another build of it.
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
    let by_object = ["gpu", "app.mpisee", "--by", "object", "--output", "csv"];
    let csv = "object,owner,accesses,loaded_bytes,stored_bytes,atomic_bytes,share\n";
    let told =
        "take at stack.cc:16 < grid::fill at stack.cc:19 < main at stack.cc:23,host,1,4,0,0,1.000000000";
    profile.run(&by_object).prints(&format!("{csv}{told}\n"));

    // It has moved.
    let moved = profile.beside().join("moved");
    std::fs::create_dir(&moved).unwrap();
    std::fs::rename(&program, moved.join("stack")).unwrap();
    profile.run(&[&by_object[..], &["--source", "moved"]].concat()).prints(&format!("{csv}{told}\n"));
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

/// What ranks 0 and 1 of `STENCIL` left in `records`.
fn records(profile: &Written) {
    let write = |rank: u32, told: &[Told], accesses: &[WarpAccess]| {
        let told = told.iter().flat_map(told_block).collect();
        let content = [RECORDS_MAGIC.to_vec(), told, accesses_block(accesses)].concat();
        let (one, other) = content.split_at(content.len() / 2);
        let frames = [one, other].map(|part| zstd::encode_all(part, 0).unwrap());
        let folder = profile.beside().join("records");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("node0-{}.zst", 1000 + rank)), frames.concat()).unwrap();
    };
    let instruction = |id, device: &str, kernel: &str, line| Told::Instruction {
        id,
        device: device.to_owned(),
        kernel: kernel.to_owned(),
        source: format!("stencil.cu:{line}"),
        launched: format!("train.py:{line}"),
    };
    let allocation = |id, begin, bytes, place, object: &str| Told::Allocation {
        id,
        begin,
        bytes,
        place,
        object: object.to_owned(),
        is_named: false,
    };
    let export = |handle: &str, device: &str, object: &str| Told::Export {
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
            Told::Sampled(1),
            instruction(1, "GPU-a", "halo", 41),
            instruction(2, "GPU-a", "halo", 42),
            allocation(5, 0x7000, 4096, Place::Ipc("ab".to_owned()), "app+0x99"),
            Told::Dropped(3),
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
            Told::Sampled(10),
            export("ab", "GPU-b", "ghost cells"),
            instruction(7, "GPU-b", "norm", 77),
            allocation(9, 0x100, 64, Place::Pinned, "flags"),
        ],
        &[access(7, 9, Access::Atomic, 4, vec![0x100, 0x104, 0x108, 0x130])],
    );
}

#[test]
fn records_tell_where_in_an_object_accesses_are() {
    let stencil = profile(STENCIL);
    records(&stencil);
    let by_address = ["gpu", "app.mpisee", "--by", "address", "--records", "records"];
    let with = |more: &[&str]| stencil.run(&[&by_address[..], more].concat());
    with(&["--top", "3"]).prints(
        "\
Note       Of 3 ranks 2 have records.
Note       Of rank 0 3 records are missing.

ghost cells, 4.00 KiB: 612 bytes
▕████           ▒█░              ████                            ▏
░ to █: up to 25, 50, 75, 100 % of 64 bytes.

flags, 64 B: 160 bytes
▕█  ▒▏
░ to █: up to 25, 50, 75, 100 % of 120 bytes.

OBJECT       LENGTH  BEGIN  END  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  DEVICES  LINES
flags            64      0   16        30       0       0     120    15.5  GPU-b    stencil.cu:77
ghost cells    4096      0   64         8       0      64       0     8.3  GPU-a    stencil.cu:41
ghost cells    4096     64  128         8       0      64       0     8.3  GPU-a    stencil.cu:41

10 more rows are left out; --all shows all, --top N the first N.
",
    );
    with(&["--output", "csv", "--object", "flags"]).prints(
        "\
object,object_bytes,begin,end,accesses,loaded_bytes,stored_bytes,atomic_bytes,share,devices,lines
flags,64,0,16,30,0,0,120,0.750000000,GPU-b,stencil.cu:77
flags,64,48,64,10,0,0,40,0.250000000,GPU-b,stencil.cu:77
",
    );
    // Of memory of another process its device is known from its owner's file alone. Two warps are 16 parts of 16 bytes
    // each, and the copy from 1000 to 1100 is in 7.
    let ran = with(&["--output", "csv", "--peer-device", "GPU-b"]);
    let lines: Vec<&str> = ran.exits(0).stdout.lines().skip(1).collect();
    assert!(lines.len() == 2 * 16 + 7 && lines.iter().all(|line| line.starts_with("ghost cells,4096,")));
    with(&["--object", "ghost*", "--fold", "8x64x8", "--top", "1"]).prints(
        "\
Note       Of 3 ranks 2 have records.
Note       Of rank 0 3 records are missing.

ghost cells, 4.00 KiB: 612 bytes
▕████████████████████████████████                                ▏
▕                                                             ███▏
▕█████████▒                                                      ▏
▕                                                                ▏
▕████████████████████████████████                                ▏
▕                                                                ▏
▕                                                                ▏
▕                                                                ▏
░ to █: up to 25, 50, 75, 100 % of 8 bytes.

OBJECT       LENGTH  ROW  COLUMN  BEGIN  END  ACCESSES  LOADED  STORED  ATOMIC  SHARE%  DEVICES  LINES
ghost cells    4096    0       0      0    8         1       0       8       0     1.3  GPU-a    stencil.cu:41

76 more rows are left out; --all shows all, --top N the first N.
",
    );
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

    // Nobody says whose memory it is: it is told by the call that mapped it.
    std::fs::write(&file, bytes).unwrap();
    std::fs::remove_file(stencil.beside().join("records/node0-1001.zst")).unwrap();
    let ran = with(&["--output", "csv"]);
    let objects: BTreeSet<&str> =
        ran.exits(0).stdout.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(objects, ["app+0x99"].into());
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

#[test]
fn check_finds_rows_that_cannot_be() {
    profile(STENCIL).run(&["check", "app.mpisee"]).exits(0);
    let rows = "0,GPU-a,7,GPU-b,ipc,halo,a.cu:1,x,store,8,10,80,1,0.0\n\
                5,GPU-a,1,GPU-b,ipc,halo,a.cu:2,x,store,8,10,81,1,0.0\n";
    let ran = profile(rows).run(&["check", "app.mpisee"]);
    has(
        &ran.exits(1).stdout,
        &[
            "rank 7 owns memory in gpu.csv, and run.json has 3 ranks",
            "rank 5 is in gpu.csv and not in ranks.csv",
            "a.cu:2 has 10 accesses of 8 bytes in gpu.csv, and 81 bytes",
        ],
    );
}
