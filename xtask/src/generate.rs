//! Writes the generated sources of the library from `xtask/spec`.

use crate::{emit, root, spec};
use anyhow::{Result, bail};

/// Writes them; to `check`, fails if that changed anything.
pub fn generate(check: bool) -> Result<()> {
    let functions = spec::read(&root().join("xtask/spec"))?;
    let nccl = spec::read(&root().join("xtask/spec/nccl"))?;
    let changed = emit::all(&root(), &functions, &nccl)?;
    if check && !changed.is_empty() {
        bail!("{} did not match the spec and was rewritten; commit the result", changed.join(", "));
    }
    Ok(())
}
