//! When both ends of a message began and ended their parts.

use mpisee_profile::rows::{MessageEnd, MessageRow, StreamRow};
use mpisee_tests::{Finished, Mpi, Run, Tables, case};
use std::collections::BTreeMap;

const RANKS: u32 = 3;
/// Messages of each stream.
const MESSAGES: u64 = 40;
const PERSISTENT: i32 = 4;
const RING: i32 = 6;
const PROBED: i32 = 7;
const FREED: i32 = 8;
/// As the ring, without the message from the last rank to the first.
const CHAIN: i32 = 10;
/// On a communicator of its own, received in an order that is not known.
const UNORDERED: i32 = 9;

fn run(mpi: &Mpi, settings: &[(&str, &str)]) -> Finished {
    let run = Run::new(mpi, "waits/messages").ranks(RANKS);
    settings.iter().fold(run, |run, (name, value)| run.variable(name, value)).profiled()
}

/// Sender, receiver and tag of all streams: with tags up to 9 ranks 0 and 2 send to rank 1, and all
/// in a ring and a chain.
fn streams() -> Vec<(u32, u32, i32)> {
    let to_one = (1..=UNORDERED).filter(|&tag| tag != RING).flat_map(|tag| [(0, 1, tag), (2, 1, tag)]);
    let ring = (0..RANKS).map(|rank| (rank, (rank + 1) % RANKS, RING));
    let chain = (1..RANKS).map(|rank| (rank - 1, rank, CHAIN));
    to_one.chain(ring).chain(chain).collect()
}

fn stream(tables: &Tables, end: MessageEnd, (from, to, tag): (u32, u32, i32)) -> &StreamRow {
    let (rank, peer) = if end == MessageEnd::Sent { (from, to) } else { (to, from) };
    let is_it = |row: &&StreamRow| (row.rank, row.peer, row.end, row.tag) == (rank, peer, end, tag);
    tables.streams.iter().find(is_it).unwrap_or_else(|| panic!("{end:?} {from} to {to}, tag {tag}"))
}

/// The messages of one end of a stream, by their numbers.
fn messages<'t>(tables: &'t Tables, stream: &StreamRow) -> BTreeMap<u64, &'t MessageRow> {
    let is_its = |row: &&MessageRow| {
        (row.rank, row.peer, row.end, row.tag) == (stream.rank, stream.peer, stream.end, stream.tag)
    };
    tables.messages.iter().filter(is_its).map(|row| (row.message, row)).collect()
}

/// The bytes of message `number`, which the program makes so.
fn length(tag: i32, number: u64) -> u64 {
    8 * (if tag == PERSISTENT { 1 } else { number + 1 }) + u64::from(tag.unsigned_abs())
}

/// Messages whose end at this rank was recorded: recording is off on two ranks for five messages of
/// the first tags.
fn is_recorded(rank: u32, tag: i32, number: u64) -> bool {
    let first = 10 * (u64::from(rank) + 1);
    tag > PERSISTENT || rank == 2 || !(first..first + 5).contains(&number)
}

#[case]
fn both_ends_number_the_messages_of_a_stream_alike(mpi: &Mpi) {
    for collect in ["auto", "tree"] {
        let finished = run(mpi, &[("MPISEE_MESSAGES", "all"), ("MPISEE_COLLECT", collect)]);
        let tables = finished.tables();
        // Where no receive names its source there is no stream to receive.
        assert_eq!(tables.streams.len(), 2 * streams().len() - 2);
        for known in streams().into_iter().filter(|&(.., tag)| tag != UNORDERED) {
            check_stream(tables, known);
        }
    }
}

/// The call that completed an end, and how many operations it completed. A short message may have
/// been sent when the call returns that starts it.
fn completion(row: &MessageRow) -> (&'static str, u32) {
    match (row.tag, row.end) {
        (1, MessageEnd::Sent) | (PROBED, MessageEnd::Sent) => ("MPI_Send", 1),
        (2 | FREED, MessageEnd::Sent) if row.call == "MPI_Isend" => ("MPI_Isend", 1),
        (3, MessageEnd::Sent) if row.completed == 1 => ("MPI_Waitall", 1),
        (2 | 3, MessageEnd::Sent) => ("MPI_Waitall", 2),
        (2 | 3, MessageEnd::Received) => ("MPI_Waitany", 1),
        (PERSISTENT, MessageEnd::Sent) => ("MPI_Waitall", 1),
        (PERSISTENT, MessageEnd::Received) => ("MPI_Waitall", 2),
        (5, MessageEnd::Sent) => ("MPI_Ssend", 1),
        (RING, _) => ("MPI_Sendrecv", 2),
        (PROBED, MessageEnd::Received) => ("MPI_Mprobe", 1),
        (FREED, MessageEnd::Sent) => ("", 0),
        (CHAIN, _) => ("MPI_Sendrecv", if row.rank == 1 { 2 } else { 1 }),
        _ => ("MPI_Recv", 1),
    }
}

