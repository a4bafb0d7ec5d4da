//! The page: text of the program stays text, the bundle is what its sources make, and a browser
//! shows it.

use super::{data_of, full, page_of};
use crate::support::{Builder, Written};
use mpisee_profile::rows::{NodeRow, OffsetRow, RegionTotalRow, Row, SpreadRow, TotalRow};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A label that would be a part of a page, and characters that need care.
const LABEL: &str = "<script>document.title=\"no\"</script> \"quoted\" & 'single' 🦀";

fn labelled() -> Written {
    let mut builder = full();
    for row in builder.comms.iter_mut().filter(|row| row.comm.starts_with("W_s1.") && row.size == 4) {
        if !row.label.starts_with("fft") {
            row.label = LABEL.to_owned();
        }
    }
    builder.with(|profile| profile.run.command = vec!["./<b>&app".to_owned()]).write()
}

#[test]
fn text_of_the_program_stays_text() {
    let page = page_of(&labelled());
    assert!(page.contains("<title>&lt;b&gt;&amp;app · mpisee</title>"), "{}", &page[..600]);
    assert!(!page.contains("document.title="), "the label is in the compressed data alone");
    let data = data_of(&page);
    let labels = data["comms"].as_array().unwrap().iter().map(|comm| comm["label"].as_str().unwrap());
    assert!(labels.into_iter().any(|label| label == LABEL));
}

#[test]
fn text_of_the_program_does_not_turn_the_direction_of_writing() {
    let forged = "x\u{202e}gnp.\u{2066}c";
    let builder = full().with(|profile| {
        profile.run.command = vec![format!("./{forged}")];
        profile.comms.iter_mut().for_each(|row| row.label = forged.to_owned());
    });
    let page = page_of(&builder.write());
    assert!(page.contains("<title>x\\u{202e}gnp.\\u{2066}c · mpisee</title>"), "{}", &page[..600]);
    let data = data_of(&page).to_string();
    assert!(!data.contains('\u{202e}') && !data.contains('\u{2066}'), "turned");
    assert!(data.contains("x\\\\u{202e}gnp.\\\\u{2066}c"), "the label is shown: {}", &data[..2000]);
}

#[test]
fn the_page_loads_nothing() {
    let page = page_of(&full().write());
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("default-src 'none'"));
    for loading in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!page.contains(loading), "{loading}");
    }
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn the_file_is_named_after_the_profile_or_as_asked() {
    let profile = full().write();
    let ran = profile.run(&["report", "app.mpisee"]);
    assert!(ran.exits(0).stderr.contains("app.html") && ran.stdout.is_empty());
    assert!(profile.beside().join("app.html").exists());
    profile.run(&["report", "app.mpisee", "-o", "other.html"]).exits(0);
    assert!(profile.beside().join("other.html").exists());
    profile.run(&["report", "app.mpisee", "-o", "no/such/folder.html"]).fails_with(&["no/such/folder.html"]);
}

#[test]
fn a_table_that_breaks_off_is_shown_as_far_as_it_goes() {
    let profile = full().write();
    let calls = profile.directory.join("calls.csv");
    let text = std::fs::read_to_string(&calls).unwrap();
    std::fs::write(&calls, text.trim_end().rsplit_once(',').unwrap().0).unwrap();
    let ran = profile.run(&["report", "app.mpisee", "-o", "app.html"]);
    ran.exits(2).says(&["calls.csv", "rows before an error"]);
    let data = data_of(&std::fs::read_to_string(profile.beside().join("app.html")).unwrap());
    assert!(data["partial_because"].as_str().unwrap().contains("calls.csv"));
}

