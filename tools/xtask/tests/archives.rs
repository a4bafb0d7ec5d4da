//! The archive, the package for Debian, and the recipes for Spack and conda. Most tests pack an
//! installation of empty files; one packs programs of `target/dist`, where `cargo xtask dist` has
//! made it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use xtask::package::archives;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The checkout's present folder.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).ancestors().nth(2).expect("xtask is two folders below the root").to_owned()
}

/// A program in PATH; a test without it is skipped.
fn program(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if !found {
        eprintln!("not tested: there is no {name} in PATH");
    }
    found.then(|| Command::new(name))
}

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

/// An installation whose `mpisee` prints the folder above its own, as the launcher finds its
/// libraries.
fn installation() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = [
        ("bin/mpisee", "#!/bin/sh\ncd \"$(dirname \"$0\")/..\" && pwd -P\n"),
        ("include/mpisee.h", ""),
        ("lib/mpisee/mpich-4.0/libmpisee.so", ""),
        ("share/doc/mpisee/README.md", ""),
        ("share/man/man1/mpisee.1", ""),
        ("share/zsh/site-functions/_mpisee", ""),
    ];
    for (name, text) in texts {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
        fs::write(&file, text).expect("a file");
        fs::set_permissions(
            &file,
            fs::Permissions::from_mode(if name.starts_with("bin") { 0o755 } else { 0o644 }),
        )
        .expect("permissions");
    }
    folder
}

/// The archive, unpacked in a folder whose name has a space and a letter beyond ASCII; the second
/// path is its top.
fn unpacked() -> (TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("søme where ").tempdir().expect("a temporary folder");
    let archive = archives::tarball(installation().path(), folder.path()).expect("an archive");
    succeed(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(folder.path()),
    );
    let top = folder.path().join(format!("mpisee-{VERSION}-x86_64"));
    (folder, top.canonicalize().expect("the archive has one folder"))
}

#[test]
fn an_archive_unpacks_into_one_folder_with_executable_programs() {
    let (folder, top) = unpacked();
    let mut names: Vec<_> =
        folder.path().read_dir().expect("it is there").map(|it| it.expect("it").path()).collect();
    names.sort();
    let archive = folder.path().join(format!("mpisee-{VERSION}-x86_64.tar.gz"));
    let folder = folder.path().canonicalize().expect("it is there");
    assert_eq!(names, [folder.join(top.file_name().expect("a name")), archive]);
    assert_eq!(succeed(&mut Command::new(top.join("bin/mpisee"))).trim_end(), top.to_str().expect("UTF-8"));
    assert!(top.join("lib/mpisee/mpich-4.0/libmpisee.so").is_file());
}

/// The commands and one library of `target/dist`, without symbols.
fn small_copy_of_dist() -> Option<TempDir> {
    let dist = root().join("target/dist");
    let mut flavours: Vec<_> =
        dist.join("lib/mpisee").read_dir().ok()?.flatten().map(|it| it.path()).collect();
    flavours.sort();
    let flavour = flavours.into_iter().find(|it| it.join("flavour.json").is_file())?;
    let copy = tempfile::tempdir().expect("a temporary folder");
    let library = flavour.join("libmpisee.so");
    for file in [dist.join("bin/mpisee"), library.clone(), flavour.join("flavour.json")] {
        let to = copy.path().join(file.strip_prefix(&dist).expect("it is there"));
        fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder");
        fs::copy(&file, &to).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        // Packages have no symbols, either, and take less time to pack.
        if let Some(mut strip) = program("strip").filter(|_| !to.ends_with("flavour.json")) {
            succeed(strip.arg(&to));
        }
    }
    Some(copy)
}

/// The finding of a check of `mpisee doctor --json`, with its outcome.
fn finding(answer: &serde_json::Value, check: &str) -> (String, String) {
    let checks = answer["checks"].as_array().expect("a list");
    let found = checks.iter().find(|it| it["check"] == check).unwrap_or_else(|| panic!("{check}: {answer}"));
    let text = |key: &str| found[key].as_str().expect("text").to_owned();
    (text("outcome"), text("found"))
}

