//! `mpisee-through advise`: each rule finds what it is for, from its threshold on.

mod dominating;
pub mod gpu_far;
mod killed;
pub mod measured;
mod nccl;
mod places;
pub mod waiting;

use crate::support::{Builder, Written};
use mpisee_profile::rows::Seconds;
use mpisee_profile::run::{BlockedRank, EndedDeadlock, EndedIn};
use std::collections::BTreeSet;
use waiting::{all_in_turn, arrive, hot_receiver, late_partner, late_receiver, late_sender, some_rank};

/// Eight ranks on two nodes that run for 10 s, 80 s over all of them.
fn run() -> Builder {
    Builder::new(8).with(|profile| {
        profile.run.nodes = 2;
        profile.comms[0].nodes = 2;
        profile.run.mpi.library = "Open MPI v4.1.4".to_owned();
        profile.run.mpi.flavour = "openmpi-4.1".to_owned();
        profile.ranks.iter_mut().for_each(|row| row.host = format!("node{}", row.rank / 4));
    })
}

/// The same call with the same numbers on some ranks.
fn on(
    builder: Builder,
    comm: &str,
    ranks: &[u32],
    call: &str,
    calls: u64,
    bytes: u64,
    time_s: f64,
) -> Builder {
    ranks.iter().fold(builder, |builder, &rank| builder.call(comm, rank, call, calls, bytes, time_s))
}

