//! The chart over time: its numbers are those of `timeline`, and long runs do not make the page
//! large.

use super::{at, data_of, full, index, json_of, list, page_of, rows_of};
use crate::support::Written;
use crate::support::time_line::TimeLine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A profile with a time line of three phases: on the pools, outside of MPI, and on `W` with the
/// network at 40 % of its link.
pub fn with_time_line() -> Written {
    let profile = full().write();
    write_time_line(&profile);
    profile
}

/// The time line of [`with_time_line`], of this profile's run.
pub fn write_time_line(profile: &Written) {
    let mut line = TimeLine::new(30, 8);
    for second in 0..10 {
        line.rate(second, "W_s1.*@4", "MPI_Allreduce", 3_000_001 + u64::from(second), 4.0);
        line.rate(second, "W_s1.*@4", "MPI_Bcast", 1 << 20, 0.7);
        line.rate(second, "W_x9", "MPI_Barrier", 0, 0.1);
    }
    for second in 20..30 {
        line.rate(second, "W", "MPI_Sendrecv", 1 << 28, 2.0);
        line.node(second, ["network", "eth0", "sent_bytes"], 4e8);
        line.node(second, ["network", "lo", "sent_bytes"], 5e8);
        line.node(second, ["infiniband", "mlx5_0/1", "received_bytes"], 1e7);
    }
    line.write(profile);
}

fn floats(values: &Value) -> Vec<f64> {
    list(values).iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn numbers_are_those_of_the_time_line() {
    let profile = with_time_line();
    let data = data_of(&page_of(&profile));
    let over_time = &data["over_time"];
    let command = json_of(&profile, &["timeline"]);
    assert_eq!(rows_of(&over_time["phases"]), *list(&command["phases"]));
    let names: Vec<&str> = list(&command["phases"]).iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["MPI_Allreduce on W_s1.*@4", "outside of MPI", "MPI_Sendrecv on W"]);
    let bins = index(&over_time["bins"]);
    assert_eq!((bins, over_time["bin_s"].as_f64()), (30, Some(1.0)));
    let mut sums: BTreeMap<(String, usize), (f64, f64)> = BTreeMap::new();
    for row in list(&command["rates"]) {
        let bin = row["begin_s"].as_f64().unwrap().round() as usize;
        let sum = sums.entry((row["family"].as_str().unwrap().to_owned(), bin)).or_default();
        sum.0 += row["bytes_per_s"].as_f64().unwrap();
        sum.1 += row["time_share"].as_f64().unwrap();
    }
    for family in list(&over_time["families"]) {
        let name = family["name"].as_str().unwrap().to_owned();
        let values = floats(&family["bytes_per_s"]).into_iter().zip(floats(&family["time_share"]));
        for (bin, (bytes_per_s, share)) in values.enumerate() {
            let (bytes, time) = sums.remove(&(name.clone(), bin)).unwrap_or_default();
            assert!((bytes_per_s - bytes).abs() <= 0.5, "{name} {bin}: {bytes_per_s}, {bytes}");
            assert!((share - time).abs() < 2e-9, "{name} {bin}: {share}, {time}");
        }
    }
    assert!(sums.is_empty(), "left out: {sums:?}");
    let nodes = list(&command["nodes"]).iter().filter(|row| row["device"] != "lo");
    let total: f64 = nodes.map(|row| row["value"].as_f64().unwrap()).sum();
    let devices = list(&over_time["devices"]);
    let mine: f64 = devices.iter().flat_map(|device| floats(&device["bytes_per_s"])).sum();
    assert!(total > 4e9 && (total - mine).abs() < 30.0, "{total} {mine}");
    let brief = |device: &Value| (device["name"].clone(), device["link_bytes_per_s"].clone());
    let expected = [("eth0 sent".into(), 1e9.into()), ("mlx5_0/1 received".into(), Value::Null)];
    assert_eq!(devices.iter().map(brief).collect::<Vec<_>>(), expected);
}

