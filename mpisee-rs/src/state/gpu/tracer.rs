//! Connection to the GPU tracer, a separate library that CUDA's driver loads. The tracer attaches
//! to the profiler, not the other way round, and keeps its counts in a file beside the segment.

use crate::state::gpu::memory_kind;
use crate::state::gpu::staging::{self, Communicated};
use crate::state::world::World;
use crate::storage::message::say;
use mpisee_collect::gpu::{self, Exports, GpuPart};
use mpisee_collect::process as identity;
use mpisee_profile::gpu::GpuFile;
use mpisee_profile::segment::layout::HEADER_BYTES;
use mpisee_profile::segment::{Snapshot, owner_of};
use std::ffi::{c_char, c_void};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Completes the file.
type Collect = extern "C" fn();
/// Gives memory a name.
type NameMemory = unsafe extern "C" fn(*const c_void, usize, *const c_char);

static TRACER: OnceLock<(Collect, NameMemory)> = OnceLock::new();

/// Called by the tracer when it begins.
#[unsafe(no_mangle)]
pub extern "C" fn mpisee_gpu_attach(collect: Collect, name_memory: NameMemory) {
    let _ = TRACER.set((collect, name_memory));
}

/// Called by the tracer before it begins to count copies. The driver is loaded then.
#[unsafe(no_mangle)]
pub extern "C" fn mpisee_gpu_attach_copies(communicated: Communicated) {
    staging::attach(communicated);
    memory_kind::look_for_driver();
}

/// The argument that mpisee.h passes with the level that names memory.
#[repr(C)]
pub struct Named {
    address: *const c_void,
    bytes: usize,
    name: *const c_char,
}

/// Gives memory a name, if there is a tracer.
///
/// # Safety
/// The name ends in a zero.
pub unsafe fn name_memory(named: &Named) {
    if let Some((_, name_memory)) = TRACER.get()
        && !named.name.is_null()
    {
        // SAFETY: the tracer's function takes any address, and a name that ends in a zero, which
        // this one does.
        unsafe { name_memory(named.address, named.bytes, named.name) };
    }
}

/// Returns whether the tracer may leave a file.
fn is_traced(world: &World) -> bool {
    world.options.gpu || world.options.gpu_copies
}

/// Completes the file with what the tracer counted of this rank, copies or accesses of kernels.
pub fn complete(world: &World) {
    if !is_traced(world) {
        return;
    }
    match TRACER.get() {
        Some((collect, _)) => collect(),
        // What is there is of a program that this process ran before a call of `exec`.
        None => remove(world),
    }
}

/// The tracer's counts of this rank; none if nothing was traced.
pub fn parts(world: &World) -> Vec<GpuPart> {
    if !is_traced(world) {
        return Vec::new();
    }
    complete(world);
    match GpuFile::read(&path(world)) {
        Ok(file) => file.map_or(Vec::new(), |file| gpu::parts(&file, world.rank.get())),
        Err(error) => {
            say(format_args!("rank {}: {error}; what was counted of its GPU is lost", world.rank));
            Vec::new()
        }
    }
}

/// Fills in the owners of other ranks' memory before rows are aggregated, since aggregation drops
/// the handles. What the node's other ranks exported is in their files beside this rank's, all of
/// which are complete by then.
pub fn tell_owners(world: &World, parts: &mut Vec<GpuPart>) {
    if !gpu::needs_owners(parts) {
        return;
    }
    let mut owners = Exports::default();
    let segments = &world.options.segments;
    // No other node shares memory.
    let is_of_node = identity::file_system(segments) == Some(identity::TMPFS);
    for entry in std::fs::read_dir(segments).into_iter().flatten().flatten() {
        owners.add(of_world(world, segments, is_of_node, &entry.path()).unwrap_or_default());
    }
    owners.fill_all(parts);
}

/// GPU accesses of the rank with this segment; `None` unless the segment is of a running process of
/// this world.
fn of_world(world: &World, segments: &Path, is_of_node: bool, path: &Path) -> Option<Vec<GpuPart>> {
    let (user, pid) = owner_of(path.file_name()?.to_str()?)?;
    // Where nodes share the folder most processes are of others, and to open the files of all would
    // take long.
    if !is_of_node && identity::look_at(pid).is_none() {
        return None;
    }
    let mut words = Vec::new();
    open(path, user)?.take(HEADER_BYTES as u64).read_to_end(&mut words).ok()?;
    let words: Vec<u64> = words.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
    let (header, _) = Snapshot::read_header(words.as_slice()).ok()?;
    let job = world.segment.header().job.load(Ordering::Relaxed);
    if (header.pid, header.job, header.world_size) != (pid, job, world.size) {
        return None;
    }
    // An earlier job with the same number may have left segments. Processes in other containers are
    // not visible.
    let is_seen = header.namespace == identity::namespace();
    if header.boot != identity::boot() || is_seen && !identity::runs(pid, header.process_start) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = mpisee_profile::gpu::path(segments, user, pid, header.process_start, header.namespace);
    open(&file, user)?.read_to_end(&mut bytes).ok()?;
    Some(gpu::parts(&GpuFile::parse(&bytes).ok()?, header.world_rank.get()))
}

/// Opens a file that only this user can access, in a world-writable folder, without following links
/// or blocking on a pipe.
fn open(path: &Path, user: u32) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    // SAFETY: getuid cannot fail.
    let own_user = unsafe { libc::getuid() };
    let is_own = (user, metadata.uid()) == (own_user, own_user);
    (metadata.is_file() && is_own && metadata.mode() & 0o077 == 0).then_some(file)
}

/// Removes the file; the rows of it are in the profile.
pub fn remove(world: &World) {
    if is_traced(world) {
        let _ = std::fs::remove_file(path(world));
    }
}

fn path(world: &World) -> PathBuf {
    // SAFETY: getuid cannot fail.
    gpu::own_path(&world.options.segments, unsafe { libc::getuid() })
}
