//! Random programs with messages that are all known, for tests of the estimates.

use super::join::{EndCount, MessageSample, StreamKey, Tables, join};
use super::{Class, LateEnd, MESSAGES, MessageTotals, Times, waits};
use crate::waits::estimate::Estimate;
use crate::waits::hosts::Clocks;
use crate::waits::programs::Random;
use crate::waits::{Finding, Waiting};
use hashbrown::HashMap;
use mpisee_profile::segment::instances::{is_kept, narrower};

/// How the ranks of a program communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StratumKey {
    /// Blocking sends and receives along a ring, even ranks first.
    Blocking,
    /// `MPI_Waitall` over 2 to 26 neighbours.
    Neighbours,
    /// The same with one rank that is always late.
    AlwaysLate,
    /// The same with one rank that is late in one of a hundred iterations.
    SeldomLate,
    /// Rank 0 receives from all others, one after the other, who wait for it to do so.
    Gather,
    /// Neighbours of which some exchanged other messages before, and some exchange two messages
    /// each time.
    UnequalCounts,
    /// Neighbours who exchange messages with three tags.
    SeveralTags,
}

const KINDS: [StratumKey; 7] = [
    StratumKey::Blocking,
    StratumKey::Neighbours,
    StratumKey::AlwaysLate,
    StratumKey::SeldomLate,
    StratumKey::Gather,
    StratumKey::UnequalCounts,
    StratumKey::SeveralTags,
];

/// A call that completes messages; nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Call {
    rank: u32,
    class: Class,
    arrival_ns: u64,
    departure_ns: u64,
    completed: u32,
    /// How long it waited, and for whom.
    wait_ns: u64,
    cause: u32,
}

/// A message with the starts of both ends and the calls that completed them, by index.
#[derive(Clone, Copy, Debug)]
struct Message {
    key: StreamKey,
    number: u64,
    started_ns: [u64; 2],
    calls: [usize; 2],
}

/// A program in which all is known.
struct Program {
    ranks: u32,
    late: u32,
    calls: Vec<Call>,
    messages: Vec<Message>,
    counts: HashMap<StreamKey, u64>,
    now_ns: Vec<u64>,
}

impl Program {
    fn new(kind: StratumKey, random: &mut Random) -> Self {
        let neighbours = match kind {
            StratumKey::Blocking | StratumKey::Gather => 1,
            StratumKey::SeveralTags => 1 + random.below(3),
            _ => {
                let most = if random.below(32) == 0 { 13 } else { 4 };
                1 + random.below(most)
            }
        };
        let ranks = (2 * neighbours + 1 + random.below(6)).max(4) as u32;
        let mut program = Program {
            ranks,
            late: random.below(ranks as usize) as u32,
            calls: Vec::new(),
            messages: Vec::new(),
            counts: HashMap::new(),
            now_ns: vec![1_000; ranks as usize],
        };
        let (deviation, work_ns) = (0.3 + random.share(), random.between(20_000.0, 500_000.0));
        let (transfer_ns, delay_ns) =
            (random.between(1_000.0, 50_000.0), work_ns * random.between(3.0, 50.0));
        let iterations = random.between(200.0, 1200.0).min(6_000.0 / (f64::from(ranks) * neighbours as f64));
        let offsets: Vec<u32> = (1..=neighbours as u32).collect();
        if kind == StratumKey::UnequalCounts {
            program.exchange_before(&offsets, random);
        }
        for _ in 0..iterations.max(160.0) as u64 {
            for rank in 0..ranks {
                let is_late = rank == program.late
                    && (kind == StratumKey::AlwaysLate
                        || kind == StratumKey::SeldomLate && random.share() < 0.01);
                let late_ns = if is_late { delay_ns } else { 0.0 };
                program.now_ns[rank as usize] += (work_ns * random.lognormal(deviation) + late_ns) as u64;
            }
            let mut transfer = || (transfer_ns * random.lognormal(0.5)) as u64 + 1;
            match kind {
                StratumKey::Blocking => program.ring(&mut transfer),
                StratumKey::Gather => program.gather(&mut transfer),
                StratumKey::SeveralTags => program.neighbours(&offsets, &[0, 1, 2], false, &mut transfer),
                StratumKey::UnequalCounts => program.neighbours(&offsets, &[0], true, &mut transfer),
                _ => program.neighbours(&offsets, &[0], false, &mut transfer),
            }
        }
        program
    }

