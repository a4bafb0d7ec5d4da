//! `mpisee-bench tune`: what it tries, and tasks that it cannot do. What it finds is a matter of
//! measured tests.

use mpisee_bench::tune::selection::FILE;
use mpisee_tests::bench::{TUNED_RANKS as RANKS, Variables, tune};
use mpisee_tests::{Mpi, Place, Run, case, dist};

/// Of an operation with messages of two sizes, MPICH's choices are for each of them.
#[case]
fn choices_of_mpich_are_by_size_where_there_are_several(mpi: &Mpi) {
    if mpi.is_open_mpi || !mpi.library().with_file_name("mpisee-bench").exists() {
        return;
    }
    let place = Place::new();
    let pattern = place.path("two.pattern");
    std::fs::write(&pattern, "step\n  MPI_Alltoall : n\nstep\n  MPI_Alltoall : 64*n\n").unwrap();
    let words = format!("run {} --sizes 4k --repetitions 20 --least-ms 5", pattern.display());
    let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
    let profiled = words.split_whitespace().fold(run, Run::argument).profiled();
    let profile = profiled.directory().display().to_string();
    let words = [&*profile, "--rounds", "6", "--share", "100", "--format", "json", "-o", "t"];
    let said = tune(&place, mpi, &words, &[], &Variables::new());
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let found: serde_json::Value = serde_json::from_slice(&said.stdout).expect("it is JSON");
    let choices = found["choices"].as_array().expect("a list");
    let exchanges: Vec<_> = choices.iter().filter(|it| it["call"] == "MPI_Alltoall").collect();
    let mut sizes: Vec<[Option<u64>; 2]> =
        exchanges.iter().map(|it| [it["size_min"].as_u64(), it["size_max"].as_u64()]).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [[Some(8 << 10), Some((16 << 10) - 1)], [Some(512 << 10), Some((1 << 20) - 1)]]);
    for it in exchanges {
        let tried = it["tried"].as_array().expect("a list");
        assert!(tried.iter().any(|it| it["name"] == "brucks" && it["difference"].is_object()), "{it}");
        assert!(tried.iter().all(|it| it["fails"].is_null()), "{it}");
        assert_eq!((&it["now"], &it["members"]), (&"MPICH's choice".into(), &vec![RANKS].into()));
    }
    // A file is written where something is better for certain.
    let is_written = found["variables"].get(FILE).is_some();
    assert_eq!(is_written, place.path("t.rules").exists(), "{found}");
}

/// For a task that `tune` cannot do there is one sentence, and nothing is left behind.
#[case]
fn what_cannot_be_tuned_is_said(mpi: &Mpi) {
    if !mpi.library().with_file_name("mpisee-bench").exists() {
        return;
    }
    let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
    let words = "collective allreduce --sizes 4k --repetitions 20 --least-ms 5";
    let profiled = words.split_whitespace().fold(run, Run::argument).profiled();
    let profile = profiled.directory().display().to_string();
    let says = |launched_with: &[&str], variables: &[(&str, &str)], expected: &str| {
        let place = Place::new();
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let said = tune(&place, mpi, &[&profile, "--rounds", "6"], launched_with, &variables);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{text}");
        let what_comes = |line: &&str| line.contains(" algorithms for ") && line.contains(" runs of ");
        let sentences: Vec<&str> = text.lines().filter(|line| !what_comes(line)).collect();
        assert!(sentences.len() == 1 && sentences[0].contains(expected), "{text}\n{expected}");
        let left: Vec<_> =
            std::fs::read_dir(place.folder()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["segments"]);
    };
    if mpi.is_open_mpi {
        let sleeping = "coll_tuned_bcast_algorithm is set to 3, which has no effect while";
        says(&[], &[("OMPI_MCA_coll_tuned_bcast_algorithm", "3")], sleeping);
        let (rules, algorithm) =
            ("OMPI_MCA_coll_tuned_use_dynamic_rules", "OMPI_MCA_coll_tuned_dynamic_rules_filename");
        says(
            &[],
            &[(rules, "1"), (algorithm, "/nowhere")],
            "takes its algorithms from the rules file /nowhere",
        );
        let forced =
            ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "1"];
        says(&forced, &[], "the launcher's command line or a file of settings has the last word");
    } else {
        says(
            &[],
            &[("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "frobnicate")],
            "the run without a change failed",
        );
    }
    let inside = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
    let words = format!("tune {profile} -- mpirun");
    let inside = words.split_whitespace().fold(inside, Run::argument).exits_with(2).plain();
    assert_eq!(inside.stderr.matches("tune starts mpirun itself").count(), 1, "{}", inside.stderr);
}
