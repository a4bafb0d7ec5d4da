//! The time-stamp counter and the monotonic clock, which a profile needs both.
use mpisee_tests::{Mpi, Run, case, harness, through};

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
        let sentence = run.clock_sentence().expect("a clock jumped");
        assert!(sentence.contains("of 2 ranks disagree by up to 30.0"), "{sentence}");
        assert!(run.notes.contains(&sentence), "{:?}", run.notes);
        let directory = finished.directory().display().to_string();
        let check = through(&["check", &directory]);
        let checked = String::from_utf8_lossy(&check.stdout).into_owned();
        assert_eq!(check.status.code(), Some(1), "{checked}");
        assert!(checked.contains(&format!("time: {sentence}.")), "{checked}");
        let summary = through(&["summary", &directory, "--format", "json"]);
        assert!(String::from_utf8_lossy(&summary.stdout).contains(&sentence));
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
