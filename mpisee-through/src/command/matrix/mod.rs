//! `matrix`: who sends to whom.

mod axis;
mod grid;
mod image;
mod offsets;

use super::Outcome;
use crate::filter::CommFilter;
use crate::matched;
use crate::output::{Format, OutputArgs};
use crate::picture::ImageFile;
use crate::processes::ProcessRows;
use crate::scan::{self, BadField, Fold, Peer};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::units::{count, human_bytes};
use crate::view::ProfileView;
use anyhow::Result;
use axis::Axis;
use clap::{Args, ValueEnum};
use hashbrown::HashMap;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through matrix app.mpisee                          bytes between ranks, as a shaded grid
  mpisee-through matrix app.mpisee --by node --of messages  messages between nodes
  mpisee-through matrix app.mpisee --comm W_a1              on one communicator, its members only
  mpisee-through matrix app.mpisee --image traffic.svg      a picture, .svg or .png
  mpisee-through matrix app.mpisee --format csv             every pair, for other programs";

/// Who sends to whom: a grid of senders (down) and receivers (across), and the pairs with most traffic.
///
/// It is of point-to-point messages; what moves in collectives depends on the algorithm and is not in it. Where there
/// are more ranks than the grid can show, each field is a block of ranks. The axes are the ranks of --ranks that are
/// members of the chosen communicators; only messages between these count. Where rows are sums over ranks there is no
/// grid: messages are told by how far the receiver is from the sender.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MatrixArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// What the fields are
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Of::Bytes)]
    of: Of,

    /// What the axes are
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Rank)]
    by: By,

    /// Fields in a row at most (default: what the terminal can show, in a file 32; in pictures 1024; all in csv and
    /// json)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    fields: Option<u32>,

    /// Write a picture to FILE, which ends in .png or .svg, instead of the table
    #[arg(long, value_name = "FILE")]
    image: Option<ImageFile>,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    Bytes,
    Messages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Rank,
    Node,
}

/// Messages and bytes from one to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub messages: u64,
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.messages = self.messages.saturating_add(other.messages);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn of(self, what: Of) -> u64 {
        match what {
            Of::Bytes => self.bytes,
            Of::Messages => self.messages,
        }
    }
}

/// Traffic between fields of the axis: sender, receiver.
type Pairs = HashMap<(u32, u32), Traffic>;

/// Adds up what the rows of `peers.csv` say was sent.
struct Collector<'a> {
    axis: &'a Axis,
    takes: &'a (dyn Fn(&str) -> bool + Sync),
    /// What was decided about each communicator.
    comms: HashMap<Vec<u8>, bool>,
    pairs: Pairs,
}

impl Fold<Peer<'static>> for Collector<'_> {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        let taken = match self.comms.get(row.comm) {
            Some(&taken) => taken,
            None => {
                let name = std::str::from_utf8(row.comm)
                    .map_err(|_| BadField { column: "comm", why: "the text is not UTF-8".to_owned() })?;
                let taken = (self.takes)(name);
                self.comms.insert(row.comm.to_vec(), taken);
                taken
            }
        };
        let ends = (self.axis.field(row.rank), self.axis.field(row.peer));
        if let (true, 1.., (Some(from), Some(to))) = (taken, row.sent_messages, ends) {
            let sent = Traffic { messages: row.sent_messages, bytes: row.sent_bytes };
            self.pairs.entry((from, to)).or_default().add(sent);
        }
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: &MatrixArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    matched::need_chosen(&view, &args.filter)?;
    match &view.processes().rows {
        ProcessRows::Ranks(_) => by_pair(args, &view),
        ProcessRows::Nodes(_) => offsets::run(args, &view),
    }
}

fn by_pair(args: &MatrixArgs, view: &ProfileView) -> Result<Outcome> {
    let processes = view.processes();
    let page = args.output.page();
    let most = match (args.fields, &args.image, args.output.format()) {
        (Some(fields), ..) => fields,
        (None, Some(_), _) => 1024,
        (None, None, Format::Table) => grid::fitting(page.width),
        (None, None, _) => u32::MAX,
    };
    let axis = Axis::new(processes, &args.filter, args.by == By::Node, most);
    let takes = |comm: &str| args.filter.takes_comm(comm, processes.comms.get(comm));
    let make = || Collector { axis: &axis, takes: &takes, comms: HashMap::new(), pairs: HashMap::new() };
    let scanned = scan::scan::<Peer, Collector<'_>>(view.profile(), make)?;
    let mut pairs = Pairs::new();
    for ((from, to), traffic) in scanned.folds.into_iter().flat_map(|fold| fold.pairs) {
        pairs.entry((from, to)).or_default().add(traffic);
    }
    let mut sorted: Vec<((u32, u32), Traffic)> = pairs.iter().map(|(&ends, &sum)| (ends, sum)).collect();
    sorted.sort_by_key(|&(ends, traffic)| (std::cmp::Reverse(traffic.of(args.of)), ends));
    if let Some(file) = &args.image {
        file.write(&image::picture(&axis, &sorted, args.of))?;
        return scanned.cut_off.map_or(Ok(Outcome::Done), |error| Err(error.into()));
    }
    let mut all = Traffic::default();
    sorted.iter().for_each(|&(_, traffic)| all.add(traffic));
    let mut rows = sorted
        .iter()
        .map(|(ends, traffic)| row(&axis, *ends, *traffic, share(traffic.of(args.of), all.of(args.of))))
        .collect();
    let closing = args.shown.cut(&args.output, &mut rows, "No messages between these ranks.");
    let sheet = Sheet { name: "pairs", heads: heads(&axis), rows };
    let mut answer = Answer::new(view.profile(), sheet, scanned.cut_off);
    if !sorted.is_empty() {
        answer.lead = format!("{}\n{}", sentence(&axis, all, &sorted), grid::drawn(&axis, &sorted, args.of));
    }
    answer.values = vec![("messages", Value::Count(all.messages)), ("bytes", Value::Bytes(all.bytes))];
    answer.closing = closing;
    answer.write(&args.output, false)
}

fn heads(axis: &Axis) -> Vec<Head> {
    let end = if axis.is_by_name() { sheet::fixed } else { sheet::number };
    vec![
        end("from", "FROM"),
        end("to", "TO"),
        sheet::number("messages", "MESSAGES"),
        sheet::number("bytes", "BYTES"),
        sheet::number("share", "SHARE%"),
    ]
}

fn row(axis: &Axis, (from, to): (u32, u32), traffic: Traffic, share: f64) -> Vec<Value> {
    vec![
        Value::Text(axis.name(from)),
        Value::Text(axis.name(to)),
        Value::Count(traffic.messages),
        Value::Bytes(traffic.bytes),
        Value::Share(share),
    ]
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// What there is in all.
fn sentence(axis: &Axis, all: Traffic, pairs: &[((u32, u32), Traffic)]) -> String {
    format!(
        "{} with {}, between {} of {}.\n",
        count(all.messages, "message"),
        human_bytes(all.bytes),
        count(pairs.len() as u64, "pair"),
        if axis.is_shared_row() { "blocks" } else { axis.what() },
    )
}
