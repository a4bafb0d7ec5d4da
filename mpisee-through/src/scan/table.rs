//! The tables that are read on all cores, with rows that borrow from the block.

use super::BadField;
use super::blocks::Written;
use super::record::{Cursor, Record, shown};
use mpisee_profile::rows::{ArrivalRow, CallRow, Memory, MessageEnd, MessageRow, PeerRow, Row, StreamRow};

/// A table and what its rows look like.
pub trait Table {
    /// The record type, whose columns [`Table::parse`] numbers.
    type Of: Row;
    /// A row that borrows from the block.
    type Row<'a>;

    /// Reads the fields of a record that is as tables are written, and says where the next one
    /// begins.
    fn quick(_block: &[u8], _at: usize, _written: Written) -> Option<(Self::Row<'_>, usize)> {
        None
    }

    /// Reads the fields.
    fn parse<'a>(record: &Record<'a>) -> Result<Self::Row<'a>, BadField>;
}

/// A row of `calls.csv`; the fields are those of [`CallRow`], times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub comm: &'a [u8],
    pub rank: u32,
    pub region: &'a [u8],
    pub call: &'a [u8],
    pub size_min: u64,
    pub size_max: u64,
    pub memory: Memory,
    /// The digits, which are looked at where rows are grouped by site.
    pub site: &'a [u8],
    pub calls: u64,
    pub bytes: u64,
    pub time_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
}

impl Table for Call<'static> {
    type Of = CallRow;
    type Row<'a> = Call<'a>;

    fn quick(block: &[u8], at: usize, written: Written) -> Option<(Call<'_>, usize)> {
        let mut next = Cursor::new(block, at);
        let call = Call {
            comm: next.text()?,
            rank: u32::try_from(next.number()?).ok()?,
            region: next.text()?,
            call: next.text()?,
            size_min: next.number()?,
            size_max: next.number()?,
            memory: memory(next.text()?).ok()?,
            site: if written.has(7) { next.text()? } else { b"" },
            calls: next.number()?,
            bytes: next.number()?,
            time_ns: next.nanoseconds(b',')?,
            min_ns: next.nanoseconds(b',')?,
            max_ns: next.nanoseconds(if written.has(13) { b',' } else { b'\n' })?,
        };
        if written.has(13) {
            next.nanoseconds_if_any(b'\n')?;
        }
        Some((call, next.at()))
    }

    fn parse<'a>(record: &Record<'a>) -> Result<Call<'a>, BadField> {
        Ok(Call {
            comm: record.text(0),
            rank: record.rank(1, "rank")?,
            region: record.text(2),
            call: record.text(3),
            size_min: record.number(4, "size_min")?,
            size_max: record.number(5, "size_max")?,
            memory: memory(record.text(6))?,
            site: record.text(7),
            calls: record.number(8, "calls")?,
            bytes: record.number(9, "bytes")?,
            time_ns: record.nanoseconds(10, "time_s")?,
            min_ns: record.nanoseconds(11, "min_s")?,
            max_ns: record.nanoseconds(12, "max_s")?,
        })
    }
}

fn memory(text: &[u8]) -> Result<Memory, BadField> {
    Memory::from_name(text).ok_or_else(|| BadField {
        column: "memory",
        why: format!("'{}' is not host, device, managed or pinned", shown(text)),
    })
}

/// A row of `peers.csv` without messages that were received; the fields are those of [`PeerRow`].
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    pub comm: &'a [u8],
    pub rank: u32,
    pub peer: u32,
    pub sent_messages: u64,
    pub sent_bytes: u64,
    /// Bytes of one-sided operations from `rank` to `peer`, and back.
    pub one_sided_bytes: [u64; 2],
}

impl Table for Peer<'static> {
    type Of = PeerRow;
    type Row<'a> = Peer<'a>;

    fn parse<'a>(record: &Record<'a>) -> Result<Peer<'a>, BadField> {
        // The receivers' halves say the same again.
        record.number(5, "received_messages")?;
        record.number(6, "received_bytes")?;
        let one_sided = |column, name| if record.has(column) { record.number(column, name) } else { Ok(0) };
        let to_peer: [u64; 2] = [one_sided(8, "put_bytes")?, one_sided(12, "accumulate_bytes")?];
        Ok(Peer {
            comm: record.text(0),
            rank: record.rank(1, "rank")?,
            peer: record.rank(2, "peer")?,
            sent_messages: record.number(3, "sent_messages")?,
            sent_bytes: record.number(4, "sent_bytes")?,
            one_sided_bytes: [to_peer[0].saturating_add(to_peer[1]), one_sided(10, "get_bytes")?],
        })
    }
}

/// A row of `arrivals.csv`; the fields are those of [`ArrivalRow`], times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub comm: &'a [u8],
    pub call: &'a [u8],
    pub instance: u64,
    pub rank: u32,
    pub root: Option<u32>,
    pub arrival_ns: u64,
    pub departure_ns: u64,
    pub started_ns: Option<u64>,
    pub completed: Option<u32>,
}

