//! `mpisee-through waits` on messages and nonblocking collectives.

use crate::support::{Builder, Written};
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, MessageEnd, MessageRow, Seconds, StreamRow};
use mpisee_profile::segment::instances::is_kept;
use std::collections::BTreeMap;

/// When an end of a message was started, and when its process entered and left the call that
/// completed it, with how many others.
#[derive(Clone, Copy)]
struct Side {
    started_s: f64,
    arrival_s: f64,
    departure_s: f64,
    completed: u32,
}

/// A blocking call.
fn blocking(arrival_s: f64, departure_s: f64) -> Side {
    Side { started_s: arrival_s, arrival_s, departure_s, completed: 1 }
}

/// A stream of messages on `W`.
struct Stream {
    from: u32,
    to: u32,
    tag: i32,
    messages: u64,
}

impl Stream {
    /// Adds a message with its two ends.
    fn add(&self, builder: &mut Builder, message: u64, sides: [Side; 2]) {
        for (end, side) in [MessageEnd::Sent, MessageEnd::Received].into_iter().zip(sides) {
            let (rank, peer) =
                if end == MessageEnd::Sent { (self.from, self.to) } else { (self.to, self.from) };
            builder.messages.push(MessageRow {
                comm: "W".to_owned(),
                rank,
                peer,
                end,
                tag: self.tag,
                message,
                bytes: 4096,
                started_s: Seconds(side.started_s),
                arrival_s: Some(Seconds(side.arrival_s)),
                departure_s: Some(Seconds(side.departure_s)),
                call: match (side.started_s < side.arrival_s, end) {
                    (true, _) => "MPI_Waitall",
                    (false, MessageEnd::Sent) => "MPI_Send",
                    (false, MessageEnd::Received) => "MPI_Recv",
                }
                .to_owned(),
                completed: side.completed,
            });
        }
    }

    /// Adds the rows of both ends.
    fn close(&self, builder: &mut Builder) {
        for (end, rank, peer) in
            [(MessageEnd::Sent, self.from, self.to), (MessageEnd::Received, self.to, self.from)]
        {
            let sampled = builder
                .messages
                .iter()
                .filter(|row| (row.rank, row.peer, row.end, row.tag) == (rank, peer, end, self.tag))
                .count() as u64;
            builder.streams.push(StreamRow {
                comm: "W".to_owned(),
                rank,
                peer,
                end,
                tag: self.tag,
                messages: self.messages,
                sampled,
                recorded: Some(self.messages),
                ordered: 1,
            });
        }
    }
}

