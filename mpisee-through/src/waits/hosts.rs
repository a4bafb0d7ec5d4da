//! The clocks of all hosts, from the strict operations of the whole profile.

use super::arrivals::Joined;
use super::clocks::{Bound, Link, Offset, fit, join};
use std::collections::{BTreeMap, HashMap};

/// The hosts of a run, and how their clocks are joined.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    pub names: Vec<String>,
    of_rank: HashMap<u32, usize>,
    /// By host, its first moment in nanoseconds, from which seconds are counted.
    bases_ns: Vec<u64>,
    /// By host, the first host to which it is joined, and the offset beside that one.
    offsets: Vec<(usize, Offset)>,
}

/// A message from one host to another, in nanoseconds on their clocks.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// The numbers of the sender's host and of the receiver's.
    pub hosts: [usize; 2],
    /// When the sender started to send it.
    pub sent_ns: u64,
    /// When the receiver had it.
    pub received_ns: u64,
}

impl Clocks {
    /// The hosts by the ranks that they have; clocks are joined later.
    pub fn new<'h>(ranks: impl Iterator<Item = (u32, &'h str)>) -> Self {
        let mut clocks = Clocks::default();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (rank, host) in ranks {
            let number = *numbers.entry(host).or_insert_with(|| {
                clocks.names.push(host.to_owned());
                clocks.names.len() - 1
            });
            clocks.of_rank.insert(rank, number);
        }
        clocks.bases_ns = vec![u64::MAX; clocks.names.len()];
        clocks.offsets = (0..clocks.names.len()).map(|host| (host, Offset::NONE)).collect();
        clocks
    }

    /// The host of a rank.
    pub fn host(&self, rank: u32) -> Option<usize> {
        self.of_rank.get(&rank).copied()
    }

    /// Moves the first moments of hosts to those of these instances, if they are earlier.
    pub fn begin_with(&mut self, joined: &Joined, members: &[u32]) {
        let hosts: Vec<Option<usize>> = members.iter().map(|&rank| self.host(rank)).collect();
        for instance in joined.starts().chunks_exact(members.len().max(1)) {
            for (host, &start_ns) in hosts.iter().zip(instance) {
                if let Some(host) = *host {
                    self.begin_at(host, start_ns);
                }
            }
        }
    }

    /// Moves the first moment of a host to this one, if it is earlier.
    pub fn begin_at(&mut self, host: usize, time_ns: u64) {
        self.bases_ns[host] = self.bases_ns[host].min(time_ns);
    }

    /// Seconds since the host's first moment.
    fn seconds(&self, host: usize, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.bases_ns[host]) as f64 / 1e9
    }

    /// A moment in nanoseconds on the clock of the host, in seconds on the common clock.
    pub fn common_s(&self, host: usize, time_ns: u64) -> f64 {
        self.offsets[host].1.correct(self.seconds(host, time_ns))
    }

    /// The same of a moment in seconds, which may be before the first sampled one.
    pub fn common_of_mean_s(&self, host: usize, time_s: f64) -> f64 {
        self.offsets[host].1.correct(time_s - self.bases_ns[host] as f64 / 1e9)
    }

    /// How far off the common clock may be on the host, in seconds.
    pub fn uncertainty_s(&self, host: usize) -> f64 {
        self.offsets[host].1.uncertainty_s
    }

    /// Returns whether the clocks of all these hosts are joined.
    pub fn are_joined(&self, mut hosts: impl Iterator<Item = usize>) -> bool {
        let first = hosts.next().map(|host| self.offsets[host].0);
        hosts.all(|host| Some(self.offsets[host].0) == first)
    }

    /// Joins the clocks from the instances of strict operations, each with its members, and from
    /// messages.
    pub fn join<'j>(
        &mut self,
        strict: impl Iterator<Item = (&'j Joined, &'j [u32])>,
        messages: impl Iterator<Item = Passed>,
    ) {
        let mut bounds: BTreeMap<[usize; 2], Vec<Bound>> = BTreeMap::new();
        messages.for_each(|passed| self.add_bound(passed, &mut bounds));
        for (joined, members) in strict {
            let hosts: Option<Vec<usize>> = members.iter().map(|&rank| self.host(rank)).collect();
            let Some(hosts) = hosts else { continue };
            if hosts.iter().any(|host| *host != hosts[0]) {
                self.add_bounds(joined, &hosts, &mut bounds);
            }
        }
        let link = |(&hosts, bounds): (&[usize; 2], &Vec<Bound>)| Some(Link { hosts, offset: fit(bounds)? });
        let links: Vec<Link> = bounds.iter().filter_map(link).collect();
        self.offsets = join(self.names.len(), &links);
    }

    /// Nobody has a message before it was sent: a bound of the offset from one side.
    fn add_bound(&self, passed: Passed, bounds: &mut BTreeMap<[usize; 2], Vec<Bound>>) {
        let [from, to] = passed.hosts;
        let (sent_s, received_s) = (self.seconds(from, passed.sent_ns), self.seconds(to, passed.received_ns));
        let bound = match from > to {
            true => Bound { at_s: sent_s, offset_s: received_s - sent_s, is_upper: true },
            false => Bound { at_s: received_s, offset_s: sent_s - received_s, is_upper: false },
        };
        if from != to {
            bounds.entry([from.min(to), from.max(to)]).or_default().push(bound);
        }
    }

    /// Compares each host of an operation with the first of them.
    fn add_bounds(&self, joined: &Joined, hosts: &[usize], bounds: &mut BTreeMap<[usize; 2], Vec<Bound>>) {
        let mut used: Vec<usize> = hosts.to_vec();
        used.sort_unstable();
        used.dedup();
        let members = hosts.len();
        let times = joined.starts().chunks_exact(members).zip(joined.departures_ns.chunks_exact(members));
        let mut ends_ns = vec![(0, u64::MAX); self.names.len()];
        for (arrivals, departures) in times {
            // By host, the last start and the first departure.
            used.iter().for_each(|&host| ends_ns[host] = (0, u64::MAX));
            for (&host, (&arrival_ns, &departure_ns)) in hosts.iter().zip(arrivals.iter().zip(departures)) {
                let (last_ns, first_ns) = ends_ns[host];
                ends_ns[host] = (last_ns.max(arrival_ns), first_ns.min(departure_ns));
            }
            let ends = |host: usize| {
                let (last_ns, first_ns) = ends_ns[host];
                (self.seconds(host, last_ns), self.seconds(host, first_ns))
            };
            let (last_s, first_s) = ends(used[0]);
            for &other in &used[1..] {
                let (arrival_s, departure_s) = ends(other);
                let bounds = bounds.entry([used[0], other]).or_default();
                bounds.push(Bound { at_s: arrival_s, offset_s: first_s - arrival_s, is_upper: true });
                bounds.push(Bound { at_s: departure_s, offset_s: last_s - departure_s, is_upper: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Barriers of ranks 0 and 1 on one host, 2 and 3 on another, whose clock shows 5 s less and
    /// runs 20 ppm fast.
    fn barriers() -> Joined {
        let mut joined = Joined::default();
        let clock = |rank: u32, true_ns: u64| match rank {
            0 | 1 => true_ns + 7_000_000_000,
            _ => true_ns + true_ns / 50_000 + 2_000_000_000,
        };
        for number in 0..400u64 {
            let arrival = |rank: u32| {
                number * 50_000_000 + (number.wrapping_mul(2_654_435_761) >> (4 * rank)) % 300_000
            };
            let last = (0..4).map(arrival).max().unwrap_or(0);
            joined.instances.push(number);
            joined.roots.push(None);
            for rank in 0..4 {
                joined.arrivals_ns.push(clock(rank, arrival(rank)));
                let jitter = (number * 7919 + u64::from(rank) * 104_729) % 20_000;
                joined.departures_ns.push(clock(rank, last + 3_000 + jitter));
            }
        }
        joined
    }

    #[test]
    fn clocks_are_joined_by_the_calls_of_the_program() {
        let hosts = ["a", "a", "b", "b", "c"];
        let mut clocks = Clocks::new((0..).zip(hosts));
        let (joined, members) = (barriers(), [0, 1, 2, 3]);
        clocks.begin_with(&joined, &members);
        clocks.join(std::iter::once((&joined, &members[..])), std::iter::empty());
        assert!(clocks.are_joined([0, 1].into_iter()) && !clocks.are_joined([1, 2].into_iter()));
        let uncertainty_s = clocks.uncertainty_s(1);
        assert!((1e-7..5e-6).contains(&uncertainty_s), "{uncertainty_s}");
        for true_ns in [0u64, 10_000_000_000, 19_000_000_000] {
            let one_s = clocks.common_s(0, true_ns + 7_300_000_000);
            let other_ns = true_ns + 300_000_000;
            let other_s = clocks.common_s(1, other_ns + other_ns / 50_000 + 2_000_000_000);
            assert!((one_s - other_s).abs() <= uncertainty_s, "{one_s} {other_s}");
        }
    }

    #[test]
    fn messages_in_both_directions_join_clocks() {
        // Messages every 10 ms in turns, which take 3 to 23 µs; the second clock shows 2 s less.
        let passed = |number: u64, is_back: bool| {
            let sent = 5_000_000_000 + number * 10_000_000;
            let received = sent + 3_000 + number * 7919 % 20_000;
            match is_back {
                false => Passed { hosts: [0, 1], sent_ns: sent, received_ns: received - 2_000_000_000 },
                true => Passed { hosts: [1, 0], sent_ns: sent - 2_000_000_000, received_ns: received },
            }
        };
        let joined = |messages: Vec<Passed>| {
            let mut clocks = Clocks::new((0..).zip(["a", "b"]));
            for message in &messages {
                clocks.begin_at(message.hosts[0], message.sent_ns);
                clocks.begin_at(message.hosts[1], message.received_ns);
            }
            clocks.join(std::iter::empty(), messages.into_iter());
            clocks
        };
        let clocks = joined((0..200).map(|number| passed(number, number % 2 == 1)).collect());
        assert!(clocks.are_joined([0, 1].into_iter()));
        let uncertainty_s = clocks.uncertainty_s(1);
        assert!((1e-6..1e-5).contains(&uncertainty_s), "{uncertainty_s}");
        let off_s = clocks.common_s(0, 6_000_000_000) - clocks.common_s(1, 4_000_000_000);
        assert!(off_s.abs() <= uncertainty_s, "{off_s} {uncertainty_s}");
        let one_way = joined((0..200).map(|number| passed(number, false)).collect());
        assert!(!one_way.are_joined([0, 1].into_iter()), "bounds from one side");
    }
}
