//! The ranks of a job on this node, followed by their segments, and what they did since the last
//! reading.

use super::variables::{self, Variables};
use crate::timeline::history::{History, NodeRate, Rate};
use crate::units::count;
use anyhow::Result;
use hashbrown::{HashMap, HashSet};
use mpisee_collect::process;
use mpisee_collect::segments::{CallSums, Followed, Segment, SegmentControl};
use mpisee_profile::Ticks;
use mpisee_profile::rows::Cpus;
use mpisee_profile::segment::snapshot::Program;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Names of calls that are told apart on a node; of what comes later, families are not.
const MOST_NAMES: usize = 4096;
/// The family of what comes later.
const OTHERS: &str = "(others)";

/// A rank.
struct Rank {
    path: PathBuf,
    followed: Followed,
    /// The process, if the kernel has descriptors of processes (Linux 5.3).
    process: Option<OwnedFd>,
    has_ended: bool,
    /// When that was seen.
    ended: Option<Instant>,
    variables: Variables,
    /// By row of `followed`: the number of its name, and the sums that are in rates already.
    rows: Vec<(u32, Counted)>,
    /// The rows in the order of their names: a process may have several communicators of a family.
    by_name: Vec<u32>,
}

/// Sums of a row that are in rates.
///
/// PERF: without what is only of the moment, since those of all ranks come from memory at each
/// reading.
#[derive(Clone, Copy, Default)]
struct Counted {
    calls: u64,
    bytes: u64,
    ticks: u64,
}

/// The ranks of a job on this node.
#[derive(Default)]
pub struct Ranks {
    ranks: Vec<Rank>,
    known: HashSet<PathBuf>,
    /// A hash of the boot id of this node.
    boot: Option<u64>,
    /// True if another agent reads one of them.
    pub are_of_another: bool,
    /// The ranks that could not be read, and why.
    pub notes: Vec<String>,
    /// By number of a name, in the interval.
    rates: Vec<Rate>,
    /// Counts of MPI's variables in it, by the number of the quantity.
    counted: HashMap<u32, f64>,
}

