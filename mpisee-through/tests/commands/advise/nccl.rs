//! Rules about the time of GPUs in calls of NCCL.

use crate::support::{Builder, Written};

const HEADER: &str = "comm,rank,region,call,size_min,size_max,calls,untimed,bytes,gpu_s,min_s,max_s\n";

/// Four ranks that run for 10 s, with a communicator of NCCL.
fn run() -> Builder {
    Builder::new(4).comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-3", |_| {})
}

/// A row of each rank: its number of timed and other calls, its seconds, and its shortest and
/// longest call.
fn timed(builder: &Builder, call: &str, ranks: &[(u32, [u64; 2], f64, [f64; 2])]) -> Written {
    let row = |&(rank, [calls, untimed], gpu_s, [min_s, max_s]): &(u32, [u64; 2], f64, [f64; 2])| {
        let bytes = calls << 20;
        format!(
            "N1-5e1c09tz,{rank},,{call},1048576,2097151,{calls},{untimed},{bytes},{gpu_s},{min_s},{max_s}\n"
        )
    };
    let profile = builder.write();
    let rows: String = ranks.iter().map(row).collect();
    std::fs::write(profile.directory.join("nccl-times.csv"), format!("{HEADER}{rows}")).unwrap();
    profile
}

/// Ten calls of each rank, all alike, that take these seconds together.
fn alike(call: &str, seconds: [f64; 4]) -> Written {
    let rows: Vec<_> =
        (0..).zip(seconds).map(|(rank, gpu_s)| (rank, [10, 0], gpu_s, [gpu_s / 10.0; 2])).collect();
    timed(&run(), call, &rows)
}

/// A profile for each rule.
pub fn both() -> [Written; 2] {
    [alike("ncclAllReduce", [3.0, 3.2, 1.0, 3.0]), alike("ncclAllReduce", [2.0; 4])]
}

#[test]
fn rules_that_never_ran_on_hardware_have_to_be_asked_for() {
    for profile in both() {
        let ran = profile.run(&["advise", "app.mpisee", "--format", "csv"]);
        assert!(!ran.exits(0).stdout.contains("nccl-"), "{}", ran.stdout);
    }
}

/// Each finding, as in JSON.
#[track_caller]
fn found(profile: &Written, more: &[&str]) -> Vec<serde_json::Value> {
    let ran = profile.run(&[&["advise", "app.mpisee", "--experimental", "--format", "json"], more].concat());
    let answer: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    answer["findings"].as_array().unwrap().clone()
}

