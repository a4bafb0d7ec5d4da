//! `mpisee-bench`: what it moves, and what it refuses.

use mpisee_profile::network::{MESSAGES, Network};
use mpisee_tests::bench::{bench, has_bench, number, rows};
use mpisee_tests::{Cluster, LIMIT, Mpi, Place, Run, case, dist, within};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The profile of a run has the messages that the pattern should have sent, and no others.
#[case(only = has_bench)]
fn a_pattern_sends_what_it_says(mpi: &Mpi) {
    for (backend, calls) in
        [("isend", ["MPI_Isend", "MPI_Irecv"]), ("persistent", ["MPI_Start", "MPI_Startall"])]
    {
        let words = format!("rail --groups 2 --group-size 2 --sizes 1511 --direction bi --backend {backend}");
        let finished = bench(mpi, &words).profiled();
        let rows = rows(&finished);
        assert_eq!(rows.len(), 1, "{}", finished.stdout);
        assert_eq!(
            (&*rows[0]["pattern"], &*rows[0]["backend"], &*rows[0]["verified"]),
            ("rail", backend, "true")
        );
        assert_eq!((number(&rows[0], "moved_bytes"), number(&rows[0], "ranks")), (4.0 * 1511.0, 4.0));
        let tables = finished.tables();
        for (rank, peer) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
            let [sent, sent_bytes, received, received_bytes] = tables.peer("W", rank, peer);
            assert!(sent > 3 && sent == received, "{backend} {rank} {peer}: {sent} {received}");
            assert_eq!([sent_bytes, received_bytes], [sent * 1511, received * 1511]);
            assert_eq!(tables.peer("W", rank, (rank + 1) % 4)[0], 0);
        }
        let of_all = calls.map(|call| tables.sum("W", call).bytes).into_iter().sum::<u64>();
        let sent: u64 = (0..4).map(|rank| tables.peer("W", rank, (rank + 2) % 4)[1]).sum();
        assert_eq!(of_all, 2 * sent, "{backend}");
        finished.check();
    }
}

#[case(only = has_bench)]
fn one_sided_backends_move_what_they_say(mpi: &Mpi) {
    for (backend, call) in [("put", "MPI_Put"), ("get", "MPI_Get")] {
        let finished = bench(mpi, &format!("ring --sizes 1733 --backend {backend}")).ranks(3).profiled();
        assert_eq!(rows(&finished)[0]["verified"], "true");
        let sum = finished.tables().sum("W", call);
        assert!(sum.calls > 9, "{sum:?}");
        assert_eq!(sum.bytes, 1733 * sum.calls);
        finished.check();
    }
}

/// The bytes go from memory to memory: the profile has the window, and no message.
#[case(only = has_bench)]
fn shared_memory_moves_bytes_without_messages(mpi: &Mpi) {
    let finished = bench(mpi, "ring --direction bi --sizes 0,1733,300k --backend shared").ranks(3).profiled();
    for row in rows(&finished) {
        assert_eq!((&*row["verified"], &*row["backend"], &*row["ranks"]), ("true", "shared", "3"));
    }
    let tables = finished.tables();
    assert!(tables.sum_where(|row| row.call == "MPI_Win_allocate_shared").calls >= 3 * 3);
    for call in ["MPI_Isend", "MPI_Send", "MPI_Put", "MPI_Get"] {
        assert_eq!(tables.sum_where(|row| row.call == call).calls, 0, "{call}");
    }
    finished.check();
}

/// Ranks that wait in shared memory still progress their messages by MPI, and the other way round:
/// in a file of steps of all kinds, each rank waits for a step that another one has behind
/// something else.
#[case(only = has_bench)]
fn shared_memory_goes_with_other_backends(mpi: &Mpi) {
    const TEXT: &str = "step a using shared\n  0 -> 1 : n to 0\n  1 -> 2 : n from n to 0\n\
                        step b using isend\n  1 -> 0 : n from 0 to n\n  2 -> 1 : n from 0 to 4*n\n\
                        step c using put\n  0 -> 2 : n from n to n\n\
                        step d using shared\n  2 -> 0 : n from n to 2*n\n  0 -> 0 : n from n to 3*n\n\
                        step e\n  MPI_Allreduce : 8\n\
                        step f using shared\n  0 -> 1 : n from 3*n to 0 times 3\n";
    let place = Place::new();
    let file = place.path("mixed.pattern");
    std::fs::write(&file, TEXT).unwrap();
    // Below and above the sizes that MPI sends before they are received.
    let words = format!("run {} --sizes 1,911,300k", file.display());
    let rows = rows(&bench(mpi, &words).ranks(3).plain());
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!((&*row["verified"], &*row["backend"]), ("true", "shared+isend+put"));
    }
}

