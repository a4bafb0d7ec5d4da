//! Random programs with known arrivals in all instances, for tests of the estimates.

use super::dependence::Dependence;
use super::instance::Hosts;
use super::operation::{Estimated, SampledCalls, SampledWaits, Totals, estimate};

/// Reproducible random numbers (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform from 0 to 1.
    pub fn share(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform in the logarithm.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    pub fn lognormal(&mut self, deviation: f64) -> f64 {
        let normal = (-2.0 * self.share().ln()).sqrt() * (std::f64::consts::TAU * self.share()).cos();
        (deviation * normal).exp()
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
}

/// How the members of a program arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    Lognormal,
    /// In some instances all arrivals are ten times as far apart.
    Bimodal,
    /// One member is late in one of a hundred instances.
    SeldomLate,
    /// One member is later from instance to instance.
    Growing,
    /// One member is late once in the run.
    LateOnce,
    /// In one of 2000 instances the transfer takes long.
    SlowTransfer,
    /// Now and then some member is late, each time another one.
    OneLate,
    /// The same, and now and then the transfer takes long.
    OneLateOrSlow,
}

/// All instances of an operation on which every member depends on every other.
pub struct Program {
    pub all: SampledCalls,
    /// The member that is late, in those that have one.
    pub late: usize,
}

impl Program {
    pub fn new(arrivals: Arrivals, members: usize, instances: usize, random: &mut Random) -> Self {
        let (deviation, transfer_s) = (0.5 + random.share(), random.between(0.01, 3.0));
        let (transfer_deviation, delay_s) = (0.2 + 0.8 * random.share(), random.between(20.0, 1000.0));
        let (wide, late, once) = (random.between(0.05, 0.5), random.below(members), random.below(instances));
        let rarely = random.between(0.0005, 0.02);
        let mut all = SampledCalls { hosts: Hosts::one(members), ..SampledCalls::default() };
        for number in 0..instances {
            let factor = if arrivals == Arrivals::Bimodal && random.share() < wide { 10.0 } else { 1.0 };
            let mut times: Vec<f64> = (0..members).map(|_| factor * random.lognormal(deviation)).collect();
            times[late] += match arrivals {
                Arrivals::SeldomLate if random.share() < 0.01 => delay_s,
                Arrivals::Growing => delay_s / 50.0 * number as f64 / instances as f64,
                Arrivals::LateOnce if number == once => 20.0 * delay_s,
                _ => 0.0,
            };
            if matches!(arrivals, Arrivals::OneLate | Arrivals::OneLateOrSlow) && random.share() < rarely {
                times[random.below(members)] += delay_s * random.lognormal(0.3);
            }
            let is_slow = match arrivals {
                Arrivals::SlowTransfer => random.share() < 0.0005,
                Arrivals::OneLateOrSlow => random.share() < rarely,
                _ => false,
            };
            let last_s = times.iter().copied().fold(0.0, f64::max);
            let common_s = last_s
                + transfer_s * random.lognormal(transfer_deviation)
                + if is_slow { delay_s } else { 0.0 };
            let mut leave = || common_s + 0.1 * transfer_s * random.lognormal(transfer_deviation);
            all.departures.extend((0..members).map(|_| leave()));
            all.arrivals.extend(times);
            all.numbers.push(number as u64);
            all.roots.push(None);
        }
        Program { all, late }
    }

    /// The instances that the recorder keeps where there is room for this many.
    pub fn sample(&self, room: usize, random: &mut Random) -> SampledCalls {
        let shares: Vec<f64> = self.all.numbers.iter().map(|_| random.share()).collect();
        let mut threshold = 1.0;
        while shares.iter().filter(|&&share| share < threshold).count() > room {
            threshold /= 2.0;
        }
        let mut sample = SampledCalls { hosts: self.all.hosts.clone(), ..SampledCalls::default() };
        for (one, (number, share)) in self.all.instances().zip(self.all.numbers.iter().zip(shares)) {
            if share < threshold {
                sample.numbers.push(*number);
                sample.roots.push(one.root);
                sample.arrivals.extend(one.arrivals);
                sample.departures.extend(one.departures);
            }
        }
        sample
    }

