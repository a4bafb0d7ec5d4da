//! Rules about waiting in collectives and in messages: who is named, and who is not.

use super::{ALL, finds, on, run, using};
use crate::support::Builder;
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, MessageEnd, MessageRow, Seconds, StreamRow};

/// Calls of an operation, all of them sampled, one each second, to which a rank comes late by so
/// many seconds. Nobody leaves before all have come, 1 ms after.
pub fn arrive(
    mut builder: Builder,
    comm: &str,
    members: &[u32],
    call: &str,
    instances: u64,
    late_s: impl Fn(u64, u32) -> f64,
) -> Builder {
    for &rank in members {
        let mut row = CollectiveRow {
            comm: comm.to_owned(),
            call: call.to_owned(),
            rank,
            instances,
            sampled: instances,
            mean_arrival_s: Seconds(0.0),
            mean_departure_s: Seconds(0.0),
        };
        let mut time_s = 0.0;
        for instance in 0..instances {
            let at = |rank: u32| instance as f64 + late_s(instance, rank);
            let arrival_s = at(rank);
            let departure_s = members.iter().map(|&rank| at(rank)).fold(0.0, f64::max) + 0.001;
            row.mean_arrival_s.0 += arrival_s / instances as f64;
            row.mean_departure_s.0 += departure_s / instances as f64;
            time_s += departure_s - arrival_s;
            builder.arrivals.push(ArrivalRow {
                comm: comm.to_owned(),
                call: call.to_owned(),
                instance,
                rank,
                root: None,
                arrival_s: Seconds(arrival_s),
                departure_s: Seconds(departure_s),
                started_s: None,
                completed: None,
            });
        }
        builder.collectives.push(row);
        builder = builder.call(comm, rank, call, instances, 0, time_s);
    }
    builder
}

/// One of eight ranks, another one each time, without a pattern.
pub fn some_rank(instance: u64) -> u64 {
    (instance + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd1b5_4a32_d192_ed03) >> 61
}

/// The same ranks on one node.
pub fn on_one_node() -> Builder {
    run().with(|profile| {
        profile.comms[0].nodes = 1;
        profile.ranks.iter_mut().for_each(|row| row.host = "node0".to_owned());
    })
}

#[test]
fn who_is_waited_for_was_measured() {
    // Seven ranks wait for rank 3, so many times 10 ms of a run of 80 s.
    let late = |instances: u64| {
        arrive(
            on_one_node(),
            "W",
            &ALL,
            "MPI_Alltoall",
            instances,
            |_, rank| if rank == 3 { 0.01 } else { 0.0 },
        )
    };
    finds(&late(24), &["waiting W"]);
    finds(&late(22), &[]);
    let said =
        late(24).write().run(&["advise", "app.mpisee"]).exits(0).stdout.replace("\n              ", " ");
    assert!(said.contains("Other ranks wait for rank 3 on W."), "{said}");
    assert!(said.contains("it caused 100.0 % of 1.68 s of waiting in MPI_Alltoall on W"), "{said}");
    // Its work explains that, unless it has no more of it than the others.
    assert!(said.contains("Rank 3 spends 9.98 s outside of MPI, the others 9.74 s on average."), "{said}");
    assert!(
        said.contains(
            "enough to explain half of the waiting or more. Check whether the work can be divided anew"
        ),
        "{said}"
    );
    let elsewhere = late(24).with(|profile| profile.ranks[3].mpi_s.0 += 0.24);
    let said =
        elsewhere.write().run(&["advise", "app.mpisee"]).exits(0).stdout.replace("\n              ", " ");
    assert!(said.contains("The cause of the delay is not measured"), "{said}");
    // Sums alone accuse nobody.
    let sums =
        on(run(), "W", &ALL[1..], "MPI_Alltoall", 10, 800, 0.7).call("W", 0, "MPI_Alltoall", 10, 800, 0.1);
    finds(&sums, &[]);
}

/// Messages one each second between two ranks, whose sender and receiver are there by a time after
/// it, in seconds.
fn pass(builder: Builder, ends: [u32; 2], messages: u64, late_s: [f64; 2]) -> Builder {
    pass_each(builder, ends, messages, |_| late_s)
}

