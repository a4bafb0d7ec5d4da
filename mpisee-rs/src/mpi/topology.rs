//! Topologies of communicators: what the tables say of them, and who the neighbours are.

use crate::generated::pmpi;
use crate::mpi::abi::{Comm, Raw, constant};
use mpisee_profile::CommRank;
use std::ffi::c_int;

/// A topology.
pub struct Topology {
    /// As in the column of `comms.csv`.
    pub text: String,
    /// For each out-neighbour, in the order of neighbourhood collectives, whether it is a process.
    pub out_neighbours: Vec<bool>,
}

/// The kind of topology that a call makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TopologyKind {
    Cart,
    Graph,
    DistGraph,
}

/// The topology of a communicator that was created with this kind; `None` if MPI reports none. The
/// kind that MPI reports is not used: Open MPI 5.0 reports a graph below a Cartesian communicator
/// as Cartesian, and then reads out of bounds.
pub fn read(comm: Comm, rank: CommRank, kind: TopologyKind) -> Option<Topology> {
    let comm = Raw::new(comm);
    let mut known = constant::UNDEFINED;
    // SAFETY: the communicator is valid, the kind is written.
    unsafe { pmpi::MPI_Topo_test.get()(comm, &raw mut known) };
    (known != constant::UNDEFINED).then(|| match kind {
        TopologyKind::Cart => cart(comm),
        TopologyKind::Graph => graph(comm, rank),
        TopologyKind::DistGraph => dist_graph(comm),
    })
}

fn cart(comm: Raw<Comm>) -> Topology {
    let mut count = 0;
    // SAFETY: the communicator has a Cartesian topology; the count is written.
    unsafe { pmpi::MPI_Cartdim_get.get()(comm, &raw mut count) };
    let mut numbers = [const { Vec::new() }; 3];
    numbers.iter_mut().for_each(|numbers| numbers.resize(count as usize, 0));
    let [dims, periods, coords] = &mut numbers;
    // SAFETY: each array has room for `count` numbers.
    unsafe {
        pmpi::MPI_Cart_get.get()(comm, count, dims.as_mut_ptr(), periods.as_mut_ptr(), coords.as_mut_ptr())
    };
    let mut out_neighbours = Vec::new();
    for dimension in 0..count {
        let (mut below, mut above) = (constant::PROC_NULL, constant::PROC_NULL);
        // SAFETY: the dimension exists; both ranks are written.
        unsafe { pmpi::MPI_Cart_shift.get()(comm, dimension, 1, &raw mut below, &raw mut above) };
        out_neighbours.extend([below, above].map(|neighbour| neighbour != constant::PROC_NULL));
    }
    let joined = |numbers: &[c_int]| {
        let texts: Vec<String> = numbers.iter().map(c_int::to_string).collect();
        texts.join("x")
    };
    Topology { text: format!("cart dims={} periods={}", joined(dims), joined(periods)), out_neighbours }
}

fn graph(comm: Raw<Comm>, rank: CommRank) -> Topology {
    let (mut nodes, mut edges) = (0, 0);
    // SAFETY: the communicator has a graph topology; both numbers are written.
    unsafe { pmpi::MPI_Graphdims_get.get()(comm, &raw mut nodes, &raw mut edges) };
    let mut ends = vec![0; nodes as usize];
    let mut targets = vec![0; edges as usize];
    // SAFETY: the arrays have room for the numbers that are queried.
    unsafe { pmpi::MPI_Graph_get.get()(comm, nodes, edges, ends.as_mut_ptr(), targets.as_mut_ptr()) };
    // `ends` holds the sums of the degrees up to each node.
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let degrees: Vec<c_int> = ends.iter().zip(starts).map(|(end, start)| end - start).collect();
    let least = degrees.iter().min().copied().unwrap_or(0);
    let most = degrees.iter().max().copied().unwrap_or(0);
    let degree = if least == most { least.to_string() } else { format!("{least}-{most}") };
    let own = degrees.get(rank.index()).copied().unwrap_or(0);
    Topology { text: format!("graph degree={degree}"), out_neighbours: vec![true; own as usize] }
}

fn dist_graph(comm: Raw<Comm>) -> Topology {
    let (mut indegree, mut outdegree, mut weighted) = (0, 0, 0);
    // SAFETY: the communicator has a distributed graph topology; all three are written.
    unsafe {
        pmpi::MPI_Dist_graph_neighbors_count.get()(
            comm,
            &raw mut indegree,
            &raw mut outdegree,
            &raw mut weighted,
        )
    };
    Topology {
        text: format!("dist_graph in={indegree} out={outdegree}"),
        out_neighbours: vec![true; outdegree as usize],
    }
}
