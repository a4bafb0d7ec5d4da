//! `MPI_Intercomm_create` (MPI 4.1, 7.6.2), whose two groups agree through their leaders.

use super::creation::{created, number_of};
use crate::abi::{Comm, Datatype, Raw, STATUS_IGNORE};
use crate::argument::Place;
use crate::communicator::Communicator;
use crate::generated::pmpi;
use crate::naming::{self, Birth, Number, Parent};
use crate::process::{self, COMMUNICATORS, Process};
use crate::record::Call;
use mpisee_profile::Operation;
use mpisee_profile::segment::NotSeen;
use std::ffi::{c_int, c_void};

/// `MPI_Intercomm_create`. Its name is below the peer communicator, in which only the two leaders need to
/// be: they agree there, and tell their groups. Its row is on the local communicator.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn intercomm_create(
    local: Raw<Comm>,
    local_leader: c_int,
    peer: Raw<Comm>,
    remote_leader: c_int,
    tag: c_int,
    new: Place<Comm>,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(call) = Call::tracked() else { return make() };
    let operation = Operation::IntercommCreate;
    let birth = Birth::by(operation);
    let own = COMMUNICATORS.get(local.get());
    call.begin(operation, number_of(own.as_ref()));
    let mut agreed = None;
    call.record(|recorder| {
        // With processes of other worlds in the own group nothing is agreed.
        if let Some(own) = own.as_ref().filter(|own| !own.has_outsiders) {
            let leaders = Leaders { own, local_leader, peer, remote_leader, tag };
            agreed = Some(leaders.agree(recorder.process));
        }
    });
    let (code, ticks) = call.time_begun(make);
    call.record(|recorder| {
        let Some(own) = &own else { return process::not_seen(NotSeen::UnknownCommunicator) };
        recorder.count_time(own.id, operation, ticks);
        let Some(agreed) = &agreed else { return };
        // SAFETY: the caller's promise.
        if let Some(comm) = unsafe { created(recorder.process, code, new) } {
            let parent = Parent::Named(&agreed.peer_name, agreed.smallest_leader);
            naming::enter(recorder.process, comm, &parent, birth, agreed.number);
        } else {
            agreed.number.give_back(recorder.process);
        }
    });
    code
}

/// The agreement on an intercommunicator.
struct Leaders<'c> {
    own: &'c Communicator,
    local_leader: c_int,
    peer: Raw<Comm>,
    remote_leader: c_int,
    tag: c_int,
}

/// What is agreed, equal in both groups.
struct Agreed {
    number: Number,
    /// The smaller of the leaders' ranks in the peer communicator; the own leader's, where the other is of
    /// another world.
    smallest_leader: u32,
    peer_name: String,
}

/// Bytes of a name that travel; a longer one is cut, alike on all members.
const NAME_BYTES: usize = 1024;

impl Leaders<'_> {
    fn agree(&self, process: &Process) -> Agreed {
        let mut n = naming::largest(process, self.own, process.so_far()) as c_int;
        let mut name = Vec::new();
        let mut smallest_leader = 0;
        if self.own.rank as c_int == self.local_leader {
            smallest_leader = process::rank(self.peer.get()) as c_int;
            // A leader of another world may not have the profiler, and never answer.
            if !naming::is_outside(process, self.peer.get(), self.remote_leader) {
                n = n.max(self.exchange(process, n));
                smallest_leader = smallest_leader.min(self.remote_leader);
            }
            let peer = COMMUNICATORS.get(self.peer.get());
            naming::finish_duplications(process, false);
            let peer_name = peer.map(|peer| process.folding.name(&process.segment, peer.id));
            name = peer_name.unwrap_or_default().into_bytes();
            name.truncate(NAME_BYTES);
        }
        let mut numbers = [n, smallest_leader, name.len() as c_int];
        let int = Raw::new(process.predefined.int);
        self.broadcast(numbers.as_mut_ptr().cast(), 3, int);
        name.resize(numbers[2].clamp(0, NAME_BYTES as c_int) as usize, 0);
        let byte = Raw::new(process.predefined.byte);
        self.broadcast(name.as_mut_ptr().cast(), name.len() as c_int, byte);
        Agreed {
            number: Number::agreed(process, numbers[0] as u32),
            smallest_leader: numbers[1] as u32,
            peer_name: String::from_utf8_lossy(&name).into_owned(),
        }
    }

    /// The leaders' messages have the tag that the application set aside for this call (MPI 4.1, 7.6.2), and
    /// come before those of the call itself.
    fn exchange(&self, process: &Process, own: c_int) -> c_int {
        let mut other = own;
        let int = Raw::new(process.predefined.int);
        // SAFETY: one int is sent, one received; both leaders are in this call.
        unsafe {
            pmpi::MPI_Sendrecv.get()(
                (&raw const own).cast(),
                1,
                int,
                self.remote_leader,
                self.tag,
                (&raw mut other).cast(),
                1,
                int,
                self.remote_leader,
                self.tag,
                self.peer,
                STATUS_IGNORE,
            )
        };
        other
    }

    fn broadcast(&self, buffer: *mut c_void, count: c_int, datatype: Raw<Datatype>) {
        if self.own.size > 1 && count > 0 {
            let comm = Raw::new(self.own.comm);
            // SAFETY: every process of the local communicator passes as many elements.
            unsafe { pmpi::MPI_Bcast.get()(buffer, count, datatype, self.local_leader, comm) };
        }
    }
}
