//! `matrix`: who sends to whom.

mod cart;
pub mod collective;
mod grid;
mod image;
mod offsets;
mod traffic;

use super::Outcome;
use crate::axis::Axis;
use crate::filter::{CallFilter, CommFilter};
use crate::group::By as GroupBy;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::picture::ImageFile;
use crate::processes::ProcessRows;
use crate::scan::{self, Peer};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::units::{count, human_bytes};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use collective::{LeftOut, Recorded};
use mpisee_profile::rows::{OffsetRow, PeerRow};
use mpisee_profile::run::Lacking;
use mpisee_profile::{Operation, OperationKind, ProfileError};
use std::path::PathBuf;
use traffic::{Collector, Of, Pairs, Traffic};

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through matrix app.mpisee                          bytes between ranks, as a shaded grid
  mpisee-through matrix app.mpisee --by node --of messages  messages between nodes
  mpisee-through matrix app.mpisee --comm W_a1              members of one communicator
  mpisee-through matrix app.mpisee --collectives            with the bytes of collectives
  mpisee-through matrix app.mpisee --image traffic.svg      a picture, .svg or .png
  mpisee-through matrix app.mpisee --format csv             every pair, for scripts";

/// Who sends to whom: a grid, and the busiest pairs
///
/// The matrix has point-to-point messages and one-sided operations. The bytes of a get go
/// from the target to the origin. A line has the bytes of collectives, and --collectives adds them
/// by the meaning of each operation, not by the algorithm. See docs/explanation/bytes-and-times.md
/// for the table.
///
/// The axes are ranks of --ranks that are members of the chosen communicators. Only traffic between
/// them counts. If the grid cannot show all ranks, each field is a block of ranks. Profiles with
/// sums over ranks have no grid; they group messages by the distance from sender to receiver.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MatrixArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    /// Quantity of the fields
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Of::Bytes)]
    of: Of,

    /// Senders and receivers on the axes
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Rank)]
    by: By,

    /// Add the bytes of collectives, between the ranks that each operation connects
    #[arg(long)]
    collectives: bool,

    /// Fields per row at most (default: what fits the terminal, 32 in files, 1024 in pictures, all
    /// in CSV and JSON)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    fields: Option<u32>,

    /// Write a picture to FILE (.png or .svg) instead of the table
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
enum By {
    Rank,
    Node,
}

/// Runs the command.
pub fn run(args: &MatrixArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    view.need_mpi("messages of MPI")?;
    view.need(Lacking::Peers)?;
    no_match::need_chosen(&view, &args.filter)?;
    match &view.processes().rows {
        ProcessRows::Ranks(_) => by_pair(args, &view),
        ProcessRows::Nodes(_) => offsets::run(args, &view),
    }
}

fn by_pair(args: &MatrixArgs, view: &ProfileView) -> Result<Outcome> {
    if args.collectives && args.of == Of::Messages {
        bail!(
            "collectives have bytes, and no messages that the profile counts: --collectives goes with --of bytes"
        );
    }
    let page = args.output.page();
    let most = match (args.fields, &args.image, args.output.format()) {
        (Some(fields), ..) => fields,
        (None, Some(_), _) => 1024,
        (None, None, Format::Table) => grid::fitting(page.width),
        (None, None, _) => u32::MAX,
    };
    let axis = Axis::new(view.processes(), &args.filter, args.by == By::Node, most);
    let (mut pairs, mut cut_off) = by_peer(args, view, &axis)?;
    let beside = match args.collectives {
        true => add_collectives(args, view, &axis, &mut pairs)?,
        false => Beside::from_view(args, view, pairs.values().map(|traffic| traffic.bytes))?,
    };
    pairs.retain(|_, traffic| args.of == Of::Bytes || traffic.messages > 0);
    let has_one_sided = pairs.values().any(|traffic| traffic.one_sided_bytes > 0);
    cut_off = cut_off.or(beside.cut_off);
    let (beside, left_out) = (beside.sentence, beside.bytes);
    let mut sorted: Vec<((u32, u32), Traffic)> = pairs.into_iter().collect();
    sorted.sort_by_key(|&(ends, traffic)| (std::cmp::Reverse(traffic.amount(args.of)), ends));
    let mut all = Traffic::default();
    sorted.iter().for_each(|&(_, traffic)| all.add(traffic));
    if let Some(file) = &args.image {
        need_something(args.of, all, &beside)?;
        file.write(&image::picture(&view.program(), &axis, &sorted, args.of, &beside))?;
        return cut_off.map_or(Ok(Outcome::Done), |error| Err(error.into()));
    }
    let part = |traffic: &Traffic| share(traffic.amount(args.of), all.amount(args.of));
    let mut rows = sorted
        .iter()
        .map(|(ends, traffic)| row(args, has_one_sided, &axis, *ends, *traffic, part(traffic)))
        .collect();
    let closing = args.shown.cut(&args.output, &mut rows, NOTHING);
    let sheet = Sheet { name: "pairs", heads: heads(args, has_one_sided, &axis), rows };
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    answer.lead = match sorted.is_empty() {
        true => beside,
        false => {
            let drawn = grid::drawn(&axis, &sorted, args.of);
            format!("{}{beside}\n{drawn}", sentence(&axis, all, &sorted))
        }
    };
    answer.values = vec![("messages", Value::Count(all.messages)), ("bytes", Value::Bytes(all.bytes))];
    if has_one_sided {
        answer.values.push(("one_sided_bytes", Value::Bytes(all.one_sided_bytes)));
    }
    answer.values.push(("collective_bytes", Value::Bytes(all.collective_bytes)));
    answer.values.push(("left_out_collective_bytes", Value::Bytes(left_out)));
    answer.closing = closing;
    answer.caveats.extend(view.note_of_mpi_alone());
    answer.write(&args.output)
}

