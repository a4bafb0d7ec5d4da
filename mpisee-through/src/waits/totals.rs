//! The sums over all recorded calls of an operation, to which its samples are held.

use super::collective::{ArrivalSums, Collective, Means};
use super::hosts::Clocks;
use super::operation::{SampledCalls, Totals};
use super::{LeftOut, ProfileTotals};

impl Collective {
    /// By member, the calls and their time, and the known sums over all recorded instances.
    pub fn totals_of_blocking(
        &self,
        clocks: &Clocks,
        sample: &SampledCalls,
        known: &ProfileTotals<'_>,
    ) -> Result<(Vec<(u64, f64)>, Totals), LeftOut> {
        let counted: Option<Vec<(u64, f64)>> =
            self.members.iter().map(|&rank| known.calls.of_rank.get(&self.key(rank)).copied()).collect();
        let counted = counted.ok_or(LeftOut::Calls)?;
        if let Some(instances) = self.shared_calls(counted.iter().map(|(calls, _)| *calls), known) {
            return Ok(self.totals_of_shared(sample, instances, &counted));
        }
        let totals = self.totals(clocks, &sample.hosts.of_member, &counted, known.means);
        Ok((counted, totals))
    }

    /// The known sums over all recorded instances.
    fn totals(&self, clocks: &Clocks, hosts: &[usize], counted: &[(u64, f64)], means: &Means) -> Totals {
        let most = counted.iter().map(|(calls, _)| *calls).max().unwrap_or(0);
        let mean_of = |(&rank, &host): (&u32, &usize)| {
            let ArrivalSums { instances, mean_arrival_s: mean_s, .. } = *means.get(&self.key(rank))?;
            Some((instances, clocks.common_of_mean_s(host, mean_s)))
        };
        let found: Option<Vec<(u64, f64)>> = self.members.iter().zip(hosts).map(mean_of).collect();
        // Means over other instances cannot be compared.
        let is_same = counted.iter().all(|(calls, _)| *calls == most);
        let found = found.filter(|found| is_same && found.iter().all(|(made, _)| *made == found[0].0));
        let mean_times_s = counted.iter().map(|&(calls, time_s)| time_s / calls.max(1) as f64);
        Totals {
            instances: most,
            mean_times_s: Some(mean_times_s.collect()),
            most_s: Vec::new(),
            mean_arrivals_s: found.map(|found| found.into_iter().map(|(_, mean_s)| mean_s).collect()),
        }
    }

    /// The calls that all members have in common, as far as their samples tell, where recording was
    /// off on some for a part of the run, or some calls are in no sample since counts were zero.
    fn shared_calls(
        &self,
        calls: impl Iterator<Item = u64> + Clone,
        known: &ProfileTotals<'_>,
    ) -> Option<u64> {
        /// So large a part of the samples may be those of calls in which a member ended.
        const FEW: f64 = 0.02;
        let (least, most) = (calls.clone().min()?, calls.clone().max()?);
        let (joined, partial) = (self.joined.instances.len() as f64, self.joined.partial as f64);
        // Who ended early, or was killed, has one call less or more.
        let is_same = most - least <= 1;
        if is_same && partial <= FEW * joined {
            return None;
        }
        let shared = |(rank, calls): (&u32, u64)| {
            let sampled = known.means.get(&self.key(*rank))?.sampled;
            Some((calls as f64 * joined / sampled as f64).round() as u64)
        };
        let each = self.members.iter().zip(calls).filter_map(shared);
        // Who recorded fewer calls may have kept more of them.
        let shared = if is_same { each.min() } else { each.max() };
        Some(shared.unwrap_or(0).clamp(self.joined.instances.len() as u64, least))
    }

    /// The sums over the calls that all members recorded: nothing but the sample tells their part
    /// of the time.
    fn totals_of_shared(
        &self,
        sample: &SampledCalls,
        instances: u64,
        counted: &[(u64, f64)],
    ) -> (Vec<(u64, f64)>, Totals) {
        let sampled = sample.numbers.len() as f64;
        let time_s = |times: &Vec<f64>| times.iter().sum::<f64>() * instances as f64 / sampled;
        let times_s = sample.times();
        let of_shared = times_s.iter().zip(counted).map(|(times, (_, whole_s))| time_s(times).min(*whole_s));
        let shared = of_shared.map(|time_s| (instances, time_s)).collect();
        let most_s = counted.iter().map(|(_, time_s)| *time_s).collect();
        (shared, Totals { instances, mean_times_s: None, most_s, mean_arrivals_s: None })
    }

    /// The same of a nonblocking operation. Its time is that in the calls which completed it; where
    /// these may have completed other requests as well, it is that of the sample.
    pub fn totals_of_nonblocking(
        &self,
        sample: &SampledCalls,
        known: &ProfileTotals<'_>,
    ) -> Result<(Vec<(u64, f64)>, Totals), LeftOut> {
        let was_off = known.view.run().recording_was_off;
        // A persistent operation is started by other calls, and its number counts those as well
        // that were not recorded.
        let made = |&rank: &u32| match self.call.ends_with("_init") {
            false => known.calls.of_rank.get(&self.key(rank)).map(|(calls, _)| *calls),
            true => known.means.get(&self.key(rank)).filter(|_| !was_off).map(|recorded| recorded.instances),
        };
        let sampled = sample.numbers.len() as u64;
        let calls: Vec<u64> = self.members.iter().filter_map(made).collect();
        let most = calls.iter().copied().max().ok_or(if was_off { LeftOut::Off } else { LeftOut::Calls })?;
        let shared =
            self.shared_calls(calls.iter().copied(), known).filter(|_| calls.len() == self.members.len());
        let instances = shared.unwrap_or(most).max(sampled);
        if sampled < instances && !sample.is_even() {
            return Err(LeftOut::Requests);
        }
        let known_s = self.times_of_requests(sample, known).filter(|_| shared.is_none());
        let of_sample = |times: &Vec<f64>| times.iter().sum::<f64>() * instances as f64 / sampled as f64;
        let times_s = known_s.clone().unwrap_or_else(|| sample.times().iter().map(of_sample).collect());
        let counted = times_s.into_iter().map(|time_s| (instances, time_s)).collect();
        let wall_s = |rank| known.wall_s.get(rank).copied().unwrap_or(f64::INFINITY);
        let most_s = self.members.iter().map(wall_s).collect();
        let mean_times_s =
            known_s.map(|times_s| times_s.iter().map(|time_s| time_s / instances as f64).collect());
        Ok((counted, Totals { instances, mean_times_s, most_s, mean_arrivals_s: None }))
    }

    /// By member, the time in the calls that completed the operation, in seconds, if they completed
    /// nothing else.
    fn times_of_requests(&self, sample: &SampledCalls, known: &ProfileTotals<'_>) -> Option<Vec<f64>> {
        if sample.shares.iter().any(|&share| share < 1.0) {
            return None;
        }
        let times = known.calls.of_messages.get(&self.comm)?;
        self.members.iter().map(|rank| times.get(rank)?.of_requests_s(&self.call)).collect()
    }
}
