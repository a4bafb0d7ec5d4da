//! The backend that uses CUPTI's callbacks: it patches nothing, and reports the host's calls of the
//! driver.

mod abi;
mod functions;

use crate::copies;
use crate::process::driver::Handle;
use crate::trace::trace;
use abi::{ANOTHER_SUBSCRIBER, API_EXIT, BEGIN_CAPTURE, DRIVER_API, FUNCTIONS, NONE};
use cudarc::cupti::sys::CUpti_CallbackData;
use functions::Functions;
use std::ffi::{c_int, c_void};
use std::path::Path;

/// Begins to listen to the calls of the driver.
pub fn start(library: Option<&Path>) -> Result<(), String> {
    let functions = Functions::load(library)?;
    let mut subscriber: Handle = std::ptr::null_mut();
    // SAFETY: the callback has the type that it should, and needs no data.
    let status = unsafe { (functions.subscribe)(&raw mut subscriber, callback, std::ptr::null_mut()) };
    match status {
        0 => {}
        ANOTHER_SUBSCRIBER => return Err("another tool uses CUPTI in this process".to_owned()),
        status => return Err(format!("cuptiSubscribe returned {status}")),
    }
    // Older versions lack the newest functions.
    let enable = |id: u32| {
        // SAFETY: the subscriber is the one just made.
        let status = unsafe { (functions.enable_callback)(1, subscriber, DRIVER_API, id) };
        trace!("callback {id} status={status}");
        status == 0
    };
    let numbers = FUNCTIONS.iter().flat_map(|(numbers, _)| numbers).copied().filter(|&it| it != NONE);
    if numbers.chain(BEGIN_CAPTURE).filter(|&id| enable(id)).count() == 0 {
        // SAFETY: the subscriber is the one just made.
        unsafe { (functions.unsubscribe)(subscriber) };
        return Err("CUPTI's callbacks cannot be switched on".to_owned());
    }
    Ok(())
}

/// Callback of CUPTI.
///
/// # Safety
/// In the domain of the driver `data` is a `CUpti_CallbackData` of the call with the number `id`,
/// which stays until this returns; in others it is not read.
unsafe extern "C" fn callback(_: *mut c_void, domain: u32, id: u32, data: *const CUpti_CallbackData) {
    if domain != DRIVER_API || data.is_null() {
        return;
    }
    // SAFETY: CUPTI passes this structure in its domain of the driver. The site is read as a
    // number, and no reference made of the structure: a site of another version may be no value of
    // cudarc's enumeration.
    let site = unsafe { (&raw const (*data).callbackSite).cast::<u32>().read() };
    let Some((function, is_of_thread)) = abi::function(id) else {
        if BEGIN_CAPTURE.contains(&id) {
            copies::capture_begins();
        }
        return;
    };
    if site != API_EXIT {
        return copies::entered();
    }
    // SAFETY: CUPTI passes this structure; these fields are pointers.
    let (parameters, result) = unsafe { ((*data).functionParams, (*data).functionReturnValue) };
    // SAFETY: at the end of a call the pointer to its result, a `CUresult`, is valid.
    let succeeded = unsafe { result.cast::<c_int>().as_ref() } == Some(&0);
    trace!("{} id={id} succeeded={succeeded}", function.name);
    // SAFETY: the parameters are those of the function with that number.
    unsafe { copies::returned(function, is_of_thread, parameters, succeeded) };
}
