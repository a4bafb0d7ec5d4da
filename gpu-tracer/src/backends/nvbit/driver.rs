//! Driver functions for the backend: memory of our own, and a stream of our own. All of them are
//! found in the driver that the program has loaded; nothing is linked.

use crate::process::driver::{Handle, function, handle, number};
use cudarc::driver::sys::{CUresult, CUstream_flags, CUstreamCaptureMode, CUstreamCaptureStatus};
use std::ffi::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

const NON_BLOCKING: c_uint = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
const RELAXED: c_int = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int;
const NOT_CAPTURED: c_int = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_int;
const NOT_READY: c_int = CUresult::CUDA_ERROR_NOT_READY as c_int;
/// The time that the last collection of counts waits for kernels that still run.
const MOST_SETTLING: Duration = Duration::from_secs(2);

macro_rules! driver {
    ($($field:ident = $name:literal : fn($($argument:ty),*);)*) => {
        /// The functions; all of them return a status.
        pub struct Driver { $($field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl Driver {
            /// Looks all of them up; the error names one that is missing.
            pub fn find() -> Result<Driver, String> {
                Ok(Driver { $($field: {
                    let address = function($name)
                        .ok_or_else(|| format!("the CUDA driver has no {}", $name.to_string_lossy()))?;
                    // SAFETY: the function of that name has this type in cuda.h.
                    unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(address)
                    }
                },)* })
            }
        }
    };
}

driver! {
    push = c"cuCtxPushCurrent_v2": fn(Handle);
    pop = c"cuCtxPopCurrent_v2": fn(*mut Handle);
    device = c"cuCtxGetDevice": fn(*mut c_int);
    capture_mode = c"cuThreadExchangeStreamCaptureMode": fn(*mut c_int);
    stream_create = c"cuStreamCreate": fn(*mut Handle, c_uint);
    stream_wait = c"cuStreamSynchronize": fn(Handle);
    stream_query = c"cuStreamQuery": fn(Handle);
    is_capturing = c"cuStreamIsCapturing": fn(Handle, *mut c_int);
    alloc = c"cuMemAlloc_v2": fn(*mut u64, usize);
    write = c"cuMemcpyHtoDAsync_v2": fn(u64, *const c_void, usize, Handle);
    read = c"cuMemcpyDtoHAsync_v2": fn(*mut c_void, u64, usize, Handle);
    set = c"cuMemsetD8Async": fn(u64, u8, usize, Handle);
    module = c"cuFuncGetModule": fn(*mut Handle, Handle);
    kernel = c"cuKernelGetFunction": fn(*mut Handle, Handle);
    library_module = c"cuLibraryGetModule": fn(*mut Handle, Handle);
}

impl Driver {
    /// Acts with a context current; none if that cannot be made so. A stream that is being captured
    /// is left alone, and is no reason for the driver to refuse.
    pub fn within<T>(&self, context: u64, act: impl FnOnce() -> T) -> Option<T> {
        // SAFETY: the driver reported the context, and what is pushed is popped.
        if unsafe { (self.push)(handle(context)) } != 0 {
            return None;
        }
        let (mut mode, mut popped) = (RELAXED, std::ptr::null_mut());
        // SAFETY: the mode is read and written; it is this thread's, and is given back.
        let is_relaxed = unsafe { (self.capture_mode)(&raw mut mode) } == 0;
        let result = act();
        if is_relaxed {
            // SAFETY: the mode is this thread's, as it was before, and is read and written.
            unsafe { (self.capture_mode)(&raw mut mode) };
        }
        // SAFETY: the context that was pushed is on top; the result is written.
        unsafe { (self.pop)(&raw mut popped) };
        Some(result)
    }

    /// The device of the context that is current.
    pub fn device(&self) -> Option<i32> {
        let mut device = 0;
        // SAFETY: the result is written.
        (unsafe { (self.device)(&raw mut device) } == 0).then_some(device)
    }

    /// A stream that waits for no other.
    pub fn new_stream(&self) -> Option<u64> {
        let mut stream: Handle = std::ptr::null_mut();
        // SAFETY: the result is written.
        (unsafe { (self.stream_create)(&raw mut stream, NON_BLOCKING) } == 0).then(|| number(stream))
    }

    /// Device memory.
    pub fn allocate(&self, bytes: usize) -> Option<u64> {
        let mut address = 0;
        // SAFETY: the result is written.
        (unsafe { (self.alloc)(&raw mut address, bytes) } == 0).then_some(address)
    }

    /// Puts a copy to the device into a stream. The bytes stay until the stream is waited for.
    pub fn write(&self, address: u64, bytes: &[u8], stream: u64) -> bool {
        // SAFETY: the memory is ours and has room; whoever calls waits for the stream.
        0 == unsafe { (self.write)(address, bytes.as_ptr().cast(), bytes.len(), handle(stream)) }
    }

    /// Puts a copy from the device into a stream.
    pub fn read(&self, bytes: &mut [u8], address: u64, stream: u64) -> bool {
        // SAFETY: the memory is ours and that long, and so is the room for it, until the stream is
        // waited for.
        0 == unsafe { (self.read)(bytes.as_mut_ptr().cast(), address, bytes.len(), handle(stream)) }
    }

    /// Puts the setting of memory to zero into a stream.
    pub fn clear(&self, address: u64, bytes: usize, stream: u64) -> bool {
        // SAFETY: the memory is ours and that long.
        0 == unsafe { (self.set)(address, 0, bytes, handle(stream)) }
    }

    /// Waits for a stream of the context that is current.
    pub fn wait(&self, stream: u64) -> bool {
        // SAFETY: the stream is ours, or one in which the program is about to launch a kernel.
        0 == unsafe { (self.stream_wait)(handle(stream)) }
    }

    /// Waits for what the context's streams have that wait for each other, for a while.
    pub fn settle(&self) {
        let begin = Instant::now();
        // SAFETY: no stream is the context's own.
        while unsafe { (self.stream_query)(std::ptr::null_mut()) } == NOT_READY
            && begin.elapsed() < MOST_SETTLING
        {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Returns whether the stream is being captured into a graph.
    pub fn is_capturing(&self, stream: u64) -> bool {
        let mut status = NOT_CAPTURED;
        // SAFETY: the program is about to launch a kernel in the stream; the result is written.
        let is_known = unsafe { (self.is_capturing)(handle(stream), &raw mut status) } == 0;
        is_known && status != NOT_CAPTURED
    }

    /// The module of a function, and the function, of which a kernel of a library stands for one.
    /// The handle itself for both if the driver does not say.
    pub fn module_of(&self, given: u64) -> [u64; 2] {
        let (mut module, mut function): (Handle, Handle) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the program is about to launch it; the results are written.
        unsafe {
            if (self.module)(&raw mut module, handle(given)) == 0 {
                [number(module), given]
            } else if (self.kernel)(&raw mut function, handle(given)) == 0
                && (self.module)(&raw mut module, function) == 0
            {
                [number(module), number(function)]
            } else {
                [given, given]
            }
        }
    }

    /// The module that a library is in the context that is current.
    pub fn module_of_library(&self, library: u64) -> Option<u64> {
        let mut module: Handle = std::ptr::null_mut();
        // SAFETY: the program is about to unload it; the result is written.
        (unsafe { (self.library_module)(&raw mut module, handle(library)) } == 0).then(|| number(module))
    }
}
