//! `mpisee-through top --stacks`: where in the program ranks call MPI, in programs of several
//! languages and compiled in several ways.

use mpisee_tests::place::{Staying, until, until_arrived};
use mpisee_tests::{LIMIT, Mpi, Place, case};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A program that stays where it is until there is a file `go`.
struct Running {
    place: Place,
    launcher: Staying,
    ranks: u32,
}

impl Running {
    fn start(mpi: &Mpi, ranks: u32, program: &Path, arguments: &[&Path]) -> Running {
        let place = Place::new();
        let launcher = Staying::start(place.command(mpi, ranks).arg(program).args(arguments));
        until_arrived(&place.path(""), ranks);
        Running { place, launcher, ranks }
    }

    fn top(&self, arguments: &[&str]) -> String {
        self.top_over("100ms", arguments)
    }

    /// The same with that time between the two looks.
    fn top_over(&self, interval: &str, arguments: &[&str]) -> String {
        let often = ["top", "--stacks", "--interval", interval, "--once"];
        let output = self.place.through(&[&often, arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is text")
    }

    /// The stacks of the ranks that are in a call, by rank, once as many are as stay in one.
    fn stacks(&self) -> BTreeMap<u64, Vec<String>> {
        self.stacks_where(|problems| problems.is_null())
    }

    /// The same where this is so of what is said of files.
    fn stacks_where(&self, is_right: impl Fn(&Value) -> bool) -> BTreeMap<u64, Vec<String>> {
        let mut found = BTreeMap::new();
        until("ranks are in calls", || {
            let document: Value = serde_json::from_str(&self.top(&["--format", "json"])).expect("it is JSON");
            let job = &document["jobs"][0];
            assert!(is_right(&job["stack_problems"]), "{job}");
            found = job["processes"].as_array().expect("a list").iter().filter_map(of_process).collect();
            found.len() + 1 == self.ranks as usize
        });
        found
    }

    fn end(mut self) {
        std::fs::write(self.place.path("go"), "").expect("the folder is there");
        let status = self.launcher.0.wait().expect("it is our child");
        assert!(status.success());
    }
}

fn of_process(process: &Value) -> Option<(u64, Vec<String>)> {
    let stack = process["places"][0]["stack"].as_array()?;
    let frames = stack.iter().map(|frame| frame.as_str().expect("a text").to_owned());
    Some((process["rank"].as_u64()?, frames.collect()))
}

/// `FUNCTION at FILE:LINE`, the line of `tests/programs/FOLDER/FILE` that has this remark.
fn at(function: &str, file: &str, remark: &str) -> String {
    let path = mpisee_tests::root().join("tests/programs").join(file);
    let text = std::fs::read_to_string(path).expect("it is there");
    let line = text.lines().position(|line| line.contains(remark)).expect("the remark is there") + 1;
    format!("{function} at {}:{line}", file.rsplit('/').next().unwrap_or(file))
}

const C: &str = "lifecycle/stacks.c";

#[case]
fn functions_and_lines_are_named(mpi: &Mpi) {
    let variants: [(&str, &[&str]); 3] = [
        ("pie", &["-O2", "-fpie", "-pie"]),
        ("fixed", &["-O2", "-no-pie"]),
        ("frames", &["-O0", "-fno-omit-frame-pointer"]),
    ];
    for (variant, arguments) in variants {
        let program = mpi.compile_variant("lifecycle/stacks", variant, &[arguments, &["-ldl"]].concat());
        let running = Running::start(mpi, 4, &program, &[]);
        let found = running.stacks();
        let main_step = at("main", C, "main calls step");
        let solve = vec![at("solve", C, "solve calls"), at("step", C, "        solve();"), main_step];
        assert_eq!((&found[&0], &found[&1]), (&solve, &solve), "{variant}");
        let write = [at("write_results", C, "write_results calls"), at("main", C, "write_results();")];
        assert_eq!(found[&2], write, "{variant}");
        let text = running.top(&[]);
        let expected = format!("    {}\n    {}\n    {}\n", solve[0], solve[1], solve[2]);
        assert!(text.contains(&expected), "{text}");
        let line = text
            .lines()
            .find(|line| line.starts_with("ranks 0-1 in ") && line.contains("MPI_Allreduce on W"));
        assert!(line.is_some(), "{text}");
        running.end();
    }
}

#[case]
fn a_library_that_was_opened_is_named(mpi: &Mpi) {
    let library = mpi.compile_variant("lifecycle/stacks_library", "shared", &["-O2", "-shared", "-fPIC"]);
    let program = mpi.compile_variant("lifecycle/stacks", "opening", &["-O2", "-ldl"]);
    let running = Running::start(mpi, 4, &program, &[&library]);
    let found = running.stacks();
    let made = at("reduce_in_library", "lifecycle/stacks_library.c", "the library calls");
    assert_eq!(found[&0][..2], [made, at("step", C, "reduce(&out, &in)")], "{found:?}");
    running.end();
}

#[case]
fn a_library_with_lines_is_above_its_caller(mpi: &Mpi) {
    let library = mpi.compile_variant("lifecycle/stacks_library", "wrapper", &["-O2", "-shared", "-fPIC"]);
    let program = mpi.compile_variant("lifecycle/stacks", "opening", &["-O2", "-ldl"]);
    let scratch = tempfile::tempdir().expect("a folder can be made");
    let wrapper = scratch.path().join("libhdf5_stacks.so");
    std::fs::copy(&library, &wrapper).expect("it is there");
    let running = Running::start(mpi, 4, &program, &[&wrapper]);
    let found = running.stacks();
    let made = at("reduce_in_library", "lifecycle/stacks_library.c", "the library calls");
    let outside = at("step", C, "reduce(&out, &in)");
    assert_eq!(found[&0][..2], [made.clone(), outside.clone()], "{found:?}");
    let text = running.top(&[]);
    assert!(text.contains("ranks 0-1 in MPI_Allreduce on W (call 1) for "), "{text}");
    assert!(text.contains(&format!("\n    {made}\n    {outside}\n")), "{text}");
    running.end();
}

#[case]
fn the_way_leads_through_a_library_that_was_replaced(mpi: &Mpi) {
    let library = mpi.compile_variant("lifecycle/stacks_library", "shared", &["-O2", "-shared", "-fPIC"]);
    let program = mpi.compile_variant("lifecycle/stacks", "opening", &["-O2", "-ldl"]);
    let scratch = tempfile::tempdir().expect("a folder can be made");
    let copy = scratch.path().join("libreplaced.so");
    std::fs::copy(&library, &copy).expect("it is there");
    let running = Running::start(mpi, 4, &program, &[&copy]);
    // All have opened it.
    running.stacks();
    std::fs::remove_file(&copy).expect("it is there");
    let other = mpi.compile_variant("lifecycle/stacks_library", "other", &["-O0", "-shared", "-fPIC"]);
    std::fs::copy(other, &copy).expect("it is gone");
    let other_build = format!("'{}' is not what ran", copy.display());
    let found = running.stacks_where(|problems| {
        problems.as_array().is_none_or(|said| {
            said.iter().all(|it| it.as_str().is_some_and(|it| it.starts_with(&other_build)))
        })
    });
    assert!(found[&0][0].starts_with("libreplaced.so+0x"), "{found:?}");
    assert_eq!(found[&0][1], at("step", C, "reduce(&out, &in)"), "{found:?}");
    running.end();
}

#[case]
fn without_names_addresses_are_shown(mpi: &Mpi) {
    let program = mpi.compile_variant("lifecycle/stacks", "stripped", &["-O2", "-s", "-ldl"]);
    let running = Running::start(mpi, 4, &program, &[]);
    let found = running.stacks();
    assert!(found[&0].iter().take(2).all(|frame| frame.starts_with("stacks-stripped+0x")), "{found:?}");
    running.end();
}

#[case]
fn fortran_and_templates_are_named(mpi: &Mpi) {
    if let Some(program) = mpi.compile_fortran("fortran/stacks", "USE_MPI") {
        let running = Running::start(mpi, 2, &program, &[]);
        let found = running.stacks();
        let exchange = at("halo::exchange", "fortran/stacks.F90", "! exchange calls");
        assert!(found[&0].contains(&exchange), "{found:?}");
        running.end();
    }
    if let Some(program) = mpi.compile_cpp("lifecycle/stacks") {
        let running = Running::start(mpi, 2, &program, &[]);
        let found = running.stacks();
        let file = "lifecycle/stacks.cpp";
        let calls = [at("", file, "// exchange calls"), at("", file, "// advance calls")];
        for (frame, (name, place)) in found[&0].iter().zip(["exchange", "advance"].iter().zip(&calls)) {
            assert!(frame.contains(name) && frame.ends_with(place), "{found:?}");
        }
        assert!(found[&0].len() >= 3, "{found:?}");
        running.end();
    }
}

#[case]
fn an_endless_expression_in_an_unwind_table_ends_the_walk(mpi: &Mpi) {
    let running = Running::start(mpi, 2, &mpi.compile("sites/endless_table_stays"), &[]);
    let arguments = ["top", "--stacks", "--interval", "100ms", "--once"];
    let output = running.place.through_within(LIMIT, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = running.stacks();
    assert_eq!(found[&1][0], at("stay", "sites/endless_table_stays.c", "stay calls"), "{found:?}");
    if cfg!(target_arch = "x86_64") {
        assert!(found[&1].len() == 2 && found[&1][1].starts_with("by_table+0x"), "{found:?}");
    }
    running.end();
}

#[case]
fn a_program_that_was_built_anew_is_not_resolved(mpi: &Mpi) {
    let built = mpi.compile_variant("lifecycle/stacks", "changed", &["-O2", "-ldl"]);
    let folder = Place::new();
    let program = folder.path("stacks");
    std::fs::copy(&built, &program).expect("there is room");
    let running = Running::start(mpi, 4, &program, &[]);
    std::fs::remove_file(&program).expect("it is there");
    let text = running.top(&[]);
    assert!(text.contains("Note ") && text.contains("calls are shown as addresses"), "{text}");
    running.end();
}

/// Returns whether this process has the capabilities with these numbers.
fn has_capabilities(numbers: &[u32]) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel writes it");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("there is one");
    let effective = u64::from_str_radix(effective.trim(), 16).expect("it is hexadecimal");
    numbers.iter().all(|number| effective & (1 << number) != 0)
}

/// Who must not read the memory of the ranks has the lines of their calls, which are in the
/// segments.
#[case]
fn without_the_right_to_read_memory_there_are_lines(mpi: &Mpi) {
    // CAP_SETPCAP and CAP_SYS_PTRACE: the ranks have what `top` then lacks.
    if !has_capabilities(&[8, 19]) {
        mpisee_tests::harness::leave_out("it takes the capabilities of root");
        return;
    }
    let program = mpi.compile("lifecycle/asleep");
    let running = Running::start(mpi, 2, &program, &[]);
    let mut top = Command::new("setpriv");
    top.args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]);
    top.arg(mpisee_tests::dist().join("bin/mpisee-through"));
    top.args(["top", "--stacks", "--interval", "100ms", "--once"]);
    top.current_dir(running.place.folder()).env("MPISEE_SEGMENTS", running.place.segments());
    let output = mpisee_tests::within(LIMIT, &mut top);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("rank 0 has no stack: "), "{text}");
    let waits = at("main", ASLEEP, "MPI_Barrier(MPI_COMM_WORLD); /* main waits");
    assert!(text.contains("rank 0 in MPI_Barrier on W (call 2) for "), "{text}");
    assert!(text.contains(&format!("\n    {waits}\n")), "{text}");
    assert!(text.contains("rank 1 in no MPI call for ") && !text.contains(", asleep"), "{text}");
    running.end();
}

