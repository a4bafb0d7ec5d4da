//! The log of a segment: one-time events.
//!
//! A record is `kind | bytes << 32` in one word, then its payload, padded to whole words.

mod runs;

use super::order::Step;
use crate::{CommId, CommRank, RegionId};
pub use runs::{Run, Runs};
use std::ops::Range;

/// Return addresses of a call path at most; of a deeper stack those nearest to the call are kept.
pub const MOST_PATH_FRAMES: usize = 64;
/// Lines of an interpreted language on a call path at most, likewise.
pub const MOST_PATH_LINES: usize = 64;

/// The creation of a communicator, as seen by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its row, in the order of the log: `W`, `S`, then others.
    pub id: CommId,
    /// The parent; `None` for `W`, `S` and what has no parent.
    pub parent: Option<CommId>,
    /// The letter of the creating call; 0 for `W` and `S`.
    pub letter: u8,
    /// The ordinal of the creating call on the parent, from 1; where [`Created::code`] is not 0, of
    /// that very creation. [`NONE`] for `W`, `S` and rows of communicators with different members.
    pub n: u32,
    /// The smallest parent rank of the members; `None` for calls that create only one.
    pub r: Option<CommRank>,
    /// Digest of the groups and tag of a creation that is not collective over one parent; 0 for all
    /// others.
    pub code: u64,
    /// Hash of the members in their order, equal on all of them; see
    /// [`super::membership::membership_sum`].
    pub members: u64,
    /// Of an intercommunicator made of two communicators: this process's; else `None`.
    pub local: Option<CommId>,
    /// Of one made by `MPI_Intercomm_create`, and at a leader: the peer communicator; else `None`.
    pub peer: Option<CommId>,
    /// `Operation as u16` of the creating call; [`NONE`] for `W` and `S`.
    pub operation: u32,
    /// This process's rank in it.
    pub rank: CommRank,
    /// 0 or 1 as asked, [`NONE`] where there is no such argument.
    pub reorder: u32,
    /// World ranks of the own group, in rank order.
    pub group: Runs,
    /// World ranks of the other group; `None` for an intracommunicator.
    pub remote: Option<Runs>,
}

impl Created {
    /// Returns whether a call of NCCL or RCCL made it. Who its ranks are in `MPI_COMM_WORLD` is not
    /// known in the process.
    pub fn is_of_nccl(&self) -> bool {
        crate::Operation::from_index(u64::from(self.operation)).is_some_and(crate::Operation::is_nccl)
    }

    /// `W` or `S`, which no call creates.
    pub fn with_world(id: CommId, rank: CommRank, group: Runs) -> Self {
        Created {
            id,
            parent: None,
            letter: 0,
            n: NONE,
            r: None,
            code: 0,
            members: 0,
            local: None,
            peer: None,
            operation: NONE,
            rank,
            reorder: NONE,
            group,
            remote: None,
        }
    }

    /// The record with elided members, see `Runs::without_list`; `None` if the members take no more
    /// than `most` runs.
    pub fn without_list(&self, most: usize) -> Option<Created> {
        let groups = || std::iter::once(&self.group).chain(&self.remote);
        if !groups().any(|group| group.is_without_order(most)) {
            return None;
        }
        let itself = self.group.get(self.rank);
        Some(Created {
            group: self.group.without_list(itself),
            remote: self.remote.as_ref().map(|remote| remote.without_list(None)),
            ..self.clone()
        })
    }

    /// As [`decode_created`] reads it.
    fn write(&self, to: &mut Writer<'_>) {
        let Created {
            id,
            parent,
            letter,
            n,
            r,
            code,
            members,
            local,
            peer,
            operation,
            rank,
            reorder,
            group,
            remote,
        } = self;
        let runs = |runs: &Runs| runs.run_count() as u32;
        let row = |row: &Option<CommId>| row.map_or(NONE, CommId::get);
        let (code, members) =
            ([*code as u32, (code >> 32) as u32], [*members as u32, (members >> 32) as u32]);
        to.numbers([
            id.get(),
            row(parent),
            u32::from(*letter),
            *n,
            r.map_or(NONE, CommRank::get),
            code[0],
            code[1],
            members[0],
            members[1],
        ]);
        to.numbers([
            row(local),
            row(peer),
            *operation,
            rank.get(),
            *reorder,
            runs(group),
            remote.as_ref().map_or(NONE, runs),
        ]);
        for run in std::iter::once(group).chain(remote).flat_map(|runs| &runs.0) {
            to.numbers([run.first, run.count, run.stride as u32]);
        }
    }
}

