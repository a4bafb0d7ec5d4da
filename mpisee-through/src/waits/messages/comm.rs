//! The waits in the messages of one communicator.

use super::calls::CompletedMessage;
use super::class::Class;
use super::estimate::{Bounded, Design, Stratum};
use super::join::{Joined, Stream};
use super::pattern::{self, Evidence};
use super::sums::{Cause, Sums};
use super::{MESSAGES, MessageTotals, Times};
use crate::waits::estimate::FEWEST;
use crate::waits::hosts::Clocks;
use crate::waits::pattern::MOST_AWAY;
use crate::waits::{LEAST_OF_RUN, Member, Sink, Waiting};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;

/// The sampled messages of a communicator, and what all of them are.
pub struct CommMessages<'a> {
    name: &'a str,
    completions: &'a [CompletedMessage],
    streams: &'a [Stream],
    design: Design,
    /// By stratum, its units, ascending: the sampled numbers of messages, or, of streams of few
    /// messages that were all sampled, the indices of these.
    numbers: Vec<Vec<u64>>,
    /// By stratum, whether the units are streams.
    are_streams: Vec<bool>,
    /// The stratum of each stream, by the index of the stream; none of one whose sample is too
    /// small.
    stratum_of: HashMap<u32, usize>,
    /// Ranks with messages of which the sample has nothing: sent, and received.
    uncovered: HashSet<(u32, bool)>,
    /// Ranks that sent or received a message.
    ranks: HashSet<u32>,
    /// Messages in streams that are known at both ends, and sampled there.
    messages: u64,
    sampled: u64,
    /// All messages, those in no stream included.
    counted: u64,
    /// True if recording was off for a time, and nobody knows for how many of the messages.
    was_off: bool,
    /// Time in calls beyond their waits, in seconds, as the quickest calls have it whose messages
    /// are not all known.
    transfer_s: f64,
}

/// The bits of the mask, and whether all messages were sampled.
type StratumKey = (u32, bool);

impl<'a> CommMessages<'a> {
    /// Finds the strata; `streams` are the indices of those on the communicator, `completions` are
    /// in the order of ranks and classes.
    pub fn new(
        name: &'a str,
        comm: u32,
        completions: &'a [CompletedMessage],
        streams: &[u32],
        joined: &'a Joined,
        known: &MessageTotals<'_>,
    ) -> Self {
        let all = &joined.streams;
        let mut kinds: BTreeMap<StratumKey, Vec<u32>> = BTreeMap::new();
        for &index in streams {
            let stream = &all[index as usize];
            kinds.entry((stream.bits, stream.sampled == stream.messages)).or_default().push(index);
        }
        let mut kind_of: HashMap<u32, StratumKey> = HashMap::new();
        kinds.iter().for_each(|(kind, of)| kind_of.extend(of.iter().map(|&index| (index, *kind))));
        let mut numbers: BTreeMap<StratumKey, Vec<u64>> = BTreeMap::new();
        for one in completions {
            numbers.entry(kind_of[&one.stream]).or_default().push(one.number);
        }
        let mut sampled = CommMessages {
            name,
            completions,
            streams: all,
            design: Design::default(),
            numbers: Vec::new(),
            are_streams: Vec::new(),
            stratum_of: HashMap::new(),
            uncovered: HashSet::new(),
            ranks: HashSet::new(),
            messages: 0,
            sampled: 0,
            counted: joined.messages.iter().filter(|((of, _), _)| *of == comm).map(|(_, count)| *count).sum(),
            was_off: known.was_off && joined.is_recorded_unknown,
            transfer_s: transfer_s(completions),
        };
        let uncovered = joined.uncovered.iter().filter(|(of, ..)| *of == comm);
        sampled.uncovered.extend(uncovered.map(|&(_, rank, is_received)| (rank, is_received)));
        for (kind, streams) in kinds {
            sampled.add(kind, &streams, numbers.remove(&kind).unwrap_or_default());
        }
        sampled.find_hidden(streams, known);
        sampled
    }

