//! Bad usage and bad profiles: one sentence on stderr, exit code 2.

use crate::support::{Builder, splatt};
use mpisee_profile::rows::{RankRow, Row};
use std::process::Stdio;

const COMMANDS: [&str; 11] = [
    "summary",
    "comms",
    "check",
    "ops",
    "ranks",
    "regions",
    "sizes",
    "matrix",
    "efficiency",
    "locality",
    "advise",
];

#[test]
fn help_of_a_group_has_its_commands_and_their_examples() {
    let profile = splatt().write();
    let help = profile.run(&["help", "Compare"]).exits(0).stdout.clone();
    assert!(help.starts_with("Compare\n\ndiff: ") && help.contains("\n  mpisee-through runs "), "{help}");
    assert!(!help.contains("waits: "), "{help}");
    let all = profile.run(&["--help"]).exits(0).stdout.clone();
    assert!(all.contains("\nCompare:\n  diff ") && all.contains("\nFiles:\n  check "), "{all}");
}

#[test]
fn path_that_is_no_profile_is_named() {
    let profile = splatt().write();
    std::fs::write(profile.beside().join("file"), "").unwrap();
    std::fs::create_dir(profile.beside().join("empty")).unwrap();
    for command in COMMANDS {
        profile.run(&[command, "nothing"]).fails_with(&["'nothing'", "there is nothing of that name"]);
        profile.run(&[command, "file"]).fails_with(&["'file'", "it is a file"]);
        profile.run(&[command, "empty"]).fails_with(&["'empty'", "it has no run.json"]);
    }
}

#[test]
fn a_profile_that_was_not_finished_may_be_recovered() {
    let profile = splatt().write();
    std::fs::remove_file(profile.beside().join("app.mpisee/run.json")).unwrap();
    for command in COMMANDS {
        profile.run(&[command, "app.mpisee"]).fails_with(&["'app.mpisee' is not finished", "recover writes"]);
    }
}

#[test]
fn a_newer_format_is_not_guessed_at() {
    let profile = splatt().write();
    profile.replace("run.json", "\"format_version\": 5", "\"format_version\": 999");
    for command in COMMANDS {
        profile.run(&[command, "app.mpisee"]).fails_with(&["app.mpisee", "999"]);
    }
}

#[test]
fn the_first_format_is_read_as_ever() {
    let (now, then) = (splatt().write(), splatt().write());
    // In version 1 each row of comms.csv was one communicator, no rows were sums over ranks, and
    // nothing was known of cores.
    then.replace("run.json", "\"format_version\": 5", "\"format_version\": 1");
    then.remove_from_run("folded");
    then.remove_column("comms.csv", "count");
    RankRow::OPTIONAL.iter().for_each(|column| then.remove_column("ranks.csv", column));
    for command in COMMANDS {
        then.run(&[command, "app.mpisee"]).prints(&now.run(&[command, "app.mpisee"]).stdout);
    }
}

#[test]
fn a_missing_table_is_named() {
    for (command, table) in [
        ("summary", "ranks.csv"),
        ("summary", "comms.csv"),
        ("summary", "calls.csv"),
        ("comms", "comms.csv"),
        ("check", "peers.csv"),
        ("ops", "calls.csv"),
        ("regions", "regions.csv"),
        ("efficiency", "regions.csv"),
        ("matrix", "peers.csv"),
        ("locality", "peers.csv"),
        ("advise", "calls.csv"),
    ] {
        let profile = splatt().write();
        std::fs::remove_file(profile.directory.join(table)).unwrap();
        profile.run(&[command, "app.mpisee"]).fails_with(&["cannot read", table]);
    }
}

#[test]
fn a_missing_column_is_named() {
    let profile = splatt().write();
    profile.replace("calls.csv", "time_s", "time");
    for command in ["summary", "check", "ops", "ranks", "sizes", "advise"] {
        profile.run(&[command, "app.mpisee"]).fails_with(&["calls.csv", "no column 'time_s'"]);
    }
}

#[test]
fn a_wrong_number_is_found_by_its_line() {
    let profile = splatt().write();
    profile.replace("comms.csv", "W_a1_s2.0,W_a1,MPI_Comm_split,4", "W_a1_s2.0,W_a1,MPI_Comm_split,-4");
    for command in COMMANDS {
        profile.run(&[command, "app.mpisee"]).fails_with(&["comms.csv', line 5: column 'size': "]);
    }
    let profile = splatt().write();
    profile.replace("ranks.csv", ",12.500000000,", ",99999999999999999999999e999,");
    profile.run(&["app.mpisee"]).fails_with(&["ranks.csv', line 5: inf is not a time"]);
}

