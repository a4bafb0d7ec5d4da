//! Rules about measured waiting, transfers and volumes: each finds what it is for, from its
//! threshold on.

use super::waiting::{arrive, on_one_node, some_rank};
use super::{ALL, finds, on, run, using};
use crate::support::Builder;
use mpisee_profile::rows::{ArrivalRow, CallRow};
use mpisee_profile::run::EndedIn;

/// Adds what each rule of this file finds.
pub fn plant(mut builder: Builder) -> Builder {
    let skewed = |row: &&mut CallRow| row.call == "MPI_Alltoallv" && row.rank % 4 == 1;
    builder.calls.iter_mut().filter(skewed).for_each(|row| row.bytes *= 10);
    for comm in ["W_d6", "W_d7", "W_d8"] {
        builder = builder.comm(comm, "W", "MPI_Comm_dup", "0-7", |_| {});
    }
    builder = slow(followed(builder, "W_d6", 200, 0.001, 10e-6), "W_d7", 0.55);
    gather(tiny(builder, "W_d8", 20_000, 5e-5), "W_d8", 0.45)
        .with(|profile| profile.ranks[..6].iter_mut().for_each(|row| row.wall_s.0 = 9.5))
}

/// Forty MPI_Alltoall without waiting, that take so long for each rank in all; the shortest takes 1
/// ms.
fn slow(builder: Builder, comm: &str, time_s: f64) -> Builder {
    let mut builder = arrive(builder, comm, &ALL, "MPI_Alltoall", 40, |_, _| 0.0);
    builder.arrivals.iter_mut().filter(|row| row.comm == comm).for_each(|row| {
        row.departure_s.0 = row.arrival_s.0 + time_s / 40.0;
    });
    builder.calls.iter_mut().filter(|row| row.comm == comm).for_each(|row| {
        (row.time_s.0, row.min_s.0, row.bytes) = (time_s, 0.001, 40_000);
        (row.size_min, row.size_max) = (512, 1023);
    });
    builder.ranks.iter_mut().for_each(|row| row.mpi_s.0 += time_s - 0.04);
    builder
}

/// Rank 1 sends this number of messages of 8 bytes to rank 0, each of which takes so long at least
/// on either side.
fn tiny(builder: Builder, comm: &str, messages: u64, least_s: f64) -> Builder {
    let time_s = messages as f64 * least_s;
    let end = |builder: Builder, rank: u32, call: &str| {
        let set = |row: &mut CallRow| row.min_s.0 = least_s;
        builder.call_with(comm, rank, call, messages, 8 * messages, time_s, set)
    };
    end(end(builder, 1, "MPI_Send"), 0, "MPI_Recv").messages(comm, 1, 0, messages, 8 * messages)
}

/// Every other rank sends as much to rank 0, in so much time.
fn gather(builder: Builder, comm: &str, time_s: f64) -> Builder {
    ALL[1..].iter().fold(builder, |builder, &rank| {
        let builder = builder.messages(comm, rank, 0, 20, 40_000);
        builder.call(comm, rank, "MPI_Ssend", 20, 40_000, time_s)
    })
}

/// Barriers, each followed by an MPI_Allreduce after these seconds, as written by [`arrive`].
fn followed(builder: Builder, comm: &str, calls: u64, barrier_s: f64, gap_s: f64) -> Builder {
    let mut builder = arrive(builder, comm, &ALL, "MPI_Barrier", calls, |_, _| 0.0);
    builder = arrive(builder, comm, &ALL, "MPI_Allreduce", calls, |_, _| 0.0);
    let here = builder.arrivals.iter_mut().filter(|row| row.comm == comm);
    for row in here {
        let is_barrier = row.call == "MPI_Barrier";
        row.arrival_s.0 = row.instance as f64 + if is_barrier { 0.0 } else { barrier_s + gap_s };
        row.departure_s.0 = row.instance as f64 + barrier_s + if is_barrier { 0.0 } else { gap_s + 0.0001 };
    }
    for row in builder.calls.iter_mut().filter(|row| row.comm == comm) {
        row.time_s.0 = calls as f64 * if row.call == "MPI_Barrier" { barrier_s } else { 0.0001 };
        row.bytes = 8000 * calls;
        (row.size_min, row.size_max) = (4096, 8191);
    }
    for row in builder.collectives.iter_mut().filter(|row| row.comm == comm) {
        row.mean_arrival_s.0 = 0.0;
    }
    builder
}

