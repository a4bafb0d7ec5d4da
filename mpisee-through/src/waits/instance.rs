//! The waits in one call of a collective operation: how long each member waited, and for whom.

use super::dependence::Dependence;
use std::ops::Range;

/// One call of the operation by all members: seconds on one clock, by the members' positions.
#[derive(Clone, Copy, Debug)]
pub struct Instance<'a> {
    /// When each member entered the call in which it waits: of a nonblocking operation, the call
    /// that completed it.
    pub arrivals: &'a [f64],
    pub departures: &'a [f64],
    /// When each member started a nonblocking operation, and so was there for others; none of a
    /// blocking one.
    pub starts: Option<&'a [f64]>,
    /// The part of each member's call that counts here: of one that completed several operations,
    /// one of that many; none of a blocking operation, which has all of it.
    pub shares: Option<&'a [f64]>,
    /// The position of the root, if the operation has one.
    pub root: Option<usize>,
}

impl<'a> Instance<'a> {
    /// The part of the member's call that counts here.
    pub fn share(&self, member: usize) -> f64 {
        self.shares.map_or(1.0, |shares| shares[member])
    }

    /// From when on others need not wait for each member.
    pub fn starts(&self) -> &'a [f64] {
        self.starts.unwrap_or(self.arrivals)
    }
}

/// The host of each member, and how far off the clocks of two hosts may be.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// The number of each member's host.
    pub of_member: Vec<usize>,
    /// By host, the uncertainty of its clock in seconds.
    pub uncertainty_s: Vec<f64>,
}

impl Hosts {
    /// All members on one host.
    #[cfg(test)]
    pub fn one(members: usize) -> Self {
        Hosts { of_member: vec![0; members], uncertainty_s: vec![0.0] }
    }

    /// By how many seconds the arrivals of two members may be off against each other.
    pub fn between_s(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (self.of_member[one], self.of_member[other]);
        if one == other { 0.0 } else { self.uncertainty_s[one] + self.uncertainty_s[other] }
    }
}

/// Waits of one instance, by the members' positions; and the memory that computing them takes, to
/// be used again.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// How long each member waited for others, in seconds.
    pub waited_s: Vec<f64>,
    /// How long others waited for each member. The sum is that of `waited_s`.
    pub caused_s: Vec<f64>,
    /// Who waited for whom and how long, in seconds; kept where it is asked for.
    pub pairs: Option<Vec<(usize, usize, f64)>>,
    /// By member, whether it contributes nothing, so that nobody need wait for it; empty if all
    /// contribute.
    silent: Vec<bool>,
    /// The positions of those who are awaited, in the order of their starts.
    order: Vec<usize>,
    /// The positions of those who may wait, in the order of their arrivals.
    waiters: Vec<usize>,
    /// For members who wait, the place in `order` of the last one for whom each waits, and its own
    /// place in `waiters`.
    until: Vec<(usize, usize)>,
}

impl Waits {
    /// Where these members contribute nothing.
    pub fn without(silent: &[bool]) -> Self {
        Waits { silent: silent.to_vec(), ..Waits::default() }
    }

    /// Keeps who waited for whom.
    pub fn with_pairs(self) -> Self {
        Waits { pairs: Some(Vec::new()), ..self }
    }

    /// Computes the waits of an instance.
    ///
    /// A member waits from its arrival until the last one of those on whom it depends and who
    /// started before it left. At every moment of a wait, those who are still missing have equal
    /// parts in it. Of moments on two hosts, a difference that is within the uncertainty of their
    /// clocks is no wait.
    pub fn compute(&mut self, instance: Instance<'_>, dependence: Dependence, hosts: &Hosts) {
        let members = instance.arrivals.len();
        for sums in [&mut self.waited_s, &mut self.caused_s] {
            sums.clear();
            sums.resize(members, 0.0);
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.clear();
        }
        match (dependence, instance.root) {
            (Dependence::All, _) => self.on_members(instance, 0..members, 0..members, hosts),
            (Dependence::RootOnAll, Some(root)) => {
                self.on_members(instance, root..root + 1, 0..members, hosts);
            }
            (Dependence::AllOnRoot, Some(root)) => self.on_root(instance, root, hosts),
            (Dependence::AllOnLower, _) => {
                for member in 1..members {
                    self.on_members(instance, member..member + 1, 0..member + 1, hosts);
                }
            }
            (Dependence::RootOnAll | Dependence::AllOnRoot, None) => {}
        }
    }

