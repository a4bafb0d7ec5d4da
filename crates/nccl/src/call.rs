//! Hands a call to `libmpisee.so`.

use crate::functions::{ncclCommCount, ncclCommCuDevice, ncclCommUserRank};
use mpisee_profile::Operation;
use mpisee_profile::nccl::{
    Comm, Config, INVALID_USAGE, Meaning, NO_OPERATION, NcclCall, NcclHook, SUCCESS, UNKNOWN_DEVICE,
    interface,
};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// Makes a call, and has it counted if the profiler is there.
pub fn call(
    operation: Option<Operation>,
    meaning: Meaning,
    buffers: [*const c_void; 2],
    config: *const Config,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(hook) = profiler() else { return make() };
    let operation = operation.map_or(NO_OPERATION, |operation| operation as u32);
    make_recorded(hook, &NcclCall { operation, meaning, buffers, query, device, config }, make)
}

fn make_recorded<F: FnOnce() -> c_int>(hook: NcclHook, call: &NcclCall, make: F) -> c_int {
    extern "C-unwind" fn take<F: FnOnce() -> c_int>(data: *mut c_void) -> c_int {
        // SAFETY: `make_recorded` passes this pointer, for a call that ends before it returns.
        let make = unsafe { (*data.cast::<Option<F>>()).take() };
        make.map_or(INVALID_USAGE, |make| make())
    }
    let mut make = Some(make);
    // SAFETY: the call is described as the program made it, and `take` is for data of this type.
    unsafe { hook(call, take::<F>, (&raw mut make).cast()) }
}

/// Looks for the profiler when this library is loaded, as it is preloaded with it: a look-up takes
/// the loader's lock, which another thread may have while a library's constructor waits for this
/// call.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        profiler();
    }
    at_load
};

/// The profiler's function, if a profiler of the same installation is in the process.
fn profiler() -> Option<NcclHook> {
    static FOUND: OnceLock<Option<NcclHook>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the names end in a zero; the functions have these types in `libmpisee.so`.
        unsafe {
            let its_interface = libc::dlsym(libc::RTLD_DEFAULT, c"mpisee_nccl_interface".as_ptr());
            let hook = libc::dlsym(libc::RTLD_DEFAULT, c"mpisee_nccl_call".as_ptr());
            if its_interface.is_null() || hook.is_null() {
                return None;
            }
            let its_interface = std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(its_interface);
            (its_interface() == interface()).then(|| std::mem::transmute::<*mut c_void, NcclHook>(hook))
        }
    })
}

/// Queries size and rank of a communicator, which NCCL knows without communication.
extern "C" fn query(comm: Comm, size: *mut c_int, rank: *mut c_int) -> c_int {
    let (Some(count), Some(user_rank)) = (ncclCommCount.get(), ncclCommUserRank.get()) else {
        return INVALID_USAGE;
    };
    // SAFETY: the communicator is the program's, and the caller passes places for
    // both numbers.
    unsafe {
        match count(comm, size) {
            SUCCESS => user_rank(comm, rank),
            error => error,
        }
    }
}

/// Queries the device of a communicator.
extern "C" fn device(comm: Comm) -> c_int {
    let Some(get) = ncclCommCuDevice.get() else { return UNKNOWN_DEVICE };
    let mut device = UNKNOWN_DEVICE;
    // SAFETY: the communicator is the program's, and the number is written.
    match unsafe { get(comm, &raw mut device) } {
        SUCCESS => device,
        _ => UNKNOWN_DEVICE,
    }
}
