//! `libmpisee.so`: counts what an MPI program communicates, per communicator, while preloaded into
//! it.
//!
//! A call goes `exported MPI_X` ([`generated`]) → its wrapper ([`wrappers`]) → the application's
//! own MPI (`PMPI_X`, [`mpi::symbol`]) and from there into a counter ([`recording`],
//! [`storage::counters`]) of the shared-memory [`storage::segment`]. At `MPI_Finalize` [`finalize`]
//! turns the segments into a profile directory. docs/explanation/how-it-works.md follows one call
//! all the way.
//!
//! The modules are layers, from below: [`mpi`], [`storage`], [`binaries`], [`state`], [`naming`],
//! [`recording`], [`finalize`], [`wrappers`]. Each imports from those below it alone, which a test
//! holds (`tools/xtask/tests/layers.rs`).
//!
//! The library is a guest. It writes nothing to stdout, ends no process, changes no argument,
//! result or message; what fails inside of it is counted as not seen, and the program goes on.

// Nothing in here is an API to Rust: what is public is so to the generated shims.
#![allow(unreachable_pub)]

mod binaries;
mod finalize;
mod generated;
mod mpi;
mod naming;
mod recording;
mod state;
mod storage;
mod wrappers;
