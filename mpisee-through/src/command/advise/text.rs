//! Findings for reading.

use super::Finding;
use super::facts::Facts;
use super::rules::percent;
use crate::output::Page;

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
        let mut block = page.bold(&format!("{number}. {}", finding.what)) + "\n";
        let lines = [
            (
                "Cost",
                format!("{share} of the run, {:.6} s over all ranks [{}]", finding.cost_s, finding.rule),
            ),
            ("Evidence", finding.evidence.clone()),
            ("Threshold", finding.threshold.clone()),
            ("Try", finding.advice.clone()),
        ];
        for (heading, text) in lines {
            block += &wrapped(heading, &text, width);
        }
        block
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// A heading, and text beside it in lines of that many columns.
fn wrapped(heading: &str, text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let is_full = 3 + HEADINGS + lines[last].chars().count() + 1 + word.chars().count() > width;
        if is_full && !lines[last].is_empty() {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let heading = if index == 0 { heading } else { "" };
        out += &format!("   {heading:<HEADINGS$}{line}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("Try", "one two three", 24), "   Try        one two\n              three\n");
        assert_eq!(wrapped("Try", "wonderfully long", 5), "   Try        wonderfully\n              long\n");
    }
}
