//! Writes a large synthetic profile, and compares the speed of mpisee-through on it with that of
//! other programs.

use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xtask::root;

/// The processes form a grid of that many columns; its rows are 64 processes long.
const COLUMNS: u32 = 64;
const REGIONS: [&str; 3] = ["", "solver", "solver/halo"];
const CALLS: [&str; 10] = [
    "MPI_Allreduce",
    "MPI_Alltoallv",
    "MPI_Bcast",
    "MPI_Barrier",
    "MPI_Irecv",
    "MPI_Isend",
    "MPI_Reduce",
    "MPI_Send",
    "MPI_Waitall",
    "MPI_Sendrecv",
];
/// Rows of a rank: each operation in each region on each of five communicators, in this number of
/// size classes.
const SIZE_CLASSES: u32 = 16;
const ROWS_OF_RANK: u64 = 5 * (REGIONS.len() * CALLS.len()) as u64 * SIZE_CLASSES as u64;

/// Writes a profile whose `calls.csv` has that many rows, or a few more. The same number gives the
/// same bytes.
pub fn write(folder: &Path, rows: u64) -> Result<()> {
    let ranks = u32::try_from(rows.div_ceil(ROWS_OF_RANK)).context("that many rows need too many ranks")?;
    fs::create_dir(folder).with_context(|| format!("creating {}", folder.display()))?;
    let table = |name: &str, header: &str| -> Result<BufWriter<File>> {
        let path = folder.join(name);
        let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let mut table = BufWriter::with_capacity(1 << 20, file);
        writeln!(table, "{header}")?;
        Ok(table)
    };
    let mut table_of_ranks = table("ranks.csv", "rank,host,pid,wall_s,mpi_s,gpu")?;
    for rank in 0..ranks {
        writeln!(
            table_of_ranks,
            "{rank},node{},{},1000.000000000,400.000000000,",
            rank / 32,
            1000 + rank % 32
        )?;
    }
    table_of_ranks.flush()?;
    let header = "comm,parent,created_by,size,members,label,topology,reorder,nodes,freed";
    write_comms(table("comms.csv", header)?, ranks)?;
    let header = "comm,rank,region,call,size_min,size_max,memory,calls,bytes,time_s,min_s,max_s";
    write_calls(table("calls.csv", header)?, ranks, rows)?;
    let header = "comm,rank,peer,sent_messages,sent_bytes,received_messages,received_bytes";
    write_peers(table("peers.csv", header)?, ranks)?;
    table("regions.csv", "rank,region,wall_s,mpi_s,entries")?.flush()?;
    let run = serde_json::json!({
        "format_version": 1, "mpisee_version": "0.1.0",
        "mpi": { "library": "none", "flavour": "none", "thread_level": "single" },
        "command": ["./generated"], "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:16:40Z",
        "ranks": ranks, "nodes": ranks.div_ceil(32), "complete": true, "incomplete_because": null,
        "clock": "tsc", "recording_was_off": false, "not_seen": {},
    });
    fs::write(folder.join("run.json"), serde_json::to_string_pretty(&run)?)?;
    Ok(())
}

/// The communicators of a rank: the world, its row and column, its node, a duplicate.
fn comms_of(rank: u32) -> [String; 5] {
    let (row, column, node) = (rank / COLUMNS * COLUMNS, rank % COLUMNS, rank / 32 * 32);
    ["W".into(), format!("W_a1_b2.{row}"), format!("W_a1_b3.{column}"), format!("W_t4.{node}"), "W_d5".into()]
}

fn write_comms(mut table: BufWriter<File>, ranks: u32) -> Result<()> {
    let nodes = ranks.div_ceil(32);
    writeln!(table, "W,,,{ranks},0-{},,,,{nodes},0", ranks - 1)?;
    writeln!(table, "W_a1,W,MPI_Cart_create,{ranks},0-{},grid,,1,{nodes},0", ranks - 1)?;
    for row in (0..ranks).step_by(COLUMNS as usize) {
        let last = (row + COLUMNS).min(ranks) - 1;
        writeln!(table, "W_a1_b2.{row},W_a1,MPI_Cart_sub,{},{row}-{last},,,,2,0", last - row + 1)?;
    }
    for column in 0..COLUMNS.min(ranks) {
        let members: Vec<String> =
            (column..ranks).step_by(COLUMNS as usize).map(|rank| rank.to_string()).collect();
        let size = members.len();
        writeln!(table, "W_a1_b3.{column},W_a1,MPI_Cart_sub,{size},\"{}\",,,,{size},0", members.join(","))?;
    }
    for node in (0..ranks).step_by(32) {
        let last = (node + 32).min(ranks) - 1;
        writeln!(table, "W_t4.{node},W,MPI_Comm_split_type,{},{node}-{last},,,,1,0", last - node + 1)?;
    }
    writeln!(table, "W_d5,W,MPI_Comm_dup,{ranks},0-{},,,,{nodes},0", ranks - 1)?;
    Ok(table.flush()?)
}

