//! `waits`: who waits for whom in collective operations and messages.

mod image;
mod rows;
mod text;

use super::Outcome;
use crate::axis::Axis;
use crate::cores;
use crate::family::{self, EACH_HINT, FamilyArgs};
use crate::filter::{CallFilter, CommFilter, parse_lowercase};
use crate::group::By;
use crate::matched;
use crate::output::{Format, OutputArgs};
use crate::picture::ImageFile;
use crate::sheet::{Answer, Sheet, Shown};
use crate::view::ProfileView;
use crate::waits;
use crate::waits::sentence::sentences;
use anyhow::{Result, bail};
use clap::Args;
use image::Pairs;
use mpisee_profile::glob::Glob;
use rows::{Of, Part};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through waits app.mpisee                       who is late, and on which communicators others wait
  mpisee-through waits app.mpisee --comm 'W_s2.*' --each
  mpisee-through waits app.mpisee --call allreduce --ranks 0-7
  mpisee-through waits app.mpisee --call messages       in point-to-point messages alone
  mpisee-through waits app.mpisee --image waits.svg     a picture, who waits for whom
  mpisee-through waits app.mpisee --format csv          each operation, communicator and rank";

/// Who waits for whom in collective operations and messages, from sampled times of arrival.
///
/// A rank waits from its arrival in a call until the last of those has arrived on whom it depends: in MPI_Allreduce and its
/// like on all members, in MPI_Bcast on the root. The rest of the call is transfer. While several are missing, each causes
/// an equal part of the wait, so that ranks together cause what ranks together suffer. In nonblocking collectives ranks wait
/// in the completing call for those that have not started it.
///
/// In messages a receiver waits until the sender has started to send, and a sender that does not leave before until the
/// receiver is there: each in the call that completes its part, which waits for the last of its messages alone.
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

    /// Write a picture to FILE, which ends in .png or .svg, instead of the tables: the ranks that wait down, those that
    /// cause it across
    #[arg(long, value_name = "FILE")]
    image: Option<ImageFile>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &WaitsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    let filter = waits::filter(&args.comms, &args.call);
    if let Some(file) = &args.image {
        return draw(args, &view, &filter, file);
    }
    let mut report = waits::of(&view, &filter)?;
    let is_empty = report.collective_s.is_empty()
        && report.message_s.is_empty()
        && view.group(&filter, By::default())?.cells.is_empty();
    matched::need_operation(&view, &filter, is_empty)?;
    matched::need_chosen(&view, &args.comms)?;
    let with_families = args.families.are_on(&args.output);
    let operations = rows::by_comm(&report);
    let families_in = |times: &BTreeMap<String, f64>| {
        family::of_table(&view, |row| times.contains_key(&row.comm), with_families)
    };
    let of_collectives = families_in(&report.collective_s);
    let of_messages = families_in(&report.message_s);
    let of = |of: Of| {
        let (report, operations) = (&report, &operations);
        move |family| Part::of(family, of, report, operations)
    };
    let mut parts: Vec<Part<'_>> = of_collectives.iter().map(of(Of::Collectives)).collect();
    parts.extend(of_messages.iter().map(of(Of::Messages)));
    parts.sort_by(|one, other| one.order(other));
    let mut closing = String::new();
    let mut sheets = Vec::new();
    let takes = |rank: u32| args.comms.takes_rank(rank);
    if args.output.format() == Format::Table {
        let mut comms = rows::communicators(&parts);
        comms.remove_columns(rows::TRANSFER_ENDS);
        if !comms.rows.is_empty() || of_messages.is_empty() {
            let nothing = "No time was spent in collective operations.";
            closing += &args.shown.cut(&args.output, &mut comms.rows, nothing);
        }
        let mut messages = rows::messages(&parts);
        messages.remove_columns(rows::MESSAGE_TRANSFER_ENDS);
        if !messages.rows.is_empty() {
            closing += &args.shown.cut(&args.output, &mut messages.rows, "");
        }
        let mut ranks = rows::ranks(&parts, &report, takes);
        ranks.rows.truncate(args.shown.limit(&args.output));
        let is_of_messages = comms.rows.is_empty() && !messages.rows.is_empty();
        let tables = [(comms, !is_of_messages), (messages, !of_messages.is_empty()), (ranks, true)];
        sheets.extend(tables.into_iter().filter(|(_, is_kept)| *is_kept).map(|(sheet, _)| sheet));
        if of_collectives.iter().chain(&of_messages).any(|family| !family.is_single()) {
            closing += EACH_HINT;
        }
    } else {
        let mut each = rows::each(&report, takes);
        args.shown.cut(&args.output, &mut each.rows, "");
        sheets.extend([each, rows::communicators(&parts)]);
        let messages = rows::messages(&parts);
        if !messages.rows.is_empty() {
            sheets.push(messages);
        }
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
    let caveats = caveats(&view, &report, takes);
    answer(&view, sheets, report.cut_off.take(), lead, closing, caveats).write(&args.output)
}

/// The limits of the answer. Who lacks a core is late everywhere, by no fault of the program's.
fn caveats(view: &ProfileView, report: &waits::Report, takes: impl Fn(u32) -> bool) -> Vec<String> {
    let lack = cores::lack(view.processes(), takes);
    let first = "look at that first, since who lacks a core is late everywhere.";
    let of_cores = lack.map(|lack| format!("{}: {first}", lack.sentence()));
    of_cores.into_iter().chain(text::notes(report)).collect()
}

/// Writes the picture of who waits for whom.
fn draw(args: &WaitsArgs, view: &ProfileView, filter: &CallFilter, file: &ImageFile) -> Result<Outcome> {
    matched::need_chosen(view, &args.comms)?;
    let axis = Axis::new(view.processes(), &args.comms, false, image::MOST_FIELDS);
    let mut pairs = Pairs::default();
    let mut add = |waiting, cause, time_s| pairs.add(&axis, waiting, cause, time_s);
    let report = waits::with_pairs(view, filter, Some(&mut add))?;
    if pairs.sum_s() <= 0.0 {
        bail!(
            "there is nothing to draw: no waiting between these ranks is known; without --image notes say why"
        );
    }
    file.write(&pairs.picture(&view.program(), &axis))?;
    report.cut_off.map_or(Ok(Outcome::Done), |error| Err(error.into()))
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
