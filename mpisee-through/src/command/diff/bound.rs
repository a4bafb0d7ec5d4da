//! Totals of both runs, and the bounds of `--fail-if` on how they may differ.

use crate::sheet::{self, Sheet, Value};
use crate::statistics::{CONFIDENCE, difference, mean};
use crate::units::time;
use std::str::FromStr;

/// A run, per rank where ranks can be told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Of the longest rank.
    pub wall_s: f64,
    /// In MPI, mean over ranks.
    pub mpi_s: f64,
    /// On the host in NCCL, mean over ranks.
    pub nccl_s: f64,
    /// On GPUs in NCCL, mean over ranks, where it was measured.
    pub nccl_gpu_s: Option<f64>,
    /// Per rank.
    pub calls: f64,
    /// Per rank.
    pub bytes: f64,
}

impl Totals {
    /// Of some runs.
    pub fn mean(totals: &[Totals]) -> Self {
        let mean_of = |of: fn(&Totals) -> f64| mean(&totals.iter().map(of).collect::<Vec<_>>());
        Totals {
            wall_s: mean_of(|totals| totals.wall_s),
            mpi_s: mean_of(|totals| totals.mpi_s),
            nccl_s: mean_of(|totals| totals.nccl_s),
            nccl_gpu_s: on_gpu(totals).map(|times_s| mean(&times_s)),
            calls: mean_of(|totals| totals.calls),
            bytes: mean_of(|totals| totals.bytes),
        }
    }
}

/// The time on GPUs of each run, where it was measured of all of them.
fn on_gpu(totals: &[Totals]) -> Option<Vec<f64>> {
    totals.iter().map(|totals| totals.nccl_gpu_s).collect()
}

/// Both sets of runs as a whole.
pub fn sheet(totals: &[Vec<Totals>; 2], ranks: [u64; 2]) -> Sheet {
    let heads = vec![
        sheet::fixed("what", "RUN"),
        sheet::number("before", "A"),
        sheet::number("after", "B"),
        sheet::number("change", "Change %"),
        sheet::number("noise_s", "Noise"),
        sheet::fixed("may_be_noise", ""),
    ];
    let row = |name: &str, of: fn(&Totals) -> f64, value: fn(f64) -> Value| {
        let sets = totals.each_ref().map(|totals| totals.iter().map(of).collect::<Vec<f64>>());
        let [before, after] = sets.each_ref().map(|numbers| mean(numbers));
        vec![
            name.into(),
            value(before),
            value(after),
            change(before, after, false),
            Value::Nothing,
            "".into(),
        ]
    };
    let has_nccl = totals.iter().flatten().any(|totals| totals.nccl_s > 0.0);
    let of_gpus = totals.each_ref().map(|totals| on_gpu(totals));
    let times =
        2.0 + f64::from(u8::from(has_nccl)) + f64::from(u8::from(of_gpus.iter().all(Option::is_some)));
    let timed = |name: &str, of: fn(&Totals) -> f64| {
        let sets = totals.each_ref().map(|totals| Some(totals.iter().map(of).collect()));
        timed(name, &sets, times)
    };
    let [ranks_before, ranks_after] = ranks.map(|ranks| ranks as f64);
    let mut rows = vec![
        vec![
            "ranks".into(),
            Value::Number(ranks_before),
            Value::Number(ranks_after),
            change(ranks_before, ranks_after, false),
            Value::Nothing,
            "".into(),
        ],
        timed("wall time", |totals| totals.wall_s),
        timed("MPI time", |totals| totals.mpi_s),
        row("calls per rank", |totals| totals.calls, Value::Number),
        row("bytes per rank", |totals| totals.bytes, |bytes| Value::Bytes(bytes.round() as u64)),
    ];
    if of_gpus.iter().any(Option::is_some) {
        rows.insert(3, self::timed("NCCL time on GPUs", &of_gpus, times));
    }
    if has_nccl {
        rows.insert(3, timed("NCCL time", |totals| totals.nccl_s));
    }
    Sheet { name: "runs", heads, rows }
}

/// The row of a time, by the runs of both sets, of `times` that are tried; of a set in which it was
/// not measured it is empty.
fn timed(name: &str, sets: &[Option<Vec<f64>>; 2], times: f64) -> Vec<Value> {
    let means = sets.each_ref().map(|set| set.as_ref().map(|times_s| mean(times_s)));
    let both = means[0].zip(means[1]);
    let found = sets[0].as_ref().zip(sets[1].as_ref()).and_then(|(before, after)| difference(before, after));
    let is_certain = found.is_some_and(|found| times * found.chance <= 1.0 - CONFIDENCE);
    let may_be_noise = found.is_some() && !is_certain && means[0] != means[1];
    let [before, after] = means.map(|mean_s| mean_s.map_or(Value::Nothing, Value::Seconds));
    vec![
        name.into(),
        before,
        after,
        both.map_or(Value::Nothing, |(before, after)| change(before, after, is_certain)),
        found.map_or(Value::Nothing, |found| Value::Seconds(found.noise)),
        if may_be_noise { "~" } else { "" }.into(),
    ]
}