fn write_calls(mut table: BufWriter<File>, ranks: u32, rows: u64) -> Result<()> {
    let mut left = rows;
    // A generator of pseudo-random numbers, so that no row is like another: S. Vigna's splitmix64.
    let mut state: u64 = 0;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    for rank in 0..ranks {
        for comm in comms_of(rank) {
            for region in REGIONS {
                for call in CALLS {
                    for class in 0..SIZE_CLASSES {
                        if left == 0 {
                            return Ok(table.flush()?);
                        }
                        left -= 1;
                        let calls = 1 + random() % 1000;
                        let size = 1u64 << class;
                        let longest_ns = random() % 1_000_000;
                        let time_ns = longest_ns * calls / 3 + 1;
                        writeln!(
                            table,
                            "{comm},{rank},{region},{call},{size},{},host,{calls},{},{},{},{}",
                            2 * size - 1,
                            calls * (size + random() % size),
                            seconds(time_ns),
                            seconds(longest_ns / 10),
                            seconds(longest_ns),
                        )?;
                    }
                }
            }
        }
    }
    Ok(table.flush()?)
}

fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

/// Each rank sends to the next one of its row.
fn write_peers(mut table: BufWriter<File>, ranks: u32) -> Result<()> {
    for rank in 0..ranks {
        let (left, right) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        writeln!(table, "W,{rank},{right},1000,64000,0,0")?;
        writeln!(table, "W,{rank},{left},0,0,1000,64000")?;
    }
    Ok(table.flush()?)
}

/// Runs `mpisee-through summary`, DuckDB and polars on one profile in turns and prints how long
/// each took.
pub fn compare(rows: u64, rounds: usize) -> Result<()> {
    ensure!(rounds > 0, "--rounds 0 measures nothing");
    let folder = root().join("target/bench");
    fs::create_dir_all(&folder)?;
    let profile = folder.join(format!("{rows}.mpisee"));
    if !profile.join("run.json").exists() {
        let _ = fs::remove_dir_all(&profile);
        println!("writing {}", profile.display());
        write(&profile, rows)?;
    }
    succeed(Command::new("cargo").args(["build", "--quiet", "--release", "--package", "mpisee-through"]))?;
    let python = python(&folder)?;
    let ours = || -> Result<f64> {
        let mut command = Command::new(root().join("target/release/mpisee-through"));
        let start = Instant::now();
        succeed(command.arg("summary").arg(&profile).args(["--format", "csv", "--output", "/dev/null"]))?;
        Ok(start.elapsed().as_secs_f64())
    };
    let theirs = |name: &str| -> Result<f64> {
        let script = root().join("tools/overhead/group_calls.py");
        let text = succeed(Command::new(&python).arg(script).arg(name).arg(profile.join("calls.csv")))?;
        text.trim().parse().with_context(|| format!("'{text}' is no time"))
    };
    let mut seconds = vec![("mpisee-through", vec![]), ("duckdb", vec![]), ("polars", vec![])];
    for _ in 0..rounds {
        for (name, seconds) in &mut seconds {
            seconds.push(if *name == "mpisee-through" { ours()? } else { theirs(name)? });
        }
    }
    println!("{rows} rows, {rounds} rounds, seconds");
    println!("  {:<16} {:>8} {:>8}", "", "median", "best");
    for (name, mut seconds) in seconds {
        seconds.sort_by(f64::total_cmp);
        println!("  {name:<16} {:>8.3} {:>8.3}", seconds[seconds.len() / 2], seconds[0]);
    }
    Ok(())
}

/// A Python with both libraries, installed below `target` when it is not there yet.
fn python(folder: &Path) -> Result<PathBuf> {
    let environment = folder.join("venv");
    let python = environment.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    succeed(Command::new(&python).args(["-m", "pip", "--quiet", "install", "duckdb", "polars"]))?;
    Ok(python)
}

fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_as_many_rows_as_asked_for() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a.mpisee");
        write(&folder, 2500).unwrap();
        let calls = fs::read_to_string(folder.join("calls.csv")).unwrap();
        assert_eq!(calls.lines().count(), 1 + 2500);
        let ranks = fs::read_to_string(folder.join("ranks.csv")).unwrap();
        assert_eq!(ranks.lines().count(), 1 + 2);
        assert!(write(&folder, 1).unwrap_err().to_string().contains("a.mpisee"));
    }
}
