//! The time-stamp counter and the monotonic clock, which a profile needs both.
use mpisee_tests::{Finished, Mpi, Run, case, harness, through};

#[case]
fn clocks_that_disagree_are_named(mpi: &Mpi) {
    for (jump_s, then) in [(30, "stay"), (-30, "stay"), (30, "back")] {
        let finished = Run::new(mpi, "lifecycle/clock_jump").ranks(2).argument(jump_s).argument(then);
        let finished = finished.variable("MPISEE_CLOCK", "auto").profiled();
        let run = &finished.tables().run;
        if run.clock != "tsc" {
            harness::leave_out("this machine's time-stamp counter is not used");
            return;
        }
        let apart = run.clocks_apart.as_ref().expect("a clock jumped");
        assert_eq!(apart.ranks, 2);
        assert!((29.0..31.0).contains(&apart.most_s), "{apart:?} for {jump_s} s, then {then}");
        let sentence = said_everywhere(&finished);
        assert!(sentence.contains("of 2 ranks disagree by up to 30.0"), "{sentence}");
    }
}

/// The sentence on clocks, which is in `run.json`, and which `check` and `summary` show.
fn said_everywhere(finished: &Finished) -> String {
    let run = &finished.tables().run;
    let sentence = run.clock_sentence().expect("the clocks disagree");
    assert!(run.notes.contains(&sentence), "{:?}", run.notes);
    let directory = finished.directory().display().to_string();
    let check = through(&["check", &directory]);
    let checked = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(1), "{checked}");
    assert!(checked.contains(&format!("time: {sentence}.")), "{checked}");
    let summary = through(&["summary", &directory, "--format", "json"]);
    assert!(String::from_utf8_lossy(&summary.stdout).contains(&sentence));
    sentence
}

#[case]
fn a_clock_that_runs_fast_is_named(mpi: &Mpi) {
    for percent in [1, -1] {
        let finished = Run::new(mpi, "lifecycle/clock_jump").ranks(2).argument(percent).argument("fast");
        let finished = finished.variable("MPISEE_CLOCK", "auto").profiled();
        let tables = finished.tables();
        if tables.run.clock != "tsc" {
            harness::leave_out("this machine's time-stamp counter is not used");
            return;
        }
        let apart = tables.run.clocks_apart.as_ref().expect("a clock is fast");
        assert_eq!(apart.ranks, 2);
        // One percent of a run of 0.2 s or more, in regions of 10 ms.
        let wall_s = tables.ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
        let most_s = 0.01 * wall_s;
        assert!((0.8 * most_s..1.2 * most_s).contains(&apart.most_s), "{apart:?} of {wall_s} s");
        let sentence = said_everywhere(&finished);
        assert!(sentence.contains("of 2 ranks disagree by up to "), "{sentence}");
    }
}

#[case]
fn one_clock_that_goes_back_is_named(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/clock_jump")
        .ranks(2)
        .argument(-30)
        .argument("stay")
        .variable("MPISEE_CLOCK", "monotonic")
        .profiled();
    let sentence = finished.tables().run.clock_sentence().expect("the clock went back");
    assert!(sentence.starts_with("the monotonic clock of 2 ranks went back by up to "), "{sentence}");
}

#[case]
fn clocks_that_agree_are_not_mentioned(mpi: &Mpi) {
    let finished = Run::new(mpi, "lifecycle/clock_jump").ranks(2).argument(0).argument("stay").profiled();
    assert_eq!(finished.tables().run.clocks_apart, None);
    finished.check();
}
