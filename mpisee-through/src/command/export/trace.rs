//! A time line: Chrome's trace event format in JSON, which Perfetto and others open.
//!
//! A process of the trace is a host, a thread of it a rank. Sampled calls are slices, the starts of nonblocking operations short slices, and
//! messages arrows from the send to the receive.

use crate::units::{count, time};
use crate::view::ProfileView;
use crate::waits::{self, Clocks};
use anyhow::Result;
use mpisee_profile::Operation;
use mpisee_profile::rows::{ArrivalRow, MessageEnd, MessageRow, Seconds};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// A call of a rank: its rank, when it was entered and when left, in nanoseconds on the clock of its host.
type CallKey = (u32, u64, u64);

/// A sampled call.
#[derive(Default)]
struct Call {
    /// Its name, if it is known: of a call that completes a collective operation it is not.
    name: String,
    /// The operations that it did or completed.
    operations: Vec<Value>,
}

/// The end of a message: what its other end has, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct MessageId {
    comm: String,
    from: u32,
    to: u32,
    tag: i32,
    number: u64,
}

/// A moment of a rank, in nanoseconds on the clock of its host.
#[derive(Clone, Copy)]
struct Moment {
    rank: u32,
    at_ns: u64,
}

/// Both ends of a message, as far as they are in the sample.
#[derive(Clone, Copy, Default)]
struct Message {
    /// When the sender started it.
    sent: Option<Moment>,
    /// When the receiver entered the call in which it arrived, and how long that took.
    received: Option<(Moment, u64)>,
}

/// The sampled calls and messages of a run.
pub struct Trace {
    clocks: Clocks,
    /// Of each host.
    first_ranks: Vec<u32>,
    calls: BTreeMap<CallKey, Call>,
    /// When nonblocking operations were started.
    starts: Vec<(Moment, String)>,
    messages: BTreeMap<MessageId, Message>,
    /// Rows of ranks whose time is on no clock that is known.
    without_clock: u64,
}

impl Trace {
    /// Reads the samples.
    pub fn read(view: &ProfileView) -> Result<Self> {
        let clocks = waits::clocks(view)?;
        let mut first_ranks = vec![0; clocks.names.len()];
        for row in view.processes().ranks().iter().rev() {
            if let Some(first) = clocks.host(row.rank).and_then(|host| first_ranks.get_mut(host)) {
                *first = row.rank;
            }
        }
        let mut trace = Trace {
            clocks,
            first_ranks,
            calls: BTreeMap::new(),
            starts: Vec::new(),
            messages: BTreeMap::new(),
            without_clock: 0,
        };
        for row in view.profile().rows_if_any::<ArrivalRow>()? {
            trace.add_arrival(row?);
        }
        for row in view.profile().rows_if_any::<MessageRow>()? {
            trace.add_message(row?);
        }
        Ok(trace)
    }

    /// Returns whether the rank's clock is known; counts the row if it is not.
    fn has_clock(&mut self, rank: u32) -> bool {
        let host = self.clocks.host(rank).and_then(|host| self.clocks.joined_to(host));
        self.without_clock += u64::from(host.is_none());
        host.is_some()
    }

    fn add_arrival(&mut self, row: ArrivalRow) {
        if !self.has_clock(row.rank) {
            return;
        }
        let key = (row.rank, row.arrival_s.to_ns(), row.departure_s.to_ns());
        let call = self.calls.entry(key).or_default();
        let mut operation = json!({ "call": row.call, "comm": row.comm, "instance": row.instance });
        if let Some(root) = row.root {
            operation["root"] = json!(root);
        }
        call.operations.push(operation);
        match row.started_s {
            None => call.name = row.call,
            Some(started_s) => self.add_start(row.rank, started_s, row.call),
        }
    }

    fn add_start(&mut self, rank: u32, started_s: Seconds, what: String) {
        self.starts.push((Moment { rank, at_ns: started_s.to_ns() }, what));
    }

