//! `mpisee-through compare-network`.

use crate::support::{Builder, Written};
use mpisee_profile::network::{MESSAGES, NETWORK_VERSION, Network, NetworkMpi, Replay};
use mpisee_profile::rows::{ArrivalRow, CallRow, CollectiveRow, Seconds};

/// Four ranks: an MPI_Allreduce to which rank 1 comes 100 ms late each time, an MPI_Alltoall on two
/// halves, messages.
fn profile() -> Builder {
    const CALLS: u64 = 40;
    let mut builder = Builder::new(4).comm("W_s1.0", "W", "MPI_Comm_split", "0-1", |_| {}).comm(
        "W_s1.2",
        "W",
        "MPI_Comm_split",
        "2-3",
        |_| {},
    );
    for rank in 0..4 {
        let late_s = if rank == 1 { 0.1 } else { 0.0 };
        let row = |instance: u64| ArrivalRow {
            comm: "W".to_owned(),
            call: "MPI_Allreduce".to_owned(),
            instance,
            rank,
            root: None,
            arrival_s: Seconds(instance as f64 + late_s),
            departure_s: Seconds(instance as f64 + 0.105),
            started_s: None,
            completed: None,
        };
        builder.arrivals.extend((0..CALLS).map(row));
        builder.collectives.push(CollectiveRow {
            comm: "W".to_owned(),
            call: "MPI_Allreduce".to_owned(),
            rank,
            instances: CALLS,
            sampled: CALLS,
            mean_arrival_s: Seconds(19.5 + late_s),
            mean_departure_s: Seconds(19.605),
        });
        let half = if rank < 2 { "W_s1.0" } else { "W_s1.2" };
        builder = builder
            .call("W", rank, "MPI_Allreduce", CALLS, CALLS * 8192, 40.0 * (0.105 - late_s))
            .call(half, rank, "MPI_Alltoall", 100, 100 << 21, 2.5)
            .call("W", rank, "MPI_Isend", 10, 10_000, 0.004)
            .call("W", rank, "MPI_Waitall", 10, 0, 0.016)
            .messages("W", rank, (rank + 1) % 4, 10, 10_000);
    }
    builder
}

fn replay(family: &str, comms: &[&str], call: &str, size: [u64; 2], bytes: u64, times_s: [f64; 2]) -> Replay {
    Replay {
        command: ["./splatt", "cpd", "my tensor.tns"].map(str::to_owned).to_vec(),
        ranks: 4,
        family: family.to_owned(),
        comms: comms.iter().map(|&comm| comm.to_owned()).collect(),
        call: call.to_owned(),
        size_min: size[0],
        size_max: size[1],
        bytes,
        calls: 0,
        volume: None,
        measured: String::new(),
        hosts: Vec::new(),
        repetitions: None,
        together_s: times_s[0],
        together_spread: 0.02,
        alone_s: times_s[1],
        alone_spread: 0.01,
        no_core: None,
    }
}

fn network() -> Network {
    Network {
        network_version: NETWORK_VERSION,
        measured: "2026-11-25T05:00:00Z".to_owned(),
        mpi: NetworkMpi { library: "Open MPI v5.0.3, package".to_owned(), ..NetworkMpi::default() },
        hosts: vec!["node0".to_owned()],
        ranks: 4,
        replays: vec![
            replay("W", &["W"], "MPI_Allreduce", [8192, 16383], 8192, [0.004, 0.004]),
            replay(
                "W_s1.*",
                &["W_s1.0", "W_s1.2"],
                "MPI_Alltoall",
                [2 << 20, (4 << 20) - 1],
                1 << 20,
                [0.02, 0.01],
            ),
            replay("W", &["W"], MESSAGES, [1000, 1000], 1000, [0.003, 0.003]),
        ],
        ..Network::default()
    }
}

fn written(network: &Network) -> Written {
    let written = profile().write();
    std::fs::write(written.beside().join("network.json"), network.text()).unwrap();
    written
}

const COMMAND: [&str; 3] = ["compare-network", "app.mpisee", "network.json"];

