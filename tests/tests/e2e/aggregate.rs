//! Above the limit of MPISEE_FOLD a profile has sums over ranks: those of the rows that the same
//! program leaves by rank.

use crate::sums::{all, assert_sums_of};
use mpisee_profile::Profile;
use mpisee_profile::rows::{NodeRow, SpreadRow};
use mpisee_tests::{Finished, Mpi, Run, case, through};

const RANKS: u32 = 8;

#[case]
fn sums_over_ranks_are_those_of_the_rows_by_rank(mpi: &Mpi) {
    let by_rank =
        Run::new(mpi, "communicators/grid_of_parts").ranks(RANKS).variable("MPISEE_FOLD", "8").preloaded();
    let run = Run::new(mpi, "communicators/grid_of_parts").ranks(RANKS).variable("MPISEE_FOLD", "3");
    let finished = run.preloaded_to("test.mpisee");
    let aggregate =
        Profile::open(finished.directory()).unwrap_or_else(|error| panic!("{error}\n{}", finished.stderr));
    by_rank.check();
    finished.check();
    assert!(aggregate.run().complete);
    assert_sums_of(&by_rank.directory(), &finished.directory());

    let spread: Vec<SpreadRow> = all(&aggregate);
    let own = spread.iter().find(|row| row.comm == "S" && row.call == "MPI_Allreduce").unwrap();
    assert_eq!((own.calls_min, own.calls_max, own.calls_max_rank, own.bytes_max), (1, 8, 7, 8 * 101));
    let nodes: Vec<NodeRow> = all(&aggregate);
    assert_eq!(
        nodes.iter().map(|row| (row.ranks, row.members.to_string())).collect::<Vec<_>>(),
        [(8, "0-7".to_owned())]
    );
    answers(&finished);
}

/// Each command answers, or says in a sentence what it needs.
fn answers(finished: &Finished) {
    let directory = finished.directory().display().to_string();
    for command in ["summary", "ops", "sizes", "comms", "regions", "efficiency", "ranks", "matrix", "advise"]
    {
        let output = through(&[command, &directory]);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command}");
    }
    for arguments in [&["locality", &directory][..], &["summary", &directory, "--ranks", "3"]] {
        let output = through(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("MPISEE_FOLD=8") && said.lines().count() == 1, "{said}");
    }
}

/// Programs that do the same in each run: on how many ranks, with what argument, and a function
/// that they need.
const SAME_IN_EACH_RUN: [(&str, u32, &str, &str); 5] = [
    ("communicators/parts", 6, "", "MPI_Init"),
    ("regions/regions", 2, "", "MPI_Init"),
    ("threads/threads", 2, "", "MPI_Init"),
    ("lifecycle/sessions", 4, "", "MPI_Session_init"),
    ("lifecycle/sessions", 4, "world", "MPI_Session_init"),
];

#[case]
fn whatever_a_program_does_the_sums_are_those_of_the_rows(mpi: &Mpi) {
    let functions = mpi.counted_functions();
    for (name, ranks, argument, needed) in SAME_IN_EACH_RUN {
        if !functions.contains(needed) {
            continue;
        }
        mpisee_tests::note!("{name} {argument}");
        let run = |fold: &str| {
            let run = Run::new(mpi, name).ranks(ranks).variable("MPISEE_FOLD", fold);
            let run = run.variable("MPISEE_ALIKE", "5");
            let run = if argument.is_empty() { run } else { run.argument(argument) };
            run.preloaded_to("test.mpisee")
        };
        let [rows, sums] = ["4096", "1"].map(run);
        rows.check();
        sums.check();
        assert_sums_of(&rows.directory(), &sums.directory());
    }
}
