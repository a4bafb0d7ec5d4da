//! Addresses of a compiled program become functions and lines.

use crate::support::{Builder, Written};
use mpisee_profile::SiteId;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A program that calls a function in place of MPI's: from an inlined function, and from `main`.
const PROGRAM: &str = "\
__attribute__((noipa)) int MPI_Wait(int *request) { return *request; }
static inline __attribute__((always_inline)) int exchange(int *request) {
    int got = MPI_Wait(request);
    return got + 1;
}
__attribute__((noipa)) int step(int *request) {
    int first = exchange(request);
    return 2 * first;
}
int main(int argc, char **argv) {
    int request = argc + (argv != 0);
    int all = step(&request);
    return all + MPI_Wait(&request);
}
";

/// The program, built in a folder of its own.
struct Built {
    scratch: TempDir,
    app: PathBuf,
    build_id: String,
    /// The return addresses of calls of MPI: in `step` with `exchange` inlined, in `main`, and that
    /// of `main`'s call of `step`.
    calls: [u64; 3],
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Built {
    fn new(flags: &[&str]) -> Built {
        Built::with_call_in("step", flags)
    }

    /// The same where the first call of MPI is in another function.
    fn with_call_in(caller: &str, flags: &[&str]) -> Built {
        let scratch = tempfile::tempdir().unwrap();
        let (source, app) = (scratch.path().join("solver.c"), scratch.path().join("app"));
        std::fs::write(&source, PROGRAM).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-Wl,--build-id=sha1", "-o"]).arg(&app).args(flags).arg(&source);
        run(&mut gcc);
        let listing = run(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&app));
        let notes = run(Command::new("readelf").arg("-n").arg(&app));
        let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
        let build_id = build_id.unwrap_or_default().to_owned();
        let calls = [caller, "main", "main"].into_iter().zip(["MPI_Wait", "MPI_Wait", "step"]);
        let calls: Vec<u64> = calls.map(|(caller, called)| after_call(&listing, caller, called)).collect();
        Built { scratch, app, build_id, calls: calls.try_into().unwrap() }
    }

    /// A profile in which each call of MPI took 1 s on one rank, with the path of that in `step`.
    fn profile(&self, build_id: &str) -> Written {
        let mut profile = Builder::new(1);
        // What is written from now on is not what ran.
        (profile.run.start, profile.run.end) =
            ("2100-01-01T00:00:00Z".to_owned(), "2100-01-01T00:00:10Z".to_owned());
        let module = self.app.to_str().unwrap();
        let sites: Vec<SiteId> =
            self.calls.iter().map(|&call| profile.site(module, build_id, call)).collect();
        for site in &sites[..2] {
            profile = profile.call_with("W", 0, "MPI_Wait", 10, 0, 1.0, |row| row.site = Some(*site));
        }
        profile.path("W", 0, "MPI_Wait", 1, 0.5, &[sites[0], sites[2]]);
        profile.write()
    }

    /// The file with what `strip` removes.
    fn split(&self, debug: &Path) {
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&self.app).arg(debug));
        run(Command::new("strip").arg(&self.app));
    }

    fn debug_folder(&self) -> PathBuf {
        let folder = self.scratch.path().join("debug");
        let first = self.build_id.get(..2).unwrap_or_default();
        std::fs::create_dir_all(folder.join(".build-id").join(first)).unwrap();
        folder
    }
}

/// The address after the call, as the disassembly has it.
fn after_call(listing: &str, caller: &str, called: &str) -> u64 {
    let of_caller = listing.lines().skip_while(|line| !line.ends_with(&format!("<{caller}>:")));
    let mut rest =
        of_caller.skip_while(|line| !(line.contains("call") && line.ends_with(&format!("<{called}>"))));
    rest.next().unwrap_or_else(|| panic!("{caller} calls no {called}:\n{listing}"));
    let next = rest.next().unwrap().trim().split(':').next().unwrap();
    u64::from_str_radix(next, 16).unwrap()
}

/// The places of a profile, and what is said of them.
fn places(profile: &Written, debug_dirs: &Path, options: &[&str]) -> (Vec<String>, String) {
    places_with(profile, options, &[("MPISEE_DEBUGINFO", debug_dirs)])
}

