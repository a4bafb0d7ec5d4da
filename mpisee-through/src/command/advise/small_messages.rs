//! The rule about many small messages to the same rank that could be sent together.

use super::at;
use super::facts::{Facts, FamilyFacts, OfSize};
use super::finding::{Finding, percent};
use super::messages::{Messages, Sent};
use crate::units::{count, human_bytes, time};
use mpisee_profile::{Operation, OperationKind};

/// Messages to a rank are small if they have this many bytes or fewer on average.
const SMALL_BYTES: u64 = 1023;
/// The least number of small messages from a rank to another, and of them between two calls that
/// may have brought the sender something.
const MESSAGES: u64 = 1000;
const BY_ROUND: u64 = 4;
/// The least part of the run that sending them together may save, as estimated.
const OF_RUN: f64 = 0.02;
/// How many pairs of ranks are named.
const NAMED: usize = 3;

/// Messages from a rank to another that could be fewer.
struct Pair {
    from: u32,
    to: u32,
    sent: Sent,
    /// The messages that would be left out if all those between two calls that may bring something
    /// were one.
    saved: u64,
}

/// The finding about like communicators, if there is one.
pub fn finding(facts: &Facts<'_>, family: &FamilyFacts<'_>, messages: &Messages) -> Option<Finding> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut small = 0;
    for found in family.comms.iter().filter_map(|comm| messages.pairs.get(&comm.name)) {
        for (&(from, to), &sent) in found {
            let is_small = sent.bytes <= sent.messages.saturating_mul(SMALL_BYTES);
            if !is_small || !facts.takes_rank(from) {
                continue;
            }
            small += sent.messages;
            let rounds = messages.rounds.get(&from).copied().unwrap_or(0);
            if sent.messages >= MESSAGES && sent.messages / BY_ROUND >= rounds {
                pairs.push(Pair { from, to, sent, saved: sent.messages - rounds.max(1) });
            }
        }
    }
    pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.sent.messages), pair.from, pair.to));
    let least_s = least_s(family, small)?;
    let cost_s = pairs.iter().map(|pair| pair.saved).sum::<u64>() as f64 * least_s;
    if pairs.is_empty() || facts.share_of_run(cost_s) < OF_RUN {
        return None;
    }
    let mut sum = Sent::default();
    pairs.iter().for_each(|pair| sum.add(pair.sent));
    let mut named: Vec<String> = pairs.iter().take(NAMED).map(Pair::text).collect();
    let more = pairs.len().saturating_sub(NAMED);
    named.extend((more > 0).then(|| format!("and {}", count(more as u64, "more pair"))));
    Some(Finding {
        rule: "small-messages",
        about: family.name.to_owned(),
        cost_s,
        what: format!(
            "Many of {} on {}, of {} on average, go to the same rank one after the other.",
            count(sum.messages, "message"),
            family.title,
            human_bytes(rounded_mean(sum.bytes, sum.messages))
        ),
        evidence: format!(
            "Measured: {}; more than {BY_ROUND} messages for each receive or collective of the sender. \
             Estimated: a message of up to {SMALL_BYTES} bytes took {} at least in this run, over both ends. \
             Time is that of the messages that joining them would save.{}",
            named.join("; "),
            time(least_s),
            at::of_calls(facts, family, "sends", is_send),
        ),
        threshold: format!(
            "{MESSAGES} messages of up to {SMALL_BYTES} bytes on average from one rank to another, \
             {BY_ROUND} for each receive or collective of the sender, and {} of the run by the least time of \
             a message",
            percent(OF_RUN)
        ),
        advice: "Put data for the same rank into one message (an array, a derived datatype, MPI_Pack). Or \
                 collect data and send when there is enough. Measure the gain."
            .to_owned(),
    })
}

impl Pair {
    fn text(&self) -> String {
        let Pair { from, to, sent, .. } = self;
        format!(
            "rank {from} to rank {to}, {} of {}",
            count(sent.messages, "message"),
            human_bytes(rounded_mean(sent.bytes, sent.messages))
        )
    }
}

/// Returns whether a call sends, or starts to.
fn is_send(call: &str) -> bool {
    let is_point_to_point =
        Operation::from_name(call).is_some_and(|operation| operation.kind() == OperationKind::PointToPoint);
    is_point_to_point && call.to_lowercase().contains("send")
}

/// The bytes of a message on average.
fn rounded_mean(bytes: u64, messages: u64) -> u64 {
    (bytes + messages / 2) / messages.max(1)
}

/// The least time of a small message over both ends: the shortest call for each size, by the number
/// of calls.
fn least_s(family: &FamilyFacts<'_>, messages: u64) -> Option<f64> {
    let calls = family.used.iter().filter(|used| used.kind == Some(OperationKind::PointToPoint));
    let small = calls.flat_map(|used| &used.sizes).filter(|of| of.size_max <= SMALL_BYTES);
    let least_s: f64 = small.map(OfSize::least_s).sum();
    (messages > 0).then(|| least_s / messages as f64)
}
