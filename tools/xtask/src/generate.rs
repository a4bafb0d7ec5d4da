//! Writes the generated sources: of the library from `tools/xtask/spec`, and of the GPU tracer from
//! its own C headers.

use crate::{build, emit, root, spec};
use anyhow::{Result, bail};

/// Writes them; to `check`, fails if that changed anything. Without libclang, those of the headers
/// stay as they are.
pub fn generate(check: bool) -> Result<()> {
    let functions = spec::read(&root().join("tools/xtask/spec"))?;
    let nccl = spec::read(&root().join("tools/xtask/spec/nccl"))?;
    let changed = emit::all(&root(), &functions, &nccl)?;
    if check && !changed.is_empty() {
        bail!("{} did not match the spec and was rewritten; commit the result", changed.join(", "));
    }
    build::bindings(if check { &["own", "--check"] } else { &["own"] })
}
