//! `mpisee doctor` under the launchers of MPIs: ranks that meet without MPI, and one answer for
//! all.

use mpisee_tests::{Cluster, LIMIT, Mpi, Place, case, dist, within};
use serde_json::Value;
use std::process::Command;

/// A job of `mpisee doctor --json`, by a shell that runs `before` first; the exit code, and the
/// document.
fn doctor(mpi: &Mpi, ranks: u32, before: &str) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = mpi.compile("communicators/halves");
    let mut job: Command = mpi.launcher(ranks, &[]);
    job.args(["sh", "-c"]).arg(format!("{before}\nexec \"$0\" doctor --json \"$1\""));
    job.arg(dist().join("bin/mpisee")).arg(program).current_dir(folder.path());
    let output = within(LIMIT, &mut job);
    let said = String::from_utf8_lossy(&output.stdout);
    let document = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
    (output.status.code(), document)
}

/// The outcomes of a check, with their ranks.
fn outcomes<'a>(document: &'a Value, check: &str) -> Vec<(&'a str, &'a str)> {
    let checks = document["checks"].as_array().expect("a list").iter();
    let text = |value: &'a Value| value.as_str().expect("a text");
    checks.filter(|it| it["check"] == check).map(|it| (text(&it["outcome"]), text(&it["ranks"]))).collect()
}

#[case]
fn ranks_that_find_the_same_are_one_answer(mpi: &Mpi) {
    let (code, document) = doctor(mpi, 3, "");
    assert_eq!(
        (code, &document["ranks"], &document["absent"]),
        (Some(0), &"0-2".into(), &"".into()),
        "{document}"
    );
    for check in ["install", "program", "MPI", "library", "preload", "segments", "output", "clock", "GPU"] {
        assert_eq!(outcomes(&document, check), [("ok", "0-2")], "{check}: {document}");
    }
    let checks = document["checks"].as_array().expect("a list");
    let library = checks.iter().find(|it| it["check"] == "library").expect("it is checked");
    assert_eq!(library["found"], *mpi.name, "{document}");
}

#[case]
fn a_rank_that_finds_something_else_is_named(mpi: &Mpi) {
    let (code, document) = doctor(mpi, 3, "[ \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" != 1 ] || ulimit -v 4000000");
    assert_eq!(code, Some(0), "{document}");
    assert_eq!(outcomes(&document, "limits"), [("ok", "0,2"), ("note", "1")], "{document}");
}

#[case]
fn a_rank_that_does_not_answer_is_named(mpi: &Mpi) {
    let (_, document) = doctor(mpi, 3, "[ \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" != 2 ] || exit 0");
    assert_eq!((&document["ranks"], &document["absent"]), (&"0-1".into(), &"2".into()), "{document}");
}

#[case]
fn ranks_of_several_nodes_meet_in_the_folder_that_they_share(mpi: &Mpi) {
    let Some(cluster) = Cluster::begin(2) else { return };
    let place = Place::on(&cluster);
    let mut job = mpi.launcher(4, &[]);
    cluster.launch(mpi, &mut job, 2);
    job.arg(dist().join("bin/mpisee")).args(["doctor", "--json"]).arg(mpi.compile("communicators/halves"));
    let output = within(LIMIT, &mut cluster.on("login", job.current_dir(place.folder())));
    let said = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    assert_eq!((&document["ranks"], &document["absent"]), (&"0-3".into(), &"".into()), "{document}");
    assert_eq!(outcomes(&document, "library"), [("ok", "0-3")], "{document}");
}
