//! The rule about barriers right before a collective that synchronises anyway, as measured by
//! sampled arrivals.
//!
//! The time that a member spends between the two is that from its departure from the barrier to its
//! arrival at the collective, both on its own clock. Where all calls of the collective were
//! sampled, the next one is known. Else calls of the two are taken as pairs whose numbers differ by
//! the same, such as one where the program begins with a barrier: for random numbers the sample has
//! some whole pairs.

use super::at;
use super::facts::{Comm, Facts, FamilyFacts};
use super::finding::{Finding, percent};
use super::waiting;
use crate::scan::{self, Arrival, BadField, Fold};
use crate::units::{count, time};
use mpisee_profile::rows::CollectiveRow;
use std::collections::{HashMap, HashSet};

const BARRIER: &str = "MPI_Barrier";
/// Operations from which no member returns before all have entered them.
const SYNCHRONISING: [&str; 4] =
    ["MPI_Allgather", "MPI_Allreduce", "MPI_Alltoall", "MPI_Reduce_scatter_block"];
/// The least time in such barriers, of the run.
const OF_RUN: f64 = 0.02;
/// A member does nothing between two calls that are no further apart than this, and than this part
/// of the mean barrier.
const GAP_NS: u64 = 20_000;
const GAP_OF_BARRIER: f64 = 0.1;
/// The part of the sampled barriers, by member, that are right before the collective.
const RIGHT_BEFORE: f64 = 0.9;

/// The largest difference of numbers in pairs that is tried.
const MOST_APART: u64 = 16;
/// The least number of pairs, for each member.
const PAIRS: u64 = 10;

/// A sampled call: its number, and when a rank entered and left it, in nanoseconds.
#[derive(Clone, Copy)]
struct SampledCall {
    instance: u64,
    arrival_ns: u64,
    departure_ns: u64,
}

/// The sampled calls of an operation, by communicator and rank.
type Times = HashMap<(String, u32), Vec<SampledCall>>;

/// Sampled barriers, and sampled calls of each synchronising operation.
#[derive(Default)]
struct BarrierSamples {
    barriers: Times,
    others: [Times; SYNCHRONISING.len()],
}

/// Collects the rows of some communicators.
struct Collector<'c> {
    comms: &'c HashSet<&'c str>,
    sampled: BarrierSamples,
}

impl Fold<Arrival<'static>> for Collector<'_> {
    fn row(&mut self, row: &Arrival<'_>) -> Result<(), BadField> {
        let other = SYNCHRONISING.iter().position(|call| call.as_bytes() == row.call);
        let times = match other {
            Some(other) => &mut self.sampled.others[other],
            None if row.call == BARRIER.as_bytes() => &mut self.sampled.barriers,
            None => return Ok(()),
        };
        let comm = std::str::from_utf8(row.comm).ok().filter(|comm| self.comms.contains(comm));
        if let Some(comm) = comm {
            times.entry((comm.to_owned(), row.rank)).or_default().push(SampledCall {
                instance: row.instance,
                arrival_ns: row.arrival_ns,
                departure_ns: row.departure_ns,
            });
        }
        Ok(())
    }
}

/// Calls and sampled ones by communicator, operation and rank.
type Counts = HashMap<(String, String, u32), [u64; 2]>;

/// Barriers that the next collective makes needless.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let families: Vec<FamilyFacts<'_>> =
        facts.families().filter(|family| is_candidate(facts, family)).collect();
    if families.is_empty() || facts.waits.is_none() {
        return Vec::new();
    }
    let comms: HashSet<&str> =
        families.iter().flat_map(|family| &family.comms).map(|comm| comm.name.as_str()).collect();
    let Some((sampled, counts)) = read(facts, &comms) else { return Vec::new() };
    families.iter().filter_map(|family| finding(facts, family, &sampled, &counts)).collect()
}

fn is_candidate(facts: &Facts<'_>, family: &FamilyFacts<'_>) -> bool {
    let barriers_s = family.call(BARRIER).map_or(0.0, |used| used.time_s);
    facts.share_of_run(barriers_s) >= OF_RUN && SYNCHRONISING.iter().any(|call| family.call(call).is_some())
}

