//! The order of calls as an outline: loops with their counts, and calls with what they move.

use super::ThreadOrder;
use super::times::{Edges, ItemTimes, Line, fill_times};
use mpisee_order::Grammar;
use mpisee_profile::SiteId;
use mpisee_profile::rows::{OrderStepKind, OrderStepRow};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that the grammar of calls may take.
const MOST_NODES: usize = 1 << 24;
/// Lines of an outline at most: a rule that is used in several places has its lines in each.
const MOST_LINES: usize = 100_000;
/// Steps that are looked at, further repetitions of loops aside.
const MOST_STEPS: u64 = 1 << 24;

/// Calls of one function at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function; empty where recording was switched on again.
    pub name: String,
    /// Its communicators: several of ranks that have different ones, and of a loop that makes some.
    pub comms: BTreeSet<String>,
    /// The sizes of its messages.
    pub sizes: Sizes,
    /// Its roots.
    pub roots: BTreeSet<String>,
    /// The processes to which it sends, or on whose memory it works.
    pub peers: BTreeSet<String>,
    /// The place of the call.
    pub site: Option<SiteId>,
}

/// The smallest and the largest of some messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// In bytes.
    pub min: u64,
    /// In bytes.
    pub max: u64,
}

impl Sizes {
    /// Of calls without messages.
    const NOTHING: Sizes = Sizes { min: 0, max: 0 };

    /// Of a call: the bytes that it contributes, if they are a message of its size class.
    fn from_step(step: &OrderStepRow) -> Sizes {
        let (min, max) = (step.size_min.unwrap_or_default(), step.size_max.unwrap_or_default());
        match u64::try_from(step.bytes) {
            Ok(bytes) if (min..=max).contains(&bytes) => Sizes { min: bytes, max: bytes },
            _ => Sizes { min, max },
        }
    }

    /// Of both.
    fn merged(self, other: Sizes) -> Sizes {
        Sizes { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The outline of threads with the same structure.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The threads: ranks, by the number of the thread.
    pub threads: BTreeMap<u32, BTreeSet<u32>>,
    /// The number of calls of one thread.
    pub length: u64,
    /// The lines.
    pub lines: Vec<Line>,
    /// The calls of lines.
    pub calls: Vec<Call>,
    /// Lines beyond the limit are left out.
    pub is_cut: bool,
    /// Steps of threads for which there was no room.
    pub lost: u64,
}

/// The outline of one thread.
pub fn outline(order: &ThreadOrder, edges: &Edges) -> Outline {
    let Calls { grammar, items, item_of, is_cut, .. } = calls(order);
    let rules = grammar.rules();
    let mut outline = Outline {
        threads: BTreeMap::from([(order.row.thread, BTreeSet::from([order.row.rank]))]),
        length: rules.len(),
        lines: Vec::new(),
        calls: items.iter().map(|item| call(order, item)).collect(),
        is_cut,
        lost: order.row.lost,
    };
    let mut open = vec![(0usize, 0usize, 0usize, 1u64)];
    while let Some((rule, at, depth, total)) = open.last_mut() {
        let Some(&(symbol, times)) = rules.bodies().get(*rule).and_then(|body| body.get(*at)) else {
            open.pop();
            continue;
        };
        *at += 1;
        let (depth, total) = (*depth, *total * times);
        if outline.lines.len() >= MOST_LINES {
            outline.is_cut = true;
            break;
        }
        match symbol.as_rule() {
            Some(inner) if times == 1 => open.push((inner as usize, 0, depth, total)),
            Some(inner) => {
                outline.lines.push(Line { depth, times, total, call: None, time_s: 0.0, between_s: 0.0 });
                open.push((inner as usize, 0, depth + 1, total));
            }
            None => {
                let call = symbol.as_terminal().map(|item| item as usize);
                outline.lines.push(Line { depth, times, total, call, time_s: 0.0, between_s: 0.0 });
            }
        }
    }
    let times = ItemTimes::new(&item_of, &order.steps, edges);
    let whole = 0..outline.lines.len();
    fill_times(&mut outline.lines, whole, &[(None, 1.0)], &times);
    outline
}

/// Calls of one function at one place, on communicators of like names.
#[derive(Debug, Default)]
struct Item {
    /// The steps of the calls.
    calls: BTreeSet<u32>,
    /// The steps of their messages and roots.
    parts: BTreeSet<u32>,
}

/// The properties that calls of one item share. A library may make all calls at one place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ItemKey {
    name: String,
    site: Option<SiteId>,
    /// The pattern for its communicator.
    comm: String,
}

impl ItemKey {
    fn new(order: &ThreadOrder, step: &OrderStepRow) -> ItemKey {
        ItemKey { name: step.call.clone(), site: step.site, comm: like_names(order.comm(step)) }
    }
}

/// A pattern for a communicator and those of other iterations: `*` in place of numbers.
pub fn like_names(comm: &str) -> String {
    let mut pattern = String::new();
    for letter in comm.chars() {
        match letter.is_ascii_digit() {
            true if pattern.ends_with('*') => {}
            true => pattern.push('*'),
            false => pattern.push(letter),
        }
    }
    pattern
}

/// The sequence of calls, made from that of steps.
struct Calls {
    /// The sequence, by numbers of items.
    grammar: Grammar,
    items: Vec<Item>,
    /// The item of each step that is a call.
    item_of: Vec<Option<u32>>,
    /// The item of the last call.
    current: Option<u32>,
    /// There is more.
    is_cut: bool,
}

impl Calls {
    /// Without a call; knows the items of all steps.
    fn new(order: &ThreadOrder) -> Calls {
        let mut numbers: FxHashMap<ItemKey, u32> = FxHashMap::default();
        let mut items: Vec<Item> = Vec::new();
        let mut item_of = Vec::with_capacity(order.steps.len());
        for (step, number) in order.steps.iter().zip(0..) {
            let is_call = matches!(step.kind, OrderStepKind::Call | OrderStepKind::SwitchedOn);
            item_of.push(is_call.then(|| {
                let item = *numbers.entry(ItemKey::new(order, step)).or_insert(items.len() as u32);
                if item as usize == items.len() {
                    items.push(Item::default());
                }
                items[item as usize].calls.insert(number);
                item
            }));
        }
        Calls { grammar: Grammar::with_capacity(MOST_NODES), items, item_of, current: None, is_cut: false }
    }

