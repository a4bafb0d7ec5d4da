//! `mpisee-through gpu`: gpu.csv summed up.

mod copies;
mod objects;
mod page;
mod pictures;
mod sums;

use crate::support::gpus::{A, B, HEADER, two_gpus};
use crate::support::{Builder, Written};

/// Two ranks that share memory, and one that only sends messages.
fn profile(rows: &str) -> Written {
    let profile = Builder::new(3).messages("W", 0, 1, 2, 1000).messages("W", 1, 2, 1, 77).write();
    if !rows.is_empty() {
        std::fs::write(profile.directory.join("gpu.csv"), format!("{HEADER}{rows}")).unwrap();
    }
    profile
}

/// The texts of a picture, and those that show under the pointer.
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

const STENCIL: &str = "\
0,GPU-a,1,GPU-b,ipc,halo,stencil.cu:41,ghost cells,store,8,640,5120,1,0.0
0,GPU-a,1,GPU-b,ipc,halo,stencil.cu:42,ghost cells,load,4,100,400,1,0.0
1,GPU-b,0,GPU-a,ipc,halo,stencil.cu:41,ghost cells,store,8,640,5120,1,0.0
1,GPU-b,1,host,pinned,norm,stencil.cu:77,app+0x12,atomic,8,3,24,1,0.0
1,GPU-b,,,ipc,norm,stencil.cu:78,app+0x13,load,0,1,65536,1,0.0
";

#[test]
fn traffic_of_kernels_stands_beside_that_of_mpi() {
    profile(STENCIL)
        .run(&["gpu", "app.mpisee", "--by", "rank"])
        .golden("gpu-traffic_of_kernels_stands_beside_that_of_mpi");
    profile(STENCIL).run(&["gpu", "app.mpisee", "--ranks", "0", "--format", "csv"]).prints(
        "\
rank,owner,accesses,loaded_bytes,stored_bytes,atomic_bytes,share,mpi_sent_bytes,mpi_received_bytes
0,1,740,400,5120,0,1.000000000,1000,0
",
    );
    // The messages between ranks stand beside their devices, too.
    profile(STENCIL)
        .run(&["gpu", "app.mpisee", "--by", "device"])
        .golden("gpu-traffic_of_kernels_stands_beside_that_of_mpi-2");
}

/// A rank whose kernels access nothing remote is in ranks.csv alone.
#[test]
fn messages_between_devices_are_those_of_all_ranks_on_one_device() {
    let mut builder =
        Builder::new(4).messages("W", 0, 1, 2, 1000).messages("W", 2, 1, 1, 77).messages("W", 3, 1, 1, 5);
    let gpus = ["GPU-a", "GPU-b", "GPU-a", "GPU-a|GPU-b"];
    builder.ranks.iter_mut().zip(gpus).for_each(|(row, gpu)| row.gpu = gpu.to_owned());
    let profile = builder.write();
    let accesses = "0,GPU-a,1,GPU-b,ipc,halo,stencil.cu:41,ghost cells,store,8,640,5120,1,0.0\n";
    std::fs::write(profile.directory.join("gpu.csv"), format!("{HEADER}{accesses}")).unwrap();
    profile
        .run(&["gpu", "app.mpisee", "--by", "device"])
        .golden("gpu-messages_between_devices_are_those_of_all_ranks_on_one_device");
    has(&profile.run(&["app.mpisee"]).exits(0).stdout, &["Ranks      4 on 1 node, with 2 GPUs\n"]);
}

#[test]
fn traffic_is_of_kernels_lines_objects_and_kinds() {
    let stencil = profile(STENCIL);
    stencil
        .run(&["gpu", "app.mpisee", "--by", "line", "--kernel", "h*"])
        .golden("gpu-traffic_is_of_kernels_lines_objects_and_kinds");
    stencil
        .run(&["gpu", "app.mpisee", "--by", "kernel", "--of", "accesses", "--top", "1"])
        .golden("gpu-traffic_is_of_kernels_lines_objects_and_kinds-2");
    let objects = stencil.run(&["gpu", "app.mpisee", "--by", "object", "--top", "2"]);
    objects.golden("gpu-traffic_is_of_kernels_lines_objects_and_kinds-3");
    stencil
        .run(&["gpu", "app.mpisee", "--by", "access", "--object", "ghost*"])
        .golden("gpu-traffic_is_of_kernels_lines_objects_and_kinds-4");
}

#[test]
fn a_device_is_shown_in_detail() {
    let device = ["gpu", "app.mpisee", "--by", "device", "--detail", "--device", "GPU-a"];
    profile(STENCIL).run(&device).golden("gpu-a_device_is_shown_in_detail");
}

#[test]
fn a_line_is_shown_in_detail() {
    let line = ["gpu", "app.mpisee", "--by", "line", "--detail", "--line", "*:41"];
    profile(STENCIL).run(&line).golden("gpu-a_line_is_shown_in_detail");
}

/// A kernel that two lines of Python launched, and one that none did.
const TRAINING: &str = "\
0,GPU-a,1,GPU-b,ipc,allreduce,nccl.cu:9,/home/u/train.py:41,gradients,store,8,100,800,1,0.0
0,GPU-a,1,GPU-b,ipc,allreduce,nccl.cu:10,/home/u/train.py:41,gradients,load,8,50,400,1,0.0
1,GPU-b,0,GPU-a,ipc,allreduce,nccl.cu:9,/home/u/train.py:57,gradients,store,8,25,200,1,0.0
1,GPU-b,0,GPU-a,ipc,backward,grad.cu:3,,weights,load,4,15,60,1,0.0
";

