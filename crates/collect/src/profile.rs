//! Writes the profile of one world from its segments, at `MPI_Finalize` and after a crash.

use crate::Aggregate;
use crate::files::{Files, parts};
use crate::form::{AsText, Form};
use crate::gpu::{Exports, GpuPart};
use crate::left_rows::LeftRows;
use crate::nodes::Nodes;
use crate::overhead::call_ns;
use crate::rank_tables::{RankTables, comms, is_merged};
use crate::run::{FirstRank, RunSums, set_incomplete};
use crate::segments::{
    CallLocation, Clock, Collected, CurrentCall, Segment, WorldSegments, collected, missing, of_snapshot,
};
use anyhow::{Context, Result, bail};
use mpisee_profile::comm_name::{is_of_changing_members, is_one_per_process};
use mpisee_profile::options::Options;
use mpisee_profile::rows::{CommRow, Members, RankRow, Seconds};
use mpisee_profile::run::{EndedDeadlock, EndedIn, RunInfo, rfc3339};
use mpisee_profile::segment::layout::state::ARRIVED;
use mpisee_profile::segment::names::names;
use mpisee_profile::segment::snapshot::Program;
use mpisee_profile::segment::{NotSeen, Snapshot};
use mpisee_profile::writer::numbered;
use mpisee_profile::writer::{from_csv, to_csv};
use mpisee_profile::{Profile, RankSet, Ticks, WorldRank};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Settings of the caller that override those of the program.
#[derive(Clone, Copy)]
pub struct Overrides<'w> {
    /// The directory wanted for the profile.
    pub output: Option<&'w Path>,
    /// The number of ranks above which it is aggregated.
    pub fold: Option<u32>,
}

/// A profile that was recovered.
pub struct Recovered<'w> {
    /// Its directory.
    pub directory: PathBuf,
    /// The directory that it would have if that name were free.
    pub wanted: PathBuf,
    /// The segments of which it was made.
    pub segments: Vec<&'w Segment>,
    /// As in its `run.json`.
    pub ended_in: Vec<EndedIn>,
}

/// A segment that cannot be read after all, and why.
pub type Unreadable<'w> = (&'w Segment, String);

/// Writes the profile of the processes that ended; none if no segment can be read. `deadlocks` are
/// those of these processes.
pub fn recover<'w>(
    world: &'w WorldSegments,
    wish: Overrides,
    deadlocks: Vec<EndedDeadlock>,
) -> Result<(Option<Recovered<'w>>, Vec<Unreadable<'w>>)> {
    let mut writing: Option<Writing> = None;
    let mut recovered = Vec::new();
    let mut unreadable = Vec::new();
    for segment in world.ended() {
        match segment.read().and_then(|snapshot| check_communicators(&snapshot).map(|()| snapshot)) {
            Ok(snapshot) => {
                let writing = match &mut writing {
                    Some(writing) => writing,
                    none => none.insert(Writing::begin(
                        world,
                        self::wanted(wish.output, &snapshot.program),
                        wish.fold,
                        &snapshot,
                    )?),
                };
                writing.add(&snapshot, segment)?;
                recovered.push(segment);
            }
            Err(why) => unreadable.push((segment, format!("{why:#}"))),
        }
    }
    let recovered = match writing {
        Some(mut writing) => {
            let wanted = writing.wanted.clone();
            writing.run.deadlocks = deadlocks;
            let (directory, ended_in) = writing.finish(world, &recovered)?;
            Some(Recovered { directory, wanted, segments: recovered, ended_in })
        }
        None => None,
    };
    Ok((recovered, unreadable))
}

