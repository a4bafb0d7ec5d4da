//! Who is late, and when: what stands out from the noise that any program has.

use super::dependence::Dependence;
use super::estimate::{FEWEST, effective};
use super::instance::Hosts;
use super::messages::LateEnd;
use super::operation::{Estimated, SampledCalls, SampledWaits};

/// A cause of waiting that stands out; members by position.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// These members are late.
    Late(Vec<usize>),
    /// Most members on this host are late.
    LateHost(usize),
    /// The root is later than those who wait for it.
    LateRoot(usize),
    /// Instance by instance, these members are late in turn.
    Alternating(Vec<usize>),
    /// Others wait for these members to send or to receive messages.
    LateEnd(LateEnd, Vec<usize>),
    /// Instances in the last third of the run wait this many times as long as those in the first.
    Growing(f64),
}

/// The share from which on a member stands out: twice the even share; of few members, half of what
/// others would have.
fn large_share(even: f64) -> f64 {
    (2.0 * even).min(f64::midpoint(1.0, even))
}

/// Standard errors beyond which none of this many shares is by chance; distributions with long
/// tails included.
fn certain(of: usize) -> f64 {
    (2.0 * (of as f64 / 0.005).ln()).sqrt()
}

/// Nobody is named where operations that the others had started took this part of the waits, or
/// more, while these were away from MPI.
pub const MOST_AWAY: f64 = 0.5;

/// Fewer equal instances than this may have one late member by chance.
const FEWEST_EFFECTIVE: f64 = 4.0;

/// Members stand out together if they cause so much of the waiting, and each of them so many times
/// its even share.
const MOST_OF_ALL: f64 = 0.8;
const EACH_OF_SEVERAL: f64 = 1.5;

/// The share from which on a member stands out by what is known of all instances, where the sample
/// has too few late ones.
const DOMINANT: f64 = 0.5;

/// The causes that stand out; none where the sample is too small to tell.
pub fn findings(
    sample: &SampledCalls,
    dependence: Dependence,
    sampled: &SampledWaits,
    estimated: &Estimated,
    instances: u64,
) -> Vec<Finding> {
    if sample.numbers.len() < FEWEST || estimated.waiting.total <= 0.0 {
        return Vec::new();
    }
    let waiting = sums(&sampled.waited);
    let mut found = Vec::new();
    if dependence == Dependence::AllOnRoot && sample.only_root().is_some() {
        found.extend(late_root(sample));
    } else {
        let is_part = (sample.numbers.len() as u64) < instances / 2;
        match alternating(sample, sampled) {
            Some(members) => found.push(Finding::Alternating(members)),
            None => found.extend(late(&sample.hosts, &sampled.caused, estimated, &waiting, is_part)),
        }
    }
    found.extend(growing(sample, &waiting).map(Finding::Growing));
    found
}

/// Returns whether operations that all had started lasted so long while a member was away from MPI
/// that nobody can be named.
pub fn may_lack_progress(sample: &SampledCalls, sampled: &SampledWaits) -> bool {
    sample.away_s(sampled) > MOST_AWAY * sampled.waited.iter().flatten().sum::<f64>()
}

/// The hosts and other members that stand out: `caused` is by member and instance, `waiting` by
/// instance that of all members. `is_part` says whether the sample is a small part of all
/// instances, so that what is known of these may tell more.
pub fn late(
    hosts: &Hosts,
    caused: &[Vec<f64>],
    estimated: &Estimated,
    waiting: &[f64],
    is_part: bool,
) -> Vec<Finding> {
    Shares { hosts, caused, estimated, waiting, is_part }.late()
}

