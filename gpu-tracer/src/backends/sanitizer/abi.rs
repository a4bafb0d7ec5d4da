//! The events that the tracer subscribes to, and the instructions that it patches.

use crate::events::calls::DriverCall;
use crate::generated::sanitizer::*;
use std::ffi::{CStr, c_int, c_void};

/// A `SanitizerResult`: 0 is success.
pub type Status = c_int;

/// `Sanitizer_CallbackFunc`, with numbers for what are enumerations.
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// `SANITIZER_CBID_RESOURCE_GREEN_CONTEXT_CREATION_FINISHED`, of CUDA 13.1 and later.
pub const GREEN_CONTEXT_CREATED: Sanitizer_CallbackIdResource = 29;

/// The calls of the driver that the tracer subscribes to.
pub const DRIVER_CALLS: [(SANITIZER_CBID_DRIVER_API_enum, DriverCall); 15] = [
    (SANITIZER_CBID_DRIVER_API_cuMemHostRegister, DriverCall::HostRegister),
    (SANITIZER_CBID_DRIVER_API_cuMemHostUnregister, DriverCall::HostUnregister),
    (SANITIZER_CBID_DRIVER_API_cuIpcGetMemHandle, DriverCall::IpcGet),
    (SANITIZER_CBID_DRIVER_API_cuIpcOpenMemHandle, DriverCall::IpcOpen),
    (SANITIZER_CBID_DRIVER_API_cuIpcCloseMemHandle, DriverCall::IpcClose),
    (SANITIZER_CBID_DRIVER_API_cuMemHostRegister_v2, DriverCall::HostRegister),
    (SANITIZER_CBID_DRIVER_API_cuMemCreate, DriverCall::Create),
    (SANITIZER_CBID_DRIVER_API_cuMemMap, DriverCall::Map),
    (SANITIZER_CBID_DRIVER_API_cuMemUnmap, DriverCall::Unmap),
    (SANITIZER_CBID_DRIVER_API_cuMemExportToShareableHandle, DriverCall::Export),
    (SANITIZER_CBID_DRIVER_API_cuMemImportFromShareableHandle, DriverCall::Import),
    (SANITIZER_CBID_DRIVER_API_cuMemRetainAllocationHandle, DriverCall::Retain),
    (SANITIZER_CBID_DRIVER_API_cuIpcOpenMemHandle_v2, DriverCall::IpcOpen),
    (SANITIZER_CBID_DRIVER_API_cuMemPoolExportPointer, DriverCall::PoolExport),
    (SANITIZER_CBID_DRIVER_API_cuMemPoolImportPointer, DriverCall::PoolImport),
];

/// Instructions, each with the function of `device/patch.cu` that is called there, and the one
/// where warps are drawn or records are written.
pub const PATCHES: [(Sanitizer_InstructionId, &CStr, &CStr); 5] = [
    (SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, c"mpisee_access", c"mpisee_access_more"),
    (SANITIZER_INSTRUCTION_MEMCPY_ASYNC, c"mpisee_copy", c"mpisee_copy_more"),
    (SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED, c"mpisee_bulk_load", c"mpisee_bulk_load"),
    (SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL, c"mpisee_bulk_store", c"mpisee_bulk_store"),
    (SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL, c"mpisee_bulk_reduce", c"mpisee_bulk_reduce"),
];
