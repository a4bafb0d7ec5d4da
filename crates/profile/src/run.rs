//! `run.json`: the run as a whole.

use crate::{RankSet, SiteId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The MPI library that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MpiInfo {
    /// The first line of `MPI_Get_library_version`.
    pub library: String,
    /// The flavour of libmpisee.so that recorded.
    pub flavour: String,
    /// The level that `MPI_Init_thread` provided: single, funneled, serialized or multiple.
    pub thread_level: String,
    /// The performance variables that were read (`--mpi-t`), on rank 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<VariableInfo>,
    /// With `--mpi-t`, control variables that are not at their defaults, on rank 0: those that its
    /// environment or a file of parameters sets, and those that changed while the program ran.
    /// Defaults themselves no MPI tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<ControlInfo>,
}

/// A performance variable of the MPI library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableInfo {
    /// Its name.
    pub name: String,
    /// Its class, as in `variables.csv`.
    pub class: String,
    /// True if it is of a communicator, and was read for `MPI_COMM_WORLD`.
    pub of_world: bool,
    /// The library's description of it.
    pub description: String,
}

/// A control variable of the MPI library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlInfo {
    /// Its name.
    pub name: String,
    /// Its value, as the library says it.
    pub value: String,
    /// `environment`, `file`, or `program` for one that changed after `MPI_Init`.
    pub set_by: String,
}

/// The profiler's overhead. Time added to `MPI_Init` and `MPI_Finalize` is in neither `time_s` nor
/// the wall time. What recording costs is measured in the run, of about one call in a thousand; if
/// too few calls were, it is what they cost in a loop at the begin of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfilerInfo {
    /// Nanoseconds that a recorded call of the simplest kind costs in a loop, on rank 0.
    pub call_ns: f64,
    /// Seconds that the profiler added to `MPI_Init`, on the rank where that was most.
    pub init_s: f64,
    /// Seconds from the moment when the last rank came to the end of MPI until the profile was
    /// written. None in profiles that were recovered, and in those of earlier versions.
    #[serde(default)]
    pub finalize_s: Option<f64>,
    /// Seconds that recording took, summed over ranks: the best estimate.
    pub time_s: f64,
    /// The same, at the least and at the most. Both are `time_s` if too few calls were measured.
    #[serde(default)]
    pub low_s: f64,
    /// See `low_s`.
    #[serde(default)]
    pub high_s: f64,
    /// Calls of which the overhead was measured, over all ranks; 0 if there were too few of them.
    #[serde(default)]
    pub sampled_calls: u64,
    /// `time_s` by the wall time of all ranks, from 0 to 1.
    pub share_of_wall: f64,
    /// The method of collecting rows: `node`, from the segments of a node's ranks, by the last that
    /// came to the end of MPI; `tree`, by messages to rank 0; `recover`, from segments that ranks
    /// left; `mpi-io`, by all ranks, in earlier versions.
    #[serde(default)]
    pub collected: String,
}

/// The last call of ranks that ended without `MPI_Finalize`: those that were killed in a call, or
/// hung in it before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedIn {
    /// The ranks, as in the column `members` of comms.csv.
    pub ranks: String,
    /// The MPI function; none for ranks that were in no call.
    pub call: Option<String>,
    /// The communicator, by the name in comms.csv; of a wait that of its first active request. None
    /// where it is not known.
    pub comm: Option<String>,
    /// Of a collective: which call of the function on the communicator it was, from 1, the same on
    /// all members.
    pub number: Option<u64>,
    /// With whom the ranks communicated, for reading: `from 3 tag 4`. None of collectives, and
    /// where it is not known. Above 8 different peers and tags in one function on one communicator,
    /// their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The peer, by its rank in `MPI_COMM_WORLD`: the source or destination of the message, or of
    /// the only request. None for `MPI_ANY_SOURCE`, and where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// The tag of the message; none for `MPI_ANY_TAG`, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<i32>,
    /// Where in the program the call was made, as in sites.csv; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// Seconds that the rank which was there longest had spent there, up to the last sign of life
    /// of any rank of its node: a lower bound.
    pub at_least_s: f64,
}

