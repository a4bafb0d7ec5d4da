//! A job at one moment, read from the segments of its ranks on this node.

use super::call_stacks::{CallStacks, MostCalledAt, ProcessStacks, ProgramStack, StackAddresses};
use super::growth::{CommGrowth, Growth};
use super::most_called::MostCalled;
use super::traffic::Traffic;
use anyhow::Result;
use mpisee_collect::process::cpu::{CoreTimes, first_thread_times};
use mpisee_collect::process::{self, Seen};
use mpisee_collect::rank_tables::members;
use mpisee_collect::segments::{CallLocation, Clock, CurrentCall, Segment, WorldSegments, of_snapshot};
use mpisee_profile::comm_name::is_one_per_process;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::active_call::{ActiveCall, CurrentFunction};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::call;
use mpisee_profile::segment::log::{NONE, Runs};
use mpisee_profile::segment::names::names;
use mpisee_profile::segment::snapshot::Program;
use mpisee_profile::{Operation, RankSet, Ticks, WorldRank};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// A job at one moment.
#[derive(Debug, Default)]
pub struct Job {
    /// The job number that the processes share, the size and the start, which together identify a
    /// job.
    pub id: (u64, u32, u64),
    pub program: Program,
    /// The size of `MPI_COMM_WORLD`.
    pub size: u32,
    /// When recording began on the rank that began first, nanoseconds since 1970, UTC.
    pub start_realtime_ns: u64,
    /// Seconds since then.
    pub elapsed_s: f64,
    /// True if recording was off somewhere at some time, so that calls are not counted alike.
    pub recording_was_off: bool,
    /// The ranks whose segments are here.
    pub ranks: BTreeMap<WorldRank, Rank>,
    /// The communicators of which these ranks are members, by name.
    pub comms: BTreeMap<String, Comm>,
    /// Why the stacks of some ranks are not known, or not resolved.
    pub stack_problems: BTreeSet<String>,
    /// True if readers on several nodes saw it; else it is that of this node.
    pub is_joined: bool,
    /// Where readers on several nodes saw it, its growth since the look before of each.
    pub growth: Option<Growth>,
    /// The time from the look at its first rank to that at its last one, which are looked at one
    /// after the other; of several that run here.
    pub read_within_s: Option<f64>,
    /// True if it is of ranks that ended, each in its last state.
    pub is_last: bool,
    /// True if they did not all look at the same time, so that no two of their ranks need have been
    /// in their calls together.
    pub is_pieced_together: bool,
}

/// A rank.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    pub pid: u32,
    pub host: String,
    /// True if its process ended.
    pub ended: bool,
    /// Seconds since recording began; of one that ended, up to the last that is known of it.
    pub elapsed_s: f64,
    /// Where its threads are, the longest stay first.
    pub calls: Vec<CurrentCall>,
    /// The time that the threads which call MPI have lived, `elapsed_s` at least.
    pub thread_s: f64,
    /// How often it completed a collective, by communicator.
    pub completed: HashMap<(String, Operation), u64>,
    /// Its messages, if it is in a call.
    pub traffic: Traffic,
    /// True if the call in which it is shows only a part of what it does: other threads may call
    /// MPI, or calls were not seen.
    pub may_act_unseen: bool,
    /// True if its process is stopped, by a signal or a debugger, and goes on when that lets it.
    pub is_stopped: bool,
    /// True if its first thread is ready to run, or cannot be interrupted.
    pub wants_core: bool,
    /// For how long that has run, and was ready to run without a core, if that is known.
    pub core_times: Option<CoreTimes>,
    /// True if it did nothing between two looks, as the reader of its node found.
    pub is_still: bool,
    /// Of a rank in no call, seconds since its last one returned, if that is known.
    pub idle_s: Option<f64>,
    /// With `--stacks`, of a rank in no call, where its first thread sleeps.
    pub asleep: Option<CallLocation>,
    /// With `--stacks`, what it called most since the look before.
    pub most_called: Option<MostCalled>,
}

