//! The border to CUDA's driver: the GPU of this rank, its memory and streams.

use super::fatal;
use crate::agree::{Failed, agree};
use cudarc::driver::result::{self, DriverError, ctx, device, primary_ctx, stream};
use cudarc::driver::sys;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::output::size;
use std::os::raw::c_int;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// True once this process has its GPU; alike on all ranks.
static OPENED: OnceLock<()> = OnceLock::new();

/// Loads CUDA's driver and takes a GPU by the rank on the node, modulo the number of GPUs that the
/// process sees; together with all ranks. Nothing where that was done before.
pub fn open(world: &SimpleCommunicator) -> Result<(), Failed> {
    if OPENED.get().is_some() {
        return Ok(());
    }
    let on_node = world.split_shared(world.rank()).rank();
    let opened = take(on_node);
    agree(world, opened.map_err(|why| format!("rank {} has no GPU: {why}", world.rank())))?;
    OPENED.get_or_init(|| ());
    Ok(())
}

fn take(on_node: c_int) -> Result<(), String> {
    // SAFETY: the driver's initialisers run when it is loaded, as in every program of CUDA.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "there is no CUDA driver (libcuda.so.1); run where there is one, or say where in LD_LIBRARY_PATH"
                .to_owned(),
        );
    }
    result::init().map_err(|error| said("cuInit", error))?;
    let count = device::get_count().map_err(|error| said("cuDeviceGetCount", error))?;
    if count == 0 {
        return Err("CUDA's driver sees none (CUDA_VISIBLE_DEVICES may hide them)".to_owned());
    }
    let device = device::get(on_node % count).map_err(|error| said("cuDeviceGet", error))?;
    // SAFETY: the device is one of the driver's. Its context is kept until the process ends; NCCL
    // and MPI use the same.
    unsafe {
        let context = primary_ctx::retain(device).map_err(|error| said("cuDevicePrimaryCtxRetain", error))?;
        ctx::set_current(context).map_err(|error| said("cuCtxSetCurrent", error))
    }
}

/// A failure of a function, as a part of a sentence.
fn said(function: &str, error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{function} failed with {:?} ({text})", error.0)
}

/// The value of a call that only fails if the GPU or its driver does.
fn must<T>(function: &str, result: Result<T, DriverError>) -> T {
    result.unwrap_or_else(|error| fatal(&said(function, error)))
}

/// Memory that CUDA has allocated, in pinned memory of the host, on the GPU, or on both.
pub struct Allocation {
    begin: NonNull<u8>,
    length: usize,
    kind: MemoryKind,
}

/// The unit of allocations of device memory, so that other processes get nothing but this by its
/// IPC handle: the driver takes smaller allocations from a common block.
const BLOCK: u64 = 2 << 20;

impl Allocation {
    /// Zeroed memory of a kind other than `Host`.
    pub fn new(kind: MemoryKind, bytes: u64) -> Result<Allocation, String> {
        assert!(OPENED.get().is_some(), "the GPU is opened before its memory is used");
        let length = if kind == MemoryKind::Device { bytes.next_multiple_of(BLOCK) } else { bytes } as usize;
        // SAFETY: the memory is zeroed below, before anybody reads it.
        let allocated = unsafe {
            match kind {
                MemoryKind::Host | MemoryKind::Pinned => result::malloc_host(length, 0).map(|it| it.cast()),
                MemoryKind::Managed => {
                    let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL;
                    result::malloc_managed(length, flags).map(|it| it as *mut u8)
                }
                MemoryKind::Device => result::malloc_sync(length).map(|it| it as *mut u8),
            }
        };
        let begin = allocated.map_err(|error| match result::mem_get_info() {
            Ok((free, all)) if kind != MemoryKind::Pinned => format!(
                "{} of {kind} memory cannot be had ({:?}); its GPU has {}, of which {} are free: take smaller --sizes",
                size(bytes),
                error.0,
                size(all as u64),
                size(free as u64)
            ),
            _ => format!("{} of {kind} memory cannot be had ({:?}); take smaller --sizes", size(bytes), error.0),
        })?;
        let begin = NonNull::new(begin).expect("the driver has returned memory");
        let allocation = Allocation { begin, length, kind };
        // SAFETY: the allocation has that many bytes.
        unsafe {
            if allocation.is_of_host() {
                begin.as_ptr().write_bytes(0, length);
            } else {
                must("cuMemsetD8", result::memset_d8_sync(allocation.address(), 0, length));
                must("cuCtxSynchronize", ctx::synchronize());
            }
        }
        Ok(allocation)
    }

    /// Where it begins; to be read and written by the host only if it is pinned.
    pub fn begin(&self) -> NonNull<u8> {
        self.begin
    }

