//! The report on a job: rates and times by communicator, current calls, hangs; as text and as JSON.

use super::comm_table::{self, Families, MOST_COMMS, Row};
use super::deadlock::{Deadlock, deadlocks};
use super::groups::{MostCalledBy, RankGroup, groups};
use super::hang::{Hang, hangs, line};
use super::job::Job;
use super::roll;
use crate::cores;
use crate::line_breaks;
use crate::output::{Page, printable};
use crate::sheet::Sheet;
use crate::short_names::library_version;
use crate::units::{natural_order, time, to_nine_decimals};
use clap::ValueEnum;
use mpisee_collect::segments::{CallLocation, CurrentCall, First, Partner, Tag, With, short_seconds};
use mpisee_profile::run::{WITHOUT_MPI, rfc3339};
use mpisee_profile::{RankSet, WorldRank};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Order of communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Time in MPI since the last update
    Time,
    /// Calls since the last update
    Calls,
    /// Bytes since the last update
    Bytes,
    Name,
}

/// Functions of a stack that are shown, those nearest to the call and the outermost ones; JSON has
/// all.
const INNER_FRAMES: usize = 12;
const OUTER_FRAMES: usize = 4;

/// A job at one moment, and what happened since an earlier one.
pub struct Report {
    pub rows: Vec<Row>,
    pub groups: Vec<RankGroup>,
    pub hangs: Vec<Hang>,
    pub deadlocks: Vec<Deadlock>,
    /// Seconds since the earlier moment; where nodes were looked at in different intervals, the
    /// longest.
    pub interval_s: f64,
    /// Part of the time of all ranks here that was in MPI: in all, and in the interval.
    pub mpi_share: f64,
    pub interval_mpi_share: f64,
    /// The part of the interval in which ranks had no core, as
    /// [`Growth::no_core`](super::growth::Growth).
    pub no_core: BTreeMap<WorldRank, f64>,
}

impl Report {
    /// Compares two moments of a job.
    pub fn new(before: &Job, now: &Job, sort: SortKey, hang_s: f64) -> Report {
        let growth = now.growth.as_ref();
        let growth = growth.map_or_else(|| Cow::Owned(now.growth_since(before)), Cow::Borrowed);
        let interval_s = growth.interval_s;
        let all_s = now.thread_seconds();
        let rate = |part: f64, whole: f64| if whole > 0.0 { to_nine_decimals(part / whole) } else { 0.0 };
        let mut rows: Vec<Row> = Vec::new();
        for (name, comm) in &now.comms {
            let more = growth.comms.get(name).copied().unwrap_or_default();
            rows.push(Row {
                comm: name.clone(),
                label: comm.label.clone(),
                size: comm.size,
                members_here: comm.here,
                calls: comm.calls,
                bytes: comm.bytes,
                time_s: to_nine_decimals(comm.time_s),
                share_of_time: rate(comm.time_s, all_s),
                interval_calls_per_s: to_nine_decimals(more.calls),
                interval_bytes_per_s: to_nine_decimals(more.bytes),
                interval_share_of_time: rate(more.time_s, growth.thread_seconds),
            });
        }
        let of = |part: fn(&Row) -> f64| rows.iter().map(part).sum::<f64>();
        let (mpi_share, interval_mpi_share) =
            (of(|row| row.share_of_time), of(|row| row.interval_share_of_time));
        rows.sort_by(|left, right| {
            let key = |row: &Row| match sort {
                SortKey::Time => (row.interval_share_of_time, row.share_of_time),
                SortKey::Calls => (row.interval_calls_per_s, row.calls as f64),
                SortKey::Bytes => (row.interval_bytes_per_s, row.bytes as f64),
                SortKey::Name => (0.0, 0.0),
            };
            let ((left_now, left_all), (right_now, right_all)) = (key(left), key(right));
            let order = right_now.total_cmp(&left_now).then(right_all.total_cmp(&left_all));
            order.then_with(|| natural_order(&left.comm, &right.comm))
        });
        let ranks = now.ranks.iter().map(|(&rank, state)| (rank, state.ended, state.calls.as_slice()));
        let groups = groups(now, ranks, interval_s);
        let deadlocks = deadlocks(now, &now.still_since(before), hang_s);
        Report {
            rows,
            groups,
            hangs: hangs(now, hang_s, interval_s),
            deadlocks,
            interval_s,
            mpi_share,
            interval_mpi_share,
            no_core: growth.no_core.clone(),
        }
    }

