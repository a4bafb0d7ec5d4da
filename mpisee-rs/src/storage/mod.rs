//! Shared-memory segment, tables for several threads, clocks, and messages to the user. Nothing here depends on MPI.

pub mod clock;
pub mod counters;
pub mod descriptors;
pub mod message;
pub mod segment;
pub mod signals;
pub mod slot;
pub mod sync;
pub mod table;