const ASTRAY: &str = "lifecycle/astray.c";

/// The number before ` s` that follows a text.
fn seconds_after(text: &str, before: &str) -> f64 {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no '{before}': {text}")).1;
    rest.split_once(" s")
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or_else(|| panic!("no time: {text}"))
}

#[case]
fn ranks_in_short_calls_and_outside_of_mpi_are_named_with_what_is_known(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/astray");
    let running = Running::start(mpi, 3, &program, &[]);
    std::thread::sleep(std::time::Duration::from_millis(600));
    let polls = at("poll_for_message", ASTRAY, "poll_for_message calls");
    let line = polls.rsplit_once(' ').expect("it has a line").1.to_owned();
    let check = |text: &str| {
        // Where a call lasted until its stack was read it has that instead.
        if !text.contains(&format!("    {polls}\n")) {
            let calls = text.split_once("since the last look it called MPI_Test ").expect(text).1;
            let (number, rest) = calls.split_once(" times ").expect(text);
            assert!(
                number.parse::<f64>().is_ok_and(|number| number > 1.0) || number.ends_with('M'),
                "{text}"
            );
            assert!(rest.starts_with(&format!("at {line}")), "{text}");
        }
        assert!(seconds_after(text, "rank 2 in no MPI call for ") >= 0.6, "{text}");
        assert!(seconds_after(text, " 2 (in no MPI call for ") >= 0.6, "{text}");
    };
    check(&running.top_over("500ms", &["--hang", "300ms"]));
    let check = |document: &[u8]| {
        let document: Value = serde_json::from_slice(document).expect("it is JSON");
        let processes = document["jobs"][0]["processes"].clone();
        let most = &processes[1]["most_called"];
        assert_eq!((&most["call"], &most["stack"]), (&"MPI_Test".into(), &serde_json::json!([polls])));
        assert!(most["at_one_place"] == true && most["least_calls"].as_u64() > Some(1), "{most}");
        assert!(processes[2]["idle_s"].as_f64() >= Some(0.6), "{processes}");
        assert_eq!(processes[0]["most_called"], Value::Null);
    };
    check(running.top_over("500ms", &["--format", "json"]).as_bytes());
    check(running.top_over("500ms", &["--to", "roll", "--format", "json"]).as_bytes());
    check(&running.place.through(&["top", "--from", "roll", "--format", "json"]).stdout);
    running.end();
}

