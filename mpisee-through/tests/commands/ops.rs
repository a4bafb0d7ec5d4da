//! `mpisee-through ops`, `ranks`, `regions` and `sizes`: calls.csv summed up by one of its columns.

use crate::support::{Builder, splatt};

#[test]
fn operations_are_summed_over_communicators() {
    let profile = splatt().write();
    profile.run(&["ops", "app.mpisee"]).golden("ops-operations_are_summed_over_communicators");
    let chosen = ["ops", "app.mpisee", "--comm", "W_*", "--kind", "collective"];
    profile.run(&chosen).golden("ops-operations_are_summed_over_communicators-2");
    profile.run(&["ops", "app.mpisee", "--ranks", "1-2", "--call", "send", "--format", "csv"]).prints(
        "\
call,kind,comms,mean_s,share_of_mpi,min_s,max_s,bytes,calls,per_call_s,longest_s
MPI_Send,p2p,1,0.062500000,0.035709184,0.000000000,0.125000000,404,4,0.031250000,0.125000000
",
    );
    let words = ["no operation matches --call X; the profile has MPI_Alltoallv, "];
    profile.run(&["ops", "app.mpisee", "--call", "X"]).fails_with(&words);
}

#[test]
fn completions_over_communicators_are_named_below_the_table() {
    let note = "A call of MPI_Waitall counts once on each communicator of its requests";
    let waits = |comm: &'static str, ranks: [u32; 2]| {
        ranks.into_iter().fold(splatt(), |builder, rank| {
            builder.call("W", rank, "MPI_Waitall", 10, 0, 0.5).call(comm, 1, "MPI_Waitall", 10, 0, 0.5)
        })
    };
    let on_both = waits("W_a1", [0, 1]).write().run(&["ops", "app.mpisee"]);
    assert!(on_both.exits(0).stdout.contains(note), "{}", on_both.stdout);
    let json = waits("W_a1", [0, 1]).write().run(&["ops", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    assert!(document["note_on_calls"].as_str().is_some_and(|said| said.starts_with(note)), "{document}");
    let apart = waits("W_a1", [0, 2]).write().run(&["ops", "app.mpisee"]);
    assert!(!apart.exits(0).stdout.contains(note), "no rank is on both: {}", apart.stdout);
    let hidden = waits("W_a1", [0, 1]).write().run(&["ops", "app.mpisee", "--top", "1"]);
    assert!(!hidden.exits(0).stdout.contains(note), "the row is left out: {}", hidden.stdout);
}

#[test]
fn operations_are_sorted_as_asked() {
    let profile = splatt().write();
    let order = |key: &str| -> Vec<String> {
        let ran = profile.run(&["ops", "app.mpisee", "--format", "csv", "--sort", key]);
        let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        reader.records().map(|row| row.unwrap()[0].replace("MPI_", "")).collect()
    };
    assert_eq!(order("time"), ["Alltoallv", "Allreduce", "Bcast", "Recv", "Send", "Comm_dup"]);
    assert_eq!(order("volume"), ["Alltoallv", "Allreduce", "Bcast", "Recv", "Send", "Comm_dup"]);
    assert_eq!(order("calls"), ["Allreduce", "Alltoallv", "Comm_dup", "Bcast", "Recv", "Send"]);
    assert_eq!(order("name"), ["Allreduce", "Alltoallv", "Bcast", "Comm_dup", "Recv", "Send"]);
}

#[test]
fn ranks_show_how_time_is_spread() {
    let profile = splatt().write();
    profile.run(&["ranks", "app.mpisee", "--top", "3"]).golden("ops-ranks_show_how_time_is_spread");
    profile
        .run(&["ranks", "app.mpisee", "--sort", "wait", "--comm", "W_a1_s2.0"])
        .golden("ops-ranks_show_how_time_is_spread-2");
    profile.run(&["ranks", "app.mpisee", "--ranks", "5,9", "--format", "csv"]).prints(
        "\
rank,host,wall_s,mpi_s,share_of_wall,cpu_share,no_core_share,cpus_allowed,bytes,calls,busiest_call,busiest_comm,busiest_s,cores_used
5,node0,10.000000000,2.625250000,0.262525000,,,,3000501,18,MPI_Alltoallv,W_a1,1.625000000,
",
    );
}

#[test]
fn a_profile_without_regions_says_how_to_make_one() {
    let said =
        "The profile has no regions; put mpisee_region_begin(\"NAME\") and mpisee_region_end() of mpisee.h";
    let ran = splatt().write().run(&["regions", "app.mpisee"]);
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    let ran = with_regions().write().run(&["regions", "app.mpisee"]);
    assert!(!ran.exits(0).stdout.contains("has no regions"), "{}", ran.stdout);
}

#[test]
fn ranks_that_wait_most_come_first() {
    let profile = Builder::new(3)
        .with(|profile| profile.ranks[2].wall_s.0 = 2.0)
        .call("W", 0, "MPI_Barrier", 1, 0, 1.0)
        .call("W", 1, "MPI_Barrier", 1, 0, 4.0)
        .call("W", 2, "MPI_Barrier", 1, 0, 1.5)
        .write();
    let ran = profile.run(&["ranks", "app.mpisee", "--sort", "wait", "--format", "csv"]);
    let order: Vec<&str> =
        ran.exits(0).stdout.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(order, ["2", "1", "0"], "75 %, 40 % and 10 % of the wall time");
}

fn with_regions() -> Builder {
    let mut profile = Builder::new(2);
    for rank in 0..2 {
        let time_s = 1.0 + f64::from(rank);
        profile = profile
            .region("solver", rank, 3, 4.0 * time_s, 1.75 * time_s)
            .region("solver/halo", rank, 6, 2.0 * time_s, 1.5 * time_s)
            .call_with("W", rank, "MPI_Allreduce", 5, 505, 0.25 * time_s, |row| row.region = "solver".into())
            .call_with("W", rank, "MPI_Sendrecv", 6, 606, 1.5 * time_s, |row| {
                row.region = "solver/halo".into()
            })
            .call("W", rank, "MPI_Bcast", 2, 202, 0.125);
    }
    profile.region("setup, once", 1, 1, 0.5, 0.0)
}

#[test]
fn regions_include_those_in_them() {
    let profile = with_regions().write();
    profile.run(&["regions", "app.mpisee"]).golden("ops-regions_include_those_in_them");
    profile
        .run(&["regions", "app.mpisee", "--region", "solver", "--kind", "collective"])
        .golden("ops-regions_include_those_in_them-2");
    profile.run(&["regions", "app.mpisee", "--format", "csv", "--region", "", "--region", "set*"]).prints(
        "\
region,ranks,entries,wall_mean_s,wall_max_s,mpi_mean_s,share_of_wall,share_on_cpu,bytes,calls,cores_used
\"setup, once\",1,1,0.500000000,0.500000000,0.000000000,0.000000000,0.500000000,0,0,0.5
,2,,,,0.125000000,,,404,4,
",
    );
}

#[test]
fn sizes_are_histograms() {
    let profile = splatt()
        .call("W", 2, "MPI_Allreduce", 1, 0, 0.5)
        .call("W", 3, "MPI_Allreduce", 40, 40 * 5000, 0.125)
        .write();
    profile.run(&["sizes", "app.mpisee", "--top", "2"]).golden("ops-sizes_are_histograms");
    profile
        .run(&["sizes", "app.mpisee", "--by", "time", "--call", "*reduce"])
        .golden("ops-sizes_are_histograms-2");
    profile
        .run(&["sizes", "app.mpisee", "--by", "volume", "--call", "*reduce", "--size", "1-"])
        .golden("ops-sizes_are_histograms-3");
    profile.run(&["sizes", "app.mpisee", "--format", "csv", "--call", "*reduce"]).prints(
        "\
call,size_min,size_max,calls,bytes,time_s
MPI_Allreduce,0,0,1,0,0.500000000
MPI_Allreduce,8,15,80,640,2.000000000
MPI_Allreduce,4096,8191,40,200000,0.125000000
",
    );
    profile.run(&["sizes", "app.mpisee", "--comm", "X"]).fails_with(&["no operation matches --comm X;"]);
}

#[test]
fn json_has_lists_and_what_limits_them() {
    let profile = with_regions().with(|profile| profile.run.recording_was_off = true).write();
    let list = |command: &str, name: &str| {
        let ran = profile.run(&[command, "app.mpisee", "--format", "json", "--top", "1"]);
        let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        assert_eq!(document["caveats"][0], "Recording was off for a part of the run on some rank.");
        assert_eq!(document["partial_because"], serde_json::Value::Null);
        document[name].clone()
    };
    let expected = serde_json::json!([{
        "region": "solver", "ranks": 2, "entries": 6, "wall_mean_s": 6.0, "wall_max_s": 8.0,
        "mpi_mean_s": 2.625, "share_of_wall": 0.4375, "share_on_cpu": 0.5, "bytes": 2222, "calls": 22, "cores_used": 0.5,
    }]);
    assert_eq!(list("regions", "regions"), expected);
    assert_eq!(list("ranks", "ranks")[0]["busiest_call"], "MPI_Sendrecv");
    assert_eq!(list("ops", "operations")[0]["mean_s"], 2.25);
    assert_eq!(list("sizes", "sizes")[0]["size_max"], 127);
}

#[test]
fn a_table_that_breaks_off_is_marked() {
    let profile = splatt().write();
    profile.replace("calls.csv", "W_a1,3,,MPI_Alltoallv,524288", "W_a1,3,,MPI_Alltoallv,x524288");
    for command in ["ops", "ranks", "sizes"] {
        let ran = profile.run(&[command, "app.mpisee"]);
        ran.exits(2);
        ran.says(&["calls.csv', line 12: column 'size_min': 'x524288' is not a whole number"]);
        assert!(
            ran.stdout.starts_with("Partial    only the rows before an error are shown"),
            "{}",
            ran.stdout
        );
        assert!(ran.stdout.contains("MPI_Alltoallv"), "{}", ran.stdout);
    }
}