/// The page as one line.
fn said(profile: &Written, arguments: &[&str]) -> String {
    let ran = profile.run(&[&["waits", "app.mpisee"], arguments].concat());
    ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The rows of `--format csv`.
fn rows(profile: &Written, arguments: &[&str]) -> Vec<BTreeMap<String, String>> {
    let ran = profile.run(&[&["waits", "app.mpisee", "--format", "csv"], arguments].concat());
    let text = ran.exits(0).stdout.clone();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

#[test]
fn where_all_messages_were_sampled_waits_are_exact() {
    let mut builder = Builder::new(3);
    let streams = [(0, 1, 7), (2, 1, 7), (0, 2, -3)].map(|(from, to, tag)| Stream {
        from,
        to,
        tag,
        messages: if tag == 7 { 1 } else { 2 },
    });
    // Rank 1 waits in one call for both: from 1 to 3 for rank 0, and to 6 for rank 2, which sends
    // last.
    let waitall = Side { started_s: 0.5, arrival_s: 1.0, departure_s: 7.0, completed: 2 };
    streams[0].add(&mut builder, 0, [blocking(3.0, 3.25), waitall]);
    streams[1].add(&mut builder, 0, [blocking(6.0, 6.25), waitall]);
    // Rank 0 waits 1.5 s for rank 2 to receive; the second message is sent eagerly.
    streams[2].add(&mut builder, 0, [blocking(4.0, 5.75), blocking(5.5, 5.75)]);
    streams[2].add(&mut builder, 1, [blocking(8.0, 8.5), blocking(9.0, 9.25)]);
    streams.iter().for_each(|stream| stream.close(&mut builder));
    let profile = builder
        .call("W", 0, "MPI_Send", 3, 12288, 2.5)
        .call("W", 1, "MPI_Irecv", 2, 8192, 0.125)
        .call("W", 1, "MPI_Waitall", 1, 0, 6.0)
        .call("W", 2, "MPI_Send", 1, 4096, 0.25)
        .call("W", 2, "MPI_Recv", 2, 8192, 0.5)
        .write();
    profile.run(&["waits", "app.mpisee", "--format", "csv"]).prints(
        "\
comm,call,rank,node,caused_s,caused_low_s,caused_high_s,suffered_s,suffered_low_s,suffered_high_s,transfer_s,instances,sampled,\
suffered_for_senders_s,suffered_for_receivers_s,caused_as_sender_s,caused_as_receiver_s
W,messages,0,node0,0.000000000,0.000000000,0.000000000,1.500000000,1.500000000,1.500000000,1.000000000,4,4,\
0.000000000,1.500000000,0.000000000,0.000000000
W,messages,1,node0,0.000000000,0.000000000,0.000000000,5.000000000,5.000000000,5.000000000,1.125000000,4,4,\
5.000000000,0.000000000,0.000000000,0.000000000
W,messages,2,node0,6.500000000,6.500000000,6.500000000,0.000000000,0.000000000,0.000000000,0.750000000,4,4,\
0.000000000,0.000000000,5.000000000,1.500000000
",
    );
}

#[test]
fn a_picture_shows_who_waits_for_whom() {
    let mut builder = ring(|_, rank| if rank == 3 { 5e-4 } else { 0.0 });
    // In a barrier ranks 0 to 6 wait 1 s for rank 7.
    for rank in 0..RANKS {
        let arrival_s = if rank == 7 { 2.0 } else { 1.0 };
        builder.arrivals.push(arrival("MPI_Barrier", 0, rank, None, arrival_s, 2.5));
        builder.collectives.push(counted("MPI_Barrier", rank, 1));
        builder = builder.call("W", rank, "MPI_Barrier", 1, 0, 2.5 - arrival_s);
    }
    let profile = builder.write();
    profile.run(&["waits", "app.mpisee", "--image", "waits.svg"]).prints("");
    let svg = std::fs::read_to_string(profile.beside().join("waits.svg")).unwrap();
    assert!(svg.contains("splatt: who waits for whom, between ranks"), "{svg}");
    for shown in ["0 waited for 7: 1.0", "6 waited for 7: 1.0", "2 waited for 3: 1.0", "4 waited for 3: 1.0"]
    {
        assert!(svg.contains(shown), "{shown}: {svg}");
    }
    assert!(!svg.contains("3 waited for 2: 1") && !svg.contains("7 waited for 0: 1"), "{svg}");
    profile.run(&["waits", "app.mpisee", "--call", "barrier", "--image", "some.svg"]).prints("");
    let svg = std::fs::read_to_string(profile.beside().join("some.svg")).unwrap();
    assert!(svg.contains("7.00 s of waiting") && !svg.contains("waited for 3"), "{svg}");
    let nothing = ["waits", "app.mpisee", "--call", "barrier", "--ranks", "0-3", "--image", "none.svg"];
    profile.run(&nothing).fails_with(&["there is nothing to draw"]);
}

/// Reproducible uniform numbers from 0 to 1.
fn random(number: u64, salt: u64) -> f64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for shift in [31, 27, 33] {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

const RANKS: u32 = 8;
const ROUNDS: u64 = 2048;

/// The neighbours on a ring exchange messages each 2 ms, in one call each; ranks are late by a time
/// in seconds beside noise of 20 µs.
fn ring(late_s: impl Fn(u64, u32) -> f64) -> Builder {
    let mut builder = Builder::new(RANKS);
    let mut times = vec![0.0; RANKS as usize];
    let started = |round: u64, rank: u32| {
        1000.0 + 0.002 * round as f64 + 2e-5 * random(round, rank.into()) + late_s(round, rank)
    };
    let (left, right) = (|rank: u32| (rank + RANKS - 1) % RANKS, |rank: u32| (rank + 1) % RANKS);
    let side = |round: u64, rank: u32| {
        let last_s = [rank, left(rank), right(rank)].map(|rank| started(round, rank)).into_iter();
        let last_s = last_s.fold(0.0, f64::max);
        let departure_s = last_s + 1e-5 + 5e-6 * random(round, 100 + u64::from(rank));
        let started_s = started(round, rank);
        Side { started_s, arrival_s: started_s + 1e-6, departure_s: departure_s + 1e-6, completed: 4 }
    };
    for from in 0..RANKS {
        times[from as usize] =
            (0..ROUNDS).map(|round| side(round, from)).map(|side| side.departure_s - side.arrival_s).sum();
        for to in [left(from), right(from)] {
            let stream = Stream { from, to, tag: 1, messages: ROUNDS };
            for round in (0..ROUNDS).filter(|&round| is_kept(round, 15)) {
                stream.add(&mut builder, round, [side(round, from), side(round, to)]);
            }
            stream.close(&mut builder);
        }
    }
    for (rank, time_s) in (0..).zip(times) {
        builder = builder
            .call("W", rank, "MPI_Isend", 2 * ROUNDS, 2 * ROUNDS * 4096, 0.001)
            .call("W", rank, "MPI_Irecv", 2 * ROUNDS, 2 * ROUNDS * 4096, 0.001)
            .call("W", rank, "MPI_Waitall", ROUNDS, 0, time_s);
    }
    builder
}

#[test]
fn a_late_sender_is_named_with_what_it_caused() {
    let late_s = |_, rank| if rank == 3 { 5e-4 } else { 0.0 };
    let profile = ring(late_s).write();
    for width in [60, 100] {
        profile.golden_at(width, "waits-late_sender", &["waits", "app.mpisee"]);
    }
    profile
        .run(&["waits", "app.mpisee", "--format", "json", "--ranks", "2-3"])
        .golden("waits-late_sender.json");
    // Ranks 2 and 4 wait half a millisecond and up to 20 µs each round for rank 3, the others for
    // noise.
    for row in rows(&profile, &[]) {
        let (rank, suffered_s) = (number(&row, "rank") as u32, number(&row, "suffered_s"));
        let truth = if [2, 4].contains(&rank) { 0.5e-3 * ROUNDS as f64 } else { 0.0 };
        assert!((suffered_s - truth).abs() < 0.02 * truth + 2e-5 * ROUNDS as f64, "{truth} {row:?}");
        let (low, high) = (number(&row, "caused_low_s"), number(&row, "caused_high_s"));
        let truth = if rank == 3 { 1e-3 * ROUNDS as f64 } else { 0.0 };
        assert!(low <= 1.01 * truth + 0.05 && high >= 0.99 * truth, "{truth} {row:?}");
    }
}

#[test]
fn even_waits_along_a_ring_are_nobodys_fault() {
    let noisy = |round, rank: u32| 1e-3 * random(round, 50 + u64::from(rank));
    let said = said(&ring(noisy).write(), &[]);
    assert!(said.starts_with("No rank stands out"), "{said}");
}

/// In each round all others send to rank 0, which receives from one after the other and then works;
/// senders wait for it.
fn gather() -> Builder {
    let mut builder = Builder::new(RANKS);
    let mut times = vec![0.0; RANKS as usize];
    let streams = (1..RANKS).map(|from| Stream { from, to: 0, tag: 0, messages: ROUNDS });
    let streams: Vec<Stream> = streams.collect();
    for round in 0..ROUNDS {
        let mut now_s = 1000.0 + 0.002 * round as f64 + 1e-4;
        for stream in &streams {
            let sent_s = 1000.0 + 0.002 * round as f64 + 2e-5 * random(round, stream.from.into());
            let received_s = now_s + 5e-5 + 1e-5 * random(round, 200 + u64::from(stream.from));
            if is_kept(round, 15) {
                stream.add(&mut builder, round, [blocking(sent_s, received_s), blocking(now_s, received_s)]);
            }
            times[stream.from as usize] += received_s - sent_s;
            times[0] += received_s - now_s;
            now_s = received_s + 1e-6;
        }
    }
    streams.iter().for_each(|stream| stream.close(&mut builder));
    for (rank, time_s) in (0..).zip(times) {
        let call = if rank == 0 { "MPI_Recv" } else { "MPI_Send" };
        builder = builder.call("W", rank, call, ROUNDS, ROUNDS * 4096, time_s);
    }
    builder
}

#[test]
fn a_hot_receiver_is_named() {
    let profile = gather().write();
    let said = said(&profile, &[]);
    let expected = "Most of 8 ranks wait for rank 0 to receive: it caused 100.0 %";
    assert!(said.starts_with(expected), "{said}");
    for row in rows(&profile, &["--ranks", "0,7"]) {
        let rank = number(&row, "rank") as u32;
        let [for_receivers, as_receiver] =
            ["suffered_for_receivers_s", "caused_as_receiver_s"].map(|column| number(&row, column));
        // The last one waits for six others to be received, some 55 µs each, and 0.1 ms.
        let truth = ROUNDS as f64 * (6.0 * 56e-6 + 1e-4 - 1e-5);
        match rank {
            0 => assert!(for_receivers < 1e-9 && as_receiver > 3.0 * truth, "{row:?}"),
            _ => {
                assert!((for_receivers - truth).abs() < 0.02 * truth && as_receiver < 0.01, "{truth} {row:?}")
            }
        }
    }
}

#[test]
fn streams_without_order_are_left_out_and_counted() {
    let profile = ring(|_, rank| if rank == 3 { 5e-4 } else { 0.0 });
    let profile = profile.with(|profile| {
        for row in profile.streams.iter_mut().filter(|row| row.rank == 6 && row.end == MessageEnd::Received) {
            (row.ordered, row.sampled) = (0, 0);
        }
        profile.messages.retain(|row| row.rank != 6 || row.end != MessageEnd::Received);
    });
    let profile = profile.write();
    let said = said(&profile, &[]);
    assert!(
        said.contains("4096 of 32768 messages are left out, because their order at rank 6 is unknown"),
        "{said}"
    );
    assert!(said.contains("Rank 3 sends late"), "{said}");
    // Of the four messages in each call of rank 6 two are known: the time is known of these.
    let time_s = |profile: &Written| {
        let of_rank_6 = &rows(profile, &["--ranks", "6"])[0];
        number(of_rank_6, "suffered_s") + number(of_rank_6, "transfer_s") - 0.002
    };
    let whole = ring(|_, rank| if rank == 3 { 5e-4 } else { 0.0 }).write();
    let part = time_s(&profile) / time_s(&whole);
    assert!((0.45..0.55).contains(&part), "{part}");
}

#[test]
fn messages_are_chosen_by_name_and_say_nothing_without_samples() {
    let profile = ring(|_, rank| if rank == 3 { 5e-4 } else { 0.0 });
    assert_eq!(rows(&profile.write(), &["--call", "messages"]).len(), 8);
    let other = profile.with(|profile| {
        profile.arrivals = (0..8).map(|rank| arrival("MPI_Barrier", 0, rank, None, 1.0, 2.0)).collect();
        for rank in 0..8 {
            profile.collectives.push(counted("MPI_Barrier", rank, 1));
        }
    });
    let mut both = other;
    for rank in 0..8 {
        both = both.call("W", rank, "MPI_Barrier", 1, 0, 1.0);
    }
    let profile = both.write();
    assert_eq!(rows(&profile, &["--call", "messages"]).len(), 8);
    assert_eq!(rows(&profile, &["--call", "barrier"]).len(), 8);
    assert_eq!(rows(&profile, &[]).len(), 16);
    std::fs::remove_file(profile.directory.join("messages.csv")).unwrap();
    std::fs::remove_file(profile.directory.join("streams.csv")).unwrap();
    let without = rows(&profile, &[]);
    assert_eq!(without.len(), 8);
    assert!(!without[0].contains_key("caused_as_sender_s"), "{without:?}");
}

fn arrival(
    call: &str,
    instance: u64,
    rank: u32,
    started_s: Option<f64>,
    arrival_s: f64,
    departure_s: f64,
) -> ArrivalRow {
    ArrivalRow {
        comm: "W".to_owned(),
        call: call.to_owned(),
        instance,
        rank,
        root: None,
        arrival_s: Seconds(arrival_s),
        departure_s: Seconds(departure_s),
        started_s: started_s.map(Seconds),
        completed: started_s.map(|_| 1),
    }
}

fn counted(call: &str, rank: u32, instances: u64) -> CollectiveRow {
    CollectiveRow {
        comm: "W".to_owned(),
        call: call.to_owned(),
        rank,
        instances,
        sampled: 0,
        mean_arrival_s: Seconds(1.0),
        mean_departure_s: Seconds(1.0),
    }
}

#[test]
fn in_nonblocking_collectives_ranks_wait_in_the_completing_call() {
    for call in ["MPI_Iallreduce", "MPI_Allreduce_init"] {
        let mut builder = Builder::new(3);
        let times = [
            (1.0, 2.0, 6.5),
            (3.0, 5.0, 6.5),
            (6.0, 6.0, 6.5),
            (7.0, 9.0, 9.5),
            (8.0, 9.0, 9.5),
            (8.5, 9.0, 9.5),
        ];
        for (at, (started_s, arrival_s, departure_s)) in (0u64..).zip(times) {
            let row = arrival(call, at / 3, (at % 3) as u32, Some(started_s), arrival_s, departure_s);
            builder.arrivals.push(row);
        }
        for rank in 0..3 {
            builder.collectives.push(counted(call, rank, 2));
            let waited_s = [5.0, 2.0, 1.0][rank as usize];
            builder = builder.call("W", rank, call, 2, 16, 0.25).call("W", rank, "MPI_Wait", 2, 0, waited_s);
        }
        // Rank 0 waits from 2 to 3 for two, and to 6 for rank 2; rank 1 from 5 to 6. In the second
        // nobody waits.
        let found = rows(&builder.write(), &[]);
        let of = |column: &str| -> Vec<f64> { found.iter().map(|row| number(row, column)).collect() };
        assert_eq!(of("suffered_s"), [4.0, 1.0, 0.0], "{call}");
        assert_eq!(of("caused_s"), [0.0, 0.5, 4.5], "{call}");
        assert_eq!(of("transfer_s"), [1.0, 1.0, 1.0], "{call}");
        assert_eq!(of("instances"), [2.0; 3], "{call}");
    }
}

#[test]
fn a_call_that_completes_several_collectives_counts_once() {
    // Rank 1 starts four operations at 3, for which rank 0 waits from 1 on in one call.
    let mut builder = Builder::new(2);
    for instance in 0..4 {
        for (rank, started_s, arrival_s) in [(0, 0.5, 1.0), (1, 3.0, 3.5)] {
            let row = arrival("MPI_Iallreduce", instance, rank, Some(started_s), arrival_s, 4.0);
            builder.arrivals.push(ArrivalRow { completed: Some(4), ..row });
        }
    }
    for rank in 0..2 {
        builder.collectives.push(counted("MPI_Iallreduce", rank, 4));
        builder = builder.call("W", rank, "MPI_Iallreduce", 4, 32, 0.25).call(
            "W",
            rank,
            "MPI_Waitall",
            1,
            0,
            if rank == 0 { 3.0 } else { 0.5 },
        );
    }
    let found = rows(&builder.write(), &[]);
    let of = |column: &str| -> Vec<f64> { found.iter().map(|row| number(row, column)).collect() };
    assert_eq!((of("suffered_s"), of("caused_s")), (vec![2.0, 0.0], vec![0.0, 2.0]));
    assert_eq!(of("transfer_s"), [1.0, 0.5]);
}

#[test]
fn clocks_of_nodes_are_compared_by_messages() {
    // Ranks 4 to 7 are on another node, whose clock shows 5 s more.
    let late_s = |_, rank| if rank == 3 { 5e-4 } else { 0.0 };
    let truth = rows(&ring(late_s).write(), &[]);
    let two = ring(late_s).with(|profile| {
        profile.run.nodes = 2;
        for row in profile.ranks.iter_mut().filter(|row| row.rank >= 4) {
            row.host = "node1".to_owned();
        }
        for row in profile.messages.iter_mut().filter(|row| row.rank >= 4) {
            row.started_s.0 += 5.0;
            row.arrival_s.as_mut().unwrap().0 += 5.0;
            row.departure_s.as_mut().unwrap().0 += 5.0;
        }
    });
    let profile = two.write();
    let said = said(&profile, &[]);
    assert!(said.contains("Clocks of nodes are certain within"), "{said}");
    for (one, other) in truth.iter().zip(rows(&profile, &[])) {
        let difference_s = number(one, "suffered_s") - number(&other, "suffered_s");
        assert!(difference_s.abs() < 0.02 + 0.02 * number(one, "suffered_s"), "{one:?} {other:?}");
    }
}

#[test]
fn messages_without_a_place_in_the_table_of_streams_are_counted() {
    const STREAMS: u64 = 1024;
    const ALL: u64 = 24_000;
    let mut builder = Builder::new(2).messages("W", 0, 1, ALL, 4096 * ALL);
    for tag in 0..STREAMS {
        let stream = Stream { from: 0, to: 1, tag: tag as i32, messages: 1 };
        let at = 1e-3 * tag as f64;
        stream.add(&mut builder, 0, [blocking(at + 4e-4, at + 5e-4), blocking(at, at + 5e-4)]);
        stream.close(&mut builder);
    }
    builder =
        builder.call("W", 0, "MPI_Send", ALL, 4096 * ALL, 2.4).call("W", 1, "MPI_Recv", ALL, 4096 * ALL, 5.0);
    let profile = builder.write();
    let said = said(&profile, &[]);
    let note = "22976 of 24000 messages were not sampled, because rank 0 already had 1024 streams, the most \
                that are kept";
    assert!(said.contains(note) && !said.contains("because their order"), "{said}");
    assert!(said.contains("1024 of 24000 messages sampled"), "{said}");
    let ran = profile.run(&["waits", "app.mpisee", "--format", "json"]);
    assert!(ran.exits(0).stdout.contains(note), "{}", ran.stdout);
}