    /// The known sums over all instances.
    pub fn totals(&self) -> Totals {
        let (members, instances) = (self.all.members(), self.all.numbers.len() as f64);
        let mut mean_times_s = vec![0.0; members];
        let mut totals = Totals {
            instances: self.all.numbers.len() as u64,
            mean_times_s: None,
            most_s: Vec::new(),
            mean_arrivals_s: Some(vec![0.0; members]),
        };
        for one in self.all.instances() {
            for member in 0..members {
                let (arrival_s, departure_s) = (one.arrivals[member], one.departures[member]);
                mean_times_s[member] += (departure_s - arrival_s) / instances;
                if let Some(means_s) = &mut totals.mean_arrivals_s {
                    means_s[member] += arrival_s / instances;
                }
            }
        }
        totals.mean_times_s = Some(mean_times_s);
        totals
    }

    /// The estimate from a sample, with what was sampled.
    pub fn estimated(
        &self,
        room: usize,
        random: &mut Random,
    ) -> (SampledCalls, SampledWaits, Option<Estimated>) {
        let sample = self.sample(room, random);
        let sampled = sample.waits(Dependence::All);
        let found = estimate(&sample, &self.totals(), Dependence::All, &sampled);
        (sample, sampled, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::estimate::Estimate;

    /// How many intervals have the true value, of how many.
    #[derive(Default)]
    struct Tally {
        inside: u32,
        all: u32,
        /// Sum of the half widths by the true values.
        widths: f64,
    }

    impl Tally {
        fn add(&mut self, estimate: Estimate, truth: f64) {
            let rounding = 1e-9 * truth;
            let is_inside = (estimate.low - rounding..=estimate.high + rounding).contains(&truth);
            self.inside += u32::from(is_inside);
            self.all += 1;
            self.widths += (estimate.high - estimate.low) / truth.max(1e-9) / 2.0;
        }

        fn share(&self) -> f64 {
            f64::from(self.inside) / f64::from(self.all)
        }

        fn width(&self) -> f64 {
            self.widths / f64::from(self.all)
        }
    }

    /// The tallies of waiting, of what members suffered and of what they caused.
    fn tallies(kind: Arrivals, programs: u64) -> [Tally; 3] {
        let mut tallies = [const { Tally { inside: 0, all: 0, widths: 0.0 } }; 3];
        for seed in 0..programs {
            let mut random = Random::new(seed << 8 | kind as u64);
            let members = 2 + random.below(15);
            let instances = random.between(300.0, 6000.0) as usize;
            let program = Program::new(kind, members, instances, &mut random);
            let (_, _, found) = program.estimated(256, &mut random);
            let found = found.expect("a large sample");
            let truth = program.all.waits(Dependence::All);
            let sum = |columns: &[Vec<f64>], member: usize| columns[member].iter().sum::<f64>();
            let waiting: f64 = (0..members).map(|member| sum(&truth.waited, member)).sum();
            tallies[0].add(found.waiting, waiting);
            for member in 0..members {
                tallies[1].add(found.suffered[member], sum(&truth.waited, member));
                tallies[2].add(found.caused[member], sum(&truth.caused, member));
            }
        }
        tallies
    }

    #[test]
    fn intervals_have_the_true_values_of_360_programs() {
        let kinds = [
            Arrivals::Lognormal,
            Arrivals::Bimodal,
            Arrivals::SeldomLate,
            Arrivals::Growing,
            Arrivals::LateOnce,
            Arrivals::OneLate,
        ];
        for kind in kinds {
            let [waiting, suffered, caused] = tallies(kind, 60);
            assert!(waiting.share() >= 0.93, "{kind:?}: {} of {}", waiting.inside, waiting.all);
            assert!(suffered.share() >= 0.93, "{kind:?}: {} of {}", suffered.inside, suffered.all);
            assert!(caused.share() >= 0.93, "{kind:?}: {} of {}", caused.inside, caused.all);
            // An interval that has everything would say nothing.
            let most = if kind == Arrivals::OneLate { 0.2 } else { 0.15 };
            assert!(waiting.width() < most, "{kind:?}: ± {}", waiting.width());
            assert!(caused.width() < 0.5, "{kind:?}: ± {}", caused.width());
        }
    }

    #[test]
    fn transfers_that_are_seldom_slow_are_not_taken_for_waits() {
        for kind in [Arrivals::SlowTransfer, Arrivals::OneLateOrSlow] {
            for tally in tallies(kind, 60) {
                assert!(tally.share() >= 0.93, "{kind:?}: {} of {}", tally.inside, tally.all);
            }
        }
    }
}
