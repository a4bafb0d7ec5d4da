//! The border to MPI: what rsmpi has no safe interface for, with the memory that MPI reads and
//! writes.
//!
//! MPI's default error handler ends the program, so that a call which returns has succeeded;
//! [`done`] checks it all the same.

use super::gpu::Allocation;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::output::size;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::borrow::Cow;
use std::os::raw::{c_int, c_void};
use std::ptr::NonNull;

/// Memory that MPI may read and write while the program holds no reference into it.
pub struct Memory {
    begin: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

/// The owner to which the memory goes back.
enum Owner {
    /// The allocator, by which it was allocated with this layout.
    Heap(Layout),
    /// A window of MPI that has it.
    Window(ffi::MPI_Win),
    /// CUDA's driver.
    Gpu(Allocation),
}

/// The alignment of memory: a page.
const PAGE: usize = 4096;

impl Memory {
    /// Zeroed memory of a kind.
    pub fn allocate(kind: MemoryKind, bytes: u64) -> Result<Memory, String> {
        if kind == MemoryKind::Host {
            return Memory::of_host(bytes);
        }
        let bytes = bytes.max(1);
        let allocation = Allocation::new(kind, bytes)?;
        Ok(Memory { begin: allocation.begin(), bytes: bytes as usize, owner: Owner::Gpu(allocation) })
    }

    /// Zeroed memory of the host; fails where the system or a limit of the process (`ulimit -v`)
    /// has no more.
    fn of_host(bytes: u64) -> Result<Memory, String> {
        let none = || format!("there is no memory for a buffer of {}; take smaller --sizes", size(bytes));
        let bytes = usize::try_from(bytes).expect("an address is as wide as a size").max(1);
        let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| none())?;
        // SAFETY: the layout has at least one byte.
        let begin = unsafe { alloc_zeroed(layout) };
        let begin = NonNull::new(begin).ok_or_else(none)?;
        Ok(Memory { begin, bytes, owner: Owner::Heap(layout) })
    }

    /// Memory of a shared window, which is freed with it, together with the ranks of the window.
    ///
    /// # Safety
    /// The window has that many initialised bytes from `begin` on, and nobody else frees it.
    pub unsafe fn in_window(begin: NonNull<u8>, bytes: usize, window: ffi::MPI_Win) -> Memory {
        Memory { begin, bytes, owner: Owner::Window(window) }
    }

    /// The address of a byte.
    pub fn at(&self, offset: u64) -> *mut c_void {
        let offset = offset as usize;
        assert!(offset <= self.bytes, "an offset is within the memory");
        self.begin.as_ptr().wrapping_add(offset).cast()
    }

    /// How many bytes there are.
    pub fn bytes_in_all(&self) -> u64 {
        self.bytes as u64
    }

    /// Sets the first bytes, while no pattern runs.
    pub fn fill(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        if let Owner::Gpu(allocation) = &self.owner {
            let mut copy = vec![0; bytes.min(self.bytes)];
            fill(&mut copy);
            allocation.write(&copy);
        } else {
            fill(&mut self.host_bytes()[..bytes]);
        }
    }

    /// The first bytes, while no pattern runs.
    pub fn contents(&mut self, bytes: usize) -> Cow<'_, [u8]> {
        if let Owner::Gpu(allocation) = &self.owner {
            let mut copy = vec![0; bytes.min(self.bytes)];
            allocation.read(&mut copy);
            return Cow::Owned(copy);
        }
        Cow::Borrowed(&self.host_bytes()[..bytes])
    }

    /// The bytes of memory of the host, while no operation of MPI is under way on them, and no rank
    /// that shares them runs a pattern.
    fn host_bytes(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is not CUDA's, as the callers see to, and has that many
        // initialised bytes. `Plan::run` completes all operations on it that it starts before it
        // returns, and a plan owns this memory. Other ranks copy from and to a shared window within
        // a run alone, before and after which a verification has a barrier.
        unsafe { std::slice::from_raw_parts_mut(self.begin.as_ptr(), self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &mut self.owner {
            // SAFETY: it was allocated with this layout.
            Owner::Heap(layout) => unsafe { dealloc(self.begin.as_ptr(), *layout) },
            // SAFETY: the window is freed once; its ranks drop their memories of patterns in one
            // order.
            Owner::Window(window) => done(unsafe { ffi::MPI_Win_free(window) }),
            // It frees itself.
            Owner::Gpu(_) => {}
        }
    }
}

/// Checks that a call of MPI has succeeded.
pub fn done(code: c_int) {
    assert_eq!(code, ffi::MPI_SUCCESS as c_int, "MPI's error handler ends the program before that");
}

/// The datatype of bytes.
pub fn byte() -> ffi::MPI_Datatype {
    // SAFETY: rsmpi's shim initialises its constants statically.
    unsafe { ffi::RSMPI_UINT8_T }
}

/// A message as one rank sees it.
#[derive(Clone, Copy)]
pub struct RankMessage {
    /// The other rank.
    pub peer: c_int,
    /// True if this rank has the bytes; else it gets them.
    pub is_source: bool,
    /// Where they are in this rank's arena.
    pub offset: u64,
    /// Where they are in the other's.
    pub peer_offset: u64,
    /// How many.
    pub bytes: c_int,
}

/// The messages of a step by `MPI_Isend` and `MPI_Irecv`.
pub struct TwoSided {
    comm: ffi::MPI_Comm,
    tag: c_int,
    parts: Vec<(RankMessage, *mut c_void)>,
    requests: Vec<ffi::MPI_Request>,
}

impl TwoSided {
    /// The parts of this rank, in the order in which both ends have them; receives are started
    /// first.
    pub fn new(world: &SimpleCommunicator, tag: c_int, parts: &[RankMessage], arena: &Memory) -> Self {
        let mut parts: Vec<_> = parts.iter().map(|&part| (part, arena.at(part.offset))).collect();
        parts.sort_by_key(|(part, _)| part.is_source);
        let requests = Vec::with_capacity(parts.len());
        TwoSided { comm: world.as_raw(), tag, parts, requests }
    }

    /// Starts all messages.
    pub fn start(&mut self) {
        for &(part, address) in &self.parts {
            let RankMessage { peer, bytes, .. } = part;
            // SAFETY: the address is of an arena with that many bytes from there on, as
            // `Pattern::arena` counts all that is touched; it outlives the carrier. Only the
            // repetitions of the message write there, with the same bytes (`Pattern::check`), as in
            // OSU's windows.
            let request = unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                done(match part.is_source {
                    true => ffi::MPI_Isend(address, bytes, byte(), peer, self.tag, self.comm, &mut request),
                    false => ffi::MPI_Irecv(address, bytes, byte(), peer, self.tag, self.comm, &mut request),
                });
                request
            };
            self.requests.push(request);
        }
    }

    /// Waits for all messages.
    pub fn wait(&mut self) {
        wait_all(&mut self.requests);
        self.requests.clear();
    }
}

