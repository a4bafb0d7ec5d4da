//! The report of mpiP (github.com/LLNL/mpiP), as its version 3.5 writes it: lines of facts, then
//! sections with tables.
//!
//! Sections of all call sites have a row for each operation, call site and rank. Numbers have three
//! or four digits.

mod left_out;

use super::{CallSums, Calls, Tables, run_of, seconds, whole, within_run};
use anyhow::{Context, Result, bail};
use left_out::LeftOut;
use mpisee_profile::rows::{CommRow, Members, RankRow, UNKNOWN_SIZE};
use mpisee_profile::run::{Imported, Lacking};
use mpisee_profile::{Operation, OperationKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The row that stands for all communicators, which the report does not tell apart.
const UNKNOWN: &str = "unknown";

/// The heading that ends a report.
const END: &str = "End of Report";

/// An operation at a call site, on a rank.
type Site<'r> = (&'r str, u32, u32);

/// Count, maximum, mean and minimum of a row.
type Numbers = [f64; 4];

/// The rows of a call site.
#[derive(Default)]
struct SiteRows {
    /// That of all ranks.
    all: Option<Numbers>,
    /// Those of ranks; mpiP leaves out ranks below its threshold.
    ranks: BTreeMap<u32, Numbers>,
}

/// The bytes of the messages of a site, and the smallest and the largest of them.
struct Sizes {
    least: u64,
    most: u64,
    sum: u64,
}

impl Sizes {
    /// Both sites' messages.
    fn with(&self, other: Option<&Sizes>) -> Sizes {
        let Sizes { least, most, sum } = *self;
        match other {
            None => Sizes { least, most, sum },
            Some(other) => Sizes {
                least: least.min(other.least),
                most: most.max(other.most),
                sum: sum.saturating_add(other.sum),
            },
        }
    }
}

/// Reads the report.
pub fn read(file: &Path) -> Result<Tables> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read '{}'", file.display()))?;
    // An argument or the name of a file may be in another encoding.
    read_report(&String::from_utf8_lossy(&bytes))
        .with_context(|| format!("'{}' cannot be imported as a report of mpiP", file.display()))
}

fn read_report(text: &str) -> Result<Tables> {
    let report = Report::split(text);
    if report.section("Task Time Statistics").is_some() {
        bail!(
            "it is a concise one (-c), without calls by rank; run with MPIP=-v and give the second of its two reports"
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
    let mut rows_of_sites: BTreeMap<(&str, u32), SiteRows> = BTreeMap::new();
    let mut all_ms = 0.0;
    for line in sites {
        let Some(((name, site, rank), numbers)) = site_row(line, ranks)? else { continue };
        let rows_of_site = rows_of_sites.entry((name, site)).or_default();
        let Some(rank) = rank else {
            rows_of_site.all = Some(numbers);
            continue;
        };
        rows_of_site.ranks.insert(rank, numbers);
        let [count, most_ms, mean_ms, least_ms] = numbers;
        let what = its_line(line);
        let calls_of_site = whole(count, &what)?;
        let time_s = seconds(count * mean_ms / 1e3, &what)?.0;
        let extremes_s = [seconds(least_ms / 1e3, &what)?.0, seconds(most_ms / 1e3, &what)?.0];
        let call = format!("MPI_{name}");
        let (of_site, bytes) = sizes_of(&call, sizes.get(&(name, site, rank)));
        let more = Calls { calls: calls_of_site, bytes, time_s, extremes_s };
        within_run(&more, rows[rank as usize].wall_s.0, &what)?;
        calls.add(UNKNOWN, rank, &call, of_site, &more)?;
        all_ms += count * mean_ms;
    }
    let left_out = left_out::find(&rows_of_sites, &ranks_with_sizes(&sizes), ranks);
    for (name, rest) in &left_out {
        add_left_out(&mut calls, name, rest, &sizes)?;
        all_ms += rest.time_ms;
    }
    let (calls, _) = calls.finish();
    let mut run = run_of(imported(&report), ranks, &hosts);
    run.command = report.fact("Command").split_whitespace().map(str::to_owned).collect();
    run.start = local_time(report.fact("Start time"));
    run.end = local_time(report.fact("Stop time"));
    run.notes.extend(left_out::sentence(&left_out, all_ms, report.options()));
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

/// The ranks of each site that has sizes.
fn ranks_with_sizes<'r>(sizes: &HashMap<Site<'r>, Sizes>) -> BTreeMap<(&'r str, u32), BTreeSet<u32>> {
    let mut all: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for &(name, site, rank) in sizes.keys() {
        all.entry((name, site)).or_default().insert(rank);
    }
    all
}

/// Adds the calls of ranks that have no row, with the bytes that the report has of these ranks.
fn add_left_out(
    calls: &mut CallSums,
    name: &str,
    rest: &LeftOut,
    sizes: &HashMap<Site<'_>, Sizes>,
) -> Result<()> {
    let call = format!("MPI_{name}");
    let what = format!("its rows '{name} … *'");
    let [least_s, most_s] = rest.extremes_ms.map(|ms| seconds(ms / 1e3, &what));
    let (least_s, most_s) = (least_s?.0, most_s?.0);
    for (rank, share) in rest.shares().filter(|&(_, share)| share > 0) {
        let of_rank = rest.sites.iter().filter_map(|&site| sizes.get(&(name, site, rank)));
        let all = of_rank.fold(None, |all: Option<Sizes>, one| Some(one.with(all.as_ref())));
        let (of_call, bytes) = sizes_of(&call, all.as_ref());
        let time_s = seconds(rest.time_ms / 1e3 * share as f64 / rest.calls, &what)?.0;
        let more = Calls { calls: share, bytes, time_s, extremes_s: [least_s, most_s] };
        calls.add(UNKNOWN, rank, &call, of_call, &more)?;
    }
    Ok(())
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

    /// The options of mpiP, if any were given.
    fn options(&self) -> &'r str {
        match self.fact("MPIP env var") {
            "[null]" => "",
            options => options,
        }
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
            if let Some(((name, site, Some(rank)), [_, most, _, least])) = site_row(line, ranks)? {
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
                sizes.insert((name, site, rank), Sizes { least, most, sum: sum? });
            }
        }
        Ok(sizes)
    }
}

/// A line of the report for an error.
fn its_line(line: &str) -> String {
    format!("its line '{}'", line.trim())
}

/// An operation at a call site, on a rank or, `None`, on all.
type RowName<'r> = (&'r str, u32, Option<u32>);

/// The call site and rank of a row, and its numbers; none of headings.
fn site_row(line: &str, ranks: u32) -> Result<Option<(RowName<'_>, Numbers)>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, site, rank, count, most, mean, least, ..] = words.as_slice() else {
        bail!("{} is cut off", its_line(line));
    };
    if *name == "Name" {
        return Ok(None);
    }
    let malformed = || format!("{} has text where a number should be", its_line(line));
    let site = site.parse().with_context(malformed)?;
    let rank = match *rank {
        "*" => None,
        rank => Some(rank.parse().with_context(malformed)?),
    };
    if let Some(rank) = rank.filter(|&rank: &u32| rank >= ranks) {
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

/// The size classes from the smallest to the largest message, and the bytes. mpiP has neither of
/// receives, nor of `MPI_Alltoallv` and its like; other calls that have none move no data.
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
