//! `sites` and `paths`: places in the program, tables and resolution.

mod aggregate;
mod resolution;
mod skip_list;

use crate::support::{Builder, solver, splatt};
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, Seconds};

#[test]
fn places_come_by_time() {
    let profile = solver().write();
    for width in [70, 150] {
        profile.golden_at(width, "sites-solver", &["sites", "app.mpisee"]);
    }
    profile.run(&["sites", "app.mpisee", "--format", "csv"]).golden("sites-solver.csv");
    profile.run(&["sites", "app.mpisee", "--format", "json", "--top", "1"]).golden("sites-solver.json");
}

#[test]
fn long_places_hide_no_communicator_and_no_calls() {
    let mut profile = Builder::new(2);
    let long = profile.line(
        "Grid<double, Layout<3, Periodic>, Halo<2>>::exchange_all_of_the_faces_and_corners",
        "grid.hpp",
        411,
    );
    for rank in 0..2 {
        profile = profile.call_with("W", rank, "MPI_Allgatherv", 9, 72, 1.0, |row| row.site = Some(long));
    }
    let written = profile.write();
    for (width, hidden) in
        [("80", "Ranks, Longest call, Volume, Per call."), ("120", "Ranks, Longest call."), ("150", "")]
    {
        let ran = written.run(&["sites", "app.mpisee", "--width", width]);
        let heading = ran.exits(0).stdout.lines().next().unwrap();
        for column in ["AT", "CALL", "COMM", "Mean/rank", "% of MPI", "Calls"] {
            assert!(heading.contains(column), "{width} {column}: {}", ran.stdout);
        }
        let said = ran.stdout.lines().find_map(|line| line.strip_prefix("Hidden (terminal too narrow): "));
        assert_eq!(said.unwrap_or_default(), hidden, "{}", ran.stdout);
    }
}

#[test]
fn communicators_are_shortened_before_shares_are_hidden() {
    let mut profile = Builder::new(4);
    for (half, members) in [(0, "0-1"), (2, "2-3")] {
        for last in [3, 5] {
            let (parent, comm) = (format!("W_s1.{half}_s1.0"), format!("W_s1.{half}_s1.0_s{last}.0"));
            profile = profile.comm(&comm, &parent, "MPI_Comm_split", members, |_| {});
        }
        let parent = format!("W_s1.{half}");
        profile = profile.comm(&parent, "W", "MPI_Comm_split", members, |_| {});
        profile = profile.comm(&format!("{parent}_s1.0"), &parent, "MPI_Comm_split", members, |_| {});
    }
    let fft = profile.line("fft_scatter", "fft.f90", 411);
    for rank in 0..4 {
        for last in [3, 5] {
            let comm = format!("W_s1.{}_s1.0_s{last}.0", rank / 2 * 2);
            let at = |row: &mut mpisee_profile::rows::CallRow| row.site = Some(fft);
            profile = profile.call_with(&comm, rank, "MPI_Alltoall", 9, 72, 1.0, at);
        }
    }
    let written = profile.write();
    for (width, comms, hidden) in [
        (100, "W_s…*…3.0 (2 × 2) +1", "Ranks, Longest call, Volume, Per call."),
        (80, "W…*…0 (2 × 2) +1", "Ranks, Longest call, Volume, Per call, Max/rank."),
    ] {
        let ran = written.run(&["sites", "app.mpisee", "--width", &width.to_string()]);
        let shown = &ran.exits(0).stdout;
        assert!(shown.contains(comms), "{shown}");
        assert!(shown.contains(&format!("Hidden (terminal too narrow): {hidden}\n")), "{shown}");
    }
    let ran = written.run(&["sites", "app.mpisee"]);
    let whole = "W_s1.*_s1.0_s3.0 (2 × 2), W_s1.*_s1.0_s5.0 (2 × 2)";
    assert!(ran.exits(0).stdout.contains(whole), "{}", ran.stdout);
}

#[test]
fn all_orders_are_by_their_key() {
    let profile = solver().write();
    let calls = |key: &str| -> Vec<String> {
        let ran = profile.run(&["sites", "app.mpisee", "--format", "csv", "--sort", key]);
        let rows = ran.exits(0).stdout.lines().skip(1);
        rows.map(|row| row.split(',').next().unwrap().split(' ').next().unwrap().to_owned()).collect()
    };
    let first = |key: &str| calls(key)[..3].join(" ");
    assert_eq!(first("time"), "exchange Comm::sum write_results");
    assert_eq!(first("max"), "exchange Comm::sum write_results");
    assert_eq!(first("calls"), "Comm::sum exchange exchange_corners");
    assert_eq!(first("longest"), "exchange Comm::sum exchange_corners");
    assert_eq!(first("name"), "(not Comm::sum exchange");
}

