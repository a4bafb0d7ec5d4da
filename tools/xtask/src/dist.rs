//! Lays out an installation. It is relocatable: the launcher finds its libraries relative to
//! itself.

use crate::build::{self, Built, MpiSelection, Programs};
use crate::gpu::{self, Tracer};
use crate::{root, third_party};
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

/// The folders of an installation that belong to mpisee alone, and are replaced as a whole.
const OWN_FOLDERS: [&str; 2] = ["lib/mpisee", "share/doc/mpisee"];
/// Folders that others put files into as well.
const SHARED_FOLDERS: [&str; 6] =
    ["bin", "include", "share/bash-completion", "share/fish", "share/man", "share/zsh"];

fn dist_folder() -> PathBuf {
    root().join("target/dist")
}

/// Builds everything and puts it together in `target/dist`. `fetch` gets CUDA's compiler from
/// Python's index if there is none.
pub fn dist(wanted: &MpiSelection, fetch: bool) -> Result<()> {
    dist_into(&dist_folder(), wanted, fetch)
}

/// Builds everything and puts it together in a folder.
pub fn dist_into(folder: &Path, wanted: &MpiSelection, fetch: bool) -> Result<()> {
    // The last of a library's steps uses one processor alone, so what is the same for all MPIs is
    // built beside.
    thread::scope(|scope| {
        let shared = scope.spawn(|| {
            let programs = wanted.programs()?;
            let tracer = gpu::build(&programs, fetch)?;
            anyhow::Ok((programs, tracer))
        });
        put_together(folder, wanted, || {
            shared.join().map_err(|_| anyhow!("building the programs panicked"))?
        })
    })
}

/// Builds the flavours, and lays out an installation with them and what is the same for all.
fn put_together(
    folder: &Path,
    wanted: &MpiSelection,
    shared: impl FnOnce() -> Result<(Programs, Tracer)>,
) -> Result<()> {
    build::flavours(wanted, |built| {
        let (programs, tracer) = shared()?;
        if built.is_empty() {
            return Ok(()); // A launcher without a library is of no use; the failures were printed.
        }
        replace(folder, |new| lay_out(new, built, &programs, &tracer))?;
        let names: Vec<_> = built.iter().map(|built| built.flavour.name.as_str()).collect();
        println!("{}: mpisee for {}", folder.display(), names.join(", "));
        Ok(())
    })
}

/// Puts together in `target/try` what a first look takes: the libraries as they are, and the
/// commands as they are built soonest.
pub fn to_be_tried(wanted: &MpiSelection) -> Result<()> {
    thread::scope(|scope| {
        let commands = scope.spawn(build::quick_commands);
        build::flavours(wanted, |built| {
            let commands = commands.join().map_err(|_| anyhow!("building the commands panicked"))??;
            if built.is_empty() {
                return Ok(());
            }
            replace(&root().join("target/try"), |new| lay_out_commands(new, built, &commands))
        })
    })
}

/// The commands, and what they need for each MPI.
fn lay_out_commands(folder: &Path, built: &[Built], commands: &[PathBuf]) -> Result<()> {
    for command in commands {
        copy_into(command, &folder.join("bin"))?;
    }
    for it in built {
        let flavour = folder.join("lib/mpisee").join(&it.flavour.name);
        copy_into(&it.library, &flavour)?;
        it.flavour.write(&flavour.join("flavour.json"))?;
        if let Some(bench) = &it.bench {
            copy_into_as(bench, &flavour, "mpisee-bench")?;
        }
    }
    Ok(())
}

fn lay_out(folder: &Path, built: &[Built], programs: &Programs, tracer: &Tracer) -> Result<()> {
    lay_out_commands(folder, built, &programs.commands)?;
    for file in tracer.files() {
        copy_into(file, &folder.join("lib/mpisee/gpu"))?;
    }
    copy_into(&programs.nccl, &folder.join("lib/mpisee/nccl"))?;
    for header in entries(&root().join("include"))? {
        copy_into(&header, &folder.join("include"))?;
    }
    programs.write_manuals(&folder.join("share"))?;
    for document in entries(&root())? {
        let name = document.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "README.md" || name.starts_with("LICENSE") {
            copy_into(&document, &folder.join("share/doc/mpisee"))?;
        }
    }
    let licences = third_party::licences(&third_party::packages()?)?;
    fs::write(folder.join("share/doc/mpisee/third-party-licences.txt"), licences)?;
    copy_all(&root().join("docs"), &folder.join("share/doc/mpisee/docs"))?;
    Ok(())
}