    fn on_root(&mut self, instance: Instance<'_>, root: usize, hosts: &Hosts) {
        let root_s = instance.starts()[root];
        for (member, (&arrival_s, &departure_s)) in
            instance.arrivals.iter().zip(instance.departures).enumerate()
        {
            let late_s = root_s - arrival_s;
            if late_s > hosts.between_s(member, root) && root_s < departure_s {
                let late_s = instance.share(member) * late_s;
                self.waited_s[member] = late_s;
                self.caused_s[root] += late_s;
                if let Some(pairs) = &mut self.pairs {
                    pairs.push((member, root, late_s));
                }
            }
        }
    }

    /// Members of the first range wait for all of the second.
    fn on_members(
        &mut self,
        instance: Instance<'_>,
        waiting: Range<usize>,
        awaited: Range<usize>,
        hosts: &Hosts,
    ) {
        let by_time = |times: &[f64], one: usize, other: usize| times[one].total_cmp(&times[other]);
        self.order.clear();
        self.order.extend(awaited.filter(|&member| !self.silent.get(member).is_some_and(|&silent| silent)));
        self.order.sort_unstable_by(|&one, &other| by_time(instance.starts(), one, other));
        self.waiters.clear();
        match instance.starts {
            // PERF: in the same order.
            None if self.silent.is_empty() => {
                self.waiters.extend(self.order.iter().filter(|&member| waiting.contains(member)));
            }
            _ => {
                self.waiters.extend(waiting);
                self.waiters.sort_unstable_by(|&one, &other| by_time(instance.arrivals, one, other));
            }
        }
        let mut until = std::mem::take(&mut self.until);
        until.clear();
        for (place, &member) in self.waiters.iter().enumerate() {
            until.extend(self.last_awaited(instance, member, hosts).map(|last| (last, place)));
        }
        // Those who wait for the same last member share one pass over the starts.
        until.sort_unstable();
        for group in until.chunk_by(|(one, _), (other, _)| one == other) {
            self.charge(instance, group);
        }
        self.until = until;
    }

    /// The place of the last one for whom the member waits.
    fn last_awaited(&self, instance: Instance<'_>, member: usize, hosts: &Hosts) -> Option<usize> {
        let (starts, departure_s) = (instance.starts(), instance.departures[member]);
        let begin = self.place_after(starts, instance.arrivals[member]);
        let end = self.order.partition_point(|&other| starts[other] < departure_s);
        let is_certain = |&later: &usize| {
            let other = self.order[later];
            starts[other] - instance.arrivals[member] > hosts.between_s(member, other)
        };
        (begin..end).rev().find(is_certain)
    }

    /// The place of the first one that starts after this moment.
    fn place_after(&self, starts: &[f64], time_s: f64) -> usize {
        self.order.partition_point(|&other| starts[other] <= time_s)
    }

    /// Adds the waits of members, in the order of their arrivals, for the same last one.
    fn charge(&mut self, instance: Instance<'_>, group: &[(usize, usize)]) {
        let (arrivals, starts) = (instance.arrivals, instance.starts());
        let Some(&(last, first)) = group.first() else { return };
        let last_s = starts[self.order[last]];
        let mut now_s = arrivals[self.waiters[first]];
        let begin = self.place_after(starts, now_s);
        let mut group = group.iter().map(|&(_, place)| self.waiters[place]).peekable();
        // What each of those who are still missing has caused up to a moment, and those who wait at
        // that moment, by their shares.
        let (mut caused_s, mut waiting) = (0.0, 0.0);
        for place in begin..=last {
            let member = self.order[place];
            let mut passed_s = waiting * (starts[member] - now_s);
            now_s = starts[member];
            while let Some(waiter) = group.next_if(|&waiter| arrivals[waiter] <= now_s) {
                let share = instance.share(waiter);
                passed_s += share * (now_s - arrivals[waiter]);
                waiting += share;
                self.waited_s[waiter] = share * (last_s - arrivals[waiter]);
                if let Some(pairs) = &mut self.pairs {
                    add_pairs(pairs, waiter, &self.order[place..=last], instance);
                }
            }
            caused_s += passed_s / (last - place + 1) as f64;
            self.caused_s[member] += caused_s;
        }
    }
}

