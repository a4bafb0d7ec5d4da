//! Lines of Python that launch kernels: every Python 3 that is found, with the tracer in it and a
//! fake driver.

mod support;

use mpisee_profile::rows::GpuRow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::stage::{BOTH, Backend, Stage};

/// Interpreters that answer: `python3`, those of single versions in `PATH`, and what
/// `MPISEE_TEST_PYTHONS` names, with colons between.
fn interpreters() -> Vec<PathBuf> {
    let named = std::env::var("MPISEE_TEST_PYTHONS").unwrap_or_default();
    let named: Vec<PathBuf> = named.split(':').filter(|it| !it.is_empty()).map(PathBuf::from).collect();
    let versions = (9..=15).map(|minor| format!("python3.{minor}"));
    let in_path = versions.chain(["python3".to_owned(), "/usr/bin/python3".to_owned()]).map(PathBuf::from);
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in named.iter().cloned().chain(in_path) {
        let code = "import sys; print(sys.version_info >= (3, 9), sys.version, sys.executable, sep='\\n')";
        let output = Command::new(&path).args(["-c", code]).output();
        let output = output.ok().filter(|it| it.status.success());
        let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        assert!(text.is_some() || !named.contains(&path), "{} does not run", path.display());
        if let Some(text) = text.filter(|it| it.starts_with("True")) {
            found.entry(text).or_insert(path);
        }
    }
    assert!(!found.is_empty(), "python3 is needed");
    found.into_values().collect()
}

/// Runs the script; what it says that its lines access, and what the tracer does.
fn run(stage: &Stage, python: &Path, lock: &str, path: &str) -> [BTreeMap<String, u64>; 2] {
    let folder = stage.path(path);
    let packages = folder.join("site-packages");
    fs::create_dir_all(&packages).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    for package in ["helper.py", "installed.py"] {
        fs::copy(sources.join("helper.py"), packages.join(package)).unwrap();
    }
    fs::copy(sources.join("launches.py"), folder.join("launches.py")).unwrap();
    let mut command = stage.command(python);
    command.arg(folder.join("launches.py")).arg(stage.path("libcuda.so.1")).arg(lock);
    command.arg(stage.path("libthread.so")).env("PYTHONPATH", packages).env("PYTHONIOENCODING", "utf-8");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", python.display());
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = printed.lines().map(|line| {
        let (accesses, place) = line.split_once(' ').expect("a number and a place");
        (place.to_owned(), accesses.parse().unwrap())
    });
    let expected = expected.collect();
    let (rows, notes) = stage.rows();
    assert_eq!(notes, Vec::<String>::new());
    let mut found = BTreeMap::new();
    for row in rows {
        assert_eq!((row.kernel.as_str(), row.source.as_str()), ("copy", "copy+0xe0"));
        assert_eq!(found.insert(row.launched, row.accesses), None, "one row for each line");
    }
    fs::remove_file(&stage.left()[0]).unwrap();
    [expected, found]
}

fn stage(backend: Backend) -> Stage {
    let stage = Stage::without_program(backend);
    stage.build(&["tests/python/thread.c"], "libthread.so", &["-shared", "-fPIC"]);
    stage
}

#[test]
fn launches_have_the_lines_of_python_that_made_them() {
    for backend in BOTH {
        let stage = stage(backend);
        for python in interpreters() {
            // Strings of one, two and four bytes a character are not kept alike.
            for (lock, path) in
                [("held", "plain"), ("released", "größe"), ("released", "wellen 波"), ("held", "𝛁")]
            {
                let [expected, found] = run(&stage, &python, lock, path);
                assert!(expected.len() > 60, "{expected:?}");
                assert_eq!(found, expected, "{}, {backend:?}, lock {lock}", python.display());
            }
        }
    }
}

#[test]
fn a_thread_that_outlives_python_is_no_harm() {
    let stage = stage(Backend::Sanitizer);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/outlives.py");
    for python in interpreters() {
        for _ in 0..2 {
            let mut command = stage.command(&python);
            command.arg(&script).arg(stage.path("libcuda.so.1")).arg(stage.path("libthread.so"));
            let output = command.output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", python.display());
            let (rows, notes) = stage.rows();
            assert_eq!(notes, Vec::<String>::new());
            // Some versions keep what the thread had, others forget the thread.
            let place = format!("{}:", script.display());
            assert!(rows.iter().any(|row| row.launched.starts_with(&place)), "{rows:#?}");
            let is_known = |row: &GpuRow| row.launched.is_empty() || row.launched.starts_with(&place);
            assert!(rows.len() <= 2 && rows.iter().all(is_known), "{rows:#?}");
            fs::remove_file(&stage.left()[0]).unwrap();
        }
    }
}

/// Numba itself, where MPISEE_TEST_NUMBA names a Python that has it.
#[test]
fn launches_of_numba_have_the_lines_of_the_program() {
    let Some(python) = std::env::var_os("MPISEE_TEST_NUMBA").map(PathBuf::from) else {
        eprintln!("MPISEE_TEST_NUMBA does not name a Python with Numba, so it is not tried");
        return;
    };
    for backend in BOTH {
        let stage = Stage::without_program(backend);
        support::build_driver(&stage.path("libcuda.so.1"), &["tests/python/driver.c"]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/numba_launches.py");
        let run = |end: &str| {
            let mut command = stage.command(&python);
            command.args(["-W", "ignore"]).arg(&script).arg(end);
            let output = command.env("LD_LIBRARY_PATH", stage.path("")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{backend:?} {end}: {said}");
            String::from_utf8(output.stdout).unwrap()
        };
        let printed = run("leave");
        let expected: BTreeMap<&str, u64> = printed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(accesses, place)| (place, accesses.parse().unwrap()))
            .collect();
        assert!(expected.len() > 4, "{printed}");
        let (rows, notes) = stage.rows();
        assert_eq!(notes, Vec::<String>::new());
        let found: BTreeMap<&str, u64> =
            rows.iter().map(|row| (row.launched.as_str(), row.accesses)).collect();
        assert_eq!(found, expected, "{backend:?}");
        // Python ends as it does, with what Numba does then.
        run("return");
    }
}