#[track_caller]
fn rules(profile: &Written) -> Vec<String> {
    found(profile, &[]).iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn has(finding: &serde_json::Value, field: &str, text: &str) {
    assert!(finding[field].as_str().unwrap().contains(text), "{text}: {finding}");
}

#[test]
fn the_rank_that_spends_least_is_named_and_both_causes() {
    let [profile, _] = both();
    profile.golden_at(100, "advise-nccl", &["advise", "app.mpisee", "--experimental"]);
    let [uneven] = &found(&profile, &[])[..] else { panic!() };
    assert_eq!((&uneven["rule"], &uneven["about"]), (&"nccl-uneven".into(), &"N1-5e1c09tz".into()));
    // 2.0 + 2.2 + 2.0 s more than rank 2.
    assert!((uneven["cost_s"].as_f64().unwrap() - 6.2).abs() < 1e-9, "{uneven}");
    has(
        uneven,
        "finding",
        "The GPU of rank 2 spends 1.00 s in ncclAllReduce on N1-5e1c09tz; GPUs of the other ranks spend 3.00 \
         s to 3.20 s.",
    );
    has(
        uneven,
        "evidence",
        "in 10 calls of each rank: the others spend 2.00 s to 2.20 s more than rank 2. The",
    );
    has(uneven, "evidence", "with hardly any waiting (");
    has(
        uneven,
        "evidence",
        "Either rank 2 comes last and the others wait, or rank 2 finishes earlier, as with faster links. The \
         measurement does not tell the two apart.",
    );
    has(
        uneven,
        "try",
        "If the times are as uneven there, the links are the cause. Otherwise look at what rank 2 does \
         before the call",
    );
    assert!(!uneven.to_string().contains("late"), "{uneven}");
    let ran = profile.run(&["advise", "app.mpisee", "--width", "120"]);
    assert!(!ran.exits(0).stdout.contains("No rule judges"), "{}", ran.stdout);
    // Of the chosen ranks' time.
    let [of_some] = &found(&profile, &["--ranks", "0-1"])[..] else { panic!() };
    assert!((of_some["cost_s"].as_f64().unwrap() - 4.2).abs() < 1e-9, "{of_some}");
    assert!(found(&profile, &["--comm", "W"]).is_empty());
}

#[test]
fn thresholds_of_uneven_times_hold() {
    let rules = |seconds| rules(&alike("ncclAllReduce", seconds));
    assert_eq!(rules([1.5, 1.5, 1.0, 1.5]), ["nccl-uneven"]);
    assert_eq!(rules([1.4, 1.5, 1.0, 1.5]), ["nccl-time"]);
    assert_eq!(rules([2.0, 1.0, 1.05, 2.0]), ["nccl-uneven"], "two of four");
    assert_eq!(rules([2.0, 1.0, 1.0, 1.0]), ["nccl-time"], "one that spends more");
    let [scatter] = &found(&alike("ncclReduceScatter", [3.0, 3.0, 1.0, 3.0]), &[])[..] else { panic!() };
    has(scatter, "try", "mpisee-bench collective reduce_scatter_block --backend nccl");
    // 2 % of 40 s.
    assert_eq!(rules([0.4, 0.4, 0.1, 0.3]), ["nccl-uneven"]);
    assert_eq!(rules([0.4, 0.4, 0.1, 0.29]), [""; 0]);
    // From 10 % of 40 s on.
    assert_eq!(rules([1.0; 4]), ["nccl-time"]);
    assert_eq!(rules([0.99; 4]), [""; 0]);
}

#[test]
fn nobody_is_named_who_waited_as_well() {
    let row = |rank, gpu_s, shortest_s| (rank, [100, 0], gpu_s, [shortest_s, 0.1]);
    // Ranks 1 to 3 are last in turns, and then wait for nobody; rank 0 is never last.
    let never = [row(0, 1.0, 0.01), row(1, 3.0, 0.001), row(2, 3.0, 0.001), row(3, 3.0, 0.001)];
    let [time] = &found(&timed(&run(), "ncclAllReduce", &never), &[])[..] else { panic!() };
    assert_eq!(time["rule"], "nccl-time");
    has(time, "evidence", "The times do not tell the two apart");
    has(time, "threshold", "(nccl-uneven)");
    // The bound is a tenth of the difference.
    let bound = |shortest_s| {
        let rows: Vec<_> =
            (0..4).map(|rank| row(rank, if rank == 0 { 1.0 } else { 3.0 }, shortest_s)).collect();
        rules(&timed(&run(), "ncclAllReduce", &rows))
    };
    assert_eq!(bound(0.0081), ["nccl-uneven"]);
    assert_eq!(bound(0.0079), ["nccl-time"]);
}

#[test]
fn one_call_with_the_difference_is_told_of() {
    let row = |rank, gpu_s, longest_s| (rank, [100, 0], gpu_s, [0.001, longest_s]);
    let with = |longest_s| {
        let rows =
            [row(0, 0.1, 0.001), row(1, 2.6, longest_s), row(2, 2.6, longest_s), row(3, 2.6, longest_s)];
        let [finding] = &found(&timed(&run(), "ncclAlltoAll", &rows), &[])[..] else { panic!() };
        assert_eq!(finding["rule"], "nccl-uneven");
        finding["evidence"].as_str().unwrap().to_owned()
    };
    let first = with(2.501);
    assert!(
        first.contains("2.50 s more than rank 0; one call alone has 2.50 s of the difference."),
        "{first}"
    );
    assert!(with(1.251).contains("one call alone has 1.25 s"), "{first}");
    assert!(!with(1.249).contains("one call"), "{first}");
}

#[test]
fn nobody_is_named_where_times_say_nothing_of_arrivals() {
    let row = |rank, calls, gpu_s| (rank, calls, gpu_s, [0.01, 0.4]);
    let others = [row(0, [100, 0], 3.0), row(1, [100, 0], 3.0), row(3, [100, 0], 3.0)];
    let with = |second| [&others[..], &[second]].concat();
    let all = |rows: &[_]| rules(&timed(&run(), "ncclAllReduce", rows));
    assert_eq!(all(&with(row(2, [100, 0], 1.0))), ["nccl-uneven"]);
    assert_eq!(all(&with(row(2, [95, 5], 1.0))), ["nccl-uneven"]);
    assert_eq!(all(&with(row(2, [94, 6], 1.0))), ["nccl-time"], "calls that were not timed");
    assert_eq!(all(&with(row(2, [95, 0], 1.0))), ["nccl-time"], "other calls");
    assert_eq!(all(&others), ["nccl-time"], "a member without calls");
    let bytes = timed(&run(), "ncclAllReduce", &with(row(2, [100, 0], 1.0)));
    let path = bytes.directory.join("nccl-times.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let less = text.replace(
        "2,,ncclAllReduce,1048576,2097151,100,0,104857600",
        "2,,ncclAllReduce,1048576,2097151,100,0,94857600",
    );
    assert_ne!(text, less);
    std::fs::write(&path, less).unwrap();
    assert_eq!(rules(&bytes), ["nccl-time"], "other bytes");
    // Two GPUs a process.
    let several = run().with(|profile| profile.comms[1].size = 8);
    let several = timed(&several, "ncclAllReduce", &with(row(2, [100, 0], 1.0)));
    let [time] = &found(&several, &[])[..] else { panic!() };
    assert_eq!(time["cost_s"], 5.0);
    has(time, "evidence", "a mean of 1.25 s on each of 4 ranks");
    has(time, "evidence", "The waiting part of this time is unknown, because processes have several GPUs.");
    assert_eq!(time["threshold"], "10.0 % of the run", "not: no ranks that spend less");
    // A root sends and goes on.
    let [broadcast] = &found(&alike("ncclBroadcast", [3.0, 3.0, 1.0, 3.0]), &[])[..] else { panic!() };
    assert_eq!(broadcast["threshold"], "10.0 % of the run");
    has(broadcast, "evidence", "Its time does not show who is late");
    has(broadcast, "evidence", "1.00 s (rank 2) to 3.00 s on each of 4 ranks");
}

#[test]
fn calls_that_hardly_wait_have_a_bandwidth() {
    let [_, profile] = both();
    profile.golden_at(100, "advise-nccl-together", &["advise", "app.mpisee", "--experimental"]);
    let [time] = &found(&profile, &[])[..] else { panic!() };
    has(time, "finding", "GPUs spend 20.0 % of the run in ncclAllReduce on N1-5e1c09tz.");
    // Each of ten calls has 1 MiB, of which the bus has 2 x 3 / 4.
    has(time, "evidence", "At most 0.0 % of this time can be waiting");
    has(
        time,
        "evidence",
        "The rest is the transfer, and waiting for room on the GPU: a bus bandwidth of 7.50 MiB/s.",
    );
    // As many seconds, but some calls are much shorter: ranks may come last in turns.
    let rows: Vec<_> = (0..4).map(|rank| (rank, [10, 0], 2.0, [0.05, 0.4])).collect();
    let [turns] = &found(&timed(&run(), "ncclAllReduce", &rows), &[])[..] else { panic!() };
    has(
        turns,
        "evidence",
        "the time over all ranks would be 2.00 s. The other 75.0 % are waiting for ranks that come later, or \
         transfers",
    );
}

#[test]
fn without_times_on_gpus_there_is_no_rule_and_a_note_says_so() {
    let profile = run().call("N1-5e1c09tz", 0, "ncclAllReduce", 8, 1 << 20, 9.0).write();
    let ran = profile.run(&["advise", "app.mpisee", "--width", "200"]);
    let note = "No rule judges the host's time in calls of NCCL. `mpisee --nccl-gpu-time` measures the time \
                on GPUs";
    assert!(ran.exits(0).stdout.replace("\n           ", " ").contains(note), "{}", ran.stdout);
    assert!(found(&profile, &[]).is_empty());
}

#[test]
fn parts_of_a_split_are_judged_together() {
    let parts = |seconds: [f64; 4]| {
        let builder = ["0-1", "2-3"].iter().zip(["N1-5e1c09tz_s1.0", "N1-5e1c09tz_s1.1"]);
        let builder = builder.fold(run(), |builder, (members, comm)| {
            builder.comm(comm, "N1-5e1c09tz", "ncclCommSplit", members, |_| {})
        });
        let profile = alike("ncclAllReduce", seconds);
        let text = std::fs::read_to_string(profile.directory.join("nccl-times.csv")).unwrap();
        let part = |line: &str| {
            let rank = line.split(',').nth(1).unwrap();
            let color = if ["0", "1"].contains(&rank) { 0 } else { 1 };
            line.replace("N1-5e1c09tz", &format!("N1-5e1c09tz_s1.{color}"))
        };
        let rows: Vec<String> = text.lines().skip(1).map(part).collect();
        let profile = builder.write();
        std::fs::write(profile.directory.join("nccl-times.csv"), format!("{HEADER}{}\n", rows.join("\n")))
            .unwrap();
        profile
    };
    let [uneven] = &found(&parts([1.0, 3.0, 3.0, 1.5]), &[])[..] else { panic!() };
    has(uneven, "finding", "GPUs of the others: rank 0 on N1-5e1c09tz_s1.0, rank 3 on N1-5e1c09tz_s1.1.");
    has(
        uneven,
        "evidence",
        "The GPU of rank 0 spends 1.00 s in ncclAllReduce on N1-5e1c09tz_s1.0; the GPU of the other rank \
         spends 3.00 s. Measured",
    );
    has(uneven, "evidence", "or rank 0 finishes earlier");
    assert_eq!(uneven["cost_s"], 3.5);
    // What ranks spend less in one part does not hide the time in the other.
    let [time, uneven] = &found(&parts([1.0, 3.0, 8.0, 8.0]), &[])[..] else { panic!() };
    has(time, "finding", "GPUs spend 40.0 % of the run in ncclAllReduce on N1-5e1c09tz_s1.1.");
    has(uneven, "finding", "rank 0 on N1-5e1c09tz_s1.0.");
    let [time] = &found(&parts([1.0; 4]), &[])[..] else { panic!() };
    has(time, "finding", "GPUs spend 10.0 % of the run in ncclAllReduce on N1-5e1c09tz_s1.* (2 × 2).");
    // Of two ranks the bus has all bytes.
    has(time, "evidence", "a bus bandwidth of 10.0 MiB/s");
}
