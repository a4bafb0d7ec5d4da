//! The backend that uses CUPTI's callbacks: it patches nothing, and reports the host's calls of the driver.

#[allow(missing_docs)] // as in NVIDIA's headers
pub mod abi;
mod functions;

use crate::copies;
use crate::process::driver::Handle;
use crate::trace::trace;
use abi::{ANOTHER_SUBSCRIBER, API_EXIT, BEGIN_CAPTURE, CallbackData, DRIVER_API, FUNCTIONS, NONE};
use functions::Functions;
use std::ffi::c_void;
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
/// `data` is as NVIDIA's headers say.
unsafe extern "C" fn callback(_: *mut c_void, domain: u32, id: u32, data: *const CallbackData) {
    // SAFETY: CUPTI passes this structure in its domain of the driver, or null.
    let Some(data) = (unsafe { data.as_ref() }).filter(|_| domain == DRIVER_API) else { return };
    let is_exit = data.site == API_EXIT;
    let Some((function, is_of_thread)) = abi::function(id) else {
        if BEGIN_CAPTURE.contains(&id) {
            copies::capture_begins();
        }
        return;
    };
    if !is_exit {
        return copies::entered();
    }
    // SAFETY: at the end of a call the pointer to its result is valid.
    let succeeded = unsafe { data.return_value.as_ref() } == Some(&0);
    trace!("{} id={id} succeeded={succeeded}", function.name);
    // SAFETY: the parameters are those of the function with that number.
    unsafe { copies::returned(function, is_of_thread, data.parameters, succeeded) };
}
