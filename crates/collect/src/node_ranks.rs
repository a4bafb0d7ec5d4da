//! The ranks of a world that have an active profiler on this node, by the segments that they keep.
//!
//! A profiler creates its segment before `MPI_Init`, which no rank leaves before all have entered
//! it: MPI does not guarantee that, but MPI libraries do so by default. So every rank that reads
//! them at the end of MPI finds the same ranks, without a message. Sessions begin without regard to
//! other processes: there a rank may end before another has begun, and waits briefly for as many as
//! the launcher starts on the node.

use crate::process;
use crate::segments::{HeaderRead, began_last, header_of, is_latest};
use mpisee_profile::WorldRank;
use mpisee_profile::segment::layout::state::{ARRIVED, STARTING};
use mpisee_profile::segment::{Snapshot, owner_of};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest wait for processes to begin, or to say which rank they are while they are in
/// `MPI_Init`.
const MOST_STARTING: Duration = Duration::from_secs(5);
/// Nanoseconds between the begin of two processes of one world.
const MOST_APART_NS: u64 = 60_000_000_000;
/// The pause between two looks at them.
const PAUSE: Duration = Duration::from_millis(1);

/// A rank with an active profiler.
#[derive(Debug)]
pub struct Entry {
    /// Its segment.
    pub path: PathBuf,
    /// Its header.
    pub header: Snapshot,
}

/// The ranks of one world on this node.
#[derive(Debug, Default)]
pub struct NodeRanks {
    /// The ranks in this process's PID namespace.
    pub entries: BTreeMap<WorldRank, Entry>,
    /// Ranks whose process ended without coming to the end of MPI, with the number of that process.
    pub ended: BTreeMap<WorldRank, u32>,
    /// Ranks that had counts before their process called `exec`, after which the library began
    /// anew: they are in segments of their own. With the number of the process.
    pub before_exec: BTreeMap<WorldRank, u32>,
    /// True if processes of another namespace, as in a container, may be of this world.
    pub has_foreign: bool,
    /// Why some segments could not be read, for lack of descriptors or memory: then ranks may be
    /// missing here.
    pub failure: Option<String>,
    /// True if processes of this job are still in `MPI_Init`.
    has_starting: bool,
    /// Processes of this job, in the order in which they were found.
    of_job: Vec<Entry>,
}