const NOTHING: &str = "No messages between these ranks.";

/// An error where a picture would be of nothing.
fn need_something(of: Of, all: Traffic, beside: &str) -> Result<()> {
    match (of, all.bytes, all.messages) {
        (_, 0, 0) => {
            let beside = beside.trim_end().trim_end_matches('.');
            let between = if beside.is_empty() { "" } else { ". " };
            bail!("there is nothing to draw: no messages between these ranks{between}{beside}")
        }
        (Of::Bytes, 0, messages) => bail!(
            "there is nothing to draw: {} no bytes; --of messages draws how many there are",
            if messages == 1 {
                "the message has".to_owned()
            } else {
                format!("the {messages} messages have")
            }
        ),
        (Of::Messages, _, 0) => {
            bail!("there is nothing to draw: no messages; --of bytes draws one-sided operations")
        }
        _ => Ok(()),
    }
}

/// Messages and one-sided operations between fields of the axis, and the error that ended reading.
fn by_peer(args: &MatrixArgs, view: &ProfileView, axis: &Axis) -> Result<(Pairs, Option<ProfileError>)> {
    let takes = |comm: &str| view.processes().takes_comm(&args.filter, comm);
    let make = || Collector::new(axis, &takes);
    let scanned = scan::scan::<Peer, Collector<'_>>(view.profile(), make)?;
    let mut pairs = Pairs::new();
    for (ends, traffic) in scanned.folds.into_iter().flat_map(|fold| fold.pairs) {
        pairs.entry(ends).or_default().add(traffic);
    }
    Ok((pairs, scanned.cut_off))
}

/// Returns whether the operation is a collective one of MPI.
pub fn is_mpi_collective(call: &str) -> bool {
    Operation::from_name(call).is_some_and(|call| call.kind() == OperationKind::Collective && !call.is_nccl())
}

/// The note on one-sided operations of MPI, of a profile that does not have their targets.
fn on_one_sided<'c>(view: &ProfileView, calls: impl Iterator<Item = (&'c str, u64)>) -> String {
    let profile = view.profile();
    if profile.has_column::<PeerRow>("puts") || profile.has_column::<OffsetRow>("puts") {
        return String::new();
    }
    let is_one_sided = |call: &str| {
        Operation::from_name(call)
            .is_some_and(|call| call.kind() == OperationKind::OneSided && !call.is_nccl())
    };
    match calls.filter(|(call, _)| is_one_sided(call)).fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes))
    {
        0 => String::new(),
        bytes => format!(
            "Not in it: {} in one-sided operations, whose targets the profile does not have.\n",
            human_bytes(bytes)
        ),
    }
}

/// Collectives, and one-sided operations without a target, which are not in the matrix.
struct Beside {
    /// Bytes in collectives.
    bytes: u64,
    /// The note on both.
    sentence: String,
    /// The error that ended reading.
    cut_off: Option<ProfileError>,
}

impl Beside {
    /// All collectives, beside a matrix of messages and one-sided operations with these bytes.
    fn from_view(args: &MatrixArgs, view: &ProfileView, shown: impl Iterator<Item = u64>) -> Result<Self> {
        let by = GroupBy { call: true, without_times: true, ..GroupBy::default() };
        let groups = view.group(&CallFilter::from_comms(args.filter.clone()), by)?;
        let collective = groups.cells.iter().filter(|(key, _)| is_mpi_collective(groups.call(key)));
        let bytes = collective.map(|(_, cell)| cell.bytes).fold(0, u64::saturating_add);
        let both = shown.fold(bytes, u64::saturating_add);
        let one_sided =
            on_one_sided(view, groups.cells.iter().map(|(key, cell)| (groups.call(key), cell.bytes)));
        let sentence = match bytes {
            0 => one_sided,
            _ => format!(
                "Not in it: {} in collectives, {:.1} % of both; --collectives adds them.\n{one_sided}",
                human_bytes(bytes),
                100.0 * share(bytes, both)
            ),
        };
        Ok(Beside { bytes, sentence, cut_off: groups.cut_off })
    }

