//! Graphs of a profile, whatever the format: communicators by descent, and ranks by messages.

use super::two_counts;
use crate::filter::CallFilter;
use crate::group::By;
use crate::units::{count_of, human_bytes, natural_order, time};
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::rows::{CommRow, PeerRow, RankRow};
use mpisee_profile::run::Lacking;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A number or a text of a node or an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Text(String),
    Count(u64),
    Real(f64),
}

/// Attributes by name; all nodes of a graph have the same names, and all edges.
pub type Attributes = Vec<(&'static str, Attribute)>;

/// A communicator or a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name, unique in the graph.
    pub id: String,
    /// Lines for people.
    pub label: Vec<String>,
    /// Its part of all that the graph's nodes have of their main number, from 0 to 1.
    pub share: f64,
    pub attributes: Attributes,
}

/// From one node to another, by their positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub label: String,
    /// Its part of the largest main number of an edge, from 0 to 1.
    pub share: f64,
    pub attributes: Attributes,
}

/// A directed graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// `communicators` or `ranks`.
    pub name: &'static str,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

impl Graph {
    /// The communicators, with an edge from the parent of each; of an intercommunicator also from
    /// the communicators whose groups it has.
    pub fn of_comms(view: &ProfileView) -> Result<Graph> {
        let groups = view.group(&CallFilter::default(), By { comm: true, ..By::default() })?;
        if let Some(error) = groups.cut_off {
            return Err(error.into());
        }
        let used: HashMap<&str, [u64; 3]> = groups
            .cells
            .iter()
            .map(|(key, cell)| {
                let time_ns = u64::try_from(cell.time_ns).unwrap_or(u64::MAX);
                (groups.comms[key.comm as usize].as_str(), [cell.calls, cell.bytes, time_ns])
            })
            .collect();
        let mut rows: Vec<&CommRow> = view.processes().comms.values().collect();
        rows.sort_by(|one, other| natural_order(&one.comm, &other.comm));
        let all_ns: u128 = used.values().map(|&[.., time_ns]| u128::from(time_ns)).sum();
        let node = |row: &&CommRow| {
            let [calls, bytes, time_ns] = used.get(row.comm.as_str()).copied().unwrap_or_default();
            comm_node(row, [calls, bytes], time_ns as f64 / 1e9, time_ns as f64 / (all_ns.max(1)) as f64)
        };
        let nodes = rows.iter().map(node).collect();
        let places: HashMap<&str, usize> =
            rows.iter().enumerate().map(|(place, row)| (row.comm.as_str(), place)).collect();
        let mut edges = Vec::new();
        for (to, row) in rows.iter().enumerate() {
            let mut sources: Vec<usize> = [row.parent.as_str()]
                .into_iter()
                .chain(row.between.split('|'))
                .filter_map(|name| places.get(name).copied())
                .collect();
            sources.dedup();
            edges.extend(sources.into_iter().map(|from| Edge {
                from,
                to,
                label: row.created_by.clone(),
                share: 0.0,
                attributes: vec![("created_by", Attribute::Text(row.created_by.clone()))],
            }));
        }
        Ok(Graph { name: "communicators", nodes, edges })
    }

    /// The ranks, with an edge from the sender to the receiver of messages, over all communicators.
    pub fn of_ranks(view: &ProfileView) -> Result<Graph> {
        view.need(Lacking::Peers)?;
        let ranks = view.ranks("which rank sends to which")?;
        let pairs = pairs(view, ranks)?;
        let rows: HashMap<u32, &RankRow> = ranks.iter().map(|row| (row.rank, row)).collect();
        let ends = pairs.keys().flat_map(|&(from, to)| [from, to]);
        let mut numbers: Vec<u32> = rows.keys().copied().chain(ends).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let places: HashMap<u32, usize> = numbers.iter().copied().zip(0..).collect();
        let mut bytes = vec![[0u64; 2]; numbers.len()];
        for (&(from, to), &[_, moved]) in &pairs {
            bytes[places[&from]][0] = bytes[places[&from]][0].saturating_add(moved);
            bytes[places[&to]][1] = bytes[places[&to]][1].saturating_add(moved);
        }
        let nodes = numbers
            .iter()
            .zip(&bytes)
            .map(|(rank, &bytes)| rank_node(*rank, rows.get(rank).copied(), bytes))
            .collect();
        let most = pairs.values().map(|&[_, bytes]| bytes).max().unwrap_or(0).max(1);
        let edge = |(&(from, to), &[messages, bytes]): (&(u32, u32), &[u64; 2])| Edge {
            from: places[&from],
            to: places[&to],
            label: human_bytes(bytes),
            share: bytes as f64 / most as f64,
            attributes: vec![("messages", Attribute::Count(messages)), ("bytes", Attribute::Count(bytes))],
        };
        Ok(Graph { name: "ranks", nodes, edges: pairs.iter().map(edge).collect() })
    }

