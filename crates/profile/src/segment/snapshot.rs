//! The content of a segment, read while its owner may be writing.

mod counters;
mod program;
mod replay;

pub use counters::Counter;
pub use program::Program;

use counters::{add_values, sum_up};

use super::active_call::{self, ActiveCall};
use super::awaited::Wildcards;
use super::cpu::CpuReading;
use super::instances::{SAMPLE_WORDS, Sample};
use super::key::{Meaning, OperationAtSite, PeerKey, SlotKey};
use super::layout::{
    self, CHUNK_HEADER_BYTES, COUNTERS, ChunkHeader, HEADER_BYTES, HOST_BYTES, Header, LOG, ORDER, SAMPLES,
    SLOT_BYTES, Slot, call, peer,
};
use super::log::{Code, Created};
use super::order::Orders;
use super::source::{SLOT_WORDS, Source, check_layout};
use crate::error::ProfileError;
use crate::site::{PathId, SiteId};
use crate::{CommId, CommRank, Operation, RegionId, Ticks, WorldRank};
use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;
use std::num::NonZero;
use std::ops::Range;

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// On the monotonic clock.
    pub monotonic_ns: u64,
    /// In ticks.
    pub ticks: Ticks,
}

impl Moment {
    /// Reads both clocks: of that many readings the quickest, since a thread may lose its core
    /// between the two clocks.
    pub fn now(readings: u32, ticks: impl Fn() -> Ticks, monotonic_ns: impl Fn() -> u64) -> Moment {
        let read = || {
            let before = ticks();
            let monotonic_ns = monotonic_ns();
            let took = ticks().get().wrapping_sub(before.get());
            (took, Moment { monotonic_ns, ticks: before.wrapping_add(Ticks::new(took / 2)) })
        };
        let quicker = |best: (u64, Moment), next: (u64, Moment)| if next.0 < best.0 { next } else { best };
        (1..readings).map(|_| read()).fold(read(), quicker).1
    }
}

/// A communicator of this process.
#[derive(Clone, Debug)]
pub struct Communicator {
    /// Its creation.
    pub created: Created,
    /// The name that the application gave.
    pub label: String,
    /// As in the column of `comms.csv`.
    pub topology: String,
    /// True if the application freed it.
    pub freed: bool,
    /// Set if the row stands for several communicators.
    pub shared_row: Option<SharedRow>,
}

/// A row of like communicators. How many there were is in the slot of [`SlotKey::shared_row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedRow {
    /// The communicators have the same members.
    Alike,
    /// Their members differ.
    Changing,
}

/// A region of this process.
#[derive(Clone, Debug)]
pub struct Region {
    /// The region around it.
    pub parent: RegionId,
    /// Its own name.
    pub name: String,
}

/// Code of this process in which there are call sites.
#[derive(Clone, Debug)]
pub enum Module {
    /// A binary.
    Binary {
        /// Its path; empty for code that belongs to no file.
        path: String,
        /// Its GNU build ID in hexadecimal; empty if it has none.
        build_id: String,
        /// A hash of its program headers.
        layout: u32,
    },
    /// A function of an interpreted language.
    Function {
        /// Its file.
        file: String,
        /// Its name.
        name: String,
    },
}

/// Where a binary was loaded.
#[derive(Clone, Debug)]
struct Loaded {
    /// Its number.
    module: u32,
    addresses: Range<u64>,
    /// The load bias: an offset in it and this are an address.
    bias: u64,
}

/// A call site of this process.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The operation that is called there.
    pub operation: Operation,
    /// The address to which the call returns.
    pub code: Code,
}

/// The end of MPI in a process.
#[derive(Clone, Copy, Debug)]
pub struct RunEnd {
    /// On the process's clocks.
    pub moment: Moment,
    /// Nanoseconds since 1970, UTC.
    pub realtime_ns: u64,
}

