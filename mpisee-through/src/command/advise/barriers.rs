//! The rule about barriers right before a collective that synchronises anyway, as measured by sampled arrivals.
//!
//! Whether a member does anything between the two is the time from its departure from the barrier to its arrival at the
//! collective, both on its own clock. Of an operation that was not sampled in every call, call k is in the sample exactly if
//! call k of the barrier is and both have as many calls: else the one after a sampled barrier may be missing.

use super::facts::{Facts, Family};
use super::finding::{Finding, percent};
use super::waiting;
use crate::scan::{self, Arrival, BadField, Fold};
use crate::units::{count, time};
use crate::waits::FEWEST;
use mpisee_profile::rows::CollectiveRow;
use std::collections::{BTreeMap, HashMap, HashSet};

const BARRIER: &str = "MPI_Barrier";
/// Operations from which no member returns before all have entered them.
const SYNCHRONISING: [&str; 4] =
    ["MPI_Allgather", "MPI_Allreduce", "MPI_Alltoall", "MPI_Reduce_scatter_block"];
/// The least time in such barriers, of the run.
const OF_RUN: f64 = 0.02;
/// A member does nothing between two calls that are no further apart than this, and than this part of the mean barrier.
const GAP_NS: u64 = 20_000;
const GAP_OF_BARRIER: f64 = 0.1;
/// The part of the sampled barriers, by member, that are right before the collective.
const RIGHT_BEFORE: f64 = 0.9;

/// Arrival and departure of a rank in the sampled calls of an operation, in nanoseconds.
type Times = HashMap<(String, u32), Vec<[u64; 2]>>;

/// Sampled barriers, and sampled calls of each synchronising operation.
#[derive(Default)]
struct Sampled {
    barriers: Times,
    others: [Times; SYNCHRONISING.len()],
}

/// Collects the rows of some communicators.
struct Collector<'c> {
    comms: &'c HashSet<&'c str>,
    sampled: Sampled,
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
            times.entry((comm.to_owned(), row.rank)).or_default().push([row.arrival_ns, row.departure_ns]);
        }
        Ok(())
    }
}

/// Calls and sampled ones by communicator, operation and rank.
type Counts = HashMap<(String, String, u32), [u64; 2]>;

/// Barriers that the next collective makes needless.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let families: Vec<Family<'_>> = facts.families().filter(|family| is_candidate(facts, family)).collect();
    if families.is_empty() || facts.waits.is_none() {
        return Vec::new();
    }
    let comms: HashSet<&str> =
        families.iter().flat_map(|family| &family.comms).map(|comm| comm.name.as_str()).collect();
    let Some((sampled, counts)) = read(facts, &comms) else { return Vec::new() };
    families.iter().filter_map(|family| finding(facts, family, &sampled, &counts)).collect()
}

fn is_candidate(facts: &Facts<'_>, family: &Family<'_>) -> bool {
    let barriers_s = family.call(BARRIER).map_or(0.0, |used| used.time_s);
    facts.share_of_run(barriers_s) >= OF_RUN && SYNCHRONISING.iter().any(|call| family.call(call).is_some())
}

