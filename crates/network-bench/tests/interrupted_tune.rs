//! `mpisee-bench tune` that is interrupted, or some of whose runs fail: what was there before is
//! there after, and nothing else.

use mpisee_bench::trial::{Report, Variable};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUN: &str = include_str!("profile/run.json");
const COMMS: &str = "comm,parent,created_by,size,count,members,label,topology,reorder,nodes,freed,between\nW,,,2,1,0-1,,,,1,0,\n";
const CALLS: &str = "comm,rank,region,call,size_min,size_max,memory,site,calls,bytes,time_s,min_s,max_s\n\
                     W,0,,MPI_Bcast,8,15,host,,10,80,1.000000000,0.000000001,1.000000000\n";
const PEERS: &str = "comm,rank,peer,sent_messages,sent_bytes,received_messages,received_bytes\n";

fn write(folder: &Path, files: &[(&str, &str)]) {
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn an_earlier_result_is_kept_and_no_folder_is_left() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("app.mpisee");
        std::fs::create_dir(&profile).unwrap();
        write(
            &profile,
            &[("run.json", RUN), ("comms.csv", COMMS), ("calls.csv", CALLS), ("peers.csv", PEERS)],
        );
        let before = [("app.tuned.env", "export A='1'\n"), ("app.tuned.rules", "rules\n")];
        write(folder.path(), &before);
        // Where the tests run in the background, SIGINT is ignored, and what is ignored stays so.
        let mut tune = Command::new("env");
        tune.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_mpisee-bench")]);
        // A launcher that hangs.
        tune.args(["tune", "app.mpisee", "--", "sh", "-c", "exec sleep 100"]).current_dir(folder.path());
        let child = tune.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begin = Instant::now();
        let is_running = || names(folder.path()).iter().any(|name| name.ends_with(".tmp"));
        while !is_running() {
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", names(folder.path()));
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: the process is a child that was not waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("interrupted"), "{said}");
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert_eq!(names(folder.path()), ["app.mpisee", "app.tuned.env", "app.tuned.rules"]);
        for (name, text) in before {
            assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), text);
        }
    }
}

/// A launcher whose MPI has two algorithms for MPI_Bcast beside its own choice, one of which takes
/// half of the time and one twice as long. `before` is done in each of its runs, which `$runs`
/// counts.
fn launcher(before: &str) -> String {
    const ALGORITHM: &str = "MPIR_CVAR_BCAST_INTRA_ALGORITHM";
    let description = "How to broadcast\nauto - as MPICH chooses\nbinomial - a tree\nring - a ring";
    let variable = Variable {
        name: ALGORITHM.to_owned(),
        description: description.to_owned(),
        value: "@VALUE@".to_owned(),
        names: Vec::new(),
    };
    let report = Report {
        mpi: Default::default(),
        setting: "Some MPI".to_owned(),
        nodes: 1,
        times_s: vec![1.0],
        variables: vec![variable],
        selection: None,
    };
    let report = serde_json::to_string(&report).unwrap().replace("[1.0]", "[@TIME@]");
    format!(
        "runs=$(cat runs 2>/dev/null || echo 0); runs=$((runs + 1)); echo $runs > runs\n\
         {before}\n\
         case \"${ALGORITHM}\" in binomial) value=1 time=0.5;; ring) value=2 time=2.0;; *) value=0 time=1.0;; esac\n\
         sed \"s/@VALUE@/$value/;s/@TIME@/$time/\" > \"$4\" <<'END'\n{report}\nEND\n"
    )
}

#[test]
fn what_was_measured_is_shown_after_an_interrupt_and_progress_before() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("app.mpisee");
    std::fs::create_dir(&profile).unwrap();
    write(&profile, &[("run.json", RUN), ("comms.csv", COMMS), ("calls.csv", CALLS), ("peers.csv", PEERS)]);
    // The 24th run does not end.
    write(folder.path(), &[("launch.sh", &launcher("test $runs -ge 24 && exec sleep 100"))]);
    let mut tune = Command::new("env");
    tune.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_mpisee-bench")]);
    tune.args(["tune", "app.mpisee", "--", "sh", "launch.sh"]).current_dir(folder.path());
    let child = tune.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    let runs = || std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    while runs().trim() != "24" {
        assert!(begin.elapsed() < Duration::from_secs(120), "{}", runs());
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: the process is a child that was not waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let [found, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(
        !output.status.success() && said.contains("interrupted; what was measured until then is shown"),
        "{said}"
    );
    // The ring is out after six rounds.
    assert!(said.contains("round 1 of 12 done") && said.contains("round 8 of 12 done"), "{said}");
    assert!(found.contains("the best that was tried is binomial, -50.0 % [-50.0, -50.0] (95 %)"), "{found}");
    assert_eq!(names(folder.path()), ["app.mpisee", "launch.sh", "runs"]);
}

/// One run with the binomial tree is killed, and all with the ring fail.
#[test]
fn a_launcher_that_dies_is_a_failed_run_and_no_finding_on_the_algorithm() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("app.mpisee");
    std::fs::create_dir(&profile).unwrap();
    write(&profile, &[("run.json", RUN), ("comms.csv", COMMS), ("calls.csv", CALLS), ("peers.csv", PEERS)]);
    let dies = "case \"$MPIR_CVAR_BCAST_INTRA_ALGORITHM\" in\n\
                binomial) test -e killed || { touch killed; kill -KILL $$; };;\n\
                ring) echo 'no ring here'; exit 3;; esac";
    write(folder.path(), &[("launch.sh", &launcher(dies))]);
    let mut tune = Command::new(env!("CARGO_BIN_EXE_mpisee-bench"));
    tune.args(["tune", "app.mpisee", "--rounds", "7", "--format", "json", "--", "sh", "launch.sh"]);
    let output = tune.current_dir(folder.path()).output().unwrap();
    let [found, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{said}");
    for sentence in [
        "a run with binomial failed and does not count: the launcher was killed by signal 9: it said nothing\n",
        "a run with ring failed and does not count: the launcher ended with exit code 3: no ring here\n",
    ] {
        assert!(said.contains(sentence), "{sentence}: {said}");
    }
    let found: Value = serde_json::from_str(&found).unwrap();
    let choice = &found["choices"][0];
    let of = |name: &str| choice["tried"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    assert_eq!((&of("binomial")["fails"], &of("binomial")["difference"]["pairs"]), (&Value::Null, &6.into()));
    assert_eq!(of("ring")["fails"], "the launcher ended with exit code 3: no ring here");
    assert_eq!((&choice["better"], &choice["difference"]["pairs"]), (&"binomial".into(), &7.into()));
}
