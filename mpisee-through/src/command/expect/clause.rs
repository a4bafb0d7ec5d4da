//! One line of a file of expectations: its grammar.

use crate::comm_pattern::CommPattern;
use crate::family::FamilyMembers;
use crate::similar_names::similar_calls;
use crate::units::count;
use mpisee_profile::Operation;
use mpisee_profile::glob::Glob;
use std::str::FromStr;

/// The quantity of an expectation.
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

    /// Returns whether it may be about a place in the program: of others than calls it is not known
    /// of all of them.
    fn is_about_places(self) -> bool {
        self == Metric::Calls
    }

    /// Returns whether it is measured, so that equal runs differ in it; other numbers are counted.
    pub fn is_measured(self) -> bool {
        matches!(self, Metric::Imbalance | Metric::Efficiency)
    }

    /// Returns whether it is about operations, and whether about communicators.
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

/// A part of a clause that the profile lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Communicator,
    Call,
    Place,
    /// Some calls may be at the place that the clause names, or elsewhere.
    Lines(Unplaced),
}

impl Missing {
    /// For the reader of the outcome.
    pub fn text(self) -> String {
        match self {
            Missing::Communicator => "no such communicator".to_owned(),
            Missing::Call => "no such call".to_owned(),
            Missing::Place => "no such call there".to_owned(),
            Missing::Lines(unplaced) => unplaced.text(),
        }
    }

    /// The calls that may be at the place as well.
    pub fn unplaced(self) -> Unplaced {
        match self {
            Missing::Lines(unplaced) => unplaced,
            _ => Unplaced::default(),
        }
    }
}

/// Numbers of calls of which the profile does not say where they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unplaced {
    /// The binary has no debug information here: neither the line is known nor the functions that
    /// were inlined there.
    pub without_line: u64,
    /// A library made them, and no path says who called that.
    pub without_caller: u64,
    /// Calls at no call site.
    pub without_site: u64,
}

impl Unplaced {
    /// All of them.
    pub fn calls(self) -> u64 {
        self.without_line.saturating_add(self.without_caller).saturating_add(self.without_site)
    }

    fn text(self) -> String {
        let each = [
            ("line", self.without_line),
            ("caller outside of its library", self.without_caller),
            ("call site", self.without_site),
        ];
        let each = each.into_iter().filter(|&(_, calls)| calls > 0);
        let parts: Vec<String> =
            each.map(|(what, calls)| format!("of {} no {what}", count(calls, "call"))).collect();
        format!("at least: {} is known", parts.join(", "))
    }
}

/// A pattern for operations, which match in capitals or not.
fn call_pattern(text: &str) -> Glob {
    Glob::new(&text.to_lowercase())
}

/// Returns whether an operation is called so, with or without MPI_.
fn is_called(pattern: &Glob, call: &str) -> bool {
    let call = call.to_lowercase();
    pattern.matches(&call) || pattern.matches(call.strip_prefix("mpi_").unwrap_or(&call))
}

/// The pattern, if it is that of some MPI function.
fn known_call(text: &str) -> Result<Glob, String> {
    /// Names that an error lists.
    const LISTED: usize = 3;
    let pattern = call_pattern(text);
    if Operation::all().any(|operation| is_called(&pattern, operation.name())) {
        return Ok(pattern);
    }
    let mut near = similar_calls(text, Operation::all().map(Operation::name));
    near.truncate(LISTED);
    match near.is_empty() {
        true => Err(format!("'{text}' is no MPI function that is recorded")),
        false => {
            Err(format!("'{text}' is no MPI function that is recorded; did you mean {}?", near.join(", ")))
        }
    }
}

/// `calls of MPI_Allreduce on W = 800`.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The line as it was written.
    pub text: String,
    pub metric: Metric,
    call: Option<Glob>,
    comm: Option<CommPattern>,
    /// A pattern for a function, file, or file and line.
    place: Option<Glob>,
    /// True if it is about the calls of an iteration.
    pub is_per_step: bool,
    relation: Relation,
    number: f64,
}

impl Clause {
    /// The subject of a clause, without a number.
    pub fn for_metric(metric: Metric, call: Option<&str>, comm: Option<&str>) -> Self {
        let of = call.map_or(String::new(), |call| format!(" of {call}"));
        let on = comm.map_or(String::new(), |comm| format!(" on {comm}"));
        Clause {
            text: format!("{}{of}{on}", metric.name()),
            metric,
            call: call.map(call_pattern),
            comm: comm.map(CommPattern::new),
            place: None,
            is_per_step: false,
            relation: Relation::Equal,
            number: 0.0,
        }
    }

