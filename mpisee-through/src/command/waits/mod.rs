//! `waits`: who waits for whom in collective operations and messages.

mod image;
mod rows;
mod text;

use super::Outcome;
use crate::axis::Axis;
use crate::cores;
use crate::family_rows::{self, EACH_HINT, FamilyArgs};
use crate::filter::{CallFilter, CallPattern, CommFilter};
use crate::group::By;
use crate::next_step;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::picture::ImageFile;
use crate::sheet::{Answer, Sheet, Shown};
use crate::view::ProfileView;
use crate::waits;
use crate::waits::sentence::sentences;
use anyhow::{Result, bail};
use clap::Args;
use image::Pairs;
use rows::{Of, WaitGroup};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through waits app.mpisee                     who is late, and where others wait
  mpisee-through waits app.mpisee --comm 'W_s2.*' --each
  mpisee-through waits app.mpisee --call allreduce --ranks 0-7
  mpisee-through waits app.mpisee --call messages     only point-to-point messages
  mpisee-through waits app.mpisee --image waits.svg   a picture, who waits for whom
  mpisee-through waits app.mpisee --format csv        each operation, communicator and rank";

/// Who waits for whom, in collectives and messages
///
/// A rank waits from its arrival in a call until the last rank on which it depends has arrived. In
/// MPI_Allreduce and its kind these are all members, in MPI_Bcast the root. A receiver waits for
/// the start of the send, a blocked sender for the receiver. The rest of the call is Transfer.
/// Ranks that are missing at the same time cause equal parts of a wait.
///
/// Times are sums over ranks, estimated for all calls from the sampled ones (Sampled), with 95 %
/// intervals (from, to). They are exact if all calls were sampled. Not sampled is the time of
/// operations with no or too few samples.
///
/// Sentences above the tables name ranks that stand out. They cause much more than an even share,
/// beyond chance. The waiting is 1 % of the wall time or more. See docs/explanation/waits.md for
/// the rules.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WaitsArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    comms: CommFilter,

    /// Only operations whose name matches, with or without MPI_, in any case; * is any text, ? any
    /// character; repeatable (default: all)
    #[arg(long, value_name = "GLOB")]
    call: Vec<CallPattern>,

    /// Write a picture to FILE (.png or .svg) instead of the tables: waiting ranks down, causing
    /// ranks across
    #[arg(long, value_name = "FILE")]
    image: Option<ImageFile>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: &WaitsArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    view.need_mpi("waiting in MPI")?;
    let filter = waits::filter(&args.comms, &args.call);
    if let Some(file) = &args.image {
        return draw(args, &view, &filter, file);
    }
    let mut report = waits::measure(&view, &filter)?;
    let is_empty = report.collective_s.is_empty()
        && report.message_s.is_empty()
        && view.group(&filter, By::default())?.cells.is_empty();
    no_match::need_operation(&view, &filter, is_empty)?;
    no_match::need_chosen(&view, &args.comms)?;
    let takes = |rank: u32| args.comms.takes_rank(rank);
    let findings = sentences(&report, takes);
    let mut page = Page::default();
    let of_families = rows::by_comm(&report);
    let parts = parts(&view, &report, &of_families, args.families.are_on(&args.output));
    match args.output.format() {
        Format::Table => page.add_tables(args, &report, &parts),
        Format::Csv | Format::Json => page.add_rows(args, &report, &parts),
    }
    let nodes = rows::nodes(&report, takes);
    if nodes.rows.len() > 1 {
        page.sheets.push(nodes);
    }
    match args.output.format() {
        Format::Table if report.operations.iter().any(|operation| operation.waiting.is_some()) => {
            let is_part = findings.is_empty() && !sentences(&report, |_| true).is_empty();
            page.lead = text::lead(&report, &findings, is_part, args.shown.limit(&args.output));
        }
        Format::Table => {}
        Format::Csv | Format::Json => page.sheets.push(text::sheet(findings)),
    }
    page.lead += &text::polling(&report, &view, &args.comms).unwrap_or_default();
    let caveats = caveats(&view, &report, takes);
    let mut answer = page.answer(&view, report.cut_off.take(), caveats);
    answer.next = next_step::line(view.profile(), "sites", "which lines of the program make these calls");
    answer.write(&args.output)
}

