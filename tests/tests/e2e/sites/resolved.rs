//! Functions and lines that `mpisee-through sites` shows, of programs that are built in several
//! ways. The programs' sources have remarks at their calls.

use super::all;
use mpisee_profile::rows::{CallRow, SiteRow};
use mpisee_profile::segment::log::MOST_PATH_FRAMES;
use mpisee_tests::{Finished, LIMIT, Mpi, Run, case, dist, root, within};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A place, as JSON has it.
#[derive(Debug)]
struct Place {
    call: String,
    /// `FUNCTION at FILE:LINE`, with those into which it is inlined.
    at: String,
    calls: u64,
    chosen: String,
}

/// The places of the calls of some operations.
fn places(finished: &Finished, debug_folder: Option<&Path>, operations: &[&str]) -> Vec<Place> {
    let mut command = Command::new(dist().join("bin/mpisee-through"));
    command.arg("sites").arg(finished.directory()).args(["--format", "json"]);
    command.env_remove("MPISEE_DEBUGINFO");
    if let Some(folder) = debug_folder {
        command.env("MPISEE_DEBUGINFO", folder);
    }
    let output = within(LIMIT, &mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let place = |row: &Value| Place {
        call: row["call"].as_str().expect("a text").to_owned(),
        at: row["at"].as_str().expect("a text").to_owned(),
        calls: row["calls"].as_u64().expect("a number"),
        chosen: row["chosen"].as_str().unwrap_or_default().to_owned(),
    };
    let all = document["sites"].as_array().expect("a list").iter().map(place);
    all.filter(|place| operations.contains(&place.call.as_str())).collect()
}

/// The place of the only row of an operation.
fn only<'p>(places: &'p [Place], call: &str) -> &'p Place {
    let found: Vec<&Place> = places.iter().filter(|place| place.call == call).collect();
    let [place] = found[..] else { panic!("{call}: {places:?}") };
    place
}

/// `FUNCTION at FILE:LINE`, the line of `tests/programs/sites/FILE` that has this remark.
pub fn at(function: &str, file: &str, remark: &str) -> String {
    let text = std::fs::read_to_string(root().join("tests/programs/sites").join(file)).expect("it is there");
    let line = text.lines().position(|line| line.contains(remark)).expect("the remark is there") + 1;
    format!("{function} at {file}:{line}")
}

