//! The tables of MPI's own variables.

use super::Row;
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// `variables.csv`: one row per process, region and performance variable of the MPI library, with
/// `--mpi-t`.
///
/// Variables are read when MPI has started, where regions begin and end, where recording is
/// switched, and at the end. Growth between two readings is on the row of the innermost region that
/// the program was in. `run.json` describes the variables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct VariableRow {
    /// The process.
    pub rank: u32,
    /// The region, `solver/halo` for a nested one; empty outside of all regions.
    pub region: String,
    /// The variable's name.
    pub name: String,
    /// Its class: `counter`, `aggregate` or `timer` for what grows; `level`, `size`, `percentage`,
    /// `state`, `highwatermark`, `lowwatermark`, `generic`.
    pub class: String,
    /// Its value at the last reading in the region. Of a variable with several values, as for each
    /// process of `MPI_COMM_WORLD`, their sum; of watermarks the highest, or the lowest.
    pub value: f64,
    /// By how much it grew while this was the innermost region; empty for classes that do not grow.
    pub delta: Option<f64>,
    /// The smallest value that was read where the region began, ended, or was left for another one;
    /// empty for classes that grow.
    pub least: Option<f64>,
    /// The largest of these; empty for classes that grow.
    pub most: Option<f64>,
    /// Readings at the end of a stay in the region.
    pub readings: u64,
}

impl Row for VariableRow {
    const FILE: &'static str = "variables.csv";
}

/// `variable-totals.csv`: one row per region and performance variable, over ranks. It takes the
/// place of `variables.csv` in an aggregate profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Columns)]
pub struct VariableTotalRow {
    /// The region; empty outside of all regions.
    pub region: String,
    /// The variable's name.
    pub name: String,
    /// Its class, as in `variables.csv`.
    pub class: String,
    /// The number of ranks that read it in the region.
    pub ranks: u64,
    /// By how much it grew while this was the innermost region, over all ranks; empty for classes
    /// that do not grow.
    pub delta: Option<f64>,
    /// The sum over ranks of its value at the last reading in the region.
    pub value: f64,
    /// Of what grows the growth of the rank on which it was least; of others the smallest value
    /// that was read at a border of the region.
    pub least: f64,
    /// Of what grows the growth of the rank on which it was most; of others the largest value that
    /// was read at a border of the region.
    pub most: f64,
    /// The first rank with that.
    pub most_rank: u32,
    /// Readings at the end of a stay in the region, over all ranks.
    pub readings: u64,
}

impl Row for VariableTotalRow {
    const FILE: &'static str = "variable-totals.csv";
}
