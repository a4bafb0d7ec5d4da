//! Call sites and call paths in the report: those of the commands.

use super::{assert_same, at, data_of, index, json_of, list, page_of, rows_by, rows_of, summed};
use crate::support::{Builder, solver, splatt};
use serde_json::Value;

/// The sums by row of the parts on the families that are chosen.
fn parts(data: &Value, table: &str, sum: &str, comms: &[&str]) -> std::collections::BTreeMap<String, f64> {
    let of = &data[table];
    let (parts, columns) = (&of["parts"], &of["table"]["columns"]);
    let takes = |row: usize| {
        let name = data["comms"][index(at(parts, "comm", row))]["name"].as_str().unwrap();
        comms.is_empty() || comms.contains(&name)
    };
    let key = |row: usize| {
        let row = index(at(parts, "row", row));
        format!("{} {}", columns[0][row], columns[1][row])
    };
    summed(parts, sum, takes, key)
}

#[test]
fn call_sites_are_those_of_the_command() {
    let profile = solver().write();
    let data = data_of(&page_of(&profile));
    let sites = json_of(&profile, &["sites"]);
    let strip = |row: &Value| {
        let mut row = row.as_object().unwrap().clone();
        ["comms", "sites"].iter().for_each(|list| drop(row.remove(*list)));
        Value::Object(row)
    };
    let expected: Vec<Value> = list(&sites["sites"]).iter().map(strip).collect();
    assert_eq!(rows_of(&data["sites"]["table"]), expected);
    assert_eq!(data["sites"]["notes"], sites["notes"]);
    let of = |row: &Value| format!("{} {}", row["at"], row["call"]);
    for sum in ["calls", "time_s"] {
        assert_same(&parts(&data, "sites", sum, &[]), &rows_by(&sites["sites"], sum, of));
        let some = json_of(&profile, &["sites", "--comm", "W_s1.*"]);
        assert_same(&parts(&data, "sites", sum, &["W_s1.*"]), &rows_by(&some["sites"], sum, of));
    }
}

#[test]
fn call_paths_are_those_of_the_command() {
    let profile = solver().write();
    let data = data_of(&page_of(&profile));
    let paths = json_of(&profile, &["paths"]);
    assert_eq!(rows_of(&data["paths"]["table"]), *list(&paths["paths"]));
    let of = |row: &Value| format!("{} {}", row["path"], row["call"]);
    for sum in ["calls", "time_s"] {
        assert_same(&parts(&data, "paths", sum, &[]), &rows_by(&paths["paths"], sum, of));
        let some = json_of(&profile, &["paths", "--comm", "W_s1.*"]);
        assert_same(&parts(&data, "paths", sum, &["W_s1.*"]), &rows_by(&some["paths"], sum, of));
    }
    let names = list(&data["paths"]["names"]);
    for (frames, row) in list(&data["paths"]["frames"]).iter().zip(list(&paths["paths"])) {
        let mut frames: Vec<&str> =
            list(frames).iter().map(|frame| names[index(frame)].as_str().unwrap()).collect();
        frames.reverse();
        assert_eq!(row["frames"], frames.join(" < "));
    }
}

#[test]
fn a_profile_without_sites_says_so() {
    let data = data_of(&page_of(&splatt().write()));
    assert!(data["sites"].is_null() && data["paths"].is_null());
    assert!(data["missing"]["sites"].as_str().unwrap().contains("has no call sites"), "{}", data["missing"]);
}

#[test]
fn sites_advise_and_report_look_past_the_same_frames() {
    let extension = "/usr/lib/python3/dist-packages/petsc4py/lib/PETSc.cpython-311-x86_64-linux-gnu.so";
    for (library, list, wrapper) in
        [(extension, "", "petsc4py"), ("/opt/app/libcomm.so.1", "libcomm.so*\n", "libcomm.so.1")]
    {
        let mut profile = Builder::new(4);
        let inner = profile.site(library, "cd34", 0x1234);
        let caller = profile.line("step", "solver.c", 301);
        for rank in 0..4 {
            profile.path("W", rank, "MPI_Waitall", 10, 5.0, &[inner, caller]);
            profile = profile.call_with("W", rank, "MPI_Waitall", 10, 0, 5.0, |row| row.site = Some(inner));
        }
        let written = profile.write();
        let patterns = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(patterns.path(), list).unwrap();
        let said = |arguments: &[&str]| {
            let mut command = written.command(arguments);
            let output = command.env("MPISEE_SKIP_FRAMES", patterns.path()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let place = format!("step at solver.c:301 (by {wrapper})");
        let report = data_of(&said(&["report", "app.mpisee", "-o", "-"])).to_string();
        let sites = said(&["sites", "app.mpisee", "--format", "json"]);
        let advise = said(&["advise", "app.mpisee", "--format", "json"]);
        for (what, text) in [("sites", sites), ("advise", advise), ("report", report)] {
            assert!(text.contains(&place), "{what}, {library}: {text}");
        }
    }
}
