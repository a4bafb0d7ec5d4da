//! `mpisee-through check`: a profile that agrees with itself, and one that does not in every way.

use crate::support::{Builder, Ran, solver, splatt};
use mpisee_profile::CommRank;
use mpisee_profile::rows::{OutsideRow, PeerRow, Seconds};
use mpisee_profile::segment::NotSeen;

const ALL_HOLDS: &str = "\
ok         ranks    ranks.csv has every rank once
ok         names    names, parents and members of communicators agree
ok         rows     calls.csv and peers.csv name communicators and their members only
ok         traffic  what was sent is what was received, between each two ranks
ok         time     the MPI time of each rank is that of its calls, within its wall time
";

#[test]
fn differences_are_listed_under_the_checks() {
    splatt().write().run(&["check", "app.mpisee"]).golden("check-holds");
    let broken = lost_message()
        .comm("W_d9", "W_d8", "MPI_Comm_dup", "0-3", |_| {})
        .call("W_s9.0", 0, "MPI_Barrier", 1, 0, 0.5)
        .with(|profile| {
            profile.ranks[5].mpi_s = Seconds(2.6);
            profile.ranks.remove(7);
        });
    let broken = broken.write();
    let check = |options: &[&str]| broken.run(&[&["check", "app.mpisee"], options].concat());
    check(&[]).golden_exiting(1, "check-differs");
    check(&["--top", "2"]).golden_exiting(1, "check-differs-top");
    check(&["--format", "csv"]).golden_exiting(1, "check-differs.csv");
    check(&["--format", "json"]).golden_exiting(1, "check-differs.json");

    let incomplete = lost_message().with(|profile| {
        profile.run.complete = false;
        profile.run.incomplete_because = Some("rank 7 was killed".to_owned());
        profile.run.mpi.thread_level = "multiple".to_owned();
        profile.ranks.remove(7);
        profile.calls.retain(|row| row.rank != 7);
    });
    let incomplete = incomplete.write();
    incomplete.run(&["check", "app.mpisee"]).golden("check-explained");
    incomplete.run(&["check", "app.mpisee", "--format", "json"]).golden("check-explained.json");
}

