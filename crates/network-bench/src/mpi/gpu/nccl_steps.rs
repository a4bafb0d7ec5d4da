//! The backend of NCCL: the messages of a step as a group, and collective operations.

use super::driver::Stream;
use super::nccl::{DataType, NcclComm, SUM, communicator, functions, must};
use crate::agree::{Failed, agree};
use crate::border::{Memory, RankMessage};
use crate::collective::{Buffers, own};
use crate::waiting::Waiting;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::collective::Collective;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::pattern::{CollectiveCall, Pattern};
use mpisee_bench::verification::{Element, View};
use std::os::raw::{c_int, c_void};

/// The messages of a step by `ncclSend` and `ncclRecv`, in one group.
pub struct NcclMessages {
    communicator: NcclComm,
    parts: Vec<(RankMessage, *mut c_void)>,
    stream: Stream,
    waiting: Waiting,
}

impl NcclMessages {
    /// The communicator of all ranks, together with these.
    pub fn communicator(world: &SimpleCommunicator) -> Result<NcclComm, Failed> {
        let all: Vec<u32> = (0..world.size() as u32).collect();
        let (member, members) = (world.rank() as u32, world.size() as u32);
        let view = View { collective: Collective::Barrier, member, members, bytes: 0, root: 0 };
        let made = communicator(world, vec![all], Some((0, view)))?;
        Ok(made.expect("every rank is a member"))
    }

    /// The parts of this rank, in the order in which both ends have them.
    pub fn new(
        world: &SimpleCommunicator,
        pattern: &Pattern,
        communicator: NcclComm,
        parts: &[RankMessage],
        arena: &Memory,
    ) -> Result<Self, String> {
        Ok(NcclMessages {
            communicator,
            parts: parts.iter().map(|&part| (part, arena.at(part.offset))).collect(),
            stream: Stream::new()?,
            waiting: Waiting::new(world, pattern),
        })
    }

    /// Starts all messages.
    pub fn start(&mut self) {
        let nccl = functions();
        let (comm, stream) = (self.communicator.handle, self.stream.handle());
        // SAFETY: the addresses are of an arena with that many bytes from there on, as
        // `Pattern::arena` counts all that is touched; it outlives the carrier. No other message of
        // the step writes there (`Pattern::check`).
        unsafe {
            must("ncclGroupStart", (nccl.group_start)());
            for &(RankMessage { peer, is_source, bytes, .. }, address) in &self.parts {
                let bytes = bytes as usize;
                match is_source {
                    true => {
                        must("ncclSend", (nccl.send)(address, bytes, DataType::Uint8, peer, comm, stream))
                    }
                    false => {
                        must("ncclRecv", (nccl.recv)(address, bytes, DataType::Uint8, peer, comm, stream))
                    }
                }
            }
            must("ncclGroupEnd", (nccl.group_end)());
        }
    }

    /// Waits for all messages.
    pub fn wait(&mut self) {
        self.waiting.until(|| self.stream.is_done(), || self.communicator.check());
    }
}

/// A collective operation of NCCL that this rank is a member of.
pub struct NcclOperation {
    /// The buffers.
    pub buffers: Buffers,
    communicator: NcclComm,
    stream: Stream,
    waiting: Waiting,
}

impl NcclOperation {
    /// Makes the communicators of a step's operations, together with all ranks; the operation of
    /// this rank, if it is a member.
    pub fn new(
        world: &SimpleCommunicator,
        pattern: &Pattern,
        calls: &[CollectiveCall],
    ) -> Result<Option<NcclOperation>, Failed> {
        let own = own(calls, world.rank() as u32);
        let lists = calls.iter().map(|call| call.members.clone()).collect();
        let Some((communicator, (_, view))) = communicator(world, lists, own)?.zip(own) else {
            agree(world, Ok(()))?;
            return Ok(None);
        };
        let buffers = Buffers::new(view, MemoryKind::Device);
        let (buffers, stream) = agree(world, buffers.and_then(|buffers| Ok((buffers, Stream::new()?))))?;
        Ok(Some(NcclOperation { buffers, communicator, stream, waiting: Waiting::new(world, pattern) }))
    }

    /// Carries it out.
    pub fn run(&mut self) {
        let Buffers { view, given, got } = &self.buffers;
        let (given, got) = (given.at(0), got.at(0));
        let element = if view.collective.reduces() { Element::of_block(view.bytes) } else { Element::Byte };
        let count = (view.bytes / element.bytes()) as usize;
        let kind = match element {
            Element::Double => DataType::Float64,
            Element::Float => DataType::Float32,
            Element::Byte => DataType::Uint8,
        };
        let (root, nccl) = (view.root as c_int, functions());
        let (comm, stream) = (self.communicator.handle, self.stream.handle());
        // SAFETY: the buffers have the bytes that `View::buffers` says; all members carry out their
        // operations in one order, that of the pattern's steps.
        unsafe {
            use Collective::*;
            match view.collective {
                Bcast => must("ncclBroadcast", (nccl.broadcast)(got, got, count, kind, root, comm, stream)),
                Reduce => must("ncclReduce", (nccl.reduce)(given, got, count, kind, SUM, root, comm, stream)),
                Allreduce => {
                    must("ncclAllReduce", (nccl.all_reduce)(given, got, count, kind, SUM, comm, stream))
                }
                Allgather => must("ncclAllGather", (nccl.all_gather)(given, got, count, kind, comm, stream)),
                ReduceScatterBlock => {
                    must(
                        "ncclReduceScatter",
                        (nccl.reduce_scatter)(given, got, count, kind, SUM, comm, stream),
                    );
                }
                _ => self.exchange(),
            }
        }
        self.waiting.until(|| self.stream.is_done(), || self.communicator.check());
    }

    /// An all-to-all, gather or scatter, which every version of NCCL carries out as a group of
    /// messages.
    fn exchange(&self) {
        let Buffers { view, given, got } = &self.buffers;
        let is_root = view.member == view.root;
        let (sends, receives) = match view.collective {
            Collective::Gather => (0..0, is_root),
            Collective::Scatter => (if is_root { 0..view.members } else { 0..0 }, false),
            _ => (0..view.members, true),
        };
        let nccl = functions();
        let (comm, stream) = (self.communicator.handle, self.stream.handle());
        let bytes = view.bytes as usize;
        let send = |block: u32, to: u32| {
            let from = given.at(u64::from(block) * view.bytes);
            // SAFETY: the member hands over that block, as `View::buffers` says.
            must("ncclSend", unsafe { (nccl.send)(from, bytes, DataType::Uint8, to as c_int, comm, stream) });
        };
        let receive = |block: u32, from: u32| {
            let to = got.at(u64::from(block) * view.bytes);
            // SAFETY: the member gets that block, as `View::buffers` says.
            must("ncclRecv", unsafe { (nccl.recv)(to, bytes, DataType::Uint8, from as c_int, comm, stream) });
        };
        // SAFETY: the group is ended below.
        must("ncclGroupStart", unsafe { (nccl.group_start)() });
        sends.for_each(|to| send(to, to));
        match view.collective {
            Collective::Gather => send(0, view.root),
            Collective::Scatter => receive(0, view.root),
            _ => {}
        }
        if receives {
            (0..view.members).for_each(|from| receive(from, from));
        }
        // SAFETY: the group was begun above; the buffers outlive its work, which `run` waits for.
        must("ncclGroupEnd", unsafe { (nccl.group_end)() });
    }
}