/// The findings in words, without line breaks.
fn said(builder: &Builder) -> String {
    let ran = builder.write().run(&["advise", "app.mpisee"]);
    ran.exits(0).stdout.replace("\n              ", " ").replace("\n   ", " ")
}

#[test]
fn ranks_wait_at_the_end_for_the_last_ones() {
    let ending = |early: std::ops::Range<usize>, wall_s: f64| {
        run().with(|profile| profile.ranks[early].iter_mut().for_each(|row| row.wall_s.0 = wall_s))
    };
    // Seven ranks wait, 2 % of the run or less.
    finds(&ending(1..8, 9.77), &["finalize MPI_Finalize"]);
    finds(&ending(1..8, 9.78), &[]);
    // Two ranks come early, and most come last.
    finds(&ending(0..2, 8.0), &["finalize MPI_Finalize"]);
    finds(&ending(0..2, 8.01), &[]);
    let one = said(&ending(1..8, 9.0));
    assert!(one.contains("Other ranks wait in MPI_Finalize for rank 0."), "{one}");
    assert!(one.contains("rank 0 caused 100 % of the wait. The longest rank takes 10.0 s"), "{one}");
    let two = said(&ending(2..8, 9.0));
    assert!(two.contains("for ranks 0-1.") && two.contains("ranks 0-1 caused 100 % of the wait."), "{two}");
    assert!(said(&ending(0..2, 8.0)).contains("Ranks enter MPI_Finalize at different times."));
    // In a short run, ranks return from MPI_Init at times that are as far apart.
    let short = |wall_s: f64| ending(1..8, wall_s).with(|profile| profile.ranks[0].wall_s.0 = 0.1);
    finds(&short(0.077), &["finalize MPI_Finalize"]);
    finds(&short(0.078), &[]);
    // A part of the run has no end of its own, and a run that was killed has none.
    let profile = ending(1..8, 9.0).write();
    let part = profile.run(&["advise", "app.mpisee", "--ranks", "0-3"]);
    assert!(!part.exits(0).stdout.contains("MPI_Finalize"), "{}", part.stdout);
    let killed = ending(1..8, 9.0).with(|profile| {
        profile.run.complete = false;
        profile.run.ended_in = vec![EndedIn { ranks: "0-7".to_owned(), ..EndedIn::default() }];
    });
    finds(&killed, &[]);
}

#[test]
fn volumes_that_are_unequal_and_cost_are_skewed() {
    // Rank 5 sends as many times as much as the others.
    let skewed = |times: u64, time_s: f64| {
        ALL.iter().fold(run(), |builder, &rank| {
            let bytes = if rank == 5 { times * 1_000_000 } else { 1_000_000 };
            builder.call("W", rank, "MPI_Gatherv", 10, bytes, time_s)
        })
    };
    // Of twice as much the mean is 9/8.
    finds(&skewed(2, 0.5), &["skewed-volume W"]);
    finds(&skewed(2, 0.49), &[]);
    let largest = |bytes: u64| skewed(1, 0.5).with(|profile| profile.calls[5].bytes = bytes);
    finds(&largest(1_616_000), &["skewed-volume W"]);
    finds(&largest(1_614_000), &[]);
    let said_of = said(&skewed(100, 0.5));
    for expected in [
        "Members of W have unequal parts in MPI_Gatherv: the largest is 7.5 times the mean.",
        "rank 5 contributes 95.4 MiB in 10 calls; the mean of the members is 12.8 MiB. The calls take 4.00 s \
         summed over ranks. The waiting part of this time was not measured.",
    ] {
        assert!(said_of.contains(expected), "{expected}: {said_of}");
    }
    // A rank without calls has no bytes.
    let one = run().call("W", 5, "MPI_Scatterv", 10, 80, 4.0);
    finds(&one, &["skewed-volume W"]);
}

#[test]
fn waiting_is_no_reason_to_look_for_skewed_volume() {
    // All of it but 1 ms in each of 40 calls.
    let late = |transfer_s: f64| {
        let builder =
            arrive(
                on_one_node(),
                "W",
                &ALL,
                "MPI_Alltoallv",
                40,
                |_, rank| if rank == 3 { 0.1 } else { 0.0 },
            );
        builder.with(|profile| {
            for row in &mut profile.calls {
                row.bytes = if row.rank == 3 { 1_000_000 } else { 1_000 };
                row.time_s.0 += 40.0 * transfer_s;
            }
            for row in &mut profile.arrivals {
                row.departure_s.0 += transfer_s;
            }
        })
    };
    finds(&late(0.0), &["alltoallv W", "waiting W"]);
    finds(&late(0.012), &["alltoallv W", "waiting W", "skewed-volume W"]);
    assert!(said(&late(0.012)).contains("Waiting for others takes 87 % of this time, and is not in Time."));
}

