//! From the segments of a run's ranks to its profile, without MPI: at `MPI_Finalize`, and when a
//! profile is recovered.
//!
//! * [`process`]: which process it is, and of which job; [`segments`], [`node_ranks`]: segments of
//!   processes on this node;
//! * [`rank_tables`], [`arrivals`], [`messages`], [`order`], [`site_tables`]: from a segment to
//!   rows; [`form`]: as rows or text; [`overhead`]: what recording took; [`gpu`]: accesses of GPU
//!   kernels, joined with the owners of the memory;
//! * [`devices`]: GPUs and network adapters of the nodes; [`aggregate`]: sums over ranks, for
//!   profiles of very large jobs; [`wire`]: messages between ranks;
//! * [`run`]: what is said of the run as a whole; [`files`], [`nodes`], [`output_places`]: the
//!   files of a profile, and where they go; [`left_rows`]: what ranks prepare for the one that
//!   writes them;
//! * [`profile`]: all of this for the ranks of one node; [`gathering`]: for those of several nodes
//!   without MPI.

pub mod aggregate;
pub mod arrivals;
pub mod devices;
pub mod files;
pub mod form;
pub mod gathering;
pub mod gpu;
pub mod left_rows;
pub mod messages;
mod node_clock;
pub mod node_ranks;
pub mod nodes;
pub mod order;
pub mod output_places;
pub mod overhead;
pub mod process;
pub mod profile;
pub mod rank_tables;
pub mod run;
pub mod segments;
pub mod site_tables;
pub mod ticks;
pub mod wire;

pub use aggregate::Aggregate;
pub use rank_tables::RankTables;
