//! The tables of `waits`: communicators, ranks, nodes, and each operation of each rank.

use crate::family_rows::Family;
use crate::sheet::{self, Head, Sheet, Value};
use crate::units::natural_order;
use crate::waits::{Estimate, Report, Waiting};
use mpisee_profile::rows::CommRow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// The column of sizes of communicators and of their messages.
const SIZE: usize = 1;

/// Names of intervals, both ends of which a narrow table hides together.
const INTERVAL: &str = "interval of Waiting";
const SHARE_INTERVAL: &str = "interval of % of waiting";

const COMMUNICATORS: [Head; 12] = [
    sheet::fixed("comm", "COMM"),
    sheet::number("size", "SIZE"),
    sheet::number("time_s", "Time sum"),
    sheet::number("waiting_s", "Waiting"),
    sheet::number("waiting_low_s", "from").hidden_at(5).hidden_as(INTERVAL),
    sheet::number("waiting_high_s", "to").hidden_at(5).hidden_as(INTERVAL),
    sheet::number("transfer_s", "Transfer").hidden_at(6),
    sheet::number("transfer_low_s", "Transfer from"),
    sheet::number("transfer_high_s", "Transfer to"),
    sheet::number("not_sampled_s", "Not sampled").hidden_at(3),
    sheet::number("instances", "Calls").hidden_at(2),
    sheet::number("sampled", "Sampled").hidden_at(2),
];

/// The columns of communicators that are for programs alone.
pub const TRANSFER_ENDS: std::ops::Range<usize> = 7..9;

/// The columns of communicators and of their messages that are for programs alone.
pub const MESSAGE_TRANSFER_ENDS: std::ops::Range<usize> = 9..11;

const MESSAGES: [Head; 14] = [
    sheet::fixed("comm", "COMM"),
    sheet::number("size", "SIZE"),
    sheet::number("time_s", "Time sum"),
    sheet::number("waiting_for_senders_s", "For senders"),
    sheet::number("waiting_for_receivers_s", "For receivers"),
    sheet::number("waiting_s", "Waiting").hidden_at(5),
    sheet::number("waiting_low_s", "from").hidden_at(4).hidden_as(INTERVAL),
    sheet::number("waiting_high_s", "to").hidden_at(4).hidden_as(INTERVAL),
    sheet::number("transfer_s", "Transfer").hidden_at(6),
    sheet::number("transfer_low_s", "Transfer from"),
    sheet::number("transfer_high_s", "Transfer to"),
    sheet::number("not_sampled_s", "Not sampled").hidden_at(3),
    sheet::number("messages", "Messages").hidden_at(2),
    sheet::number("sampled", "Sampled").hidden_at(2),
];

/// The column of ranks that is needed beside messages alone.
const CALLS: std::ops::Range<usize> = 1..2;

const RANKS: [Head; 9] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("calls", "IN"),
    sheet::number("rank", "RANK"),
    sheet::fixed("node", "NODE").hidden_at(0),
    sheet::number("caused_s", "Caused"),
    sheet::number("caused_share", "% of waiting").of_whole(),
    sheet::number("caused_low_share", "from").hidden_at(2).hidden_as(SHARE_INTERVAL),
    sheet::number("caused_high_share", "to").hidden_at(2).hidden_as(SHARE_INTERVAL),
    sheet::number("suffered_s", "Suffered").hidden_at(1),
];

const NODES: [Head; 6] = [
    sheet::fixed("node", "NODE"),
    sheet::number("ranks", "RANKS"),
    sheet::number("caused_s", "Caused"),
    sheet::number("caused_share", "% of waiting").of_whole(),
    sheet::number("suffered_s", "Suffered"),
    sheet::number("clock_uncertainty_s", "Clock ±").hidden_at(0),
];

/// The columns of single operations that messages alone have.
const DIRECTIONS: std::ops::Range<usize> = 13..17;

