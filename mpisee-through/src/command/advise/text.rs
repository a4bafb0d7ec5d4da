//! Prints findings as a numbered list.

use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::line_breaks;
use crate::output::Page;
use crate::units::time;

/// Where lines end if the page does not say.
const WIDTH: usize = 100;
const HEADINGS: usize = 11;
/// The share of the run in MPI from which on it is said that no cause was found.
const MUCH: f64 = 0.2;
const NO_CAUSE: &str = "No rule found a cause. mpisee-through ranks shows how it is spread, mpisee-through sizes what messages there are; \
                        mpisee-through advise --help lists the rules.";

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
    let blocks = findings.iter().zip(1..).map(|(finding, number)| {
        let share = percent(facts.share_of_run(finding.cost_s));
        let title = line_breaks::beside(&format!("{number}. "), &finding.what, width);
        let mut block: String = title.lines().map(|line| page.bold(line) + "\n").collect();
        let parts = [
            (
                "Time",
                format!("{share} of the run, {} summed over ranks [{}]", time(finding.cost_s), finding.rule),
            ),
            ("Evidence", finding.evidence.clone()),
            ("Threshold", finding.threshold.clone()),
            ("Try", finding.advice.clone()),
        ];
        for (heading, text) in parts {
            block += &line_breaks::beside(&format!("   {heading:<HEADINGS$}"), &text, width);
        }
        block
    });
    verdict + &blocks.collect::<Vec<_>>().join("\n")
}