/// "No such number".
pub const NONE: u32 = u32::MAX;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A communicator was created.
    Created(Created),
    /// The application named a communicator.
    Label {
        /// The communicator.
        id: CommId,
        /// The name.
        text: String,
    },
    /// A communicator has a topology.
    Topology {
        /// The communicator.
        id: CommId,
        /// As in the column of `comms.csv`.
        text: String,
    },
    /// The application freed a communicator.
    Freed {
        /// The communicator.
        id: CommId,
    },
    /// The row just created is shared: it stands for the communicator and all like ones that
    /// follow. Their number is in a slot.
    SharedRow {
        /// The communicator.
        id: CommId,
        /// True if their members differ: then those in the record of its creation are this process
        /// alone, and the peers of its slots are ranks in `MPI_COMM_WORLD`.
        changing: bool,
    },
    /// A fact about the program; there may be several arguments and notes, in their order.
    Fact {
        /// A [`Fact`](super::fact::Fact) as a number.
        which: u32,
        /// Its text.
        text: String,
    },
    /// A binary has code that calls MPI, or is on a call path; binaries are numbered in the order
    /// of their records.
    Module {
        /// Its path; empty for code that belongs to no file.
        path: String,
        /// Its GNU build ID in hexadecimal; empty if it has none.
        build_id: String,
        /// A hash of its program headers.
        layout: u32,
    },
    /// A binary with call sites is loaded, at other addresses than before or for the first time.
    Loaded {
        /// The number of the binary.
        module: u32,
        /// Its first address, and that behind its last one.
        addresses: Range<u64>,
        /// The load bias: an offset in it and this are an address.
        bias: u64,
    },
    /// A function of an interpreted language is on a call path; functions are numbered with the
    /// binaries. A place in one is a line of its file.
    Function {
        /// The file, as the interpreter has it.
        file: String,
        /// The function.
        name: String,
    },
    /// An operation is called at a site for the first time; sites are numbered in the order of
    /// their records.
    Site {
        /// `Operation as u16`.
        operation: u16,
        /// The code.
        code: Code,
    },
    /// A call came by a path for the first time; paths are numbered in the order of their records.
    Path {
        /// The return addresses, from the MPI call outwards, without those in MPI's bindings; then
        /// lines of an interpreted language.
        frames: Vec<Code>,
    },
    /// One of MPI's variables is read; variables are numbered in the order of their records.
    Variable {
        /// True if it is of a communicator, and read for `MPI_COMM_WORLD`.
        of_world: bool,
        /// Its class, as in `variables.csv`.
        class: String,
        /// Its name.
        name: String,
        /// MPI's description of it.
        description: String,
    },
    /// A thread takes a step for the first time; the steps of a thread are numbered in the order of
    /// their records.
    Step {
        /// The thread.
        thread: u32,
        /// The step.
        step: Step,
    },
    /// A region began for the first time.
    Region {
        /// The region.
        id: RegionId,
        /// The region around it.
        parent: RegionId,
        /// Its own name.
        name: String,
    },
}

/// A place in the code of a binary, or in a function of an interpreted language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    /// The number of the binary or function.
    pub module: u32,
    /// The address as in the binary's symbol table; the line.
    pub offset: u64,
}

const CREATED: u32 = 1;
const LABEL: u32 = 4;
const TOPOLOGY: u32 = 5;
const FREED: u32 = 6;
const REGION: u32 = 7;
const FACT: u32 = 8;
const SHARED_ROW: u32 = 9;
const MODULE: u32 = 10;
const SITE: u32 = 11;
const PATH: u32 = 12;
const FUNCTION: u32 = 13;
const VARIABLE: u32 = 14;
const LOADED: u32 = 15;
const STEP: u32 = 16;

impl Record {
    /// The words of the record.
    pub fn encode(&self) -> Vec<u64> {
        let mut words = Vec::new();
        self.encode_to(&mut words);
        words
    }

