//! The tables of the order of calls.

use super::{Memory, Row, Seconds};
use crate::site::{OrderId, SiteId};
use mpisee_profile_derive::Columns;
use serde::{Deserialize, Serialize};

/// `order.csv`: one row per thread that called MPI, with `--order`: in which order.
///
/// A step is one change of a row of `calls.csv` or `peers.csv`, or the completion of a request.
/// `order-steps.csv` has the different steps, and `order-rules.csv` their sequence. Ranks with an
/// equal sequence, or with equal steps, share the rows of both. Polls that found nothing, as an
/// `MPI_Test` before its request is complete, are in `calls.csv` alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct OrderRow {
    /// The process.
    pub rank: u32,
    /// The number of the thread, in the order of the threads' first calls. A thread that begins
    /// when another has ended may share its row.
    pub thread: u32,
    /// The number of steps.
    pub steps: u64,
    /// Steps after these that could not be noted, mostly for lack of room. A rank that was killed
    /// when its segment was full may have more.
    pub lost: u64,
    /// The sequence, as in `order-rules.csv`.
    pub rules: OrderId,
    /// The different steps, as in `order-steps.csv`.
    pub alphabet: OrderId,
    /// The communicators, which the steps name by their places here, separated by spaces.
    pub comms: String,
}

impl Row for OrderRow {
    const FILE: &'static str = "order.csv";
}

/// `order-rules.csv`: one row per sequence of steps, with `--order`.
///
/// The sequence is rule 0. It is made of steps and of other rules, which stand for parts of the
/// sequence that occur more than once. A rule uses rules with higher numbers alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct OrderRuleRow {
    /// The sequence.
    pub rules: OrderId,
    /// The rules from 0 on, separated by `;`. Each has its parts in order, separated by spaces: `7`
    /// is step 7, `r3` is rule 3, and `r3*100` the same 100 times.
    pub symbols: String,
}

impl Row for OrderRuleRow {
    const FILE: &'static str = "order-rules.csv";
}

/// The change that a step of the order makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderStepKind {
    /// A call is counted.
    Call,
    /// A call that was counted is taken back.
    TakenBack,
    /// That call is counted in the size class of the message that came.
    CountedAnew,
    /// Bytes are added to a call that was counted before.
    Bytes,
    /// A message is sent.
    Sent,
    /// A message that was sent is cancelled.
    Unsent,
    /// A message is received.
    Received,
    /// A put.
    Put,
    /// A get.
    Get,
    /// An accumulation.
    Accumulate,
    /// A request is completed by the next call.
    Completed,
    /// Recording is switched on again.
    SwitchedOn,
    /// The root of a collective call.
    Root,
}

/// `order-steps.csv`: one row per different step, with `--order`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Columns)]
pub struct OrderStepRow {
    /// The steps of which this is one.
    pub alphabet: OrderId,
    /// Its number, by which `order-rules.csv` names it.
    pub step: u32,
    /// The change: `call`; `taken-back`, `counted-anew` or `bytes` of a call that was counted
    /// before;
    /// `sent`, `unsent` or `received` of a message; `put`, `get` or `accumulate`; `completed` of a
    /// request, which the next call of the thread completes; `root` of the collective call before;
    /// `switched-on` where recording was off before.
    pub kind: OrderStepKind,
    /// The place of its communicator in `comms` of `order.csv`, from 0; empty where there is none.
    pub comm: Option<u32>,
    /// The standard's name of the call; of a completion, of the call that started the request, if
    /// it is known. Empty of messages.
    pub call: String,
    /// The other process, or the root, by its rank in the communicator: `+1` and `-1` are the next
    /// and the previous rank modulo their number, `=0` is rank 0. Empty of calls.
    pub peer: String,
    /// The tag of a message, where it is known; `many` if like messages have more than 16.
    pub tag: String,
    /// The bytes, as in `calls.csv` or `peers.csv`; negative if they are taken away.
    pub bytes: i64,
    /// The smallest message of the size class of the call.
    pub size_min: Option<u64>,
    /// The largest message of the size class of the call.
    pub size_max: Option<u64>,
    /// As in `calls.csv`; empty of messages.
    pub memory: Option<Memory>,
    /// The named regions around the call, outermost first; empty outside of any, and of messages.
    pub region: String,
    /// The place in the program that makes the call, see [`super::SiteRow`].
    pub site: Option<SiteId>,
}

impl Row for OrderStepRow {
    const FILE: &'static str = "order-steps.csv";
}

/// `order-times.csv`: one row per call and the call before, over all ranks with equal sequences and
/// steps, with `--order`: how long the calls took, and the time between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columns)]
pub struct OrderTimeRow {
    /// The sequence.
    pub rules: OrderId,
    /// The different steps.
    pub alphabet: OrderId,
    /// The step of the call before; empty of the first call, and of the first one after recording
    /// was off.
    pub before: Option<u32>,
    /// The step of the call.
    pub step: u32,
    /// The number of calls.
    pub calls: u64,
    /// The time from the end of the call before to the begin of this one, over all calls. Polls in
    /// between that found nothing are not in it.
    pub between_s: Seconds,
    /// The standard deviation of these times.
    pub between_sd_s: Seconds,
    /// How many of these times are of each class: `3:20` are 20 of class 3. Class 0 is below 64 ns,
    /// class 1 below 256 ns, and so on: each bound is four times the one before. Class 15 has none.
    pub between_histogram: String,
    /// The time in the calls.
    pub time_s: Seconds,
    /// The standard deviation of a call's time.
    pub time_sd_s: Seconds,
    /// As `between_histogram`, of a call's time.
    pub time_histogram: String,
}

impl Row for OrderTimeRow {
    const FILE: &'static str = "order-times.csv";
}
