//! Calls of CUDA's driver that change memory, as both backends report them, as events of the
//! tracer.
//!
//! Parameters are in the structures of `generated_cuda_meta.h`, which cudarc has with CUPTI.

use crate::events::state::State;
use crate::generated::layer;
use crate::memory::registry::Where;
use crate::process::driver::{ON_HOST, device_of};
use crate::process::{self, descriptor};
use crate::tracer::Tracer;
use cudarc::cupti::sys::{
    cuIpcCloseMemHandle_params, cuIpcGetMemHandle_params, cuIpcOpenMemHandle_params,
    cuIpcOpenMemHandle_v2_params, cuMemAlloc_v2_params, cuMemAllocAsync_params,
    cuMemAllocFromPoolAsync_params, cuMemAllocHost_v2_params, cuMemAllocManaged_params,
    cuMemAllocPitch_v2_params, cuMemCreate_params, cuMemExportToShareableHandle_params, cuMemFree_v2_params,
    cuMemFreeAsync_params, cuMemFreeHost_params, cuMemHostAlloc_params, cuMemHostRegister_params,
    cuMemHostRegister_v2_params, cuMemHostUnregister_params, cuMemImportFromShareableHandle_params,
    cuMemMap_params, cuMemPoolExportPointer_params, cuMemPoolImportPointer_params,
    cuMemRetainAllocationHandle_params, cuMemUnmap_params,
};
use cudarc::driver::sys::{CUmemAllocationHandleType, CUmemFabricHandle, CUmemLocationType};
use mpisee_collect::process::gpu::hex;
use mpisee_profile::gpu::Handle as Known;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::OnceLock;

