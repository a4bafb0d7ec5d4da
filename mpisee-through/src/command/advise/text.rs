//! Prints findings as a numbered list.

use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::lines;
use crate::output::Page;
use crate::units::time;

/// Where lines end if the page does not say.
const WIDTH: usize = 100;
const HEADINGS: usize = 11;

/// A numbered list, each finding with its evidence, threshold and advice.
pub fn numbered(findings: &[Finding], facts: &Facts<'_>, page: Page) -> String {
    if findings.is_empty() {
        return "No rule found anything; mpisee-through advise --help lists the rules.\n".to_owned();
    }
    let width = page.width.map_or(WIDTH, |width| usize::from(width).clamp(40, 120));
    let blocks = findings.iter().zip(1..).map(|(finding, number)| {
        let share = percent(facts.share_of_run(finding.cost_s));
        let title = lines::beside(&format!("{number}. "), &finding.what, width);
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
            block += &lines::beside(&format!("   {heading:<HEADINGS$}"), &text, width);
        }
        block
    });
    blocks.collect::<Vec<_>>().join("\n")
}
