//! Cost of the profiler in a call: `tools/overhead/call_cost.c`, and for communicators without end,
//! `tools/overhead/communicators.c`; without and with it in turns.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use xtask::build::MpiSelection;
use xtask::flavour::Flavour;
use xtask::{dist, launch, mpi, root};

/// The ways in which the program is run.
const MODES: [(&str, &[&str]); 7] = [
    ("recording", &[]),
    ("recording, after a walk through 64 MiB before each call", &["cold"]),
    ("switched off by MPI_Pcontrol", &["off"]),
    ("arrays of requests, tags that change, and regions", &["arrays"]),
    ("the same, switched off by MPI_Pcontrol", &["arrays", "off"]),
    ("MPI_THREAD_MULTIPLE, 1 thread", &["threads", "1"]),
    ("MPI_THREAD_MULTIPLE, 2 threads", &["threads", "2"]),
];
/// Processes that are started to see what the preload adds to one without MPI.
const CHILDREN: usize = 200;
/// The line that every other one is compared with.
const FLOOR: &str = "two clock reads";

/// The number of communicators that are made and freed.
const COMMUNICATORS: &str = "1000000";

/// A program that is run.
struct Ran<'r> {
    flavour: &'r Flavour,
    program: &'r Path,
    ranks: u32,
    arguments: &'r [&'r str],
}

/// Figures by what they are of, in the order in which the program prints them: mostly nanoseconds
/// by operation.
type Figures = Vec<(String, f64)>;

/// One figure over all rounds.
struct Row {
    name: String,
    /// Without the profiler.
    base: Vec<f64>,
    /// With it.
    profiled: Vec<f64>,
}

/// Runs everything `rounds` times for each MPI and prints what the quickest rounds took: each
/// figure of a round is a median already, and what disturbs a whole round only adds to it.
pub fn calls(wanted: &MpiSelection, rounds: usize) -> Result<()> {
    ensure!(rounds > 0, "--rounds 0 measures nothing");
    dist::dist(wanted, false)?;
    for flavour in mpi::find(wanted.mpicc())? {
        let program = launch::compile(&flavour, "call_cost")?;
        let of = |arguments| Ran { flavour: &flavour, program: &program, ranks: 1, arguments };
        println!("\n{flavour}, {rounds} rounds, nanoseconds per call");
        for (mode, arguments) in MODES {
            println!("\n{mode}");
            print(&measure(&of(arguments), rounds)?);
        }
        println!("\nKiB of a process with 100 communicators and 20 operations on each");
        print(&measure(&of(&["memory"]), rounds)?);
        println!("\ncommunicators that are made and freed, one after the other, on two ranks; one round");
        let program = launch::compile(&flavour, "communicators")?;
        print(&measure(&Ran { program: &program, ranks: 2, ..of(&[COMMUNICATORS]) }, 1)?);
        println!("\na process without MPI starts {:.2} ms later", child_start_ms(&flavour)?);
    }
    Ok(())
}

/// Runs the program without and with the profiler in turns.
fn measure(ran: &Ran<'_>, rounds: usize) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..rounds {
        let plain = run(ran, false)?;
        let profiled: HashMap<String, f64> = run(ran, true)?.into_iter().collect();
        for (name, base) in plain {
            let with = *profiled.get(&name).with_context(|| format!("the profiled run has no '{name}'"))?;
            if round == 0 {
                rows.push(Row { name: name.clone(), base: Vec::new(), profiled: Vec::new() });
            }
            let row = rows.iter_mut().find(|row| row.name == name).context("a new operation")?;
            row.base.push(base);
            row.profiled.push(with);
        }
    }
    Ok(rows)
}

fn run(ran: &Ran<'_>, profiled: bool) -> Result<Figures> {
    let profile = ran.program.with_extension("mpisee");
    if profiled {
        let _ = std::fs::remove_dir_all(&profile);
    }
    let mut command = launch::launcher(ran.flavour, ran.ranks, profiled.then_some(&profile));
    let output = command.arg(ran.program).args(ran.arguments).output().context("starting mpirun")?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .map(|line| {
            let (name, figure) = line.split_once('\t').with_context(|| format!("'{line}' is no figure"))?;
            Ok((name.to_owned(), figure.parse()?))
        })
        .collect()
}

/// Time that the preloaded library adds to the start and end of a program without MPI, in
/// milliseconds.
fn child_start_ms(flavour: &Flavour) -> Result<f64> {
    let library = root().join("target/dist/lib/mpisee").join(&flavour.name).join("libmpisee.so");
    let took = |preload: Option<&Path>| {
        let mut command = Command::new("true");
        command.envs(preload.map(|library| ("LD_PRELOAD", library)));
        let start = Instant::now();
        ensure!(command.status().context("starting true")?.success(), "true failed");
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let pairs: Vec<(f64, f64)> =
        (0..CHILDREN).map(|_| Ok((took(None)?, took(Some(&library))?))).collect::<Result<_>>()?;
    let (without, with): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    Ok(quickest(&with) - quickest(&without))
}

fn print(rows: &[Row]) {
    let floor = rows.iter().find(|row| row.name == FLOOR).map(|row| quickest(&row.base));
    println!("  {:<50} {:>10} {:>10} {:>12}", "", "base", "added", "over floor");
    for Row { name, base, profiled } in rows {
        let (base, profiled) = (quickest(base), quickest(profiled));
        let added = profiled - base;
        let over = floor.map_or(String::new(), |floor| format!("{:.2}x", added / floor));
        println!("  {name:<50} {base:>10.1} {added:>10.1} {over:>12}");
    }
}

fn quickest(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}