/// Two nodes share no memory: a sentence where a message would cross, and none where each node has
/// its own.
#[case(only = has_bench)]
fn shared_memory_is_of_one_node(mpi: &Mpi) {
    if !mpi.name.starts_with("openmpi-4") {
        return;
    }
    let Some(cluster) = Cluster::begin(2) else { return };
    let within = "stripe --group-size 2 --within shared --sizes 911,300k";
    let rows = rows(&bench(mpi, within).ranks(4).on(&cluster).plain());
    assert!(rows.iter().all(|row| row["verified"] == "true" && row["backend"] == "shared+isend"));
    let across = bench(mpi, "ring --backend shared --sizes 911").ranks(4).on(&cluster);
    let finished = across.exits_with(2).plain();
    let said = "in step ring, ranks 1 and 2 are on two nodes, which share no memory; take another --backend";
    assert_eq!(finished.stderr.matches(said).count(), 1, "{}", finished.stderr);
}

/// Every collective gives the right result on two communicators at once, with and without numbers
/// to add up in blocks.
#[case(only = has_bench)]
fn every_collective_runs_on_two_communicators_at_once(mpi: &Mpi) {
    let finished =
        bench(mpi, "collective all --members 0,2 --members 1,3 --root 1 --sizes 8,12,37").ranks(4).plain();
    let rows = rows(&finished);
    // A barrier has no size.
    assert_eq!(rows.len(), 21 * 3 + 1, "{}", finished.stdout);
    for row in &rows {
        assert_eq!((&*row["verified"], &*row["ranks"], &*row["backend"]), ("true", "4", "collective"));
        let times = ["min_s", "quarter_s", "median_s", "three_quarters_s", "max_s"].map(|it| number(row, it));
        assert!(times[0] > 0.0 && times.is_sorted(), "{row:?}");
    }
    let volume = |name: &str| rows.iter().find(|row| row["pattern"] == name && row["bytes"] == "37").unwrap();
    assert_eq!(number(volume("MPI_Alltoall"), "moved_bytes"), 37.0 * (4.0 + 4.0));
    assert_eq!(number(volume("MPI_Bcast"), "moved_bytes"), 37.0 * 2.0);
}

#[case(only = has_bench)]
fn built_in_patterns_bring_all_bytes_where_they_belong(mpi: &Mpi) {
    for words in [
        "p2p --exchange uni --window 5",
        "p2p --exchange bi --window 3 --ranks 3,1",
        "fan --direction bi --active 2",
        "dense --groups 3 --direction omni",
        "halo --dims 3x2 --periodic",
        "halo --ndims 3",
        "all-to-all --backend put",
        "tree --backend get",
        "stripe --within put",
        "p2p --backend shared",
        "p2p --exchange bi --window 3 --backend shared",
        "dense --groups 3 --direction omni --backend shared",
        "all-to-all --backend shared",
        "stripe --within shared",
        "stripe --group-size 3 --within persistent --backend get",
    ] {
        let finished = bench(mpi, &format!("{words} --sizes 1,4099")).ranks(6).plain();
        let rows = rows(&finished);
        assert_eq!(rows.len(), 2, "{words}: {}", finished.stdout);
        assert!(rows.iter().all(|row| row["verified"] == "true" && number(row, "bytes_per_s") > 0.0));
    }
}

#[case(only = has_bench)]
fn a_pattern_file_is_carried_out_with_its_steps(mpi: &Mpi) {
    const TEXT: &str = "let hops = 1\nstep there using put\n  0 -> 1 : n to 0\nstep on\n  for i in 1..hops+1\n    \
                        i -> i+1 : n to 0\n  end\nstep sum\n  MPI_Allreduce on 0..2 : 8\n";
    let place = Place::new();
    let file = place.path("relay.pattern");
    std::fs::write(&file, TEXT).unwrap();
    let words = format!("run {} --set hops=1 --sizes 911", file.display());
    let finished = bench(mpi, &words).ranks(3).profiled();
    let row = &rows(&finished)[0];
    assert_eq!((&*row["pattern"], &*row["backend"]), ("relay", "put+isend"));
    let tables = finished.tables();
    let [put, sent] = ["MPI_Put", "MPI_Isend"].map(|call| tables.sum("W", call));
    assert_eq!((put.calls, put.bytes), (sent.calls, 911 * sent.calls));
    assert_eq!(tables.peer("W", 1, 2)[1], 911 * sent.calls);
    let sums =
        tables.sum_where(|row| row.call == "MPI_Allreduce" && row.comm != "W" && row.bytes == 8 * row.calls);
    assert!(sums.calls >= 2 * sent.calls, "{sums:?} {sent:?}");
}

