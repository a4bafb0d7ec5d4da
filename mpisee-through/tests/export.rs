//! Profiles in the formats of other tools.

mod support;

use mpisee_profile::rows::{
    ArrivalRow, CallRow, CollectiveRow, MessageEnd, MessageRow, RankRow, Row, Seconds, StreamRow, TABLES,
};
use mpisee_profile::{FORMAT_VERSION, Profile};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use support::{Builder, Written, splatt};

fn parquet(profile: &Written, file: &str) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(profile.beside().join(file)).unwrap()).unwrap()
}

fn json(profile: &Written, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(profile.beside().join(file)).unwrap()).unwrap()
}

#[test]
fn parquet_has_every_row_with_its_type() {
    let profile = splatt().with(|profile| profile.ranks[2].involuntary_switches = Some(7)).write();
    let ran = profile.run(&["export", "app.mpisee", "--parquet", "tables"]);
    ran.prints("tables: 5 tables, 45 rows\n");
    let rows: Vec<CallRow> =
        Profile::open(&profile.directory).unwrap().rows().unwrap().map(Result::unwrap).collect();
    let place = |name: &str| CallRow::columns().iter().position(|column| *column == name).unwrap();
    let mut exported = 0;
    for (row, found) in rows.iter().zip(parquet(&profile, "tables/calls.parquet").get_row_iter(None).unwrap())
    {
        let found = found.unwrap();
        assert_eq!(found.get_string(place("comm")).unwrap(), &row.comm);
        assert_eq!(found.get_string(place("memory")).unwrap(), "host");
        assert_eq!(found.get_uint(place("rank")).unwrap(), row.rank);
        assert_eq!(found.get_ulong(place("bytes")).unwrap(), row.bytes);
        assert_eq!(found.get_double(place("time_s")).unwrap(), row.time_s.0);
        exported += 1;
    }
    assert_eq!(exported, rows.len());
    let switches = RankRow::columns().iter().position(|column| *column == "involuntary_switches").unwrap();
    let ranks = parquet(&profile, "tables/ranks.parquet");
    let known: Vec<Option<u64>> =
        ranks.get_row_iter(None).unwrap().map(|row| row.unwrap().get_ulong(switches).ok()).collect();
    assert_eq!(known, [None, None, Some(7), None, None, None, None, None], "unknown is null");
}

#[test]
fn parquet_describes_its_columns() {
    let profile = splatt().write();
    profile.run(&["export", "app.mpisee", "--parquet", "."]).exits(0);
    let file = parquet(&profile, "calls.parquet");
    let of_file = file.metadata().file_metadata().key_value_metadata().unwrap();
    let text = |key: &str| of_file.iter().find(|pair| pair.key == key).unwrap().value.clone().unwrap();
    let columns: Value = serde_json::from_str(&text("mpisee.columns")).unwrap();
    let table = TABLES.iter().find(|table| table.file == "calls.csv").unwrap();
    assert_eq!(columns.as_array().unwrap().len(), table.columns.len());
    for (described, column) in columns.as_array().unwrap().iter().zip(table.columns) {
        assert_eq!(described["name"], column.name);
        assert_eq!(described["description"], column.description());
        assert_eq!(described["unit"].as_str(), column.unit());
    }
    let run: Value = serde_json::from_str(&text("mpisee.run")).unwrap();
    assert_eq!((&run["ranks"], text("mpisee.format_version")), (&Value::from(8), FORMAT_VERSION.to_string()));
}

#[test]
fn a_table_that_breaks_off_leaves_no_file() {
    let profile = splatt().write();
    profile.replace("calls.csv", "MPI_Bcast,", "MPI_Bcast,x");
    profile.run(&["export", "app.mpisee", "--parquet", "tables"]).fails_with(&[
        "calls.csv",
        "line",
        "size_min",
    ]);
    assert!(!profile.beside().join("tables/calls.parquet").exists());
}

#[test]
fn graphs_have_communicators_or_ranks() {
    let profile = splatt().write();
    profile.run(&["export", "app.mpisee", "--dot", "-"]).golden("export-comms.dot");
    profile
        .run(&["export", "app.mpisee", "--graph", "ranks", "--graphml", "-"])
        .golden("export-ranks.graphml");
    profile
        .run(&["export", "app.mpisee", "--graphml", "comms.graphml"])
        .prints("comms.graphml: 6 communicators, 4 edges\n");
}

#[test]
fn what_is_asked_for_is_said_where_it_is_missing() {
    let profile = splatt().write();
    profile.run(&["export", "app.mpisee"]).fails_with(&["--parquet <DIR>", "required"]);
    profile
        .run(&["export", "app.mpisee", "--perfetto", "t.json"])
        .fails_with(&["no samples", "arrivals.csv"]);
    profile
        .run(&["export", "app.mpisee", "--dot", "no/such.dot"])
        .fails_with(&["cannot write 'no/such.dot'"]);
    profile
        .run(&["export", "app.mpisee", "--dot", "-", "--hatchet", "-"])
        .fails_with(&["only one file can be standard output"]);
}