#[test]
fn callers_of_named_functions_are_shown_where_they_are_known() {
    let profile = solver().write();
    profile
        .run(&["sites", "app.mpisee", "--skip-frames", "Comm::*", "--skip-frames", "exchange*"])
        .golden("sites-skipped");
}

#[test]
fn reasons_for_unknown_callers_are_given() {
    let profile = solver().write();
    let ran = profile.run(&["sites", "app.mpisee", "--call", "*write*"]);
    let said = "the caller is not known, since the path was not taken (the call was too short, or walks had used up their 2 % of the time \
                of slow calls) or ends in the library: the innermost function is shown.\n";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    let ran = profile.run(&["sites", "app.mpisee", "--call", "*write*", "--memory", "host"]);
    let said = "the caller is not known, since paths have no regions, sizes and kinds of memory: the innermost function is shown.\n";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
}

/// Calls in an extension of Python have the line of Python that called it, where that is on the
/// path. A library of a program in C stays.
#[test]
fn extensions_of_python_are_looked_past_to_the_line_that_calls_them() {
    let mut profile = Builder::new(2);
    let extension =
        profile.site("/v/lib/python3.12/site-packages/_gpaw.cpython-312-x86_64-linux-gnu.so", "ab77", 0x2f0);
    let library = profile.site("/opt/app/lib/libgpaw.so", "cd77", 0x3a0);
    let line = profile.line_of_python("integrate", "/home/me/density.py", 88);
    for (inner, call, [calls, on_path]) in
        [(extension, "MPI_Allreduce", [17, 11]), (library, "MPI_Barrier", [13, 13])]
    {
        for rank in 0..2 {
            profile.path("W", rank, call, on_path, 2.0, &[inner, line]);
            profile = profile.call_with("W", rank, call, calls, 8 * calls, 2.5, |row| row.site = Some(inner));
        }
    }
    let ran = profile.write().run(&["sites", "app.mpisee", "--format", "csv"]);
    let found: Vec<[&str; 3]> = ran
        .exits(0)
        .stdout
        .lines()
        .skip(1)
        .map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            [cells[0], cells[1], cells[9]]
        })
        .collect();
    let expected = [
        ["libgpaw.so+0x3a0", "MPI_Barrier", "26"],
        ["integrate at density.py:88 (by _gpaw)", "MPI_Allreduce", "22"],
        ["_gpaw.cpython-312-x86_64-linux-gnu.so+0x2f0 (caller not known)", "MPI_Allreduce", "12"],
    ];
    assert_eq!(found, expected, "{}", ran.stdout);
}

#[test]
fn patterns_that_match_no_frame_are_refused() {
    let profile = solver().write();
    let there_is = "the profile has Comm::sum, exchange, exchange_corners, main, step, write_results in app, libhdf5_openmpi.so.103, \
                    libtools.so";
    for (pattern, meant) in
        [("Comm", "did you mean Comm::sum? "), ("halo.c", ""), ("stepp", "did you mean step? ")]
    {
        let said = format!("no function or library matches --skip-frames '{pattern}'; {meant}{there_is}");
        for command in ["sites", "paths"] {
            profile
                .run(&[command, "app.mpisee", "--skip-frames", "step", "--skip-frames", pattern])
                .fails_with(&[&said]);
        }
        profile.run(&["diff", "app.mpisee", "app.mpisee", "--by", "site", "--skip-frames", pattern]).exits(2);
    }
    profile
        .run(&["sites", "app.mpisee", "--skip-frames", ""])
        .fails_with(&["is empty, and matches no function"]);
    // A function on paths alone, and a library.
    for pattern in ["main", "libtools.so"] {
        profile.run(&["sites", "app.mpisee", "--skip-frames", pattern]).exits(0);
    }
}

#[test]
fn paths_whose_functions_all_match_are_not_missing() {
    let profile = solver().write();
    let ran = profile.run(&["sites", "app.mpisee", "--skip-frames", "*", "--call", "allreduce"]);
    let said =
        "Of 25.0 % of this time all functions on the path are skipped: the innermost function is shown.\n";
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    let said = "Of 75.0 % of this time, in libraries or functions that call MPI for others, the caller is not known, since the path was \
                not taken (the call was too short, or walks had used up their 2 % of the time of slow calls) or ends in the library: the \
                innermost function is shown.\n";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    assert!(ran.stdout.contains("Comm::sum at comm.cpp:12 (all callers skipped)"), "{}", ran.stdout);
}