    /// Adds a stratum, if its sample is large enough.
    fn add(&mut self, (bits, is_all): StratumKey, streams: &[u32], mut numbers: Vec<u64>) {
        let of = |index: &u32| &self.streams[*index as usize];
        let messages: u64 = streams.iter().map(|index| of(index).messages).sum();
        let sampled: u64 = streams.iter().map(|index| of(index).sampled).sum();
        let most = streams.iter().map(|index| of(index).messages).max().unwrap_or(0);
        self.messages += messages;
        self.sampled += sampled;
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() || !is_all && numbers.len() < FEWEST {
            let ends = streams.iter().map(|index| of(index).key);
            self.uncovered.extend(ends.flat_map(|key| [(key.from, false), (key.to, true)]));
            return;
        }
        let are_streams = is_all && numbers.len() < FEWEST && streams.len() > numbers.len();
        if are_streams {
            numbers = streams.iter().map(|&index| index.into()).collect();
            numbers.sort_unstable();
        }
        // The longest stream has all numbers, also those of messages for which no call waited.
        let units = streams.iter().map(|index| of(index).sampled).max().unwrap_or(0);
        let units = usize::try_from(units).unwrap_or(usize::MAX).max(numbers.len());
        let first = self.design.units();
        let missing = if is_all { 0.0 } else { 1.0 - sampled as f64 / messages as f64 };
        let population = match (is_all, self.was_off) {
            (true, _) => units as f64,
            (false, false) => most as f64,
            (false, true) => units as f64 * 2f64.powi(bits.cast_signed()),
        };
        self.design.strata.push(Stratum { first, units, population, missing });
        let stratum = self.numbers.len();
        self.numbers.push(numbers);
        self.are_streams.push(are_streams);
        self.stratum_of.extend(streams.iter().map(|&index| (index, stratum)));
    }

    /// Finds the ranks with messages, and those with messages in no stream.
    fn find_hidden(&mut self, streams: &[u32], known: &MessageTotals<'_>) {
        let mut listed: HashMap<(u32, bool), u64> = HashMap::new();
        for stream in streams.iter().map(|&index| &self.streams[index as usize]) {
            for end in [(stream.key.from, false), (stream.key.to, true)] {
                *listed.entry(end).or_default() += stream.messages;
            }
        }
        let counts = known.counts.get(self.name).into_iter().flatten();
        let sent = counts.clone().filter(|((_, is_received), _)| !is_received);
        let sent = sent.map(|(_, count)| *count).fold(0, u64::saturating_add);
        self.counted = self.counted.max(sent);
        let hidden = counts.filter(|(end, count)| listed.get(*end).copied().unwrap_or(0) < **count);
        self.uncovered.extend(hidden.map(|(end, _)| *end));
        let counted = known.counts.get(self.name).into_iter().flatten().map(|(end, _)| end);
        self.ranks.extend(listed.keys().chain(counted).map(|(rank, _)| *rank));
    }

    /// The unit of a message, and how many messages it stands for beside the others of the unit.
    fn unit(&self, one: &CompletedMessage) -> Option<(usize, f64)> {
        let stratum_index = *self.stratum_of.get(&one.stream)?;
        let stratum = &self.design.strata[stratum_index];
        let key = if self.are_streams[stratum_index] { one.stream.into() } else { one.number };
        let at = self.numbers[stratum_index].binary_search(&key).ok()?;
        let stream = &self.streams[one.stream as usize];
        let weight = match self.was_off {
            true => 1.0,
            false => {
                stream.messages as f64 / stream.sampled as f64 / (stratum.population / stratum.units as f64)
            }
        };
        Some((stratum.first + at, weight))
    }

    /// Returns whether the sample has all messages that calls of the class complete on the rank.
    fn is_covered(&self, rank: u32, class: Class, times: &Times) -> bool {
        let has = |is_received: bool| !self.uncovered.contains(&(rank, is_received));
        match class {
            Class::Send => has(false),
            Class::Receive | Class::Probe => has(true),
            Class::SendReceive => has(false) && has(true),
            Class::Wait => has(false) && has(true) && !times.has_other_requests,
        }
    }