    /// The ranks that lacked a core in the interval, as of [`cores::lack`] in a whole run, in a
    /// sentence.
    fn lack(&self) -> Option<String> {
        let lacks = |&(_, share): &(&WorldRank, &f64)| cores::lacks(*share, share * self.interval_s);
        let lacking = || self.no_core.iter().filter(lacks);
        let ranks: RankSet = lacking().map(|(&rank, _)| rank).collect();
        let (least, most) = lacking()
            .fold((1.0_f64, 0.0_f64), |(least, most), (_, &share)| (least.min(share), most.max(share)));
        let (noun, last) = (if ranks.len() == 1 { "Rank" } else { "Ranks" }, short_seconds(self.interval_s));
        let part = cores::range(least, most);
        (!ranks.is_empty()).then(|| format!("{noun} {ranks} waited for a CPU core {part} of the last {last}"))
    }

    /// The communicators.
    pub fn sheet(&self) -> Sheet {
        comm_table::each(&self.rows)
    }

    /// The job in lines of heading and text.
    pub fn header(&self, job: &Job) -> Vec<(&'static str, String)> {
        let program = &job.program;
        let here = job.here();
        let ended = job.ranks.values().filter(|rank| rank.ended).count();
        let where_from = if job.is_joined { "seen" } else { "here" };
        let mut ranks = format!("{} of {} {where_from}: {here}", here.len(), job.size);
        if ended > 0 {
            ranks += &format!(" ({ended} ended)");
        }
        if let Some(within_s) = job.read_within_s {
            ranks += &format!(", read one after the other within {}", time(within_s));
        }
        let mpi = match program.library == WITHOUT_MPI {
            true => program.library.clone(),
            false => format!("{} (flavour {})", library_version(&program.library), program.flavour),
        };
        let mut lines = vec![
            ("Command", printable(&program.command.join(" "))),
            ("MPI", printable(&mpi)),
            ("Ranks", ranks),
            ("Running", format!("{} since {}", short_seconds(job.elapsed_s), rfc3339(job.start_realtime_ns))),
            (
                "In MPI",
                format!(
                    "{:.1} % of the run, {:.1} % of the last {}; of the time of all ranks {where_from}",
                    100.0 * self.mpi_share,
                    100.0 * self.interval_mpi_share,
                    short_seconds(self.interval_s)
                ),
            ),
        ];
        if program.library == WITHOUT_MPI {
            lines.retain(|(heading, _)| *heading != "In MPI");
        }
        lines.extend(self.lack().map(|sentence| ("Cores", sentence)));
        if job.recording_was_off {
            let what = "was off for a time, or is off; ranks that do not record show no MPI call";
            lines.push(("Recording", what.to_owned()));
        }
        lines
    }

    /// Everything as lines, but for rows of communicators beyond the first [`MOST_COMMS`], which a
    /// line sums up.
    pub fn short_text(&self, job: &Job, page: Page) -> String {
        self.text_with(job, page, MOST_COMMS)
    }

    /// Everything as lines.
    pub fn text(&self, job: &Job, page: Page) -> String {
        self.text_with(job, page, usize::MAX)
    }

    fn text_with(&self, job: &Job, page: Page, most_rows: usize) -> String {
        let width = page.width.map_or(usize::MAX, usize::from);
        let mut text = String::new();
        let mut say = |heading: &str, value: &str| {
            let plain = format!("{heading:<9}  ");
            text += &line_breaks::beside(&plain, value, width).replacen(heading, &page.bold(heading), 1);
        };
        self.header(job).iter().for_each(|(heading, value)| say(heading, value));
        say("Roll call", &roll::sentence(job));
        let stopped = job.ranks.iter().filter(|(_, rank)| rank.is_stopped);
        let stopped: RankSet = stopped.map(|(&rank, _)| rank).collect();
        if !stopped.is_empty() {
            let verb = if stopped.len() == 1 { "is" } else { "are" };
            say("Stopped", &format!("{} {verb} stopped, by a signal or a debugger", stopped.named()));
        }
        for deadlock in &self.deadlocks {
            let heading = if deadlock.is_certain { "Deadlock" } else { "Deadlock?" };
            say(heading, &printable(&deadlock.sentence()));
        }
        self.hangs.iter().for_each(|hang| say("Waiting", &printable(&as_of(job, hang.sentence()))));
        job.stack_problems.iter().for_each(|problem| say("Note", &printable(problem)));
        text += "\n";
        let before = std::iter::once(None).chain(self.groups.iter().map(Some));
        text.extend(self.groups.iter().zip(before).map(|(ranks, before)| group(job, ranks, before, width)));
        text += "\n";
        let families = Families::group(&self.rows);
        text += &families.sheet(most_rows).table(page);
        if let Some(closing) = families.closing(most_rows) {
            text += "\n";
            text += &page.wrapped_lines(&closing);
        }
        text
    }
}

