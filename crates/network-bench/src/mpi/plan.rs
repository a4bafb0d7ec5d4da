//! A pattern made ready on one rank: its arena, and what carries out each step.

use super::agree::{Failed, agree};
use super::border::{Memory, OneSided, Persistent, RankMessage, TwoSided};
use super::collective::{Buffers, Operation, OperationComm};
use super::gpu::{Ipc, IpcMessages, NcclMessages, NcclOperation};
use super::shared::{Segments, SharedMessages};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::backend::Backend;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::pattern::{Pattern, Step};
use mpisee_bench::provenance;
use mpisee_bench::schedule::{Action, schedule};
use mpisee_bench::shared::Layout;
use std::collections::HashMap;
use std::os::raw::c_int;
use std::rc::Rc;

/// The means by which a step's messages are carried out.
enum Carrier {
    TwoSided(TwoSided),
    Persistent(Persistent),
    OneSided(OneSided),
    Shared(SharedMessages),
    Ipc(IpcMessages),
    Nccl(NcclMessages),
    /// This rank has none, and need not take part in making a window.
    None,
}

/// The means by which a step's collective operation is carried out.
enum Collected {
    Mpi(Operation),
    Nccl(NcclOperation),
}

impl Collected {
    fn run(&mut self) {
        match self {
            Collected::Mpi(it) => it.run(),
            Collected::Nccl(it) => it.run(),
        }
    }

    fn buffers(&mut self) -> &mut Buffers {
        match self {
            Collected::Mpi(it) => &mut it.buffers,
            Collected::Nccl(it) => &mut it.buffers,
        }
    }
}

struct Ready {
    carrier: Carrier,
    operation: Option<Collected>,
}

/// A pattern made ready. Carriers and operations go before the memory that they use.
pub struct Plan {
    actions: Vec<Action>,
    steps: Vec<Ready>,
    /// Keeps open what ranks have of each other's GPUs.
    ipc: Option<Ipc>,
    arena: Memory,
    arena_bytes: u64,
}

/// Tags below that are legal with every MPI.
const TAGS: usize = 32_000;

impl Plan {
    /// Makes the pattern ready with its buffers in memory of a kind, together with all ranks.
    pub fn new(world: &SimpleCommunicator, pattern: &Pattern, kind: MemoryKind) -> Result<Plan, Failed> {
        let (rank, ranks) = (world.rank() as u32, world.size() as u32);
        let arena_bytes = pattern.arena(rank);
        let (segments, arena) = match Layout::from_pattern(pattern, ranks, Backend::Shared) {
            Some(layout) => {
                let (segments, arena) = Segments::new(world, layout);
                (Some(segments), arena)
            }
            None => {
                let arena = Memory::allocate(kind, arena_bytes).map_err(|why| format!("rank {rank}: {why}"));
                (None, agree(world, arena)?)
            }
        };
        let ipc = match Layout::from_pattern(pattern, ranks, Backend::Ipc) {
            Some(layout) => Some(Ipc::new(world, pattern, layout, &arena)?),
            None => None,
        };
        let mut plan = Plan { actions: schedule(pattern, rank), steps: Vec::new(), ipc, arena, arena_bytes };
        let mut communicators = Communicators::new();
        for (number, step) in pattern.steps.iter().enumerate() {
            let operation = operation(world, pattern, step, kind, &mut communicators)?;
            let carrier = plan.carrier(world, pattern, number, segments.as_ref())?;
            plan.steps.push(Ready { carrier, operation });
        }
        plan.connect(world);
        Ok(plan)
    }

    /// Has NCCL connect the ranks of each step, which it does with the first messages, by both of
    /// their processors at the same time: in a run, one of them might wait for a message of MPI,
    /// for which the other one would have to be in MPI.
    fn connect(&mut self, world: &SimpleCommunicator) {
        for Ready { carrier, .. } in &mut self.steps {
            if let Carrier::Nccl(messages) = carrier {
                messages.start();
                messages.wait();
            }
        }
        world.barrier();
    }

    /// Runs the pattern once.
    pub fn run(&mut self) {
        for &action in &self.actions {
            match action {
                Action::Start(step) => {
                    let Ready { carrier, operation } = &mut self.steps[step];
                    match carrier {
                        Carrier::TwoSided(it) => it.start(),
                        Carrier::Persistent(it) => it.start(),
                        Carrier::OneSided(it) => it.start(),
                        Carrier::Shared(it) => it.start(),
                        Carrier::Ipc(it) => it.start(),
                        Carrier::Nccl(it) => it.start(),
                        Carrier::None => {}
                    }
                    if let Some(operation) = operation {
                        operation.run();
                    }
                }
                Action::Complete(step) => {
                    if let Carrier::OneSided(it) = &mut self.steps[step].carrier {
                        it.complete();
                    }
                }
                Action::Wait(step) => match &mut self.steps[step].carrier {
                    Carrier::TwoSided(it) => it.wait(),
                    Carrier::Persistent(it) => it.wait(),
                    Carrier::OneSided(it) => it.wait(),
                    Carrier::Shared(it) => it.wait(),
                    Carrier::Ipc(it) => it.wait(),
                    Carrier::Nccl(it) => it.wait(),
                    Carrier::None => {}
                },
            }
        }
    }

