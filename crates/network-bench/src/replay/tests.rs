//! The plans of profiles, and what they leave out.

use super::*;

const RUN: &str = include_str!("../../tests/profile/run.json");
const COMMS: &str = "comm,parent,created_by,size,count,members,label,topology,reorder,nodes,freed,between\n";
const CALLS: &str = "comm,rank,region,call,size_min,size_max,memory,site,calls,bytes,time_s,min_s,max_s\n";
const PEERS: &str = "comm,rank,peer,sent_messages,sent_bytes,received_messages,received_bytes\n";

/// A row of calls: communicator, rank, operation, bytes of a call, calls, seconds.
type Call<'a> = (&'a str, u32, &'a str, u64, u64, f64);

/// Messages of a rank to a peer: communicator, rank, peer, messages, bytes.
type Messages<'a> = (&'a str, u32, u32, u64, u64);

/// The plan for a profile of two ranks with these communicators, calls and messages.
fn planned(comms: &[&str], calls: &[Call<'_>], messages: &[Messages<'_>]) -> Plan {
    let row = |&(comm, rank, call, bytes, calls, time_s): &Call<'_>| {
        let class = if bytes == 0 { [0, 0] } else { [bytes, 2 * bytes - 1] };
        in_class(comm, rank, call, class, [calls, bytes * calls], time_s)
    };
    planned_of(comms, &calls.iter().map(row).collect::<String>(), messages)
}

/// A row of calls with their number and their bytes.
fn in_class(
    comm: &str,
    rank: u32,
    call: &str,
    [min, max]: [u64; 2],
    [calls, bytes]: [u64; 2],
    time_s: f64,
) -> String {
    format!("{comm},{rank},,{call},{min},{max},host,,{calls},{bytes},{time_s:.9},0.000000001,1.000000000\n")
}

/// As [`planned`], with the text of the calls.
fn planned_of(comms: &[&str], calls: &str, messages: &[Messages<'_>]) -> Plan {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mpisee");
    std::fs::create_dir(&path).unwrap();
    let write = |name: &str, text: String| std::fs::write(Path::new(&path).join(name), text).unwrap();
    write("run.json", RUN.to_owned());
    write("comms.csv", COMMS.to_owned() + &comms.iter().map(|row| format!("{row}\n")).collect::<String>());
    write("calls.csv", CALLS.to_owned() + calls);
    let row = |&(comm, rank, peer, messages, bytes): &Messages<'_>| {
        format!("{comm},{rank},{peer},{messages},{bytes},0,0\n")
    };
    write("peers.csv", PEERS.to_owned() + &messages.iter().map(row).collect::<String>());
    plan(&Profile::open(&path).unwrap()).unwrap()
}

const WORLD: &str = "W,,,2,1,0-1,,,,1,0,";
const ITSELF: &str = "S,,,1,1,0-1,,,,1,0,";
const COPY_OF_ITSELF: &str = "S_d1,S,MPI_Comm_dup,1,1,0-1,,,,1,0,";

#[test]
fn communicators_of_single_ranks_are_not_replayed_among_all() {
    let calls: Vec<Call<'_>> = ["W", "S", "S_d1"]
        .into_iter()
        .flat_map(|comm| [0, 1].map(|rank| (comm, rank, "MPI_Allreduce", 1024, 10, 0.5)))
        .collect();
    let plan = planned(&[WORLD, ITSELF, COPY_OF_ITSELF], &calls, &[]);
    let [item] = &plan.items[..] else { panic!("{:?}", plan.items) };
    assert_eq!(item.comms, [("W".to_owned(), vec![0, 1])]);
    let left: Vec<(&str, f64)> = plan.left_out.iter().map(|it| (&*it.family, it.time_s)).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|&(family, time_s)| family.starts_with('S') && time_s == 1.0), "{left:?}");
    // Members that are not as many as the size are not those of one communicator.
    let odd =
        planned(&["W_s1.0,W,MPI_Comm_split,1,1,0-1,,,,1,0,"], &[("W_s1.0", 0, "MPI_Bcast", 8, 1, 1.0)], &[]);
    assert!(odd.items.is_empty() && odd.left_out[0].reason.contains("one by one"), "{odd:?}");
}

/// A split may leave a rank alone; a communicator is named by itself where its family has no other.
#[test]
fn a_family_of_one_has_the_name_of_its_communicator() {
    let comms = [WORLD, "W_s1.0,W,MPI_Comm_split,1,1,0,,,,1,0,", "W_s2.0,W,MPI_Comm_split,2,1,0-1,,,,1,0,"];
    let alone = ("W_s1.0", 0, "MPI_Bcast", 65_536, 10, 2.0);
    let both = [0, 1].map(|rank| ("W_s2.0", rank, "MPI_Allgather", 4099, 10, 0.5));
    let plan = planned(&comms, &[&both[..], &[alone]].concat(), &[]);
    let [item] = &plan.items[..] else { panic!("{:?}", plan.items) };
    assert_eq!((&*item.family, item.calls, item.volume), ("W_s2.0", 20, 20 * 4099));
    let [left] = &plan.left_out[..] else { panic!("{:?}", plan.left_out) };
    assert_eq!((&*left.reason, left.time_s), ("its communicators are of single ranks", 2.0));
}

