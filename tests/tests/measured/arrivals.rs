//! When the members of a communicator entered and left its collective calls.

use mpisee_profile::rows::{ArrivalRow, CollectiveRow};
use mpisee_tests::{Finished, LIMIT, Mpi, Place, Run, Tables, case, within};
use std::collections::{BTreeMap, BTreeSet};

const RANKS: u32 = 3;
const LATE: u64 = 60;
const OFF: std::ops::Range<u64> = 20..27;
const LATE_S: f64 = 0.01;
const MANY: u64 = 400;

fn run(mpi: &Mpi, settings: &[(&str, &str)]) -> Finished {
    let run = Run::new(mpi, "waits/arrivals").ranks(RANKS);
    settings.iter().fold(run, |run, (name, value)| run.variable(name, value)).profiled()
}

/// The rows of an operation on a communicator, by instance and rank.
fn instances(tables: &Tables, comm: &str, call: &str) -> BTreeMap<u64, BTreeMap<u32, ArrivalRow>> {
    let mut instances: BTreeMap<u64, BTreeMap<u32, ArrivalRow>> = BTreeMap::new();
    for row in tables.arrivals.iter().filter(|row| row.comm == comm && row.call == call) {
        let known = instances.entry(row.instance).or_default().insert(row.rank, row.clone());
        assert_eq!(known, None, "each rank has one row of an instance");
    }
    instances
}

fn collective<'t>(tables: &'t Tables, comm: &str, call: &str, rank: u32) -> &'t CollectiveRow {
    let is_it = |row: &&CollectiveRow| row.comm == comm && row.call == call && row.rank == rank;
    tables.collectives.iter().find(is_it).expect("the rank has a row")
}

/// Nobody leaves an `MPI_Allreduce` before all have entered it, and the rank that is late enters
/// last.
fn is_in_order(tables: &Tables) {
    let instances = instances(tables, "W", "MPI_Allreduce");
    assert!(instances.keys().copied().eq(0..LATE));
    let (mut whole, mut by_the_late) = (0, 0);
    for (instance, rows) in instances {
        let ranks: Vec<u32> = rows.keys().copied().collect();
        if OFF.contains(&instance) {
            assert_eq!(ranks, [0, 2], "{instance}");
            continue;
        }
        assert_eq!(ranks, [0, 1, 2], "{instance}");
        let last = rows.values().max_by(|one, other| one.arrival_s.0.total_cmp(&other.arrival_s.0));
        let last = last.expect("there are rows");
        for row in rows.values() {
            assert!(row.arrival_s < row.departure_s && row.root.is_none(), "{row:?}");
            assert!(row.departure_s.0 > last.arrival_s.0 - 1e-6, "{row:?} left before {last:?}");
        }
        whole += 1;
        let first = rows.values().map(|row| row.arrival_s.0).fold(f64::MAX, f64::min);
        by_the_late +=
            u64::from(u64::from(last.rank) == instance % 3 && last.arrival_s.0 - first > LATE_S / 2.0);
    }
    assert_eq!(whole, LATE - OFF.count() as u64);
    // A machine that is busy with other things may hold another rank for longer; numbers that are
    // off show in most.
    assert!(by_the_late * 4 > whole * 3, "{by_the_late} of {whole}");
}

#[case]
fn instances_have_the_same_number_on_all_members(mpi: &Mpi) {
    for collect in ["auto", "tree"] {
        let finished = run(mpi, &[("MPISEE_COLLECT", collect)]);
        let tables = finished.tables();
        is_in_order(tables);
        for rank in 0..RANKS {
            let row = collective(tables, "W", "MPI_Allreduce", rank);
            let off = if rank == 1 { OFF.count() as u64 } else { 0 };
            assert_eq!((row.instances, row.sampled), (LATE, LATE - off));
            let own = tables.arrivals.iter().filter(|row| row.rank == rank && row.call == "MPI_Allreduce");
            let own: Vec<&ArrivalRow> = own.collect();
            let mean = |time: fn(&ArrivalRow) -> f64| {
                own.iter().map(|row| time(row)).sum::<f64>() / own.len() as f64
            };
            assert!((row.mean_arrival_s.0 - mean(|row| row.arrival_s.0)).abs() < 1e-6, "{row:?}");
            assert!((row.mean_departure_s.0 - mean(|row| row.departure_s.0)).abs() < 1e-6, "{row:?}");
        }
    }
}

