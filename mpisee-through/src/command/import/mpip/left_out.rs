//! Rows that mpiP leaves out of a report: those of ranks below its threshold (`-t`). The row of all
//! ranks of a site, `*`, has their calls.

use super::SiteRows;
use crate::units::count;
use std::collections::{BTreeMap, BTreeSet};

/// Calls of one operation of which the report does not name the ranks.
pub struct LeftOut {
    /// The ranks that may have made them.
    pub candidates: Vec<u32>,
    /// The numbers of the call sites.
    pub sites: Vec<u32>,
    /// The calls, over all of these ranks.
    pub calls: f64,
    /// Their time in milliseconds.
    pub time_ms: f64,
    /// The shortest and the longest of them in milliseconds, as far as they are known.
    pub extremes_ms: [f64; 2],
}

impl LeftOut {
    /// The calls of each candidate, as equal as whole numbers are.
    pub fn shares(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (calls, ranks) = (self.calls as u64, self.candidates.len() as u64);
        let shares = self.candidates.iter().zip(0..);
        shares.map(move |(&rank, at)| (rank, calls / ranks + u64::from(at < calls % ranks)))
    }

    fn add(&mut self, other: &LeftOut) {
        self.sites.extend(&other.sites);
        self.calls += other.calls;
        self.time_ms += other.time_ms;
        self.extremes_ms[0] = self.extremes_ms[0].min(other.extremes_ms[0]);
        self.extremes_ms[1] = self.extremes_ms[1].max(other.extremes_ms[1]);
    }
}

/// A site's operation and number.
type Place<'r> = (&'r str, u32);

/// The calls that are left out, by operation: those of sites with the same candidates are one.
pub fn find<'r>(
    sites: &BTreeMap<Place<'r>, SiteRows>,
    with_sizes: &BTreeMap<Place<'r>, BTreeSet<u32>>,
    ranks: u32,
) -> Vec<(&'r str, LeftOut)> {
    let mut sums: BTreeMap<(&str, Vec<u32>), LeftOut> = BTreeMap::new();
    for (&(name, site), rows) in sites {
        let Some(rest) = rest_of(rows) else { continue };
        let named = |rank: &u32| rows.ranks.contains_key(rank);
        let by_size = with_sizes.get(&(name, site));
        let candidates: Vec<u32> = match by_size {
            Some(by_size) => by_size.iter().copied().filter(|rank| !named(rank)).collect(),
            None => (0..ranks).filter(|rank| !named(rank)).collect(),
        };
        let by_exclusion: Vec<u32> =
            match by_size.is_none() && has_site_per_rank(name, sites, with_sizes, ranks) {
                true => {
                    let of_others = |rank: &u32| {
                        let same = |(&(other, at), rows): (&Place<'_>, &SiteRows)| {
                            other == name && at != site && rows.ranks.contains_key(rank)
                        };
                        sites.iter().any(same)
                    };
                    candidates.iter().copied().filter(|rank| !of_others(rank)).collect()
                }
                false => candidates.clone(),
            };
        let fallbacks = [by_exclusion, candidates, (0..ranks).collect()];
        let candidates = fallbacks.into_iter().find(|ranks| !ranks.is_empty()).unwrap_or_default();
        let rest = LeftOut { candidates: candidates.clone(), sites: vec![site], ..rest };
        sums.entry((name, candidates)).and_modify(|sum| sum.add(&rest)).or_insert(rest);
    }
    sums.into_iter().map(|((name, _), rest)| (name, rest)).collect()
}

/// Returns whether each rank has its own site of an operation, as where the system loads a program
/// at other addresses in each process: sites with sizes, which no threshold leaves out, then have
/// one rank each.
fn has_site_per_rank(
    name: &str,
    sites: &BTreeMap<Place<'_>, SiteRows>,
    with_sizes: &BTreeMap<Place<'_>, BTreeSet<u32>>,
    ranks: u32,
) -> bool {
    let are_apart = !with_sizes.is_empty() && with_sizes.values().all(|ranks| ranks.len() == 1);
    let of_operation = sites.keys().filter(|(other, _)| *other == name).count();
    are_apart && of_operation == ranks as usize
}

