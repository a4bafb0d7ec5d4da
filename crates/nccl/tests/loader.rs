//! The library before an NCCL of a few functions, without `libmpisee.so`: it passes every call on.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// A folder with programs, libraries and their NCCL.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Stage {
        let stage = Stage(tempfile::tempdir().unwrap());
        let nccl = stage.path("libnccl.so.2");
        let nccl = nccl.to_str().unwrap();
        let run_path = format!("-Wl,-rpath,{}", stage.0.path().display());
        let shared = ["-shared", "-fPIC"];
        stage.build("nccl.c", "libnccl.so.2", &["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"]);
        for library in ["plugin", "constructor"] {
            let further = [nccl, &run_path, "-pthread"];
            stage.build(
                &format!("{library}.c"),
                &format!("lib{library}.so"),
                &[&shared[..], &further].concat(),
            );
        }
        stage.build("program.c", "closing", &["-ldl"]);
        stage.build("program.c", "linked", &["-ldl", "-Wl,--no-as-needed", nccl, &run_path]);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn build(&self, source: &str, to: &str, options: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o"])
            .arg(self.path(to))
            .arg(source);
        assert!(command.args(options).status().unwrap().success(), "{to} does not compile");
    }

    /// Runs a program with the library preloaded, or without it.
    fn run(&self, program: &str, case: &str, library: &str, is_preloaded: bool) -> ExitStatus {
        let mut command = Command::new(self.path(program));
        command.arg(case).arg(self.path(library));
        if is_preloaded {
            command.env("LD_PRELOAD", own_library());
        }
        command.status().unwrap()
    }
}

/// The library that was built with these tests.
fn own_library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let places = [deps.join("libmpisee_nccl.so"), deps.join("../libmpisee_nccl.so")];
    let there = places.into_iter().filter(|it| it.is_file());
    let newest = there.max_by_key(|it| it.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the library before its tests")
}

#[test]
fn an_nccl_that_the_program_closes_stays_and_is_called_again() {
    let stage = Stage::new();
    for is_preloaded in [false, true] {
        let status = stage.run("closing", "close", "libplugin.so", is_preloaded);
        assert!(status.success(), "{status}, preloaded: {is_preloaded}");
    }
}

#[test]
fn a_first_call_that_a_constructor_waits_for_takes_no_lock_of_the_loader() {
    let stage = Stage::new();
    for is_preloaded in [false, true] {
        let status = stage.run("linked", "wait", "libconstructor.so", is_preloaded);
        assert!(status.success(), "{status}, preloaded: {is_preloaded}");
    }
}