impl EndedIn {
    /// `Ranks 0-2 were in MPI_Allreduce on W (call 18), called by step at solver.c:301, for 12.0 s
    /// or longer`, `Rank 2 was in MPI_Recv from 3 tag 4 on W, for 12.0 s or longer`; `place` is
    /// where the call was made, if that is known.
    pub fn sentence(&self, place: Option<&str>) -> String {
        let one = self.ranks.bytes().all(|byte| byte.is_ascii_digit());
        let (noun, verb) = if one { ("Rank", "was") } else { ("Ranks", "were") };
        let mut text = format!("{noun} {} {verb} in ", self.ranks);
        let Some(call) = &self.call else { return text + "no MPI call" };
        text += &call_text(call, self.with.as_deref(), self.comm.as_deref(), self.number, place);
        if self.at_least_s >= SHORTEST_NAMED_S {
            text += &format!(", for {:.1} s or longer", self.at_least_s);
        }
        text
    }
}

/// `MPI_Recv from 3 tag 4 on W, called by read at io.c:88`.
fn call_text(
    call: &str,
    with: Option<&str>,
    comm: Option<&str>,
    number: Option<u64>,
    place: Option<&str>,
) -> String {
    let mut text = call.to_owned();
    if let Some(with) = with {
        text += &format!(" {with}");
    }
    if let Some(comm) = comm {
        text += &format!(" on {comm}");
    }
    if let Some(number) = number {
        text += &format!(" (call {number})");
    }
    if let Some(place) = place {
        text += &format!(", called by {place}");
    }
    text
}

/// Ranks that waited for each other when they ended, so that none of them could ever go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedDeadlock {
    /// Each rank with its call. It waited for the next one, the last for the first.
    pub cycle: Vec<BlockedRank>,
    /// Ranks that waited for one of them, directly or by way of others, as in the column `members`
    /// of comms.csv.
    pub behind: String,
}

/// A rank of a deadlock, in its last call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedRank {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The MPI function.
    pub call: String,
    /// See [`EndedIn::comm`].
    pub comm: Option<String>,
    /// See [`EndedIn::number`].
    pub number: Option<u64>,
    /// See [`EndedIn::with`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// See [`EndedIn::site`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

impl EndedDeadlock {
    /// One sentence without its full stop; `place` says where in the program a site is, if that is
    /// known.
    pub fn sentence(&self, mut place: impl FnMut(SiteId) -> Option<String>) -> String {
        let call = |one: &BlockedRank| {
            let place = one.site.and_then(&mut place);
            let (with, comm) = (one.with.as_deref(), one.comm.as_deref());
            (one.rank, call_text(&one.call, with, comm, one.number, place.as_deref()))
        };
        let shown: Vec<(u32, String)> = self.cycle.iter().take(MOST_OF_CYCLE).map(call).collect();
        // What is no list of ranks is reported by `check`.
        let behind = self.behind.parse().unwrap_or_default();
        cycle_sentence(&shown, self.cycle.len(), &behind, Wait::Past)
    }
}

/// Ranks of a cycle that a sentence shows.
pub const MOST_OF_CYCLE: usize = 8;

/// How certain a cycle is, and when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The ranks wait.
    Now,
    /// They may wait.
    Maybe,
    /// They waited when they ended.
    Past,
}

impl Wait {
    fn verb(self, is_one: bool) -> &'static str {
        match (self, is_one) {
            (Wait::Now, true) => "waits",
            (Wait::Now, false) => "wait",
            (Wait::Maybe, _) => "may wait",
            (Wait::Past, _) => "waited",
        }
    }
}

/// `ranks 0 -> 1 -> 0 wait for each other: rank 0 in …; rank 1 in …; rank 2 waits for them`, of a
/// cycle of so many ranks, of which the first are `shown`, [`MOST_OF_CYCLE`] at most.
pub fn cycle_sentence(shown: &[(u32, String)], ranks: usize, behind: &RankSet, wait: Wait) -> String {
    let more = ranks.saturating_sub(shown.len());
    let mut way: Vec<String> = shown.iter().map(|(rank, _)| rank.to_string()).collect();
    way.extend((more > 0).then(|| format!("({more} more)")));
    way.extend(shown.first().map(|(rank, _)| rank.to_string()));
    let mut text = match ranks {
        1 => format!("rank {} {} for itself: ", way[0], wait.verb(true)),
        _ => format!("ranks {} {} for each other: ", way.join(" -> "), wait.verb(false)),
    };
    let calls: Vec<String> = shown.iter().map(|(rank, call)| format!("rank {rank} in {call}")).collect();
    text += &calls.join("; ");
    if more > 0 {
        text += &format!("; and {more} more");
    }
    if !behind.is_empty() {
        // Who waits for ranks that may wait does wait.
        let wait = if wait == Wait::Maybe { Wait::Now } else { wait };
        text += &format!("; {} {} for them", behind.named(), wait.verb(behind.len() == 1));
    }
    text
}