const EACH: [Head; 17] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("rank", "RANK"),
    sheet::fixed("node", "NODE"),
    sheet::number("caused_s", "Caused"),
    sheet::number("caused_low_s", "from"),
    sheet::number("caused_high_s", "to"),
    sheet::number("suffered_s", "Suffered"),
    sheet::number("suffered_low_s", "from"),
    sheet::number("suffered_high_s", "to"),
    sheet::number("transfer_s", "Transfer"),
    sheet::number("instances", "Calls"),
    sheet::number("sampled", "Sampled"),
    sheet::number("suffered_for_senders_s", "For senders"),
    sheet::number("suffered_for_receivers_s", "For receivers"),
    sheet::number("caused_as_sender_s", "As sender"),
    sheet::number("caused_as_receiver_s", "As receiver"),
];

/// The operations by communicator.
pub type ByComm<'r> = HashMap<&'r str, Vec<&'r Waiting>>;

/// Puts operations on one communicator together.
pub fn by_comm(report: &Report) -> ByComm<'_> {
    let mut operations = ByComm::new();
    for operation in &report.operations {
        operations.entry(&operation.comm).or_default().push(operation);
    }
    operations
}

/// The operations of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Collectives,
    Messages,
}

/// The waits on a communicator or on like ones, in collective operations or in messages.
pub struct WaitGroup {
    name: String,
    /// True if it is one communicator.
    pub is_single: bool,
    of: Of,
    size: String,
    /// The time in these operations, in seconds, and of that in operations whose waits are known.
    time_s: f64,
    known_s: f64,
    waiting: Estimate,
    /// Of messages, the waiting for senders and for receivers, in seconds.
    directions_s: [f64; 2],
    instances: u64,
    sampled: u64,
    /// Caused and suffered by rank.
    ranks: BTreeMap<u32, [Estimate; 2]>,
}

impl WaitGroup {
    /// Sums up the operations on the communicators of a family.
    pub fn from_family(family: &Family<'_>, of: Of, report: &Report, operations: &ByComm<'_>) -> Self {
        let times = match of {
            Of::Collectives => &report.collective_s,
            Of::Messages => &report.message_s,
        };
        let mut part = WaitGroup {
            name: family.name.clone(),
            is_single: family.is_single(),
            of,
            size: family.size_text(),
            time_s: family.rows.iter().filter_map(|row| times.get(&row.comm)).sum(),
            known_s: 0.0,
            waiting: Estimate::default(),
            directions_s: [0.0; 2],
            instances: 0,
            sampled: 0,
            ranks: BTreeMap::new(),
        };
        let of_row = |row: &&CommRow| operations.get(row.comm.as_str()).into_iter().flatten();
        let is_of = |operation: &&&Waiting| operation.is_of_messages() == (of == Of::Messages);
        family.rows.iter().flat_map(of_row).filter(is_of).for_each(|operation| part.add(operation));
        part
    }

    fn add(&mut self, operation: &Waiting) {
        let Some(waiting) = operation.waiting else { return };
        if operation.is_nonblocking {
            // The time of the operation is that of starting it.
            self.time_s += operation.time_s;
        }
        self.known_s += operation.time_s;
        self.waiting = self.waiting.plus(waiting);
        self.instances = self.instances.saturating_add(operation.instances);
        self.sampled = self.sampled.saturating_add(operation.sampled);
        for member in &operation.members {
            for (sum, more) in
                self.directions_s.iter_mut().zip(member.directions.unwrap_or_default().suffered_s)
            {
                *sum += more;
            }
            let sums = self.ranks.entry(member.rank).or_default();
            for (sum, more) in sums.iter_mut().zip([member.caused, member.suffered]) {
                *sum = sum.plus(more.unwrap_or_default());
            }
        }
    }

    /// Most waiting first, then most time.
    pub fn order(&self, other: &Self) -> Ordering {
        let by_waiting = other.waiting.total.total_cmp(&self.waiting.total);
        by_waiting
            .then_with(|| other.time_s.total_cmp(&self.time_s))
            .then_with(|| natural_order(&self.name, &other.name))
    }

