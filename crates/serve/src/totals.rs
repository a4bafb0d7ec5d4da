//! Sums of a job's calls, as agents send them at its end.

use mpisee_through::library::live::Total;
use std::collections::BTreeMap;

/// Rows that are kept, those with most time.
const MOST: usize = 500;

/// The sums of a node or of a job.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Calls in all, those of rows that are not kept included.
    pub calls: u64,
    /// Bytes in all, likewise.
    pub bytes: u64,
    /// By communicator family and operation, those with most time first.
    pub rows: Vec<Total>,
}

impl Totals {
    /// Of all rows of a node.
    pub fn of_node(rows: &[Total]) -> Totals {
        let sum = |part: fn(&Total) -> u64| rows.iter().map(part).fold(0, u64::saturating_add);
        let (calls, bytes) = (sum(|row| row.calls), sum(|row| row.bytes));
        Totals { calls, bytes, rows: with_most_time(rows.iter().collect()) }
    }

    /// Of a job, from those of its nodes.
    pub fn of_job(nodes: &[&Totals]) -> Totals {
        let mut rows: BTreeMap<(&str, &str), Total> = BTreeMap::new();
        for row in nodes.iter().flat_map(|node| &node.rows) {
            match rows.get_mut(&(row.family.as_str(), row.call.as_str())) {
                Some(sum) => {
                    sum.calls = sum.calls.saturating_add(row.calls);
                    sum.bytes = sum.bytes.saturating_add(row.bytes);
                    sum.time_s += row.time_s;
                }
                None => {
                    rows.insert((&row.family, &row.call), row.clone());
                }
            }
        }
        let sum = |part: fn(&Totals) -> u64| nodes.iter().map(|node| part(node)).fold(0, u64::saturating_add);
        Totals {
            calls: sum(|node| node.calls),
            bytes: sum(|node| node.bytes),
            rows: with_most_time(rows.values().collect()),
        }
    }
}

fn with_most_time(mut rows: Vec<&Total>) -> Vec<Total> {
    rows.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    rows.into_iter().take(MOST).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_all_rows_and_those_with_most_time_stay() {
        let row = |number: u32| Total {
            family: format!("W_d{number:03}"),
            call: "MPI_Send".to_owned(),
            calls: 10,
            bytes: 80,
            time_s: f64::from(number),
        };
        let node = Totals::of_node(&(0..600).map(row).collect::<Vec<_>>());
        assert_eq!((node.calls, node.bytes, node.rows.len()), (6000, 48_000, 500));
        assert_eq!((&node.rows[0], &node.rows[499]), (&row(599), &row(100)));
        let job = Totals::of_job(&[&node, &node]);
        assert_eq!((job.calls, job.bytes, job.rows.len()), (12_000, 96_000, 500));
        assert_eq!(job.rows[0], Total { calls: 20, bytes: 160, time_s: 1198.0, ..row(599) });
    }
}
