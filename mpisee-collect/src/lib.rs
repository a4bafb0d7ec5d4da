//! From the segments of a run's ranks to its profile, without MPI: at `MPI_Finalize`, where the last rank of a node to
//! arrive writes what all of them counted, and when a profile is recovered.

pub mod output;
pub mod profile;
pub mod roll;
pub mod segments;
