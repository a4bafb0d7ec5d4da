use super::*;
use mpisee_collect::segments::CallLocation;
use mpisee_profile::{CommId, Ticks};

const W: &str = "W";

fn partner(rank: u32) -> Partner {
    Partner::Rank { rank, in_world: Some(rank) }
}

fn from(rank: u32) -> Option<With> {
    Some(With::From(partner(rank), Tag::Is(5)))
}

fn to(rank: u32) -> Option<With> {
    Some(With::To(partner(rank), Some(5)))
}

/// A rank in a call on the world for 2 s; of a collective it is the first one.
fn rank(operation: Operation, with: Option<With>) -> Rank {
    let number = with.is_none().then_some(1);
    let comm = Some((CommId::WORLD, W.to_owned()));
    let (call, since, place) = (CurrentFunction::Operation(operation), Ticks::ZERO, CallLocation::default());
    let call = CurrentCall { call, comm, number, with, since, for_s: 2.0, place };
    Rank { calls: vec![call], is_still: true, ..Rank::default() }
}

fn computing() -> Rank {
    Rank::default()
}

fn job(ranks: Vec<Rank>) -> Job {
    let size = ranks.len() as u32;
    let comm = Comm { members: RankSet::first(size), size: size.into(), ..Comm::default() };
    let ranks = (0..).map(WorldRank::new).zip(ranks).collect();
    Job { size, ranks, comms: [(W.to_owned(), comm)].into(), ..Job::default() }
}

/// Cycle, those behind, and whether it is certain.
fn found(job: &Job) -> Vec<(Vec<u32>, String, bool)> {
    let all = deadlocks(job, &job.still_since(job), 1.0).into_iter();
    let ranks = |one: &Deadlock| one.cycle.iter().map(|(rank, _)| rank.get()).collect();
    all.map(|one| (ranks(&one), one.behind.to_string(), one.is_certain)).collect()
}

fn certain(cycle: &[u32], behind: &str) -> Vec<(Vec<u32>, String, bool)> {
    vec![(cycle.to_vec(), behind.to_owned(), true)]
}

fn possible(cycle: &[u32], behind: &str) -> Vec<(Vec<u32>, String, bool)> {
    vec![(cycle.to_vec(), behind.to_owned(), false)]
}

/// Counts messages that `rank` sent to and received from `peer`.
fn count(job: &mut Job, rank: u32, peer: u32, messages: [u64; 2]) {
    let state = job.ranks.get_mut(&WorldRank::new(rank)).unwrap();
    state.traffic.peers.insert(key(W, WorldRank::new(peer)), messages);
    let received = state.traffic.peers.values().map(|[_, received]| received).sum();
    state.traffic.posted.insert(Arc::from(W), Some(received));
}

use Operation::{Allreduce, Barrier, Bcast, Recv, Send, Sendrecv, Waitall};

#[test]
fn receives_in_a_ring_are_one() {
    let ring = |size: u32| job((0..size).map(|one| rank(Recv, from((one + 1) % size))).collect());
    assert_eq!(found(&ring(2)), certain(&[0, 1], ""));
    assert_eq!(found(&ring(5)), certain(&[0, 1, 2, 3, 4], ""));
    assert_eq!(found(&ring(1)), certain(&[0], ""));
    let sentence = |job: &Job| deadlocks(job, &job.still_since(job), 1.0)[0].sentence();
    let expected = "ranks 0 -> 1 -> 0 wait for each other: rank 0 in MPI_Recv from 1 tag 5 on W; rank 1 in MPI_Recv \
                    from 0 tag 5 on W";
    assert_eq!(sentence(&ring(2)), expected);
    assert_eq!(sentence(&ring(1)), "rank 0 waits for itself: rank 0 in MPI_Recv from 0 tag 5 on W");
    let long = sentence(&ring(50));
    assert!(
        long.starts_with("ranks 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> (42 more) -> 0 wait for"),
        "{long}"
    );
    assert!(long.ends_with("; and 42 more"), "{long}");
}

#[test]
fn who_moved_since_or_computes_is_in_none() {
    let mut ring = job((0..3).map(|one| rank(Recv, from((one + 1) % 3))).collect());
    ring.ranks.get_mut(&WorldRank::new(1)).unwrap().is_still = false;
    assert_eq!(found(&ring), []);
    assert_eq!(found(&job(vec![rank(Recv, from(1)), rank(Recv, from(2)), computing()])), []);
    let mut dead = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
    dead.ranks.get_mut(&WorldRank::new(1)).unwrap().ended = true;
    assert_eq!(found(&dead), []);
}

