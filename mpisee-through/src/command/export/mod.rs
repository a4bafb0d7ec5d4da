//! `export`: a profile in the formats of other tools.

mod caliper;
mod dot;
mod graph;
mod parquet;

use super::Outcome;
use crate::output::{is_stdout, printable};
use crate::units::count;
use crate::view::ProfileView;
use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args, ValueEnum};
use graph::Graph;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through export app.mpisee --parquet tables            tables/calls.parquet and others
  mpisee-through export app.mpisee --hatchet app.json          for Hatchet and Thicket
  mpisee-through export app.mpisee --dot - | dot -Tsvg         the tree of communicators, drawn
  mpisee-through export app.mpisee --graph ranks --dot r.dot   who sends to whom";

/// Write the profile for other tools: Parquet, Graphviz, Hatchet, Thicket
///
/// Give one or more formats. Existing files are overwritten. See docs/how-to/export.md for the
/// files and the tested tools.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("formats").required(true).multiple(true))]
pub struct ExportArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Write every table as a Parquet file in the folder DIR, with units and descriptions of the
    /// columns
    #[arg(long, value_name = "DIR", group = "formats")]
    parquet: Option<PathBuf>,

    /// Write time, calls and bytes by region, communicator and operation as Caliper JSON; - is
    /// standard output
    #[arg(long, value_name = "FILE", group = "formats")]
    hatchet: Option<PathBuf>,

    /// Write a graph for Graphviz; - is standard output
    #[arg(long, value_name = "FILE", group = "formats")]
    dot: Option<PathBuf>,

    /// Graph of --dot
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = GraphOf::Comms)]
    graph: GraphOf,
}

/// The nodes of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphOf {
    /// Communicators, with an edge from the parent to each child
    Comms,
    /// Ranks, with an edge from the sender to the receiver of messages
    Ranks,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<Outcome> {
    let files = [&args.hatchet, &args.dot];
    if files.into_iter().flatten().filter(|file| is_stdout(file)).count() > 1 {
        bail!("only one file can be standard output (-); name the others");
    }
    let view = ProfileView::open(&args.profile)?;
    if let Some(folder) = &args.parquet {
        say(folder, &parquet::write(view.profile(), folder)?)?;
    }
    if let Some(file) = &args.hatchet {
        let tree = caliper::CallTree::read(&view)?;
        into(file, |out| tree.write(&view, out))?;
        say(file, &tree.sentence())?;
    }
    if let Some(file) = &args.dot {
        let graph = match args.graph {
            GraphOf::Comms => Graph::of_comms(&view)?,
            GraphOf::Ranks => Graph::of_ranks(&view)?,
        };
        into(file, |out| dot::write(&graph, out))?;
        say(file, &graph.sentence())?;
    }
    Ok(Outcome::Done)
}

/// Lets `write` fill the file; `-` is standard output.
fn into(file: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if is_stdout(file) {
        let mut out = BufWriter::new(std::io::stdout().lock());
        write(&mut out)?;
        return out.flush().context("cannot write the output");
    }
    let failed = || format!("cannot write '{}'", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(failed)?);
    write(&mut out).with_context(failed)?;
    out.flush().with_context(failed)
}

/// Says what a file has, unless the file is standard output.
fn say(file: &Path, what: &str) -> Result<()> {
    if !is_stdout(file) {
        writeln!(std::io::stdout(), "{}", printable(&format!("{}: {what}", file.display())))?;
    }
    Ok(())
}

/// `3 tables, 120 rows`.
fn two_counts(one: (u64, &str), other: (u64, &str)) -> String {
    format!("{}, {}", count(one.0, one.1), count(other.0, other.1))
}