    fn add(&mut self, number: u32, kind: OrderStepKind) {
        if let Some(item) = self.item_of[number as usize] {
            self.is_cut |= !self.grammar.push(item);
            self.current = Some(item);
            return;
        }
        match kind {
            OrderStepKind::Sent
            | OrderStepKind::Put
            | OrderStepKind::Get
            | OrderStepKind::Accumulate
            | OrderStepKind::Root => {
                if let Some(item) = self.current {
                    self.items[item as usize].parts.insert(number);
                }
            }
            // Of the next call.
            OrderStepKind::Completed => self.current = None,
            _ => {}
        }
    }
}

/// A place in a rule.
struct Place {
    rule: usize,
    at: usize,
    /// Repetitions of the symbol there that are over.
    done: u64,
    /// The calls before the last of them.
    before: u64,
}

/// The sequence of calls. The first repetitions of a loop are made step by step; as the calls of
/// the second one come again in each further one, these are made at once.
fn calls(order: &ThreadOrder) -> Calls {
    let mut calls = Calls::new(order);
    let place = |rule| Place { rule, at: 0, done: 0, before: 0 };
    let mut open = vec![place(0)];
    let mut steps = 0;
    while let Some(Place { rule, at, done, before }) = open.last_mut() {
        let Some(&(symbol, count)) = order.rules.bodies().get(*rule).and_then(|body| body.get(*at)) else {
            open.pop();
            continue;
        };
        let period = calls.grammar.len() - *before;
        let is_over = *done == count || *done > 2 && period == 0;
        let is_looked_at = *done > 2 && done.is_power_of_two();
        if is_over || is_looked_at && calls.grammar.repeat_last(period, count - *done) {
            (*at, *done) = (*at + 1, 0);
            continue;
        }
        (*done, *before) = (*done + 1, calls.grammar.len());
        steps += 1;
        calls.is_cut |= steps > MOST_STEPS;
        if calls.is_cut {
            break;
        }
        match symbol.as_rule() {
            Some(inner) => open.push(place(inner as usize)),
            None => {
                let step = symbol.as_terminal().unwrap_or_default();
                calls.add(step, order.steps[step as usize].kind);
            }
        }
    }
    calls
}

/// The calls of an item.
fn call(order: &ThreadOrder, item: &Item) -> Call {
    let steps = || item.calls.iter().map(|&step| &order.steps[step as usize]);
    let parts = |is_root: bool| {
        let parts = item.parts.iter().map(|&step| &order.steps[step as usize]);
        let is_asked = move |part: &&OrderStepRow| (part.kind == OrderStepKind::Root) == is_root;
        parts.filter(is_asked).map(|part| part.peer.clone()).collect()
    };
    let first = item.calls.first().map(|&step| &order.steps[step as usize]);
    Call {
        name: first.map_or(String::new(), |step| step.call.clone()),
        comms: steps().map(|step| order.comm(step).to_owned()).collect(),
        sizes: steps().map(Sizes::from_step).reduce(Sizes::merged).unwrap_or(Sizes::NOTHING),
        roots: parts(true),
        peers: parts(false),
        site: first.and_then(|step| step.site),
    }
}

impl Outline {
    /// The call of a line; `None` of a loop.
    pub fn call(&self, line: &Line) -> Option<&Call> {
        line.call.and_then(|call| self.calls.get(call))
    }

