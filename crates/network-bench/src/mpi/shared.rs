//! The shared-memory backend: arenas in a window of the node, and messages that one of their two
//! ranks copies.

use super::border::{Memory, done};
use super::waiting::Waiting;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::backend::Backend;
use mpisee_bench::output::size;
use mpisee_bench::pattern::Pattern;
use mpisee_bench::shared::{Handshake, Layout, PAGE, check_nodes};
use std::collections::BTreeMap;
use std::os::raw::c_int;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Fails if messages of `shared` or `ipc` go from node to node, or do not fit into the memory that
/// processes can share; together with all ranks.
pub fn check(world: &SimpleCommunicator, pattern: &Pattern, backend: Backend) -> Result<(), String> {
    let Some(layout) = Layout::from_pattern(pattern, world.size() as u32, backend) else { return Ok(()) };
    let ranks = ranks_of_node(&world.split_shared(world.rank()), world);
    let node = ranks.first().copied().unwrap_or_default() as i64;
    let mut nodes = vec![0_i64; world.size() as usize];
    world.all_gather_into(&node, &mut nodes[..]);
    check_nodes(pattern, backend, &nodes)?;
    let wanted = ranks.iter().map(|&rank| layout.segment_bytes(rank)).fold(0, u64::saturating_add);
    match available() {
        Some(available) if wanted > available => Err(format!(
            "the ranks of this node need {} of shared memory, and /dev/shm has {} left; take smaller --sizes, or make it larger",
            size(wanted),
            size(available)
        )),
        _ => Ok(()),
    }
}

/// Bytes that files in /dev/shm may still take: Open MPI and MPICH have their shared windows there.
fn available() -> Option<u64> {
    // SAFETY: all fields of the struct are integers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero; the struct is written to.
    let code = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut found) };
    (code == 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// The ranks in the world of this node's ranks, in the order of the node's communicator.
fn ranks_of_node(node: &SimpleCommunicator, world: &SimpleCommunicator) -> Vec<u32> {
    let mut ranks = vec![0_i32; node.size() as usize];
    node.all_gather_into(&world.rank(), &mut ranks[..]);
    ranks.into_iter().map(|rank| rank as u32).collect()
}

/// The segments of the ranks of this node, which are valid as long as this rank's arena.
pub struct Segments {
    layout: Layout,
    /// By rank in the world, where its segment is in this process.
    begins: BTreeMap<u32, NonNull<u8>>,
}

impl Segments {
    /// Makes the window, together with all ranks, and this rank's arena in it; all bytes are zero.
    pub fn new(world: &SimpleCommunicator, layout: Layout) -> (Segments, Memory) {
        let rank = world.rank() as u32;
        let node = world.split_shared(world.rank());
        let ranks = ranks_of_node(&node, world);
        // A page more, since the standard promises no alignment.
        let bytes = layout.segment_bytes(rank) + PAGE;
        let window = allocate(&node, bytes);
        let begin = |(at, &rank): (usize, &u32)| (rank, segment(window, at as c_int));
        let begins: BTreeMap<u32, NonNull<u8>> = ranks.iter().enumerate().map(begin).collect();
        let own = begins[&rank];
        // SAFETY: the segment has a page more than the layout's bytes, of which the alignment took
        // less than all. Nobody else touches it before the barrier. Its own rank does so first,
        // which puts the pages near its core.
        unsafe { own.as_ptr().write_bytes(0, (bytes - PAGE) as usize) };
        // SAFETY: the arena is in the segment, behind the slots.
        let arena = unsafe { own.add(layout.arena(rank) as usize) };
        let arena_bytes = (bytes - PAGE - layout.arena(rank)) as usize;
        // SAFETY: the arena has that many initialised bytes, and the window is freed by its memory
        // alone.
        let memory = unsafe { Memory::in_window(arena, arena_bytes, window) };
        node.barrier();
        (Segments { layout, begins }, memory)
    }

    /// The slot of a message.
    pub fn slot(&self, destination: u32, step: usize, message: usize) -> NonNull<AtomicU64> {
        let slot = self.at(destination, self.layout.slot(step, message)).cast();
        NonNull::new(slot).expect("it is in a segment")
    }

    /// A byte of a rank's segment.
    fn at(&self, rank: u32, offset: u64) -> *mut u8 {
        assert!(offset <= self.layout.segment_bytes(rank), "an offset is within the segment");
        // SAFETY: the offset is within the segment or one past it.
        unsafe { self.begins[&rank].as_ptr().add(offset as usize) }
    }

    /// A byte of a rank's arena.
    fn in_arena(&self, rank: u32, offset: u64) -> *mut u8 {
        self.at(rank, self.layout.arena(rank) + offset)
    }
}

/// A window with a segment of this size for each rank.
fn allocate(node: &SimpleCommunicator, bytes: u64) -> ffi::MPI_Win {
    // SAFETY: the texts end with a zero, and the info is freed here; all ranks of the node make the
    // window together. The pointer is asked for by `segment` again.
    unsafe {
        let mut info = ffi::RSMPI_INFO_NULL;
        done(ffi::MPI_Info_create(&mut info));
        let (key, value) = (c"alloc_shared_noncontig".as_ptr(), c"true".as_ptr());
        done(ffi::MPI_Info_set(info, key, value));
        let mut window = ffi::RSMPI_WIN_NULL;
        let mut begin = std::ptr::null_mut::<u8>();
        let size = bytes as ffi::MPI_Aint;
        let begin = (&raw mut begin).cast();
        done(ffi::MPI_Win_allocate_shared(size, 1, info, node.as_raw(), begin, &mut window));
        done(ffi::MPI_Info_free(&mut info));
        window
    }
}

/// The first page in the segment of a rank of the node.
fn segment(window: ffi::MPI_Win, rank: c_int) -> NonNull<u8> {
    let (mut size, mut unit) = (0, 0);
    let mut begin = std::ptr::null_mut::<u8>();
    // SAFETY: the window is shared, and the rank is of its group.
    done(unsafe { ffi::MPI_Win_shared_query(window, rank, &mut size, &mut unit, (&raw mut begin).cast()) });
    // Pages of one process are pages of the other: the place is the same byte for all.
    let before = begin.align_offset(PAGE as usize);
    // SAFETY: each segment has a page more than it needs.
    NonNull::new(unsafe { begin.add(before) }).expect("a segment of a page or more has an address")
}

/// A message as one of its ranks has it.
struct Shared {
    slot: NonNull<AtomicU64>,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    times: u32,
}

impl Shared {
    fn handshake(&self, run: u64) -> Handshake<'_> {
        // SAFETY: the slot is a cache line of a segment, which was zero at first and is used by
        // handshakes alone; it lives as long as the arena.
        Handshake::new(unsafe { self.slot.as_ref() }, run)
    }

    fn complete(&self, run: u64) -> bool {
        self.handshake(run).complete(|| {
            for _ in 0..self.times {
                // SAFETY: both spans are in arenas of this node, and do not overlap; no other
                // message of the step writes to either (`Pattern::check`), and by the handshake
                // both ranks have left them to this copy.
                unsafe { self.to.copy_from_nonoverlapping(self.from, self.bytes) };
                // Each copy is made, though it brings the same bytes.
                std::hint::black_box(self.to);
            }
        })
    }
}

