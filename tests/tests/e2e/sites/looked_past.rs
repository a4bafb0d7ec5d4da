//! Libraries that call MPI for programs are looked past: known ones by the paths of their files,
//! others by the user's list.

use super::resolved::{at, run_with_library};
use mpisee_tests::{Finished, LIMIT, Mpi, Place, case, dist, within};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A run of `sites/resolved` with a library at this path, relative to a folder of its own.
struct WithLibrary {
    finished: Finished,
    /// Has the library.
    _place: Place,
}

impl WithLibrary {
    fn run(mpi: &Mpi, name: &str) -> WithLibrary {
        let built = mpi.compile_variant("sites/resolved_library", "shared", &["-O2", "-shared", "-fPIC"]);
        let place = Place::new();
        let library = place.path(name);
        std::fs::create_dir_all(library.parent().expect("it has a folder")).expect("it can be made");
        std::fs::copy(built, &library).expect("it can be copied");
        WithLibrary { finished: run_with_library(mpi, "-O2 -no-pie", &library), _place: place }
    }

    /// The output of a command about the profile, with a list of frames to skip.
    fn through(&self, words: &[&str], list: &Path) -> String {
        let mut command = Command::new(dist().join("bin/mpisee-through"));
        let profile = self.finished.directory();
        command.arg(words[0]).arg(&profile).args(&words[1..]).env("MPISEE_SKIP_FRAMES", list);
        let output = within(LIMIT, &mut command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is text")
    }

    /// The places of the library's calls with the names of what is looked past, ordered.
    fn gathers(&self, list: &Path) -> Vec<(String, Option<String>)> {
        let text = self.through(&["sites", "--call", "allgather", "--format", "json"], list);
        let document: Value = serde_json::from_str(&text).expect("it is JSON");
        let rows = document["sites"].as_array().expect("a list").iter();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut places: Vec<_> =
            rows.map(|row| (text(&row["at"]).expect("a text"), text(&row["wrapper"]))).collect();
        places.sort();
        places
    }
}

fn caller() -> String {
    at("main", "resolved.c", "main calls the library")
}

#[case]
fn known_libraries_are_looked_past_by_name_and_by_folder(mpi: &Mpi) {
    for (name, shown) in [
        ("lib/libPstream.so", "libPstream.so"),
        ("lib/libpetsc_real.so.3.18", "libpetsc_real.so.3.18"),
        ("dist-packages/petsc4py/lib/PETSc.cpython-311-x86_64-linux-gnu.so", "petsc4py"),
        ("dist-packages/h5py/_debian_h5py_mpi/defs.cpython-311-x86_64-linux-gnu.so", "h5py"),
    ] {
        let ran = WithLibrary::run(mpi, name);
        // Calls whose path was not taken are at the library.
        let by = format!("{} (by {shown})", caller());
        let places = ran.gathers(Path::new(""));
        assert!(places.contains(&(by, Some(shown.to_owned()))), "{name}: {places:?}");
        assert!(places.iter().all(|(_, wrapper)| wrapper.is_some() || places.len() > 1), "{places:?}");
        let own = at("gather_in_library", "resolved_library.c", "the library calls");
        assert!(!places.iter().any(|(place, _)| *place == own), "{name}: {places:?}");
    }
}

#[case]
fn libraries_and_functions_of_the_users_list_are_looked_past(mpi: &Mpi) {
    let ran = WithLibrary::run(mpi, "lib/libcommlayer.so");
    let own = at("gather_in_library", "resolved_library.c", "the library calls");
    assert_eq!(ran.gathers(Path::new("")), [(own.clone(), None)]);
    let folder = Place::new();
    let list = |text: &str| -> PathBuf {
        let path = folder.path("skip-frames");
        std::fs::write(&path, text).expect("it can be written");
        path
    };
    for (pattern, wrapper) in [
        ("# Ours.\nlibcommlayer.so*\n", "libcommlayer.so"),
        ("lib/libcomm*\n", "libcommlayer.so"),
        ("gather_in_*\n", "gather_in_library"),
    ] {
        let list = list(pattern);
        let by = format!("{} (by {wrapper})", caller());
        let places = ran.gathers(&list);
        assert!(places.contains(&(by, Some(wrapper.to_owned()))), "{pattern}: {places:?}");
        assert!(!places.iter().any(|(place, _)| *place == own), "{pattern}: {places:?}");
    }
}