/// Facts that a profile of another tool lacks, after `mpisee-through import`: a reader says nothing
/// about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lacking {
    /// On which communicator a call was.
    Communicators,
    /// The parents of communicators, their members without calls, labels and topologies.
    Ancestry,
    /// Who sent to whom.
    Peers,
    /// The bytes of receives and of some collectives.
    SomeBytes,
    /// The shortest and the longest call.
    LongestCalls,
    /// The communicators of calls that complete requests.
    Completions,
    /// Named regions.
    Regions,
    /// More digits than the three or four that are printed.
    ExactNumbers,
}

impl Lacking {
    /// The missing data, as an end of "it does not have …".
    pub fn text(self) -> &'static str {
        match self {
            Lacking::Communicators => "the communicators of calls",
            Lacking::Ancestry => "who made which communicator of which",
            Lacking::Peers => "who sent to whom",
            Lacking::SomeBytes => "the bytes of receives and of some collectives",
            Lacking::LongestCalls => "the longest calls",
            Lacking::Completions => "the communicators of waits",
            Lacking::Regions => "regions",
            Lacking::ExactNumbers => "more than three or four digits",
        }
    }
}

/// The origin of a profile that `mpisee-through import` has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The profiler that recorded, with its version: `mpiP 3.5.0`.
    pub tool: String,
    /// The file that was read.
    pub file: String,
    /// The facts that it lacks.
    pub lacks: BTreeSet<Lacking>,
}

impl Imported {
    /// `Imported from a.mpiP of mpiP 3.5.0, which does not have who sent to whom and regions.`
    pub fn sentence(&self) -> String {
        let lacks: Vec<&str> = self.lacks.iter().map(|lacking| lacking.text()).collect();
        let lacks = match lacks.as_slice() {
            [] => String::new(),
            [one] => format!(", which does not have {one}"),
            [most @ .., last] => format!(", which does not have {} and {last}", most.join(", ")),
        };
        format!("Imported from {} of {}{lacks}.", self.file, self.tool)
    }
}

/// Ranks whose clock jumped: the time-stamp counter and the monotonic clock disagreed, or the
/// monotonic clock went back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClocksApart {
    /// How many ranks.
    pub ranks: u64,
    /// Seconds by which the clocks of a rank disagreed at most.
    pub most_s: f64,
}

/// A request by `mpisee-through record` to switch recording on or off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchInfo {
    /// True if recording was to be on.
    pub on: bool,
    /// When it was made, UTC, RFC 3339.
    pub asked: String,
    /// Ranks that switched.
    pub ranks: u64,
    /// When the first of them did, in seconds since it began to record.
    pub first_s: f64,
    /// When the last of them did.
    pub last_s: f64,
}

/// A shorter stay is not mentioned.
const SHORTEST_NAMED_S: f64 = 0.05;

/// The library of MPI in the profile of processes that use none.
pub const WITHOUT_MPI: &str = "none";

/// `run.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// [`crate::FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The version of mpisee that wrote the profile.
    pub mpisee_version: String,
    /// The MPI library.
    pub mpi: MpiInfo,
    /// The command line of rank 0.
    pub command: Vec<String>,
    /// The batch system's job: `Slurm 4711.0`, `PBS 4711.server`, `LSF 4711[3]`.
    #[serde(default)]
    pub job: Option<String>,
    /// The number that the processes of this `MPI_COMM_WORLD` share, and no others, in hexadecimal:
    /// its time line has the same. None in profiles of earlier versions and of other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world_id: Option<String>,
    /// When rank 0 left `MPI_Init`, UTC, RFC 3339.
    pub start: String,
    /// When rank 0 entered `MPI_Finalize`, UTC, RFC 3339.
    pub end: String,
    /// Processes in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// Nodes that they ran on.
    pub nodes: u32,
    /// True if rows are sums over ranks, see [`crate::rows::aggregate`]; else there are rows of
    /// each rank.
    #[serde(default)]
    #[serde(rename = "folded")]
    pub is_aggregate: bool,
    /// True if every rank's counters are in the profile.
    pub complete: bool,
    /// Why not, if not.
    pub incomplete_because: Option<String>,
    /// The last calls of ranks that ended without `MPI_Finalize`, those of the longest stay first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_in: Vec<EndedIn>,
    /// Deadlocks of ranks that ended without `MPI_Finalize`: those that follow for certain from
    /// their last calls and from what was sent and received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlocks: Vec<EndedDeadlock>,
    /// The clock that measured time: `tsc` or `monotonic`.
    pub clock: String,
    /// True if some rank switched recording off for a part of the run.
    pub recording_was_off: bool,
    /// Requests from outside to switch recording on or off, in the order in which they were made;
    /// the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchInfo>,
    /// Calls that are in no table, by reason, summed over ranks; see [`crate::segment::NotSeen`].
    pub not_seen: BTreeMap<String, u64>,
    /// True if every name of a communicator stands for the same members on all of them; none where
    /// that was not verified, as some ranks are missing.
    #[serde(default)]
    pub names_agree: Option<bool>,
    /// The profiler's overhead.
    #[serde(default)]
    pub profiler: ProfilerInfo,
    /// The ranks whose clock jumped, so that their times are wrong; none where no clock did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks_apart: Option<ClocksApart>,
    /// Remarks about recording, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The origin of a profile that another tool recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