/// Copies `target/dist` to a prefix such as `/usr/local`.
pub fn install(prefix: &Path) -> Result<()> {
    let from = dist_folder();
    if !from.exists() {
        bail!("there is nothing to install yet: run `cargo xtask dist` first");
    }
    for folder in OWN_FOLDERS.into_iter().filter(|folder| from.join(folder).exists()) {
        replace(&prefix.join(folder), |new| copy_all(&from.join(folder), new))?;
    }
    for folder in SHARED_FOLDERS.into_iter().filter(|folder| from.join(folder).exists()) {
        copy_all(&from.join(folder), &prefix.join(folder))?;
    }
    println!("{}", prefix.join("bin/mpisee").display());
    Ok(())
}

/// Makes `folder` anew: `fill` gets a fresh one beside it, which takes its place once it is
/// complete.
pub fn replace(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let parent = folder.parent().context("an installation needs a folder of its own")?;
    make_folder(parent).with_context(|| format!("creating {}", parent.display()))?;
    let beside = tempfile::Builder::new()
        .prefix(".mpisee-")
        .tempdir_in(parent)
        .with_context(|| format!("creating a folder in {}", parent.display()))?;
    let (new, old) = (beside.path().join("new"), beside.path().join("old"));
    make_folder(&new)?;
    fill(&new)?;
    if folder.exists() {
        fs::rename(folder, &old).with_context(|| format!("moving {} away", folder.display()))?;
    }
    fs::rename(&new, folder).with_context(|| format!("creating {}", folder.display()))
}

/// The entries of a folder; none if there is no folder.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let read = || folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
    read().with_context(|| format!("reading {}", folder.display()))
}

/// Copies what is in a folder into another one.
pub fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for entry in entries(from)? {
        match entry.file_name() {
            Some(name) if entry.is_dir() => copy_all(&entry, &to.join(name))?,
            _ => copy_into(&entry, to)?,
        }
    }
    Ok(())
}

/// Copies a file into a folder, creating the folder. The copy takes the place of an older file
/// rather than changing its contents, which running programs may have mapped.
fn copy_into(file: &Path, folder: &Path) -> Result<()> {
    copy_into_as(file, folder, file.file_name().unwrap_or_default())
}

/// Makes a folder and those above it that all users may read, whatever the umask of the one who
/// installs.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    folder.parent().map_or(Ok(()), make_folder)?;
    fs::create_dir(folder).or_else(|why| if folder.is_dir() { Ok(()) } else { Err(why) })?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

/// Copies a file into a folder under a name.
fn copy_into_as(file: &Path, folder: &Path, name: impl AsRef<Path>) -> Result<()> {
    let copy = || {
        make_folder(folder)?;
        let new = tempfile::Builder::new().prefix(".mpisee-").tempfile_in(folder)?;
        fs::copy(file, new.path())?; // with the file's permissions
        new.persist(folder.join(&name))?;
        Ok::<_, std::io::Error>(())
    };
    copy().with_context(|| format!("copying {} to {}", file.display(), folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_fill_leaves_the_old_folder_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("lib/mpisee");
        replace(&folder, |new| Ok(fs::write(new.join("a"), "1")?)).unwrap();
        replace(&folder, |new| {
            fs::write(new.join("a"), "2")?;
            bail!("no")
        })
        .unwrap_err();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1");
        assert_eq!(entries(folder.parent().unwrap()).unwrap(), [folder]);
    }

    #[test]
    fn replacing_leaves_nothing_of_the_old_one() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mpisee");
        replace(&folder, |new| Ok(fs::write(new.join("old-flavour"), "")?)).unwrap();
        replace(&folder, |new| Ok(fs::write(new.join("new-flavour"), "")?)).unwrap();
        assert_eq!(entries(&folder).unwrap(), [folder.join("new-flavour")]);
        assert_eq!(entries(parent.path()).unwrap(), [folder]);
    }

    #[test]
    fn a_copy_has_the_permissions_and_leaves_a_mapped_file_alone() {
        use std::os::unix::fs::MetadataExt;
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        let program = from.path().join("program");
        fs::write(&program, "x").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        copy_into(&program, &to.path().join("new/folder")).unwrap();
        let folder = to.path().join("new");
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        fs::remove_dir_all(folder).unwrap();
        copy_into(&program, to.path()).unwrap();
        let old = fs::File::open(to.path().join("program")).unwrap();
        copy_into(&program, to.path()).unwrap();
        let new = to.path().join("program").metadata().unwrap();
        assert_ne!(old.metadata().unwrap().ino(), new.ino());
        assert_eq!(new.permissions().mode() & 0o777, 0o755);
        assert_eq!(entries(to.path()).unwrap().len(), 1);
    }
}
