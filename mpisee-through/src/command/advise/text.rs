//! Prints findings as a numbered list.

use super::facts::Facts;
use super::finding::{Finding, LEAST_OF_RUN, percent};
use super::{deadlock, no_core};
use crate::line_breaks;
use crate::output::Page;
use crate::units::time;

/// Where lines end if the page does not say.
const WIDTH: usize = 100;
const HEADINGS: usize = 11;
/// The share of the run in MPI from which on it is said that no cause was found.
const MUCH: f64 = 0.2;
const NO_CAUSE: &str = "No rule found a cause. mpisee-through ranks shows how ranks share the MPI time. \
                        mpisee-through sizes shows the sizes of messages. mpisee-through advise --help lists \
                        the rules.";

/// A numbered list, each finding with its evidence, threshold and advice.
pub fn numbered(verdict: &str, findings: &[Finding], facts: &Facts<'_>, page: Page) -> String {
    let width = page.width.map_or(WIDTH, |width| usize::from(width).clamp(40, 120));
    let verdict = line_breaks::broken(verdict, width).join("\n") + "\n\n";
    if findings.is_empty() {
        let why = match facts.share_of_run(facts.mpi_s) >= MUCH {
            true => NO_CAUSE,
            false => "No rule found anything; mpisee-through advise --help lists the rules.",
        };
        return verdict + &line_breaks::broken(why, width).join("\n") + "\n";
    }
    let is_much = |finding: &&Finding| {
        [deadlock::RULE, no_core::RULE].contains(&finding.rule)
            || facts.share_of_run(finding.cost_s) >= LEAST_OF_RUN
    };
    let (much, little): (Vec<&Finding>, Vec<&Finding>) = findings.iter().partition(is_much);
    let blocks = much.iter().zip(1..).map(|(finding, number)| {
        let spent = match finding.rule {
            deadlock::RULE => "not counted, since the calls were in progress".to_owned(),
            _ => format!(
                "{} of the run, {} summed over ranks",
                percent(facts.share_of_run(finding.cost_s)),
                time(finding.cost_s)
            ),
        };
        let title = line_breaks::beside(&format!("{number}. "), &finding.what, width);
        let mut block: String = title.lines().map(|line| page.bold(line) + "\n").collect();
        let parts = [
            ("Time", format!("{spent} [{}]", finding.rule)),
            ("Evidence", finding.evidence.clone()),
            ("Threshold", finding.threshold.clone()),
            ("Try", finding.advice.clone()),
        ];
        for (heading, text) in parts {
            block += &line_breaks::beside(&format!("   {heading:<HEADINGS$}"), &text, width);
        }
        block
    });
    let blocks = blocks.collect::<Vec<_>>().join("\n");
    let between = if much.is_empty() || little.is_empty() { "" } else { "\n" };
    verdict + &blocks + between + &short(&little, facts, width)
}

/// A line for each finding that takes little of the run.
fn short(findings: &[&Finding], facts: &Facts<'_>, width: usize) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let line = |finding: &&Finding| {
        let share = percent(facts.share_of_run(finding.cost_s));
        line_breaks::beside("   ", &format!("{} {share} [{}]", finding.what, finding.rule), width)
    };
    let lines: String = findings.iter().map(line).collect();
    format!("Below {} of the run (--format json has evidence and advice):\n{lines}", percent(LEAST_OF_RUN))
}
