//! Results: a line of JSON per test, and tables.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// The columns of the table: verdicts as they stand in the results, and one for what
/// `mpisee-through check` found.
const COLUMNS: [&str; 9] = [
    "same",
    "fails alike",
    "hangs alike",
    "not built",
    "left out",
    "unsteady",
    "SOMETIMES",
    "DIFFERS",
    "CHECK",
];

/// The results of this and of earlier runs.
pub struct Results {
    file: Mutex<File>,
    rows: Mutex<Vec<Value>>,
}

impl Results {
    /// Opens the file of the results; earlier ones stay there if they are to be continued.
    pub fn open(path: &Path, resume: bool) -> Results {
        let text = if resume { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
        let rows = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(resume).truncate(!resume);
        let file = options.open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Results { file: Mutex::new(file), rows: Mutex::new(rows) }
    }

    /// The tests of this MPI that have a result.
    pub fn done(&self, mpi: &str) -> BTreeSet<String> {
        let rows = self.rows.lock().expect("no thread panics with the results");
        rows.iter().filter(|row| row["mpi"] == mpi).map(|row| text(&row["test"])).collect()
    }

    /// Adds a result.
    pub fn add(&self, row: Value) {
        let mut file = self.file.lock().expect("no thread panics with the results");
        writeln!(file, "{row}").expect("the results can be written");
        drop(file);
        self.rows.lock().expect("no thread panics with the results").push(row);
    }

    /// Prints the tables and each difference; `false` if there is one.
    pub fn print(&self) -> bool {
        let rows = self.rows.lock().expect("no thread panics with the results");
        let mpis: BTreeSet<String> = rows.iter().map(|row| text(&row["mpi"])).collect();
        for mpi in &mpis {
            let rows: Vec<&Value> = rows.iter().filter(|row| row["mpi"] == mpi.as_str()).collect();
            print_table(mpi, &rows);
        }
        let different: Vec<&Value> = rows.iter().filter(|row| is_difference(row)).collect();
        for row in &different {
            print_difference(row);
        }
        different.is_empty()
    }
}

fn is_difference(row: &Value) -> bool {
    is_different(row) || !row["check"].as_array().is_none_or(Vec::is_empty)
}

fn is_different(row: &Value) -> bool {
    row["verdict"] == "DIFFERS" || row["verdict"] == "SOMETIMES"
}

fn print_table(mpi: &str, rows: &[&Value]) {
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for row in rows {
        let is_wrong = !row["check"].as_array().is_none_or(Vec::is_empty);
        for directory in [text(&row["directory"]), "total".to_owned()] {
            let counts = counts.entry(directory).or_default();
            *counts.entry(text(&row["verdict"])).or_default() += 1;
            *counts.entry("tests".to_owned()).or_default() += 1;
            *counts.entry("CHECK".to_owned()).or_default() += usize::from(is_wrong);
        }
    }
    println!("\n{mpi}");
    print!("{:<10} {:>5}", "directory", "tests");
    COLUMNS.iter().for_each(|column| print!("  {column:>11}"));
    println!();
    let total = counts.remove("total");
    for (directory, counts) in counts.into_iter().chain(total.map(|total| ("total".to_owned(), total))) {
        print!("{directory:<10} {:>5}", counts["tests"]);
        COLUMNS
            .iter()
            .for_each(|&column| print!("  {:>11}", counts.get(column).copied().unwrap_or_default()));
        println!();
    }
}

fn print_difference(row: &Value) {
    println!("\n{} {}: {}", text(&row["mpi"]), text(&row["test"]), text(&row["verdict"]));
    if is_different(row) {
        for side in ["without", "with"] {
            for outcome in row[side].as_array().into_iter().flatten() {
                println!("  {side}: exit code {}, {} s", outcome["code"], outcome["seconds"]);
                let printed = outcome["printed"].as_array().into_iter().flatten();
                let said = outcome["said"].as_array().into_iter().flatten();
                printed.chain(said).take(12).for_each(|line| println!("    {}", text(line)));
            }
        }
    }
    for line in row["check"].as_array().into_iter().flatten() {
        println!("  check: {}", text(line));
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
