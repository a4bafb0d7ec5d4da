//! One run of a replay under one setting of the MPI: what `mpisee-bench tune` asks of the ranks
//! that it starts, and what they report.

use crate::replay::Item;
use mpisee_profile::network::NetworkMpi;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run's task for the ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The number of ranks of the profile.
    pub ranks: u32,
    /// The replays, one after the other.
    pub items: Vec<Item>,
    /// Control variables of MPI to report, beside those that choose algorithms.
    pub variables: Vec<String>,
    /// Files that each rank has to see with the contents that rank 0 sees.
    pub files: Vec<PathBuf>,
    /// True if to report the library's own selection of algorithms.
    pub wants_selection: bool,
}

/// The report of the ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The MPI.
    pub mpi: NetworkMpi,
    /// The circumstances for people.
    pub setting: String,
    /// The number of nodes.
    pub nodes: usize,
    /// By item, the mean time of a call in the fastest repetition, in seconds.
    pub times_s: Vec<f64>,
    /// The control variables, which have the same value on all ranks.
    pub variables: Vec<Variable>,
    /// The tree by which MPICH's library selects algorithms, as JSON, if it was asked for and
    /// found.
    pub selection: Option<String>,
}

/// A control variable of MPI's tool interface (MPI_T).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The name.
    pub name: String,
    /// The MPI's description of it.
    pub description: String,
    /// The value: a number or a text.
    pub value: String,
    /// Names of its values, where the MPI enumerates them.
    pub names: Vec<(i64, String)>,
}

impl Report {
    /// The variable of that name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|it| it.name == name)
    }
}