#[test]
fn programs_of_an_archive_find_the_library_beside_them() {
    let Some(installation) = small_copy_of_dist() else {
        return eprintln!("not tested: `cargo xtask dist` has made no installation");
    };
    let folder = tempfile::Builder::new().prefix("sømewhere").tempdir().expect("a temporary folder");
    let archive = archives::tarball(installation.path(), folder.path()).expect("an archive");
    for (name, preload) in [("plåce", "ok"), ("a plåce", "fails")] {
        let to = folder.path().join(name);
        fs::create_dir(&to).expect("a folder");
        succeed(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&to));
        let top = to.join(format!("mpisee-{VERSION}-x86_64")).canonicalize().expect("it is there");
        let mpisee = top.join("bin/mpisee");
        assert_eq!(succeed(Command::new(&mpisee).arg("--version")).trim_end(), format!("mpisee {VERSION}"));
        let output =
            Command::new(&mpisee).args(["doctor", "--json"]).current_dir(&to).output().expect("it starts");
        let answer = serde_json::from_slice(&output.stdout).expect("a document");
        let (outcome, found) = finding(&answer, "install");
        let library = format!("{} has ", top.join("lib/mpisee").display());
        assert!(outcome == "ok" && found.starts_with(&library), "{answer:#}");
        // LD_PRELOAD cannot hold a path with a space, which doctor says.
        let (outcome, found) = finding(&answer, "preload");
        assert!(outcome == preload && (outcome == "ok" || found.contains("which has a space")), "{answer:#}");
    }
}

/// The variables that a module sets, and their folders below the installation.
const VARIABLES: [(&str, &str); 3] = [("PATH", "bin"), ("MANPATH", "share/man"), ("CPATH", "include")];

#[test]
fn the_module_file_for_tcl_adds_the_folders_of_its_installation() {
    let Some(mut tclsh) = program("tclsh") else { return };
    let (folder, top) = unpacked();
    let script = folder.path().join("evaluate.tcl");
    // Definitions that a module command makes before it reads a module file.
    let text = "proc module-whatis {text} {}\n\
                proc prepend-path {name value} { puts \"$name=$value\" }\n\
                proc append-path {name value} { puts \"$name+=$value\" }\n\
                set ::ModulesCurrentModulefile [lindex $argv 0]\n\
                source [lindex $argv 0]\n";
    fs::write(&script, text).expect("a file");
    let module = top.join("modulefiles/mpisee").join(VERSION);
    assert!(fs::read_to_string(&module).expect("it is there").starts_with("#%Module"));
    let set = succeed(tclsh.arg(&script).arg(&module));
    for (name, below) in VARIABLES {
        let expected = format!("{name}={}", top.join(below).display());
        assert!(set.lines().any(|line| line == expected), "{expected}: {set}");
    }
    assert!(set.contains("MANPATH+=\n"), "the system's pages stay: {set}");
    let copy = folder.path().join("copy");
    fs::copy(&module, &copy).expect("a copy");
    let mut tclsh = program("tclsh").expect("it is there");
    let output = tclsh.arg(&script).arg(&copy).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("use the folder modulefiles in its place"), "{said}");
}

#[test]
fn the_module_file_for_lua_adds_the_folders_of_its_installation() {
    let (_folder, top) = unpacked();
    let module = top.join("modulefiles/mpisee").join(format!("{VERSION}.lua"));
    let text = fs::read_to_string(&module).expect("it is there");
    for (name, below) in VARIABLES {
        assert!(text.contains(&format!("prepend_path(\"{name}\", pathJoin(root, \"{below}\"))")), "{text}");
    }
    let Some(mut lua) = ["lua", "lua5.4", "lua5.3", "lua5.1"].into_iter().find_map(program) else { return };
    // Definitions that Lmod makes before it reads a module file.
    let before = "function whatis() end\n\
                  function myFileName() return arg[1] end\n\
                  function pathJoin(a, b) return a .. '/' .. b end\n\
                  function isFile(path) return io.open(path) ~= nil end\n\
                  function prepend_path(name, value) print(name .. '=' .. value) end\n\
                  function append_path(name, value) print(name .. '+=' .. value) end\n\
                  dofile(arg[1])\n";
    let script = top.join("evaluate.lua");
    fs::write(&script, before).expect("a file");
    let set = succeed(lua.arg(&script).arg(&module));
    for (name, below) in VARIABLES {
        let expected = format!("{name}={}", top.join(below).display());
        assert!(set.lines().any(|line| line == expected), "{expected}: {set}");
    }
}