    fn add_message(&mut self, row: MessageRow) {
        if !self.has_clock(row.rank) {
            return;
        }
        let is_sent = row.end == MessageEnd::Sent;
        let (from, to) = if is_sent { (row.rank, row.peer) } else { (row.peer, row.rank) };
        let mut received = (row.started_s.to_ns(), 0);
        let is_blocking = row.arrival_s.is_some_and(|arrival_s| arrival_s.to_ns() == row.started_s.to_ns());
        if let (Some(arrival_s), Some(departure_s)) = (row.arrival_s, row.departure_s) {
            let key = (row.rank, arrival_s.to_ns(), departure_s.to_ns());
            let call = self.calls.entry(key).or_default();
            let what = if is_sent { "sent to" } else { "received from" };
            call.operations.push(json!({
                what: row.peer, "comm": row.comm, "tag": row.tag, "message": row.message, "bytes": row.bytes
            }));
            call.name = row.call;
            received = (arrival_s.to_ns(), departure_s.to_ns().saturating_sub(arrival_s.to_ns()));
        }
        if !is_blocking {
            let what = if is_sent { "starts a send" } else { "posts a receive" };
            self.add_start(row.rank, row.started_s, what.to_owned());
        }
        let id = MessageId { comm: row.comm, from, to, tag: row.tag, number: row.message };
        let message = self.messages.entry(id).or_default();
        match is_sent {
            true => message.sent = Some(Moment { rank: row.rank, at_ns: row.started_s.to_ns() }),
            false => message.received = Some((Moment { rank: row.rank, at_ns: received.0 }, received.1)),
        }
    }

    /// Writes it. Times are microseconds from the first of the sampled moments.
    pub fn write(&self, view: &ProfileView, out: &mut dyn Write) -> Result<()> {
        let zero_us = self.first_us();
        let mut events = Events { out, is_first: true };
        let header = json!({ "program": view.program(), "command": view.run().command.join(" "), "note": self.note() });
        write!(events.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{header},\"traceEvents\":[")?;
        self.write_names(view, &mut events)?;
        for (&(rank, arrival_ns, departure_ns), call) in &self.calls {
            let name = if call.name.is_empty() { "completing call" } else { call.name.as_str() };
            let at = Moment { rank, at_ns: arrival_ns };
            let mut event = self.event("X", name, at, zero_us);
            event["dur"] = json!((departure_ns - arrival_ns.min(departure_ns)) as f64 / 1e3);
            event["args"] = json!({ "operations": call.operations });
            events.push(&event)?;
        }
        for (at, what) in &self.starts {
            let mut event = self.event("X", what, *at, zero_us);
            // A nanosecond, since how long the starting call took is not in the sample.
            event["dur"] = json!(0.001);
            events.push(&event)?;
        }
        for (number, (id, message)) in (1u64..).zip(&self.messages) {
            if let Message { sent: Some(sent), received: Some((entered, took_ns)) } = *message {
                let name = format!("message on {}", id.comm);
                let arrived = self.arrived(sent, entered, took_ns);
                for (phase, at) in [("s", sent), ("f", arrived)] {
                    let mut event = self.event(phase, &name, at, zero_us);
                    event["id"] = json!(number);
                    event["bp"] = json!("e");
                    events.push(&event)?;
                }
            }
        }
        writeln!(events.out, "\n]}}")?;
        Ok(())
    }

    /// An event of a rank, on the common clock.
    fn event(&self, phase: &str, name: &str, at: Moment, zero_us: f64) -> Value {
        let host = self.clocks.host(at.rank).unwrap_or_default();
        json!({
            "ph": phase,
            "name": name,
            "cat": category(name, phase),
            "pid": self.process(host),
            "tid": at.rank + 1,
            "ts": ((self.us(at) - zero_us) * 1e3).round() / 1e3,
        })
    }

    /// Where an arrow ends: in the receiving call, and not before it begins, since Perfetto drops those that go back in time. A receiver
    /// that waits has entered the call before.
    fn arrived(&self, sent: Moment, entered: Moment, took_ns: u64) -> Moment {
        let late_ns = ((self.us(sent) - self.us(entered)) * 1e3).ceil().max(0.0) as u64;
        // The last nanosecond of a call is no part of it.
        Moment { at_ns: entered.at_ns + late_ns.min(took_ns.saturating_sub(1)), ..entered }
    }

