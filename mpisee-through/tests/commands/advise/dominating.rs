//! The finding about communicators that take much of the MPI time.

use super::waiting::{arrive, on_one_node};
use super::{ALL, finds, on, run};
use crate::support::Builder;

#[test]
fn a_communicator_dominates() {
    finds(&on(run(), "W", &ALL, "MPI_Bcast", 10, 80_000, 1.0), &["dominating W"]);
    finds(&on(run(), "W", &ALL, "MPI_Bcast", 10, 80_000, 0.99), &[]);
    let shared =
        on(on(run(), "W", &ALL, "MPI_Bcast", 10, 80_000, 1.0), "S", &ALL, "MPI_Win_fence", 1, 0, 2.0);
    finds(&shared, &[]);
    finds(&on(run(), "W", &ALL, "MPI_Waitall", 10, 0, 1.0), &["dominating W"]);
}

#[test]
fn dominating_calls_are_named_by_the_operations_that_are_there() {
    let waits = || on(run(), "W", &ALL, "MPI_Waitall", 10, 0, 1.0);
    let said = |builder: &Builder, expected: &str| {
        let ran = builder.write().run(&["advise", "app.mpisee", "--width", "200"]);
        assert!(ran.exits(0).stdout.contains(expected), "{expected}: {}", ran.stdout);
    };
    said(&on(waits(), "W", &ALL, "MPI_Irecv", 10, 80, 0.0), "is in point-to-point messages and waits on W");
    let collectives = on(waits(), "W", &ALL, "MPI_Iallreduce", 10, 80, 0.0);
    said(&collectives, "is in waits for nonblocking operations other than messages on W");
}

#[test]
fn a_late_rank_in_nonblocking_collectives_explains_the_waits() {
    let late =
        arrive(on_one_node(), "W", &ALL, "MPI_Iallreduce", 40, |_, rank| if rank == 3 { 0.05 } else { 0.0 });
    let late = late.with(|profile| {
        for row in &mut profile.arrivals {
            (row.started_s, row.completed) = (Some(row.arrival_s), Some(1));
        }
        profile.calls.iter_mut().for_each(|row| row.call = "MPI_Wait".to_owned());
    });
    finds(&on(late, "W", &ALL, "MPI_Iallreduce", 40, 320, 0.0), &["waiting W"]);
}

#[test]
fn commands_are_for_the_whole_family() {
    let halves = (0..2).fold(run(), |builder, half| {
        let (comm, ranks) = (format!("W_s1.{}", 4 * half), &ALL[4 * half..4 * half + 4]);
        let members = format!("{}-{}", 4 * half, 4 * half + 3);
        let builder = builder.comm(&comm, "W", "MPI_Comm_split", &members, |_| {});
        on(builder, &comm, ranks, "MPI_Bcast", 10, 80, 0.01 + 3.0 * half as f64)
    });
    finds(&halves, &["dominating W_s1.*"]);
    let said = halves.write().run(&["advise", "app.mpisee"]).exits(0).stdout.replace("\n              ", " ");
    assert!(said.contains("ranks app.mpisee --comm 'W_s1.*@4'"), "{said}");
}

#[test]
fn every_communicator_beyond_the_thresholds_dominates() {
    let builder =
        on(run(), "W", &ALL, "MPI_Bcast", 10, 80, 1.25).comm("W_d1", "W", "MPI_Comm_dup", "0-7", |_| {});
    let builder = on(builder, "W_d1", &ALL, "MPI_Bcast", 10, 80, 1.5);
    finds(&builder, &["dominating W_d1", "dominating W"]);
}

#[test]
fn the_share_of_the_run_is_that_of_efficiency() {
    let profile = on(run(), "W", &ALL, "MPI_Bcast", 10, 80, 2.0)
        .with(|profile| profile.ranks[1..].iter_mut().for_each(|row| row.wall_s.0 = 4.0))
        .write();
    let share = |arguments: &[&str], column: usize, row: usize| -> String {
        let ran = profile.run(&[arguments, &["--format", "csv"]].concat());
        let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        reader.records().nth(row).unwrap().unwrap()[column].to_owned()
    };
    let advised = share(&["advise", "app.mpisee"], 3, 1);
    let at_end = share(&["advise", "app.mpisee"], 3, 0);
    assert_eq!(at_end, share(&["efficiency", "app.mpisee", "--loss"], 3, 1), "the row of MPI_Finalize");
    assert_eq!(advised, "0.200000000");
    assert_eq!(advised, share(&["efficiency", "app.mpisee", "--loss"], 3, 0), "the row of W");
    assert_eq!(share(&["advise", "app.mpisee", "--ranks", "1-4"], 3, 0), "0.200000000");
    // One share of all MPI time, whoever says it.
    let says = |command: &str, expected: &str| {
        let said = profile.run(&[command, "app.mpisee", "--width", "120"]);
        assert!(said.exits(0).stdout.contains(expected), "{expected}: {}", said.stdout);
    };
    says("summary", "MPI time   2.00 s (mean over ranks), 20.0 % of the run; 16.0 s over all ranks\n");
    says("advise", "MPI takes 20.0 % of the run: 16.0 s of 80.0 s, summed over ranks.");
}

/// Blocking collectives in which all wait 2 s for rank 3, as [`arrive`] writes them.
fn with_late_rank() -> Builder {
    arrive(on_one_node(), "W", &ALL, "MPI_Allreduce", 40, |_, rank| if rank == 3 { 0.05 } else { 0.0 })
}

#[test]
fn time_of_one_kind_is_not_explained_by_findings_about_the_other() {
    // Waiting in MPI_Allreduce explains nothing of what MPI_Wait takes for another collective.
    let builder = on(with_late_rank(), "W", &ALL, "MPI_Iallreduce", 40, 320, 0.0);
    let builder = on(builder, "W", &ALL, "MPI_Wait", 40, 0, 2.0);
    finds(&builder, &["dominating W", "waiting W"]);
    let csv = builder.write().run(&["advise", "app.mpisee", "--format", "csv"]);
    let expected =
        "dominating,W,16.000000000,0.200000000,52.8 % of the MPI time is in waits for nonblocking operations";
    assert!(csv.exits(0).stdout.contains(expected), "{}", csv.stdout);
    // Small reductions take 4 s, which are none of the 10.4 s in messages.
    let small = on(run(), "W", &ALL, "MPI_Allreduce", 1000, 8000, 0.5);
    finds(&on(small, "W", &ALL, "MPI_Recv", 10, 80, 1.3), &["dominating W", "tiny-allreduces W"]);
}

#[test]
fn a_dominating_communicator_has_the_share_that_nothing_else_explains() {
    let builder = on(with_late_rank(), "W", &ALL, "MPI_Bcast", 10, 80, 2.0);
    let csv = builder.write().run(&["advise", "app.mpisee", "--format", "csv"]);
    for expected in [
        "dominating,W,16.320000000,0.204000000,\"53.8 % of the MPI time is in collectives on W, without the \
         part that other findings explain.\",\"The largest part is MPI_Bcast: 80 calls of 200 ms on average, \
         16.0 s summed over ranks. All collectives on W take 30.3 s; other findings explain 14.0 s of this \
         time.\"",
        "waiting,W,14.000000000",
    ] {
        assert!(csv.exits(0).stdout.contains(expected), "{expected}: {}", csv.stdout);
    }
}