    /// Replaces `words` by those of the record.
    pub fn encode_to(&self, words: &mut Vec<u64>) {
        words.clear();
        words.push(0);
        let mut writer = Writer { words, first: None, bytes: 0 };
        let kind = match self {
            Record::Created(created) => {
                created.write(&mut writer);
                CREATED
            }
            Record::Label { id, text } => writer.labelled(LABEL, [id.get()], text),
            Record::Topology { id, text } => writer.labelled(TOPOLOGY, [id.get()], text),
            Record::Freed { id } => writer.labelled(FREED, [id.get()], ""),
            Record::SharedRow { id, changing } => {
                writer.labelled(SHARED_ROW, [id.get(), u32::from(*changing)], "")
            }
            Record::Fact { which, text } => writer.labelled(FACT, [*which], text),
            Record::Region { id, parent, name } => writer.labelled(REGION, [id.get(), parent.get()], name),
            Record::Module { path, build_id, layout } => {
                writer.labelled(MODULE, [*layout, build_id.len() as u32], &format!("{build_id}{path}"))
            }
            Record::Loaded { module, addresses, bias } => {
                writer.numbers([*module]);
                [addresses.start, addresses.end, *bias].into_iter().for_each(|word| writer.word(word));
                LOADED
            }
            Record::Function { file, name } => {
                writer.labelled(FUNCTION, [name.len() as u32], &format!("{name}{file}"))
            }
            Record::Variable { of_world, class, name, description } => {
                writer.labelled(VARIABLE, [u32::from(*of_world)], &format!("{class}\0{name}\0{description}"))
            }
            Record::Site { operation, code } => {
                writer.numbers([u32::from(*operation)]);
                writer.code(*code);
                SITE
            }
            Record::Step { thread, step } => {
                writer.numbers([*thread]);
                step.words().into_iter().for_each(|word| writer.word(word));
                STEP
            }
            Record::Path { frames } => {
                frames.iter().for_each(|&code| writer.code(code));
                PATH
            }
        };
        let bytes = writer.end();
        words[0] = u64::from(kind) | bytes << 32;
    }

    /// Reads the record at the begin of `words`, and how many words it takes. `None` if it is cut
    /// off or not one that [`Record::encode`] makes.
    pub fn decode(words: &[u64]) -> Option<(Record, usize)> {
        let head = *words.first()?;
        let bytes = usize::try_from(head >> 32).ok()?;
        let count = 1 + bytes.div_ceil(8);
        let payload: Vec<u8> =
            words.get(1..count)?.iter().flat_map(|word| word.to_ne_bytes()).take(bytes).collect();
        let mut rest = payload.as_slice();
        let record = match head as u32 {
            CREATED => Record::Created(decode_created(&mut rest)?),
            LABEL => Record::Label { id: comm(&mut rest)?, text: text(rest) },
            TOPOLOGY => Record::Topology { id: comm(&mut rest)?, text: text(rest) },
            FREED => Record::Freed { id: comm(&mut rest)? },
            SHARED_ROW => Record::SharedRow { id: comm(&mut rest)?, changing: number(&mut rest)? != 0 },
            FACT => Record::Fact { which: number(&mut rest)?, text: text(rest) },
            MODULE => {
                let layout = number(&mut rest)?;
                let build_id = number(&mut rest)? as usize;
                let (build_id, path) = rest.split_at_checked(build_id)?;
                Record::Module { path: text(path), build_id: text(build_id), layout }
            }
            LOADED => {
                let module = number(&mut rest)?;
                let (start, end, bias) = (word(&mut rest)?, word(&mut rest)?, word(&mut rest)?);
                Record::Loaded { module, addresses: start..end, bias }
            }
            FUNCTION => {
                let name = number(&mut rest)? as usize;
                let (name, file) = rest.split_at_checked(name)?;
                Record::Function { file: text(file), name: text(name) }
            }
            SITE => Record::Site {
                operation: u16::try_from(number(&mut rest)?).ok()?,
                code: decode_code(&mut rest)?,
            },
            PATH => {
                let mut frames = Vec::new();
                while !rest.is_empty() {
                    frames.push(decode_code(&mut rest)?);
                }
                Record::Path { frames }
            }
            VARIABLE => {
                let of_world = number(&mut rest)? != 0;
                let text = text(rest);
                let mut parts = text.splitn(3, '\0').map(str::to_owned);
                let (class, name, description) = (parts.next()?, parts.next()?, parts.next()?);
                Record::Variable { of_world, class, name, description }
            }
            STEP => {
                let thread = number(&mut rest)?;
                let words = [word(&mut rest)?, word(&mut rest)?, word(&mut rest)?];
                Record::Step { thread, step: Step::from_words(words)? }
            }
            REGION => Record::Region { id: region(&mut rest)?, parent: region(&mut rest)?, name: text(rest) },
            _ => return None,
        };
        Some((record, count))
    }
}