/// The same with a time for each message.
fn pass_each(
    mut builder: Builder,
    [from, to]: [u32; 2],
    messages: u64,
    late_s: impl Fn(u64) -> [f64; 2],
) -> Builder {
    for (end, rank, peer, call) in
        [(MessageEnd::Sent, from, to, "MPI_Send"), (MessageEnd::Received, to, from, "MPI_Recv")]
    {
        let mut time_s = 0.0;
        for message in 0..messages {
            let [sent_s, posted_s] = late_s(message);
            let left_s = sent_s.max(posted_s) + 0.001;
            let own_s = if end == MessageEnd::Sent { sent_s } else { posted_s };
            time_s += left_s - own_s;
            let moment = |after_s: f64| Seconds(f64::from(from) / 10.0 + message as f64 + after_s);
            builder.messages.push(MessageRow {
                comm: "W".to_owned(),
                rank,
                peer,
                end,
                tag: 0,
                message,
                bytes: 8,
                started_s: moment(own_s),
                arrival_s: Some(moment(own_s)),
                departure_s: Some(moment(left_s)),
                call: call.to_owned(),
                completed: 1,
            });
        }
        let (comm, sampled) = ("W".to_owned(), messages);
        builder.streams.push(StreamRow {
            comm,
            rank,
            peer,
            end,
            tag: 0,
            messages,
            sampled,
            recorded: Some(messages),
            ordered: 1,
        });
        builder = builder.call("W", rank, call, messages, 8 * messages, time_s);
    }
    builder
}

/// Ranks 1 and 2 wait for rank 3 to send, 20 ms each time, in a run of 80 s.
pub fn late_sender(messages: u64) -> Builder {
    let builder = pass(on_one_node(), [3, 1], messages, [0.02, 0.0]);
    pass(pass(builder, [3, 2], messages, [0.02, 0.0]), [4, 5], messages, [0.0, 0.0])
}

/// The same to receive.
pub fn late_receiver() -> Builder {
    pass(pass(on_one_node(), [1, 3], 41, [0.0, 0.02]), [2, 3], 41, [0.0, 0.02])
}

/// Ranks 1 and 2 wait for rank 3 to receive, and ranks 4 and 5 for it to send, as long.
pub fn late_partner() -> Builder {
    let builder = pass(pass(on_one_node(), [1, 3], 41, [0.0, 0.02]), [2, 3], 41, [0.0, 0.02]);
    pass(pass(builder, [3, 4], 41, [0.02, 0.0]), [3, 5], 41, [0.02, 0.0])
}

/// Each waits for the one before it to send.
pub fn all_in_turn() -> Builder {
    (0..8).fold(on_one_node(), |builder, from| pass(builder, [from, (from + 1) % 8], 40, [0.02, 0.0]))
}

/// All wait for rank 7 to receive.
pub fn hot_receiver() -> Builder {
    (0..7).fold(on_one_node(), |builder, from| pass(builder, [from, 7], 40, [0.0, 0.02]))
}

#[test]
fn late_senders_and_receivers_of_messages_are_told_apart() {
    let says = |builder: &Builder, expected: &str| {
        finds(builder, &["waiting W"]);
        let ran = builder.write().run(&["advise", "app.mpisee"]);
        let said = ran.exits(0).stdout.replace("\n              ", " ").replace("\n   ", " ");
        assert!(said.contains(expected), "{expected}: {said}");
    };
    says(&late_sender(41), "Other ranks wait for rank 3 to send on W.");
    finds(&late_sender(39), &[]);
    says(&late_receiver(), "Other ranks wait for rank 3 to receive on W.");
    says(&late_partner(), "Other ranks wait for rank 3 to send and to receive on W.");
    says(&hot_receiver(), "Other ranks wait for rank 7 to receive on W.");
    says(&hot_receiver(), "caused 100.0 % of 5.60 s of waiting in messages on W");
    says(
        &all_in_turn(),
        "Members of W wait for each other in messages; no single rank causes most of the waiting.",
    );
}

#[test]
fn waiting_in_which_none_stands_out_is_said_so() {
    let uneven = |late_s: f64| {
        arrive(run(), "W", &ALL, "MPI_Barrier", 200, |instance, rank| {
            if u64::from(rank) == some_rank(instance) { late_s } else { 0.0 }
        })
    };
    finds(&uneven(0.00116), &["waiting W"]);
    finds(&uneven(0.00112), &[]);
    let said = uneven(0.00116)
        .write()
        .run(&["advise", "app.mpisee"])
        .exits(0)
        .stdout
        .replace("\n              ", " ");
    assert!(
        said.contains("Waiting for others takes 5") && said.contains(" in collectives, measured"),
        "{said}"
    );
    assert!(
        said.contains("Members of W wait for each other; no single rank causes most of the waiting."),
        "{said}"
    );
}

