//! The waits of one operation on one communicator: of the sampled instances, and from these of all.

use super::dependence::Dependence;
use super::estimate::{self, Auxiliary, Estimate, FEWEST, KnownSums};
use super::instance::{Hosts, Instance, Waits};
use super::root::PossibleWaits;
use mpisee_profile::segment::instances::hash;
use std::ops::Range;

/// The sampled instances that all members have; times are seconds on one clock, by instance and
/// member.
#[derive(Clone, Debug, Default)]
pub struct SampledCalls {
    /// The numbers of the instances, ascending.
    pub numbers: Vec<u64>,
    /// The position of each instance's root.
    pub roots: Vec<Option<usize>>,
    pub arrivals: Vec<f64>,
    pub departures: Vec<f64>,
    /// When members started a nonblocking operation; empty of a blocking one.
    pub starts: Vec<f64>,
    /// As [`Instance::shares`]; empty of a blocking operation.
    pub shares: Vec<f64>,
    /// By member, whether it contributes nothing to any call, so that nobody need wait for it;
    /// empty if all contribute.
    pub silent: Vec<bool>,
    pub hosts: Hosts,
}

/// The known sums over all instances.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The number of recorded instances.
    pub instances: u64,
    /// By member, the mean time in one call, in seconds; none of a nonblocking operation whose
    /// completing calls may be about others as well.
    pub mean_times_s: Option<Vec<f64>>,
    /// By member, how long its calls can have lasted together, in seconds; empty where their time
    /// is known.
    pub most_s: Vec<f64>,
    /// By member, the mean arrival over the same instances on the clock of the sample, if that is
    /// known.
    pub mean_arrivals_s: Option<Vec<f64>>,
}

/// Times by member, and for each by sampled instance.
pub type Columns = Vec<Vec<f64>>;

/// Waiting of the members in the sampled instances, and what they caused.
#[derive(Clone, Debug, Default)]
pub struct SampledWaits {
    pub waited: Columns,
    pub caused: Columns,
    /// The member that arrived last in each instance.
    pub last: Vec<usize>,
}

/// Waiting of the members in all instances, and what they caused, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Estimated {
    /// The waiting of all members together.
    pub waiting: Estimate,
    pub suffered: Vec<Estimate>,
    /// Sums to the waiting.
    pub caused: Vec<Estimate>,
}

/// The waiting that a member suffered, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Suffered {
    estimate: Estimate,
    /// The part that is certain: by so much others arrived later, on average over all instances.
    certain_s: f64,
}

impl SampledWaits {
    /// By instance, the waiting of all members.
    pub fn of_all(&self) -> Vec<f64> {
        let mut sums = self.waited.first().cloned().unwrap_or_default();
        for waited in self.waited.iter().skip(1) {
            sums.iter_mut().zip(waited).for_each(|(sum, waited_s)| *sum += waited_s);
        }
        sums
    }
}

impl SampledCalls {
    /// The number of members.
    pub fn members(&self) -> usize {
        self.hosts.of_member.len()
    }

    /// Of a nonblocking operation, how long completing calls lasted, after the waits, while another
    /// member had started and had not entered its own: it may have computed, so that its MPI did
    /// nothing for the operation. Sum over members and instances, in seconds.
    pub fn away_s(&self, sampled: &SampledWaits) -> f64 {
        let members = self.members();
        if self.starts.is_empty() || members == 0 {
            return 0.0;
        }
        let of_instance = |(at, one): (usize, Instance<'_>)| {
            let last_s = one.arrivals.iter().copied().fold(f64::MIN, f64::max);
            let of_member = |member: usize| {
                let share = one.share(member);
                let until_s = one.departures[member].min(last_s);
                (share * (until_s - one.arrivals[member]) - sampled.waited[member][at]).max(0.0)
            };
            (0..members).map(of_member).sum::<f64>()
        };
        self.instances().enumerate().map(of_instance).sum()
    }

