//! Waits on communicators of the same ranks together: of a library that makes a communicator for
//! each step, none has enough waits, or enough calls, to tell who is late.

use super::estimate::Estimate;
use super::instance::Hosts;
use super::operation::{Columns, Estimated, SampledWaits};
use super::{LEAST_OF_RUN, Member, Waiting, pattern};
use std::collections::{BTreeMap, HashMap};

/// The waits of one operation on communicators of the same ranks.
struct Pool {
    /// On the first of them, with the sums over all.
    waiting: Waiting,
    hosts: Hosts,
    /// By member and sampled call.
    caused: Columns,
    /// By sampled call, the waiting of all members.
    of_all: Vec<f64>,
}

/// The waits of operations by their names and members.
#[derive(Default)]
pub struct Pools {
    of: BTreeMap<(String, Vec<u32>), Pool>,
}

impl Pools {
    /// Adds the waits on a communicator.
    pub fn add(&mut self, waiting: &Waiting, hosts: &Hosts, sampled: SampledWaits) {
        let members = waiting.members.iter().map(|member| member.rank).collect();
        let of_all = sampled.of_all();
        match self.of.get_mut(&(waiting.call.clone(), members)) {
            Some(pool) => pool.add(waiting, &sampled.caused, of_all),
            None => {
                let members = waiting.members.iter().map(|member| member.rank).collect();
                let pool =
                    Pool { waiting: waiting.clone(), hosts: hosts.clone(), caused: sampled.caused, of_all };
                self.of.insert((waiting.call.clone(), members), pool);
            }
        }
    }

    /// The waiting on several communicators of which somebody stands out.
    pub fn findings(self, wall_s: &HashMap<u32, f64>) -> Vec<Waiting> {
        self.of.into_values().filter_map(|pool| pool.with_findings(wall_s)).collect()
    }
}

impl Pool {
    fn add(&mut self, more: &Waiting, caused: &Columns, of_all: Vec<f64>) {
        let sums = &mut self.waiting;
        sums.others += 1;
        sums.instances += more.instances;
        sums.sampled += more.sampled;
        sums.time_s += more.time_s;
        sums.waiting = sum(sums.waiting, more.waiting);
        for (member, more) in sums.members.iter_mut().zip(&more.members) {
            member.time_s += more.time_s;
            member.caused = sum(member.caused, more.caused);
            member.suffered = sum(member.suffered, more.suffered);
        }
        self.caused.iter_mut().zip(caused).for_each(|(all, more)| all.extend(more));
        self.of_all.extend(of_all);
    }

    fn with_findings(mut self, wall_s: &HashMap<u32, f64>) -> Option<Waiting> {
        let waiting = self.waiting.waiting.filter(|_| self.waiting.others > 0)?;
        let members = &self.waiting.members;
        let wall_s: f64 = members.iter().filter_map(|member| wall_s.get(&member.rank)).sum();
        if waiting.total < LEAST_OF_RUN * wall_s {
            return None;
        }
        let each = |of: fn(&Member) -> Option<Estimate>| members.iter().map(of).collect::<Option<Vec<_>>>();
        let estimated = Estimated {
            waiting,
            suffered: each(|member| member.suffered)?,
            caused: each(|member| member.caused)?,
        };
        let is_part = self.waiting.sampled < self.waiting.instances / 2;
        self.waiting.findings = pattern::late(&self.hosts, &self.caused, &estimated, &self.of_all, is_part);
        (!self.waiting.findings.is_empty()).then_some(self.waiting)
    }
}

fn sum(one: Option<Estimate>, other: Option<Estimate>) -> Option<Estimate> {
    Some(one?.plus(other?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::pattern::Finding;

    /// A call on a communicator of three, whose second member lets the others wait for this long.
    fn waits(comm: usize, late_s: f64) -> (Waiting, SampledWaits) {
        let member = |(rank, caused): (u32, f64)| Member {
            rank,
            host: 0,
            time_s: late_s,
            caused: Some(Estimate::exact(caused)),
            suffered: Some(Estimate::exact(if caused > 0.0 { 0.0 } else { late_s })),
            directions: None,
        };
        let waiting = Waiting {
            comm: format!("W_d{comm}"),
            call: "MPI_Allreduce".to_owned(),
            others: 0,
            instances: 1,
            sampled: 1,
            is_nonblocking: false,
            may_lack_progress: false,
            is_small: false,
            sends: None,
            time_s: 3.0 * late_s,
            waiting: Some(Estimate::exact(2.0 * late_s)),
            members: [(0, 0.0), (1, 2.0 * late_s), (2, 0.0)].into_iter().map(member).collect(),
            findings: Vec::new(),
        };
        let sampled = SampledWaits {
            waited: vec![vec![late_s], vec![0.0], vec![late_s]],
            caused: vec![vec![0.0], vec![2.0 * late_s], vec![0.0]],
            last: vec![1],
        };
        (waiting, sampled)
    }

    #[test]
    fn who_is_late_on_many_communicators_is_found() {
        let (mut pools, hosts) = (Pools::default(), Hosts::one(3));
        for comm in 1..=50 {
            let (waiting, sampled) = waits(comm, 0.01 + 0.0001 * comm as f64);
            pools.add(&waiting, &hosts, sampled);
        }
        let found = pools.findings(&HashMap::from([(0, 1.0), (1, 1.0), (2, 1.0)]));
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.comm.as_str(), one.others, one.instances), ("W_d1", 49, 50));
        assert_eq!(one.findings, [Finding::Late(vec![1])]);
        assert!((one.waiting.unwrap().total - 2.0 * (0.5 + 0.0001 * 1275.0)).abs() < 1e-9);
    }

    #[test]
    fn one_communicator_is_no_pool() {
        let (mut pools, hosts) = (Pools::default(), Hosts::one(3));
        let (waiting, sampled) = waits(1, 1.0);
        pools.add(&waiting, &hosts, sampled);
        assert!(pools.findings(&HashMap::from([(0, 1.0), (1, 1.0), (2, 1.0)])).is_empty());
    }
}
