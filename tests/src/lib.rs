//! Harness of the end-to-end tests: compiles a program of `tests/programs` for each MPI on the
//! machine, runs it under its launcher and `mpisee`, reads the profile back through
//! `mpisee-profile`.
//!
//! A program is named by its path in `tests/programs`, without the ending: `requests/recycled`.
//!
//! The tests use the installation that `cargo xtask dist` makes, in `target/dist`.

pub mod bench;
pub mod command;
pub mod harness;
pub mod mpi;
pub mod nodes;
pub mod place;
pub mod profile;
pub mod python;
pub mod run;
pub mod signal;
pub mod soak;

pub use command::{LIMIT, through, within};
pub use mpi::{ADDRESS_SANITIZER, Mpi};
pub use mpisee_case::case;
pub use nodes::Cluster;
pub use place::{Ended, Place};
pub use profile::Tables;
pub use run::{Finished, Run};
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace")
}

/// The installation under test.
pub fn dist() -> PathBuf {
    let dist = root().join("target/dist");
    assert!(dist.join("bin/mpisee").exists(), "there is no {}; run `cargo xtask dist`", dist.display());
    dist
}
