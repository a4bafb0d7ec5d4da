//! The backend that uses NVIDIA's Sanitizer API: it patches whole modules, with the functions of
//! `device/patch.cu`.

mod abi;
mod events;
mod functions;
mod log;

use crate::device::backend::{Backend, Queue};
use crate::events::state::Shared;
use crate::generated::sanitizer::*;
use crate::process::driver::{self, Handle, handle, number};
use crate::trace::trace;
use crate::tracer::Tracer;
use abi::{DRIVER_CALLS, PATCHES};
use functions::Functions;
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The Sanitizer, as the tracer uses it.
pub struct Sanitizer {
    functions: Arc<Functions>,
    /// The file with the patches.
    patches: PathBuf,
    /// True if warps are drawn, or records written.
    has_more: bool,
    /// Contexts that have them.
    patched: Mutex<HashSet<u64>>,
    /// Names of devices by number, cached.
    names: Mutex<HashMap<i32, String>>,
}

/// Data of the Sanitizer's callbacks.
pub struct Listener {
    shared: &'static Shared,
    functions: Arc<Functions>,
    /// True with the Sanitizer of CUDA 13.1 or later.
    has_green_contexts: AtomicBool,
}

impl Listener {
    /// A field that is behind the context in the data of a context or stream. From CUDA 13.1 on the
    /// green context is between them, which the bindings, of CUDA 13.0, do not have.
    ///
    /// # Safety
    /// The field is one of data that the Sanitizer passes.
    unsafe fn behind_context<T: Copy>(&self, field: *const T) -> T {
        let has_more = self.has_green_contexts.load(Ordering::Relaxed);
        // SAFETY: the Sanitizer's data has the field there.
        unsafe { field.byte_add(if has_more { size_of::<Handle>() } else { 0 }).read() }
    }
}

