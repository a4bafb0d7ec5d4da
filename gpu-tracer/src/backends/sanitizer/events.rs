//! The Sanitizer's callbacks, as events of the tracer.

use super::Listener;
use super::abi::DRIVER_CALLS;
use super::functions::Functions;
use super::log;
use crate::events::calls;
use crate::events::state::State;
use crate::generated::sanitizer::*;
use crate::memory::registry::Where;
use crate::process::driver::{self, number};
use crate::trace::{self, trace};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

thread_local! {
    /// True if this thread makes a context: memory of the host that comes meanwhile is the driver's
    /// own.
    static MAKES_CONTEXT: Cell<bool> = const { Cell::new(false) };
}

/// Callback of the Sanitizer.
///
/// # Safety
/// `listener` is a [`Listener`], and `data` what NVIDIA's headers say for the domain and the
/// number.
pub unsafe extern "C" fn callback(listener: *mut c_void, domain: u32, id: u32, data: *const c_void) {
    // The two further events of each launch are of no use.
    let is_of_interest =
        domain != SANITIZER_CB_DOMAIN_LAUNCH || id == SANITIZER_CBID_LAUNCH_BEGIN || trace::is_on();
    if data.is_null() || !is_of_interest {
        return;
    }
    // SAFETY: it was given to sanitizerSubscribe, and lives as long as the process.
    let listener = unsafe { &*listener.cast::<Listener>() };
    // SAFETY: the Sanitizer passes what its headers say for this domain and number.
    listener.shared.event(|state| unsafe {
        if trace::is_on() {
            log::trace(listener, domain, id, data);
        }
        event(state, listener, domain, id, data);
    });
}

unsafe fn event(state: &mut State, listener: &Listener, domain: u32, id: u32, data: *const c_void) {
    let functions = &*listener.functions;
    // SAFETY: each cast is to the type that the headers give for the domain and the number.
    unsafe {
        match (domain, id) {
            (SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_STARTING) => {
                MAKES_CONTEXT.set(true)
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_FINISHED) => {
                MAKES_CONTEXT.set(false);
                let data = data.cast::<Sanitizer_ResourceContextData>();
                let device = listener.behind_context(&raw const (*data).device);
                state.tracer.context_created(number((*data).context), device);
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) => {
                state
                    .tracer
                    .context_destroyed(number((*data.cast::<Sanitizer_ResourceContextData>()).context));
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_STREAM_DESTROY_STARTING) => {
                let data = data.cast::<Sanitizer_ResourceStreamData>();
                let stream = listener.behind_context(&raw const (*data).hStream);
                state.tracer.stream_gone(number((*data).context), number(stream));
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_MODULE_LOADED) => {
                module_loaded(state, &*data.cast())
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING) => {
                state.tracer.module_unloading(number((*data.cast::<Sanitizer_ResourceModuleData>()).module));
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, id) => memory_event(state, id, data),
            (SANITIZER_CB_DOMAIN_SYNCHRONIZE, SANITIZER_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED) => {
                let data = &*data.cast::<Sanitizer_SynchronizeData>();
                state.tracer.synchronized(number(data.context), Some(number(data.hStream)));
            }
            (SANITIZER_CB_DOMAIN_SYNCHRONIZE, SANITIZER_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED) => {
                state.tracer.synchronized(number((*data.cast::<Sanitizer_SynchronizeData>()).context), None);
            }
            (SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_BEGIN) => {
                kernel_launch(state, functions, &*data.cast())
            }
            (SANITIZER_CB_DOMAIN_GRAPHS, id) => {
                state.tracer.graph_seen();
                if id == SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATING {
                    state.tracer.graph_creating();
                }
                let data = data.cast::<Sanitizer_GraphNodeLaunchData>();
                if id == SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN
                    && (*data).nodeType == CU_GRAPH_NODE_TYPE_KERNEL
                {
                    kernel_launch(state, functions, &(*data).__bindgen_anon_1.launchData);
                }
            }
            (SANITIZER_CB_DOMAIN_DRIVER_API, id) => driver_call(state, id, &*data.cast()),
            _ => {}
        }
    }
}