/// The calls of a site beyond those of the ranks that are named.
fn rest_of(rows: &SiteRows) -> Option<LeftOut> {
    let [all, most, mean, least] = rows.all?;
    let named: f64 = rows.ranks.values().map(|[count, ..]| count).sum();
    let named_ms: f64 = rows.ranks.values().map(|[count, _, mean, _]| count * mean).sum();
    let calls = all - named;
    if calls.is_nan() || calls < 1.0 {
        return None;
    }
    let time_ms = (all * mean - named_ms).max(0.0);
    let rest_mean = time_ms / calls;
    // What a named rank has may be that of this rank alone.
    let is_of_named = |at: usize, value: f64| rows.ranks.values().any(|numbers| numbers[at] == value);
    // A report made with -l has 0 here where a rank has no call.
    let is_known = least > 0.0 && !is_of_named(3, least);
    let least = if is_known { least.min(rest_mean) } else { rest_mean };
    let most = if is_of_named(1, most) { rest_mean } else { most.max(rest_mean) };
    Some(LeftOut { candidates: Vec::new(), sites: Vec::new(), calls, time_ms, extremes_ms: [least, most] })
}

/// A sentence on the calls of which the ranks are unknown; none if the ranks of all calls are
/// known.
pub fn sentence(left_out: &[(&str, LeftOut)], all_ms: f64, options: &str) -> Option<String> {
    let unknown = || left_out.iter().map(|(_, rest)| rest).filter(|rest| rest.candidates.len() > 1);
    let calls: f64 = unknown().map(|rest| rest.calls).sum();
    let time_ms: f64 = unknown().map(|rest| rest.time_ms).sum();
    if calls < 1.0 {
        return None;
    }
    let given = if options.is_empty() { String::new() } else { format!(" (MPIP={options})") };
    Some(format!(
        "mpiP left out rows below its threshold{given}: of {}, with {:.0} % of the time in MPI, the report does not name the ranks. \
         These calls are spread evenly over the ranks that may have made them, so differences between these ranks are not shown",
        count(calls as u64, "call"),
        100.0 * time_ms / all_ms.max(f64::MIN_POSITIVE)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(all: Option<[f64; 4]>, ranks: &[(u32, [f64; 4])]) -> SiteRows {
        SiteRows { all, ranks: ranks.iter().copied().collect() }
    }

    #[test]
    fn one_candidate_gets_the_rest_and_several_share_it() {
        let sites = BTreeMap::from([
            (
                ("Barrier", 1),
                rows(Some([15.0, 9.0, 2.0, 1.0]), &[(0, [5.0, 9.0, 4.0, 1.0]), (1, [5.0, 3.0, 1.0, 1.0])]),
            ),
            (("Bcast", 2), rows(Some([7.0, 3.0, 2.0, 1.0]), &[])),
            (("Send", 3), rows(None, &[(0, [5.0, 9.0, 4.0, 1.0])])),
        ]);
        let found = find(&sites, &BTreeMap::new(), 3);
        let [(_, barrier), (_, bcast)] = found.as_slice() else { panic!("two have a rest") };
        assert_eq!((barrier.candidates.as_slice(), barrier.calls, barrier.time_ms), (&[2][..], 5.0, 5.0));
        assert_eq!(barrier.extremes_ms, [1.0, 1.0], "the longest call is that of rank 0");
        assert_eq!(bcast.shares().collect::<Vec<_>>(), [(0, 3), (1, 2), (2, 2)]);
        let said = sentence(&found, 40.0, "-t 60").unwrap();
        assert!(said.contains("(MPIP=-t 60): of 7 calls, with 35 % of the time"), "{said}");
    }

    #[test]
    fn a_least_time_of_ranks_without_calls_is_unknown() {
        let sites = BTreeMap::from([(("Bcast", 2), rows(Some([8.0, 3.0, 2.0, 0.0]), &[]))]);
        assert_eq!(find(&sites, &BTreeMap::new(), 2)[0].1.extremes_ms, [2.0, 3.0]);
    }

    #[test]
    fn ranks_with_sizes_and_sites_per_rank_narrow_the_choice() {
        let all = |calls: f64| rows(Some([calls, 1.0, 1.0, 1.0]), &[]);
        let sites = BTreeMap::from([
            (("Send", 1), all(4.0)),
            (("Barrier", 2), all(5.0)),
            (("Barrier", 3), rows(Some([5.0, 1.0, 1.0, 1.0]), &[(1, [5.0, 1.0, 1.0, 1.0])])),
        ]);
        let with_sizes = BTreeMap::from([(("Send", 1), BTreeSet::from([1]))]);
        let candidates = |found: Vec<(&str, LeftOut)>| -> Vec<Vec<u32>> {
            found.into_iter().map(|(_, rest)| rest.candidates).collect()
        };
        assert_eq!(candidates(find(&sites, &with_sizes, 2)), [vec![0], vec![1]]);
        let shared = BTreeMap::from([(("Send", 1), BTreeSet::from([0, 1]))]);
        assert_eq!(
            candidates(find(&sites, &shared, 2)),
            [vec![0, 1], vec![0, 1]],
            "a site may be of several ranks"
        );
    }
}