#[test]
fn only_the_transfer_of_small_reductions_counts() {
    // 8,000 calls of 1 ms, of which one rank is waited for or not.
    let tiny = |late_s: f64| {
        arrive(run(), "W", &ALL, "MPI_Allreduce", 1000, |instance, rank| {
            if u64::from(rank) == some_rank(instance) { late_s } else { 0.0 }
        })
        .with(|profile| {
            for row in &mut profile.calls {
                (row.size_min, row.size_max) = (8, 15);
            }
        })
    };
    finds(&tiny(0.0), &["tiny-allreduces W"]);
    finds(&tiny(0.0029), &["waiting W", "tiny-allreduces W"]);
}

#[test]
fn blocking_sends_wait_for_their_receivers() {
    let sends = |bytes: u64, time_s: f64| on(run(), "W", &ALL, "MPI_Send", 10, 10 * bytes, time_s);
    finds(&sends(4096, 0.5), &["blocking-sends W"]);
    finds(&sends(4095, 0.5), &[]);
    finds(&sends(4096, 0.49), &[]);
    // These move as many bytes as can be expected.
    finds(&sends(1 << 30, 0.9), &[]);
    // What is known to be waiting for a late receiver is no matter of bandwidth.
    let late =
        [1, 2].into_iter().fold(on_one_node(), |builder, from| pass(builder, [from, 3], 41, [0.0, 0.2]));
    let late = late.with(|profile| {
        for row in profile.calls.iter_mut().filter(|row| row.call == "MPI_Send") {
            (row.bytes, row.size_min, row.size_max) = (41 * 8192, 8192, 16383);
        }
    });
    finds(&late, &["waiting W"]);
    let unknown = late.with(|profile| {
        profile.messages.clear();
        profile.streams.clear();
    });
    finds(&unknown, &["uneven-work (run)", "blocking-sends W"]);
}

#[test]
fn ranks_that_had_no_core_are_not_named() {
    // Ranks 1 and 2 wait for 0.82 s each for rank 3.
    let late = |without_core_s: f64| {
        using(late_sender(41), |rank| (1.0, if rank == 3 { without_core_s } else { 0.0 }, "0-7"))
    };
    finds(&late(0.81), &["no-core node0", "waiting W"]);
    finds(&late(0.83), &["no-core node0"]);
}

/// Rank 3 comes late to barriers on the world and on a copy of it, by so many seconds each.
fn late_on_both(on_world_s: f64, on_copy_s: f64, late_on_copy: u32) -> Builder {
    let late = |rank: u32, late: u32, late_s: f64| if rank == late { late_s } else { 0.0 };
    let builder = on_one_node().comm("W_d1", "W", "MPI_Comm_dup", "0-7", |_| {});
    let builder = arrive(builder, "W", &ALL, "MPI_Barrier", 40, |_, rank| late(rank, 3, on_world_s));
    arrive(builder, "W_d1", &ALL, "MPI_Allreduce", 40, |_, rank| late(rank, late_on_copy, on_copy_s))
}