impl Ranks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// The number of ranks whose processes run.
    pub fn running(&self) -> usize {
        self.ranks.iter().filter(|rank| !rank.has_ended).count()
    }

    /// The number of running ranks whose recording was off at the last reading.
    pub fn unrecorded(&self) -> usize {
        self.ranks.iter().filter(|rank| !rank.has_ended && rank.followed.is_off()).count()
    }

    /// The begin of recording of the rank that began first, nanoseconds since 1970, and on the
    /// monotonic clock.
    pub fn start_ns(&self) -> Option<(u64, u64)> {
        let starts = self.ranks.iter().map(|rank| rank.followed.process());
        starts.map(|process| (process.start_realtime_ns, process.start_monotonic_ns)).min()
    }

    /// The program of the first rank that is read.
    pub fn program(&self) -> Option<&Program> {
        self.ranks.first().map(|rank| &rank.followed.process().program)
    }

    /// Has the next reading count all from the begin of the job.
    pub fn forget_counts(&mut self) {
        for (_, before) in self.ranks.iter_mut().flat_map(|rank| &mut rank.rows) {
            *before = Counted::default();
        }
        self.ranks.iter_mut().for_each(|rank| rank.variables.begin());
        self.counted.clear();
    }

    /// Leaves out of the next reading what MPI's variables had counted when an earlier agent read
    /// them, by the number of the quantity.
    pub fn leave_out(&mut self, counted: impl Iterator<Item = (u32, f64)>) {
        self.counted.extend(counted.map(|(quantity, value)| (quantity, -value)));
    }

    /// Returns whether the job reads variables of MPI.
    pub fn have_variables(&self) -> bool {
        self.ranks.iter().any(|rank| !rank.followed.process().program.variables.is_empty())
    }

    /// Asks running ranks to read MPI's variables.
    pub fn ask_for_variables(&mut self) {
        let mut broken = Vec::new();
        for rank in self.ranks.iter_mut().filter(|rank| !rank.has_ended) {
            if let Err(why) = rank.variables.request(&rank.followed) {
                let number = rank.followed.process().world_rank;
                broken.push(format!("rank {number} is not asked for variables: {why:#}"));
            }
        }
        broken.iter().for_each(|what| self.note(what));
    }

    /// How long the ranks ran between two moments, all together, in seconds.
    pub fn ran_s(&self, since: Instant, until: Instant) -> f64 {
        let ran = |rank: &Rank| {
            rank.ended.unwrap_or(until).clamp(since, until.max(since)).duration_since(since).as_secs_f64()
        };
        self.ranks.iter().map(ran).sum()
    }

    /// The CPUs that the ranks may use.
    pub fn cpus(&self) -> Cpus {
        let all = self.ranks.iter().filter_map(|rank| rank.followed.process().program.cpus.first());
        all.fold(Cpus::default(), |cpus, more| cpus.union(more))
    }

    /// How many ranks the launcher has started on the node; 0 if it does not say.
    pub fn expected(&self) -> usize {
        self.ranks.iter().map(|rank| rank.followed.process().local_size as usize).max().unwrap_or(0)
    }

    /// Follows a segment from now on; that of a process which has ended is read once.
    pub fn add(&mut self, segment: &Segment) {
        // Nodes may keep their segments in one folder.
        let is_here = segment.header.boot == *self.boot.get_or_insert_with(process::boot);
        if !is_here || !self.known.insert(segment.path.clone()) {
            return;
        }
        match Followed::new(segment) {
            Ok(followed) => {
                let process = open_process(segment.header.pid).filter(|_| segment.is_running);
                let has_ended = !segment.is_running;
                let control = (!has_ended).then(|| SegmentControl::new(segment).ok()).flatten();
                self.are_of_another |= control.as_ref().is_some_and(|control| !control.hold());
                let variables = Variables::by(control);
                self.ranks.push(Rank {
                    path: segment.path.clone(),
                    followed,
                    process,
                    has_ended,
                    ended: has_ended.then(Instant::now),
                    variables,
                    rows: Vec::new(),
                    by_name: Vec::new(),
                });
            }
            Err(why) => self.note(&format!("rank {} is not read: {why:#}", segment.header.world_rank)),
        }
    }

    /// Notes ranks that ended without `MPI_Finalize`.
    pub fn note_killed(&mut self) {
        // A rank that ends MPI says that it has arrived, or removes its segment, or both.
        let is_killed = |rank: &&Rank| rank.has_ended && !rank.followed.has_arrived() && rank.path.exists();
        let killed = self.ranks.iter().filter(is_killed).count() as u64;
        if killed > 0 {
            self.note(&format!("{} ended without MPI_Finalize", count(killed, "rank")));
        }
    }

    /// Counts of MPI's variables in the interval that was read last.
    pub fn variables(&mut self) -> Vec<NodeRate> {
        variables::rates(std::mem::take(&mut self.counted))
    }

    fn note(&mut self, what: &str) {
        const MOST_NOTES: usize = 20;
        if self.notes.len() < MOST_NOTES && !self.notes.iter().any(|note| note == what) {
            self.notes.push(what.to_owned());
        }
    }

    /// Sleeps that long, or until a process of the job ends, or a signal comes.
    pub fn sleep(&mut self, time: Duration) {
        let mut polled: Vec<libc::pollfd> = Vec::new();
        for rank in self.ranks.iter().filter(|rank| !rank.has_ended) {
            let fd = rank.process.as_ref().map(AsRawFd::as_raw_fd);
            polled.extend(fd.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }));
        }
        let time = libc::timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: the array has as many entries as is said, and the time is valid; no mask of
        // signals is set.
        unsafe {
            libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const time, std::ptr::null());
        }
        self.look_who_ended(&polled);
    }

    fn look_who_ended(&mut self, polled: &[libc::pollfd]) {
        for rank in self.ranks.iter_mut().filter(|rank| !rank.has_ended) {
            rank.has_ended = match &rank.process {
                Some(process) => polled.iter().any(|it| it.fd == process.as_raw_fd() && it.revents != 0),
                None => {
                    let header = rank.followed.process();
                    !process::runs(header.pid, header.process_start)
                }
            };
            rank.ended = rank.has_ended.then(Instant::now);
        }
    }

    /// Reads all ranks, and returns what they did since the last reading, in the order of the
    /// names.
    pub fn read(&mut self, history: &mut History) -> Vec<Rate> {
        self.rates.iter_mut().for_each(|rate| *rate = Rate::default());
        let mut broken = Vec::new();
        let mut sums = Vec::new();
        for rank in &mut self.ranks {
            if let Err(why) = rank.read(&mut sums, &mut self.rates, &mut self.counted, history) {
                // Sums so far stay.
                let number = rank.followed.process().world_rank;
                broken.push(format!("rank {number} is read no more: {why:#}"));
            }
        }
        broken.iter().for_each(|what| self.note(what));
        let mut rates = Vec::new();
        for (name, rate) in self.rates.iter().enumerate() {
            // Bytes of a receive may be known only when its request has completed.
            if rate.calls > 0 || rate.bytes > 0 || rate.time_s > 0.0 || rate.inside > 0 {
                rates.push(Rate { name: name as u32, ..*rate });
            }
        }
        rates
    }
}

