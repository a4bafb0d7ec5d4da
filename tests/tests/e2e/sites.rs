//! Calls are counted by the places in the program that make them, and slow ones by their call
//! paths. Programs print their own lines.

mod hostile;
mod looked_past;
mod opened;
mod resolved;
mod swapped;

use mpisee_profile::Profile;
use mpisee_profile::SiteId;
use mpisee_profile::rows::{CallRow, PathRow, Row, SiteRow, StackRow};
use mpisee_tests::{Finished, Mpi, Run, case};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

fn all<R: Row>(directory: &Path) -> Vec<R> {
    let profile = Profile::open(directory).expect("a profile");
    let rows = profile.rows_if_any().expect("a table");
    rows.collect::<Result<_, _>>().expect("rows")
}

/// Function and line of each site in the program, by binutils.
fn resolved(sites: &[SiteRow], program: &Path) -> HashMap<SiteId, (String, u32)> {
    let own: Vec<&SiteRow> = sites.iter().filter(|site| Path::new(&site.module) == program).collect();
    let address = |site: &&SiteRow| {
        let after = u64::from_str_radix(site.offset.trim_start_matches("0x"), 16).expect("an address");
        format!("{:#x}", after - 1)
    };
    let output = Command::new("addr2line").arg("-fe").arg(program).args(own.iter().map(address)).output();
    let text = String::from_utf8(output.expect("binutils").stdout).expect("text");
    let mut lines = text.lines();
    let mut place = || {
        let (function, place) = (lines.next().expect("a function"), lines.next().expect("a line"));
        // What comes with the compiler, as `_start`, has no line.
        let line =
            place.rsplit(':').next().and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0);
        (function.to_owned(), line)
    };
    own.iter().map(|site| (site.site, place())).collect()
}

/// Calls of rank 0 by operation, function and line, as its program prints them.
fn printed(finished: &Finished) -> BTreeMap<(String, String, u32), u64> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [operation, function, line, calls] = words[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        ((operation.to_owned(), function.to_owned(), number(line) as u32), number(calls))
    };
    finished.stdout.lines().map(line).collect()
}

/// Calls of rank 0 by operation, function and line, in the profile.
fn counted(directory: &Path, program: &Path) -> BTreeMap<(String, String, u32), u64> {
    let places = resolved(&all::<SiteRow>(directory), program);
    let mut sums = BTreeMap::new();
    for row in all::<CallRow>(directory).iter().filter(|row| row.rank == 0) {
        let site = row.site.unwrap_or_else(|| panic!("{} on {} has no site", row.call, row.comm));
        let (function, line) = places.get(&site).unwrap_or_else(|| panic!("{} at {site}", row.call)).clone();
        *sums.entry((row.call.clone(), function, line)).or_default() += row.calls;
    }
    sums
}

/// The program, compiled with these options.
fn lines(mpi: &Mpi, options: &str) -> PathBuf {
    let words: Vec<&str> = options.split_whitespace().collect();
    mpi.compile_variant("sites/lines", &options.replace([' ', '-'], ""), &words)
}

/// Has holes between its segments, of which the loader has a range each then.
const WITH_HOLES: &str = "-O1 -pie -Wl,-z,max-page-size=65536";

#[case]
fn each_call_is_counted_at_its_line(mpi: &Mpi) {
    for how in ["-O2 -no-pie", "-O0 -pie", "-O3 -fomit-frame-pointer", WITH_HOLES] {
        let program = lines(mpi, how);
        let finished = Run::from_program(mpi, program.clone()).ranks(3).profiled();
        assert_eq!(counted(&finished.directory(), &program), printed(&finished), "{how}");
        finished.check();
    }
}

#[case]
fn sites_of_ranks_are_joined_wherever_their_binaries_are_loaded(mpi: &Mpi) {
    let program = lines(mpi, "-O2 -pie");
    let run = Run::from_program(mpi, program).ranks(3).argument("addresses");
    let finished = run.variable("MPISEE_COLLECT", "tree").profiled();
    let addresses = finished.stderr.lines().filter_map(|line| line.split_once("main at ")).map(|it| it.1);
    let addresses: BTreeSet<&str> = addresses.collect();
    let is_random = std::fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    let expected = if is_random.is_ok_and(|it| it.trim() != "0") { 3 } else { 1 };
    assert_eq!(addresses.len(), expected, "{addresses:?}");
    let sites_of = |rank: u32| {
        let rows = all::<CallRow>(&finished.directory());
        let site = |row: &CallRow| row.site.unwrap_or_else(|| panic!("{} has no site", row.call));
        let mut sites: Vec<_> =
            rows.iter().filter(|row| row.rank == rank).map(|row| (site(row), row.calls)).collect();
        sites.sort_unstable();
        sites
    };
    assert_eq!(sites_of(0), sites_of(2));
    let sites = all::<SiteRow>(&finished.directory());
    assert!(!sites.is_empty());
    let mut distinct: Vec<SiteId> = sites.iter().map(|row| row.site).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), sites.len(), "a row for each");
    finished.check();
}