/// A measurement that cannot be made ends with one sentence, and nothing hangs.
#[case(only = has_bench)]
fn what_cannot_be_measured_is_said_once(mpi: &Mpi) {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let path = place.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let [wrong, far, large] = [
        file("wrong.pattern", "step a\n0 -> 1 n\n"),
        file("far.pattern", "0 -> 1 : n\n\n0 -> 5 : n\n"),
        file("large.pattern", "for i in 0..4000\n0 -> 1 : n from 0 to i * n\nend\n"),
    ];
    for (words, expected) in [
        (format!("run {wrong}"), format!("{wrong}: line 2: 'n' is where ':' should be")),
        (
            format!("run {far} --sizes 4"),
            format!(
                "{far}: line 3: there is no rank 5, since there are 2 ranks: start 6 or more with mpirun -n"
            ),
        ),
        (format!("run {large} --sizes 1G"), "of memory are available; take smaller --sizes".to_owned()),
        ("rail --group-size 4".to_owned(), "2 groups of 4 ranks need 8 ranks, and there are 2".to_owned()),
        ("p2p --ranks 0,2".to_owned(), "rank 2 has a part in it, and there are 2 ranks".to_owned()),
        ("p2p --sizes 2G".to_owned(), "a message of 2147483648 bytes is longer than".to_owned()),
        ("collective ibcast".to_owned(), "there is no blocking collective 'ibcast'".to_owned()),
        ("collective bcast --members 0-1 --members 1".to_owned(), "rank 1 is a member twice".to_owned()),
        ("run /nowhere.pattern".to_owned(), "the pattern file /nowhere.pattern cannot be read".to_owned()),
        ("network --sizes 8".to_owned(), "a model needs three --sizes or more".to_owned()),
        ("halo --dims 9x9x9x9".to_owned(), "is not a grid of one to three dimensions".to_owned()),
    ] {
        let finished = bench(mpi, &words).ranks(2).exits_with(2).plain();
        let said: Vec<&str> = finished
            .stderr
            .lines()
            .filter_map(|line| line.split_once("mpisee-bench: "))
            .map(|it| it.1)
            .collect();
        assert_eq!(said.len(), 1, "{words}: {}", finished.stderr);
        assert!(said[0].contains(&expected), "{words}: {}\n{expected}", said[0]);
        assert_eq!(finished.stdout, "", "{words}");
    }
}

#[case(only = has_bench)]
fn the_starter_needs_to_know_the_mpi(mpi: &Mpi) {
    let mut unlaunched = Command::new(dist().join("bin/mpisee-bench"));
    let place = Place::new();
    let output = within(LIMIT, unlaunched.arg("ring").current_dir(place.folder()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if Mpi::all_in(Path::new(&dist())).len() > 1 {
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("start it with mpirun, or say which with --flavour"), "{said}");
    }
    let mut help = Command::new(dist().join("bin/mpisee-bench"));
    let output = within(LIMIT, help.arg("--help"));
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("EXAMPLES"));
    let finished =
        Run::from_program(mpi, dist().join("bin/mpisee-bench")).argument("frobnicate").exits_with(2).plain();
    assert_eq!(
        finished.stderr.matches("unrecognized subcommand 'frobnicate'").count(),
        1,
        "{}",
        finished.stderr
    );
}

/// A rank without a part in a pattern sleeps while the others are measured, rather than to wait for
/// them in MPI_Barrier.
#[case(only = has_bench)]
fn a_rank_without_a_part_sleeps(mpi: &Mpi) {
    let words = "p2p --ranks 0,1 --sizes 4517 --repetitions 4 --warm-up 1 --least-ms 250 --format csv";
    let run = Run::from_program(mpi, dist().join("bin/mpisee-bench")).ranks(3);
    let finished = words.split_whitespace().fold(run, Run::argument).profiled();
    assert_eq!(number(&rows(&finished)[0], "bytes"), 4517.0, "{}", finished.stdout);
    // A rank that polls takes all processor time that it can have.
    let ranks = &finished.tables().ranks;
    let processor_s = ranks[2].cpu_s().expect("the kernel counts it");
    assert!(processor_s < 0.5 * ranks[2].wall_s.0, "{ranks:?}");
    // It looks every 200 µs and no more often; a rank that polls looks a million times.
    let looks = finished.tables().sum_where(|row| row.rank == 2 && row.call == "MPI_Test").calls;
    assert!(looks > 0 && looks as f64 * 200e-6 < ranks[2].wall_s.0, "{looks} {ranks:?}");
}