    /// Returns whether nobody waits for the member: it contributes nothing, or it is the root,
    /// which alone waits.
    fn is_unawaited(&self, member: usize, dependence: Dependence) -> bool {
        self.silent.get(member).is_some_and(|&silent| silent)
            || dependence == Dependence::RootOnAll && self.only_root() == Some(member)
    }

    /// Returns whether the instances are of several persistent requests.
    pub fn has_requests(&self) -> bool {
        self.numbers.last().is_some_and(|number| number >> u32::BITS > 0)
    }

    /// Returns whether the sample has the same part of the starts of each persistent request, as
    /// far as their numbers show it.
    pub fn is_even(&self) -> bool {
        let of_request = |one: &u64| one >> u32::BITS;
        let requests = || self.numbers.chunk_by(|one, other| of_request(one) == of_request(other));
        let bits = |numbers: &[u64]| {
            let ones = numbers.iter().fold(0, |ones, number| ones | hash(number & u64::from(u32::MAX)));
            (numbers.len() >= FEWEST).then(|| ones.trailing_zeros())
        };
        let Some(first) = requests().next() else { return true };
        requests().count() == 1 || bits(first).is_some() && requests().all(|one| bits(one) == bits(first))
    }

    /// The positions of the instances in the order of time: by their numbers, which those of
    /// several requests share.
    pub fn in_time(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        if self.has_requests() {
            let first = |one: Instance<'_>| one.starts().iter().copied().fold(f64::INFINITY, f64::min);
            let first_s: Vec<f64> = self.instances().map(first).collect();
            order.sort_by(|&one, &other| first_s[one].total_cmp(&first_s[other]));
        }
        order
    }

    /// The instances one after the other.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = Instance<'_>> {
        let members = self.members().max(1);
        let times = self.arrivals.chunks_exact(members).zip(self.departures.chunks_exact(members));
        times.zip(&self.roots).enumerate().map(move |(at, ((arrivals, departures), &root))| {
            let own = at * members..(at + 1) * members;
            let (starts, shares) = (self.starts.get(own.clone()), self.shares.get(own));
            Instance { arrivals, departures, starts, shares, root }
        })
    }

    /// The root of all instances, if it is the same one.
    pub fn only_root(&self) -> Option<usize> {
        let first = self.roots.first().copied().flatten()?;
        self.roots.iter().all(|root| *root == Some(first)).then_some(first)
    }

    /// Who waited for whom in each N-th sampled instance: members by position, with seconds.
    pub fn pairs(&self, dependence: Dependence, step: usize, mut each: impl FnMut(usize, usize, f64)) {
        let mut waits = Waits::without(&self.silent).with_pairs();
        for instance in self.instances().step_by(step) {
            waits.compute(instance, dependence, &self.hosts);
            for &(waiting, cause, time_s) in waits.pairs.iter().flatten() {
                each(waiting, cause, time_s);
            }
        }
    }

    /// The waits in each instance.
    pub fn waits(&self, dependence: Dependence) -> SampledWaits {
        let members = self.members();
        let column = || vec![Vec::with_capacity(self.numbers.len()); members];
        let mut sampled = SampledWaits { waited: column(), caused: column(), last: Vec::new() };
        let mut waits = Waits::without(&self.silent);
        for instance in self.instances() {
            waits.compute(instance, dependence, &self.hosts);
            for member in 0..members {
                sampled.waited[member].push(waits.waited_s[member]);
                sampled.caused[member].push(waits.caused_s[member]);
            }
            let starts = instance.starts();
            let last = (0..members).max_by(|&one, &other| starts[one].total_cmp(&starts[other]));
            sampled.last.push(last.unwrap_or(0));
        }
        sampled
    }

    /// By member, the time in each call, in seconds.
    pub fn times(&self) -> Columns {
        let time = |member: usize| {
            let time_s =
                |one: Instance<'_>| one.share(member) * (one.departures[member] - one.arrivals[member]);
            self.instances().map(time_s).collect()
        };
        (0..self.members()).map(time).collect()
    }
}

/// Members whose lateness may be what the sample lacks: the few whose mean arrival differs most
/// from that of the sample.
const SUSPECTS: usize = 3;

