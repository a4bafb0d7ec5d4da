//! Groups of ranks in the same call at the same place of the program. Those whose stack is not
//! known are apart by what they called since the look before, or by how long ago their last call
//! returned.

use super::job::{Job, Rank};
use super::most_called::MostCalled;
use crate::units::large_count;
use mpisee_collect::segments::{CallLocation, Collected, CurrentCall, collected, short_seconds};
use mpisee_profile::{Operation, RankSet, WorldRank};

/// The operation that each of several ranks called most between two looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostCalledBy {
    pub operation: Operation,
    /// The calls of the rank that made fewest, and of the one that made most.
    pub least: u64,
    pub most: u64,
    /// True if each rank made all of them at one place.
    pub is_at_one_place: bool,
    /// See [`MostCalled::stack`].
    pub stack: Vec<String>,
}

/// Ranks in the same call, or in none.
#[derive(Debug)]
pub struct RankGroup {
    /// Their call.
    pub at: Collected,
    /// Of ranks in no call that made none since the look before, seconds since their last calls
    /// returned: the longest.
    pub idle_s: Option<f64>,
    /// Of ranks in no call, where their first threads sleep, if that is known.
    pub asleep: Option<CallLocation>,
    /// Where the stack of their call is not known, what they called most since the look before.
    pub most_called: Option<MostCalledBy>,
    /// The process of one rank alone that runs and is in no call, and its node, if the job is on
    /// several: where a debugger goes on.
    pub process: Option<(u32, Option<String>)>,
}

impl From<&MostCalled> for MostCalledBy {
    fn from(one: &MostCalled) -> Self {
        MostCalledBy {
            operation: one.operation,
            least: one.calls,
            most: one.calls,
            is_at_one_place: one.calls == one.calls_there,
            stack: one.stack.clone(),
        }
    }
}

impl MostCalledBy {
    fn add(&mut self, one: &MostCalled) {
        self.least = self.least.min(one.calls);
        self.most = self.most.max(one.calls);
        self.is_at_one_place &= one.calls == one.calls_there;
    }
}

/// Groups ranks by their calls, as [`collected`] does, and those without a stack by what they
/// called since the look before, which was `interval_s` seconds ago.
pub fn groups<'p>(
    job: &Job,
    ranks: impl IntoIterator<Item = (WorldRank, bool, &'p [CurrentCall])>,
    interval_s: f64,
) -> Vec<RankGroup> {
    collected(ranks).into_iter().flat_map(|at| split(job, at, interval_s)).collect()
}

fn split(job: &Job, at: Collected, interval_s: f64) -> Vec<RankGroup> {
    let has_stack = at.call.as_ref().is_some_and(|call| !call.place.stack.is_empty());
    if at.ended || has_stack {
        return vec![RankGroup { at, idle_s: None, asleep: None, most_called: None, process: None }];
    }
    type Group<'j> = (Vec<WorldRank>, Option<f64>, Option<&'j CallLocation>, Option<MostCalledBy>);
    let mut groups: Vec<Group> = Vec::new();
    for rank in at.ranks.iter().map(WorldRank::new) {
        let state = job.ranks.get(&rank);
        let most_called = state.and_then(|state| state.most_called.as_ref());
        let idle = |state: &Rank| state.idle_s.filter(|&idle_s| interval_s > 0.0 && idle_s > interval_s);
        let idle_s = state.filter(|_| at.call.is_none() && most_called.is_none()).and_then(idle);
        let asleep = state.filter(|_| at.call.is_none()).and_then(|state| state.asleep.as_ref());
        let is_same = |(_, known_idle_s, known_asleep, known): &&mut Group| {
            known_idle_s.is_some() == idle_s.is_some()
                && *known_asleep == asleep
                && match (known, most_called) {
                    (None, None) => true,
                    (Some(known), Some(one)) => {
                        (known.operation, &known.stack) == (one.operation, &one.stack)
                    }
                    _ => false,
                }
        };
        match groups.iter_mut().find(is_same) {
            Some((ranks, longest_s, _, known)) => {
                ranks.push(rank);
                if let (Some(longest_s), Some(idle_s)) = (longest_s, idle_s) {
                    *longest_s = longest_s.max(idle_s);
                }
                if let (Some(known), Some(one)) = (known, most_called) {
                    known.add(one);
                }
            }
            None => groups.push((vec![rank], idle_s, asleep, most_called.map(MostCalledBy::from))),
        }
    }
    let group = |(ranks, idle_s, asleep, most_called): Group| {
        let ranks: RankSet = ranks.into_iter().collect();
        let process = if at.call.is_none() { process_of(job, &ranks) } else { None };
        let at = Collected { ranks, ..at.clone() };
        RankGroup { at, idle_s, asleep: asleep.cloned(), most_called, process }
    };
    groups.into_iter().map(group).collect()
}