/// By instance, the sum over these columns.
fn sums<'c>(columns: impl IntoIterator<Item = &'c Vec<f64>>) -> Vec<f64> {
    let mut columns = columns.into_iter();
    let mut sums = columns.next().cloned().unwrap_or_default();
    for column in columns {
        sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// Parts of the waiting.
struct Shares<'a> {
    hosts: &'a Hosts,
    /// By member and instance.
    caused: &'a [Vec<f64>],
    estimated: &'a Estimated,
    /// By instance, of all members.
    waiting: &'a [f64],
    /// True if the sample is a small part of all instances, so that what is known of these may tell
    /// more.
    is_part: bool,
}

impl Shares<'_> {
    /// The hosts and then the other members that stand out.
    fn late(&self) -> Vec<Finding> {
        let members = self.caused.len();
        let each: Vec<[f64; 2]> = self.caused.iter().map(|caused| share(caused, self.waiting)).collect();
        // A member that is seldom late may not be so in the sample: its error is at least that of
        // others.
        let pooled = (each.iter().map(|[_, error]| error * error).sum::<f64>() / members as f64).sqrt();
        let even = 1.0 / members as f64;
        let late: Vec<usize> = (0..members)
            .filter(|&member| {
                let [share, error] = each[member];
                self.stands_out(&[member], [share, error.max(pooled)], even, members)
            })
            .collect();
        let hosts: Vec<usize> = self.late_hosts(&each, even);
        let alone = |member: &usize| !hosts.contains(&self.hosts.of_member[*member]);
        let late: Vec<usize> = late.into_iter().filter(alone).collect();
        let late = if hosts.is_empty() { self.with_others(late, &each, even) } else { late };
        let ranks = (!late.is_empty()).then_some(Finding::Late(late));
        hosts.iter().map(|&host| Finding::LateHost(host)).chain(ranks).collect()
    }

    /// The members that stand out alone, or those together with more where these cause almost as
    /// much.
    fn with_others(&self, alone: Vec<usize>, each: &[[f64; 2]], even: f64) -> Vec<usize> {
        let share: f64 = alone.iter().map(|&member| each[member][0]).sum();
        let together = if share < MOST_OF_ALL { self.together(each, even) } else { Vec::new() };
        if alone.iter().all(|member| together.contains(member)) && !together.is_empty() {
            together
        } else {
            alone
        }
    }

    /// The fewest members, up to half of all, that stand out together: two that are equally late
    /// have half each.
    fn together(&self, each: &[[f64; 2]], even: f64) -> Vec<usize> {
        let members = self.caused.len();
        let mut order: Vec<usize> = (0..members).collect();
        order.sort_by(|&one, &other| each[other][0].total_cmp(&each[one][0]));
        // PERF: from the first one on that is not late enough, no more members are.
        let is_late = |member: &&usize| each[**member][0] > EACH_OF_SEVERAL * even;
        let late = order.iter().take(members / 2).take_while(is_late).count();
        let mut caused = vec![0.0; self.waiting.len()];
        for (at, &member) in order[..late].iter().enumerate() {
            caused.iter_mut().zip(&self.caused[member]).for_each(|(sum, value)| *sum += value);
            let (found, part) = (&order[..=at], share(&caused, self.waiting));
            if at > 0
                && part[0] >= MOST_OF_ALL
                && self.stands_out(found, part, even * found.len() as f64, members)
            {
                let mut found = found.to_vec();
                found.sort_unstable();
                return found;
            }
        }
        Vec::new()
    }

    /// Hosts of which most members cause more than an even share, and none more than half of the
    /// host's part.
    fn late_hosts(&self, each: &[[f64; 2]], even: f64) -> Vec<usize> {
        let members = self.caused.len();
        let mut on_host: Vec<Vec<usize>> = vec![Vec::new(); self.hosts.uncertainty_s.len()];
        for (member, &host) in self.hosts.of_member.iter().enumerate() {
            on_host[host].push(member);
        }
        let used = on_host.iter().filter(|members| !members.is_empty()).count();
        let is_late = |here: &Vec<usize>| {
            if here.len() < 2 || here.len() == members {
                return false;
            }
            let caused = sums(here.iter().map(|&member| &self.caused[member]));
            let part = share(&caused, self.waiting);
            let above = here.iter().filter(|&&member| each[member][0] > even).count();
            let most = here.iter().map(|&member| each[member][0]).fold(0.0, f64::max);
            4 * above >= 3 * here.len()
                && (here.len() == 2 || 2.0 * most <= part[0])
                && self.stands_out(here, part, even * here.len() as f64, used)
        };
        on_host.iter().enumerate().filter(|(_, here)| is_late(here)).map(|(host, _)| host).collect()
    }

    /// Returns whether members together cause more than chance explains and much more than their
    /// even share; `part` is their share in the sample and its standard error, `of` the number of
    /// those who are compared.
    fn stands_out(&self, members: &[usize], part: [f64; 2], even: f64, of: usize) -> bool {
        let whole = self.estimated.waiting.total;
        let caused = || members.iter().map(|&member| self.estimated.caused[member]);
        let estimated = caused().map(|caused| caused.total).sum::<f64>() / whole;
        let low = caused().map(|caused| caused.low).sum::<f64>() / whole;
        let least = caused().map(|caused| caused.total - certain(of) * caused.error).sum::<f64>() / whole;
        let [share, error] = part;
        let is_usual = effective(self.waiting) >= FEWEST_EFFECTIVE && share - certain(of) * error > even;
        let is_certain = is_usual || self.is_part && least > large_share(even).max(DOMINANT);
        estimated > large_share(even) && low > even && is_certain
    }
}