#[case]
fn without_sites_calls_are_counted_together(mpi: &Mpi) {
    let program = lines(mpi, "-O2 -no-pie");
    let run = |most: &str| {
        Run::from_program(mpi, program.clone()).ranks(2).variable("MPISEE_SITES", most).profiled()
    };
    let (none, some, every) = (run("0"), run("3"), run("4096"));
    let rows = |finished: &Finished| all::<CallRow>(&finished.directory());
    assert!(rows(&none).iter().all(|row| row.site.is_none()));
    assert!(all::<SiteRow>(&none.directory()).is_empty() && all::<PathRow>(&none.directory()).is_empty());
    let key = |row: &CallRow| (row.comm.clone(), row.rank, row.call.clone(), row.size_min);
    let sums = |finished: &Finished| {
        let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for row in rows(finished) {
            let sum = sums.entry(key(&row)).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.bytes);
        }
        sums
    };
    assert_eq!(rows(&none).len(), sums(&none).len(), "one row for each");
    assert_eq!(sums(&none), sums(&every));
    assert_eq!(sums(&none), sums(&some));
    let with_site = rows(&some).into_iter().filter_map(|row| row.site.filter(|_| row.rank == 0));
    let mut with_site: Vec<SiteId> = with_site.collect();
    with_site.sort_unstable();
    with_site.dedup();
    assert_eq!(with_site.len(), 3);
    let notes = &some.tables().run.notes;
    for rank in 0..2 {
        let begin = format!("rank {rank} called MPI at ");
        let is_of_rank =
            |note: &String| note.starts_with(&begin) && note.contains("more places than the 3 that --sites");
        assert!(notes.iter().any(is_of_rank), "{notes:?}");
    }
}

#[case]
fn a_slow_call_has_its_whole_path(mpi: &Mpi) {
    for how in ["-O2 -no-pie", "-O0 -pie", "-O2 -fomit-frame-pointer -pie", WITH_HOLES] {
        let program = lines(mpi, how);
        // Walks may take a fiftieth of the time of slow calls. A walk that loses its core uses that
        // up for long.
        let is_found = [1, 4, 16].iter().any(|times| has_path_of_slow_call(mpi, &program, how, *times));
        assert!(is_found, "{how}: 16 slow calls, and none has a path");
    }
}

/// Returns whether one of the slow calls has a path, and asserts that the path is whole.
fn has_path_of_slow_call(mpi: &Mpi, program: &Path, how: &str, times: u32) -> bool {
    let finished =
        Run::from_program(mpi, program.to_owned()).ranks(2).argument("slow").argument(times).profiled();
    let directory = finished.directory();
    let places = resolved(&all::<SiteRow>(&directory), program);
    let stacks: HashMap<_, _> =
        all::<StackRow>(&directory).into_iter().map(|row| (row.path, row.sites)).collect();
    let functions = |row: &PathRow| -> Vec<String> {
        let sites = stacks[&row.path].split(' ').map(|site| site.parse().expect("a site"));
        sites.filter_map(|site: SiteId| Some(places.get(&site)?.0.clone())).collect()
    };
    finished.check();
    let paths = all::<PathRow>(&directory);
    let late = paths.iter().find(|row| row.call == "MPI_Barrier" && row.rank == 0 && row.time_s.0 > 0.1);
    let Some(late) = late else {
        mpisee_tests::note!("{how}: {paths:?}");
        return false;
    };
    assert_eq!(functions(late)[..3], ["arrive", "arrive_late", "has_waited"], "{how}");
    true
}

#[case]
fn calls_from_fortran_are_counted_at_their_lines(mpi: &Mpi) {
    for interface in ["MPIF_H", "USE_MPI", "USE_MPI_F08"] {
        let Some(program) = mpi.compile_fortran("sites/lines", interface) else { continue };
        let finished = Run::from_program(mpi, program.clone()).ranks(2).profiled();
        let directory = finished.directory();
        let lines = |counted: BTreeMap<(String, String, u32), u64>| {
            let place = |((call, _, line), calls): ((String, String, u32), u64)| ((call, line), calls);
            counted.into_iter().map(place).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(lines(counted(&directory, &program)), lines(printed(&finished)), "{interface}");
        finished.check();
    }
}

#[case]
fn a_walk_ends_where_the_stack_cannot_be_read(mpi: &Mpi) {
    let finished = Run::new(mpi, "sites/guarded_stacks").ranks(2).profiled();
    assert_eq!(finished.tables().of_rank("W", "MPI_Barrier", 1).calls, 20);
    let paths = all::<PathRow>(&finished.directory());
    assert!(paths.iter().any(|row| row.call == "MPI_Barrier" && row.rank == 1), "{paths:?}");
    finished.check();
}
