//! `mpisee-through efficiency` and `locality`.

mod support;

use mpisee_profile::run::EndedIn;
use support::{Builder, splatt};

/// Eight ranks on two nodes; one computes most, and pairs of neighbours are split over nodes or not.
fn uneven() -> Builder {
    let mut builder = Builder::new(8)
        .with(|profile| {
            profile.run.nodes = 2;
            profile.comms[0].nodes = 2;
            for row in &mut profile.ranks {
                row.host = format!("node{}", row.rank % 2);
            }
            profile.ranks[7].wall_s.0 = 8.0;
        })
        .comm("W_s1.0", "W", "MPI_Comm_split", "0,2", |_| {})
        .comm("W_s1.4", "W", "MPI_Comm_split", "4-5", |row| row.nodes = 2);
    for rank in 0..8 {
        let time_s = if rank == 3 { 1.0 } else { 4.0 };
        builder = builder
            .call("W", rank, "MPI_Allreduce", 100, 800, time_s)
            .region("solver", rank, 1, 6.0, time_s)
            .messages("W", rank, (rank + 1) % 8, 1, 1000);
    }
    builder
        .call("W_s1.4", 4, "MPI_Allgather", 10, 5000, 1.0)
        .call("W_s1.4", 5, "MPI_Allgather", 10, 5000, 0.5)
        .messages("W_s1.0", 0, 2, 2, 2000)
        .region("solver/halo", 2, 4, 0.5, 0.25)
}

#[test]
fn the_loss_is_that_of_the_communicators() {
    let profile = uneven().write();
    profile.run(&["efficiency", "app.mpisee"]).golden("efficiency-the_loss_is_that_of_the_communicators");
    profile.run(&["efficiency", "app.mpisee", "--format", "csv"]).prints(
        "\
region,ranks,runtime_s,useful_mean_s,useful_max_s,parallel_efficiency,load_balance,communication_efficiency
(run),8,10.000000000,5.937500000,9.000000000,0.593750000,0.659722222,0.900000000
solver,8,6.000000000,2.375000000,5.000000000,0.395833333,0.475000000,0.833333333
solver/halo,1,0.500000000,0.250000000,0.250000000,0.500000000,1.000000000,0.500000000
",
    );
    profile.run(&["efficiency", "app.mpisee", "--loss", "--format", "csv"]).prints(
        "\
comm,size,time_s,loss,imbalance
W,8,29.000000000,0.362500000,0.724137931
W_s1.4,2,1.500000000,0.018750000,0.333333333
waiting in MPI_Finalize for the last rank,,2.000000000,0.025000000,
",
    );
}

#[test]
fn threads_that_called_at_once_are_said() {
    let multiple = || splatt().with(|profile| profile.run.mpi.thread_level = "multiple".to_owned());
    let note = "Note       Threads called MPI at once";
    let ran = multiple().write().run(&["efficiency", "app.mpisee"]);
    assert!(!ran.exits(0).stdout.contains("Threads"), "{}", ran.stdout);
    // More time in MPI than the rank ran.
    let ran = multiple().call("W", 0, "MPI_Recv", 1, 8, 20.0).write().run(&["efficiency", "app.mpisee"]);
    assert!(ran.exits(0).stdout.starts_with(note), "{}", ran.stdout);
}

#[test]
fn calls_that_were_not_recorded_make_efficiencies_bounds_or_unknown() {
    let part = uneven().with(|profile| profile.run.recording_was_off = true).write();
    let ran = part.run(&["efficiency", "app.mpisee"]);
    assert!(ran.exits(0).stdout.contains("PE and CE are upper bounds"), "{}", ran.stdout);
    let whole = Builder::new(2).region("solver", 0, 1, 5.0, 0.0);
    let whole = whole.with(|profile| profile.run.recording_was_off = true).write();
    let ran = whole.run(&["efficiency", "app.mpisee"]);
    assert!(ran.exits(0).stdout.contains("the efficiencies are unknown"), "{}", ran.stdout);
    whole.run(&["efficiency", "app.mpisee", "--format", "csv"]).prints(
        "\
region,ranks,runtime_s,useful_mean_s,useful_max_s,parallel_efficiency,load_balance,communication_efficiency
(run),2,10.000000000,,,,,
solver,1,5.000000000,,,,,
",
    );
}

#[test]
fn ranks_that_ended_in_a_call_are_a_warning_and_wait_for_nobody() {
    let place = |ranks: &str, call: Option<&str>| EndedIn {
        ranks: ranks.to_owned(),
        call: call.map(str::to_owned),
        comm: call.map(|_| "W".to_owned()),
        number: call.map(|_| 101),
        at_least_s: 12.0,
    };
    let profile = uneven()
        .with(|profile| {
            profile.run.complete = false;
            profile.run.incomplete_because = Some("ranks 0-7 ended without MPI_Finalize".to_owned());
            profile.run.ended_in = vec![place("0-4,6", Some("MPI_Allreduce")), place("5,7", None)];
        })
        .write();
    let place =
        "Ranks 0-4,6 were in MPI_Allreduce on W (call 101), for 12.0 s or longer, ranks 5,7 were not.";
    let said = |command: &str| {
        let ran = profile.run(&[command, "app.mpisee"]);
        ran.exits(0).stdout.replace("\n           ", " ")
    };
    let (efficiency, advise) = (said("efficiency"), said("advise"));
    let warning = format!("The time of calls that were in progress when ranks ended is not counted. {place}");
    assert!(efficiency.contains(&warning), "{efficiency}");
    assert!(!efficiency.contains("waiting in MPI_Finalize"), "{efficiency}");
    let first = format!(
        "Note       The run ended without MPI_Finalize: begin where ranks were. {place} Ranks 5,7 were in no MPI call.\n\
         Note       Times are lower bounds: "
    );
    assert!(advise.starts_with(&first), "{advise}");
    let ran = profile.run(&["summary", "app.mpisee"]);
    let line = "\nWall time  at least 9.75 s (mean over ranks), at least 10.0 s (longest rank)\n";
    assert!(ran.exits(0).stdout.contains(line), "{}", ran.stdout);
}

#[test]
fn losses_within_nodes_are_separate_from_losses_across() {
    let profile = uneven().write();
    profile
        .run(&["locality", "app.mpisee"])
        .golden("efficiency-what_is_inside_of_nodes_is_told_from_what_is_across");
    profile
        .run(&["locality", "app.mpisee", "--scattered", "--format", "csv"])
        .golden("efficiency-what_is_inside_of_nodes_is_told_from_what_is_across-2");
    Builder::new(1)
        .write()
        .run(&["locality", "app.mpisee"])
        .golden("efficiency-what_is_inside_of_nodes_is_told_from_what_is_across-3");
}