/// # Safety
/// The image is as long as it says.
unsafe fn module_loaded(state: &mut State, data: &Sanitizer_ResourceModuleData) {
    let image = if data.pCubin.is_null() {
        &[][..]
    } else {
        // SAFETY: the image is valid for the time of the callback.
        unsafe { std::slice::from_raw_parts(data.pCubin.cast::<u8>(), data.cubinSize) }
    };
    state.tracer.module_loaded(number(data.context), number(data.module), image);
}

/// # Safety
/// The name ends in a zero.
unsafe fn kernel_launch(state: &mut State, functions: &Functions, data: &Sanitizer_LaunchData) {
    // SAFETY: the driver's name of the kernel, valid for the time of the callback.
    let Some(name) = (unsafe { driver::text(data.functionName) }) else { return };
    // The creation of a context that fails has no second event.
    MAKES_CONTEXT.set(false);
    let (context, stream, module) = (number(data.context), number(data.hStream), number(data.module));
    if !state.tracer.knows_context(context) {
        // Of one that shares a device with others, a green context, the creation may not be
        // reported.
        state.tracer.context_created(context, data.device);
    }
    // NULL, or CU_STREAM_LEGACY, which is the same stream.
    let in_own_stream = data.stream.addr() > 1;
    if !state.tracer.is_patched_for(context, module, &name, in_own_stream) {
        return;
    }
    let address = state.tracer.launch(context, stream, module, &name);
    // A launch without a place to count has patches that do nothing.
    let address: driver::Handle = address.map_or(std::ptr::null_mut(), driver::handle);
    // SAFETY: launch, function and stream are those of the event; the memory stays until the launch
    // has ended.
    let status = unsafe { (functions.set_launch_data)(data.hLaunch, data.function, data.hStream, address) };
    trace!("launch gets {address:p} status={status}");
}

/// # Safety
/// `data` is what the headers say for the number.
unsafe fn memory_event(state: &mut State, id: u32, data: *const c_void) {
    let is_allocation = match id {
        SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC
        | SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC
        | SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC
        | SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER => true,
        SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE
        | SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE
        | SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC => false,
        _ => return,
    };
    // SAFETY: the events above have this type.
    let data = unsafe { &*data.cast::<Sanitizer_ResourceMemoryData>() };
    // Memory of the code or the runtime is nobody's object; another device's view of memory is the
    // same memory.
    if data.flags & (SANITIZER_MEMORY_FLAG_CG_RUNTIME | SANITIZER_MEMORY_FLAG_CNP) != 0
        || data.flags & SANITIZER_MEMORY_FLAG_PEER != 0 && !is_allocation
    {
        return;
    }
    if !is_allocation {
        state.tracer.freed(data.address);
        return;
    }
    let is_pinned = id == SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC
        || data.flags & SANITIZER_MEMORY_FLAG_HOST_PINNED != 0;
    if is_pinned && MAKES_CONTEXT.get() {
        return;
    }
    let place = match id {
        _ if data.flags & SANITIZER_MEMORY_FLAG_MANAGED != 0 => Where::Managed,
        _ if is_pinned => Where::Pinned,
        SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER => Where::Imported(Some(data.device), None),
        _ if data.flags & SANITIZER_MEMORY_FLAG_PEER != 0 => Where::Device(data.sourceDevice),
        _ => Where::Device(data.device),
    };
    state.tracer.allocated(data.address, data.size, place);
}

/// # Safety
/// The parameters are those of the function with that number.
unsafe fn driver_call(state: &mut State, id: u32, data: &Sanitizer_CallbackData) {
    // SAFETY: at the end of a call the pointer to its result is valid.
    let succeeded = data.callbackSite == SANITIZER_API_EXIT
        && unsafe { data.functionReturnValue.cast::<c_int>().as_ref() } == Some(&0);
    let call = DRIVER_CALLS.iter().find(|(number, _)| *number == id);
    if let Some(&(_, call)) = call.filter(|_| succeeded && !data.functionParams.is_null()) {
        // SAFETY: the parameters are those of the function with that number. Allocations, which
        // alone need the device, are reported by other events.
        unsafe { calls::take(state, call, data.functionParams, 0) };
    }
}
