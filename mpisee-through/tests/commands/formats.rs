//! A profile of every version of the format, which the mpisee of its time wrote of
//! `examples/stencil2d.c` on four ranks, and the answers to it. They stay as they are: every
//! version ever written stays readable.

use crate::support::{Ran, golden};
use mpisee_profile::FORMAT_VERSION;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands about one profile, with their options.
const COMMANDS: [&str; 14] = [
    "summary",
    "advise",
    "efficiency",
    "efficiency --loss",
    "waits",
    "sites",
    "ops",
    "sizes",
    "regions",
    "comms",
    "ranks",
    "matrix",
    "locality",
    "check",
];

fn profile(version: u32) -> PathBuf {
    let path = Path::new("tests/commands/formats").join(format!("v{version}.mpisee"));
    assert!(path.is_dir(), "a new version of the format needs a profile of it in {}", path.display());
    path
}

fn run(version: u32, words: &str, options: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpisee-through"));
    command.args(words.split(' ')).arg(profile(version)).args(options);
    Ran::new(command)
}

#[test]
fn profiles_of_every_version_have_their_answers() {
    for version in 1..=FORMAT_VERSION {
        let mut text = String::new();
        for words in COMMANDS {
            let ran = run(version, words, &["--format", "csv"]);
            let code = ran.code.expect("it is not killed");
            text += &format!("$ {words}: {code}\n{}{}\n", ran.stdout, ran.stderr);
        }
        golden(&format!("format-{version}"), &text);
    }
}

/// Calls and bytes by operation and the label of the communicator, since version 1 numbered
/// communicators otherwise.
fn counts(version: u32) -> BTreeMap<[String; 2], [u64; 2]> {
    let ran = run(version, "summary", &["--all", "--each", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    let mut counts = BTreeMap::new();
    for row in reader.deserialize::<BTreeMap<String, String>>().map(Result::unwrap) {
        let number = |name: &str| row[name].parse::<u64>().unwrap_or_else(|_| panic!("{name} in {row:?}"));
        let sums = counts.entry([row["label"].clone(), row["call"].clone()]).or_insert([0, 0]);
        *sums = [sums[0] + number("calls"), sums[1] + number("bytes")];
    }
    counts
}

#[test]
fn one_program_has_the_same_counts_in_every_version() {
    let newest = counts(FORMAT_VERSION);
    assert!(newest.len() > 8, "{newest:?}");
    for version in 1..FORMAT_VERSION {
        assert_eq!(counts(version), newest, "version {version}");
    }
}

#[test]
fn reports_of_every_version_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for version in 1..=FORMAT_VERSION {
        let page = folder.path().join(format!("{version}.html"));
        run(version, "report", &["--output", page.to_str().unwrap()]).exits(0);
        assert!(page.metadata().unwrap().len() > 100_000);
    }
}
