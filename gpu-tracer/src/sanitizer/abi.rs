//! The parts of NVIDIA's headers that are used, of CUDA 13.0: `sanitizer_callbacks.h`, `sanitizer_patching.h`, `cuda.h`,
//! `generated_cuda_meta.h`. `cargo xtask gpu` has the C compiler compare them with those headers (`device/abi.c`).

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// A handle of the driver or the Sanitizer.
pub type Handle = *mut c_void;
/// `SanitizerResult`: 0 is success.
pub type Status = c_int;

/// `Sanitizer_CallbackDomain`
pub mod domain {
    pub const DRIVER_API: u32 = 1;
    pub const RESOURCE: u32 = 3;
    pub const SYNCHRONIZE: u32 = 4;
    pub const LAUNCH: u32 = 5;
    pub const GRAPHS: u32 = 10;
}

/// `Sanitizer_CallbackIdResource`
pub mod resource {
    pub const CONTEXT_CREATION_FINISHED: u32 = 3;
    pub const CONTEXT_DESTROY_STARTING: u32 = 4;
    pub const MODULE_LOADED: u32 = 9;
    pub const MODULE_UNLOAD_STARTING: u32 = 10;
    pub const DEVICE_MEMORY_ALLOC: u32 = 11;
    pub const DEVICE_MEMORY_FREE: u32 = 12;
    pub const HOST_MEMORY_ALLOC: u32 = 13;
    pub const HOST_MEMORY_FREE: u32 = 14;
    pub const MEMORY_ALLOC_ASYNC: u32 = 15;
    pub const MEMORY_FREE_ASYNC: u32 = 16;
    pub const MEMPOOL_IMPORT_POINTER: u32 = 28;
}

/// `Sanitizer_CallackIdSync`
pub mod synchronize {
    pub const STREAM: u32 = 1;
    pub const CONTEXT: u32 = 2;
}

/// `Sanitizer_CallbackIdLaunch`
pub mod launch {
    pub const BEGIN: u32 = 1;
}

/// `Sanitizer_CallbackIdGraphs`
pub mod graphs {
    pub const NODE_LAUNCH_BEGIN: u32 = 4;
}

/// `SANITIZER_CBID_DRIVER_API_…`
pub mod driver {
    pub const MEM_HOST_REGISTER: u32 = 301;
    pub const MEM_HOST_UNREGISTER: u32 = 302;
    pub const IPC_GET_MEM_HANDLE: u32 = 328;
    pub const IPC_OPEN_MEM_HANDLE: u32 = 329;
    pub const IPC_CLOSE_MEM_HANDLE: u32 = 330;
    pub const MEM_HOST_REGISTER_V2: u32 = 379;
    pub const MEM_CREATE: u32 = 549;
    pub const MEM_MAP: u32 = 551;
    pub const MEM_UNMAP: u32 = 552;
    pub const MEM_IMPORT_FROM_SHAREABLE_HANDLE: u32 = 555;
    pub const IPC_OPEN_MEM_HANDLE_V2: u32 = 567;
    /// Those that are asked for.
    pub const ALL: [u32; 11] = [
        MEM_HOST_REGISTER,
        MEM_HOST_UNREGISTER,
        IPC_GET_MEM_HANDLE,
        IPC_OPEN_MEM_HANDLE,
        IPC_CLOSE_MEM_HANDLE,
        MEM_HOST_REGISTER_V2,
        MEM_CREATE,
        MEM_MAP,
        MEM_UNMAP,
        MEM_IMPORT_FROM_SHAREABLE_HANDLE,
        IPC_OPEN_MEM_HANDLE_V2,
    ];
}

/// `Sanitizer_ResourceMemoryFlags`
pub mod memory {
    pub const MODULE: u32 = 0x1;
    pub const MANAGED: u32 = 0x2;
    pub const PEER: u32 = 0x10;
    pub const CG_RUNTIME: u32 = 0x40;
    pub const CNP: u32 = 0x80;
}

/// `Sanitizer_InstructionId`, with the function of `device/patch.cu` that is called there.
pub const PATCHES: [(c_int, &std::ffi::CStr); 5] = [
    (3, c"mpisee_access"),
    (14, c"mpisee_copy"),
    (30, c"mpisee_bulk_load"),
    (35, c"mpisee_bulk_store"),
    (37, c"mpisee_bulk_reduce"),
];

/// `SANITIZER_API_EXIT`
pub const API_EXIT: u32 = 1;
/// `CU_GRAPH_NODE_TYPE_KERNEL`
pub const KERNEL_NODE: u32 = 0;
/// `CU_MEM_LOCATION_TYPE_DEVICE`
pub const ON_DEVICE: c_int = 1;
/// Bytes of a `CUipcMemHandle`.
pub const IPC_HANDLE_BYTES: usize = 64;

/// `Sanitizer_CallbackData`
#[repr(C)]
pub struct ApiData {
    pub site: u32,
    pub function_name: *const c_char,
    pub parameters: *const c_void,
    pub return_value: *const c_int,
    pub symbol_name: *const c_char,
    pub context: Handle,
}

/// `Sanitizer_ResourceContextData`
#[repr(C)]
pub struct ContextData {
    pub context: Handle,
    pub device: c_int,
}

/// `Sanitizer_ResourceModuleData`
#[repr(C)]
pub struct ModuleData {
    pub context: Handle,
    pub module: Handle,
    pub cubin_bytes: usize,
    pub cubin: *const u8,
    pub library: Handle,
}

/// `Sanitizer_ResourceMemoryData`
#[repr(C)]
pub struct MemoryData {
    pub address: u64,
    pub bytes: u64,
    pub context: Handle,
    pub device: c_int,
    pub stream: Handle,
    pub stream_handle: Handle,
    pub pool: Handle,
    pub flags: u32,
    pub permissions: u32,
    pub visibility: u32,
    pub source_device: c_int,
}

/// `Sanitizer_SynchronizeData`
#[repr(C)]
pub struct SynchronizeData {
    pub context: Handle,
    pub stream: Handle,
    pub stream_handle: Handle,
}

/// `Sanitizer_LaunchData`
#[repr(C)]
pub struct LaunchData {
    pub context: Handle,
    pub stream: Handle,
    pub stream_handle: Handle,
    pub module: Handle,
    pub function: Handle,
    pub function_name: *const c_char,
    pub dimensions: [u32; 9],
    pub grid: u64,
    pub launch: Handle,
    pub device: c_int,
    pub api_context: Handle,
    pub api_stream: Handle,
    pub api_stream_handle: Handle,
}

/// `Sanitizer_GraphNodeLaunchData`, as far as it is of a kernel.
#[repr(C)]
pub struct NodeLaunchData {
    pub graph: Handle,
    pub launch_id: u32,
    pub node: Handle,
    pub kind: u32,
    pub launch: LaunchData,
}

/// `cuIpcGetMemHandle_params`
#[repr(C)]
pub struct IpcGetParameters {
    pub handle: *const [u8; IPC_HANDLE_BYTES],
    pub address: u64,
}

/// `cuIpcOpenMemHandle_v2_params`
#[repr(C)]
pub struct IpcOpenParameters {
    pub address: *const u64,
    pub handle: [u8; IPC_HANDLE_BYTES],
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

/// `Sanitizer_CallbackFunc`
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