/// The rows of communicators: those with collective operations and those with messages, most time
/// first.
fn parts(
    view: &ProfileView,
    report: &waits::Report,
    operations: &rows::ByComm<'_>,
    with_families: bool,
) -> Vec<WaitGroup> {
    let of = |of: Of, times: &BTreeMap<String, f64>| {
        let families = family_rows::of_table(view, |row| times.contains_key(&row.comm), with_families);
        families.into_iter().map(move |family| WaitGroup::from_family(&family, of, report, operations))
    };
    let collectives = of(Of::Collectives, &report.collective_s);
    let mut parts: Vec<WaitGroup> = collectives.chain(of(Of::Messages, &report.message_s)).collect();
    parts.sort_by(|one, other| one.order(other));
    parts
}

/// The answer without its notes.
#[derive(Default)]
struct Page {
    lead: String,
    sheets: Vec<Sheet>,
    closing: String,
}

impl Page {
    /// Adds the tables for the terminal: communicators, and the ranks that cause most.
    fn add_tables(&mut self, args: &WaitsArgs, report: &waits::Report, parts: &[WaitGroup]) {
        let has_messages = !report.message_s.is_empty();
        let mut comms = rows::communicators(parts);
        comms.remove_columns(rows::TRANSFER_ENDS);
        let has_comms = !comms.rows.is_empty() || !has_messages;
        if has_comms {
            let nothing = "No time was spent in collective operations.";
            self.closing +=
                &args.shown.cut_of(&args.output, &mut comms.rows, nothing, "collective operations");
            self.sheets.push(comms);
        }
        if has_messages {
            let mut messages = rows::messages(parts);
            messages.remove_columns(rows::MESSAGE_TRANSFER_ENDS);
            self.closing += &args.shown.cut_of(&args.output, &mut messages.rows, "", "messages");
            self.sheets.push(messages);
        }
        let mut ranks = rows::ranks(parts, report, |rank| args.comms.takes_rank(rank));
        self.closing += args.shown.cut_of(&args.output, &mut ranks.rows, "", "ranks").trim_start();
        self.sheets.push(ranks);
        if parts.iter().any(|part| !part.is_single) {
            self.closing += EACH_HINT;
        }
    }

    /// Adds the rows for programs to read: each operation, communicator and rank.
    fn add_rows(&mut self, args: &WaitsArgs, report: &waits::Report, parts: &[WaitGroup]) {
        let mut each = rows::each(report, |rank| args.comms.takes_rank(rank));
        args.shown.cut(&args.output, &mut each.rows, "");
        self.sheets.extend([each, rows::communicators(parts)]);
        let messages = rows::messages(parts);
        if !messages.rows.is_empty() {
            self.sheets.push(messages);
        }
    }

    fn answer(
        mut self,
        view: &ProfileView,
        cut_off: Option<mpisee_profile::ProfileError>,
        notes: Vec<String>,
    ) -> Answer {
        let rest = self.sheets.split_off(1);
        let first = self.sheets.remove(0);
        let mut answer = Answer::new(view.profile(), first, cut_off);
        answer.sheets.extend(rest);
        answer.lead = self.lead;
        answer.closing = self.closing;
        answer.caveats.extend(notes);
        answer
    }
}

/// The limits of the answer. Who lacks a core is late everywhere, by no fault of the program's.
fn caveats(view: &ProfileView, report: &waits::Report, takes: impl Fn(u32) -> bool) -> Vec<String> {
    let lack = cores::lack(view.processes(), takes);
    let of_cores =
        lack.map(|lack| format!("{}. Fix this first; it delays everything else.", lack.sentence()));
    let of_cores = of_cores.or_else(|| cores::note_of_ended(view));
    of_cores.into_iter().chain(text::notes(report)).chain(view.note_of_mpi_alone()).collect()
}

/// Writes the picture of who waits for whom.
fn draw(args: &WaitsArgs, view: &ProfileView, filter: &CallFilter, file: &ImageFile) -> Result<Outcome> {
    no_match::need_chosen(view, &args.comms)?;
    let axis = Axis::new(view.processes(), &args.comms, false, image::MOST_FIELDS);
    let mut pairs = Pairs::default();
    let mut add = |_: &str, waiting, cause, time_s| pairs.add(&axis, waiting, cause, time_s);
    let report = waits::with_pairs(view, filter, Some(&mut add))?;
    if pairs.sum_s() <= 0.0 {
        bail!(
            "there is nothing to draw: no waiting between these ranks is known; notes without --image say why"
        );
    }
    file.write(&pairs.picture(&view.program(), &axis))?;
    report.cut_off.map_or(Ok(Outcome::Done), |error| Err(error.into()))
}
