//! Backends: two report contexts, modules, memory and launches to the tracer, and change kernels
//! for it; CUPTI's reports the host's calls of the driver.

pub(crate) mod cupti;
pub(crate) mod nvbit;
pub(crate) mod sanitizer;
