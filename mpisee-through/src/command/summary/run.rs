//! The run as a whole: what ran where, and how much of its time was MPI.

use crate::cores;
use crate::filter::CommFilter;
use crate::interrupted;
use crate::own_cost::{self, MostOfRank};
use crate::short_names::library_version;
use crate::units::{count, time, to_nine_decimals};
use crate::view::ProfileView;
use mpisee_profile::RunInfo;
use mpisee_profile::path_text::shell_word;
use mpisee_profile::rows::RankRow;
use mpisee_profile::run::{EndedDeadlock, EndedIn, Imported, SwitchInfo, WITHOUT_MPI};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZero;

/// The run as a whole; the fields are those of the JSON output.
#[derive(Debug, Serialize)]
pub struct RunSummary<'a> {
    profile: String,
    command: &'a [String],
    mpisee_version: &'a str,
    mpi_library: &'a str,
    mpi_flavour: &'a str,
    mpi_thread_level: &'a str,
    ranks: u32,
    /// Those of which the profile has rows: fewer where some were killed.
    #[serde(skip)]
    profiled: u64,
    nodes: u32,
    /// The job of a batch system.
    job: Option<&'a str>,
    /// On how many kernels were launched; none where kernels were not traced, and in profiles of
    /// sums.
    gpus: Option<NonZero<usize>>,
    start: &'a str,
    end: &'a str,
    clock: &'a str,
    /// Of the rank that took longest.
    wall_mean_s: f64,
    wall_max_s: f64,
    /// Mean over ranks.
    mpi_mean_s: f64,
    /// Over all ranks.
    mpi_s: f64,
    /// MPI time of all ranks by wall time of all ranks, from 0 to 1.
    mpi_share_of_wall: Option<f64>,
    /// MPI time of all ranks by the time of the run, as [`advise`](crate::command::advise) has it,
    /// from 0 to 1.
    mpi_share_of_run: Option<f64>,
    /// The ranks that were ready to run and had no core, with the part of their time, in a
    /// sentence.
    no_core: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores_note: Option<String>,
    /// The time of the profiler: seconds, mean over ranks, with the range in which it lies if calls
    /// were measured; by the ranks' wall time; and in nanoseconds per simple call in a loop.
    profiler_mean_s: f64,
    profiler_mean_range_s: Option<[f64; 2]>,
    /// Calls of which the overhead was measured.
    profiler_sampled_calls: u64,
    /// The time that it added to `MPI_Init` and `MPI_Finalize`.
    profiler_init_s: f64,
    profiler_finalize_s: Option<f64>,
    profiler_share_of_wall: f64,
    /// By the time in which ranks had a core, where they lacked one.
    #[serde(skip_serializing_if = "Option::is_none")]
    profiler_share_of_core_time: Option<f64>,
    /// The rank of which it took most, where that is much more than of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    profiler_most: Option<MostOfRank>,
    profiler_call_ns: f64,
    /// True if rows are sums over ranks.
    #[serde(rename = "folded")]
    is_aggregate: bool,
    #[serde(skip)]
    layout_note: Option<&'static str>,
    /// True if tables name the rank that took longest.
    #[serde(skip)]
    pub names_slowest_rank: bool,
    /// True if ranks ended without `MPI_Finalize`, so that wall times are lower bounds.
    #[serde(skip)]
    is_interrupted: bool,
    complete: bool,
    incomplete_because: Option<&'a str>,
    ended_in: &'a [EndedIn],
    /// A sentence for each of them.
    #[serde(skip)]
    ended_places: Vec<String>,
    #[serde(skip_serializing_if = "<[EndedDeadlock]>::is_empty")]
    deadlocks: &'a [EndedDeadlock],
    /// A sentence for each of them.
    #[serde(skip)]
    deadlock_sentences: Vec<String>,
    recording_was_off: bool,
    #[serde(skip_serializing_if = "<[SwitchInfo]>::is_empty")]
    switches: &'a [SwitchInfo],
    names_agree: Option<bool>,
    not_seen_calls: &'a BTreeMap<String, u64>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    imported: Option<&'a Imported>,
}