    fn not_sampled_s(&self) -> f64 {
        let rest_s = self.time_s - self.known_s;
        // Sums in another order differ by rounding.
        if rest_s > 1e-9 * self.time_s { rest_s } else { 0.0 }
    }

    fn row(&self) -> Vec<Value> {
        let is_known = self.sampled > 0;
        let known = |value: Value| if is_known { value } else { Value::Nothing };
        let seconds = |time_s: f64| known(Value::Seconds(time_s));
        let transfer = self.waiting.rest_of(self.known_s).clamped(0.0, self.known_s);
        let directions = match self.of {
            Of::Collectives => Vec::new(),
            Of::Messages => self.directions_s.map(seconds).into(),
        };
        let mut row =
            vec![self.name.as_str().into(), Value::Text(self.size.clone()), Value::Seconds(self.time_s)];
        row.extend(directions);
        row.extend([
            seconds(self.waiting.total),
            seconds(self.waiting.low),
            seconds(self.waiting.high),
            seconds(transfer.total),
            seconds(transfer.low),
            seconds(transfer.high),
            Value::Seconds(self.not_sampled_s()),
            known(Value::Count(self.instances)),
            known(Value::Count(self.sampled)),
        ]);
        row
    }
}

/// Headings of these parts; the size, which has the number of communicators of a family, may be
/// hidden where there is none.
fn heads(parts: &[WaitGroup], heads: &[Head]) -> Vec<Head> {
    let mut heads = heads.to_vec();
    if parts.iter().all(|part| part.is_single) {
        heads[SIZE] = heads[SIZE].hidden_at(1);
    }
    heads
}

/// A row for each communicator or family.
pub fn communicators(parts: &[WaitGroup]) -> Sheet {
    Sheet {
        name: "communicators",
        heads: heads(parts, &COMMUNICATORS),
        rows: parts.iter().filter(|part| part.of == Of::Collectives).map(WaitGroup::row).collect(),
    }
}

/// A row for the messages of each communicator or family.
pub fn messages(parts: &[WaitGroup]) -> Sheet {
    Sheet {
        name: "messages",
        heads: heads(parts, &MESSAGES),
        rows: parts.iter().filter(|part| part.of == Of::Messages).map(WaitGroup::row).collect(),
    }
}

/// A row for each rank that caused or suffered, by communicator or family; those that caused most
/// first.
pub fn ranks(parts: &[WaitGroup], report: &Report, takes: impl Fn(u32) -> bool) -> Sheet {
    let node: BTreeMap<u32, usize> = members(report).map(|member| (member.rank, member.host)).collect();
    let mut all: Vec<(&WaitGroup, u32, [Estimate; 2])> = Vec::new();
    for part in parts {
        let chosen =
            part.ranks.iter().filter(|(rank, sums)| takes(**rank) && sums[0].total + sums[1].total > 0.0);
        all.extend(chosen.map(|(&rank, &sums)| (part, rank, sums)));
    }
    all.sort_by(|(_, _, one), (_, _, other)| other[0].total.total_cmp(&one[0].total));
    let row = |(part, rank, [caused, suffered]): &(&WaitGroup, u32, [Estimate; 2])| {
        let share = |time_s: f64| match part.waiting.total > 0.0 {
            true => Value::Share((time_s / part.waiting.total).min(1.0)),
            false => Value::Nothing,
        };
        let host = node.get(rank).map_or("", |&host| report.hosts[host].as_str());
        vec![
            part.name.as_str().into(),
            if part.of == Of::Messages { "messages" } else { "collectives" }.into(),
            Value::Count(u64::from(*rank)),
            host.into(),
            Value::Seconds(caused.total),
            share(caused.total),
            share(caused.low),
            share(caused.high),
            Value::Seconds(suffered.total),
        ]
    };
    let mut sheet = Sheet { name: "ranks", heads: RANKS.to_vec(), rows: all.iter().map(row).collect() };
    if parts.iter().all(|part| part.of == Of::Collectives) {
        sheet.remove_columns(CALLS);
    }
    sheet
}

