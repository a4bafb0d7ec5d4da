//! Named regions, and recording that is switched off and on.
use mpisee_tests::{LIMIT, Mpi, Place, Run, Tables, case, within};
use std::collections::{BTreeMap, BTreeSet};

/// In which region each MPI_Allreduce of `regions.c` is, by its bytes.
const WHERE: &[(u64, &str)] = &[
    (101, ""),
    (103, "solver"),
    (107, "solver/halo"),
    (109, "solver"),
    (113, ""),
    (127, "solver"),
    (131, "output/halo"),
    (137, "region 7"),
    (139, "region 65535/inner"),
    (149, "region 65535/inner"),
    (151, ""),
    (157, "read_write"),
    (163, "Löser, \"schnell\""),
    (167, ""),
    (179, "half seen"),
    (181, "open at the end"),
];

/// The number of times that each region begins.
const ENTRIES: &[(&str, u64)] = &[
    ("solver", 2),
    ("solver/halo", 1),
    ("output", 1),
    ("output/halo", 1),
    ("region 7", 1),
    ("region 65535", 1),
    ("region 65535/inner", 1),
    ("read_write", 1),
    ("Löser, \"schnell\"", 1),
    ("half seen", 1),
    ("open at the end", 1),
];

/// Calls and bytes of one rank's MPI_Allreduce, by region.
fn reductions(tables: &Tables, rank: u32) -> BTreeMap<&str, (u64, u64)> {
    let mut found: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in tables.calls.iter().filter(|row| row.call == "MPI_Allreduce" && row.rank == rank) {
        let sum = found.entry(&row.region).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.bytes);
    }
    found
}

#[case]
fn each_call_is_in_the_region_around_it(mpi: &Mpi) {
    let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for &(bytes, region) in WHERE {
        let sum = expected.entry(region).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let finished = Run::new(mpi, "regions/regions").ranks(2).profiled();
    for rank in 0..2 {
        assert_eq!(reductions(finished.tables(), rank), expected, "rank {rank}");
    }
    assert!(finished.tables().run.recording_was_off);
    finished.check();
}

#[case]
fn a_region_holds_the_time_of_those_inside_of_it(mpi: &Mpi) {
    let finished = Run::new(mpi, "regions/regions").ranks(2).profiled();
    let tables = finished.tables();
    for rank in 0..2 {
        let rows: BTreeMap<&str, _> = tables
            .regions
            .iter()
            .filter(|row| row.rank == rank)
            .map(|row| (row.region.as_str(), row))
            .collect();
        let entries: BTreeSet<_> = rows.values().map(|row| (row.region.as_str(), row.entries)).collect();
        assert_eq!(entries, ENTRIES.iter().copied().collect(), "rank {rank}");
        // The program sleeps for so long in there.
        let wall = |region: &str| rows[region].wall_s.0;
        assert!(wall("solver/halo") >= 0.02, "{:?}", rows["solver/halo"]);
        assert!(wall("solver") >= wall("solver/halo"), "{:?}", rows["solver"]);
        let cpu = |region: &str| rows[region].cpu_s.map(|cpu_s| cpu_s.0);
        assert!(cpu("solver/halo").unwrap() < wall("solver/halo") - 0.01, "it sleeps there");
        assert!(cpu("solver") >= cpu("solver/halo"), "{:?}", rows["solver"]);
        assert_eq!((cpu("open at the end"), rows["open at the end"].involuntary_switches), (None, None));
        assert!(wall("region 65535") >= wall("region 65535/inner"));
        assert!(wall("open at the end") > 0.0, "the end of the run ends it");
        let of_rank = tables.ranks.iter().find(|row| row.rank == rank).unwrap();
        for (&region, row) in &rows {
            let inside = |other: &str| other == region || other.starts_with(&format!("{region}/"));
            let calls = tables.calls.iter().filter(|row| row.rank == rank && inside(&row.region));
            let time: f64 = calls.map(|row| row.time_s.0).sum();
            assert!((row.mpi_s.0 - time).abs() < 1e-6, "{row:?}, and its calls took {time} s");
            assert!(row.mpi_s.0 <= row.wall_s.0, "{row:?}");
            assert!(row.wall_s.0 <= of_rank.wall_s.0, "{row:?} in {of_rank:?}");
        }
    }
}

#[case]
fn a_program_with_regions_runs_without_the_profiler(mpi: &Mpi) {
    let plain = Run::new(mpi, "regions/regions").ranks(2).plain();
    assert_eq!(plain.stdout, Run::new(mpi, "regions/regions").ranks(2).profiled().stdout);
}

#[case]
fn regions_are_in_the_stated_price(mpi: &Mpi) {
    // Each reads the use of cores twice, by system calls that take more than this.
    const LEAST_OF_ALL_S: f64 = 20_000.0 * 100e-9;
    let profiler = Run::new(mpi, "regions/many_regions").ranks(1).profiled().tables().run.profiler.clone();
    assert!(profiler.sampled_calls >= 8 && profiler.low_s > LEAST_OF_ALL_S, "{profiler:?}");
}

#[case]
fn recording_that_starts_off_is_switched_on_by_the_program(mpi: &Mpi) {
    let finished = Run::new(mpi, "regions/record_later").ranks(2).options(&["--record", "off"]).profiled();
    let tables = finished.tables();
    assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 2 * 223);
    // It was created while recording was off, and has its name all the same.
    assert_eq!(tables.sum("W_d1", "MPI_Allreduce").bytes, 2 * 227);
    assert_eq!(tables.sum("W", "MPI_Comm_dup").calls, 0);
    assert!(tables.run.recording_was_off);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
    finished.check();
}

