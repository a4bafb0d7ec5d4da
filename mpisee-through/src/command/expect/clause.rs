//! A line of a file of expectations.

use mpisee_profile::glob::Glob;
use std::str::FromStr;

/// What is expected to be so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Calls,
    Bytes,
    Imbalance,
    Operations,
    Communicators,
    Alive,
    Efficiency,
}

const METRICS: [(&str, Metric); 7] = [
    ("calls", Metric::Calls),
    ("bytes", Metric::Bytes),
    ("imbalance", Metric::Imbalance),
    ("operations", Metric::Operations),
    ("communicators", Metric::Communicators),
    ("alive", Metric::Alive),
    ("efficiency", Metric::Efficiency),
];

impl Metric {
    fn name(self) -> &'static str {
        METRICS.iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name)
    }

    /// Whether it is about operations, and whether about communicators.
    fn is_about(self) -> (bool, bool) {
        match self {
            Metric::Calls | Metric::Bytes | Metric::Imbalance => (true, true),
            Metric::Operations | Metric::Communicators | Metric::Alive => (false, true),
            Metric::Efficiency => (false, false),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    AtMost,
    AtLeast,
}

/// `calls of MPI_Allreduce on W = 800`.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The line as it was written.
    pub text: String,
    pub metric: Metric,
    call: Option<Glob>,
    comm: Option<Glob>,
    relation: Relation,
    number: f64,
}

impl Clause {
    /// What a clause is about, without how much.
    pub fn of(metric: Metric, call: Option<&str>, comm: Option<&str>) -> Self {
        let of = call.map_or(String::new(), |call| format!(" of {call}"));
        let on = comm.map_or(String::new(), |comm| format!(" on {comm}"));
        Clause {
            text: format!("{}{of}{on}", metric.name()),
            metric,
            call: call.map(Glob::new),
            comm: comm.map(Glob::new),
            relation: Relation::Equal,
            number: 0.0,
        }
    }

    /// Whether the operation is one of those that it is about.
    pub fn takes_call(&self, call: &str) -> bool {
        let short = call.strip_prefix("MPI_").unwrap_or(call);
        self.call.as_ref().is_none_or(|glob| glob.matches(call) || glob.matches(short))
    }

    /// Whether the communicator is one of those that it is about.
    pub fn takes_comm(&self, comm: &str) -> bool {
        self.comm.as_ref().is_none_or(|glob| glob.matches(comm))
    }

    /// Whether the number found is as expected.
    pub fn holds(&self, found: f64) -> bool {
        match self.relation {
            Relation::Equal => found == self.number,
            Relation::AtMost => found <= self.number,
            Relation::AtLeast => found >= self.number,
        }
    }
}

impl FromStr for Clause {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [about @ .., relation, number] = &words[..] else {
            return Err(format!("'{line}' is not an expectation like: calls of MPI_Allreduce on W = 800"));
        };
        let relation = match *relation {
            "=" => Relation::Equal,
            "<=" => Relation::AtMost,
            ">=" => Relation::AtLeast,
            other => return Err(format!("'{other}' is not =, <= or >=")),
        };
        let number: f64 = number.parse().map_err(|_| format!("'{number}' is not a number"))?;
        let (metric, mut rest) = about.split_first().ok_or("what is expected is missing")?;
        let (_, metric) = METRICS.iter().find(|(name, _)| name == metric).ok_or_else(|| {
            let known: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
            format!("'{metric}' is not one of {}", known.join(", "))
        })?;
        let (mut call, mut comm) = (None, None);
        while let [word, name, more @ ..] = rest {
            let (place, fits) = match *word {
                "of" => (&mut call, metric.is_about().0),
                "on" => (&mut comm, metric.is_about().1),
                other => return Err(format!("'{other}' is not 'of' or 'on'")),
            };
            if !fits || place.is_some() {
                return Err(format!("'{} … {word} {name}' has no meaning", metric.name()));
            }
            *place = Some(Glob::new(name));
            rest = more;
        }
        match rest {
            [] => Ok(Clause { text: line.to_owned(), metric: *metric, call, comm, relation, number }),
            [word, ..] => Err(format!("a name is missing after '{word}'")),
        }
    }
}

/// A number that was found: whole, or with a few decimals.
pub fn shown(number: f64) -> String {
    // Plus nothing, since the sum of nothing is -0.
    let number = number + 0.0;
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_read_or_its_mistake_named() {
        let clause: Clause = "calls of All* on W_s2.* >= 80".parse().unwrap();
        assert!(clause.takes_call("MPI_Allreduce") && !clause.takes_call("MPI_Send"));
        assert!(clause.takes_comm("W_s2.4") && !clause.takes_comm("W"));
        assert!(clause.holds(80.0) && !clause.holds(79.0));
        for (line, said) in [
            ("calls", "not an expectation"),
            ("calls of MPI_Send = x", "'x' is not a number"),
            ("calls of MPI_Send < 3", "'<' is not =, <= or >="),
            ("volume = 3", "'volume' is not one of calls, bytes"),
            ("alive of MPI_Send = 3", "has no meaning"),
            ("calls of MPI_Send of MPI_Recv = 3", "has no meaning"),
            ("calls on = 3", "a name is missing after 'on'"),
            ("calls in W = 3", "'in' is not 'of' or 'on'"),
        ] {
            let error = line.parse::<Clause>().unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