#[test]
fn a_message_on_its_way_ends_the_wait() {
    let mut ring = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
    count(&mut ring, 0, 1, [7, 3]);
    count(&mut ring, 1, 0, [3, 7]);
    assert_eq!(found(&ring), certain(&[0, 1], ""), "all have arrived");
    count(&mut ring, 1, 0, [4, 7]);
    assert_eq!(found(&ring), possible(&[0, 1], ""), "its tag is not known");
    let mut tagged = |rank: u32, peer: u32, is_sent: bool, messages: u64| {
        let state = ring.ranks.get_mut(&WorldRank::new(rank)).unwrap();
        state.traffic.streams.insert((key(W, WorldRank::new(peer)), is_sent, 5), Some(messages));
    };
    tagged(1, 0, true, 3);
    tagged(0, 1, false, 3);
    assert_eq!(found(&ring), certain(&[0, 1], ""), "it has another tag");
    let state = ring.ranks.get_mut(&WorldRank::new(1)).unwrap();
    state.traffic.streams.insert((key(W, WorldRank::new(0)), true, 5), Some(4));
    assert_eq!(found(&ring), [], "it is the one");
}

#[test]
fn sends_wait_for_who_has_no_receive() {
    let sends = || job(vec![rank(Send, to(1)), rank(Send, to(0))]);
    assert_eq!(found(&sends()), certain(&[0, 1], ""));
    // Both have posted a receive, as for an exchange that takes long.
    let mut open = sends();
    for rank in [0, 1] {
        let state = open.ranks.get_mut(&WorldRank::new(rank)).unwrap();
        state.traffic.posted.insert(Arc::from(W), Some(1));
    }
    assert_eq!(found(&open), possible(&[0, 1], ""));
    assert_eq!(found(&job(vec![rank(Send, to(1)), rank(Recv, from(0))])), [], "they meet");
    let other_tag = Some(With::From(partner(0), Tag::Is(6)));
    assert_eq!(found(&job(vec![rank(Send, to(1)), rank(Recv, other_tag)])), certain(&[0, 1], ""));
    let both = |to, from| Some(With::Both { to: partner(to), from: partner(from) });
    let ring = (0..3).map(|one| rank(Sendrecv, both((one + 1) % 3, (one + 1) % 3))).collect();
    assert_eq!(found(&job(ring)), certain(&[0, 1, 2], ""));
}

#[test]
fn who_has_yet_to_come_back_from_a_send_whose_message_was_received_does_not_wait() {
    let mut job = job(vec![rank(Send, to(1)), rank(Barrier, None)]);
    count(&mut job, 0, 1, [7, 0]);
    count(&mut job, 1, 0, [0, 7]);
    assert_eq!(found(&job), certain(&[0, 1], ""));
    count(&mut job, 1, 0, [0, 8]);
    assert_eq!(found(&job), []);
    // A message with another tag is on its way.
    count(&mut job, 0, 1, [8, 0]);
    let mut tagged = |rank: u32, peer: u32, is_sent: bool, messages: u64| {
        let state = job.ranks.get_mut(&WorldRank::new(rank)).unwrap();
        state.traffic.streams.insert((key(W, WorldRank::new(peer)), is_sent, 5), Some(messages));
    };
    tagged(0, 1, true, 3);
    tagged(1, 0, false, 4);
    assert_eq!(found(&job), []);
}

#[test]
fn who_sends_and_receives_in_one_waits_for_what_he_receives() {
    let both = |to, from| rank(Sendrecv, Some(With::Both { to: partner(to), from: partner(from) }));
    // The message to 2 has left; rank 0 is late.
    let shift = job(vec![computing(), both(2, 0), rank(Barrier, None)]);
    assert_eq!(found(&shift), []);
    // The message from 0 is there, but for one of another tag: then it may be the message to 2.
    let sends = job(vec![rank(Send, to(1)), both(2, 0), rank(Send, to(1))]);
    assert_eq!(found(&sends), possible(&[1, 2], "0"));
    let nobody = With::Both { to: partner(1), from: Partner::Nobody };
    assert_eq!(found(&job(vec![rank(Sendrecv, Some(nobody)), rank(Send, to(0))])), certain(&[0, 1], ""));
    let anybody = With::Both { to: partner(1), from: Partner::Any };
    assert_eq!(found(&job(vec![rank(Sendrecv, Some(anybody)), rank(Send, to(0))])), []);
}

/// The cycles that are found before the ranks are in their calls for long.
fn found_early(mut job: Job) -> Vec<(Vec<u32>, String, bool)> {
    job.ranks.values_mut().flat_map(|rank| &mut rank.calls).for_each(|call| call.for_s = 0.5);
    found(&job)
}

