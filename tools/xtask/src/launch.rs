//! The programs of `tools/overhead/`: compiled for an MPI, and run with and without the profiler of
//! `target/dist`.

use crate::flavour::{Family, Flavour};
use crate::root;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `tools/overhead/NAME.c`.
pub fn compile(flavour: &Flavour, name: &str) -> Result<PathBuf> {
    compile_with(flavour, name, &["-pthread"])
}

/// Compiles `tools/overhead/NAME.c` as something to be preloaded.
pub fn compile_library(flavour: &Flavour, name: &str) -> Result<PathBuf> {
    compile_with(flavour, name, &["-shared", "-fPIC"])
}

fn compile_with(flavour: &Flavour, name: &str, arguments: &[&str]) -> Result<PathBuf> {
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join(format!("{name}-{}", flavour.name));
    let status = Command::new(&flavour.mpicc)
        .arg("-O2")
        .args(arguments)
        .arg("-o")
        .args([&program, &root().join("tools/overhead").join(name).with_extension("c")])
        .status()
        .with_context(|| format!("starting {}", flavour.mpicc.display()))?;
    ensure!(status.success(), "{} could not compile tools/overhead/{name}.c", flavour.mpicc.display());
    Ok(program)
}

/// `mpirun` on N ranks, and `mpisee` where a profile is wanted; what follows is the program.
pub fn launcher(flavour: &Flavour, ranks: u32, profile: Option<&Path>) -> Command {
    let name = flavour.mpicc.file_name().unwrap_or_default().to_string_lossy().replacen("mpicc", "mpirun", 1);
    let mut command = Command::new(flavour.mpicc.with_file_name(name));
    command.arg("-n").arg(ranks.to_string());
    if flavour.family == Family::OpenMpi {
        command.args(["--allow-run-as-root", "--oversubscribe"]);
        if ranks > 1 {
            // Ranks that share a core must not spin while they wait for each other.
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        }
    }
    if let Some(profile) = profile {
        command.arg(root().join("target/dist/bin/mpisee")).args(["--quiet", "--output"]).arg(profile);
    }
    command
}