impl<'a> RunSummary<'a> {
    /// From `run.json` and what is known of the processes.
    pub fn new(view: &'a ProfileView) -> Self {
        let (run, processes): (&RunInfo, _) = (view.run(), view.processes());
        let (wall_s, mpi_s) = (processes.wall_s(), processes.mpi_s());
        let run_s = processes.run_s(&CommFilter::default(), run.complete);
        let lack = cores::lack(processes, |_| true);
        let mean = |over_all_s: f64| to_nine_decimals(over_all_s / processes.count().max(1) as f64);
        RunSummary {
            profile: view.profile().directory().display().to_string(),
            command: &run.command,
            mpisee_version: &run.mpisee_version,
            mpi_library: &run.mpi.library,
            mpi_flavour: &run.mpi.flavour,
            mpi_thread_level: &run.mpi.thread_level,
            ranks: run.ranks,
            profiled: processes.count(),
            nodes: run.nodes,
            job: run.job.as_deref(),
            gpus: NonZero::new(
                processes.ranks().iter().flat_map(RankRow::gpus).collect::<HashSet<_>>().len(),
            ),
            start: &run.start,
            end: &run.end,
            clock: &run.clock,
            wall_mean_s: to_nine_decimals(wall_s / processes.count().max(1) as f64),
            wall_max_s: to_nine_decimals(processes.wall_max_s()),
            mpi_mean_s: to_nine_decimals(mpi_s / processes.count().max(1) as f64),
            mpi_s: to_nine_decimals(mpi_s),
            mpi_share_of_wall: processes.mpi_share().map(to_nine_decimals),
            mpi_share_of_run: processes.mpi_share().map(|_| to_nine_decimals(mpi_s / run_s)),
            no_core: lack.as_ref().map(cores::Lack::sentence),
            cores_note: cores::note_of_ended(view),
            profiler_mean_s: mean(run.profiler.time_s),
            profiler_mean_range_s: (run.profiler.sampled_calls > 0)
                .then(|| [run.profiler.low_s, run.profiler.high_s].map(mean)),
            profiler_sampled_calls: run.profiler.sampled_calls,
            profiler_init_s: to_nine_decimals(run.profiler.init_s),
            profiler_finalize_s: run.profiler.finalize_s.map(to_nine_decimals),
            profiler_share_of_wall: to_nine_decimals(run.profiler.share_of_wall),
            profiler_share_of_core_time: lack
                .as_ref()
                .and_then(|_| own_cost::share_of_core_time(processes.ranks())),
            profiler_most: own_cost::uneven(processes.ranks()),
            profiler_call_ns: to_nine_decimals(run.profiler.call_ns),
            is_aggregate: run.is_aggregate,
            layout_note: view.note(),
            names_slowest_rank: view.names_slowest_rank(),
            is_interrupted: interrupted::is_of(run),
            complete: run.complete,
            incomplete_because: run.incomplete_because.as_deref(),
            ended_in: &run.ended_in,
            deadlocks: &run.deadlocks,
            deadlock_sentences: interrupted::deadlocks(view),
            ended_places: interrupted::sentences(view, &run.ended_in.iter().collect::<Vec<_>>()),
            recording_was_off: run.recording_was_off,
            switches: &run.switches,
            names_agree: run.names_agree,
            not_seen_calls: &run.not_seen,
            notes: &run.notes,
            imported: run.imported.as_ref(),
        }
    }

