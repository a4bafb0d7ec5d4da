//! Prepares a release: checks, packages, checksums, and the list of crates. It neither tags nor
//! uploads.

use crate::package::succeed;
use crate::{package, root, third_party};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of all parts.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const CARGO_DENY: &str = "cargo-deny@0.20.2";

/// Checks this checkout, packs it in `target/release-VERSION`, and prints what is left to do.
pub fn release(fetch: bool) -> Result<()> {
    let problems = problems(&root())?;
    ensure!(problems.is_empty(), "this is no release yet:\n- {}", problems.join("\n- "));
    check_crates()?;
    let folder = root().join(format!("target/release-{VERSION}"));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for built in package::all(fetch)? {
        let name = built.file_name().context("a package is a file")?;
        fs::copy(&built, folder.join(name)).with_context(|| format!("copying {}", built.display()))?;
    }
    pack_sources(&folder)?;
    let bill = third_party::bill_of_materials(&third_party::packages()?, VERSION);
    fs::write(folder.join("mpisee.cdx.json"), serde_json::to_string_pretty(&bill)?)?;
    write_checksums(&folder)?;
    println!(
        "{}: complete. Left to do, once scripts/test has passed on this commit: git tag -s v{VERSION}",
        folder.display()
    );
    Ok(())
}

/// Sentences on what keeps a checkout from being a release.
fn problems(checkout: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let read =
        |name: &str| fs::read_to_string(checkout.join(name)).with_context(|| format!("reading {name}"));
    for (file, line) in [
        ("python/pyproject.toml", format!("version = \"{VERSION}\"")),
        ("python/src/mpisee/__init__.py", format!("__version__ = \"{VERSION}\"")),
        ("packaging/conda/recipe.yaml", format!("  version: \"{VERSION}\"")),
    ] {
        if !read(file)?.lines().any(|it| it == line) {
            problems.push(format!("{file} has another version than Cargo.toml, {VERSION}"));
        }
    }
    let changes = read("CHANGELOG.md")?;
    let newest = changes.lines().find(|line| line.starts_with("## [")).unwrap_or_default();
    if !newest.starts_with(&format!("## [{VERSION}] - 20")) {
        problems.push(format!("CHANGELOG.md begins with '{newest}' and not with '## [{VERSION}] - DATE'"));
    }
    let changed = output(Command::new("git").args(["status", "--porcelain"]).current_dir(checkout))?;
    if !changed.is_empty() {
        problems.push(format!("files differ from the last commit:\n{}", changed.trim_end()));
    }
    Ok(problems)
}

/// Licences, sources and known faults of the crates of others.
fn check_crates() -> Result<()> {
    let tools = root().join("target/release-tools");
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", "--root"]).arg(&tools).arg(CARGO_DENY);
    succeed(&mut install)?;
    let mut deny = Command::new(tools.join("bin/cargo-deny"));
    succeed(deny.args(["check", "--hide-inclusion-graph"]).current_dir(root()))
}

fn pack_sources(folder: &Path) -> Result<()> {
    let name = format!("mpisee-{VERSION}");
    let mut archive = Command::new("git");
    archive.args(["archive", "--format=tar.gz", &format!("--prefix={name}/"), "--output"]);
    succeed(archive.arg(folder.join(format!("{name}.tar.gz"))).arg("HEAD").current_dir(root()))
}

/// Writes `SHA256SUMS`, which `sha256sum --check` reads.
fn write_checksums(folder: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(PathBuf::from(entry?.file_name()));
    }
    names.sort();
    let sums = output(Command::new("sha256sum").args(&names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums).context("writing SHA256SUMS")
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(python: &str, changes: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("python/pyproject.toml", format!("[project]\nversion = \"{python}\"\n"));
        write("python/src/mpisee/__init__.py", format!("__version__ = \"{python}\"\n"));
        write("packaging/conda/recipe.yaml", format!("context:\n  version: \"{python}\"\n"));
        write("CHANGELOG.md", format!("# Changelog\n\n{changes}\n"));
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
            output(Command::new("git").args(identity).args(arguments).current_dir(folder.path())).unwrap()
        };
        git(&["init", "--quiet"]);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", "all"]);
        folder
    }

    #[test]
    fn a_release_has_one_version_and_no_uncommitted_file() {
        let ready = checkout(VERSION, &format!("## [{VERSION}] - 2031-02-03"));
        assert_eq!(problems(ready.path()).unwrap(), [""; 0]);
        fs::write(ready.path().join("new"), "").unwrap();
        let found = problems(ready.path()).unwrap();
        assert!(found.len() == 1 && found[0].ends_with("?? new"), "{found:?}");
        let found = problems(checkout("7.8.9", "## [Unreleased]").path()).unwrap();
        assert!(found.len() == 4 && found[3].contains("begins with '## [Unreleased]'"), "{found:?}");
    }

    #[test]
    fn checksums_are_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "two").unwrap();
        fs::write(folder.path().join("a"), "one").unwrap();
        write_checksums(folder.path()).unwrap();
        let mut check = Command::new("sha256sum");
        let said = output(check.args(["--check", "SHA256SUMS"]).current_dir(folder.path())).unwrap();
        assert_eq!(said, "a: OK\nb: OK\n");
    }
}
