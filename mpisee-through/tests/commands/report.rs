//! `mpisee-through report`: its numbers are those of the commands, and the page is one file.

mod gpus;
pub mod over_time;
pub mod page;
mod places;
mod several;

use crate::order::ordered;
use crate::support::{Builder, Written, pools, splatt};
use base64::Engine;
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, Seconds};
use mpisee_profile::run::{BlockedRank, EndedDeadlock};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// The page of the profile.
pub fn page_of(profile: &Written) -> String {
    profile.run(&["report", "app.mpisee", "-o", "-"]).exits(0).stdout.clone()
}

/// The data in the page.
pub fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("<script id=\"data\" type=\"text/plain\">").unwrap();
    let (encoded, _) = rest.split_once("</script>").unwrap();
    let compressed = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn json_of(profile: &Written, arguments: &[&str]) -> Value {
    let ran = profile.run(&[arguments, &["app.mpisee", "--format", "json"]].concat());
    serde_json::from_str(&ran.exits(0).stdout).unwrap()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// The value at a place of a column.
fn at<'v>(table: &'v Value, column: &str, row: usize) -> &'v Value {
    &table[column][row]
}

fn index(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

/// Sums in a profile with a parent, a family of two and messages, regions and arrivals.
fn full() -> Builder {
    let mut builder = pools().messages("W_s1.0", 0, 1, 7, 7_007).messages("W_s1.0_s5.0", 1, 0, 3, 300);
    for number in 0..40u64 {
        for rank in 0..8u32 {
            let begin_s = 100.0 + number as f64;
            let late_s = if rank == 5 { 0.002 } else { 0.000_01 * f64::from(rank) };
            builder.arrivals.push(ArrivalRow {
                comm: "W".to_owned(),
                call: "MPI_Barrier".to_owned(),
                instance: number,
                rank,
                arrival_s: Seconds(begin_s + late_s),
                departure_s: Seconds(begin_s + 0.002_1),
                root: None,
                started_s: None,
                completed: None,
            });
        }
    }
    for rank in 0..8u32 {
        let late_s = if rank == 5 { 0.002 } else { 0.000_01 * f64::from(rank) };
        builder.collectives.push(CollectiveRow {
            comm: "W".to_owned(),
            call: "MPI_Barrier".to_owned(),
            rank,
            instances: 40,
            sampled: 40,
            mean_arrival_s: Seconds(119.5 + late_s),
            mean_departure_s: Seconds(119.502_1),
        });
        let barrier = builder.calls.iter_mut().find(|row| row.rank == rank && row.call == "MPI_Barrier");
        let barrier = barrier.unwrap();
        barrier.calls = 40;
        barrier.time_s = Seconds(40.0 * (0.002_1 - late_s));
    }
    builder
}

#[test]
fn operations_are_those_of_the_summary() {
    for profile in [full().write(), splatt().write()] {
        let data = data_of(&page_of(&profile));
        let summary = json_of(&profile, &["summary", "--families"]);
        assert_eq!(data["run"], summary["run"]);
        let operations = &data["operations"];
        let mut found = 0;
        for comm in list(&summary["communicators"]) {
            let is_it = |other: &&Value| other["name"] == comm["comm"];
            let same = list(&data["comms"]).iter().find(is_it).unwrap();
            let sums = ["mean_s", "min_s", "max_s", "max_rank", "time_s", "bytes", "calls", "ranks"];
            sums.iter().for_each(|sum| assert_eq!(same[sum], comm[sum], "{} {sum}", comm["comm"]));
            for operation in list(&comm["operations"]) {
                let row = (0..list(&operations["comm"]).len()).find(|&row| {
                    data["comms"][index(at(operations, "comm", row))]["name"] == comm["comm"]
                        && data["calls"][index(at(operations, "call", row))][0] == operation["call"]
                });
                let row = row.unwrap_or_else(|| panic!("{} is missing", operation["call"]));
                for sum in &sums[..7] {
                    assert_eq!(*at(operations, sum, row), operation[sum], "{} {sum}", operation["call"]);
                }
                found += 1;
            }
        }
        assert_eq!(found, list(&operations["comm"]).len(), "no row more");
    }
}

/// Adds up a column by other columns.
fn summed(
    table: &Value,
    column: &str,
    takes: impl Fn(usize) -> bool,
    key: impl Fn(usize) -> String,
) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for (row, value) in list(&table[column]).iter().enumerate().filter(|(row, _)| takes(*row)) {
        *sums.entry(key(row)).or_insert(0.0) += value.as_f64().unwrap();
    }
    sums
}

