//! The kind of memory of an address, as AMD's HIP tells it apart.
//!
//! HIP initialises itself when it is first called, which is the program's business. The runtime below it, HSA, fails instead until it is
//! initialised, but that may be by others, as by an MPI that takes the memory of GPUs. So HSA is asked about buffers first: once one is of a
//! kind that HIP allocates, the program has initialised HIP, and HIP is asked, which knows managed memory as well. Versions before 6 are
//! not asked: they return an error for memory that they do not know, and the program could take that for one of its own.

use crate::binaries::library::{Functions, function};
use mpisee_profile::rows::Memory;
use mpisee_symbols::{LoadedObject, find_object};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// `hipPointerAttribute_t` of hip_runtime_api.h, HIP 6 and 7.
#[repr(C)]
struct Attributes {
    memory_type: c_uint,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
    is_managed: c_int,
    flags: c_uint,
}

/// `hipPointerGetAttributes`.
type GetAttributes = unsafe extern "C" fn(*mut Attributes, *const c_void) -> c_int;
/// `hipPeekAtLastError`.
type PeekError = unsafe extern "C" fn() -> c_int;
/// The begin of `hsa_amd_pointer_info_t` of hsa_ext_amd.h.
#[repr(C)]
struct PointerInfo {
    /// Bytes of the structure, as the caller has it.
    size: u32,
    pointer_type: c_uint,
    agent_base: *mut c_void,
    host_base: *mut c_void,
    bytes: usize,
    user_data: *mut c_void,
    owner: u64,
    flags: u32,
}

/// `hsa_amd_pointer_info`; without a function that allocates it lists no devices.
type GetInfo =
    unsafe extern "C" fn(*const c_void, *mut PointerInfo, *const c_void, *mut u32, *mut c_void) -> c_uint;

/// `hipMemoryTypeHost`.
const ON_HOST: c_uint = 1;
/// `hipMemoryTypeDevice` and `hipMemoryTypeArray`.
const ON_DEVICE: [c_uint; 2] = [2, 10];
/// `hipMemoryTypeManaged` and `hipMemoryTypeUnified`.
const MANAGED: [c_uint; 2] = [3, 11];
/// `HSA_EXT_POINTER_TYPE_UNKNOWN`
const UNKNOWN: c_uint = 0;
/// The versions that are asked.
const LIBRARIES: [&[u8]; 2] = [b"libamdhip64.so.7", b"libamdhip64.so.6"];
/// The runtime below.
const RUNTIME: &[u8] = b"libhsa-runtime64.so.1";

/// Functions of HIP.
struct Hip {
    get_attributes: GetAttributes,
    peek_error: PeekError,
}

/// HIP, once the program has loaded it.
static HIP: Functions<Hip> = Functions::new();
/// The runtime below.
static GET_INFO: Functions<GetInfo> = Functions::new();
/// True once a buffer has shown that the program has initialised HIP.
static IS_INITIALISED: AtomicBool = AtomicBool::new(false);

/// Returns whether HIP was found, and is still there.
pub fn is_loaded() -> bool {
    HIP.get().is_some()
}

/// Looks for HIP in the process; loads and initialises nothing. True if it is there.
pub fn look() -> bool {
    let is_hip = |file: &[u8]| LIBRARIES.iter().any(|name| file.starts_with(name));
    if find_object(|object| is_hip(object.file_name()).then_some(())).is_none() {
        return false;
    }
    // SAFETY: the function has this type in hsa_ext_amd.h.
    let of_runtime = |library: LoadedObject<'_>| unsafe { function(library, c"hsa_amd_pointer_info") };
    // SAFETY: the functions have these types in hip_runtime_api.h.
    let of = |library: LoadedObject<'_>| unsafe {
        Some(Hip {
            get_attributes: function(library, c"hipPointerGetAttributes")?,
            peek_error: function(library, c"hipPeekAtLastError")?,
        })
    };
    GET_INFO.look(|file| file.starts_with(RUNTIME), of_runtime).is_some() && HIP.look(is_hip, of).is_some()
}