/// From the sample to all instances.
struct Estimator<'a> {
    sample: &'a SampledCalls,
    totals: &'a Totals,
    dependence: Dependence,
    sampled: &'a SampledWaits,
    times: Columns,
    /// By member, how much later it arrived than all on average; none if mean arrivals are unknown.
    lateness: Vec<Auxiliary>,
    suspects: Vec<usize>,
    /// The member whose mean arrival is earliest beside that of the sample.
    earliest: Option<usize>,
    /// True if few instances make most of the waiting, or arrivals show that the sample lacks such.
    is_rare: bool,
}

/// Estimates the waits in all instances; none if the sample is too small to tell.
pub fn estimate(
    sample: &SampledCalls,
    totals: &Totals,
    dependence: Dependence,
    sampled: &SampledWaits,
) -> Option<Estimated> {
    let awaited = (0..sample.members()).filter(|&member| !sample.is_unawaited(member, dependence));
    let awaited: Vec<usize> = awaited.collect();
    let lateness = lateness(sample, totals, &awaited);
    let excess =
        |&member: &usize| lateness.get(member).map(|late| (estimate::excess(late, totals.instances), member));
    let mut suspects: Vec<(f64, usize)> = awaited.iter().filter_map(excess).collect();
    suspects.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let is_unlike = suspects.iter().any(|(excess, _)| excess.abs() > estimate::UNLIKE_OF_SEVERAL);
    let earliest = suspects.last().map(|&(_, member)| member);
    let suspects = suspects.into_iter().take(SUSPECTS).map(|(_, member)| member).collect();
    let (times, is_rare) = (sample.times(), is_unlike || estimate::is_rare(&sampled.of_all()));
    let estimator =
        Estimator { sample, totals, dependence, sampled, times, lateness, suspects, earliest, is_rare };
    let suffered: Option<Vec<Suffered>> =
        (0..sample.members()).map(|member| estimator.suffered(member)).collect();
    let suffered = suffered?;
    let sum_s: f64 = suffered.iter().map(|suffered| suffered.estimate.total).sum();
    let waiting = estimator.waiting()?;
    let certain_s: f64 = suffered.iter().map(|suffered| suffered.certain_s).sum();
    let suffered: Vec<Estimate> = suffered.into_iter().map(|suffered| suffered.estimate).collect();
    let waiting = Estimate {
        total: sum_s,
        low: waiting.low.max(certain_s).min(sum_s),
        high: waiting.high.max(sum_s),
        error: waiting.error,
    };
    // Of two that wait for each other, either caused what the other one suffered.
    let caused = match (dependence, suffered.as_slice()) {
        (Dependence::All, &[one, other]) if awaited.len() == 2 => vec![other, one],
        _ => estimator.caused(waiting)?,
    };
    let estimated = Estimated { waiting, suffered, caused };
    match dependence {
        Dependence::AllOnRoot => estimator.with_possible(estimated),
        _ => Some(estimated),
    }
}

/// By member, how much later it arrives than those who are awaited on average.
fn lateness(sample: &SampledCalls, totals: &Totals, awaited: &[usize]) -> Vec<Auxiliary> {
    let Some(means_s) = &totals.mean_arrivals_s else { return Vec::new() };
    let mean = |arrivals: &[f64]| {
        awaited.iter().map(|&member| arrivals[member]).sum::<f64>() / awaited.len().max(1) as f64
    };
    let mean_s = mean(means_s);
    let centres: Vec<f64> = sample.instances().map(|one| mean(one.arrivals)).collect();
    let late = |(member, member_mean_s): (usize, &f64)| Auxiliary {
        values: sample.instances().zip(&centres).map(|(one, centre)| one.arrivals[member] - centre).collect(),
        mean: member_mean_s - mean_s,
        slope: 0.0,
    };
    means_s.iter().enumerate().map(late).collect()
}

