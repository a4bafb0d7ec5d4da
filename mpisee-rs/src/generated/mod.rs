//! Sources that `cargo xtask generate` writes.

mod exports;
mod fortran;
pub mod interposed;
pub mod pmpi;
// The standard's own interface is no header to compare with, but what the spec says.
#[cfg(not(mpi_family = "standard"))]
mod signatures;
