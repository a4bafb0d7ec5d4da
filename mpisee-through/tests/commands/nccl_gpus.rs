//! GPUs of each process in communicators of NCCL: profiles that lack ranks, and processes with
//! unequal numbers.

use crate::support::{Builder, Written};
use serde_json::Value;

const HEADER: &str = "comm,rank,region,call,size_min,size_max,calls,untimed,bytes,gpu_s,min_s,max_s";

/// A profile with these rows of times, of 10 calls with 1 KiB each.
fn timed(builder: &Builder, rows: &[(&str, u32, &str, f64)]) -> Written {
    let profile = builder.write();
    let row = |&(comm, rank, call, gpu_s): &(&str, u32, &str, f64)| {
        format!("{comm},{rank},,{call},1024,2047,10,0,10240,{gpu_s},{0},{0}\n", gpu_s / 10.0)
    };
    let rows: String = rows.iter().map(row).collect();
    std::fs::write(profile.directory.join("nccl-times.csv"), format!("{HEADER}\n{rows}")).unwrap();
    profile
}

fn json(profile: &Written, command: &[&str]) -> Value {
    let ran = profile.run(&[command, &["--format", "json"]].concat());
    serde_json::from_str(&ran.exits(0).stdout).unwrap()
}

/// Ranks 0 and 1 of four, with a communicator of all and one part of ranks 0 and 2.
fn half(init: Option<&str>) -> Written {
    let builder = Builder::new(2)
        .comm("N1-5e1c09tz", "", "ncclCommInitRankConfig", "0-1", |row| row.size = 4)
        .comm("N1-5e1c09tz_s1.0", "N1-5e1c09tz", "ncclCommSplit", "0", |row| row.size = 2)
        .with(|profile| (profile.run.ranks, profile.run.complete) = (4, false));
    let builder = init.into_iter().fold(builder, |builder, call| {
        (0..2).fold(builder, |builder, rank| builder.call("N1-5e1c09tz", rank, call, 1, 0, 0.1))
    });
    let rows = [
        ("N1-5e1c09tz", 0, "ncclAllReduce", 2.0),
        ("N1-5e1c09tz", 1, "ncclAllReduce", 3.0),
        ("N1-5e1c09tz_s1.0", 0, "ncclAllGather", 1.0),
    ];
    timed(&builder, &rows)
}

#[test]
fn members_that_a_profile_lacks_are_no_gpus_of_the_others() {
    for init in [Some("ncclCommInitRankConfig"), None] {
        let profile = half(init);
        let page = json(&profile, &["gpu", "app.mpisee"]);
        let times = page["nccl_times"].as_array().unwrap();
        assert_eq!([&times[0]["gpu_mean_s"], &times[1]["gpu_mean_s"]], [2.5, 1.0], "{page}");
        assert_eq!([&times[0]["call_min_s"], &times[0]["call_max_s"]], [0.2, 0.3], "{page}");
        // 6 s of 20 s.
        let ran = profile.run(&["gpu", "app.mpisee", "--width", "300"]);
        assert!(ran.exits(0).stdout.contains("GPUs spent 30.0 % of"), "{}", ran.stdout);
        let advise = json(&profile, &["advise", "app.mpisee", "--experimental"]);
        let reduce = &advise["findings"][0];
        assert_eq!(reduce["cost_s"], 5.0, "{advise}");
        let evidence = reduce["evidence"].as_str().unwrap();
        assert!(
            evidence.contains("because not all members of the communicator have these calls in"),
            "{evidence}"
        );
        assert!(evidence.contains("2.00 s (rank 0) to 3.00 s (rank 1)"), "{evidence}");
    }
}

#[test]
fn processes_may_have_unequal_numbers_of_gpus() {
    let builder = Builder::new(2)
        .comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-1", |row| row.size = 3)
        .comm("N1-5e1c09tz_s1.0", "N1-5e1c09tz", "ncclCommSplit", "0-1", |row| row.size = 2)
        .call("N1-5e1c09tz", 0, "ncclCommInitRank", 2, 0, 0.1)
        .call("N1-5e1c09tz", 1, "ncclCommInitRank", 1, 0, 0.1);
    let rows = [
        ("N1-5e1c09tz", 0, "ncclAllReduce", 4.0),
        ("N1-5e1c09tz", 1, "ncclAllReduce", 2.0),
        ("N1-5e1c09tz_s1.0", 1, "ncclAllReduce", 1.0),
    ];
    let profile = timed(&builder, &rows);
    let cost_s = |ranks: &str| -> f64 {
        let advise = json(
            &profile,
            &["advise", "app.mpisee", "--experimental", "--ranks", ranks, "--comm", "N1-5e1c09tz"],
        );
        advise["findings"][0]["cost_s"].as_f64().unwrap()
    };
    assert_eq!([cost_s("0"), cost_s("1"), cost_s("0-1")], [2.0, 2.0, 4.0]);
    let page = json(&profile, &["gpu", "app.mpisee"]);
    let times = page["nccl_times"].as_array().unwrap();
    assert!(times[0]["call_min_s"].is_null() && times[0]["gpu_mean_s"] == 2.0, "{page}");
    assert_eq!(times[1]["call_min_s"], 0.1, "rank 1 has one GPU in the part, too: {page}");
}

#[test]
fn of_ranks_that_spend_alike_none_is_named() {
    let builder = Builder::new(3).comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-2", |_| {});
    let reduce = |rank, gpu_s| ("N1-5e1c09tz", rank, "ncclAllReduce", gpu_s);
    let profile = timed(&builder, &[reduce(0, 2.0), reduce(1, 1.0), reduce(2, 2.0001)]);
    let page = json(&profile, &["gpu", "app.mpisee"]);
    let times = &page["nccl_times"][0];
    assert_eq!((&times["call_min_rank"], &times["call_max_rank"]), (&1.into(), &Value::Null), "{times}");
}
