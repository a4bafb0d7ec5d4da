//! `order`, and what it refuses.

use crate::support::{Builder, Written, runs};
use std::fs::write;
use std::path::Path;

const RULES: &str = "rules,symbols\n0000000000a1,0 r1*100 5;1*2 2 3 4*2\n";
const STEPS: &str = "alphabet,step,kind,comm,call,peer,tag,bytes,size_min,size_max,memory,region,site\n\
                     0000000000b1,0,call,0,MPI_Comm_dup,,,0,0,0,host,,\n\
                     0000000000b1,1,call,1,MPI_Irecv,,,0,1024,2047,host,,\n\
                     0000000000b1,2,call,1,MPI_Isend,,,1031,1024,2047,host,,\n\
                     0000000000b1,3,sent,1,,+1,7,1031,,,,,\n\
                     0000000000b1,4,call,1,MPI_Allreduce,,,8,8,15,host,,\n\
                     0000000000b1,5,call,0,MPI_Barrier,,,0,0,0,host,,\n\
                     0000000000b2,0,call,0,MPI_Comm_dup,,,0,0,0,host,,\n\
                     0000000000b2,1,call,1,MPI_Irecv,,,0,1024,2047,host,,\n\
                     0000000000b2,2,call,1,MPI_Isend,,,1033,1024,2047,host,,\n\
                     0000000000b2,3,sent,1,,=0,7,1033,,,,,\n\
                     0000000000b2,4,call,1,MPI_Allreduce,,,8,8,15,host,,\n\
                     0000000000b2,5,call,0,MPI_Barrier,,,0,0,0,host,,\n";
const TIMES: &str = "rules,alphabet,before,step,calls,between_s,between_sd_s,between_histogram,time_s,time_sd_s,time_histogram\n\
                     0000000000a1,0000000000b1,2,4,100,0.5,0.001,12:100,0.25,0.001,11:100\n\
                     0000000000a1,0000000000b1,4,4,100,0.1,0.001,10:100,0.05,0.001,9:100\n";
const ORDER: &str = "rank,thread,steps,lost,rules,alphabet,comms\n\
                     0,0,602,0,0000000000a1,0000000000b1,W W_d1\n\
                     1,0,602,0,0000000000a1,0000000000b2,W W_d1\n";

/// Writes an order into a profile.
fn add_order(profile: &Path, order: &str, rules: &str) {
    for (file, text) in [
        ("order.csv", order),
        ("order-rules.csv", rules),
        ("order-steps.csv", STEPS),
        ("order-times.csv", TIMES),
    ] {
        write(profile.join(file), text).unwrap();
    }
}

fn profile(order: &str, rules: &str) -> Written {
    let written = Builder::new(2).write();
    add_order(&written.beside().join("app.mpisee"), order, rules);
    written
}

#[test]
fn loops_are_shown_with_their_counts() {
    let shown = profile(ORDER, RULES).run(&["order", "app.mpisee"]).stdout;
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let from = lines.iter().position(|line| line.starts_with("ranks 0-1")).expect("both ranks are alike");
    assert_eq!(lines[from], "ranks 0-1: 502 calls each");
    let expected = [
        "Comm_dup on W",
        "100 ×",
        "2 × Irecv 1 KiB-2047 B on W_d1",
        "Isend 1031 B-1033 B to +1 =0 on W_d1",
        "2 × Allreduce 8 B on W_d1",
        "Barrier on W",
    ];
    for (line, expected) in lines[from + 2..].iter().zip(expected) {
        assert!(line.trim_start().starts_with(expected), "{expected} in {line}");
    }
    // Rank 0 alone has times: 200 calls of 1.5 ms, with 3 ms before each, half of it for both.
    assert!(lines[from + 6].contains("150 ms    300 ms"), "{}", lines[from + 6]);
}

#[test]
fn lines_with_little_time_are_one_row() {
    let shown = profile(ORDER, RULES).run(&["order", "app.mpisee", "--top", "2"]).stdout;
    let rows = shown.lines().skip_while(|line| !line.contains("CALLS")).skip(1).map(str::trim_end);
    let expected = [
        "  … 1 call                          0 s       0 s",
        "  100 ×                          150 ms    300 ms",
        "    … 300 calls                     0 s       0 s",
        "    2 × Allreduce 8 B on W_d1    150 ms    300 ms",
        "  … 1 call                          0 s       0 s",
        "  … are lines with less time; --all shows them",
    ];
    assert_eq!(Vec::from_iter(rows.take(6)), expected, "{shown}");
}