#[test]
fn times_of_places_add_up_to_those_of_calls() {
    let profile = solver().write();
    let sum = |arguments: &[&str], column: &str| -> u64 {
        let ran = profile.run(&[arguments, &["--format", "csv"]].concat());
        let mut table = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        let place = table.headers().unwrap().iter().position(|name| name == column).unwrap();
        let ns = |row: csv::StringRecord| (row[place].parse::<f64>().unwrap() * 1e9).round() as u64;
        table.records().map(|row| ns(row.unwrap())).sum()
    };
    let all_ns = (4 * 4_562_500_000u64) + 750_000_000;
    assert_eq!(sum(&["ops", "app.mpisee"], "mean_s") * 4, all_ns);
    assert_eq!(sum(&["sites", "app.mpisee"], "time_s"), all_ns);
    assert_eq!(sum(&["sites", "app.mpisee", "--skip-frames", "*"], "time_s"), all_ns);
    assert_eq!(sum(&["paths", "app.mpisee"], "time_s"), 4 * 2_575_000_000);
}

#[test]
fn filters_choose_calls_of_places() {
    let profile = solver().write();
    let ran = profile.run(&["sites", "app.mpisee", "--comm", "W", "--call", "waitall", "--ranks", "1-2"]);
    ran.golden("sites-filtered");
    let ran = profile.run(&["sites", "app.mpisee", "--call", "bcast"]);
    ran.fails_with(&["no operation matches --call bcast; the profile has MPI_Waitall"]);
    let ran =
        profile.run(&["sites", "app.mpisee", "--memory", "host", "--time-min", "0.5", "--format", "csv"]);
    // Regions, sizes and memory are not known of paths.
    assert!(
        ran.exits(0).stdout.contains("libhdf5_openmpi.so.103+0x1a2b0 (caller not known)"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("MPI_Barrier"), "{}", ran.stdout);
}

#[test]
fn paths_are_merged_from_the_outside() {
    let profile = solver().write();
    for width in [60, 100] {
        profile.golden_at(width, "paths-solver", &["paths", "app.mpisee"]);
    }
    profile.run(&["paths", "app.mpisee", "--top", "1", "--call", "wait*"]).golden("paths-left-out");
    profile.run(&["paths", "app.mpisee", "--format", "csv"]).golden("paths-solver.csv");
    profile.run(&["paths", "app.mpisee", "--format", "json", "--top", "1"]).golden("paths-solver.json");
}

#[test]
fn folded_stacks_have_all_of_the_mpi_time() {
    let profile = solver().write();
    let ran = profile.run(&["paths", "app.mpisee", "--folded", "app.folded", "--skip-frames", "step"]);
    assert!(
        ran.exits(0).stdout.starts_with("Paths are known of 10.3 s of the MPI time, 54.2 %"),
        "{}",
        ran.stdout
    );
    let text = std::fs::read_to_string(profile.beside().join("app.folded")).unwrap();
    let sum: u64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 4 * 4_562_500 + 750_000);
    crate::support::golden("paths-folded", &text);
}

