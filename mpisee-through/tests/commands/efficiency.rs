//! `mpisee-through efficiency` and `locality`.

use crate::support::{Builder, splatt};
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, Seconds};
use mpisee_profile::run::EndedIn;

/// Eight ranks on two nodes; one computes most, and pairs of neighbours are split over nodes or
/// not.
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
region,ranks,runtime_s,useful_mean_s,useful_max_s,parallel_efficiency,load_balance,communication_efficiency,\
serialisation_efficiency,serialisation_low,serialisation_high,transfer_efficiency,transfer_low,transfer_high,not_measured_s,\
core_availability,core_availability_low,core_availability_high,parallel_low,parallel_high,load_balance_low,load_balance_high
(run),8,10.000000000,5.937500000,9.000000000,0.593750000,0.659722222,0.900000000,,,,,,,,,,,0.593750000,0.593750000,0.659722222,0.659722222
solver,8,6.000000000,2.375000000,5.000000000,0.395833333,0.475000000,0.833333333,,,,,,,,,,,0.395833333,0.395833333,0.475000000,0.475000000
solver/halo,1,0.500000000,0.250000000,0.250000000,0.500000000,1.000000000,0.500000000,,,,,,,,,,,0.500000000,0.500000000,1.000000000,1.000000000
",
    );
    profile.run(&["efficiency", "app.mpisee", "--loss", "--format", "csv"]).prints(
        "\
comm,size,time_s,loss,imbalance,waiting_s,waiting_low_s,waiting_high_s,transfer_s,not_measured_s,waited_for
W,8,29.000000000,0.362500000,0.724137931,,,,,,
W_s1.4,2,1.500000000,0.018750000,0.333333333,,,,,,
waiting in MPI_Finalize for the last rank,,2.000000000,0.025000000,,2.000000000,,,,,
",
    );
}

/// Two ranks with 40 MPI_Allreduce, all of them sampled, to each of which rank 1 comes 100 ms late.
/// A transfer takes 5 ms.
fn late() -> Builder {
    const CALLS: u64 = 40;
    let mut builder = Builder::new(2);
    for rank in 0..2 {
        let late_s = if rank == 1 { 0.1 } else { 0.0 };
        let row = |instance: u64| ArrivalRow {
            comm: "W".to_owned(),
            call: "MPI_Allreduce".to_owned(),
            instance,
            rank,
            root: None,
            arrival_s: Seconds(instance as f64 + late_s),
            departure_s: Seconds(instance as f64 + 0.105),
            started_s: None,
            completed: None,
        };
        builder.arrivals.extend((0..CALLS).map(row));
        builder.collectives.push(CollectiveRow {
            comm: "W".to_owned(),
            call: "MPI_Allreduce".to_owned(),
            rank,
            instances: CALLS,
            sampled: CALLS,
            mean_arrival_s: Seconds(19.5 + late_s),
            mean_departure_s: Seconds(19.605),
        });
        builder = builder.call("W", rank, "MPI_Allreduce", CALLS, 320, 40.0 * (0.105 - late_s));
    }
    builder.region("solver", 0, 1, 8.0, 4.2)
}