impl Sanitizer {
    /// Loads the library of the Sanitizer; `patches` is the file that `cargo xtask gpu` makes.
    /// `has_more`: warps are sampled, or records written.
    pub fn load(library: &Path, patches: &Path, has_more: bool) -> Result<Sanitizer, String> {
        if !patches.is_file() {
            return Err(format!("there is no {}", patches.display()));
        }
        let functions = Functions::load(library)?;
        Ok(Sanitizer {
            functions: Arc::new(functions),
            patches: patches.to_owned(),
            has_more,
            patched: Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// Begins to listen. What is returned stays until the process ends.
    pub fn start(self, make: impl FnOnce(Box<dyn Backend>) -> Tracer) -> Result<&'static Shared, String> {
        let functions = Arc::clone(&self.functions);
        let shared = Shared::new(make(Box::new(self)));
        let has_green_contexts = AtomicBool::new(false);
        let listener = Listener { shared, functions: Arc::clone(&functions), has_green_contexts };
        let listener = Box::leak(Box::new(listener));
        let mut subscriber: Handle = std::ptr::null_mut();
        // SAFETY: the callback has the type that it should, and its data lives as long as the
        // process.
        let status = unsafe {
            (functions.subscribe)(
                &raw mut subscriber,
                events::callback,
                std::ptr::from_ref(listener).cast_mut().cast(),
            )
        };
        if status != 0 {
            return Err(format!("sanitizerSubscribe returned {status}"));
        }
        // A version without green contexts refuses to switch their events, even off. No event comes
        // before the domains are switched on.
        // SAFETY: the subscriber is the one just made.
        let status = unsafe {
            (functions.enable_callback)(
                0,
                subscriber,
                SANITIZER_CB_DOMAIN_RESOURCE,
                abi::GREEN_CONTEXT_CREATED,
            )
        };
        listener.has_green_contexts.store(status == 0, Ordering::Relaxed);
        let domains = [
            SANITIZER_CB_DOMAIN_RESOURCE,
            SANITIZER_CB_DOMAIN_SYNCHRONIZE,
            SANITIZER_CB_DOMAIN_LAUNCH,
            SANITIZER_CB_DOMAIN_GRAPHS,
        ];
        // SAFETY: the subscriber is the one just made.
        let enabled = domains
            .into_iter()
            .all(|it| unsafe { (functions.enable_domain)(1, subscriber, it) } == 0)
            && DRIVER_CALLS.into_iter().all(
                |(it, _)|
                // SAFETY: the subscriber is the one just made.
                unsafe { (functions.enable_callback)(1, subscriber, SANITIZER_CB_DOMAIN_DRIVER_API, it) } == 0,
            );
        if enabled { Ok(shared) } else { Err("its callbacks cannot be switched on".to_owned()) }
    }

    /// The stream of a queue. Without one it is the NULL stream of the queue's context: to the
    /// Sanitizer null is that of the context that the thread happens to have, which need not be the
    /// same.
    fn stream(&self, queue: Queue) -> Handle {
        let mut stream = handle(queue.stream);
        if queue.stream == 0 {
            let none = std::ptr::null_mut();
            // SAFETY: the driver reported the context; the handle is written.
            let status =
                unsafe { (self.functions.stream_handle)(handle(queue.context), none, &raw mut stream) };
            succeeds("looking for the NULL stream", status);
        }
        stream
    }
}

/// Returns whether a call of the Sanitizer succeeded.
fn succeeds(what: &str, status: abi::Status) -> bool {
    if status != 0 {
        trace!("{what} failed status={status}");
    }
    status == 0
}

impl Backend for Sanitizer {
    fn allocate(&self, context: u64, bytes: usize) -> Option<u64> {
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: the driver reported the context; the address is written.
        let status = unsafe { (self.functions.alloc)(handle(context), &raw mut address, bytes) };
        trace!("allocated for us status={status} address={address:p} bytes={bytes}");
        (status == 0 && !address.is_null()).then(|| number(address))
    }

    fn write(&self, queue: Queue, address: u64, bytes: &[u8]) -> bool {
        // SAFETY: the memory is ours and has room; the bytes are taken before the call returns.
        succeeds("write", unsafe {
            (self.functions.write)(handle(address), bytes.as_ptr().cast(), bytes.len(), self.stream(queue))
        })
    }

    fn clear(&self, queue: Queue, address: u64, bytes: usize) -> bool {
        // SAFETY: the memory is ours and that long.
        succeeds("clear", unsafe { (self.functions.set)(handle(address), 0, bytes, self.stream(queue)) })
    }

    fn read(&self, queue: Queue, address: u64, bytes: &mut [u8]) -> bool {
        // SAFETY: the memory is ours and that long, and so is the room for it.
        succeeds("read", unsafe {
            (self.functions.read)(bytes.as_mut_ptr().cast(), handle(address), bytes.len(), self.stream(queue))
        })
    }

    fn wait(&self, queue: Queue) -> bool {
        // SAFETY: the stream is one of the context's.
        succeeds("waiting", unsafe { (self.functions.stream_wait)(self.stream(queue)) })
    }

    fn function(&self, module: u64, name: &str) -> Option<(u64, u64)> {
        let name = CString::new(name).ok()?;
        let (mut pc, mut bytes) = (0, 0);
        // SAFETY: the module is loaded, the name ends in a zero, the results are written.
        let status =
            unsafe { (self.functions.function)(handle(module), name.as_ptr(), &raw mut pc, &raw mut bytes) };
        trace!("function {name:?} module={module:#x} status={status} pc={pc:#x} bytes={bytes}");
        (status == 0).then_some((pc, bytes))
    }

    fn patch(&self, context: u64, module: u64) -> bool {
        let mut patched = self.patched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !patched.contains(&context) {
            let Ok(path) = CString::new(self.patches.as_os_str().as_bytes()) else { return false };
            // SAFETY: the driver reported the context, the path ends in a zero.
            let status = unsafe { (self.functions.add_patches)(path.as_ptr(), handle(context)) };
            if !succeeds("adding patches", status) {
                return false;
            }
            patched.insert(context);
        }
        // NVIDIA does not document whether taking patches out also forgets which instructions are
        // to be patched; AccelProf says it each time. Devices before sm_90 have no bulk copies;
        // what can be patched there is.
        let made = PATCHES.iter().filter(|(instruction, plain, more)| {
            let function = if self.has_more { more } else { plain };
            // SAFETY: the module is loaded, the name ends in a zero.
            let status = unsafe {
                (self.functions.patch_instructions)(*instruction, handle(module), function.as_ptr())
            };
            trace!("patch {function:?} module={module:#x} status={status}");
            status == 0
        });
        // SAFETY: the module is loaded.
        made.count() > 0
            && succeeds("patching a module", unsafe { (self.functions.patch_module)(handle(module)) })
    }

    fn unpatch(&self, module: u64) -> bool {
        // SAFETY: the module is loaded.
        succeeds("taking patches out", unsafe { (self.functions.unpatch_module)(handle(module)) })
    }

    fn context_gone(&self, context: u64) {
        self.patched.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&context);
    }

    fn device_name(&self, device: i32) -> String {
        let mut names = self.names.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        names.entry(device).or_insert_with(|| driver::device_name(device)).clone()
    }
}
