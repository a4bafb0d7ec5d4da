//! Variables of MPI over ranks.

use super::check::is_sorted;
use super::sums::{Join, merge, merge_equal_keys};
use mpisee_profile::rows::{VariableRow, VariableTotalRow};
use serde::{Deserialize, Serialize};

/// Rows that are kept: those with the first names, which are the same in whatever order ranks are
/// merged.
const MOST_ROWS: usize = 1 << 16;

/// Counts of MPI's variables, summed over some ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VariableSums {
    /// By region and variable.
    rows: Vec<((String, String), OverRanks)>,
    /// True if there were more.
    has_more: bool,
}

/// The sums of a row of `variable-totals.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OverRanks {
    class: String,
    ranks: u64,
    delta: Option<f64>,
    value: f64,
    least: f64,
    most: f64,
    most_rank: u32,
    readings: u64,
}

impl Join for OverRanks {
    fn join(&mut self, other: Self) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.delta = match (self.delta, other.delta) {
            (Some(one), Some(more)) => Some(one + more),
            (one, more) => one.or(more),
        };
        self.value += other.value;
        self.least = self.least.min(other.least);
        if (other.most, self.most_rank) > (self.most, other.most_rank) {
            (self.most, self.most_rank) = (other.most, other.most_rank);
        }
        self.readings = self.readings.saturating_add(other.readings);
    }
}

impl VariableSums {
    /// Of one rank.
    pub(super) fn from_rows(rows: &[VariableRow]) -> VariableSums {
        let row = |row: &VariableRow| {
            let own = row.delta.unwrap_or(row.value);
            let sums = OverRanks {
                class: row.class.clone(),
                ranks: 1,
                delta: row.delta,
                value: row.value,
                least: row.least.unwrap_or(own),
                most: row.most.unwrap_or(own),
                most_rank: row.rank,
                readings: row.readings,
            };
            ((row.region.clone(), row.name.clone()), sums)
        };
        let mut sums =
            VariableSums { rows: merge_equal_keys(rows.iter().map(row).collect()), has_more: false };
        sums.bound();
        sums
    }

    /// Adds those of other ranks.
    pub(super) fn merge(&mut self, other: VariableSums) {
        merge(&mut self.rows, other.rows);
        self.has_more |= other.has_more;
        self.bound();
    }

    fn bound(&mut self) {
        self.has_more |= self.rows.len() > MOST_ROWS;
        self.rows.truncate(MOST_ROWS);
    }

    /// Returns whether the rows are in order, and not more than there may be.
    pub(super) fn is_sound(&self) -> bool {
        is_sorted(&self.rows) && self.rows.len() <= MOST_ROWS
    }

    /// The rows of `variable-totals.csv`.
    pub(super) fn rows(&self) -> Vec<VariableTotalRow> {
        let row = |((region, name), sums): &((String, String), OverRanks)| VariableTotalRow {
            region: region.clone(),
            name: name.clone(),
            class: sums.class.clone(),
            ranks: sums.ranks,
            delta: sums.delta,
            value: sums.value,
            least: sums.least,
            most: sums.most,
            most_rank: sums.most_rank,
            readings: sums.readings,
        };
        self.rows.iter().map(row).collect()
    }

    /// A sentence for `run.json` if rows were left out.
    pub(super) fn note(&self) -> Option<String> {
        self.has_more.then(|| {
            format!(
                "variable-totals.csv has the first {MOST_ROWS} variables in regions; the program has more"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rank: u32, name: &str, delta: Option<f64>, [value, least, most]: [f64; 3]) -> VariableRow {
        let other = |number| Some(number).filter(|_| delta.is_none());
        VariableRow {
            rank,
            region: "solver".to_owned(),
            name: name.to_owned(),
            class: if delta.is_some() { "counter" } else { "level" }.to_owned(),
            value,
            delta,
            least: other(least),
            most: other(most),
            readings: 3,
        }
    }

    #[test]
    fn ranks_add_up_in_any_order() {
        let of = |rank: u32| {
            let grown = f64::from(rank * rank) + 1.0;
            VariableSums::from_rows(&[
                row(rank, "sent", Some(grown), [grown + 100.0; 3]),
                row(rank, "queued", None, [2.0, f64::from(rank), 9.0]),
            ])
        };
        let all = |order: [u32; 3]| {
            let mut sums = VariableSums::default();
            order.into_iter().for_each(|rank| sums.merge(of(rank)));
            sums
        };
        let sums = all([0, 1, 2]);
        assert!(sums.is_sound());
        for order in [[2, 1, 0], [1, 0, 2]] {
            assert_eq!(all(order), sums);
        }
        let total =
            |name: &str, class: &str, delta, value, [least, most]: [f64; 2], most_rank| VariableTotalRow {
                region: "solver".to_owned(),
                name: name.to_owned(),
                class: class.to_owned(),
                ranks: 3,
                delta,
                value,
                least,
                most,
                most_rank,
                readings: 9,
            };
        let expected = [
            total("queued", "level", None, 6.0, [0.0, 9.0], 0),
            total("sent", "counter", Some(8.0), 308.0, [1.0, 5.0], 2),
        ];
        assert_eq!(sums.rows(), expected);
    }

    #[test]
    fn the_first_names_are_kept_where_there_are_too_many() {
        let rows = (0..MOST_ROWS + 1).map(|number| row(0, &format!("{number:06}"), Some(1.0), [1.0; 3]));
        let mut sums = VariableSums::from_rows(&rows.collect::<Vec<_>>());
        assert!(sums.note().is_some());
        sums.merge(VariableSums::from_rows(&[
            row(1, "a", Some(1.0), [1.0; 3]),
            row(1, "000000", Some(2.0), [2.0; 3]),
        ]));
        let rows = sums.rows();
        assert_eq!(
            (rows.len(), rows[0].delta, rows.last().map(|row| row.name.as_str())),
            (MOST_ROWS, Some(3.0), Some("065535"))
        );
    }
}
