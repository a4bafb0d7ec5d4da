//! Copies what cargo compiled for one flavour to the target directory of another.
//!
//! Each flavour has a target directory of its own: cargo builds one MPI's library anew after
//! another's in the same one. Most of what is in them is the same for every MPI, though. Cargo
//! checks what it finds by its fingerprints, so a copy that does not fit is compiled as if it were
//! not there. One thing cargo does not see: a crate which includes what its build script wrote
//! differs from one target directory to another, and what was compiled with the one does not link
//! with the other. So nothing is copied between directories that have compiled the same crate, each
//! for itself, with different results.

use crate::build::PORTABLE_TARGET;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The folders of a profile, such as `library` or `debug`, in which cargo keeps an entry for each
/// unit that it compiled.
const FOLDERS: [&str; 3] = [".fingerprint", "build", DEPS];
/// The one of compiled crates.
const DEPS: &str = "deps";
/// The begin of the names of the workspace's own crates; cargo compiles them anew when their
/// sources have changed.
const OWN_CRATES: &str = "libmpisee";
/// The packages that are compiled for an MPI, and their crates.
const OF_ONE_MPI: [&str; 9] = [
    "mpisee-rs",
    "mpisee",
    "mpi-sys",
    "mpi_sys",
    "mpi",
    "mpisee-bench",
    "mpisee_bench",
    "mpisee-bench-mpi",
    "mpisee_bench_mpi",
];

/// Copies to `folder` what is compiled in another flavour's directory beside it, and missing here.
pub fn copy_from_siblings(folder: &Path) -> Result<()> {
    let beside = folder.parent().context("a flavour's folder has a parent")?;
    for sibling in entries(beside)?.filter(|sibling| sibling != folder && sibling.is_dir()) {
        let portable = sibling.join(PORTABLE_TARGET);
        let portable = portable.is_dir().then(|| entries(&portable)).transpose()?.into_iter().flatten();
        for profile in entries(&sibling)?.chain(portable) {
            let own = folder.join(profile.strip_prefix(&sibling)?);
            if !agree(&profile.join(DEPS), &own.join(DEPS))? {
                continue;
            }
            for part in FOLDERS.into_iter().filter(|part| profile.join(part).is_dir()) {
                copy_missing(&profile.join(part), &own.join(part))?;
            }
        }
    }
    Ok(())
}

/// Returns whether the crates that both folders have are the same.
fn agree(one: &Path, other: &Path) -> Result<bool> {
    if !one.is_dir() {
        return Ok(true);
    }
    for entry in entries(one)?.filter(|entry| is_crate(entry)) {
        let name = entry.file_name().unwrap_or_default();
        let twin = other.join(name);
        let is_shared =
            !is_of_one_mpi(&name.to_string_lossy()) && !name.to_string_lossy().starts_with(OWN_CRATES);
        if is_shared && twin.exists() && !is_same(&entry, &twin)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_same(one: &Path, other: &Path) -> Result<bool> {
    let [here, there] = [one.metadata()?, other.metadata()?];
    if (here.dev(), here.ino()) == (there.dev(), there.ino()) {
        return Ok(true);
    }
    Ok(here.len() == there.len() && fs::read(one)? == fs::read(other)?)
}

/// Returns whether a file is a compiled crate.
fn is_crate(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind == "rlib" || kind == "rmeta")
}

fn copy_missing(from: &Path, to: &Path) -> Result<()> {
    for entry in entries(from)? {
        let name = entry.file_name().unwrap_or_default();
        if !is_of_one_mpi(&name.to_string_lossy()) && !to.join(name).exists() {
            copy(&entry, &to.join(name)).with_context(|| format!("copying {}", entry.display()))?;
        }
    }
    Ok(())
}

/// Returns whether an entry is of the library, or of what reads an MPI's header:
/// `mpi-sys-0123abcd`, `libmpisee-0123abcd.rmeta`, `libmpisee.so`.
fn is_of_one_mpi(entry: &str) -> bool {
    let stem = entry.split('.').next().unwrap_or_default();
    let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
    OF_ONE_MPI.contains(&name) || name.strip_prefix("lib").is_some_and(|name| OF_ONE_MPI.contains(&name))
}

/// Copies a file or a folder with the times of the last changes, from which cargo sees in which
/// order things were made.
///
/// Compiled crates, the bulk of it, become second names of the same file: they are replaced, never
/// written to.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in from.read_dir()? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if is_crate(from) && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(from.metadata()?.modified()?)
}

fn entries(folder: &Path) -> Result<impl Iterator<Item = std::path::PathBuf>> {
    let read = folder.read_dir().and_then(|read| read.map(|entry| Ok(entry?.path())).collect());
    let found: Vec<_> = read.with_context(|| format!("reading {}", folder.display()))?;
    Ok(found.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_compiled_for_one_mpi_are_not_reused() {
        for entry in [
            "mpisee-rs-0123abcd",
            "mpi-sys-0123abcd",
            "libmpi_sys-0123abcd.rlib",
            "libmpisee-0123abcd.rmeta",
            "libmpisee.so",
            "mpisee-0123abcd.d",
        ] {
            assert!(is_of_one_mpi(entry), "{entry}");
        }
        for entry in [
            "mpisee-profile-0123abcd",
            "libmpisee_profile-0123abcd.rlib",
            "libc-0123abcd.d",
            "serde-0123abcd",
        ] {
            assert!(!is_of_one_mpi(entry), "{entry}");
        }
    }

    #[test]
    fn a_copy_is_as_old_as_the_file_and_replaces_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["one-1.0", "other-2.0"].map(|name| scratch.path().join(name));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(&from.join("flavour.json"), "{}");
        write(&from.join("debug/deps/libmpisee.so"), "its own");
        write(&from.join("debug/deps/libcsv-01.rlib"), "new here");
        write(&from.join("debug/build/serde-02/out/a"), "new here");
        write(&from.join("debug/.fingerprint/libc-03/lib-libc"), "another");
        write(&to.join("debug/.fingerprint/libc-03/lib-libc"), "there already");
        let of = |path: &str| from.join("debug").join(path).metadata().unwrap().modified().unwrap();
        copy_from_siblings(&to).unwrap();
        let there = |path: &str| fs::read_to_string(to.join("debug").join(path)).ok();
        assert_eq!(there("deps/libcsv-01.rlib").as_deref(), Some("new here"));
        assert_eq!(there("build/serde-02/out/a").as_deref(), Some("new here"));
        assert_eq!(there(".fingerprint/libc-03/lib-libc").as_deref(), Some("there already"));
        assert_eq!(there("deps/libmpisee.so"), None);
        assert!(!to.join("flavour.json").exists());
        let copied = to.join("debug/deps/libcsv-01.rlib").metadata().unwrap().modified().unwrap();
        assert_eq!(copied, of("deps/libcsv-01.rlib"));
    }
    #[test]
    fn directories_that_compiled_a_crate_differently_are_not_mixed() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["one-1.0", "other-2.0"].map(|name| scratch.path().join(name));
        for (folder, text) in [(&from, "includes one-1.0/out"), (&to, "includes other-2.0/out")] {
            fs::create_dir_all(folder.join("debug/deps")).unwrap();
            fs::write(folder.join("debug/deps/libserde_core-01.rlib"), text).unwrap();
        }
        fs::write(from.join("debug/deps/libserde_json-02.rlib"), "needs serde_core").unwrap();
        copy_from_siblings(&to).unwrap();
        assert!(!to.join("debug/deps/libserde_json-02.rlib").exists());
    }
}