/// The messages of a step through shared memory.
pub struct SharedMessages {
    waiting: Waiting,
    messages: Vec<Shared>,
    /// The messages that have not arrived in this run.
    open: Vec<usize>,
    run: u64,
}

impl SharedMessages {
    /// This rank's messages of a step.
    pub fn new(world: &SimpleCommunicator, pattern: &Pattern, step: usize, segments: &Segments) -> Self {
        let rank = world.rank() as u32;
        let mut messages = Vec::new();
        for (at, it) in pattern.steps[step].messages.iter().enumerate() {
            let slot = segments.slot(it.destination, step, at);
            for end in [it.source, it.destination].into_iter().filter(|&end| end == rank) {
                let shared = Shared {
                    slot,
                    from: segments.in_arena(it.source, it.source_offset),
                    to: segments.in_arena(it.destination, it.destination_offset),
                    bytes: it.bytes as usize,
                    times: it.times,
                };
                messages.push((end == it.destination, shared));
            }
        }
        // Sources copy first what they send: so two ranks that exchange messages share the work.
        messages.sort_by_key(|&(is_destination, _)| is_destination);
        let messages: Vec<Shared> = messages.into_iter().map(|(_, shared)| shared).collect();
        let open = Vec::with_capacity(messages.len());
        SharedMessages { waiting: Waiting::new(world, pattern), messages, open, run: 0 }
    }

    /// Announces that the step has started, and copies what the other ranks wait for.
    pub fn start(&mut self) {
        self.messages.iter().for_each(|message| message.handshake(self.run).announce());
        self.open.extend(0..self.messages.len());
        self.open.retain(|&at| !self.messages[at].complete(self.run));
    }

    /// Waits for all messages, and copies those that the other rank does not.
    pub fn wait(&mut self) {
        let (messages, open, run) = (&self.messages, &mut self.open, self.run);
        let all_arrived = || {
            open.retain(|&at| !messages[at].complete(run));
            open.is_empty()
        };
        self.waiting.until(all_arrived, || ());
        self.run += 1;
    }
}