/// Rounds of looks where calls are too short for their stacks to be read, and the time after which
/// no further one begins.
const MOST_ROUNDS: usize = 5;
const LONGEST_ROUNDS: Duration = Duration::from_millis(500);

impl Rank {
    /// Returns whether it completed `number` calls of an operation on a communicator.
    pub fn has_completed(&self, comm: &str, operation: Operation, number: u64) -> bool {
        self.completed.get(&(comm.to_owned(), operation)).is_some_and(|&completed| completed >= number)
    }

    /// Returns whether it is in the calls in which it was at an earlier look, and sent and received
    /// nothing since, though it could have: it was not stopped, nor without a core all the time.
    fn is_as(&self, earlier: &Rank) -> bool {
        let calls =
            |rank: &Rank| -> Vec<_> { rank.calls.iter().map(|call| (call.call, call.since)).collect() };
        let ran_ns = |rank: &Rank| rank.core_times.map(|times| times.ran_ns);
        let had_no_core = self.wants_core && ran_ns(self).is_some() && ran_ns(self) == ran_ns(earlier);
        self.pid == earlier.pid
            && !self.is_stopped
            && !earlier.is_stopped
            && !had_no_core
            && !self.calls.is_empty()
            && calls(self) == calls(earlier)
            && self.traffic == earlier.traffic
    }
}

/// A communicator, summed over its members here.
#[derive(Clone, Debug, Default)]
pub struct Comm {
    /// The name that the program gave.
    pub label: String,
    /// Processes, also those elsewhere; of a communicator that each process has for itself, of one.
    pub size: u64,
    /// Members by rank in the world, as far as those here know them.
    pub members: RankSet,
    /// Members in this world that no rank on this node lists.
    pub elided: u64,
    /// Members whose segments are here.
    pub here: u64,
    /// True if it is an intercommunicator.
    pub is_inter: bool,
    /// True if several communicators may have this name, so that members do not belong together.
    pub ambiguous: bool,
    pub calls: u64,
    pub bytes: u64,
    /// Seconds that the members here spent in calls, those that are not complete included.
    pub time_s: f64,
}

impl Comm {
    /// Members of another world, as of a communicator with processes that the program spawned. Of
    /// an intercommunicator none are counted: which of its groups is the other world's is not
    /// known.
    pub fn foreign(&self) -> u64 {
        let of_this_world = self.members.len().saturating_add(self.elided);
        if self.is_inter { 0 } else { self.size.saturating_sub(of_this_world) }
    }
}

