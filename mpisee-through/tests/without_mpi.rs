//! Profiles of processes without MPI: no command answers with what MPI alone has.

mod support;

use mpisee_profile::run::EndedIn;
use support::gpus::nccl_alone;
use support::{Builder, runs};

/// What a command prints, on a wide page.
fn printed(profile: &Builder, arguments: &[&str]) -> String {
    let ran = profile.write().run(&[arguments, &["app.mpisee", "--width", "200"]].concat());
    ran.exits(0).stdout.clone()
}

#[test]
fn who_ends_later_has_no_more_work() {
    let text = printed(&nccl_alone(), &["advise"]);
    assert!(text.contains("`mpisee --nccl-gpu-time`"), "{text}");
    assert!(!text.contains("uneven"), "{text}");
}

#[test]
fn nobody_waits_in_mpi_finalize() {
    let ran = runs::write(&[nccl_alone(), nccl_alone()]).run(&["runs", "set"]);
    let text = &ran.exits(0).stdout;
    assert!(text.contains("ncclAllReduce") && !text.contains("MPI_Finalize"), "{text}");
}

#[test]
fn a_time_line_is_not_offered() {
    let ran = nccl_alone().write().run(&["timeline", "app.mpisee"]);
    ran.fails_with(&["time lines are of MPI, and it has none"]);
    assert!(!ran.stderr.contains("--watch"), "{}", ran.stderr);
}

#[test]
fn regions_are_made_without_the_header() {
    let text = printed(&nccl_alone(), &["regions"]);
    assert!(text.contains("MPI_Pcontrol(0x4d505300") && !text.contains("mpisee.h"), "{text}");
    let ran = nccl_alone().write().run(&["regions", "app.mpisee", "--region", "step"]);
    ran.fails_with(&["the profile has none: MPI_Pcontrol(0x4d505300"]);
}

#[test]
fn paths_have_a_part_of_the_time_in_nccl() {
    let text = printed(&nccl_alone(), &["paths"]);
    let sentence =
        "Paths are known of 3.00 ms of the time in calls of NCCL, 50.0 %; 3.00 ms were in calls whose";
    assert!(text.starts_with(sentence), "{text}");
}

#[test]
fn ranks_that_were_killed_were_in_no_call_of_nccl() {
    let killed = nccl_alone().with(|profile| {
        profile.run.complete = false;
        profile.run.profiler.collected = "recover".to_owned();
        profile.run.ended_in = vec![EndedIn { ranks: "0-1".to_owned(), ..EndedIn::default() }];
    });
    let text = printed(&killed, &["advise"]);
    assert!(text.contains("The run ended before its exit: begin where ranks were."), "{text}");
    assert!(text.contains("Ranks 0-1 were in no call of NCCL"), "{text}");
}