#[test]
fn folded_stacks_have_each_time_once_where_sites_are_beyond_the_limit() {
    let mut profile = Builder::new(1);
    let (numbered, beyond) = (profile.line("first", "a.c", 7), profile.line("second", "a.c", 8));
    profile.path("W", 0, "MPI_Bcast", 2, 0.5, &[numbered]);
    profile.path("W", 0, "MPI_Bcast", 3, 0.25, &[beyond]);
    let profile = profile
        .call_with("W", 0, "MPI_Bcast", 4, 32, 1.0, |row| row.site = Some(numbered))
        .call_with("W", 0, "MPI_Bcast", 5, 40, 2.0, |row| row.site = None)
        .write();
    profile.run(&["paths", "app.mpisee", "--folded", "app.folded"]).exits(0);
    let text = std::fs::read_to_string(profile.beside().join("app.folded")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "(no path);(site not known);MPI_Bcast 1750000",
        "(no path);first;MPI_Bcast 500000",
        "first;MPI_Bcast 500000",
        "second;MPI_Bcast 250000",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn lines_of_python_are_shown_past_packages_that_communicate() {
    let mut profile = Builder::new(1);
    let extension = profile.site(
        "/v/lib/python3.11/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so",
        "ab",
        0x70,
    );
    let pickle =
        profile.line_of_python("Intracomm.bcast", "/v/lib/python3.11/site-packages/mpi4py/util/pkl5.py", 9);
    let step = profile.line_of_python("Solver.step", "/u/solver.py", 42);
    let main = profile.line_of_python("main", "/u/solver.py", 50);
    let all = profile.line_of_python("<module>", "/u/solver.py", 60);
    profile.path("W", 0, "MPI_Bcast", 3, 0.75, &[extension, pickle, step, main, all]);
    let written =
        profile.call_with("W", 0, "MPI_Bcast", 4, 32, 1.0, |row| row.site = Some(extension)).write();
    let ran = written.run(&["sites", "app.mpisee", "--format", "csv"]);
    let table = ran.exits(0).stdout.lines().map(|row| row.split(',').next().unwrap().to_owned());
    let places: Vec<String> = table.skip(1).collect();
    let short = "MPI.cpython-311-x86_64-linux-gnu.so+0x70 (caller not known)";
    assert_eq!(places, ["Solver.step at solver.py:42 (by mpi4py)", short]);
    let ran = written.run(&["paths", "app.mpisee", "--format", "csv"]);
    let outer = "pkl5.py:9 < Solver.step at solver.py:42 < main at solver.py:50 < <module> at solver.py:60";
    assert!(ran.exits(0).stdout.contains(outer), "a main of Python is not the end: {}", ran.stdout);
    let ran = written.run(&["check", "app.mpisee", "--all"]);
    assert!(!ran.stdout.contains("which is none"), "{}", ran.stdout);
}

#[test]
fn waiting_is_of_a_place_that_has_all_calls() {
    let (mut profile, late_s) = (Builder::new(2), 0.5);
    let site = profile.line("reduce", "a.c", 7);
    for rank in 0..2 {
        let stay_s = 0.1 + if rank == 0 { late_s } else { 0.0 };
        profile =
            profile.call_with("W", rank, "MPI_Allreduce", 4, 32, 4.0 * stay_s, |row| row.site = Some(site));
        for instance in 0..4u32 {
            let begin_s = 1.0 + f64::from(instance) + if rank == 1 { late_s } else { 0.0 };
            profile.arrivals.push(ArrivalRow {
                comm: "W".to_owned(),
                call: "MPI_Allreduce".to_owned(),
                instance: instance.into(),
                rank,
                root: None,
                arrival_s: Seconds(begin_s),
                departure_s: Seconds(begin_s + stay_s),
                started_s: None,
                completed: None,
            });
        }
    }
    for (rank, arrival_s) in [(0, 2.5), (1, 2.5 + late_s)] {
        profile.collectives.push(CollectiveRow {
            comm: "W".to_owned(),
            call: "MPI_Allreduce".to_owned(),
            rank,
            instances: 4,
            sampled: 4,
            mean_arrival_s: Seconds(arrival_s),
            mean_departure_s: Seconds(2.6 + late_s),
        });
    }
    let written = profile.write();
    let waiting = |written: &crate::support::Written| {
        let ran = written.run(&["sites", "app.mpisee", "--format", "json"]);
        let found: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        (found["sites"][0]["waiting_s"].clone(), found["sites"][0]["transfer_s"].clone())
    };
    assert_eq!(waiting(&written), (1.0.into(), 0.4.into()), "mean over both ranks");
    // Once another place calls it, nobody knows whose the waiting is.
    let calls = std::fs::read_to_string(written.directory.join("calls.csv")).unwrap();
    let other = calls.lines().nth(1).unwrap().replace(&site.to_string(), "");
    std::fs::write(written.directory.join("calls.csv"), calls + &other + "\n").unwrap();
    assert_eq!(waiting(&written).0, serde_json::Value::Null);
}

#[test]
fn a_profile_without_sites_says_so() {
    let without_calls = Builder::new(2).write();
    let said = "'app.mpisee' has no call sites: no rank made an MPI call that is recorded";
    without_calls.run(&["sites", "app.mpisee"]).fails_with(&[said]);
    let profile = splatt().write();
    profile.run(&["sites", "app.mpisee"]).fails_with(&["'app.mpisee' has no call sites: they were left out"]);
    profile.run(&["paths", "app.mpisee"]).fails_with(&["'app.mpisee' has no call sites"]);
    let before = profile.run(&["summary", "app.mpisee"]);
    profile.remove_column("calls.csv", "site");
    let after = profile.run(&["summary", "app.mpisee"]);
    assert_eq!(before.exits(0).stdout, after.exits(0).stdout);
}

#[test]
fn sites_split_no_row_of_other_tables() {
    let (with, mut without) = (solver().write(), solver());
    without.sites.clear();
    without.calls.iter_mut().for_each(|row| row.site = None);
    without.paths.clear();
    let without = without.write();
    for command in ["summary", "ops", "ranks", "sizes", "efficiency", "comms", "locality", "check", "advise"]
    {
        let [one, other] = [&with, &without].map(|it| it.run(&[command, "app.mpisee", "--format", "json"]));
        if !["advise", "check"].contains(&command) {
            assert_eq!(one.exits(0).stdout, other.exits(0).stdout, "{command}");
        }
        assert_eq!(one.code, other.code, "{command}");
    }
}

#[test]
fn a_site_that_is_none_is_named_where_sites_matter() {
    let profile = solver().write();
    let site = solver().calls[0].site.unwrap().to_string();
    profile.replace("calls.csv", &site, "nonsense");
    let ran = profile.run(&["sites", "app.mpisee"]);
    ran.exits(2).says(&["calls.csv', line 2: column 'site': 'nonsense' identifies no call site"]);
    profile.run(&["summary", "app.mpisee"]).exits(0);
}

#[test]
fn servers_are_asked_only_where_the_user_has_named_some() {
    let profile = solver().write();
    let mut command = profile.command(&["sites", "app.mpisee", "--debuginfod"]);
    let output = command.env_remove("DEBUGINFOD_URLS").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--debuginfod asks the servers that DEBUGINFOD_URLS names, and it names none"),
        "{said}"
    );
    let output = profile
        .command(&["sites", "app.mpisee", "--debuginfod"])
        .env("DEBUGINFOD_URLS", "http://localhost:1")
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("debuginfod-find, which cannot be started"), "{said}");
}

