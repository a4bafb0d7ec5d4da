//! `locality`: the traffic of communicators within nodes and across nodes.

use super::Outcome;
use crate::family_rows::{self, EACH_HINT, Family, FamilyArgs};
use crate::filter::{CallFilter, CommFilter};
use crate::group::By;
use crate::no_match;
use crate::output::{Format, OutputArgs};
use crate::scan::{self, BadField, Fold, Peer};
use crate::sheet::{self, Answer, Head, Sheet, Shown, Value};
use crate::units::{count, natural_order};
use crate::view::ProfileView;
use anyhow::Result;
use clap::Args;
use hashbrown::HashMap;
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::{CommRow, RankRow};
use mpisee_profile::run::Lacking;
use mpisee_profile::{Operation, OperationKind};
use std::ops::Range;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through locality app.mpisee                   communicators with most time
  mpisee-through locality app.mpisee --scattered       those that fit on a node and span several
  mpisee-through locality app.mpisee --each            a row for each communicator
  mpisee-through locality app.mpisee --comm 'W_s2.*' --format csv";

/// Traffic within and between nodes, per communicator
///
/// % of P2P is the part of point-to-point bytes that stayed on a node. % of pairs is the part of
/// the pairs of members that are on one node. Uniform traffic would have this part on nodes.
/// One-sided is the volume of puts, gets and accumulations. % of one-sided is the part of it that
/// stayed on a node.
/// Collective is the volume of collectives. Their routes depend on the algorithm and are not
/// recorded.
///
/// FITS marks communicators on several nodes that have no more members than one node of the run has
/// ranks. Like communicators share a row: times and bytes are sums, % of pairs is over all their
/// pairs. See docs/explanation/efficiency.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LocalityArgs {
    /// Profile of the run, a directory NAME.mpisee
    profile: PathBuf,

    #[command(flatten)]
    shown: Shown,

    /// Show only communicators that would fit on a node and span several (default: all)
    #[arg(long)]
    scattered: bool,

    #[command(flatten)]
    families: FamilyArgs,

    #[command(flatten)]
    filter: CommFilter,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [Head; 12] = [
    sheet::fixed("comm", "COMM"),
    sheet::number("size", "SIZE"),
    sheet::number("nodes", "NODES"),
    sheet::number("time_s", "Time sum"),
    sheet::number("pairs_inside", "% of pairs"),
    sheet::number("p2p_bytes", "P2P").or_none(),
    sheet::number("p2p_inside", "% of P2P"),
    sheet::number("one_sided_bytes", "One-sided").or_none(),
    sheet::number("one_sided_inside", "% of one-sided").or_none(),
    sheet::number("collective_bytes", "Collective").or_none(),
    sheet::fixed("fits_a_node", "FITS").or_none(),
    sheet::number("count", "COUNT"),
];
/// The column that only families for programs have: tables have it in SIZE.
const COUNT: Range<usize> = 11..12;
/// The columns of one-sided operations, which are left out if the run has none.
const ONE_SIDED: Range<usize> = 7..9;

/// Bytes of messages or of one-sided operations.
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

/// Bytes by peer, of messages and of one-sided operations.
#[derive(Clone, Copy, Debug, Default)]
struct ByPeer {
    p2p: Bytes,
    one_sided: Bytes,
}

impl ByPeer {
    fn add(&mut self, other: ByPeer) {
        self.p2p.add(other.p2p);
        self.one_sided.add(other.one_sided);
    }
}

/// Adds up what was sent per communicator.
struct Collector<'a> {
    nodes: &'a HashMap<u32, u32>,
    comms: HashMap<Vec<u8>, ByPeer>,
}

impl Fold<Peer<'static>> for Collector<'_> {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        // The node of a process that is not in ranks.csv is unknown.
        let (Some(from), Some(to)) = (self.nodes.get(&row.rank), self.nodes.get(&row.peer)) else {
            return Ok(());
        };
        let by_node = |bytes| match from == to {
            true => Bytes { inside: bytes, across: 0 },
            false => Bytes { inside: 0, across: bytes },
        };
        let [there, back] = row.one_sided_bytes;
        let sent = ByPeer { p2p: by_node(row.sent_bytes), one_sided: by_node(there.saturating_add(back)) };
        match self.comms.get_mut(row.comm) {
            Some(sum) => sum.add(sent),
            None => {
                self.comms.insert(row.comm.to_vec(), sent);
            }
        }
        Ok(())
    }
}

/// Pairs of members, in both orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PairCounts {
    inside: u128,
    all: u128,
}

/// The sums of a communicator.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    time_s: f64,
    /// None if the node of some member is unknown.
    pairs: Option<PairCounts>,
    by_peer: ByPeer,
    collective: u64,
    fits: bool,
}

/// The sums of like communicators, which share a row.
struct Shared<'a> {
    family: Family<'a>,
    sums: Found,
    /// The number of communicators that would fit a node.
    fitting: u64,
}

impl<'a> Shared<'a> {
    fn from_family(family: Family<'a>, found: &HashMap<&str, Found>) -> Self {
        let each = || family.rows.iter().filter_map(|row| found.get(row.comm.as_str()));
        let mut sums = Found { pairs: Some(PairCounts::default()), ..Found::default() };
        for one in each() {
            sums.time_s += one.time_s;
            sums.pairs = sums.pairs.zip(one.pairs).map(|(sum, more)| PairCounts {
                inside: sum.inside.saturating_add(more.inside),
                all: sum.all.saturating_add(more.all),
            });
            sums.by_peer.add(one.by_peer);
            sums.collective = sums.collective.saturating_add(one.collective);
        }
        let fits = |row: &&&CommRow| found.get(row.comm.as_str()).is_some_and(|one| one.fits);
        let fitting = family.rows.iter().filter(fits).map(|row| row.count).fold(0, u64::saturating_add);
        Shared { family, sums, fitting }
    }

