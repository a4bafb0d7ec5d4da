//! `import`: a profile made of what another profiler has recorded.

mod cpp_mpisee;
mod mpip;

use super::Outcome;
use crate::output::printable;
use crate::units::{count, count_of, time};
use anyhow::{Context, Result, bail};
use clap::Args;
use mpisee_profile::rows::{CallRow, CommRow, Memory, PeerRow, RankRow, RegionRow, Row, Seconds};
use mpisee_profile::run::Imported;
use mpisee_profile::writer::{ProfileWriter, since_taken, to_csv};
use mpisee_profile::{FORMAT_VERSION, RunInfo};
use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through import mpisee_1732492951.db               database of the C++ mpisee
  mpisee-through import app.4.9164.1.mpiP -o app.mpisee    report of mpiP
  mpisee-through diff old.mpisee app.mpisee                then as any other profile";

/// Make a profile from a report of mpiP or the C++ mpisee
///
/// Numbers are not changed. Data that the other profiler does not record stays empty, and commands
/// say so. See docs/how-to/export.md for a list.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Database of the C++ mpisee (mpisee_*.db), or report of mpiP (*.mpiP)
    file: PathBuf,

    /// Profile directory to write; a number is added if it exists (default: the file's name with
    /// .mpisee)
    #[arg(short = 'o', long, value_name = "NAME.mpisee")]
    output: Option<PathBuf>,
}

/// The tables of a profile.
struct Tables {
    run: RunInfo,
    ranks: Vec<RankRow>,
    comms: Vec<CommRow>,
    calls: Vec<CallRow>,
}

/// The first bytes of each database of SQLite.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// The first bytes of a report of mpiP.
const MPIP: &[u8] = b"@ mpiP";

/// Runs the command.
pub fn run(args: &ImportArgs) -> Result<Outcome> {
    let file = &args.file;
    let mut tables = match first_bytes(file)?.as_slice() {
        first if first.starts_with(SQLITE) => cpp_mpisee::read(file)?,
        first if first.starts_with(MPIP) => mpip::read(file)?,
        _ => bail!(
            "'{}' is neither a database of the C++ mpisee nor a report of mpiP, which begins with '@ mpiP'",
            file.display()
        ),
    };
    tables.run.format_version = FORMAT_VERSION;
    tables.run.mpisee_version = env!("CARGO_PKG_VERSION").to_owned();
    if let Some(imported) = &mut tables.run.imported {
        imported.file = file.display().to_string();
    }
    let wanted = match &args.output {
        Some(output) => output.clone(),
        None => PathBuf::from(file.file_name().unwrap_or(file.as_os_str())).with_extension("mpisee"),
    };
    let directory = write(&tables, &wanted)?;
    let [ranks, calls] = [tables.ranks.len(), tables.calls.len()].map(|rows| rows as u64);
    writeln!(
        std::io::stdout(),
        "{}: {}, {}, {} of calls{}",
        printable(&directory.display().to_string()),
        count(ranks, "rank"),
        count(tables.comms.len() as u64, "communicator"),
        count_of(calls, "row", "rows"),
        since_taken(&wanted, &directory)
    )?;
    Ok(Outcome::Done)
}

fn first_bytes(file: &Path) -> Result<Vec<u8>> {
    let failed = || format!("cannot read '{}'", file.display());
    let mut first = Vec::new();
    std::fs::File::open(file).with_context(failed)?.take(64).read_to_end(&mut first).with_context(failed)?;
    Ok(first)
}

fn write(tables: &Tables, wanted: &Path) -> Result<PathBuf> {
    let writer = ProfileWriter::create(wanted)?;
    write_table(&writer, &tables.ranks)?;
    write_table(&writer, &tables.comms)?;
    write_table(&writer, &tables.calls)?;
    write_table::<PeerRow>(&writer, &[])?;
    write_table::<RegionRow>(&writer, &[])?;
    Ok(writer.finish(&tables.run)?)
}

fn write_table<R: Row>(writer: &ProfileWriter, rows: &[R]) -> Result<()> {
    let mut table = writer.table::<R>()?;
    table.append(&to_csv(rows))?;
    Ok(table.close()?)
}

/// The run of an imported profile, of which the recorder is unknown.
fn run_of(imported: Imported, ranks: u32, hosts: &[String]) -> RunInfo {
    let nodes = hosts.iter().collect::<HashSet<_>>().len() as u32;
    RunInfo { ranks, nodes, complete: true, imported: Some(imported), ..RunInfo::default() }
}