    /// Returns whether the operation is one of those that it is about.
    pub fn takes_call(&self, call: &str) -> bool {
        self.call.as_ref().is_none_or(|glob| is_called(glob, call))
    }

    /// The pattern for the place of the calls, if there is one.
    pub fn place(&self) -> Option<&Glob> {
        self.place.as_ref()
    }

    /// Returns whether the communicator is one of those that it is about, in a profile with these
    /// families.
    pub fn takes_comm<'f>(&self, comm: &str, families: impl FnOnce() -> &'f FamilyMembers) -> bool {
        self.comm.as_ref().is_none_or(|pattern| pattern.takes(comm, None, families))
    }

    /// Returns whether the number found says nothing, since the profile lacks what the clause
    /// names: a limit on nothing holds always. That there are no such communicators, or calls, is
    /// an expectation of its own: `= 0`.
    pub fn is_void(&self, missing: Missing, found: f64) -> bool {
        let is_limit = self.relation == Relation::AtMost;
        match missing {
            Missing::Communicator => self.metric != Metric::Communicators || is_limit,
            Missing::Call | Missing::Place => is_limit && self.number != 0.0,
            Missing::Lines(unplaced) => !self.holds(found + unplaced.calls() as f64),
        }
    }

    /// Returns whether a communicator, and whether an operation, is named.
    pub fn names(&self, missing: Missing) -> bool {
        match missing {
            Missing::Communicator => self.comm.is_some(),
            Missing::Call => self.call.is_some(),
            Missing::Place | Missing::Lines(_) => self.place.is_some(),
        }
    }

    /// Returns whether a number from `found` up to `most` is as expected.
    pub fn may_hold_between(&self, found: f64, most: f64) -> bool {
        self.relation != Relation::AtMost && found < self.number && self.number <= most
    }

    /// Returns whether the number found is as expected.
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
        let (mut call, mut comm, mut place, mut is_per_step) = (None, None, None, false);
        while let [word, name, more @ ..] = rest {
            let fits = match *word {
                "of" => metric.is_about().0 && call.is_none(),
                "on" => metric.is_about().1 && comm.is_none(),
                "at" => metric.is_about_places() && place.is_none() && !is_per_step,
                "per" => *name == "step" && metric.is_about_places() && place.is_none() && !is_per_step,
                other => return Err(format!("'{other}' is not 'of', 'on', 'at' or 'per'")),
            };
            match *word {
                _ if !fits => return Err(format!("'{} … {word} {name}' has no meaning", metric.name())),
                "of" => call = Some(known_call(name)?),
                "at" => place = Some(Glob::new(name)),
                "per" => is_per_step = true,
                _ => comm = Some(CommPattern::new(name)),
            }
            rest = more;
        }
        match rest {
            [] => {
                let (text, metric) = (line.to_owned(), *metric);
                Ok(Clause { text, metric, call, comm, place, is_per_step, relation, number })
            }
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
        let no_families = FamilyMembers::new();
        let takes = |comm: &str| clause.takes_comm(comm, || &no_families);
        assert!(takes("W_s2.4") && !takes("W"));
        let clause_of = |call: &str| format!("calls of {call} = 1").parse::<Clause>().unwrap();
        assert!(clause_of("allreduce").takes_call("MPI_Allreduce"));
        assert!(clause_of("mpi_ALLREDUCE").takes_call("MPI_Allreduce"));
        assert!(clause.holds(80.0) && !clause.holds(79.0));
        for (line, said) in [
            ("calls", "not an expectation"),
            ("calls of MPI_Send = x", "'x' is not a number"),
            ("calls of MPI_Send < 3", "'<' is not =, <= or >="),
            (
                "calls of MPI_Allredcue = 3",
                "'MPI_Allredcue' is no MPI function that is recorded; did you mean MPI_Allreduce",
            ),
            ("volume = 3", "'volume' is not one of calls, bytes"),
            ("alive of MPI_Send = 3", "has no meaning"),
            ("calls of MPI_Send of MPI_Recv = 3", "has no meaning"),
            ("calls on = 3", "a name is missing after 'on'"),
            ("calls in W = 3", "'in' is not 'of', 'on', 'at' or 'per'"),
            ("calls of MPI_Send per rank = 3", "has no meaning"),
            ("bytes of MPI_Send per step = 3", "has no meaning"),
            ("calls of MPI_Send at main per step = 3", "has no meaning"),
            ("bytes of MPI_Send at main = 3", "has no meaning"),
        ] {
            let error = line.parse::<Clause>().unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