    /// How much is in it.
    pub fn sentence(&self) -> String {
        let node = self.name.trim_end_matches('s');
        two_counts((self.nodes.len() as u64, node), (self.edges.len() as u64, "edge"))
    }
}

fn comm_node(row: &CommRow, [calls, bytes]: [u64; 2], time_s: f64, share: f64) -> Node {
    let size = match row.count {
        1 => count_of(row.size.into(), "process", "processes"),
        many => format!("{many} × {}", row.size),
    };
    let mut label = vec![row.comm.clone()];
    label.extend(Some(row.label.clone()).filter(|label| !label.is_empty()));
    label.push(size);
    label.push(format!("{}, {}", time(time_s), human_bytes(bytes)));
    let text = |text: &str| Attribute::Text(text.to_owned());
    let attributes = vec![
        ("created_by", text(&row.created_by)),
        ("size", Attribute::Count(row.size.into())),
        ("count", Attribute::Count(row.count)),
        ("members", Attribute::Text(row.members.to_string())),
        ("label", text(&row.label)),
        ("topology", text(&row.topology)),
        ("nodes", Attribute::Count(row.nodes.into())),
        ("calls", Attribute::Count(calls)),
        ("bytes", Attribute::Count(bytes)),
        ("time_s", Attribute::Real(time_s)),
    ];
    Node { id: row.comm.clone(), label, share, attributes }
}

/// A rank that is not in `ranks.csv` has no host and no times.
fn rank_node(rank: u32, row: Option<&RankRow>, [sent, received]: [u64; 2]) -> Node {
    let (wall_s, mpi_s) = row.map_or((0.0, 0.0), |row| (row.wall_s.0, row.mpi_s.0));
    let share = if wall_s > 0.0 { (mpi_s / wall_s).min(1.0) } else { 0.0 };
    let host = row.map_or(String::new(), |row| row.host.clone());
    let label = vec![rank.to_string(), host.clone()];
    let attributes = vec![
        ("host", Attribute::Text(host)),
        ("wall_s", Attribute::Real(wall_s)),
        ("mpi_s", Attribute::Real(mpi_s)),
        ("sent_bytes", Attribute::Count(sent)),
        ("received_bytes", Attribute::Count(received)),
    ];
    Node { id: rank.to_string(), label, share, attributes }
}

/// Messages, and bytes with those of one-sided operations, by sender and receiver: as the sender
/// counted them, or where it has no row in `ranks.csv` the receiver.
fn pairs(view: &ProfileView, ranks: &[RankRow]) -> Result<BTreeMap<(u32, u32), [u64; 2]>> {
    let present: HashSet<u32> = ranks.iter().map(|row| row.rank).collect();
    let mut pairs: BTreeMap<(u32, u32), [u64; 2]> = BTreeMap::new();
    let mut add = |from: u32, to: u32, more: [u64; 2]| {
        if more != [0, 0] {
            let sums = pairs.entry((from, to)).or_default();
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
    };
    for row in view.profile().rows_if_any::<PeerRow>()? {
        let row = row?;
        let there = row.counts().one_sided_bytes_to_peer();
        add(row.rank, row.peer, [row.sent_messages, row.sent_bytes.saturating_add(there)]);
        add(row.peer, row.rank, [0, row.get_bytes]);
        if !present.contains(&row.peer) {
            add(row.peer, row.rank, [row.received_messages, row.received_bytes]);
        }
    }
    Ok(pairs)
}
