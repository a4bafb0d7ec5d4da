//! Measures joins of the arrivals of 10,000 ranks, from memory and from `arrivals.csv`: `cargo run
//! --release --example joins`.

use anyhow::{Context, Result};
use mpisee_through::measured::{Shape, join_from_memory, join_from_table, write};

const SHAPES: [Shape; 2] = [
    Shape { comms: 100, members: 100, instances: 256 },
    Shape { comms: 100, members: 10_000, instances: 32 },
];

fn main() -> Result<()> {
    for shape in SHAPES {
        let Shape { comms, members, instances } = shape;
        println!(
            "{comms} communicators of {members} members with {instances} sampled calls: {} rows",
            shape.rows()
        );
        let from_memory = join_from_memory(shape)?;
        println!(
            "  joined from memory in {:.3} s; at most {} MiB so far",
            from_memory.as_secs_f64(),
            peak_mib()?
        );
        let directory = tempfile::tempdir()?;
        write(shape, directory.path())?;
        let [read, joined] = join_from_table(shape, directory.path())?.map(|time| time.as_secs_f64());
        println!("  read in {read:.3} s, joined in {joined:.3} s; at most {} MiB so far", peak_mib()?);
    }
    Ok(())
}

/// The most memory that this process ever had.
fn peak_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}