/// The factors in the first row of the efficiencies, and what was not measured.
fn shares(builder: &Builder) -> Vec<Option<f64>> {
    let ran = builder.write().run(&["efficiency", "app.mpisee", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    let row = reader.records().next().unwrap().unwrap();
    row.iter().skip(5).take(10).map(|field| field.parse().ok()).collect()
}

#[test]
fn waiting_is_serialisation_and_the_rest_is_transfer() {
    // Useful are 5.8 s and 9.8 s; rank 0 waits 4 s, and 0.2 s of each are transfer.
    let profile = late().write();
    profile.golden_at(140, "efficiency-split", &["efficiency", "app.mpisee"]);
    profile.golden_at(60, "efficiency-split", &["efficiency", "app.mpisee"]);
    profile.run(&["efficiency", "app.mpisee", "--format", "json"]).golden("efficiency-split.json");
    assert_eq!(
        shares(&late()),
        [0.78, 0.795_918_367, 0.98, 1.0, 1.0, 1.0, 0.98, 0.98, 0.98, 0.0].map(Some),
        "PE, LB, CE, SerE with its bounds, TE with its bounds"
    );
    // With the same load on both, as rank 1 is late for what was not measured: without transfers
    // rank 0 takes as long.
    let even = late().call("W", 1, "MPI_Recv", 1, 8, 4.0);
    let te = [0.98; 3];
    let ser = [0.591_836_735; 3];
    assert_eq!(
        shares(&even),
        [&[0.58, 1.0, 0.58][..], &ser, &te, &[4.0]].concat().into_iter().map(Some).collect::<Vec<_>>()
    );
}

#[test]
fn time_that_was_not_measured_leaves_bounds() {
    // Both ranks are in messages: without transfers, rank 1 takes 9.8 s less that time, up to 9.8
    // s.
    let with =
        |time_s: f64| (0..2).fold(late(), |builder, rank| builder.call("W", rank, "MPI_Recv", 1, 8, time_s));
    let found = shares(&with(0.098));
    assert_eq!(
        found[3..9],
        [1.0, 0.99, 1.0, 0.9702, 0.9702, 0.98].map(Some),
        "less than 1 % is as if it were transfer"
    );
    let found = shares(&with(2.0));
    assert_eq!(
        found[2..],
        [Some(0.78), None, Some(0.795_918_367), Some(1.0), None, Some(0.78), Some(0.98), Some(4.0)]
    );
    let profile = with(2.0).write();
    profile.golden_at(140, "efficiency-bounds", &["efficiency", "app.mpisee"]);
    let ran = profile.run(&["efficiency", "app.mpisee"]);
    let note = "4.00 s of 8.40 s in MPI have no sample";
    assert!(ran.exits(0).stdout.contains(note), "{}", ran.stdout);
    // What was not recorded has arrivals and no time.
    let off = late().with(|profile| profile.run.recording_was_off = true);
    assert_eq!(shares(&off)[3..], [None; 7]);
}

#[test]
fn intervals_and_factors_are_hidden_as_a_whole_and_the_size_of_families_stays() {
    let family = late()
        .comm("W_s1.0", "W", "MPI_Comm_split", "0", |_| {})
        .comm("W_s1.1", "W", "MPI_Comm_split", "1", |_| {})
        .call("W_s1.0", 0, "MPI_Barrier", 1, 0, 0.5)
        .call("W_s1.1", 1, "MPI_Barrier", 1, 0, 0.5)
        .write();
    for width in (40..=160).step_by(4) {
        let ran = family.run(&["efficiency", "app.mpisee", "--width", &width.to_string()]);
        let line = |begin: &str| {
            let line = ran.exits(0).stdout.lines().find(|line| line.starts_with(begin));
            line.unwrap_or_else(|| panic!("{width}: {}", ran.stdout)).to_owned()
        };
        let (run, loss) = (line("REGION"), line("LOST ON"));
        assert_eq!(run.contains("SerE %"), run.contains("TE %"), "{width}: {run}");
        let count = |word: &str| loss.split_whitespace().filter(|other| *other == word).count();
        assert_eq!(count("from"), count("to"), "{width}: {loss}");
        assert_eq!(count("SIZE"), 1, "{width}: {loss}");
    }
}

#[test]
fn who_is_waited_for_at_the_end_is_named() {
    let ending = |wall_s: [f64; 4]| {
        Builder::new(4).with(|profile| {
            for (row, wall_s) in profile.ranks.iter_mut().zip(wall_s) {
                row.wall_s.0 = wall_s;
            }
        })
    };
    let loss = |wall_s: [f64; 4]| -> String {
        let profile = ending(wall_s).write();
        let ran = profile.run(&["efficiency", "app.mpisee", "--loss", "--format", "csv"]);
        ran.exits(0).stdout.lines().skip(1).collect()
    };
    let end = "waiting in MPI_Finalize for the last rank";
    assert_eq!(loss([8.0, 8.0, 10.0, 8.0]), format!("{end},,6.000000000,0.150000000,,6.000000000,,,,,2"));
    assert_eq!(loss([8.0, 9.9, 10.0, 8.0]), format!("{end},,4.100000000,0.102500000,,4.100000000,,,,,1-2"));
    assert_eq!(loss([10.0, 10.0, 10.0, 8.0]), format!("{end},,2.000000000,0.050000000,,2.000000000,,,,,"));
    assert_eq!(loss([9.9, 9.9, 10.0, 9.9]), format!("{end},,0.300000000,0.007500000,,0.300000000,,,,,"));
    let ran = ending([8.0, 8.5, 10.0, 8.0]).write().run(&["efficiency", "app.mpisee"]).stdout;
    let line = "waiting in MPI_Finalize for rank 2 (91 %)     -    5.50 s      13.8            -\n";
    assert!(ran.contains(line), "{ran}");
}

#[test]
fn threads_that_called_at_once_are_said() {
    let multiple = || splatt().with(|profile| profile.run.mpi.thread_level = "multiple".to_owned());
    let note = "Note       Time outside of MPI and efficiencies are unknown";
    let ran = multiple().write().run(&["efficiency", "app.mpisee"]);
    assert!(!ran.exits(0).stdout.contains(note), "{}", ran.stdout);
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
    assert!(ran.exits(0).stdout.contains("efficiencies are unknown"), "{}", ran.stdout);
    whole.run(&["efficiency", "app.mpisee", "--format", "csv"]).prints(
        "\
region,ranks,runtime_s,useful_mean_s,useful_max_s,parallel_efficiency,load_balance,communication_efficiency,\
serialisation_efficiency,serialisation_low,serialisation_high,transfer_efficiency,transfer_low,transfer_high,not_measured_s,\
core_availability,core_availability_low,core_availability_high,parallel_low,parallel_high,load_balance_low,load_balance_high
(run),2,10.000000000,,,,,,,,,,,,,,,,,,,
solver,1,5.000000000,,,,,,,,,,,,,,,,,,,
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
        ..EndedIn::default()
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
    let warning = format!("Times do not include calls that were in progress when ranks ended. {place}");
    assert!(efficiency.contains(&warning), "{efficiency}");
    assert!(!efficiency.contains("waiting in MPI_Finalize"), "{efficiency}");
    let first = format!(
        "Note       The run ended without MPI_Finalize. Start with the last places of ranks. {place} Ranks \
         5,7 were in no MPI call.\nNote       Times are lower bounds. "
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
        .golden("efficiency-traffic_inside_of_nodes_is_apart_from_that_across");
    profile
        .run(&["locality", "app.mpisee", "--scattered", "--format", "csv"])
        .golden("efficiency-traffic_inside_of_nodes_is_apart_from_that_across-2");
    Builder::new(1)
        .write()
        .run(&["locality", "app.mpisee"])
        .golden("efficiency-traffic_inside_of_nodes_is_apart_from_that_across-3");
}

#[test]
fn factors_that_the_profile_does_not_tell_are_named_with_the_reason() {
    let profile = uneven().write();
    for format in ["table", "json"] {
        let ran = profile.run(&["efficiency", "app.mpisee", "--format", format]);
        let said = ran.exits(0).stdout.replace('\n', " ");
        assert!(said.contains("SerE and TE are unknown: "), "{said}");
        assert!(said.contains("has no samples of collective calls"), "{said}");
        assert!(said.contains("CA is unknown, and time without a core counts as useful."), "{said}");
    }
}
