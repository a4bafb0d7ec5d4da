//! The findings of the checks: differences, and those of them that `run.json` explains.

use strum::{IntoStaticStr, VariantArray};

/// The subject of a difference, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Check {
    Ranks,
    Names,
    Rows,
    Traffic,
    Time,
}

impl Check {
    /// The name in the report.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The statement of each check for a profile in which it finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    pub ranks: &'static str,
    pub names: &'static str,
    pub rows: &'static str,
    pub traffic: &'static str,
    pub time: &'static str,
    /// Added to that of time where it was compared.
    pub within_wall_time: &'static str,
}

impl Claims {
    /// The statement of one check.
    pub fn claim(&self, check: Check) -> &'static str {
        match check {
            Check::Ranks => self.ranks,
            Check::Names => self.names,
            Check::Rows => self.rows,
            Check::Traffic => self.traffic,
            Check::Time => self.time,
        }
    }
}

/// Something that does not agree.
#[derive(Debug)]
pub struct Finding {
    /// The subject.
    pub check: Check,
    /// The finding, as a sentence without its full stop.
    pub what: String,
    /// Why it is no error of the profile, if it is none.
    pub explained_by: Option<&'static str>,
}

/// The first findings, and the number of all.
#[derive(Debug)]
pub struct Findings {
    limit: usize,
    /// The claims of the tables that are checked.
    pub claims: Claims,
    differences: Vec<Finding>,
    explained: Vec<Finding>,
    /// Per check: all differences, all explained ones.
    counts: [(u64, u64); Check::VARIANTS.len()],
    /// The part of the time check that does not apply to this run.
    pub skipped: Option<&'static str>,
    /// Checks of data that an imported profile lacks.
    pub unknown: Vec<Check>,
}

impl Findings {
    /// Keeps the first `limit` differences, and as many explained ones.
    pub fn new(limit: usize) -> Self {
        Findings {
            limit,
            claims: Claims::default(),
            differences: Vec::new(),
            explained: Vec::new(),
            counts: Default::default(),
            skipped: None,
            unknown: Vec::new(),
        }
    }

    /// Adds a difference. The sentence is made only if it is kept.
    pub fn differs(&mut self, check: Check, what: impl FnOnce() -> String) {
        self.counts[check as usize].0 += 1;
        if self.differences.len() < self.limit {
            self.differences.push(Finding { check, what: what(), explained_by: None });
        }
    }

    /// Adds a difference that is no error if there is an explanation.
    pub fn differs_unless(
        &mut self,
        explained_by: Option<&'static str>,
        check: Check,
        what: impl FnOnce() -> String,
    ) {
        if explained_by.is_none() {
            return self.differs(check, what);
        }
        self.counts[check as usize].1 += 1;
        if self.explained.len() < self.limit {
            self.explained.push(Finding { check, what: what(), explained_by });
        }
    }

    /// The first differences, then the first explained ones.
    pub fn kept(&self) -> impl Iterator<Item = &Finding> {
        self.differences.iter().chain(&self.explained)
    }

    /// How many differences and explained ones a check found.
    pub fn counts(&self, check: Check) -> (u64, u64) {
        self.counts[check as usize]
    }

    /// All differences that nothing explains.
    pub fn differences(&self) -> u64 {
        self.counts.iter().map(|&(differences, _)| differences).sum()
    }

    /// How many findings are not among those kept.
    pub fn left_out(&self) -> u64 {
        let all: u64 = self.counts.iter().map(|&(differences, explained)| differences + explained).sum();
        all - self.kept().count() as u64
    }
}
