//! How many instructions the library spends on a call: `bench/call_cost.c` below callgrind. Unlike nanoseconds
//! they are the same each time, so that a change which makes calls dearer is seen for what it is.

use crate::build::Wanted;
use crate::flavour::Flavour;
use crate::{dist, launch, mpi, root};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The figures that hold, by flavour and operation.
const FILE: &str = "bench/instructions.csv";
const HEADER: &str = "flavour,operation,instructions";
/// By how much a figure may grow, in percent.
const MARGIN_PERCENT: f64 = 10.0;
/// Calls in a dump, as in `bench/call_cost.c`, where some operations are of several calls.
const COUNTED: f64 = 1000.0;
const CALLS_IN: [(&str, f64); 1] = [("Irecv, Isend, Waitall", 3.0)];

/// Instructions per call, by flavour and operation.
type Figures = BTreeMap<(String, String), f64>;
/// Instructions per call of one operation, by source file.
type Files = BTreeMap<String, f64>;

/// Counts, prints, and compares with what the file holds, or, to `accept`, writes the file. Of the operation `by_file`
/// the source files are printed, too.
pub fn instructions(wanted: &Wanted, accept: bool, by_file: Option<&str>) -> Result<()> {
    dist::dist(wanted)?;
    let held = read(&root().join(FILE))?;
    let mut found = Figures::new();
    for flavour in mpi::find(wanted.mpicc())? {
        let counted = count(&flavour)?;
        ensure!(
            !counted.is_empty(),
            "callgrind wrote no dump of {flavour}: are valgrind's headers installed?"
        );
        if let Some(operation) = by_file {
            let files = counted.get(operation).with_context(|| {
                let there: Vec<&str> = counted.keys().map(String::as_str).collect();
                format!("there is no operation '{operation}', but: {}", there.join("; "))
            })?;
            print_files(&flavour, operation, files);
        }
        let total = |files: &Files| files.values().sum();
        found
            .extend(counted.iter().map(|(name, files)| ((flavour.name.clone(), name.clone()), total(files))));
    }
    let dearer = print(&found, &held);
    if accept {
        let mut all = held;
        all.extend(found);
        return write(&root().join(FILE), &all);
    }
    ensure!(
        dearer.is_empty(),
        "more than {MARGIN_PERCENT} % dearer than in {FILE}: {}. If that is worth it, `cargo xtask instructions \
         --accept` writes the new figures",
        dearer.join(", ")
    );
    Ok(())
}

/// Prints the figures; returns what became dearer.
fn print(found: &Figures, held: &Figures) -> Vec<String> {
    let mut dearer = Vec::new();
    println!("{:<14} {:<36} {:>12} {:>8}", "flavour", "operation", "instructions", "held");
    for (key, &count) in found {
        let (flavour, operation) = key;
        let before = held.get(key);
        let shown = before.map_or("-".to_owned(), |before| format!("{before:.1}"));
        println!("{flavour:<14} {operation:<36} {count:>12.1} {shown:>8}");
        if before.is_some_and(|before| count > before * (1.0 + MARGIN_PERCENT / 100.0)) {
            dearer.push(format!("{operation} ({flavour}): {count:.1} instead of {shown}"));
        }
    }
    dearer
}

/// Prints the files of an operation, those with most instructions first.
fn print_files(flavour: &Flavour, operation: &str, files: &Files) {
    let mut files: Vec<(&String, &f64)> = files.iter().collect();
    files.sort_by(|one, other| other.1.total_cmp(one.1));
    println!("{operation} with {flavour}:");
    for (file, count) in files {
        println!("{count:>8.1}  {file}");
    }
    println!();
}

/// Runs the program below callgrind; returns the instructions per call by operation.
fn count(flavour: &Flavour) -> Result<BTreeMap<String, Files>> {
    let program = launch::compile(flavour, "call_cost")?;
    let dumps = tempfile::tempdir()?;
    let library = root().join("target/dist/lib/mpisee").join(&flavour.name).join("libmpisee.so");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}/dump", dumps.path().display()))
        .arg(&program)
        .arg("count")
        .env("LD_PRELOAD", &library)
        .env("MPISEE_QUIET", "on")
        .env("MPISEE_OUTPUT", dumps.path().join("count.mpisee"))
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .output()
        .context("starting valgrind")?;
    if !output.status.success() {
        bail!("{flavour} below callgrind failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dumps.path())? {
        let path = entry?.path();
        if path.is_file()
            && let Some((name, files)) = in_library(&std::fs::read_to_string(&path)?)
            && !files.is_empty()
        {
            let in_one = CALLS_IN.iter().find(|(start, _)| name.starts_with(start)).map_or(1.0, |it| it.1);
            let per_call = |total: u64| total as f64 / COUNTED / in_one;
            found.insert(name, files.into_iter().map(|(file, total)| (file, per_call(total))).collect());
        }
    }
    Ok(found)
}