/// The content of a segment at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The process.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Rank in `MPI_COMM_WORLD`.
    pub world_rank: WorldRank,
    /// Size of `MPI_COMM_WORLD`.
    pub world_size: u32,
    /// True if ticks are those of the time-stamp counter; else they are nanoseconds.
    pub ticks_are_tsc: bool,
    /// When recording began, nanoseconds since 1970, UTC.
    pub start_realtime_ns: u64,
    /// The same moment on the monotonic clock.
    pub start_monotonic_ns: u64,
    /// The same moment in ticks.
    pub start_ticks: Ticks,
    /// True if recording was switched off at some time.
    pub recording_was_off: bool,
    /// Calls not seen, by [`super::NotSeen`].
    pub not_seen: Vec<u64>,
    /// The costs of recording, by [`super::layout::overhead`].
    pub overhead: [u64; 6],
    /// The time that recording took of some calls, by [`super::layout::sampled`].
    pub sampled: [u64; 6],
    /// Calls of all threads since the last one of each that was to be measured.
    pub calls_since_sample: u64,
    /// A number shared by the processes of one world.
    pub job: u64,
    /// When the process was started, in ticks of the kernel since the system was.
    pub process_start: u64,
    /// A hash of its system's boot id.
    pub boot: u64,
    /// The number of its PID namespace.
    pub namespace: u64,
    /// The process that `mpisee` became, this one or an ancestor of it; 0 if that is unknown.
    pub program_pid: u64,
    /// Bytes of the segment that are in private memory, and not in its file: it had no room for
    /// them.
    pub private_bytes: u64,
    /// State of the process, see [`layout::state`].
    pub state: u64,
    /// Ranks of its node, as its launcher reports; 0 if it does not.
    pub local_size: u32,
    /// True if it is to collect the profile by messages between the ranks.
    pub by_messages: bool,
    /// When it came to the end of MPI, if it did.
    pub end: Option<RunEnd>,
    /// Nanoseconds by which its clocks disagreed at most; 0 if they agreed.
    pub clocks_apart_ns: u64,
    /// CPU use when recording began.
    pub cpu_at_start: Option<CpuReading>,
    /// CPU use at the end of MPI; `None` if the process did not come to it.
    pub cpu_at_end: Option<CpuReading>,
    /// CPUs of its node that are online; 0 if that is unknown.
    pub node_cpus: u32,
    /// The CPU quota of its cgroup, in thousandths of a core, if there is one.
    pub cpu_quota: Option<NonZero<u64>>,
    /// Its MPI's constants for no rank and no tag.
    wildcards: Wildcards,
    /// A moment before recording began.
    before: Moment,
    /// When something was last counted or logged for the first time.
    last_ticks: Ticks,
    /// The program, as far as the log describes it.
    pub program: Program,
    /// Communicators by their number.
    pub communicators: Vec<Communicator>,
    /// Regions by their number, from 1.
    pub regions: Vec<Region>,
    /// Binaries, and functions of interpreted languages, by their number.
    pub modules: Vec<Module>,
    /// Where binaries with call sites were loaded, in this order.
    loaded: Vec<Loaded>,
    /// Call sites by their number.
    pub sites: Vec<Site>,
    /// Call paths by their number: return addresses from the MPI call outwards.
    pub paths: Vec<Vec<Code>>,
    /// Counters, summed over threads, in the order of their keys.
    ///
    /// PERF: a process may have hundreds of thousands. Sorting them is faster than a hash table.
    pub counters: Vec<Counter>,
    /// Regions in which a thread has made a recorded call, with a number of the thread's own;
    /// `None` if the writer tells no threads apart.
    pub callers: Option<BTreeSet<(RegionId, u64)>>,
    /// How long threads lived, by the number that [`Snapshot::callers`] have, see
    /// [`layout::lives`].
    lives: HashMap<u64, [Ticks; 4]>,
    /// Sampled instances of collective operations, by the key that counts these.
    pub samples: HashMap<SlotKey, Vec<Sample>>,
    /// The order of what each thread counted, if the user asked for it.
    pub orders: Orders,
    /// The recorded calls in progress, one entry per thread that is in one.
    pub active_calls: Vec<ActiveCall>,
    /// When the last recorded call of each thread that has made one, and is in none, returned;
    /// `None` where that is not known.
    pub last_returns: Vec<Option<Ticks>>,
}