/// A text on ranks that are in no call, of the library that the job uses.
fn as_of(job: &Job, text: String) -> String {
    if job.program.library == WITHOUT_MPI { text.replace("no MPI call", "no call of NCCL") } else { text }
}

/// Where some ranks are: a line, and one for each function from which they make the call, or in
/// which they sleep, unless those of the group before are the same, as of ranks in a cycle, whose
/// peers differ.
fn group(job: &Job, group: &RankGroup, before: Option<&RankGroup>, width: usize) -> String {
    let indented = |text: &str, first: usize, next: usize| {
        let broken = line_breaks::broken(&printable(text), width.saturating_sub(next));
        let indents = std::iter::once(first).chain(std::iter::repeat(next));
        broken.iter().zip(indents).map(|(part, indent)| format!("{:indent$}{part}\n", "")).collect::<String>()
    };
    let mut text = indented(&as_of(job, line(group) + &group.process_text()), 0, 2);
    text.extend(group.most_called_text().map(|said| indented(&said, 4, 6)));
    let stack = group.frames();
    if stack.len() > 1 && before.is_some_and(|before| before.frames() == stack) {
        return text + &indented("(the same stack)", 4, 6);
    }
    let mut show = |frames: &[String]| text.extend(frames.iter().map(|frame| indented(frame, 4, 6)));
    match stack.len().checked_sub(INNER_FRAMES + OUTER_FRAMES) {
        None | Some(0) => show(stack),
        Some(between) => {
            show(&stack[..INNER_FRAMES]);
            show(&[format!("({between} more)")]);
            show(&stack[INNER_FRAMES + between..]);
        }
    }
    text
}

/// The JSON document. Fields may be added; those that are there keep their meaning.
#[derive(Serialize)]
pub struct Document {
    /// Where the segments are.
    pub segments: String,
    pub jobs: Vec<JobDocument>,
    /// Segments that cannot be read, and why.
    pub skipped: Vec<SkippedDocument>,
}

/// See [`Document::skipped`].
#[derive(Serialize)]
pub struct SkippedDocument {
    pub path: String,
    pub why: String,
}

/// A job; sets of ranks are written as in comms.csv.
#[derive(Serialize)]
pub struct JobDocument {
    command: Vec<String>,
    mpi_library: String,
    mpi_flavour: String,
    /// Ranks in `MPI_COMM_WORLD`.
    ranks: u32,
    ranks_here: String,
    /// When recording began, UTC.
    start: String,
    elapsed_s: f64,
    /// The interval of the rates; where nodes were looked at in different ones, the longest.
    interval_s: f64,
    recording_was_off: bool,
    /// From the look at the first of several ranks to that at the last one; left out where readers
    /// on several nodes saw them.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_within_s: Option<f64>,
    share_of_time: f64,
    interval_share_of_time: f64,
    communicators: Vec<Row>,
    /// Where ranks are, those in the same place together.
    places: Vec<PlaceDocument>,
    /// Collectives in which ranks wait for others.
    waiting: Vec<WaitingDocument>,
    /// Ranks that wait for each other.
    deadlocks: Vec<DeadlockDocument>,
    /// Nodes of the ranks that are seen.
    nodes: usize,
    /// Ranks that no reader saw.
    not_seen: String,
    /// With `--stacks` why some are not known, or not resolved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack_problems: Vec<String>,
    /// Each rank with the places of its threads.
    processes: Vec<ProcessDocument>,
}

#[derive(Serialize)]
struct PlaceDocument {
    ranks: String,
    ended: bool,
    /// The operation; null for ranks in no MPI call.
    call: Option<&'static str>,
    comm: Option<String>,
    /// Which call of the operation on the communicator, from 1; of collectives alone.
    number: Option<u64>,
    /// With whom the call communicates; left out where that is not known, or all members of the
    /// communicator do.
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<WithDocument>,
    /// The longest stay of these ranks, and the shortest.
    for_s: Option<f64>,
    least_s: Option<f64>,
    /// With `--stacks` where in the program the call is made, from the innermost function; empty if
    /// that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    /// Of ranks in no MPI call that made none since the look before: seconds since their last calls
    /// returned, the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_s: Option<f64>,
    /// With `--stacks`, of ranks in no MPI call whose first threads sleep: where, from the
    /// innermost function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asleep: Vec<String>,
    /// With `--stacks`, where that of the current call is not known: what the ranks called most
    /// since the look before.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_called: Option<MostCalledDocument>,
}

