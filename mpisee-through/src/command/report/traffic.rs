//! Who sends to whom, by family of communicators: messages with one-sided operations, and
//! collectives by what each operation means.

use super::places::{FamilyNumbers, RankAxis};
use crate::command::matrix::collective::{self, LeftOut, Recorded};
use crate::command::matrix::is_mpi_collective;
use crate::group::{Groups, Names};
use crate::scan::{self, BadField, Fold, Peer};
use crate::view::ProfileView;
use anyhow::Result;
use hashbrown::HashMap;
use mpisee_profile::ProfileError;
use mpisee_profile::rows::OffsetRow;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of fields at most, of messages and of collectives each; where there are more, fields are
/// joined.
const MOST_PAIRS: usize = 250_000;
/// Pairs of ranks among which the bytes of collectives are divided, at most.
const MOST_DIVIDED: u64 = 50_000_000;

/// Traffic between fields of ranks, column by column.
#[derive(Debug, Default, Serialize)]
pub struct Pairs {
    /// How many fields of the axis are joined into one.
    joined: u32,
    comm: Vec<u32>,
    from: Vec<u32>,
    to: Vec<u32>,
    /// Empty for collectives.
    messages: Vec<u64>,
    bytes: Vec<u64>,
    /// The part of one-sided operations in the bytes; empty if there are none.
    one_sided: Vec<u64>,
}

/// Messages, bytes, and the part of one-sided operations in the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    messages: u64,
    bytes: u64,
    one_sided: u64,
}

impl Moved {
    fn from_messages(messages: u64, bytes: u64) -> Self {
        Moved { messages, bytes, one_sided: 0 }
    }

    fn from_one_sided(bytes: u64) -> Self {
        Moved { messages: 0, bytes, one_sided: bytes }
    }

    fn add(&mut self, other: Moved) {
        self.messages = self.messages.saturating_add(other.messages);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.one_sided = self.one_sided.saturating_add(other.one_sided);
    }
}

/// By family, sender and receiver.
type Sums = HashMap<(u32, u32, u32), Moved>;

impl Pairs {
    fn from_sums(mut sums: Sums, has_messages: bool) -> Self {
        let mut joined = 1;
        while sums.len() > MOST_PAIRS {
            joined *= 2;
            let mut coarser = Sums::new();
            for ((comm, from, to), moved) in sums {
                add(&mut coarser, (comm, from / 2, to / 2), moved);
            }
            sums = coarser;
        }
        let mut sorted: Vec<_> = sums.into_iter().collect();
        sorted.sort_unstable();
        let mut all = Pairs { joined, ..Pairs::default() };
        let has_one_sided = sorted.iter().any(|(_, moved)| moved.one_sided > 0);
        for ((comm, from, to), Moved { messages, bytes, one_sided }) in sorted {
            all.comm.push(comm);
            all.from.push(from);
            all.to.push(to);
            all.messages.extend(has_messages.then_some(messages));
            all.bytes.push(bytes);
            all.one_sided.extend(has_one_sided.then_some(one_sided));
        }
        all
    }
}

fn add(sums: &mut Sums, place: (u32, u32, u32), moved: Moved) {
    if moved != Moved::default() {
        sums.entry(place).or_default().add(moved);
    }
}

/// Adds up `peers.csv`; communicators have numbers of the thread's own.
struct Collector<'a> {
    axis: &'a RankAxis,
    comms: Names,
    sums: Sums,
}

impl Fold<Peer<'static>> for Collector<'_> {
    fn row(&mut self, row: &Peer<'_>) -> Result<(), BadField> {
        let Some(comm) = self.comms.number(row.comm, "comm", |_| true)? else { return Ok(()) };
        let ends = (self.axis.field(row.rank), self.axis.field(row.peer));
        let (Some(from), Some(to)) = ends else { return Ok(()) };
        let [there, back] = row.one_sided_bytes;
        add(&mut self.sums, (comm, from, to), Moved::from_messages(row.sent_messages, row.sent_bytes));
        add(&mut self.sums, (comm, from, to), Moved::from_one_sided(there));
        add(&mut self.sums, (comm, to, from), Moved::from_one_sided(back));
        Ok(())
    }
}

/// Messages and one-sided operations, and the error that ended reading.
pub fn messages(
    view: &ProfileView,
    comms: &mut FamilyNumbers<'_>,
    axis: &RankAxis,
) -> Result<(Pairs, Option<ProfileError>)> {
    let make = || Collector { axis, comms: Names::default(), sums: Sums::new() };
    let scanned = scan::scan::<Peer, Collector<'_>>(view.profile(), make)?;
    let mut sums = Sums::new();
    for fold in scanned.folds {
        let numbers: Vec<u32> = fold.comms.names.iter().map(|name| comms.number(name)).collect();
        for ((comm, from, to), moved) in fold.sums {
            add(&mut sums, (numbers[comm as usize], from, to), moved);
        }
    }
    Ok((Pairs::from_sums(sums, true), scanned.cut_off))
}