/// A run before its profile is written.
pub struct Described {
    /// The profile that would be written, if nothing were there.
    pub wanted: PathBuf,
    /// The job of a batch system, `Slurm 4711_3.0`.
    pub job: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// Describes a run by the first of its segments that can be read; `None` if none can.
pub fn describe(world: &WorldSegments) -> Option<Described> {
    let snapshot = world.segments().find_map(|segment| segment.read_now().ok())?;
    let Program { command, job, .. } = &snapshot.program;
    Some(Described { wanted: wanted(None, &snapshot.program), job: job.clone(), command: command.clone() })
}

/// The profile that an earlier recovery made of the same processes, under the wanted name or with a
/// number after it.
pub fn recovered_before(world: &WorldSegments, wanted: &Path) -> Option<PathBuf> {
    let processes: Vec<(u32, &str, u32)> = world
        .ended()
        .map(|segment| (segment.header.world_rank.get(), segment.header.host.as_str(), segment.header.pid))
        .collect();
    let begin = world.ended().next()?.header.start_realtime_ns;
    numbered(wanted).take_while(|place| place.exists()).find(|place| {
        let Ok(profile) = Profile::open(place) else { return false };
        let Ok(ranks) = profile.rows::<RankRow>().and_then(Iterator::collect::<Result<Vec<_>, _>>) else {
            return false;
        };
        let of_profile = ranks.iter().map(|row| (row.rank, row.host.as_str(), row.pid));
        !profile.run().complete
            && profile.run().start == rfc3339(begin)
            && of_profile.eq(processes.iter().copied())
    })
}

/// The profile of ranks that came to the end of MPI.
pub struct Written {
    /// Its directory.
    pub directory: PathBuf,
    /// The ranks whose segment could not be read, and why.
    pub unreadable: Vec<(WorldRank, String)>,
}

/// Writes the profile of ranks that came to the end of MPI to `wanted`, or to a directory with a
/// number after that name. `incomplete_because` says where the ranks are that are not among them;
/// `note` joins those of the first rank.
pub fn write(
    world: &WorldSegments,
    wanted: &Path,
    incomplete_because: Option<&str>,
    note: Option<&str>,
) -> Result<Written> {
    let absent = missing(world.size(), world.segments().map(|segment| segment.header.world_rank));
    let Some(first) = world.segments().find_map(|segment| segment.read_description().ok()) else {
        bail!("no rank's segment can be read")
    };
    let mut writing = Writing::begin(world, wanted.to_owned(), None, &first)?;
    let mut unreadable = Vec::new();
    for segment in world.segments() {
        // A rank leaves rows for a profile of all ranks.
        if let Some(left) = segment.left_rows().filter(|_| absent.is_empty())
            && writing.add_left(left)?
        {
            continue;
        }
        match segment.read() {
            Ok(snapshot) => writing.add_arrived(&snapshot, segment, &absent)?,
            Err(why) => unreadable.push((segment.header.world_rank, format!("{why:#}"))),
        }
    }
    if unreadable.len() == world.segments().count() {
        bail!("no rank's segment can be read");
    }
    writing.run.notes.extend(note.map(str::to_owned));
    let lost: RankSet = unreadable.iter().map(|&(rank, _)| rank).collect();
    let lost_because =
        (!lost.is_empty()).then(|| format!("the segments of {} could not be read", lost.named()));
    let without_room = |segment: &&Segment| segment.header.not_seen[NotSeen::LostCounts as usize] > 0;
    let cut: RankSet =
        world.segments().filter(without_room).map(|segment| segment.header.world_rank).collect();
    let cut_because =
        (!cut.is_empty()).then(|| format!("no file had room for part of the counts of {}", cut.named()));
    let why: Vec<String> =
        incomplete_because.map(str::to_owned).into_iter().chain(lost_because).chain(cut_because).collect();
    let agree = why.is_empty().then_some(writing.sums.membership == 0);
    Ok(Written { directory: writing.finish_arrived(why, agree)?, unreadable })
}

/// An error if the communicators of a process cannot be read again: a segment that was changed may
/// hold what no profile can.
fn check_communicators(snapshot: &Snapshot) -> Result<()> {
    let rows = comms(snapshot, &names(snapshot), |_, _| true);
    from_csv::<CommRow>(&to_csv(&rows)).context("its communicators make no sense")?;
    Ok(())
}

/// The counts of a process's GPU. Those of calls are worth having without.
fn kernels(snapshot: &Snapshot, segment: &Segment) -> Vec<GpuPart> {
    segment.gpu().unwrap_or_else(|why| {
        let text = format!("what was counted of its GPU is lost: {why:#}");
        vec![GpuPart::Note { rank: snapshot.world_rank.get(), text }]
    })
}

/// How a process came to its end.
#[derive(Clone, Copy)]
enum End<'a> {
    /// By `MPI_Finalize`, as all ranks did but for some.
    Arrived { absent: &'a RankSet },
    /// In another way.
    Otherwise,
}

impl End<'_> {
    fn tables<F: Form>(self, snapshot: &Snapshot, kernels: Vec<GpuPart>) -> RankTables<F> {
        let tables = match self {
            End::Arrived { absent } => RankTables::of_arrived(absent, snapshot, snapshot.last_known()),
            End::Otherwise => RankTables::of_ended(snapshot),
        };
        tables.with_kernels(kernels)
    }