/// The paths to an operation, each from its innermost function on.
pub fn paths(finished: &Finished, call: &str) -> Vec<String> {
    let directory = finished.directory().display().to_string();
    let output = mpisee_tests::through(&["paths", &directory, "--call", call, "--all", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = document["paths"].as_array().expect("a list").iter();
    rows.map(|row| row["frames"].as_str().expect("a text").to_owned()).collect()
}

#[case]
fn outer_functions_of_deep_stacks_are_named_as_not_kept(mpi: &Mpi) {
    let finished = Run::from_program(mpi, mpi.compile("sites/deep")).ranks(2).profiled();
    let directory = finished.directory().display().to_string();
    let output = mpisee_tests::through(&["paths", &directory, "--call", "barrier", "--folded", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it is text");
    let stacks: Vec<&str> = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    let whole = format!("main;{}MPI_Barrier", "down;".repeat(41));
    let deep = format!("(outer functions not kept);{}MPI_Barrier", "down;".repeat(MOST_PATH_FRAMES));
    assert!(stacks.contains(&whole.as_str()) && stacks.contains(&deep.as_str()), "{text}");
    assert!(!stacks.iter().any(|stack| stack.starts_with("down;")), "{text}");
    finished.check();
}

const RANKS: u32 = 2;
const CALLS: u64 = 10 * RANKS as u64;

/// `sites/resolved`, with the library that it opens.
fn run(mpi: &Mpi, how: &str) -> Finished {
    let library = mpi.compile_variant("sites/resolved_library", "shared", &["-O2", "-shared", "-fPIC"]);
    run_with_library(mpi, how, &library)
}

/// `sites/resolved`, with this library to open.
pub fn run_with_library(mpi: &Mpi, how: &str, library: &Path) -> Finished {
    let options: Vec<&str> = how.split(' ').chain(["-ldl"]).collect();
    let program = mpi.compile_variant("sites/resolved", &how.replace([' ', '-'], ""), &options);
    Run::from_program(mpi, program).ranks(RANKS).argument(library.display()).profiled()
}

#[case]
fn inlined_functions_tail_calls_and_opened_libraries_are_at_their_lines(mpi: &Mpi) {
    for how in ["-O2 -no-pie", "-O2 -pie -fPIE"] {
        let finished = run(mpi, how);
        let found = places(&finished, None, &["MPI_Allreduce", "MPI_Bcast", "MPI_Allgather"]);
        let inlined =
            [("innermost", "innermost calls"), ("middle", "middle calls"), ("outermost", "outermost calls")];
        let inlined = inlined.map(|(function, remark)| at(function, "resolved.c", remark)).join(" < ");
        assert_eq!(only(&found, "MPI_Allreduce").at, inlined, "{how}");
        assert_eq!(only(&found, "MPI_Bcast").at, at("calls_tail", "resolved.c", "calls_tail calls"), "{how}");
        let in_library = at("gather_in_library", "resolved_library.c", "the library calls");
        assert_eq!(only(&found, "MPI_Allgather").at, in_library, "{how}");
        assert!(found.iter().all(|place| place.calls == CALLS && place.chosen == "innermost"), "{found:?}");
        let main = at("main", "resolved.c", "main calls the library");
        assert!(paths(&finished, "allgather").contains(&format!("{in_library} < {main}")), "{how}");
        let through_inlined = paths(&finished, "allreduce");
        assert!(through_inlined.iter().any(|path| path.starts_with(&inlined)), "{through_inlined:?}");
        finished.check();
    }
}

#[case]
fn templates_and_lambdas_are_at_their_lines(mpi: &Mpi) {
    let Some(program) = mpi.compile_cpp("sites/templates") else { return };
    let finished = Run::from_program(mpi, program).ranks(RANKS).profiled();
    let found = places(&finished, None, &["MPI_Sendrecv", "MPI_Allreduce"]);
    let run_calls = at("", "templates.cpp", "// run calls");
    for instance in ["halo::Exchange<double, 5>::run", "halo::Exchange<char, 7>::run"] {
        let is_it = |place: &&Place| place.at.starts_with(instance) && place.at.ends_with(&run_calls);
        assert_eq!(found.iter().find(is_it).map(|place| place.calls), Some(CALLS), "{instance}: {found:?}");
    }
    let lambda = only(&found, "MPI_Allreduce");
    assert!(lambda.at.contains(&at("", "templates.cpp", "// the lambda calls")), "{lambda:?}");
    let slow = paths(&finished, "sendrecv");
    let main = at("main", "templates.cpp", "// main exchanges doubles");
    assert!(
        slow.iter().any(|path| path.contains("Exchange<double, 5>") && path.ends_with(&main)),
        "{slow:?}"
    );
    finished.check();
}

/// Runs a tool of binutils.
fn objcopy(arguments: &[&Path], options: &[&str]) {
    let output = Command::new("objcopy").args(options).args(arguments).output().expect("binutils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The build ID of a program, by binutils.
fn build_id(program: &Path) -> String {
    let output = Command::new("readelf").arg("-n").arg(program).output().expect("binutils");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: ").map(str::to_owned));
    line.unwrap_or_else(|| panic!("no build ID in {text}"))
}

#[case]
fn a_stripped_program_has_lines_by_its_separate_debug_file(mpi: &Mpi) {
    let whole = mpi.compile_variant("sites/resolved", "separate", &["-O2", "-ldl", "-Wl,--build-id"]);
    let stripped = whole.with_extension("stripped");
    objcopy(&[&whole, &stripped], &["--strip-all"]);
    let finished = Run::from_program(mpi, stripped.clone()).ranks(RANKS).profiled();
    let folder = finished.place.path("debug");
    let id = build_id(&stripped);
    let debug_file = folder.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    std::fs::create_dir_all(debug_file.parent().expect("a folder")).expect("it can be made");
    objcopy(&[&whole, &debug_file], &["--only-keep-debug"]);
    let without = places(&finished, None, &["MPI_Bcast"]);
    let address = format!("{}+0x", stripped.file_name().expect("a file").to_string_lossy());
    assert!(only(&without, "MPI_Bcast").at.starts_with(&address), "{without:?}");
    let with = places(&finished, Some(&folder), &["MPI_Bcast", "MPI_Allreduce"]);
    assert_eq!(only(&with, "MPI_Bcast").at, at("calls_tail", "resolved.c", "calls_tail calls"));
    let inlined = only(&with, "MPI_Allreduce");
    assert!(inlined.at.ends_with(&at("outermost", "resolved.c", "outermost calls")), "{inlined:?}");
    finished.check();
}

/// The calls of `MPI_Allgather` of a rank, by the file name of the library that makes them.
fn gathered(finished: &Finished, rank: u32) -> BTreeMap<String, Vec<u64>> {
    let directory = finished.directory();
    let modules: BTreeMap<_, _> =
        all::<SiteRow>(&directory).into_iter().map(|row| (row.site, row.module)).collect();
    let mut calls: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in all::<CallRow>(&directory) {
        if row.call == "MPI_Allgather" && row.rank == rank {
            let module =
                row.site.map_or("none", |site| modules[&site].rsplit('/').next().unwrap_or_default());
            calls.entry(module.to_owned()).or_default().push(row.calls);
        }
    }
    calls
}

#[case]
fn a_library_at_the_addresses_of_another_has_sites_of_its_own(mpi: &Mpi) {
    in_turn_at_one_place(mpi, "", &[]);
}

#[case]
fn libraries_that_were_given_one_build_id_have_sites_of_their_own(mpi: &Mpi) {
    in_turn_at_one_place(mpi, "id", &["-Wl,--build-id=0x5a17e5"]);
}

/// Loads a library, then another one whose call has the same address in the file.
fn in_turn_at_one_place(mpi: &Mpi, how: &str, options: &[&str]) {
    let shared = [&["-O2", "-shared", "-fPIC"], options].concat();
    let library = |variant: &str, options: &[&str]| {
        mpi.compile_variant("sites/resolved_library", &format!("{variant}{how}"), options)
    };
    let first = library("shared", &shared);
    let second = library("second", &[&shared[..], &["-DSECOND"]].concat());
    let program = mpi.compile_variant("sites/reloaded", "reloading", &["-O2", "-ldl"]);
    let run =
        Run::from_program(mpi, program).ranks(RANKS).argument(first.display()).argument(second.display());
    let finished = run.profiled();
    // Sums, sites and paths agree, wherever the loader put the libraries.
    finished.check();
    let second = second.file_name().expect("it has a name").to_string_lossy().into_owned();
    let calls = gathered(&finished, 0);
    assert_eq!(calls.values().flatten().sum::<u64>(), 30, "{calls:?}");
    assert!(
        calls.values().all(|rows| rows.len() == 1),
        "a site has one row, however often it was loaded: {calls:?}"
    );
    let second = calls[&second][0];
    match finished.stdout.trim() {
        // The call in which it was noticed is at the first one's site, and fast ones before that.
        "replaced" => assert!((1..10).contains(&second), "{calls:?}"),
        "elsewhere" => assert_eq!(second, 10, "{calls:?}"),
        other => panic!("'{other}'"),
    }
}
