//! CUDA's driver: its functions, what it says of memory and devices, and its handles as numbers.
//!
//! Types and constants are cudarc's; none of its functions is called, since it would load the
//! driver itself. What the driver returns is an integer here: cudarc's enumerations lack the values
//! of later versions.

use cudarc::driver::sys::{CUdeviceptr, CUpointer_attribute, CUuuid};
use mpisee_collect::process::gpu::uuid_text;
use mpisee_in_process::symbols::{LoadedObject, find_object};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

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

/// Begin of the file's name of the driver.
const FILE: &[u8] = b"libcuda.so";

/// A function of the driver, if that is loaded. It is never loaded here, and never closed once it
/// has loaded the tracer.
///
/// `dlopen` and `dlsym` would take the loader's lock, which a thread has while it runs a library's
/// constructor, and that may wait for the thread that is here. To be called as the tracer starts:
/// the lock that this takes is short, but taken by the program as well.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    let address = |object: LoadedObject<'_>| {
        object.file_name().starts_with(FILE).then(|| object.function(name)).flatten()
    };
    find_object(address).map(NonNull::as_ptr)
}

type GetRange = unsafe extern "C" fn(*mut CUdeviceptr, *mut usize, CUdeviceptr) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, CUdeviceptr) -> c_int;
type GetUuid = unsafe extern "C" fn(*mut CUuuid, c_int) -> c_int;

/// The functions that are called here, as far as the driver has them.
struct Functions {
    range: Option<GetRange>,
    attribute: Option<GetAttribute>,
    /// The UUID of a GPU, and of a MIG instance.
    uuids: [Option<GetUuid>; 2],
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Looks up the functions that are called here, as the tracer starts.
pub fn find_functions() {
    functions();
}

fn functions() -> &'static Functions {
    let uuid = |name: &CStr| {
        // SAFETY: the functions have this type in cuda.h.
        function(name).map(|it| unsafe { std::mem::transmute::<*mut c_void, GetUuid>(it) })
    };
    FUNCTIONS.get_or_init(|| Functions {
        // SAFETY: the function has this type in cuda.h.
        range: function(c"cuMemGetAddressRange_v2")
            .map(|it| unsafe { std::mem::transmute::<*mut c_void, GetRange>(it) }),
        // SAFETY: the function has this type in cuda.h, but for the result, which for a device is
        // an int.
        attribute: function(c"cuPointerGetAttribute")
            .map(|it| unsafe { std::mem::transmute::<*mut c_void, GetAttribute>(it) }),
        uuids: [uuid(c"cuDeviceGetUuid"), uuid(c"cuDeviceGetUuid_v2")],
    })
}

/// A function of the profiler that is preloaded, if it is.
pub fn of_profiler(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: this handle always is one.
    unsafe { symbol(libc::RTLD_DEFAULT, name) }
}

/// A function of a library that is loaded. To be called as the tracer starts, see [`function`].
///
/// # Safety
/// `library` is a handle that `dlopen` gave and that is not closed yet, or `RTLD_DEFAULT`.
pub unsafe fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the caller says that the library is loaded; the name ends in a zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The length of a mapping from the address on, by the driver; 0 if it has none. Where the owner's
/// allocation is part of a larger block, the driver maps all of that.
pub fn size_of_mapping(address: u64) -> u64 {
    let Some(get_range) = functions().range else { return 0 };
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: both results are written.
    let status = unsafe { get_range(&raw mut base, &raw mut bytes, address) };
    let end: u64 = if status == 0 { base.saturating_add(bytes as u64) } else { 0 };
    end.saturating_sub(address)
}

/// The device that memory is on, by the driver.
pub fn device_of(address: u64) -> Option<c_int> {
    const DEVICE_ORDINAL: c_int = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_int;
    let get_attribute = functions().attribute?;
    let mut device = 0;
    // SAFETY: the result is written.
    (unsafe { get_attribute(&raw mut device, DEVICE_ORDINAL, address) } == 0).then_some(device)
}

/// `GPU-8f6ad5c8-…`, of a MIG instance `MIG-…`, as nvidia-smi writes it; the number where the
/// driver does not say.
pub fn device_name(device: c_int) -> String {
    // Of a MIG instance the first is of its GPU, the second its own.
    let [whole, own] = functions().uuids.map(|get_uuid| uuid(get_uuid?, device));
    match own.or(whole) {
        Some(own) => uuid_text(if whole.is_some_and(|whole| whole != own) { "MIG" } else { "GPU" }, own),
        None => format!("device {device}"),
    }
}

fn uuid(get_uuid: GetUuid, device: c_int) -> Option<[u8; 16]> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the result is written.
    (unsafe { get_uuid(&raw mut uuid, device) } == 0).then(|| uuid.bytes.map(|byte| byte as u8))
}

/// A name of the driver's, or the program's.
///
/// # Safety
/// It ends in a zero, or is null.
pub unsafe fn text(name: *const c_char) -> Option<String> {
    // SAFETY: the name is not null, so it ends in a zero.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}
