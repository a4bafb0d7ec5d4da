//! Builds mpisee: generates its sources, finds the machine's MPIs, builds the library for each, and
//! lays out the installation. `cargo xtask` and the benchmarks in `tools/overhead/` are made of
//! this.

pub mod build;
pub mod changed;
pub mod dist;
pub mod flavour;
#[cfg(target_arch = "x86_64")]
pub mod footprint;
pub mod generate;
pub mod gpu;
pub mod launch;
pub mod mpi;
pub mod package;
pub mod prose;
pub mod release;

mod emit;
mod reuse;
mod spec;
mod third_party;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Not compiled in: when a checkout is moved, cargo does not build again what it finds in `target`.
static ROOT: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    // Cargo sets the first to the folder of the package that it runs.
    let start =
        std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
    start.ancestors().find(|folder| folder.join("tools/xtask/spec").is_dir()).map(Path::to_owned)
});

/// Fails where there is no checkout to work on, which a program says before it starts anything.
pub fn find_root() -> Result<()> {
    ROOT.as_ref()
        .map(|_| ())
        .context("this is outside of a checkout of mpisee: run it in one, as `cargo xtask`")
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    ROOT.clone().expect("a program calls find_root first")
}
