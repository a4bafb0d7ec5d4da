//! From the order of a rank's steps to rows.

use mpisee_order::{Repeated, Rules, Symbol};
use mpisee_profile::rows::{OrderRow, OrderRuleRow, OrderStepKind, OrderStepRow, OrderTimeRow, Seconds};
use mpisee_profile::segment::key::{CallKey, Meaning, PeerKey, class_bounds};
use mpisee_profile::segment::order::{
    CLASSES, Durations, Edge, MANY_TAGS, NO_STEP, NO_TAG, Step, StepKind, ThreadOrder,
};
use mpisee_profile::segment::snapshot::{SharedRow, Snapshot};
use mpisee_profile::site::{OrderId, SiteId};
use mpisee_profile::writer::to_csv;
use mpisee_profile::{CommId, Ticks};
use std::collections::{BTreeMap, HashMap};

/// The rows of a rank.
#[derive(Debug, Default)]
pub struct OrderTables {
    /// A row per thread.
    pub orders: Vec<OrderRow>,
    /// The sequences.
    pub rules: Vec<OrderRuleRow>,
    /// The different steps.
    pub steps: Vec<OrderStepRow>,
    /// The times.
    pub times: Vec<OrderTimeRow>,
}

/// The names that rows of steps refer to.
pub struct Named<'s> {
    /// The process.
    pub snapshot: &'s Snapshot,
    /// Of communicators, by number.
    pub comms: &'s [String],
    /// Of regions, by number.
    pub regions: &'s [String],
    /// Of call sites, by number.
    pub sites: &'s [Option<SiteId>],
}

impl OrderTables {
    /// The rows of a process.
    pub fn new(named: &Named, seconds: &impl Fn(Ticks) -> Seconds) -> OrderTables {
        let mut tables = OrderTables::default();
        for (thread, order) in named.snapshot.orders.threads() {
            tables.add(named, thread, &order, seconds);
        }
        tables
    }

    fn add(&mut self, named: &Named, thread: u32, order: &ThreadOrder, seconds: &impl Fn(Ticks) -> Seconds) {
        let Some(sequence) = sequence(order) else { return };
        let numbers = numbers(&sequence, order.steps.len());
        let rules = renumbered(&sequence, &numbers);
        let rules_id = OrderId::from_bytes(&rules.encode());
        let mut comms = Vec::new();
        let mut steps = vec![None; numbers.values().max().map_or(0, |&last| last as usize + 1)];
        for (&old, &new) in &numbers {
            steps[new as usize] = order.steps.get(old as usize);
        }
        let steps = steps.into_iter().flatten().enumerate();
        let mut steps: Vec<OrderStepRow> =
            steps.map(|(number, step)| step_row(named, number as u32, step, &mut comms)).collect();
        let alphabet = OrderId::from_bytes(&to_csv(&steps));
        steps.iter_mut().for_each(|step| step.alphabet = alphabet);
        let comms =
            comms.iter().map(|comm: &CommId| named.comms.get(comm.index()).map_or("?", String::as_str));
        self.orders.push(OrderRow {
            rank: named.snapshot.world_rank.get(),
            thread,
            steps: sequence.len(),
            lost: order.lost,
            rules: rules_id,
            alphabet,
            comms: Vec::from_iter(comms).join(" "),
        });
        self.steps.extend(steps);
        self.rules.push(OrderRuleRow { rules: rules_id, symbols: rules.to_text() });
        let times = order.edges.iter().filter_map(|edge| {
            let before = match edge.previous {
                NO_STEP => None,
                step => Some(*numbers.get(&step)?),
            };
            Some(time_row((rules_id, alphabet), (before, *numbers.get(&edge.step)?), edge, seconds))
        });
        self.times.extend(times);
    }
}

/// The whole sequence of a thread; `None` if it is damaged.
fn sequence(order: &ThreadOrder) -> Option<Rules> {
    let compressed = match order.compressed.is_empty() {
        true => Rules::default(),
        false => Rules::decode(&order.compressed).ok()?,
    };
    let is_step = |number: u32| (number as usize) < order.steps.len();
    let are_steps = compressed.terminals().into_keys().chain(order.recent.iter().copied()).all(is_step);
    let is_whole = compressed.len() + order.recent.len() as u64 == order.length;
    (are_steps && is_whole).then(|| compressed.followed_by(&order.recent))
}