#[test]
fn skewed_volumes_of_like_communicators_are_judged_together() {
    let halves = |time_s: f64| {
        (0..2).fold(run(), |builder, half| {
            let (comm, ranks) = (format!("W_s1.{}", 4 * half), &ALL[4 * half..4 * half + 4]);
            let members = format!("{}-{}", 4 * half, 4 * half + 3);
            let builder = builder.comm(&comm, "W", "MPI_Comm_split", &members, |_| {});
            let builder = on(builder, &comm, &ranks[..3], "MPI_Allgatherv", 10, 80, time_s);
            builder.call(&comm, ranks[3], "MPI_Allgatherv", 10, 8_000_000, time_s)
        })
    };
    finds(&halves(0.5), &["skewed-volume W_s1.*"]);
    finds(&halves(0.49), &[]);
}

#[test]
fn barriers_before_what_synchronises_are_needless() {
    let barriers = |calls: u64, gap_s: f64| followed(run(), "W", calls, 0.001, gap_s);
    finds(&barriers(200, 19e-6), &["needless-barriers W"]);
    finds(&barriers(200, 21e-6), &[]);
    finds(&barriers(199, 19e-6), &[]);
    // A gap is small beside the barrier.
    let short =
        |gap_s: f64| followed(run(), "W", 200, 50e-6, gap_s).with(|profile| profile.calls[0].time_s.0 = 2.0);
    finds(&short(4.9e-6), &["needless-barriers W"]);
    finds(&short(5.2e-6), &[]);
    let said_of = said(&barriers(200, 10e-6));
    for expected in [
        "MPI_Barrier on W is right before MPI_Allreduce, which synchronises as well.",
        "after 100.0 % of 1600 sampled barriers, members entered the next call within 20.0 µs. 1600 barriers \
         take 1.60 s summed over ranks. Without the barriers, transfer of 1.60 s is saved. The rest is \
         waiting, which would move into MPI_Allreduce.",
    ] {
        assert!(said_of.contains(expected), "{expected}: {said_of}");
    }
}

#[test]
fn barriers_that_may_be_before_something_else_are_not_needless() {
    let kept = |keeps: fn(&ArrivalRow) -> bool| {
        followed(run(), "W", 400, 0.001, 10e-6).with(|profile| {
            profile.arrivals.retain(keeps);
            for row in &mut profile.collectives {
                row.sampled = 100;
            }
        })
    };
    // The same calls of both are sampled, or not.
    finds(&kept(|row| row.instance % 4 == 1), &["needless-barriers W"]);
    finds(&kept(|row| row.instance % 4 == u64::from(row.call == "MPI_Barrier")), &[]);
    // The program begins with a barrier, so that numbers differ by one: of a random sample there
    // are some pairs.
    let begins = |keeps: fn(u64) -> bool| {
        followed(run(), "W", 400, 0.001, 10e-6).with(|profile| {
            for row in profile.arrivals.iter_mut().filter(|row| row.call == "MPI_Barrier") {
                row.instance += 1;
            }
            profile.arrivals.retain(|row| keeps(row.instance));
            for row in &mut profile.collectives {
                row.sampled = 150;
                row.instances += u64::from(row.call == "MPI_Barrier");
            }
        })
    };
    finds(&begins(|instance| some_rank(instance) < 3), &["needless-barriers W"]);
    finds(&begins(|instance| instance % 40 < 2), &["needless-barriers W"]);
    finds(&begins(|instance| instance % 45 < 2), &[]);
    // Every eighth call computes before the collective.
    let some = |one_in: u64| {
        followed(run(), "W", 400, 0.001, 10e-6).with(|profile| {
            for row in profile.arrivals.iter_mut().filter(|row| row.call == "MPI_Allreduce") {
                let late_s = if row.instance % one_in == 0 { 0.01 } else { 0.0 };
                row.arrival_s.0 += late_s;
                row.departure_s.0 += late_s;
            }
        })
    };
    finds(&some(8), &[]);
    finds(&some(16), &["needless-barriers W"]);
    // Other collectives do not synchronise, and other communicators have other members.
    let rename = |comm: &str, call: &str| {
        followed(run().comm("W_d1", "W", "MPI_Comm_dup", "0-7", |_| {}), "W", 400, 0.001, 10e-6).with(
            |profile| {
                let named = |row: &str| row == "MPI_Allreduce";
                for row in profile.arrivals.iter_mut().filter(|row| named(&row.call)) {
                    (row.comm, row.call) = (comm.to_owned(), call.to_owned());
                }
                for row in profile.calls.iter_mut().filter(|row| named(&row.call)) {
                    (row.comm, row.call) = (comm.to_owned(), call.to_owned());
                }
                for row in profile.collectives.iter_mut().filter(|row| named(&row.call)) {
                    (row.comm, row.call) = (comm.to_owned(), call.to_owned());
                }
            },
        )
    };
    finds(&rename("W", "MPI_Alltoall"), &["needless-barriers W"]);
    finds(&rename("W", "MPI_Bcast"), &[]);
    finds(&rename("W_d1", "MPI_Allreduce"), &[]);
    // Fewer than ten calls show nothing.
    let few = |calls: u64| {
        followed(run(), "W", calls, 0.001, 10e-6)
            .with(|profile| profile.calls.iter_mut().for_each(|row| row.time_s.0 = 0.45))
    };
    finds(&few(10), &["needless-barriers W"]);
    finds(&few(9), &[]);
}

