//! The waits in the calls that completed messages.
//!
//! A call may complete many messages, and waits for the last of these alone. Rows of one rank with
//! the same arrival and departure are of one call; where it completed more messages than have rows,
//! the wait is known from below.

use super::class::Class;
use super::join::{MessagePart, Stream};
use crate::waits::hosts::Clocks;

/// A message at one end, with the wait in the call that completed it there; seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompletedMessage {
    pub comm: u32,
    /// The index of its stream.
    pub stream: u32,
    pub number: u64,
    pub rank: u32,
    /// The other end.
    pub peer: u32,
    pub class: Class,
    /// The part of the call that this message stands for on its communicator.
    pub share: f64,
    /// The time in the call.
    pub time_s: f64,
    /// How long the call lasted until the other end of this message was there.
    pub own_s: f64,
    /// The same of the last one among those that are known of the call.
    pub wait_s: f64,
    /// Of the rest of the call, how long another end that had started was not in the call that
    /// completed its part: it may have computed, so that its MPI did nothing for the message, or
    /// the message was on its way.
    pub away_s: f64,
    /// The other end of that one, and whether it is the receiver.
    pub cause: u32,
    pub is_for_receiver: bool,
    /// True if this message is the last one.
    pub is_last: bool,
    /// True if all messages of the call are known.
    pub is_complete: bool,
}

/// Computes the waits. Parts whose ends have clocks that cannot be compared are taken out of
/// `parts` before.
pub fn completions(parts: &mut [MessagePart], streams: &[Stream], clocks: &Clocks) -> Vec<CompletedMessage> {
    parts.sort_unstable_by_key(|part| {
        (part.rank, part.arrival_ns, part.departure_ns, part.stream, part.number, part.is_received)
    });
    let is_same_call = |one: &MessagePart, other: &MessagePart| {
        let of = |part: &MessagePart| (part.rank, part.arrival_ns, part.departure_ns);
        of(one) == of(other)
    };
    let mut all = Vec::with_capacity(parts.len());
    for call in parts.chunk_by(is_same_call) {
        if let Some(class) = call[0].class {
            add_call(class, call, streams, clocks, &mut all);
        }
    }
    all
}

/// The part of a wait for a rank to receive from which on a wait for the same rank to send counts
/// instead.
const ALIKE: f64 = 0.9;

fn add_call(
    class: Class,
    call: &[MessagePart],
    streams: &[Stream],
    clocks: &Clocks,
    all: &mut Vec<CompletedMessage>,
) {
    let waits = || call.iter().map(|part| wait_s(part, clocks));
    let last = waits().enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other));
    let Some((last, wait_s)) = last else { return };
    let cause = call[last].peer;
    let away_s = call.iter().map(|part| away_s(part, wait_s, clocks)).fold(0.0, f64::max);
    // Who comes late to both starts its send and its receive at about the same time. Its message is
    // what the call surely waits for: that to it may have left eagerly.
    let is_for_sender = call
        .iter()
        .zip(waits())
        .any(|(part, own_s)| part.is_received && part.peer == cause && own_s >= ALIKE * wait_s);
    let completed = call.iter().map(|part| part.completed as usize).max().unwrap_or(0).max(call.len());
    let comm_of = |part: &MessagePart| streams[part.stream as usize].key.comm;
    let mut comms: Vec<u32> = call.iter().map(comm_of).collect();
    comms.sort_unstable();
    let comms_count = comms.chunk_by(|one, other| one == other).count();
    for ((at, part), own_s) in call.iter().enumerate().zip(waits()) {
        let comm = comm_of(part);
        // The time of a call counts on each of its communicators alike.
        let here = comms.iter().filter(|&&other| other == comm).count();
        let on_comm = completed as f64 * here as f64 / call.len() as f64;
        all.push(CompletedMessage {
            comm,
            stream: part.stream,
            number: part.number,
            rank: part.rank,
            peer: part.peer,
            class,
            share: 1.0 / (comms_count as f64 * on_comm),
            time_s: (part.departure_ns - part.arrival_ns) as f64 / 1e9,
            own_s,
            wait_s,
            away_s,
            cause,
            is_for_receiver: wait_s > 0.0 && !is_for_sender,
            is_last: at == last,
            is_complete: call.len() == completed,
        });
    }
}

/// How long the end was in the completing call before the other one was there, in seconds. A
/// receiver that had the message before, or a sender that left before, has not waited. A receiver
/// has not left before, however clocks differ.
fn wait_s(part: &MessagePart, clocks: &Clocks) -> f64 {
    let (Some(own), Some(other)) = (clocks.host(part.rank), clocks.host(part.peer)) else { return 0.0 };
    let late_s = clocks.common_s(other, part.peer_started_ns) - clocks.common_s(own, part.arrival_ns);
    let uncertainty_s =
        if own == other { 0.0 } else { clocks.uncertainty_s(own) + clocks.uncertainty_s(other) };
    let time_s = (part.departure_ns - part.arrival_ns) as f64 / 1e9;
    let most_s = if part.is_received { time_s + uncertainty_s } else { time_s };
    if late_s > uncertainty_s && late_s <= most_s { late_s.min(time_s) } else { 0.0 }
}