/// The PID of the only rank, and its node, if the job is on several.
fn process_of(job: &Job, ranks: &RankSet) -> Option<(u32, Option<String>)> {
    let only = ranks.iter().next().filter(|_| ranks.len() == 1)?;
    let state = job.ranks.get(&WorldRank::new(only)).filter(|state| state.pid != 0)?;
    let is_on_several = job.ranks.values().any(|other| other.host != state.host);
    Some((state.pid, is_on_several.then(|| state.host.clone())))
}

impl RankGroup {
    /// `, PID 4711 on n2`, of one rank in no call.
    pub fn process_text(&self) -> String {
        match &self.process {
            Some((pid, Some(host))) => format!(", PID {pid} on {host}"),
            Some((pid, None)) => format!(", PID {pid}"),
            None => String::new(),
        }
    }

    /// ` for 6.3 s, asleep at io.c:88`, of ranks in no call: the time is known if they made none
    /// since the look before, the place if they sleep.
    pub fn idle_text(&self) -> String {
        let idle = self.idle_s.map_or_else(String::new, |idle_s| format!(" for {}", short_seconds(idle_s)));
        let asleep = self.asleep.as_ref().and_then(at_or_by);
        idle + &asleep.map_or_else(String::new, |place| format!(", asleep{place}"))
    }

    /// The functions in which their calls are made, or they sleep, from the innermost; nothing if
    /// they are not known.
    pub fn frames(&self) -> &[String] {
        let place = self.at.call.as_ref().map(|call| &call.place).or(self.asleep.as_ref());
        place.map_or(&[], |place| &place.stack)
    }

    /// `since the last look it called MPI_Test 21000 times, most at hang.cpp:12`: the ranks need
    /// not be there now.
    pub fn most_called_text(&self) -> Option<String> {
        let most = self.most_called.as_ref()?;
        let who = if self.at.ranks.len() == 1 { "it" } else { "each" };
        let times = match (most.least, most.most) {
            (1, 1) => "once".to_owned(),
            (least, most) if least == most => format!("{} times", large_count(most)),
            (least, most) => format!("{} to {} times", large_count(least), large_count(most)),
        };
        let mut text = format!("since the last look {who} called {} {times}", most.operation.name());
        if let Some(frame) = most.stack.first() {
            let share = if most.is_at_one_place { "" } else { ", most" };
            let place = frame
                .rsplit_once(" at ")
                .map_or_else(|| format!("by {frame}"), |(_, line)| format!("at {line}"));
            text += &format!("{share} {place}");
        }
        Some(text)
    }
}