impl Estimator<'_> {
    fn total(&self, values: &[f64], sums: &[Auxiliary], floors: &[Auxiliary]) -> Option<Estimate> {
        let known = KnownSums { sums, floors, is_rare: self.is_rare };
        estimate::total(values, known, self.totals.instances)
    }

    /// The time of a member in its calls, if it is known.
    fn time(&self, member: usize, slope: f64) -> Option<Auxiliary> {
        let means_s = self.totals.mean_times_s.as_ref()?;
        Some(Auxiliary { values: self.times[member].clone(), mean: means_s[member], slope })
    }

    /// The time of all who may wait, if it is known.
    fn time_of_all(&self, slope: f64) -> Option<Auxiliary> {
        let means_s = self.totals.mean_times_s.as_ref()?;
        if let (Dependence::RootOnAll, Some(root)) = (self.dependence, self.sample.only_root()) {
            return self.time(root, slope);
        }
        let mut values = vec![0.0; self.sample.numbers.len()];
        for times in &self.times {
            values.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
        }
        Some(Auxiliary { values, mean: means_s.iter().sum(), slope })
    }

    /// How much later those arrive who may be waited for: later than the member, or, added up, than
    /// all who may wait.
    fn floors(&self, waiting: Option<usize>) -> Vec<Auxiliary> {
        if self.lateness.is_empty() {
            return Vec::new();
        }
        let root = self.sample.only_root();
        let late = match (self.dependence, root) {
            (Dependence::All, _) | (Dependence::RootOnAll, Some(_)) => self.suspects.clone(),
            (Dependence::AllOnRoot, Some(root)) => vec![root],
            _ => Vec::new(),
        };
        let waiting = match (self.dependence, root) {
            (Dependence::RootOnAll, Some(root)) => waiting.or(Some(root)),
            _ => waiting,
        };
        let floor = |late: usize| match waiting {
            Some(member) => difference(&self.lateness[late], &self.lateness[member]),
            None => self.later_than_all(late),
        };
        late.into_iter().map(floor).collect()
    }

    /// How much later the member arrives than every other, added up.
    fn later_than_all(&self, member: usize) -> Auxiliary {
        let count = self.lateness.len() as f64;
        let late = &self.lateness[member];
        let sum = |at: usize| self.lateness.iter().map(|other| other.values[at]).sum::<f64>();
        let values = late.values.iter().enumerate().map(|(at, late_s)| count * late_s - sum(at)).collect();
        let mean = count * late.mean - self.lateness.iter().map(|other| other.mean).sum::<f64>();
        Auxiliary { values, mean, slope: 1.0 }
    }

    /// The time of these members in all calls, or a bound of it, in seconds.
    fn whole_s(&self, members: Range<usize>) -> f64 {
        match (&self.totals.mean_times_s, self.totals.most_s.as_slice()) {
            (Some(means_s), _) => means_s[members].iter().sum::<f64>() * self.totals.instances as f64,
            (None, []) => f64::INFINITY,
            (None, most_s) => most_s[members].iter().sum(),
        }
    }

    fn suffered(&self, member: usize) -> Option<Suffered> {
        let waited = &self.sampled.waited[member];
        let whole_s = self.whole_s(member..member + 1);
        if waited.iter().all(|&waited_s| waited_s == 0.0) && self.never_waits(member) {
            return Some(Suffered::default());
        }
        let time: Vec<Auxiliary> = self.time(member, 1.0).into_iter().collect();
        let floors = below(waited, self.floors(Some(member)));
        let certain_s = self.certain_s(&floors);
        let found = self.total(waited, &time, &floors)?;
        let estimate = found.clamped(certain_s, whole_s.max(waited.iter().sum()));
        Some(Suffered { estimate, certain_s })
    }

    /// The sum of these floors over all instances, as far as clocks show, in seconds: a lower
    /// bound.
    fn certain_s(&self, floors: &[Auxiliary]) -> f64 {
        // That of the means in the profile.
        const ROUNDING_S: f64 = 1e-9;
        let clocks_s = self.sample.hosts.uncertainty_s.iter().copied().fold(0.0, f64::max);
        let least_s = |floor: &Auxiliary| floor.mean - 2.0 * clocks_s - ROUNDING_S;
        floors.iter().map(least_s).fold(0.0, f64::max) * self.totals.instances as f64
    }

    /// Returns whether the member depends on nobody.
    fn never_waits(&self, member: usize) -> bool {
        match (self.dependence, self.sample.only_root()) {
            (Dependence::AllOnRoot, Some(root)) => root == member,
            (Dependence::RootOnAll, Some(root)) => root != member,
            (Dependence::AllOnLower, _) => member == 0,
            _ => false,
        }
    }

    /// How much later a member arrives than all on average, and than the one that was least late,
    /// times those who wait for it: where one is late at a time, it causes as much at least,
    /// whatever part of the time in calls is waiting.
    fn floors_of_caused(&self, member: usize, waiting: f64) -> Vec<Auxiliary> {
        let Some(earliest) = self.earliest.filter(|_| waiting > 0.0) else { return Vec::new() };
        let late = &self.lateness[member];
        let floors = [late.clone(), difference(late, &self.lateness[earliest])];
        floors.into_iter().map(|floor| Auxiliary { slope: waiting, ..floor }).collect()
    }

    /// The time of all and that of one member: while that one is late, all others wait, and it does
    /// not.
    fn times_of_cause(&self, member: usize, count: f64) -> Vec<Auxiliary> {
        self.time_of_all(1.0).into_iter().chain(self.time(member, 1.0 - count)).collect()
    }

    fn waiting(&self) -> Option<Estimate> {
        let sums = self.sampled.of_all();
        let whole_s = self.whole_s(0..self.sample.members());
        let time: Vec<Auxiliary> = self.time_of_all(1.0).into_iter().collect();
        let found = self.total(&sums, &time, &below(&sums, self.floors(None)))?;
        Some(found.clamped(0.0, whole_s.max(sums.iter().sum())))
    }

    /// The same with intervals that contain what roots may have waited.
    fn with_possible(&self, mut found: Estimated) -> Option<Estimated> {
        let possible = PossibleWaits::from_instances(self.sample.instances(), &self.sample.hosts);
        if possible.are_none() {
            return Some(found);
        }
        let mut of_all_s = 0.0;
        for member in 0..self.sample.members() {
            let whole_s = self.whole_s(member..member + 1);
            let time: Vec<Auxiliary> = self.time(member, 1.0).into_iter().collect();
            let waited_s = self.total(&possible.waited[member], &time, &[])?.high;
            let suffered = &mut found.suffered[member];
            let high_s = (suffered.high + waited_s).min(whole_s).max(suffered.high);
            of_all_s += high_s - suffered.high;
            suffered.high = high_s;
            found.caused[member].high += self.total(&possible.caused[member], &[], &[])?.high;
        }
        found.waiting.high += of_all_s;
        found.caused.iter_mut().for_each(|caused| caused.high = caused.high.min(found.waiting.high));
        Some(found)
    }

    /// By member, with the sum of the waiting.
    fn caused(&self, waiting: Estimate) -> Option<Vec<Estimate>> {
        let members = self.sample.members();
        if let (Dependence::AllOnRoot, Some(root)) = (self.dependence, self.sample.only_root()) {
            let of = |member| if member == root { waiting } else { Estimate::default() };
            return Some((0..members).map(of).collect());
        }
        let is_unawaited = |member: usize| self.sample.is_unawaited(member, self.dependence);
        let awaited = (0..members).filter(|&member| !is_unawaited(member)).count().max(1) as f64;
        let count = members as f64;
        let [of_time, of_lateness] = match self.dependence {
            Dependence::All => [1.0 / awaited, count - 1.0],
            Dependence::RootOnAll => [1.0 / awaited, 1.0],
            Dependence::AllOnRoot | Dependence::AllOnLower => [0.0, 0.0],
        };
        let time = self.time_of_all(of_time);
        let each = |member: usize| {
            if is_unawaited(member) {
                return Some(Estimate::default());
            }
            let late = self.lateness.get(member).map(|late| Auxiliary { slope: of_lateness, ..late.clone() });
            let known: Vec<Auxiliary> = match late {
                None if self.dependence == Dependence::All => self.times_of_cause(member, count),
                late => time.clone().into_iter().chain(late).collect(),
            };
            let floors = self.floors_of_caused(member, of_lateness);
            self.total(&self.sampled.caused[member], &known, &floors)
        };
        let found: Option<Vec<Estimate>> = (0..members).map(each).collect();
        let found = found?;
        // A member that is seldom late may not be so in the sample: its error is at least that of
        // others. What it caused is mostly little and seldom much, so that a sample has rather too
        // little of it than too much.
        let error = (found.iter().map(|one| one.error.powi(2)).sum::<f64>() / awaited).sqrt();
        let sum_s: f64 = found.iter().map(|one| one.total).sum();
        let scale = if sum_s > 0.0 { waiting.total / sum_s } else { 1.0 };
        let scaled = |one: &Estimate| Estimate {
            total: one.total * scale,
            low: one.low.min(one.low * scale),
            high: one.high.max(one.total + estimate::SKEWED * error).max(one.high * scale),
            error: one.error.max(error),
        };
        let each = found.iter().enumerate().map(|(member, one)| match is_unawaited(member) {
            true => *one,
            false => scaled(one).clamped(0.0, waiting.high),
        });
        Some(each.collect())
    }
}

