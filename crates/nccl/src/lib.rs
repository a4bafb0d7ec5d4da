//! `libmpisee_nccl.so`: interposes the functions of NCCL and RCCL, which `libmpisee.so` counts.
//!
//! It is a library of its own, preloaded into programs that need NCCL alone: a program may look for
//! NCCL by its symbols (`dlsym(RTLD_DEFAULT, "ncclAllReduce")`), and would find these. It keeps
//! nothing and counts nothing; without `libmpisee.so` beside it, it passes every call on.

// Nothing in here is an API to Rust.
#![allow(unreachable_pub)]

mod call;
mod functions;
mod generated;
mod symbol;