/// Collectives, and a note on those that are not among them.
#[derive(Debug, Default, Serialize)]
pub struct Collectives {
    pairs: Pairs,
    /// Bytes that are not among the pairs, and the operations that have them.
    left_out_bytes: u64,
    left_out_calls: BTreeSet<String>,
    /// True if there are too many pairs of ranks to divide bytes among them.
    too_many: bool,
}

impl Collectives {
    /// Of groups by communicator, operation and rank, of which all rows were read if `is_whole`.
    pub fn from_view(
        view: &ProfileView,
        groups: &Groups,
        is_whole: bool,
        comms: &mut FamilyNumbers<'_>,
        axis: &RankAxis,
    ) -> Self {
        let mut by_family: BTreeMap<u32, Recorded<'_>> = BTreeMap::new();
        for (key, cell) in &groups.cells {
            let (comm, call) = (groups.comm(key), groups.call(key));
            if is_mpi_collective(call) && cell.bytes > 0 {
                let by_rank =
                    by_family.entry(comms.number(comm)).or_default().entry((comm, call)).or_default();
                *by_rank.entry(key.rank).or_insert(0) += cell.bytes;
            }
        }
        let mut all = Collectives::default();
        let size = |comm: &str| view.processes().comms.get(comm).map_or(0, |row| u64::from(row.size));
        let divided =
            by_family.values().flat_map(|of| of.keys()).map(|(comm, _)| size(comm).saturating_pow(2));
        if divided.fold(0, u64::saturating_add) > MOST_DIVIDED {
            all.too_many = true;
            all.pairs.joined = 1;
            return all;
        }
        let mut sums = Sums::new();
        for (number, recorded) in &by_family {
            let left_out = place(view, recorded, is_whole, |from, to, bytes| {
                if let (1.., Some(from), Some(to)) = (bytes, axis.field(from), axis.field(to)) {
                    add(&mut sums, (*number, from, to), Moved::from_messages(0, bytes));
                }
            });
            all.left_out_bytes = all.left_out_bytes.saturating_add(left_out.bytes);
            all.left_out_calls.extend(left_out.calls.into_iter().map(str::to_owned));
        }
        all.pairs = Pairs::from_sums(sums, false);
        all
    }
}

/// Divides the bytes as `matrix --collectives` does.
fn place<'g>(
    view: &'g ProfileView,
    recorded: &Recorded<'g>,
    is_whole: bool,
    add: impl FnMut(u32, u32, u64),
) -> LeftOut<'g> {
    let (run, processes) = (view.run(), view.processes());
    let is_whole = is_whole && run.complete && !run.recording_was_off;
    collective::place(
        recorded,
        |comm| processes.comms.get(comm),
        |row| is_whole && processes.present_count(&row.members) == row.members.len(),
        add,
    )
}

/// Messages and one-sided operations by the distance from sender to receiver, column by column, as
/// sums over ranks have them.
#[derive(Debug, Default, Serialize)]
pub struct Offsets {
    comm: Vec<u32>,
    offset_min: Vec<i64>,
    offset_max: Vec<i64>,
    messages: Vec<u64>,
    bytes: Vec<u64>,
    /// True if some of the bytes are of one-sided operations.
    has_one_sided: bool,
}

/// Of an aggregate profile.
pub fn offsets(view: &ProfileView, comms: &mut FamilyNumbers<'_>) -> Result<Offsets> {
    let mut has_one_sided = false;
    let mut sums: BTreeMap<(u32, i64, i64), (u64, u64)> = BTreeMap::new();
    for row in view.profile().rows::<OffsetRow>()? {
        let row = row?;
        let comm = comms.number(&row.comm);
        let mut add = |(first, last), messages, bytes| {
            if (messages, bytes) != (0, 0) {
                let sum = sums.entry((comm, first, last)).or_default();
                sum.0 = sum.0.saturating_add(messages);
                sum.1 = sum.1.saturating_add(bytes);
            }
        };
        let there = row.counts().one_sided_bytes_to_peer();
        has_one_sided |= there > 0 || row.get_bytes > 0;
        let sent = row.sent_bytes.saturating_add(there);
        add((row.offset_min, row.offset_max), row.sent_messages, sent);
        let opposite = (row.offset_max.saturating_neg(), row.offset_min.saturating_neg());
        add(opposite, 0, row.get_bytes);
    }
    let mut all = Offsets { has_one_sided, ..Offsets::default() };
    for ((comm, first, last), (messages, bytes)) in sums {
        all.comm.push(comm);
        all.offset_min.push(first);
        all.offset_max.push(last);
        all.messages.push(messages);
        all.bytes.push(bytes);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_joined_until_the_pairs_fit() {
        let side = 600;
        let pairs =
            (0..side).flat_map(|from| (0..side).map(move |to| ((0, from, to), Moved::from_messages(1, 8))));
        let joined = Pairs::from_sums(pairs.collect(), true);
        assert_eq!((joined.joined, joined.from.len()), (2, 300 * 300));
        assert!(joined.messages.iter().all(|&messages| messages == 4));
        assert_eq!(joined.bytes.iter().sum::<u64>(), 8 * 600 * 600);
    }
}