/// Rows of calls: those that differ in nothing but numbers are one.
#[derive(Default)]
struct CallSums {
    rows: BTreeMap<(String, u32, String, u64, u64), CallRow>,
    /// Over all rows.
    all_calls: u64,
    all_bytes: u64,
}

/// The calls of a row.
struct Calls {
    calls: u64,
    bytes: u64,
    time_s: f64,
    /// The shortest and the longest call, in seconds.
    extremes_s: [f64; 2],
}

impl CallSums {
    /// Adds calls of messages from `sizes[0]` to `sizes[1]` bytes.
    ///
    /// # Errors
    /// Where numbers add up to more than a table can have.
    fn add(&mut self, comm: &str, rank: u32, call: &str, sizes: [u64; 2], more: &Calls) -> Result<()> {
        // Readers add up the whole table.
        for (sum, number, what) in
            [(&mut self.all_calls, more.calls, "calls"), (&mut self.all_bytes, more.bytes, "bytes")]
        {
            *sum = sum.checked_add(number).with_context(|| format!("its {what} add up to more than 2^64"))?;
        }
        let key = (comm.to_owned(), rank, call.to_owned(), sizes[0], sizes[1]);
        let row = self.rows.entry(key).or_insert_with(|| CallRow {
            comm: comm.to_owned(),
            rank,
            region: String::new(),
            call: call.to_owned(),
            size_min: sizes[0],
            size_max: sizes[1],
            memory: Memory::Host,
            site: None,
            calls: 0,
            bytes: 0,
            time_s: Seconds(0.0),
            min_s: Seconds(more.extremes_s[0]),
            max_s: Seconds(more.extremes_s[1]),
            time_error_s: None,
        });
        row.calls += more.calls;
        row.bytes += more.bytes;
        row.time_s.0 += more.time_s;
        row.min_s.0 = row.min_s.0.min(more.extremes_s[0]);
        row.max_s.0 = row.max_s.0.max(more.extremes_s[1]);
        Ok(())
    }

    /// The rows, and the sum of their times by rank, as the table has them.
    fn finish(self) -> (Vec<CallRow>, BTreeMap<u32, Seconds>) {
        let mut sums_ns: BTreeMap<u32, u64> = BTreeMap::new();
        for row in self.rows.values() {
            let sum = sums_ns.entry(row.rank).or_default();
            *sum = sum.saturating_add(row.time_s.to_ns());
        }
        let seconds = sums_ns.into_iter().map(|(rank, ns)| (rank, Seconds(ns as f64 / 1e9)));
        (self.rows.into_values().collect(), seconds.collect())
    }
}

/// A time of another profiler: an error if it is none.
fn seconds(value: f64, what: &str) -> Result<Seconds> {
    /// 30 years: longer than any run, and what a table can have.
    const MOST_S: f64 = 1e9;
    if (0.0..MOST_S).contains(&value) {
        return Ok(Seconds(value));
    }
    bail!("{what} has {value} where a time in seconds should be")
}

/// A whole number of another profiler: an error if it is none, or more than a table can have.
fn whole(value: f64, what: &str) -> Result<u64> {
    // Up to 2^63, so that adding two does not overflow.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if (0.0..BEYOND).contains(&value) {
        return Ok(value as u64);
    }
    bail!("{what} has {value} where a number of calls or bytes should be")
}

/// An error if calls took longer than the rank ran: one of them, or all of them in as many threads
/// as no machine has.
fn within_run(more: &Calls, wall_s: f64, what: &str) -> Result<()> {
    /// Reports round to three digits, and clocks differ.
    const ROUNDING: f64 = 1.01;
    const ROUNDING_S: f64 = 1e-3;
    const MOST_THREADS: f64 = 4096.0;
    let most_s = wall_s * ROUNDING + ROUNDING_S;
    let mean_s = more.time_s / more.calls.max(1) as f64;
    let longest_s = mean_s.max(more.extremes_s[1]);
    if longest_s > most_s {
        bail!("{what} has a call of {}, and the rank ran for {}", time(longest_s), time(wall_s));
    }
    if more.time_s > most_s * MOST_THREADS {
        bail!("{what} has calls of {} in all, and the rank ran for {}", time(more.time_s), time(wall_s));
    }
    let [least_s, _] = more.extremes_s;
    if least_s > longest_s * ROUNDING {
        bail!("{what} has a shortest call of {}, and a longest of {}", time(least_s), time(longest_s));
    }
    Ok(())
}