impl Snapshot {
    /// Reads a segment.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Snapshot, ProfileError> {
        Snapshot::read_parts(source, true)
    }

    /// Reads a segment without its counters: what communicators and regions there are.
    pub fn read_log<S: Source + ?Sized>(source: &S) -> Result<Snapshot, ProfileError> {
        Snapshot::read_parts(source, false)
    }

    fn read_parts<S: Source + ?Sized>(source: &S, counters: bool) -> Result<Snapshot, ProfileError> {
        let (mut snapshot, used) = Snapshot::read_header(source)?;
        let end = usize::try_from(used / 8).unwrap_or(usize::MAX).min(source.words());
        snapshot.read_chunks(source, end, counters)?;
        sum_up(&mut snapshot.counters);
        Ok(snapshot)
    }

    /// Reads what the header alone says, and how many bytes of the segment are in use, itself
    /// included.
    pub fn read_header<S: Source + ?Sized>(source: &S) -> Result<(Snapshot, u64), ProfileError> {
        check_layout(source)?;
        let field = |offset: usize| source.word(offset / 8);
        let narrow = |offset: usize| {
            u32::try_from(field(offset))
                .map_err(|_| ProfileError::Segment { why: format!("the word at {offset} is out of range") })
        };
        let ticks = |offset: usize| Ticks::new(field(offset));
        let cpu =
            |offset: usize| CpuReading::from_words(std::array::from_fn(|which| field(offset + which * 8)));
        let reasons = offset_of!(Header, not_seen);
        let snapshot = Snapshot {
            pid: narrow(offset_of!(Header, pid))?,
            host: host(source),
            world_rank: WorldRank::new(narrow(offset_of!(Header, world_rank))?),
            world_size: narrow(offset_of!(Header, world_size))?,
            ticks_are_tsc: field(offset_of!(Header, ticks_are_tsc)) == 1,
            start_realtime_ns: field(offset_of!(Header, start_realtime_ns)),
            start_monotonic_ns: field(offset_of!(Header, start_monotonic_ns)),
            start_ticks: ticks(offset_of!(Header, start_ticks)),
            recording_was_off: field(offset_of!(Header, switches)) != 0,
            not_seen: (0..super::NotSeen::ALL.len()).map(|reason| field(reasons + reason * 8)).collect(),
            overhead: std::array::from_fn(|which| field(offset_of!(Header, overhead) + which * 8)),
            calls_since_sample: 0,
            sampled: std::array::from_fn(|which| field(offset_of!(Header, sampled) + which * 8)),
            job: field(offset_of!(Header, job)),
            process_start: field(offset_of!(Header, process_start)),
            boot: field(offset_of!(Header, boot)),
            namespace: field(offset_of!(Header, namespace)),
            program_pid: field(offset_of!(Header, program)),
            private_bytes: field(offset_of!(Header, used)).saturating_sub(field(offset_of!(Header, shared))),
            state: field(offset_of!(Header, state)),
            local_size: narrow(offset_of!(Header, local_size))?,
            by_messages: field(offset_of!(Header, by_messages)) != 0,
            end: end(source),
            clocks_apart_ns: field(offset_of!(Header, clocks_apart_ns)),
            cpu_at_start: cpu(offset_of!(Header, cpu_at_start)),
            cpu_at_end: cpu(offset_of!(Header, cpu_at_end)),
            node_cpus: narrow(offset_of!(Header, node_cpus))?,
            cpu_quota: NonZero::new(field(offset_of!(Header, cpu_quota))),
            wildcards: Wildcards::from_words(std::array::from_fn(|which| {
                field(offset_of!(Header, wildcards) + which * 8)
            })),
            before: Moment {
                monotonic_ns: field(offset_of!(Header, before_monotonic_ns)),
                ticks: ticks(offset_of!(Header, before_ticks)),
            },
            last_ticks: ticks(offset_of!(Header, last_ticks)),
            program: Program::default(),
            communicators: Vec::new(),
            regions: Vec::new(),
            modules: Vec::new(),
            loaded: Vec::new(),
            sites: Vec::new(),
            paths: Vec::new(),
            counters: Vec::new(),
            callers: Some(BTreeSet::new()),
            lives: HashMap::new(),
            samples: HashMap::new(),
            orders: Orders::default(),
            active_calls: Vec::new(),
            last_returns: Vec::new(),
        };
        Ok((snapshot, field(offset_of!(Header, used))))
    }

    /// The threads that have made a recorded call, as many as lived at once: one that begins takes
    /// the slot of one that has ended. One that only began and ended MPI has made none.
    pub fn threads(&self) -> usize {
        match &self.callers {
            Some(callers) => {
                let counted = BTreeSet::from_iter(callers.iter().map(|(_, thread)| thread)).len();
                counted.max(self.active_calls.len())
            }
            None => self.active_calls.len() + self.last_returns.len(),
        }
    }

    /// The ticks until `end` in which a thread with that number lived; `None` if that is unknown.
    pub fn life_of(&self, thread: u64, end: Ticks) -> Option<Ticks> {
        let &[since, ended, ..] = self.lives.get(&thread)?;
        let lives = if since == Ticks::ZERO { Ticks::ZERO } else { end.saturating_sub(since) };
        Some(ended.saturating_add(lives))
    }

    /// The ticks until `end` in which the threads lived that called MPI, all together. Time in
    /// which none of them lived counts once, since the process ran: no less than one that lived
    /// throughout, and no more than all of [`Snapshot::threads`]. Whether the first thread lived
    /// beside others is not known: the longer of both counts. `None` if lives are unknown.
    pub fn thread_ticks(&self, end: Ticks) -> Option<Ticks> {
        let wall = end.saturating_sub(self.start_ticks);
        let threads = BTreeSet::from_iter(self.callers.as_ref()?.iter().map(|&(_, thread)| thread));
        let lives = threads.iter().map(|&thread| Some(self.life_of(thread, end)?.min(wall)));
        let lives: Vec<Ticks> = lives.collect::<Option<_>>()?;
        let lived = lives.iter().copied().fold(Ticks::ZERO, Ticks::saturating_add);
        let longest = lives.into_iter().max().unwrap_or_default();
        let without = wall.saturating_sub(self.ticks_with_later_threads(end).max(longest));
        let most = wall.get().saturating_mul(self.threads() as u64).max(wall.get());
        Some(lived.saturating_add(without).clamp(wall, Ticks::new(most)))
    }

    /// The ticks until `end` in which a thread lived at least of those that came later than the run
    /// began.
    fn ticks_with_later_threads(&self, end: Ticks) -> Ticks {
        let since = self.lives.values().map(|&[.., since]| since).filter(|&since| since != Ticks::ZERO).min();
        let open = since.map_or(Ticks::ZERO, |since| end.saturating_sub(since));
        self.lives.values().fold(open, |sum, &[_, _, covered, _]| sum.saturating_add(covered))
    }

    /// The ticks that these threads lived until `end`, of each `wall` at most.
    pub fn lived(&self, threads: impl IntoIterator<Item = u64>, wall: Ticks, end: Ticks) -> Option<Ticks> {
        threads.into_iter().try_fold(Ticks::ZERO, |sum, thread| {
            Some(sum.saturating_add(self.life_of(thread, end)?.min(wall)))
        })
    }

    /// When the process ended MPI; if it did not, its last sign of life: the last count or log
    /// record of a new kind, the begin of its current call, or the start plus the time in its
    /// calls, whichever is latest. It ran at least until then.
    pub fn last_known(&self) -> Moment {
        if let Some(end) = self.end {
            return end.moment;
        }
        let begun = self.active_calls.iter().map(|call| call.since).max();
        let mut ticks = self.last_ticks.max(self.start_ticks).max(begun.unwrap_or_default());
        // Calls of several threads at once may take more than the time that passed.
        if self.program.thread_level != "multiple" {
            let calls =
                self.counters.iter().filter(|(key, _)| matches!(key.meaning(), Some(Meaning::Call(_))));
            let in_calls = calls.map(|(_, values)| Ticks::new(values[call::TICKS]));
            let in_calls = in_calls.fold(Ticks::ZERO, Ticks::wrapping_add);
            ticks = ticks.max(self.start_ticks.saturating_add(in_calls));
        }
        let passed = ticks.saturating_sub(self.start_ticks).get() as f64 * self.ns_per_tick();
        Moment { monotonic_ns: self.start_monotonic_ns.saturating_add(passed as u64), ticks }
    }

    /// Measured between two moments around the start of the profiler, some hundred microseconds
    /// apart or more.
    pub fn ns_per_tick(&self) -> f64 {
        let ticks = self.start_ticks.saturating_sub(self.before.ticks).get();
        let ns = self.start_monotonic_ns.saturating_sub(self.before.monotonic_ns);
        if self.ticks_are_tsc && ticks > 0 && ns > 0 { ns as f64 / ticks as f64 } else { 1.0 }
    }

    fn read_chunks<S: Source + ?Sized>(
        &mut self,
        source: &S,
        end: usize,
        counters: bool,
    ) -> Result<(), ProfileError> {
        let mut at = HEADER_BYTES / 8;
        let mut last_caller = None;
        while at + CHUNK_HEADER_BYTES / 8 <= end {
            let field = |offset: usize| source.word(at + offset / 8);
            let words = usize::try_from(field(offset_of!(ChunkHeader, bytes)) / 8).unwrap_or(usize::MAX);
            if words < CHUNK_HEADER_BYTES / 8 || words > end - at {
                return Err(ProfileError::Segment {
                    why: format!("the chunk at byte {} says that it has {words} words", at * 8),
                });
            }
            let body = at + CHUNK_HEADER_BYTES / 8;
            let used = field(offset_of!(ChunkHeader, used));
            let room = at + words - body;
            match field(offset_of!(ChunkHeader, kind)) {
                COUNTERS | SAMPLES | ORDER if !counters => {}
                COUNTERS => {
                    let slots = usize::try_from(used).unwrap_or(usize::MAX).min(room * 8 / SLOT_BYTES);
                    self.counters.reserve(slots);
                    let writer = field(offset_of!(ChunkHeader, key));
                    for slot in (body..).step_by(SLOT_BYTES / 8).take(slots) {
                        self.read_slot(source.slot(slot), writer, &mut last_caller);
                    }
                }
                SAMPLES => {
                    let samples = usize::try_from(used).unwrap_or(usize::MAX).min(room / SAMPLE_WORDS);
                    let key = SlotKey(field(offset_of!(ChunkHeader, key)));
                    let is_message = matches!(key.meaning(), Some(Meaning::Stream(_)));
                    let sample = |at: usize| {
                        let word = |word| source.word(body + at * SAMPLE_WORDS + word);
                        Sample::from_words(std::array::from_fn(word), is_message)
                    };
                    self.samples.entry(key).or_default().extend((0..samples).map(sample));
                }
                ORDER => {
                    let words = (body..body + room).map(|index| source.word(index)).collect();
                    self.orders.add_chunk(field(offset_of!(ChunkHeader, key)), used, words);
                }
                LOG => {
                    let words = usize::try_from(used / 8).unwrap_or(usize::MAX).min(room);
                    let log: Vec<u64> = (body..body + words).map(|index| source.word(index)).collect();
                    self.replay(&log)?;
                }
                kind => {
                    let why = format!("the chunk at byte {} is of the unknown kind {kind}", at * 8);
                    return Err(ProfileError::Segment { why });
                }
            }
            at += words;
        }
        Ok(())
    }

    /// Adds a slot of a writer with this number. `last_caller` is the caller that was added last:
    /// most slots have the caller of the slot before.
    fn read_slot(
        &mut self,
        words: [u64; SLOT_WORDS],
        writer: u64,
        last_caller: &mut Option<(RegionId, u64)>,
    ) {
        const VALUES: usize = offset_of!(Slot, values) / 8;
        let values = &words[VALUES..];
        let key = SlotKey(words[offset_of!(Slot, key) / 8]);
        if key == SlotKey::ACTIVE_CALL {
            self.calls_since_sample =
                self.calls_since_sample.saturating_add(active_call::calls_since_sample(values));
            self.active_calls.extend(ActiveCall::from_values(values, &self.wildcards));
            self.last_returns.extend(active_call::last_return(values));
            return;
        }
        if key == SlotKey::LIVES {
            use layout::lives::{COVERED, COVERED_SINCE, ENDED, SINCE};
            let lives = [SINCE, ENDED, COVERED, COVERED_SINCE].map(|value| Ticks::new(values[value]));
            self.lives.insert(writer, lives);
            return;
        }
        let Some(meaning) = key.meaning() else { return };
        // What a thread completes for another may count at a call that it has not made.
        if let Meaning::Call(key) = meaning
            && values[call::CALLS].cast_signed() > 0
        {
            let caller = Some((key.region, writer));
            match &mut self.callers {
                Some(_) if *last_caller == caller => {}
                Some(callers) if writer != 0 => callers.extend(caller),
                callers => *callers = None,
            }
            *last_caller = caller;
        }
        let mut sum = [0; 6];
        add_values(meaning, &mut sum, values);
        self.counters.push((key, sum));
    }

    /// The identifiers of the call sites by their number, as far as they have one.
    pub fn site_ids(&self) -> Vec<Option<SiteId>> {
        self.sites.iter().map(|site| self.site_id(&site.code)).collect()
    }

    /// The operation of a call, and its site if that is known; `None` for one that no writer makes.
    pub fn operation_at(&self, at: OperationAtSite) -> Option<(Operation, Option<&Site>)> {
        match at.site_number() {
            None => Some((at.operation()?, None)),
            Some(number) => {
                let site = self.sites.get(number as usize)?;
                Some((site.operation, Some(site)))
            }
        }
    }

    /// The place to which the call in progress returns; `None` where that is not known, or in a
    /// binary from which no call was counted.
    pub fn code_of(&self, active: &ActiveCall) -> Option<Code> {
        let address = active.returns_to?.get();
        // The call may be the last instruction of its binary. What was loaded last is what was
        // there.
        let is_there = |loaded: &&Loaded| loaded.addresses.contains(&(address - 1));
        let loaded = self.loaded.iter().rev().find(is_there)?;
        Some(Code { module: loaded.module, offset: address.wrapping_sub(loaded.bias) })
    }

    /// The identifier of a place in the code.
    pub fn site_id(&self, code: &Code) -> Option<SiteId> {
        Some(match self.modules.get(code.module as usize)? {
            Module::Binary { path, build_id, layout } => SiteId::new(path, build_id, *layout, code.offset),
            Module::Function { file, name } => SiteId::of_line(file, name, code.offset),
        })
    }

    /// The identifier of a call path.
    pub fn path_id(&self, frames: &[Code]) -> Option<PathId> {
        let sites: Option<Vec<SiteId>> = frames.iter().map(|code| self.site_id(code)).collect();
        sites.map(PathId::new)
    }

    /// The rank of a communicator's process in `MPI_COMM_WORLD`, of an intercommunicator one of the
    /// other group; `None` if it is not listed, or of another world, or if the communicator is one
    /// of NCCL.
    pub fn world_rank_of(&self, communicator: CommId, peer: CommRank) -> Option<WorldRank> {
        let created = &self.communicators.get(communicator.index())?.created;
        if created.is_of_nccl() {
            return None;
        }
        match created.remote.as_ref().unwrap_or(&created.group).get(peer)? {
            WorldRank::OUTSIDE => None,
            WorldRank::ELIDED => {
                let key = PeerKey { communicator, peer }.pack();
                let rank_plus_1 = self.values_of(key)?[peer::WORLD_RANK_PLUS_1];
                let rank = WorldRank::new(u32::try_from(rank_plus_1.checked_sub(1)?).ok()?);
                rank.is_listed().then_some(rank)
            }
            rank => Some(rank),
        }
    }
}

/// The end of MPI, if the process has arrived there.
fn end<S: Source + ?Sized>(source: &S) -> Option<RunEnd> {
    let field = |offset: usize| source.word(offset / 8);
    (field(offset_of!(Header, state)) == layout::state::ARRIVED).then(|| RunEnd {
        moment: Moment {
            monotonic_ns: field(offset_of!(Header, end_monotonic_ns)),
            ticks: Ticks::new(field(offset_of!(Header, end_ticks))),
        },
        realtime_ns: field(offset_of!(Header, end_realtime_ns)),
    })
}

fn host<S: Source + ?Sized>(source: &S) -> String {
    let first = offset_of!(Header, host) / 8;
    let bytes: Vec<u8> = (first..first + HOST_BYTES / 8)
        .flat_map(|index| source.word(index).to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
