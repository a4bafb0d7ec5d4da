//! The functions of the driver that are counted.

use super::shape::Shape;
use crate::process::driver::number;
use cudarc::driver::sys::CUlaunchConfig;
use std::ffi::c_void;

/// A function that copies, sets or launches.
#[derive(Debug)]
pub struct Function {
    /// Its name, without suffixes.
    pub name: &'static str,
    /// Where its parameters say what is copied.
    pub shape: Shape,
    /// Where they say the stream.
    pub stream: Stream,
}

/// The stream of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// None: the call waits.
    Blocking,
    /// One that the parameters do not say.
    Default,
    /// The parameter of that number.
    Word(usize),
    /// In the `CUlaunchConfig` that the parameter of that number points to.
    InConfiguration(usize),
}

impl Stream {
    /// Its handle; none where the parameters do not say it.
    ///
    /// # Safety
    /// The parameters are those of a function that has its stream there.
    pub unsafe fn handle(self, parameters: *const c_void) -> Option<u64> {
        let words = parameters.cast::<u64>();
        // SAFETY: the parameters are words of 8 bytes, of which the function has this many; of a
        // call that succeeded the configuration is valid.
        unsafe {
            match self {
                Stream::Blocking | Stream::Default => None,
                Stream::Word(at) => Some(words.add(at).read()),
                Stream::InConfiguration(at) => {
                    let configuration = words.cast::<*const CUlaunchConfig>().add(at).read();
                    Some(number((*configuration).hStream))
                }
            }
        }
    }
}
