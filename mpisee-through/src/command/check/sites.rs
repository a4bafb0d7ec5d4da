//! Checks call sites and call paths: the tables that name them have each one once, and no path has
//! more than its calls.

use super::findings::{Check, Findings};
use super::names::RowCheck;
use mpisee_profile::rows::{CallRow, PathRow, PathTotalRow, Seconds, SiteRow, StackRow, TotalRow};
use mpisee_profile::site::MOST_SITES_OF_RANKS;
use mpisee_profile::{PathId, Profile, ProfileError, SiteId};
use std::collections::{HashMap, HashSet};

/// Rounding of a time that is written, in seconds.
const ROUNDING_S: f64 = 1e-9;

/// Communicator, rank (none of sums over ranks) and operation.
type Key = (String, Option<u32>, String);

/// Calls, their time, and how many rows that is from.
#[derive(Clone, Copy, Default)]
struct Sum {
    calls: u64,
    time_s: f64,
    rows: u64,
}

impl Sum {
    fn add(&mut self, calls: u64, Seconds(time_s): Seconds) {
        self.calls = self.calls.saturating_add(calls);
        self.time_s += time_s;
        self.rows += 1;
    }
}

/// The sites and paths that the tables have.
pub struct SiteCheck {
    sites: HashSet<SiteId>,
    /// By the first site of the path.
    paths: HashMap<(Key, SiteId), Sum>,
    keys: HashSet<Key>,
    /// Calls of the same, and those without site.
    calls: HashMap<(Key, Option<SiteId>), Sum>,
    /// Sites already reported, so that each is reported once.
    reported: HashSet<SiteId>,
}

impl SiteCheck {
    /// Reads the tables of sites and paths. `members` checks the rows of paths by rank.
    ///
    /// # Errors
    /// Of a table that cannot be read.
    pub fn read(
        profile: &Profile,
        mut members: Option<&mut RowCheck<'_>>,
        findings: &mut Findings,
    ) -> Result<SiteCheck, ProfileError> {
        let sites = sites(profile, findings)?;
        let stacks = stacks(profile, &sites, findings)?;
        let mut check = SiteCheck {
            sites,
            paths: HashMap::new(),
            keys: HashSet::new(),
            calls: HashMap::new(),
            reported: HashSet::new(),
        };
        for row in profile.rows_if_any::<PathRow>()? {
            let PathRow { path, comm, rank, call, calls, time_s } = row?;
            if let Some(members) = &mut members {
                members.row("paths.csv", &comm, rank, findings);
            }
            check.path(&stacks, path, (comm, Some(rank), call), (calls, time_s), findings);
        }
        for row in profile.rows_if_any::<PathTotalRow>()? {
            let PathTotalRow { path, comm, call, calls, time_s, .. } = row?;
            check.path(&stacks, path, (comm, None, call), (calls, time_s), findings);
        }
        Ok(check)
    }

    /// Returns whether the profile has call sites.
    pub fn has_any(&self) -> bool {
        !self.sites.is_empty()
    }

    fn path(
        &mut self,
        stacks: &HashMap<PathId, SiteId>,
        path: PathId,
        key: Key,
        (calls, time_s): (u64, Seconds),
        findings: &mut Findings,
    ) {
        match stacks.get(&path) {
            Some(&first) => {
                self.keys.insert(key.clone());
                self.paths.entry((key, first)).or_default().add(calls, time_s);
            }
            None => findings.differs(Check::Rows, || {
                format!("path {path} has calls of {} on {} and is not in stacks.csv", key.2, key.0)
            }),
        }
    }

    /// Adds a row of `calls.csv`.
    pub fn call(&mut self, row: &CallRow, findings: &mut Findings) {
        let of = (row.comm.as_str(), Some(row.rank), row.call.as_str());
        self.add("calls.csv", of, row.site, (row.calls, row.time_s), findings);
    }

    /// Adds a row of `totals.csv`.
    pub fn total(&mut self, row: &TotalRow, findings: &mut Findings) {
        let of = (row.comm.as_str(), None, row.call.as_str());
        self.add("totals.csv", of, row.site, (row.calls, row.time_s), findings);
    }

