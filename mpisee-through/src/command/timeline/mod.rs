//! `timeline`: rates over time, and the phases of the program, from what agents read while it ran.

#[cfg(test)]
mod golden;
mod image;
pub mod text;

use super::Outcome;
use crate::output::{Format, OutputArgs};
use crate::picture::ImageFile;
use crate::sheet::{Answer, Head, Sheet, Shown, Value, fixed, number};
use crate::timeline::bins::Bins;
use crate::timeline::is_level;
use crate::timeline::load::TimeLine;
use crate::timeline::phases::{Phase, phases};
use crate::view::TIMES_OF_NCCL;
use anyhow::Result;
use clap::{Args, ValueEnum};
use mpisee_profile::operation::is_nccl;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 64 mpisee --watch ./app                         writes app.mpisee and app.timeline
  mpisee-through timeline app.timeline                      rates and phases
  mpisee-through timeline app.mpisee                        time line beside this profile
  mpisee-through timeline app.timeline --image app.svg      as a picture
  mpisee-through timeline n1/app.timeline n2/app.timeline   nodes without a common folder
  mpisee-through timeline app.timeline --table rates --format csv > rates.csv";

/// Rates over time, and the phases of the program
///
/// Reads the time line of `mpisee --watch` or `mpisee-through agent`, also while the job runs. A
/// chart has a column for each part of the time. Its height is the rate relative to the largest of
/// the row. Mean % and Peak % are the part of the ranks' time in the operation, overall and in the
/// busiest part.
///
/// A phase is a period in which operations and data rates stay alike. It has the name of the
/// operation with most time. See docs/how-to/over-time.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TimelineArgs {
    /// NAME.timeline directory of a job, or its profile; several if nodes share no folder
    #[arg(required = true, value_name = "TIMELINE|PROFILE")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    shown: Shown,

    /// Table for CSV
    #[arg(long, value_name = "TABLE", value_enum, default_value_t = Table::Phases)]
    table: Table,

    /// Write a picture to FILE (.png or .svg) instead of the tables
    #[arg(long, value_name = "FILE")]
    image: Option<ImageFile>,

    #[command(flatten)]
    output: OutputArgs,
}

/// A table for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A row for each phase
    Phases,
    /// A row for each part of the time and each operation
    Rates,
    /// A row for each part of the time and each quantity of nodes: rates per second, levels as they
    /// are
    Nodes,
}

/// Parts of the time in tables for programs, and in pictures.
pub const FINE: usize = 1024;

/// Runs the command.
pub fn run(args: &TimelineArgs) -> Result<Outcome> {
    let mut line = TimeLine::read(&args.paths)?;
    let bins = Bins::from_line(&line, FINE);
    if bins.calls.iter().any(|series| is_nccl(&series.call)) {
        line.notes.push(TIMES_OF_NCCL.to_owned());
    }
    let phases = phases(&bins);
    if let Some(file) = &args.image {
        file.write(&image::picture(&line, &bins, &phases))?;
        return Ok(Outcome::Done);
    }
    if args.output.format() == Format::Table {
        let limit = args.shown.limit(&args.output);
        let text = text::text(&line, &phases, limit, args.output.page());
        args.output.write(text.as_bytes())?;
        return Ok(Outcome::Done);
    }
    answer(&line, &bins, &phases, args.table).write(&args.output)
}

/// The tables for programs, the wanted one first.
fn answer(line: &TimeLine, bins: &Bins, phases: &[Phase], first: Table) -> Answer {
    let mut sheets = vec![phase_sheet(phases), rate_sheet(bins), node_sheet(bins)];
    sheets.swap(0, first as usize);
    Answer {
        next: String::new(),
        lead: String::new(),
        sheets,
        titles: Vec::new(),
        values: vec![
            ("command", Value::Text(line.job.command.join(" "))),
            ("ranks", Value::Count(line.ranks().into())),
            ("start", Value::Text(line.job.start.clone())),
            ("length_s", Value::Seconds(line.end_s())),
        ],
        closing: String::new(),
        caveats: line.notes.clone(),
        cut_off: None,
    }
}

/// A row for each phase.
pub fn phase_sheet(phases: &[Phase]) -> Sheet {
    let row = |(at, phase): (usize, &Phase)| {
        vec![
            Value::Count(at as u64 + 1),
            Value::Seconds(phase.begin_s),
            Value::Seconds(phase.end_s),
            Value::Seconds(phase.end_s - phase.begin_s),
            Value::Share(phase.mpi_share),
            Value::BytesPerSecond(phase.bytes_per_s),
            Value::Text(phase.name.clone()),
        ]
    };
    Sheet {
        name: "phases",
        heads: vec![
            number("phase", "PHASE"),
            number("begin_s", "From"),
            number("end_s", "To"),
            number("length_s", "Length").or_none(),
            number("mpi_share", "MPI %"),
            number("bytes_per_s", "Volume/s").or_none(),
            fixed("name", "MOSTLY"),
        ],
        rows: phases.iter().enumerate().map(row).collect(),
    }
}

const BEGIN_AND_END: [Head; 2] = [number("begin_s", "From"), number("end_s", "To")];

/// A row for each part of the time and operation in it.
fn rate_sheet(bins: &Bins) -> Sheet {
    let mut rows = Vec::new();
    for bin in 0..bins.count {
        for series in &bins.calls {
            let (calls, bytes, time_s) = (series.calls[bin], series.bytes[bin], series.time_s[bin]);
            if calls > 0.0 || time_s > 0.0 {
                rows.push(vec![
                    Value::Seconds(bins.begin_s(bin)),
                    Value::Seconds(bins.begin_s(bin + 1)),
                    Value::Text(series.family.clone()),
                    Value::Text(series.call.clone()),
                    Value::Number(calls / bins.length_of(bin)),
                    Value::BytesPerSecond(bytes / bins.length_of(bin)),
                    Value::Share(bins.share(bin, time_s)),
                ]);
            }
        }
    }
    let mut heads = BEGIN_AND_END.to_vec();
    heads.extend([
        fixed("family", "COMM"),
        fixed("call", "CALL"),
        number("calls_per_s", "Calls/s"),
        number("bytes_per_s", "Volume/s"),
        number("time_share", "% of time"),
    ]);
    Sheet { name: "rates", heads, rows }
}

/// A row for each part of the time and quantity of the nodes.
fn node_sheet(bins: &Bins) -> Sheet {
    let mut rows = Vec::new();
    for bin in 0..bins.count {
        for series in &bins.nodes {
            let value = if is_level(&series.quantity) {
                series.values[bin]
            } else {
                series.values[bin] / bins.length_of(bin)
            };
            if value > 0.0 {
                rows.push(vec![
                    Value::Seconds(bins.begin_s(bin)),
                    Value::Seconds(bins.begin_s(bin + 1)),
                    Value::Text(series.source.clone()),
                    Value::Text(series.device.clone()),
                    Value::Text(series.quantity.clone()),
                    Value::Number(value),
                ]);
            }
        }
    }
    let mut heads = BEGIN_AND_END.to_vec();
    heads.extend([
        fixed("source", "SOURCE"),
        fixed("device", "DEVICE"),
        fixed("quantity", "QUANTITY"),
        number("value", "Value"),
    ]);
    Sheet { name: "nodes", heads, rows }
}
