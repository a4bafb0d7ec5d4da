//! How rows get from rank to rank: through the program's own MPI.

use crate::abi::{Comm, Raw, STATUS_IGNORE, constant, is_fault_tolerant};
use crate::generated::pmpi;
use crate::naming::Membership;
use crate::process::{self, Process};
use mpisee_profile::RankSet;
use mpisee_profile::files::TABLES;
use mpisee_profile::segment::layout::HOST_BYTES;
use mpisee_profile::segment::log::Runs;
use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that travel at a time.
const PIECE: usize = 1 << 20;

/// What connects the ranks: a communicator of our own, on which errors are returned.
pub struct Link {
    comm: Comm,
    owned: bool,
    /// The own rank in it.
    pub rank: u32,
    /// The world ranks of its processes, in its order: of all, but in a run that outlives some.
    members: Runs,
}

impl Link {
    /// A duplicate of the world; or the world itself, where there is no room for another communicator. Where the
    /// run may go on without some processes, a communicator of those that are still there; where some of the world have
    /// no profiler, one of the others.
    pub fn open(process: &Process) -> Link {
        if process.companions.is_partial() {
            let comm = process.companions.communicator();
            return Link::of(process, comm.unwrap_or(process.predefined.itself), comm.is_some());
        }
        let world = Raw::new(process.predefined.world);
        let returning = Raw::new(process.predefined.errors_return);
        let mut handler = MaybeUninit::uninit();
        let mut comm = MaybeUninit::uninit();
        let create =
            if is_fault_tolerant() { pmpi::MPIX_Comm_shrink.get() } else { pmpi::MPI_Comm_dup.get() };
        // SAFETY: the world is valid; the handler that the application set is put back as it was.
        unsafe {
            pmpi::MPI_Comm_get_errhandler.get()(world, handler.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, returning);
            let code = create(world, comm.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, Raw::new(handler.assume_init()));
            pmpi::MPI_Errhandler_free.get()(handler.as_mut_ptr());
            if code != constant::SUCCESS {
                return Link::of(process, process.predefined.world, false);
            }
            let comm = comm.assume_init();
            pmpi::MPI_Comm_set_errhandler.get()(Raw::new(comm), returning);
            Link::of(process, comm, true)
        }
    }

    /// A communicator that is given away.
    pub fn through(process: &Process, comm: Comm) -> Link {
        Link::of(process, comm, true)
    }

    fn of(process: &Process, comm: Comm, owned: bool) -> Link {
        let members = Membership::of(process, comm).own;
        Link { comm, owned, rank: process::rank(comm), members }
    }

    /// How many ranks it connects.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// Those of its processes in the world, in its order.
    pub fn world_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter()
    }

    /// The ranks of the world that are not there any more.
    pub fn absent(&self, process: &Process) -> RankSet {
        if self.size() == process.world_size {
            return RankSet::default();
        }
        let there = self.members.to_set();
        (0..process.world_size).filter(|&rank| !there.contains(rank)).collect()
    }

    /// Ends it.
    pub fn close(mut self) {
        if self.owned {
            // SAFETY: the communicator is ours.
            unsafe { pmpi::MPI_Comm_free.get()(&raw mut self.comm) };
        }
    }

    /// The sums of `own` over all ranks, on the first.
    pub fn sum(&self, process: &Process, own: &[u64]) -> Vec<u64> {
        let mut sums = own.to_vec();
        let (datatype, op) = (Raw::new(process.predefined.u64), Raw::new(process.predefined.sum));
        let comm = Raw::new(self.comm);
        let (from, to) = (own.as_ptr().cast(), sums.as_mut_ptr().cast());
        // SAFETY: both buffers have as many elements as are said.
        unsafe { pmpi::MPI_Reduce.get()(from, to, own.len() as c_int, datatype, op, 0, comm) };
        sums
    }

    /// For each rank the number of its node, on the first; ranks with one host name are on one node.
    pub fn node_of_each_rank(&self, process: &Process) -> Vec<u32> {
        const WORDS: usize = HOST_BYTES / 8;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let own: Vec<u64> = process.segment.header().host.iter().map(load).collect();
        let mut all = vec![0u64; if self.rank == 0 { self.size() as usize * WORDS } else { 0 }];
        let (datatype, comm) = (Raw::new(process.predefined.u64), Raw::new(self.comm));
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let count = WORDS as c_int;
        // SAFETY: the first has room for the words of every rank, the others receive nothing.
        unsafe { pmpi::MPI_Gather.get()(from, count, datatype, to, count, datatype, 0, comm) };
        let mut numbers = HashMap::new();
        all.chunks_exact(WORDS)
            .map(|host| {
                let next = numbers.len() as u32;
                *numbers.entry(host.to_vec()).or_insert(next)
            })
            .collect()
    }

    /// Sends the own rows to the first rank, when it asks for them.
    pub fn send(&self, process: &Process, parts: &[Vec<u8>; TABLES]) {
        let mut lengths = [0u64; TABLES];
        lengths.iter_mut().zip(parts).for_each(|(length, part)| *length = part.len() as u64);
        let (byte, u64s) = (Raw::new(process.predefined.byte), Raw::new(process.predefined.u64));
        let comm = Raw::new(self.comm);
        // SAFETY: each buffer has as many elements as are said.
        unsafe {
            pmpi::MPI_Recv.get()(std::ptr::dangling_mut(), 0, byte, 0, 0, comm, STATUS_IGNORE);
            pmpi::MPI_Send.get()(lengths.as_ptr().cast(), TABLES as c_int, u64s, 0, 0, comm);
            for piece in parts.iter().flat_map(|part| part.chunks(PIECE)) {
                pmpi::MPI_Send.get()(piece.as_ptr().cast(), piece.len() as c_int, byte, 0, 0, comm);
            }
        }
    }

    /// The rows of another rank; `None` if it went away before it told all of them.
    pub fn receive(&self, process: &Process, rank: u32) -> Option<[Vec<u8>; TABLES]> {
        let (byte, u64s) = (Raw::new(process.predefined.byte), Raw::new(process.predefined.u64));
        let (comm, rank) = (Raw::new(self.comm), rank as c_int);
        let mut lengths = [0u64; TABLES];
        let places = lengths.as_mut_ptr().cast();
        // SAFETY: each buffer has as many elements as are said.
        let mut code = unsafe {
            pmpi::MPI_Send.get()(std::ptr::dangling(), 0, byte, rank, 0, comm);
            pmpi::MPI_Recv.get()(places, TABLES as c_int, u64s, rank, 0, comm, STATUS_IGNORE)
        };
        let parts = lengths.map(|length| {
            let mut part = vec![0u8; if code == constant::SUCCESS { length as usize } else { 0 }];
            for piece in part.chunks_mut(PIECE) {
                let (place, count) = (piece.as_mut_ptr().cast(), piece.len() as c_int);
                if code == constant::SUCCESS {
                    // SAFETY: as above.
                    code = unsafe { pmpi::MPI_Recv.get()(place, count, byte, rank, 0, comm, STATUS_IGNORE) };
                }
            }
            part
        });
        (code == constant::SUCCESS).then_some(parts)
    }
}