fn wait_all(requests: &mut [ffi::MPI_Request]) {
    // SAFETY: the requests are active or null; statuses are ignored.
    done(unsafe {
        ffi::MPI_Waitall(requests.len() as c_int, requests.as_mut_ptr(), ffi::RSMPI_STATUSES_IGNORE)
    });
}

/// The messages of a step by persistent requests.
pub struct Persistent {
    requests: Vec<ffi::MPI_Request>,
}

impl Persistent {
    /// Makes the requests, in the order in which both ends have them.
    pub fn new(world: &SimpleCommunicator, tag: c_int, parts: &[RankMessage], arena: &Memory) -> Self {
        let comm = world.as_raw();
        let mut parts = parts.to_vec();
        parts.sort_by_key(|part| part.is_source);
        let request = |part: &RankMessage| {
            let (address, bytes, peer) = (arena.at(part.offset), part.bytes, part.peer);
            // SAFETY: the arena has the bytes of the part at its offset, and outlives the requests;
            // the communicator is the world's.
            unsafe {
                let mut request = ffi::RSMPI_REQUEST_NULL;
                done(match part.is_source {
                    true => ffi::MPI_Send_init(address, bytes, byte(), peer, tag, comm, &mut request),
                    false => ffi::MPI_Recv_init(address, bytes, byte(), peer, tag, comm, &mut request),
                });
                request
            }
        };
        Persistent { requests: parts.iter().map(request).collect() }
    }

    /// Starts all messages.
    pub fn start(&mut self) {
        // SAFETY: the requests are persistent and inactive.
        done(unsafe { ffi::MPI_Startall(self.requests.len() as c_int, self.requests.as_mut_ptr()) });
    }

    /// Waits for all messages.
    pub fn wait(&mut self) {
        wait_all(&mut self.requests);
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        for request in &mut self.requests {
            // SAFETY: the request is inactive, and freed once.
            done(unsafe { ffi::MPI_Request_free(request) });
        }
    }
}

/// The messages of a step by `MPI_Put` or `MPI_Get`, in an epoch of post, start, complete and wait.
///
/// The windows of all steps are of one arena, so that a step reads by its window what was put by
/// another one's. That needs the unified memory model (MPI 4.1, 12.4), which Open MPI, MPICH and
/// Intel MPI have; with the separate one the verification would find other bytes.
pub struct OneSided {
    window: ffi::MPI_Win,
    /// The messages that this rank puts or gets, with the address in its arena.
    parts: Vec<(RankMessage, *mut c_void)>,
    is_put: bool,
    /// The ranks that put to this one or get from it; null if there are none.
    origins: ffi::MPI_Group,
    /// The ranks that this one puts to or gets from.
    targets: ffi::MPI_Group,
    /// True between a start and its completion.
    is_open: bool,
}

