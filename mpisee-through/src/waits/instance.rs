//! The waits in one call of a collective operation: how long each member waited, and for whom.

use super::dependence::Dependence;

/// One call of the operation by all members: seconds on one clock, by the members' positions.
#[derive(Clone, Copy, Debug)]
pub struct Instance<'a> {
    pub arrivals: &'a [f64],
    pub departures: &'a [f64],
    /// The position of the root, if the operation has one.
    pub root: Option<usize>,
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
    fn between_s(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (self.of_member[one], self.of_member[other]);
        if one == other { 0.0 } else { self.uncertainty_s[one] + self.uncertainty_s[other] }
    }
}

/// Waits of one instance, by the members' positions; and the memory that computing them takes, to be used again.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// How long each member waited for others, in seconds.
    pub waited_s: Vec<f64>,
    /// How long others waited for each member. The sum is that of `waited_s`.
    pub caused_s: Vec<f64>,
    /// The positions in the order of their arrivals.
    order: Vec<usize>,
    /// For members who wait, the place in `order` of the last one for whom each waits, and its own place.
    until: Vec<(usize, usize)>,
}

impl Waits {
    /// Computes the waits of an instance.
    ///
    /// A member waits from its arrival until the last one of those on whom it depends and who arrived before it left. At every
    /// moment of a wait, those who are still missing have equal parts in it. Of arrivals on two hosts, a difference that
    /// is within the uncertainty of their clocks is no wait.
    pub fn compute(&mut self, instance: Instance<'_>, dependence: Dependence, hosts: &Hosts) {
        let members = instance.arrivals.len();
        for sums in [&mut self.waited_s, &mut self.caused_s] {
            sums.clear();
            sums.resize(members, 0.0);
        }
        match (dependence, instance.root) {
            (Dependence::All, _) => self.on_all(instance, 0..members, hosts),
            (Dependence::OfRoot, Some(root)) => self.on_all(instance, root..root + 1, hosts),
            (Dependence::OnRoot, Some(root)) => self.on_root(instance, root, hosts),
            (Dependence::OnLower, _) => self.on_lower(instance, hosts),
            (Dependence::OfRoot | Dependence::OnRoot, None) => {}
        }
    }

    fn on_root(&mut self, instance: Instance<'_>, root: usize, hosts: &Hosts) {
        let root_s = instance.arrivals[root];
        for (member, (&arrival_s, &departure_s)) in
            instance.arrivals.iter().zip(instance.departures).enumerate()
        {
            let late_s = root_s - arrival_s;
            if late_s > hosts.between_s(member, root) && root_s < departure_s {
                self.waited_s[member] = late_s;
                self.caused_s[root] += late_s;
            }
        }
    }

    /// These members wait for all others.
    fn on_all(&mut self, instance: Instance<'_>, waiting: std::ops::Range<usize>, hosts: &Hosts) {
        self.sort(instance.arrivals, 0..instance.arrivals.len());
        let mut until = std::mem::take(&mut self.until);
        until.clear();
        for (place, &member) in self.order.iter().enumerate() {
            if waiting.contains(&member)
                && let Some(last) = self.last_awaited(instance, place, hosts)
            {
                until.push((last, place));
            }
        }
        // Those who wait for the same last member share one pass over the arrivals.
        until.sort_unstable();
        for group in until.chunk_by(|(one, _), (other, _)| one == other) {
            self.charge(instance.arrivals, group);
        }
        self.until = until;
    }

    fn on_lower(&mut self, instance: Instance<'_>, hosts: &Hosts) {
        for member in 1..instance.arrivals.len() {
            self.sort(instance.arrivals, 0..member + 1);
            let place = self.order.iter().position(|&other| other == member);
            let waits = place.and_then(|place| Some((self.last_awaited(instance, place, hosts)?, place)));
            if let Some(wait) = waits {
                self.charge(instance.arrivals, &[wait]);
            }
        }
    }

    /// Orders members by their arrivals.
    fn sort(&mut self, arrivals: &[f64], members: std::ops::Range<usize>) {
        self.order.clear();
        self.order.extend(members);
        self.order.sort_unstable_by(|&one, &other| arrivals[one].total_cmp(&arrivals[other]));
    }