fn rows_by(rows: &Value, column: &str, key: impl Fn(&Value) -> String) -> BTreeMap<String, f64> {
    list(rows).iter().map(|row| (key(row), row[column].as_f64().unwrap())).collect()
}

#[track_caller]
fn assert_same(one: &BTreeMap<String, f64>, other: &BTreeMap<String, f64>) {
    assert!(!one.is_empty());
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (key, value) in one {
        assert!((value - other[key]).abs() <= 2e-9 * value.abs().max(1.0), "{key}: {value}, {}", other[key]);
    }
}

/// Returns whether the row's communicator is this family or one below it.
fn is_below(data: &Value, comm: usize, name: &str) -> bool {
    let comm = &data["comms"][comm];
    comm["name"] == name
        || comm["parent"].as_u64().is_some_and(|parent| is_below(data, parent as usize, name))
}

#[test]
fn a_filter_leaves_what_the_commands_leave() {
    let profile = full().write();
    let data = data_of(&page_of(&profile));
    for (name, filter) in [("W", vec![]), ("W_s1.*", vec!["--comm", "W_s1.*"])] {
        let call = |table: &Value, row: usize| data["calls"][index(at(table, "call", row))][0].to_string();
        let takes = |table: &Value, row: usize| is_below(&data, index(at(table, "comm", row)), name);
        let of = |row: &Value| row["call"].to_string();
        let ops = json_of(&profile, &[&["ops"], &filter[..]].concat());
        let operations = &data["operations"];
        for sum in ["bytes", "calls"] {
            let mine = summed(operations, sum, |row| takes(operations, row), |row| call(operations, row));
            assert_same(&mine, &rows_by(&ops["operations"], sum, of));
        }
        let sizes = &data["sizes"];
        let all = json_of(&profile, &[&["sizes"], &filter[..]].concat());
        for sum in ["bytes", "calls", "time_s"] {
            let key = |row: usize| format!("{} {}", call(sizes, row), at(sizes, "size_min", row));
            let mine = summed(sizes, sum, |row| takes(sizes, row), key);
            let key = |row: &Value| format!("{} {}", row["call"], row["size_min"]);
            assert_same(&mine, &rows_by(&all["sizes"], sum, key));
        }
        let times = &data["rank_times"];
        let mine =
            summed(times, "time_s", |row| takes(times, row), |row| at(times, "field", row).to_string());
        let ranks = json_of(&profile, &[&["ranks"], &filter[..]].concat());
        assert_same(&mine, &rows_by(&ranks["ranks"], "mpi_s", |row| row["rank"].to_string()));
        let regions = &data["region_times"];
        let mine = summed(regions, "time_s", |row| takes(regions, row), |_| "all".to_owned());
        let outside = &json_of(&profile, &[&["regions"], &filter[..]].concat())["regions"];
        let outside = list(outside).iter().find(|region| region["region"] == "").unwrap();
        let mean_s = outside["mpi_mean_s"].as_f64().unwrap();
        assert_same(&mine, &BTreeMap::from([("all".to_owned(), 8.0 * mean_s)]));
    }
}

#[test]
fn traffic_is_that_of_the_matrix() {
    for profile in [full().write(), splatt().write()] {
        let data = data_of(&page_of(&profile));
        let pair = |table: &Value, row: usize| format!("{} {}", at(table, "from", row), at(table, "to", row));
        let of = |row: &Value| {
            format!("{} {}", row["from"].as_str().unwrap_or("?"), row["to"].as_str().unwrap_or("?"))
        };
        let messages = &data["messages"];
        let matrix = json_of(&profile, &["matrix"]);
        for sum in ["messages", "bytes"] {
            let mine = summed(messages, sum, |_| true, |row| pair(messages, row));
            assert_same(&mine, &rows_by(&matrix["pairs"], sum, of));
        }
        let both = json_of(&profile, &["matrix", "--collectives"]);
        let collectives = &data["collectives"]["pairs"];
        let mine = summed(collectives, "bytes", |_| true, |row| pair(collectives, row));
        let mut theirs = rows_by(&both["pairs"], "collective_bytes", of);
        theirs.retain(|_, bytes| *bytes > 0.0);
        assert_same(&mine, &theirs);
        assert_eq!(data["collectives"]["left_out_bytes"], both["left_out_collective_bytes"]);
    }
}

