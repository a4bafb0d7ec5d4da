//! The report of mpiP (github.com/LLNL/mpiP), as its version 3.5 writes it: lines of facts, then sections with tables.
//!
//! Sections of all call sites have a row for each operation, call site and rank. Numbers have three or four digits.

use super::{CallSums, Calls, Tables, run_of, seconds, whole, within_run};
use anyhow::{Context, Result, bail};
use mpisee_profile::rows::{CommRow, Members, RankRow, UNKNOWN_SIZE};
use mpisee_profile::run::{Imported, Lacking};
use mpisee_profile::{Operation, OperationKind};
use std::collections::HashMap;
use std::path::Path;

/// The row that stands for all communicators, which the report does not tell apart.
const UNKNOWN: &str = "unknown";

/// The heading that ends a report.
const END: &str = "End of Report";

/// An operation at a call site, on a rank.
type Site<'r> = (&'r str, u32, u32);

/// The bytes of the messages of a site, and the smallest and the largest of them.
struct Sizes {
    least: u64,
    most: u64,
    sum: u64,
}

/// Reads the report.
pub fn read(file: &Path) -> Result<Tables> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read '{}'", file.display()))?;
    read_report(&text).with_context(|| format!("'{}' cannot be imported as a report of mpiP", file.display()))
}

fn read_report(text: &str) -> Result<Tables> {
    let report = Report::split(text);
    if report.section("Task Time Statistics").is_some() {
        bail!(
            "it is a concise one, which has no rows of each rank; give the other of the two that mpiP writes with MPIP=-v"
        );
    }
    if report.section(END).is_none() {
        bail!("it does not end with '@--- {END}': it was cut off, or mpiP still writes it");
    }
    let hosts = report.hosts()?;
    let ranks = u32::try_from(hosts.len()).context("there are too many ranks")?;
    let times = report.section("MPI Time (seconds)").context("it has no section 'MPI Time'")?;
    let rows = rank_rows(times, &hosts)?;
    let Some(sites) = report.section("Callsite Time statistics (all, milliseconds)") else {
        bail!(
            "it has no section 'Callsite Time statistics (all, milliseconds)', which mpiP leaves out with -d; run it without"
        );
    };
    let sizes = report.sizes(ranks)?;
    let mut calls = CallSums::default();
    for line in sites {
        if let Some((site, [count, most_ms, mean_ms, least_ms])) = site_row(line, ranks)? {
            let what = its_line(line);
            let calls_of_site = whole(count, &what)?;
            let time_s = seconds(count * mean_ms / 1e3, &what)?.0;
            let extremes_s = [seconds(least_ms / 1e3, &what)?.0, seconds(most_ms / 1e3, &what)?.0];
            let name = format!("MPI_{}", site.0);
            let (of_site, bytes) = sizes_of(&name, sizes.get(&site));
            let more = Calls { calls: calls_of_site, bytes, time_s, extremes_s };
            within_run(&more, rows[site.2 as usize].wall_s.0, &what)?;
            calls.add(UNKNOWN, site.2, &name, of_site, &more)?;
        }
    }
    let (calls, _) = calls.finish();
    let mut run = run_of(imported(&report), ranks, &hosts);
    run.command = report.fact("Command").split_whitespace().map(str::to_owned).collect();
    run.start = local_time(report.fact("Start time"));
    run.end = local_time(report.fact("Stop time"));
    let group = (0..ranks).collect();
    let comm = CommRow {
        comm: UNKNOWN.to_owned(),
        size: ranks,
        count: 1,
        members: Members { group, ..Members::default() },
        label: "mpiP does not tell communicators apart".to_owned(),
        nodes: run.nodes,
        ..CommRow::default()
    };
    Ok(Tables { run, ranks: rows, comms: vec![comm], calls })
}

fn imported(report: &Report<'_>) -> Imported {
    Imported {
        tool: format!("mpiP {}", report.fact("Version")),
        file: String::new(),
        lacks: [
            Lacking::Communicators,
            Lacking::Ancestry,
            Lacking::Peers,
            Lacking::SomeBytes,
            Lacking::Regions,
            Lacking::ExactNumbers,
        ]
        .into(),
    }
}

/// The report, taken apart.
struct Report<'r> {
    /// `@ NAME : VALUE`, in their order.
    facts: Vec<(&'r str, &'r str)>,
    /// The lines of each section below its heading.
    sections: Vec<(&'r str, Vec<&'r str>)>,
}