    fn number(&mut self, key: StreamKey) -> u64 {
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count - 1
    }

    /// Adds a blocking message; the sender leaves when the receiver is there, or at once.
    fn blocking(&mut self, from: u32, to: u32, is_eager: bool, transfer_ns: u64) {
        let [sent_ns, posted_ns] = [from, to].map(|rank| self.now_ns[rank as usize]);
        let received_ns = sent_ns.max(posted_ns) + transfer_ns;
        let left_ns = if is_eager { sent_ns + transfer_ns / 2 } else { received_ns };
        let wait_ns = |own: u64, other: u64, departure: u64| match other > own && other <= departure {
            true => other - own,
            false => 0,
        };
        let key = StreamKey { comm: 0, from, to, tag: 0 };
        let number = self.number(key);
        let calls = [self.calls.len(), self.calls.len() + 1];
        for (rank, class, arrival_ns, departure_ns, other_ns, cause) in [
            (from, Class::Send, sent_ns, left_ns, posted_ns, to),
            (to, Class::Receive, posted_ns, received_ns, sent_ns, from),
        ] {
            let wait_ns = wait_ns(arrival_ns, other_ns, departure_ns);
            self.calls.push(Call { rank, class, arrival_ns, departure_ns, completed: 1, wait_ns, cause });
            self.now_ns[rank as usize] = departure_ns + 1;
        }
        self.messages.push(Message { key, number, started_ns: [sent_ns, posted_ns], calls });
    }

    fn ring(&mut self, transfer: &mut impl FnMut() -> u64) {
        for first in [0, 1] {
            for from in (first..self.ranks).step_by(2) {
                self.blocking(from, (from + 1) % self.ranks, from % 3 == 0, transfer());
            }
        }
    }

    fn gather(&mut self, transfer: &mut impl FnMut() -> u64) {
        for from in 1..self.ranks {
            self.blocking(from, 0, false, transfer());
        }
    }

    /// Exchanges messages between some neighbours, of which nobody waits for long.
    fn exchange_before(&mut self, offsets: &[u32], random: &mut Random) {
        for offset in offsets {
            for rank in 0..self.ranks {
                for _ in 0..random.below(9) {
                    self.blocking(rank, (rank + offset) % self.ranks, true, 100);
                }
            }
        }
    }

    /// Starts all, works for a moment and completes all; `two` exchanges two messages with some.
    fn neighbours(&mut self, offsets: &[u32], tags: &[i32], two: bool, transfer: &mut impl FnMut() -> u64) {
        let begin = self.now_ns.clone();
        let first = self.messages.len();
        for rank in 0..self.ranks {
            for (at, offset) in offsets.iter().enumerate() {
                let times = if two && at % 2 == 1 { 2 } else { 1 };
                for to in [(rank + offset) % self.ranks, (rank + self.ranks - offset) % self.ranks] {
                    for &tag in tags.iter().cycle().take(times * tags.len()) {
                        let key = StreamKey { comm: 0, from: rank, to, tag };
                        let number = self.number(key);
                        let started_ns = [rank, to].map(|rank| begin[rank as usize]);
                        let calls = [rank, to].map(|rank| self.calls.len() + rank as usize);
                        self.messages.push(Message { key, number, started_ns, calls });
                    }
                }
            }
        }
        let first_call = self.calls.len();
        for rank in 0..self.ranks {
            let arrival_ns = begin[rank as usize] + 50;
            let (class, departure_ns) = (Class::Wait, arrival_ns);
            let call = Call { rank, class, arrival_ns, departure_ns, completed: 0, wait_ns: 0, cause: 0 };
            self.calls.push(call);
        }
        // Messages of even numbers are sent eagerly.
        let latency_ns = transfer();
        for message in &self.messages[first..] {
            let [sent_ns, posted_ns] = message.started_ns;
            let there_ns = sent_ns.max(posted_ns) + latency_ns;
            let eager_ns = if message.number.is_multiple_of(2) { sent_ns } else { there_ns };
            for (call, ready_ns) in message.calls.into_iter().zip([eager_ns, there_ns]) {
                self.calls[call].completed += 1;
                self.calls[call].departure_ns = self.calls[call].departure_ns.max(ready_ns);
            }
        }
        for call in &mut self.calls[first_call..] {
            call.departure_ns += transfer();
            self.now_ns[call.rank as usize] = call.departure_ns + 1;
        }
        for message in &self.messages[first..] {
            for end in [0, 1] {
                let other_ns = message.started_ns[1 - end];
                let call = &mut self.calls[message.calls[end]];
                let wait_ns = other_ns.saturating_sub(call.arrival_ns);
                if other_ns <= call.departure_ns && wait_ns > call.wait_ns {
                    call.wait_ns = wait_ns;
                    call.cause = [message.key.to, message.key.from][end];
                }
            }
        }
    }