#[test]
fn waits_are_those_of_the_command() {
    let profile = full().write();
    let data = data_of(&page_of(&profile));
    let waits = json_of(&profile, &["waits"]);
    let ranks = &data["waits"]["ranks"];
    for sum in ["caused_s", "suffered_s"] {
        let mine = summed(ranks, sum, |_| true, |row| at(ranks, "field", row).to_string());
        assert_same(&mine, &rows_by(&waits["waits"], sum, |row| row["rank"].to_string()));
    }
    let operations = &data["waits"]["operations"];
    let waiting_s = list(&waits["communicators"])[0]["waiting_s"].as_f64().unwrap();
    assert!(waiting_s > 0.5 && (operations["waiting_s"][0].as_f64().unwrap() - waiting_s).abs() < 2e-9);
    let pairs = &data["waits"]["pairs"];
    let by_cause = summed(pairs, "time_s", |_| true, |row| at(pairs, "cause", row).to_string());
    let caused = rows_by(&waits["waits"], "caused_s", |row| row["rank"].to_string());
    assert!(by_cause["5"] > 0.5 && (by_cause["5"] - caused["5"]).abs() < 1e-6, "{by_cause:?} {caused:?}");
}

#[test]
fn tables_are_the_answers_of_commands() {
    for profile in [full().write(), splatt().write(), ordered()] {
        let data = data_of(&page_of(&profile));
        let has_order = data["tables"].get("order").is_some();
        assert_eq!(has_order, profile.beside().join("app.mpisee/order.csv").exists());
        let order = has_order.then_some(("order", "order"));
        let lists = [
            ("ranks", "ranks"),
            ("regions", "regions"),
            ("locality", "communicators"),
            ("efficiency", "efficiency"),
        ];
        for (command, name) in lists.into_iter().chain(order) {
            let answer = json_of(&profile, &[command]);
            assert_eq!(rows_of(&data["tables"][command]), *list(&answer[name]), "{command}");
        }
        let advice = json_of(&profile, &["advise"]);
        assert_eq!(data["advice"]["verdict"], advice["verdict"]);
        assert_eq!(data["advice"]["caveats"], advice["caveats"]);
        assert_eq!(rows_of(&data["advice"]["findings"]), *list(&advice["findings"]));
    }
}

/// The rows of a table of the report, as JSON of commands has them.
fn rows_of(table: &Value) -> Vec<Value> {
    let columns = list(&table["columns"]);
    let row = |row: usize| {
        let cells = list(&table["names"]).iter().zip(columns);
        Value::Object(
            cells.map(|(name, cells)| (name.as_str().unwrap().to_owned(), cells[row].clone())).collect(),
        )
    };
    (0..columns.first().map_or(0, |first| list(first).len())).map(row).collect()
}

#[test]
fn each_finding_leads_to_a_chart() {
    let profile = full().write();
    let page = page_of(&profile);
    let data = data_of(&page);
    let charts = list(&data["advice"]["charts"]);
    assert!(!charts.is_empty() && charts.len() == rows_of(&data["advice"]["findings"]).len());
    for chart in charts {
        let made = format!("id:\"{}\"", chart.as_str().unwrap());
        assert!(page.contains(&made), "the script has no chart {chart}");
    }
}

#[test]
fn a_deadlock_is_the_first_finding_of_the_report() {
    let blocked = |rank: u32| BlockedRank { rank, call: "MPI_Recv".to_owned(), ..BlockedRank::default() };
    let builder = Builder::new(2).with(|profile| {
        profile.run.complete = false;
        let cycle = vec![blocked(0), blocked(1)];
        profile.run.deadlocks = vec![EndedDeadlock { cycle, behind: String::new() }];
    });
    let text = data_of(&page_of(&builder.write())).to_string();
    let sentence =
        "Deadlock: ranks 0 -> 1 -> 0 waited for each other: rank 0 in MPI_Recv; rank 1 in MPI_Recv.";
    assert!(text.contains(sentence), "{text}");
}