/// Calls since the look before; the ranks need not be there now.
#[derive(Serialize)]
struct MostCalledDocument {
    call: &'static str,
    /// The calls of the rank that made fewest, and of the one that made most.
    least_calls: u64,
    most_calls: u64,
    /// True if all of them were made at one place.
    at_one_place: bool,
    /// The place with most of them, from the innermost function; empty if it is not known.
    stack: Vec<String>,
}

#[derive(Serialize)]
struct WaitingDocument {
    call: &'static str,
    comm: String,
    number: Option<u64>,
    for_s: f64,
    /// Who is in it.
    inside: String,
    /// Who has left it already.
    left: String,
    missing: Vec<PlaceDocument>,
    /// Members that have no segment here.
    elsewhere: String,
    /// Members that no rank on this node lists.
    elided: u64,
    /// Members of another world.
    foreign: u64,
}

#[derive(Serialize)]
struct DeadlockDocument {
    /// False if they only may wait for each other.
    certain: bool,
    /// Each waits for the next, the last for the first.
    cycle: Vec<PlaceDocument>,
    /// Ranks that wait for one of them.
    behind: String,
}

/// With whom a call communicates; what is not known, or does not apply, is left out.
#[derive(Default, Serialize)]
struct WithDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<PartnerDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<PartnerDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<i32>,
    /// True for `MPI_ANY_TAG`.
    #[serde(skip_serializing_if = "is_false")]
    any_tag: bool,
    /// Active requests; then `to` or `from` is that of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u32>,
    /// Of ranks that communicate with many different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    different: Option<u32>,
}

/// A process, or which of MPI's constants stands for it.
#[derive(Serialize)]
#[serde(untagged)]
enum PartnerDocument {
    /// By its ranks in the communicator and in the world; the latter is null if it is not known.
    Process {
        rank: u32,
        world_rank: Option<u32>,
    },
    Constant(&'static str),
}

fn is_false(value: &bool) -> bool {
    !value
}

impl PartnerDocument {
    fn from_partner(partner: Partner) -> Self {
        match partner {
            Partner::Rank { rank, in_world } => PartnerDocument::Process { rank, world_rank: in_world },
            Partner::Any => PartnerDocument::Constant("MPI_ANY_SOURCE"),
            Partner::Nobody => PartnerDocument::Constant("MPI_PROC_NULL"),
        }
    }
}

impl WithDocument {
    fn from_with(with: With) -> Self {
        let some = |partner| Some(PartnerDocument::from_partner(partner));
        let none = WithDocument::default();
        match with {
            With::To(to, tag) => WithDocument { to: some(to), tag, ..none },
            With::From(from, Tag::Is(tag)) => WithDocument { from: some(from), tag: Some(tag), ..none },
            With::From(from, Tag::Any) => WithDocument { from: some(from), any_tag: true, ..none },
            With::Both { to, from } => WithDocument { to: some(to), from: some(from), ..none },
            With::Requests { count, first } => {
                let requests = WithDocument { requests: Some(count), ..none };
                match first {
                    First::SendTo(to) => WithDocument { to: some(to), ..requests },
                    First::ReceiveFrom(from) => WithDocument { from: some(from), ..requests },
                    First::Collective | First::Other => requests,
                }
            }
            With::Different { count } => WithDocument { different: Some(count), ..none },
        }
    }
}

#[derive(Serialize)]
struct ProcessDocument {
    rank: u32,
    pid: u32,
    host: String,
    ended: bool,
    places: Vec<PlaceDocument>,
    /// Of a rank in no MPI call, seconds since its last one returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_s: Option<f64>,
    /// The part of the interval in which its first thread was ready to run and had no core, if that
    /// is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_core_share: Option<f64>,
    /// With `--stacks`, where its first thread sleeps, from the innermost function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asleep: Vec<String>,
    /// With `--stacks`, what it called most since the look before.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_called: Option<MostCalledDocument>,
}

fn frames_of(place: Option<&CallLocation>) -> Vec<String> {
    place.map_or_else(Vec::new, |place| place.stack.clone())
}

impl PlaceDocument {
    fn new(group: &RankGroup) -> Self {
        let at = &group.at;
        PlaceDocument {
            idle_s: group.idle_s.map(to_nine_decimals),
            asleep: frames_of(group.asleep.as_ref()),
            most_called: group.most_called.as_ref().map(MostCalledDocument::from_most),
            ..PlaceDocument::from_ranks(at.ranks.to_string(), at.ended, at.call.as_ref(), at.least_s)
        }
    }

