//! `waits`: who waits for whom in collective operations.

mod rows;
mod text;

use super::Outcome;
use crate::family::{self, EACH_HINT, FamilyArgs};
use crate::filter::{CommFilter, parse_lowercase};
use crate::group::By;
use crate::matched;
use crate::output::{Format, OutputArgs};
use crate::sheet::{Answer, Sheet, Shown};
use crate::view::ProfileView;
use crate::waits;
use crate::waits::sentence::sentences;
use anyhow::Result;
use clap::Args;
use mpisee_profile::glob::Glob;
use rows::Part;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through waits app.mpisee                       who is late, and on which communicators others wait
  mpisee-through waits app.mpisee --comm 'W_s2.*' --each
  mpisee-through waits app.mpisee --call allreduce --ranks 0-7
  mpisee-through waits app.mpisee --format csv          each operation, communicator and rank";

/// Who waits for whom in collective operations, from sampled times of arrival.
///
/// A rank waits from its arrival in a call until the last of those has arrived on whom it depends: in MPI_Allreduce and its
/// like on all members, in MPI_Bcast on the root. The rest of the call is transfer. While several are missing, each causes
/// an equal part of the wait, so that ranks together cause what ranks together suffer.
///
/// Times are estimates for all calls from the sampled ones (Sampled), with intervals of 95 % (from, to); where all calls were
/// sampled they are exact. Not sampled is the time of operations without samples, or with too few to tell.
///
/// Above the tables are the ranks that stand out: those that cause much more than an even share, by more than chance
/// explains, of waiting that is 1 % of the wall time or more. docs/waits.md has the rules.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WaitsArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    comms: CommFilter,

    /// Only operations whose name matches, with or without MPI_, in capitals or not; * is any text,
    /// ? any character; may be repeated (default: all)
    #[arg(long, value_name = "GLOB", value_parser = parse_lowercase)]
    call: Vec<Glob>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &WaitsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let filter = waits::filter(&args.comms, &args.call);
    let mut report = waits::of(&view, &filter)?;
    let is_empty = report.collective_s.is_empty() && view.group(&filter, By::default())?.cells.is_empty();
    matched::need_operation(&view, &filter, is_empty)?;
    matched::need_chosen(&view, &args.comms)?;
    let with_families = args.families.are_on(&args.output);
    let is_kept = |comm: &str| report.collective_s.contains_key(comm);
    let families = family::of_table(&view, |row| is_kept(&row.comm), with_families);
    let operations = rows::by_comm(&report);
    let of_family = |family| Part::of(family, &report, &operations);
    let mut parts: Vec<Part<'_>> = families.iter().map(of_family).collect();
    parts.sort_by(|one, other| one.order(other));
    let mut closing = String::new();
    let mut sheets = Vec::new();
    let takes = |rank: u32| args.comms.takes_rank(rank);
    if args.output.format() == Format::Table {
        let mut comms = rows::communicators(&parts);
        comms.remove_columns(rows::TRANSFER_ENDS);
        closing +=
            &args.shown.cut(&args.output, &mut comms.rows, "No time was spent in collective operations.");
        let mut ranks = rows::ranks(&parts, &report, takes);
        ranks.rows.truncate(args.shown.limit(&args.output));
        sheets.extend([comms, ranks]);
        if families.iter().any(|family| !family.is_single()) {
            closing += EACH_HINT;
        }
    } else {
        let mut each = rows::each(&report, takes);
        args.shown.cut(&args.output, &mut each.rows, "");
        sheets.extend([each, rows::communicators(&parts)]);
    }
    let nodes = rows::nodes(&report, takes);
    if nodes.rows.len() > 1 {
        sheets.push(nodes);
    }
    let findings = sentences(&report, takes);
    let lead = match args.output.format() {
        Format::Table if report.operations.iter().any(|operation| operation.waiting.is_some()) => {
            text::lead(&findings, args.shown.limit(&args.output))
        }
        Format::Table => String::new(),
        Format::Csv | Format::Json => {
            sheets.push(text::sheet(findings));
            String::new()
        }
    };
    let caveats = text::notes(&report);
    answer(&view, sheets, report.cut_off.take(), lead, closing, caveats).write(&args.output)
}

fn answer(
    view: &ProfileView,
    mut sheets: Vec<Sheet>,
    cut_off: Option<mpisee_profile::ProfileError>,
    lead: String,
    closing: String,
    notes: Vec<String>,
) -> Answer {
    let rest = sheets.split_off(1);
    let first = sheets.remove(0);
    let mut answer = Answer::new(view.profile(), first, cut_off);
    answer.sheets.extend(rest);
    answer.lead = lead;
    answer.closing = closing;
    answer.caveats.extend(notes);
    answer
}