#[test]
fn time_is_divided_into_parts_that_add_up() {
    let profile = written(&network());
    profile.golden_at(120, "compare-network", &COMMAND);
    profile.golden_at(80, "compare-network", &COMMAND);
    profile.run(&[&COMMAND[..], &["--format", "json"]].concat()).golden("compare-network.json");
    let ran = profile.run(&[&COMMAND[..], &["--format", "csv"]].concat());
    let mut reader = csv::Reader::from_reader(ran.exits(0).stdout.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let value = |row: &csv::StringRecord, name: &str| -> f64 {
        let at = heads.iter().position(|head| head == name).unwrap();
        row[at].parse().unwrap_or(0.0)
    };
    let parts =
        |row| ["waiting_s", "network_s", "siblings_s", "not_explained_s"].map(|name| value(row, name));
    for row in &rows {
        assert!((parts(row).iter().sum::<f64>() - value(row, "time_s")).abs() < 1e-8, "{row:?}");
    }
    // 400 calls of the MPI_Alltoall, of 10 ms alone and 20 ms at once, take 10 s; of the
    // MPI_Allreduce three ranks wait 40 times 100 ms, and its 160 calls take 4 ms replayed.
    let [allreduce, alltoall, messages] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(parts(alltoall), [0.0, 4.0, 4.0, 2.0]);
    let [waiting, network, siblings, rest] = parts(allreduce);
    assert!((waiting - 12.0).abs() < 1e-6 && (network - 0.64).abs() < 1e-9, "{allreduce:?}");
    assert!(siblings == 0.0 && (rest - 0.16).abs() < 1e-6, "{allreduce:?}");
    // 40 messages, whose replay took longer than the 80 ms of the program: nobody knows what the
    // network takes of these.
    assert_eq!((value(messages, "calls"), value(messages, "bytes")), (40.0, 40_000.0));
    assert_eq!(parts(messages), [0.0, 0.0, 0.0, 0.08]);
}

/// Repetitions of a replay that took times which differ much, or without a core for each rank, say
/// nothing of the network.
#[test]
fn a_disturbed_replay_accuses_nobody() {
    let spread = |replay: &mut Replay| replay.together_spread = 2.14;
    let no_core = |replay: &mut Replay| replay.no_core = Some(0.31);
    for (change, expected) in [
        (
            spread as fn(&mut Replay),
            "the replay was disturbed (its middle half spreads over 214 % of the median)",
        ),
        (no_core, "A rank of the replay had no core for 31 % of its time. Replay again"),
    ] {
        let mut disturbed = network();
        disturbed.replays.iter_mut().for_each(change);
        let profile = written(&disturbed);
        let ran = profile.run(&COMMAND);
        let said = ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("share the network"), "{said}");
        let advice = profile.run(&["advise", "app.mpisee", "--network", "network.json"]);
        let advice = advice.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!advice.contains("[network]") && !advice.contains("[shared-network]"), "{advice}");
        let unknown = "does not show the part of the network: it is unknown for each of 3 operations";
        assert!(advice.contains(unknown), "{advice}");
    }
}

/// Another MPI says nothing of what this one got of the network.
#[test]
fn a_replay_by_another_mpi_accuses_nobody() {
    let mut other = network();
    other.mpi.library = "MPICH Version:\t4.0.2".to_owned();
    let profile = written(&other);
    let ran = profile.run(&COMMAND);
    let said = ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("(MPICH Version: 4.0.2), 4 ranks The program ran with another MPI, Open MPI v5.0.3."),
        "{said}"
    );
    assert!(said.contains("the replay is by another MPI") && !said.contains("share the network"), "{said}");
    assert!(!profile.run(&["advise", "app.mpisee"]).exits(0).stdout.contains("network]"));
}

