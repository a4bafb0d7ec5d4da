//! The backend that uses NVIDIA's NVBit: it puts calls into single kernels, before the instructions
//! that may access memory of others, and only once there is such memory. A launch of a kernel for
//! which nothing is to be counted runs the kernel as it is.
//!
//! NVBit is C++ and linked statically, into a library of its own, `nvbit/tool.cpp`, which loads
//! this one.

mod driver;
mod events;
mod functions;
mod gate;

use crate::device::backend::{Backend, Queue};
use crate::events::state::Shared;
use crate::generated::layer::{MPISEE_NVBIT_LAYER, mpisee_nvbit_selects};
use crate::process::driver::{device_name, handle};
use crate::tracer::Tracer;
use driver::Driver;
use functions::Functions;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use crate::generated::layer::{mpisee_nvbit, mpisee_nvbit_events};
pub use events::EVENTS;

/// The services of NVBit for the tracer: the functions of [`mpisee_nvbit`], each of which is there.
struct Layer {
    instrument: unsafe extern "C" fn(*mut c_void, *mut c_void, mpisee_nvbit_selects, *mut c_void) -> u32,
    enable: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int),
    set: unsafe extern "C" fn(*mut c_void, *mut c_void, u64, *mut c_void, u64),
    address: unsafe extern "C" fn(*mut c_void, *mut c_void) -> u64,
    name: unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const c_char,
    image: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char),
}

impl Layer {
    fn from_nvbit(nvbit: &mpisee_nvbit) -> Option<Layer> {
        Some(Layer {
            instrument: nvbit.instrument?,
            enable: nvbit.enable?,
            set: nvbit.set?,
            address: nvbit.address?,
            name: nvbit.name?,
            image: nvbit.image?,
        })
    }
}

/// NVBit, as the tracer uses it.
struct Nvbit {
    layer: Layer,
    driver: Driver,
    functions: Mutex<Functions>,
    /// Our own stream of each context.
    streams: Mutex<HashMap<u64, u64>>,
    /// Names of devices by number, cached.
    names: Mutex<HashMap<i32, String>>,
}

/// The backend, as the tracer has it.
struct Back(Arc<Nvbit>);

/// Begins to listen. What is returned stays until the process ends.
///
/// # Safety
/// `nvbit` is that of nvbit/tool.cpp.
pub unsafe fn start(
    nvbit: *const mpisee_nvbit,
    make: impl FnOnce(Box<dyn Backend>) -> Tracer,
) -> Result<&'static Shared, String> {
    // SAFETY: nvbit/tool.cpp passes its structure, which is static there, or null. Every version
    // has the number first.
    let version =
        unsafe { nvbit.cast::<u32>().as_ref() }.ok_or("NVBit's part of the tracer gives nothing")?;
    if *version != MPISEE_NVBIT_LAYER {
        return Err("NVBit's part of the tracer is of another version of mpisee".to_owned());
    }
    // SAFETY: the structure is of this version, by its number.
    let layer = Layer::from_nvbit(unsafe { &*nvbit }).ok_or("NVBit's part of the tracer lacks a function")?;
    let nvbit = Arc::new(Nvbit {
        layer,
        driver: Driver::find()?,
        functions: Mutex::default(),
        streams: Mutex::default(),
        names: Mutex::default(),
    });
    let shared = Shared::new(make(Box::new(Back(Arc::clone(&nvbit)))));
    events::listen(nvbit, shared);
    Ok(shared)
}

impl Nvbit {
    fn functions(&self) -> MutexGuard<'_, Functions> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Our own stream in a context that is current: what goes there waits for none of the program's
    /// kernels.
    fn stream(&self, context: u64) -> Option<u64> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&stream) = streams.get(&context) {
            return Some(stream);
        }
        let stream = self.driver.new_stream()?;
        streams.insert(context, stream);
        Some(stream)
    }

    /// Does something in our stream of a context, and waits until it is done.
    fn at_once(&self, context: u64, act: impl FnOnce(&Driver, u64) -> bool) -> bool {
        self.driver.within(context, || {
            let Some(stream) = self.stream(context) else { return false };
            act(&self.driver, stream) && self.driver.wait(stream)
        }) == Some(true)
    }

    /// Reads the image of the module that a function is of: NVBit writes it to a file, here one in
    /// memory.
    fn image(&self, context: u64, function: u64) -> Vec<u8> {
        // SAFETY: the name ends in a zero.
        let descriptor = unsafe { libc::memfd_create(c"mpisee-module".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Vec::new();
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { std::fs::File::from_raw_fd(descriptor) };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Ok(name) = CString::new(path.as_str()) else { return Vec::new() };
        let (context, function) = (handle(context), handle(function));
        // SAFETY: context and function are NVBit's; the name ends in a zero.
        unsafe { (self.layer.image)(context, function, name.as_ptr()) };
        std::fs::read(path).unwrap_or_default()
    }
}

impl Backend for Back {
    fn allocate(&self, context: u64, bytes: usize) -> Option<u64> {
        let Back(nvbit) = self;
        nvbit.driver.within(context, || nvbit.driver.allocate(bytes)).flatten()
    }

    fn write(&self, queue: Queue, address: u64, bytes: &[u8]) -> bool {
        self.0.at_once(queue.context, |driver, stream| driver.write(address, bytes, stream))
    }

    fn clear(&self, queue: Queue, address: u64, bytes: usize) -> bool {
        self.0.at_once(queue.context, |driver, stream| driver.clear(address, bytes, stream))
    }

    fn read(&self, queue: Queue, address: u64, bytes: &mut [u8]) -> bool {
        self.0.at_once(queue.context, |driver, stream| driver.read(bytes, address, stream))
    }

    fn wait(&self, queue: Queue) -> bool {
        let Back(nvbit) = self;
        nvbit.driver.within(queue.context, || nvbit.driver.wait(events::stream_of(queue.stream)))
            == Some(true)
    }

    fn settle(&self, context: u64) {
        let Back(nvbit) = self;
        nvbit.driver.within(context, || nvbit.driver.settle());
    }

    fn functions(&self, module: u64) -> Vec<String> {
        let functions = self.0.functions();
        functions.code.keys().filter(|(of, _)| *of == module).map(|(_, name)| name.clone()).collect()
    }

    fn function(&self, module: u64, name: &str) -> Option<(u64, u64)> {
        self.0.functions().code.get(&(module, name.to_owned())).copied()
    }

    fn patch(&self, _: u64, _: u64) -> bool {
        true
    }

    fn context_gone(&self, context: u64) {
        let Back(nvbit) = self;
        nvbit.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&context);
        nvbit.functions().context_gone(context);
    }

    fn device_name(&self, device: i32) -> String {
        let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(device).or_insert_with(|| device_name(device)).clone()
    }
}
