//! `mpisee-through summary`: the run, and what happened on each communicator.

use crate::support::{Builder, splatt};
use mpisee_profile::rows::{Memory, Seconds};
use mpisee_profile::run::ProfilerInfo;
use std::io::Read;
use std::process::Stdio;

/// The output of `--format csv`, without its header row, as lists of communicator and operation.
fn chosen(arguments: &[&str]) -> Vec<String> {
    let profile = splatt().write();
    let ran = profile.run(&[&["app.mpisee", "--format", "csv"], arguments].concat());
    ran.exits(0);
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let records = reader.records().map(Result::unwrap);
    records.map(|record| format!("{} {}", &record[0], record[5].trim_start_matches("MPI_"))).collect()
}

#[test]
fn the_busiest_communicator_comes_first() {
    let profile = splatt().write();
    profile.run(&["summary", "app.mpisee"]).golden("summary-busiest");
}

#[test]
fn without_a_command_a_profile_is_summarised() {
    let profile = splatt().write();
    let summary = profile.run(&["summary", "app.mpisee", "--sort", "name"]);
    profile.run(&["--sort", "name", "app.mpisee"]).prints(&summary.stdout);
}

#[test]
fn the_left_out_are_counted() {
    let profile = splatt().write();
    profile.run(&["app.mpisee", "--top", "2"]).golden("summary-left-out");
    profile.run(&["app.mpisee", "--all"]).golden("summary-all");
}

#[test]
fn ten_communicators_are_shown_unless_asked_otherwise() {
    let mut builder = Builder::new(2);
    for n in 1..=12 {
        let comm = format!("W_d{n}");
        builder = builder.comm(&comm, "W", "MPI_Comm_dup", "0-1", |_| {}).call(
            &comm,
            0,
            "MPI_Barrier",
            1,
            0,
            1.0 / f64::from(n),
        );
    }
    let profile = builder.write();
    let ran = profile.run(&["app.mpisee"]);
    assert_eq!(ran.exits(0).stdout.matches("\nW_d").count(), 10, "{}", ran.stdout);
    let closing = "2 more communicators are left out, with 174 ms over all ranks (5.6 % of MPI);";
    assert!(ran.stdout.contains(closing), "{}", ran.stdout);
    let lines = |arguments: &[&str]| profile.run(arguments).exits(0).stdout.lines().count();
    assert_eq!(lines(&["app.mpisee", "--format", "csv"]), 1 + 12);
    assert_eq!(lines(&["app.mpisee", "--format", "csv", "--top", "3"]), 1 + 3);
}

#[test]
fn shares_are_of_the_mpi_time_of_all_ranks() {
    let profile = splatt().write();
    let shares = |arguments: &[&str]| -> Vec<String> {
        let ran = profile.run(&[&["app.mpisee", "--format", "csv"], arguments].concat());
        let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        reader.records().map(|row| row.unwrap()[14].to_owned()).collect()
    };
    // Of 15.877 s, also where other operations are filtered out; of 1.50025 s of rank 1.
    assert_eq!(shares(&["--call", "Alltoallv"]), ["0.724318196"]);
    assert_eq!(shares(&["--call", "Send", "--ranks", "1"]), ["0.083319447"]);
    let all: f64 = shares(&[]).iter().map(|share| share.parse::<f64>().unwrap()).sum();
    assert!((all - 1.0).abs() < 1e-6, "{all}");
}

#[test]
fn csv_has_a_row_per_communicator_and_operation() {
    let profile = splatt().write();
    profile
        .run(&["app.mpisee", "--format", "csv", "--comm", "W*", "--call", "*cv", "--call", "Bcast"])
        .prints(
            "\
comm,size,members,label,ranks,call,mean_s,min_s,max_s,time_s,bytes,calls,max_rank,count,share_of_mpi
W_a1_s2.0,4,\"0,2,4,6\",rows,4,MPI_Bcast,0.375000000,0.000000000,0.500000000,1.500000000,606,6,0,1,0.094476286
W,8,0-7,,8,MPI_Recv,0.093750000,0.000000000,0.750000000,0.750000000,404,4,5,1,0.047238143
",
        );
}

