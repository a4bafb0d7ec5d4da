//! Turns the segments of a run's ranks into its profile, without MPI: at `MPI_Finalize`, where the last rank of a node
//! to arrive writes the profile of all, and when a profile is recovered.

pub mod output;
pub mod profile;
pub mod roll;
pub mod segments;
