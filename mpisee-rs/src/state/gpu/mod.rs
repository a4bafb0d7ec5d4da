//! GPUs: the memory of buffers, the devices and their time, by what the program has loaded; and the
//! GPU tracer, a library of its own.

pub mod cuda_events;
pub mod devices;
mod hsa;
pub mod memory_kind;
mod nvml;
pub mod staging;
pub mod tracer;
