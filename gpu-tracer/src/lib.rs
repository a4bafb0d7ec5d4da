//! `libmpisee_gpu.so`: what GPU kernels access by themselves in memory that is not their own device's and process's.
//! docs/gpu.md says what runs where.

pub mod backend;
mod counts;
pub mod file;
mod injection;
pub mod layout;
mod lines;
mod object;
pub mod registry;
pub mod sanitizer;
pub mod tracer;