/// How long the other end of a message that had started was not in its completing call, after
/// `wait_s` of this call.
fn away_s(part: &MessagePart, wait_s: f64, clocks: &Clocks) -> f64 {
    let (Some(own), Some(other)) = (clocks.host(part.rank), clocks.host(part.peer)) else { return 0.0 };
    let since_arrival_s =
        |moment_ns| clocks.common_s(other, moment_ns) - clocks.common_s(own, part.arrival_ns);
    let time_s = (part.departure_ns - part.arrival_ns) as f64 / 1e9;
    let from_s = since_arrival_s(part.peer_started_ns).max(wait_s);
    (since_arrival_s(part.peer_arrival_ns).min(time_s) - from_s).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::join::StreamKey;
    use super::*;

    /// Rank 0 is in a call from 100 to 200 ns; messages 0 to N are of one stream each, on these
    /// communicators.
    fn calls(parts: &[MessagePart], comms: &[u32]) -> Vec<CompletedMessage> {
        let stream = |&comm: &u32| Stream {
            key: StreamKey { comm, from: 1, to: 0, tag: 0 },
            messages: 1,
            sampled: 1,
            bits: 0,
        };
        let streams: Vec<Stream> = comms.iter().map(stream).collect();
        let mut clocks = Clocks::new((0..9).map(|rank| (rank, "a")));
        clocks.begin_at(0, 0);
        completions(&mut parts.to_vec(), &streams, &clocks)
    }

    fn part(stream: u32, peer: u32, is_received: bool, peer_started_ns: u64) -> MessagePart {
        MessagePart {
            stream,
            number: 0,
            is_received,
            rank: 0,
            peer,
            started_ns: 50,
            peer_started_ns,
            peer_arrival_ns: peer_started_ns,
            arrival_ns: 100,
            departure_ns: 200,
            class: Some(Class::Wait),
            completed: 4,
        }
    }

    #[test]
    fn a_call_waits_for_the_last_of_its_messages() {
        let parts =
            [part(0, 1, true, 150), part(1, 2, false, 180), part(2, 3, true, 40), part(3, 4, false, 250)];
        let found = calls(&parts, &[0; 4]);
        assert!(found.iter().all(|one| (one.wait_s - 80e-9).abs() < 1e-15 && one.cause == 2), "{found:?}");
        assert!(found.iter().all(|one| one.is_for_receiver && one.is_complete && one.class == Class::Wait));
        let own: Vec<f64> = found.iter().map(|one| (one.own_s * 1e9).round()).collect();
        assert_eq!(own, [50.0, 80.0, 0.0, 0.0], "4 was sent eagerly");
        assert_eq!(found.iter().filter(|one| one.is_last).count(), 1);
        assert!((found.iter().map(|one| one.share).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn time_while_the_other_end_is_away_is_told_from_its_being_late() {
        // It has started at 120, and comes back to MPI at 170 or, the last time, after the call has
        // ended.
        for (peer_arrival_ns, away_ns) in [(170, 50.0), (120, 0.0), (900, 80.0)] {
            let found =
                calls(&[MessagePart { peer_arrival_ns, completed: 1, ..part(0, 1, true, 120) }], &[0]);
            assert_eq!(((found[0].wait_s * 1e9).round(), (found[0].away_s * 1e9).round()), (20.0, away_ns));
        }
    }

    #[test]
    fn a_call_that_waits_for_both_of_a_rank_waits_for_the_sender() {
        let found = calls(&[part(0, 2, true, 175), part(1, 2, false, 180)], &[0; 2]);
        assert!(found.iter().all(|one| !one.is_for_receiver && (one.wait_s - 80e-9).abs() < 1e-15));
        let found = calls(&[part(0, 2, true, 165), part(1, 2, false, 180)], &[0; 2]);
        assert!(found.iter().all(|one| one.is_for_receiver), "{found:?}");
    }

    #[test]
    fn messages_without_rows_leave_a_call_incomplete() {
        let found = calls(&[part(0, 1, true, 150), part(1, 2, true, 120)], &[0; 2]);
        assert!(found.iter().all(|one| !one.is_complete && one.share == 0.25 && one.cause == 1), "{found:?}");
    }

    #[test]
    fn communicators_share_the_time_of_a_call_alike() {
        let parts = [0, 1, 2, 3].map(|stream| part(stream, 1, true, 150));
        let found = calls(&parts, &[7, 8, 8, 8]);
        let share =
            |comm: u32| -> f64 { found.iter().filter(|one| one.comm == comm).map(|one| one.share).sum() };
        assert!((share(7) - 0.5).abs() < 1e-12 && (share(8) - 0.5).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn only_calls_that_wait_have_waits() {
        for (call, class) in [
            ("MPI_Recv", Some(Class::Receive)),
            ("MPI_Ssend", Some(Class::Send)),
            ("MPI_Sendrecv_replace", Some(Class::SendReceive)),
            ("MPI_Waitany", Some(Class::Wait)),
            ("MPI_Mprobe", Some(Class::Probe)),
            ("MPI_Bsend", None),
            ("MPI_Mrecv", None),
            ("MPI_Testall", None),
        ] {
            assert_eq!(Class::from_call(call), class);
            let found = calls(&[MessagePart { class, completed: 1, ..part(0, 1, true, 150) }], &[0]);
            assert_eq!(found.first().map(|one| one.class), class, "{call}");
        }
    }
}
