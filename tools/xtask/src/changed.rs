//! What the changes of a working tree can affect: packages to test, and subjects of the end-to-end
//! tests.

use crate::build::WITHOUT_LIBRARY;
use crate::root;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package of the preloaded library, which has unit tests per MPI.
pub const LIBRARY: &str = "mpisee-rs";
/// The package of the end-to-end tests.
const CASES: &str = "mpisee-tests";
/// The folder with a module for each subject of the end-to-end tests.
const SUBJECTS: &str = "tests/tests/e2e";
/// The folder of what all of them use.
const HARNESS: &str = "tests/src";
/// The folder of their programs.
const PROGRAMS: &str = "tests/programs";
/// The subjects that a change of a package affects, besides those that are changed themselves.
const SUBJECTS_OF: [(&str, &[&str]); 8] = [
    (LIBRARY, &["smoke", "point_to_point", "collectives", "communicators", "requests", "threads"]),
    ("mpisee-collect", &["smoke", "collection"]),
    ("mpisee", &["smoke", "launching", "doctor"]),
    ("mpisee-bench", &["bench"]),
    ("mpisee-case", &["smoke"]),
    ("mpisee-gpu", &["gpu"]),
    ("mpisee-nccl", &["nccl"]),
    ("mpisee-serve", &["serve"]),
];

/// The subjects about parts of the library, by their folder or file in its sources, where these do
/// not have the name of the subject.
const SUBJECTS_OF_PARTS: [(&str, &[&str]); 20] = [
    ("binaries", &["sites", "stacks", "valgrind"]),
    ("completion", &["persistent"]),
    ("creation", &["churn", "members"]),
    ("finalize", &["aggregate", "collection", "full", "partial", "processes", "recover"]),
    ("fortran_bindings", &["fortran"]),
    ("generated", &["flavours", "stub"]),
    ("libc_functions", &["own_names"]),
    ("lifecycle", &["hostile_processes", "processes", "thread_state", "unprofiled"]),
    ("memory_kind", &["buffers"]),
    ("naming", &["churn", "dynamic", "members", "sessions"]),
    ("on_process", &["settings"]),
    ("paths", &["sites", "stacks"]),
    ("pcontrol", &["record", "regions"]),
    ("samples", &["messages"]),
    ("segment", &["corrupted", "recover"]),
    ("stack", &["hostile_calls"]),
    ("storage", &["address_space", "full", "top"]),
    ("streams", &["messages"]),
    ("switching", &["record"]),
    ("unfinished", &["messages"]),
];

/// Packages and subjects that changes can affect.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// Packages whose files have changed.
    pub changed: BTreeSet<String>,
    /// These, and packages that depend on them.
    pub packages: BTreeSet<String>,
    /// Subjects of the end-to-end tests, which need an installation.
    pub subjects: BTreeSet<String>,
}

/// Returns what the changes since a revision affect; without one, since the branch left its
/// upstream.
pub fn affected(base: Option<&str>) -> Result<Affected> {
    let base = match base {
        Some(base) => base.to_owned(),
        None => git(&["merge-base", "HEAD", "@{upstream}"]).or_else(|_| {
            eprintln!("the branch has no upstream: changes are those since the last commit");
            git(&["rev-parse", "HEAD"])
        })?,
    };
    let files = changed_files(&root(), base.trim())?;
    let packages = Packages::read()?;
    let sources = subjects()?;
    Ok(affected_by(&files, &packages, &sources))
}

/// The files that differ from a revision, and those that are new; of a renamed file both names.
fn changed_files(folder: &Path, base: &str) -> Result<Vec<PathBuf>> {
    let mut files = git_in(folder, &["diff", "--name-only", "--no-renames", "-z", base])?;
    files.push_str(&git_in(folder, &["ls-files", "--others", "--exclude-standard", "-z"])?);
    Ok(files.split_terminator('\0').map(PathBuf::from).collect())
}

