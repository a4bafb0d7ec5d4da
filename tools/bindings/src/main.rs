//! Writes the bindings, or compares them with what is checked in; `cargo xtask` runs it.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use mpisee_bindings::{Bindings, differences, find_libclang, has_green_contexts, own, sanitizer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Structures and constants of C headers, as Rust.
#[derive(Parser)]
enum Task {
    /// Write the bindings of the GPU tracer's own headers
    Own {
        /// Fail if that changes anything
        #[arg(long)]
        check: bool,
    },
    /// Compare the bindings of the Sanitizer with its headers
    Sanitizer {
        /// Write them instead
        #[arg(long)]
        write: bool,
        /// Where the headers are, and those of CUDA
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<()> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run this through `cargo xtask`")?;
    let root = Path::new(&package).ancestors().nth(2).context("the package is two folders below the root")?;
    let must = matches!(task, Task::Own { check: true } | Task::Sanitizer { write: true, .. });
    if let Err(why) = find_libclang() {
        ensure!(!must, why);
        eprintln!("the bindings of the GPU tracer stay as they are, without a look at the headers: {why}");
        return Ok(());
    }
    match task {
        Task::Own { check } => {
            let changed = own(root)?.iter().map(|it| write(root, it)).collect::<Result<Vec<_>>>()?;
            ensure!(
                !check || !changed.contains(&true),
                "bindings in gpu-tracer/src/generated did not match their headers and were rewritten; commit the result"
            );
            Ok(())
        }
        Task::Sanitizer { write: must_write, folders } => {
            let bindings = sanitizer(root, folders)?;
            let file = bindings.file;
            let checked_in =
                fs::read_to_string(root.join(file)).with_context(|| format!("reading {file}"))?;
            if *must_write {
                // The tracer would add the green context's size to offsets that have it already.
                ensure!(
                    !has_green_contexts(&checked_in, &bindings.text),
                    "{file} is written from headers of CUDA 13.0; those in {} are of 13.1 or later",
                    folders[0].display()
                );
                return write(root, &bindings).map(|_| ());
            }
            let missing = differences(&checked_in, &bindings.text);
            ensure!(
                missing.is_empty(),
                "sanitizer.h in {} is unlike those that the GPU tracer knows, of CUDA 13.0 and of 13.1 and later; {file} has \
                 besides: {}",
                folders[0].display(),
                missing.join("; ")
            );
            Ok(())
        }
    }
}

/// Writes a file if its content differs; returns whether it did.
fn write(root: &Path, bindings: &Bindings) -> Result<bool> {
    let path = root.join(bindings.file);
    if fs::read_to_string(&path).is_ok_and(|text| text == bindings.text) {
        return Ok(false);
    }
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(&path, &bindings.text).with_context(|| format!("writing {}", path.display()))?;
    eprintln!("{} is written", bindings.file);
    Ok(true)
}