#[test]
fn exchanges_whose_tags_may_differ_may_be_one() {
    let both = |to, from| rank(Sendrecv, Some(With::Both { to: partner(to), from: partner(from) }));
    let ring =
        |size: u32| job((0..size).map(|one| both((one + 1) % size, (one + size - 1) % size)).collect());
    for size in [2, 3, 5] {
        let [(cycle, behind, is_certain)] = found(&ring(size)).try_into().unwrap();
        assert_eq!((cycle.len() as u32, behind.as_str(), is_certain), (size, "", false));
        assert_eq!(found_early(ring(size)), []);
    }
    // Nobody waits for one that is yet to come.
    let mut late = ring(3);
    *late.ranks.get_mut(&WorldRank::new(1)).unwrap() = computing();
    assert_eq!(found(&late), []);
    let receives = || job(vec![rank(Recv, from(1)), both(0, 0)]);
    assert_eq!(found(&receives()), possible(&[0, 1], ""));
    assert_eq!(found_early(receives()), []);
    let sends = || job(vec![rank(Send, to(1)), both(2, 0), computing()]);
    assert_eq!(found(&sends()), []);
    let requests = With::Requests { count: 2, first: First::ReceiveFrom(partner(1)) };
    let waits = || job(vec![rank(Waitall, Some(requests)), both(0, 0)]);
    assert_eq!(found(&waits()), possible(&[0, 1], ""));
    assert_eq!(found_early(waits()), []);
}

#[test]
fn who_sends_to_himself_does_not_wait() {
    let to_oneself = || rank(Sendrecv, Some(With::Both { to: partner(0), from: partner(0) }));
    assert_eq!(found_early(job(vec![to_oneself()])), []);
    assert_eq!(found_early(job(vec![to_oneself(), rank(Recv, from(0))])), []);
    // But for one whose tags differ.
    assert_eq!(found(&job(vec![to_oneself()])), possible(&[0], ""));
    assert_eq!(found(&job(vec![to_oneself(), rank(Recv, from(0))])), possible(&[0], "1"));
}

#[test]
fn only_who_is_looked_at_in_the_same_time_waits_for_certain() {
    let mut apart = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
    apart.is_pieced_together = true;
    assert_eq!(found(&apart), possible(&[0, 1], ""));
}

/// The cycles that are certain of ranks in their last states, with those behind.
fn found_last(mut job: Job) -> Vec<(Vec<u32>, String)> {
    job.is_last = true;
    let ranks = |one: &EndedDeadlock| one.cycle.iter().map(|blocked| blocked.rank).collect();
    last_deadlocks(&job).iter().map(|one| (ranks(one), one.behind.clone())).collect()
}

#[test]
fn last_states_prove_what_does_not_depend_on_buffers() {
    let both = [(vec![0, 1], String::new())];
    assert_eq!(found_last(job(vec![rank(Recv, from(1)), rank(Recv, from(0))])), both);
    assert_eq!(found_last(job(vec![rank(Recv, from(1)), rank(Barrier, None)])), both);
    assert_eq!(found_last(job(vec![rank(Operation::Ssend, to(1)), rank(Operation::Ssend, to(0))])), both);
    // MPI may have buffered these.
    assert_eq!(found_last(job(vec![rank(Send, to(1)), rank(Send, to(0))])), []);
    assert_eq!(found_last(job(vec![rank(Send, to(1)), rank(Barrier, None)])), []);
    let sends = |to| With::Requests { count: 1, first: First::SendTo(partner(to)) };
    assert_eq!(found_last(job(vec![rank(Waitall, Some(sends(1))), rank(Waitall, Some(sends(0)))])), []);
    // MPI had returned to one of them.
    let mut returned = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
    returned.ranks.get_mut(&WorldRank::new(1)).unwrap().is_still = false;
    assert_eq!(found_last(returned), []);
    // A message is on its way.
    let mut sent = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
    count(&mut sent, 1, 0, [1, 0]);
    assert_eq!(found_last(sent), []);
}

#[test]
fn the_sentence_of_an_ended_deadlock_has_the_calls_and_places() {
    let mut ring = job(vec![rank(Recv, from(1)), rank(Recv, from(0)), rank(Recv, from(0))]);
    ring.is_last = true;
    let expected = "ranks 0 -> 1 -> 0 waited for each other: rank 0 in MPI_Recv from 1 tag 5 on W; rank 1 in MPI_Recv from 0 \
                    tag 5 on W; rank 2 waited for them";
    let [one] = last_deadlocks(&ring).try_into().unwrap();
    assert_eq!(one.sentence(|_| None), expected);
}

