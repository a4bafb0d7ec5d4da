//! Profiles of processes without MPI: no command answers with what MPI alone has.

use crate::support::gpus::nccl_alone;
use crate::support::{Builder, Written, runs};
use mpisee_profile::rows::Seconds;
use mpisee_profile::run::EndedIn;

/// The output of a command, on a wide page.
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
fn no_word_of_times_in_mpi() {
    let several = nccl_alone().with(|profile| profile.run.mpi.thread_level = "multiple".to_owned());
    let text = printed(&several, &["check"]);
    assert!(text.contains("no process has time in MPI, which none used\n"), "{text}");
    assert!(!text.contains("MPI time") && !text.contains("wall time"), "{text}");
    let lacking = nccl_alone().with(|profile| {
        for row in &mut profile.ranks {
            row.wall_s.0 = 30.0;
            (row.cpu_user_s, row.cpu_system_s) = (Some(Seconds(10.0)), Some(Seconds(0.0)));
            row.cpu_wait_s = Some(Seconds(15.0));
        }
    });
    let text = printed(&lacking, &["advise"]);
    assert!(text.contains("[no-core]") && text.contains("Then measure again."), "{text}");
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
    ran.fails_with(&["the profile has none: put MPI_Pcontrol(0x4d505300"]);
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
    assert!(text.contains("The run ended before its exit. Start with the last places of ranks."), "{text}");
    assert!(text.contains("Ranks 0-1 were in no call of NCCL"), "{text}");
}

/// The headings of a table of 80 columns.
fn headings(profile: &Written, command: &str, first: &str) -> Vec<String> {
    let ran = profile.run(&[command, "app.mpisee", "--width", "80"]);
    let text = &ran.exits(0).stdout;
    let line = text.lines().find(|line| line.starts_with(first) && line.contains("  "));
    line.unwrap_or_else(|| panic!("{text}")).split("  ").map(|it| it.trim().to_owned()).collect()
}

#[test]
fn columns_of_mpi_leave_their_room_to_others() {
    let profile = nccl_alone()
        .region("epoch", 0, 1, 8.0, 0.0)
        .with(|profile| {
            profile.ranks.iter_mut().for_each(|row| row.host = "node-with-a-long-name".to_owned())
        })
        .write();
    for (command, first, has) in [
        ("summary", "COMM", "Min/rank"),
        ("ops", "CALL", "Longest call"),
        ("ranks", "RANK", "Volume"),
        ("regions", "REGION", "Volume"),
        ("sites", "AT", "Volume"),
    ] {
        let headings = headings(&profile, command, first);
        let is_of_mpi = |heading: &String| ["MPI", "% of MPI", "% of wall"].contains(&heading.as_str());
        assert!(
            headings.iter().any(|it| it == has) && !headings.iter().any(is_of_mpi),
            "{command}: {headings:?}"
        );
    }
}

#[test]
fn sites_with_most_bytes_come_first() {
    let mut profile = nccl_alone();
    let other = profile.line("scatter", "train.c", 71);
    let profile = profile.call_with("N1-5e1c09tz", 0, "ncclBroadcast", 1, 1 << 30, 0.0001, |row| {
        row.site = Some(other);
    });
    let first = |arguments: &[&str]| {
        let text = printed(&profile, &[&["sites"], arguments].concat());
        let row = text.lines().skip_while(|line| !line.starts_with("AT")).nth(1).unwrap_or_default();
        row.split("  ").next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(&[]), "scatter at train.c:71");
    assert_eq!(first(&["--sort", "time"]), "gradients at train.c:52");
    let text = printed(&profile, &["sites"]);
    assert!(text.contains("1.00 GiB"), "{text}");
}