/// MPI's counts are of elements: a block of large ones may have more bytes than a replay can count.
#[test]
fn what_no_pattern_can_have_is_left_out_with_the_reason() {
    let of = |bytes: u64| [0, 1].map(|rank| ("W", rank, "MPI_Allreduce", bytes, 3, 0.5));
    let plan = planned(&[WORLD], &[of(2_240_000_000), of(8)].concat(), &[]);
    assert_eq!(plan.items.iter().map(|it| it.bytes).collect::<Vec<_>>(), [8]);
    let [left] = &plan.left_out[..] else { panic!("{:?}", plan.left_out) };
    assert!(left.reason.contains("2147483647 bytes") && left.time_s == 1.0, "{left:?}");
}

#[test]
fn completing_collectives_is_no_time_of_messages() {
    let both = |call, bytes, calls, time_s| [0, 1].map(|rank| ("W", rank, call, bytes, calls, time_s));
    let of_collectives = [
        both("MPI_Iallreduce", 1 << 20, 100, 0.01),
        both("MPI_Wait", 0, 100, 0.45),
        both("MPI_Send", 8, 10, 0.02),
        both("MPI_Bcast", 8, 10, 0.02),
    ]
    .concat();
    let plan = planned(&[WORLD], &of_collectives, &[("W", 0, 1, 10, 80)]);
    let found = |plan: &Plan, call: &str| plan.left_out.iter().find(|it| it.call == call).cloned();
    let messages = plan.items.iter().find(|it| it.call == MESSAGES).unwrap();
    assert!((messages.time_s - 0.04).abs() < 1e-9 && messages.calls == 10, "{messages:?}");
    let wait = found(&plan, "MPI_Wait").unwrap();
    assert!((wait.time_s - 0.9).abs() < 1e-9 && wait.reason.contains("not replayed"), "{wait:?}");
    assert!((plan.time_s - 1.0).abs() < 1e-9 && (plan.covered() - 0.08).abs() < 1e-9, "{plan:?}");

    // Without a message, nothing is lost; with nonblocking ones, nothing is divided by guessing.
    let without = planned(&[WORLD], &of_collectives[..4], &[]);
    assert!((without.time_s - 0.92).abs() < 1e-9 && without.covered() == 0.0, "{without:?}");
    let mixed = [of_collectives, both("MPI_Irecv", 8, 10, 0.0).to_vec()].concat();
    let mixed = planned(&[WORLD], &mixed, &[("W", 0, 1, 10, 80)]);
    assert!(found(&mixed, "MPI_Wait").unwrap().reason.contains("does not tell their times apart"));

    // What is received only has time, and no message of this rank.
    let received =
        planned(&[WORLD], &[("W", 0, "MPI_Wait", 0, 1, 3.0), ("W", 0, "MPI_Bcast", 8, 1, 1.0)], &[]);
    assert_eq!((received.time_s, received.covered()), (4.0, 0.25));
    assert_eq!(received.left_out[0].reason, "no message was sent on it");
}

/// A message: source, destination, bytes and times.
type Sending = (u32, u32, u64, u32);

/// By pattern its messages, and the weight.
fn patterns(item: &Item, alone: Option<usize>) -> Vec<(Vec<Sending>, f64)> {
    let of = |it: Weighted| {
        let messages = it.pattern.steps[0].messages.iter();
        (messages.map(|it| (it.source, it.destination, it.bytes, it.times)).collect(), it.weight)
    };
    item.patterns(alone).into_iter().map(of).collect()
}