/// Adds for whom a member waits, of those who are missing at its arrival, in the order of their
/// starts.
fn add_pairs(pairs: &mut Vec<(usize, usize, f64)>, waiter: usize, missing: &[usize], instance: Instance<'_>) {
    let (mut now_s, mut caused_s) = (instance.arrivals[waiter], 0.0);
    for (place, &member) in missing.iter().enumerate() {
        let start_s = instance.starts()[member];
        caused_s += instance.share(waiter) * (start_s - now_s) / (missing.len() - place) as f64;
        now_s = start_s;
        if caused_s > 0.0 {
            pairs.push((waiter, member, caused_s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(arrivals: &[f64], departures: &[f64], root: Option<usize>, dependence: Dependence) -> Waits {
        let mut waits = Waits::default();
        let hosts = Hosts::one(arrivals.len());
        waits.compute(
            Instance { arrivals, departures, starts: None, shares: None, root },
            dependence,
            &hosts,
        );
        waits
    }

    #[test]
    fn two_who_are_equally_late_share() {
        let found = waits(&[0.0, 0.0, 3.0, 3.0], &[4.0; 4], None, Dependence::All);
        assert_eq!(found.waited_s, [3.0, 3.0, 0.0, 0.0]);
        assert_eq!(found.caused_s, [0.0, 0.0, 3.0, 3.0]);
    }

    #[test]
    fn each_moment_is_split_among_those_who_are_missing() {
        // From 0 to 1 member 0 waits for two; from 1 to 4 members 0 and 1 wait for one.
        let found = waits(&[0.0, 1.0, 4.0], &[5.0; 3], None, Dependence::All);
        assert_eq!(found.waited_s, [4.0, 3.0, 0.0]);
        assert_eq!(found.caused_s, [0.0, 0.5, 6.5]);
    }

    #[test]
    fn who_arrives_after_a_member_has_left_was_not_waited_for() {
        let found = waits(&[0.0, 1.0, 4.0], &[2.0, 5.0, 5.0], None, Dependence::All);
        assert_eq!(found.waited_s, [1.0, 3.0, 0.0]);
        assert_eq!(found.caused_s, [0.0, 1.0, 3.0]);
        let early = waits(&[2.0, 0.0, 1.0], &[3.0, 0.5, 3.0], Some(0), Dependence::AllOnRoot);
        assert_eq!(early.waited_s, [0.0, 0.0, 1.0], "an eager message of the root has not arrived yet");
    }

    #[test]
    fn nobody_waits_for_who_contributes_nothing() {
        let instance = Instance {
            arrivals: &[0.0, 1.0, 4.0],
            departures: &[5.0; 3],
            starts: None,
            shares: None,
            root: Some(0),
        };
        for dependence in [Dependence::All, Dependence::RootOnAll] {
            let mut found = Waits::without(&[false, false, true]);
            found.compute(instance, dependence, &Hosts::one(3));
            assert_eq!(
                (&found.waited_s[..], &found.caused_s[..]),
                (&[1.0, 0.0, 0.0][..], &[0.0, 1.0, 0.0][..])
            );
        }
    }

    #[test]
    fn roots_wait_or_are_waited_for() {
        let (arrivals, departures) = ([1.0, 0.0, 2.0], [3.0; 3]);
        let on_root = waits(&arrivals, &departures, Some(0), Dependence::AllOnRoot);
        assert_eq!((on_root.waited_s, on_root.caused_s), (vec![0.0, 1.0, 0.0], vec![1.0, 0.0, 0.0]));
        let of_root = waits(&arrivals, &departures, Some(1), Dependence::RootOnAll);
        assert_eq!((of_root.waited_s, of_root.caused_s), (vec![0.0, 2.0, 0.0], vec![0.5, 0.0, 1.5]));
    }

    #[test]
    fn prefixes_wait_for_lower_ranks_alone() {
        let found = waits(&[5.0, 0.0, 1.0], &[6.0; 3], None, Dependence::AllOnLower);
        assert_eq!(found.waited_s, [0.0, 5.0, 4.0]);
        assert_eq!(found.caused_s, [9.0, 0.0, 0.0]);
        let found = waits(&[0.0, 1.0, 5.0], &[6.0; 3], None, Dependence::AllOnLower);
        assert_eq!(found.waited_s, [0.0; 3]);
    }

    #[test]
    fn differences_within_the_uncertainty_of_clocks_are_no_waits() {
        let hosts = Hosts { of_member: vec![0, 0, 1], uncertainty_s: vec![0.0, 0.5] };
        let mut found = Waits::default();
        let instance = Instance {
            arrivals: &[0.0, 0.25, 0.375],
            departures: &[2.0; 3],
            starts: None,
            shares: None,
            root: None,
        };
        found.compute(instance, Dependence::All, &hosts);
        assert_eq!(found.waited_s, [0.25, 0.0, 0.0], "that of the same host is certain");
        assert_eq!(found.caused_s, [0.0, 0.25, 0.0]);
    }

    #[test]
    fn of_a_nonblocking_operation_members_wait_for_starts_in_the_completing_call() {
        // Member 0 waits from 1 to 5 for two until 3, then for one; member 1 from 4 to 5; member 2
        // starts last.
        let instance = Instance {
            arrivals: &[1.0, 4.0, 6.0],
            departures: &[7.0; 3],
            starts: Some(&[0.0, 3.0, 5.0]),
            shares: None,
            root: None,
        };
        let mut found = Waits::default().with_pairs();
        found.compute(instance, Dependence::All, &Hosts::one(3));
        assert_eq!(found.waited_s, [4.0, 1.0, 0.0]);
        assert_eq!(found.caused_s, [0.0, 1.0, 4.0]);
        let mut pairs = found.pairs.take().unwrap();
        pairs.sort_by(|one, other| one.partial_cmp(other).unwrap());
        assert_eq!(pairs, [(0, 1, 1.0), (0, 2, 3.0), (1, 2, 1.0)]);
        found.compute(Instance { root: Some(2), ..instance }, Dependence::AllOnRoot, &Hosts::one(3));
        assert_eq!(found.waited_s, [4.0, 1.0, 0.0]);
        // One of four operations that member 0's call completed.
        let quarter = Instance { shares: Some(&[0.25, 1.0, 1.0]), ..instance };
        found.compute(quarter, Dependence::All, &Hosts::one(3));
        assert_eq!(
            (&found.waited_s[..], &found.caused_s[..]),
            (&[1.0, 1.0, 0.0][..], &[0.0, 0.25, 1.75][..])
        );
        // Who completes after all have started waits for nobody, however long the operation took.
        let late = Instance { arrivals: &[5.0; 3], ..instance };
        found.compute(late, Dependence::All, &Hosts::one(3));
        assert_eq!(found.waited_s, [0.0; 3]);
    }

    proptest! {
        #[test]
        fn pairs_sum_to_what_is_suffered_and_caused(
            times in proptest::collection::vec((0.0..10.0f64, 0.0..5.0f64, 0.0..12.0f64), 2..20),
            kind in 0usize..4,
        ) {
            let starts: Vec<f64> = times.iter().map(|time| time.0).collect();
            let arrivals: Vec<f64> = times.iter().map(|time| time.0 + time.1).collect();
            let departures: Vec<f64> = times.iter().map(|time| time.0 + time.1 + time.2).collect();
            let shares: Vec<f64> = (0..times.len()).map(|member| 1.0 / (1 + member % 3) as f64).collect();
            let kinds = [Dependence::All, Dependence::AllOnRoot, Dependence::RootOnAll, Dependence::AllOnLower];
            let mut found = Waits::default().with_pairs();
            let instance = Instance {
                arrivals: &arrivals,
                departures: &departures,
                starts: Some(&starts),
                shares: Some(&shares),
                root: Some(1),
            };
            found.compute(instance, kinds[kind], &Hosts::one(times.len()));
            let (mut suffered, mut caused) = (vec![0.0; times.len()], vec![0.0; times.len()]);
            for &(waiter, cause, time_s) in found.pairs.as_ref().unwrap() {
                suffered[waiter] += time_s;
                caused[cause] += time_s;
            }
            for member in 0..times.len() {
                prop_assert!((suffered[member] - found.waited_s[member]).abs() < 1e-9, "{suffered:?} {found:?}");
                prop_assert!((caused[member] - found.caused_s[member]).abs() < 1e-9, "{caused:?} {found:?}");
            }
        }

        #[test]
        fn members_cause_as_much_as_members_wait(
            times in proptest::collection::vec((0.0..10.0f64, 0.0..12.0f64), 2..20),
            kind in 0usize..4,
            root in 0usize..20,
        ) {
            let arrivals: Vec<f64> = times.iter().map(|time| time.0).collect();
            let departures: Vec<f64> = times.iter().map(|time| time.0 + time.1).collect();
            let kinds = [Dependence::All, Dependence::AllOnRoot, Dependence::RootOnAll, Dependence::AllOnLower];
            let found = waits(&arrivals, &departures, Some(root % times.len()), kinds[kind]);
            let (waited_s, caused_s): (f64, f64) =
                (found.waited_s.iter().sum(), found.caused_s.iter().sum());
            prop_assert!((waited_s - caused_s).abs() < 1e-9, "{waited_s} {caused_s}");
            for (waited_s, time) in found.waited_s.iter().zip(&times) {
                prop_assert!((0.0..=time.1).contains(waited_s));
            }
        }
    }
}
