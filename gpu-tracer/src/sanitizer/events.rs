//! The Sanitizer's callbacks, as events of the tracer.

use super::abi::{
    API_EXIT, ApiData, ContextData, CreateParameters, Handle, ImportParameters, IpcGetParameters,
    IpcOpenParameters, KERNEL_NODE, LaunchData, MapParameters, MemoryData, ModuleData, NodeLaunchData,
    ON_DEVICE, RegisterParameters, SynchronizeData, UnmapParameters, domain, driver, graphs, launch, memory,
    resource, synchronize,
};
use super::{Shared, State, functions, number};
use crate::registry::Where;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Events that were given up.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// What to say of events that were given up, if there were any.
pub fn missed() -> Option<String> {
    let missed = MISSED.load(Ordering::Relaxed);
    (missed > 0).then(|| {
        format!("{missed} events of the CUDA driver were not seen, so that gpu.csv may lack accesses")
    })
}

thread_local! {
    /// Whether this thread is in a callback: what we ask of the driver there is none of the program's doing.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What the Sanitizer calls.
///
/// # Safety
/// `shared` is a [`Shared`], and `data` what NVIDIA's headers say for the domain and the number.
pub unsafe extern "C" fn callback(shared: *mut c_void, domain: u32, id: u32, data: *const c_void) {
    if data.is_null() || INSIDE.replace(true) {
        return;
    }
    // SAFETY: it was given to sanitizerSubscribe, and lives as long as the process.
    let shared = unsafe { &*shared.cast::<Shared>() };
    // A panic of ours must not unwind into the driver; the event is then one that was not seen.
    let seen = catch_unwind(AssertUnwindSafe(|| {
        match shared.lock() {
            // SAFETY: as the caller says.
            Some(mut state) => unsafe { event(&mut state, domain, id, data) },
            None => drop(MISSED.fetch_add(1, Ordering::Relaxed)),
        }
    }));
    if seen.is_err() {
        MISSED.fetch_add(1, Ordering::Relaxed);
    }
    INSIDE.set(false);
}

unsafe fn event(state: &mut State, domain: u32, id: u32, data: *const c_void) {
    // SAFETY: each cast is to the type that the headers give for the domain and the number.
    unsafe {
        match (domain, id) {
            (domain::RESOURCE, resource::CONTEXT_CREATION_FINISHED) => {
                let data = &*data.cast::<ContextData>();
                state.tracer.context_created(number(data.context), data.device);
            }
            (domain::RESOURCE, resource::CONTEXT_DESTROY_STARTING) => {
                state.tracer.context_destroyed(number((*data.cast::<ContextData>()).context));
            }
            (domain::RESOURCE, resource::MODULE_LOADED) => module_loaded(state, &*data.cast()),
            (domain::RESOURCE, resource::MODULE_UNLOAD_STARTING) => {
                state.tracer.module_unloading(number((*data.cast::<ModuleData>()).module));
            }
            (domain::RESOURCE, id) => memory_event(state, id, data),
            (domain::SYNCHRONIZE, synchronize::STREAM) => {
                let data = &*data.cast::<SynchronizeData>();
                state.tracer.synchronized(number(data.context), Some(number(data.stream_handle)));
            }
            (domain::SYNCHRONIZE, synchronize::CONTEXT) => {
                state.tracer.synchronized(number((*data.cast::<SynchronizeData>()).context), None);
            }
            (domain::LAUNCH, launch::BEGIN) => kernel_launch(state, &*data.cast()),
            (domain::GRAPHS, graphs::NODE_LAUNCH_BEGIN) => {
                let data = data.cast::<NodeLaunchData>();
                if (*data).kind == KERNEL_NODE {
                    kernel_launch(state, &(*data).launch);
                }
            }
            (domain::DRIVER_API, id) => driver_call(state, id, &*data.cast()),
            _ => {}
        }
    }
}

/// # Safety
/// The image is as long as it says.
unsafe fn module_loaded(state: &mut State, data: &ModuleData) {
    let image = if data.cubin.is_null() {
        &[][..]
    } else {
        // SAFETY: the image is valid for the time of the callback.
        unsafe { std::slice::from_raw_parts(data.cubin, data.cubin_bytes) }
    };
    state.tracer.module_loaded(number(data.context), number(data.module), image);
}

/// # Safety
/// The name ends in a zero.
unsafe fn kernel_launch(state: &mut State, data: &LaunchData) {
    if data.function_name.is_null() {
        return;
    }
    // SAFETY: the driver's name of the kernel, valid for the time of the callback.
    let name = unsafe { CStr::from_ptr(data.function_name) }.to_string_lossy();
    let (context, stream) = (number(data.context), number(data.stream_handle));
    let address = state.tracer.launch(context, stream, number(data.module), &name);
    // A launch without a place to count has patches that do nothing.
    let address: Handle = address.map_or(std::ptr::null_mut(), super::handle);
    // SAFETY: launch, function and stream are those of the event; the memory stays until the launch has ended.
    unsafe { (state.functions.set_launch_data)(data.launch, data.function, data.stream_handle, address) };
}

/// # Safety
/// `data` is what the headers say for the number.
unsafe fn memory_event(state: &mut State, id: u32, data: *const c_void) {
    let is_allocation = match id {
        resource::DEVICE_MEMORY_ALLOC
        | resource::HOST_MEMORY_ALLOC
        | resource::MEMORY_ALLOC_ASYNC
        | resource::MEMPOOL_IMPORT_POINTER => true,
        resource::DEVICE_MEMORY_FREE | resource::HOST_MEMORY_FREE | resource::MEMORY_FREE_ASYNC => false,
        _ => return,
    };
    // SAFETY: the events above have this type.
    let data = unsafe { &*data.cast::<MemoryData>() };
    // What belongs to the code or the runtime is nobody's object; another device's view of memory is the same memory.
    if data.flags & (memory::CG_RUNTIME | memory::CNP) != 0
        || data.flags & memory::PEER != 0 && !is_allocation
    {
        return;
    }
    if !is_allocation {
        state.tracer.freed(data.address);
        return;
    }
    let place = match id {
        _ if data.flags & memory::MANAGED != 0 => Where::Managed,
        resource::HOST_MEMORY_ALLOC => Where::Pinned,
        resource::MEMPOOL_IMPORT_POINTER => Where::Imported(Some(data.device)),
        _ if data.flags & memory::PEER != 0 => Where::Device(data.source_device),
        _ => Where::Device(data.device),
    };
    state.tracer.allocated(data.address, data.bytes, place);
}

/// # Safety
/// The parameters are those of the function with that number.
unsafe fn driver_call(state: &mut State, id: u32, data: &ApiData) {
    // SAFETY: at the end of a call the pointer to its result is valid.
    let succeeded = data.site == API_EXIT && unsafe { data.return_value.as_ref() } == Some(&0);
    if !succeeded || data.parameters.is_null() {
        return;
    }
    let tracer = &mut state.tracer;
    // SAFETY: the casts are to the types that generated_cuda_meta.h gives, and results of a call that succeeded are valid.
    unsafe {
        match id {
            driver::IPC_GET_MEM_HANDLE => {
                let call = &*data.parameters.cast::<IpcGetParameters>();
                tracer.ipc_exported(call.address, hex(&*call.handle));
            }
            driver::IPC_OPEN_MEM_HANDLE | driver::IPC_OPEN_MEM_HANDLE_V2 => {
                let call = &*data.parameters.cast::<IpcOpenParameters>();
                let address = *call.address;
                tracer.ipc_opened(address, size_of_mapping(address), hex(&call.handle));
            }
            // These have the address alone.
            driver::IPC_CLOSE_MEM_HANDLE | driver::MEM_HOST_UNREGISTER => {
                tracer.freed(*data.parameters.cast::<u64>());
            }
            driver::MEM_HOST_REGISTER | driver::MEM_HOST_REGISTER_V2 => {
                let call = &*data.parameters.cast::<RegisterParameters>();
                tracer.allocated(call.address, call.bytes as u64, Where::Registered);
            }
            driver::MEM_CREATE => {
                let call = &*data.parameters.cast::<CreateParameters>();
                let properties = &*call.properties;
                // What is not on a device is on the host.
                let device =
                    if properties.location_type == ON_DEVICE { properties.location } else { ON_HOST };
                state.physical.insert(*call.handle, Some(device));
            }
            driver::MEM_IMPORT_FROM_SHAREABLE_HANDLE => {
                let call = &*data.parameters.cast::<ImportParameters>();
                state.physical.insert(*call.handle, None);
            }
            driver::MEM_MAP => {
                let call = &*data.parameters.cast::<MapParameters>();
                let place = match state.physical.get(&call.handle) {
                    Some(&Some(ON_HOST)) => Where::Pinned,
                    Some(&Some(device)) => Where::Device(device),
                    _ => Where::Imported(None),
                };
                tracer.allocated(call.address, call.bytes as u64, place);
            }
            driver::MEM_UNMAP => {
                let call = &*data.parameters.cast::<UnmapParameters>();
                tracer.unmapped(call.address, call.bytes as u64);
            }
            _ => {}
        }
    }
}

/// Stands for the host where a device's number is expected.
const ON_HOST: c_int = -1;

/// How long what was mapped at the address is, by the driver; 0 if it does not say.
fn size_of_mapping(address: u64) -> u64 {
    type GetRange = unsafe extern "C" fn(*mut u64, *mut usize, u64) -> c_int;
    let Some(function) = functions::of_driver(c"cuMemGetAddressRange_v2") else { return 0 };
    // SAFETY: the function has this type in cuda.h.
    let get_range = unsafe { std::mem::transmute::<*mut c_void, GetRange>(function) };
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: both results are written.
    let status = unsafe { get_range(&raw mut base, &raw mut bytes, address) };
    if status == 0 && base == address { bytes as u64 } else { 0 }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