/// Of a dump in callgrind's format: the operation after which it was written, and the instructions in our
/// library by source file, without those of what it called.
fn in_library(dump: &str) -> Option<(String, BTreeMap<String, u64>)> {
    let mut operation = None;
    let (mut objects, mut files) = (Names::default(), Names::default());
    let (mut in_ours, mut is_callee) = (false, false);
    let mut file = "";
    let mut found = BTreeMap::new();
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix("desc: Trigger: Client Request: ") {
            operation = Some(name.to_owned());
        } else if let Some((kind, name)) = line.split_once('=')
            && let "ob" | "cob" | "fl" | "fi" | "fe" | "cfi" | "cfl" | "calls" = kind
        {
            match kind {
                "ob" => in_ours = objects.name(name).ends_with("/libmpisee.so"),
                "cob" => _ = objects.name(name),
                "fl" | "fi" | "fe" => file = files.name(name),
                "calls" => is_callee = true,
                _ => _ = files.name(name),
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            if in_ours && !is_callee {
                let cost: u64 = line.split(' ').nth(1)?.parse().ok()?;
                *found.entry(short(file)).or_default() += cost;
            }
            is_callee = false;
        }
    }
    Some((operation?, found))
}

/// Names of a kind in a dump: each stands where its number is used for the first time.
#[derive(Default)]
struct Names<'d>(HashMap<&'d str, &'d str>);

impl<'d> Names<'d> {
    /// The name of `(7) name`, or of a later `(7)`.
    fn name(&mut self, text: &'d str) -> &'d str {
        match text.split_once(' ') {
            Some((number, name)) => self.0.entry(number).or_insert(name),
            None => self.0.get(text).copied().unwrap_or(text),
        }
    }
}

/// A source file without the folders above its crate.
fn short(file: &str) -> String {
    match file.rfind("/src/").map(|at| (at, file[..at].rfind('/'))) {
        Some((_, Some(crate_at))) => file[crate_at + 1..].to_owned(),
        _ => file.to_owned(),
    }
}

fn read(path: &Path) -> Result<Figures> {
    if !path.exists() {
        return Ok(Figures::new());
    }
    let text = std::fs::read_to_string(path)?;
    text.lines()
        .skip(1)
        .map(|line| {
            // An operation may have commas in its name, the others have none.
            let (flavour, rest) = line.split_once(',').context("a row of one column")?;
            let (operation, count) = rest.rsplit_once(',').context("a row of two columns")?;
            let count = count.parse().with_context(|| format!("'{count}' is no number"))?;
            Ok(((flavour.to_owned(), operation.trim_matches('"').to_owned()), count))
        })
        .collect::<Result<_>>()
        .with_context(|| format!("reading {}", path.display()))
}

fn write(path: &Path, figures: &Figures) -> Result<()> {
    let mut text = format!("{HEADER}\n");
    for ((flavour, operation), count) in figures {
        writeln!(text, "{flavour},\"{operation}\",{count:.1}")?;
    }
    Ok(std::fs::write(path, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_library_itself_does_is_counted() {
        let dump = "desc: Trigger: Client Request: Barrier\nfl=(1) a.c\nob=(1) /usr/lib/libc.so\nfn=(1) main\n7 50\n\
                    cob=(2) /dist/libmpisee.so\ncfi=(2) /there/mpisee-rs/src/clock.rs\ncfn=(2) MPI_Barrier\ncalls=1 0\n\
                    7 900\nob=(2)\nfl=(2)\nfn=(2)\n3 11\nfi=(3) /rustc/library/core/src/cell.rs\n+4 5\nfe=(2)\n\
                    cob=(1)\ncfn=(3) PMPI_Barrier\ncalls=1 0\n* 800\n* 2\nob=(1)\nfn=(3)\n1 800\n";
        let (operation, files) = in_library(dump).unwrap();
        assert_eq!(operation, "Barrier");
        let files: Vec<(&str, u64)> = files.iter().map(|(file, count)| (file.as_str(), *count)).collect();
        assert_eq!(files, [("core/src/cell.rs", 5), ("mpisee-rs/src/clock.rs", 13)]);
    }
}
