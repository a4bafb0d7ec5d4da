//! `MPI_Intercomm_create` (MPI 4.1, 7.6.2).

use super::creation::{created, number_of};
use crate::mpi::abi::{Comm, Raw};
use crate::mpi::argument::HandlePtr;
use crate::naming;
use crate::recording::RecordedCall;
use crate::state::communicator::COMMUNICATORS;
use crate::state::world;
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use std::ffi::c_int;

/// `MPI_Intercomm_create`. Only the leaders have the peer communicator, and no member of one group
/// learns what the other was made of: the name is by the members of both groups and the tag. Its
/// row is on the local communicator.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn intercomm_create(
    local: Raw<Comm>,
    leader: c_int,
    peer: Raw<Comm>,
    tag: c_int,
    new: HandlePtr<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = RecordedCall::if_tracking() else { return make() };
    let operation = Operation::IntercommCreate;
    let own = COMMUNICATORS.get(local.get());
    let (code, ticks) = call.time(operation, number_of(own.as_ref()), make);
    call.record(|recorder| {
        let Some(own) = &own else { return world::not_seen(NotSeen::UnknownCommunicator) };
        recorder.count_time(own.id, operation, ticks);
        // SAFETY: the call has returned this code, and a call that succeeded has stored a handle
        // there.
        if let Some(comm) = unsafe { created(recorder.world, code, new) } {
            // Elsewhere the peer communicator is not significant.
            let is_leader = leader == own.rank.to_mpi();
            let peer = is_leader.then(|| COMMUNICATORS.get(peer.get())).flatten();
            naming::enter_between(recorder.world, comm, own, peer.as_ref(), &tag.to_ne_bytes());
        }
    });
    code
}