/// Writes numbers, then text, as bytes without gaps, into words.
///
/// PERF: writes in place, without a temporary buffer, since a program may create communicators in a
/// loop.
struct Writer<'w> {
    words: &'w mut Vec<u64>,
    /// The first half of the next word.
    first: Option<[u8; 4]>,
    bytes: u64,
}

impl Writer<'_> {
    fn half(&mut self, bytes: [u8; 4]) {
        match self.first.take() {
            None => self.first = Some(bytes),
            Some(first) => {
                let mut word = [0; 8];
                word[..4].copy_from_slice(&first);
                word[4..].copy_from_slice(&bytes);
                self.words.push(u64::from_ne_bytes(word));
            }
        }
    }

    fn numbers<const COUNT: usize>(&mut self, numbers: [u32; COUNT]) {
        self.words.reserve(COUNT);
        numbers.into_iter().for_each(|number| self.half(number.to_ne_bytes()));
        self.bytes += 4 * COUNT as u64;
    }

    fn word(&mut self, word: u64) {
        self.numbers([word as u32, (word >> 32) as u32]);
    }

    fn code(&mut self, code: Code) {
        self.numbers([code.module]);
        self.word(code.offset);
    }

    /// Numbers and a text; returns the `kind`.
    fn labelled<const COUNT: usize>(&mut self, kind: u32, numbers: [u32; COUNT], text: &str) -> u32 {
        self.numbers(numbers);
        for bytes in text.as_bytes().chunks(4) {
            let mut half = [0; 4];
            half[..bytes.len()].copy_from_slice(bytes);
            self.half(half);
        }
        self.bytes += text.len() as u64;
        kind
    }

    /// Fills the last word; returns how many bytes there are.
    fn end(mut self) -> u64 {
        if self.first.is_some() {
            self.half([0; 4]);
        }
        self.bytes
    }
}

fn number(bytes: &mut &[u8]) -> Option<u32> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_ne_bytes(*first))
}

fn comm(bytes: &mut &[u8]) -> Option<CommId> {
    number(bytes).map(CommId::new)
}

fn region(bytes: &mut &[u8]) -> Option<RegionId> {
    number(bytes).map(RegionId::new)
}

fn decode_code(bytes: &mut &[u8]) -> Option<Code> {
    Some(Code { module: number(bytes)?, offset: word(bytes)? })
}

fn word(bytes: &mut &[u8]) -> Option<u64> {
    let (low, high) = (number(bytes)?, number(bytes)?);
    Some(u64::from(low) | u64::from(high) << 32)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn decode_created(bytes: &mut &[u8]) -> Option<Created> {
    let mut next = || number(bytes);
    let (id, parent, letter, n, r) = (next()?, next()?, next()?, next()?, next()?);
    let mut word = || Some(u64::from(next()?) | u64::from(next()?) << 32);
    let (code, members) = (word()?, word()?);
    let (local, peer, operation, rank, reorder) = (next()?, next()?, next()?, next()?, next()?);
    let (runs, remote_runs) = (next()?, next()?);
    let group = decode_runs(bytes, runs)?;
    let remote = if remote_runs == NONE { None } else { Some(decode_runs(bytes, remote_runs)?) };
    let letter = u8::try_from(letter).ok()?;
    let row = |number: u32| (number != NONE).then(|| CommId::new(number));
    Some(Created {
        id: CommId::new(id),
        parent: row(parent),
        letter,
        n,
        r: (r != NONE).then(|| CommRank::new(r)),
        code,
        members,
        local: row(local),
        peer: row(peer),
        operation,
        rank: CommRank::new(rank),
        reorder,
        group,
        remote,
    })
}

fn decode_runs(bytes: &mut &[u8], count: u32) -> Option<Runs> {
    let mut runs = Runs::default();
    let mut total = 0u32;
    for _ in 0..count {
        let run = Run { first: number(bytes)?, count: number(bytes)?, stride: number(bytes)? as i32 };
        // No communicator has more processes than ranks have numbers.
        total = total.checked_add(run.count).filter(|&total| total <= i32::MAX as u32)?;
        // Only a pair can be of numbers that are no ranks, and go beyond the largest.
        if run.count > 2 && run.ascending().is_none() {
            return None;
        }
        runs.0.push(run);
    }
    Some(runs)
}

#[cfg(test)]
mod tests;