/// The same with these variables, which are paths.
fn places_with(profile: &Written, options: &[&str], variables: &[(&str, &Path)]) -> (Vec<String>, String) {
    let mut command = profile.command(&[&["sites", "app.mpisee", "--format", "json"], options].concat());
    for unset in ["DEBUGINFOD_CACHE_PATH", "XDG_CACHE_HOME", "DEBUGINFOD_URLS"] {
        command.env_remove(unset);
    }
    command.env("HOME", "/nowhere").envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = found["sites"].as_array().unwrap();
    let mut places: Vec<String> = rows.iter().map(|row| row["at"].as_str().unwrap().to_owned()).collect();
    places.sort();
    (places, found["notes"].as_str().unwrap().to_owned())
}

const LINES: [&str; 2] = ["exchange at solver.c:3 < step at solver.c:7", "main at solver.c:13"];

#[test]
fn lines_and_inlined_functions_come_from_the_binary() {
    for flags in [&["-g"][..], &["-g", "-no-pie"], &["-g", "-gz"], &["-g", "-gdwarf-4"]] {
        let built = Built::new(flags);
        let profile = built.profile(&built.build_id);
        let (found, notes) = places(&profile, Path::new(""), &[]);
        assert_eq!((found, notes), (LINES.map(str::to_owned).to_vec(), String::new()), "{flags:?}");
        let ran = profile.run(&["paths", "app.mpisee"]);
        let tree: Vec<&str> =
            ran.exits(0).stdout.lines().skip(3).filter_map(|line| line.split("  ").last()).collect();
        let expected =
            ["main at solver.c:12", "└─ step at solver.c:7", "└─ exchange at solver.c:3", "└─ MPI_Wait"];
        assert_eq!(tree.iter().map(|line| line.trim()).collect::<Vec<_>>(), expected, "{}", ran.stdout);
    }
}

#[test]
fn lines_come_from_a_separate_file_by_its_build_id() {
    let built = Built::new(&["-g"]);
    let folder = built.debug_folder();
    let (first, rest) = built.build_id.split_at(2);
    built.split(&folder.join(".build-id").join(first).join(format!("{rest}.debug")));
    let profile = built.profile(&built.build_id);
    assert_eq!(places(&profile, &folder, &[]), (LINES.map(str::to_owned).to_vec(), String::new()));
    // Also where the binary itself is gone.
    std::fs::remove_file(&built.app).unwrap();
    assert_eq!(places(&profile, &folder, &[]).0, LINES);
    let (found, notes) = places(&profile, Path::new(""), &[]);
    assert_eq!(found[0], format!("app+{:#x}", built.calls[0].min(built.calls[1])));
    assert!(notes.starts_with("No lines are known of app (not on this machine)."), "{notes}");
}

#[test]
fn lines_come_from_the_file_that_the_binary_names() {
    for (id, place) in [("sha1", "beside"), ("none", "beside"), ("none", "folder")] {
        let built = Built::new(&["-g", &format!("-Wl,--build-id={id}")]);
        let folder = built.debug_folder();
        let debug = built.scratch.path().join("app.debug");
        built.split(&debug);
        run(Command::new("objcopy").arg("--add-gnu-debuglink").arg(&debug).arg(&built.app));
        if place == "folder" {
            std::fs::rename(&debug, folder.join("app.debug")).unwrap();
        }
        let profile = built.profile(if id == "none" { "" } else { &built.build_id });
        assert_eq!(places(&profile, &folder, &[]).0, LINES, "{id} {place}");
        // Of another build its checksum or build ID differs.
        let other = Built::new(&["-g", "-O1"]);
        let debug = if place == "folder" { folder.join("app.debug") } else { debug };
        std::fs::copy(&other.app, debug).unwrap();
        let (found, notes) = places(&profile, &folder, &[]);
        assert!(found.iter().all(|place| place.starts_with("app+0x")), "{found:?}");
        let expected =
            "No lines are known of app (stripped, and its file of debug information is not here). Build with";
        assert!(notes.starts_with(expected), "{notes}");
    }
}

#[test]
fn where_files_with_functions_are_missing_that_is_said() {
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let built = Built::new(&["-gsplit-dwarf", version]);
        let profile = built.profile(&built.build_id);
        let (found, notes) = places(&profile, Path::new(""), &[]);
        assert_eq!((found, notes), (LINES.map(str::to_owned).to_vec(), String::new()), "{version}");
        let files = std::fs::read_dir(built.scratch.path()).unwrap().map(|entry| entry.unwrap().path());
        let apart = files.filter(|path| path.extension().is_some_and(|it| it == "dwo"));
        apart.for_each(|path| std::fs::remove_file(path).unwrap());
        let (found, notes) = places(&profile, Path::new(""), &[]);
        assert_eq!(found, ["main at solver.c:13", "step at solver.c:3"], "{version}");
        assert!(
            notes.starts_with("The functions of app are described in files that are missing here (.dwo of"),
            "{version}: {notes}"
        );
    }
}