/// None of a profile without samples.
fn read(facts: &Facts<'_>, comms: &HashSet<&str>) -> Option<(BarrierSamples, Counts)> {
    let profile = facts.view.profile();
    let make = || Collector { comms, sampled: BarrierSamples::default() };
    let scanned = scan::scan::<Arrival, Collector<'_>>(profile, make).ok()?;
    let mut sampled = BarrierSamples::default();
    for Collector { sampled: more, .. } in scanned.folds {
        let add = |into: &mut Times, from: Times| {
            from.into_iter().for_each(|(key, times)| into.entry(key).or_default().extend(times));
        };
        add(&mut sampled.barriers, more.barriers);
        sampled.others.iter_mut().zip(more.others).for_each(|(into, from)| add(into, from));
    }
    let mut counts = Counts::new();
    for row in profile.rows_if_any::<CollectiveRow>().ok()? {
        let CollectiveRow { comm, call, rank, instances, sampled, .. } = row.ok()?;
        if comms.contains(comm.as_str()) {
            counts.insert((comm, call, rank), [instances, sampled]);
        }
    }
    Some((sampled, counts))
}

/// Barriers of members for which the next call is known, and those right before a collective.
#[derive(Clone, Copy, Default)]
struct Followed {
    known: u64,
    before: u64,
    call: &'static str,
}

impl Followed {
    fn share(&self) -> f64 {
        self.before as f64 / self.known.max(1) as f64
    }
}

/// The sampled calls of a member on a communicator.
struct Stays<'s> {
    barriers: &'s [SampledCall],
    /// The longest time between two calls in which the member does nothing, in nanoseconds.
    limit_ns: u64,
    /// The calls of a synchronising operation.
    others: &'s [SampledCall],
    /// All calls of the barrier, and of the operation.
    counts: [u64; 2],
}

impl Stays<'_> {
    fn is_right_before(&self, barrier: &SampledCall, arrival_ns: u64) -> bool {
        arrival_ns.checked_sub(barrier.departure_ns).is_some_and(|gap_ns| gap_ns <= self.limit_ns)
    }

    /// How many barriers there are, and how many are right before the next call, of an operation
    /// that was sampled in every call.
    fn by_time(&self) -> [u64; 2] {
        let mut next: Vec<u64> = self.others.iter().map(|stay| stay.arrival_ns).collect();
        next.sort_unstable();
        let is_before = |barrier: &&SampledCall| {
            let place = next.partition_point(|&arrival_ns| arrival_ns < barrier.departure_ns);
            next.get(place).is_some_and(|&arrival_ns| self.is_right_before(barrier, arrival_ns))
        };
        let before = self.barriers.iter().filter(is_before).count() as u64;
        [self.barriers.len() as u64, before]
    }

    /// How many pairs there are, and how many of them follow each other, if a barrier's number is
    /// so much larger.
    fn by_number(&self, apart: i64) -> [u64; 2] {
        let arrivals: HashMap<u64, u64> =
            self.others.iter().map(|stay| (stay.instance, stay.arrival_ns)).collect();
        let pair = |barrier: &SampledCall| {
            let arrival_ns = *arrivals.get(&barrier.instance.checked_add_signed(-apart)?)?;
            Some(self.is_right_before(barrier, arrival_ns))
        };
        let pairs: Vec<bool> = self.barriers.iter().filter_map(pair).collect();
        let before = pairs.iter().filter(|is_before| **is_before).count() as u64;
        [pairs.len() as u64, before]
    }
}

/// The collectives that follow the barriers on a communicator, by the operation and the difference
/// of numbers for which most do.
fn followed(comm: &Comm<'_>, sampled: &BarrierSamples, counts: &Counts) -> Followed {
    let members: Vec<u32> = comm.row.map(|row| row.members.group.iter().collect()).unwrap_or_default();
    let mut best = Followed::default();
    for (other, call) in SYNCHRONISING.iter().enumerate() {
        let stays = |rank: &u32| stays(&comm.name, *rank, other, sampled, counts);
        let Some(stays) = members.iter().map(stays).collect::<Option<Vec<Stays<'_>>>>() else { continue };
        let sum = |of: &dyn Fn(&Stays<'_>) -> [u64; 2]| {
            let sums = stays.iter().map(of).fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
            Followed { known: sums[0], before: sums[1], call }
        };
        let is_whole = stays.iter().all(|one| one.others.len() as u64 == one.counts[1]);
        let difference = stays.first().map_or(0, |one| one.counts[0].abs_diff(one.counts[1]));
        let apart = difference.min(MOST_APART) as i64;
        let found = match is_whole {
            true => vec![sum(&|one| one.by_time())],
            false => (-apart..=apart).map(|apart| sum(&|one| one.by_number(apart))).collect(),
        };
        let enough = found.into_iter().filter(|one| one.known >= PAIRS * members.len() as u64);
        best = enough.fold(best, |best, one| if one.share() > best.share() { one } else { best });
    }
    if best.known == 0 {
        // Nothing is known of these.
        best.known = members
            .iter()
            .filter_map(|&rank| sampled.barriers.get(&(comm.name.clone(), rank)))
            .map(Vec::len)
            .sum::<usize>() as u64;
    }
    best
}

