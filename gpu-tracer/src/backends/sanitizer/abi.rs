//! The parts of NVIDIA's headers that are used, of CUDA 13.0: `sanitizer_callbacks.h`, `sanitizer_patching.h`, `cuda.h`,
//! `generated_cuda_meta.h`. `cargo xtask gpu` has the C compiler compare them with those headers (`device/abi.c`).

use crate::events::calls::DriverCall;
pub use crate::process::driver::Handle;
use std::ffi::{c_char, c_int, c_void};

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
    pub const CONTEXT_CREATION_STARTING: u32 = 2;
    pub const CONTEXT_CREATION_FINISHED: u32 = 3;
    pub const CONTEXT_DESTROY_STARTING: u32 = 4;
    pub const STREAM_DESTROY_STARTING: u32 = 7;
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
    pub const EXECUTABLE_CREATING: u32 = 1;
    pub const NODE_LAUNCH_BEGIN: u32 = 4;
}

/// `SANITIZER_CBID_DRIVER_API_…` of the calls that the tracer subscribes to.
pub const DRIVER_CALLS: [(u32, DriverCall); 15] = [
    (301, DriverCall::HostRegister),
    (302, DriverCall::HostUnregister),
    (328, DriverCall::IpcGet),
    (329, DriverCall::IpcOpen),
    (330, DriverCall::IpcClose),
    (379, DriverCall::HostRegister),
    (549, DriverCall::Create),
    (551, DriverCall::Map),
    (552, DriverCall::Unmap),
    (554, DriverCall::Export),
    (555, DriverCall::Import),
    (565, DriverCall::Retain),
    (567, DriverCall::IpcOpen),
    (615, DriverCall::PoolExport),
    (616, DriverCall::PoolImport),
];

/// `Sanitizer_ResourceMemoryFlags`
pub mod memory {
    pub const MANAGED: u32 = 0x2;
    pub const HOST_PINNED: u32 = 0x8;
    pub const PEER: u32 = 0x10;
    pub const CG_RUNTIME: u32 = 0x40;
    pub const CNP: u32 = 0x80;
}

/// `Sanitizer_InstructionId`, with the function of `device/patch.cu` that is called there, and the one where warps are drawn
/// or records are written.
pub const PATCHES: [(c_int, &std::ffi::CStr, &std::ffi::CStr); 5] = [
    (3, c"mpisee_access", c"mpisee_access_more"),
    (14, c"mpisee_copy", c"mpisee_copy_more"),
    (30, c"mpisee_bulk_load", c"mpisee_bulk_load"),
    (35, c"mpisee_bulk_store", c"mpisee_bulk_store"),
    (37, c"mpisee_bulk_reduce", c"mpisee_bulk_reduce"),
];

/// `SANITIZER_API_EXIT`
pub const API_EXIT: u32 = 1;
/// `CU_GRAPH_NODE_TYPE_KERNEL`
pub const KERNEL_NODE: u32 = 0;
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

/// `Sanitizer_ResourceStreamData`
#[repr(C)]
pub struct StreamData {
    pub context: Handle,
    pub stream: Handle,
    pub stream_handle: Handle,
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

/// `Sanitizer_CallbackFunc`
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