/// One quantity minus another.
fn difference(one: &Auxiliary, other: &Auxiliary) -> Auxiliary {
    let values = one.values.iter().zip(&other.values).map(|(one, other)| one - other).collect();
    Auxiliary { values, mean: one.mean - other.mean, slope: 1.0 }
}

/// The floors that in no sampled instance are above the values, beyond what rounding explains. A
/// member that left before another arrived has not waited for that one.
fn below(values: &[f64], floors: Vec<Auxiliary>) -> Vec<Auxiliary> {
    const ROUNDING_S: f64 = 1e-8;
    let is_below = |floor: &Auxiliary| {
        floor.values.iter().zip(values).all(|(floor, value)| *floor <= value + ROUNDING_S)
    };
    floors.into_iter().filter(is_below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 sampled calls of two members who arrive and leave together, of 4000 in which member 0
    /// comes 1.5 s later in all.
    fn rarely_late() -> (SampledCalls, Totals) {
        let mut sample = SampledCalls { hosts: Hosts::one(2), ..SampledCalls::default() };
        for number in 0..25 {
            let (at, later) = (number as f64, 1e-6 * f64::from(number % 2 == 0));
            sample.numbers.push(number);
            sample.roots.push(None);
            sample.arrivals.extend([at + later, at + 1e-6 - later]);
            sample.departures.extend([at + 3e-6, at + 3e-6]);
        }
        let mean_s = 1.5 / 4000.0;
        let totals = Totals {
            instances: 4000,
            mean_times_s: Some(vec![2.5e-6, mean_s + 2.5e-6]),
            most_s: Vec::new(),
            mean_arrivals_s: Some(vec![12.0 + mean_s, 12.0]),
        };
        (sample, totals)
    }

    #[test]
    fn mean_arrivals_prove_waiting_that_no_sampled_call_has() {
        let (sample, totals) = rarely_late();
        let found = estimate(&sample, &totals, Dependence::All, &sample.waits(Dependence::All)).unwrap();
        let Estimate { total, low, high, .. } = found.suffered[1];
        assert!((1.4999..1.51).contains(&low) && low <= total && total <= high, "{:?}", found.suffered);
        assert_eq!(found.caused, [found.suffered[1], found.suffered[0]]);
        assert!(found.waiting.low >= 1.4999, "{:?}", found.waiting);
    }

    #[test]
    fn clocks_that_may_be_off_prove_less() {
        let (mut sample, totals) = rarely_late();
        sample.hosts = Hosts { of_member: vec![0, 1], uncertainty_s: vec![50e-6, 100e-6] };
        let found = estimate(&sample, &totals, Dependence::All, &sample.waits(Dependence::All)).unwrap();
        assert!(found.suffered[1].low < 1.5 - 4000.0 * 190e-6, "{:?}", found.suffered);
    }
}
