//! Back ends: each reports contexts, modules, memory and launches to the tracer, and changes kernels for it.

pub(crate) mod nvbit;
pub(crate) mod sanitizer;
