//! A job over time, bounded: neighbouring samples are joined when there are too many.

use serde::Serialize;
use std::collections::BTreeMap;

/// Samples of a job; twice as many are joined in pairs.
const MOST: usize = 300;

/// A job in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The end of the interval, seconds since the begin of the job.
    pub at_s: f64,
    /// Its length, in seconds.
    pub length_s: f64,
    /// The part of the ranks' time in MPI.
    pub mpi: f64,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// The busiest communicators, and their part of the ranks' time.
    pub comms: BTreeMap<String, f64>,
}

/// The samples of a job.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// All of them.
    pub fn all(&self) -> &[Sample] {
        &self.0
    }

    /// Adds one, unless it is no later than the last. Its interval may have begun before the last
    /// one's end, where nodes are looked at in different intervals; what they have in common counts
    /// for the earlier sample.
    pub fn add(&mut self, mut sample: Sample) {
        if let Some(last) = self.0.last() {
            sample.length_s = sample.length_s.min(sample.at_s - last.at_s);
        }
        if sample.length_s <= 0.0 {
            return;
        }
        self.0.push(sample);
        if self.0.len() >= 2 * MOST {
            self.0 =
                self.0.chunks(2).map(|pair| pair[1..].iter().fold(pair[0].clone(), Sample::joined)).collect();
        }
    }
}

impl Sample {
    /// With the next one: means, by how long each is.
    fn joined(self, next: &Sample) -> Sample {
        let length_s = self.length_s + next.length_s;
        let mean = |one: f64, other: f64| (one * self.length_s + other * next.length_s) / length_s;
        let mut comms: BTreeMap<String, f64> =
            self.comms.iter().map(|(name, share)| (name.clone(), mean(*share, 0.0))).collect();
        for (name, share) in &next.comms {
            *comms.entry(name.clone()).or_default() += mean(0.0, *share);
        }
        Sample {
            at_s: next.at_s,
            length_s,
            mpi: mean(self.mpi, next.mpi),
            calls_per_s: mean(self.calls_per_s, next.calls_per_s),
            bytes_per_s: mean(self.bytes_per_s, next.bytes_per_s),
            comms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_few_and_their_means_stay() {
        let mut samples = Samples::default();
        for second in 0..10_000u32 {
            let share = f64::from(second % 2);
            let comms = BTreeMap::from([(format!("W_s{}", second % 2), 0.5)]);
            let at_s = f64::from(second + 1);
            samples.add(Sample {
                at_s,
                length_s: 1.0,
                mpi: share,
                calls_per_s: 2.0,
                bytes_per_s: 8.0 * share,
                comms,
            });
        }
        let all = samples.all();
        assert!((MOST..2 * MOST).contains(&all.len()), "{}", all.len());
        let length_s: f64 = all.iter().map(|sample| sample.length_s).sum();
        assert_eq!((length_s, all.last().unwrap().at_s), (10_000.0, 10_000.0));
        let whole =
            |part: fn(&Sample) -> f64| all.iter().map(|sample| part(sample) * sample.length_s).sum::<f64>();
        assert_eq!(
            (whole(|it| it.mpi), whole(|it| it.calls_per_s), whole(|it| it.bytes_per_s)),
            (5000.0, 20_000.0, 40_000.0)
        );
        assert_eq!(all[0].comms, BTreeMap::from([("W_s0".to_owned(), 0.25), ("W_s1".to_owned(), 0.25)]));
        samples.add(Sample { at_s: 3.0, ..all[0].clone() });
        assert_eq!(samples.all().last().unwrap().at_s, 10_000.0, "what comes late is left out");
        samples.add(Sample { at_s: 10_002.0, length_s: 20.0, ..samples.all()[0].clone() });
        assert_eq!(samples.all().last().unwrap().length_s, 2.0, "no time is in two samples");
    }
}
