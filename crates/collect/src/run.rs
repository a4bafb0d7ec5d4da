//! `run.json`: what is known of a run as a whole, from one rank and as sums over ranks.

use crate::RankTables;
use crate::form::Form;
use mpisee_profile::FORMAT_VERSION;
use mpisee_profile::run::{ClocksApart, MpiInfo, ProfilerInfo, RunInfo, SwitchInfo, rfc3339};
use mpisee_profile::segment::layout::overhead;
use mpisee_profile::segment::membership::membership_sum;
use mpisee_profile::segment::snapshot::{Program, RunEnd};
use mpisee_profile::segment::switch_request::{FollowedRequest, SwitchRequest};
use mpisee_profile::segment::{NotSeen, Snapshot};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The facts about the run that one rank has.
pub struct FirstRank {
    /// The program.
    pub program: Program,
    /// The number that the processes of the world share.
    pub world_id: u64,
    /// When recording began, nanoseconds since 1970, UTC.
    pub start_realtime_ns: u64,
    /// True if ticks are those of the time-stamp counter.
    pub ticks_are_tsc: bool,
    /// Nanoseconds that a recorded call of the simplest kind costs.
    pub call_ns: f64,
}

impl FirstRank {
    /// `run.json` of a complete run of `ranks` ranks on `nodes` nodes, without what is summed over
    /// ranks.
    pub fn run_info(self, ranks: u32, nodes: u32) -> RunInfo {
        let Program { command, library, flavour, thread_level, job, notes, variables, control, .. } =
            self.program;
        RunInfo {
            format_version: FORMAT_VERSION,
            mpisee_version: env!("CARGO_PKG_VERSION").to_owned(),
            mpi: MpiInfo { library, flavour, thread_level, variables, control },
            command,
            job,
            world_id: Some(format!("{:x}", self.world_id)),
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSums {
    /// Calls not seen, by [`NotSeen`].
    pub not_seen: [u64; NotSeen::ALL.len()],
    /// Ranks that switched recording off for a part of the run.
    pub recording_was_off: u64,
    /// Ranks whose clock jumped.
    pub clocks_apart: u64,
    /// Nanoseconds by which the clocks of a rank disagreed at most.
    pub most_apart_ns: u64,
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
    /// The first hundred requests to switch recording that ranks have followed, in the order in
    /// which they were made.
    pub switches: Vec<SwitchSums>,
    /// Sentences on single ranks, with the rank: the first ones in its order.
    pub notes_of_ranks: Vec<(u32, String)>,
    /// How many there are of all ranks.
    pub notes_of_ranks_count: u64,
}

/// Requests to switch recording that `run.json` has.
const MOST_SWITCHES: usize = 100;

/// Sentences on single ranks that `run.json` has.
const MOST_NOTES_OF_RANKS: usize = 16;

/// A request to switch recording, and the ranks that have followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSums {
    /// When it was made, nanoseconds since 1970, UTC.
    asked_ns: u64,
    on: bool,
    ranks: u64,
    /// When the first rank followed it, in nanoseconds since that rank began to record.
    first_ns: u64,
    /// The same of the last rank.
    last_ns: u64,
}

impl SwitchSums {
    fn from_snapshot(snapshot: &Snapshot, followed: FollowedRequest) -> SwitchSums {
        let FollowedRequest { request: SwitchRequest { on, asked_ns }, at_ns } = followed;
        let since_start_ns = at_ns.saturating_sub(snapshot.start_realtime_ns);
        SwitchSums { asked_ns, on, ranks: 1, first_ns: since_start_ns, last_ns: since_start_ns }
    }

    fn info(self) -> SwitchInfo {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        SwitchInfo {
            on: self.on,
            asked: rfc3339(self.asked_ns),
            ranks: self.ranks,
            first_s: seconds(self.first_ns),
            last_s: seconds(self.last_ns),
        }
    }
}

impl RunSums {
    /// The header of a rank's segment alone; for the rest see [`RunSums::with_rows`].
    pub fn of_header(header: &Snapshot, end: Option<RunEnd>) -> RunSums {
        let mut not_seen = [0; NotSeen::ALL.len()];
        not_seen.iter_mut().zip(&header.not_seen).for_each(|(sum, &count)| *sum = count);
        RunSums {
            not_seen,
            recording_was_off: header.recording_was_off.into(),
            clocks_apart: (header.clocks_apart_ns > 0).into(),
            most_apart_ns: header.clocks_apart_ns,
            init_ns: header.overhead[overhead::INIT_NS],
            last_end_ns: end.map_or(0, |end| end.realtime_ns),
            ..RunSums::default()
        }
    }

    /// With what the rank's rows and its communicators add.
    pub fn with_rows<F: Form>(self, tables: &RankTables<F>, snapshot: &Snapshot) -> RunSums {
        RunSums {
            wall_ns: tables.rank.wall_s.to_ns(),
            profiler_ns: tables.rank.profiler_s.to_ns(),
            profiler_low_ns: tables.overhead.low_s.to_ns(),
            profiler_high_ns: tables.overhead.high_s.to_ns(),
            sampled_calls: tables.overhead.samples,
            membership: membership_sum(snapshot),
            notes_of_ranks: snapshot
                .program
                .notes_of_rank
                .iter()
                .take(MOST_NOTES_OF_RANKS)
                .map(|note| (tables.rank.rank, note.clone()))
                .collect(),
            notes_of_ranks_count: snapshot.program.notes_of_rank.len() as u64,
            switches: snapshot
                .program
                .followed_requests
                .iter()
                .take(MOST_SWITCHES)
                .map(|&followed| SwitchSums::from_snapshot(snapshot, followed))
                .collect(),
            ..self
        }
    }

    /// Adds those of other ranks.
    pub fn add(&mut self, other: &RunSums) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        self.not_seen.iter_mut().zip(other.not_seen).for_each(|(sum, more)| add(sum, more));
        add(&mut self.recording_was_off, other.recording_was_off);
        add(&mut self.clocks_apart, other.clocks_apart);
        self.most_apart_ns = self.most_apart_ns.max(other.most_apart_ns);
        add(&mut self.wall_ns, other.wall_ns);
        add(&mut self.profiler_ns, other.profiler_ns);
        add(&mut self.profiler_low_ns, other.profiler_low_ns);
        add(&mut self.profiler_high_ns, other.profiler_high_ns);
        add(&mut self.sampled_calls, other.sampled_calls);
        self.init_ns = self.init_ns.max(other.init_ns);
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.membership = self.membership.wrapping_add(other.membership);
        other.switches.iter().for_each(|switch| self.add_switch(switch));
        self.notes_of_ranks.extend_from_slice(&other.notes_of_ranks);
        self.notes_of_ranks.sort();
        self.notes_of_ranks.truncate(MOST_NOTES_OF_RANKS);
        add(&mut self.notes_of_ranks_count, other.notes_of_ranks_count);
    }

    fn add_switch(&mut self, more: &SwitchSums) {
        let of = |switch: &SwitchSums| (switch.asked_ns, switch.on);
        match self.switches.binary_search_by_key(&of(more), of) {
            Ok(known) => {
                let known = &mut self.switches[known];
                known.ranks = known.ranks.saturating_add(more.ranks);
                known.first_ns = known.first_ns.min(more.first_ns);
                known.last_ns = known.last_ns.max(more.last_ns);
            }
            Err(place) if place < MOST_SWITCHES => {
                self.switches.insert(place, *more);
                self.switches.truncate(MOST_SWITCHES);
            }
            Err(_) => {}
        }
    }

    /// Fills in what `run.json` has about all ranks together. `collected` is how rows got into the
    /// files.
    pub fn fill(&self, run: &mut RunInfo, collected: &str) {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        run.recording_was_off = self.recording_was_off > 0;
        run.switches = self.switches.iter().map(|switch| switch.info()).collect();
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
        run.clocks_apart = (self.clocks_apart > 0)
            .then(|| ClocksApart { ranks: self.clocks_apart, most_s: seconds(self.most_apart_ns) });
        run.notes.extend(run.clock_sentence());
        run.notes.extend(self.notes_of_ranks.iter().map(|(_, note)| note.clone()));
        let more = self.notes_of_ranks_count.saturating_sub(self.notes_of_ranks.len() as u64);
        run.notes.extend((more > 0).then(|| format!("of other ranks there are {more} more such sentences")));
    }
}

/// Nanoseconds since 1970, UTC.
fn now_ns() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |passed| passed.as_nanos() as u64)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(switches: &[(u64, bool, u64)]) -> RunSums {
        let of = |&(asked_ns, on, at_ns): &(u64, bool, u64)| SwitchSums {
            asked_ns,
            on,
            ranks: 1,
            first_ns: at_ns,
            last_ns: at_ns,
        };
        RunSums { switches: switches.iter().map(of).collect(), ..RunSums::default() }
    }

    #[test]
    fn ranks_that_followed_the_same_request_are_counted_together() {
        let mut all = sums(&[(40, false, 45)]);
        all.add(&sums(&[(20, true, 25), (40, false, 43)]));
        all.add(&sums(&[(20, true, 22), (40, false, 50)]));
        let found: Vec<_> =
            all.switches.iter().map(|it| (it.asked_ns, it.ranks, it.first_ns, it.last_ns)).collect();
        assert_eq!(found, [(20, 2, 22, 25), (40, 3, 43, 50)]);
    }

    #[test]
    fn sentences_on_ranks_are_of_the_first_ranks_in_whatever_order_they_come() {
        let of_rank = |rank: u32| RunSums {
            notes_of_ranks: vec![(rank, format!("rank {rank} has something"))],
            notes_of_ranks_count: 1,
            ..RunSums::default()
        };
        let mut all = RunSums::default();
        (1..=20).rev().for_each(|rank| all.add(&of_rank(rank)));
        let mut run = RunInfo::default();
        all.fill(&mut run, "tree");
        assert_eq!(run.notes.len(), MOST_NOTES_OF_RANKS + 1);
        assert_eq!(run.notes[0], "rank 1 has something");
        assert_eq!(run.notes[MOST_NOTES_OF_RANKS], "of other ranks there are 4 more such sentences");
    }

    #[test]
    fn of_many_requests_the_first_are_kept() {
        let many: Vec<_> = (1..=2 * MOST_SWITCHES as u64).map(|at| (2 * at, at % 2 == 0, 2 * at)).collect();
        let mut all = RunSums::default();
        many.chunks(1).rev().for_each(|one| all.add(&sums(one)));
        assert_eq!(all.switches, sums(&many[..MOST_SWITCHES]).switches);
    }
}
