//! The form in which rows are kept that a rank may have very many of.

use mpisee_profile::rows::Row;
use mpisee_profile::writer::{Begin, CsvText, to_csv};
use std::fmt::Debug;

/// As rows, or as text.
pub trait Form: Debug {
    /// Rows of a table.
    type Of<R: Row>: Default + Debug + Extend<R>;

    /// Adds a row whose first fields are those of `begin`.
    fn add<R: Row + Clone>(rows: &mut Self::Of<R>, begin: &Begin, row: &R);

    /// The rows as CSV text without a header row.
    fn into_csv<R: Row>(rows: Self::Of<R>) -> Vec<u8>;
}

/// As rows, which can be looked at.
#[derive(Debug)]
pub enum AsRows {}

/// As CSV text, which is written next.
///
/// PERF: no row is kept in memory beside the others, which takes as long as all else.
#[derive(Debug)]
pub enum AsText {}

impl Form for AsRows {
    type Of<R: Row> = Vec<R>;

    fn add<R: Row + Clone>(rows: &mut Vec<R>, _: &Begin, row: &R) {
        rows.push(row.clone());
    }

    fn into_csv<R: Row>(rows: Vec<R>) -> Vec<u8> {
        to_csv(&rows)
    }
}

impl Form for AsText {
    type Of<R: Row> = CsvText<R>;

    fn add<R: Row + Clone>(rows: &mut CsvText<R>, begin: &Begin, row: &R) {
        rows.add_after(begin, row);
    }

    fn into_csv<R: Row>(rows: CsvText<R>) -> Vec<u8> {
        rows.into_bytes()
    }
}