    /// The likely wait of the call of a message, in seconds.
    fn likely_s(&self, one: &CompletedMessage) -> f64 {
        match one.is_complete {
            true => one.wait_s,
            false => one.wait_s.max(one.time_s - self.transfer_s),
        }
    }

    /// The part of the call's wait that its cause caused, as far as this message stands for the
    /// call, in seconds. In a call of which some messages are unknown, the last known one is taken
    /// for the last of all if little time is left after it.
    fn caused_s(&self, one: &CompletedMessage) -> f64 {
        match one.is_complete {
            true => one.share * one.wait_s,
            false if one.is_last && one.time_s - one.wait_s <= 2.0 * self.transfer_s => one.wait_s,
            false => 0.0,
        }
    }

    /// The waits on the communicator; `sink` gets who waited for whom.
    pub fn waiting(
        &self,
        clocks: &Clocks,
        known: &MessageTotals<'_>,
        sink: Option<&mut Sink<'_>>,
    ) -> Waiting {
        let mut sums = Sums::new(self.design.units());
        let none = HashMap::new();
        let times = known.times.get(self.name).unwrap_or(&none);
        let mut buffer = Bounded::new(self.design.units());
        for of_class in
            self.completions.chunk_by(|one, other| (one.rank, one.class) == (other.rank, other.class))
        {
            self.add_class(of_class, times, &mut buffer, &mut sums);
        }
        for (&rank, of_rank) in times.iter().filter(|(rank, _)| self.ranks.contains(*rank)) {
            sums.ranks.entry(rank).or_default().time_s += of_rank.other_s;
        }
        let waiting = sums.waiting(&self.design);
        let waiting = waiting.inspect(|waiting| sums.add_causes(&self.design, *waiting));
        if let (Some(sink), Some(_)) = (sink, waiting) {
            sums.pairs(&self.design)
                .into_iter()
                .for_each(|(waiting, cause, time_s)| sink(self.name, waiting, cause, time_s));
        }
        let wall_s: f64 = sums.ranks.keys().filter_map(|rank| known.wall_s.get(rank)).sum();
        let is_large = waiting.is_some_and(|waiting| waiting.total >= LEAST_OF_RUN * wall_s);
        let members: Vec<Member> = sums.members(clocks, waiting.is_some());
        let may_lack_progress = is_large && self.may_lack_progress();
        let findings = match waiting.filter(|_| is_large && !may_lack_progress) {
            Some(waiting) => pattern::findings(&Evidence {
                design: &self.design,
                causes: &sums.causes,
                members: &members,
                waiting,
                hosts: clocks.names.len(),
                is_part: self.sampled < self.messages / 2,
                waits_for_receiver: &|rank| self.waits_for_receiver(rank),
            }),
            None => Vec::new(),
        };
        Waiting {
            comm: self.name.to_owned(),
            call: MESSAGES.to_owned(),
            others: 0,
            instances: self.counted,
            sampled: self.sampled,
            is_nonblocking: false,
            may_lack_progress,
            is_small: !is_large,
            sends: sums.of_class(&self.design, Class::Send),
            time_s: members.iter().map(|member| member.time_s).sum(),
            waiting,
            members,
            findings,
        }
    }

    /// Returns whether calls lasted so long while the other end had started and was away that this
    /// may explain the waits: who waits longer in this way is later with its own next message, and
    /// would be blamed for that.
    fn may_lack_progress(&self) -> bool {
        let sum = |of: fn(&CompletedMessage) -> f64| {
            let weighted = |one: &CompletedMessage| {
                let (unit, weight) = self.unit(one)?;
                Some(weight * one.share * of(one) * self.design.weight(unit))
            };
            self.completions.iter().filter_map(weighted).sum::<f64>()
        };
        sum(|one| one.away_s) > MOST_AWAY * sum(|one| one.wait_s)
    }

