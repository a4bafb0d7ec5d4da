//! What the rules judge by: a profile summed up by communicator, operation and size.

use crate::filter::CallFilter;
use crate::group::{By, Cell, Groups, Key, seconds};
use crate::processes::Processes;
use crate::shape::{self, Shape};
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::rows::CommRow;
use mpisee_profile::{Kind, Operation, ProfileError};
use std::collections::BTreeMap;

/// Calls, bytes and time of one size class.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfSize {
    pub size_min: u64,
    pub size_max: u64,
    pub calls: u64,
    pub bytes: u64,
    pub time_s: f64,
}

/// An operation on a communicator.
#[derive(Clone, Debug)]
pub struct Used {
    pub call: String,
    pub kind: Option<Kind>,
    pub calls: u64,
    pub bytes: u64,
    pub time_s: f64,
    /// Rank and seconds, for the ranks that used it.
    pub ranks: Vec<(u32, f64)>,
    pub sizes: Vec<OfSize>,
}

/// A communicator with what happened on it.
#[derive(Clone, Debug)]
pub struct Comm<'a> {
    pub name: String,
    pub row: Option<&'a CommRow>,
    pub shape: Shape,
    pub used: Vec<Used>,
}

impl Comm<'_> {
    /// How many processes it has; 0 if nobody knows.
    pub fn size(&self) -> u32 {
        self.row.map_or(0, |row| row.size)
    }

    /// The operation of that name, if it was used.
    pub fn call(&self, call: &str) -> Option<&Used> {
        self.used.iter().find(|used| used.call == call)
    }

    /// The time in the operations that are chosen.
    pub fn time_s(&self, chosen: impl Fn(&Used) -> bool) -> f64 {
        self.used.iter().filter(|used| chosen(used)).map(|used| used.time_s).sum()
    }
}

/// What the rules judge by.
pub struct Facts<'a> {
    pub processes: &'a Processes,
    /// The MPI library's description and the flavour that recorded.
    pub library: String,
    pub flavour: String,
    /// Processes in the profile.
    pub ranks: u64,
    /// The wall time of the longest rank.
    pub runtime_s: f64,
    /// The time in MPI, over all ranks.
    pub mpi_s: f64,
    /// How many ranks the fullest node has.
    pub ranks_per_node: u32,
    /// Communicators with or without calls, by name.
    pub comms: BTreeMap<String, Comm<'a>>,
    pub cut_off: Option<ProfileError>,
}

impl<'a> Facts<'a> {
    /// Sums the profile up.
    pub fn gather(view: &'a ProfileView) -> Result<Self> {
        let processes = view.processes();
        let everything = CallFilter::default();
        let by = By { comm: true, call: true, ..By::default() };
        let mut groups = view.group(&everything, by)?;
        let by_size = By { size: true, without_times: true, ..by };
        let sizes = view.group(&everything, by_size)?;
        let mut comms = known_comms(processes);
        for (key, cell) in &groups.cells {
            let name = groups.comm(key);
            let comm = comms.entry(name.to_owned()).or_insert_with(|| Comm {
                name: name.to_owned(),
                row: None,
                shape: Shape::Other,
                used: Vec::new(),
            });
            comm.used.push(used(&groups, key, cell));
        }
        for (key, cell) in &sizes.cells {
            let comm = comms.get_mut(sizes.comm(key));
            if let Some(used) = comm.and_then(|comm| {
                let call = sizes.call(key);
                comm.used.iter_mut().find(|used| used.call == call)
            }) {
                let (size_min, size_max) = sizes.size(key);
                let (calls, bytes) = (cell.calls, cell.bytes);
                used.sizes.push(OfSize { size_min, size_max, calls, bytes, time_s: cell.time_s() });
            }
        }
        Ok(Facts {
            processes,
            library: view.run().mpi.library.clone(),
            flavour: view.run().mpi.flavour.clone(),
            ranks: processes.count(),
            runtime_s: processes.wall_max_s(),
            mpi_s: processes.mpi_s(),
            ranks_per_node: u32::try_from(processes.ranks_per_node()).unwrap_or(u32::MAX),
            comms,
            cut_off: groups.cut_off.take(),
        })
    }

    /// A time over all ranks, by that of all ranks.
    pub fn share_of_run(&self, time_s: f64) -> f64 {
        let all_s = self.runtime_s * self.ranks as f64;
        if all_s > 0.0 { time_s / all_s } else { 0.0 }
    }
}

fn known_comms(processes: &Processes) -> BTreeMap<String, Comm<'_>> {
    let rows: Vec<CommRow> = processes.comms.values().cloned().collect();
    let shapes = shape::shapes(&rows, processes);
    let comm = |(row, shape): (&CommRow, Shape)| {
        let known = processes.comms.get(&row.comm);
        (row.comm.clone(), Comm { name: row.comm.clone(), row: known, shape, used: Vec::new() })
    };
    rows.iter().zip(shapes).map(comm).collect()
}

fn used(groups: &Groups, key: &Key, cell: &Cell) -> Used {
    let call = groups.call(key);
    Used {
        call: call.to_owned(),
        kind: Operation::from_name(call).map(Operation::kind),
        calls: cell.calls,
        bytes: cell.bytes,
        time_s: cell.time_s(),
        ranks: cell.ranks.each().map(|(rank, time_ns)| (rank, seconds(time_ns))).collect(),
        sizes: Vec::new(),
    }
}
