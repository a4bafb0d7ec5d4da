//! Checks that every rank of `MPI_COMM_WORLD` has one row in `ranks.csv`.

use super::explanation;
use super::findings::{Check, Findings};
use mpisee_profile::RunInfo;
use mpisee_profile::rows::RankRow;
use std::collections::HashSet;

/// Compares `ranks.csv` with the number of ranks in `run.json`.
pub fn check(run: &RunInfo, rows: &[RankRow], findings: &mut Findings) {
    let mut seen = HashSet::new();
    for row in rows {
        if !seen.insert(row.rank) {
            findings.differs(Check::Ranks, || format!("rank {} is in ranks.csv more than once", row.rank));
        }
        if row.rank >= run.ranks {
            findings.differs(Check::Ranks, || {
                format!("rank {} is in ranks.csv, and run.json has {} ranks", row.rank, run.ranks)
            });
        }
    }
    let missing = missing_ranges(run.ranks, seen);
    if let [first, rest @ ..] = missing.as_slice() {
        let because = explanation::incomplete(run);
        findings.differs_unless(because, Check::Ranks, || match (rest, first.contains('-')) {
            ([], false) => format!("rank {first} is not in ranks.csv"),
            _ => format!("ranks {} are not in ranks.csv", missing.join(",")),
        });
    }
}

/// The gaps in `0..ranks`, found without walking the ranks: the number may be a wrong one.
fn missing_ranges(ranks: u32, seen: HashSet<u32>) -> Vec<String> {
    let mut seen: Vec<u32> = seen.into_iter().filter(|&rank| rank < ranks).collect();
    seen.sort_unstable();
    let mut missing = Vec::new();
    let mut expected = 0;
    for rank in seen.into_iter().chain([ranks]) {
        match rank - expected {
            0 => {}
            1 => missing.push(expected.to_string()),
            _ => missing.push(format!("{expected}-{}", rank - 1)),
        }
        expected = rank.saturating_add(1);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::missing_ranges;

    #[test]
    fn gaps_are_found() {
        assert_eq!(missing_ranges(8, [1, 2, 5].into()), ["0", "3-4", "6-7"]);
        assert_eq!(missing_ranges(3, [0, 1, 2, 9].into()), Vec::<String>::new());
        assert_eq!(missing_ranges(u32::MAX, [0].into()), ["1-4294967294"]);
        assert_eq!(missing_ranges(0, [].into()), Vec::<String>::new());
    }
}