    /// Runs the pattern once, and says what of this rank's memory is wrong then.
    pub fn verify(&mut self, world: &SimpleCommunicator, pattern: &Pattern) -> Result<(), String> {
        let rank = world.rank() as u32;
        let bytes = self.arena_bytes as usize;
        self.arena.fill(bytes, |arena| provenance::fill(arena, rank));
        for operation in self.steps.iter_mut().filter_map(|step| step.operation.as_mut()) {
            operation.buffers().fill();
        }
        world.barrier();
        self.run();
        world.barrier();
        let expected = &provenance::after(pattern, world.size() as u32)[rank as usize];
        if let Some(offset) = provenance::first_wrong(&self.arena.contents(bytes), expected) {
            return Err(format!("after the pattern, rank {rank} has a wrong byte at {offset}"));
        }
        for operation in self.steps.iter_mut().filter_map(|step| step.operation.as_mut()) {
            let buffers = operation.buffers();
            if !buffers.is_correct() {
                return Err(format!("rank {rank} got a wrong result from {}", buffers.view.collective));
            }
        }
        Ok(())
    }

    /// Makes the carrier of a step's messages, together with all ranks.
    fn carrier(
        &self,
        world: &SimpleCommunicator,
        pattern: &Pattern,
        number: usize,
        segments: Option<&Segments>,
    ) -> Result<Carrier, Failed> {
        let (step, arena) = (&pattern.steps[number], &self.arena);
        if step.messages.is_empty() {
            return Ok(Carrier::None);
        }
        let rank = world.rank() as u32;
        let parts = parts(step, rank);
        let has_part = !parts.is_empty();
        let tag = (number % TAGS) as c_int;
        Ok(match step.backend {
            // A window is made by all.
            Backend::Put | Backend::Get => {
                let is_put = step.backend == Backend::Put;
                Carrier::OneSided(OneSided::new(world, is_put, &parts, arena, self.arena_bytes))
            }
            // So is a communicator of NCCL; and what GPUs have no room for is said by all.
            Backend::Nccl => {
                let all = NcclMessages::communicator(world)?;
                let messages = || NcclMessages::new(world, pattern, all, &parts, arena);
                agree(world, has_part.then(messages).transpose())?.map_or(Carrier::None, Carrier::Nccl)
            }
            Backend::Ipc => {
                let ipc = self.ipc.as_ref().expect("it is made where a step has messages by it");
                let messages = || IpcMessages::new(world, pattern, number, ipc, arena);
                agree(world, has_part.then(messages).transpose())?.map_or(Carrier::None, Carrier::Ipc)
            }
            _ if !has_part => Carrier::None,
            Backend::Shared => {
                let segments = segments.expect("they are made where a step has messages by them");
                Carrier::Shared(SharedMessages::new(world, pattern, number, segments))
            }
            Backend::Persistent => Carrier::Persistent(Persistent::new(world, tag, &parts, arena)),
            Backend::Isend => Carrier::TwoSided(TwoSided::new(world, tag, &parts, arena)),
        })
    }
}

/// By membership, the communicator of which this rank is a member.
type Communicators<'p> = HashMap<Vec<(&'p [u32], bool)>, Option<Rc<OperationComm>>>;

/// Makes the collective operation of a step that this rank is a member of, together with all ranks.
fn operation<'p>(
    world: &SimpleCommunicator,
    pattern: &Pattern,
    step: &'p Step,
    kind: MemoryKind,
    communicators: &mut Communicators<'p>,
) -> Result<Option<Collected>, Failed> {
    if step.collectives.is_empty() {
        return Ok(None);
    }
    if step.backend == Backend::Nccl {
        return Ok(NcclOperation::new(world, pattern, &step.collectives)?.map(Collected::Nccl));
    }
    let members = communicators
        .entry(step.membership())
        .or_insert_with(|| OperationComm::new(world, &step.collectives));
    let made =
        members.clone().map(|members| Operation::new(members, world.rank() as u32, &step.collectives, kind));
    Ok(agree(world, made.transpose())?.map(Collected::Mpi))
}

/// The messages of a step as this rank sees them, in the order of the step.
fn parts(step: &Step, rank: u32) -> Vec<RankMessage> {
    let mut parts = Vec::new();
    for it in &step.messages {
        let bytes = it.bytes as c_int;
        let (from, to) = (it.source_offset, it.destination_offset);
        let part = |peer: u32, is_source, offset, peer_offset| RankMessage {
            peer: peer as c_int,
            is_source,
            offset,
            peer_offset,
            bytes,
        };
        for _ in 0..it.times {
            if it.source == rank {
                parts.push(part(it.destination, true, from, to));
            }
            if it.destination == rank {
                parts.push(part(it.source, false, to, from));
            }
        }
    }
    parts
}
