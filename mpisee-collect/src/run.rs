//! `run.json`: what is known of a run as a whole, from one rank and as sums over ranks.

use crate::RankTables;
use mpisee_profile::FORMAT_VERSION;
use mpisee_profile::run::{MpiInfo, ProfilerInfo, RunInfo, rfc3339};
use mpisee_profile::segment::layout::overhead;
use mpisee_profile::segment::membership::membership_sum;
use mpisee_profile::segment::snapshot::{End, Program};
use mpisee_profile::segment::{NotSeen, Snapshot};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The facts about the run that one rank has.
pub struct FirstRank {
    /// The program.
    pub program: Program,
    /// When recording began, nanoseconds since 1970, UTC.
    pub start_realtime_ns: u64,
    /// True if ticks are those of the time-stamp counter.
    pub ticks_are_tsc: bool,
    /// Nanoseconds that a recorded call of the simplest kind costs.
    pub call_ns: f64,
}

impl FirstRank {
    /// `run.json` of a complete run of `ranks` ranks on `nodes` nodes, without what is summed over ranks.
    pub fn run_info(self, ranks: u32, nodes: u32) -> RunInfo {
        let Program { command, library, flavour, thread_level, job, notes, variables, control, .. } =
            self.program;
        RunInfo {
            format_version: FORMAT_VERSION,
            mpisee_version: env!("CARGO_PKG_VERSION").to_owned(),
            mpi: MpiInfo { library, flavour, thread_level, variables, control },
            command,
            job,
            start: rfc3339(self.start_realtime_ns),
            ranks,
            nodes,
            complete: true,
            clock: if self.ticks_are_tsc { "tsc" } else { "monotonic" }.to_owned(),
            profiler: ProfilerInfo { call_ns: self.call_ns, ..ProfilerInfo::default() },
            notes,
            ..RunInfo::default()
        }
    }
}

/// Sums over ranks for `run.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSums {
    /// Calls not seen, by [`NotSeen`].
    pub not_seen: [u64; NotSeen::ALL.len()],
    /// Ranks that switched recording off for a part of the run.
    pub recording_was_off: u64,
    /// Ranks whose clock jumped.
    pub unsteady_clocks: u64,
    /// Wall time.
    pub wall_ns: u64,
    /// The time that recording took: the estimate, and the range in which it lies.
    pub profiler_ns: u64,
    /// See `profiler_ns`.
    pub profiler_low_ns: u64,
    /// See `profiler_ns`.
    pub profiler_high_ns: u64,
    /// Calls of which that was measured.
    pub sampled_calls: u64,
    /// The longest time that the profiler added to `MPI_Init`.
    pub init_ns: u64,
    /// When the last rank came to the end of MPI, nanoseconds since 1970, UTC; 0 if none did.
    pub last_end_ns: u64,
    /// The sum of [`membership_sum`], modulo 2^64.
    pub membership: u64,
}

impl RunSums {
    /// The header of a rank's segment alone; for the rest see [`RunSums::with_rows`].
    pub fn of_header(header: &Snapshot, end: Option<End>) -> RunSums {
        let mut not_seen = [0; NotSeen::ALL.len()];
        not_seen.iter_mut().zip(&header.not_seen).for_each(|(sum, &count)| *sum = count);
        RunSums {
            not_seen,
            recording_was_off: header.recording_was_off.into(),
            unsteady_clocks: end.is_some_and(|end| end.is_unsteady).into(),
            init_ns: header.overhead[overhead::INIT_NS],
            last_end_ns: end.map_or(0, |end| end.realtime_ns),
            ..RunSums::default()
        }
    }

    /// With what the rank's rows and its communicators add.
    pub fn with_rows(self, tables: &RankTables, snapshot: &Snapshot) -> RunSums {
        RunSums {
            wall_ns: tables.rank.wall_s.to_ns(),
            profiler_ns: tables.rank.profiler_s.to_ns(),
            profiler_low_ns: tables.overhead.low_s.to_ns(),
            profiler_high_ns: tables.overhead.high_s.to_ns(),
            sampled_calls: tables.overhead.samples,
            membership: membership_sum(snapshot),
            ..self
        }
    }

    /// Adds those of other ranks.
    pub fn add(&mut self, other: &RunSums) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        self.not_seen.iter_mut().zip(other.not_seen).for_each(|(sum, more)| add(sum, more));
        add(&mut self.recording_was_off, other.recording_was_off);
        add(&mut self.unsteady_clocks, other.unsteady_clocks);
        add(&mut self.wall_ns, other.wall_ns);
        add(&mut self.profiler_ns, other.profiler_ns);
        add(&mut self.profiler_low_ns, other.profiler_low_ns);
        add(&mut self.profiler_high_ns, other.profiler_high_ns);
        add(&mut self.sampled_calls, other.sampled_calls);
        self.init_ns = self.init_ns.max(other.init_ns);
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.membership = self.membership.wrapping_add(other.membership);
    }

    /// Fills in what `run.json` has about all ranks together. `collected` is how rows got into the files.
    pub fn fill(&self, run: &mut RunInfo, collected: &str) {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        run.recording_was_off = self.recording_was_off > 0;
        run.not_seen = NotSeen::named(&self.not_seen);
        let finalize_ns = now_ns().saturating_sub(self.last_end_ns);
        run.profiler = ProfilerInfo {
            call_ns: run.profiler.call_ns,
            init_s: seconds(self.init_ns),
            finalize_s: (collected != "recover" && self.last_end_ns > 0).then(|| seconds(finalize_ns)),
            time_s: seconds(self.profiler_ns),
            low_s: seconds(self.profiler_low_ns),
            high_s: seconds(self.profiler_high_ns),
            sampled_calls: self.sampled_calls,
            share_of_wall: if self.wall_ns > 0 {
                seconds(self.profiler_ns) / seconds(self.wall_ns)
            } else {
                0.0
            },
            collected: collected.to_owned(),
        };
        run.notes.extend(unsteady_clocks(self.unsteady_clocks));
    }
}

/// Nanoseconds since 1970, UTC.
fn now_ns() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |passed| passed.as_nanos() as u64)
}

/// A sentence on clocks, if some jumped.
fn unsteady_clocks(ranks: u64) -> Option<String> {
    (ranks > 0).then(|| {
        format!(
            "on {} the time-stamp counter jumped or did not keep pace with the monotonic clock, so that times there are \
             wrong; MPISEE_CLOCK=monotonic does without it",
            in_numbers(ranks)
        )
    })
}

/// `1 rank`, `4 ranks`.
pub fn in_numbers(ranks: u64) -> String {
    format!("{ranks} rank{}", if ranks == 1 { "" } else { "s" })
}

/// States why the profile is incomplete; without a reason it is complete.
pub fn set_incomplete(run: &mut RunInfo, because: impl IntoIterator<Item = String>) {
    let reasons: Vec<String> = because.into_iter().collect();
    run.complete = reasons.is_empty();
    run.incomplete_because = (!run.complete).then(|| reasons.join("; "));
}