#[test]
fn pairs_with_very_different_numbers_of_messages_are_replayed_apart() {
    let calls: [Call<'_>; 2] = [("W", 0, "MPI_Send", 8, 4000, 1.0), ("W", 1, "MPI_Send", 64 << 20, 1, 1.0)];
    let plan = planned(&[WORLD], &calls, &[("W", 0, 1, 4000, 32_000), ("W", 1, 0, 1, 64 << 20)]);
    let [item] = &plan.items[..] else { panic!("{:?}", plan.items) };
    let found = patterns(item, None);
    let [(small, of_small), (large, of_large)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&small[..], &large[..]), (&[(0, 1, 8, 1)][..], &[(1, 0, 64 << 20, 1)][..]));
    // The weights times the calls are the messages of the profile.
    assert!((of_small * 4001.0 - 4000.0).abs() < 1e-6 && (of_large * 4001.0 - 1.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn pairs_with_like_numbers_are_replayed_at_once_in_their_proportions() {
    let calls: [Call<'_>; 1] = [("W", 0, "MPI_Send", 8, 4000, 1.0)];
    let messages = [("W", 0, 1, 200, 1600), ("W", 1, 0, 300, 2400), ("W", 0, 0, 3200, 25_600)];
    let plan = planned(&[WORLD], &calls, &messages);
    let found = patterns(&plan.items[0], Some(0));
    let [(all, weight)] = &found[..] else { panic!("{found:?}") };
    let times: Vec<u32> = all.iter().map(|it| it.3).collect();
    assert_eq!(times, [2, 3, 32]);
    assert!((weight * 37.0 - 1.0).abs() < 1e-9, "{weight}");
}

#[test]
fn a_turn_of_a_collective_has_a_call_of_each_member() {
    let calls: Vec<Call<'_>> = vec![("W", 0, "MPI_Bcast", 8, 1, 1.0)];
    let plan = planned(&[WORLD], &calls, &[]);
    let patterns = plan.items[0].patterns(None);
    assert_eq!((patterns.len(), patterns[0].weight), (1, 0.5));
}

#[test]
fn what_the_most_operations_leave_out_is_named_and_summed() {
    let comms: Vec<String> =
        (0..2100).map(|at| format!("W_s{at}.0,W,MPI_Comm_split,2,1,0-1,,,,1,0,")).collect();
    let names: Vec<String> = (0..2100).map(|at| format!("W_s{at}.0")).collect();
    let comms: Vec<&str> = comms.iter().map(String::as_str).collect();
    // A hundred that take much, and two thousand that take less than a thousandth each.
    let time_s = |at: usize| if at < 100 { 1.0 } else { 0.05 };
    let calls: Vec<Call<'_>> = names
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), 0, "MPI_Bcast", 8, 1, time_s(at)))
        .collect();
    let plan = planned(&comms, &calls, &[]);
    assert_eq!((plan.items.len(), plan.left_out.len()), (64, 2100 - 64));
    assert!((plan.covered() - 0.32).abs() < 1e-9);
    let text = plan.left_out_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 36 + 1);
    assert!(lines[0].ends_with("0.5 % of the time: 64 operations are replayed at the most."), "{}", lines[0]);
    assert_eq!(lines[36], "Left out: 2000 other operations, 50.0 % of the time together.");
}

#[test]
fn calls_of_nccl_are_said_not_to_be_replayed() {
    const OF_NCCL: &str = "N1-5e1c09tz,,ncclCommInitRank,2,1,0-1,,,,1,0,";
    let of_nccl = [
        ("N1-5e1c09tz", 0, "ncclAllReduce", 8, 10, 5.0),
        ("N1-5e1c09tz", 1, "ncclSend", 8, 2, 5.0),
        ("N1-5e1c09tz", 1, "ncclCommSplit", 0, 1, 5.0),
    ];
    let alone = planned(&[WORLD, OF_NCCL], &of_nccl, &[]);
    assert!(alone.items.is_empty());
    assert_eq!(
        alone.nothing(Path::new("app.mpisee")),
        "'app.mpisee' has no messages and no collective operations of MPI to replay; it has 12 calls of NCCL, which are not replayed"
    );
    let beside =
        planned(&[WORLD, OF_NCCL], &[&of_nccl[..], &[("W", 0, "MPI_Bcast", 8, 1, 1.0)]].concat(), &[]);
    // The host's time in them counts for nothing.
    assert_eq!((beside.items.len(), beside.time_s), (1, 1.0));
    assert_eq!(
        beside.left_out_text(),
        "Left out: 12 calls of NCCL, which are not replayed; their time on the host is not that of communication.\n"
    );
    let without = planned(&[WORLD], &[("W", 0, "MPI_Bcast", 8, 1, 1.0)], &[]);
    assert_eq!(without.left_out_text(), "");
}

/// The mean of short and long messages would be of another kind than either.
#[test]
fn messages_have_the_sizes_of_the_calls_that_send_them() {
    let calls = [
        ("W", 0, "MPI_Sendrecv", 8, 1000, 0.5),
        ("W", 0, "MPI_Isend", 40_000, 500, 0.5),
        ("W", 0, "MPI_Irecv", 4, 1000, 0.5),
    ];
    let sent = |messages: &[(&str, u32, u32, u64, u64)]| -> Vec<(u64, u64)> {
        let plan = planned(&[WORLD], &calls, messages);
        plan.items[0].messages.iter().flatten().map(|it| (it.bytes, it.count)).collect()
    };
    let bytes = 1000 * 4 + 500 * 40_000;
    assert_eq!(sent(&[("W", 0, 1, 1500, bytes)]), [(4, 1000), (40_000, 500)]);
    // Where one peer gets other messages than another one, or the calls are not all, the mean is
    // all that is known.
    assert_eq!(sent(&[("W", 0, 1, 500, 500 * 40_000), ("W", 0, 0, 1000, 4000)]), [(40_000, 500), (4, 1000)]);
    assert_eq!(sent(&[("W", 0, 1, 3000, 2 * bytes)]), [(13_336, 3000)]);
}

