//! The structures of a run: the outlines of its threads, of which like ones are one.

use super::outline::{Outline, outline};
use super::times::{Edges, Times};
use super::{ThreadOrder, read};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::rows::OrderTimeRow;
use mpisee_profile::site::OrderId;
use std::collections::{BTreeSet, HashMap};

/// The different structures, those of most threads first; of one rank, or of all.
///
/// # Errors
/// Of a profile or a rank without an order, and of damaged tables.
pub fn outlines(view: &ProfileView, rank: Option<u32>) -> Result<Vec<Outline>> {
    let mut orders = read(view.profile())?;
    if orders.is_empty() {
        bail!(
            "'{}' has no order of calls: run the program with `mpisee --order`; profiles with sums over ranks have none",
            view.profile().directory().display()
        );
    }
    if let Some(rank) = rank {
        orders.retain(|order| order.row.rank == rank);
        if orders.is_empty() {
            bail!("rank {rank} has no order of calls in '{}'", view.profile().directory().display());
        }
    }
    let edges = edges(view)?;
    let mut known: HashMap<(OrderId, OrderId), usize> = HashMap::new();
    let mut outlines: Vec<Outline> = Vec::new();
    for order in &orders {
        let key = (order.row.rules, order.row.alphabet);
        let no_edges = Edges::default();
        let one = match known.get(&key) {
            // Its communicators alone may differ.
            Some(&at) if orders_alike(&outlines[at], order) => {
                outlines[at].threads.entry(order.row.thread).or_default().insert(order.row.rank);
                continue;
            }
            _ => outline(order, edges.get(&key).unwrap_or(&no_edges)),
        };
        match outlines.iter().position(|other| other.is_like(&one)) {
            Some(at) => {
                outlines[at].merge(one);
                known.insert(key, at);
            }
            None => {
                known.insert(key, outlines.len());
                outlines.push(one);
            }
        }
    }
    outlines.sort_by_key(|it| std::cmp::Reverse(it.threads.values().map(BTreeSet::len).sum::<usize>()));
    Ok(outlines)
}

/// Returns whether the communicators of a thread are among those of an outline.
fn orders_alike(outline: &Outline, order: &ThreadOrder) -> bool {
    let known: BTreeSet<&str> =
        outline.calls.iter().flat_map(|call| call.comms.iter().map(String::as_str)).collect();
    order.row.comms.split(' ').all(|comm| known.contains(comm))
}

/// Times of calls, by sequence and steps.
fn edges(view: &ProfileView) -> Result<HashMap<(OrderId, OrderId), Edges>> {
    let mut edges: HashMap<(OrderId, OrderId), Edges> = HashMap::new();
    for row in view.profile().rows_if_any::<OrderTimeRow>()? {
        let row = row?;
        let times = Times { calls: row.calls, time_s: row.time_s.0, between_s: row.between_s.0 };
        edges.entry((row.rules, row.alphabet)).or_default().insert((row.before, row.step), times);
    }
    Ok(edges)
}
