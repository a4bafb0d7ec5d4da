//! Calls of CUDA's driver that change memory, as both backends report them, as events of the tracer.
//!
//! Structures and numbers are those of `cuda.h` and `generated_cuda_meta.h` of CUDA 13.0; `cargo xtask gpu` has the C
//! compiler compare them with those headers (`device/abi.c`).

#![allow(missing_docs)] // as in NVIDIA's headers

use crate::events::state::State;
use crate::generated::layer;
use crate::memory::registry::Where;
use crate::process::driver::{Handle, ON_HOST, device_of, hex};
use crate::process::{self, descriptor};
use crate::tracer::Tracer;
use mpisee_profile::gpu::Handle as Known;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
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
    /// Returns whether it is looked at before it is made: what is freed may be another's before the call returns.
    pub fn frees(self) -> bool {
        matches!(self, DriverCall::Free)
    }
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const ON_DEVICE: c_int = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: c_int = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`
const FABRIC: c_int = 8;
/// A `CUipcMemHandle`, `CUmemFabricHandle` or `CUmemPoolPtrExportData`.
pub type Bytes = [u8; 64];

/// `cuMemAlloc_v2_params`, and how those of others begin
#[repr(C)]
pub struct AllocParameters {
    pub address: *const u64,
    pub bytes: usize,
}

/// `cuMemAllocPitch_v2_params`
#[repr(C)]
pub struct AllocPitchParameters {
    pub address: *const u64,
    pub pitch: *const usize,
    pub width: usize,
    pub height: usize,
}

/// `cuIpcGetMemHandle_params`, `cuMemPoolExportPointer_params`
#[repr(C)]
pub struct IpcGetParameters {
    pub handle: *const Bytes,
    pub address: u64,
}

/// `cuMemPoolImportPointer_params`
#[repr(C)]
pub struct PoolImportParameters {
    pub address: *const u64,
    pub pool: Handle,
    pub data: *const Bytes,
}

/// `cuIpcOpenMemHandle_v2_params`
#[repr(C)]
pub struct IpcOpenParameters {
    pub address: *const u64,
    pub handle: Bytes,
    pub flags: c_uint,
}

/// `cuMemHostRegister_v2_params`
#[repr(C)]
pub struct RegisterParameters {
    pub address: u64,
    pub bytes: usize,
    pub flags: c_uint,
}

/// `CUmemAllocationProp`, as far as it is used.
#[repr(C)]
pub struct AllocationProperties {
    pub kind: c_int,
    pub handle_types: c_int,
    pub location_type: c_int,
    pub location: c_int,
}

/// `cuMemCreate_params`
#[repr(C)]
pub struct CreateParameters {
    pub handle: *const c_ulonglong,
    pub bytes: usize,
    pub properties: *const AllocationProperties,
    pub flags: c_ulonglong,
}

/// `cuMemImportFromShareableHandle_params`
#[repr(C)]
pub struct ImportParameters {
    pub handle: *const c_ulonglong,
    pub shareable: *const c_void,
    pub kind: c_int,
}

/// `cuMemExportToShareableHandle_params`
#[repr(C)]
pub struct ExportParameters {
    pub shareable: *const c_void,
    pub handle: c_ulonglong,
    pub kind: c_int,
}

/// `cuMemRetainAllocationHandle_params`
#[repr(C)]
pub struct RetainParameters {
    pub handle: *const c_ulonglong,
    pub address: *const c_void,
}

/// `cuMemMap_params`
#[repr(C)]
pub struct MapParameters {
    pub address: u64,
    pub bytes: usize,
    pub offset: usize,
    pub handle: c_ulonglong,
    pub flags: c_ulonglong,
}

/// `cuMemUnmap_params`
#[repr(C)]
pub struct UnmapParameters {
    pub address: u64,
    pub bytes: usize,
}

/// Reports a call that succeeded, or one that is to free memory; `device` is that of the context in which it is made.
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
    // SAFETY: the casts are to the types that generated_cuda_meta.h gives, and results of a call that succeeded are valid.
    unsafe {
        match call {
            DriverCall::Alloc | DriverCall::AllocManaged | DriverCall::AllocHost | DriverCall::AllocAsync => {
                let call_parameters = &*parameters.cast::<AllocParameters>();
                let address = *call_parameters.address;
                let place = match call {
                    DriverCall::AllocManaged => Where::Managed,
                    DriverCall::AllocHost => Where::Pinned,
                    // A pool may be on another device.
                    DriverCall::AllocAsync => Where::Device(device_of(address).unwrap_or(device)),
                    _ => Where::Device(device),
                };
                tracer.allocated(address, call_parameters.bytes as u64, place);
            }
            DriverCall::AllocPitch => {
                let call = &*parameters.cast::<AllocPitchParameters>();
                let bytes = (*call.pitch).saturating_mul(call.height);
                tracer.allocated(*call.address, bytes as u64, Where::Device(device));
            }
            // These have the address alone, or first.
            DriverCall::Free | DriverCall::IpcClose | DriverCall::HostUnregister => {
                tracer.freed(*parameters.cast::<u64>())
            }
            DriverCall::HostRegister => {
                let call = &*parameters.cast::<RegisterParameters>();
                tracer.allocated(call.address, call.bytes as u64, Where::Registered);
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
    // SAFETY: each structure has the layout of the parameters of its call, of which the caller says that they are these.
    unsafe {
        match call {
            DriverCall::PoolImport => {
                let call = &*parameters.cast::<PoolImportParameters>();
                let address = *call.address;
                let known = Known::Pool(of_node(&*call.data));
                let device = tracer.imported_on(address).or_else(|| device_of(address));
                tracer.imported(address, Where::Imported(device, Some(known)));
            }
            DriverCall::IpcGet => {
                let call = &*parameters.cast::<IpcGetParameters>();
                tracer.exported(call.address, Known::Ipc(of_node(&*call.handle)));
            }
            DriverCall::IpcOpen => {
                let call = &*parameters.cast::<IpcOpenParameters>();
                let address = *call.address;
                tracer.imported(address, Where::Ipc(of_node(&call.handle)));
            }
            DriverCall::PoolExport => {
                let call = &*parameters.cast::<IpcGetParameters>();
                tracer.exported(call.address, Known::Pool(of_node(&*call.handle)));
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
    // SAFETY: each structure has the layout of the parameters of its call, of which the caller says that they are these.
    unsafe {
        match call {
            DriverCall::Create => {
                let call = &*parameters.cast::<CreateParameters>();
                let properties = &*call.properties;
                // What is not on a device is on the host.
                let device =
                    if properties.location_type == ON_DEVICE { properties.location } else { ON_HOST };
                tracer.created(*call.handle, call.bytes as u64, device);
            }
            DriverCall::Import => {
                let call = &*parameters.cast::<ImportParameters>();
                let known = match call.kind {
                    FILE_DESCRIPTOR => descriptor::read(call.shareable.addr() as c_int),
                    FABRIC => Some(Known::Fabric(hex(&*call.shareable.cast::<Bytes>()))),
                    _ => None,
                };
                tracer.imported_physical(*call.handle, known);
            }
            DriverCall::Export => {
                let call = &*parameters.cast::<ExportParameters>();
                match call.kind {
                    FILE_DESCRIPTOR => tracer.exported_file(call.handle, *call.shareable.cast::<c_int>()),
                    FABRIC => {
                        let handle = Known::Fabric(hex(&*call.shareable.cast::<Bytes>()));
                        tracer.exported_physical(call.handle, handle);
                    }
                    _ => {}
                }
            }
            DriverCall::Retain => {
                let call = &*parameters.cast::<RetainParameters>();
                tracer.retained(*call.handle, call.address.addr() as u64);
            }
            DriverCall::Map => {
                let call = &*parameters.cast::<MapParameters>();
                tracer.mapped(call.address, call.bytes as u64, call.offset as u64, call.handle);
            }
            DriverCall::Unmap => {
                let call = &*parameters.cast::<UnmapParameters>();
                tracer.unmapped(call.address, call.bytes as u64);
            }
            _ => unreachable!("{call:?} is reported elsewhere"),
        }
    }
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