impl Job {
    /// Reads the segments of a world. Those that cannot be read are returned with the reason. With
    /// `stacks` it is looked up, too, where in the program its ranks are.
    pub fn read<'w>(
        world: &'w WorldSegments,
        mut stacks: Option<&mut CallStacks>,
    ) -> (Job, Vec<(&'w Segment, String)>) {
        let mut job = Job { size: world.size(), start_realtime_ns: u64::MAX, ..Job::default() };
        let mut unreadable = Vec::new();
        let looks: Box<dyn Iterator<Item = _>> = match stacks.as_deref_mut() {
            Some(stacks) => Box::new(looks_with_stacks(world, stacks).into_iter()),
            None => Box::new(looks(world)),
        };
        let mut moments = Vec::new();
        for (segment, look) in looks {
            match look {
                Ok(mut look) => {
                    let read = std::mem::take(&mut look.stacks);
                    let known = stacks.as_deref_mut().map(|stacks| stacks.resolve(&look.snapshot, read));
                    job.add(segment, &look, known.unwrap_or_default());
                    moments.extend(segment.is_running.then_some(look.at));
                }
                // One that is gone belongs to a rank that has left.
                Err(_) if !segment.path.exists() => {}
                Err(why) => unreadable.push((segment, format!("{why:#}"))),
            }
        }
        let header = world.segments().next().map(|segment| &segment.header);
        job.id = header.map_or((0, 0, 0), |header| (header.job, header.world_size, 0));
        job.id.2 = job.start_realtime_ns;
        let ends = moments.iter().min().zip(moments.iter().max()).filter(|_| moments.len() > 1);
        job.read_within_s = ends.map(|(first, last)| (*last - *first).as_secs_f64());
        (job, unreadable)
    }

    /// The ranks that ended, each in its last state; those whose segments cannot be read are left
    /// out. A rank in whose calls MPI had not returned counts as one that did nothing between two
    /// looks.
    pub fn from_ended(world: &WorldSegments) -> Job {
        let mut job =
            Job { size: world.size(), start_realtime_ns: u64::MAX, is_last: true, ..Job::default() };
        for segment in world.ended() {
            let Ok(look) = Look::now(segment) else { continue };
            job.add(segment, &look, ProcessStacks::default());
            let Look { snapshot, clock, .. } = look;
            let Some(rank) = job.ranks.get_mut(&snapshot.world_rank) else { continue };
            let site =
                |active: &ActiveCall| snapshot.code_of(active).and_then(|code| snapshot.site_id(&code));
            rank.calls = of_snapshot(&snapshot, &names(&snapshot), &clock, |active| CallLocation {
                site: site(active),
                ..CallLocation::default()
            });
            rank.ended = false;
            rank.is_still = snapshot.active_calls.iter().all(|call| call.frame.is_some());
        }
        job
    }

    fn add(&mut self, segment: &Segment, look: &Look, stacks: ProcessStacks) {
        let Look { snapshot, clock, process, core_times, .. } = look;
        if self.ranks.is_empty() {
            self.program = snapshot.program.clone();
        }
        self.recording_was_off |= snapshot.recording_was_off;
        self.start_realtime_ns = self.start_realtime_ns.min(snapshot.start_realtime_ns);
        self.stack_problems.extend(stacks.problems);
        let place_of = |stack: &ProgramStack| CallLocation {
            stack: stack.frames.clone(),
            outside: stack.outside,
            ..CallLocation::default()
        };
        let place = |active: &ActiveCall| {
            let known = stacks.calls.iter().find(|(call, _)| call == active);
            known.map(|(_, stack)| place_of(stack)).unwrap_or_default()
        };
        let names = names(snapshot);
        let mut rank = Rank {
            pid: snapshot.pid,
            host: snapshot.host.clone(),
            ended: !segment.is_running,
            elapsed_s: clock.since(snapshot.start_ticks),
            thread_s: thread_s(snapshot, clock),
            calls: of_snapshot(snapshot, &names, clock, place),
            completed: HashMap::new(),
            traffic: Traffic::default(),
            is_stopped: process.as_ref().is_some_and(|seen| seen.stopped),
            wants_core: process.as_ref().is_some_and(|seen| seen.wants_core),
            core_times: *core_times,
            may_act_unseen: snapshot.program.thread_level == "multiple"
                || snapshot.not_seen.iter().any(|&calls| calls > 0),
            is_still: false,
            idle_s: idle_since(snapshot).map(|ticks| clock.since(ticks)).filter(|_| segment.is_running),
            asleep: stacks.asleep.as_ref().map(place_of),
            most_called: stacks.most_called.clone(),
        };
        if !rank.calls.is_empty() {
            rank.traffic = Traffic::from_snapshot(snapshot, &names);
        }
        if !rank.ended {
            self.elapsed_s = self.elapsed_s.max(rank.elapsed_s);
        }
        self.add_comms(snapshot, &names);
        self.count(snapshot, clock, &names, &mut rank);
        self.ranks.insert(snapshot.world_rank, rank);
    }

    fn add_comms(&mut self, snapshot: &Snapshot, names: &[String]) {
        for (communicator, name) in snapshot.communicators.iter().zip(names) {
            let created = &communicator.created;
            let comm = self.comms.entry(name.clone()).or_default();
            comm.here += 1;
            comm.size = created.group.len() + created.remote.as_ref().map_or(0, Runs::len);
            comm.is_inter |= created.remote.is_some();
            comm.ambiguous |= is_one_per_process(name)
                || communicator.shared_row.is_some()
                || created.letter != 0 && created.n == NONE;
            comm.label.clone_from(&communicator.label);
            // Without a list each rank has at least itself.
            if comm.here == 1 || comm.ambiguous || comm.elided > 0 {
                let own = members(created);
                comm.members = if comm.here == 1 { own.all() } else { comm.members.union(&own.all()) };
                comm.elided = if own.has_elided() { own.len().saturating_sub(comm.members.len()) } else { 0 };
            }
        }
    }

    fn count(&mut self, snapshot: &Snapshot, clock: &Clock, names: &[String], rank: &mut Rank) {
        for (key, values) in &snapshot.counters {
            let Some(Meaning::Call(key)) = key.meaning() else { continue };
            let Some(name) = names.get(key.communicator.index()) else { continue };
            let Some(comm) = self.comms.get_mut(name) else { continue };
            comm.calls = comm.calls.wrapping_add(values[call::CALLS]);
            comm.bytes = comm.bytes.wrapping_add(values[call::BYTES]);
            comm.time_s += clock.seconds(Ticks::new(values[call::TICKS]));
            let operation = snapshot.operation_at(key.operation).map(|(operation, _)| operation);
            if let Some(operation) = operation
                .filter(|&it| mpisee_collect::segments::is_collective(CurrentFunction::Operation(it)))
            {
                let completed = rank.completed.entry((name.clone(), operation)).or_default();
                *completed = completed.wrapping_add(values[call::CALLS]);
            }
        }
        for current in rank.calls.iter().filter(|_| !rank.ended) {
            let comm = current.comm.as_ref().and_then(|(_, name)| self.comms.get_mut(name));
            if let Some(comm) = comm.filter(|_| matches!(current.call, CurrentFunction::Operation(_))) {
                comm.time_s += current.for_s;
            }
        }
    }

    /// The ranks that did nothing between an earlier look and this one.
    pub fn still_since(&self, earlier: &Job) -> BTreeSet<WorldRank> {
        let is_another = !std::ptr::eq(self, earlier);
        let is_still = |&(rank, state): &(&WorldRank, &Rank)| {
            state.is_still || is_another && earlier.ranks.get(rank).is_some_and(|before| state.is_as(before))
        };
        self.ranks.iter().filter(is_still).map(|(&rank, _)| rank).collect()
    }

    /// The ranks that are here.
    pub fn here(&self) -> RankSet {
        self.ranks.keys().copied().collect()
    }

    /// How it grew since a look before, in which all of its ranks were looked at, too.
    pub fn growth_since(&self, before: &Job) -> Growth {
        let interval_s = (self.elapsed_s - before.elapsed_s).max(0.0);
        let per_second = |more: f64| if interval_s > 0.0 { more.max(0.0) / interval_s } else { 0.0 };
        // Counts of one message may be taken back when another size is known.
        let more = |now: u64, old: u64| now.saturating_sub(old) as f64;
        let mut comms = BTreeMap::new();
        for (name, comm) in &self.comms {
            let old = before.comms.get(name).map_or((0, 0, 0.0), |old| (old.calls, old.bytes, old.time_s));
            let growth = CommGrowth {
                calls: per_second(more(comm.calls, old.0)),
                bytes: per_second(more(comm.bytes, old.1)),
                time_s: per_second(comm.time_s - old.2),
            };
            comms.insert(name.clone(), growth);
        }
        let more_s = self
            .ranks
            .iter()
            .map(|(number, rank)| rank.thread_s - before.ranks.get(number).map_or(0.0, |old| old.thread_s));
        let no_core = self.ranks.iter().filter_map(|(&number, rank)| {
            let [old, new] = [before.ranks.get(&number)?.core_times?, rank.core_times?];
            let waited_s = new.waited_ns.saturating_sub(old.waited_ns) as f64 * 1e-9;
            Some((number, per_second(waited_s).min(1.0)))
        });
        let no_core = no_core.collect();
        Growth { interval_s, thread_seconds: per_second(more_s.sum()), comms, no_core }
    }

    /// Seconds of all ranks here, of each of their threads that call MPI.
    pub fn thread_seconds(&self) -> f64 {
        self.ranks.values().map(|rank| rank.thread_s).sum()
    }

    /// Returns whether no process of it runs any more.
    pub fn is_over(&self) -> bool {
        self.ranks.values().all(|rank| rank.ended)
    }
}