impl<'r> Report<'r> {
    fn split(text: &'r str) -> Self {
        let mut report = Report { facts: Vec::new(), sections: Vec::new() };
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("@--- ") {
                report.sections.push((heading.trim_end_matches('-').trim(), Vec::new()));
            } else if let Some(fact) = line.strip_prefix("@ ") {
                report.facts.extend(fact.split_once(':').map(|(name, value)| (name.trim(), value.trim())));
            } else if let Some((_, lines)) = report.sections.last_mut()
                && !line.starts_with("---")
                && !line.trim().is_empty()
            {
                lines.push(line);
            }
        }
        report
    }

    fn fact(&self, name: &str) -> &'r str {
        self.facts.iter().find(|(known, _)| *known == name).map_or("", |&(_, value)| value)
    }

    /// The lines of a section, whose heading may end in a number.
    fn section(&self, heading: &str) -> Option<&[&'r str]> {
        let found = self.sections.iter().find(|(known, _)| known.starts_with(heading));
        found.map(|(_, lines)| lines.as_slice())
    }

    /// The hosts of the ranks, in their order.
    fn hosts(&self) -> Result<Vec<String>> {
        let mut hosts = Vec::new();
        for (_, value) in self.facts.iter().filter(|(name, _)| *name == "MPI Task Assignment") {
            match value.split_once(' ') {
                Some((rank, host)) if rank.parse() == Ok(hosts.len()) => hosts.push(host.trim().to_owned()),
                _ => bail!("its line '@ MPI Task Assignment : {value}' is not that of rank {}", hosts.len()),
            }
        }
        if hosts.is_empty() {
            bail!("it has no line '@ MPI Task Assignment'");
        }
        Ok(hosts)
    }

    /// Bytes by call site and rank: of messages sent, of files and of one-sided communication.
    fn sizes(&self, ranks: u32) -> Result<HashMap<Site<'r>, Sizes>> {
        const HEADINGS: [&str; 3] = [
            "Callsite Message Sent statistics (all, sent bytes)",
            "Callsite I/O statistics (all, I/O bytes)",
            "Callsite RMA statistics (all, origin bytes)",
        ];
        let mut sizes = HashMap::new();
        for &line in HEADINGS.iter().filter_map(|heading| self.section(heading)).flatten() {
            if let Some((site, [_, most, _, least])) = site_row(line, ranks)? {
                let sum = line.split_whitespace().nth(7).and_then(|sum| sum.parse().ok());
                let sum: f64 = sum.with_context(|| format!("{} has no sum", its_line(line)))?;
                let [least, most, sum] = [least, most, sum].map(|number| whole(number, &its_line(line)));
                let (least, most) = (least?, most?);
                if least > most {
                    bail!(
                        "{} has a smallest message of {least} bytes, and a largest of {most}",
                        its_line(line)
                    );
                }
                sizes.insert(site, Sizes { least, most, sum: sum? });
            }
        }
        Ok(sizes)
    }
}

/// A line of the report for an error.
fn its_line(line: &str) -> String {
    format!("its line '{}'", line.trim())
}

/// The call site and rank of a row, and its count, maximum, mean and minimum; none of headings and of rows over all ranks.
fn site_row(line: &str, ranks: u32) -> Result<Option<(Site<'_>, [f64; 4])>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, site, rank, count, most, mean, least, ..] = words.as_slice() else {
        bail!("{} is cut off", its_line(line));
    };
    if *name == "Name" || *rank == "*" {
        return Ok(None);
    }
    let malformed = || format!("{} has text where a number should be", its_line(line));
    let (site, rank) = (site.parse().with_context(malformed)?, rank.parse().with_context(malformed)?);
    if rank >= ranks {
        bail!("{} has the rank {rank} of {ranks}", its_line(line));
    }
    let mut numbers = [0.0; 4];
    for (number, word) in numbers.iter_mut().zip([count, most, mean, least]) {
        *number = word.parse().with_context(malformed)?;
    }
    Ok(Some(((name, site, rank), numbers)))
}

fn rank_rows(lines: &[&str], hosts: &[String]) -> Result<Vec<RankRow>> {
    let mut rows = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rank, wall_s, mpi_s, ..] = words.as_slice() else { continue };
        if rank.parse::<u32>().is_err() {
            continue; // The heading, and the row over all ranks.
        }
        if rank.parse() != Ok(rows.len()) || rows.len() >= hosts.len() {
            bail!("its section 'MPI Time' has the rank {rank} where {} should be", rows.len());
        }
        let time = |word: &str| -> Result<_> {
            seconds(word.parse().with_context(|| format!("'{word}' is not a time"))?, &its_line(line))
        };
        rows.push(RankRow {
            rank: rows.len() as u32,
            host: hosts[rows.len()].clone(),
            wall_s: time(wall_s)?,
            mpi_s: time(mpi_s)?,
            ..RankRow::default()
        });
    }
    if rows.len() != hosts.len() {
        bail!("its section 'MPI Time' has {} of {} ranks", rows.len(), hosts.len());
    }
    Ok(rows)
}

/// The size classes from the smallest to the largest message, and the bytes. mpiP has neither of receives, nor of `MPI_Alltoallv` and its like; other
/// calls that have none move no data.
fn sizes_of(call: &str, sizes: Option<&Sizes>) -> ([u64; 2], u64) {
    let kind = Operation::from_name(call).map(Operation::kind);
    let has_data = !call.to_lowercase().contains("barrier");
    match sizes {
        Some(sizes) => ([class_begin(sizes.least), class_end(sizes.most.max(sizes.least))], sizes.sum),
        None if has_data && matches!(kind, Some(OperationKind::PointToPoint | OperationKind::Collective)) => {
            (UNKNOWN_SIZE, 0)
        }
        None => ([0, 0], 0),
    }
}

fn class_begin(size: u64) -> u64 {
    if size == 0 { 0 } else { 1 << size.ilog2() }
}

fn class_end(size: u64) -> u64 {
    if size == 0 { 0 } else { u64::MAX >> size.leading_zeros() }
}

/// `2020-10-20T18:25:41`, in the zone of the machine, from `2020 10 20 18:25:41`.
fn local_time(text: &str) -> String {
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        [year, month, day, time] => format!("{year}-{month}-{day}T{time}"),
        _ => String::new(),
    }
}