/// Runs the tests of the affected packages that `cargo build --all-targets` of `scripts/test` has
/// built; the library's are those of `cargo xtask test`.
pub fn test(affected: &Affected) -> Result<()> {
    // The same selection of packages as there: with another one their features differ, and all
    // would compile again.
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(["test", "--quiet", "--no-run", "--message-format", "json"]);
    let output = command.args(WITHOUT_LIBRARY).stderr(Stdio::inherit()).output().context("starting cargo")?;
    ensure!(output.status.success(), "the tests do not compile; the messages are above");
    let packages = Packages::read()?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut failed = Vec::new();
    for TestProgram { executable, manifest_path, .. } in test_programs(&messages) {
        let folder = manifest_path.parent().context("a manifest is in a folder")?;
        let package = packages.with_file(folder.strip_prefix(root()).unwrap_or(folder));
        if package.is_some_and(|package| affected.packages.contains(&package.name)) {
            let mut command = Command::new(&executable);
            command.arg("--quiet").current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
            if !command.status().with_context(|| executable.display().to_string())?.success() {
                failed.push(executable.display().to_string());
            }
        }
    }
    ensure!(failed.is_empty(), "tests failed in {}", failed.join(", "));
    Ok(())
}

/// The programs with tests, by the messages of cargo.
fn test_programs(messages: &str) -> impl Iterator<Item = TestProgram> {
    let built = messages.lines().filter_map(|line| serde_json::from_str::<TestProgram>(line).ok());
    built.filter(|program| program.profile.test)
}

/// A message of cargo about a program that it has built; messages about other things lack a field.
#[derive(Deserialize)]
struct TestProgram {
    executable: PathBuf,
    manifest_path: PathBuf,
    profile: Profile,
}

#[derive(Deserialize)]
struct Profile {
    /// False for the program itself, which tests may start.
    test: bool,
}

fn git(arguments: &[&str]) -> Result<String> {
    git_in(&root(), arguments)
}