#[test]
fn functions_without_lines_have_their_offset() {
    let built = Built::new(&[]);
    let profile = built.profile(&built.build_id);
    let (found, notes) = places(&profile, Path::new(""), &[]);
    assert!(found[0].starts_with("main+0x") && found[0].ends_with(" in app"), "{found:?}");
    assert!(found[1].starts_with("step+0x"), "{found:?}");
    assert!(notes.contains("app (built without -g)") && notes.contains("MPISEE_DEBUGINFO=DIR"), "{notes}");
    let ran = profile.run(&["sites", "app.mpisee", "--resolve"]);
    assert!(ran.exits(0).stdout.ends_with("has the lines of 0 of 3 call sites.\n"), "{}", ran.stdout);
    std::fs::remove_file(&built.app).unwrap();
    assert_eq!(places(&profile, Path::new(""), &[]).0, ["main in app", "step in app"]);
}

#[test]
fn another_build_is_not_resolved_and_what_was_resolved_stays() {
    let built = Built::new(&["-g"]);
    let profile = built.profile(&built.build_id);
    let ran = profile.run(&["sites", "app.mpisee", "--resolve"]);
    assert!(
        ran.exits(0).stdout.ends_with("sites.csv' has the lines of 3 of 3 call sites.\n"),
        "{}",
        ran.stdout
    );
    let table = std::fs::read_to_string(profile.directory.join("sites.csv")).unwrap();
    assert!(table.contains(",exchange,") && table.contains("solver.c,3,step at "), "{table}");
    let other = Built::new(&["-g", "-O1"]);
    std::fs::copy(&other.app, &built.app).unwrap();
    let (found, notes) = places(&profile, Path::new(""), &[]);
    assert_eq!((found, notes), (LINES.map(str::to_owned).to_vec(), String::new()));
    let damaged = table.replace("solver.c:7", "solver.c");
    std::fs::write(profile.directory.join("sites.csv"), damaged).unwrap();
    let ran = profile.run(&["sites", "app.mpisee"]);
    assert!(ran.exits(2).stderr.contains("column 'inlined_into': 'step at "), "{}", ran.stderr);
    let profile = built.profile(&built.build_id);
    let (found, notes) = places(&profile, Path::new(""), &[]);
    assert!(found.iter().all(|place| place.starts_with("app+0x")), "{found:?}");
    assert!(notes.starts_with("No lines are known of app (not the file that ran)."), "{notes}");
}

#[test]
fn the_source_is_shown_around_each_call() {
    let built = Built::new(&["-g"]);
    let profile = built.profile(&built.build_id);
    let ran = profile.run(&["sites", "app.mpisee", "--annotate"]);
    let expected = "\
exchange at solver.c:3 < step at solver.c:7, MPI_Wait: 1.00 s over all ranks
  1 │ __attribute__((noipa)) int MPI_Wait(int *request) { return *request; }
  2 │ static inline __attribute__((always_inline)) int exchange(int *request) {
> 3 │     int got = MPI_Wait(request);
  4 │     return got + 1;
  5 │ }
";
    assert!(ran.exits(0).stdout.contains(expected), "{}", ran.stdout);
    let moved = built.scratch.path().join("elsewhere");
    std::fs::create_dir(&moved).unwrap();
    std::fs::rename(built.scratch.path().join("solver.c"), moved.join("solver.c")).unwrap();
    let ran = profile.run(&["sites", "app.mpisee", "--annotate"]);
    assert!(
        ran.exits(0).stdout.contains("solver.c' is not there; --source DIR says where to look"),
        "{}",
        ran.stdout
    );
    let ran = profile.run(&["sites", "app.mpisee", "--annotate", "--source", &moved.display().to_string()]);
    assert!(ran.exits(0).stdout.contains(expected), "{}", ran.stdout);
}

