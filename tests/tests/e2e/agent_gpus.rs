//! GPUs in time lines, of a pretended library of NVIDIA's: their rates, their tables, and what
//! fails.

use crate::agent::{Row, in_turn, node, number, rows, start_agent_with, through, until_ended};
use mpisee_tests::place::Staying;
use mpisee_tests::{Mpi, Place, case, root};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The folder with the pretended library.
fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || {
        let folder = root().join("target/tests/pretended-nvml");
        std::fs::create_dir_all(&folder).expect("target can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
        compiler
            .arg(folder.join("libnvidia-ml.so.1"))
            .arg(root().join("tests/programs/gpu/pretended_nvml.c"));
        assert!(compiler.status().expect("cc starts").success());
        folder
    };
    LIBRARY.get_or_init(compiled).clone()
}

/// Runs a program of three parts beside an agent whose library behaves so; returns where the time
/// line is.
fn line_with(place: &Place, mpi: &Mpi, behaviour: &str) -> PathBuf {
    let folder = library().display().to_string();
    let variables = [("LD_LIBRARY_PATH", folder.as_str()), ("PRETENDED_NVML", behaviour)];
    let _agent = start_agent_with(place, &["--wait", "60s", "--interval", "250ms"], &variables);
    let mut launcher = Staying::start(&mut in_turn(place, mpi, &[], "1"));
    assert!(launcher.0.wait().expect("it is our child").success());
    let line = place.path("turn.timeline");
    until_ended(&line);
    line
}