/// Expects exit code 1 and exactly these differences.
#[track_caller]
fn differs(builder: &Builder, differences: &[&str]) {
    let ran = builder.write().run(&["check", "app.mpisee", "--all"]);
    ran.exits(1);
    assert_eq!(found(&ran), differences, "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
}

/// The lines after the list of checks.
fn found(ran: &Ran) -> Vec<&str> {
    ran.stdout.lines().skip(5).filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_sound_profile_passes() {
    splatt().write().run(&["check", "app.mpisee"]).prints(ALL_HOLDS);
}

#[test]
fn every_rank_has_one_row() {
    let twice = splatt().with(|profile| profile.ranks.push(profile.ranks[2].clone()));
    differs(&twice, &["ranks: rank 2 is in ranks.csv more than once."]);
    let beyond = Builder::new(3).with(|profile| profile.ranks[1].rank = 7);
    differs(
        &beyond,
        &["ranks: rank 7 is in ranks.csv, and run.json has 3 ranks.", "ranks: rank 1 is not in ranks.csv."],
    );
    let missing = Builder::new(9).with(|profile| profile.ranks.retain(|row| ![1, 2, 5].contains(&row.rank)));
    differs(&missing, &["ranks: ranks 1-2,5 are not in ranks.csv."]);
}

#[test]
fn names_tell_the_ancestry() {
    let wrong = Builder::new(4)
        .comm("W_d1", "W", "MPI_Comm_dup", "0-3", |_| {})
        .comm("W_d1", "W", "MPI_Comm_dup", "0-3", |_| {})
        .comm("W_d2", "", "MPI_Comm_dup", "0-3", |_| {})
        .comm("W_d3_d1", "W_d3", "MPI_Comm_dup", "0-3", |_| {})
        .comm("W_s4.0", "W_d1", "MPI_Comm_split", "0-1", |_| {})
        .comm("W_d1_d1_d1", "W_d1", "MPI_Comm_dup", "0-3", |_| {});
    differs(
        &wrong,
        &[
            "names: W_d1 is in comms.csv more than once.",
            "names: W_d2 has no parent.",
            "names: W_d3_d1 has the parent W_d3, which is not in comms.csv.",
            "names: W_s4.0 does not begin with the name of its parent W_d1.",
            "names: W_d1_d1_d1 is not W_d1 followed by one creation like _s2.0.",
        ],
    );
}

#[test]
fn sizes_are_numbers_of_members() {
    let wrong = Builder::new(4)
        .comm("S", "", "", "0-3", |row| row.size = 4)
        .comm("W_d1", "W", "MPI_Comm_dup", "0-3", |row| row.size = 3)
        .comm("W_d2", "W", "MPI_Comm_dup", "0-4", |_| {})
        .comm("W_x3", "W", "MPI_Intercomm_create", "0-2|2-3", |_| {});
    differs(
        &wrong,
        &[
            "names: S has size 4, and is one communicator of size 1 per process.",
            "names: W_d1 has size 3 and 4 members.",
            "names: W_d2 has the member 4, and run.json has 4 ranks.",
            "names: W_x3 lists a member twice.",
        ],
    );
}

#[test]
fn rows_refer_to_communicators_and_members() {
    let wrong = Builder::new(4)
        .comm("W_s1.0", "W", "MPI_Comm_split", "0-1", |_| {})
        .call("W_s9.0", 0, "MPI_Barrier", 1, 0, 0.5)
        .call("W_s9.0", 1, "MPI_Barrier", 1, 0, 0.5)
        .call("W_s1.0", 3, "MPI_Bcast", 1, 101, 0.5)
        .call("W_s1.0", 3, "MPI_Barrier", 1, 0, 0.5)
        .messages("W_s1.0", 0, 2, 1, 103)
        .messages("W_s8.0", 0, 1, 1, 107);
    differs(
        &wrong,
        &[
            "rows: W_s9.0 is in calls.csv and not in comms.csv.",
            "rows: rank 3 is in calls.csv on W_s1.0 and not among its members 0-1.",
            "rows: rank 2 is in peers.csv on W_s1.0 and not among its members 0-1.",
            "rows: W_s8.0 is in peers.csv and not in comms.csv.",
        ],
    );
}

fn lost_message() -> Builder {
    splatt().peer("W_x2", 0, 4, (3, 303), (0, 0)).peer("W_x2", 4, 0, (0, 0), (2, 202))
}

#[test]
fn unequal_sent_and_received_bytes_fail_the_check() {
    differs(
        &lost_message(),
        &[
            "traffic: on W_x2, 3 messages (303 bytes) were sent and 2 messages (202 bytes) received.",
            "traffic: on W_x2, rank 0 sent to rank 4 1 message and 101 bytes more than rank 4 received from it.",
        ],
    );
}

#[test]
fn sums_that_agree_do_not_hide_pairs_that_do_not() {
    let wrong = splatt().peer("W", 0, 2, (1, 101), (0, 0)).peer("W", 3, 0, (0, 0), (1, 101));
    differs(
        &wrong,
        &[
            "traffic: on W, rank 0 sent to rank 2 1 message and 101 bytes more than rank 2 received from it.",
            "traffic: on W, rank 0 sent to rank 3 1 message and 101 bytes fewer than rank 3 received from it.",
        ],
    );
}

#[test]
fn calls_that_were_not_seen_are_named_as_a_possible_reason() {
    let ran = lost_message()
        .with(|profile| {
            profile.run.not_seen.insert("completions of requests of unknown origin".to_owned(), 1);
        })
        .write()
        .run(&["check", "app.mpisee"]);
    ran.exits(1);
    let hint = "run.json counts 1 call that no table has; they may have sent or received.\n";
    assert!(ran.stdout.ends_with(hint), "{}", ran.stdout);
}

#[test]
fn traffic_of_which_mpi_does_not_tell_is_explained() {
    let with = |receives| {
        let lost = lost_message().with(|profile| {
            profile.run.not_seen.insert(NotSeen::UnreportedReceive.name().to_owned(), receives);
        });
        lost.write().run(&["check", "app.mpisee"])
    };
    let ran = with(1);
    ran.exits(0);
    assert!(ran.stdout.contains("explained  traffic"), "{}", ran.stdout);
    with(0).exits(1);
}

#[test]
fn traffic_while_recording_was_off_is_explained() {
    let profile = lost_message().with(|profile| profile.run.recording_was_off = true).write();
    let expected = ALL_HOLDS.replace("ok         traffic", "explained  traffic")
        + "
traffic: on W_x2, 3 messages (303 bytes) were sent and 2 messages (202 bytes) received, which is explained: \
recording was off for a part of the run.
traffic: on W_x2, rank 0 sent to rank 4 1 message and 101 bytes more than rank 4 received from it, which is \
explained: recording was off for a part of the run.
";
    profile.run(&["check", "app.mpisee"]).prints(&expected);
}

#[test]
fn an_incomplete_profile_says_so_and_may_lack_ranks() {
    let profile = Builder::new(4)
        .with(|profile| {
            profile.run.complete = false;
            profile.run.incomplete_because = Some("rank 3 was killed".to_owned());
            profile.ranks.truncate(3);
        })
        .peer("W", 0, 3, (1, 101), (0, 0))
        .write();
    let ran = profile.run(&["check", "app.mpisee"]);
    ran.exits(0);
    let found = found(&ran);
    assert_eq!(found[0], "The profile is incomplete: rank 3 was killed.");
    assert_eq!(found[1], "ranks: rank 3 is not in ranks.csv, which is explained: the profile is incomplete.");
    assert_eq!(found.len(), 4, "{}", ran.stdout);
    assert!(ran.stdout.starts_with("explained  ranks"), "{}", ran.stdout);
}

#[test]
fn mpi_time_is_that_of_the_calls() {
    let wrong = splatt().with(|profile| profile.ranks[5].mpi_s = Seconds(2.6));
    differs(&wrong, &["time: rank 5 has mpi_s 2.600000000 in ranks.csv and 2.625250000 s in calls.csv."]);
    let unknown = splatt().with(|profile| {
        profile.ranks.pop();
    });
    differs(
        &unknown,
        &["ranks: rank 7 is not in ranks.csv.", "time: rank 7 has rows in calls.csv and none in ranks.csv."],
    );
}

#[test]
fn rounding_is_no_difference() {
    // Each row is rounded down by 0.4 ns, the sum is not.
    let third = 1.000_000_000_4;
    let mut builder = Builder::new(1);
    for call in ["MPI_Send", "MPI_Recv", "MPI_Bcast", "MPI_Barrier"] {
        builder = builder.call("W", 0, call, 1, 0, third);
    }
    builder.write().run(&["check", "app.mpisee"]).prints(ALL_HOLDS);
    let wrong = builder.with(|profile| profile.ranks[0].mpi_s.0 += 5e-9);
    differs(&wrong, &["time: rank 0 has mpi_s 4.000000007 in ranks.csv and 4.000000000 s in calls.csv."]);
}

#[test]
fn mpi_time_fits_into_wall_time_unless_threads_overlap() {
    let wrong = || splatt().with(|profile| profile.ranks[4].wall_s = Seconds(2.0));
    differs(&wrong(), &["time: rank 4 spent 2.250250000 s in MPI calls, more than its wall_s 2.000000000."]);
    let threads = wrong().with(|profile| profile.run.mpi.thread_level = "multiple".to_owned());
    let skipped = "\nSkipped: MPI time is not compared with wall time: threads may call MPI at once.\n";
    let holds = ALL_HOLDS.replace(", within its wall time", "");
    threads.write().run(&["check", "app.mpisee"]).prints(&[&holds, skipped].concat());
}

#[test]
fn mpi_time_of_threads_fits_into_the_time_that_they_lived() {
    // One thread of each rank calls MPI, at a level at which several might.
    let threads = |lived_s: f64| {
        splatt().with(|profile| {
            profile.run.mpi.thread_level = "multiple".to_owned();
            profile.ranks.iter_mut().for_each(|row| row.mpi_thread_s = Some(row.wall_s));
            (profile.ranks[4].wall_s, profile.ranks[4].mpi_thread_s) = (Seconds(2.0), Some(Seconds(lived_s)));
        })
    };
    let holds = ALL_HOLDS.replace("within its wall time", "within the time that its threads lived");
    threads(2.3).write().run(&["check", "app.mpisee"]).prints(&holds);
    let said = "time: rank 4 spent 2.250250000 s in MPI calls, more than its mpi_thread_s 2.200000000.";
    differs(&threads(2.2), &[said]);
}

#[test]
fn the_first_differences_are_shown_and_the_rest_counted() {
    let mut builder = Builder::new(40);
    for rank in 1..13 {
        builder = builder.peer("W", 0, rank, (1, 101), (0, 0));
    }
    let profile = builder.write();
    let ran = profile.run(&["check", "app.mpisee"]);
    let lines = found(ran.exits(1));
    assert_eq!(lines.len(), 11);
    assert_eq!(
        lines[0],
        "traffic: on W, 12 messages (1212 bytes) were sent and 0 messages (0 bytes) received."
    );
    assert_eq!(lines[10], "… and 3 more; --all shows all.");
    let ran = profile.run(&["check", "app.mpisee", "--top", "1"]);
    assert_eq!(found(ran.exits(1))[1..], ["… and 12 more; --all shows all."]);
}

/// Not all polls are timed: their time is an estimate, which may exceed the wall time.
#[test]
fn estimated_times_may_exceed_the_wall_time_by_their_error() {
    let with = |error_s| {
        splatt()
            .with(|profile| {
                let polls = profile.calls.iter_mut().find(|row| row.rank == 1).unwrap();
                polls.time_error_s = Some(Seconds(error_s));
                let more_s = profile.ranks[1].wall_s.0;
                polls.time_s.0 += more_s;
                profile.ranks[1].mpi_s.0 += more_s;
            })
            .write()
    };
    let within = with(1e6);
    assert!(!within.run(&["check", "app.mpisee", "--all"]).stdout.contains("more than its wall_s"));
    let beyond = with(1e-3);
    assert!(beyond.run(&["check", "app.mpisee", "--all"]).stdout.contains("rank 1 spent"));
}

#[test]
fn one_sided_bytes_without_a_target_differ() {
    let with = |put_bytes| {
        let row = PeerRow { comm: "W".to_owned(), rank: 1, puts: 2, put_bytes, ..PeerRow::default() };
        splatt().call("W", 1, "MPI_Put", 2, 611, 0.0).with(|profile| profile.peers.push(row)).write()
    };
    with(611).run(&["check", "app.mpisee"]).exits(0);
    let profile = with(610);
    let ran = profile.run(&["check", "app.mpisee"]);
    let expected = "traffic: on W, rank 1 has 611 bytes of puts in calls.csv, and 610 bytes by target.";
    assert_eq!(found(ran.exits(1)), [expected]);
}

#[test]
fn scripts_get_every_difference() {
    let mut builder = lost_message();
    for rank in 1..8 {
        builder = builder.peer("W", 0, rank, (1, 101), (0, 0));
    }
    let profile = builder.write();
    let csv = profile.run(&["check", "app.mpisee", "--format", "csv"]);
    assert_eq!(csv.exits(1).stdout.lines().count(), 1 + 2 + 8, "{}", csv.stdout);
    let first = "check,outcome,difference\ntraffic,differs,\"on W, 11 messages (1111 bytes) were sent";
    assert!(csv.stdout.starts_with(first), "{}", csv.stdout);

    let json = profile.run(&["check", "app.mpisee", "--format", "json", "--top", "1"]);
    let document: serde_json::Value = serde_json::from_str(&json.exits(1).stdout).unwrap();
    assert_eq!(document["holds"], false);
    assert_eq!(document["complete"], true);
    let traffic = serde_json::json!({"check": "traffic", "differences": 10, "explained_differences": 0});
    assert_eq!(document["checks"][3], traffic);
    assert_eq!(document["findings"].as_array().unwrap().len(), 1);
    assert_eq!(document["findings_left_out"], 9);
}

/// Two ranks that were spawned by two, and spawned three; rank 1 heard of one of those.
fn of_several_worlds(comm: &str, peer_in_comm: u32) -> Builder {
    let outside = OutsideRow {
        comm: comm.to_owned(),
        rank: 1,
        peer_in_comm: CommRank::new(peer_in_comm),
        sent_messages: 0,
        sent_bytes: 0,
        received_messages: 3,
        received_bytes: 333,
        puts: 0,
        put_bytes: 0,
        gets: 0,
        get_bytes: 0,
        accumulates: 0,
        accumulate_bytes: 0,
    };
    Builder::new(2)
        .comm("P", "", "", "0-1|+2", |_| {})
        .comm("W_p1", "W", "MPI_Comm_spawn", "0-1|+3", |_| {})
        .comm("W_p1_m2", "W_p1", "MPI_Intercomm_merge", "0-1+3", |_| {})
        .comm("S", "", "", "0-1", |_| {})
        .comm("S_p3.1", "S", "MPI_Comm_spawn", "1|+1", |row| row.size = 2)
        .with(|profile| profile.outside.push(outside))
}

#[test]
fn messages_to_another_world_need_no_receiver_in_this_one() {
    of_several_worlds("W_p1", 2).write().run(&["check", "app.mpisee"]).prints(ALL_HOLDS);
    of_several_worlds("W_p1_m2", 4).write().run(&["check", "app.mpisee"]).prints(ALL_HOLDS);
}

#[test]
fn a_process_of_another_world_is_in_a_communicator_with_such() {
    let differences =
        "rows: outside.csv has the rank 0 in W as a process of another world, and its members are 0-1.";
    differs(&of_several_worlds("W", 0), &[differences]);
    let differences = "rows: W_d9 is in outside.csv and not in comms.csv.";
    differs(&of_several_worlds("W_d9", 0), &[differences]);
    let wrong = of_several_worlds("W_p1", 2).with(|profile| profile.comms[2].size = 4);
    differs(&wrong, &["names: W_p1 has size 4 and 5 members."]);
}

#[test]
fn sites_and_paths_are_those_of_calls() {
    let holds = solver().write();
    let ran = holds.run(&["check", "app.mpisee"]);
    assert!(
        ran.exits(0).stdout.contains("name communicators, members and call sites that there are"),
        "{}",
        ran.stdout
    );
    let site = |profile: &Builder, place: usize| profile.sites[place].site;
    let broken = solver().with(|profile| {
        // The site of step, which is on three paths and has no calls, that of the barrier, and one
        // twice.
        let kept = site(profile, 0);
        profile.sites.retain(|row| row.line != Some(301) && !row.module.contains("libtools"));
        profile.sites.extend(profile.sites.iter().find(|row| row.site == kept).cloned());
        profile.sites[1].offset = "12".to_owned();
    });
    let [first, second] = [site(&solver(), 0), site(&solver(), 1)];
    let step = site(&solver(), 2);
    let tools = site(&solver(), 7);
    let paths: Vec<String> = solver().stacks.iter().map(|row| row.path.to_string()).collect();
    differs(
        &broken,
        &[
            &format!("rows: site {second} has the address '12' in sites.csv, which is none."),
            &format!("rows: site {first} is in sites.csv more than once."),
            &format!(
                "rows: path {} goes through '{step}' in stacks.csv, which is no site of sites.csv.",
                paths[0]
            ),
            &format!(
                "rows: path {} goes through '{step}' in stacks.csv, which is no site of sites.csv.",
                paths[1]
            ),
            &format!(
                "rows: path {} goes through '{step}' in stacks.csv, which is no site of sites.csv.",
                paths[2]
            ),
            &format!(
                "rows: site {tools} has calls of MPI_Barrier on W in calls.csv and is not in sites.csv."
            ),
        ],
    );
}

#[test]
fn paths_have_no_more_than_their_calls() {
    let waits = solver().calls[0].site.unwrap();
    let beyond = solver().with(|profile| profile.paths[0].calls = 1001);
    let said = format!(
        "rows: paths have 1001 calls of MPI_Waitall of rank 0 on W_s1.0 at site {waits}, 1.500000000 s, and there are \
         1000, 2.000000000 s."
    );
    differs(&beyond, &[&said]);
    // A rank may have found room for the counter of a path alone.
    let incomplete = beyond.with(|profile| profile.run.complete = false);
    let ran = incomplete.write().run(&["check", "app.mpisee"]);
    assert!(
        ran.exits(0).stdout.contains("2.000000000 s, which is explained: the profile is incomplete."),
        "{}",
        ran.stdout
    );
    // Sites beyond the limit share the row without site.
    let limited = solver().with(|profile| profile.calls[0].site = None);
    limited.write().run(&["check", "app.mpisee"]).exits(0);
    let unknown = solver().with(|profile| drop(profile.stacks.remove(3)));
    let ran = unknown.write().run(&["check", "app.mpisee"]);
    assert!(ran.exits(1).stdout.contains("on W and is not in stacks.csv"), "{}", ran.stdout);
}