    fn sums(self, snapshot: &Snapshot, tables: &RankTables) -> Aggregate {
        match self {
            End::Arrived { absent } => Aggregate::from_snapshot(snapshot, tables, absent),
            End::Otherwise => Aggregate::of_ended(snapshot, tables),
        }
    }
}

/// A profile being written.
struct Writing {
    wanted: PathBuf,
    files: Files,
    /// Exports of memory between ranks, needed if rows are aggregated.
    owners: Exports,
    /// Communicators that a rank reported already, and how many they stood for.
    reported: HashMap<String, u64>,
    run: RunInfo,
    sums: RunSums,
    end_realtime_ns: u64,
    last: Vec<Last>,
}

/// The last known state of a rank.
struct Last {
    rank: WorldRank,
    calls: Vec<CurrentCall>,
    clock: Clock,
    /// Identifies the clock of its ticks.
    clocked_by: (u64, bool),
}

impl Writing {
    /// Creates the files; the first rank describes the run as a whole in `run.json`.
    fn begin(world: &WorldSegments, wanted: PathBuf, fold: Option<u32>, first: &Snapshot) -> Result<Self> {
        let nodes = Nodes::new(world.nodes());
        let fold = fold.or(first.program.fold).unwrap_or(Options::default().fold);
        let run = FirstRank {
            program: first.program.clone(),
            world_id: first.job,
            start_realtime_ns: first.start_realtime_ns,
            ticks_are_tsc: first.ticks_are_tsc,
            call_ns: call_ns(first, first.last_known()),
        }
        .run_info(world.size(), nodes.count());
        let files = Files::create(&wanted, world.size(), fold, || nodes)?;
        Ok(Writing {
            owners: if matches!(files, Files::Sums(_)) { owners(world) } else { Exports::default() },
            files,
            wanted,
            reported: HashMap::new(),
            run,
            sums: RunSums::default(),
            end_realtime_ns: 0,
            last: Vec::new(),
        })
    }

    /// Adds the rows of a rank; returns its time. Of one that did not arrive an earlier one may
    /// have reported communicators.
    fn add_rows(&mut self, snapshot: &Snapshot, segment: &Segment, end: End) -> Result<Seconds> {
        let kernels = kernels(snapshot, segment);
        let sums = RunSums::of_header(snapshot, snapshot.end);
        let reported = &mut self.reported;
        match &mut self.files {
            Files::Rows(files) => {
                let mut tables = end.tables::<AsText>(snapshot, kernels);
                if let End::Otherwise = end {
                    leave_new(reported, &mut tables.comms, false);
                }
                self.sums.add(&sums.with_rows(&tables, snapshot));
                files.append(&parts(&mut tables))?;
                Ok(tables.rank.wall_s)
            }
            Files::Sums(files) => {
                let mut tables = end.tables(snapshot, kernels);
                if let End::Otherwise = end {
                    leave_new(reported, &mut tables.comms, true);
                }
                self.sums.add(&sums.with_rows(&tables, snapshot));
                self.owners.fill_all(&mut tables.gpu);
                files.merge(end.sums(snapshot, &tables));
                Ok(tables.rank.wall_s)
            }
        }
    }

    /// Adds the rows that a rank has left; `false` where rows are summed up, which takes its
    /// counts.
    fn add_left(&mut self, left: LeftRows) -> Result<bool> {
        let Files::Rows(files) = &mut self.files else { return Ok(false) };
        self.sums.add(&left.sums);
        let end_realtime_ns = left.sums.last_end_ns;
        // It was whole when it was opened. Rows before an error are in the profile's files, and
        // cannot be made again.
        left.read(|frame| files.append_frame(frame))?;
        self.note_end(end_realtime_ns);
        Ok(true)
    }

    /// The run ends where the first of its ranks does that is added.
    fn note_end(&mut self, realtime_ns: u64) {
        if self.end_realtime_ns == 0 {
            self.end_realtime_ns = realtime_ns;
        }
    }

    fn add_arrived(&mut self, snapshot: &Snapshot, segment: &Segment, absent: &RankSet) -> Result<()> {
        self.note_end(snapshot.end.map_or(0, |end| end.realtime_ns));
        self.add_rows(snapshot, segment, End::Arrived { absent })?;
        Ok(())
    }

