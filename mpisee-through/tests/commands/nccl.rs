//! Time in calls of NCCL is no time in MPI, whichever command adds it up.

use crate::support::gpus::beside_nccl;
use crate::support::time_line::TimeLine;
use crate::support::{Builder, Written, runs};

#[test]
fn ranks_have_it_in_a_column_of_its_own() {
    let profile = beside_nccl().write();
    profile.run(&["ranks", "app.mpisee"]).golden("nccl-ranks");
    let ran = profile.run(&["ranks", "app.mpisee", "--call", "MPI_*", "--format", "csv"]);
    assert!(!ran.exits(0).stdout.contains("nccl"), "{}", ran.stdout);
}

#[test]
fn regions_have_it_in_a_column_of_its_own() {
    beside_nccl().write().run(&["regions", "app.mpisee"]).golden("nccl-regions");
}

#[test]
fn places_and_paths_have_no_share_of_mpi_for_it() {
    let profile = beside_nccl().write();
    profile.run(&["sites", "app.mpisee"]).golden("nccl-sites");
    profile.run(&["paths", "app.mpisee"]).golden("nccl-paths");
}

#[test]
fn the_mpi_time_of_two_runs_is_without_it() {
    let home = runs::write(&[beside_nccl(), beside_nccl()]);
    let ran = home.run(&["diff", "set/app-1.mpisee", "set/app-2.mpisee", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let totals = found["runs"].as_array().unwrap();
    let time = totals.iter().find(|row| row["what"] == "MPI time").unwrap();
    assert_eq!((&time["before"], &time["after"]), (&1.0.into(), &1.0.into()), "{time}");
}

#[test]
fn parts_of_runs_add_up_to_the_time_of_all_ranks() {
    let home = runs::write(&[beside_nccl(), beside_nccl()]);
    let ran = home.run(&["runs", "set", "--table", "variation", "--format", "csv"]);
    let text = &ran.exits(0).stdout;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let place = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let median = |row: csv::StringRecord| row[place("time_s")].parse::<f64>().unwrap();
    let sum: f64 = reader.records().map(|row| median(row.unwrap())).sum();
    assert!((sum - 10.0).abs() < 1e-6, "{sum}\n{text}");
}

/// The text of a command that is of MPI alone.
fn of_mpi_alone(command: &[&str]) -> String {
    let profile = beside_nccl().write();
    let ran = profile.run(&[command, &["app.mpisee", "--width", "200"]].concat());
    let text = ran.exits(0).stdout.clone();
    assert!(text.contains("NCCL communicators are left out; mpisee-through gpu shows them."), "{text}");
    assert!(!text.contains("N1-5e1c09tz") && !text.contains("ncclAllReduce"), "{text}");
    text
}

#[test]
fn locality_has_communicators_of_mpi_alone() {
    of_mpi_alone(&["locality"]);
}

#[test]
fn the_matrix_has_bytes_of_mpi_alone() {
    let text = of_mpi_alone(&["matrix"]);
    assert!(text.contains("Not in it: 64 B in collectives"), "{text}");
    of_mpi_alone(&["matrix", "--collectives"]);
}

const OF_HOST: &str = "Times of NCCL calls are host times: a call returns when its work is in the stream.";

/// [`beside_nccl`] with times on the GPU: of rank 0 1 s, of rank 1 2 s.
fn with_times_of_gpu() -> Written {
    let profile = beside_nccl().write();
    let times = "comm,rank,region,call,size_min,size_max,calls,untimed,bytes,gpu_s,min_s,max_s\n\
                 N1-5e1c09tz,0,step,ncclAllReduce,131072,262143,8,0,1048576,1.0,0.1,0.2\n\
                 N1-5e1c09tz,1,step,ncclAllReduce,131072,262143,8,0,1048576,2.0,0.1,0.4\n";
    std::fs::write(profile.directory.join("nccl-times.csv"), times).unwrap();
    profile
}

#[test]
fn times_of_nccl_are_said_to_be_the_hosts() {
    let (without, with) = (beside_nccl().write(), with_times_of_gpu());
    let with_filter = ["summary", "ops", "sites", "sizes"];
    for command in with_filter.into_iter().chain(["gpu", "ranks", "regions", "paths"]) {
        let said = |profile: &Written, more: &[&str]| {
            let ran = profile.run(&[&[command, "app.mpisee", "--width", "300"], more].concat());
            ran.exits(0).stdout.clone()
        };
        let text = said(&without, &[]);
        assert_eq!(text.matches(OF_HOST).count(), 1, "{command}: {text}");
        assert!(!text.contains("has the GPU times"), "{command}: {text}");
        let text = said(&with, &[]);
        let leads_on = text.contains(&format!("{OF_HOST} mpisee-through gpu has the GPU times."));
        assert!(text.contains(OF_HOST) && leads_on == (command != "gpu"), "{command}: {text}");
        if with_filter.contains(&command) {
            assert!(!said(&with, &["--call", "MPI_*"]).contains(OF_HOST), "{command}");
        }
    }
}

#[test]
fn the_summary_has_the_time_of_the_gpu() {
    let profile = with_times_of_gpu();
    profile.golden_at(120, "nccl-summary", &["summary", "app.mpisee"]);
    let gpu_s = |profile: &Written, more: &[&str]| -> Vec<Option<String>> {
        let ran = profile.run(&[&["summary", "app.mpisee", "--format", "csv"], more].concat());
        let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        let rows = reader.deserialize::<std::collections::BTreeMap<String, String>>();
        rows.map(|row| row.unwrap().get("gpu_mean_s").cloned()).collect()
    };
    let mean = |text: &str| Some(text.to_owned());
    assert_eq!(gpu_s(&profile, &[]), [mean("1.500000000"), mean("")]);
    assert_eq!(gpu_s(&profile, &["--ranks", "1", "--call", "nccl*"]), [mean("2.000000000")]);
    assert_eq!(gpu_s(&profile, &["--memory", "device"]), [None], "the table does not have it");
    assert_eq!(gpu_s(&beside_nccl().write(), &[]), [None, None]);
    let ran = profile.run(&["summary", "app.mpisee", "--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert!(found["caveats"][0].as_str().unwrap().starts_with(OF_HOST), "{}", found["caveats"]);
    let comms = &found["communicators"];
    assert_eq!((&comms[0]["gpu_mean_s"], comms[1].get("gpu_mean_s")), (&1.5.into(), None), "{comms}");
}

#[test]
fn regions_have_the_time_of_the_gpu() {
    let profile = with_times_of_gpu();
    profile.run(&["regions", "app.mpisee", "--width", "120"]).golden("nccl-regions-of-gpu");
    let gpu_s = |profile: &Written, more: &[&str]| -> Vec<serde_json::Value> {
        let ran = profile.run(&[&["regions", "app.mpisee", "--format", "json"], more].concat());
        let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        let regions = found["regions"].as_array().unwrap();
        regions.iter().map(|row| row["gpu_mean_s"].clone()).collect()
    };
    // Of two ranks that have entered it.
    assert_eq!(gpu_s(&profile, &[]), [1.5]);
    assert_eq!(gpu_s(&profile, &["--ranks", "1", "--call", "nccl*"]), [2.0]);
    for others in [["--call", "MPI_*"], ["--comm", "W"], ["--memory", "device"]] {
        assert_eq!(gpu_s(&profile, &others), [serde_json::Value::Null], "{others:?}");
    }
    assert_eq!(gpu_s(&beside_nccl().write(), &[]), [serde_json::Value::Null]);
    let path = profile.directory.join("nccl-times.csv");
    let text = std::fs::read_to_string(&path).unwrap().replace("step,", "step/inner,");
    std::fs::write(&path, text.replace(",8,0,1048576,1.0", ",8,3,1048576,1.0")).unwrap();
    assert_eq!(gpu_s(&profile, &[]), [1.5], "what is in it counts");
    let ran = profile.run(&["regions", "app.mpisee", "--width", "300"]);
    assert!(ran.exits(0).stdout.contains("The GPU's time is that of 16 calls; 3 more"), "{}", ran.stdout);
}

#[test]
fn two_runs_have_the_time_of_gpus_beside_each_other() {
    let times = |home: &Written, run: &str, of_rank_1: &str| {
        let text = std::fs::read_to_string(with_times_of_gpu().directory.join("nccl-times.csv")).unwrap();
        let path = home.directory.parent().unwrap().join(run).join("nccl-times.csv");
        std::fs::write(path, text.replace(",2.0,", of_rank_1)).unwrap();
    };
    let home = runs::write(&[beside_nccl(), beside_nccl()]);
    let row = || {
        let ran = home.run(&["diff", "set/app-1.mpisee", "set/app-2.mpisee", "--format", "json"]);
        let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        let rows = found["runs"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["what"] == "NCCL time on GPUs")
    };
    assert_eq!(row(), None);
    times(&home, "set/app-2.mpisee", ",3.0,");
    let found = row().unwrap();
    assert!(found["before"].is_null() && found["after"] == 2.0 && found["change"].is_null(), "{found}");
    times(&home, "set/app-1.mpisee", ",2.0,");
    let found = row().unwrap();
    assert_eq!([&found["before"], &found["after"]], [1.5, 2.0], "{found}");
    let said = || {
        let ran = home.run(&["diff", "set/app-1.mpisee", "set/app-2.mpisee", "--format", "json"]);
        serde_json::from_str::<serde_json::Value>(&ran.exits(0).stdout).unwrap()["caveats"].to_string()
    };
    assert!(!said().contains("not timed"), "{}", said());
    let path = home.directory.parent().unwrap().join("set/app-2.mpisee/nccl-times.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(",8,0,1048576,1.0", ",8,90,1048576,1.0")).unwrap();
    assert!(
        said().contains("In B: The GPU's time is that of 16 calls; 90 more were not timed"),
        "{}",
        said()
    );
}

#[test]
fn comparisons_and_efficiency_say_what_nccls_times_are() {
    let profile = beside_nccl().write();
    let ran = profile.run(&["efficiency", "app.mpisee", "--width", "300"]);
    assert!(
        ran.exits(0)
            .stdout
            .contains("Useful time is all time outside of MPI. Useful time includes calls of NCCL"),
        "{}",
        ran.stdout
    );
    let ran = profile.run(&["diff", "app.mpisee", "app.mpisee", "--width", "300"]);
    assert!(ran.stdout.contains(OF_HOST), "{}", ran.stdout);
}

#[test]
fn calls_that_were_not_timed_are_said() {
    let profile = with_times_of_gpu();
    let ran = profile.run(&["summary", "app.mpisee", "--width", "300"]);
    assert!(!ran.exits(0).stdout.contains("not timed"), "{}", ran.stdout);
    let path = profile.directory.join("nccl-times.csv");
    let text = std::fs::read_to_string(&path).unwrap().replace(",8,0,1048576,1.0", ",8,3,1048576,1.0");
    std::fs::write(&path, text).unwrap();
    let ran = profile.run(&["summary", "app.mpisee", "--width", "300"]);
    let sentence = "The GPU's time is that of 16 calls; 3 more were not timed. mpisee-through gpu has these \
                    numbers by operation.";
    assert!(ran.exits(0).stdout.contains(sentence), "{}", ran.stdout);
    let ran = profile.run(&["advise", "app.mpisee", "--format", "json"]);
    let advise: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert!(advise["caveats"].as_array().unwrap().contains(&sentence.into()), "{advise}");
}

#[test]
fn the_page_has_who_waits_least_and_the_share_of_wall_time() {
    let profile = with_times_of_gpu();
    let ran = profile.run(&["gpu", "app.mpisee", "--width", "300"]);
    // 3 s of two ranks that ran 10 s each.
    assert!(
        ran.exits(0).stdout.contains("GPUs spent 15.0 % of their ranks' wall time in timed calls"),
        "{}",
        ran.stdout
    );
    let row = |profile: &Written| -> serde_json::Value {
        let ran = profile.run(&["gpu", "app.mpisee", "--format", "json"]);
        let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        page["nccl_times"][0].clone()
    };
    let found = row(&profile);
    assert_eq!([&found["gpu_mean_s"], &found["call_min_s"], &found["call_max_s"]], [1.5, 0.125, 0.25]);
    assert_eq!([&found["call_min_rank"], &found["call_max_rank"]], [0, 1]);
    // Of a process with two GPUs it is their mean, and who of them was last is not known.
    let path = profile.directory.join("comms.csv");
    let comms = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        comms.replace("N1-5e1c09tz,,ncclCommInitRank,2,", "N1-5e1c09tz,,ncclCommInitRank,4,"),
    )
    .unwrap();
    let found = row(&profile);
    assert_eq!(found["gpu_mean_s"], 0.75, "{found}");
    assert!(
        ["call_min_s", "call_min_rank", "bus_bytes_per_s"].iter().all(|name| found[name].is_null()),
        "{found}"
    );
    let ran = profile.run(&["summary", "app.mpisee", "--format", "json"]);
    let summary: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert_eq!(summary["communicators"][0]["gpu_mean_s"], 0.75);
}

#[test]
fn communicators_that_are_left_out_have_the_times_of_both_libraries() {
    let profile = beside_nccl().comm("W_d1", "W", "MPI_Comm_dup", "0-1", |_| {});
    let profile = profile.call("W_d1", 0, "MPI_Barrier", 1, 0, 10.0).write();
    let ran = profile.run(&["summary", "app.mpisee", "--top", "1", "--width", "200"]);
    let text = &ran.exits(0).stdout;
    let sentence = "2 more communicators are left out, with 2.00 s over all ranks (16.7 % of MPI) and 6.00 s over all ranks in calls of NCCL";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn a_time_line_says_whose_time_that_of_nccl_is() {
    let said = |call: &str| {
        let profile = beside_nccl().write();
        let mut line = TimeLine::new(4, 2);
        (0..4).for_each(|second| line.rate(second, "W", call, 16, 0.5));
        line.write(&profile);
        let ran = profile.run(&["timeline", "app.timeline", "--width", "200"]);
        ran.exits(0).stdout.contains(OF_HOST)
    };
    assert!(said("ncclAllReduce") && !said("MPI_Allreduce"));
}

#[test]
fn a_family_has_its_name_in_the_other_run() {
    let parts = |digest: &str| {
        let root = format!("N1-{digest}");
        let made = Builder::new(4).comm(&root, "", "ncclCommInitRank", "0-3", |_| {});
        [(0, "0-1"), (1, "2-3")].iter().fold(made, |builder, (color, members)| {
            let part = format!("{root}_s1.{color}");
            builder.comm(&part, &root, "ncclCommSplit", members, |_| {}).call(
                &part,
                2 * color,
                "ncclAllReduce",
                8,
                64,
                1.0,
            )
        })
    };
    let home = runs::write(&[parts("zzzzzzzz"), parts("00000000")]);
    let row = |more: &[&str]| -> serde_json::Value {
        let two = ["diff", "set/app-1.mpisee", "set/app-2.mpisee", "--format", "json"];
        let ran = home.run(&[&two, more].concat());
        let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        found["changes"][0].clone()
    };
    let families = row(&["--families"]);
    assert_eq!([&families["comm"], &families["comm_after"]], ["N1-zzzzzzzz_s1.*", "N1-00000000_s1.*"]);
    let each = row(&[]);
    assert_eq!([&each["comm"], &each["comm_after"]], ["N1-zzzzzzzz_s1.0", "N1-00000000_s1.0"]);
}

#[test]
fn nobody_is_named_where_all_spend_alike() {
    let profile = with_times_of_gpu();
    let path = profile.directory.join("nccl-times.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let row = |of_rank_1: &str| -> serde_json::Value {
        std::fs::write(&path, text.replace(",2.0,", of_rank_1)).unwrap();
        let ran = profile.run(&["gpu", "app.mpisee", "--format", "json"]);
        let page: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        page["nccl_times"][0].clone()
    };
    // 125 ms a call are shown in both cases, to three digits.
    for alike in [",1.0,", ",1.003,"] {
        let found = row(alike);
        assert!(found["call_min_rank"].is_null() && found["call_max_rank"].is_null(), "{found}");
        assert_eq!(found["call_min_s"], 0.125, "{found}");
    }
    assert_eq!(row(",1.01,")["call_max_rank"], 1);
}

#[test]
fn lists_of_nccl_are_of_the_communicators_that_are_chosen() {
    let profile = beside_nccl()
        .comm("N1-aaaaaaaa", "", "ncclCommInitRank", "0-1", |row| row.label = "tp".to_owned())
        .call("N1-aaaaaaaa", 0, "ncclBroadcast", 3, 30, 0.001)
        .write();
    let times = std::fs::read_to_string(with_times_of_gpu().directory.join("nccl-times.csv")).unwrap();
    let other = times.lines().nth(1).unwrap().replace("N1-5e1c09tz", "N1-aaaaaaaa");
    std::fs::write(profile.directory.join("nccl-times.csv"), format!("{times}{other}\n")).unwrap();
    let staged =
        "comm,rank,direction,memory,mode,matches,bytes,time_s\nW,0,sent,pinned,stream,2,1000,0.000001\n";
    std::fs::write(profile.directory.join("staged.csv"), staged).unwrap();
    let found = |pattern: &str| -> serde_json::Value {
        let ran = profile.run(&["gpu", "app.mpisee", "--comm", pattern, "--format", "json"]);
        serde_json::from_str(&ran.exits(0).stdout).unwrap()
    };
    let comms = |page: &serde_json::Value, list: &str| -> Vec<String> {
        page[list].as_array().unwrap().iter().map(|row| row["comm"].as_str().unwrap().to_owned()).collect()
    };
    for (pattern, of_nccl, of_messages) in
        [("tp", &["N1-aaaaaaaa"][..], &[][..]), ("N1-5*", &["N1-5e1c09tz"], &[]), ("W", &[], &["W"])]
    {
        let page = found(pattern);
        assert_eq!(comms(&page, "nccl"), of_nccl, "{pattern}");
        assert_eq!(comms(&page, "nccl_times"), of_nccl, "{pattern}");
        assert_eq!(comms(&page, "staged"), of_messages, "{pattern}");
        assert!(page["buffers"].is_null() && page["ways"].is_null(), "{page:#}");
    }
    let ran = profile.run(&["gpu", "app.mpisee", "--comm", "tp", "--width", "120"]);
    assert!(
        ran.exits(0).stdout.contains("Communicators of NCCL\n") && ran.stdout.contains(OF_HOST),
        "{}",
        ran.stdout
    );
    profile.run(&["gpu", "app.mpisee", "--comm", "X"]).fails_with(&["no communicator matches --comm X"]);
    profile
        .run(&["gpu", "app.mpisee", "--comm", "tp", "--by", "rank"])
        .fails_with(&["--comm is for the page"]);
}
