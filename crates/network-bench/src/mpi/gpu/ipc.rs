//! The backend of CUDA IPC: arenas in the memory of the node's GPUs, and messages that one of their
//! two ranks copies.
//!
//! The ranks agree on who copies by the handshakes of shared memory. It is the source, so that
//! several ranks which send to one share the work between their GPUs; where the source is held up
//! by another step, the destination. A rank that copies waits for its GPU before it goes on: the
//! other one learns by it that the bytes have arrived, so it must not be held up by what this rank
//! does next.

use super::driver::{HANDLE_BYTES, Imported, Stream, export};
use crate::agree::{Failed, agree};
use crate::border::{Memory, done};
use crate::shared::Segments;
use crate::waiting::Waiting;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::backend::Backend;
use mpisee_bench::pattern::{Message, Pattern};
use mpisee_bench::shared::{Handshake, Layout};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The handles by which the ranks of a node reach each other's memory.
pub struct Ipc {
    /// Arenas of other ranks with which this one has messages.
    arenas: BTreeMap<u32, Imported>,
    segments: Segments,
    /// The window of the slots.
    _slots: Memory,
    comm: ffi::MPI_Comm,
}

impl Ipc {
    /// Opens the arenas of the ranks with which this one has messages, together with all ranks.
    pub fn new(
        world: &SimpleCommunicator,
        pattern: &Pattern,
        layout: Layout,
        arena: &Memory,
    ) -> Result<Ipc, Failed> {
        let rank = world.rank() as u32;
        let of_backend = pattern.steps.iter().filter(|step| step.backend == Backend::Ipc);
        let messages = of_backend.flat_map(|step| &step.messages);
        let peer = |it: &Message| match (it.source == rank, it.destination == rank) {
            (true, false) => Some(it.destination),
            (false, true) => Some(it.source),
            _ => None,
        };
        let peers: Vec<u32> = messages.filter_map(peer).collect();
        let own = if peers.is_empty() { Ok([0; HANDLE_BYTES]) } else { export(arena.at(0).cast()) };
        let own = agree(world, own)?;
        let mut handles = vec![0_u8; HANDLE_BYTES * world.size() as usize];
        world.all_gather_into(&own[..], &mut handles[..]);
        let (segments, slots) = Segments::new(world, layout);
        let mut ipc = Ipc { arenas: BTreeMap::new(), segments, _slots: slots, comm: world.as_raw() };
        let opened = peers.into_iter().try_for_each(|peer| {
            if let Entry::Vacant(place) = ipc.arenas.entry(peer) {
                let handle = handles.chunks_exact(HANDLE_BYTES).nth(peer as usize);
                let handle = handle.and_then(|it| it.try_into().ok()).expect("each rank has a handle");
                let imported = Imported::new(handle);
                place.insert(imported.map_err(|why| {
                    format!("rank {rank} cannot reach the GPU memory of rank {peer}: {why}")
                })?);
            }
            Ok(())
        });
        agree(world, opened)?;
        Ok(ipc)
    }
}

impl Drop for Ipc {
    fn drop(&mut self) {
        // Memory must not be freed while another process has it open.
        self.arenas.clear();
        // SAFETY: all ranks have made this, and drop what belongs to a pattern in one order.
        done(unsafe { ffi::MPI_Barrier(self.comm) });
    }
}

/// A message as one of its ranks has it.
struct IpcMessage {
    slot: NonNull<AtomicU64>,
    is_source: bool,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    times: u32,
    /// Of its own, so that copies to several GPUs go at the same time.
    stream: Stream,
}

impl IpcMessage {
    fn handshake(&self, run: u64) -> Handshake<'_> {
        // SAFETY: the slot is a cache line of a segment, which was zero at first and is used by
        // handshakes alone; it lives as long as the plan.
        Handshake::new(unsafe { self.slot.as_ref() }, run)
    }

    fn begin(&self) {
        for _ in 0..if self.bytes > 0 { self.times } else { 0 } {
            // SAFETY: both spans are in arenas of this node's GPUs, and do not overlap; no other
            // message of the step writes to either (`Pattern::check`), and by the handshake both
            // ranks have left them to this copy.
            unsafe { self.stream.copy(self.to, self.from, self.bytes) };
        }
    }
}

/// The messages of a step by CUDA IPC.
pub struct IpcMessages {
    waiting: Waiting,
    messages: Vec<IpcMessage>,
    /// The messages that have not arrived in this run.
    open: Vec<usize>,
    run: u64,
}

impl IpcMessages {
    /// This rank's messages of a step.
    pub fn new(
        world: &SimpleCommunicator,
        pattern: &Pattern,
        step: usize,
        ipc: &Ipc,
        arena: &Memory,
    ) -> Result<Self, String> {
        let rank = world.rank() as u32;
        let place = |owner: u32, offset: u64| -> *mut u8 {
            if owner == rank {
                arena.at(offset).cast()
            } else {
                ipc.arenas[&owner].begin().wrapping_add(offset as usize)
            }
        };
        let mut messages = Vec::new();
        for (at, it) in pattern.steps[step].messages.iter().enumerate() {
            let ends = [(it.source, true), (it.destination, false)];
            for (_, is_source) in ends.into_iter().filter(|&(end, _)| end == rank) {
                messages.push(IpcMessage {
                    slot: ipc.segments.slot(it.destination, step, at),
                    is_source,
                    from: place(it.source, it.source_offset),
                    to: place(it.destination, it.destination_offset),
                    bytes: it.bytes as usize,
                    times: it.times,
                    stream: Stream::new()?,
                });
            }
        }
        let open = Vec::with_capacity(messages.len());
        Ok(IpcMessages { waiting: Waiting::new(world, pattern), messages, open, run: 0 })
    }

    /// Announces that the step has started, and copies what the other ranks wait for.
    pub fn start(&mut self) {
        self.messages.iter().for_each(|message| message.handshake(self.run).announce());
        self.open.extend(0..self.messages.len());
        copy(&self.messages, &mut self.open, self.run, false);
    }

    /// Waits for all messages, and copies those that the other rank does not.
    pub fn wait(&mut self) {
        let (messages, open, run) = (&self.messages, &mut self.open, self.run);
        let mut looks = 0;
        let all_arrived = || {
            looks += 1;
            copy(messages, open, run, looks > PATIENCE);
            open.is_empty()
        };
        self.waiting.until(all_arrived, || ());
        self.run += 1;
    }
}

/// Looks at a message, before its destination copies it in place of the source.
const PATIENCE: u32 = 1000;

/// Copies all messages at once that are this rank's to copy now, and waits for these; leaves those
/// that have not arrived. What this rank gets it copies only `also_as_destination`.
fn copy(messages: &[IpcMessage], open: &mut Vec<usize>, run: u64, also_as_destination: bool) {
    let begin = |&at: &usize| {
        let may = messages[at].is_source || also_as_destination;
        let is_own = may && messages[at].handshake(run).claim();
        if is_own {
            messages[at].begin();
        }
        is_own
    };
    let claimed: Vec<usize> = open.iter().copied().filter(begin).collect();
    for at in claimed {
        messages[at].stream.wait();
        messages[at].handshake(run).finish();
    }
    open.retain(|&at| !messages[at].handshake(run).is_complete());
}
