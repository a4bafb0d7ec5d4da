//! `mpisee-bench tune`: a slow algorithm that is forced by variables is found and undone.

use crate::alone;
use mpisee_tests::{Mpi, Place, Run, dist, within};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

/// Operations with a planted bad default.
fn operations(mpi: &Mpi) -> [&'static str; 3] {
    // MPICH 4.0 has no variable that makes MPI_Reduce slow and right.
    let third = if is_open_mpi(mpi) { "MPI_Reduce" } else { "MPI_Alltoall" };
    ["MPI_Bcast", "MPI_Allreduce", third]
}

fn is_open_mpi(mpi: &Mpi) -> bool {
    mpi.name.starts_with("openmpi")
}

const BYTES: &str = "256k";
/// Ranks: as many as there are cores on a small machine, since a rank without a core hides what algorithms do.
const RANKS: u32 = 2;

type Variables = BTreeMap<String, String>;

/// Variables that force slow algorithms: most of them cut messages into tiny pieces.
fn plant(mpi: &Mpi) -> Variables {
    let planted: &[(&str, &str)] = match is_open_mpi(mpi) {
        true => &[
            ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "3"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "64"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm", "3"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm_segmentsize", "64"),
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "5"),
            ("OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize", "64"),
        ],
        false => &[
            ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", "nb"),
            ("MPIR_CVAR_IBCAST_INTRA_ALGORITHM", "tsp_tree"),
            ("MPIR_CVAR_IBCAST_TREE_PIPELINE_CHUNK_SIZE", "512"),
            ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "nb"),
            ("MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM", "tsp_tree"),
            ("MPIR_CVAR_IALLREDUCE_TREE_PIPELINE_CHUNK_SIZE", "512"),
            ("MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM", "brucks"),
        ],
    };
    planted.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// `mpisee-bench tune` with this launcher.
fn tune(place: &Place, mpi: &Mpi, words: &[&str], launched_with: &[&str], variables: &Variables) -> Output {
    let launcher = mpi.launcher(RANKS, &[]);
    let mut command = std::process::Command::new(dist().join("bin/mpisee-bench"));
    command.current_dir(place.folder()).arg("tune").args(words);
    command.args(["--repetitions", "30", "--warm-up", "1", "--least-ms", "1", "--"]);
    command.arg(launcher.get_program()).args(launched_with).args(launcher.get_args()).envs(variables);
    for (name, value) in launcher.get_envs() {
        value.map(|value| command.env(name, value));
    }
    within(Duration::from_secs(900), &mut command)
}

/// The time of each operation under variables, the fastest repetition of a run.
fn times(mpi: &Mpi, variables: &Variables) -> BTreeMap<&'static str, f64> {
    let mut times = BTreeMap::new();
    for operation in operations(mpi) {
        let words = format!(
            "collective {operation} --sizes {BYTES} --repetitions 30 --warm-up 1 --least-ms 1 --format csv"
        );
        let run = Run::of(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
        let run = words.split_whitespace().fold(run, Run::argument);
        let run = variables.iter().fold(run, |run, (name, value)| run.variable(name, value));
        let text = run.plain().stdout;
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let column = lines[0].iter().position(|&head| head == "min_s").expect("there is the column");
        times.insert(operation, lines[1][column].parse().expect("it is a number"));
    }
    times
}

/// The variables in a file of `export NAME='VALUE'`.
fn exported(file: &Path) -> Variables {
    let text = std::fs::read_to_string(file).expect("tune has written it");
    let lines = text.lines().map(|line| line.strip_prefix("export ").expect("each line sets a variable"));
    let pairs = lines.map(|line| line.split_once('=').expect("a name and a value"));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
}

