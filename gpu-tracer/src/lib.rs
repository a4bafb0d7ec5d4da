//! `libmpisee_gpu.so`: counts accesses of GPU kernels to memory of other devices, of other processes and of the host.
//! docs/gpu.md says what runs where.

pub mod backend;
mod context;
mod counts;
mod descriptor;
mod driver;
pub mod file;
mod injection;
pub mod layout;
mod lines;
mod nvbit;
mod nvshmem;
mod object;
mod python;
pub mod records;
pub mod registry;
mod sanitizer;
mod state;
mod trace;
pub mod tracer;