    /// The run in lines of heading and value.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let at_least = if self.is_interrupted { "at least " } else { "" };
        let mut lines = vec![
            (
                "Command",
                self.command.iter().map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" "),
            ),
            ("MPI", self.mpi()),
            ("Ranks", self.places()),
        ];
        lines.extend(self.job.map(|job| ("Job", job.to_owned())));
        if !self.start.is_empty() {
            lines.push(("Start", self.start.to_owned()));
        }
        lines.push((
            "Wall time",
            format!(
                "{at_least}{} (mean over ranks), {at_least}{} (longest rank)",
                time(self.wall_mean_s),
                time(self.wall_max_s)
            ),
        ));
        if self.mpi_library != WITHOUT_MPI {
            let run = match self.is_interrupted {
                true => "time up to the last known call of each rank",
                false => "run",
            };
            let share = match self.mpi_share_of_run {
                Some(share) => format!("{:.1} % of the {run}", 100.0 * share),
                None => "of threads that were in MPI at once".to_owned(),
            };
            let [mean, all] = [self.mpi_mean_s, self.mpi_s].map(time);
            lines.push(("MPI time", format!("{mean} (mean over ranks), {share}; {all} over all ranks")));
        }
        lines.extend(self.no_core.clone().map(|sentence| ("Cores", sentence)));
        if self.profiler_call_ns > 0.0 {
            lines.push(("Profiler", self.overhead()));
            lines.extend(self.longer().map(|longer| ("", longer)));
        }
        lines
    }

    fn overhead(&self) -> String {
        let mut share = format!("{} of wall time", estimated(self.profiler_share_of_wall));
        if let Some(of_core_time) = self.profiler_share_of_core_time {
            share += &format!(" and {} of the time with a core", estimated(of_core_time));
        }
        let mean = match self.profiler_mean_range_s {
            Some([low_s, high_s]) => {
                format!("{} to {} (mean over ranks), about {share}", time(low_s), time(high_s))
            }
            None => format!("{} (mean over ranks), {share}", time(self.profiler_mean_s)),
        };
        let most = self.profiler_most.map(|most| {
            let share = estimated(most.share_of_wall);
            format!("; most on rank {}: about {}, {share} of its wall time", most.rank, time(most.time_s))
        });
        let off = if self.recording_was_off { "; without calls while recording was off" } else { "" };
        mean + most.as_deref().unwrap_or_default() + off
    }

    /// The time that the profiler adds before and after the wall time.
    fn longer(&self) -> Option<String> {
        let [begin, end] = match self.mpi_library {
            WITHOUT_MPI => ["the first communicator", "the exit"],
            _ => ["MPI_Init", "MPI_Finalize"],
        };
        let init = (self.profiler_init_s > 0.0).then(|| format!("{begin} {}", time(self.profiler_init_s)));
        let finalize = self.profiler_finalize_s.map(|longer_s| format!("{end} {}", time(longer_s)));
        let parts: Vec<String> = init.into_iter().chain(finalize).collect();
        (!parts.is_empty()).then(|| parts.join(", ") + " longer")
    }

    /// Returns whether it is of processes without MPI.
    pub fn is_without_mpi(&self) -> bool {
        self.mpi_library == WITHOUT_MPI
    }

    /// The library without details of its build, and the flavour.
    fn mpi(&self) -> String {
        let library = library_version(self.mpi_library);
        match self.mpi_flavour {
            "" if library.is_empty() => "unknown".to_owned(),
            "" => library.to_string(),
            flavour => format!("{library} (flavour {flavour})"),
        }
    }

    fn places(&self) -> String {
        let ranks = match self.profiled {
            profiled if profiled > 0 && profiled < u64::from(self.ranks) => {
                format!("{profiled} of {}", self.ranks)
            }
            _ => self.ranks.to_string(),
        };
        let nodes = format!("{ranks} on {}", count(u64::from(self.nodes), "node"));
        let Some(gpus) = self.gpus else { return nodes };
        format!("{nodes}, with {}", count(gpus.get() as u64, "GPU"))
    }

    /// Notes for the reader of the numbers, one sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.imported.iter().map(|imported| imported.sentence()).collect();
        if !self.complete {
            let why = self.incomplete_because.unwrap_or("run.json does not say why");
            sentences.push(format!("The profile is incomplete: {why}."));
            sentences.extend(self.deadlock_sentences.iter().map(|one| format!("Deadlock: {one}.")));
            sentences.extend(self.ended_places.iter().map(|place| format!("{place}.")));
        }
        sentences.extend(self.cores_note.clone());
        sentences.extend(self.layout_note.map(str::to_owned));
        if self.names_agree == Some(false) {
            sentences.push(
                "Names of communicators do not stand for the same members on all ranks. Some rank made a \
                 communicator by a call that the profiler did not see."
                    .to_owned(),
            );
        }
        if self.recording_was_off {
            sentences.push("Recording was off for a part of the run on some rank.".to_owned());
        }
        sentences.extend(switched(self.switches, self.ranks));
        for (reason, &calls) in self.not_seen_calls.iter().filter(|&(_, &calls)| calls > 0) {
            sentences.push(format!("Not in the tables: {reason} ({calls})."));
        }
        sentences.extend(self.notes.iter().cloned());
        sentences
    }
}

/// `Recording was switched from outside: off after 12.3 s, for 600 s; on after 612 s, until the
/// end.` Of many times the first are shown.
fn switched(switches: &[SwitchInfo], ranks: u32) -> Option<String> {
    const MOST: usize = 4;
    let part = |(at, switch): (usize, &SwitchInfo)| {
        let on = if switch.on { "on" } else { "off" };
        let some = if switch.ranks == u64::from(ranks) {
            String::new()
        } else {
            format!(" ({} of {})", switch.ranks, count(ranks.into(), "rank"))
        };
        let length = match switches.get(at + 1) {
            Some(next) => format!("for {}", time((next.first_s - switch.first_s).max(0.0))),
            None => "until the end".to_owned(),
        };
        format!("{on}{some} after {}, {length}", time(switch.first_s))
    };
    let shown = if switches.len() > MOST + 1 { MOST } else { switches.len() };
    let mut parts: Vec<String> = switches.iter().enumerate().take(shown).map(part).collect();
    if shown < switches.len() {
        // Of very many, run.json itself has only the first.
        parts.push("and more often, see switches in run.json".to_owned());
    }
    (!parts.is_empty()).then(|| format!("Recording was switched from outside: {}.", parts.join("; ")))
}

/// A share that is an estimate, in per cent: with the digits that may hold.
fn estimated(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 10.0 { format!("{percent:.2} %") } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::{SwitchInfo, switched};

    #[test]
    fn periods_between_switches_are_told() {
        let switch = |on, ranks, first_s| SwitchInfo {
            on,
            ranks,
            first_s,
            last_s: first_s + 0.5,
            asked: "2026-01-31T12:00:00Z".to_owned(),
        };
        let switches = [switch(false, 8, 12.3), switch(true, 7, 612.3)];
        assert_eq!(
            switched(&switches, 8).as_deref(),
            Some(
                "Recording was switched from outside: off after 12.3 s, for 600 s; on (7 of 8 ranks) after 612 s, until the \
                 end."
            )
        );
        assert_eq!(switched(&[], 8), None);
        let many: Vec<_> = (0..40).map(|at| switch(at % 2 == 1, 8, f64::from(at))).collect();
        let said = switched(&many, 8).unwrap();
        assert!(
            said.ends_with("on after 3.00 s, for 1.00 s; and more often, see switches in run.json."),
            "{said}"
        );
    }
}
