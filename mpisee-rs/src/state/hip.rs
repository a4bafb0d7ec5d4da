//! The kind of memory of an address, as AMD's HIP tells it apart.
//!
//! HIP initialises itself when it is first called. So it is asked only where the program has loaded and initialised it, which the
//! runtime below it shows: `hsa_system_get_info` fails until then, and does nothing else. Versions before 6 are not asked: they
//! return an error for memory that they do not know, and the program could take that for one of its own.

use crate::binaries::library::{Functions, function};
use mpisee_profile::rows::Memory;
use mpisee_symbols::{LoadedObject, find_object};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

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
/// `hsa_system_get_info`.
type GetInfo = unsafe extern "C" fn(c_uint, *mut c_void) -> c_uint;

/// `hipMemoryTypeHost`.
const ON_HOST: c_uint = 1;
/// `hipMemoryTypeDevice` and `hipMemoryTypeArray`.
const ON_DEVICE: [c_uint; 2] = [2, 10];
/// `hipMemoryTypeManaged` and `hipMemoryTypeUnified`.
const MANAGED: [c_uint; 2] = [3, 11];
/// `HSA_SYSTEM_INFO_VERSION_MAJOR`, 16 bits.
const VERSION_MAJOR: c_uint = 0;
/// The versions that are asked.
const LIBRARIES: [&[u8]; 2] = [b"libamdhip64.so.7", b"libamdhip64.so.6"];
/// The runtime below.
const RUNTIME: &[u8] = b"libhsa-runtime64.so.1";

/// Functions of HIP.
struct Hip {
    get_attributes: GetAttributes,
    peek_error: PeekError,
}

/// HIP, once the program was seen to have initialised it.
static HIP: Functions<Hip> = Functions::new();
static GET_INFO: Functions<GetInfo> = Functions::new();

/// The state of HIP in the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// The program has not loaded it.
    Absent,
    /// The program has not initialised it yet.
    Uninitialised,
    /// It can be asked from now on.
    Ready,
}

/// Returns whether HIP was found, is initialised, and is still there.
pub fn is_ready() -> bool {
    HIP.get().is_some()
}

/// Looks for HIP in the process; loads and initialises nothing.
pub fn look() -> Presence {
    let is_hip = |file: &[u8]| LIBRARIES.iter().any(|name| file.starts_with(name));
    if find_object(|object| is_hip(object.file_name()).then_some(())).is_none() {
        return Presence::Absent;
    }
    // SAFETY: the function has this type in hsa.h.
    let of_runtime = |library: LoadedObject<'_>| unsafe { function(library, c"hsa_system_get_info") };
    let Some(get_info) = GET_INFO.look(|file| file.starts_with(RUNTIME), of_runtime) else {
        return Presence::Absent;
    };
    let mut version = 0u16;
    // SAFETY: the function writes a number of 16 bits or nothing.
    if unsafe { get_info(VERSION_MAJOR, (&raw mut version).cast()) } != 0 {
        return Presence::Uninitialised;
    }
    // SAFETY: the functions have these types in hip_runtime_api.h.
    let of = |library: LoadedObject<'_>| unsafe {
        Some(Hip {
            get_attributes: function(library, c"hipPointerGetAttributes")?,
            peek_error: function(library, c"hipPeekAtLastError")?,
        })
    };
    HIP.look(is_hip, of).map_or(Presence::Absent, |_| Presence::Ready)
}

/// The kind of memory at an address; `Host` if HIP is not there or does not know it.
pub fn kind_of(buffer: *const c_void) -> Memory {
    let Some(Hip { get_attributes, peek_error }) = HIP.get() else { return Memory::Host };
    // HIP 6 keeps the result of the last call alone, and the program may still ask for that of its own.
    // SAFETY: it takes nothing, and changes nothing.
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
    use std::ptr;
    use std::sync::atomic::{AtomicI32, Ordering};

    static LAST_ERROR: AtomicI32 = AtomicI32::new(0);

    unsafe extern "C" fn last_error() -> c_int {
        LAST_ERROR.load(Ordering::Relaxed)
    }

    /// The address says the kind; one of 99 is an error.
    unsafe extern "C" fn fake(attributes: *mut Attributes, at: *const c_void) -> c_int {
        // SAFETY: there is room for them.
        unsafe { (*attributes).memory_type = at.addr() as c_uint };
        c_int::from(at.addr() == 99)
    }

    #[test]
    fn hip_is_asked_unless_the_programs_own_call_failed() {
        let kind = |at: usize| kind_of(ptr::without_provenance(at));
        assert_eq!(kind(2), Memory::Host, "without HIP");
        assert_eq!(look(), Presence::Absent);
        HIP.replace(Hip { get_attributes: fake, peek_error: last_error });
        let kinds = [(1, Memory::Pinned), (2, Memory::Device), (3, Memory::Managed), (10, Memory::Device)];
        for (at, expected) in kinds.into_iter().chain([(11, Memory::Managed), (99, Memory::Host)]) {
            assert_eq!(kind(at), expected, "{at}");
        }
        LAST_ERROR.store(2, Ordering::Relaxed);
        assert_eq!(kind(2), Memory::Host, "after an error");
    }
}