    fn is_of_host(&self) -> bool {
        matches!(self.kind, MemoryKind::Host | MemoryKind::Pinned)
    }

    fn address(&self) -> sys::CUdeviceptr {
        self.begin.as_ptr() as sys::CUdeviceptr
    }

    /// Sets the first bytes, while no operation is under way on them.
    pub fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.length, "what is written is within the memory");
        if self.is_of_host() {
            // SAFETY: both have that many bytes, and nothing is under way on them.
            unsafe { self.begin.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        } else if !bytes.is_empty() {
            // SAFETY: both have that many bytes.
            must("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(self.address(), bytes) });
            // The copy may have returned before the last part of it is there.
            must("cuCtxSynchronize", ctx::synchronize());
        }
    }

    /// Reads the first bytes, while no operation is under way on them.
    pub fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.length, "what is read is within the memory");
        if self.is_of_host() {
            // SAFETY: both have that many bytes, and nothing is under way on them.
            unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.begin.as_ptr(), bytes.len()) };
        } else if !bytes.is_empty() {
            // SAFETY: both have that many bytes.
            must("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(bytes, self.address()) });
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated by the function that belongs to this one, and nothing is
        // under way on it.
        must("freeing memory", unsafe {
            match self.is_of_host() {
                true => result::free_host(self.begin.as_ptr().cast()),
                false => result::free_sync(self.address()),
            }
        });
    }
}

/// A stream of the GPU, whose work does not wait for that of MPI in the default stream.
pub struct Stream(sys::CUstream);

impl Stream {
    /// A new one.
    pub fn new() -> Result<Stream, String> {
        let created = stream::create(stream::StreamKind::NonBlocking);
        created.map(Stream).map_err(|error| said("cuStreamCreate", error))
    }

    /// The handle, which CUDA's runtime and NCCL take for their own.
    pub fn handle(&self) -> sys::CUstream {
        self.0
    }

    /// Begins to copy.
    ///
    /// # Safety
    /// Both are addresses of that many bytes in memory of GPUs, which nobody writes until the copy
    /// is done.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) {
        let (to, from) = (to as sys::CUdeviceptr, from as sys::CUdeviceptr);
        // SAFETY: the caller's addresses hold that many bytes until the copy is done.
        must("cuMemcpyDtoDAsync", unsafe { result::memcpy_dtod_async(to, from, bytes, self.0) });
    }

    /// Returns whether all is done that was begun.
    pub fn is_done(&self) -> bool {
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(self.0) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => false,
            other => {
                must("cuStreamQuery", other.result());
                true
            }
        }
    }

    /// Waits until all is done that was begun.
    pub fn wait(&self) {
        // SAFETY: the stream is alive.
        must("cuStreamSynchronize", unsafe { stream::synchronize(self.0) });
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was created here, and is destroyed once.
        must("cuStreamDestroy", unsafe { stream::destroy(self.0) });
    }
}

/// Bytes of a handle by which another process finds memory of a GPU.
pub const HANDLE_BYTES: usize = 64;

/// A handle of memory that begins there.
pub fn export(begin: *mut u8) -> Result<[u8; HANDLE_BYTES], String> {
    let mut handle = sys::CUipcMemHandle { reserved: [0; HANDLE_BYTES] };
    // SAFETY: the handle is written to; the address is the begin of device memory.
    let code = unsafe { sys::cuIpcGetMemHandle(&mut handle, begin as sys::CUdeviceptr) };
    code.result().map_err(|error| said("cuIpcGetMemHandle", error))?;
    Ok(handle.reserved.map(|letter| letter as u8))
}

/// Memory of another process, as long as that keeps it.
pub struct Imported(NonNull<u8>);

impl Imported {
    /// The memory of a handle that another process has exported.
    pub fn new(handle: [u8; HANDLE_BYTES]) -> Result<Imported, String> {
        let handle = sys::CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
        let flags = sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut begin = 0;
        // SAFETY: the handle is one that the driver has made; the address is written to.
        let code = unsafe { sys::cuIpcOpenMemHandle_v2(&mut begin, handle, flags) };
        code.result().map_err(|error| said("cuIpcOpenMemHandle", error))?;
        Ok(Imported(NonNull::new(begin as *mut u8).expect("the driver has mapped memory")))
    }

    /// Where it begins here.
    pub fn begin(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: the address is that of `new`, and no copy is under way.
        let code = unsafe { sys::cuIpcCloseMemHandle(self.0.as_ptr() as sys::CUdeviceptr) };
        must("cuIpcCloseMemHandle", code.result());
    }
}