#[test]
fn functions_are_looked_past_also_where_they_are_inlined() {
    let built = Built::new(&["-g"]);
    let profile = built.profile(&built.build_id);
    let (found, _) = places(&profile, Path::new(""), &["--skip-frames", "exchange"]);
    assert_eq!(found, ["main at solver.c:13", "step at solver.c:7 (by exchange)"]);
    let (found, notes) =
        places(&profile, Path::new(""), &["--skip-frames", "exchange", "--skip-frames", "step"]);
    let not_known = "exchange at solver.c:3 < step at solver.c:7 (caller not known)";
    assert_eq!(found, [not_known, "main at solver.c:12 (by exchange)", "main at solver.c:13"]);
    assert!(
        notes.starts_with(
            "Of 25.0 % of this time, in libraries or functions that call MPI for others, the caller is shown, with the calls \
             whose path was taken; "
        ),
        "{notes}"
    );
}

#[test]
fn servers_are_asked_by_their_client_and_its_cache_is_read() {
    let built = Built::new(&["-g"]);
    let folder = built.scratch.path().join("bin");
    let cached = built.scratch.path().join(".cache/debuginfod_client").join(&built.build_id);
    for folder in [&folder, &cached] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let debug = built.scratch.path().join("downloaded");
    built.split(&debug);
    // In place of the client, a program that answers for this binary alone.
    let client = folder.join("debuginfod-find");
    let script =
        format!("#!/bin/sh\n[ \"$1 $2\" = 'debuginfo {}' ] && echo '{}'\n", built.build_id, debug.display());
    std::fs::write(&client, script).unwrap();
    std::fs::set_permissions(&client, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let profile = built.profile(&built.build_id);
    let path = PathBuf::from(format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    let servers = [("PATH", path.as_path()), ("DEBUGINFOD_URLS", Path::new("http://localhost:1"))];
    let (found, notes) = places_with(&profile, &[], &servers);
    assert!(found.iter().all(|place| place.starts_with("app+0x")), "not unless the user wants it: {found:?}");
    assert!(notes.contains("sites --resolve --debuginfod"), "{notes}");
    assert_eq!(places_with(&profile, &["--debuginfod"], &servers).0, LINES);
    std::fs::write(
        &client,
        "#!/bin/sh\n[ \"$1\" = --version ] || { echo 'Server query failed: Timer expired' >&2; exit 1; }\n",
    )
    .unwrap();
    let (found, notes) = places_with(&profile, &["--debuginfod"], &servers);
    assert!(found.iter().all(|place| place.starts_with("app+0x")), "{found:?}");
    assert!(notes.contains("debuginfod-find said: Server query failed: Timer expired."), "{notes}");
    std::fs::rename(&debug, cached.join("debuginfo")).unwrap();
    assert_eq!(places_with(&profile, &[], &[("HOME", built.scratch.path())]).0, LINES);
}

#[test]
fn calls_are_expected_at_each_function_of_an_inlined_chain() {
    let built = Built::new(&["-g"]);
    let profile = built.profile(&built.build_id);
    let expecting = |text: &str| {
        std::fs::write(profile.beside().join("app.expect"), text).unwrap();
        profile.run(&["expect", "app.expect", "app.mpisee"])
    };
    let text = "calls at exchange = 10\ncalls at step = 10\ncalls at solver.c:3 = 10\ncalls at solver.c:7 = 10\n\
                calls at solver.c = 20\n";
    expecting(text).exits(0);
    run(Command::new("strip").arg(&built.app));
    let ran = expecting(text);
    assert_eq!(ran.exits(1).stdout.matches("NOT CHECKED").count(), 5, "{}", ran.stdout);
    assert!(ran.stdout.contains("No lines are known of app (stripped)."), "{}", ran.stdout);
}

#[test]
fn places_are_paired_where_a_function_is_inlined_in_one_build_alone() {
    let (inlined, apart) =
        (Built::new(&["-g"]), Built::with_call_in("exchange", &["-g", "-Dalways_inline=noipa"]));
    let (before, after) = (inlined.profile(&inlined.build_id), apart.profile(&apart.build_id));
    let after = after.directory.to_str().unwrap();
    let ran = before.run(&["diff", "app.mpisee", after, "--by", "site", "--format", "csv"]);
    let mut rows: Vec<&str> = ran.exits(0).stdout.lines().skip(1).collect();
    rows.sort_unstable();
    let paired = ",MPI_Wait,10,10,1.000000000,1.000000000,0.000000000,0.000000000,1.000000000,1.000000000,,";
    let expected = [
        format!("exchange at solver.c:3 < step at solver.c:7,exchange at solver.c:3{paired}"),
        format!("main at solver.c:13,{paired}"),
    ];
    assert_eq!(rows, expected);
}