const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Rules and what they are about, the most costly first.
#[track_caller]
fn finds(builder: &Builder, expected: &[&str]) {
    let ran = builder.write().run(&["advise", "app.mpisee", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    let found: Vec<String> =
        reader.records().map(Result::unwrap).map(|row| format!("{} {}", &row[0], &row[1])).collect();
    assert_eq!(found, expected, "{}", ran.stdout);
}

/// A size class is named with the operation's time if it has all of the time, or most.
#[test]
fn the_headline_gives_a_size_class_its_own_part() {
    for (large_s, said) in
        [(7.9, "MPI_Send of 64 KiB - <128 KiB on W"), (6.0, "MPI_Send mostly of 64 KiB - <128 KiB on W")]
    {
        let builder = run().call("W", 0, "MPI_Send", 100, 100 * 70_001, large_s);
        let builder = builder.call("W", 0, "MPI_Send", 100, 100 * 20_011, 8.0 - large_s);
        let ran = builder.write().run(&["advise", "app.mpisee"]);
        assert!(ran.stdout.replace('\n', " ").contains(said), "{said}: {}", ran.stdout);
    }
    let even = [70_001, 20_011, 5_003]
        .into_iter()
        .fold(run(), |builder, size| builder.call("W", 0, "MPI_Send", 100, 100 * size, 3.0));
    let ran = even.write().run(&["advise", "app.mpisee"]);
    assert!(ran.stdout.replace('\n', " ").contains("The largest part is MPI_Send on W"), "{}", ran.stdout);
}

#[test]
fn a_run_without_a_problem_has_no_findings() {
    let sound = on(run(), "W", &ALL, "MPI_Allreduce", 100, 800, 0.5);
    finds(&sound, &[]);
    sound
        .write()
        .run(&["advise", "app.mpisee"])
        .prints(
            "MPI takes 5.0 % of the run: 4.00 s of 80.0 s, summed over ranks. The largest part is MPI_Allreduce\nof 8 B - <16 B \
             on W: 100 % of the MPI time.\n\nNo rule found anything; mpisee-through advise --help lists the rules.\n",
        );
    finds(&run(), &[]);
}

/// The run, of which the profiler itself took so long of rank 2, in seconds.
fn with_overhead(of_rank_2_s: f64) -> Builder {
    let mut builder = run();
    builder.ranks[2].profiler_s.0 = of_rank_2_s;
    builder
}

/// The run with this CPU use of each rank: seconds on a core and without one, the CPUs that it may
/// use.
fn using(mut builder: Builder, use_of: impl Fn(u32) -> (f64, f64, &'static str)) -> Builder {
    for row in &mut builder.ranks {
        let (cpu_s, wait_s, cpus) = use_of(row.rank);
        (row.cpu_user_s, row.cpu_system_s) = (Some(Seconds(cpu_s)), Some(Seconds(0.0)));
        row.cpu_wait_s = Some(Seconds(wait_s));
        row.cpus_allowed = cpus.parse().unwrap();
        row.node_cpus = Some(16);
    }
    builder
}

#[test]
fn a_run_of_which_the_profiler_takes_much_is_named() {
    finds(&with_overhead(0.99), &[]);
    finds(&with_overhead(1.0), &["profiler rank 2"]);
    let paying = with_overhead(3.0).write();
    paying.golden_at(100, "advise-profiler", &["advise", "app.mpisee"]);
    let ran = paying.run(&["advise", "app.mpisee", "--ranks", "0-1"]);
    assert!(!ran.exits(0).stdout.contains("profiler"), "{}", ran.stdout);
}

#[test]
fn ranks_without_a_core_come_first() {
    // On the second node four ranks share two cores; there a bit of time is in MPI.
    let crowded =
        |rank: u32| if rank < 4 { (10.0, 0.1, "0-3") } else { (5.2 - 0.1 * f64::from(rank - 4), 4.8, "8-9") };
    let much = on(run(), "W", &ALL, "MPI_Allreduce", 100, 800, 9.0);
    let builder = using(much, crowded);
    finds(&builder, &["no-core node1", "dominating W"]);
    let written = builder.write();
    let ran = written.run(&["advise", "app.mpisee", "--width", "120"]);
    for expected in [
        "1. Ranks 4-7 waited for a CPU core 48 % of the time.",
        "24.0 % of the run, 19.2 s summed over ranks [no-core]",
        "On node1, ranks 4-7 (48 %): 4 ranks share 2 cores (of 16 on the node, no others are allowed).",
        "Look at no-core first: the lack of cores may cause this.",
    ] {
        assert!(ran.exits(0).stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    finds(&using(run(), |rank| (10.0, if rank == 3 { 0.49 } else { 0.0 }, "0-7")), &[]);
    finds(&using(run(), |rank| (10.0, if rank == 3 { 0.5 } else { 0.0 }, "0-7")), &["no-core node0"]);
    // Only the chosen ranks count.
    let ran = written.run(&["advise", "app.mpisee", "--format", "csv", "--ranks", "0-3"]);
    assert!(!ran.exits(0).stdout.contains("no-core"), "{}", ran.stdout);
}

#[test]
fn reasons_for_the_lack_of_a_core_are_named() {
    let expects = |builder: &Builder, expected: &str| {
        let ran = builder.write().run(&["advise", "app.mpisee", "--format", "csv"]);
        assert!(ran.exits(0).stdout.contains(expected), "{expected}: {}", ran.stdout);
    };
    let bound = |rank: u32| if rank % 4 < 2 { (5.0, 5.0, "3") } else { (10.0, 0.0, "4-5") };
    expects(&using(run(), bound), "On node1, ranks 4-5 (50 %): ranks 4-5 are bound to one core (CPU 3).");
    expects(
        &using(run(), |_| (5.0, 5.0, "0-1")),
        "4 ranks share 2 cores (of 16 on the node, no others are allowed)",
    );
    expects(
        &using(run(), |_| (20.0, 20.0, "0-7")),
        "16.0 threads of ranks 0-3 ran or were ready on average, on 8 cores",
    );
    expects(&using(run(), |_| (20.0, 20.0, "0-7")), "Start fewer threads on each rank (OMP_NUM_THREADS)");
    expects(&using(run(), |_| (8.0, 2.0, "0-7")), "another process used these cores");
    let mut limited = using(run(), |_| (5.0, 5.0, "0-7"));
    limited.ranks.iter_mut().for_each(|row| row.cpu_quota = Some(2.0));
    expects(&limited, "their cgroup used most of its quota of 2 cores");
}

#[test]
fn advice_on_cores_follows_from_what_ranks_wanted_and_got() {
    let said = |use_of: fn(u32) -> (f64, f64, &'static str)| {
        let ran = using(run(), use_of).write().run(&["advise", "app.mpisee", "--format", "csv"]);
        ran.exits(0).stdout.lines().find(|line| line.starts_with("no-core")).unwrap().to_owned()
    };
    // 1.1 threads of each rank, which ran 6 of 10 s: most of the loss has another cause.
    let taken = said(|rank| (6.0, 5.0, ["0", "1", "2", "3"][rank as usize % 4]));
    for expected in [
        "1.1 threads of rank 0 ran or were ready on average, on 1 core (of 16 on the node, no others are \
         allowed); 0.6 of the threads ran. Other processes or the ranks' own threads were in the way; which \
         of the two is not measured",
        "Check what else runs on these cores (top)",
    ] {
        assert!(taken.contains(expected), "{expected}: {taken}");
    }
    assert!(!taken.contains("fewer threads"), "{taken}");
    // As many that used up their cores: a helper thread beside each.
    let helpers = said(|_| (9.7, 1.3, "0-3"));
    for expected in [
        "4.4 threads of ranks 0-3 ran or were ready on average, on 4 cores (of 16 on the node, no others are \
         allowed), and used up the cores themselves",
        "Leave a core to other threads than the program's",
    ] {
        assert!(helpers.contains(expected), "{expected}: {helpers}");
    }
    assert!(!helpers.contains("fewer threads"), "{helpers}");
}

#[test]
fn summary_and_ranks_show_who_had_no_core() {
    let crowded =
        |rank: u32| if rank < 4 { (10.0, 0.1, "0-3") } else { (5.2, 4.3 + 0.1 * f64::from(rank), "8-9") };
    let profile = using(on(run(), "W", &ALL, "MPI_Allreduce", 100, 800, 1.0), crowded).write();
    let ran = profile.run(&["summary", "app.mpisee"]);
    let line = "Cores      Ranks 4-7 waited for a CPU core 47 to 50 % of the time\n";
    assert!(ran.exits(0).stdout.contains(line), "{}", ran.stdout);
    profile.golden_at(120, "ranks-no-core", &["ranks", "app.mpisee", "--sort", "no-core"]);
    profile.golden_at(160, "ranks-by-node", &["ranks", "app.mpisee", "--by", "node", "--sort", "no-core"]);
    profile.run(&["ranks", "app.mpisee", "--by", "node", "--format", "csv"]).golden("ranks-by-node.csv");
    profile
        .run(&["ranks", "app.mpisee", "--by", "node", "--call", "MPI_Allreduce"])
        .fails_with(&["a row for each node (--by node)"]);
    let sound = using(run(), |_| (10.0, 0.1, "0-3")).write();
    assert!(!sound.run(&["summary", "app.mpisee"]).exits(0).stdout.contains("Cores"));
}

/// A run in which each rule finds something, for like communicators together.
fn every_rule() -> Builder {
    let mut builder = on(run(), "W", &ALL, "MPI_Comm_split", 3, 0, 0.000_25)
        .comm("W_a3", "W", "MPI_Cart_create", "0-7", |row| {
            row.topology = "cart dims=2x4 periods=0x0".to_owned();
            (row.reorder, row.nodes) = (Some(1), 2);
        })
        .comm("W_a3_b1.0", "W_a3", "MPI_Cart_sub", "0-3", |_| {})
        .comm("W_a3_b1.4", "W_a3", "MPI_Cart_sub", "4-7", |_| {});
    builder = on(builder, "W_a3", &ALL, "MPI_Sendrecv", 1_000, 8_000_000, 0.125);
    for half in 0..2 {
        let (first, ranks) = (4 * half, &ALL[4 * half..4 * half + 4]);
        let comm = format!("W_s1.{first}");
        builder = builder
            .comm(&comm, "W", "MPI_Comm_split", &format!("{first}-{}", first + 3), |row| row.nodes = 1);
        builder = on(builder, &comm, ranks, "MPI_Allreduce", 2_000, 16_000, 0.25);
        builder = on(builder, &comm, ranks, "MPI_Alltoallv", 20, 2_000_000, 0.625);
        builder = on(builder, &comm, ranks, "MPI_Comm_dup", 12, 0, 0.003);
        builder = arrive(builder, &comm, ranks, "MPI_Barrier", 50, |_, rank| {
            if rank as usize == first { 0.036 + 0.002 * half as f64 } else { 0.0 }
        });
        for n in 2..14 {
            let freed = u8::from(n < 4);
            let members = format!("{first}-{}", first + 3);
            builder = builder
                .comm(&format!("{comm}_d{n}"), &comm, "MPI_Comm_dup", &members, |row| row.freed = freed);
        }
        builder = on(builder, &format!("{comm}_d2"), ranks, "MPI_Test", 5_000, 0, 0.25);
        builder = on(builder, &format!("{comm}_d2"), ranks, "MPI_Irecv", 10, 80, 0.000_5);
    }
    for first in 0..4 {
        let members = [first, first + 4];
        let (comm, text) = (format!("W_s2.{first}"), format!("{first},{}", first + 4));
        builder = builder.comm(&comm, "W", "MPI_Comm_split", &text, |row| row.nodes = 2);
        builder = on(builder, &comm, &members, "MPI_Send", 100, 100 << 16, 0.55);
    }
    builder = arrive(
        builder.comm("W_d4", "W", "MPI_Comm_dup", "0-7", |_| {}),
        "W_d4",
        &ALL,
        "MPI_Barrier",
        200,
        |instance, rank| {
            if u64::from(rank) == some_rank(instance) { 0.004 } else { 0.0 }
        },
    );
    measured::plant(on(builder, "W", &ALL, "MPI_Bcast", 10, 80_000, 4.2))
}

#[test]
fn findings_are_said_in_words() {
    let profile = every_rule().write();
    for width in [60, 100] {
        profile.golden_at(width, "advise", &["advise", "app.mpisee"]);
    }
    profile.run(&["advise", "app.mpisee", "--format", "csv"]).golden("advise.csv");
    profile.run(&["advise", "app.mpisee", "--format", "json"]).golden("advise.json");
    profile.run(&["advise", "app.mpisee", "--comm", "W_s1.4*"]).golden("advise-comm");
    profile.run(&["advise", "app.mpisee", "--ranks", "0-3"]).golden("advise-ranks");
    let crowded = using(every_rule(), |_| (5.0, 5.0, "0-1")).write();
    crowded.golden_at(100, "advise-no-core", &["advise", "app.mpisee"]);
    // Where ranks lacked a core, no transfer is slow by itself.
    let uneven = measured::uneven(2.3).write();
    let of_messages = [late_sender(41), late_receiver(), late_partner(), hot_receiver(), all_in_turn()]
        .map(|one| one.write());
    let mut profiles = vec![crowded, profile, uneven, gpu_far::run().write(), with_overhead(3.0).write()];
    profiles.push(gpu_far::staging("blocking", "1.0"));
    profiles.extend(nccl::both());
    profiles.extend(of_messages);
    profiles.push(deadlocked().write());
    let options = ["advise", "app.mpisee", "--experimental", "--format", "csv"];
    let advised = |profile: &Written| profile.run(&options).stdout;
    let found: Vec<String> = profiles.iter().map(advised).collect();
    let lines = found.iter().flat_map(|csv| csv.lines().skip(1));
    let rules: BTreeSet<&str> = lines.filter_map(|line| line.split(',').next()).collect();
    let help = profiles[0].run(&["advise", "--help"]);
    let in_help: BTreeSet<&str> = help
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("- ")?.split_once(": "))
        .filter(|(rule, _)| !rule.is_empty() && rule.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .map(|(rule, _)| rule)
        // These need a replay beside the profile.
        .filter(|rule| !["network", "shared-network"].contains(rule))
        .collect();
    assert_eq!(rules, in_help);
}

/// A run that was killed while two ranks waited for each other.
fn deadlocked() -> Builder {
    let blocked = |rank: u32, with: &str| BlockedRank {
        rank,
        call: "MPI_Recv".to_owned(),
        comm: Some("W".to_owned()),
        with: Some(with.to_owned()),
        ..BlockedRank::default()
    };
    on(run(), "W", &ALL, "MPI_Barrier", 10, 0, 0.001).with(|profile| {
        profile.run.complete = false;
        profile.run.deadlocks = vec![EndedDeadlock {
            cycle: vec![blocked(2, "from 5 tag 7"), blocked(5, "from 2 tag 7")],
            behind: "0-1,3".to_owned(),
        }];
    })
}

#[test]
fn a_deadlock_comes_first_without_a_time() {
    finds(&deadlocked(), &["deadlock W"]);
    let profile = deadlocked().write();
    profile.golden_at(100, "advise-deadlock", &["advise", "app.mpisee"]);
    let sentence = "Deadlock: ranks 2 -> 5 -> 2 waited for each other: rank 2 in MPI_Recv from 5 tag 7 on W; rank 5 in MPI_Recv \
                    from 2 tag 7 on W; ranks 0-1,3 waited for them.";
    let ran = profile.run(&["summary", "app.mpisee", "--width", "400"]);
    assert!(ran.exits(0).stdout.contains(sentence), "{}", ran.stdout);
}

#[test]
fn a_killed_deadlock_is_one_finding_and_no_second_list_of_its_calls() {
    let place = |ranks: &str, call: &str, with: Option<&str>| EndedIn {
        ranks: ranks.to_owned(),
        call: Some(call.to_owned()),
        comm: Some("W".to_owned()),
        with: with.map(str::to_owned),
        at_least_s: 4.0,
        ..EndedIn::default()
    };
    let killed = deadlocked().with(|profile| {
        profile.run.ended_in = vec![
            place("2", "MPI_Recv", Some("from 5 tag 7")),
            place("5", "MPI_Recv", Some("from 2 tag 7")),
            place("0-1,3", "MPI_Barrier", None),
        ];
    });
    finds(&killed, &["deadlock W"]);
    let ran = killed.write().run(&["advise", "app.mpisee"]);
    let said = ran.exits(0).stdout.replace("\n   ", " ").replace('\n', " ");
    let note =
        "The run ended without MPI_Finalize. Start with the deadlock. Ranks 0-1,3 were in MPI_Barrier on W";
    assert!(said.contains(note), "{said}");
    assert_eq!(said.matches("from 5 tag 7").count(), 1, "{said}");
}

#[test]
fn nothing_chosen_is_an_error() {
    let profile = every_rule().write();
    profile
        .run(&["advise", "app.mpisee", "--comm", "X*"])
        .fails_with(&["no communicator matches --comm X*; the profile has W, "]);
    profile
        .run(&["advise", "app.mpisee", "--ranks", "99"])
        .fails_with(&["no rank matches --ranks 99; the profile has 0-7"]);
}

#[test]
fn like_communicators_are_judged_together() {
    // Each of four pairs of halves has less than the rules want.
    let halves = |call: &str, calls: u64, time_s: f64| {
        (0..2).fold(run(), |builder, half| {
            let (comm, ranks) = (format!("W_s1.{}", 4 * half), &ALL[4 * half..4 * half + 4]);
            let members = format!("{}-{}", 4 * half, 4 * half + 3);
            let builder = builder.comm(&comm, "W", "MPI_Comm_split", &members, |_| {});
            on(builder, &comm, ranks, call, calls, 8 * calls, time_s)
        })
    };
    finds(&halves("MPI_Allreduce", 1000, 0.2), &["tiny-allreduces W_s1.*"]);
    finds(&halves("MPI_Allreduce", 999, 0.2), &[]);
    finds(&halves("MPI_Bcast", 10, 1.0), &["dominating W_s1.*"]);
    let waits = (0..2).fold(halves("MPI_Bcast", 1, 0.0), |builder, half| {
        let ranks = &ALL[4 * half..4 * half + 4];
        let comm = format!("W_s1.{}", 4 * half);
        arrive(builder, &comm, ranks, "MPI_Barrier", 30, |_, rank| if rank % 4 == 2 { 0.01 } else { 0.0 })
    });
    finds(&waits, &["waiting W_s1.*"]);
}

#[test]
fn reductions_of_a_few_bytes_are_counted() {
    finds(&on(run(), "W", &ALL, "MPI_Allreduce", 1000, 8000, 0.2), &["tiny-allreduces W"]);
    finds(&on(run(), "W", &ALL, "MPI_Allreduce", 999, 7992, 0.2), &[]);
    finds(&on(run(), "W", &ALL, "MPI_Allreduce", 1000, 8000, 0.19), &[]);
    finds(&on(run(), "W", &ALL, "MPI_Allreduce", 1000, 64_000, 0.2), &[]);
}

#[test]
fn small_communicators_over_nodes_are_found_together() {
    let pairs = |time_s: f64, across: bool| {
        (0..4).fold(run(), |builder, first| {
            let members = if across { [first, first + 4] } else { [2 * first, 2 * first + 1] };
            let comm = format!("W_s1.{}", members[0]);
            let text = format!("{},{}", members[0], members[1]);
            let nodes = if across { 2 } else { 1 };
            let builder = builder.comm(&comm, "W", "MPI_Comm_split", &text, |row| row.nodes = nodes);
            on(builder, &comm, &members, "MPI_Gather", 10, 800, time_s)
        })
    };
    finds(&pairs(0.21, true), &["scattered W_s1.*"]);
    finds(&pairs(0.19, true), &[]);
    finds(&pairs(0.21, false), &[]);
    let leaders = run().comm("W_s1.0", "W", "MPI_Comm_split", "0,4", |row| row.nodes = 2);
    finds(&on(leaders, "W_s1.0", &[0, 4], "MPI_Gather", 10, 800, 1.5), &[]);
}

#[test]
fn alltoallv_is_judged_by_size_of_communicator() {
    let builder = (0..2).fold(run(), |builder, half| {
        let (comm, ranks) = (format!("W_s1.{}", 4 * half), &ALL[4 * half..4 * half + 4]);
        let members = format!("{}-{}", 4 * half, 4 * half + 3);
        let builder = builder.comm(&comm, "W", "MPI_Comm_split", &members, |_| {});
        on(builder, &comm, ranks, "MPI_Alltoallv", 20, 2_000_000, 0.5)
    });
    let builder = on(builder, "W", &ALL, "MPI_Alltoallv", 1, 800, 0.4);
    finds(&builder, &["alltoallv W_s1.*"]);
}

#[test]
fn settings_are_those_of_the_mpi_that_ran() {
    let said = |library: &str, flavour: &str| {
        let builder = on(run(), "W", &ALL, "MPI_Alltoallv", 1, 800, 0.6).with(|profile| {
            profile.run.mpi.library = library.to_owned();
            profile.run.mpi.flavour = flavour.to_owned();
        });
        let ran = builder.write().run(&["advise", "app.mpisee"]);
        ran.exits(0).stdout.replace("\n              ", " ")
    };
    for (library, flavour) in [("MPICH Version: 4.0.2", "mpich-4.0"), ("Open MPI v5.0.3", "openmpi-5.0")] {
        assert!(said(library, flavour).contains("mpisee-bench tune app.mpisee -- mpirun -n 8"));
    }
    assert!(said("Intel(R) MPI Library 2021.19", "mpich-5.0").contains("I_MPI_ADJUST_ALLTOALLV=1"));
}

#[test]
fn like_creations_are_a_loop_or_a_leak() {
    let dups = |number: u32, freed: u32| {
        let builder = on(run(), "W", &ALL, "MPI_Comm_dup", u64::from(number), 0, 0.001);
        (0..number).fold(builder, |builder, n| {
            builder
                .comm(&format!("W_d{n}"), "W", "MPI_Comm_dup", "0-7", |row| row.freed = u8::from(n < freed))
        })
    };
    finds(&dups(16, 16), &["creation W"]);
    finds(&dups(15, 15), &[]);
    finds(&dups(8, 0), &["creation W"]);
    finds(&dups(8, 1), &[]);
    // The parts of one split are no repetition.
    let split = (0..8).fold(run(), |builder, rank| {
        builder.comm(&format!("W_s1.{rank}"), "W", "MPI_Comm_split", &rank.to_string(), |_| {})
    });
    finds(&split, &[]);
}

#[test]
fn reordering_that_was_not_done_is_told_from_the_parts() {
    let grid = |second: &str, reorder: u8| {
        let builder = run()
            .comm("W_a1", "W", "MPI_Cart_create", "0-7", |row| {
                row.topology = "cart dims=2x4 periods=0x0".to_owned();
                (row.reorder, row.nodes) = (Some(reorder), 2);
            })
            .comm("W_a1_b2.0", "W_a1", "MPI_Cart_sub", "0-3", |_| {})
            .comm(second, "W_a1", "MPI_Cart_sub", "4-7", |_| {});
        on(builder, "W_a1", &ALL, "MPI_Sendrecv", 10, 80, 0.11)
    };
    finds(&grid("W_a1_b2.4", 1), &["reorder W_a1"]);
    finds(&grid("W_a1_b2.1", 1), &[]);
    finds(&grid("W_a1_b2.4", 0), &[]);
}

#[test]
fn tests_again_and_again_are_polling() {
    let polls = |tests: u64, starts: u64| {
        let builder = on(run(), "W", &ALL, "MPI_Test", tests, 0, 0.2);
        on(builder, "W", &ALL, "MPI_Irecv", starts, 80, 0.001)
    };
    finds(&polls(1000, 100), &["polling W"]);
    finds(&polls(999, 1), &[]);
    finds(&polls(1000, 101), &[]);
}

#[test]
fn blocking_receives_are_not_what_tests_complete() {
    let polls = |call: &str, receives: u64| {
        let builder = on(run(), "W", &ALL, call, 1000, 0, 0.2);
        let builder = on(builder, "W", &ALL, "MPI_Irecv", 10, 80, 0.001);
        on(builder, "W", &ALL, "MPI_Recv", receives, 80, 0.001)
    };
    let said = |builder: &Builder| {
        let ran = builder.write().run(&["advise", "app.mpisee"]);
        ran.exits(0).stdout.replace("\n              ", " ")
    };
    let tests = said(&polls("MPI_Test", 5000));
    assert!(tests.contains("8000 tests, mostly MPI_Test, for 80 nonblocking operations on W."), "{tests}");
    finds(&polls("MPI_Iprobe", 91), &[]);
    let probes = said(&polls("MPI_Iprobe", 90));
    assert!(probes.contains("8000 probes, mostly MPI_Iprobe, beside 800 receives on W."), "{probes}");
}

#[test]
fn calls_over_several_communicators_have_no_number_and_mean() {
    let both =
        ["W", "W_d1"].iter().fold(run().comm("W_d1", "W", "MPI_Comm_dup", "0-7", |_| {}), |builder, comm| {
            on(builder, comm, &ALL, "MPI_Waitall", 10, 0, 1.0)
        });
    let profile = both.write();
    let said = profile.run(&["advise", "app.mpisee"]).exits(0).stdout.replace("\n              ", " ");
    let sentence =
        "The largest part is MPI_Waitall: 8.00 s summed over ranks. A call counts on each communicator";
    assert!(said.contains(sentence) && !said.contains("on average"), "{said}");
    let one = on(run(), "W", &ALL, "MPI_Waitall", 10, 0, 1.0).write().run(&["advise", "app.mpisee"]);
    assert!(one.exits(0).stdout.contains("MPI_Waitall: 80 calls of 100 ms on average"), "{}", one.stdout);
}
