//! The layout of a segment's words. Increment [`VERSION`] on any change, but for a use of words
//! that were zero before, where zero says that nothing is known.

use std::sync::atomic::AtomicU64;

/// The first word of a segment, written last when it is made.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mpisee\0\x01");
/// Version of the layout.
pub const VERSION: u64 = 25;
/// Bytes of a host name, the most that Linux allows; a shorter one is padded with zeros.
pub const HOST_BYTES: usize = 64;

/// The begin of a segment.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// `Operation::fingerprint()` of the writer.
    pub operations: AtomicU64,
    /// The process.
    pub pid: AtomicU64,
    /// Rank in `MPI_COMM_WORLD`.
    pub world_rank: AtomicU64,
    /// Size of `MPI_COMM_WORLD`.
    pub world_size: AtomicU64,
    /// 1 if ticks are those of the time-stamp counter, 0 if they are nanoseconds.
    pub ticks_are_tsc: AtomicU64,
    /// When recording began, nanoseconds since 1970, UTC.
    pub start_realtime_ns: AtomicU64,
    /// The same moment on the monotonic clock.
    pub start_monotonic_ns: AtomicU64,
    /// The same moment in ticks.
    pub start_ticks: AtomicU64,
    /// Bytes in use, a multiple of 64, header included.
    pub used: AtomicU64,
    /// Bytes of these that are in the file; the rest went to private memory when there was no room.
    pub shared: AtomicU64,
    /// How often recording was switched: odd while it is off.
    pub switches: AtomicU64,
    /// Calls not seen, by [`super::NotSeen`].
    pub not_seen: [AtomicU64; 17],
    /// The host's name, padded with zeros.
    pub host: [AtomicU64; HOST_BYTES / 8],
    /// The costs of recording on this machine, see [`overhead`].
    pub overhead: [AtomicU64; 6],
    /// A number shared by the processes of one world, and by no others.
    pub job: AtomicU64,
    /// When the process was started, in ticks of the kernel since the system was.
    pub process_start: AtomicU64,
    /// A hash of the system's boot id.
    pub boot: AtomicU64,
    /// The number of the process's PID namespace, pid_namespaces(7).
    pub namespace: AtomicU64,
    /// A moment before recording began, on the monotonic clock: with the begin it gives the length
    /// of a tick.
    pub before_monotonic_ns: AtomicU64,
    /// The same moment in ticks.
    pub before_ticks: AtomicU64,
    /// When a key was last counted, or a record logged, for the first time, in ticks.
    pub last_ticks: AtomicU64,
    /// State of the process, see [`state`].
    pub state: AtomicU64,
    /// Ranks of this node, as the launcher reports; 0 if it does not.
    pub local_size: AtomicU64,
    /// 1 if the ranks are to collect the profile by messages, see [`crate::options::Collect`].
    pub by_messages: AtomicU64,
    /// The begin of `MPI_Finalize`, nanoseconds since 1970, UTC; this and the next two once the
    /// process has arrived.
    pub end_realtime_ns: AtomicU64,
    /// The same moment on the monotonic clock.
    pub end_monotonic_ns: AtomicU64,
    /// The same moment in ticks.
    pub end_ticks: AtomicU64,
    /// Nanoseconds by which the time-stamp counter and the monotonic clock disagreed at most; 0
    /// while they agree.
    pub clocks_apart_ns: AtomicU64,
    /// The time that recording took of some calls, see [`sampled`].
    pub sampled: [AtomicU64; 6],
    /// CPUs of the node that are online; 0 if that is unknown.
    pub node_cpus: AtomicU64,
    /// The CPU quota of the process's cgroup, in thousandths of a core; 0 if there is none.
    pub cpu_quota: AtomicU64,
    /// CPU use of the process when recording began, see [`cpu`].
    pub cpu_at_start: [AtomicU64; cpu::WORDS],
    /// The same at the end of MPI; zeros before.
    pub cpu_at_end: [AtomicU64; cpu::WORDS],
    /// The constants of its MPI that stand for no rank or no tag, see
    /// [`super::awaited::Wildcards`].
    pub wildcards: [AtomicU64; 3],
    /// A [`super::switch_request::SwitchRequest`] of another process, or 0.
    pub switch_request: AtomicU64,
    /// The last request that this process has followed.
    pub followed_switch_request: AtomicU64,
    /// How often another process has asked for a reading of MPI's variables.
    pub variables_asked: AtomicU64,
    /// As that was when they were read for the last time.
    pub variables_read: AtomicU64,
    /// The process that `mpisee` became, this one or an ancestor of it; 0 if that is unknown.
    pub program: AtomicU64,
    spare: [AtomicU64; 6],
}