    /// The number of a host as a process. To Perfetto the thread of that number is the main thread of the process, so it is the
    /// host's first rank.
    fn process(&self, host: usize) -> u64 {
        self.first_ranks.get(host).map_or(0, |&first| u64::from(first)) + 1
    }

    fn us(&self, at: Moment) -> f64 {
        let host = self.clocks.host(at.rank).unwrap_or_default();
        self.clocks.common_of_mean_s(host, at.at_ns as f64 / 1e9) * 1e6
    }

    fn first_us(&self) -> f64 {
        let calls = self.calls.keys().map(|&(rank, at_ns, _)| Moment { rank, at_ns });
        let starts = self.starts.iter().map(|&(at, _)| at);
        let first = calls.chain(starts).map(|at| self.us(at)).fold(f64::INFINITY, f64::min);
        if first.is_finite() { first } else { 0.0 }
    }

    /// The names and the order of hosts and ranks.
    fn write_names(&self, view: &ProfileView, events: &mut Events<'_>) -> Result<()> {
        let metadata = |kind: &str, pid: u64, tid: u64, argument: &str, value: Value| json!({ "ph": "M", "name": kind, "pid": pid, "tid": tid, "args": { argument: value } });
        for (host, name) in self.clocks.names.iter().enumerate() {
            let pid = self.process(host);
            events.push(&metadata("process_name", pid, pid, "name", json!(name)))?;
            events.push(&metadata("process_sort_index", pid, pid, "sort_index", json!(host)))?;
        }
        for row in view.processes().ranks() {
            let host = self.clocks.host(row.rank).unwrap_or_default();
            let (pid, tid) = (self.process(host), u64::from(row.rank) + 1);
            let name = json!(format!("rank {}", row.rank));
            events.push(&metadata("thread_name", pid, tid, "name", name))?;
            events.push(&metadata("thread_sort_index", pid, tid, "sort_index", json!(row.rank)))?;
        }
        Ok(())
    }

    /// A note for readers of the time line.
    fn note(&self) -> String {
        let mut note = "Calls and messages are a random sample, see docs/design/arrivals.md: between two slices a rank may have made \
                        other calls. Regions and accesses of GPU kernels have no times in a profile."
            .to_owned();
        let hosts = 0..self.clocks.names.len();
        let used: Vec<usize> = hosts.filter(|&host| self.clocks.joined_to(host).is_some()).collect();
        let apart: Vec<&str> = used
            .iter()
            .filter(|&&host| {
                self.clocks.joined_to(host) != used.first().and_then(|&first| self.clocks.joined_to(first))
            })
            .map(|&host| self.clocks.names[host].as_str())
            .collect();
        if !apart.is_empty() {
            note += &format!(
                " The clocks of {} cannot be compared with that of {}: each begins at 0.",
                apart.join(", "),
                self.clocks.names[used[0]]
            );
        } else if used.len() > 1 {
            let uncertainty_s = used.iter().map(|&host| self.clocks.uncertainty_s(host)).fold(0.0, f64::max);
            note += &format!(
                " The clocks of hosts are joined by the program's own calls, to within {}.",
                time(uncertainty_s)
            );
        }
        if self.without_clock > 0 {
            note += &format!(
                " {} left out: of ranks whose clock cannot be compared with any other.",
                count(self.without_clock, "sample")
            );
        }
        note
    }

    /// How much is in it.
    pub fn sentence(&self) -> String {
        let whole =
            self.messages.values().filter(|of| of.sent.is_some() && of.received.is_some()).count() as u64;
        format!("{} and {}, a sample", count(self.calls.len() as u64, "call"), count(whole, "message"))
    }
}

/// The category by which the tool can filter.
fn category(name: &str, phase: &str) -> String {
    match Operation::from_name(name) {
        Some(operation) => format!("{:?}", operation.kind()).to_lowercase(),
        None if phase == "X" => "start".to_owned(),
        None => "message".to_owned(),
    }
}

/// The events of the file, with commas between them.
struct Events<'o> {
    out: &'o mut dyn Write,
    is_first: bool,
}

impl Events<'_> {
    fn push(&mut self, event: &Value) -> Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }
}