    /// The bytes of which the profile does not tell who sends to whom.
    fn without_place(left_out: &LeftOut<'_>, one_sided: &str, cut_off: Option<ProfileError>) -> Self {
        let sentence = match left_out.bytes {
            0 => one_sided.to_owned(),
            bytes => format!(
                "Not in it: {} in {}, of which the profile does not have who sends to whom.\n{one_sided}",
                human_bytes(bytes),
                left_out.calls.iter().copied().collect::<Vec<_>>().join(", ")
            ),
        };
        Beside { bytes: left_out.bytes, sentence, cut_off }
    }
}

/// Adds the bytes of collectives, and returns those that have no place.
fn add_collectives(args: &MatrixArgs, view: &ProfileView, axis: &Axis, pairs: &mut Pairs) -> Result<Beside> {
    let comms = &view.processes().comms;
    let by = GroupBy { comm: true, call: true, rank: true, ..GroupBy::default() };
    // Of all ranks, since those of the axis may be the partners of others.
    let mut groups = view.group(&CallFilter::default(), by)?;
    let cut_off = groups.cut_off.take();
    let mut recorded = Recorded::new();
    for (key, cell) in &groups.cells {
        let (comm, call) = (groups.comm(key), groups.call(key));
        if is_mpi_collective(call) && view.processes().takes_comm(&args.filter, comm) {
            let by_rank = recorded.entry((comm, call)).or_default();
            *by_rank.entry(key.rank).or_insert(0) += cell.bytes;
        }
    }
    let run = view.run();
    let is_whole = run.complete && !run.recording_was_off && cut_off.is_none();
    let left_out = collective::place(
        &recorded,
        |comm| comms.get(comm),
        |row| is_whole && view.processes().present_count(&row.members) == row.members.len(),
        |from, to, bytes| {
            if let (1.., Some(from), Some(to)) = (bytes, axis.field(from), axis.field(to)) {
                pairs.entry((from, to)).or_default().add(Traffic::from_collectives(bytes));
            }
        },
    );
    let calls =
        groups.cells.iter().filter(|(key, _)| view.processes().takes_comm(&args.filter, groups.comm(key)));
    let one_sided = on_one_sided(view, calls.map(|(key, cell)| (groups.call(key), cell.bytes)));
    Ok(Beside::without_place(&left_out, &one_sided, cut_off))
}

fn heads(args: &MatrixArgs, has_one_sided: bool, axis: &Axis) -> Vec<Head> {
    let end = if axis.is_by_name() { sheet::fixed } else { sheet::number };
    let mut heads = vec![
        end("from", "FROM"),
        end("to", "TO"),
        sheet::number("messages", "MESSAGES"),
        sheet::number("bytes", "BYTES"),
        sheet::number("share", args.of.share()),
    ];
    if has_one_sided {
        heads.insert(4, sheet::number("one_sided_bytes", "ONE-SIDED").or_none());
    }
    if args.collectives {
        heads.insert(heads.len() - 1, sheet::number("collective_bytes", "COLLECTIVE"));
    }
    heads
}

fn row(
    args: &MatrixArgs,
    has_one_sided: bool,
    axis: &Axis,
    (from, to): (u32, u32),
    traffic: Traffic,
    share: f64,
) -> Vec<Value> {
    let mut row = vec![
        Value::Text(axis.name(from)),
        Value::Text(axis.name(to)),
        Value::Count(traffic.messages),
        Value::Bytes(traffic.bytes),
        Value::Share(share),
    ];
    if has_one_sided {
        row.insert(4, Value::Bytes(traffic.one_sided_bytes));
    }
    if args.collectives {
        row.insert(row.len() - 1, Value::Bytes(traffic.collective_bytes));
    }
    row
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// The totals.
fn sentence(axis: &Axis, all: Traffic, pairs: &[((u32, u32), Traffic)]) -> String {
    let messages = format!("{} with {}", count(all.messages, "message"), human_bytes(all.message_bytes()));
    let others = match (all.one_sided_bytes, all.collective_bytes) {
        (0, 0) => String::new(),
        (one_sided, 0) => format!(", and {} in one-sided operations", human_bytes(one_sided)),
        (0, collective) => format!(", and {} in collectives", human_bytes(collective)),
        (one_sided, collective) => format!(
            ", {} in one-sided operations, and {} in collectives",
            human_bytes(one_sided),
            human_bytes(collective)
        ),
    };
    let among = if axis.has_blocks() { "blocks" } else { axis.what() };
    format!("{messages}{others}, between {} of {among}.\n", count(pairs.len() as u64, "pair"))
}