    fn add(
        &mut self,
        file: &'static str,
        (comm, rank, call): (&str, Option<u32>, &str),
        site: Option<SiteId>,
        (calls, time_s): (u64, Seconds),
        findings: &mut Findings,
    ) {
        // Sums over ranks have some more sites than are kept.
        let is_cut_off = file == "totals.csv" && self.sites.len() >= MOST_SITES_OF_RANKS;
        let is_missing =
            |site: &SiteId| !is_cut_off && !self.sites.contains(site) && !self.reported.contains(site);
        if let Some(site) = site.filter(is_missing) {
            self.reported.insert(site);
            findings.differs(Check::Rows, || {
                format!("site {site} has calls of {call} on {comm} in {file} and is not in sites.csv")
            });
        }
        if self.paths.is_empty() {
            return;
        }
        // Of the many rows only those are kept that some path is compared with.
        let key = (comm.to_owned(), rank, call.to_owned());
        let is_on_path =
            self.keys.contains(&key) && site.is_none_or(|site| self.paths.contains_key(&(key.clone(), site)));
        if is_on_path {
            self.calls.entry((key, site)).or_default().add(calls, time_s);
        }
    }

    /// Compares, when all rows are added. The calls of a path may be without site where there were
    /// too many of these. Where a rank found no room for all counters, the counter of a path may
    /// have had its place and that of its calls none: such a profile is `incomplete`.
    pub fn finish(self, incomplete: Option<&'static str>, findings: &mut Findings) {
        let mut paths: Vec<_> = self.paths.iter().collect();
        paths.sort_by_key(|(key, _)| *key);
        for ((key, site), on_paths) in paths {
            let of = |site: Option<SiteId>| self.calls.get(&(key.clone(), site)).copied().unwrap_or_default();
            let (own, without) = (of(Some(*site)), of(None));
            let (calls, time_s) = (own.calls.saturating_add(without.calls), own.time_s + without.time_s);
            let rows = own.rows + without.rows + on_paths.rows;
            if on_paths.calls > calls || on_paths.time_s > time_s + ROUNDING_S * rows as f64 {
                let (comm, rank, call) = key;
                let rank = rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
                findings.differs_unless(incomplete, Check::Rows, || {
                    format!(
                        "paths have {} calls of {call}{rank} on {comm} at site {site}, {:.9} s, and there are {calls}, {time_s:.9} s",
                        on_paths.calls, on_paths.time_s
                    )
                });
            }
        }
    }
}

fn sites(profile: &Profile, findings: &mut Findings) -> Result<HashSet<SiteId>, ProfileError> {
    let mut sites = HashSet::new();
    for row in profile.rows_if_any::<SiteRow>()? {
        let SiteRow { site, module, offset, line, .. } = row?;
        if !sites.insert(site) {
            findings.differs(Check::Rows, || format!("site {site} is in sites.csv more than once"));
        }
        let digits = offset.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let is_of_script = module.is_empty() && offset.is_empty() && line.is_some();
        if digits.is_none() && !is_of_script {
            findings.differs(Check::Rows, || {
                format!("site {site} has the address '{offset}' in sites.csv, which is none")
            });
        }
    }
    Ok(sites)
}

/// The first site of each path.
fn stacks(
    profile: &Profile,
    sites: &HashSet<SiteId>,
    findings: &mut Findings,
) -> Result<HashMap<PathId, SiteId>, ProfileError> {
    let mut stacks = HashMap::new();
    for row in profile.rows_if_any::<StackRow>()? {
        let StackRow { path, sites: listed } = row?;
        let parsed: Vec<Option<SiteId>> = listed.split(' ').map(|site| site.parse().ok()).collect();
        for (site, text) in parsed.iter().zip(listed.split(' ')) {
            if !site.is_some_and(|site| sites.contains(&site)) {
                findings.differs(Check::Rows, || {
                    format!("path {path} goes through '{text}' in stacks.csv, which is no site of sites.csv")
                });
            }
        }
        if let Some(first) = parsed.first().copied().flatten()
            && stacks.insert(path, first).is_some()
        {
            findings.differs(Check::Rows, || format!("path {path} is in stacks.csv more than once"));
        }
    }
    Ok(stacks)
}