/// The part of a whole, both by instance, and the standard error of another run's: that of the
/// parts which are left without each of the instances (the jackknife), so that a share which one
/// instance makes is not certain.
fn share(part: &[f64], whole: &[f64]) -> [f64; 2] {
    let (caused, sum, sampled) = (part.iter().sum::<f64>(), whole.iter().sum::<f64>(), whole.len() as f64);
    if sum <= 0.0 {
        return [0.0, 0.0];
    }
    let share = caused / sum;
    let without = |(part, whole): (&f64, &f64)| {
        let rest = sum - whole;
        if rest > 0.0 { ((caused - part) / rest - share).powi(2) } else { share * share }
    };
    let squares: f64 = part.iter().zip(whole).map(without).sum();
    [share, (squares * (sampled - 1.0) / sampled).sqrt()]
}

/// The root, if it comes after half of the others in most instances.
fn late_root(sample: &SampledCalls) -> Option<Finding> {
    const MOST: f64 = 0.75;
    const CERTAIN: f64 = 3.0;
    let root = sample.only_root()?;
    let is_late = |starts: &[f64]| {
        let is_before = |&(member, start_s): &(usize, &f64)| {
            starts[root] - start_s > sample.hosts.between_s(member, root)
        };
        let before = starts.iter().enumerate().filter(is_before).count();
        2 * before > starts.len() - 1
    };
    let instances = sample.numbers.len() as f64;
    let late = sample.instances().filter(|one| is_late(one.starts())).count() as f64;
    let is_certain = late - instances / 2.0 > CERTAIN * (instances / 4.0).sqrt();
    (late >= MOST * instances && is_certain).then_some(Finding::LateRoot(root))
}

/// The members that arrive last in turn, where the number of the instance says who does. Several
/// persistent requests number theirs each from 0.
fn alternating(sample: &SampledCalls, sampled: &SampledWaits) -> Option<Vec<usize>> {
    if sample.has_requests() {
        return None;
    }
    /// Instances by which the last member of one in a cycle is found.
    const INSTANCES: usize = 10;
    const LONGEST: usize = 64;
    /// The part of the instances in which the number says who is last, and by how much it has to be
    /// larger than without it.
    const PREDICTED: f64 = 0.8;
    const GAIN: f64 = 0.3;
    /// The part of the waiting in an instance that its last member causes: several that are late
    /// together may be last in turn by chance.
    const ALONE: f64 = 2.0 / 3.0;
    let members = sample.members();
    let instances = sample.numbers.len();
    let is_alone: Vec<bool> = (0..instances)
        .map(|at| {
            let all: f64 = sampled.caused.iter().map(|caused| caused[at]).sum();
            all > 0.0 && sampled.caused[sampled.last[at]][at] >= ALONE * all
        })
        .collect();
    let by_calls = vec![1.0; instances];
    let by_waits: Vec<f64> =
        (0..instances).map(|at| sampled.caused.iter().map(|caused| caused[at]).sum()).collect();
    let usual = |period: usize, weights: &[f64]| -> (f64, Vec<usize>) {
        let mut sums = vec![vec![0.0; members]; period];
        for at in (0..instances).filter(|&at| is_alone[at]) {
            sums[(sample.numbers[at] % period as u64) as usize][sampled.last[at]] += weights[at];
        }
        let most = |sums: &Vec<f64>| {
            let most = sums.iter().enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other));
            most.map_or((0, 0.0), |(member, sum)| (member, *sum))
        };
        let (usual, sums): (Vec<usize>, Vec<f64>) = sums.iter().map(most).unzip();
        (sums.iter().sum::<f64>() / weights.iter().sum::<f64>(), usual)
    };
    // Also by their waits: a rank that is last in every second call, after others of which nobody
    // is late, is late alone.
    let without = [&by_calls, &by_waits].map(|weights| usual(1, weights).0);
    let says_who = |period: usize, weights: &[f64], without: f64| {
        let (predicted, usual) = usual(period, weights);
        (predicted >= PREDICTED && predicted - without >= GAIN).then_some(usual)
    };
    (2..=LONGEST.min(instances / INSTANCES)).find_map(|period| {
        says_who(period, &by_waits, without[1]).and_then(|_| says_who(period, &by_calls, without[0]))
    })
}