fn check_stream(tables: &Tables, known: (u32, u32, i32)) {
    let tag = known.2;
    let [sent, received] = [MessageEnd::Sent, MessageEnd::Received].map(|end| {
        let stream = stream(tables, end, known);
        assert_eq!((stream.messages, stream.ordered), (MESSAGES, 1), "{stream:?}");
        let messages = messages(tables, stream);
        assert_eq!(stream.sampled, messages.len() as u64, "{stream:?}");
        let recorded = (0..MESSAGES).filter(|&number| is_recorded(stream.rank, tag, number));
        assert_eq!(stream.recorded, Some(recorded.clone().count() as u64), "{stream:?}");
        assert!(messages.keys().copied().eq(recorded), "{stream:?}: {:?}", messages.keys());
        messages
    });
    for (number, sent) in &sent {
        assert_eq!(sent.bytes, length(tag, *number), "{sent:?}");
        assert_eq!(sent.arrival_s.is_none(), sent.call.is_empty(), "{sent:?}");
        assert_eq!((sent.call.as_str(), sent.completed), completion(sent), "{sent:?}");
    }
    for (number, received) in received {
        assert_eq!(received.bytes, length(tag, number), "{received:?}");
        let (arrival_s, departure_s) = (received.arrival_s.unwrap(), received.departure_s.unwrap());
        assert!(received.started_s <= arrival_s && arrival_s < departure_s, "{received:?}");
        assert_eq!((received.call.as_str(), received.completed), completion(received), "{received:?}");
        if let Some(sent) = sent.get(&number) {
            assert!(sent.started_s.0 < departure_s.0 + 1e-6, "{received:?} before {sent:?}");
        }
    }
}

#[case]
fn receives_in_an_unknown_order_have_no_samples(mpi: &Mpi) {
    let finished = run(mpi, &[]);
    for (from, to) in [(0, 1), (2, 1)] {
        let tables = finished.tables();
        let sent = stream(tables, MessageEnd::Sent, (from, to, UNORDERED));
        assert_eq!((sent.messages, sent.ordered, sent.comm.as_str()), (MESSAGES, 1, "W_d1"));
        assert!(
            !tables
                .streams
                .iter()
                .any(|row| row.end == MessageEnd::Received && row.tag == UNORDERED && row.sampled > 0)
        );
    }
}

#[case]
fn both_ends_keep_the_same_messages_in_a_limited_room(mpi: &Mpi) {
    let finished = run(mpi, &[("MPISEE_MESSAGES", "16")]);
    let tables = finished.tables();
    for known in streams().into_iter().filter(|&(.., tag)| tag > PERSISTENT && tag != UNORDERED) {
        let [sent, received] = [MessageEnd::Sent, MessageEnd::Received]
            .map(|end| messages(tables, stream(tables, end, known)).into_keys().collect::<Vec<u64>>());
        assert!(sent == received && (4..=16).contains(&sent.len()), "{known:?}: {sent:?} {received:?}");
    }
    let none = run(mpi, &[("MPISEE_MESSAGES", "0")]);
    assert!(none.tables().streams.is_empty() && none.tables().messages.is_empty());
}

/// Streams and messages of the program whose counts go wrong where one is careless.
fn unusual(mpi: &Mpi, what: &str) -> Finished {
    Run::new(mpi, "waits/unusual").ranks(RANKS).argument(what).variable("MPISEE_MESSAGES", "all").profiled()
}

#[case]
fn unusual_messages_have_their_numbers(mpi: &Mpi) {
    for (what, streams, messages) in [("startall", 4, 48), ("edges", 8, 160)] {
        let finished = unusual(mpi, what);
        let tables = finished.tables();
        assert_eq!((tables.streams.len(), tables.messages.len()), (streams, messages), "{what}");
        assert!(tables.streams.iter().all(|row| row.ordered == 1), "{what}: {:?}", tables.streams);
        for row in &tables.messages {
            assert_eq!(row.bytes, 8 * (row.message + 1), "{what}: {row:?}");
        }
    }
}

#[case]
fn messages_whose_numbers_are_lost_are_left_out(mpi: &Mpi) {
    for (what, rank) in [("cancel", 1), ("cut", 1), ("handler", 0)] {
        let finished = unusual(mpi, what);
        let ordered = |row: &StreamRow| (row.rank, row.ordered);
        let found: BTreeMap<u32, u8> = finished.tables().streams.iter().map(ordered).collect();
        assert_eq!(found, BTreeMap::from([(rank, 0), (1 - rank, 1)]), "{what}");
    }
}

#[case]
fn wildcards_leave_out_what_they_may_take_alone(mpi: &Mpi) {
    let finished = unusual(mpi, "wildcards");
    let tables = finished.tables();
    let received = tables.streams.iter().filter(|row| row.end == MessageEnd::Received && row.ordered == 1);
    let mut found: Vec<(&str, u32, u32, i32)> =
        received.map(|row| (row.comm.as_str(), row.rank, row.peer, row.tag)).collect();
    found.sort_unstable();
    let on_world = [(0, 4), (0, 6), (0, 7), (2, 4), (2, 6), (2, 7)].map(|(peer, tag)| ("W", 1, peer, tag));
    assert_eq!(found, [&on_world[..], &[("W_d1", 1, 0, 8)]].concat());
    let of = |end: MessageEnd| tables.messages.iter().filter(|row| row.end == end).count() as u64;
    assert_eq!([of(MessageEnd::Sent), of(MessageEnd::Received)], [10 * 20, 7 * 20]);
}