    /// Returns whether another thread has the same calls in the same order, on whatever
    /// communicators and with whatever peers.
    pub fn is_like(&self, other: &Outline) -> bool {
        let is_like = |(left, right): (&Line, &Line)| {
            let calls_alike = match (self.call(left), other.call(right)) {
                (Some(left), Some(right)) => left.name == right.name && left.site == right.site,
                (left, right) => left.is_none() && right.is_none(),
            };
            calls_alike && (left.depth, left.times) == (right.depth, right.times)
        };
        self.lines.len() == other.lines.len() && self.lines.iter().zip(&other.lines).all(is_like)
    }

    /// Adds threads with the same structure.
    pub fn merge(&mut self, other: Outline) {
        let [owned, others] =
            [&*self, &other].map(|it| it.threads.values().map(BTreeSet::len).sum::<usize>() as f64);
        let mean = |one: f64, other: f64| (one * owned + other * others) / (owned + others);
        for (line, more) in self.lines.iter_mut().zip(&other.lines) {
            line.time_s = mean(line.time_s, more.time_s);
            line.between_s = mean(line.between_s, more.between_s);
        }
        let pairs = self.lines.iter().zip(&other.lines).filter_map(|(own, other)| own.call.zip(other.call));
        for (own, more) in pairs.collect::<BTreeSet<_>>() {
            let Some((call, more)) = self.calls.get_mut(own).zip(other.calls.get(more)) else { continue };
            call.comms.extend(more.comms.iter().cloned());
            call.peers.extend(more.peers.iter().cloned());
            call.roots.extend(more.roots.iter().cloned());
            call.sizes = call.sizes.merged(more.sizes);
        }
        for (thread, ranks) in other.threads {
            self.threads.entry(thread).or_default().extend(ranks);
        }
        self.is_cut |= other.is_cut;
        self.lost = self.lost.saturating_add(other.lost);
    }
}

/// Like calls in the loop that makes most of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerStep {
    /// The number in an iteration.
    pub calls: u64,
    /// The number in all iterations of one thread.
    pub total: u64,
    /// The places that make them.
    pub sites: BTreeSet<SiteId>,
}

impl Outline {
    /// The calls of an iteration, of the innermost loop that makes most calls with the same key;
    /// of calls with a key.
    pub fn per_step<K: Ord>(&self, key: impl Fn(&Call) -> Option<K>) -> BTreeMap<K, PerStep> {
        let mut loops: Vec<usize> = Vec::new();
        let mut sums: BTreeMap<(K, usize), PerStep> = BTreeMap::new();
        for (number, line) in self.lines.iter().enumerate() {
            loops.truncate(line.depth);
            match self.call(line) {
                None => loops.push(number),
                Some(call) => {
                    let Some((key, innermost)) = key(call).zip(loops.last().copied()) else { continue };
                    let sum = sums.entry((key, innermost)).or_default();
                    sum.calls += line.times;
                    sum.total += line.total;
                    sum.sites.extend(call.site);
                }
            }
        }
        let mut most: BTreeMap<K, PerStep> = BTreeMap::new();
        for ((key, _), sum) in sums {
            let known = most.entry(key).or_default();
            if sum.total > known.total {
                *known = sum;
            }
        }
        most
    }
}
