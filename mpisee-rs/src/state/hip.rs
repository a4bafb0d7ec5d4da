//! The kind of memory of an address, as AMD's HIP tells it apart.
//!
//! HIP initialises itself when it is first called. So it is asked only where the program has loaded and initialised it, which the
//! runtime below it shows: `hsa_system_get_info` fails until then, and does nothing else. Versions before 6 are not asked: they
//! return an error for memory that they do not know, and the program could take that for one of its own.

use mpisee_profile::rows::Memory;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

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
const LIBRARIES: [&CStr; 2] = [c"libamdhip64.so.7", c"libamdhip64.so.6"];

static GET_ATTRIBUTES: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static PEEK_ERROR: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

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

/// Looks for HIP in the process; loads and initialises nothing.
pub fn look() -> Presence {
    // SAFETY: the names end in a zero, and nothing is loaded.
    let open = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    let Some(library) = LIBRARIES.into_iter().map(open).find(|library| !library.is_null()) else {
        return Presence::Absent;
    };
    // SAFETY: the library is loaded, and stays so with the handle; the name ends in a zero. What the library needs is searched
    // after it.
    let symbol = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
    let (get_attributes, peek_error) = (symbol(c"hipPointerGetAttributes"), symbol(c"hipPeekAtLastError"));
    let get_info = symbol(c"hsa_system_get_info");
    if [get_attributes, peek_error, get_info].iter().any(|symbol| symbol.is_null()) {
        return Presence::Absent;
    }
    let mut version = 0u16;
    // SAFETY: the function has this type in hsa.h, and writes a number of 16 bits or nothing.
    let status =
        unsafe { transmute::<*mut c_void, GetInfo>(get_info)(VERSION_MAJOR, (&raw mut version).cast()) };
    if status != 0 {
        // SAFETY: the handle was just opened, and is not used again.
        unsafe { libc::dlclose(library) };
        return Presence::Uninitialised;
    }
    PEEK_ERROR.store(peek_error, Ordering::Relaxed);
    GET_ATTRIBUTES.store(get_attributes, Ordering::Release);
    Presence::Ready
}

/// The kind of memory at an address; `Host` if HIP is not there or does not know it.
pub fn kind_of(buffer: *const c_void) -> Memory {
    let function = GET_ATTRIBUTES.load(Ordering::Acquire);
    if function.is_null() {
        return Memory::Host;
    }
    // SAFETY: the functions have these types in hip_runtime_api.h.
    let (get_attributes, peek_error) = unsafe {
        let peek_error = PEEK_ERROR.load(Ordering::Relaxed);
        (transmute::<*mut c_void, GetAttributes>(function), transmute::<*mut c_void, PeekError>(peek_error))
    };
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
    use std::sync::atomic::AtomicI32;

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
        PEEK_ERROR.store(last_error as *mut c_void, Ordering::Relaxed);
        GET_ATTRIBUTES.store(fake as *mut c_void, Ordering::Release);
        let kinds = [(1, Memory::Pinned), (2, Memory::Device), (3, Memory::Managed), (10, Memory::Device)];
        for (at, expected) in kinds.into_iter().chain([(11, Memory::Managed), (99, Memory::Host)]) {
            assert_eq!(kind(at), expected, "{at}");
        }
        LAST_ERROR.store(2, Ordering::Relaxed);
        assert_eq!(kind(2), Memory::Host, "after an error");
        GET_ATTRIBUTES.store(ptr::null_mut(), Ordering::Release);
    }
}