#[case]
fn recording_stops_where_the_program_says_so(mpi: &Mpi) {
    let finished = Run::new(mpi, "regions/record_later").ranks(2).profiled();
    let tables = finished.tables();
    assert_eq!(tables.sum("W", "MPI_Allreduce").bytes, 2 * (211 + 223));
    assert_eq!(tables.sum("W_d1", "MPI_Allreduce").bytes, 2 * 227);
    assert!(tables.run.recording_was_off);
    finished.check();
}

/// Asserts what `beyond_limits.c` has on each rank: 1638 regions `step/step/…`, the most for which
/// a path has room, two with names that are cut, and one of no name.
fn assert_beyond_limits(tables: &Tables) {
    const MOST_BYTES: usize = 8192;
    for rank in 0..2 {
        let of_rank = |row: &&mpisee_profile::rows::RegionRow| row.rank == rank;
        let paths: BTreeSet<&str> =
            tables.regions.iter().filter(of_rank).map(|row| row.region.as_str()).collect();
        let cut: Vec<&&str> = paths.iter().filter(|path| path.starts_with("rrr")).collect();
        assert!(cut.iter().all(|path| path.len() == MOST_BYTES && path.contains('…')), "rank {rank}");
        assert_eq!((cut.len(), paths.contains("_")), (2, true), "rank {rank}");
        assert_eq!(paths.len(), (MOST_BYTES + 1) / "/step".len() + 3, "rank {rank}");
        let in_steps = tables.calls.iter().filter(|row| row.rank == rank && row.region.starts_with("step"));
        assert_eq!(in_steps.map(|row| row.calls).sum::<u64>(), 2000, "rank {rank}: no call is lost");
        let said = format!("rank {rank} has regions that are counted in the region around them");
        assert!(tables.run.notes.iter().any(|note| note.starts_with(&said)), "{:?}", tables.run.notes);
    }
}

#[case]
fn regions_beyond_the_limits_are_cut_or_joined(mpi: &Mpi) {
    let finished = Run::new(mpi, "regions/beyond_limits").ranks(2).profiled();
    assert_beyond_limits(finished.tables());
    finished.check();
}

#[case]
fn regions_beyond_the_limits_are_recovered(mpi: &Mpi) {
    let place = Place::new();
    let mut command = place.command(mpi, 2);
    command.arg(mpi.compile("regions/beyond_limits")).arg("dies");
    assert!(!within(LIMIT, &mut command).status.success());
    place.wait_for_ranks(&[]);
    place.recover(&["--output", "recovered"]);
    assert_beyond_limits(&place.tables("recovered.mpisee"));
}
