//! CPU use of ranks, and the time in which they were ready to run and had no core: for real, on
//! cores that they share.

use mpisee_profile::Profile;
use mpisee_profile::rows::{NodeRow, RankRow};
use mpisee_tests::profile::rows;
use mpisee_tests::{Finished, Mpi, Run, case, through};
use std::path::Path;

const RANKS: u32 = 2;

fn cores<'m>(mpi: &'m Mpi, how: &str) -> Run<'m> {
    let program = mpi.compile_with("processes/cores", &["-pthread"]);
    Run::from_program(mpi, program).ranks(RANKS).argument(how)
}

/// The finding of `advise` on cores, if there is one.
fn said_of_cores(directory: &Path) -> Option<String> {
    let output = through(&["advise", "--format", "json", &directory.display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let finding = document["findings"].get(0)?;
    (finding["rule"] == "no-core").then(|| format!("{} {}", finding["finding"], finding["evidence"]))
}

/// The parts of its wall time in which a rank was on a core, and in which it was ready and had
/// none.
fn shares(row: &RankRow) -> (f64, f64) {
    assert!(row.wall_s.0 >= 1.0, "{row:?}");
    (row.cpu_s().unwrap() / row.wall_s.0, row.cpu_wait_s.unwrap().0 / row.wall_s.0)
}

/// Asserts that each of two ranks had a core for half of its time, or for less where the machine
/// does other work, too.
#[track_caller]
fn assert_halves(ranks: &[RankRow]) {
    assert_eq!(ranks.len(), RANKS as usize);
    for row in ranks {
        let (on_core, without) = shares(row);
        assert!((0.1..0.65).contains(&on_core) && (0.35..0.9).contains(&without), "{row:?}");
        assert!((0.9..1.1).contains(&(on_core + without)), "{row:?}");
        assert!(row.involuntary_switches.unwrap() >= 5 && row.minor_faults.unwrap() > 0, "{row:?}");
        assert_eq!((row.cpus_allowed.len(), &row.cpus_allowed), (1, &ranks[0].cpus_allowed), "{row:?}");
        assert_ne!(row.cpus_at_start, row.cpus_allowed);
        assert!(row.node_cpus.unwrap() >= 1, "{row:?}");
    }
}

#[track_caller]
fn assert_said(finished: &Finished, expected: &str) {
    let said = said_of_cores(&finished.directory());
    assert!(said.as_ref().is_some_and(|said| said.contains(expected)), "{expected}: {said:?}");
}

#[case]
fn ranks_on_one_core_are_without_one_for_half_of_the_time(mpi: &Mpi) {
    for collect in ["auto", "tree"] {
        let finished = cores(mpi, "same").options(&["--collect", collect]).profiled();
        assert_halves(&finished.tables().ranks);
        finished.check();
        assert_said(&finished, "Ranks 0-1 waited for a CPU core ");
        assert_said(&finished, "2 ranks share 1 core");
    }
}

#[case]
fn sums_over_ranks_have_the_time_without_a_core(mpi: &Mpi) {
    let run = cores(mpi, "same").variable("MPISEE_FOLD", "1");
    let finished = run.preloaded_to("test.mpisee");
    let profile = Profile::open(finished.directory()).expect("there is a profile");
    let nodes: Vec<NodeRow> = rows(&profile);
    let [node] = &nodes[..] else { panic!("{nodes:?}") };
    let without = node.cpu_wait_s.unwrap().0 / node.wall_s.0;
    let on_core = node.cpu_s.unwrap().0 / node.wall_s.0;
    assert!((0.35..0.9).contains(&without) && (0.9..1.1).contains(&(on_core + without)), "{node:?}");
    let most_s = node.cpu_wait_max_s.unwrap().0;
    assert!(most_s >= node.cpu_wait_s.unwrap().0 / 2.0 && most_s < node.wall_max_s.0, "{node:?}");
    assert!(node.cpu_wait_max_rank.unwrap() < RANKS && node.cpus_allowed.len() == 1, "{node:?}");
    assert_said(&finished, "2 ranks share 1 core");
}

#[case]
fn ranks_on_cores_of_their_own_are_not_said_to_share_one(mpi: &Mpi) {
    let finished = cores(mpi, "own").profiled();
    let ranks = &finished.tables().ranks;
    let has_enough = ranks[0].cpus_allowed != ranks[1].cpus_allowed;
    for row in ranks {
        let (on_core, without) = shares(row);
        assert!((0.9..1.1).contains(&(on_core + without)) && row.cpus_allowed.len() == 1, "{row:?}");
    }
    // What else the machine does may still take the cores.
    let said = said_of_cores(&finished.directory()).unwrap_or_default();
    assert_eq!(said.contains("2 ranks share 1 core"), !has_enough, "{said}");
    assert!(!said.contains("bound"), "{said}");
}

#[case]
fn sleeping_is_no_lack_of_a_core(mpi: &Mpi) {
    const TRIES: usize = 4;
    let mut said = Vec::new();
    for _ in 0..TRIES {
        let finished = cores(mpi, "sleep").profiled();
        for row in &finished.tables().ranks {
            let (on_core, without) = shares(row);
            assert!(on_core < 0.3 && without < 0.3, "{row:?}");
            assert!(row.voluntary_switches.unwrap() > 0, "{row:?}");
        }
        // Others may keep it from waking up.
        let Some(why) = said_of_cores(&finished.directory()) else { return };
        said.push(why);
    }
    panic!("{said:?}");
}

#[case]
fn threads_beyond_the_cores_of_their_rank_are_reported(mpi: &Mpi) {
    let finished = cores(mpi, "threads").profiled();
    let (on_core, without) = shares(&finished.tables().ranks[0]);
    assert!((0.2..1.1).contains(&on_core) && (0.7..1.9).contains(&without), "{on_core} {without}");
    assert!((1.7..2.2).contains(&(on_core + without)), "{on_core} {without}");
    assert_said(&finished, "threads of rank 0 ran or were ready on average, on 1 core");
}