#[test]
fn functions_of_the_program_in_a_call_may_communicate() {
    use mpisee_profile::Operation::CommDup;
    assert_eq!(found(&job(vec![rank(CommDup, None), rank(Recv, from(0))])), possible(&[0, 1], ""));
}

#[test]
fn collectives_wait_for_who_is_yet_to_come() {
    let job_of = |operation| job(vec![rank(Recv, from(1)), rank(operation, None), rank(operation, None)]);
    assert_eq!(found(&job_of(Barrier)), certain(&[0, 1], "2"));
    assert_eq!(found(&job_of(Allreduce)), certain(&[0, 1], "2"));
    assert_eq!(found(&job_of(Bcast)), possible(&[0, 1], "2"), "it may not need rank 0");
    let mut between = job_of(Barrier);
    between.comms.get_mut(W).unwrap().is_inter = true;
    assert_eq!(found(&between), possible(&[0, 1], "2"), "the other group may be there");
    let mut left = job_of(Barrier);
    let completed = ((W.to_owned(), Barrier), 1);
    left.ranks.get_mut(&WorldRank::new(0)).unwrap().completed.extend([completed]);
    assert_eq!(found(&left), [], "nobody is yet to come");
    let mut two = job(vec![rank(Barrier, None), rank(Allreduce, None)]);
    assert_eq!(found(&two), certain(&[0, 1], ""));
    two.recording_was_off = true;
    assert_eq!(found(&two), possible(&[0, 1], ""));
}

#[test]
fn a_receive_from_anybody_waits_for_all() {
    let any = || rank(Recv, Some(With::From(Partner::Any, Tag::Any)));
    assert_eq!(found(&job(vec![any(), rank(Recv, from(0)), rank(Recv, from(0))])), certain(&[0, 1], "2"));
    assert_eq!(found(&job(vec![any(), any(), any()])), certain(&[0, 1], "2"));
    assert_eq!(found(&job(vec![any(), rank(Recv, from(0)), computing()])), []);
    let mut unseen = job(vec![any(), rank(Recv, from(0)), rank(Recv, from(0))]);
    unseen.ranks.remove(&WorldRank::new(2));
    assert_eq!(found(&unseen), [], "who is not seen may send");
}

#[test]
fn threads_and_requests_may_be_one() {
    let mut threads = job(vec![rank(Recv, from(1)), rank(Recv, from(0))]);
    threads.ranks.get_mut(&WorldRank::new(0)).unwrap().may_act_unseen = true;
    assert_eq!(found(&threads), possible(&[0, 1], ""));
    threads.ranks.get_mut(&WorldRank::new(0)).unwrap().calls[0].for_s = 0.5;
    assert_eq!(found(&threads), [], "not for long");
    let requests = |count, first| Some(With::Requests { count, first });
    let receives = |from| rank(Waitall, requests(4, First::ReceiveFrom(partner(from))));
    assert_eq!(found(&job(vec![receives(1), receives(0)])), certain(&[0, 1], ""));
    let sends = |count, to| rank(Waitall, requests(count, First::SendTo(partner(to))));
    // A send is counted when its request is started.
    let started = |count_of_requests, received| {
        let mut job = job(vec![sends(count_of_requests, 1), sends(count_of_requests, 0)]);
        for rank in [0, 1] {
            count(&mut job, rank, 1 - rank, [3, received]);
        }
        found(&job)
    };
    assert_eq!(started(4, 2), possible(&[0, 1], ""));
    assert_eq!(started(1, 2), certain(&[0, 1], ""));
    assert_eq!(started(1, 3), [], "all have arrived");
    // Messages of all tags for which 0 has posted a receive are sent, and one more.
    let mut halo = job(vec![receives(1), rank(Barrier, None)]);
    count(&mut halo, 0, 1, [0, 2]);
    count(&mut halo, 1, 0, [4, 0]);
    let tagged = |job: &mut Job, rank: u32, is_sent: bool, tag: i32, messages: u64| {
        let state = job.ranks.get_mut(&WorldRank::new(rank)).unwrap();
        state.traffic.streams.insert((key(W, WorldRank::new(1 - rank)), is_sent, tag), Some(messages));
    };
    tagged(&mut halo, 0, false, 5, 2);
    tagged(&mut halo, 0, false, 6, 1);
    tagged(&mut halo, 1, true, 5, 3);
    assert_eq!(found(&halo), possible(&[0, 1], ""), "that of tag 6 is not sent");
    tagged(&mut halo, 1, true, 6, 1);
    assert_eq!(found(&halo), []);
    let collective = || rank(Waitall, requests(1, First::Collective));
    assert_eq!(found(&job(vec![collective(), collective()])), []);
}
