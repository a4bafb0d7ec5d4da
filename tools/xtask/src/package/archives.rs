//! Packages without Python: an archive that can be unpacked anywhere, and one for Debian's package
//! manager.

use super::succeed;
use crate::{dist, root};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of all parts.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Environment Modules and Lmod read the first, and Lmod prefers the second. Both find the
/// installation above themselves.
const MODULES: [(&str, &str); 2] = [
    (
        "",
        "#%Module1.0\n\
         module-whatis \"Communication profiler for MPI programs\"\n\
         set root [file dirname [file dirname [file dirname [file normalize $::ModulesCurrentModulefile]]]]\n\
         if {![file exists $root/bin/mpisee]} {\n\
         \u{20} error \"mpisee: use the folder modulefiles in its place, without copies or links\"\n\
         }\n\
         prepend-path PATH $root/bin\n\
         prepend-path MANPATH $root/share/man\n\
         append-path MANPATH {}\n\
         prepend-path CPATH $root/include\n",
    ),
    (
        ".lua",
        "whatis(\"Communication profiler for MPI programs\")\n\
         local root = myFileName():match(\"^(.*)/modulefiles/mpisee/\")\n\
         if not root or not isFile(pathJoin(root, \"bin/mpisee\")) then\n\
         \u{20} LmodError(\"mpisee: use the folder modulefiles in its place, without copies or links\")\n\
         end\n\
         prepend_path(\"PATH\", pathJoin(root, \"bin\"))\n\
         prepend_path(\"MANPATH\", pathJoin(root, \"share/man\"))\n\
         append_path(\"MANPATH\", \"\")\n\
         prepend_path(\"CPATH\", pathJoin(root, \"include\"))\n",
    ),
];

/// Packs an installation with its module files into `FOLDER/mpisee-VERSION-x86_64.tar.gz`.
pub fn tarball(installation: &Path, folder: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir()?;
    let name = format!("mpisee-{VERSION}-x86_64");
    let top = scratch.path().join(&name);
    dist::copy_all(installation, &top)?;
    write_modules(&top)?;
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--mode=u=rwX,go=rX", "--sort=name", "--file"]);
    succeed(tar.arg(&archive).arg("--directory").arg(scratch.path()).arg(&name))?;
    Ok(archive)
}

/// Writes the module files of an installation.
fn write_modules(top: &Path) -> Result<()> {
    let modules = top.join("modulefiles/mpisee");
    fs::create_dir_all(&modules)?;
    for (ending, text) in MODULES {
        fs::write(modules.join(format!("{VERSION}{ending}")), text)?;
    }
    Ok(())
}

/// Packs an installation into `FOLDER/mpisee_VERSION_amd64.deb`, below `/usr`.
pub fn deb(installation: &Path, folder: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir()?;
    // The temporary folder is its owner's alone, and the package's folders are everybody's.
    let top = scratch.path().join("package");
    let (usr, about) = (top.join("usr"), top.join("DEBIAN"));
    dist::copy_all(installation, &usr)?;
    // There Debian's zsh looks for completions of packages.
    let completions = usr.join("share/zsh");
    fs::rename(completions.join("site-functions"), completions.join("vendor-completions"))
        .context("completions of zsh")?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| fs::read_to_string(root().join(name)));
    let [mit, apache] = licences.map(|text| text.context("reading the licences"));
    fs::write(usr.join("share/doc/mpisee/copyright"), format!("{}\n{}", mit?, apache?))?;
    fs::create_dir(&about)?;
    fs::write(about.join("control"), control(kilobytes(&usr)?))?;
    let package = folder.join(format!("mpisee_{VERSION}_amd64.deb"));
    succeed(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(&top))?;
    let mut build = Command::new("dpkg-deb");
    // Zstandard, the default of some, is not known to Debian 11.
    succeed(build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&top).arg(&package))?;
    Ok(package)
}

fn control(kilobytes: u64) -> String {
    format!(
        "Package: mpisee\n\
         Version: {VERSION}\n\
         Architecture: amd64\n\
         Maintainer: mpisee maintainers\n\
         Installed-Size: {kilobytes}\n\
         Depends: libc6 (>= 2.28), libgcc-s1 | libgcc1\n\
         Section: devel\n\
         Priority: optional\n\
         Description: communication profiler for MPI programs\n \
         mpisee shows per communicator and rank what is communicated, how long it takes,\n \
         and who waits for whom. It has a library for each interface of MPI.\n"
    )
}

/// The room that files take, in KiB.
fn kilobytes(folder: &Path) -> Result<u64> {
    dist::entries(folder)?.iter().try_fold(0, |sum, entry| {
        let more = if entry.is_dir() { kilobytes(entry)? } else { entry.metadata()?.len().div_ceil(1024) };
        Ok(sum + more)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_what_their_managers_need() {
        let top = tempfile::tempdir().unwrap();
        write_modules(top.path()).unwrap();
        let names = dist::entries(&top.path().join("modulefiles/mpisee")).unwrap();
        let mut names: Vec<_> =
            names.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, [VERSION.to_owned(), format!("{VERSION}.lua")]);
        fs::write(top.path().join("file"), [7; 1025]).unwrap();
        assert_eq!(kilobytes(top.path()).unwrap(), 2 + 2);
        let control = control(77);
        assert!(control.lines().all(|line| line.starts_with(' ') || line.contains(": ")), "{control}");
        assert!(control.contains("\nInstalled-Size: 77\n") && control.ends_with('\n'), "{control}");
    }
}
