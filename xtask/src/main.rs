//! Builds mpisee. Everything that is done to the project, other than testing it, is done through here.

mod emit;
mod spec;

use anyhow::{Result, bail};
use clap::Parser;
use std::path::{Path, PathBuf};

/// Generate, build and install mpisee.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Write the generated sources from xtask/spec
    Generate {
        /// Fail if that changes anything
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    match Task::parse() {
        Task::Generate { check } => generate(check),
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

fn generate(check: bool) -> Result<()> {
    let functions = spec::read(&root().join("xtask/spec"))?;
    let changed = emit::all(&root(), &functions)?;
    if check && !changed.is_empty() {
        bail!("{} did not match the spec and was rewritten; commit the result", changed.join(", "));
    }
    Ok(())
}
