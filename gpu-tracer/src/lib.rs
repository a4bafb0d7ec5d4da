//! `libmpisee_gpu.so`: what GPU kernels access by themselves in memory that is not their own device's and process's.
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