fn members(report: &Report) -> impl Iterator<Item = &crate::waits::Member> {
    report.operations.iter().flat_map(|operation| &operation.members)
}

/// A row for each node; those that caused most first.
pub fn nodes(report: &Report, takes: impl Fn(u32) -> bool) -> Sheet {
    let mut sums = vec![([0.0, 0.0], Vec::new()); report.hosts.len()];
    for member in members(report).filter(|member| takes(member.rank)) {
        let (times, ranks) = &mut sums[member.host];
        ranks.push(member.rank);
        for (time, more) in times.iter_mut().zip([member.caused, member.suffered]) {
            *time += more.map_or(0.0, |more| more.total);
        }
    }
    let whole: f64 = members(report).filter_map(|member| member.caused).map(|caused| caused.total).sum();
    let mut used: Vec<(usize, [f64; 2], Vec<u32>)> = sums
        .into_iter()
        .enumerate()
        .filter(|(_, (_, ranks))| !ranks.is_empty())
        .map(|(host, (times, ranks))| (host, times, ranks))
        .collect();
    used.sort_by(|(_, one, _), (_, other, _)| other[0].total_cmp(&one[0]));
    let row = |(host, [caused_s, suffered_s], mut ranks): (usize, [f64; 2], Vec<u32>)| {
        ranks.sort_unstable();
        ranks.dedup();
        vec![
            report.hosts[host].as_str().into(),
            Value::Count(ranks.len() as u64),
            Value::Seconds(caused_s),
            if whole > 0.0 { Value::Share(caused_s / whole) } else { Value::Nothing },
            Value::Seconds(suffered_s),
            Value::Seconds(report.uncertainty_s[host]),
        ]
    };
    Sheet { name: "nodes", heads: NODES.to_vec(), rows: used.into_iter().map(row).collect() }
}

/// A row for each communicator, operation and rank.
pub fn each(report: &Report, takes: impl Fn(u32) -> bool) -> Sheet {
    let mut operations: Vec<&Waiting> = report.operations.iter().collect();
    operations.sort_by(|one, other| {
        natural_order(&one.comm, &other.comm).then_with(|| natural_order(&one.call, &other.call))
    });
    let mut rows = Vec::new();
    for operation in operations {
        for member in operation.members.iter().filter(|member| takes(member.rank)) {
            let ends = |estimate: Option<Estimate>| {
                let each = estimate.map(|one| [one.total, one.low, one.high].map(Value::Seconds));
                each.unwrap_or([Value::Nothing, Value::Nothing, Value::Nothing])
            };
            let transfer = member.suffered.map(|suffered| (member.time_s - suffered.total).max(0.0));
            let mut row: Vec<Value> = vec![
                operation.comm.as_str().into(),
                operation.call.as_str().into(),
                Value::Count(u64::from(member.rank)),
                report.hosts[member.host].as_str().into(),
            ];
            row.extend(ends(member.caused));
            row.extend(ends(member.suffered));
            row.push(transfer.map_or(Value::Nothing, Value::Seconds));
            row.extend([Value::Count(operation.instances), Value::Count(operation.sampled)]);
            row.extend(match member.directions {
                Some(split) => {
                    let [for_senders, for_receivers] = split.suffered_s.map(Value::Seconds);
                    let [as_sender, as_receiver] = split.caused_s.map(Value::Seconds);
                    [for_senders, for_receivers, as_sender, as_receiver]
                }
                None => [Value::Nothing, Value::Nothing, Value::Nothing, Value::Nothing],
            });
            rows.push(row);
        }
    }
    let mut sheet = Sheet { name: "waits", heads: EACH.to_vec(), rows };
    if !report.operations.iter().any(Waiting::is_of_messages) {
        sheet.remove_columns(DIRECTIONS);
    }
    sheet
}
