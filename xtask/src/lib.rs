//! Builds mpisee: generates its sources, finds the machine's MPIs, builds the library for each, and lays out the
//! installation. `cargo xtask` and the benchmarks in `bench/` are made of this.

pub mod build;
pub mod dist;
pub mod flavour;
pub mod generate;
pub mod gpu;
pub mod instructions;
pub mod launch;
pub mod mpi;

mod emit;
mod spec;

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}