    /// The place of the last one for whom the member at this place waits.
    fn last_awaited(&self, instance: Instance<'_>, place: usize, hosts: &Hosts) -> Option<usize> {
        let member = self.order[place];
        let departure_s = instance.departures[member];
        let end = self.order.partition_point(|&other| instance.arrivals[other] < departure_s);
        let is_certain = |&later: &usize| {
            let other = self.order[later];
            let late_s = instance.arrivals[other] - instance.arrivals[member];
            late_s > hosts.between_s(member, other)
        };
        (place + 1..end).rev().find(is_certain)
    }

    /// Adds the waits of members, by place, for the same last one.
    fn charge(&mut self, arrivals: &[f64], group: &[(usize, usize)]) {
        let (Some(&(last, first)), mut waiting) = (group.first(), 0) else { return };
        let mut group = group.iter().peekable();
        // What each of those who are still missing has caused up to a moment.
        let mut caused_s = 0.0;
        for place in first..=last {
            let member = self.order[place];
            if place > first {
                let passed_s = arrivals[member] - arrivals[self.order[place - 1]];
                caused_s += passed_s * f64::from(waiting) / (last - place + 1) as f64;
                self.caused_s[member] += caused_s;
            }
            if group.next_if(|(_, waiter)| *waiter == place).is_some() {
                self.waited_s[member] = arrivals[self.order[last]] - arrivals[member];
                waiting += 1;
            }
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
        waits.compute(Instance { arrivals, departures, root }, dependence, &hosts);
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
        let early = waits(&[2.0, 0.0, 1.0], &[3.0, 0.5, 3.0], Some(0), Dependence::OnRoot);
        assert_eq!(early.waited_s, [0.0, 0.0, 1.0], "an eager message of the root has not arrived yet");
    }

    #[test]
    fn roots_wait_or_are_waited_for() {
        let (arrivals, departures) = ([1.0, 0.0, 2.0], [3.0; 3]);
        let on_root = waits(&arrivals, &departures, Some(0), Dependence::OnRoot);
        assert_eq!((on_root.waited_s, on_root.caused_s), (vec![0.0, 1.0, 0.0], vec![1.0, 0.0, 0.0]));
        let of_root = waits(&arrivals, &departures, Some(1), Dependence::OfRoot);
        assert_eq!((of_root.waited_s, of_root.caused_s), (vec![0.0, 2.0, 0.0], vec![0.5, 0.0, 1.5]));
    }

    #[test]
    fn prefixes_wait_for_lower_ranks_alone() {
        let found = waits(&[5.0, 0.0, 1.0], &[6.0; 3], None, Dependence::OnLower);
        assert_eq!(found.waited_s, [0.0, 5.0, 4.0]);
        assert_eq!(found.caused_s, [9.0, 0.0, 0.0]);
        let found = waits(&[0.0, 1.0, 5.0], &[6.0; 3], None, Dependence::OnLower);
        assert_eq!(found.waited_s, [0.0; 3]);
    }

    #[test]
    fn differences_within_the_uncertainty_of_clocks_are_no_waits() {
        let hosts = Hosts { of_member: vec![0, 0, 1], uncertainty_s: vec![0.0, 0.5] };
        let mut found = Waits::default();
        let instance = Instance { arrivals: &[0.0, 0.25, 0.375], departures: &[2.0; 3], root: None };
        found.compute(instance, Dependence::All, &hosts);
        assert_eq!(found.waited_s, [0.25, 0.0, 0.0], "that of the same host is certain");
        assert_eq!(found.caused_s, [0.0, 0.25, 0.0]);
    }

    proptest! {
        #[test]
        fn what_is_caused_is_what_is_waited(
            times in proptest::collection::vec((0.0..10.0f64, 0.0..12.0f64), 2..20),
            kind in 0usize..4,
            root in 0usize..20,
        ) {
            let arrivals: Vec<f64> = times.iter().map(|time| time.0).collect();
            let departures: Vec<f64> = times.iter().map(|time| time.0 + time.1).collect();
            let kinds = [Dependence::All, Dependence::OnRoot, Dependence::OfRoot, Dependence::OnLower];
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