/// The profile of a run with sums over ranks.
pub fn sums_over_ranks() -> Written {
    let profile = Builder::new(4).with(|profile| profile.run.is_aggregate = true).write();
    let table = |file: &str, columns: &[&str], row: &str| {
        std::fs::write(profile.directory.join(file), format!("{}\n{row}\n", columns.join(","))).unwrap();
    };
    let filled = |columns: &[&str], fields: &[(&str, &str)]| {
        let field = |column: &&str| {
            let nothing = if *column == "site" { "" } else { "0" };
            fields.iter().find(|(name, _)| name == column).map_or(nothing, |(_, value)| value).to_owned()
        };
        columns.iter().map(field).collect::<Vec<String>>().join(",")
    };
    let total = [
        ("comm", "W"),
        ("region", ""),
        ("call", "MPI_Allreduce"),
        ("memory", "host"),
        ("size_min", "8"),
        ("size_max", "15"),
        ("ranks", "4"),
        ("calls", "40"),
        ("bytes", "320"),
        ("time_s", "2.5"),
        ("time_max_s", "1"),
        ("time_min_s", "0.5"),
        ("max_s", "0.5"),
    ];
    table(TotalRow::FILE, TotalRow::columns(), &filled(TotalRow::columns(), &total));
    table(
        SpreadRow::FILE,
        SpreadRow::columns(),
        &filled(SpreadRow::columns(), &[("comm", "W"), ("call", ""), ("ranks", "4")]),
    );
    let node = [
        ("host", "n0"),
        ("ranks", "4"),
        ("members", "0-3"),
        ("wall_s", "40"),
        ("wall_max_s", "10"),
        ("mpi_s", "2.5"),
    ];
    table(NodeRow::FILE, NodeRow::columns(), &filled(NodeRow::columns(), &node));
    let offset = [
        ("comm", "W"),
        ("offset_min", "1"),
        ("offset_max", "1"),
        ("sent_messages", "3"),
        ("sent_bytes", "33"),
    ];
    table(OffsetRow::FILE, OffsetRow::columns(), &filled(OffsetRow::columns(), &offset));
    table(RegionTotalRow::FILE, RegionTotalRow::columns(), "");
    profile
}

#[test]
fn sums_over_ranks_have_a_report_of_what_they_have() {
    let data = data_of(&page_of(&sums_over_ranks()));
    assert_eq!(data["operations"]["time_s"][0], 2.5);
    assert_eq!(data["offsets"]["bytes"][0], 33);
    assert!(data["rank_times"].is_null() && data["messages"].is_null() && data["waits"].is_null());
    assert_eq!(data["nodes"]["names"], serde_json::json!(["n0"]));
    assert_eq!((&data["nodes"]["mpi_s"][0], &data["nodes"]["block"]), (&2.5.into(), &1.into()));
    for chart in ["waits", "grid", "locality"] {
        let why = data["missing"][chart].as_str().unwrap();
        assert!(why.contains("sums over ranks") && why.contains("--fold 4"), "{chart}: {why}");
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report")
}

/// Why what needs node and the packages of `report/` cannot be run here.
fn missing_for_node() -> Option<&'static str> {
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    match (has_node, sources().join("node_modules/esbuild").exists()) {
        (false, _) => Some("there is no node"),
        (_, false) => Some("the packages are not installed; npm --prefix report ci does that"),
        _ => None,
    }
}

fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{command:?}\n{said}");
}

#[test]
fn the_bundle_is_what_its_sources_make() {
    if let Some(why) = missing_for_node() {
        eprintln!("SKIPPED, the bundle of the report was not built again: {why}.");
        return;
    }
    passes(Command::new("node").args(["build.mjs", "--check"]).current_dir(sources()));
    passes(Command::new("node").args(["node_modules/typescript/bin/tsc", "--noEmit"]).current_dir(sources()));
}

#[test]
fn a_browser_shows_it() {
    let browsers = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let mut browsers = browsers.map(|name| Path::new("/usr/bin").join(name)).into_iter();
    let Some(browser) = browsers.find(|path| path.exists()) else {
        eprintln!("SKIPPED, the report was not opened in a browser: there is no Chromium.");
        return;
    };
    if let Some(why) = missing_for_node() {
        eprintln!("SKIPPED, the report was not opened in a browser: {why}.");
        return;
    }
    let profile = labelled();
    let folder = profile.beside().join("pages");
    std::fs::create_dir(&folder).unwrap();
    let write = |profile: &Written, name: &str| std::fs::write(folder.join(name), page_of(profile)).unwrap();
    super::over_time::write_time_line(&profile);
    write(&profile, "plain.html");
    write(&sums_over_ranks(), "sums.html");
    write(&crate::shares::without_core(), "cores.html");
    write(&crate::support::splatt().write(), "grid.html");
    write(&Builder::new(2).write(), "empty.html");
    write(&crate::support::solver().write(), "sites.html");
    write(&crate::support::gpus::two_gpus(), "gpus.html");
    write(&super::gpus::without_copies_and_kernels(), "some-ways.html");
    write(&super::gpus::with_time_line(), "nccl.html");
    write(&crate::support::gpus::nccl_alone().write(), "alone.html");
    write(&super::gpus::with_like_uuids(), "alike.html");
    for (name, page) in super::several::pages() {
        std::fs::write(folder.join(name), page).unwrap();
    }
    passes(Command::new("node").arg("test/browser.mjs").arg(browser).arg(&folder).current_dir(sources()));
}
