//! The counters of a snapshot.

use super::Snapshot;
use crate::Operation;
use crate::segment::key::{Meaning, OperationAtSite, PollErrorKey, SlotKey};
use crate::segment::layout::{call, gpu_time, peer, poll_error};
use crate::site::SiteId;
use std::borrow::Cow;
use std::collections::HashMap;

/// The values of a slot's key.
pub type Counter = (SlotKey, [u64; 6]);

impl Snapshot {
    /// The values of a key.
    pub fn values_of(&self, key: SlotKey) -> Option<&[u64; 6]> {
        let at = self.counters.binary_search_by_key(&key, |&(key, _)| key).ok()?;
        Some(&self.counters[at].1)
    }

    /// The counters, where calls at sites of one identifier are counted at the first of them.
    ///
    /// A library that was unloaded and loaded at other addresses has further numbers for its
    /// sites. `ids` are the identifiers of the sites.
    pub fn counters_by_site(&self, ids: &[Option<SiteId>]) -> Cow<'_, [Counter]> {
        let mut numbers: HashMap<(Operation, SiteId), u32> = HashMap::new();
        let firsts: Vec<Option<u32>> = (0..)
            .zip(&self.sites)
            .zip(ids)
            .map(|((number, site), id)| Some(*numbers.entry((site.operation, (*id)?)).or_insert(number)))
            .collect();
        if (0..).zip(&firsts).all(|(number, first)| first.is_none_or(|first| first == number)) {
            return Cow::Borrowed(&self.counters);
        }
        let mut counters = self.counters.clone();
        for (key, _) in &mut counters {
            let first = |at_site: OperationAtSite| {
                let first = (*firsts.get(at_site.site_number()? as usize)?)?;
                Some(OperationAtSite::site(first))
            };
            match key.meaning() {
                Some(Meaning::Call(call)) => {
                    *key = first(call.operation).map_or(*key, |first| key.with_operation(first));
                }
                Some(Meaning::PollError(error)) => {
                    let operation = first(error.operation).unwrap_or(error.operation);
                    *key = PollErrorKey { operation, ..error }.pack();
                }
                _ => {}
            }
        }
        sum_up(&mut counters);
        Cow::Owned(counters)
    }
}

/// Sorts counters by their key, and sums up those of one key in the order in which they were.
pub(super) fn sum_up(counters: &mut Vec<Counter>) {
    counters.sort_by_cached_key(|&(key, _)| key);
    counters.dedup_by(|(key, values), (last, sum)| {
        let is_same = key == last;
        if let Some(meaning) = key.meaning().filter(|_| is_same) {
            add_values(meaning, sum, values);
        }
        is_same
    });
}

/// Adds the values of a slot to the sums of its key.
pub(super) fn add_values(meaning: Meaning, sum: &mut [u64; 6], values: &[u64]) {
    for (index, &value) in values.iter().enumerate() {
        sum[index] = match (meaning, index) {
            (Meaning::Call(_), call::SHORTEST_PLUS_1)
            | (Meaning::GpuTime(_), gpu_time::SHORTEST_NS_PLUS_1) => match (sum[index], value) {
                (0, one) | (one, 0) => one,
                (one, other) => one.min(other),
            },
            (Meaning::Call(_), call::LONGEST) | (Meaning::GpuTime(_), gpu_time::LONGEST_NS) => {
                sum[index].max(value)
            }
            (Meaning::Call(_), call::RETURNS_TO) => 0,
            (Meaning::PollError(_), poll_error::VARIANCE) => sum[index].saturating_add(value),
            (Meaning::Variable(..), _) => value,
            (Meaning::Peer(_) | Meaning::Target(_), peer::WORLD_RANK_PLUS_1) => sum[index].max(value),
            _ => sum[index].wrapping_add(value),
        };
    }
}