#[test]
fn launches_are_named_by_lines_of_python() {
    let profile = profile("");
    let header = HEADER.replace("source,", "source,launched,");
    std::fs::write(profile.directory.join("gpu.csv"), format!("{header}{TRAINING}")).unwrap();
    let by_launch = ["gpu", "app.mpisee", "--by", "launch"];
    profile.run(&by_launch).golden("gpu-launches_are_named_by_lines_of_python");
    let csv = ["--launch", "*train.py:41", "--format", "csv"];
    profile.run(&[&by_launch[..], &csv[..]].concat()).prints(
        "\
launched,kernel,accesses,loaded_bytes,stored_bytes,atomic_bytes,share
/home/u/train.py:41,allreduce,150,400,800,0,1.000000000
",
    );
    // Lines of kernels are summed up over those that launched them, each beside its own lines.
    profile
        .run(&["gpu", "app.mpisee", "--by", "line", "--line", "nccl.cu:9", "--detail"])
        .golden("gpu-launches_are_named_by_lines_of_python-2");
}

#[test]
fn kernels_are_named_as_they_are_written() {
    let rows = "0,GPU-a,1,GPU-b,ipc,_Z4haloIfLi4EEvPT_S1_i,a.cu:1,x,load,4,3,12,1,0.0\n\
                0,GPU-a,1,GPU-b,ipc,_Z4copyPfS_i,a.cu:2,x,load,4,2,8,1,0.0\n\
                0,GPU-a,1,GPU-b,ipc,_Z4copyPdS_i,a.cu:3,x,load,4,1,4,1,0.0\n";
    profile(rows)
        .run(&["gpu", "app.mpisee", "--by", "kernel"])
        .golden("gpu-kernels_are_named_as_they_are_written");
    profile(rows)
        .run(&["gpu", "app.mpisee", "--by", "kernel", "--kernel", "copy", "--top", "1"])
        .golden("gpu-kernels_are_named_as_they_are_written-2");
}

#[test]
fn sampled_counts_have_an_error() {
    let rows = "0,GPU-a,0,host,pinned,norm,a.cu:1,x,load,4,3000,12000,10,300.0\n\
                0,GPU-a,0,host,pinned,norm,a.cu:2,x,load,4,4000,16000,10,400.0\n";
    profile(rows)
        .run(&["gpu", "app.mpisee", "--by", "kernel"])
        .golden("gpu-sampled_accesses_have_their_error");
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
    ran.golden("gpu-the_source_has_each_lines_share");
    let csv = ["gpu", "app.mpisee", "--annotate", "--format", "csv", "--source", "src", "--top", "2"];
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
    profile(rows)
        .run(&["gpu", "app.mpisee", "--annotate"])
        .golden("gpu-without_the_source_there_are_its_lines");
}

#[test]
fn a_profile_without_such_accesses_says_so() {
    profile("")
        .run(&["gpu", "app.mpisee", "--by", "rank"])
        .prints("The profile has no accesses of GPU kernels; `mpisee --gpu` counts them.\n");
    profile(STENCIL)
        .run(&["gpu", "app.mpisee", "--kernel", "x"])
        .fails_with(&["no access matches the filters; the profile has kernels "]);
    profile("0,GPU-a,0,host,pinned,norm,a.cu:1,x,read,4,1,4,1,0.0\n")
        .run(&["gpu", "app.mpisee"])
        .fails_with(&["gpu.csv", "read"]);
}

#[test]
fn check_compares_gpus_copies_and_times_with_other_tables() {
    let of = |change: &[(&str, &str, &str)]| {
        let written = two_gpus();
        let times = "comm,rank,region,call,size_min,size_max,calls,untimed,bytes,gpu_s,min_s,max_s\n\
                     N1-5e1c09tz,0,,ncclAllReduce,1024,2047,2,1,3333,0.003,0.001,0.002\n";
        std::fs::write(written.directory.join("nccl-times.csv"), times).unwrap();
        for (file, from, to) in change {
            let path = written.directory.join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{file}: {text}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
        }
        written.run(&["check", "app.mpisee"])
    };
    of(&[]).exits(0);
    let ran = of(&[
        ("nccl-times.csv", ",2,1,3333", ",2,2,3333"),
        ("nccl-times.csv", "0.003,", "0.005,"),
        ("gpu-links.csv", B, "GPU-0c"),
        ("ranks.csv", A, "GPU-0d"),
        ("staged.csv", ",1000,", ",3001,"),
    ]);
    has(
        &ran.exits(1).stdout,
        &[
            "rank 0 made 3 ncclAllReduce on N1-5e1c09tz in calls.csv, and 4 in nccl-times.csv",
            "rank 0 has 0.005000000 s of the GPU in 2 ncclAllReduce of 0.001000000 to 0.002000000 s on N1-5e1c09tz in nccl-times.csv",
            "GPU-0c of n1 is in gpu-links.csv and not in gpus.csv or nics.csv",
            &format!("rank 0 is in gpus.csv with {A} of n1, and in ranks.csv without it"),
            "rank 0 copied 3000 bytes in copies.csv, and 3001 for messages in staged.csv",
        ],
    );
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