/// Messages of W, from a rank to a peer: size and number.
fn sent(calls: &[String], messages: &[Messages<'_>]) -> Vec<(u64, u64)> {
    let plan = planned_of(&[WORLD], &calls.concat(), messages);
    plan.items[0].messages.iter().flatten().map(|it| (it.bytes, it.count)).collect()
}

/// A row of `MPI_Sendrecv` by rank 0 on W: the size class is that of the message that is sent.
fn exchanges(class: [u64; 2], calls: u64, bytes: u64) -> String {
    in_class("W", 0, "MPI_Sendrecv", class, [calls, bytes], 0.5)
}

#[test]
fn sendrecv_is_replayed_with_the_sizes_that_it_sends() {
    // 8000 bytes each way, and 100 each way.
    let calls = [exchanges([4096, 8191], 10, 10 * 16_000), exchanges([64, 127], 10, 10 * 200)];
    assert_eq!(sent(&calls, &[("W", 0, 1, 20, 81_000)]), [(100, 10), (8000, 10)]);
    // Alternately 1 MiB there and 200 KiB back, and the other way around: no message has the mean
    // of both.
    let (large, small) = (1 << 20, 200 << 10);
    let calls = [
        exchanges([1 << 20, (2 << 20) - 1], 10, 10 * (large + small)),
        exchanges([128 << 10, (256 << 10) - 1], 10, 10 * (large + small)),
    ];
    assert_eq!(sent(&calls, &[("W", 0, 1, 20, 10 * (large + small))]), [(small, 10), (large, 10)]);
    // Much is received and little sent.
    let calls = [exchanges([8, 15], 10, 10 * (8 + large)), exchanges([64, 127], 10, 10 * 200)];
    let [(least, 10), (most, 10)] = sent(&calls, &[("W", 0, 1, 20, 10 * 108)])[..] else { panic!() };
    assert!((8..16).contains(&least) && (64..128).contains(&most) && least + most == 108, "{least} {most}");
}

#[test]
fn exchanges_with_nobody_send_no_message() {
    // At the border of a grid a rank sends to MPI_PROC_NULL, and receives; of the messages of no
    // bytes one is true.
    let calls = [
        exchanges([0, 0], 11, 10 * 8000),
        exchanges([4096, 8191], 10, 10 * 16_000),
        exchanges([64, 127], 10, 10 * 200),
    ];
    let messages = [("W", 0, 1, 21, 10 * 8100)];
    assert_eq!(sent(&calls, &messages), [(0, 1), (100, 10), (8000, 10)]);
}

#[test]
fn profiles_with_classes_of_both_directions_together_are_halved() {
    let calls = [exchanges([8192, 16383], 10, 10 * 16_000), exchanges([128, 255], 10, 10 * 200)];
    assert_eq!(sent(&calls, &[("W", 0, 1, 20, 81_000)]), [(100, 10), (8000, 10)]);
}

/// Beside one communicator of 3 and two of 2 members, a call of the 3 stands for three sevenths of
/// all.
#[test]
fn each_kind_of_communicator_is_measured_alone() {
    let sent = |source, destination, count| Sent { source, destination, bytes: 8, count };
    let item = |comms: &[&[u32]], messages: Vec<Vec<Sent>>| Item {
        family: "W_s1.*".to_owned(),
        comms: comms.iter().map(|members| (String::new(), members.to_vec())).collect(),
        busiest: 1,
        call: "MPI_Bcast".to_owned(),
        size: [8, 15],
        bytes: 8,
        calls: 7,
        volume: 56,
        time_s: 1.0,
        messages,
    };
    let all = item(&[&[0, 1], &[2, 3], &[4, 5, 6]], Vec::new()).measured_alone();
    assert_eq!(all, [(1, 4.0 / 7.0), (2, 3.0 / 7.0)]);
    // Messages count by their number: 100 and 110 are alike, 1000 are not.
    let messages = vec![vec![sent(0, 1, 100)], vec![sent(2, 3, 110)], vec![sent(4, 5, 1000)]];
    let all = item(&[&[0, 1], &[2, 3], &[4, 5]], messages).measured_alone();
    assert_eq!(all, [(1, 210.0 / 1210.0), (2, 1000.0 / 1210.0)]);
}