impl RunInfo {
    /// Returns whether the profile is imported from a tool that does not record this.
    pub fn lacks(&self, what: Lacking) -> bool {
        self.imported.as_ref().is_some_and(|imported| imported.lacks.contains(&what))
    }

    /// The sentence on clocks that jumped, without its full stop: `the time-stamp counter and the
    /// monotonic clock of 2 ranks disagree by up to 30.0 s: times of these ranks are wrong`.
    pub fn clock_sentence(&self) -> Option<String> {
        let &ClocksApart { ranks, most_s } = self.clocks_apart.as_ref()?;
        let (noun, these) = match ranks {
            1 => ("1 rank".to_owned(), "this rank"),
            _ => (format!("{ranks} ranks"), "these ranks"),
        };
        let most = if most_s < 1.0 { format!("{:.1} ms", most_s * 1e3) } else { format!("{most_s:.1} s") };
        let what = match self.clock.as_str() {
            "monotonic" => format!("the monotonic clock of {noun} went back"),
            _ => format!("the time-stamp counter and the monotonic clock of {noun} disagree"),
        };
        Some(format!("{what} by up to {most}: times of {these} are wrong"))
    }

    /// Returns whether it is of processes that use no MPI.
    pub fn is_without_mpi(&self) -> bool {
        self.mpi.library == WITHOUT_MPI
    }
}

/// `2026-01-31T12:00:00Z`, from nanoseconds since 1970.
pub fn rfc3339(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days as i64);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01, after H. Hinnant, "chrono-compatible
/// low-level date algorithms": years begin in March, so that the leap day is the last.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_in_a_sentence() {
        let mut place = EndedIn {
            ranks: "0-2".to_owned(),
            call: Some("MPI_Allreduce".to_owned()),
            comm: Some("W".to_owned()),
            number: Some(18),
            at_least_s: 12.04,
            ..EndedIn::default()
        };
        assert_eq!(
            place.sentence(None),
            "Ranks 0-2 were in MPI_Allreduce on W (call 18), for 12.0 s or longer"
        );
        place = EndedIn { number: None, at_least_s: 0.0, comm: None, ..place };
        assert_eq!(place.sentence(None), "Ranks 0-2 were in MPI_Allreduce");
        let message = EndedIn {
            ranks: "3".to_owned(),
            call: Some("MPI_Recv".to_owned()),
            comm: Some("W".to_owned()),
            with: Some("from 3 tag 4".to_owned()),
            ..EndedIn::default()
        };
        assert_eq!(
            message.sentence(Some("read at io.c:88")),
            "Rank 3 was in MPI_Recv from 3 tag 4 on W, called by read at io.c:88"
        );
        place = EndedIn { ranks: "3".to_owned(), call: None, ..place };
        assert_eq!(place.sentence(None), "Rank 3 was in no MPI call");
    }

    #[test]
    fn clocks_that_disagree_are_told_in_a_sentence() {
        let run = |clock: &str, ranks, most_s| RunInfo {
            clock: clock.to_owned(),
            clocks_apart: Some(ClocksApart { ranks, most_s }),
            ..RunInfo::default()
        };
        assert_eq!(
            run("tsc", 2, 29.999_998).clock_sentence().unwrap(),
            "the time-stamp counter and the monotonic clock of 2 ranks disagree by up to 30.0 s: times of these ranks are \
             wrong"
        );
        assert_eq!(
            run("monotonic", 1, 0.0123).clock_sentence().unwrap(),
            "the monotonic clock of 1 rank went back by up to 12.3 ms: times of this rank are wrong"
        );
        assert_eq!(RunInfo::default().clock_sentence(), None);
    }

    #[test]
    fn moments_are_written_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000_000_000), text);
        }
    }
}