#[test]
fn a_folder_of_tables_has_those_of_one_profile() {
    let profile = splatt().write();
    let tables = profile.beside().join("tables");
    std::fs::create_dir(&tables).unwrap();
    std::fs::write(tables.join("gpu.parquet"), "of an older export").unwrap();
    std::fs::write(tables.join("notes.txt"), "mine").unwrap();
    profile.run(&["export", "app.mpisee", "--parquet", "tables"]).exits(0);
    assert!(tables.join("calls.parquet").exists() && tables.join("notes.txt").exists());
    assert!(!tables.join("gpu.parquet").exists(), "the profile has no such table");
}

/// Two ranks on two hosts, whose clocks differ by 100 s: an `MPI_Allreduce` in which rank 1 is late, and a message by `MPI_Isend` and
/// `MPI_Recv`, with barriers around them.
fn sampled() -> Written {
    sampled_with(3.1)
}

/// The same with a receive that is entered then; the message is sent at 3 s.
fn sampled_with(receives_s: f64) -> Written {
    let mut profile = Builder::new(2).with(|profile| {
        profile.run.nodes = 2;
        profile.ranks[1].host = "node1".to_owned();
    });
    let clock = |rank: u32, time_s: f64| Seconds(time_s + 50.0 + 100.0 * f64::from(rank));
    for rank in 0..2 {
        profile =
            profile.call("W", rank, "MPI_Barrier", 2, 0, 0.2).call("W", rank, "MPI_Allreduce", 1, 8, 0.5);
        let calls = [
            ("MPI_Barrier", 0, [1.0, 1.000_01]),
            ("MPI_Allreduce", 0, [[2.0, 2.4][rank as usize], 2.5]),
            ("MPI_Barrier", 1, [4.0, 4.000_01]),
        ];
        for (call, instance, [arrival_s, departure_s]) in calls {
            profile.arrivals.push(ArrivalRow {
                comm: "W".to_owned(),
                call: call.to_owned(),
                instance,
                rank,
                root: None,
                arrival_s: clock(rank, arrival_s),
                departure_s: clock(rank, departure_s),
                started_s: None,
                completed: None,
            });
        }
        for (call, instances) in [("MPI_Barrier", 2), ("MPI_Allreduce", 1)] {
            profile.collectives.push(CollectiveRow {
                comm: "W".to_owned(),
                call: call.to_owned(),
                rank,
                instances,
                sampled: instances,
                mean_arrival_s: clock(rank, 2.0),
                mean_departure_s: clock(rank, 2.5),
            });
        }
        let (end, started_s, arrival_s, call) = [
            (MessageEnd::Sent, 3.0, 3.2, "MPI_Waitall"),
            (MessageEnd::Received, receives_s, receives_s, "MPI_Recv"),
        ][rank as usize];
        profile.messages.push(MessageRow {
            comm: "W".to_owned(),
            rank,
            peer: 1 - rank,
            end,
            tag: 5,
            message: 0,
            bytes: 4096,
            started_s: clock(rank, started_s),
            arrival_s: Some(clock(rank, arrival_s)),
            departure_s: Some(clock(rank, 3.3)),
            call: call.to_owned(),
            completed: 1,
        });
        profile.streams.push(StreamRow {
            comm: "W".to_owned(),
            rank,
            peer: 1 - rank,
            end,
            tag: 5,
            messages: 1,
            sampled: 1,
            recorded: Some(1),
            ordered: 1,
        });
    }
    profile.write()
}

