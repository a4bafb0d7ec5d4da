//! `mpisee-through efficiency` and `locality`.

mod support;

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
fn threads_that_call_at_once_are_said() {
    let profile = splatt().with(|profile| profile.run.mpi.thread_level = "multiple".to_owned()).write();
    let ran = profile.run(&["efficiency", "app.mpisee"]);
    assert!(
        ran.exits(0).stdout.starts_with("Note       Threads may have called MPI at once"),
        "{}",
        ran.stdout
    );
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
