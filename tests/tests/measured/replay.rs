//! `mpisee-bench --like`: the communication of a program, with the calls and bytes of its profile,
//! and where its time goes.

use mpisee_profile::network::{Network, Replay};
use mpisee_tests::bench::{bench, has_bench};
use mpisee_tests::{Mpi, Run, case, through};
use std::collections::BTreeSet;

/// Places of the grid along each axis, and transforms there and back.
const GRID: u64 = 32;
const STEPS: u64 = 25;
const RANKS: u32 = 4;
/// A block goes to each rank of a row or a column of two: half of the numbers of 16 bytes of a
/// quarter of the grid.
const BLOCK: u64 = GRID * GRID * GRID / 4 / 2 * 16;

/// A three-dimensional FFT exchanges its axes by MPI_Alltoall within rows and columns of its ranks.
/// The replay has the same calls on the same members with the same bytes, all rows at once and all
/// columns at once, and the parts of the time add up to it.
#[case(only = has_bench)]
fn the_exchanges_of_a_transform_are_replayed(mpi: &Mpi) {
    let program = mpi.compile_with("replay/transform", &["-lm"]);
    let run = Run::from_program(mpi, program).ranks(RANKS).argument(GRID).argument(STEPS);
    let program = run.profiled();
    program.check();
    let directory = program.directory();
    let network = program.place.path("network.json");
    let words = format!("--like {} --output {}", directory.display(), network.display());
    let replayed = bench(mpi, &words).profiled();
    let read = Network::read(&network).unwrap();
    let exchanges: Vec<&Replay> = read.replays.iter().filter(|it| it.call == "MPI_Alltoall").collect();
    let [of_program, of_replay] = [program.tables(), replayed.tables()];
    // Each of the two families has two communicators of two ranks, which exchange axes twice in a
    // step.
    assert_eq!(exchanges.len(), 2, "{:?}", read.replays);
    for replay in &exchanges {
        assert_eq!((replay.bytes, replay.comms.len(), replay.ranks), (BLOCK, 2, RANKS), "{replay:?}");
        assert_eq!(replay.calls, u64::from(RANKS) * 2 * STEPS);
        let rows = of_program
            .calls
            .iter()
            .filter(|row| row.call == "MPI_Alltoall" && replay.comms.contains(&row.comm));
        let (calls, bytes) = rows.fold((0, 0), |sum, row| (sum.0 + row.calls, sum.1 + row.bytes));
        assert_eq!((calls, bytes), (replay.calls, replay.calls * 2 * BLOCK), "{replay:?}");
        assert!(replay.alone_s > 0.0 && replay.together_s > 0.0, "{replay:?}");
    }
    let exchanging = |tables: &mpisee_tests::Tables| -> BTreeSet<String> {
        let rows = tables.calls.iter().filter(|row| row.call == "MPI_Alltoall");
        rows.map(|row| tables.comm(&row.comm).members.to_string()).collect()
    };
    assert_eq!(exchanging(of_replay), exchanging(of_program));
    assert_eq!(exchanging(of_program).len(), 4);
    let rows = of_replay.calls.iter().filter(|row| row.call == "MPI_Alltoall");
    assert!(rows.clone().count() > 0);
    rows.for_each(|row| assert_eq!(row.bytes, row.calls * 2 * BLOCK, "{row:?}"));
    compare(&directory.display().to_string(), &network.display().to_string());
}

/// The parts of the time of each exchange add up to the time of the profile; those of the network
/// are not known where other processes disturbed the replay.
fn compare(profile: &str, network: &str) {
    let output = through(&["compare-network", profile, network, "--format", "csv"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().expect("there is a header");
    let known = |row: &[&str], name: &str| -> Option<f64> {
        let at = heads.iter().position(|&head| head == name).unwrap_or_else(|| panic!("{name} in {heads:?}"));
        let is_known = !row[at].is_empty();
        is_known.then(|| row[at].parse().unwrap_or_else(|_| panic!("{name} of {row:?}")))
    };
    let rows: Vec<Vec<&str>> = lines.filter(|row| row.contains(&"MPI_Alltoall")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    for row in &rows {
        let parts = ["waiting_s", "network_s", "siblings_s", "not_explained_s"].map(|name| known(row, name));
        let time_s = known(row, "time_s").unwrap_or_default();
        assert!(time_s > 0.0 && parts[1].is_none_or(|network_s| network_s > 0.0), "{text}");
        assert_eq!(parts[1].is_some(), parts[2].is_some(), "{text}");
        assert!((parts.iter().flatten().sum::<f64>() - time_s).abs() < 1e-6 * time_s.max(1.0), "{text}");
    }
    mpisee_tests::note!("{text}");
}