impl NodeRanks {
    /// Reads the segments in `directory` that are of the same world as `own`; waits briefly for
    /// processes that are still in `MPI_Init`, and until `least` ranks are there or have been.
    pub fn wait_for(directory: &Path, own: &Snapshot, user: u32, least: u32) -> NodeRanks {
        let begin = Instant::now();
        loop {
            let node_ranks = NodeRanks::now(directory, own, user);
            if !node_ranks.awaits(own, least) || begin.elapsed() > MOST_STARTING {
                return node_ranks;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns whether ranks are to be expected beyond those found. Without the own segment another
    /// rank has written the profile.
    fn awaits(&self, own: &Snapshot, least: u32) -> bool {
        let is_short = || {
            let found = self.entries.len() + self.ended.len();
            self.entries.contains_key(&own.world_rank) && !self.has_foreign && found < least as usize
        };
        self.has_starting || self.failure.is_none() && is_short()
    }

    /// As [`NodeRanks::wait_for`], without a wait.
    pub fn now(directory: &Path, own: &Snapshot, user: u32) -> NodeRanks {
        let mut node_ranks = NodeRanks::default();
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return NodeRanks { failure: resource_error(&error), ..node_ranks },
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let owner = path.file_name().and_then(|name| owner_of(name.to_str()?));
            let Some((_, pid)) = owner.filter(|&(owner, _)| owner == user) else { continue };
            match header_of(&path, user) {
                Ok(HeaderRead { header, .. }) if header.pid == pid => node_ranks.enter(own, path, header),
                Ok(_) => {}
                // Another program may have left a file with such a name in the folder.
                Err(why) => {
                    node_ranks.failure = why.downcast_ref().and_then(resource_error).or(node_ranks.failure)
                }
            }
        }
        node_ranks.sort_out(own, |path| Some(header_of(path, user).ok()?.header));
        node_ranks
    }

    fn enter(&mut self, own: &Snapshot, path: PathBuf, header: Snapshot) {
        if header.boot != own.boot {
            return;
        }
        if header.namespace != own.namespace {
            // Its job and liveness cannot be checked from here: it counts if it started about when
            // this process did.
            let apart_ns = header.start_realtime_ns.abs_diff(own.start_realtime_ns);
            self.has_foreign |= header.world_size == own.world_size && apart_ns < MOST_APART_NS;
            return;
        }
        if header.job == own.job {
            self.of_job.push(Entry { path, header });
        }
    }

    /// Tells the processes of the own world, those that have ended or are starting, and what they
    /// ran before. `read_again` gives the header of a segment as it is now.
    fn sort_out(&mut self, own: &Snapshot, read_again: impl Fn(&Path) -> Option<Snapshot>) {
        let of_job = std::mem::take(&mut self.of_job);
        let latest = began_last(of_job.iter().map(|entry| &entry.header));
        let mut candidates = Vec::new();
        for mut entry in of_job {
            let runs = |header: &Snapshot| process::runs(header.pid, header.process_start);
            let has_ended = entry.header.state != ARRIVED && !runs(&entry.header);
            if has_ended {
                // It may have arrived and ended since its header was read; without its segment
                // another rank has written the profile.
                let Some(header) = read_again(&entry.path) else { continue };
                entry.header = header;
            }
            let header = &entry.header;
            let is_of_size = header.world_size == own.world_size;
            if !is_latest(&latest, header) {
                self.before_exec.extend(is_of_size.then_some((header.world_rank, header.pid)));
            } else if header.state != ARRIVED && has_ended {
                self.ended.extend(is_of_size.then_some((header.world_rank, header.pid)));
            } else if header.state == STARTING {
                self.has_starting = true;
            } else if is_of_size {
                candidates.push(entry);
            }
        }
        self.entries = own_world(candidates, own.pid);
    }

    /// Ranks of this node, as the launcher reported to any of them; 0 if to none.
    pub fn local_size(&self) -> u32 {
        self.headers().map(|header| header.local_size).max().unwrap_or(0)
    }

    /// Returns whether any rank is to collect the profile by messages.
    pub fn wants_messages(&self) -> bool {
        self.headers().any(|header| header.by_messages)
    }

    /// Returns whether each of these ranks is at the end of MPI.
    pub fn has_arrived(&self) -> bool {
        !self.has_starting && self.headers().all(|header| header.state == ARRIVED)
    }

    fn headers(&self) -> impl Iterator<Item = &Snapshot> {
        self.entries.values().map(|entry| &entry.header)
    }
}

/// Of the ranks of a job those of the world that has the process `pid`. There may be others, which
/// MPICH 5's launcher starts for `MPI_Comm_spawn` with nothing to tell them apart, or which a
/// killed job of the same number has left. A launcher starts the ranks of a world on a node one
/// after the other, in their order: so a world begins where a rank is not above the last.
fn own_world(mut candidates: Vec<Entry>, pid: u32) -> BTreeMap<WorldRank, Entry> {
    let ranks: BTreeSet<WorldRank> = candidates.iter().map(|entry| entry.header.world_rank).collect();
    if ranks.len() < candidates.len() {
        candidates.sort_by_key(|entry| (entry.header.process_start, entry.header.pid));
        let is_next = |one: &Entry, next: &Entry| one.header.world_rank < next.header.world_rank;
        let mut from = 0;
        let own = candidates.chunk_by(is_next).find_map(|world| {
            let range = from..from + world.len();
            from = range.end;
            world.iter().any(|entry| entry.header.pid == pid).then_some(range)
        });
        candidates = candidates.drain(own.unwrap_or_default()).collect();
    }
    candidates.into_iter().map(|entry| (entry.header.world_rank, entry)).collect()
}

/// The error's text, if it is a lack of descriptors or memory.
fn resource_error(error: &std::io::Error) -> Option<String> {
    let wants = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().filter(|code| wants.contains(code)).map(|_| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::segment::layout::state::ACTIVE;
    use mpisee_profile::segment::words::{Owner, Words};

    /// Ranks as a launcher started them: process, when it was started, rank.
    fn ranks_of(started: &[(u32, u64, u32)], own: u32) -> Vec<(u32, u32)> {
        let entry = |&(pid, process_start, rank): &(u32, u64, u32)| {
            let words = Words::new(Owner { pid, host: "n", world_rank: rank, world_size: 3 });
            let (mut header, _) = Snapshot::read_header(words.words()).unwrap();
            header.process_start = process_start;
            Entry { path: PathBuf::new(), header }
        };
        let world = own_world(started.iter().map(entry).collect(), own);
        world.into_iter().map(|(rank, entry)| (rank.get(), entry.header.pid)).collect()
    }

    #[test]
    fn worlds_that_nothing_else_tells_apart_are_told_by_how_they_were_started() {
        // Two ranks of a first world, then two worlds in the same tick of the kernel's clock.
        let started = [(33, 7, 0), (31, 7, 0), (20, 5, 1), (34, 7, 1), (19, 5, 0), (32, 7, 1)];
        assert_eq!(ranks_of(&started, 20), [(0, 19), (1, 20)]);
        assert_eq!(ranks_of(&started, 31), [(0, 31), (1, 32)]);
        assert_eq!(ranks_of(&started, 34), [(0, 33), (1, 34)]);
    }

    #[test]
    fn a_rank_that_arrived_and_ended_since_it_was_read_has_arrived() {
        let header = |rank: u32, state| {
            // No process has this number.
            let words = Words::new(Owner { pid: u32::MAX >> 1, host: "n", world_rank: rank, world_size: 3 });
            let (mut header, _) = Snapshot::read_header(words.words()).unwrap();
            header.state = state;
            header
        };
        let path = |rank: u32| PathBuf::from(rank.to_string());
        let of_job = (0..3).map(|rank| Entry { path: path(rank), header: header(rank, ACTIVE) }).collect();
        let mut ranks = NodeRanks { of_job, ..NodeRanks::default() };
        ranks.sort_out(&header(1, ACTIVE), |at| match at {
            at if at == path(0) => Some(header(0, ARRIVED)),
            at if at == path(2) => Some(header(2, ACTIVE)),
            _ => None,
        });
        let numbers = |ranks: Vec<WorldRank>| ranks.into_iter().map(WorldRank::get).collect::<Vec<_>>();
        assert_eq!(numbers(ranks.entries.into_keys().collect()), [0]);
        assert_eq!(numbers(ranks.ended.into_keys().collect()), [2]);
    }

    #[test]
    fn ranks_of_one_world_may_be_started_in_any_order() {
        assert_eq!(ranks_of(&[(5, 1, 2), (6, 1, 0), (7, 2, 1)], 6), [(0, 6), (1, 7), (2, 5)]);
    }
}