    /// The sample where there is room for this many messages of a stream; at some ends half of it.
    fn tables(&self, room: u64, random: &mut Random) -> Tables {
        let mut tables = Tables::default();
        tables.comms.number_of("W");
        let mut masks: HashMap<StreamKey, [u64; 2]> = HashMap::new();
        let mut known: HashMap<(u64, u64), u64> = HashMap::new();
        let mut mask_of = |messages: u64, room: u64| {
            *known.entry((messages, room)).or_insert_with(|| {
                let mut mask = 0;
                while (0..messages).filter(|&number| is_kept(number, mask)).count() as u64 > room {
                    mask = narrower(mask);
                }
                mask
            })
        };
        let mut counts: Vec<(StreamKey, u64)> =
            self.counts.iter().map(|(&key, &count)| (key, count)).collect();
        counts.sort_unstable();
        for (key, messages) in counts {
            let half = if random.below(4) == 0 { room / 2 } else { room };
            masks.insert(key, [mask_of(messages, room), mask_of(messages, half)]);
            let count = EndCount { messages, recorded: messages, is_ordered: true };
            tables.streams.insert(key, [Some(count); 2]);
        }
        for message in &self.messages {
            for (end, mask) in masks[&message.key].into_iter().enumerate() {
                if is_kept(message.number, mask) {
                    let call = &self.calls[message.calls[end]];
                    tables.sightings.push(MessageSample {
                        key: message.key,
                        number: message.number,
                        is_received: end == 1,
                        bytes: 8,
                        started_ns: message.started_ns[end],
                        completion_ns: Some([call.arrival_ns, call.departure_ns]),
                        class: Some(call.class),
                        completed: call.completed,
                    });
                }
            }
        }
        tables
    }

    fn estimated(&self, room: u64, random: &mut Random) -> Waiting {
        let mut of_ranks: HashMap<u32, Times> = HashMap::new();
        for call in &self.calls {
            let times = of_ranks.entry(call.rank).or_default();
            times.by_class_s[call.class as usize] += (call.departure_ns - call.arrival_ns) as f64 / 1e9;
        }
        let times = [("W".to_owned(), of_ranks)].into_iter().collect();
        let wall_s = (0..self.ranks).map(|rank| (rank, self.now_ns[rank as usize] as f64 / 1e9)).collect();
        let known = MessageTotals { times: &times, counts: HashMap::new(), wall_s: &wall_s, was_off: false };
        let mut clocks = Clocks::new((0..self.ranks).map(|rank| (rank, "a")));
        clocks.begin_at(0, 0);
        let mut tables = self.tables(room, random);
        let joined = join(&mut tables);
        assert!(joined.left_out.is_empty());
        let (mut found, left_out) = waits(joined, &tables.comms.names, &clocks, &known, |_| true, None);
        assert_eq!((found.len(), left_out.len()), (1, 0));
        let found = found.remove(0);
        assert_eq!(found.call, MESSAGES);
        found
    }
}

/// How many intervals have the true value, of how many.
#[derive(Default)]
struct Tally {
    inside: u32,
    all: u32,
    /// Sum of the half widths, and of the errors, by the true values.
    widths: f64,
    errors: f64,
}

