//! The current calls of ranks: those in which they are, or were when they ended, each with its
//! communicator. Ranks in the same call are put together, for `top` and for `ended_in` of
//! `run.json`.

use super::{Clock, With};
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::active_call::{ActiveCall, CurrentFunction};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::call::CALLS;
use mpisee_profile::{CommId, RankSet, SiteId, Ticks, WorldRank};
use std::collections::{BTreeMap, BTreeSet};

/// A call in which a thread is.
#[derive(Clone, Debug, PartialEq)]
pub struct CurrentCall {
    /// The call.
    pub call: CurrentFunction,
    /// The number of its communicator in the process, and the name; `None` where it is not known.
    pub comm: Option<(CommId, String)>,
    /// Its number among the rank's calls of the operation on the communicator, from 1; of a
    /// collective the same on all members. `None` where they cannot be counted.
    pub number: Option<u64>,
    /// With whom it communicates; `None` where that is not known, or all members of the
    /// communicator do.
    pub with: Option<With>,
    /// When the rank entered it, on the clock of its process: two calls of a thread do not begin at
    /// the same tick.
    pub since: Ticks,
    /// Seconds since then.
    pub for_s: f64,
    /// Where in the program it is made.
    pub place: CallLocation,
}

/// Where in the program a call is made, as far as somebody has looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallLocation {
    /// Its call stack as functions with their lines, the innermost first; empty if nobody has
    /// looked.
    pub stack: Vec<String>,
    /// The frame of `stack` that stands for it, counted from 0: the first one outside of libraries
    /// that call MPI for programs.
    pub outside: usize,
    /// Its call site; `None` if nobody has looked.
    pub site: Option<SiteId>,
}

/// The current calls of a process's threads, that of the longest stay first. `names` are those of
/// its communicators. `place` says where in the program one is made.
pub fn of_snapshot(
    snapshot: &Snapshot,
    names: &[String],
    clock: &Clock,
    mut place: impl FnMut(&ActiveCall) -> CallLocation,
) -> Vec<CurrentCall> {
    let current = |active: &ActiveCall| CurrentCall {
        call: active.call,
        comm: active.communicator.and_then(|id| Some((id, names.get(id.index())?.clone()))),
        number: number_of(snapshot, active),
        with: active.awaited.map(|awaited| With::from_awaited(snapshot, active.communicator, awaited)),
        since: active.since,
        for_s: clock.since(active.since),
        place: place(active),
    };
    let mut calls: Vec<CurrentCall> = snapshot.active_calls.iter().map(current).collect();
    calls.sort_by(|left, right| right.for_s.total_cmp(&left.for_s));
    calls
}

/// The number of the current call: completed calls plus one; `None` if recording was off at some
/// time.
fn number_of(snapshot: &Snapshot, active: &ActiveCall) -> Option<u64> {
    let (CurrentFunction::Operation(operation), Some(communicator), false) =
        (active.call, active.communicator, snapshot.recording_was_off)
    else {
        return None;
    };
    let is_here = |meaning: Option<Meaning>| {
        matches!(meaning, Some(Meaning::Call(key))
            if key.communicator == communicator
                && snapshot.operation_at(key.operation).is_some_and(|(called, _)| called == operation))
    };
    let counts = snapshot.counters.iter().filter(|(key, _)| is_here(key.meaning()));
    Some(counts.fold(0u64, |sum, (_, values)| sum.wrapping_add(values[CALLS])).wrapping_add(1))
}

/// Returns whether every member of the communicator makes the call, in the same order as the others
/// (MPI 4.1, 6.1), and does so without a request.
pub fn is_collective(call: CurrentFunction) -> bool {
    let CurrentFunction::Operation(operation) = call else { return call == CurrentFunction::Finalize };
    operation.is_collective()
}

/// Ranks that are in the same call.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    /// The ranks.
    pub ranks: RankSet,
    /// True if their processes ended.
    pub ended: bool,
    /// Their call, with the longest stay of them; `None` for no call.
    pub call: Option<CurrentCall>,
    /// The shortest stay, in seconds.
    pub least_s: f64,
}

/// Groups of ranks in the same call that differ in their partners are apart up to this number.
const MOST_APART: usize = 8;

/// Operation, communicator, number and place of a call.
type Same<'p> = (CurrentFunction, Option<&'p str>, Option<u64>, &'p CallLocation);

