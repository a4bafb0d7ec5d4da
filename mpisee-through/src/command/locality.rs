//! `locality`: the traffic of communicators within nodes and across nodes.

use super::Outcome;
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::no_match;
use crate::output::OutputArgs;
use crate::scan::{self, BadField, Fold, Peer};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::units::{count, natural_order};
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use hashbrown::HashMap;
use mpisee_profile::rows::{CommRow, RankRow};
use mpisee_profile::run::Lacking;
use mpisee_profile::{Operation, OperationKind};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through locality app.mpisee                   communicators with most time
  mpisee-through locality app.mpisee --scattered       those that would fit a node and are on several
  mpisee-through locality app.mpisee --comm 'W_s2.*' --format csv";

/// Traffic of each communicator within nodes and across nodes.
///
/// % of pairs is the part of all pairs of members that are on one node, which is the share that uniform all-to-all
/// traffic would have within nodes. % of P2P is the part of the bytes of point-to-point messages that stayed on a node.
/// Collective is the volume of collectives; where it went depends on the algorithm and is not recorded. FITS marks
/// communicators on several nodes that have no more members than one node of the run has ranks.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LocalityArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Only communicators that would fit a node and are on several (default: all)
    #[arg(long)]
    scattered: bool,

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [Head; 9] = [
    sheet::fixed("comm", "COMM"),
    sheet::number("size", "SIZE"),
    sheet::number("nodes", "NODES"),
    sheet::number("time_s", "Time"),
    sheet::number("pairs_inside", "% of pairs"),
    sheet::number("p2p_bytes", "P2P").or_none(),
    sheet::number("p2p_inside", "% of P2P"),
    sheet::number("collective_bytes", "Collective").or_none(),
    sheet::fixed("fits_a_node", "FITS").or_none(),
];

/// Bytes of point-to-point messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes {
    inside: u64,
    across: u64,
}

impl Bytes {
    fn add(&mut self, other: Bytes) {
        self.inside = self.inside.saturating_add(other.inside);
        self.across = self.across.saturating_add(other.across);
    }

    fn all(self) -> u64 {
        self.inside.saturating_add(self.across)
    }

    fn share_inside(self) -> Value {
        match self.all() {
            0 => Value::Nothing,
            all => Value::Share(self.inside as f64 / all as f64),
        }
    }
}

/// Adds up what was sent per communicator.
struct Collector<'a> {
    nodes: &'a HashMap<u32, u32>,
    comms: HashMap<Vec<u8>, Bytes>,
}

impl Fold<Peer<'static>> for Collector<'_> {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        // The node of a process that is not in ranks.csv is unknown.
        let (Some(from), Some(to)) = (self.nodes.get(&row.rank), self.nodes.get(&row.peer)) else {
            return Ok(());
        };
        let sent = if from == to {
            Bytes { inside: row.sent_bytes, across: 0 }
        } else {
            Bytes { inside: 0, across: row.sent_bytes }
        };
        match self.comms.get_mut(row.comm) {
            Some(sum) => sum.add(sent),
            None => {
                self.comms.insert(row.comm.to_vec(), sent);
            }
        }
        Ok(())
    }
}

/// A communicator with what was found.
struct Found<'a> {
    row: &'a CommRow,
    time_s: f64,
    pairs_inside: Option<f64>,
    p2p: Bytes,
    collective: u64,
    fits: bool,
}

/// Runs the command.
pub fn run(args: &LocalityArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    answer(args, &view)?.write(&args.output)
}

