//! From a profile to what is replayed of it.

use mpisee_bench::collective::Collective;
use mpisee_bench::pattern::Pattern;
use mpisee_bench::replay::{Item, Sent, Weighted, plan};
use mpisee_profile::network::MESSAGES;
use mpisee_profile::rows::{CallRow, CommRow, Memory, PeerRow, RankRow, Row, Seconds};
use mpisee_profile::writer::{ProfileWriter, to_csv};
use mpisee_profile::{FORMAT_VERSION, Profile, RunInfo};
use tempfile::TempDir;

fn comm(name: &str, members: &str, size: u32) -> CommRow {
    let members = members.parse().unwrap();
    CommRow { comm: name.to_owned(), size, count: 1, members, nodes: 1, ..CommRow::default() }
}

fn call(comm: &str, rank: u32, call: &str, size: [u64; 2], calls: u64, bytes: u64, time_s: f64) -> CallRow {
    CallRow {
        comm: comm.to_owned(),
        rank,
        region: String::new(),
        call: call.to_owned(),
        size_min: size[0],
        size_max: size[1],
        memory: Memory::Host,
        site: None,
        calls,
        bytes,
        time_s: Seconds(time_s),
        min_s: Seconds(0.0),
        max_s: Seconds(time_s),
        time_error_s: None,
    }
}

fn write(comms: &[CommRow], calls: &[CallRow], peers: &[PeerRow]) -> (TempDir, Profile) {
    fn table<R: Row>(writer: &ProfileWriter, rows: &[R]) {
        let mut table = writer.table::<R>().unwrap();
        table.append(&to_csv(rows)).unwrap();
        table.close().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let writer = ProfileWriter::create(&folder.path().join("app.mpisee")).unwrap();
    table::<RankRow>(&writer, &[]);
    table(&writer, comms);
    table(&writer, calls);
    table(&writer, peers);
    let run = RunInfo {
        format_version: FORMAT_VERSION,
        ranks: 4,
        command: vec!["./app".to_owned()],
        ..RunInfo::default()
    };
    let directory = writer.finish(&run).unwrap();
    (folder, Profile::open(directory).unwrap())
}

const KIB: [u64; 2] = [1024, 2047];

fn items() -> Vec<Item> {
    let comms =
        [comm("W", "0-3", 4), comm("W_s1.0", "0,2", 2), comm("W_s1.1", "1,3", 2), comm("W_d2", "0-3", 4)];
    let mut calls = Vec::new();
    for rank in 0..4 {
        let half = format!("W_s1.{}", rank % 2);
        // A block of 600 bytes to each of two.
        calls.push(call(&half, rank, "MPI_Alltoall", KIB, 10, 10 * 1200, if rank == 3 { 4.0 } else { 2.0 }));
        // The root of a broadcast records nothing.
        calls.push(call("W", rank, "MPI_Bcast", KIB, 5, if rank == 2 { 0 } else { 5 * 1500 }, 1.0));
        calls.push(call("W", rank, "MPI_Isend", KIB, 6, 6 * 1100, 0.5));
        calls.push(call("W", rank, "MPI_Waitall", [0, 0], 3, 0, 0.5));
        calls.push(call("W_d2", rank, "MPI_Iallreduce", KIB, 1, 1024, 0.25));
        calls.push(call("W", rank, "MPI_Comm_dup", [0, 0], 1, 0, 9.0));
    }
    let peer = |rank, peer, messages, bytes| PeerRow {
        comm: "W".to_owned(),
        rank,
        peer,
        sent_messages: messages,
        sent_bytes: bytes,
        ..PeerRow::default()
    };
    let peers = [peer(0, 1, 6, 6600), peer(1, 0, 3, 3300), peer(2, 3, 12, 12_000)];
    let (_folder, profile) = write(&comms, &calls, &peers);
    let plan = plan(&profile).unwrap();
    assert_eq!((plan.ranks, plan.command.as_slice()), (4, &["./app".to_owned()][..]));
    assert_eq!(plan.time_s, 10.0 + 4.0 + 4.0 + 1.0);
    assert_eq!((plan.left_out.len(), plan.left_out[0].call.as_str()), (1, "MPI_Iallreduce"));
    plan.items
}

#[test]
fn blocks_follow_from_the_bytes_that_a_profile_has() {
    let items = items();
    let [alltoall, bcast, messages] = &items[..] else { panic!("{items:?}") };
    assert_eq!((alltoall.family.as_str(), alltoall.bytes, alltoall.calls), ("W_s1.*", 600, 40));
    assert_eq!(alltoall.comms, [("W_s1.0".to_owned(), vec![0, 2]), ("W_s1.1".to_owned(), vec![1, 3])]);
    assert_eq!((alltoall.busiest, alltoall.size), (1, KIB));
    assert_eq!((bcast.call.as_str(), bcast.bytes, bcast.calls), ("MPI_Bcast", 1500, 20));
    assert_eq!((messages.call.as_str(), messages.calls, messages.bytes), (MESSAGES, 21, 21_900 / 21));
    let sent = |source, destination, bytes, count| Sent { source, destination, bytes, count };
    assert_eq!(messages.messages, [[sent(0, 1, 1100, 6), sent(1, 0, 1100, 3), sent(2, 3, 1000, 12)]]);
}

/// The only pattern, and how many calls it has.
fn only(item: &Item, alone: Option<usize>) -> (Pattern, u64) {
    let [Weighted { pattern, weight }] = &item.patterns(alone)[..] else { panic!("{item:?}") };
    (pattern.clone(), (1.0 / weight).round() as u64)
}

#[test]
fn a_family_is_replayed_at_once_and_one_alone() {
    let items = items();
    let (together, calls) = only(&items[0], None);
    assert_eq!(together.check(4), Ok(()));
    assert_eq!(together.steps[0].collectives.len(), 2);
    assert_eq!((together.moved(), calls), (2 * 4 * 600, 4));
    let (alone, calls) = only(&items[0], Some(1));
    assert_eq!(alone.steps[0].collectives[0].members, [1, 3]);
    assert_eq!((alone.steps[0].collectives[0].collective, calls), (Collective::Alltoall, 2));
    let (messages, calls) = only(&items[2], None);
    assert_eq!(messages.check(4), Ok(()));
    // As many in a turn as the numbers in the profile have in common.
    assert_eq!((messages.moved(), calls), (2 * 1100 + 1100 + 4 * 1000, 7));
}