/// New numbers of the steps, in the order in which they are in the sequence: equal on ranks whose
/// sequences are equal.
fn numbers(sequence: &Rules, steps: usize) -> HashMap<u32, u32> {
    let mut numbers = HashMap::with_capacity(steps);
    for step in sequence.by_first_place() {
        let next = numbers.len() as u32;
        numbers.entry(step).or_insert(next);
    }
    numbers
}

fn renumbered(sequence: &Rules, numbers: &HashMap<u32, u32>) -> Rules {
    let symbol = |symbol: Symbol| match symbol.as_terminal() {
        Some(step) => Symbol::terminal(numbers.get(&step).copied().unwrap_or_default()),
        None => symbol,
    };
    let bodies = sequence.bodies().iter();
    let bodies: Vec<Vec<Repeated>> =
        bodies.map(|body| body.iter().map(|&(it, count)| (symbol(it), count)).collect()).collect();
    Rules::from_bodies(&bodies)
}

fn step_row(named: &Named, number: u32, step: &Step, comms: &mut Vec<CommId>) -> OrderStepRow {
    let mut place = |comm: CommId| {
        let known = comms.iter().position(|&known| known == comm);
        known.unwrap_or_else(|| {
            comms.push(comm);
            comms.len() - 1
        }) as u32
    };
    let mut row = OrderStepRow {
        // The hash of what follows.
        alphabet: OrderId::from_bytes(&[]),
        step: number,
        kind: kind(step.kind),
        comm: None,
        call: String::new(),
        peer: String::new(),
        tag: match step.tag {
            NO_TAG => String::new(),
            MANY_TAGS => "many".to_owned(),
            tag => tag.to_string(),
        },
        bytes: step.bytes.cast_signed(),
        size_min: None,
        size_max: None,
        memory: None,
        region: String::new(),
        site: None,
    };
    match step.key.meaning() {
        Some(Meaning::Call(CallKey { communicator, region, operation, size_class, memory })) => {
            row.comm = Some(place(communicator));
            if let Some((called, _)) = named.snapshot.operation_at(operation) {
                row.call = called.name().to_owned();
            }
            let site = operation.site_number().and_then(|site| named.sites.get(site as usize));
            row.site = site.copied().flatten();
            let (size_min, size_max) = class_bounds(size_class);
            (row.size_min, row.size_max) = (Some(size_min), Some(size_max));
            row.memory = Some(memory);
            row.region = named.regions.get(region.index()).cloned().unwrap_or_default();
        }
        Some(Meaning::Peer(key) | Meaning::Target(mpisee_profile::segment::TargetKey { peer: key, .. })) => {
            row.comm = Some(place(key.communicator));
            row.peer = match step.kind {
                // The same for all members.
                StepKind::Root => format!("={}", key.peer.get()),
                _ => peer_text(named.snapshot, key),
            };
        }
        Some(Meaning::SharedRow(communicator)) => row.comm = Some(place(communicator)),
        _ => {}
    }
    row
}

/// The peer relative to the process, if both are numbered in one group; else, and of rank 0, its
/// rank.
fn peer_text(snapshot: &Snapshot, PeerKey { communicator, peer }: PeerKey) -> String {
    let rank = i64::from(peer.get());
    let absolute = format!("={rank}");
    let Some(communicator) = snapshot.communicators.get(communicator.index()) else { return absolute };
    let created = &communicator.created;
    let has_ranks = communicator.shared_row != Some(SharedRow::Changing) && !created.is_of_nccl();
    let size = created.group.len() as i64;
    if rank == 0 || created.remote.is_some() || !has_ranks || rank >= size {
        return absolute;
    }
    let offset = (rank - i64::from(created.rank.get())).rem_euclid(size);
    format!("{:+}", if offset > size / 2 { offset - size } else { offset })
}

fn time_row(
    (rules, alphabet): (OrderId, OrderId),
    (before, step): (Option<u32>, u32),
    edge: &Edge,
    seconds: &impl Fn(Ticks) -> Seconds,
) -> OrderTimeRow {
    let sum = |durations: &Durations| seconds(Ticks::new(durations.ticks));
    let deviation = |durations: &Durations| {
        let count = edge.count.max(1) as f64;
        let mean = durations.ticks as f64 / count;
        let variance = (durations.squares as f64 / count - mean * mean).max(0.0);
        seconds(Ticks::new(variance.sqrt() as u64))
    };
    OrderTimeRow {
        rules,
        alphabet,
        before,
        step,
        calls: edge.count,
        between_s: sum(&edge.between),
        between_sd_s: deviation(&edge.between),
        between_histogram: histogram(&edge.between.classes.map(u64::from)),
        time_s: sum(&edge.during),
        time_sd_s: deviation(&edge.during),
        time_histogram: histogram(&edge.during.classes.map(u64::from)),
    }
}