#[test]
fn families_are_those_of_the_other_charts() {
    let data = data_of(&page_of(&with_time_line()));
    let families = list(&data["over_time"]["families"]);
    let name = |family: &Value| {
        let comm = family["comm"].as_u64()?;
        Some(at(&data, "comms", comm as usize)["name"].as_str().unwrap().to_owned())
    };
    let names: Vec<Option<String>> = families.iter().map(name).collect();
    assert_eq!(names, [Some("W_s1.*".to_owned()), Some("W".to_owned()), None], "{families:?}");
}

#[test]
fn a_run_without_agent_has_no_chart_and_a_broken_one_says_why() {
    let profile = full().write();
    let data = data_of(&page_of(&profile));
    assert!(data["over_time"].is_null() && data["missing"]["timeline"].is_null());
    write_time_line(&profile);
    std::fs::write(profile.beside().join("app.timeline/node0.json"), "{").unwrap();
    let data = data_of(&page_of(&profile));
    let why = data["missing"]["timeline"].as_str().unwrap();
    assert!(data["over_time"].is_null() && why.contains("node0.json"), "{why}");
}

#[test]
fn a_long_run_does_not_make_a_large_page() {
    let profile = full().write();
    let before = page_of(&profile).len();
    let mut line = TimeLine::new(4000, 8);
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 40
    };
    for second in 0..4000 {
        for family in 0..40 {
            line.rate(second, &format!("W_s{family}.*@4"), "MPI_Bcast", random(), random() as f64 * 1e-8);
        }
        for port in 0..20 {
            line.node(second, ["infiniband", &format!("mlx5_{port}/1"), "sent_bytes"], random() as f64);
        }
    }
    line.write(&profile);
    let page = page_of(&profile);
    let over_time = &data_of(&page)["over_time"];
    // Bins have a whole number of intervals.
    assert_eq!((index(&over_time["bins"]), list(&over_time["families"]).len()), (4000 / 8, 16));
    assert_eq!((index(&over_time["other_families"]), list(&over_time["devices"]).len()), (24, 12));
    assert!(page.len() < before + 250_000, "{} bytes, {before} without", page.len());
    let command = json_of(&profile, &["timeline"]);
    let whole = |rows: &Value| -> f64 {
        let of_row = |row: &Value| {
            let length_s = row["end_s"].as_f64().unwrap() - row["begin_s"].as_f64().unwrap();
            row["bytes_per_s"].as_f64().unwrap() * length_s
        };
        list(rows).iter().map(of_row).sum()
    };
    let families = list(&over_time["families"]).iter().chain([&over_time["others"]]);
    let mine: f64 = families.flat_map(|family| floats(&family["bytes_per_s"])).sum::<f64>()
        * over_time["bin_s"].as_f64().unwrap();
    let theirs = whole(&command["rates"]);
    assert!((mine / theirs - 1.0).abs() < 1e-6, "{mine} {theirs}");
}

/// A folder beside the profile that is of another run, is a link, or has what never ends, is none
/// of its.
#[test]
fn time_lines_of_others_are_left_alone() {
    let with = |change: fn(&Path)| {
        let profile = full().write();
        write_time_line(&profile);
        change(&profile.beside().join("app.timeline"));
        data_of(&page_of(&profile))["over_time"].is_null()
    };
    assert!(!with(|_| ()));
    assert!(with(|line| {
        let job = std::fs::read_to_string(line.join("job.json")).unwrap();
        std::fs::write(line.join("job.json"), job.replace("\"1a2b\"", "\"1a2c\"")).unwrap();
    }));
    assert!(with(|line| {
        let elsewhere = line.with_extension("elsewhere");
        std::fs::rename(line, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, line).unwrap();
    }));
    assert!(with(|line| {
        std::fs::remove_file(line.join("job.json")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(line.join("job.json")).status();
        assert!(pipe.is_ok_and(|status| status.success()));
    }));
}