/// The answer of the command.
pub fn answer(args: &LocalityArgs, view: &ProfileView) -> Result<Answer> {
    view.need_mpi("message between nodes")?;
    view.need(Lacking::Peers)?;
    let (nodes, largest) = nodes(view.ranks("between which nodes messages went")?);
    no_match::need_chosen(view, &args.filter)?;
    let make = || Collector { nodes: &nodes, comms: HashMap::new() };
    let scanned = scan::scan::<Peer, Collector<'_>>(view.profile(), make)?;
    let mut p2p: HashMap<Vec<u8>, Bytes> = HashMap::new();
    for (comm, bytes) in scanned.folds.into_iter().flat_map(|fold| fold.comms) {
        p2p.entry(comm).or_default().add(bytes);
    }
    let by = By { comm: true, call: true, ..By::default() };
    let mut groups = view.group(&CallFilter::default(), by)?;
    let cut_off = scanned.cut_off.or(groups.cut_off.take());
    let mut sums: HashMap<&str, (f64, u64)> = HashMap::new();
    for (key, cell) in &groups.cells {
        let sum = sums.entry(groups.comm(key)).or_default();
        sum.0 += cell.time_s();
        if Operation::from_name(groups.call(key)).is_some_and(|call| call.kind() == OperationKind::Collective)
        {
            sum.1 = sum.1.saturating_add(cell.bytes);
        }
    }
    let mut found: Vec<Found<'_>> = view
        .processes()
        .comms
        .values()
        .filter(|row| row.size > 1 && view.processes().takes_row(&args.filter, row))
        .map(|row| {
            let (time_s, collective) = sums.get(row.comm.as_str()).copied().unwrap_or_default();
            Found {
                row,
                time_s,
                pairs_inside: pairs_inside(row, &nodes),
                p2p: p2p.get(row.comm.as_bytes()).copied().unwrap_or_default(),
                collective,
                fits: row.nodes > 1 && row.size <= largest,
            }
        })
        .collect();
    let lead = sentence(&found, largest);
    found.retain(|comm| !args.scattered || comm.fits);
    found.sort_by(|left, right| {
        right.time_s.total_cmp(&left.time_s).then_with(|| natural_order(&left.row.comm, &right.row.comm))
    });
    let mut rows = found.iter().map(row).collect();
    let closing = args.shown.cut(&args.output, &mut rows, "No communicator of several processes is left.");
    let sheet = Sheet { name: "communicators", heads: HEADS.to_vec(), rows };
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    answer.lead = lead;
    answer.closing = closing;
    Ok(answer)
}

/// The node of each rank, and how many ranks the fullest node has.
fn nodes(ranks: &[RankRow]) -> (HashMap<u32, u32>, u32) {
    let mut hosts: HashMap<&str, u32> = HashMap::new();
    let mut sizes: Vec<u32> = Vec::new();
    let mut nodes = HashMap::new();
    for row in ranks {
        let node = *hosts.entry(&row.host).or_insert_with(|| {
            sizes.push(0);
            (sizes.len() - 1) as u32
        });
        sizes[node as usize] += 1;
        nodes.insert(row.rank, node);
    }
    (nodes, sizes.into_iter().max().unwrap_or(0))
}

/// The part of all pairs of members that are on one node.
fn pairs_inside(row: &CommRow, nodes: &HashMap<u32, u32>) -> Option<f64> {
    let mut on_node: HashMap<u32, u64> = HashMap::new();
    for rank in row.members.all().iter() {
        *on_node.entry(*nodes.get(&rank)?).or_default() += 1;
    }
    let all: u64 = on_node.values().sum();
    let pairs = |members: u64| (members as f64) * (members.saturating_sub(1) as f64);
    // Of two groups only pairs across them talk, but all pairs show as well who is where.
    (all > 1).then(|| on_node.values().map(|&members| pairs(members)).sum::<f64>() / pairs(all))
}

fn row(comm: &Found<'_>) -> Vec<Value> {
    vec![
        comm.row.comm.as_str().into(),
        Value::Count(u64::from(comm.row.size)),
        Value::Count(u64::from(comm.row.nodes)),
        Value::Seconds(comm.time_s),
        comm.pairs_inside.map_or(Value::Nothing, Value::Share),
        Value::Bytes(comm.p2p.all()),
        comm.p2p.share_inside(),
        Value::Bytes(comm.collective),
        if comm.fits { "a node".into() } else { Value::Nothing },
    ]
}

fn sentence(found: &[Found<'_>], largest: u32) -> String {
    let mut p2p = Bytes::default();
    found.iter().for_each(|comm| p2p.add(comm.p2p));
    let inside = match p2p.share_inside() {
        Value::Share(share) => {
            format!("{:.1} % of the bytes of point-to-point messages stay on a node", 100.0 * share)
        }
        _ => "There are no bytes in point-to-point messages".to_owned(),
    };
    let scattered = found.iter().filter(|comm| comm.fits).count() as u64;
    let (spread, they) = match scattered {
        1 => ("is", "it"),
        _ => ("are", "they"),
    };
    match scattered {
        0 => format!("{inside}.\n"),
        _ => format!(
            "{inside}. {} {spread} on several nodes though {they} would fit one ({}).\n",
            count(scattered, "communicator"),
            count(u64::from(largest), "rank"),
        ),
    }
}