/// Nobody asked for the replay: two operations are enough.
#[test]
fn efficiency_shows_two_operations_of_a_replay_unasked() {
    let (mut builder, mut network) = (profile(), network());
    for rank in 0..4 {
        builder = builder.call("W", rank, "MPI_Bcast", 50, 50 * 8192, 2.0);
    }
    network.replays.push(replay("W", &["W"], "MPI_Bcast", [8192, 16383], 8192, [0.01, 0.01]));
    let profile = builder.write();
    std::fs::write(profile.beside().join("network.json"), network.text()).unwrap();
    let said = |options: &[&str]| {
        let ran = profile.run(&[&["efficiency", "app.mpisee"], options].concat());
        ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let more = "The replay beside the profile has 1 more operation; mpisee-through compare-network shows \
                all.";
    assert!(said(&[]).contains(more), "{}", said(&[]));
    assert!(!said(&["--network", "network.json"]).contains("compare-network shows all"));
}

/// Samples do not tell sizes apart: of each it is known only what all of them together leave.
#[test]
fn waiting_of_one_size_is_bounded_by_that_of_all() {
    let mut builder = profile();
    // As many calls again of another size: of 25.6 s together 24 s are waiting, so of these 12.8 s
    // at least 11.2 s.
    for rank in 0..4 {
        let row =
            builder.calls.iter().find(|row| row.rank == rank && row.call == "MPI_Allreduce").unwrap().clone();
        builder.calls.push(CallRow { size_min: 8, size_max: 15, ..row });
    }
    let profile = builder.write();
    std::fs::write(profile.beside().join("network.json"), network().text()).unwrap();
    let ran = profile.run(&[&COMMAND[..], &["--format", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let row = &document["operations"][0];
    let [total, low, high, time_s] =
        ["waiting_s", "waiting_low_s", "waiting_high_s", "time_s"].map(|name| row[name].as_f64().unwrap());
    assert!((total - 12.0).abs() < 1e-6 && (low - 11.2).abs() < 1e-6 && high == time_s, "{row}");
    let text = profile.run(&COMMAND);
    let said = text.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            "if this size waits as all sizes of the call together (measured; of this size 88 to 100 %)"
        ),
        "{said}"
    );
}

/// Another run of the same command may have had another input.
#[test]
fn a_replay_of_other_sizes_accuses_nobody() {
    // 100 calls of each rank moved 2 MiB each.
    for (volume, is_other) in [(400_u64 << 21, false), (400 << 20, true)] {
        let mut other = network();
        other.replays.iter_mut().filter(|it| it.call == "MPI_Alltoall").for_each(|it| {
            it.calls = 400;
            it.volume = Some(volume);
        });
        let profile = written(&other);
        let ran = profile.run(&COMMAND);
        let said = ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence =
            "the replay is of another run of this command, whose calls moved 1.00 MiB and not 2.00 MiB each";
        assert_eq!(
            (said.contains(sentence), said.contains("share the network")),
            (is_other, !is_other),
            "{said}"
        );
        let advice = profile.run(&["advise", "app.mpisee"]);
        assert_eq!(advice.exits(0).stdout.contains("[shared-network]"), !is_other);
    }
}

#[test]
fn a_file_without_this_profile_says_how_to_make_one() {
    let mut other = network();
    other.replays.iter_mut().for_each(|replay| replay.ranks = 8);
    let profile = written(&other);
    profile.run(&COMMAND).fails_with(&["'network.json' has no replay of", "mpirun -n 4 mpisee-bench --like"]);
    std::fs::write(profile.beside().join("network.json"), "{}").unwrap();
    profile.run(&COMMAND).fails_with(&["network.json", "no network_version"]);
    profile.run(&["compare-network", "app.mpisee", "nothing.json"]).fails_with(&["nothing.json"]);
    profile.run(&["compare-network", "app.mpisee"]).fails_with(&["<NETWORK>"]);
}

/// The file beside the profile is found; another one is named.
#[test]
fn efficiency_splits_the_transfer_beside_a_replay() {
    let profile = written(&network());
    profile.golden_at(120, "efficiency-network", &["efficiency", "app.mpisee"]);
    let said = profile.run(&["efficiency", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&said.exits(0).stdout).unwrap();
    let transfer = document["transfer"].as_array().unwrap();
    let parts: Vec<f64> = ["network_s", "siblings_s", "not_explained_s"]
        .map(|part| {
            transfer.iter().find(|row| row["call"] == "MPI_Alltoall").unwrap()[part].as_f64().unwrap()
        })
        .to_vec();
    assert_eq!(parts, [4.0, 4.0, 2.0]);
    let beside = profile.beside();
    std::fs::rename(beside.join("network.json"), beside.join("measured.json")).unwrap();
    let without = profile.run(&["efficiency", "app.mpisee", "--format", "json"]);
    assert!(!without.exits(0).stdout.contains("\"transfer\""));
    let named = profile.run(&["efficiency", "app.mpisee", "--network", "measured.json", "--format", "json"]);
    assert_eq!(named.exits(0).stdout, said.stdout);
    std::fs::write(beside.join("network.json"), "{}").unwrap();
    let unreadable = profile.run(&["efficiency", "app.mpisee", "--format", "json"]);
    assert!(!unreadable.exits(0).stdout.contains("\"transfer\""));
    for command in ["efficiency", "advise"] {
        let said = profile.run(&[command, "app.mpisee"]);
        said.exits(0);
        let all = format!("{} {}", said.stdout, said.stderr);
        let all = all.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            all.contains("The replay beside the profile is not used: ") && all.contains("no network_version"),
            "{all}"
        );
    }
    profile
        .run(&["efficiency", "app.mpisee", "--network", "network.json"])
        .fails_with(&["no network_version"]);
}

#[test]
fn advice_names_siblings_that_share_the_network() {
    let profile = written(&network());
    let said = profile.run(&["advise", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&said.exits(0).stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let of_rule = |rule: &str| -> Vec<&serde_json::Value> {
        findings.iter().filter(|finding| finding["rule"] == rule).collect()
    };
    let [shared] = of_rule("shared-network")[..] else { panic!("{findings:?}") };
    assert_eq!((shared["about"].as_str(), shared["cost_s"].as_f64()), (Some("W_s1.*"), Some(4.0)));
    let what = shared["finding"].as_str().unwrap();
    assert!(
        what.contains("MPI_Alltoall with blocks of 1.00 MiB on W_s1.*")
            && what
                .contains("siblings that communicate at the same time share the network (40 %, 39 to 41 %)"),
        "{what}"
    );
    let [network] = of_rule("network")[..] else { panic!("{findings:?}") };
    assert!(network["try"].as_str().unwrap().contains("mpisee-bench tune app.mpisee -- mpirun -n 4"));
    // On other communicators nothing is shared.
    let chosen = profile.run(&["advise", "app.mpisee", "--comm", "W", "--format", "json"]);
    assert!(!chosen.exits(0).stdout.contains("shared-network"));
    std::fs::remove_file(profile.beside().join("network.json")).unwrap();
    assert!(!profile.run(&["advise", "app.mpisee"]).exits(0).stdout.contains("network]"));
}

/// The replay takes 8 of the 10 s in MPI_Alltoall. It explains nothing of the 20 s in messages on
/// the same communicators.
#[test]
fn a_replayed_collective_leaves_messages_to_other_findings() {
    let receives = (0..4).fold(profile(), |builder, rank| {
        let half = if rank < 2 { "W_s1.0" } else { "W_s1.2" };
        builder.call(half, rank, "MPI_Recv", 10, 170, 5.0)
    });
    let written = receives.write();
    std::fs::write(written.beside().join("network.json"), network().text()).unwrap();
    let said = written.run(&["advise", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&said.exits(0).stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let on_halves = findings.iter().filter(|finding| finding["about"] == "W_s1.*");
    let costs: Vec<(&str, f64)> = on_halves
        .map(|finding| (finding["rule"].as_str().unwrap(), finding["cost_s"].as_f64().unwrap()))
        .collect();
    assert_eq!(costs, [("dominating", 20.0), ("network", 4.0), ("shared-network", 4.0)]);
}

/// The blocks of MPI_Alltoallv are replayed equally long, and the program may have had others:
/// nothing is blamed on the network.
#[test]
fn nothing_is_said_of_the_network_where_blocks_are_assumed() {
    let mut network = network();
    network.replays.iter_mut().filter(|it| it.call == "MPI_Alltoall").for_each(|it| it.call += "v");
    let profile = written(&network);
    // Each of the four ranks has a row.
    (0..4).for_each(|_| profile.replace("calls.csv", "MPI_Alltoall,", "MPI_Alltoallv,"));
    let said = profile.run(&[&COMMAND[..], &["--format", "json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&said.exits(0).stdout).unwrap();
    let rows = document["operations"].as_array().unwrap();
    let row = rows.iter().find(|row| row["call"] == "MPI_Alltoallv").unwrap();
    assert!(row["network_s"].is_null() && row["siblings_s"].is_null(), "{row}");
    assert_eq!((row["time_s"].as_f64(), row["not_explained_s"].as_f64()), (Some(10.0), Some(10.0)));
    let table = profile.run(&COMMAND);
    table.exits(0);
    let text = table.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("the replay has equally long blocks and the program may have had others"),
        "{text}"
    );
    assert!(!text.contains("share the network"), "{text}");
    let advice = profile.run(&["advise", "app.mpisee", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&advice.exits(0).stdout).unwrap();
    let rules: Vec<&str> =
        document["findings"].as_array().unwrap().iter().filter_map(|it| it["rule"].as_str()).collect();
    assert!(!rules.iter().any(|rule| rule.contains("network")), "{rules:?}");
}
