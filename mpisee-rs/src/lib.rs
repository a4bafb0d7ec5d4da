//! `libmpisee.so`: counts what an MPI program communicates, per communicator, while preloaded into it.
//!
//! A call goes `exported MPI_X` ([`generated`]) → what it means ([`meaning`], or [`by_hand`]) → the
//! application's own MPI (`PMPI_X`, [`symbol`]) and from there into a counter ([`record`], [`counters`]) of
//! the shared-memory [`segment`]. At `MPI_Finalize` [`finalize`] turns the segments into a profile directory.
//! docs/architecture.md follows one call all the way.
//!
//! The library is a guest. It writes nothing to stdout, ends no process, changes no argument, result or
//! message; what fails inside of it is counted as not seen, and the program goes on.

// Nothing in here is an API to Rust: what is public is so to the generated shims.
#![allow(unreachable_pub)]

mod abi;
mod argument;
mod by_hand;
mod clock;
mod communicator;
mod compatibility;
mod counters;
mod file_limit;
mod finalize;
mod fortran;
mod generated;
mod gpu;
mod meaning;
mod message;
mod naming;
mod overhead;
mod process;
mod record;
mod region;
mod request;
mod segment;
mod slot;
mod stack;
mod symbol;
mod sync;
mod table;
mod thread;
mod topology;
