//! Sources that `cargo xtask generate` writes.

mod exports;
mod fortran;
pub mod pmpi;
mod signatures;
