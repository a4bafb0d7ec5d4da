//! `mpisee-through efficiency` on real programs: what is lost by waiting is serialisation or load,
//! the rest is transfer.

use mpisee_tests::{Mpi, Run, case, through};
use std::collections::BTreeMap;

/// The shares of the run by their names.
type Shares = BTreeMap<String, f64>;

fn shares(mpi: &Mpi, program: &str, arguments: &[&str]) -> Shares {
    let run = arguments.iter().fold(Run::new(mpi, program).ranks(2), |run, argument| run.argument(argument));
    let finished = run.profiled();
    let output = through(&["efficiency", "--format", "json", &finished.directory().display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let row = document["efficiency"][0].as_object().expect("the run").clone();
    row.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

/// Runs until the shares are as they should be. Runs whose ranks had no core for a part of their
/// time are not judged: there one rank waits for another that waits for a core.
#[track_caller]
fn expect(mpi: &Mpi, program: &str, arguments: &[&str], is_right: fn(&Shares) -> bool) {
    const TRIES: usize = 4;
    const MOST_DISTURBED: usize = 8;
    const UNDISTURBED: f64 = 0.9;
    let (mut wrong, mut disturbed) = (Vec::new(), 0);
    while wrong.len() < TRIES && disturbed < MOST_DISTURBED {
        let shares = shares(mpi, program, arguments);
        // Whatever the machine does, the definitions hold.
        let cores = shares.get("core_availability").copied().unwrap_or(1.0);
        let balance = shares["load_balance"] * cores;
        let product = balance * shares["serialisation_efficiency"] * shares["transfer_efficiency"];
        assert!((product - shares["parallel_efficiency"]).abs() < 1e-6, "{shares:?}");
        for one in ["serialisation", "transfer"] {
            let [low, high] = ["low", "high"].map(|end| shares[&format!("{one}_{end}")]);
            assert!((low..=high).contains(&shares[&format!("{one}_efficiency")]), "{shares:?}");
        }
        if is_right(&shares) {
            return;
        }
        if cores < UNDISTURBED {
            disturbed += 1;
        } else {
            wrong.push(shares);
        }
    }
    assert!(wrong.len() < TRIES, "{program} {arguments:?}: {wrong:#?}");
    mpisee_tests::note!(
        "{program} {arguments:?}: not judged, since the ranks lacked cores in {disturbed} runs"
    );
}

#[case]
fn ranks_that_work_in_turn_are_serialised(mpi: &Mpi) {
    expect(mpi, "waits/planted", &["alternating", "100", "5000"], |shares| {
        shares["load_balance"] > 0.9
            && (0.45..0.6).contains(&shares["serialisation_efficiency"])
            && shares["transfer_efficiency"] > 0.9
    });
}

#[case]
fn one_rank_that_works_is_load(mpi: &Mpi) {
    expect(mpi, "waits/planted", &["one", "100", "5000"], |shares| {
        (0.45..0.6).contains(&shares["load_balance"])
            && shares["serialisation_efficiency"] > 0.9
            && shares["transfer_efficiency"] > 0.9
    });
}

#[case]
fn data_that_is_moved_is_transfer(mpi: &Mpi) {
    expect(mpi, "advise/causes", &["moved"], |shares| shares["transfer_efficiency"] < 0.3);
}