/// None of a profile without samples.
fn read(facts: &Facts<'_>, comms: &HashSet<&str>) -> Option<(Sampled, Counts)> {
    let profile = facts.view.profile();
    let make = || Collector { comms, sampled: Sampled::default() };
    let scanned = scan::scan::<Arrival, Collector<'_>>(profile, make).ok()?;
    let mut sampled = Sampled::default();
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

/// Sampled barriers of members, and those right before a collective by the operation.
#[derive(Default)]
struct Followed {
    barriers: u64,
    by_call: BTreeMap<&'static str, u64>,
}

impl Followed {
    fn add(&mut self, barriers: &[[u64; 2]], others: &[(&'static str, &[[u64; 2]])]) {
        let sum_ns: u64 = barriers.iter().map(|[arrival_ns, departure_ns]| departure_ns - arrival_ns).sum();
        let mean_ns = sum_ns as f64 / barriers.len().max(1) as f64;
        let limit_ns = GAP_NS.min((GAP_OF_BARRIER * mean_ns) as u64);
        let mut next: Vec<(u64, &'static str)> = others
            .iter()
            .flat_map(|(call, times)| times.iter().map(move |[arrival_ns, _]| (*arrival_ns, *call)))
            .collect();
        next.sort_unstable();
        self.barriers += barriers.len() as u64;
        for &[_, departure_ns] in barriers {
            let place = next.partition_point(|&(arrival_ns, _)| arrival_ns < departure_ns);
            if let Some(&(arrival_ns, call)) = next.get(place)
                && arrival_ns - departure_ns <= limit_ns
            {
                *self.by_call.entry(call).or_default() += 1;
            }
        }
    }
}

fn followed(family: &Family<'_>, sampled: &Sampled, counts: &Counts) -> Followed {
    let mut all = Followed::default();
    for comm in &family.comms {
        let members = comm.row.map(|row| &row.members.group);
        for rank in members.into_iter().flat_map(|group| group.iter()) {
            let key = (comm.name.clone(), rank);
            let count = |call: &str| counts.get(&(comm.name.clone(), call.to_owned(), rank)).copied();
            let (Some(barriers), Some([calls, _])) = (sampled.barriers.get(&key), count(BARRIER)) else {
                continue;
            };
            let is_comparable =
                |call: &str| count(call).is_some_and(|[other, sampled]| other == calls || other == sampled);
            let others: Vec<(&str, &[[u64; 2]])> = SYNCHRONISING
                .iter()
                .zip(&sampled.others)
                .filter(|(call, _)| is_comparable(call))
                .filter_map(|(&call, times)| Some((call, times.get(&key)?.as_slice())))
                .collect();
            all.add(barriers, &others);
        }
    }
    all
}

fn finding(facts: &Facts<'_>, family: &Family<'_>, sampled: &Sampled, counts: &Counts) -> Option<Finding> {
    let used = family.call(BARRIER)?;
    let Followed { barriers, by_call } = followed(family, sampled, counts);
    let before: u64 = by_call.values().sum();
    let (call, _) = by_call.iter().max_by_key(|(_, number)| **number)?;
    let share = before as f64 / barriers.max(1) as f64;
    if barriers < FEWEST as u64 * u64::from(family.size()) || share < RIGHT_BEFORE {
        return None;
    }
    let saved = waiting::of_family(facts, family, Some(BARRIER)).map(|(time_s, waiting)| {
        let transfer = waiting.rest_of(time_s).clamped(0.0, time_s);
        match transfer.high - transfer.low > 0.005 * time_s {
            true => format!("{} ({} to {})", time(transfer.total), time(transfer.low), time(transfer.high)),
            false => time(transfer.total),
        }
    });
    Some(Finding {
        rule: "needless-barriers",
        about: family.name.to_owned(),
        cost_s: used.time_s,
        what: format!("{BARRIER} on {} is right before {call}, which synchronises as well.", family.title),
        evidence: format!(
            "Measured by the arrivals of members: after {} of {} they entered the next call within {}. {} take {} summed over \
             ranks{}.",
            percent(share),
            count(barriers, "sampled barrier"),
            time(GAP_NS as f64 * 1e-9),
            count(used.calls, "barrier"),
            time(used.time_s),
            saved.map_or(String::new(), |saved| format!(
                ", of which {saved} is transfer, which would be saved; the rest is waiting, which would move into {call}"
            ))
        ),
        threshold: format!(
            "{} of the run in barriers, and {} of them at most {} and {} of a barrier before it",
            percent(OF_RUN),
            percent(RIGHT_BEFORE),
            time(GAP_NS as f64 * 1e-9),
            percent(GAP_OF_BARRIER)
        ),
        advice: format!(
            "Leave the barrier out, unless it is there to take times or for what other processes do with files or memory. Its \
             waiting does not vanish: {call} has it then."
        ),
    })
}
