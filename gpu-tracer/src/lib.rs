//! `libmpisee_gpu.so`: counts accesses of GPU kernels to memory of other devices, of other
//! processes and of the host, or, with `--gpu-copies`, the copies and launches of the host.
//! docs/explanation/gpu-tracing.md and docs/how-to/gpus.md say what runs where.
//!
//! The modules are layers, listed here from above to below: each imports from those below it alone.

mod injection;

mod backends;

mod events;

pub mod tracer;

mod copies;

pub mod counting;

pub mod memory;

pub mod device;

mod process;

mod trace;

mod generated;