/// A profile's communication is replayed on the same communicators with the same sizes, and
/// compared with the program.
#[case(only = has_bench)]
fn a_profile_is_replayed_and_compared(mpi: &Mpi) {
    // The program: an MPI_Alltoall on two halves, as the benchmark itself has one.
    let program = bench(mpi, "collective alltoall --members 0-1 --members 2-3 --sizes 3011").profiled();
    let directory = program.directory();
    let network = program.place.path("network.json");
    let words = format!("--like {} --output {}", directory.display(), network.display());
    let replayed = bench(mpi, &words).profiled();
    let read = Network::read(&network).unwrap();
    let of_program = program.tables();
    let replay = read.replays.iter().find(|it| it.call == "MPI_Alltoall").expect("it is replayed");
    assert_eq!((replay.bytes, replay.comms.len(), replay.ranks), (3011, 2, 4), "{replay:?}");
    assert_eq!(replay.calls, of_program.sum_where(|row| row.call == "MPI_Alltoall").calls);
    assert!(replay.alone_s > 0.0 && replay.together_s > 0.0);
    // The members and the bytes of each call are those of the program.
    let tables = replayed.tables();
    let of_replay: Vec<_> = tables.calls.iter().filter(|row| row.call == "MPI_Alltoall").collect();
    assert!(of_replay.iter().all(|row| row.bytes == row.calls * 2 * 3011), "{of_replay:?}");
    let members: BTreeSet<String> =
        of_replay.iter().map(|row| tables.comm(&row.comm).members.to_string()).collect();
    assert_eq!(members.into_iter().collect::<Vec<_>>(), ["0-1", "2-3"]);
    let [profile, network] = [&directory, &network].map(|path| path.display().to_string());
    let output = mpisee_tests::through(&["compare-network", &profile, &network, "--format", "csv"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row = text.lines().find(|line| line.contains(",MPI_Alltoall,")).expect("it is compared");
    assert!(row.contains(&format!(",3011,4096,8191,{},", replay.calls)), "{text}");
    // Models that are measured later leave the replays.
    let words = format!("network --sizes 64,1k,16k --output {network}");
    bench(mpi, &words).plain();
    let both = Network::read(std::path::Path::new(&network)).unwrap();
    assert!(!both.pairs.is_empty() && both.replays == read.replays, "{both:?}");
    let words = format!("--like {profile} --output few.json");
    let few = bench(mpi, &words).ranks(2).exits_with(2).plain();
    assert!(
        few.stderr.contains("is of 4 ranks, and there are 2: start as many with mpirun -n 4"),
        "{}",
        few.stderr
    );
}

/// A replay sends messages of the sizes that `MPI_Sendrecv` sends, and none of the mean of both
/// directions.
#[case(only = has_bench)]
fn exchanges_are_replayed_with_the_sizes_that_they_send(mpi: &Mpi) {
    let run = Run::new(mpi, "replay/sendrecv").ranks(2);
    let program = ["40009", "1013", "20"].into_iter().fold(run, Run::argument).profiled();
    let directory = program.directory();
    let network = program.place.path("network.json");
    let words = format!("--like {} --output {}", directory.display(), network.display());
    let replayed = bench(mpi, &words).ranks(2).profiled();
    let read = Network::read(&network).unwrap();
    let replay = read.replays.iter().find(|it| it.call == MESSAGES).expect("it is replayed");
    // The profile has the size class of each and the bytes of all.
    assert_eq!((replay.calls, replay.volume), (60, Some(20 * 40_009 + 40 * 1013)), "{replay:?}");
    let [short, long] = [512..1024, 32_768..65_536];
    assert!(short.contains(&replay.size_min) && long.contains(&replay.size_max), "{replay:?}");
    // Messages by which the benchmark's ranks agree are shorter.
    let tables = replayed.tables();
    let sent = tables.calls.iter().filter(|row| row.call == "MPI_Isend" && row.size_min >= 256);
    let classes: BTreeSet<u64> = sent.map(|row| row.size_min).collect();
    assert_eq!(classes.into_iter().collect::<Vec<_>>(), [short.start, long.start]);
}
