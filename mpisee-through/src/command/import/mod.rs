//! `import`: a profile made of what another profiler has recorded.

mod cpp_mpisee;
mod mpip;

use super::Outcome;
use crate::output::printable;
use crate::units::{count, count_of};
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
  mpisee-through import mpisee_1732492951.db               the database of the C++ mpisee
  mpisee-through import app.4.9164.1.mpiP -o app.mpisee    a report of mpiP
  mpisee-through diff old.mpisee app.mpisee                as any other profile";

/// Make a profile of what another profiler has recorded: the C++ mpisee or mpiP.
///
/// Numbers are taken over as they are. What the other profiler does not record stays empty, and commands say so: docs/export.md has the list.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// A database of the C++ mpisee (mpisee_*.db), or a report of mpiP (*.mpiP)
    file: PathBuf,

    /// The profile directory to make; if there is one of that name, it gets a number (default: the file's name with .mpisee)
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
struct CallSums(BTreeMap<(String, u32, String, u64, u64), CallRow>);

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
    fn add(&mut self, comm: &str, rank: u32, call: &str, sizes: [u64; 2], more: &Calls) {
        let key = (comm.to_owned(), rank, call.to_owned(), sizes[0], sizes[1]);
        let row = self.0.entry(key).or_insert_with(|| CallRow {
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
        });
        row.calls = row.calls.saturating_add(more.calls);
        row.bytes = row.bytes.saturating_add(more.bytes);
        row.time_s.0 += more.time_s;
        row.min_s.0 = row.min_s.0.min(more.extremes_s[0]);
        row.max_s.0 = row.max_s.0.max(more.extremes_s[1]);
    }

    /// The rows, and the sum of their times by rank, as the table has them.
    fn finish(self) -> (Vec<CallRow>, BTreeMap<u32, Seconds>) {
        let mut sums_ns: BTreeMap<u32, u64> = BTreeMap::new();
        for row in self.0.values() {
            let sum = sums_ns.entry(row.rank).or_default();
            *sum = sum.saturating_add(row.time_s.to_ns());
        }
        let seconds = sums_ns.into_iter().map(|(rank, ns)| (rank, Seconds(ns as f64 / 1e9)));
        (self.0.into_values().collect(), seconds.collect())
    }
}

/// A time of another profiler: an error if it is none.
fn seconds(value: f64, what: &str) -> Result<Seconds> {
    if value.is_finite() && value >= 0.0 {
        return Ok(Seconds(value));
    }
    bail!("{what} has {value} where a time in seconds should be")
}