    fn from_ranks(ranks: String, ended: bool, current: Option<&CurrentCall>, least_s: f64) -> Self {
        PlaceDocument {
            ranks,
            ended,
            call: current.map(|current| current.call.name()),
            comm: current.and_then(|current| Some(current.comm.as_ref()?.1.clone())),
            number: current.and_then(|current| current.number),
            with: current.and_then(|current| current.with).map(WithDocument::from_with),
            for_s: current.map(|current| to_nine_decimals(current.for_s)),
            least_s: current.map(|_| to_nine_decimals(least_s)),
            stack: frames_of(current.map(|current| &current.place)),
            idle_s: None,
            asleep: Vec::new(),
            most_called: None,
        }
    }
}

impl MostCalledDocument {
    fn from_most(most: &MostCalledBy) -> Self {
        MostCalledDocument {
            call: most.operation.name(),
            least_calls: most.least,
            most_calls: most.most,
            at_one_place: most.is_at_one_place,
            stack: most.stack.clone(),
        }
    }
}

impl DeadlockDocument {
    fn from_deadlock(deadlock: &Deadlock) -> Self {
        let place = |(rank, call): &(WorldRank, CurrentCall)| {
            PlaceDocument::from_ranks(rank.to_string(), false, Some(call), call.for_s)
        };
        DeadlockDocument {
            certain: deadlock.is_certain,
            cycle: deadlock.cycle.iter().map(place).collect(),
            behind: deadlock.behind.to_string(),
        }
    }
}

impl JobDocument {
    /// Leaves out the list of processes, which grows with the ranks, and is for scripts.
    pub fn without_processes(self) -> Self {
        JobDocument { processes: Vec::new(), ..self }
    }

    /// The job as the report has it.
    pub fn new(job: &Job, report: Report) -> Self {
        let waiting = |hang: &Hang| WaitingDocument {
            call: hang.longest.call.name(),
            comm: hang.comm.clone(),
            number: hang.longest.number,
            for_s: to_nine_decimals(hang.longest.for_s),
            inside: hang.inside.to_string(),
            left: hang.left.to_string(),
            missing: hang.missing.iter().map(PlaceDocument::new).collect(),
            elsewhere: hang.elsewhere.to_string(),
            elided: hang.elided,
            foreign: hang.foreign,
        };
        let process = |(&rank, state): (&WorldRank, &super::job::Rank)| ProcessDocument {
            rank: rank.get(),
            pid: state.pid,
            host: state.host.clone(),
            ended: state.ended,
            places: state
                .calls
                .iter()
                .map(|current| {
                    PlaceDocument::from_ranks(rank.to_string(), state.ended, Some(current), current.for_s)
                })
                .collect(),
            idle_s: state.idle_s.map(to_nine_decimals),
            no_core_share: report.no_core.get(&rank).copied().map(to_nine_decimals),
            asleep: frames_of(state.asleep.as_ref()),
            most_called: state
                .most_called
                .as_ref()
                .map(|most| MostCalledDocument::from_most(&MostCalledBy::from(most))),
        };
        JobDocument {
            command: job.program.command.clone(),
            mpi_library: job.program.library.clone(),
            mpi_flavour: job.program.flavour.clone(),
            ranks: job.size,
            ranks_here: job.here().to_string(),
            start: rfc3339(job.start_realtime_ns),
            elapsed_s: to_nine_decimals(job.elapsed_s),
            interval_s: to_nine_decimals(report.interval_s),
            recording_was_off: job.recording_was_off,
            read_within_s: job.read_within_s.map(to_nine_decimals),
            share_of_time: to_nine_decimals(report.mpi_share),
            interval_share_of_time: to_nine_decimals(report.interval_mpi_share),
            stack_problems: job.stack_problems.iter().cloned().collect(),
            places: report.groups.iter().map(PlaceDocument::new).collect(),
            waiting: report.hangs.iter().map(waiting).collect(),
            deadlocks: report.deadlocks.iter().map(DeadlockDocument::from_deadlock).collect(),
            nodes: roll::nodes(job),
            not_seen: roll::not_seen(job).to_string(),
            processes: job.ranks.iter().map(process).collect(),
            communicators: report.rows,
        }
    }
}
