//! Failures that all ranks agree on, so that none is left waiting for the others.

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// Something cannot be done, on any rank. The first rank that found out has the reason.
pub struct Failed(pub Option<String>);

/// The results of all ranks: each its own, or a failure on all if one has failed.
pub fn agree<T>(world: &SimpleCommunicator, result: Result<T, String>) -> Result<T, Failed> {
    let (rank, nobody) = (world.rank(), world.size());
    let own = if result.is_err() { rank } else { nobody };
    let mut first = nobody;
    world.all_reduce_into(&own, &mut first, SystemOperation::min());
    match result {
        Ok(value) if first == nobody => Ok(value),
        Err(why) if first == rank => Err(Failed(Some(why))),
        _ => Err(Failed(None)),
    }
}