    /// Adds the calls of a class by a rank.
    fn add_class(
        &self,
        of_class: &[CompletedMessage],
        times: &HashMap<u32, Times>,
        buffer: &mut Bounded,
        sums: &mut Sums,
    ) {
        let (rank, class) = (of_class[0].rank, of_class[0].class);
        let times = times.get(&rank).copied().unwrap_or_default();
        let class_s = times.by_class_s[class as usize];
        let is_covered = self.is_covered(rank, class, &times);
        let group = sums.group(class, is_covered);
        buffer.clear();
        let mut directions = [0.0; 2];
        let mut is_empty = true;
        for one in of_class {
            let Some((unit, weight)) = self.unit(one) else { continue };
            is_empty = false;
            let share = weight * one.share;
            buffer.times[unit] += share * one.time_s;
            buffer.least[unit] += share * one.wait_s;
            buffer.likely[unit] += share * self.likely_s(one);
            buffer.most[unit] += share * if one.is_complete { one.wait_s } else { one.time_s };
            buffer.each[unit] += if one.is_complete { share * one.wait_s } else { weight * one.own_s };
            let caused_s = weight * self.caused_s(one);
            directions[usize::from(one.is_for_receiver)] += caused_s * self.design.weight(unit);
            let least_s = if one.is_complete { caused_s } else { 0.0 };
            // A message to itself is there as soon as it is sent.
            let others = [one.cause, one.peer].into_iter().filter(|&other| other != rank);
            sums.peers.entry(rank).or_default().extend(others);
            let is_receiver = one.is_for_receiver;
            let cause = |cause, [likely_s, least_s, more_s]: [f64; 3]| Cause {
                rank: cause,
                waiting: rank,
                group,
                unit,
                is_receiver,
                likely_s,
                least_s,
                more_s,
            };
            sums.add_cause(cause(one.cause, [caused_s, least_s, 0.0]));
            if !one.is_complete && one.own_s > 0.0 {
                sums.add_cause(cause(one.peer, [0.0, 0.0, weight * one.own_s]));
            }
        }
        if is_empty {
            return;
        }
        let suffered = buffer.total(&self.design, is_covered.then_some(class_s)).clamped(0.0, class_s);
        let sampled_s = self.design.plain_sum(&buffer.times).min(class_s);
        let of_rank = sums.ranks.entry(rank).or_default();
        of_rank.time_s += if is_covered { class_s } else { sampled_s };
        of_rank.suffered = of_rank.suffered.plus(suffered);
        of_rank.suffered_by_direction_s[0] += directions[0];
        of_rank.suffered_by_direction_s[1] += directions[1];
        sums.add_to_group(group, buffer, if is_covered { class_s } else { sampled_s });
    }

    /// By waiting rank, how long it waited for this one to receive, as the sample has it for all
    /// calls, in seconds.
    fn waits_for_receiver(&self, receiver: u32) -> HashMap<u32, f64> {
        let mut waits = HashMap::new();
        for one in self.completions.iter().filter(|one| one.cause == receiver && one.is_for_receiver) {
            if let Some((unit, weight)) = self.unit(one) {
                let weight = weight * self.design.weight(unit);
                *waits.entry(one.rank).or_default() += weight * self.caused_s(one);
            }
        }
        waits
    }
}

/// The time that calls with unknown messages take beyond their waits, in seconds: of these calls,
/// those count in which a known message is likely the last one, as few as there are such messages
/// among all.
fn transfer_s(completions: &[CompletedMessage]) -> f64 {
    let incomplete = || completions.iter().filter(|one| !one.is_complete && one.wait_s > 0.0);
    let mut rests_s: Vec<f64> = incomplete().map(|one| one.time_s - one.wait_s).collect();
    if rests_s.is_empty() {
        return 0.0;
    }
    let shares: f64 = incomplete().map(|one| one.share).sum();
    let likely = (shares.ceil() as usize).clamp(1, rests_s.len());
    rests_s.sort_unstable_by(f64::total_cmp);
    rests_s[..likely].iter().sum::<f64>() / likely as f64
}
