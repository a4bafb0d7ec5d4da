//! How many instructions the library spends on a call: `bench/call_cost.c` below callgrind. Unlike nanoseconds
//! they are the same each time, so that a change which makes calls dearer is seen for what it is.

use crate::build::Wanted;
use crate::flavour::Flavour;
use crate::{dist, launch, mpi, root};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
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

/// Counts, prints, and compares with what the file holds, or, to `accept`, writes the file.
pub fn instructions(wanted: &Wanted, accept: bool) -> Result<()> {
    dist::dist(wanted)?;
    let held = read(&root().join(FILE))?;
    let mut found = Figures::new();
    for flavour in mpi::find(wanted.mpicc())? {
        let counted = count(&flavour)?;
        ensure!(
            !counted.is_empty(),
            "callgrind wrote no dump of {flavour}: are valgrind's headers installed?"
        );
        found.extend(counted.into_iter().map(|(name, count)| ((flavour.name.clone(), name), count)));
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

/// Runs the program below callgrind; returns the instructions per call by operation.
fn count(flavour: &Flavour) -> Result<BTreeMap<String, f64>> {
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
            && let Some((name, total)) = library_total(&std::fs::read_to_string(&path)?)
            && total > 0
        {
            let in_one = CALLS_IN.iter().find(|(start, _)| name.starts_with(start)).map_or(1.0, |it| it.1);
            found.insert(name, total as f64 / COUNTED / in_one);
        }
    }
    Ok(found)
}

/// Of a dump in callgrind's format: the operation after which it was written, and the instructions in our
/// library, without those of what it called.
fn library_total(dump: &str) -> Option<(String, u64)> {
    let mut operation = None;
    let mut ours = None;
    // A name stands where its number, which comes first, is used for the first time.
    let mut is_ours = |object: &str| {
        let (number, name) = object.split_once(' ').unwrap_or((object, ""));
        if name.ends_with("/libmpisee.so") {
            ours = Some(number.to_owned());
        }
        ours.as_deref() == Some(number)
    };
    let (mut in_ours, mut is_callee) = (false, false);
    let mut total = 0;
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix("desc: Trigger: Client Request: ") {
            operation = Some(name.to_owned());
        } else if let Some(object) = line.strip_prefix("ob=") {
            in_ours = is_ours(object);
        } else if let Some(object) = line.strip_prefix("cob=") {
            is_ours(object);
        } else if line.starts_with("calls=") {
            is_callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            if in_ours && !is_callee {
                total += line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok())?;
            }
            is_callee = false;
        }
    }
    Some((operation?, total))
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
                    cob=(2) /dist/libmpisee.so\ncfn=(2) MPI_Barrier\ncalls=1 0\n7 900\nob=(2)\nfn=(2)\n3 11\n+4 5\n\
                    cob=(1)\ncfn=(3) PMPI_Barrier\ncalls=1 0\n* 800\n* 2\nob=(1)\nfn=(3)\n1 800\n";
        assert_eq!(library_total(dump), Some(("Barrier".to_owned(), 18)));
    }
}