#[test]
fn options_without_effect_are_refused() {
    let profile = solver().write();
    for output in [&["--format", "csv"][..], &["--format", "json"], &["-o", "sites.csv"]] {
        let ran = profile.run(&[&["sites", "app.mpisee", "--annotate"], output].concat());
        ran.fails_with(&["--annotate adds lines of source to a table, and CSV and JSON have none"]);
    }
    for command in ["sites", "paths"] {
        let ran = profile.run(&[command, "app.mpisee", "--source", ".", "--source", "/nowhere"]);
        ran.fails_with(&["'/nowhere', which --source names, is no folder"]);
    }
}

#[test]
fn damaged_tables_of_sites_and_stacks_are_named_with_their_line() {
    let profile = solver().write();
    profile.replace("sites.csv", "0x1a2b0", "zz");
    let line = 1 + solver().sites.iter().position(|row| row.offset == "0x1a2b0").unwrap() + 1;
    let said =
        format!("app.mpisee/sites.csv', line {line}: column 'offset': 'zz' is no address like 0x4011c5");
    for command in ["sites", "paths"] {
        profile.run(&[command, "app.mpisee"]).fails_with(&[&said]);
    }

    let profile = solver().write();
    std::fs::remove_file(profile.directory.join("stacks.csv")).unwrap();
    profile.run(&["paths", "app.mpisee"]).fails_with(&["cannot read 'app.mpisee/stacks.csv'"]);

    let profile = solver().write();
    let stacks = std::fs::read_to_string(profile.directory.join("stacks.csv")).unwrap();
    let first = stacks.lines().nth(1).unwrap().split([',', ' ']).nth(1).unwrap().to_owned();
    profile.replace("stacks.csv", &first, &vec![first.as_str(); 200_000].join(" "));
    let said =
        "app.mpisee/stacks.csv', line 2: column 'sites': 200002 call sites are more than a path has (1024)";
    profile.run(&["paths", "app.mpisee"]).fails_with(&[said]);
}

#[test]
fn libraries_that_are_linked_into_the_program_are_named() {
    let mut profile = Builder::new(1);
    let write = profile.line("H5FD__mpio_write", "H5FDmpio.c", 1800);
    let main = profile.line("write_results", "h5.c", 6);
    profile.path("W", 0, "MPI_File_write_at_all", 3, 0.75, &[write, main]);
    let written =
        profile.call_with("W", 0, "MPI_File_write_at_all", 3, 32, 0.75, |row| row.site = Some(write)).write();
    let said = "H5FD__mpio_write seems to be of a library that is linked into app: --skip-frames 'H5*' shows who calls that.\n";
    let ran = written.run(&["sites", "app.mpisee"]);
    assert!(ran.exits(0).stdout.contains(said), "{}", ran.stdout);
    let ran = written.run(&["sites", "app.mpisee", "--skip-frames", "H5*"]);
    assert!(ran.exits(0).stdout.contains("write_results at h5.c:6 (by H5FD__mpio_write)"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("seems to be"), "{}", ran.stdout);
}