#[test]
fn transfers_are_compared_with_the_shortest_of_the_run() {
    let slow_by = |time_s: f64| slow(on_one_node(), "W", time_s);
    // Of 40 calls of 1 ms at least, 5 % of the run more.
    finds(&slow_by(0.541), &["slow-transfer W"]);
    finds(&slow_by(0.539), &[]);
    // Ten times as long.
    let shortest = |min_s: f64| {
        slow_by(0.9).with(|profile| profile.calls.iter_mut().for_each(|row| row.min_s.0 = min_s))
    };
    finds(&shortest(0.0022), &["slow-transfer W"]);
    finds(&shortest(0.0023), &[]);
    let said_of = said(&shortest(0.0022));
    for expected in [
        "Transfers of MPI_Alltoall on W take far longer than the shortest ones of this run.",
        "320 calls take 7.20 s without waiting, 22.5 ms each on average. If each call took as long as the \
         shortest of its size, the sum would be 704 ms, 2.20 ms each.",
    ] {
        assert!(said_of.contains(expected), "{expected}: {said_of}");
    }
    // Waiting is no transfer, and ranks without a core are slow.
    let late =
        arrive(on_one_node(), "W", &ALL, "MPI_Alltoall", 40, |_, rank| if rank == 3 { 0.1 } else { 0.0 });
    let late = late.with(|profile| profile.calls.iter_mut().for_each(|row| row.min_s.0 = 0.0005));
    finds(&late, &["waiting W"]);
    finds(&super::using(slow_by(0.6), |_| (5.0, 5.0, "0-1")), &["no-core node0"]);
    // Without arrivals it is not known what is transfer.
    finds(&slow_by(0.6).with(|profile| profile.arrivals.clear()), &[]);
}

#[test]
fn messages_through_one_rank_are_found_where_others_spend_time_in_them() {
    finds(&gather(run(), "W", 0.572), &["through-one-rank W"]);
    finds(&gather(run(), "W", 0.571), &[]);
    let said_of = said(&gather(run(), "W", 0.58));
    for expected in [
        "Nearly all messages on W are from or to rank 0.",
        "rank 0 is an end of 100.0 % of 140 messages (273 KiB), with 7 ranks. Rank 0 receives 140 of these \
         messages and sends 0. The other ranks are in messages for 4.06 s, rank 0 for 0 s.",
        "Use MPI_Gather, MPI_Gatherv or MPI_Reduce",
    ] {
        assert!(said_of.contains(expected), "{expected}: {said_of}");
    }
    // A tenth of the messages, or more, go elsewhere.
    finds(&gather(run(), "W", 0.58).messages("W", 3, 4, 15, 40), &["through-one-rank W"]);
    finds(&gather(run(), "W", 0.58).messages("W", 3, 4, 16, 40), &[]);
    // Unequal parts fit no collective; work that is handed out goes both ways.
    let unequal = said(&gather(run(), "W", 0.58).messages("W", 3, 0, 1, 20_000));
    assert!(unequal.contains("No collective fits as it is"), "{unequal}");
    let both = ALL[1..]
        .iter()
        .fold(gather(run(), "W", 0.58), |builder, &rank| builder.messages("W", 0, rank, 20, 80));
    assert!(said(&both).contains("Messages go both ways"), "{}", said(&both));
    // The rank that hands out work may wait as long as it likes.
    finds(&gather(run(), "W", 0.1).call("W", 0, "MPI_Recv", 140, 1120, 9.0), &["dominating W"]);
    // One that is twice as long in messages as the others waits for them, rather than they for it.
    finds(&gather(run(), "W", 0.58).call("W", 0, "MPI_Recv", 140, 280_000, 1.15), &["through-one-rank W"]);
    finds(&gather(run(), "W", 0.58).call("W", 0, "MPI_Recv", 140, 280_000, 1.17), &[]);
    // Two neighbours are no centre.
    let chain = [(0, 1), (1, 2)]
        .iter()
        .fold(run(), |builder, &(one, other)| builder.messages("W", one, other, 9, 72));
    finds(&on(chain, "W", &ALL[..3], "MPI_Send", 9, 72, 2.6), &[]);
}