/// Returns whether HSA knows the memory at an address; false before it is initialised.
fn is_known(buffer: *const c_void) -> bool {
    let Some(get_info) = GET_INFO.get() else { return false };
    let mut info = PointerInfo {
        size: size_of::<PointerInfo>() as u32,
        pointer_type: UNKNOWN,
        agent_base: ptr::null_mut(),
        host_base: ptr::null_mut(),
        bytes: 0,
        user_data: ptr::null_mut(),
        owner: 0,
        flags: 0,
    };
    // SAFETY: any address may be asked about; as much of the structure is written as its size says, and of the devices nothing is asked.
    let status = unsafe { get_info(buffer, &raw mut info, ptr::null(), ptr::null_mut(), ptr::null_mut()) };
    status == 0 && info.pointer_type != UNKNOWN
}

/// The kind of memory at an address; `Host` if HIP is not there or does not know it.
pub fn kind_of(buffer: *const c_void) -> Memory {
    let Some(Hip { get_attributes, peek_error }) = HIP.get() else { return Memory::Host };
    if !IS_INITIALISED.load(Ordering::Relaxed) {
        if !is_known(buffer) {
            return Memory::Host;
        }
        IS_INITIALISED.store(true, Ordering::Relaxed);
    }
    // HIP 6 keeps the result of the last call alone, and the program may still ask for that of its own.
    // SAFETY: HIP is initialised, so that it takes nothing and changes nothing.
    if unsafe { peek_error() } != 0 {
        return Memory::Host;
    }
    let mut attributes = MaybeUninit::<Attributes>::zeroed();
    // SAFETY: any address may be asked about, and the attributes are written or stay zero, which all of them may be.
    let (status, attributes) =
        unsafe { (get_attributes(attributes.as_mut_ptr(), buffer), attributes.assume_init()) };
    match (status, attributes.memory_type) {
        (0, _) if attributes.is_managed != 0 => Memory::Managed,
        (0, kind) if MANAGED.contains(&kind) => Memory::Managed,
        (0, kind) if ON_DEVICE.contains(&kind) => Memory::Device,
        (0, ON_HOST) => Memory::Pinned,
        _ => Memory::Host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;

    static LAST_ERROR: AtomicI32 = AtomicI32::new(0);

    unsafe extern "C" fn last_error() -> c_int {
        assert!(IS_INITIALISED.load(Ordering::Relaxed), "HIP would initialise itself");
        LAST_ERROR.load(Ordering::Relaxed)
    }

    /// The address says the kind; 102 is managed memory of a device, and one of 99 an error.
    unsafe extern "C" fn fake(attributes: *mut Attributes, at: *const c_void) -> c_int {
        let kind = if at.addr() > 90 { 2 } else { at.addr() as c_uint };
        // SAFETY: there is room for them.
        unsafe {
            ((*attributes).memory_type, (*attributes).is_managed) = (kind, c_int::from(at.addr() == 102))
        };
        c_int::from(at.addr() == 99)
    }

    /// It knows memory of devices.
    unsafe extern "C" fn info(
        at: *const c_void,
        info: *mut PointerInfo,
        _: *const c_void,
        _: *mut u32,
        _: *mut c_void,
    ) -> c_uint {
        // SAFETY: the caller's structure.
        unsafe { (*info).pointer_type = c_uint::from(at.addr() == 2) };
        0
    }

    #[test]
    fn hip_is_asked_once_it_is_initialised_unless_the_programs_own_call_failed() {
        let kind = |at: usize| kind_of(ptr::without_provenance(at));
        assert_eq!(kind(2), Memory::Host, "without HIP");
        assert!(!look());
        HIP.replace(Hip { get_attributes: fake, peek_error: last_error });
        assert_eq!(kind(2), Memory::Host, "without HSA");
        GET_INFO.replace(info);
        assert_eq!(kind(3), Memory::Host, "HSA does not know it");
        let kinds = [(2, Memory::Device), (1, Memory::Pinned), (3, Memory::Managed), (10, Memory::Device)];
        let more = [(11, Memory::Managed), (102, Memory::Managed), (99, Memory::Host)];
        for (at, expected) in kinds.into_iter().chain(more) {
            assert_eq!(kind(at), expected, "{at}");
        }
        LAST_ERROR.store(2, Ordering::Relaxed);
        assert_eq!(kind(2), Memory::Host, "after an error");
    }
}