impl Tally {
    fn add(&mut self, estimate: Estimate, truth: f64) {
        let rounding = 1e-9 * truth + 1e-12;
        let is_inside = (estimate.low - rounding..=estimate.high + rounding).contains(&truth);
        self.inside += u32::from(is_inside);
        self.all += 1;
        self.widths += (estimate.high - estimate.low) / truth.max(1e-9) / 2.0;
        self.errors += (estimate.total - truth).abs() / truth.max(1e-9);
    }

    fn share(&self) -> f64 {
        f64::from(self.inside) / f64::from(self.all)
    }

    fn width(&self) -> f64 {
        self.widths / f64::from(self.all)
    }

    fn error(&self) -> f64 {
        self.errors / f64::from(self.all)
    }
}

/// The tallies of waiting, of what ranks suffered and of what they caused, in 100 programs; and the
/// findings.
fn tallies(kind: StratumKey) -> ([Tally; 3], Vec<(u32, Vec<Finding>)>) {
    let mut tallies = [const { Tally { inside: 0, all: 0, widths: 0.0, errors: 0.0 } }; 3];
    let mut findings = Vec::new();
    for seed in 0..100 {
        let mut random = Random::new(seed << 8 | kind as u64 | 1 << 40);
        let program = Program::new(kind, &mut random);
        let room = 96 + random.below(64) as u64;
        let found = program.estimated(room, &mut random);
        let [mut suffered, mut caused] = [0, 1].map(|_| vec![0.0; program.ranks as usize]);
        for call in &program.calls {
            suffered[call.rank as usize] += call.wait_ns as f64 / 1e9;
            caused[call.cause as usize] += call.wait_ns as f64 / 1e9;
        }
        tallies[0].add(found.waiting.expect("a large sample"), suffered.iter().sum());
        for member in &found.members {
            tallies[1].add(member.suffered.expect("a large sample"), suffered[member.rank as usize]);
            tallies[2].add(member.caused.expect("a large sample"), caused[member.rank as usize]);
        }
        findings.push((program.late, found.findings));
    }
    (tallies, findings)
}

#[test]
fn intervals_have_the_true_values_of_100_programs_of_each_kind() {
    std::thread::scope(|scope| {
        KINDS.iter().for_each(|&kind| drop(scope.spawn(move || has_true_values(kind))))
    });
}

/// Asserts what intervals and findings of 100 programs of a kind have.
fn has_true_values(kind: StratumKey) {
    let ([waiting, suffered, caused], findings) = tallies(kind);
    assert!(waiting.share() >= 0.93, "{kind:?}: {} of {}", waiting.inside, waiting.all);
    assert!(suffered.share() >= 0.93, "{kind:?}: {} of {}", suffered.inside, suffered.all);
    assert!(caused.share() >= 0.93, "{kind:?}: {} of {}", caused.inside, caused.all);
    // An interval that has everything would say nothing.
    let most = if kind == StratumKey::UnequalCounts { 0.3 } else { 0.15 };
    assert!(waiting.width() < most, "{kind:?}: ± {}", waiting.width());
    assert!(waiting.error() < 0.1, "{kind:?}: {}", waiting.error());
    let right = |late: u32, found: &[Finding]| match (kind, found) {
        (StratumKey::AlwaysLate, [Finding::LateEnd(LateEnd::Sender, ranks)]) => ranks == &[late as usize],
        (StratumKey::Gather, [Finding::LateEnd(LateEnd::HotReceiver, ranks)]) => ranks == &[0],
        _ => false,
    };
    // Those who wait for the late rank come late to others, and may be named with it.
    let has_late = |late: u32, found: &[Finding]| match (kind, found) {
        (StratumKey::AlwaysLate, [Finding::LateEnd(_, ranks)]) => ranks.contains(&(late as usize)),
        _ => false,
    };
    let found = findings.iter().filter(|(late, found)| right(*late, found)).count();
    let is_wrong = |(late, found): &&(u32, Vec<Finding>)| {
        !found.is_empty() && !right(*late, found) && !has_late(*late, found)
    };
    let wrong: Vec<_> = findings.iter().filter(is_wrong).collect();
    let least = if [StratumKey::AlwaysLate, StratumKey::Gather].contains(&kind) { 90 } else { 0 };
    assert!(found >= least && wrong.len() <= 1, "{kind:?}: {found} found, {wrong:?}");
}