    fn add(&mut self, snapshot: &Snapshot, segment: &Segment) -> Result<()> {
        let wall_s = self.add_rows(snapshot, segment, End::Otherwise)?;
        let end = snapshot.start_realtime_ns.saturating_add(wall_s.to_ns());
        self.end_realtime_ns = self.end_realtime_ns.max(end);
        if snapshot.state == ARRIVED && self.run.is_without_mpi() {
            return Ok(());
        }
        let clock = Clock::of_ended(snapshot, snapshot.last_known().ticks);
        self.last.push(Last {
            rank: snapshot.world_rank,
            calls: of_snapshot(snapshot, &names(snapshot), &clock, |active| CallLocation {
                site: snapshot.code_of(active).and_then(|code| snapshot.site_id(&code)),
                ..CallLocation::default()
            }),
            clock,
            clocked_by: (snapshot.boot, snapshot.ticks_are_tsc),
        });
        Ok(())
    }

    fn finish_arrived(
        mut self,
        incomplete_because: Vec<String>,
        names_agree: Option<bool>,
    ) -> Result<PathBuf> {
        self.run.end = rfc3339(self.end_realtime_ns);
        self.sums.fill(&mut self.run, "node");
        set_incomplete(&mut self.run, incomplete_because);
        self.run.names_agree = names_agree;
        Ok(self.files.finish(&self.run)?)
    }

    fn finish(mut self, world: &WorldSegments, recovered: &[&Segment]) -> Result<(PathBuf, Vec<EndedIn>)> {
        self.run.end = rfc3339(self.end_realtime_ns);
        self.sums.fill(&mut self.run, "recover");
        let ended = match self.run.is_without_mpi() {
            true => ended_before_exit(recovered),
            false => format!("{} ended without MPI_Finalize", ranks_of(recovered).named()),
        };
        set_incomplete(&mut self.run, [why_incomplete(world, recovered, ended)]);
        self.run.ended_in = ended_in(&mut self.last);
        self.run.notes.push(
            "wall_s of each rank is up to the last that is known of it: the rank ran at least so long"
                .to_owned(),
        );
        Ok((self.files.finish(&self.run)?, self.run.ended_in))
    }
}

/// Drops communicators that an earlier rank reported, since every member reports its own; kinds
/// whose reports are merged into one row stay. `reported` has those so far, and how many they stood
/// for.
fn leave_new(reported: &mut HashMap<String, u64>, comms: &mut Vec<CommRow>, is_aggregate: bool) {
    comms.retain_mut(|row| {
        let is_first = !reported.contains_key(&row.comm);
        let is_merged = is_merged(row);
        let known = reported.entry(row.comm.clone()).or_default();
        if is_aggregate && !is_of_changing_members(&row.comm) {
            // The sum over ranks is then the largest number that one of them reports.
            row.count = row.count.saturating_sub(*known);
            *known += row.count;
            if !is_first && !is_one_per_process(&row.comm) && !row.members.has_elided() {
                row.members = Members::default();
            }
        }
        is_first || is_merged
    });
}

/// The exports of memory of all ranks: rows are summed up as they come, and the owner's may come
/// later.
fn owners(world: &WorldSegments) -> Exports {
    let mut owners = Exports::default();
    // An unreadable file is reported later, with its rank.
    world.ended().for_each(|segment| owners.add(segment.gpu().unwrap_or_default()));
    owners
}

/// The last calls of the ranks. Their durations end at the last sign of life of any rank with the
/// same clock.
fn ended_in(last: &mut [Last]) -> Vec<EndedIn> {
    let mut latest: HashMap<(u64, bool), Ticks> = HashMap::new();
    for rank in &*last {
        let ticks = latest.entry(rank.clocked_by).or_default();
        *ticks = rank.clock.ticks.max(*ticks);
    }
    for rank in &mut *last {
        let more_s = rank.clock.seconds(latest[&rank.clocked_by].saturating_sub(rank.clock.ticks));
        rank.calls.iter_mut().for_each(|call| call.for_s += more_s);
    }
    let ranks_by_call = collected(last.iter().map(|rank| (rank.rank, true, rank.calls.as_slice())));
    let ended = |one: Collected| EndedIn {
        ranks: one.ranks.to_string(),
        call: one.call.as_ref().map(|current| current.call.name().to_owned()),
        comm: one.call.as_ref().and_then(|current| Some(current.comm.as_ref()?.1.clone())),
        number: one.call.as_ref().and_then(|current| current.number),
        with: one.call.as_ref().and_then(CurrentCall::with_text),
        peer: one.call.as_ref().and_then(|current| Some(current.with?.peer()?.in_world()?.get())),
        tag: one.call.as_ref().and_then(|current| current.with?.tag()),
        site: one.call.as_ref().and_then(|current| current.place.site),
        at_least_s: Seconds(one.call.as_ref().map_or(0.0, |current| current.for_s)).to_ns() as f64 / 1e9,
    };
    ranks_by_call.into_iter().map(ended).collect()
}

