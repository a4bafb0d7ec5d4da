//! CUDA's driver: its functions, what it says of memory and devices, and its handles as numbers.
//!
//! Types and constants are cudarc's; none of its functions is called, since it would load the driver itself. What the driver returns
//! is an integer here: cudarc's enumerations lack the values of later versions.

use cudarc::driver::sys::{CUdeviceptr, CUpointer_attribute, CUuuid};
use std::ffi::{CStr, c_char, c_int, c_void};

/// A handle of the driver.
pub type Handle = *mut c_void;

/// The host, where a device's number is expected.
pub const ON_HOST: c_int = -1;

/// `CU_STREAM_PER_THREAD`, a cast in cuda.h, which cudarc does not have.
pub const PER_THREAD: u64 = 2;

/// Handles are numbers to the tracer.
pub fn number<T>(handle: *mut T) -> u64 {
    handle.expose_provenance() as u64
}

/// The handle of a number.
pub fn handle(number: u64) -> Handle {
    std::ptr::with_exposed_provenance_mut(number as usize)
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
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

/// The length of a mapping from the address on, by the driver; 0 if it has none. Where the owner's allocation is part of a
/// larger block, the driver maps all of that.
pub fn size_of_mapping(address: u64) -> u64 {
    type GetRange = unsafe extern "C" fn(*mut CUdeviceptr, *mut usize, CUdeviceptr) -> c_int;
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
pub fn device_of(address: u64) -> Option<c_int> {
    type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, CUdeviceptr) -> c_int;
    const DEVICE_ORDINAL: c_int = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_int;
    let function = function(c"cuPointerGetAttribute")?;
    // SAFETY: the function has this type in cuda.h, but for the result, which for a device is an int.
    let get_attribute = unsafe { std::mem::transmute::<*mut c_void, GetAttribute>(function) };
    let mut device = 0;
    // SAFETY: the result is written.
    (unsafe { get_attribute(&raw mut device, DEVICE_ORDINAL, address) } == 0).then_some(device)
}

/// `GPU-8f6ad5c8-…`, of a MIG instance `MIG-…`, as nvidia-smi writes it; the number where the driver does not say.
pub fn device_name(device: c_int) -> String {
    // Of a MIG instance the first is of its GPU, the second its own.
    let whole = uuid(c"cuDeviceGetUuid", device);
    match uuid(c"cuDeviceGetUuid_v2", device).or(whole) {
        Some(own) => uuid_text(if whole.is_some_and(|whole| whole != own) { "MIG" } else { "GPU" }, own),
        None => format!("device {device}"),
    }
}

fn uuid(name: &CStr, device: c_int) -> Option<[u8; 16]> {
    type GetUuid = unsafe extern "C" fn(*mut CUuuid, c_int) -> c_int;
    let address = function(name)?;
    // SAFETY: the function has this type in cuda.h.
    let get_uuid = unsafe { std::mem::transmute::<*mut c_void, GetUuid>(address) };
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the result is written.
    (unsafe { get_uuid(&raw mut uuid, device) } == 0).then(|| uuid.bytes.map(|byte| byte as u8))
}

fn uuid_text(kind: &str, uuid: [u8; 16]) -> String {
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&uuid[part]));
    format!("{kind}-{a}-{b}-{c}-{d}-{e}")
}

/// A name of the driver's, or the program's.
///
/// # Safety
/// It ends in a zero, or is null.
pub unsafe fn text(name: *const c_char) -> Option<String> {
    // SAFETY: the name is not null, so it ends in a zero.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}