/// Values of [`Header::state`].
pub mod state {
    /// About to call `MPI_Init`; nothing but the fields that identify the process is set.
    pub const STARTING: u64 = 1;
    /// Recording, or tracking.
    pub const ACTIVE: u64 = 2;
    /// At the end of MPI, with all that it counted in the segment.
    pub const ARRIVED: u64 = 3;
}

/// Bytes of the header.
pub const HEADER_BYTES: usize = 768;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

/// The begin of a chunk.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct ChunkHeader {
    /// [`COUNTERS`], [`LOG`], [`SAMPLES`] or [`ORDER`].
    pub kind: AtomicU64,
    /// Bytes of the chunk, this header included; a multiple of 64.
    pub bytes: AtomicU64,
    /// Slots, bytes of log, samples, or what [`super::order`] says of a part, that are complete.
    pub used: AtomicU64,
    /// Of a chunk of samples, the key of the slot that counts the instances or the messages. Of a
    /// part of an order, see [`super::order::Part::key`]. Of a chunk of slots, a number that it
    /// shares with the other chunks of its writer alone, as one thread is; 0 if that is unknown.
    pub key: AtomicU64,
    spare: [AtomicU64; 4],
}

/// Bytes of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 64;
const _: () = assert!(size_of::<ChunkHeader>() == CHUNK_HEADER_BYTES);

/// A chunk of slots.
pub const COUNTERS: u64 = 1;
/// A chunk of log records.
pub const LOG: u64 = 2;
/// A chunk of sampled instances of one collective operation, see [`super::instances`].
pub const SAMPLES: u64 = 3;
/// A chunk of the order of a thread's steps, see [`super::order`].
pub const ORDER: u64 = 4;

/// A key, and what is counted under it.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Slot {
    /// A [`super::SlotKey`]; written before the slot counts as used.
    pub key: AtomicU64,
    /// Odd while the values change.
    pub sequence: AtomicU64,
    /// Their meaning depends on the key: see [`call`], [`poll_error`], [`path`], [`peer`],
    /// [`region`], [`shared_row`], [`variable`], [`super::active_call`], [`super::instances`].
    pub values: [AtomicU64; 6],
}

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 64;
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);

/// Values of a slot that counts calls; ticks are elapsed time. Sums wrap, so that one thread may
/// take away what another added; only the sum over threads is meaningful.
pub mod call {
    /// Calls.
    pub const CALLS: usize = 0;
    /// Bytes.
    pub const BYTES: usize = 1;
    /// Ticks in all calls.
    pub const TICKS: usize = 2;
    /// Ticks of the shortest call, plus 1; 0 if there was none.
    pub const SHORTEST_PLUS_1: usize = 3;
    /// Ticks of the longest call.
    pub const LONGEST: usize = 4;
    /// The address to which the last call returned, by which its thread recognises the site;
    /// without meaning to others.
    pub const RETURNS_TO: usize = 5;
}

/// Values of a slot that has the error of the time of polls: most of those that repeat are counted
/// and not timed.
pub mod poll_error {
    /// Polls that were counted in the row and not timed.
    pub const UNTIMED: usize = 0;
    /// The variance of their time, in ticks squared.
    pub const VARIANCE: usize = 1;
    /// The sum of errors that may all have one sign, in ticks.
    pub const DOUBT: usize = 2;
}

/// Indices into [`Header::overhead`].
pub mod overhead {
    /// Ticks of a thousand calls, beyond those of the calls to MPI.
    pub const THOUSAND_CALLS: usize = 0;
    /// Ticks of a thousand messages that are counted for their peer, beyond those of the calls.
    pub const THOUSAND_MESSAGES: usize = 1;
    /// Ticks of a thousand requests that are started and completed, beyond those of the calls.
    pub const THOUSAND_REQUESTS: usize = 2;
    /// Ticks so far that went into naming communicators.
    pub const NAMING: usize = 3;
    /// Nanoseconds that the profiler added to `MPI_Init`.
    pub const INIT_NS: usize = 4;
    /// Ticks so far that went into what is rare, and measured each time: taking call paths, finding
    /// call sites, and measuring calls.
    pub const RARE: usize = 5;
}