fn git_in(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(folder).args(arguments).output().context("starting git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The packages of the workspace.
#[derive(Deserialize)]
struct Packages {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` of what only tests need.
    kind: Option<String>,
}

impl Dependency {
    fn is_of_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Packages {
    fn read() -> Result<Packages> {
        let mut command = Command::new("cargo");
        command.current_dir(root()).args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = command.output().context("starting cargo")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let mut packages: Packages =
            serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
        for package in &mut packages.packages {
            let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
            package.manifest_path = folder.strip_prefix(root()).unwrap_or(folder).to_owned();
        }
        Ok(packages)
    }

    /// The package in whose folder a file is; the innermost.
    fn with_file(&self, file: &Path) -> Option<&Package> {
        let holding = self.packages.iter().filter(|package| file.starts_with(&package.manifest_path));
        holding.max_by_key(|package| package.manifest_path.components().count())
    }

    /// The packages, those that depend on them, and those whose tests use the packages themselves.
    fn with_dependents(&self, changed: &BTreeSet<String>) -> BTreeSet<String> {
        let dependents = |names: &BTreeSet<String>, of_tests: bool| {
            let depends = |it: &Dependency| it.is_of_tests() == of_tests && names.contains(&it.name);
            let all = self.packages.iter().filter(|package| package.dependencies.iter().any(depends));
            all.map(|package| package.name.clone()).collect::<Vec<_>>()
        };
        let mut names = changed.clone();
        loop {
            let before = names.len();
            names.extend(dependents(&names, false));
            if names.len() == before {
                names.extend(dependents(changed, true));
                return names;
            }
        }
    }
}

/// The text of each subject of the end-to-end tests, with its submodules.
fn subjects() -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    read_subjects(&root().join(SUBJECTS), None, &mut texts)?;
    Ok(texts)
}

fn read_subjects(folder: &Path, subject: Option<&str>, texts: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in folder.read_dir().with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let subject = subject.unwrap_or(&name);
        if path.is_dir() {
            read_subjects(&path, Some(subject), texts)?;
        } else {
            texts.entry(subject.to_owned()).or_default().push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Returns whether a file is a page, of which tests compare few with the code.
fn is_documentation(file: &Path) -> bool {
    file.starts_with("docs") || file.extension().is_some_and(|it| it == "md")
}

/// The subjects that run a program of `tests/programs`, by the texts of all subjects.
fn subjects_with(program: &Path, sources: &BTreeMap<String, String>) -> Vec<String> {
    let path = program.with_extension("");
    let names = match program.extension().is_some_and(|it| it == "h") {
        // A header is part of all programs of its folder.
        true => vec![format!("\"{}/", path.parent().unwrap_or(Path::new("")).display())],
        // Some subjects name the folder once.
        false => [Some(path.as_os_str()), path.file_name()]
            .into_iter()
            .flatten()
            .map(|name| format!("\"{}\"", name.to_string_lossy()))
            .collect(),
    };
    let users = sources.iter().filter(|(_, text)| names.iter().any(|name| text.contains(name)));
    users.map(|(subject, _)| subject.clone()).collect()
}

/// The subjects about a part of the library: those of [`SUBJECTS_OF_PARTS`], and those with the
/// name of the file or of its folder, or with its plural.
fn subjects_about(part: &Path, sources: &BTreeMap<String, String>) -> Vec<String> {
    let part = part.with_extension("");
    let names = || part.iter().map(|name| name.to_string_lossy());
    let listed = SUBJECTS_OF_PARTS.iter().filter(|(part, _)| names().any(|name| name == *part));
    let listed = listed.flat_map(|(_, subjects)| subjects.iter().map(|&subject| subject.to_owned()));
    let named =
        sources.keys().filter(|subject| names().any(|it| **subject == it || **subject == format!("{it}s")));
    listed.chain(named.cloned()).collect()
}

fn affected_by(files: &[PathBuf], packages: &Packages, sources: &BTreeMap<String, String>) -> Affected {
    let owners = files.iter().filter_map(|file| packages.with_file(file));
    let mut changed: BTreeSet<String> = owners.map(|package| package.name.clone()).collect();
    // What belongs to none may be part of all: the lock file, options of cargo, the header.
    if files.iter().any(|file| packages.with_file(file).is_none() && !is_documentation(file)) {
        changed.extend(packages.packages.iter().map(|package| package.name.clone()));
    }
    let all = packages.with_dependents(&changed);
    let mut subjects: BTreeSet<String> = SUBJECTS_OF
        .iter()
        .filter(|(package, _)| all.contains(*package) && (*package == LIBRARY || changed.contains(*package)))
        .flat_map(|(_, subjects)| subjects.iter().map(|&subject| subject.to_owned()))
        .collect();
    for file in files {
        if let Ok(below) = file.strip_prefix(SUBJECTS) {
            let subject =
                below.components().next().map(|first| Path::new(first.as_os_str()).with_extension(""));
            let subject = subject.map(|subject| subject.to_string_lossy().into_owned());
            subjects.extend(subject.filter(|subject| subject != "main"));
        }
        if let Ok(below) = file.strip_prefix(LIBRARY) {
            subjects.extend(subjects_about(below, sources));
        }
        if let Ok(below) = file.strip_prefix(PROGRAMS) {
            subjects.extend(subjects_with(below, sources));
        }
        if file.starts_with(HARNESS) || file.parent() == Some(Path::new(PROGRAMS)) {
            subjects.insert("smoke".to_owned());
        }
    }
    Affected { changed, packages: all.into_iter().filter(|name| name != CASES).collect(), subjects }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        // A star marks what only tests need.
        let dependency = |name: &&str| Dependency {
            name: name.trim_start_matches('*').to_owned(),
            kind: name.starts_with('*').then(|| "dev".to_owned()),
        };
        let dependencies = dependencies.iter().map(dependency).collect();
        Package { name: name.to_owned(), manifest_path: folder.into(), dependencies }
    }

    fn affected_by_file(file: &str) -> Affected {
        let packages = Packages {
            packages: vec![
                package("mpisee-profile", "crates/profile", &[]),
                package("mpisee-profile-derive", "crates/profile/derive", &[]),
                package(LIBRARY, "mpisee-rs", &["mpisee-profile"]),
                package("mpisee-through", "mpisee-through", &["mpisee-profile"]),
                package(CASES, "tests", &["mpisee-profile"]),
            ],
        };
        let sources = BTreeMap::from([
            ("requests".to_owned(), "Run::new(mpi, \"requests/recycled\")".to_owned()),
            ("hostile_calls".to_owned(), "case(\"truncated\", 2)".to_owned()),
            ("top".to_owned(), String::new()),
        ]);
        affected_by(&[file.into()], &packages, &sources)
    }

    #[test]
    fn tests_use_what_has_changed_itself() {
        let packages = vec![
            package("mpisee", "crates/launcher", &[]),
            package("mpisee-bench", "crates/network-bench", &["mpisee"]),
            package("mpisee-through", "mpisee-through", &["*mpisee-bench"]),
            package("mpisee-serve", "crates/serve", &["mpisee-through"]),
        ];
        let packages = Packages { packages };
        let with = |name: &str| packages.with_dependents(&names([name]));
        assert_eq!(with("mpisee"), names(["mpisee", "mpisee-bench"]));
        assert_eq!(with("mpisee-bench"), names(["mpisee-bench", "mpisee-through"]));
    }

    #[test]
    fn programs_that_tests_start_are_no_tests() {
        let message = |test: bool| {
            format!(
                r#"{{"manifest_path":"/a/Cargo.toml","executable":"/a/{test}","profile":{{"test":{test}}}}}"#
            )
        };
        let messages =
            [message(false), message(true), r#"{"reason":"build-finished"}"#.to_owned()].join("\n");
        let found: Vec<_> = test_programs(&messages).map(|program| program.executable).collect();
        assert_eq!(found, [PathBuf::from("/a/true")]);
    }

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[test]
    fn dependents_of_a_changed_package_are_affected() {
        let affected = affected_by_file("crates/profile/src/rows.rs");
        assert_eq!(affected.changed, names(["mpisee-profile"]));
        assert_eq!(affected.packages, names(["mpisee-profile", LIBRARY, "mpisee-through"]));
        assert!(affected.subjects.contains("collectives"));
    }

    #[test]
    fn a_command_affects_no_end_to_end_test() {
        let affected = affected_by_file("mpisee-through/src/lib.rs");
        assert_eq!(affected.packages, names(["mpisee-through"]));
        assert_eq!(affected.subjects, names([]));
    }

    #[test]
    fn a_part_of_the_library_affects_the_subjects_about_it() {
        let subjects = |file: &str| affected_by_file(file).subjects;
        let always: BTreeSet<String> = SUBJECTS_OF[0].1.iter().map(|&subject| subject.to_owned()).collect();
        let beside = |file: &str| &subjects(file) - &always;
        assert_eq!(beside("mpisee-rs/src/state/thread.rs"), names([]));
        assert_eq!(beside("mpisee-rs/src/wrappers/top.rs"), names(["top"]));
        assert_eq!(beside("mpisee-rs/src/storage/hot.rs"), names(["address_space", "full", "top"]));
    }

    #[test]
    fn changed_files_have_both_names_whatever_these_are() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let of_nobody = ["-c", "user.name=a", "-c", "user.email=a@b"];
            git_in(folder.path(), &[&of_nobody, arguments].concat()).unwrap()
        };
        git(&["init", "--quiet"]);
        std::fs::write(folder.path().join("ä b.rs"), "fn main() {}\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "a"]);
        git(&["mv", "ä b.rs", "c.rs"]);
        std::fs::write(folder.path().join("new \"d\".rs"), "").unwrap();
        let mut files = changed_files(folder.path(), "HEAD").unwrap();
        files.sort();
        assert_eq!(files, ["c.rs", "new \"d\".rs", "ä b.rs"].map(PathBuf::from));
    }

    #[test]
    fn each_subject_of_a_part_is_there() {
        let sources = subjects().expect("the subjects can be read");
        let mut listed = SUBJECTS_OF.iter().chain(&SUBJECTS_OF_PARTS).flat_map(|(_, subjects)| *subjects);
        assert_eq!(listed.find(|subject| !sources.contains_key(**subject)), None);
    }

    #[test]
    fn the_innermost_package_owns_a_file() {
        assert_eq!(
            affected_by_file("crates/profile/derive/src/lib.rs").changed,
            names(["mpisee-profile-derive"])
        );
    }

    #[test]
    fn a_changed_program_affects_the_subjects_that_run_it() {
        assert_eq!(affected_by_file("tests/programs/requests/recycled.c").subjects, names(["requests"]));
        assert_eq!(affected_by_file("tests/programs/requests/all.h").subjects, names(["requests"]));
        assert_eq!(affected_by_file("tests/programs/hostile/truncated.c").subjects, names(["hostile_calls"]));
        assert_eq!(affected_by_file("tests/tests/e2e/top/part.rs").subjects, names(["top"]));
        assert_eq!(affected_by_file("tests/src/run.rs").subjects, names(["smoke"]));
    }

    #[test]
    fn a_file_of_no_package_affects_all_and_a_page_none() {
        assert_eq!(affected_by_file("Cargo.lock").packages.len(), 4);
        assert_eq!(affected_by_file("docs/explanation/cost.md"), Affected::default());
    }
}