/// At least nine tenths of what the planted algorithms lose come back, on each of three operations.
#[test]
fn a_planted_bad_default_is_undone() {
    alone(|mpi| {
        if !mpi.library().with_file_name("mpisee-bench").exists() {
            return;
        }
        let place = Place::new();
        let pattern = place.path("three.pattern");
        // Each on a communicator of its own.
        let step = |operation: &str| format!("step\n  {operation} on 0..p : n\n");
        std::fs::write(&pattern, operations(mpi).map(step).concat()).unwrap();
        let words = format!("run {} --sizes {BYTES} --repetitions 20 --least-ms 5", pattern.display());
        let run = Run::of(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
        let profiled = words.split_whitespace().fold(run, Run::argument).profiled();
        let planted = plant(mpi);
        let profile = profiled.directory().display().to_string();
        let said = tune(
            &place,
            mpi,
            &[&profile, "--rounds", "9", "--share", "99", "--format", "json", "-o", "t"],
            &[],
            &planted,
        );
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success(), "{errors}");
        let found: serde_json::Value = serde_json::from_slice(&said.stdout).expect("it is JSON");
        for operation in operations(mpi) {
            let choices = found["choices"].as_array().expect("a list");
            let it = choices.iter().find(|it| it["call"] == operation).expect("it is tuned");
            assert!(it["better"].is_string() && it["difference"]["high"].as_f64() < Some(0.0), "{it}");
        }
        let mut tuned = planted.clone();
        tuned.extend(exported(&place.path("t.env")));
        let settings = [Variables::new(), planted, tuned];
        let mut least = [(); 3].map(|()| BTreeMap::<&str, f64>::new());
        for _ in 0..5 {
            for (least, variables) in least.iter_mut().zip(&settings) {
                for (operation, time_s) in times(mpi, variables) {
                    let of = least.entry(operation).or_insert(f64::INFINITY);
                    *of = of.min(time_s);
                }
            }
        }
        let [none, planted, tuned] = least;
        for operation in operations(mpi) {
            let [none_s, planted_s, tuned_s] = [&none, &planted, &tuned].map(|it| it[operation]);
            let back = (planted_s - tuned_s) / (planted_s - none_s);
            eprintln!(
                "{}: {operation}: {none_s} s, planted {planted_s} s, tuned {tuned_s} s: {back} of the loss comes back",
                mpi.name
            );
            assert!(planted_s > 1.5 * none_s, "{operation}: {none_s} {planted_s}");
            assert!(back >= 0.9, "{operation}: {none_s} {planted_s} {tuned_s}");
        }
    });
}

/// For a task that `tune` cannot do there is one sentence, and nothing is left behind.
#[test]
fn what_cannot_be_tuned_is_said() {
    alone(|mpi| {
        if !mpi.library().with_file_name("mpisee-bench").exists() {
            return;
        }
        let run = Run::of(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
        let words = "collective allreduce --sizes 4k --repetitions 20 --least-ms 5";
        let profiled = words.split_whitespace().fold(run, Run::argument).profiled();
        let profile = profiled.directory().display().to_string();
        let says = |launched_with: &[&str], variables: &[(&str, &str)], expected: &str| {
            let place = Place::new();
            let variables =
                variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            let said = tune(&place, mpi, &[&profile, "--rounds", "6"], launched_with, &variables);
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            assert_eq!(said.status.code(), Some(2), "{text}");
            assert!(text.lines().count() == 1 && text.contains(expected), "{text}\n{expected}");
            let left: Vec<_> =
                std::fs::read_dir(place.folder()).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(left, ["segments"]);
        };
        if is_open_mpi(mpi) {
            let (rules, algorithm) =
                ("OMPI_MCA_coll_tuned_use_dynamic_rules", "OMPI_MCA_coll_tuned_dynamic_rules_filename");
            says(
                &[],
                &[(rules, "1"), (algorithm, "/nowhere")],
                "takes its algorithms from the rules file /nowhere",
            );
            let forced = [
                "--mca",
                "coll_tuned_use_dynamic_rules",
                "1",
                "--mca",
                "coll_tuned_allreduce_algorithm",
                "1",
            ];
            says(&forced, &[], "the launcher's command line or a file of settings has the last word");
        } else {
            says(
                &[],
                &[("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "frobnicate")],
                "the run without a change failed",
            );
        }
        let inside = Run::of(mpi, dist().join("bin/mpisee-bench")).ranks(RANKS);
        let words = format!("tune {profile} -- mpirun");
        let inside = words.split_whitespace().fold(inside, Run::argument).exits_with(2).plain();
        assert_eq!(inside.stderr.matches("tune starts mpirun itself").count(), 1, "{}", inside.stderr);
    });
}