/// The trace event format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
#[test]
fn the_time_line_is_one_of_trace_events() {
    let profile = sampled();
    profile
        .run(&["export", "app.mpisee", "--perfetto", "trace.json"])
        .prints("trace.json: 8 calls and 1 message, a sample\n");
    let trace = json(&profile, "trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    assert_eq!(events.len(), of("X").len() + of("M").len() + of("s").len() + of("f").len());
    let number =
        |event: &Value, name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{name}: {event}"));
    let track = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    let named: HashMap<(u64, u64), String> = of("M")
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (track(event), event["args"]["name"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(named[&(1, 1)], "rank 0");
    assert_eq!(named[&(2, 2)], "rank 1");
    for event in of("X") {
        assert!(number(event, "ts") >= 0.0 && number(event, "dur") >= 0.0, "{event}");
        assert!(named.contains_key(&track(event)) && event["name"].is_string() && event["cat"].is_string());
    }
    // Slices of a track lie one after the other.
    for &at in named.keys() {
        let mut spans: Vec<(f64, f64)> = of("X")
            .iter()
            .filter(|event| track(event) == at)
            .map(|event| (number(event, "ts"), number(event, "ts") + number(event, "dur")))
            .collect();
        spans.sort_by(|one, other| one.partial_cmp(other).unwrap());
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    }
    // An arrow begins and ends in a slice of its track.
    let (sent, received) = (of("s"), of("f"));
    assert_eq!((sent.len(), received.len()), (1, 1));
    assert_eq!(sent[0]["id"], received[0]["id"]);
    assert!(number(sent[0], "ts") < number(received[0], "ts"), "{} {}", sent[0], received[0]);
    for (arrow, name) in [(sent[0], "starts a send"), (received[0], "MPI_Recv")] {
        let is_in = |event: &&&Value| {
            let from = number(event, "ts");
            track(event) == track(arrow)
                && (from..=from + number(event, "dur")).contains(&number(arrow, "ts"))
        };
        let slices = of("X");
        let slice: Vec<&str> =
            slices.iter().filter(is_in).map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(slice, [name]);
    }
    // The clocks are joined: who was late is seen on the time line.
    let of_ranks: Vec<f64> = of("X")
        .iter()
        .filter(|event| event["name"] == "MPI_Allreduce")
        .map(|event| number(event, "ts"))
        .collect();
    assert!((of_ranks[1] - of_ranks[0] - 400_000.0).abs() < 30.0, "{of_ranks:?}");
    assert!(trace["otherData"]["note"].as_str().unwrap().contains("joined by the program's own calls"));
}

#[test]
fn an_arrow_to_a_receiver_that_waits_does_not_go_back_in_time() {
    let profile = sampled_with(2.7);
    profile.run(&["export", "app.mpisee", "--perfetto", "trace.json"]).exits(0);
    let trace = json(&profile, "trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let number = |event: &Value, name: &str| event[name].as_f64().unwrap();
    let of = |phase: &str| events.iter().find(|event| event["ph"] == phase).unwrap();
    let (sent, received) = (number(of("s"), "ts"), number(of("f"), "ts"));
    let call = events.iter().find(|event| event["name"] == "MPI_Recv").unwrap();
    let (from, took) = (number(call, "ts"), number(call, "dur"));
    assert!(from + 200_000.0 < sent, "the receiver waits");
    assert!((sent..sent + 1.0).contains(&received) && received < from + took, "{sent} {received} {call}");
}

#[test]
fn the_tree_for_hatchet_adds_up_to_the_wall_time() {
    let profile = splatt().region("solve", 1, 2, 4.0, 0.0).region("solve/halo", 1, 2, 1.5, 0.0).write();
    profile.replace("calls.csv", "W,1,,MPI_Send", "W,1,solve/halo,MPI_Send");
    profile.replace("regions.csv", "1,solve,4.000000000,0.0", "1,solve,4.000000000,0.125");
    profile.replace("regions.csv", "1,solve/halo,1.500000000,0.0", "1,solve/halo,1.500000000,0.125");
    profile.run(&["export", "app.mpisee", "--hatchet", "app.json"]).exits(0);
    let document = json(&profile, "app.json");
    let nodes = document["nodes"].as_array().unwrap();
    let path = |mut at: usize| {
        let mut names = vec![nodes[at]["label"].as_str().unwrap()];
        while let Some(parent) = nodes[at]["parent"].as_u64() {
            assert!((parent as usize) < at, "parents come first");
            at = parent as usize;
            names.insert(0, nodes[at]["label"].as_str().unwrap());
        }
        names.join(" > ")
    };
    assert_eq!(
        document["columns"].as_array().unwrap().len(),
        document["column_metadata"].as_array().unwrap().len()
    );
    let mut times = HashMap::new();
    let (mut own_s, mut seen) = (HashMap::new(), HashSet::new());
    for (at, row) in document["data"].as_array().unwrap().iter().enumerate() {
        let (node, rank) = (row[6].as_u64().unwrap() as usize, row[1].as_u64().unwrap());
        if at < nodes.len() {
            assert_eq!(row[0].as_u64(), Some(at as u64), "row k has the order of node k");
        }
        assert!(seen.insert((node, rank)), "one row for a node and a rank");
        times.insert((path(node), rank), row[3].as_f64().unwrap());
        *own_s.entry(rank).or_insert(0.0) += row[2].as_f64().unwrap();
    }
    let ranks: Vec<RankRow> =
        Profile::open(&profile.directory).unwrap().rows().unwrap().map(Result::unwrap).collect();
    let is_close = |one: f64, other: f64| (one - other).abs() < 1e-6;
    for row in ranks {
        let (rank, wall_s) = (u64::from(row.rank), row.wall_s.0);
        assert!(is_close(times[&("splatt".to_owned(), rank)], wall_s), "rank {rank}");
        assert!(is_close(own_s[&rank], wall_s), "rank {rank}");
    }
    let time_s = |path: &str| times[&(path.to_owned(), 1)];
    assert!(is_close(time_s("splatt > solve"), 4.0));
    assert!(is_close(time_s("splatt > solve > halo"), 1.5));
    assert!(is_close(time_s("splatt > solve > halo > W > MPI_Send"), 0.125));
    assert!(is_close(time_s("splatt > W > W_a1 > MPI_Alltoallv"), 1.125));
}