/// The time that the threads of a process that call MPI have lived.
fn thread_s(snapshot: &Snapshot, clock: &Clock) -> f64 {
    let elapsed_s = clock.since(snapshot.start_ticks);
    let lived = snapshot.thread_ticks(clock.ticks).map(|lived| clock.seconds(lived));
    lived.unwrap_or(elapsed_s * snapshot.threads().max(1) as f64)
}

/// The moment since which no thread of a process has been in a call, if it is known.
fn idle_since(snapshot: &Snapshot) -> Option<Ticks> {
    if !snapshot.active_calls.is_empty() || snapshot.recording_was_off {
        return None;
    }
    let returns: Option<Vec<Ticks>> = snapshot.last_returns.iter().copied().collect();
    returns?.into_iter().max()
}

/// A look at a process.
struct Look {
    snapshot: Snapshot,
    clock: Clock,
    at: Instant,
    /// While it runs.
    process: Option<Seen>,
    core_times: Option<CoreTimes>,
    stacks: StackAddresses,
}

impl Look {
    fn now(segment: &Segment) -> Result<Look> {
        let (snapshot, clock) = read(segment)?;
        let at = Instant::now();
        let process = if segment.is_running { process::look_at(snapshot.pid) } else { None };
        let core_times = process.and_then(|_| first_thread_times(snapshot.pid));
        Ok(Look { snapshot, clock, at, process, core_times, stacks: StackAddresses::default() })
    }
}