/// How many times as long instances wait at the end as at the begin, where the waiting grows over
/// the run.
fn growing(sample: &SampledCalls, waiting: &[f64]) -> Option<f64> {
    const CERTAIN: f64 = 5.0;
    const LEAST_FACTOR: f64 = 2.0;
    const FEWEST_GROWING: f64 = 10.0;
    let waiting: Vec<f64> = sample.in_time().into_iter().map(|at| waiting[at]).collect();
    let count = waiting.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&one, &other| waiting[one].total_cmp(&waiting[other]));
    let squares: f64 = order.iter().enumerate().map(|(rank, &at)| (rank as f64 - at as f64).powi(2)).sum();
    // Spearman's rank correlation of waiting and time.
    let instances = count as f64;
    let correlation = 1.0 - 6.0 * squares / (instances * (instances * instances - 1.0));
    let third = count / 3;
    let begin: f64 = waiting[..third].iter().sum();
    let end: f64 = waiting[count - third..].iter().sum();
    // A few long waits at the end are no growth.
    let is_certain =
        correlation * (instances - 1.0).sqrt() > CERTAIN && effective(&waiting) >= FEWEST_GROWING;
    (is_certain && end > LEAST_FACTOR * begin && begin > 0.0).then(|| end / begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::programs::{Arrivals, Program, Random};

    /// The findings in random programs of a kind, each with its late member.
    fn found(
        kind: Arrivals,
        programs: u64,
        [least_room, least_instances]: [usize; 2],
    ) -> Vec<(usize, Vec<Finding>)> {
        let each = |seed: u64| {
            let mut random = Random::new(seed << 9 | kind as u64);
            let members = 2 + random.below(if seed.is_multiple_of(4) { 48 } else { 12 });
            let instances = random.between(least_instances as f64, 5000.0) as usize;
            let mut program = Program::new(kind, members, instances, &mut random);
            let hosts = 1 + seed as usize % 4;
            program.all.hosts.of_member = (0..members).map(|member| member * hosts / members).collect();
            program.all.hosts.uncertainty_s = vec![0.0; hosts];
            let room = least_room + random.below(256 - least_room);
            let (sample, sampled, estimated) = program.estimated(room, &mut random);
            let findings = estimated.map_or(Vec::new(), |estimated| {
                findings(&sample, Dependence::All, &sampled, &estimated, instances as u64)
            });
            (program.late, findings)
        };
        (0..programs).map(each).collect()
    }

    #[test]
    fn nobody_is_blamed_for_noise() {
        for kind in [Arrivals::Lognormal, Arrivals::Bimodal, Arrivals::SlowTransfer] {
            let found = found(kind, 100, [20, 30]);
            let blamed: Vec<_> = found.iter().filter(|(_, findings)| !findings.is_empty()).collect();
            assert!(blamed.len() <= 1, "{kind:?}: {blamed:?}");
        }
    }

    #[test]
    fn a_late_rank_is_found_and_nobody_else() {
        // In the others the member is not late enough to stand out, or seldom in the sample.
        for (kind, least) in [(Arrivals::SeldomLate, 30), (Arrivals::Growing, 40)] {
            let found = found(kind, 100, [128, 1000]);
            let late = |findings: &[Finding]| {
                findings.iter().find_map(|finding| match finding {
                    Finding::Late(members) => Some(members.clone()),
                    _ => None,
                })
            };
            let right = found.iter().filter(|(member, found)| late(found) == Some(vec![*member])).count();
            let wrong = found
                .iter()
                .filter(|(member, found)| late(found).is_some_and(|late| late != [*member]))
                .count();
            assert!(right >= least && wrong <= 1, "{kind:?}: {right} right, {wrong} wrong");
        }
    }
}
