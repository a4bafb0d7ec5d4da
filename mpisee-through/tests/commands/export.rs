//! Profiles in the formats of other tools.

use crate::support::{Written, splatt};
use mpisee_profile::rows::{CallRow, RankRow, Row, TABLES};
use mpisee_profile::{FORMAT_VERSION, Profile};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::File;

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
    profile.run(&["export", "app.mpisee", "--graph", "ranks", "--dot", "-"]).golden("export-ranks.dot");
    profile
        .run(&["export", "app.mpisee", "--dot", "comms.dot"])
        .prints("comms.dot: 6 communicators, 4 edges\n");
}

#[test]
fn what_is_asked_for_is_said_where_it_is_missing() {
    let profile = splatt().write();
    profile.run(&["export", "app.mpisee"]).fails_with(&["--parquet <DIR>", "required"]);
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
