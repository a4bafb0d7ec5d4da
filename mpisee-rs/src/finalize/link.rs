//! How rows get from rank to rank: through the program's own MPI.

use super::TABLES;
use crate::abi::{Comm, Raw, STATUS_IGNORE, constant};
use crate::generated::pmpi;
use crate::process::Process;
use mpisee_profile::segment::layout::HOST_BYTES;
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
}

impl Link {
    /// A duplicate of the world; or the world itself, where there is no room for another communicator.
    pub fn open(process: &Process) -> Link {
        let world = Raw::new(process.predefined.world);
        let returning = Raw::new(process.predefined.errors_return);
        let mut handler = MaybeUninit::uninit();
        let mut comm = MaybeUninit::uninit();
        // SAFETY: the world is valid; the handler that the application set is put back as it was.
        unsafe {
            pmpi::MPI_Comm_get_errhandler.get()(world, handler.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, returning);
            let code = pmpi::MPI_Comm_dup.get()(world, comm.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, Raw::new(handler.assume_init()));
            pmpi::MPI_Errhandler_free.get()(handler.as_mut_ptr());
            if code != constant::SUCCESS {
                return Link { comm: process.predefined.world, owned: false };
            }
            let comm = comm.assume_init();
            pmpi::MPI_Comm_set_errhandler.get()(Raw::new(comm), returning);
            Link { comm, owned: true }
        }
    }

    /// A communicator that is given away.
    pub fn through(comm: Comm) -> Link {
        Link { comm, owned: true }
    }

    /// Ends it.
    pub fn close(mut self) {
        if self.owned {
            // SAFETY: the communicator is ours.
            unsafe { pmpi::MPI_Comm_free.get()(&raw mut self.comm) };
        }
    }

    /// The sums of `own` over all ranks, on rank 0.
    pub fn sum(&self, process: &Process, own: &[u64]) -> Vec<u64> {
        let mut sums = own.to_vec();
        let (datatype, op) = (Raw::new(process.predefined.u64), Raw::new(process.predefined.sum));
        let comm = Raw::new(self.comm);
        let (from, to) = (own.as_ptr().cast(), sums.as_mut_ptr().cast());
        // SAFETY: both buffers have as many elements as are said.
        unsafe { pmpi::MPI_Reduce.get()(from, to, own.len() as c_int, datatype, op, 0, comm) };
        sums
    }

    /// For each rank the number of its node, on rank 0; ranks with one host name are on one node.
    pub fn node_of_each_rank(&self, process: &Process) -> Vec<u32> {
        const WORDS: usize = HOST_BYTES / 8;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let own: Vec<u64> = process.segment.header().host.iter().map(load).collect();
        let is_root = process.world_rank == 0;
        let mut all = vec![0u64; if is_root { process.world_size as usize * WORDS } else { 0 }];
        let (datatype, comm) = (Raw::new(process.predefined.u64), Raw::new(self.comm));
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let count = WORDS as c_int;
        // SAFETY: rank 0 has room for the words of every rank, the others receive nothing.
        unsafe { pmpi::MPI_Gather.get()(from, count, datatype, to, count, datatype, 0, comm) };
        let mut numbers = HashMap::new();
        all.chunks_exact(WORDS)
            .map(|host| {
                let next = numbers.len() as u32;
                *numbers.entry(host.to_vec()).or_insert(next)
            })
            .collect()
    }

    /// Sends the own rows to rank 0, when it asks for them.
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

    /// The rows of another rank.
    pub fn receive(&self, process: &Process, rank: u32) -> [Vec<u8>; TABLES] {
        let (byte, u64s) = (Raw::new(process.predefined.byte), Raw::new(process.predefined.u64));
        let (comm, rank) = (Raw::new(self.comm), rank as c_int);
        let mut lengths = [0u64; TABLES];
        let places = lengths.as_mut_ptr().cast();
        // SAFETY: each buffer has as many elements as are said.
        unsafe {
            pmpi::MPI_Send.get()(std::ptr::dangling(), 0, byte, rank, 0, comm);
            pmpi::MPI_Recv.get()(places, TABLES as c_int, u64s, rank, 0, comm, STATUS_IGNORE);
        }
        lengths.map(|length| {
            let mut part = vec![0u8; length as usize];
            for piece in part.chunks_mut(PIECE) {
                let (place, count) = (piece.as_mut_ptr().cast(), piece.len() as c_int);
                // SAFETY: as above.
                unsafe { pmpi::MPI_Recv.get()(place, count, byte, rank, 0, comm, STATUS_IGNORE) };
            }
            part
        })
    }
}