/// Indices into [`Header::sampled`]: what calls took that were measured, one of some, between the
/// begin of recording and the call to MPI, and between that and the end of recording. Ticks may be
/// negative: what measuring itself takes is subtracted.
pub mod sampled {
    /// Calls for which a measured one stands at first, on average: few, so that short programs have
    /// some. The number doubles as calls are measured, up to about a thousand.
    pub const FIRST_STANDS_FOR: u64 = 16;
    /// Measured calls from one doubling to the next.
    pub const MEASURED_PER_DOUBLING: u64 = 8;
    /// Doublings at most.
    pub const DOUBLINGS: u64 = 6;

    /// The calls for which the next measured one stands, on average.
    #[must_use]
    pub const fn stands_for(measured: u64) -> u64 {
        let doublings = measured / MEASURED_PER_DOUBLING;
        FIRST_STANDS_FOR << if doublings < DOUBLINGS { doublings } else { DOUBLINGS }
    }

    /// Calls that were measured.
    pub const SAMPLES: usize = 0;
    /// Calls for which they stand.
    pub const CALLS: usize = 1;
    /// Ticks of these.
    pub const TICKS: usize = 2;
    /// The sum of the squares of a call's ticks over these, or `u64::MAX` where it is larger.
    pub const SQUARES: usize = 3;
    /// Ticks of these that no clock can show, as they pass before recording begins or overlap with
    /// MPI: those of as many cache lines and pages which were touched in the call before, too.
    pub const HIDDEN_TICKS: usize = 4;
    /// All calls up to the last that was to be measured, with those for which the measure failed.
    pub const ALL_CALLS: usize = 5;
}

/// Indices into [`Header::cpu_at_start`] and [`Header::cpu_at_end`]: what the process used since it
/// was started.
pub mod cpu {
    /// Words of a reading.
    pub const WORDS: usize = 8;
    /// Microseconds on a core outside of the kernel, by all threads.
    pub const USER_US: usize = 0;
    /// Microseconds in the kernel.
    pub const SYSTEM_US: usize = 1;
    /// Nanoseconds, plus 1, in which threads that have not ended were ready to run and had no core;
    /// 0 if that is unknown.
    pub const WAIT_NS_PLUS_1: usize = 2;
    /// Times that the kernel took the core from a thread that was not done.
    pub const INVOLUNTARY_SWITCHES: usize = 3;
    /// Times that a thread gave up its core to wait.
    pub const VOLUNTARY_SWITCHES: usize = 4;
    /// Page faults that the kernel served from memory.
    pub const MINOR_FAULTS: usize = 5;
    /// Page faults for which the kernel read from a disk.
    pub const MAJOR_FAULTS: usize = 6;
    /// Nanoseconds that the reading took, plus 1; 0 if nothing was read. Written last.
    pub const READING_NS_PLUS_1: usize = 7;
}

/// Values of a slot that counts calls of a call path.
pub mod path {
    /// Calls.
    pub const CALLS: usize = 0;
    /// Ticks in all of them.
    pub const TICKS: usize = 1;
}

/// Values of a slot that counts how long the GPU worked on calls of NCCL, see
/// [`super::key::GpuTimeKey`].
pub mod gpu_time {
    /// Calls that were timed.
    pub const CALLS: usize = 0;
    /// Bytes of these.
    pub const BYTES: usize = 1;
    /// Nanoseconds of all of them.
    pub const NS: usize = 2;
    /// Nanoseconds of the shortest, plus 1; 0 if there was none.
    pub const SHORTEST_NS_PLUS_1: usize = 3;
    /// Nanoseconds of the longest.
    pub const LONGEST_NS: usize = 4;
    /// Calls that were not timed.
    pub const UNTIMED: usize = 5;
}

/// Values of a slot that counts messages.
pub mod peer {
    /// Messages sent.
    pub const SENT_MESSAGES: usize = 0;
    /// Bytes sent.
    pub const SENT_BYTES: usize = 1;
    /// Messages received.
    pub const RECEIVED_MESSAGES: usize = 2;
    /// Bytes received.
    pub const RECEIVED_BYTES: usize = 3;
    /// For a communicator with elided members: the peer's rank in `MPI_COMM_WORLD` plus 1, or
    /// [`crate::WorldRank::OUTSIDE`] plus 1 if it has none. Written before the slot counts as used;
    /// else 0.
    pub const WORLD_RANK_PLUS_1: usize = 4;
}