#[test]
fn one_rank_that_is_late_on_two_communicators_is_one_finding() {
    let both = late_on_both(0.02, 0.01, 3);
    finds(&both, &["waiting W"]);
    let ran = both.write().run(&["advise", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let finding = &document["findings"][0];
    let cost_s = finding["cost_s"].as_f64().unwrap();
    assert!((cost_s - 40.0 * 7.0 * 0.03).abs() < 0.01, "{finding}");
    let evidence = finding["evidence"].as_str().unwrap();
    assert!(
        evidence.contains(
            "Another finding has the same cause: Other ranks wait for rank 3 on W_d1 (2.80 s, 3.5 % of the \
             run)."
        ),
        "{evidence}"
    );
    // Two ranks are two causes.
    finds(&late_on_both(0.02, 0.01, 5), &["waiting W", "waiting W_d1"]);
}

#[test]
fn a_rank_that_passes_on_what_another_causes_is_one_finding() {
    // Rank 2 waits for rank 3 on their pair, and is late for the others because of that.
    let builder = on_one_node().comm("W_s1.2", "W", "MPI_Comm_split", "2-3", |_| {});
    let builder =
        arrive(builder, "W_s1.2", &[2, 3], "MPI_Allreduce", 40, |_, rank| if rank == 3 { 0.05 } else { 0.0 });
    let builder = arrive(builder, "W", &ALL, "MPI_Barrier", 40, |_, rank| if rank == 2 { 0.02 } else { 0.0 });
    finds(&builder, &["waiting W_s1.2"]);
    let said =
        builder.write().run(&["advise", "app.mpisee"]).exits(0).stdout.replace("\n              ", " ");
    assert!(said.contains("Other ranks wait for rank 3 on W_s1.2."), "{said}");
    assert!(said.contains("Another finding has the same cause: Other ranks wait for rank 2 on W"), "{said}");
}

/// Rank 2 waits for rank 3 on their pair, and rank 3 for rank 2 on the world, where the others do
/// as well.
fn circle() -> Builder {
    let builder = on_one_node().comm("W_s1.2", "W", "MPI_Comm_split", "2-3", |_| {});
    let late = |late: u32| move |_: u64, rank: u32| if rank == late { 0.05 } else { 0.0 };
    let builder = arrive(builder, "W_s1.2", &[2, 3], "MPI_Allreduce", 40, late(3));
    arrive(builder, "W", &ALL, "MPI_Barrier", 40, late(2))
}

#[test]
fn ranks_that_may_be_late_because_of_each_other_are_said_once() {
    let circle = circle().write();
    let sentence = "These ranks may be late because of each other: rank 2 waited 2.00 s, above all in MPI_Allreduce on W_s1.2; \
                    rank 3 waited 2.00 s, above all in MPI_Barrier on W.";
    for command in ["waits", "advise"] {
        let said = circle.run(&[command, "app.mpisee"]).exits(0).stdout.clone();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.matches(sentence).count(), 1, "{said}");
        assert!(!said.contains("may be late because of this wait"), "{said}");
    }
    let ran = circle.run(&["advise", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding["finding"], "Other ranks wait for rank 2 on W.");
    let said = |part: &str| finding[part].as_str().unwrap().to_owned();
    assert!(
        said("try").starts_with("These ranks may be late because of each other, so the cause"),
        "{finding}"
    );
    let other = "Another finding may be a cause of this one, and this one of it: Other ranks wait for rank 3 on W_s1.2";
    assert!(said("evidence").contains(other), "{finding}");
}

#[test]
fn a_rank_that_passes_on_the_waiting_of_a_circle_is_no_part_of_it() {
    // Ranks 2 and 3 wait for each other as in a circle, rank 5 mostly for rank 2, so that it is
    // late for rank 4.
    let late = |late: u32| move |_: u64, rank: u32| if rank == late { 0.05 } else { 0.0 };
    let on_pair = |_: u64, rank: u32| [0.0, 0.05, 0.02][usize::from(rank == 3) + 2 * usize::from(rank == 5)];
    let builder = on_one_node().comm("W_s1.2", "W", "MPI_Comm_split", "2-3,5", |_| {});
    let builder = builder.comm("W_s2.4", "W", "MPI_Comm_split", "4-5", |_| {});
    let builder = arrive(builder, "W_s1.2", &[2, 3, 5], "MPI_Allreduce", 40, on_pair);
    let builder = arrive(builder, "W", &ALL, "MPI_Barrier", 40, late(2));
    let builder = arrive(builder, "W_s2.4", &[4, 5], "MPI_Allreduce", 40, late(5));
    finds(&builder, &["waiting W"]);
    let said = builder.write().run(&["advise", "app.mpisee"]).exits(0).stdout.clone();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("Another finding has the same cause: Other ranks wait for rank 5 on W_s2.4"),
        "{said}"
    );
    assert_eq!(said.matches("Another finding may be a cause of this one").count(), 1, "{said}");
}

#[test]
fn ten_runs_in_which_a_rank_just_stands_out_or_just_not_have_one_rule() {
    // Rank 3 sends late to two others now and then, by another time in each run: in three messages
    // of 25 up to eight.
    let run = |seed: u64| {
        let late_s = |message: u64| {
            let random = (1 + some_rank(1000 * seed + message)) as f64;
            if message % (3 + seed % 5) == 2 { 0.3 + 0.007 * random * random } else { 0.0 }
        };
        let builder = pass_each(on_one_node(), [3, 1], 25, |message| [late_s(message), 0.0]);
        let builder = pass_each(builder, [3, 2], 25, |message| [late_s(message), 0.0]);
        pass(builder, [4, 5], 25, [0.0, 0.0])
    };
    let mut names_it = [0, 0];
    for seed in 0..10 {
        finds(&run(seed), &["waiting W"]);
        let said = run(seed).write().run(&["advise", "app.mpisee"]).exits(0).stdout.clone();
        let is_uncertain = said.contains("(not certain)");
        assert!(said.contains("Other ranks wait for rank 3"), "{said}");
        names_it[usize::from(is_uncertain)] += 1;
    }
    assert!(
        names_it[0] > 0 && names_it[1] > 0,
        "some runs name it for certain and some do not: {names_it:?}"
    );
}