fn same(current: &CurrentCall) -> Same<'_> {
    let name = current.comm.as_ref().map(|(_, name)| name.as_str());
    let number = current.number.filter(|_| is_collective(current.call));
    (current.call, name, number, &current.place)
}

/// Groups ranks in the same call, those of the longest stay first; those in no call come last. A
/// rank with several threads in calls is in several groups. Only collectives are distinguished by
/// number. Calls that are made in different places of the program are apart, where these are known;
/// those with different partners are, if they are few.
pub fn collected<'p>(
    ranks: impl IntoIterator<Item = (WorldRank, bool, &'p [CurrentCall])>,
) -> Vec<Collected> {
    let ranks: Vec<_> = ranks.into_iter().collect();
    let mut partners: BTreeMap<(bool, Same), BTreeSet<Option<With>>> = BTreeMap::new();
    for &(_, ended, calls) in &ranks {
        for current in calls {
            partners.entry((ended, same(current))).or_default().insert(current.with);
        }
    }
    let with = |ended: bool, current: &CurrentCall| match partners.get(&(ended, same(current))) {
        Some(all) if all.len() > MOST_APART => {
            Some(With::Different { count: u32::try_from(all.len()).unwrap_or(u32::MAX) })
        }
        _ => current.with,
    };
    type Key<'p> = (bool, Option<(Same<'p>, Option<With>)>);
    let mut groups: BTreeMap<Key, (Vec<WorldRank>, Option<&'p CurrentCall>, f64)> = BTreeMap::new();
    let mut add = |rank: WorldRank, ended: bool, current: Option<&'p CurrentCall>| {
        let key = current.map(|current| (same(current), with(ended, current)));
        let (ranks, longest, least_s) =
            groups.entry((ended, key)).or_insert((Vec::new(), current, f64::INFINITY));
        ranks.push(rank);
        if let (Some(current), Some(before)) = (current, *longest) {
            *least_s = least_s.min(current.for_s);
            if current.for_s > before.for_s {
                *longest = Some(current);
            }
        }
    };
    for (rank, ended, calls) in ranks {
        if calls.is_empty() {
            add(rank, ended, None);
        }
        calls.iter().for_each(|current| add(rank, ended, Some(current)));
    }
    let mut all: Vec<Collected> = groups
        .into_iter()
        .map(|((ended, key), (ranks, longest, least_s))| Collected {
            ranks: ranks.into_iter().collect(),
            ended,
            call: longest.cloned().zip(key).map(|(call, ((_, _, number, _), with))| CurrentCall {
                number,
                with,
                ..call
            }),
            least_s: if least_s.is_finite() { least_s } else { 0.0 },
        })
        .collect();
    let stay = |one: &Collected| one.call.as_ref().map_or(-1.0, |call| call.for_s);
    all.sort_by(|left, right| stay(right).total_cmp(&stay(left)));
    all
}

impl CurrentCall {
    /// `from 12 tag 5`: with whom it communicates, where that is known.
    pub fn with_text(&self) -> Option<String> {
        let is_world = self.comm.as_ref().is_some_and(|(id, _)| *id == CommId::WORLD);
        Some(self.with?.text(is_world))
    }

    /// `MPI_Allreduce on W (call 18)`, `MPI_Recv from 12 tag 5 on W`.
    pub fn name(&self) -> String {
        let mut text = self.call.name().to_owned();
        if let Some(with) = self.with_text() {
            text += &format!(" {with}");
        }
        match &self.comm {
            Some((_, name)) => text += &format!(" on {name}"),
            None if self.call == CurrentFunction::Abort => {}
            None => text += " on a communicator that is not known",
        }
        if let Some(number) = self.number.filter(|_| is_collective(self.call)) {
            text += &format!(" (call {number})");
        }
        text
    }
}