impl OneSided {
    /// Makes the step's window, together with all ranks. With `is_put` the sources act, else the
    /// destinations.
    pub fn new(
        world: &SimpleCommunicator,
        is_put: bool,
        parts: &[RankMessage],
        arena: &Memory,
        bytes: u64,
    ) -> Self {
        let acts = |part: &&RankMessage| part.is_source == is_put;
        let peers = |acting: bool| {
            let mut peers: Vec<c_int> =
                parts.iter().filter(|part| acts(part) == acting).map(|part| part.peer).collect();
            peers.sort_unstable();
            peers.dedup();
            group(world, &peers)
        };
        // SAFETY: the window is of the arena, which outlives it; all ranks make the windows of
        // their steps in one order.
        let window = unsafe {
            let mut window = ffi::RSMPI_WIN_NULL;
            let info = ffi::RSMPI_INFO_NULL;
            let size = bytes as ffi::MPI_Aint;
            done(ffi::MPI_Win_create(arena.at(0), size, 1, info, world.as_raw(), &mut window));
            window
        };
        let own = parts.iter().filter(acts).map(|&part| (part, arena.at(part.offset))).collect();
        OneSided { window, parts: own, is_put, origins: peers(false), targets: peers(true), is_open: false }
    }

    /// Exposes the arena and starts all messages.
    pub fn start(&mut self) {
        // SAFETY: the groups are those of the pattern, so that each start has its post; the offsets
        // are within the arenas of both ends, and only the repetitions of a message write to one
        // place, with the same bytes (`Pattern::check`).
        unsafe {
            if self.origins != ffi::RSMPI_GROUP_NULL {
                done(ffi::MPI_Win_post(self.origins, 0, self.window));
            }
            if self.targets == ffi::RSMPI_GROUP_NULL {
                return;
            }
            done(ffi::MPI_Win_start(self.targets, 0, self.window));
            self.is_open = true;
            for &(RankMessage { peer, bytes, peer_offset, .. }, address) in &self.parts {
                let there = peer_offset as ffi::MPI_Aint;
                let (kind, window) = (byte(), self.window);
                done(match self.is_put {
                    true => ffi::MPI_Put(address, bytes, kind, peer, there, bytes, kind, window),
                    false => ffi::MPI_Get(address, bytes, kind, peer, there, bytes, kind, window),
                });
            }
        }
    }

    /// Completes what this rank puts or gets, if it is not yet: only then can the other ends wait
    /// for it.
    pub fn complete(&mut self) {
        if std::mem::take(&mut self.is_open) {
            // SAFETY: the epoch was begun by `start`, and is completed once.
            done(unsafe { ffi::MPI_Win_complete(self.window) });
        }
    }

    /// Waits until this rank's messages are done, and those that others put to it or get from it.
    pub fn wait(&mut self) {
        self.complete();
        // SAFETY: the epoch was begun by `start`.
        unsafe {
            if self.origins != ffi::RSMPI_GROUP_NULL {
                done(ffi::MPI_Win_wait(self.window));
            }
        }
    }
}

impl Drop for OneSided {
    fn drop(&mut self) {
        // SAFETY: no epoch is open; all ranks free their windows in one order.
        unsafe {
            done(ffi::MPI_Win_free(&mut self.window));
            for group in [&mut self.origins, &mut self.targets] {
                if *group != ffi::RSMPI_GROUP_NULL {
                    done(ffi::MPI_Group_free(group));
                }
            }
        }
    }
}

/// The group of these ranks; null if there are none.
fn group(world: &SimpleCommunicator, ranks: &[c_int]) -> ffi::MPI_Group {
    // SAFETY: the ranks are of this communicator; the group of all is freed here.
    unsafe {
        let mut chosen = ffi::RSMPI_GROUP_NULL;
        if !ranks.is_empty() {
            let mut all = ffi::RSMPI_GROUP_NULL;
            done(ffi::MPI_Comm_group(world.as_raw(), &mut all));
            done(ffi::MPI_Group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut chosen));
            done(ffi::MPI_Group_free(&mut all));
        }
        chosen
    }
}

/// Begins to send a message.
pub fn begin_send<'b>(
    world: &SimpleCommunicator,
    peer: c_int,
    tag: c_int,
    buffer: &'b Memory,
    bytes: c_int,
) -> Pending<'b> {
    let comm = world.as_raw();
    assert!(buffer.bytes_in_all() >= bytes as u64, "the buffer holds the message");
    // SAFETY: the buffer has that many bytes, and is borrowed until the message is complete:
    // `Pending` waits for it.
    unsafe {
        let mut request = ffi::RSMPI_REQUEST_NULL;
        done(ffi::MPI_Isend(buffer.at(0), bytes, byte(), peer, tag, comm, &mut request));
        Pending { request, _buffer: buffer }
    }
}

/// A message under way; it is complete when this goes.
pub struct Pending<'b> {
    request: ffi::MPI_Request,
    _buffer: &'b Memory,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        wait_all(std::slice::from_mut(&mut self.request));
    }
}

impl Pending<'_> {
    /// Returns whether it is complete.
    pub fn test(&mut self) -> bool {
        let mut flag = 0;
        // SAFETY: the request is active or null, as it is after completion.
        done(unsafe { ffi::MPI_Test(&mut self.request, &mut flag, ffi::RSMPI_STATUS_IGNORE) });
        flag != 0
    }
}