fn ranks_of(segments: &[&Segment]) -> RankSet {
    segments.iter().map(|segment| segment.header.world_rank).collect()
}

/// How processes without MPI ended that wrote no profile: the last one would have written that of
/// those which came to their exit.
fn ended_before_exit(recovered: &[&Segment]) -> String {
    let ended: Vec<&Segment> =
        recovered.iter().copied().filter(|segment| segment.header.state != ARRIVED).collect();
    match ended.is_empty() {
        true => format!("no process wrote the profile of {}", ranks_of(recovered).named()),
        false => format!("{} ended before the exit (killed, or by _exit or exec)", ranks_of(&ended).named()),
    }
}

/// The sentence on how ranks of the profile ended, and where the others are.
fn why_incomplete(world: &WorldSegments, recovered: &[&Segment], mut why: String) -> String {
    let rank = |segment: &&Segment| segment.header.world_rank;
    let ended = ranks_of(recovered);
    let running: RankSet = world.running().map(|segment| rank(&segment)).collect();
    let with_segment = || world.segments().map(|segment| rank(&segment));
    let is_read = |rank: u32| ended.contains(rank) || running.contains(rank);
    let unreadable: RankSet = with_segment().filter(|rank| !is_read(rank.get())).collect();
    let cut: RankSet =
        recovered.iter().filter(|segment| segment.header.private_bytes > 0).map(rank).collect();
    for (ranks, what) in [
        (
            cut,
            "found no room for all counters in the segment, so that what came up for the first time after that is missing",
        ),
        (missing(world.size(), with_segment()), "left no segment here"),
        (unreadable, "left a segment that cannot be read"),
        (running, "still ran when this was recovered"),
    ] {
        if !ranks.is_empty() {
            why += &format!("; {} {what}", ranks.named());
        }
    }
    why
}

/// The directory wanted for the profile: the caller's, else in the working directory the name that
/// it would have had.
fn wanted(output: Option<&Path>, program: &Program) -> PathBuf {
    let stem = match output {
        // A folder for it, as in `MPISEE_OUTPUT`.
        Some(output) if output.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            output.join(name_of(program))
        }
        Some(output) => without_extension(output),
        None => name_of(program),
    };
    let mut wanted = stem.into_os_string();
    wanted.push(".mpisee");
    PathBuf::from(wanted)
}

fn without_extension(path: &Path) -> PathBuf {
    let has_extension = path.extension().is_some_and(|extension| extension == "mpisee");
    if has_extension { path.with_extension("") } else { path.to_owned() }
}

/// The segment's text is untrusted: only its last component is used, if it is a valid file name.
fn name_of(program: &Program) -> PathBuf {
    const MOST_BYTES: usize = 200;
    let name = Path::new(&program.profile).file_name().map(|name| without_extension(Path::new(name)));
    let fits = |name: &PathBuf| {
        let text = name.to_string_lossy();
        (1..=MOST_BYTES).contains(&text.len())
            && !text.starts_with(['.', '-'])
            && !text.contains(char::is_control)
    };
    name.filter(fits).unwrap_or_else(|| PathBuf::from("recovered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_leads_nowhere_else() {
        let of = |profile: &str| wanted(None, &Program { profile: profile.to_owned(), ..Program::default() });
        assert_eq!(of("app.mpisee"), Path::new("app.mpisee"));
        assert_eq!(of("/etc/app.mpisee"), Path::new("app.mpisee"));
        for text in ["", "..", "/", "../..", ".mpisee", "-x.mpisee", "a\0b", &"a".repeat(300)] {
            assert_eq!(of(text), Path::new("recovered.mpisee"), "{text}");
        }
        assert_eq!(wanted(Some(Path::new("a/b.v2")), &Program::default()), Path::new("a/b.v2.mpisee"));
    }
}
