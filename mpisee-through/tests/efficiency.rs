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
    profile.run(&["efficiency", "app.mpisee"]).prints(
        "\
REGION       RANKS  Runtime[s]  Useful[s]    Max[s]   PE%    LB%   CE%
(run)            8   10.000000   5.937500  9.000000  59.4   66.0  90.0
solver           8    6.000000   2.375000  5.000000  39.6   47.5  83.3
solver/halo      1    0.500000   0.250000  0.250000  50.0  100.0  50.0

LOST ON        SIZE    Time[s]  Loss%  Above least%
W                 8  29.000000   36.2          72.4
W_s1.4            2   1.500000    1.9          33.3
(ended early)     -   2.000000    2.5             -
",
    );
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
comm,size,time_s,loss,above_least
W,8,29.000000000,0.362500000,0.724137931
W_s1.4,2,1.500000000,0.018750000,0.333333333
(ended early),,2.000000000,0.025000000,
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
    profile.run(&["locality", "app.mpisee"]).prints("\
20.0 % of the bytes of point-to-point messages stay on a node. 1 communicator is on several nodes though it would fit one (4 ranks).

COMM    SIZE  NODES    Time[s]  Pairs%   P2P   P2P%  Collective  FITS
W          8      2  29.000000    42.9  8000    0.0        6400  -
W_s1.4     2      2   1.500000     0.0     0      -       10000  a node
W_s1.0     2      1   0.000000   100.0  2000  100.0           0  -
");
    profile.run(&["locality", "app.mpisee", "--scattered", "--format", "csv"]).prints(
        "\
comm,size,nodes,time_s,pairs_inside,p2p_bytes,p2p_inside,collective_bytes,fits_a_node
W_s1.4,2,2,1.500000000,0.000000000,0,,10000,a node
",
    );
    Builder::new(1).write().run(&["locality", "app.mpisee"]).prints(
        "\
There are no bytes in point-to-point messages.

No communicator of several processes is left.
",
    );
}