#[test]
fn json_has_the_run_and_units_in_its_names() {
    let profile = splatt().write();
    let ran = profile.run(&["app.mpisee", "--format", "json", "--top", "3"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let expected_run = serde_json::json!({
        "profile": "app.mpisee", "command": ["./splatt", "cpd", "my tensor.tns"], "mpisee_version": "0.1.0",
        "mpi_library": "Open MPI v5.0.3", "mpi_flavour": "openmpi-5", "mpi_thread_level": "funneled",
        "ranks": 8, "nodes": 2, "job": null, "gpus": null, "start": "2025-06-01T12:00:00Z", "end": "2025-06-01T12:00:10Z",
        "clock": "tsc", "wall_mean_s": 10.3125, "wall_max_s": 12.5, "mpi_mean_s": 1.984625, "mpi_s": 15.877, "mpi_share_of_wall": 0.192_448_485, "mpi_share_of_run": 0.158_77,
        "no_core": null, "profiler_mean_s": 0.0, "profiler_mean_range_s": null, "profiler_sampled_calls": 0,
        "profiler_init_s": 0.0, "profiler_finalize_s": null,
        "profiler_share_of_wall": 0.0, "profiler_call_ns": 0.0,
        "folded": false, "complete": true, "incomplete_because": null, "ended_in": [], "recording_was_off": false, "names_agree": null, "not_seen_calls": {},
        "notes": [],
    });
    assert_eq!(document["run"], expected_run);
    let expected_comm = serde_json::json!({
        "comm": "W_a1_s2.0", "size": 4, "count": 1, "members": "0,2,4,6", "label": "rows", "ranks": 4, "mean_s": 0.375,
        "min_s": 0.0, "max_s": 0.5, "time_s": 1.5, "share_of_mpi": 0.094_476_286, "bytes": 606, "calls": 6, "max_rank": 0,
        "operations": [{
            "call": "MPI_Bcast", "mean_s": 0.375, "min_s": 0.0, "max_s": 0.5, "time_s": 1.5,
            "share_of_mpi": 0.094_476_286, "bytes": 606, "calls": 6, "max_rank": 0,
        }],
    });
    assert_eq!(document["communicators"][2], expected_comm);
    assert_eq!(document["communicators"].as_array().unwrap().len(), 3);
    assert_eq!(document["communicators_left_out"], 1);
    assert_eq!(document["partial_because"], serde_json::Value::Null);
}

#[test]
fn filters_choose_rows() {
    assert_eq!(chosen(&["--comm", "W_a1*"]), ["W_a1 Alltoallv", "W_a1_s2.0 Bcast"]);
    assert_eq!(chosen(&["--comm", "ro?s"]), ["W_a1_s2.0 Bcast"], "by label");
    assert_eq!(chosen(&["--kind", "p2p"]), ["W Recv", "W Send"]);
    let kinds = ["S Comm_dup", "W Recv", "W Send"];
    assert_eq!(chosen(&["--kind", "p2p,communicator", "--sort", "name"]), kinds);
    assert_eq!(chosen(&["--call", "MPI_Send", "--call", "B*"]), ["W_a1_s2.0 Bcast", "W Send"]);
    assert_eq!(chosen(&["--ranks", "6-7", "--comm", "W_*"]), ["W_a1 Alltoallv"]);
    assert_eq!(chosen(&["--size", "1k-"]), ["W_a1 Alltoallv"]);
    assert_eq!(chosen(&["--size", "100-127"]), ["W_a1_s2.0 Bcast", "W Recv", "W Send"]);
    assert_eq!(chosen(&["--size", "-8"]), ["W Allreduce", "S Comm_dup"]);
    assert_eq!(chosen(&["--time-min", "750ms"]), ["W_a1 Alltoallv", "W Recv"]);
    assert_eq!(chosen(&["--time-max", "125ms"]), ["W Send", "S Comm_dup"]);
}

#[test]
fn chosen_ranks_are_those_that_the_mean_is_over() {
    let profile = splatt().write();
    profile
        .run(&["app.mpisee", "--comm", "W", "--call", "Send", "--ranks", "1-2", "--format", "csv"])
        .prints(
            "\
comm,size,members,label,ranks,call,mean_s,min_s,max_s,time_s,bytes,calls,max_rank,count,share_of_mpi
W,8,0-7,,2,MPI_Send,0.062500000,0.000000000,0.125000000,0.125000000,404,4,1,1,0.035709184
",
        );
}

#[test]
fn regions_and_memory_are_chosen() {
    let profile = Builder::new(1)
        .call_with("W", 0, "MPI_Send", 1, 101, 0.5, |row| row.region = "solver/halo".to_owned())
        .call_with("W", 0, "MPI_Recv", 1, 103, 0.25, |row| row.memory = Memory::Device)
        .write();
    let calls = |arguments: &[&str]| {
        let ran = profile.run(&[&["app.mpisee", "--format", "csv"], arguments].concat());
        ran.exits(0);
        (ran.stdout.contains("MPI_Send"), ran.stdout.contains("MPI_Recv"))
    };
    assert_eq!(calls(&["--region", "solver/*"]), (true, false));
    assert_eq!(calls(&["--region", ""]), (false, true));
    assert_eq!(calls(&["--memory", "device,managed"]), (false, true));
    assert_eq!(calls(&["--memory", "host"]), (true, false));
}

#[test]
fn rows_are_sorted_as_asked() {
    let by = |key| chosen(&["--sort", key, "--comm", "W*"]);
    let first = |key| by(key)[0].clone();
    assert_eq!(first("time"), "W_a1 Alltoallv");
    assert_eq!(by("volume"), ["W_a1 Alltoallv", "W Allreduce", "W Recv", "W Send", "W_a1_s2.0 Bcast"]);
    assert_eq!(by("calls"), ["W Allreduce", "W Recv", "W Send", "W_a1 Alltoallv", "W_a1_s2.0 Bcast"]);
    assert_eq!(by("name"), ["W Allreduce", "W Recv", "W Send", "W_a1 Alltoallv", "W_a1_s2.0 Bcast"]);
    assert_eq!(by("size"), ["W_a1 Alltoallv", "W Allreduce", "W Recv", "W Send", "W_a1_s2.0 Bcast"]);
}

#[test]
fn nothing_left_is_said_in_one_sentence() {
    let profile = splatt().write();
    profile
        .run(&["app.mpisee", "--comm", "X*"])
        .fails_with(&["no operation matches --comm X*; the profile has operations on "]);
    let empty = Builder::new(2).write().run(&["app.mpisee"]);
    assert!(empty.exits(0).stdout.ends_with("\nThe profile has no operations.\n"), "{}", empty.stdout);
}

#[test]
fn limits_of_the_numbers_are_stated() {
    let profile = splatt()
        .with(|profile| {
            profile.run.complete = false;
            profile.run.incomplete_because = Some("rank 3 was killed".to_owned());
            profile.run.recording_was_off = true;
            profile.run.not_seen.insert("calls whose recording failed".to_owned(), 2);
            profile.run.not_seen.insert("calls by ending threads".to_owned(), 0);
            profile.run.notes.push("The clock of node1 was stepped.".to_owned());
        })
        .write();
    profile.run(&["app.mpisee", "--top", "1", "--comm", "W_a1"]).golden("summary-notes");
}

#[test]
fn a_communicator_without_a_row_is_shown_nevertheless() {
    let profile = Builder::new(2).call("W_d1", 1, "MPI_Barrier", 1, 0, 0.5).write();
    profile.run(&["app.mpisee"]).golden("summary-without-row");
}

#[test]
fn a_table_that_breaks_off_is_shown_as_far_as_it_goes() {
    let profile = splatt().write();
    let path = profile.directory.join("calls.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    // Within the row of MPI_Recv, the last but one.
    std::fs::write(&path, &text[..text.rfind("MPI_Recv").unwrap()]).unwrap();
    let ran = profile.run(&["app.mpisee", "--comm", "W", "--call", "Send"]);
    ran.exits(2);
    ran.says(&["app.mpisee/calls.csv', line 30: the row has no end; the file may be cut off"]);
    assert!(
        ran.stdout.contains(
            "\nPartial    only the rows before an error are shown: 'app.mpisee/calls.csv', line 30"
        ),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("MPI_Send"), "{}", ran.stdout);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut builder = Builder::new(2);
    // More than a pipe holds, so that writing fails for sure.
    for n in 0..2000 {
        let comm = format!("W_d{n}");
        builder = builder.comm(&comm, "W", "MPI_Comm_dup", "0-1", |_| {}).call(
            &comm,
            0,
            "MPI_Barrier",
            1,
            0,
            0.001,
        );
    }
    let profile = builder.write();
    let mut command = profile.command(&["app.mpisee", "--all"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 7];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(first, *b"Command");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}

#[test]
fn the_result_goes_into_the_file_that_is_named() {
    let profile = splatt().write();
    profile.run(&["app.mpisee", "-o", "out.txt"]).prints("");
    let written = std::fs::read_to_string(profile.beside().join("out.txt")).unwrap();
    assert!(written.starts_with("Command    ./splatt"), "{written}");
    profile.run(&["app.mpisee", "-o", "-"]).prints(&written);
    profile.run(&["app.mpisee", "-o", "no/such/out.txt"]).fails_with(&["cannot write 'no/such/out.txt'"]);
}

#[test]
fn the_profilers_own_overhead_is_among_the_first_lines() {
    let mut builder = splatt();
    builder.run.profiler = ProfilerInfo {
        call_ns: 16.6,
        init_s: 0.0002,
        finalize_s: Some(0.0125),
        time_s: 0.04,
        low_s: 0.032,
        high_s: 0.048,
        sampled_calls: 1234,
        share_of_wall: 0.000_532,
        collected: "tree".to_owned(),
    };
    let measured = "\nProfiler   4.00 ms to 6.00 ms (mean over ranks), about 0.05 % of wall time\n           MPI_Init 200 µs, \
                    MPI_Finalize 12.5 ms longer\n";
    let ran = builder.write().run(&["app.mpisee"]);
    assert!(ran.exits(0).stdout.contains(measured), "{}", ran.stdout);
    builder.run.profiler.sampled_calls = 0;
    builder.run.profiler.finalize_s = None;
    let calibrated =
        "\nProfiler   5.00 ms (mean over ranks), 0.05 % of wall time\n           MPI_Init 200 µs longer\n";
    let ran = builder.write().run(&["app.mpisee"]);
    assert!(ran.exits(0).stdout.contains(calibrated), "{}", ran.stdout);
}

#[test]
fn the_rank_that_pays_for_the_profiler_is_named() {
    let mut builder = splatt();
    for row in &mut builder.ranks {
        row.profiler_s.0 = if row.rank == 3 { 2.5 } else { 0.125 };
    }
    builder.run.profiler = ProfilerInfo {
        call_ns: 16.6,
        time_s: 3.375,
        low_s: 3.0,
        high_s: 4.0,
        sampled_calls: 1234,
        ..Default::default()
    };
    builder.run.profiler.share_of_wall = 0.042;
    builder.run.recording_was_off = true;
    let ran = builder.write().run(&["app.mpisee", "--width", "200"]);
    let expected = "\nProfiler   375 ms to 500 ms (mean over ranks), about 4.20 % of wall time; most on rank \
                    3: about 2.50 s, 20 % of its wall time; without calls while recording was off\n";
    assert!(ran.exits(0).stdout.contains(expected), "{}", ran.stdout);
    // Of ranks that share cores, the time without one is nobody's.
    for row in &mut builder.ranks {
        row.cpu_wait_s = Some(Seconds(row.wall_s.0 / 2.0));
        row.cpus_allowed = "0-1".parse().unwrap();
    }
    let ran = builder.write().run(&["app.mpisee", "--width", "200"]);
    let expected = "about 4.20 % of wall time and 8.18 % of the time with a core; most on rank 3";
    assert!(ran.exits(0).stdout.contains(expected), "{}", ran.stdout);
}

#[test]
fn the_job_of_a_batch_system_is_among_the_first_lines() {
    let mut builder = splatt();
    builder.run.job = Some("Slurm 61_4.0".to_owned());
    let ran = builder.write().run(&["app.mpisee"]);
    let lines: Vec<&str> = ran.stdout.lines().skip(2).take(3).collect();
    assert_eq!(
        lines,
        ["Ranks      8 on 2 nodes", "Job        Slurm 61_4.0", "Start      2025-06-01T12:00:00Z"]
    );
}

#[test]
fn ranks_that_the_profile_lacks_are_not_counted() {
    let places = |lacking: usize| {
        let profile = Builder::new(4).with(|profile| {
            profile.run.complete = false;
            profile.run.profiler.time_s = 0.004;
            profile.run.profiler.call_ns = 100.0;
            profile.ranks.drain(..lacking);
        });
        let ran = profile.write().run(&["summary", "app.mpisee"]);
        let lines = ["Ranks ", "Profiler"].map(|head| {
            ran.exits(0).stdout.lines().find(|line| line.starts_with(head)).unwrap_or_default().to_owned()
        });
        let [ranks, profiler] = lines;
        (ranks, profiler.split_once(" (").map(|(time, _)| time.to_owned()))
    };
    let mean = |time: &str| Some(format!("Profiler   {time}"));
    assert_eq!(places(3), ("Ranks      1 of 4 on 1 node".to_owned(), mean("4.00 ms")));
    assert_eq!(places(0), ("Ranks      4 on 1 node".to_owned(), mean("1.00 ms")));
}

#[test]
fn runs_without_an_end_say_that_lack_of_cores_is_unknown() {
    let ended = |cpus: &str| {
        Builder::new(4).with(|profile| {
            profile.run.complete = false;
            profile.run.profiler.collected = "recover".to_owned();
            for row in &mut profile.ranks {
                row.host = "n1".to_owned();
                row.cpus_allowed = cpus.parse().unwrap();
                row.cpu_wait_s = None;
            }
        })
    };
    let said = |cpus: &str, command: &str, format: &str| {
        let ran = ended(cpus).write().run(&[command, "app.mpisee", "--format", format]);
        ran.exits(0).stdout.replace('\n', " ")
    };
    for (command, format) in
        [("summary", "table"), ("summary", "json"), ("efficiency", "table"), ("efficiency", "json")]
    {
        let crowded = said("0-1", command, format);
        assert!(crowded.contains("The time without a core is unknown"), "{crowded}");
        assert!(crowded.contains("On n1 4 ranks may use 2 cores."), "{crowded}");
        assert!(!said("0-3", command, format).contains("may use"));
    }
}
