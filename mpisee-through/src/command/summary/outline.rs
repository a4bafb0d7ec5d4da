//! A run in a few words, for a list of profiles.

use crate::units::to_nine_decimals;
use crate::view::ProfileView;
use anyhow::Result;
use serde::Serialize;
use std::path::Path;

/// A run in a few words.
#[derive(Clone, Debug, Serialize)]
pub struct Outline {
    /// The program, without its folder.
    pub program: String,
    /// The command line.
    pub command: Vec<String>,
    /// Ranks in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// Nodes of these.
    pub nodes: u32,
    /// When the run began, UTC.
    pub start: String,
    /// Of the rank that took longest.
    pub wall_s: f64,
    /// MPI time of all ranks by wall time of all ranks, of each thread that calls MPI, from 0 to 1;
    /// `None` where that is not known.
    pub mpi_share: Option<f64>,
    /// False if a rank is missing, or ended without `MPI_Finalize`.
    pub complete: bool,
}

/// Reads the small tables of a profile.
pub fn outline(profile: &Path) -> Result<Outline> {
    let view = ProfileView::open(profile)?;
    let (run, processes) = (view.run(), view.processes());
    Ok(Outline {
        program: view.program(),
        command: run.command.clone(),
        ranks: run.ranks,
        nodes: run.nodes,
        start: run.start.clone(),
        wall_s: to_nine_decimals(processes.wall_max_s()),
        mpi_share: processes.mpi_share().map(to_nine_decimals),
        complete: run.complete,
    })
}