#[test]
fn a_profile_without_an_order_says_how_to_get_one() {
    let words = ["has no order of calls: run the program with `mpisee --order`"];
    Builder::new(2).write().run(&["order", "app.mpisee"]).fails_with(&words);
}

#[test]
fn damaged_orders_are_refused() {
    for (order, rules, why) in [
        (ORDER, "rules,symbols\n0000000000a1,0 r1*100 5\n", "a symbol is neither a step nor a rule"),
        (ORDER, "rules,symbols\n0000000000a2,0\n", "column 'rules': it is not in order-rules.csv"),
        (ORDER, &RULES.replace("1*2", "1*3"), "the sequence has other steps than the row"),
        (&ORDER.replace("a1,0000000000b2", "a1,0000000000b3"), RULES, "the sequence has other steps"),
        (ORDER, &RULES.replace("r1*100", "r1*99999999999999999999"), "a symbol is neither"),
        (ORDER, &RULES.replace("r1*100", "r1*9999999999999999999"), "without end"),
    ] {
        profile(order, rules).run(&["order", "app.mpisee"]).fails_with(&[why]);
    }
}

/// Two ranks with calls and their order.
pub fn ordered() -> Written {
    let written = counted().write();
    add_order(&written.beside().join("app.mpisee"), ORDER, RULES);
    written
}

/// Two ranks with the calls of the rules.
fn counted() -> Builder {
    (0..2).fold(Builder::new(2), |builder, rank| {
        builder.call("W", rank, "MPI_Allreduce", 200, 1600, 0.1).call("W", rank, "MPI_Irecv", 200, 0, 0.1)
    })
}

#[test]
fn calls_per_step_are_as_expected_or_not() {
    let expected = "calls of MPI_Allreduce per step <= 2\n\
                    calls of MPI_Allreduce on W per step = 0\n\
                    calls of I* on W_d1 per step = 3\n\
                    calls of MPI_Irecv per step <= 1\n";
    let written = counted().comm("W_d1", "W", "MPI_Comm_dup", "0-1", |_| {}).write();
    write(written.beside().join("app.expect"), expected).unwrap();
    let check = ["expect", "app.expect", "app.mpisee", "--format", "csv"];
    written.run(&check).fails_with(&["has no order of calls: run the program with `mpisee --order`"]);
    add_order(&written.beside().join("app.mpisee"), ORDER, RULES);
    let ran = written.run(&check);
    let lines: Vec<&str> = ran.exits(1).stdout.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "ok,1,calls of MPI_Allreduce per step <= 2,2",
            "ok,2,calls of MPI_Allreduce on W per step = 0,0",
            "ok,3,calls of I* on W_d1 per step = 3,3",
            "FAILED,4,calls of MPI_Irecv per step <= 1,2",
        ]
    );
}

#[test]
fn one_more_call_per_step_is_a_difference() {
    let home = runs::write(&[counted(), counted()]);
    let path = |run: u32| home.beside().join(format!("set/app-{run}.mpisee"));
    let diff = ["diff", "set/app-1.mpisee", "set/app-2.mpisee"];
    add_order(&path(1), ORDER, RULES);
    assert!(!home.run(&diff).exits(0).stdout.contains("Per step"), "one run alone has an order");
    add_order(&path(2), ORDER, RULES);
    assert!(!home.run(&diff).exits(0).stdout.contains("Per step"), "both are equal");
    add_order(&path(2), &ORDER.replace("602", "702"), &RULES.replace("4*2", "4*3"));
    let shown = home.run(&diff);
    let shown = &shown.exits(0).stdout;
    let from = shown.find("Per step A").unwrap_or_else(|| panic!("no steps in {shown}"));
    let row = shown[from..].lines().nth(1).unwrap_or_default();
    assert_eq!(Vec::from_iter(row.split_whitespace()), ["MPI_Allreduce", "W_d*", "2", "3"], "{shown}");
}
