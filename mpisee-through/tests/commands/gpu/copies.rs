//! `mpisee-through gpu --by copy` and `--by staging`: copies.csv and staged.csv summed up.

use crate::support::{Builder, Written};

const COPIES: &str = "rank,device,call,mode,from,from_device,to,to_device,line,calls,bytes,time_s\n\
    0,GPU-a,cuMemcpyDtoHAsync,stream,device,GPU-a,pinned,,train.py:7,3,3000,0.000003\n\
    1,GPU-b,cuMemcpyDtoHAsync,stream,device,GPU-b,pinned,,train.py:7,2,1000,0.000001\n\
    1,GPU-b,cuMemcpyPeer,blocking,device,GPU-b,device,GPU-a,,1,5000,0.000002\n\
    1,GPU-b,cuLaunchKernel,stream,,,,,train.py:9,70,0,0.000210\n";
const STAGED: &str = "comm,rank,direction,memory,mode,matches,bytes,time_s\n\
    W_d1,0,sent,pinned,stream,2,2048,0.000002\n\
    W_d1,1,received,pinned,stream,1,2048,0.000003\n\
    W,1,sent,host,blocking,1,7,0.000001\n";

fn profile(copies: &str, staged: &str) -> Written {
    let profile = Builder::new(2).messages("W", 0, 1, 2, 1000).write();
    for (name, rows) in [("copies.csv", copies), ("staged.csv", staged)] {
        if !rows.is_empty() {
            std::fs::write(profile.directory.join(name), rows).unwrap();
        }
    }
    profile
}

#[test]
fn copies_are_summed_by_the_memory_of_both_ends() {
    let by_copy = |more: &[&str]| {
        profile(COPIES, STAGED)
            .run(&[&["gpu", "app.mpisee", "--by", "copy", "--format", "csv"], more].concat())
    };
    by_copy(&[]).prints(
        "\
from,to,mode,call,calls,bytes,time_s
device,another device,blocking,cuMemcpyPeer,1,5000,0.000002000
device,pinned,stream,cuMemcpyDtoHAsync,5,4000,0.000004000
,,stream,cuLaunchKernel,70,0,0.000210000
",
    );
    by_copy(&["--of", "accesses", "--launch", "train.py:*", "--ranks", "1"]).prints(
        "\
from,to,mode,call,calls,bytes,time_s
,,stream,cuLaunchKernel,70,0,0.000210000
device,pinned,stream,cuMemcpyDtoHAsync,2,1000,0.000001000
",
    );
}

#[test]
fn staged_copies_are_summed_by_communicator() {
    let staged = profile(COPIES, STAGED);
    staged.run(&["gpu", "app.mpisee", "--by", "staging", "--format", "csv"]).prints(
        "\
comm,direction,memory,mode,matches,bytes,time_s
W_d1,sent,pinned,stream,2,2048,0.000002000
W_d1,received,pinned,stream,1,2048,0.000003000
W,sent,host,blocking,1,7,0.000001000
",
    );
    let table = staged.run(&["gpu", "app.mpisee", "--by", "copy", "--detail"]).exits(0).stdout.clone();
    let sentence = "W_d1: 4.00 KiB staged, 5.00 µs of the host in the copies, 3.00 µs on rank 1: an MPI that knows GPUs would save that";
    assert!(table.contains(sentence), "{table}");
    assert!(table.contains("W: 7 B staged, 1.00 µs in the copies"), "{table}");
    assert!(table.contains("train.py:9") && table.contains("LINE"), "{table}");
}

#[test]
fn without_copies_the_option_that_counts_them_is_named() {
    let none = profile("", "");
    for by in ["copy", "staging"] {
        let said = none.run(&["gpu", "app.mpisee", "--by", by]).exits(0).stdout.clone();
        assert!(said.contains("`mpisee --gpu-copies`"), "{said}");
    }
    let image = ["gpu", "app.mpisee", "--by", "copy", "--image", "a.svg"];
    none.run(&image).fails_with(&["--by copy", "tables"]);
}

#[test]
fn copies_of_which_none_was_for_a_message_are_said_to_be_counted() {
    let by_staging = ["gpu", "app.mpisee", "--by", "staging"];
    profile(COPIES, "").run(&by_staging).prints("No copy was for a message of MPI.\n");
    let none = profile("", "").run(&by_staging);
    assert!(none.exits(0).stdout.contains("`mpisee --gpu-copies` looks for them"), "{}", none.stdout);
}
