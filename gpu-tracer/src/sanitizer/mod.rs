//! The back end that uses NVIDIA's Sanitizer API: it patches whole modules, with the functions of `device/patch.cu`.

#[allow(missing_docs)] // as in NVIDIA's headers
pub mod abi;
mod events;
mod functions;

use crate::backend::Backend;
use crate::tracer::Tracer;
use abi::{Handle, PATCHES, domain, driver};
use functions::Functions;
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

pub use events::missed;
pub use functions::of_profiler;

/// The Sanitizer, as the tracer uses it.
pub struct Sanitizer {
    functions: Arc<Functions>,
    /// The file with the patches.
    patches: PathBuf,
    /// Contexts that have them.
    patched: Mutex<HashSet<u64>>,
    /// Devices by number, once they were asked for.
    names: Mutex<HashMap<i32, String>>,
}

/// The back end with its tracer.
pub struct State {
    tracer: Tracer<Sanitizer>,
    functions: Arc<Functions>,
    /// Physical memory of the driver's virtual memory management, by its handle: its device; none if it is another
    /// process's.
    physical: HashMap<u64, Option<i32>>,
}

/// The state of the process, which lives as long as that.
pub struct Shared {
    state: Mutex<State>,
}

/// Handles are numbers to the tracer.
fn number(handle: Handle) -> u64 {
    handle.expose_provenance() as u64
}

fn handle(number: u64) -> Handle {
    std::ptr::with_exposed_provenance_mut(number as usize)
}

impl Sanitizer {
    /// Loads the library of the Sanitizer; `patches` is what `cargo xtask gpu` made.
    pub fn load(library: &Path, patches: &Path) -> Result<Sanitizer, String> {
        if !patches.is_file() {
            return Err(format!("there is no {}", patches.display()));
        }
        let functions = Functions::load(library)?;
        Ok(Sanitizer {
            functions: Arc::new(functions),
            patches: patches.to_owned(),
            patched: Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// Begins to listen. What is returned stays until the process ends.
    pub fn start(self, make: impl FnOnce(Sanitizer) -> Tracer<Sanitizer>) -> Result<&'static Shared, String> {
        let functions = Arc::clone(&self.functions);
        let state = State { tracer: make(self), functions: Arc::clone(&functions), physical: HashMap::new() };
        let shared: &'static Shared = Box::leak(Box::new(Shared { state: Mutex::new(state) }));
        let mut subscriber: Handle = std::ptr::null_mut();
        // SAFETY: the callback has the type that it should, and its data lives as long as the process.
        let status = unsafe {
            (functions.subscribe)(
                &raw mut subscriber,
                events::callback,
                std::ptr::from_ref(shared).cast_mut().cast(),
            )
        };
        if status != 0 {
            return Err(format!("sanitizerSubscribe returned {status}"));
        }
        let domains = [domain::RESOURCE, domain::SYNCHRONIZE, domain::LAUNCH, domain::GRAPHS];
        // SAFETY: the subscriber is the one just made.
        let enabled =
            domains.into_iter().all(|it| unsafe { (functions.enable_domain)(1, subscriber, it) } == 0)
                && driver::ALL.into_iter().all(
                    |it|
                // SAFETY: as above.
                unsafe { (functions.enable_callback)(1, subscriber, domain::DRIVER_API, it) } == 0,
                );
        if enabled { Ok(shared) } else { Err("its callbacks cannot be switched on".to_owned()) }
    }
}

impl Shared {
    /// The state. Another thread has it for moments; should it be held for long, which can only be because the driver
    /// waits for this thread, the event is given up.
    pub fn lock(&self) -> Option<MutexGuard<'_, State>> {
        const MOST: Duration = Duration::from_secs(2);
        let begin = Instant::now();
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if begin.elapsed() > MOST => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(20)),
            }
        }
    }
}

impl State {
    /// What both back ends share.
    pub fn tracer(&mut self) -> &mut Tracer<Sanitizer> {
        &mut self.tracer
    }
}

impl Backend for Sanitizer {
    fn allocate(&self, context: u64, bytes: usize) -> Option<u64> {
        let mut address: *mut c_void = std::ptr::null_mut();
        // SAFETY: the context is one that the driver told of; the address is written.
        let status = unsafe { (self.functions.alloc)(handle(context), &raw mut address, bytes) };
        (status == 0 && !address.is_null()).then(|| number(address))
    }

    fn write(&self, stream: u64, address: u64, bytes: &[u8]) -> bool {
        // SAFETY: the memory is ours and has room; the bytes are taken before the call returns.
        0 == unsafe {
            (self.functions.write)(handle(address), bytes.as_ptr().cast(), bytes.len(), handle(stream))
        }
    }

    fn clear(&self, stream: u64, address: u64, bytes: usize) -> bool {
        // SAFETY: the memory is ours and that long.
        0 == unsafe { (self.functions.set)(handle(address), 0, bytes, handle(stream)) }
    }

    fn read(&self, stream: u64, address: u64, bytes: &mut [u8]) -> bool {
        // SAFETY: the memory is ours and that long, and so is the room for it.
        0 == unsafe {
            (self.functions.read)(bytes.as_mut_ptr().cast(), handle(address), bytes.len(), handle(stream))
        }
    }

    fn function(&self, module: u64, name: &str) -> Option<(u64, u64)> {
        let name = CString::new(name).ok()?;
        let (mut pc, mut bytes) = (0, 0);
        // SAFETY: the module is loaded, the name ends in a zero, the results are written.
        let status =
            unsafe { (self.functions.function)(handle(module), name.as_ptr(), &raw mut pc, &raw mut bytes) };
        (status == 0).then_some((pc, bytes))
    }

    fn patch(&self, context: u64, module: u64) -> bool {
        let mut patched = self.patched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !patched.contains(&context) {
            let Ok(path) = CString::new(self.patches.as_os_str().as_bytes()) else { return false };
            // SAFETY: the context is one that the driver told of, the path ends in a zero.
            if unsafe { (self.functions.add_patches)(path.as_ptr(), handle(context)) } != 0 {
                return false;
            }
            patched.insert(context);
        }
        // Devices before sm_90 have no bulk copies; what can be patched there is.
        let made = PATCHES.iter().filter(|(instruction, function)| {
            // SAFETY: the module is loaded, the name ends in a zero.
            0 == unsafe {
                (self.functions.patch_instructions)(*instruction, handle(module), function.as_ptr())
            }
        });
        // SAFETY: the module is loaded.
        made.count() > 0 && unsafe { (self.functions.patch_module)(handle(module)) } == 0
    }

    fn context_gone(&self, context: u64) {
        self.patched.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&context);
    }

    fn device_name(&self, device: i32) -> String {
        let mut names = self.names.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        names
            .entry(device)
            .or_insert_with(|| uuid(device).unwrap_or_else(|| format!("device {device}")))
            .clone()
    }
}

/// `GPU-8f6ad5c8-…`, as nvidia-smi writes it.
fn uuid(device: c_int) -> Option<String> {
    type GetUuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;
    let address =
        functions::of_driver(c"cuDeviceGetUuid_v2").or_else(|| functions::of_driver(c"cuDeviceGetUuid"))?;
    // SAFETY: the function has this type in cuda.h.
    let get_uuid = unsafe { std::mem::transmute::<*mut c_void, GetUuid>(address) };
    let mut uuid = [0; 16];
    // SAFETY: 16 bytes are written.
    if unsafe { get_uuid(&raw mut uuid, device) } != 0 {
        return None;
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&uuid[part]));
    Some(format!("GPU-{a}-{b}-{c}-{d}-{e}"))
}
