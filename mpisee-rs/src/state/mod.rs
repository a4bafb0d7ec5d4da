//! The running program: its communicators, requests, regions, threads, call sites and GPUs.

pub mod cached_call;
pub mod communicator;
pub mod counted_call;
pub mod cpu;
pub mod datatype;
#[cfg(test)]
pub mod fake_mpi;
pub mod fortran_bindings;
pub mod gpu;
pub mod handles;
pub mod nccl;
pub mod openmpi_components;
pub mod order;
pub mod poll;
pub mod process;
pub mod python;
pub mod region;
pub mod request;
pub mod sampled_overhead;
pub mod scratch;
pub mod sites;
pub mod stack;
pub mod start_folder;
pub mod switching;
pub mod thread;
pub mod variables;
pub mod world;
