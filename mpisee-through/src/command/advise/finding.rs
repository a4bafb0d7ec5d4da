//! A finding: what a rule reports, with its evidence, its threshold and what to try.

/// Findings below this share of the run have a line each, after the others.
pub const LEAST_OF_RUN: f64 = 0.01;

/// A finding of a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// The communicator, or communicators, it is about.
    pub about: String,
    /// The time that it is about, over all ranks.
    pub cost_s: f64,
    /// The finding as a sentence.
    pub what: String,
    /// The numbers that say so.
    pub evidence: String,
    /// From where on the rule finds it.
    pub threshold: String,
    /// Advice that may help.
    pub advice: String,
}

/// Per cent, as the rules say it.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