fn histogram(classes: &[u64; CLASSES]) -> String {
    let counted = classes.iter().enumerate().filter(|&(_, &count)| count > 0);
    Vec::from_iter(counted.map(|(class, count)| format!("{class}:{count}"))).join(" ")
}

fn kind(kind: StepKind) -> OrderStepKind {
    match kind {
        StepKind::Call => OrderStepKind::Call,
        StepKind::TakenBack => OrderStepKind::TakenBack,
        StepKind::CountedAnew => OrderStepKind::CountedAnew,
        StepKind::Bytes => OrderStepKind::Bytes,
        StepKind::Sent => OrderStepKind::Sent,
        StepKind::Unsent => OrderStepKind::Unsent,
        StepKind::Received => OrderStepKind::Received,
        StepKind::Put => OrderStepKind::Put,
        StepKind::Get => OrderStepKind::Get,
        StepKind::Accumulate => OrderStepKind::Accumulate,
        StepKind::Completed => OrderStepKind::Completed,
        StepKind::SwitchedOn => OrderStepKind::SwitchedOn,
        StepKind::Root => OrderStepKind::Root,
    }
}

/// The times of ranks whose orders are equal, summed up.
#[derive(Debug, Default)]
pub struct SummedTimes {
    rows: BTreeMap<(OrderId, OrderId, Option<u32>, u32), OrderTimeRow>,
}

impl SummedTimes {
    /// Adds the times of a rank.
    pub fn add(&mut self, rows: Vec<OrderTimeRow>) {
        for row in rows {
            let key = (row.rules, row.alphabet, row.before, row.step);
            self.rows.entry(key).and_modify(|sum| add_times(sum, &row)).or_insert(row);
        }
    }

    /// The sums.
    pub fn into_rows(self) -> Vec<OrderTimeRow> {
        self.rows.into_values().collect()
    }
}

fn add_times(sum: &mut OrderTimeRow, row: &OrderTimeRow) {
    let counts = (sum.calls, row.calls);
    sum.between_sd_s =
        deviation_of_both(counts, [(sum.between_s, sum.between_sd_s), (row.between_s, row.between_sd_s)]);
    sum.time_sd_s = deviation_of_both(counts, [(sum.time_s, sum.time_sd_s), (row.time_s, row.time_sd_s)]);
    sum.calls += row.calls;
    sum.between_s = Seconds(sum.between_s.0 + row.between_s.0);
    sum.time_s = Seconds(sum.time_s.0 + row.time_s.0);
    sum.between_histogram = sum_of_histograms(&sum.between_histogram, &row.between_histogram);
    sum.time_histogram = sum_of_histograms(&sum.time_histogram, &row.time_histogram);
}

/// The standard deviation of two groups of times together, each by its sum and its own deviation.
fn deviation_of_both((left, right): (u64, u64), groups: [(Seconds, Seconds); 2]) -> Seconds {
    let counts = [left as f64, right as f64];
    let all = (counts[0] + counts[1]).max(1.0);
    let mean = groups.iter().map(|(sum, _)| sum.0).sum::<f64>() / all;
    let squares: f64 = groups
        .iter()
        .zip(counts)
        .map(|((sum, deviation), count)| {
            let own_mean = sum.0 / count.max(1.0);
            count * (deviation.0 * deviation.0 + (own_mean - mean) * (own_mean - mean))
        })
        .sum();
    Seconds((squares / all).sqrt())
}

fn sum_of_histograms(left: &str, right: &str) -> String {
    let mut sums = [0; CLASSES];
    for counted in left.split(' ').chain(right.split(' ')) {
        let Some((class, count)) = counted.split_once(':') else { continue };
        let sum = class.parse().ok().and_then(|class: usize| sums.get_mut(class));
        if let Some((sum, count)) = sum.zip(count.parse::<u64>().ok()) {
            *sum += count;
        }
    }
    histogram(&sums)
}