impl Rank {
    fn read(
        &mut self,
        sums: &mut Vec<CallSums>,
        rates: &mut Vec<Rate>,
        counted: &mut HashMap<u32, f64>,
        history: &mut History,
    ) -> Result<()> {
        self.followed.update(self.has_ended, sums)?;
        self.variables.read(&self.followed, history, counted);
        let clock = self.followed.clock();
        let known = self.rows.len();
        for (comm, operation) in &self.followed.rows()[known..] {
            let call = operation.name().to_owned();
            let is_new = history.calls.len() < MOST_NAMES;
            let family = if is_new { self.followed.family(*comm) } else { OTHERS }.to_owned();
            self.rows.push((history.calls.number((family, call)), Counted::default()));
        }
        if self.rows.len() > known {
            self.by_name = (0..self.rows.len() as u32).collect();
            self.by_name.sort_by_key(|&row| self.rows[row as usize].0);
        }
        rates.resize_with(history.calls.len(), Rate::default);
        let mut rest = self.by_name.iter().map(|&row| row as usize).peekable();
        while let Some(first) = rest.next() {
            let name = self.rows[first].0;
            let rate = &mut rates[name as usize];
            let (mut time_s, mut longest_s) = (0.0, None::<f64>);
            let mut next = Some(first);
            while let Some(row) = next {
                let (sums, before) = (&sums[row], &mut self.rows[row].1);
                rate.calls = rate.calls.saturating_add(grown(sums.calls, &mut before.calls));
                rate.bytes = rate.bytes.saturating_add(grown(sums.bytes, &mut before.bytes));
                time_s += clock.seconds(Ticks::new(grown(sums.ticks, &mut before.ticks)));
                if sums.inside > 0 {
                    let stay_s = clock.seconds(Ticks::new(sums.longest));
                    longest_s = Some(longest_s.map_or(stay_s, |longest_s| longest_s.max(stay_s)));
                }
                next = rest.next_if(|&row| self.rows[row].0 == name);
            }
            rate.inside += u32::from(longest_s.is_some());
            rate.longest_s = rate.longest_s.max(longest_s.unwrap_or(0.0));
            rate.time_s += time_s;
            rate.min_s = if rate.ranks == 0 { time_s } else { rate.min_s.min(time_s) };
            rate.max_s = rate.max_s.max(time_s);
            rate.ranks += 1;
        }
        Ok(())
    }
}

/// How much a sum grew. One that shrinks, as where the time of a call that went on turns out to be
/// of several communicators, counts again once it is larger than it was.
fn grown(now: u64, before: &mut u64) -> u64 {
    match now.wrapping_sub(*before) {
        more if more.cast_signed() > 0 => {
            *before = now;
            more
        }
        _ => 0,
    }
}

/// A descriptor that becomes readable when the process ends.
fn open_process(pid: u32) -> Option<OwnedFd> {
    // SAFETY: the call takes two numbers, and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: the descriptor is new, and nobody else closes it.
    Some(unsafe { File::from_raw_fd(fd) }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_shrank_counts_once_it_is_larger_than_it_was() {
        let mut before = 10;
        let grown = [15, 12, 14, 18, 18].map(|now| grown(now, &mut before));
        assert_eq!(grown, [5, 0, 0, 3, 0]);
        let mut before = u64::MAX - 1;
        assert_eq!(super::grown(2, &mut before), 4, "sums wrap");
    }
}