impl Table for Arrival<'static> {
    type Of = ArrivalRow;
    type Row<'a> = Arrival<'a>;

    fn quick(block: &[u8], at: usize, written: Written) -> Option<(Arrival<'_>, usize)> {
        if !written.is_whole() {
            return None;
        }
        let mut next = Cursor::new(block, at);
        let arrival = Arrival {
            comm: next.text()?,
            call: next.text()?,
            instance: next.number()?,
            rank: u32::try_from(next.number()?).ok()?,
            root: match next.number_if_any(b',')? {
                Some(root) => Some(u32::try_from(root).ok()?),
                None => None,
            },
            arrival_ns: next.nanoseconds(b',')?,
            departure_ns: next.nanoseconds(b',')?,
            started_ns: next.nanoseconds_if_any(b',')?,
            completed: match next.number_if_any(b'\n')? {
                Some(completed) => Some(u32::try_from(completed).ok()?),
                None => None,
            },
        };
        Some((arrival, next.at()))
    }

    fn parse<'a>(record: &Record<'a>) -> Result<Arrival<'a>, BadField> {
        Ok(Arrival {
            comm: record.text(0),
            call: record.text(1),
            instance: record.number(2, "instance")?,
            rank: record.rank(3, "rank")?,
            root: if record.text(4).is_empty() { None } else { Some(record.rank(4, "root")?) },
            arrival_ns: record.nanoseconds(5, "arrival_s")?,
            departure_ns: record.nanoseconds(6, "departure_s")?,
            started_ns: record.nanoseconds_if_any(7, "started_s")?,
            completed: if record.text(8).is_empty() { None } else { Some(record.count(8, "completed")?) },
        })
    }
}

/// A row of `messages.csv`; the fields are those of [`MessageRow`], times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub comm: &'a [u8],
    pub rank: u32,
    pub peer: u32,
    pub end: MessageEnd,
    pub tag: i32,
    pub message: u64,
    pub bytes: u64,
    pub started_ns: u64,
    pub arrival_ns: Option<u64>,
    pub departure_ns: Option<u64>,
    pub call: &'a [u8],
    pub completed: u32,
}

impl Table for Message<'static> {
    type Of = MessageRow;
    type Row<'a> = Message<'a>;

    fn quick(block: &[u8], at: usize, written: Written) -> Option<(Message<'_>, usize)> {
        if !written.is_whole() {
            return None;
        }
        let mut next = Cursor::new(block, at);
        let message = Message {
            comm: next.text()?,
            rank: u32::try_from(next.number()?).ok()?,
            peer: u32::try_from(next.number()?).ok()?,
            end: end(next.text()?).ok()?,
            tag: next.signed()?,
            message: next.number()?,
            bytes: next.number()?,
            started_ns: next.nanoseconds(b',')?,
            arrival_ns: next.nanoseconds_if_any(b',')?,
            departure_ns: next.nanoseconds_if_any(b',')?,
            call: next.text()?,
            completed: u32::try_from(next.number_before(b'\n')?).ok()?,
        };
        Some((message, next.at()))
    }

    fn parse<'a>(record: &Record<'a>) -> Result<Message<'a>, BadField> {
        Ok(Message {
            comm: record.text(0),
            rank: record.rank(1, "rank")?,
            peer: record.rank(2, "peer")?,
            end: end(record.text(3))?,
            tag: record.signed(4, "tag")?,
            message: record.number(5, "message")?,
            bytes: record.number(6, "bytes")?,
            started_ns: record.nanoseconds(7, "started_s")?,
            arrival_ns: record.nanoseconds_if_any(8, "arrival_s")?,
            departure_ns: record.nanoseconds_if_any(9, "departure_s")?,
            call: record.text(10),
            completed: u32::try_from(record.number(11, "completed")?).unwrap_or(u32::MAX),
        })
    }
}

/// A row of `streams.csv`; the fields are those of [`StreamRow`].
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    pub comm: &'a [u8],
    pub rank: u32,
    pub peer: u32,
    pub end: MessageEnd,
    pub tag: i32,
    pub messages: u64,
    /// The messages while recording was on; `None` in profiles of older versions.
    pub recorded: Option<u64>,
    pub is_ordered: bool,
}

impl Table for Stream<'static> {
    type Of = StreamRow;
    type Row<'a> = Stream<'a>;

    fn parse<'a>(record: &Record<'a>) -> Result<Stream<'a>, BadField> {
        record.number(6, "sampled")?;
        Ok(Stream {
            comm: record.text(0),
            rank: record.rank(1, "rank")?,
            peer: record.rank(2, "peer")?,
            end: end(record.text(3))?,
            tag: record.signed(4, "tag")?,
            messages: record.number(5, "messages")?,
            recorded: record.number_if_any(7, "recorded")?,
            is_ordered: record.number(8, "ordered")? == 1,
        })
    }
}

fn end(text: &[u8]) -> Result<MessageEnd, BadField> {
    match text {
        b"sent" => Ok(MessageEnd::Sent),
        b"received" => Ok(MessageEnd::Received),
        _ => Err(BadField { column: "end", why: format!("'{}' is not sent or received", shown(text)) }),
    }
}
