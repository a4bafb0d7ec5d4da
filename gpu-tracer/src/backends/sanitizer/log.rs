//! Debug log of the Sanitizer's callbacks: one line per callback, also for those that the tracer
//! ignores.

use super::Listener;
use super::abi::DRIVER_CALLS;
use crate::generated::sanitizer::*;
use crate::process::driver::text;
use crate::trace::trace;
use std::ffi::{c_int, c_void};

/// Writes the line of a callback.
///
/// # Safety
/// `data` is what NVIDIA's headers say for the domain and the number.
pub unsafe fn trace(listener: &Listener, domain: u32, id: u32, data: *const c_void) {
    // SAFETY: each cast is to the type that the headers give for the domain and the number.
    unsafe {
        match (domain, id) {
            (
                SANITIZER_CB_DOMAIN_RESOURCE,
                SANITIZER_CBID_RESOURCE_CONTEXT_CREATION_FINISHED
                | SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
            ) => {
                let it = data.cast::<Sanitizer_ResourceContextData>();
                let device = listener.behind_context(&raw const (*it).device);
                trace!("context event={id} context={:p} device={device}", (*it).context);
            }
            (
                SANITIZER_CB_DOMAIN_RESOURCE,
                SANITIZER_CBID_RESOURCE_MODULE_LOADED | SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
            ) => {
                let it = &*data.cast::<Sanitizer_ResourceModuleData>();
                trace!(
                    "module event={id} context={:p} module={:p} library={:p} cubin={}",
                    it.context, it.module, it.library, it.cubinSize
                );
            }
            (SANITIZER_CB_DOMAIN_RESOURCE, id) => match memory_event(id) {
                Some(name) => {
                    let it = &*data.cast::<Sanitizer_ResourceMemoryData>();
                    trace!(
                        "memory {name} address={:#x} bytes={} flags={:#x} permissions={:#x} visibility={:#x} device={} \
                         source={} pool={:p} context={:p} stream={:p}",
                        it.address,
                        it.size,
                        it.flags,
                        it.permissions,
                        it.visibility,
                        it.device,
                        it.sourceDevice,
                        it.memoryPool,
                        it.context,
                        it.hStream
                    );
                }
                None => trace!("resource event={id}"),
            },
            (SANITIZER_CB_DOMAIN_SYNCHRONIZE, id) => {
                let it = &*data.cast::<Sanitizer_SynchronizeData>();
                trace!("waited event={id} context={:p} stream={:p}", it.context, it.hStream);
            }
            (SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CBID_LAUNCH_BEGIN) => kernel("launch", &*data.cast()),
            (SANITIZER_CB_DOMAIN_GRAPHS, SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN) => {
                let it = data.cast::<Sanitizer_GraphNodeLaunchData>();
                trace!("graph-launch id={} kind={}", (*it).launchId, (*it).nodeType);
                if (*it).nodeType == CU_GRAPH_NODE_TYPE_KERNEL {
                    kernel("graph-node", &(*it).__bindgen_anon_1.launchData);
                }
            }
            (SANITIZER_CB_DOMAIN_DRIVER_API, id) => {
                let it = &*data.cast::<Sanitizer_CallbackData>();
                let call = DRIVER_CALLS.iter().find(|(number, _)| *number == id).map(|(_, call)| call);
                // The result is there at the end of a call alone.
                let status = if it.callbackSite == SANITIZER_API_EXIT {
                    it.functionReturnValue.cast::<c_int>().as_ref()
                } else {
                    None
                };
                trace!("call {call:?} number={id} site={} status={status:?}", it.callbackSite);
            }
            (domain, id) => trace!("domain={domain} event={id}"),
        }
    }
}

fn memory_event(id: u32) -> Option<&'static str> {
    Some(match id {
        SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC => "device-alloc",
        SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE => "device-free",
        SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC => "host-alloc",
        SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE => "host-free",
        SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC => "async-alloc",
        SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC => "async-free",
        SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER => "pool-import",
        _ => return None,
    })
}

/// # Safety
/// The name ends in a zero.
unsafe fn kernel(what: &str, it: &Sanitizer_LaunchData) {
    // SAFETY: the driver's name of the kernel, valid for the time of the callback.
    let name = unsafe { text(it.functionName) }.unwrap_or_default();
    trace!(
        "{what} kernel={name} context={:p} stream={:p} module={:p} function={:p} launch={:p} grid={} device={}",
        it.context, it.hStream, it.module, it.function, it.hLaunch, it.gridId, it.device
    );
}
