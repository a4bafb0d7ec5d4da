//! `variables`: what MPI's own variables counted.

use crate::support::{Builder, Written};
use mpisee_profile::run::{ControlInfo, VariableInfo};

fn profile() -> Written {
    let info = |name: &str, class: &str, description: &str| VariableInfo {
        name: name.to_owned(),
        class: class.to_owned(),
        of_world: true,
        description: description.to_owned(),
    };
    let mut built = Builder::new(4).region("solver", 0, 1, 4.0, 1.0);
    for rank in 0..4 {
        let grew = f64::from(rank + 1) * 1000.0;
        built = built
            .variable("coll_a2a_count", rank, "solver", Some(grew), [grew; 3])
            .variable("coll_a2a_count", rank, "", Some(2.0), [grew + 2.0; 3])
            .variable("pml_posted_length", rank, "solver", None, [3.0, 1.0, 5.0 + f64::from(rank)])
            .variable("mtl_psm2_tx_num", rank, "", Some(0.0), [0.0; 3]);
    }
    built
        .with(|built| {
            built.run.mpi.variables = vec![
                info("coll_a2a_count", "counter", "Number of messages exchanged as all-to-all operations"),
                info("pml_posted_length", "level", "Number of unmatched receives posted for each peer"),
            ];
            built.run.mpi.control = vec![ControlInfo {
                name: "coll_tuned_use_dynamic_rules".to_owned(),
                value: "1".to_owned(),
                set_by: "environment".to_owned(),
            }];
        })
        .write()
}

#[test]
fn variables_are_shown_over_ranks_and_regions() {
    let profile = profile();
    for width in [60, 100, 160] {
        profile.golden_at(width, "variables", &["variables", "app.mpisee"]);
    }
    profile.golden_at(100, "variables-each", &["variables", "app.mpisee", "--each", "--name", "pml*"]);
}

#[test]
fn numbers_are_exact_for_scripts() {
    let profile = profile();
    profile.run(&["variables", "app.mpisee", "--format", "csv"]).golden("variables.csv");
    profile
        .run(&["variables", "app.mpisee", "--format", "json", "--region", "solver"])
        .golden("variables.json");
}

#[test]
fn a_profile_without_variables_says_how_to_have_them() {
    let profile = Builder::new(2).write();
    let ran = profile.run(&["variables", "app.mpisee"]);
    let expected =
        "'app.mpisee' has no variables of MPI; `mpisee --mpi-t 'pml_*'` reads those of the names that match";
    assert!(ran.exits(2).stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn control_variables_are_shown_where_the_mpi_counts_nothing() {
    let note = "this MPI has no performance variable, so --mpi-t 'pml_*' reads none";
    let with = |control: Vec<ControlInfo>| {
        let built = Builder::new(2).with(|built| {
            built.run.notes = vec!["something else".to_owned(), note.to_owned()];
            built.run.mpi.control = control;
        });
        built.write()
    };
    let set = ControlInfo {
        name: "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM".to_owned(),
        value: "3".to_owned(),
        set_by: "environment".to_owned(),
    };
    let profile = with(vec![set]);
    profile.golden_at(100, "variables-control", &["variables", "app.mpisee"]);
    let json = profile.run(&["variables", "app.mpisee", "--format", "json"]).exits(0).stdout.clone();
    assert!(json.contains(note) && json.contains("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"), "{json}");
    let nothing = with(Vec::new()).run(&["variables", "app.mpisee"]).exits(0).stdout.clone();
    assert!(nothing.contains(note) && nothing.contains("no control variable is set"), "{nothing}");
}