/// A call of the driver that changes what memory there is, by its number in `nvbit/layer.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub enum DriverCall {
    /// `cuMemAlloc_v2`
    Alloc = layer::MPISEE_ALLOC,
    /// `cuMemAllocPitch_v2`
    AllocPitch = layer::MPISEE_ALLOC_PITCH,
    /// `cuMemAllocManaged`
    AllocManaged = layer::MPISEE_ALLOC_MANAGED,
    /// `cuMemAllocHost_v2`, `cuMemHostAlloc`
    AllocHost = layer::MPISEE_ALLOC_HOST,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`
    AllocAsync = layer::MPISEE_ALLOC_ASYNC,
    /// `cuMemPoolImportPointer`
    PoolImport = layer::MPISEE_POOL_IMPORT,
    /// `cuMemFree_v2`, `cuMemFreeHost`, `cuMemFreeAsync`
    Free = layer::MPISEE_FREE,
    /// `cuMemHostRegister`, also `_v2`
    HostRegister = layer::MPISEE_HOST_REGISTER,
    /// `cuMemHostUnregister`
    HostUnregister = layer::MPISEE_HOST_UNREGISTER,
    /// `cuIpcGetMemHandle`
    IpcGet = layer::MPISEE_IPC_GET,
    /// `cuIpcOpenMemHandle`, also `_v2`
    IpcOpen = layer::MPISEE_IPC_OPEN,
    /// `cuIpcCloseMemHandle`
    IpcClose = layer::MPISEE_IPC_CLOSE,
    /// `cuMemCreate`
    Create = layer::MPISEE_CREATE,
    /// `cuMemMap`
    Map = layer::MPISEE_MAP,
    /// `cuMemUnmap`
    Unmap = layer::MPISEE_UNMAP,
    /// `cuMemImportFromShareableHandle`
    Import = layer::MPISEE_IMPORT,
    /// `cuMemExportToShareableHandle`
    Export = layer::MPISEE_EXPORT,
    /// `cuMemRetainAllocationHandle`
    Retain = layer::MPISEE_RETAIN,
    /// `cuMemPoolExportPointer`
    PoolExport = layer::MPISEE_POOL_EXPORT,
}

impl DriverCall {
    /// Returns whether it is looked at before it is made: what is freed may be another's before the
    /// call returns.
    pub fn frees(self) -> bool {
        matches!(self, DriverCall::Free)
    }
}

const FILE_DESCRIPTOR: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const FABRIC: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;

/// Reports a call that succeeded, or one that is to free memory; `device` is that of the context in
/// which it is made.
///
/// # Safety
/// The parameters are those of the call.
pub unsafe fn take(state: &mut State, call: DriverCall, parameters: *const c_void, device: c_int) {
    let tracer = &mut state.tracer;
    // SAFETY: the caller's promise, that the parameters are those of the call.
    unsafe {
        match call {
            DriverCall::Create
            | DriverCall::Import
            | DriverCall::Export
            | DriverCall::Retain
            | DriverCall::Map
            | DriverCall::Unmap => {
                take_physical(tracer, call, parameters);
            }
            DriverCall::PoolImport | DriverCall::IpcGet | DriverCall::IpcOpen | DriverCall::PoolExport => {
                take_shared(tracer, call, parameters);
            }
            DriverCall::Alloc
            | DriverCall::AllocPitch
            | DriverCall::AllocManaged
            | DriverCall::AllocHost
            | DriverCall::AllocAsync
            | DriverCall::Free
            | DriverCall::HostRegister
            | DriverCall::HostUnregister
            | DriverCall::IpcClose => take_memory(tracer, call, parameters, device),
        }
    }
}

/// Reports a call that allocates or frees memory at an address.
///
/// # Safety
/// The parameters are those of the call.
unsafe fn take_memory(tracer: &mut Tracer, call: DriverCall, parameters: *const c_void, device: c_int) {
    // SAFETY: the casts are to the types that generated_cuda_meta.h gives, and results of a call
    // that succeeded are valid.
    unsafe {
        match call {
            DriverCall::Alloc | DriverCall::AllocManaged | DriverCall::AllocHost | DriverCall::AllocAsync => {
                let call_parameters = &*parameters.cast::<cuMemAlloc_v2_params>();
                let address = *call_parameters.dptr;
                let place = match call {
                    DriverCall::AllocManaged => Where::Managed,
                    DriverCall::AllocHost => Where::Pinned,
                    // A pool may be on another device.
                    DriverCall::AllocAsync => Where::Device(device_of(address).unwrap_or(device)),
                    _ => Where::Device(device),
                };
                tracer.allocated(address, call_parameters.bytesize as u64, place);
            }
            DriverCall::AllocPitch => {
                let call = &*parameters.cast::<cuMemAllocPitch_v2_params>();
                let bytes = (*call.pPitch).saturating_mul(call.Height);
                tracer.allocated(*call.dptr, bytes as u64, Where::Device(device));
            }
            DriverCall::Free | DriverCall::IpcClose | DriverCall::HostUnregister => {
                tracer.freed((*parameters.cast::<cuMemFree_v2_params>()).dptr)
            }
            DriverCall::HostRegister => {
                let call = &*parameters.cast::<cuMemHostRegister_v2_params>();
                tracer.allocated(call.p.addr() as u64, call.bytesize as u64, Where::Registered);
            }
            _ => unreachable!("{call:?} is reported elsewhere"),
        }
    }
}

/// Reports a call that exports or imports memory at an address.
///
/// # Safety
/// The parameters are those of the call.
unsafe fn take_shared(tracer: &mut Tracer, call: DriverCall, parameters: *const c_void) {
    // SAFETY: each structure has the layout of the parameters of its call, of which the caller says
    // that they are these.
    unsafe {
        match call {
            DriverCall::PoolImport => {
                let call = &*parameters.cast::<cuMemPoolImportPointer_params>();
                let address = *call.ptr_out;
                let known = Known::Pool(of_node(&(*call.shareData).reserved));
                let device = tracer.imported_on(address).or_else(|| device_of(address));
                tracer.imported(address, Where::Imported(device, Some(known)));
            }
            DriverCall::IpcGet => {
                let call = &*parameters.cast::<cuIpcGetMemHandle_params>();
                let handle = (*call.pHandle).reserved.map(|byte| byte as u8);
                tracer.exported(call.dptr, Known::Ipc(of_node(&handle)));
            }
            DriverCall::IpcOpen => {
                let call = &*parameters.cast::<cuIpcOpenMemHandle_v2_params>();
                let handle = call.handle.reserved.map(|byte| byte as u8);
                tracer.imported(*call.pdptr, Where::Ipc(of_node(&handle)));
            }
            DriverCall::PoolExport => {
                let call = &*parameters.cast::<cuMemPoolExportPointer_params>();
                tracer.exported(call.ptr, Known::Pool(of_node(&(*call.shareData_out).reserved)));
            }
            _ => unreachable!("{call:?} is reported elsewhere"),
        }
    }
}

/// Reports a call of the driver's virtual memory management.
///
/// # Safety
/// The parameters are those of the call.
unsafe fn take_physical(tracer: &mut Tracer, call: DriverCall, parameters: *const c_void) {
    // SAFETY: each structure has the layout of the parameters of its call, of which the caller says
    // that they are these.
    unsafe {
        match call {
            DriverCall::Create => {
                const ON_DEVICE: c_int = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as c_int;
                let call = &*parameters.cast::<cuMemCreate_params>();
                // The type is read as a number, and no reference made of the location: a program
                // may pass a type of a later version, which is no value of cudarc's enumeration.
                let location = &raw const (*call.prop).location;
                let location_type = (&raw const (*location).type_).cast::<c_int>().read();
                // What is not on a device is on the host.
                let device = if location_type == ON_DEVICE { (*location).id } else { ON_HOST };
                tracer.created(*call.handle, call.size as u64, device);
            }
            DriverCall::Import => {
                let call = &*parameters.cast::<cuMemImportFromShareableHandle_params>();
                let known = match call.shHandleType {
                    FILE_DESCRIPTOR => descriptor::read(call.osHandle.addr() as c_int),
                    FABRIC => Some(Known::Fabric(hex(&(*call.osHandle.cast::<CUmemFabricHandle>()).data))),
                    _ => None,
                };
                tracer.imported_physical(*call.handle, known);
            }
            DriverCall::Export => {
                let call = &*parameters.cast::<cuMemExportToShareableHandle_params>();
                match call.handleType {
                    FILE_DESCRIPTOR => {
                        tracer.exported_file(call.handle, *call.shareableHandle.cast::<c_int>());
                    }
                    FABRIC => {
                        let handle = &(*call.shareableHandle.cast::<CUmemFabricHandle>()).data;
                        tracer.exported_physical(call.handle, Known::Fabric(hex(handle)));
                    }
                    _ => {}
                }
            }
            DriverCall::Retain => {
                let call = &*parameters.cast::<cuMemRetainAllocationHandle_params>();
                tracer.retained(*call.handle, call.addr.addr() as u64);
            }
            DriverCall::Map => {
                let call = &*parameters.cast::<cuMemMap_params>();
                tracer.mapped(call.ptr, call.size as u64, call.offset as u64, call.handle);
            }
            DriverCall::Unmap => {
                let call = &*parameters.cast::<cuMemUnmap_params>();
                tracer.unmapped(call.ptr, call.size as u64);
            }
            _ => unreachable!("{call:?} is reported elsewhere"),
        }
    }
}

/// Functions that are one [`DriverCall`] have what is read of their parameters in the same place.
macro_rules! alike {
    ($($of:ident.$field:ident is $as_of:ident.$other:ident;)*) => {
        const _: () = {
            $(assert!(offset_of!($of, $field) == offset_of!($as_of, $other));)*
        };
    };
}

alike! {
    cuMemAllocManaged_params.dptr is cuMemAlloc_v2_params.dptr;
    cuMemAllocManaged_params.bytesize is cuMemAlloc_v2_params.bytesize;
    cuMemAllocHost_v2_params.pp is cuMemAlloc_v2_params.dptr;
    cuMemAllocHost_v2_params.bytesize is cuMemAlloc_v2_params.bytesize;
    cuMemHostAlloc_params.pp is cuMemAlloc_v2_params.dptr;
    cuMemHostAlloc_params.bytesize is cuMemAlloc_v2_params.bytesize;
    cuMemAllocAsync_params.dptr is cuMemAlloc_v2_params.dptr;
    cuMemAllocAsync_params.bytesize is cuMemAlloc_v2_params.bytesize;
    cuMemAllocFromPoolAsync_params.dptr is cuMemAlloc_v2_params.dptr;
    cuMemAllocFromPoolAsync_params.bytesize is cuMemAlloc_v2_params.bytesize;
    cuMemFreeHost_params.p is cuMemFree_v2_params.dptr;
    cuMemFreeAsync_params.dptr is cuMemFree_v2_params.dptr;
    cuIpcCloseMemHandle_params.dptr is cuMemFree_v2_params.dptr;
    cuMemHostUnregister_params.p is cuMemFree_v2_params.dptr;
    cuMemHostRegister_params.p is cuMemHostRegister_v2_params.p;
    cuMemHostRegister_params.bytesize is cuMemHostRegister_v2_params.bytesize;
    cuIpcOpenMemHandle_params.pdptr is cuIpcOpenMemHandle_v2_params.pdptr;
    cuIpcOpenMemHandle_params.handle is cuIpcOpenMemHandle_v2_params.handle;
}

/// Bytes that mean something on this machine alone: those of two nodes may be the same.
fn of_node(bytes: &[u8]) -> String {
    static NODE: OnceLock<String> = OnceLock::new();
    let node = NODE.get_or_init(|| match mpisee_collect::process::boot() {
        0 => process::host(),
        boot => format!("{boot:x}"),
    });
    format!("{}@{node}", hex(bytes))
}