/// Values of a slot that counts one-sided operations on the memory of a target;
/// [`peer::WORLD_RANK_PLUS_1`] has the same place.
pub mod target {
    /// Puts.
    pub const PUTS: usize = 0;
    /// Bytes of puts.
    pub const PUT_BYTES: usize = 1;
    /// Gets.
    pub const GETS: usize = 2;
    /// Bytes of gets.
    pub const GET_BYTES: usize = 3;
    /// Accumulations, in a slot of kind [`crate::segment::OneSidedKind::Accumulates`].
    pub const ACCUMULATES: usize = 0;
    /// Bytes of accumulations.
    pub const ACCUMULATE_BYTES: usize = 1;
}

/// Values of a slot that counts the communicators of one row, see
/// [`super::log::Record::SharedRow`].
pub mod shared_row {
    /// Communicators that this process was part of.
    pub const CREATED: usize = 0;
    /// The number of them that the application freed.
    pub const FREED: usize = 1;
    /// The number of them that this process reports, as the first member does.
    pub const REPORTED: usize = 2;
}

/// Values of the slot of a thread's state, which one thread after the other uses. A thread lives
/// from its first recorded call on.
pub mod lives {
    /// Ticks when the thread that has the state made its first call; 0 if none has it.
    pub const SINCE: usize = 0;
    /// Ticks that the threads before it lived.
    pub const ENDED: usize = 1;
    /// Ticks of stretches in which a thread lived at each moment, and which ended with one that had
    /// the state. Threads that live from the begin of the run on are left out.
    pub const COVERED: usize = 2;
    /// Ticks when the stretch began in which the thread that has the state lives; 0 if none has it,
    /// and of one that lives from the begin of the run on.
    pub const COVERED_SINCE: usize = 3;
}

/// Values of a slot that counts a region.
pub mod region {
    /// Entries.
    pub const ENTRIES: usize = 0;
    /// Ticks between begins and ends.
    pub const TICKS: usize = 1;
    /// Ticks when it began, while it is open; else 0.
    pub const OPEN_SINCE: usize = 2;
    /// Microseconds on cores between begins and ends, by all threads.
    pub const CPU_US: usize = 3;
    /// Times that a thread lost its core to another meanwhile.
    pub const INVOLUNTARY_SWITCHES: usize = 4;
}

/// Values of a slot of one of MPI's variables in a region, which one thread at a time writes; all
/// but [`READINGS`](variable::READINGS) and [`LAST`](variable::LAST) are bits of an `f64`.
pub mod variable {
    /// Readings.
    pub const READINGS: usize = 0;
    /// The value at the last of them.
    pub const VALUE: usize = 1;
    /// By how much it grew while the program was in the region; of a class that grows.
    pub const DELTA: usize = 2;
    /// The value at the last reading that another process requested; of a class that does not grow.
    pub const REQUESTED_VALUE: usize = 2;
    /// The smallest value.
    pub const LEAST: usize = 3;
    /// The largest value.
    pub const MOST: usize = 4;
    /// The [`Last`] reading.
    pub const LAST: usize = 5;

    /// The place of the last reading in a region among those of the process in all regions, which a
    /// reader compares to find the latest value.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Last {
        /// The number of the last reading, from 1.
        pub reading: u64,
        /// The number, from 1 and among those alone, of the last reading that another process
        /// requested; 0 if none was.
        pub requested: u64,
    }

    const READING_BITS: u32 = 40;

    impl Last {
        /// As a word.
        pub fn bits(self) -> u64 {
            self.requested << READING_BITS | self.reading & ((1 << READING_BITS) - 1)
        }

        /// From a word.
        pub fn from_bits(bits: u64) -> Last {
            Last { reading: bits & ((1 << READING_BITS) - 1), requested: bits >> READING_BITS }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::variable::Last;

    #[test]
    fn the_last_reading_fits_into_a_word() {
        for last in [(0, 0), (7, 0), (1 << 39, (1 << 24) - 1)] {
            let last = Last { reading: last.0, requested: last.1 };
            assert_eq!(Last::from_bits(last.bits()), last);
        }
    }
}