#[test]
fn a_row_that_is_cut_off_is_found_by_its_line() {
    let profile = splatt().write();
    let path = profile.directory.join("peers.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 6]).unwrap();
    profile
        .run(&["check", "app.mpisee"])
        .fails_with(&["peers.csv', line 3: the row has 11 fields instead of 13"]);
}

/// Clears the screen, asks the terminal for an answer, returns to the begin of the line, and turns
/// the direction of writing.
const FORGED: &str = "a\u{1b}[2J\u{9b}5n\u{202e}b\r\u{2066}c\u{7}\u{2028}";

/// Expects that a terminal obeys nothing in the text but the ends of its lines.
#[track_caller]
fn assert_is_harmless(text: &str, what: &[&str]) {
    let obeyed = |letter: &char| {
        letter.is_control() && *letter != '\n'
            || ('\u{2028}'..='\u{202e}').contains(letter)
            || ('\u{2066}'..='\u{2069}').contains(letter)
    };
    let found: Vec<char> = text.chars().filter(obeyed).collect();
    assert!(found.is_empty(), "{what:?} writes {found:?}: {text:?}");
}

/// A profile in which every text that an application or a forger may choose is one that terminals
/// would obey.
fn forged() -> Builder {
    splatt().with(|profile| {
        let site = profile.line(&format!("f{FORGED}"), &format!("x{FORGED}.c"), 7);
        let other = profile.site(&format!("/opt/{FORGED}/lib{FORGED}.so"), "ab", 16);
        let chosen = |row: usize| if row == 0 { site } else { other };
        for (at, row) in profile.calls.iter_mut().take(2).enumerate() {
            (row.site, row.region) = (Some(chosen(at)), format!("r{FORGED}"));
        }
        for row in &mut profile.comms {
            row.label = format!("l{FORGED}");
        }
        profile.ranks.iter_mut().for_each(|row| row.host = format!("h{FORGED}"));
        profile.run.command = vec![format!("./app{FORGED}"), FORGED.to_owned()];
        profile.run.mpi.library = format!("MPI {FORGED}");
        profile.run.notes = vec![format!("n{FORGED}")];
        (profile.run.complete, profile.run.incomplete_because) = (false, Some(format!("i{FORGED}")));
    })
}

#[test]
fn terminals_obey_nothing_in_a_profile() {
    let profile = forged().region(&format!("r{FORGED}"), 0, 1, 1.0, 0.5).write();
    std::fs::rename(forged().write().directory, profile.beside().join("b.mpisee")).unwrap();
    let mut shown = String::new();
    for command in COMMANDS.iter().chain(["sites", "diff", "runs"].iter()) {
        let both = ["diff", "runs"].contains(command);
        let profiles = if both { &["app.mpisee", "b.mpisee"][..] } else { &["app.mpisee"] };
        for format in ["table", "json"] {
            let arguments = [&[*command], profiles, &["--format", format]].concat();
            let ran = profile.run(&arguments);
            assert_is_harmless(&ran.stdout, &arguments);
            assert_is_harmless(&ran.stderr, &arguments);
            shown += &ran.stdout;
        }
    }
    for text in ["l", "r", "h", "./app", "f", "n", "i"]
        .map(|begin| format!("{begin}a\\u{{1b}}[2J\\u{{9b}}5n\\u{{202e}}b\\r"))
    {
        assert!(shown.contains(&text), "{text} is not shown: {shown}");
    }
}

#[test]
fn terminals_obey_nothing_in_the_error_of_a_forged_file() {
    for (file, from, to) in [
        ("comms.csv", "0-3", FORGED),
        ("calls.csv", "MPI_Allreduce", FORGED),
        ("calls.csv", ",time_s", FORGED),
        ("ranks.csv", ",12.500000000,", &format!(",{FORGED},")),
        ("run.json", "\"ranks\": ", &format!("\"ranks\": \"{FORGED}\", \"x\": ")),
        ("run.json", "\"complete\": true", "\"complete\": \"a\\u001b[2J\\u202e\""),
    ] {
        let profile = splatt().write();
        profile.replace(file, from, to);
        for command in ["summary", "check", "comms"] {
            let ran = profile.run(&[command, "app.mpisee"]);
            assert_is_harmless(&ran.stdout, &[command, file]);
            assert_is_harmless(&ran.stderr, &[command, file]);
        }
    }
    let profile = splatt().write();
    let ran = profile.run(&["summary", FORGED]);
    ran.fails_with(&["'a\\u{1b}[2J\\u{9b}5n\\u{202e}b\\r\\u{2066}c\\u{7}\\u{2028}'"]);
}

#[test]
fn counts_beyond_the_range_are_refused() {
    let profile =
        splatt().call("W", 0, "MPI_Bcast", 1, u64::MAX, 0.0).call("W", 1, "MPI_Bcast", 1, 1, 0.0).write();
    profile.run(&["app.mpisee"]).fails_with(&["calls.csv", "W add up to 2^64"]);
}

#[test]
fn wrong_usage_is_one_line() {
    let profile = splatt().write();
    profile.run(&["summary"]).fails_with(&["required", "PROFILE"]);
    profile.run(&["app.mpisee", "--nonsense"]).fails_with(&["unexpected argument '--nonsense'"]);
    profile.run(&["app.mpisee", "--sort", "weight"]).fails_with(&["'weight'", "--sort", "time, volume"]);
    profile.run(&["app.mpisee", "--ranks", "5-x"]).fails_with(&["--ranks", "'5-x' is not a rank"]);
    profile.run(&["app.mpisee", "--size", "big"]).fails_with(&["--size", "'big' is not a size"]);
    profile.run(&["app.mpisee", "--time-min", "1d"]).fails_with(&["--time-min", "'1d' is not a time"]);
    profile.run(&["app.mpisee", "--top", "3", "--all"]).fails_with(&["--top", "--all"]);
    profile.run(&["app.mpisee", "--kind", "rma2"]).fails_with(&["'rma2'", "collective"]);
}

#[test]
fn filters_that_match_nothing_are_errors_with_what_there_is() {
    let profile = splatt().write();
    let filtered = |command: &str, filter: &str, value: &str| {
        let runs: &[&str] = if command == "diff" { &["app.mpisee", "app.mpisee"] } else { &["app.mpisee"] };
        profile.run(&[&[command], runs, &[filter, value]].concat())
    };
    let calls = "no operation matches --call Nothing; the profile has MPI_Alltoallv, MPI_Allreduce, ";
    for command in ["summary", "ops", "sizes", "ranks", "diff"] {
        filtered(command, "--ranks", "99").fails_with(&["no rank matches --ranks 99; the profile has 0-7"]);
        filtered(command, "--call", "Nothing").fails_with(&[calls]);
        filtered(command, "--call", "Allredcue")
            .fails_with(&["--call Allredcue; did you mean MPI_Allreduce?"]);
        filtered(command, "--size", "1T-").fails_with(&["no operation matches --size 1T-; "]);
        filtered(command, "--region", "solver")
            .fails_with(&["--region solver; no call of the profile is in a region"]);
        filtered(command, "--memory", "device").fails_with(&["no operation matches --memory device; "]);
    }
    for command in ["summary", "ops", "sizes", "diff"] {
        filtered(command, "--comm", "X*").fails_with(&[
            "no operation matches --comm X*; the profile has operations on W_a1, W, ",
            "labels are ",
        ]);
    }
    profile.run(&["ops", "app.mpisee", "--call", "Send", "--comm", "W_a1"]).fails_with(&[
        "no operation matches --comm W_a1 --call Send at once; the profile has MPI_Alltoallv, ",
    ]);
    profile.run(&["summary", "app.mpisee", "--time-min", "1000"]).fails_with(&["--time-min"]);
    for command in ["regions", "locality", "matrix", "advise"] {
        filtered(command, "--ranks", "99").fails_with(&["no rank matches --ranks 99; the profile has 0-7"]);
        filtered(command, "--comm", "X*")
            .fails_with(&["no communicator matches --comm X*; the profile has W, W_a1, "]);
    }
    filtered("comms", "--ranks", "99").fails_with(&["no rank matches --ranks 99; the profile has 0-7"]);
    // A rank without calls is there all the same.
    let silent = splatt().with(|profile| profile.calls.retain(|row| row.rank != 3)).write();
    silent.run(&["ranks", "app.mpisee", "--ranks", "3"]).exits(0);
}

#[test]
fn help_has_examples() {
    let profile = splatt().write();
    let commands =
        COMMANDS.iter().chain(["diff", "expect", "runs"].iter()).map(|command| vec![*command, "--help"]);
    for arguments in commands.chain([vec!["--help"], vec![]]) {
        let ran = profile.run(&arguments);
        assert!(ran.exits(0).stdout.contains("\nEXAMPLES:\n"), "{}", ran.stdout);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_of_any_command() {
    let profile = splatt().write();
    for command in COMMANDS {
        let mut child = profile.command(&[command, "app.mpisee", "--format", "json"]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Nobody reads at all.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "{command}");
    }
}

#[test]
fn a_format_is_one_of_three() {
    let profile = splatt().write();
    for command in COMMANDS {
        profile.run(&[command, "app.mpisee", "--format", "xml"]).fails_with(&["'xml'", "table, csv, json"]);
        let ran = profile.run(&[command, "app.mpisee", "--format", "json"]);
        serde_json::from_str::<serde_json::Value>(&ran.exits(0).stdout).unwrap();
        let ran = profile.run(&[command, "app.mpisee", "--format", "csv"]);
        let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
        assert!(reader.headers().unwrap().len() > 1, "{command}");
        assert!(reader.records().all(|record| record.is_ok()), "{command}");
    }
}

#[test]
fn the_ending_of_the_file_is_its_format() {
    let profile = splatt().write();
    for (name, begin) in [("a.csv", "call,kind,"), ("a.json", "{\n"), ("a.txt", "CALL "), ("a", "CALL ")] {
        profile.run(&["ops", "app.mpisee", "-o", name]).prints("");
        let text = std::fs::read_to_string(profile.beside().join(name)).unwrap();
        assert!(text.starts_with(begin), "{name}: {text}");
    }
    profile.run(&["ops", "app.mpisee", "-o", "b.csv", "--format", "json"]).prints("");
    assert!(std::fs::read_to_string(profile.beside().join("b.csv")).unwrap().starts_with('{'));
    let words = ["'csv'", "is no file: --format csv chooses the format; write ./csv for a file of that name"];
    profile.run(&["ops", "app.mpisee", "--output", "csv"]).fails_with(&words);
}

#[test]
fn a_file_whose_suffix_no_command_writes_is_refused() {
    let profile = splatt().write();
    for (name, how) in [
        ("o.xlsx", "which ops does not write: it writes a table, csv or json, and --format decides which\n"),
        ("o.parquet", "decides which; mpisee-through export --parquet writes Parquet\n"),
        ("o.HTML", "decides which; mpisee-through report writes HTML\n"),
        ("o.tsv", "and --format decides which"),
        ("o.svg", "--image o.svg draws one"),
    ] {
        profile.run(&["ops", "app.mpisee", "-o", name]).fails_with(&[name, how]);
        assert!(!profile.beside().join(name).exists(), "{name}");
    }
    let words = ["'r.pdf' ends in .pdf, which report does not write: it writes HTML"];
    profile.run(&["report", "app.mpisee", "-o", "r.pdf"]).fails_with(&words);
    // Where the format is named, and where no format is expected, the name is the user's.
    for arguments in
        [&["-o", "o.tsv", "--format", "csv"][..], &["-o", "o.out"], &["-o", "o.1"], &["-o", "o.CSV"]]
    {
        profile.run(&[&["ops", "app.mpisee"], arguments].concat()).prints("");
    }
    assert!(std::fs::read_to_string(profile.beside().join("o.CSV")).unwrap().starts_with("call,kind,"));
}

#[test]
fn a_folder_of_profiles_names_them() {
    let profile = splatt().write();
    let folder = profile.beside().join("app.runs");
    std::fs::create_dir(&folder).unwrap();
    profile.run(&["advise", "app.runs"]).fails_with(&["'app.runs' is not a profile directory"]);
    let mut names = Vec::new();
    for number in 1..=4 {
        let name = format!("app-{number}.mpisee");
        std::fs::create_dir(folder.join(&name)).unwrap();
        std::fs::copy(profile.beside().join("app.mpisee/run.json"), folder.join(&name).join("run.json"))
            .unwrap();
        names.push(format!("'app.runs/{name}'"));
    }
    let named = format!("a folder of 4: name one of them, as {}, {} or {}", names[0], names[1], names[2]);
    let words = [&named, "; mpisee-through runs app.runs takes all"];
    profile.run(&["advise", "app.runs"]).fails_with(&words);
    profile.run(&["app.runs"]).fails_with(&words);
}

#[test]
fn commands_on_running_jobs_take_the_directory_of_segments() {
    let profile = splatt().write();
    for command in [&["top"][..], &["agent"], &["record", "off"]] {
        let arguments = [command, &["--segments", "."]].concat();
        profile.run(&arguments).fails_with(&["no segment of a running process is in '.'"]);
    }
}

#[test]
fn a_command_may_come_after_the_profile_and_in_capitals() {
    let profile = splatt().write();
    let expected = profile.run(&["ops", "app.mpisee", "--sort", "name"]).exits(0).stdout.clone();
    profile.run(&["app.mpisee", "ops", "--sort", "name"]).prints(&expected);
    profile.run(&["OPS", "app.mpisee", "--sort", "name"]).prints(&expected);
    let words = ["there is no command 'advice', and no profile of that name; did you mean 'advise'?"];
    profile.run(&["advice", "app.mpisee"]).fails_with(&words);
}

#[test]
fn profiles_nearby_are_named_where_one_is_missing() {
    let profile = splatt().write();
    profile.run(&["ap.mpisee"]).fails_with(&["'ap.mpisee'", "nearby is 'app.mpisee'"]);
    profile.run(&["app"]).fails_with(&["'app'", "nearby is 'app.mpisee'"]);
    let whole = profile.beside().join("ops.mpisee");
    profile.run(&["ops", whole.to_str().unwrap()]).fails_with(&["nearby is 'app.mpisee'"]);
    std::fs::create_dir(profile.beside().join("other.mpisee")).unwrap();
    profile.run(&["ops", "something"]).fails_with(&["nearby are 'app.mpisee', 'other.mpisee'"]);
}

#[test]
fn without_an_ended_run_nothing_is_said_of_any() {
    let profile = splatt().write();
    for arguments in [&[][..], &["ops"], &["ops", "nothing"]] {
        let mut command = profile.command(arguments);
        let output = command.env("MPISEE_SEGMENTS", profile.beside()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains("ended run"), "{arguments:?}");
    }
}

#[test]
fn operations_and_kinds_are_matched_in_capitals_or_not() {
    let profile = splatt().write();
    let expected = profile.run(&["ops", "app.mpisee", "--call", "MPI_Allreduce"]).exits(0).stdout.clone();
    for call in ["allreduce", "mpi_ALLREDUCE", "AllR*"] {
        profile.run(&["ops", "app.mpisee", "--call", call]).prints(&expected);
    }
    let expected = profile.run(&["ops", "app.mpisee", "--kind", "p2p"]).exits(0).stdout.clone();
    profile.run(&["ops", "app.mpisee", "--kind", "P2P"]).prints(&expected);
}

#[test]
fn filters_that_match_nothing_are_told_what_there_is() {
    let profile = splatt().write();
    for command in ["matrix", "locality", "regions"] {
        profile
            .run(&[command, "app.mpisee", "--comm", "X*"])
            .fails_with(&["no communicator matches --comm X*; the profile has", "W_a1_s2.1"]);
        let ranks = profile.run(&[command, "app.mpisee", "--ranks", "9"]);
        ranks.fails_with(&["no rank matches --ranks 9; the profile has 0-7"]);
    }
    let regions = profile.run(&["regions", "app.mpisee", "--region", "solver"]);
    regions.fails_with(&["no region matches --region solver; the profile has none"]);
    let named = splatt().region("halo", 0, 1, 1.0, 0.5).write();
    let regions = named.run(&["regions", "app.mpisee", "--region", "solver"]);
    regions.fails_with(&["no region matches --region solver; the profile has halo"]);
}

#[test]
fn grouping_by_place_leads_to_sites() {
    let profile = splatt().write();
    for arguments in [&["summary", "--by", "site", "app.mpisee"][..], &["app.mpisee", "--by=site"]] {
        let said = "; mpisee-through sites shows the calls of each place in the program; --help lists";
        profile.run(arguments).fails_with(&["unexpected argument '--by", said]);
    }
}