fn change(before: f64, after: f64, matters: bool) -> Value {
    match before > 0.0 {
        true => Value::Change { share: (after - before) / before, matters },
        false => Value::Nothing,
    }
}

/// How two runs compare by a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub is_exceeded: bool,
    /// The bound, and the numbers of both runs.
    pub said: String,
}

/// How much something may grow or shrink: `time+10%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    text: String,
    what: What,
    /// True if growing is what fails.
    growing: bool,
    by: f64,
    relative: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Wall,
    Time,
    Nccl,
    Calls,
    Bytes,
}

impl What {
    fn amount(self, totals: Totals) -> f64 {
        match self {
            What::Wall => totals.wall_s,
            What::Time => totals.mpi_s,
            What::Nccl => totals.nccl_s,
            What::Calls => totals.calls,
            What::Bytes => totals.bytes,
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a bound like time+10%, calls+0, bytes-5% or wall+0.5");
        let sign = text.find(['+', '-']).ok_or_else(wrong)?;
        let what = match &text[..sign] {
            "wall" => What::Wall,
            "time" => What::Time,
            "nccl" => What::Nccl,
            "calls" => What::Calls,
            "bytes" => What::Bytes,
            _ => return Err(wrong()),
        };
        let amount = &text[sign + 1..];
        let (digits, relative) = amount.strip_suffix('%').map_or((amount, false), |digits| (digits, true));
        let by: f64 = digits.parse().map_err(|_| wrong())?;
        if !by.is_finite() || by < 0.0 {
            return Err(wrong());
        }
        let by = if relative { by / 100.0 } else { by };
        Ok(Bound { text: text.to_owned(), what, growing: text[sign..].starts_with('+'), by, relative })
    }
}

impl Bound {
    /// Compares the runs.
    pub fn judge(&self, before: Totals, after: Totals) -> Verdict {
        let (before, after) = (self.what.amount(before), self.what.amount(after));
        let most = if self.relative { before * self.by } else { self.by };
        let change = if self.growing { after - before } else { before - after };
        // What rounding leaves of equal sums is no change.
        let slack = 1e-12 * before.abs().max(after.abs());
        let share = match before > 0.0 {
            true => format!(" ({:+.1} %)", 100.0 * (after - before) / before),
            false => String::new(),
        };
        let number = |value: f64| match self.what {
            What::Wall | What::Time | What::Nccl => time(value),
            What::Calls | What::Bytes => format!("{value}"),
        };
        let said = format!("{}: from {} to {}{share}", self.in_units(), number(before), number(after));
        Verdict { is_exceeded: change > most + slack, said }
    }

    /// The bound with its unit: `time+10 s` and `time+10 %`, `calls+5 per rank`.
    fn in_units(&self) -> String {
        let unit = match (self.relative, self.what) {
            (true, _) => return self.text.replace('%', " %"),
            (false, What::Wall | What::Time | What::Nccl) => " s",
            (false, What::Calls | What::Bytes) => " per rank",
        };
        format!("{}{unit}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(mpi_s: f64) -> Totals {
        Totals { wall_s: 10.0, mpi_s, nccl_s: 0.7, nccl_gpu_s: None, calls: 100.0, bytes: 0.0 }
    }

    #[test]
    fn bounds_are_exceeded_beyond_them_only() {
        let exceeded = |text: &str, before: f64, after: f64| {
            text.parse::<Bound>().unwrap().judge(totals(before), totals(after)).is_exceeded
        };
        assert!(!exceeded("time+10%", 1.0, 1.1));
        assert!(exceeded("time+10%", 1.0, 1.11));
        assert!(!exceeded("time+10%", 1.0, 0.1));
        assert!(exceeded("time-10%", 1.0, 0.89));
        assert!(exceeded("time+0.5", 1.0, 1.6));
        assert!(!exceeded("calls+0", 1.0, 2.0));
        assert!(exceeded("time+0%", 0.0, 1.0));
        assert!(!exceeded("nccl+0", 1.0, 2.0));
        let said = |text: &str| text.parse::<Bound>().unwrap().judge(totals(1.0), totals(1.45)).said;
        assert_eq!(said("time+10"), "time+10 s: from 1.00 s to 1.45 s (+45.0 %)");
        assert_eq!(said("time+50%"), "time+50 %: from 1.00 s to 1.45 s (+45.0 %)");
        assert_eq!(said("calls+0"), "calls+0 per rank: from 100 to 100 (+0.0 %)");
        for wrong in ["time", "time+", "time+x", "times+1", "+1", "time+-1", "time+nan"] {
            assert!(wrong.parse::<Bound>().is_err(), "{wrong}");
        }
    }
}