#[test]
fn modules_of_the_system_load_the_installation() {
    let command = ["/usr/lib/x86_64-linux-gnu/modulecmd.tcl", "/usr/share/modules/libexec/modulecmd.tcl"];
    let (Some(command), Some(mut tclsh)) =
        (command.iter().find(|it| Path::new(it).is_file()), program("tclsh"))
    else {
        return eprintln!("not tested: Environment Modules is not installed");
    };
    let (_folder, top) = unpacked();
    tclsh.args([command, "sh", "load", "mpisee"]).env("MODULEPATH", top.join("modulefiles"));
    let set = succeed(tclsh.env_remove("LOADEDMODULES").env_remove("_LMFILES_").env("PATH", "/usr/bin:/bin"));
    // The statements are for a shell.
    let shown =
        succeed(Command::new("sh").args(["-c", &format!("{set}\nprintf '%s\\n' \"$PATH\" \"$MANPATH\"")]));
    let begins =
        |name: &str| shown.lines().any(|line| line.starts_with(top.join(name).to_str().expect("UTF-8")));
    assert!(begins("bin") && begins("share/man"), "{shown}");
    // The empty part is the system's.
    assert!(shown.lines().nth(1).expect("MANPATH").ends_with(':'), "{shown}");
}

#[test]
fn debians_package_manager_lists_the_package() {
    let Some(mut info) = program("dpkg-deb") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let package = archives::deb(installation().path(), folder.path()).expect("a package");
    assert_eq!(package.file_name(), Some(OsStr::new(&format!("mpisee_{VERSION}_amd64.deb"))));
    let info = succeed(info.arg("--info").arg(&package));
    for field in ["Package: mpisee", "Architecture: amd64", "Depends: libc6 (>= 2.28), libgcc-s1 | libgcc1"] {
        assert!(info.contains(&format!("\n {field}\n")), "{field}: {info}");
    }
    assert!(info.contains(&format!("\n Version: {VERSION}\n")), "{info}");
    let contents = succeed(Command::new("dpkg-deb").arg("--contents").arg(&package));
    let mut folders = contents.lines().filter(|line| line.ends_with('/'));
    assert!(folders.all(|line| line.starts_with("drwxr-xr-x root/root")), "{contents}");
    let completion = "share/zsh/vendor-completions/_mpisee";
    for name in ["bin/mpisee", "lib/mpisee/mpich-4.0/libmpisee.so", "share/doc/mpisee/copyright", completion]
    {
        let listed = contents.lines().find(|line| line.ends_with(&format!(" ./usr/{name}")));
        let listed = listed.unwrap_or_else(|| panic!("{name}: {contents}"));
        let mode = if name.starts_with("bin") { "-rwxr-xr-x root/root" } else { "-rw-r--r-- root/root" };
        assert!(listed.starts_with(mode), "{listed}");
    }
}

#[test]
fn recipes_have_the_versions_of_the_workspace() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("it is there");
    let conda = read("packaging/conda/recipe.yaml");
    assert!(conda.contains(&format!("\n  version: \"{VERSION}\"\n")), "{conda}");
    let spack = read("packaging/spack/spack_repo/mpisee/packages/mpisee/package.py");
    let rust = format!("depends_on(\"rust@{}:\"", env!("CARGO_PKG_RUST_VERSION"));
    assert!(spack.contains(&rust), "{rust}");
}
