//! Sources that `cargo xtask generate` writes.

mod exports;
pub mod pmpi;
mod signatures;
