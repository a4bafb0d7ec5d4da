//! Debug log of the Sanitizer's callbacks: one line per callback, also for those that the tracer ignores.

use super::abi::{
    API_EXIT, ApiData, ContextData, DRIVER_CALLS, LaunchData, MemoryData, ModuleData, NodeLaunchData,
    SynchronizeData, domain, graphs, launch, resource,
};
use crate::process::driver::text;
use crate::trace::trace;
use std::ffi::c_void;

/// Writes the line of a callback.
///
/// # Safety
/// `data` is what NVIDIA's headers say for the domain and the number.
pub unsafe fn trace(domain: u32, id: u32, data: *const c_void) {
    // SAFETY: each cast is to the type that the headers give for the domain and the number.
    unsafe {
        match (domain, id) {
            (domain::RESOURCE, resource::CONTEXT_CREATION_FINISHED | resource::CONTEXT_DESTROY_STARTING) => {
                let it = &*data.cast::<ContextData>();
                trace!("context event={id} context={:p} device={}", it.context, it.device);
            }
            (domain::RESOURCE, resource::MODULE_LOADED | resource::MODULE_UNLOAD_STARTING) => {
                let it = &*data.cast::<ModuleData>();
                trace!(
                    "module event={id} context={:p} module={:p} library={:p} cubin={}",
                    it.context, it.module, it.library, it.cubin_bytes
                );
            }
            (domain::RESOURCE, id) => match memory_event(id) {
                Some(name) => {
                    let it = &*data.cast::<MemoryData>();
                    trace!(
                        "memory {name} address={:#x} bytes={} flags={:#x} permissions={:#x} visibility={:#x} device={} \
                         source={} pool={:p} context={:p} stream={:p}",
                        it.address,
                        it.bytes,
                        it.flags,
                        it.permissions,
                        it.visibility,
                        it.device,
                        it.source_device,
                        it.pool,
                        it.context,
                        it.stream_handle
                    );
                }
                None => trace!("resource event={id}"),
            },
            (domain::SYNCHRONIZE, id) => {
                let it = &*data.cast::<SynchronizeData>();
                trace!("waited event={id} context={:p} stream={:p}", it.context, it.stream_handle);
            }
            (domain::LAUNCH, launch::BEGIN) => kernel("launch", &*data.cast()),
            (domain::GRAPHS, graphs::NODE_LAUNCH_BEGIN) => {
                let it = data.cast::<NodeLaunchData>();
                trace!("graph-launch id={} kind={}", (*it).launch_id, (*it).kind);
                if (*it).kind == super::abi::KERNEL_NODE {
                    kernel("graph-node", &(*it).launch);
                }
            }
            (domain::DRIVER_API, id) => {
                let it = &*data.cast::<ApiData>();
                let call = DRIVER_CALLS.iter().find(|(number, _)| *number == id).map(|(_, call)| call);
                // The result is there at the end of a call alone.
                let status = if it.site == API_EXIT { it.return_value.as_ref() } else { None };
                trace!("call {call:?} number={id} site={} status={status:?}", it.site);
            }
            (domain, id) => trace!("domain={domain} event={id}"),
        }
    }
}

fn memory_event(id: u32) -> Option<&'static str> {
    Some(match id {
        resource::DEVICE_MEMORY_ALLOC => "device-alloc",
        resource::DEVICE_MEMORY_FREE => "device-free",
        resource::HOST_MEMORY_ALLOC => "host-alloc",
        resource::HOST_MEMORY_FREE => "host-free",
        resource::MEMORY_ALLOC_ASYNC => "async-alloc",
        resource::MEMORY_FREE_ASYNC => "async-free",
        resource::MEMPOOL_IMPORT_POINTER => "pool-import",
        _ => return None,
    })
}

/// # Safety
/// The name ends in a zero.
unsafe fn kernel(what: &str, it: &LaunchData) {
    // SAFETY: the driver's name of the kernel, valid for the time of the callback.
    let name = unsafe { text(it.function_name) }.unwrap_or_default();
    trace!(
        "{what} kernel={name} context={:p} stream={:p} module={:p} function={:p} launch={:p} grid={} device={}",
        it.context, it.stream_handle, it.module, it.function, it.launch, it.grid, it.device
    );
}