#[test]
fn small_messages_that_could_go_together_are_found() {
    // Both ends take 0.4 ms at least.
    finds(&tiny(run(), "W", 2_002, 0.0004), &["small-messages W"]);
    finds(&tiny(run(), "W", 1_999, 0.0004), &[]);
    finds(&tiny(run(), "W", 1_000, 0.001), &["small-messages W"]);
    finds(&tiny(run(), "W", 999, 0.001), &[]);
    let said_of = said(&tiny(run(), "W", 4_000, 0.0004));
    for expected in [
        "Many of 4000 messages on W, of 8 B on average, go to the same rank one after the other.",
        "Measured: rank 1 to rank 0, 4000 messages of 8 B; more than 4 messages for each receive or \
         collective of the sender. Estimated: a message of up to 1023 bytes took 800 µs at least in this \
         run, over both ends.",
    ] {
        assert!(said_of.contains(expected), "{expected}: {said_of}");
    }
    // The sender gets something after every fourth message, or earlier.
    let answered = |receives: u64| tiny(run(), "W", 4_000, 0.0004).call("W", 1, "MPI_Recv", receives, 8, 0.0);
    finds(&answered(1000), &["small-messages W"]);
    finds(&answered(1001), &[]);
    // Long messages are no matter of their number.
    let long = tiny(run(), "W", 4_000, 0.0004).with(|profile| {
        profile.peers.iter_mut().for_each(|row| {
            (row.sent_bytes, row.received_bytes) = (1024 * row.sent_messages, 1024 * row.received_messages);
        });
    });
    finds(&long, &[]);
}

/// Rank 0 computes while the others receive for so long.
pub fn uneven(time_s: f64) -> Builder {
    on(run(), "W", &ALL[1..], "MPI_Recv", 10, 800, time_s)
}

#[test]
fn uneven_work_is_told_where_no_wait_tells_it() {
    finds(&uneven(2.2), &["dominating W"]);
    finds(&uneven(2.3), &["dominating W", "uneven-work (run)"]);
    // Rank 0 may have waited for a core all that time.
    let without_core = |rank: u32| if rank == 0 { (9.6, 0.4, "0-7") } else { (10.0, 0.0, "0-7") };
    finds(&using(uneven(2.3), without_core), &["dominating W"]);
    let said =
        uneven(4.0).write().run(&["advise", "app.mpisee"]).exits(0).stdout.replace("\n              ", " ");
    let sentence = "rank 0 is outside of MPI for 10.0 s. The mean over 8 ranks is 6.50 s, the least 6.00 s. \
                    The load balance is 65 %.";
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn little_measured_waiting_does_not_hide_uneven_work() {
    // Rank 0 works for 10 s, the others for 5 s. What was measured of their waiting is little.
    let with = |late_s: fn(u64, u32) -> f64| {
        let builder = arrive(on_one_node(), "W", &ALL, "MPI_Allreduce", 24, late_s);
        on(builder, "W", &ALL[1..], "MPI_Recv", 10, 800, 5.0)
    };
    let rank_3 = with(|_, rank| if rank == 3 { 0.01 } else { 0.0 });
    finds(&rank_3, &["dominating W", "uneven-work (run)", "waiting W"]);
    let sentence = "Work is uneven: rank 0 has the most. Time 43.5 % of the run, 34.8 s summed over ranks \
                    [uneven-work]";
    let said = said(&rank_3).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(sentence), "{said}");
    let in_turn = with(|instance, rank| if u64::from(rank) == some_rank(instance) { 0.01 } else { 0.0 });
    finds(&in_turn, &["uneven-work (run)", "dominating W", "waiting W"]);
    // Waiting for rank 0 that was measured is the same finding.
    let late = |_, rank| if rank == 0 { 0.1 } else { 0.0 };
    finds(&arrive(on_one_node(), "W", &ALL, "MPI_Allreduce", 60, late), &["waiting W"]);
}