/// None if the member has no samples of either operation.
fn stays<'s>(
    comm: &str,
    rank: u32,
    other: usize,
    sampled: &'s BarrierSamples,
    counts: &Counts,
) -> Option<Stays<'s>> {
    let key = (comm.to_owned(), rank);
    let barriers = sampled.barriers.get(&key)?.as_slice();
    let others = sampled.others[other].get(&key)?.as_slice();
    let count = |call: &str| counts.get(&(comm.to_owned(), call.to_owned(), rank)).map(|[calls, _]| *calls);
    let sum_ns: u64 = barriers.iter().map(|stay| stay.departure_ns.saturating_sub(stay.arrival_ns)).sum();
    let mean_ns = sum_ns as f64 / barriers.len().max(1) as f64;
    let limit_ns = GAP_NS.min((GAP_OF_BARRIER * mean_ns) as u64);
    Some(Stays { barriers, limit_ns, others, counts: [count(BARRIER)?, count(SYNCHRONISING[other])?] })
}

fn finding(
    facts: &Facts<'_>,
    family: &FamilyFacts<'_>,
    sampled: &BarrierSamples,
    counts: &Counts,
) -> Option<Finding> {
    let used = family.call(BARRIER)?;
    let all: Vec<Followed> = family.comms.iter().map(|comm| followed(comm, sampled, counts)).collect();
    let call = all.iter().max_by_key(|one| one.before)?.call;
    let known: u64 = all.iter().map(|one| one.known).sum();
    let before: u64 = all.iter().map(|one| one.before).sum();
    let share = before as f64 / known.max(1) as f64;
    if before == 0 || share < RIGHT_BEFORE {
        return None;
    }
    let transfer = waiting::of_family(facts, family, Some(BARRIER))
        .map(|(time_s, waiting)| (time_s, waiting.rest_of(time_s).clamped(0.0, time_s)));
    let saved = transfer.map(|(time_s, transfer)| match transfer.high - transfer.low > 0.005 * time_s {
        true => format!("{} ({} to {})", time(transfer.total), time(transfer.low), time(transfer.high)),
        false => time(transfer.total),
    });
    Some(Finding {
        rule: "needless-barriers",
        about: family.name.to_owned(),
        // What would be saved: waiting only moves.
        cost_s: transfer.map_or(used.time_s, |(_, transfer)| transfer.total),
        what: format!("{BARRIER} on {} is right before {call}, which synchronises as well.", family.title),
        evidence: format!(
            "Measured by arrivals: after {} of {}, members entered the next call within {}. {} take {} \
             summed over ranks.{}{}",
            percent(share),
            count(known, "sampled barrier"),
            time(GAP_NS as f64 * 1e-9),
            count(used.calls, "barrier"),
            time(used.time_s),
            saved.map_or(String::new(), |saved| format!(
                " Without the barriers, transfer of {saved} is saved. The rest is waiting, which would move \
                 into {call}."
            )),
            at::of_calls(facts, family, "barriers", |call| call == BARRIER),
        ),
        threshold: format!(
            "{} of the run in barriers, and {} of the barriers at most {} and {} of a barrier before the \
             collective",
            percent(OF_RUN),
            percent(RIGHT_BEFORE),
            time(GAP_NS as f64 * 1e-9),
            percent(GAP_OF_BARRIER)
        ),
        advice: format!(
            "Leave the barrier out, unless it serves to take times or to order access to files or memory. \
             The waiting does not vanish but moves into {call}."
        ),
    })
}
