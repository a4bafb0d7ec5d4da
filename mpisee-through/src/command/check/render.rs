//! Prints the findings as text, CSV and JSON.

use super::findings::{Check, Finding, Findings};
use crate::output::{self, Format, OutputArgs};
use crate::units::count;
use anyhow::Result;
use mpisee_profile::Profile;
use serde::Serialize;
use strum::VariantArray;

/// The findings in the format asked for.
pub fn render(profile: &Profile, findings: &Findings, output: &OutputArgs) -> Result<Vec<u8>> {
    match output.format() {
        Format::Table => Ok(text(profile, findings).into_bytes()),
        Format::Csv => {
            let row = |finding: &Finding| (finding.check.name(), outcome_of(finding), sentence(finding));
            output::csv(&["check", "outcome", "difference"], findings.kept().map(row))
        }
        Format::Json => output::json(&document(profile, findings)),
    }
}

fn text(profile: &Profile, findings: &Findings) -> String {
    let mut text = String::new();
    for &check in Check::VARIANTS {
        let mark = match findings.counts(check) {
            (0, 0) if findings.unknown.contains(&check) => "unknown",
            (0, 0) => "ok",
            (0, _) => "explained",
            _ => "DIFFERS",
        };
        let claim = findings.claims.claim(check);
        text += &format!("{mark:<9}  {:<7}  {claim}", check.name());
        let is_compared = findings.skipped.is_none() && !findings.claims.within_wall_time.is_empty();
        if check == Check::Time && is_compared && !findings.unknown.contains(&check) {
            text += &format!(", {}", findings.claims.within_wall_time);
        }
        text.push('\n');
    }
    if let Some(imported) = &profile.run().imported {
        text += &format!("\n{}\n", imported.sentence());
    }
    if !profile.run().complete {
        let why = profile.run().incomplete_because.as_deref().unwrap_or("run.json does not say why");
        text += &format!("\nThe profile is incomplete: {why}.\n");
    }
    if let Some(skipped) = findings.skipped {
        text += &format!("\nSkipped: {skipped}.\n");
    }
    if findings.kept().next().is_some() {
        text.push('\n');
    }
    for finding in findings.kept() {
        text += &format!("{}: {}.\n", finding.check.name(), sentence(finding));
    }
    if findings.left_out() > 0 {
        text += &format!("… and {} more; --all shows all.\n", findings.left_out());
    }
    let not_seen: u64 = profile.run().not_seen.values().sum();
    if findings.counts(Check::Traffic).0 > 0 && not_seen > 0 {
        text += &format!(
            "run.json counts {} that no table has; they may have sent or received.\n",
            count(not_seen, "call")
        );
    }
    text
}

fn sentence(finding: &Finding) -> String {
    match finding.explained_by {
        Some(why) => format!("{}, which is explained: {why}", finding.what),
        None => finding.what.clone(),
    }
}

fn outcome_of(finding: &Finding) -> &'static str {
    if finding.explained_by.is_some() { "explained" } else { "differs" }
}

#[derive(Serialize)]
struct Document {
    profile: String,
    holds: bool,
    complete: bool,
    skipped: Option<&'static str>,
    checks: Vec<CheckDocument>,
    findings: Vec<FindingDocument>,
    findings_left_out: u64,
}

#[derive(Serialize)]
struct CheckDocument {
    check: &'static str,
    /// True if the profile lacks the data, imported from a tool that does not record it.
    #[serde(rename = "unknown", skip_serializing_if = "std::ops::Not::not")]
    is_unknown: bool,
    differences: u64,
    explained_differences: u64,
}

#[derive(Serialize)]
struct FindingDocument {
    check: &'static str,
    outcome: &'static str,
    difference: String,
    explained_by: Option<&'static str>,
}

fn document(profile: &Profile, findings: &Findings) -> Document {
    let check = |check: Check| {
        let (differences, explained_differences) = findings.counts(check);
        let is_unknown = findings.unknown.contains(&check);
        CheckDocument { check: check.name(), is_unknown, differences, explained_differences }
    };
    let finding = |finding: &Finding| FindingDocument {
        check: finding.check.name(),
        outcome: outcome_of(finding),
        difference: finding.what.clone(),
        explained_by: finding.explained_by,
    };
    Document {
        profile: profile.directory().display().to_string(),
        holds: findings.differences() == 0,
        complete: profile.run().complete,
        skipped: findings.skipped,
        checks: Check::VARIANTS.iter().copied().map(check).collect(),
        findings: findings.kept().map(finding).collect(),
        findings_left_out: findings.left_out(),
    }
}