/// A look at each process, one right after the other.
fn looks(world: &WorldSegments) -> impl Iterator<Item = (&Segment, Result<Look>)> {
    world.segments().map(|segment| (segment, Look::now(segment)))
}

/// The same with stacks, which are resolved later: the calls of ranks are shown beside each other,
/// so that all are of one round of looks. If calls end before their stacks are read, there are more
/// rounds, and that with most stacks counts.
fn looks_with_stacks<'w>(
    world: &'w WorldSegments,
    stacks: &mut CallStacks,
) -> Vec<(&'w Segment, Result<Look>)> {
    let begin = Instant::now();
    let round = |stacks: &mut CallStacks| {
        let mut all: Vec<_> = looks(world).collect();
        for (segment, look) in &mut all {
            if let Ok(look) = look {
                look.stacks = stacks.read(segment, &look.snapshot);
            }
        }
        all
    };
    let mut best = round(stacks);
    let most_called: Vec<Option<MostCalledAt>> = best
        .iter()
        .map(|(segment, look)| stacks.most_called(segment, &look.as_ref().ok()?.snapshot))
        .collect();
    let known = |all: &[(&Segment, Result<Look>)]| -> usize {
        all.iter().flat_map(|(_, look)| look).map(|look| look.stacks.calls()).sum()
    };
    let may_grow = |((_, look), most): (&(&Segment, Result<Look>), &Option<MostCalledAt>)| {
        look.as_ref().is_ok_and(|look| look.stacks.may_grow(&look.snapshot, most.is_some()))
    };
    let mut rounds = 1;
    while rounds < MOST_ROUNDS
        && begin.elapsed() < LONGEST_ROUNDS
        && best.iter().zip(&most_called).any(may_grow)
    {
        rounds += 1;
        let later = round(stacks);
        if known(&later) > known(&best) {
            best = later;
        }
    }
    for ((_, look), most_called) in best.iter_mut().zip(most_called) {
        if let Ok(look) = look {
            look.stacks.most_called = most_called;
        }
    }
    best
}

/// Everything in a segment, and the clock of its process.
fn read(segment: &Segment) -> Result<(Snapshot, Clock)> {
    if segment.is_running {
        let snapshot = segment.read_now()?;
        let clock = Clock::from_process(&snapshot);
        Ok((snapshot, clock))
    } else {
        let snapshot = segment.read()?;
        let clock = Clock::of_ended(&snapshot, snapshot.last_known().ticks);
        Ok((snapshot, clock))
    }
}