const ASLEEP: &str = "lifecycle/asleep.c";

#[case]
fn a_rank_asleep_outside_of_mpi_has_its_line(mpi: &Mpi) {
    let sleeps = at("load_input", ASLEEP, "load_input sleeps");
    let loads = at("main", ASLEEP, "main loads");
    for (variant, arguments) in [("O2", &["-O2"]), ("O0", &["-O0"])] {
        let program = mpi.compile_variant("lifecycle/asleep", variant, arguments);
        let running = Running::start(mpi, 2, &program, &[]);
        let line = format!(" s, asleep at {}, PID ", sleeps.rsplit_once(' ').expect("it has a line").1);
        let mut text = String::new();
        // On a busy machine it comes there later.
        until("rank 1 is seen asleep for some time", || {
            text = running.top(&[]);
            mpisee_tests::note!("{text}");
            text.contains(&line) && seconds_after(&text, "rank 1 in no MPI call for ") >= 0.2
        });
        assert!(text.contains(&format!("    {sleeps}\n")), "{text}");
        let documents = || {
            let alone = running.top(&["--format", "json"]).into_bytes();
            let parts = running.top(&["--to", "roll", "--format", "json"]).into_bytes();
            let joined = running.place.through(&["top", "--from", "roll", "--format", "json"]).stdout;
            let document = |text: Vec<u8>| serde_json::from_slice::<Value>(&text).expect("it is JSON");
            [alone, parts, joined].map(document)
        };
        // It wakes for a moment now and then.
        let mut seen = documents();
        until("rank 1 is seen asleep by each reader", || {
            seen = documents();
            seen.iter().all(|document| document["jobs"][0]["processes"][1]["asleep"].is_array())
        });
        for document in seen {
            let processes = &document["jobs"][0]["processes"];
            let asleep = processes[1]["asleep"].as_array().unwrap_or_else(|| panic!("{document}"));
            let frames: Vec<&str> = asleep.iter().filter_map(Value::as_str).collect();
            let here = frames.iter().position(|&frame| frame == sleeps);
            // Without optimisation functions lie behind their frame pointers, which a system call
            // keeps from us.
            let caller = here.and_then(|here| frames.get(here + 1));
            assert!(here > Some(0) && (caller == Some(&&*loads) || variant == "O0"), "{variant}: {frames:?}");
            assert_eq!(processes[0]["asleep"], Value::Null);
            let places = document["jobs"][0]["places"].as_array().expect("a list");
            assert!(places.iter().any(|place| place["asleep"] == processes[1]["asleep"]), "{document}");
        }
        running.end();
    }
}

#[case]
fn a_single_reader_shows_what_it_writes(mpi: &Mpi) {
    let program = mpi.compile("lifecycle/astray");
    let running = Running::start(mpi, 3, &program, &[]);
    assert!(running.top(&["--to", "roll"]).contains("Roll call  1 node, 3 ranks\n"));
    let mut reader = mpi.launcher(1, &[]);
    reader.arg(mpisee_tests::dist().join("bin/mpisee-through"));
    reader.args(["top", "--stacks", "--interval", "100ms", "--to", "roll"]);
    reader.current_dir(running.place.folder()).env("MPISEE_SEGMENTS", running.place.segments());
    let output = mpisee_tests::within(LIMIT, &mut reader);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Roll call  1 node, 3 ranks\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "it is no terminal of a person: {text}");
    running.end();
}