/// ` at io.c:88`, and ` by step in app` where the line is not known: the innermost function outside
/// of libraries that do it for programs.
pub fn at_or_by(place: &CallLocation) -> Option<String> {
    let frame = place.stack.get(place.outside).or_else(|| place.stack.first())?;
    Some(frame.rsplit_once(" at ").map_or_else(|| format!(" by {frame}"), |(_, line)| format!(" at {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::CommId;
    use mpisee_profile::Ticks;
    use mpisee_profile::segment::active_call::CurrentFunction;

    fn frames(stack: &[&str]) -> Vec<String> {
        stack.iter().map(|&frame| frame.to_owned()).collect()
    }

    fn calling(calls: u64, calls_there: u64, stack: &[&str]) -> Rank {
        let most = MostCalled { operation: Operation::Test, calls, calls_there, stack: frames(stack) };
        Rank { most_called: Some(most), ..Rank::default() }
    }

    fn texts(ranks: Vec<Rank>) -> Vec<String> {
        let job = Job { ranks: (0..).map(WorldRank::new).zip(ranks).collect(), size: 8, ..Job::default() };
        let states = job.ranks.iter().map(|(&rank, state)| (rank, state.ended, state.calls.as_slice()));
        let text = |group: &RankGroup| {
            let said = group.most_called_text().map_or_else(String::new, |text| format!("; {text}"));
            format!("{}{}{said}", group.at.ranks, group.idle_text())
        };
        groups(&job, states, 1.0).iter().map(text).collect()
    }

    #[test]
    fn short_calls_are_named_by_operation_and_site() {
        let spin = &["spin at hang.cpp:12", "main at hang.cpp:30"][..];
        let of = |rank: Rank| texts(vec![rank]).remove(0);
        assert_eq!(
            of(calling(21_000, 20_000, spin)),
            "0; since the last look it called MPI_Test 21000 times, most at hang.cpp:12"
        );
        assert_eq!(
            of(calling(2, 2, spin)),
            "0; since the last look it called MPI_Test 2 times at hang.cpp:12"
        );
        assert_eq!(
            of(calling(1, 1, &["spin in app"])),
            "0; since the last look it called MPI_Test once by spin in app"
        );
        assert_eq!(of(calling(1, 1, &[])), "0; since the last look it called MPI_Test once");
        let several = vec![calling(5, 5, spin), calling(9, 9, spin), calling(3, 3, &["step at a.c:7"])];
        let expected = [
            "0-1; since the last look each called MPI_Test 5 to 9 times at hang.cpp:12",
            "2; since the last look it called MPI_Test 3 times at a.c:7",
        ];
        assert_eq!(texts(several), expected);
    }

    #[test]
    fn who_made_no_call_since_the_last_look_is_idle_for_a_time() {
        let idle = |idle_s| Rank { idle_s, ..Rank::default() };
        let expected = ["0-1 for 6.3 s", "2-3"];
        assert_eq!(texts(vec![idle(Some(6.3)), idle(Some(5.0)), idle(Some(0.2)), idle(None)]), expected);
        let called = Rank { idle_s: Some(6.3), ..calling(1, 1, &[]) };
        assert_eq!(texts(vec![called]), ["0; since the last look it called MPI_Test once"]);
    }

    #[test]
    fn who_sleeps_elsewhere_is_apart() {
        let asleep = |outside, stack: &[&str]| Rank {
            idle_s: Some(6.3),
            asleep: Some(CallLocation { stack: frames(stack), outside, ..CallLocation::default() }),
            ..Rank::default()
        };
        let load = &["read in libc.so.6", "load at io.c:88", "main at main.c:9"][..];
        let ranks = vec![
            asleep(1, load),
            asleep(1, load),
            asleep(1, &["read in libc.so.6", "step in app"]),
            Rank { idle_s: Some(6.3), ..Rank::default() },
        ];
        let expected =
            ["0-1 for 6.3 s, asleep at io.c:88", "2 for 6.3 s, asleep by step in app", "3 for 6.3 s"];
        assert_eq!(texts(ranks), expected);
    }

    #[test]
    fn a_stack_says_enough() {
        let call = |stack: &[&str]| CurrentCall {
            call: CurrentFunction::Operation(Operation::Recv),
            comm: Some((CommId::WORLD, "W".to_owned())),
            number: None,
            with: None,
            since: Ticks::ZERO,
            for_s: 1.0,
            place: CallLocation { stack: frames(stack), ..CallLocation::default() },
        };
        let rank = |stack| Rank { calls: vec![call(stack)], ..calling(3, 3, &["step at a.c:7"]) };
        let expected = ["0; since the last look it called MPI_Test 3 times at a.c:7", "1"];
        assert_eq!(texts(vec![rank(&[]), rank(&["main at a.c:9"])]), expected);
    }
}