/// A time as people say it: `12 s`, `0.3 s`.
pub fn short_seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 600.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Partner, Tag};
    use super::*;
    use mpisee_profile::Operation;

    fn call(operation: Operation, comm: &str, number: u64, for_s: f64) -> CurrentCall {
        CurrentCall {
            call: CurrentFunction::Operation(operation),
            comm: Some((CommId::WORLD, comm.to_owned())),
            number: Some(number),
            with: None,
            since: Ticks::ZERO,
            for_s,
            place: CallLocation::default(),
        }
    }

    #[test]
    fn ranks_in_the_same_call_are_put_together() {
        let (one, other) =
            (call(Operation::Allreduce, "W", 18, 4.0), call(Operation::Allreduce, "W", 18, 6.0));
        let behind = call(Operation::Allreduce, "W", 17, 5.0);
        let (recv, more) = (call(Operation::Recv, "W", 3, 1.0), call(Operation::Recv, "W", 9, 2.0));
        let ranks: [(u32, &[CurrentCall]); 6] =
            [(0, &[one]), (1, &[other]), (2, &[behind]), (3, &[recv]), (4, &[more]), (5, &[])];
        let found = collected(ranks.iter().map(|&(rank, calls)| (WorldRank::new(rank), rank == 5, calls)));
        let texts: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.ranks.to_string(),
                    one.ended,
                    one.call.as_ref().map_or("none".to_owned(), CurrentCall::name),
                )
            })
            .collect();
        let expected = [
            ("0-1", false, "MPI_Allreduce on W (call 18)"),
            ("2", false, "MPI_Allreduce on W (call 17)"),
            ("3-4", false, "MPI_Recv on W"),
            ("5", true, "none"),
        ];
        assert_eq!(texts, expected.map(|(ranks, ended, call)| (ranks.to_owned(), ended, call.to_owned())));
        assert_eq!((found[0].least_s, found[0].call.as_ref().unwrap().for_s), (4.0, 6.0));
    }

    #[test]
    fn few_partners_are_apart_and_many_together() {
        let from = |rank| {
            let from = Partner::Rank { rank, in_world: Some(rank) };
            let with = Some(With::From(from, Tag::Is(5)));
            [CurrentCall { with, ..call(Operation::Recv, "W", 3, 1.0) }]
        };
        let names = |ranks: u32, different: u32| {
            let calls: Vec<_> = (0..ranks).map(|rank| from(rank % different)).collect();
            let ranks = (0..).map(WorldRank::new).zip(&calls).map(|(rank, calls)| (rank, false, &calls[..]));
            let found = collected(ranks).into_iter();
            let text = |one: Collected| format!("{} {}", one.ranks, one.call.unwrap().name());
            let mut all: Vec<String> = found.map(text).collect();
            all.sort();
            all
        };
        assert_eq!(names(4, 2), ["0,2 MPI_Recv from 0 tag 5 on W", "1,3 MPI_Recv from 1 tag 5 on W"]);
        assert_eq!(names(512, 100), ["0-511 MPI_Recv (100 different peers or tags) on W"]);
    }

    #[test]
    fn ranks_in_different_places_of_the_program_are_apart() {
        let at = |stack: &str| {
            let place = CallLocation { stack: vec![stack.to_owned()], ..CallLocation::default() };
            [CurrentCall { place, ..call(Operation::Recv, "W", 3, 1.0) }]
        };
        let calls = [at("step at a.c:7"), at("main at a.c:9"), at("step at a.c:7")];
        let found =
            collected((0..).map(WorldRank::new).zip(&calls).map(|(rank, calls)| (rank, false, &calls[..])));
        let mut ranks: Vec<String> = found.iter().map(|one| one.ranks.to_string()).collect();
        ranks.sort();
        assert_eq!(ranks, ["0,2", "1"]);
    }

    #[test]
    fn collectives_are_told_from_others() {
        for (operation, is) in [
            (Operation::Allreduce, true),
            (Operation::Iallreduce, false),
            (Operation::CommSplit, true),
            (Operation::CommCreateGroup, false),
            (Operation::WinFence, true),
            (Operation::WinLockAll, false),
            (Operation::CommSpawn, true),
            (Operation::FileSync, true),
            (Operation::FileReadAtAllBegin, true),
            (Operation::FileWriteAtAll, true),
            (Operation::FileIwriteAtAll, false),
            (Operation::FileSeek, false),
            (Operation::Recv, false),
            (Operation::Waitall, false),
        ] {
            assert_eq!(is_collective(CurrentFunction::Operation(operation)), is, "{}", operation.name());
        }
        assert!(is_collective(CurrentFunction::Finalize) && !is_collective(CurrentFunction::Abort));
    }
}
