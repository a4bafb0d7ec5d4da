//! The driver: its calls as events of the tracer, as both back ends are told of them, and what is asked of it.
//!
//! Structures and numbers are those of `cuda.h` and `generated_cuda_meta.h` of CUDA 13.0; `cargo xtask gpu` has the C
//! compiler compare them with those headers (`device/abi.c`).

#![allow(missing_docs)] // as in NVIDIA's headers

use crate::descriptor;
use crate::records;
use crate::registry::Where;
use crate::state::State;
use mpisee_profile::gpu::Handle as Known;
use mpisee_profile::process;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

/// A handle of the driver.
pub type Handle = *mut c_void;

/// Handles are numbers to the tracer.
pub fn number(handle: Handle) -> u64 {
    handle.expose_provenance() as u64
}

/// The handle of a number.
pub fn handle(number: u64) -> Handle {
    std::ptr::with_exposed_provenance_mut(number as usize)
}

/// A call of the driver that changes what memory there is. `nvbit/layer.h` has the numbers once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Call {
    /// `cuMemAlloc_v2`
    Alloc = 1,
    /// `cuMemAllocPitch_v2`
    AllocPitch = 2,
    /// `cuMemAllocManaged`
    AllocManaged = 3,
    /// `cuMemAllocHost_v2`, `cuMemHostAlloc`
    AllocHost = 4,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`
    AllocAsync = 5,
    /// `cuMemPoolImportPointer`
    PoolImport = 6,
    /// `cuMemFree_v2`, `cuMemFreeHost`, `cuMemFreeAsync`
    Free = 7,
    /// `cuMemHostRegister`, also `_v2`
    HostRegister = 8,
    /// `cuMemHostUnregister`
    HostUnregister = 9,
    /// `cuIpcGetMemHandle`
    IpcGet = 10,
    /// `cuIpcOpenMemHandle`, also `_v2`
    IpcOpen = 11,
    /// `cuIpcCloseMemHandle`
    IpcClose = 12,
    /// `cuMemCreate`
    Create = 13,
    /// `cuMemMap`
    Map = 14,
    /// `cuMemUnmap`
    Unmap = 15,
    /// `cuMemImportFromShareableHandle`
    Import = 16,
    /// `cuMemExportToShareableHandle`
    Export = 17,
    /// `cuMemRetainAllocationHandle`
    Retain = 18,
    /// `cuMemPoolExportPointer`
    PoolExport = 19,
}

impl Call {
    /// By its number.
    pub fn of(number: u32) -> Option<Call> {
        use Call::{
            Alloc, AllocAsync, AllocHost, AllocManaged, AllocPitch, Create, Export, Free, HostRegister,
            HostUnregister, Import, IpcClose, IpcGet, IpcOpen, Map, PoolExport, PoolImport, Retain, Unmap,
        };
        const ALL: [Call; 19] = [
            Alloc,
            AllocPitch,
            AllocManaged,
            AllocHost,
            AllocAsync,
            PoolImport,
            Free,
            HostRegister,
            HostUnregister,
            IpcGet,
            IpcOpen,
            IpcClose,
            Create,
            Map,
            Unmap,
            Import,
            Export,
            Retain,
            PoolExport,
        ];
        ALL.into_iter().find(|&it| it as u32 == number)
    }

    /// Whether it is looked at before it is made: what is freed may be another's before the call returns.
    pub fn frees(self) -> bool {
        matches!(self, Call::Free)
    }
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const ON_DEVICE: c_int = 1;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
const DEVICE_ORDINAL: c_int = 9;
/// Stands for the host where a device's number is expected.
pub const ON_HOST: c_int = -1;
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

/// Takes a call that succeeded, or one that is to free memory; `device` is that of the context in which it is made.
///
/// # Safety
/// The parameters are those of the call.
pub unsafe fn take(state: &mut State, call: Call, parameters: *const c_void, device: c_int) {
    let tracer = &mut state.tracer;
    // SAFETY: the casts are to the types that generated_cuda_meta.h gives, and results of a call that succeeded are valid.
    unsafe {
        match call {
            Call::Alloc | Call::AllocManaged | Call::AllocHost | Call::AllocAsync => {
                let call_parameters = &*parameters.cast::<AllocParameters>();
                let address = *call_parameters.address;
                let place = match call {
                    Call::AllocManaged => Where::Managed,
                    Call::AllocHost => Where::Pinned,
                    // A pool may be on another device.
                    Call::AllocAsync => Where::Device(device_of(address).unwrap_or(device)),
                    _ => Where::Device(device),
                };
                tracer.allocated(address, call_parameters.bytes as u64, place);
            }
            Call::AllocPitch => {
                let call = &*parameters.cast::<AllocPitchParameters>();
                let bytes = (*call.pitch).saturating_mul(call.height);
                tracer.allocated(*call.address, bytes as u64, Where::Device(device));
            }
            Call::PoolImport => {
                let call = &*parameters.cast::<PoolImportParameters>();
                let address = *call.address;
                let known = Known::Pool(of_node(&*call.data));
                let device = tracer.imported_on(address).or_else(|| device_of(address));
                tracer.imported(address, Where::Imported(device, Some(known)));
            }
            Call::IpcGet => {
                let call = &*parameters.cast::<IpcGetParameters>();
                tracer.exported(call.address, Known::Ipc(of_node(&*call.handle)));
            }
            Call::IpcOpen => {
                let call = &*parameters.cast::<IpcOpenParameters>();
                let address = *call.address;
                tracer.imported(address, Where::Ipc(of_node(&call.handle)));
            }
            // These have the address alone, or first.
            Call::Free | Call::IpcClose | Call::HostUnregister => tracer.freed(*parameters.cast::<u64>()),
            Call::HostRegister => {
                let call = &*parameters.cast::<RegisterParameters>();
                tracer.allocated(call.address, call.bytes as u64, Where::Registered);
            }
            Call::Create => {
                let call = &*parameters.cast::<CreateParameters>();
                let properties = &*call.properties;
                // What is not on a device is on the host.
                let device =
                    if properties.location_type == ON_DEVICE { properties.location } else { ON_HOST };
                tracer.created(*call.handle, call.bytes as u64, device);
            }
            Call::Import => {
                let call = &*parameters.cast::<ImportParameters>();
                let known = match call.kind {
                    FILE_DESCRIPTOR => descriptor::read(call.shareable.addr() as c_int),
                    FABRIC => Some(Known::Fabric(hex(&*call.shareable.cast::<Bytes>()))),
                    _ => None,
                };
                tracer.imported_physical(*call.handle, known);
            }
            Call::Export => {
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
            Call::Retain => {
                let call = &*parameters.cast::<RetainParameters>();
                tracer.retained(*call.handle, call.address.addr() as u64);
            }
            Call::PoolExport => {
                let call = &*parameters.cast::<IpcGetParameters>();
                tracer.exported(call.address, Known::Pool(of_node(&*call.handle)));
            }
            Call::Map => {
                let call = &*parameters.cast::<MapParameters>();
                tracer.mapped(call.address, call.bytes as u64, call.offset as u64, call.handle);
            }
            Call::Unmap => {
                let call = &*parameters.cast::<UnmapParameters>();
                tracer.unmapped(call.address, call.bytes as u64);
            }
        }
    }
}

/// Bytes that mean something on this machine alone: those of two nodes may be the same.
fn of_node(bytes: &[u8]) -> String {
    static NODE: OnceLock<String> = OnceLock::new();
    let node = NODE.get_or_init(|| match process::boot() {
        0 => records::host(),
        boot => format!("{boot:x}"),
    });
    format!("{}@{node}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A function of the driver, if that is loaded. It is never loaded here.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if library.is_null() { None } else { symbol(library, name) }
}

/// A function of the profiler that is preloaded, if it is.
pub fn of_profiler(name: &CStr) -> Option<*mut c_void> {
    symbol(libc::RTLD_DEFAULT, name)
}

/// A function of a library that is loaded.
pub fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the library is loaded and stays so, the name ends in a zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// How far what was mapped goes on from the address, by the driver; 0 if it does not say. Where the owner's allocation is part of
/// a larger block, the driver maps all of that.
pub fn size_of_mapping(address: u64) -> u64 {
    type GetRange = unsafe extern "C" fn(*mut u64, *mut usize, u64) -> c_int;
    let Some(function) = function(c"cuMemGetAddressRange_v2") else { return 0 };
    // SAFETY: the function has this type in cuda.h.
    let get_range = unsafe { std::mem::transmute::<*mut c_void, GetRange>(function) };
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: both results are written.
    let status = unsafe { get_range(&raw mut base, &raw mut bytes, address) };
    let end: u64 = if status == 0 { base.saturating_add(bytes as u64) } else { 0 };
    end.saturating_sub(address)
}

/// The device that memory is on, by the driver.
fn device_of(address: u64) -> Option<c_int> {
    type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, u64) -> c_int;
    let function = function(c"cuPointerGetAttribute")?;
    // SAFETY: the function has this type in cuda.h, but for the result, which for a device is an int.
    let get_attribute = unsafe { std::mem::transmute::<*mut c_void, GetAttribute>(function) };
    let mut device = 0;
    // SAFETY: the result is written.
    (unsafe { get_attribute(&raw mut device, DEVICE_ORDINAL, address) } == 0).then_some(device)
}

/// `GPU-8f6ad5c8-…`, as nvidia-smi writes it; the number where the driver does not say.
pub fn device_name(device: c_int) -> String {
    uuid(device).unwrap_or_else(|| format!("device {device}"))
}

fn uuid(device: c_int) -> Option<String> {
    type GetUuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;
    let address = function(c"cuDeviceGetUuid_v2").or_else(|| function(c"cuDeviceGetUuid"))?;
    // SAFETY: the function has this type in cuda.h.
    let get_uuid = unsafe { std::mem::transmute::<*mut c_void, GetUuid>(address) };
    let mut uuid = [0; 16];
    // SAFETY: 16 bytes are written.
    if unsafe { get_uuid(&raw mut uuid, device) } != 0 {
        return None;
    }
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&uuid[part]));
    Some(format!("GPU-{a}-{b}-{c}-{d}-{e}"))
}

/// A name of the driver's, or the program's.
///
/// # Safety
/// It ends in a zero, or is null.
pub unsafe fn text(name: *const c_char) -> Option<String> {
    // SAFETY: as the caller says.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}
