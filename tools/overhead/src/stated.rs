//! The overhead that the profiler states, beside the time that it adds:
//! `tools/overhead/stated_overhead.c` without and with it in turns.

use anyhow::{Context, Result, ensure};
use clap::Args;
use mpisee_profile::Profile;
use std::path::Path;
use xtask::build::MpiSelection;
use xtask::flavour::Flavour;
use xtask::{dist, launch, mpi};

/// Calls of a kind, their number, and KiB of memory that are walked through before each.
const CASES: [(&str, u64, u64); 13] = [
    ("barrier", 10_000_000, 0),
    ("allreduce", 10_000_000, 0),
    ("messages", 9_999_999, 0),
    ("iprobe", 100_000_000, 0),
    ("array", 300_300, 0),
    ("allreduce", 200_000, 64),
    ("barrier", 40_000, 1 << 10),
    ("messages", 39_999, 1 << 10),
    ("allreduce", 10_000, 4 << 10),
    ("barrier", 3000, 16 << 10),
    ("allreduce", 1000, 16 << 10),
    ("allreduce", 1000, 64 << 10),
    ("messages", 999, 64 << 10),
];

/// The MPIs, and how often.
#[derive(Args)]
pub struct Compared {
    #[command(flatten)]
    wanted: MpiSelection,
    /// How many pairs of runs of each case, without and with the profiler
    #[arg(long, default_value_t = 7)]
    pairs: usize,
}

/// A run, in nanoseconds per call.
struct Ran {
    took: f64,
    /// The profiler's statement: least, estimate, most.
    stated: [f64; 3],
}

/// Runs the pairs, and prints for each case the medians of what a call costs more and of what the
/// profiler states.
pub fn stated(compared: &Compared) -> Result<()> {
    ensure!(compared.pairs > 0, "--pairs 0 measures nothing");
    dist::dist(&compared.wanted, false)?;
    for flavour in mpi::find(compared.wanted.mpicc())? {
        let program = launch::compile(&flavour, "stated_overhead")?;
        println!("\n{flavour}, {} pairs, nanoseconds per call\n", compared.pairs);
        println!("| calls | walk before each | added (least, most pair) | stated | estimate |");
        println!("| --- | ---: | ---: | ---: | ---: |");
        for case in CASES {
            print(case, &pairs(&flavour, &program, case, compared.pairs)?);
        }
    }
    Ok(())
}

fn pairs(flavour: &Flavour, program: &Path, case: (&str, u64, u64), pairs: usize) -> Result<Vec<[f64; 4]>> {
    (0..pairs)
        .map(|pair| {
            // Each first in turn, so that what drifts cancels.
            let first_is_profiled = pair % 2 == 1;
            let runs =
                [first_is_profiled, !first_is_profiled].map(|profiled| run(flavour, program, case, profiled));
            let [first, second] = runs;
            let (plain, profiled) = if first_is_profiled { (second?, first?) } else { (first?, second?) };
            let [least, estimate, most] = profiled.stated;
            Ok([profiled.took - plain.took, least, estimate, most])
        })
        .collect()
}

fn run(flavour: &Flavour, program: &Path, case: (&str, u64, u64), profiled: bool) -> Result<Ran> {
    let (kind, calls, kib) = case;
    let profile = program.with_extension("mpisee");
    if profiled {
        let _ = std::fs::remove_dir_all(&profile);
    }
    let mut command = launch::launcher(flavour, 1, profiled.then_some(&profile));
    let output = command.arg(program).args([kind, &calls.to_string(), &kib.to_string()]).output()?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    let of_one = |seconds: f64| seconds * 1e9 / calls as f64;
    let text = String::from_utf8(output.stdout)?;
    let took = text.trim().parse().with_context(|| format!("'{text}' is no number of seconds"))?;
    let stated = if profiled {
        let stated = Profile::open(&profile)?.run().profiler.clone();
        [stated.low_s, stated.time_s, stated.high_s]
    } else {
        [0.0; 3]
    };
    Ok(Ran { took: of_one(took), stated: stated.map(of_one) })
}

fn print((kind, calls, kib): (&str, u64, u64), pairs: &[[f64; 4]]) {
    let sorted = |which: usize| {
        let mut all: Vec<f64> = pairs.iter().map(|pair| pair[which]).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let median = |which: usize| sorted(which)[pairs.len() / 2];
    let added = sorted(0);
    println!(
        "| {calls} × {kind} | {kib} KiB | {:.0} ({:.0}, {:.0}) | {:.0} to {:.0} | {:.0} |",
        median(0),
        added[0],
        added[added.len() - 1],
        median(1),
        median(3),
        median(2)
    );
}