#[case]
fn a_call_says_how_many_operations_it_completed(mpi: &Mpi) {
    let finished = run(mpi, &[]);
    let tables = finished.tables();
    let of = |call: &str| instances(tables, "W", call);
    let at_once = of("MPI_Iallreduce");
    assert!(at_once.keys().copied().eq(0..3));
    for rank in 0..RANKS {
        let rows: Vec<&ArrivalRow> = at_once.values().map(|rows| &rows[&rank]).collect();
        for row in &rows {
            // With the message to itself, whose send may have been complete before.
            assert!([Some(4), Some(5)].contains(&row.completed), "{row:?}");
            assert_eq!((row.arrival_s, row.departure_s), (rows[0].arrival_s, rows[0].departure_s));
            assert!(row.started_s.is_some_and(|started_s| started_s < row.arrival_s), "{row:?}");
        }
    }
    assert!(of("MPI_Ibarrier")[&0].values().all(|row| row.completed == Some(1)));
    assert!(of("MPI_Barrier").values().flat_map(BTreeMap::values).all(|row| row.completed.is_none()));
}

#[case]
fn arrivals_of_an_aborted_run_are_on_one_clock(mpi: &Mpi) {
    let place = Place::new();
    let mut command = place.command(mpi, RANKS);
    command.arg(mpi.compile("waits/arrivals")).arg("abort");
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    place.recover(&["--output", "aborted.mpisee", "--clean"]);
    is_in_order(&place.tables("aborted.mpisee"));
}

#[case]
fn a_root_has_its_rank_in_the_world(mpi: &Mpi) {
    let finished = run(mpi, &[]);
    let tables = finished.tables();
    let comm = &tables.comms.iter().find(|row| row.members.to_string() == "0,2").expect("it is there").comm;
    let instances = instances(tables, comm, "MPI_Bcast");
    let roots: Vec<_> = instances[&0].values().map(|row| (row.rank, row.root)).collect();
    assert_eq!((instances.len(), roots), (1, vec![(0, Some(2)), (2, Some(2))]));
}

#[case]
fn persistent_collectives_have_their_root(mpi: &Mpi) {
    let finished = run(mpi, &[]);
    let instances = instances(finished.tables(), "W", "MPI_Bcast_init");
    assert!(instances.keys().copied().eq(0..3));
    let rows = instances.values().flat_map(BTreeMap::values);
    assert!(
        rows.clone().all(|row| row.root == Some(1) && row.completed == Some(1)),
        "{:?}",
        rows.collect::<Vec<_>>()
    );
}

#[case]
fn all_members_keep_the_same_instances(mpi: &Mpi) {
    for (option, least, most) in [("16", 3, 16), ("256", 64, 256), ("all", MANY, MANY)] {
        let finished = run(mpi, &[("MPISEE_INSTANCES", option)]);
        let tables = finished.tables();
        let kept = instances(tables, "W", "MPI_Barrier");
        assert!((least..=most).contains(&(kept.len() as u64)), "{option}: {}", kept.len());
        assert!(kept.values().all(|rows| rows.len() == RANKS as usize), "{option}");
        for rank in 0..RANKS {
            let row = collective(tables, "W", "MPI_Barrier", rank);
            assert_eq!((row.instances, row.sampled), (MANY, kept.len() as u64));
        }
    }
}

#[case]
fn who_exchanges_nothing_with_another_keeps_no_sample(mpi: &Mpi) {
    let finished = run(mpi, &[]);
    let kept = instances(finished.tables(), "W", "MPI_Alltoallv");
    let ranks: Vec<Vec<u32>> = kept.values().map(|rows| rows.keys().copied().collect()).collect();
    let all: Vec<u32> = (0..RANKS).collect();
    assert_eq!(ranks, [all.clone(), all[1..all.len() - 1].to_vec(), all]);
}

#[case]
fn nothing_is_kept_where_nobody_waits_or_dependencies_are_unknown(mpi: &Mpi) {
    let finished = run(mpi, &[]);
    let tables = finished.tables();
    let kept: BTreeSet<(&str, &str)> =
        tables.collectives.iter().map(|row| (row.comm.as_str(), row.call.as_str())).collect();
    let on_world = kept.iter().filter(|(comm, _)| *comm == "W").map(|(_, call)| *call);
    let known =
        ["MPI_Allreduce", "MPI_Alltoallv", "MPI_Barrier", "MPI_Bcast_init", "MPI_Iallreduce", "MPI_Ibarrier"];
    assert!(on_world.eq(known), "{kept:?}");
    assert_eq!(kept.len(), 7, "{kept:?}");
    let finished = run(mpi, &[("MPISEE_INSTANCES", "0")]);
    let tables = finished.tables();
    assert!(tables.arrivals.is_empty() && tables.collectives.is_empty());
    assert!(!finished.directory().join("arrivals.csv").exists());
}