/// A table of the node's GPUs; none if it is not there.
fn table(line: &std::path::Path, ending: &str) -> Vec<Row> {
    let files = std::fs::read_dir(line).expect("the time line is there").flatten();
    let mut paths = files.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(ending));
    let text =
        paths.next().map(|path| std::fs::read_to_string(path).expect("it is there")).unwrap_or_default();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| {
        columns
            .iter()
            .zip(line.split(','))
            .map(|(name, cell)| ((*name).to_owned(), cell.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

/// Of a quantity: its sum, and the length of the intervals in which it was counted. The first has
/// no earlier reading of counters.
fn counted(line: &std::path::Path, device: &str, quantity: &str) -> (f64, f64) {
    let rows = rows(line, "node-rates");
    let of_it = rows.iter().filter(|row| row["device"] == device && row["quantity"] == quantity);
    of_it.fold((0.0, 0.0), |(value, length_s), row| {
        (value + number(row, "value"), length_s + number(row, "length_s"))
    })
}

#[case]
fn rates_are_those_at_which_the_counters_grow(mpi: &Mpi) {
    let place = Place::new();
    let line = line_with(&place, mpi, "");
    for (device, quantity, per_s) in [
        ("gpu0/nvlink", "sent_bytes", 4e9),
        ("gpu0/nvlink", "received_bytes", 2e9),
        ("gpu0/pcie", "sent_bytes", 1e8),
        ("gpu0/pcie", "received_bytes", 3e8),
        ("gpu1/pcie", "sent_bytes", 7e6),
        ("gpu1/pcie", "received_bytes", 5e6),
        ("gpu0", "busy_s", 0.5),
        ("gpu1", "busy_s", 0.25),
    ] {
        let (value, length_s) = counted(&line, device, quantity);
        assert!(length_s > 1.0, "{device} {quantity}: {length_s} s");
        let off = (value / length_s / per_s - 1.0).abs();
        assert!(off < 0.05, "{device} {quantity}: {value} in {length_s} s, and not {per_s} per second");
    }
    assert_eq!(counted(&line, "gpu1/nvlink", "sent_bytes"), (0.0, 0.0), "it does not count that");
    let memory = rows(&line, "node-rates").into_iter().filter(|row| row["quantity"] == "used_bytes");
    assert!(memory.map(|row| number(&row, "value")).all(|used| used == 1e10));

    let gpus = table(&line, ".gpus.csv");
    let brief = |row: &Row| {
        [&row["device"], &row["uuid"], &row["pci_address"], &row["mig"], &row["nvlinks"]]
            .map(String::clone)
            .join(" ")
    };
    let expected = [
        "gpu0 GPU-00000000-0000-0000-0000-000000000000 0000:17:00.0 0 4",
        "gpu1 GPU-00000000-0000-0000-0000-000000000001 0000:18:00.0  4",
    ];
    assert_eq!(gpus.iter().map(brief).collect::<Vec<_>>(), expected);
    assert_eq!((number(&gpus[0], "nvlink_bytes_per_s"), number(&gpus[0], "memory_bytes")), (1e11, 8e10));
    let links = table(&line, ".gpu-links.csv");
    let brief = |row: &Row| {
        [&row["device"], &row["peer"], &row["nvlinks"], &row["path"]].map(String::clone).join(" ")
    };
    let expected = ["gpu0 gpu1 3 PIX", "gpu0 nvswitch 1 ", "gpu1 gpu0 3 PIX", "gpu1 nvswitch 1 "];
    assert_eq!(links.iter().map(brief).collect::<Vec<_>>(), expected);

    assert_eq!(node(&line)["notes"], Value::Array(Vec::new()));
    let shown = through(&place, &line);
    let sent = shown["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|row| row["device"] == "gpu0/nvlink" && row["quantity"] == "sent_bytes");
    assert!(
        sent.map(|row| row["value"].as_f64().expect("a rate")).any(|rate| (rate / 4e9 - 1.0).abs() < 0.2)
    );
    let text = place.through(&["timeline", "turn.timeline"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("2 × Pretended GPU; at most 9.31 GiB of memory used on one"), "{text}");
    assert!(text.contains("gpu0 busy (%)") && text.contains("gpu0/nvlink sent"), "{text}");
}

#[case]
fn parts_of_a_divided_gpu_have_their_memory(mpi: &Mpi) {
    let place = Place::new();
    let line = line_with(&place, mpi, "mig");
    let names: Vec<String> =
        table(&line, ".gpus.csv").iter().map(|row| format!("{} {}", row["device"], row["mig"])).collect();
    assert_eq!(names, ["gpu0 1", "gpu0/mig0 ", "gpu0/mig1 ", "gpu1 "]);
    assert_eq!(counted(&line, "gpu0", "busy_s"), (0.0, 0.0), "NVML does not say it of a divided GPU");
    let (used, length_s) = counted(&line, "gpu0/mig1", "used_bytes");
    assert!(used >= 1e9 && length_s > 1.0);
}

#[case]
fn a_library_that_fails_or_hangs_stops_nobody_and_is_said_once(mpi: &Mpi) {
    let place = Place::new();
    let line = line_with(&place, mpi, "broken");
    let notes = node(&line)["notes"].as_array().expect("a list").clone();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].as_str().expect("text").starts_with("gpu0 does not say everything: utilisation: "),
        "{notes:?}"
    );
    assert!(!rows(&line, "node-rates").iter().any(|row| row["source"] == "gpu"));

    let place = Place::new();
    let line = line_with(&place, mpi, "hangs");
    let readings = node(&line)["readings"].as_u64().expect("a number");
    assert!(readings > 8, "{readings}");
    let busy: Vec<Row> =
        rows(&line, "node-rates").into_iter().filter(|row| row["quantity"] == "busy_s").collect();
    assert_eq!(busy.len(), 4, "two readings of two GPUs: {busy:?}");
    let wall_s = node(&line)["wall_s"].as_f64().expect("a time");
    let through_s = readings as f64 * 0.25;
    assert!(wall_s < through_s + 2.0, "{readings} readings in {wall_s} s");
}

#[case]
fn without_gpus_nothing_is_written_or_said(mpi: &Mpi) {
    let place = Place::new();
    let mut launcher = Staying::start(&mut in_turn(&place, mpi, &["--watch"], "1"));
    assert!(launcher.0.wait().expect("it is our child").success());
    let line = place.path("turn.timeline");
    until_ended(&line);
    if table(&line, ".gpus.csv").is_empty() {
        assert_eq!(node(&line)["notes"], Value::Array(Vec::new()));
        assert!(!rows(&line, "node-rates").iter().any(|row| row["source"] == "gpu"));
    }
}
