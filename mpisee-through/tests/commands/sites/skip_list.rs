//! The user's list of frames to skip: where it is found, and what is said of one that cannot be
//! used.

use crate::support::{Builder, Ran, Written};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A library of the user's, called by a line of the program.
const LIBRARY: &str = "/opt/app/libcomm.so.1";

fn profile() -> Written {
    let mut profile = Builder::new(4);
    let inner = profile.site(LIBRARY, "cd34", 0x1234);
    let caller = profile.line("step", "solver.c", 301);
    for rank in 0..4 {
        profile.path("W", rank, "MPI_Waitall", 13, 5.0, &[inner, caller]);
        profile = profile.call_with("W", rank, "MPI_Waitall", 13, 0, 5.0, |row| row.site = Some(inner));
    }
    profile.write()
}

/// Runs `sites` with nothing set but these variables.
fn sites(profile: &Written, variables: &[(&str, &Path)]) -> Ran {
    run("sites", profile, variables)
}

/// The same with another command.
fn run(command: &str, profile: &Written, variables: &[(&str, &Path)]) -> Ran {
    let mut command = profile.command(&[command, "app.mpisee", "--format", "csv"]);
    for name in ["MPISEE_SKIP_FRAMES", "XDG_CONFIG_HOME", "HOME"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    Ran::new(command)
}

/// Writes the list to that path below a new folder.
fn list(path: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

#[track_caller]
fn is_looked_past(ran: &Ran) -> bool {
    let text = &ran.exits(0).stdout;
    assert_eq!(ran.stderr, "");
    assert_eq!(text.lines().count(), 2, "{text}");
    text.contains("step at solver.c:301")
}

#[test]
fn the_list_is_found_in_both_folders_of_settings() {
    let profile = profile();
    let (home, _) = list(".config/mpisee/skip-frames", "libcomm.so*\n");
    let (settings, _) = list("mpisee/skip-frames", "libcomm.so*\n");
    let empty = tempfile::tempdir().unwrap();
    let [home, settings, empty] = [home.path(), settings.path(), empty.path()];
    assert!(is_looked_past(&sites(&profile, &[("HOME", home)])));
    assert!(is_looked_past(&sites(&profile, &[("XDG_CONFIG_HOME", settings)])));
    assert!(is_looked_past(&sites(&profile, &[("XDG_CONFIG_HOME", settings), ("HOME", empty)])));
    assert!(is_looked_past(&sites(&profile, &[("XDG_CONFIG_HOME", Path::new("")), ("HOME", home)])));
    // XDG_CONFIG_HOME stands for ~/.config, and MPISEE_SKIP_FRAMES for both.
    assert!(!is_looked_past(&sites(&profile, &[("XDG_CONFIG_HOME", empty), ("HOME", home)])));
    let off = ("MPISEE_SKIP_FRAMES", Path::new(""));
    assert!(!is_looked_past(&sites(&profile, &[off, ("XDG_CONFIG_HOME", settings), ("HOME", home)])));
    assert!(!is_looked_past(&sites(&profile, &[])));
}

#[test]
fn paths_leave_out_what_the_list_names() {
    let profile = profile();
    let frames = |patterns: &str| {
        let (_folder, file) = list("ours", patterns);
        let ran = run("paths", &profile, &[("MPISEE_SKIP_FRAMES", &file)]);
        let row = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes()).records().next().unwrap().unwrap();
        row[5].to_owned()
    };
    assert_eq!(frames(""), "libcomm.so.1+0x1234 < step at solver.c:301");
    assert_eq!(frames("libcomm.so*\n"), "step at solver.c:301");
    assert_eq!(frames("app/libcomm.so*\n"), "step at solver.c:301");
    assert_eq!(frames("st?p\n"), "libcomm.so.1+0x1234");
}

#[test]
fn a_list_that_cannot_be_used_is_named() {
    let profile = profile();
    // A folder cannot be read as a file, by nobody.
    let (home, _) = list(".config/mpisee/skip-frames/file", "");
    sites(&profile, &[("HOME", home.path())])
        .fails_with(&["/.config/mpisee/skip-frames', the list of frames to skip, cannot be read"]);
    sites(&profile, &[("MPISEE_SKIP_FRAMES", Path::new("/no/list"))])
        .fails_with(&["'/no/list', which MPISEE_SKIP_FRAMES names, cannot be read"]);
    let (settings, file) = list("mpisee/skip-frames", "# Ours.\nlibcomm.so*\n*\n");
    for variable in [("XDG_CONFIG_HOME", settings.path()), ("MPISEE_SKIP_FRAMES", &file)] {
        let said = format!("'{}' cannot be used: its line 3, '*', matches all names", file.display());
        sites(&profile, &[variable]).fails_with(&[&said]);
    }
}