    fn row(&self, is_table: bool) -> Vec<Value> {
        let Shared { family, sums, fitting } = self;
        // Exact where all have one, for programs.
        let number = |text: String| text.parse().map_or_else(|_| Value::Text(text), Value::Count);
        let pairs = sums.pairs.filter(|pairs| pairs.all > 0);
        vec![
            family.name.as_str().into(),
            if is_table { Value::Text(family.size_text()) } else { number(family.sizes()) },
            number(family.nodes()),
            Value::Seconds(sums.time_s),
            pairs.map_or(Value::Nothing, |pairs| Value::Share(pairs.inside as f64 / pairs.all as f64)),
            Value::Bytes(sums.by_peer.p2p.all()),
            sums.by_peer.p2p.share_inside(),
            Value::Bytes(sums.by_peer.one_sided.all()),
            sums.by_peer.one_sided.share_inside(),
            Value::Bytes(sums.collective),
            match fitting {
                0 => Value::Nothing,
                fitting if *fitting < family.count() => {
                    Value::Text(format!("a node ({fitting} of {})", family.count()))
                }
                _ => "a node".into(),
            },
            Value::Count(family.count()),
        ]
    }
}

/// Runs the command.
pub fn run(args: &LocalityArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    answer(args, &view)?.write(&args.output)
}

/// The answer of the command.
pub fn answer(args: &LocalityArgs, view: &ProfileView) -> Result<Answer> {
    view.need_mpi("messages between nodes")?;
    view.need(Lacking::Peers)?;
    let (nodes, largest) = nodes(view.ranks("between which nodes messages went")?);
    no_match::need_chosen(view, &args.filter)?;
    let make = || Collector { nodes: &nodes, comms: HashMap::new() };
    let scanned = scan::scan::<Peer, Collector<'_>>(view.profile(), make)?;
    let mut by_peer: HashMap<Vec<u8>, ByPeer> = HashMap::new();
    for (comm, bytes) in scanned.folds.into_iter().flat_map(|fold| fold.comms) {
        by_peer.entry(comm).or_default().add(bytes);
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
    let taken =
        |row: &CommRow| row.size > 1 && !is_nccl(&row.comm) && view.processes().takes_row(&args.filter, row);
    let rows = view.processes().comms.values().filter(|row| taken(row));
    let found: HashMap<&str, Found> = rows
        .map(|row| {
            let (time_s, collective) = sums.get(row.comm.as_str()).copied().unwrap_or_default();
            let found = Found {
                time_s,
                pairs: pair_counts(row, &nodes),
                by_peer: by_peer.get(row.comm.as_bytes()).copied().unwrap_or_default(),
                collective,
                fits: row.nodes > 1 && row.size <= largest,
            };
            (row.comm.as_str(), found)
        })
        .collect();
    let lead = sentence(&found, largest);
    let is_kept = |row: &CommRow| found.get(row.comm.as_str()).is_some_and(|one| !args.scattered || one.fits);
    let families = family_rows::of_table(view, is_kept, args.families.are_on(&args.output));
    let (sheet, closing) =
        sheet(args, families.into_iter().map(|family| Shared::from_family(family, &found)).collect());
    let mut answer = Answer::new(view.profile(), sheet, cut_off);
    answer.lead = lead;
    answer.closing = closing;
    answer.caveats.extend(view.note_of_mpi_alone());
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

/// The pairs of members, and those that are on one node.
fn pair_counts(row: &CommRow, nodes: &HashMap<u32, u32>) -> Option<PairCounts> {
    let mut on_node: HashMap<u32, u128> = HashMap::new();
    for rank in row.members.all().iter() {
        *on_node.entry(*nodes.get(&rank)?).or_default() += 1;
    }
    let pairs = |members: u128| members * members.saturating_sub(1);
    // Of two groups only pairs across them talk, but all pairs show as well who is where.
    Some(PairCounts {
        inside: on_node.values().map(|&members| pairs(members)).sum(),
        all: pairs(on_node.values().sum()),
    })
}

/// The rows, most time first, and the text below them.
fn sheet(args: &LocalityArgs, mut shared: Vec<Shared<'_>>) -> (Sheet, String) {
    shared.sort_by(|left, right| {
        let by_time = right.sums.time_s.total_cmp(&left.sums.time_s);
        by_time.then_with(|| natural_order(&left.family.name, &right.family.name))
    });
    let is_table = args.output.format() == Format::Table;
    let mut rows = shared.iter().map(|shared| shared.row(is_table)).collect();
    let mut closing =
        args.shown.cut(&args.output, &mut rows, "No communicator of several processes is left.");
    if shared.iter().any(|shared| !shared.family.is_single()) {
        closing += EACH_HINT;
    }
    let mut sheet = Sheet { name: "communicators", heads: HEADS.to_vec(), rows };
    let has_one_sided = shared.iter().any(|shared| shared.sums.by_peer.one_sided.all() > 0);
    if is_table || !args.families.are_on(&args.output) {
        sheet.remove_columns(COUNT);
    }
    if !has_one_sided {
        sheet.remove_columns(ONE_SIDED);
    }
    (sheet, closing)
}

fn sentence(found: &HashMap<&str, Found>, largest: u32) -> String {
    let mut p2p = Bytes::default();
    found.values().for_each(|comm| p2p.add(comm.by_peer.p2p));
    let inside = match p2p.share_inside() {
        Value::Share(share) => {
            format!("{:.1} % of the bytes of point-to-point messages stay on a node", 100.0 * share)
        }
        _ => "There are no bytes in point-to-point messages".to_owned(),
    };
    let scattered = found.values().filter(|comm| comm.fits).count() as u64;
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
