//! The rules about the time of GPUs in calls of NCCL, where it was measured. Times on the host are
//! of no rule: a call returns when its work is in the stream.
//!
//! A GPU's time in a call begins when the GPU comes to it, and has its waiting for the others. In
//! [`SYNCHRONISING`] operations no rank is done before all have come. Times have no begin: a rank
//! that spends less than the others comes later than they do, or is done earlier. The sums are
//! those of a whole run: ranks that come last in turns spend alike, and so do ranks that come
//! together. The shortest call of each size tells the two apart as far as it goes: who comes last
//! in a call does not wait in it.

use super::facts::Facts;
use super::finding::{Finding, percent};
use crate::nccl_times::{self, TimedCalls, bus_bytes_per_s};
use crate::units::{count, human_bytes, time};
use mpisee_profile::comm_name::is_nccl;
use mpisee_profile::rows::{NcclTimeRow, Row};
use mpisee_profile::run::WITHOUT_MPI;
use mpisee_profile::{RankSet, WorldRank};
use std::collections::BTreeMap;

/// The least share of the run in an operation on like communicators.
const SPENT_OF_RUN: f64 = 0.1;
/// The least share of the run by which others spend more than who spends least.
const UNEVEN_OF_RUN: f64 = 0.02;
/// The others of a communicator spend at least this many times as much as those who spend least.
const MORE: f64 = 1.5;
/// Who spends least may have waited in its own calls for at most this part of the difference to the
/// others.
const WAITED: f64 = 0.1;
/// One call is named if it has this part of the difference or more.
const OF_ONE_CALL: f64 = 0.5;
/// The part of the calls that has to be timed before ranks are compared.
const TIMED: f64 = 0.95;
/// The transfer has a bandwidth if no more than this part of the time can be waiting.
const TOGETHER: f64 = 0.2;
/// Communicators that a finding names.
const NAMED: usize = 3;
/// Operations in which no rank is done before all have come. All ranks have the same bytes in them.
const SYNCHRONISING: [&str; 5] =
    ["ncclAllGather", "ncclAllReduce", "ncclAllToAll", "ncclAlltoAll", "ncclReduceScatter"];

/// Calls of a process.
#[derive(Clone, Debug, Default)]
struct Spent {
    calls: u64,
    untimed: u64,
    bytes: u64,
    /// Seconds of its GPU, of several their mean.
    gpu_s: f64,
    /// Timed calls by size class.
    classes: BTreeMap<(u64, u64), OfSize>,
}

/// Timed calls of a process in a size class.
#[derive(Clone, Debug, Default)]
struct OfSize {
    calls: u64,
    /// The longest of them, in seconds.
    longest_s: f64,
}

/// An operation on a communicator.
#[derive(Debug, Default)]
struct OnComm {
    comm: String,
    /// True if processes have several GPUs in it. Which of them took longer is not known.
    has_several: bool,
    ranks: BTreeMap<u32, Spent>,
    /// The shortest call of any rank in each size class, in seconds.
    shortest_s: BTreeMap<(u64, u64), f64>,
}

/// An operation on like communicators.
#[derive(Default)]
struct OnFamily {
    title: String,
    comms: Vec<OnComm>,
}

/// The note of a profile without times on GPUs.
const NOT_MEASURED: &str = "No rule judges the host's time in calls of NCCL. `mpisee --nccl-gpu-time` \
                            measures the time on GPUs, for which there are rules.";

/// The verdict of processes without MPI.
pub fn verdict(facts: &Facts<'_>) -> String {
    let calls = "The processes use no MPI. `ops` and `gpu` list the calls of NCCL with the time on the host";
    if let Some(note) = nccl_times::note_on_sums(facts.view) {
        return format!("{calls}. {note}");
    }
    if !is_measured(facts) {
        return format!(
            "{calls}. No rule judges this time, because a call returns when its work is in the stream. \
             `mpisee --nccl-gpu-time` measures the time on GPUs, for which there are rules."
        );
    }
    let share = nccl_times::share_of_wall(facts.view).ok().flatten().unwrap_or_default();
    format!("{calls}. `gpu` also has the time on GPUs. {share}").trim_end().to_owned()
}

/// A note beside MPI, where the profile has calls of NCCL about which there are no rules.
pub fn note(facts: &Facts<'_>) -> Option<String> {
    let is_beside_mpi =
        facts.library != WITHOUT_MPI && facts.processes.comms.keys().any(|comm| is_nccl(comm));
    (is_beside_mpi && !is_measured(facts))
        .then(|| nccl_times::note_on_sums(facts.view).unwrap_or_else(|| NOT_MEASURED.to_owned()))
}

/// A note on calls that were not timed, where others were: those are in no finding.
pub fn note_on_untimed(facts: &Facts<'_>) -> Option<String> {
    let mut calls = [0_u64; 2];
    for timed in nccl_times::rows(facts.view).ok()? {
        let row = timed.ok()?.row;
        let is_chosen = facts.processes.comms.get(&row.comm).is_some_and(|comm| facts.is_chosen(comm));
        if is_chosen && facts.takes_rank(row.rank) {
            calls = [calls[0].saturating_add(row.calls), calls[1].saturating_add(row.untimed)];
        }
    }
    nccl_times::note_on_untimed(calls)
}

fn is_measured(facts: &Facts<'_>) -> bool {
    facts.view.profile().directory().join(NcclTimeRow::FILE).exists()
}

/// A finding for each operation on like communicators that took much of the GPUs' time, or in which
/// few ranks spend less of it.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(times) = read(facts) else { return Vec::new() };
    let mut by_family: BTreeMap<(String, String), OnFamily> = BTreeMap::new();
    for ((comm, call), mut on_comm) in times {
        let (name, title) = facts.family_of(&comm);
        let of_family = by_family.entry((name.to_owned(), call)).or_default();
        title.clone_into(&mut of_family.title);
        on_comm.comm.clone_from(&comm);
        of_family.comms.push(on_comm);
    }
    let findings = |((name, call), mut on): ((String, String), OnFamily)| {
        let uneven = uneven(facts, &name, &call, &on);
        if uneven.is_some() {
            on.leave_even(facts, &call);
        }
        [uneven, spent(facts, &name, &call, &on)].into_iter().flatten()
    };
    by_family.into_iter().flat_map(findings).collect()
}

impl OnFamily {
    /// Leaves out the communicators with ranks that spend clearly less than others.
    fn leave_even(&mut self, facts: &Facts<'_>, call: &str) {
        self.comms.retain(|one| one.uneven_in(facts, call).is_none());
        self.title = match &self.comms[..] {
            [only] => only.comm.clone(),
            several => format!("{} more of {}", several.len(), self.title),
        };
    }
}

/// Times by communicator and operation. `None` where they cannot be read, as of a table that is cut
/// off.
fn read(facts: &Facts<'_>) -> Option<BTreeMap<(String, String), OnComm>> {
    let mut times: BTreeMap<(String, String), OnComm> = BTreeMap::new();
    for timed in nccl_times::rows(facts.view).ok()? {
        let timed = timed.ok()?;
        let gpu_s = timed.gpu_s();
        let TimedCalls { row, gpus } = timed;
        if !facts.processes.comms.get(&row.comm).is_some_and(|comm| facts.is_chosen(comm)) {
            continue;
        }
        let on = times.entry((row.comm, row.call)).or_default();
        on.has_several |= gpus > 1.0;
        let class = (row.size_min, row.size_max);
        let spent = on.ranks.entry(row.rank).or_default();
        spent.calls = spent.calls.saturating_add(row.calls);
        spent.untimed = spent.untimed.saturating_add(row.untimed);
        spent.bytes = spent.bytes.saturating_add(row.bytes);
        spent.gpu_s += gpu_s;
        if row.calls > 0 {
            let of_size = spent.classes.entry(class).or_default();
            of_size.calls = of_size.calls.saturating_add(row.calls);
            of_size.longest_s = of_size.longest_s.max(row.max_s.0);
            let shortest_s = on.shortest_s.entry(class).or_insert(f64::INFINITY);
            *shortest_s = shortest_s.min(row.min_s.0);
        }
    }
    Some(times)
}

fn is_synchronising(call: &str) -> bool {
    SYNCHRONISING.contains(&call.trim_end_matches("Config"))
}

/// The difference between those who spend least and the others of a communicator.
struct Uneven<'c> {
    comm: &'c str,
    ranks: RankSet,
    /// The least and most calls of a rank that were timed.
    calls: [u64; 2],
    /// The most that those spend, in seconds.
    own_s: f64,
    /// The most that those may have waited in their own calls, in seconds.
    waited_s: f64,
    /// The least and most of the others, in seconds.
    others_s: [f64; 2],
    /// The least and most of the difference that one call of each of the others has, in seconds,
    /// where it has much of it.
    one_call_s: Option<[f64; 2]>,
    /// How much longer the chosen ones of the others spend, in seconds.
    cost_s: f64,
}

impl OnComm {
    /// The reason for which times of ranks cannot be compared. None where each member has one GPU,
    /// and as many calls with as many bytes as the others, nearly all of which were timed.
    fn incomparable(&self, facts: &Facts<'_>) -> Option<&'static str> {
        if self.has_several {
            return Some("processes have several GPUs");
        }
        let size = facts.processes.comms.get(&self.comm).map_or(0, |row| row.size as usize);
        let all = |one: &Spent| one.calls.saturating_add(one.untimed);
        let per_call = |one: &Spent| one.bytes as f64 / one.calls as f64;
        let Some(first) = self.ranks.values().next() else { return Some("no calls were timed") };
        let has = |is_like: &dyn Fn(&Spent) -> bool| self.ranks.values().all(is_like);
        if self.ranks.len() != size {
            Some("not all members of the communicator have these calls in the profile")
        } else if !has(&|one| all(one) == all(first)) {
            Some("ranks differ in their number of calls")
        } else if !has(&|one| one.calls > 0 && one.calls as f64 >= TIMED * all(one) as f64) {
            Some("calls were not timed")
        } else if !has(&|one| (per_call(one) - per_call(first)).abs() <= (1.0 - TIMED) * per_call(one)) {
            // Their bytes are those of the timed calls.
            Some("ranks differ in their bytes")
        } else {
            None
        }
    }

    /// Who spends least in an operation in which ranks can be compared.
    fn uneven_in(&self, facts: &Facts<'_>, call: &str) -> Option<Uneven<'_>> {
        (is_synchronising(call) && self.incomparable(facts).is_none()).then(|| self.uneven(facts))?
    }

    /// Who spends least: the fewest ranks, up to half of all, that spend clearly less than all
    /// others, and hardly wait in their own calls.
    fn uneven(&self, facts: &Facts<'_>) -> Option<Uneven<'_>> {
        let mut by_time: Vec<(u32, f64)> = self.ranks.iter().map(|(&rank, one)| (rank, one.gpu_s)).collect();
        by_time.sort_by(|one, other| one.1.total_cmp(&other.1));
        let few = (1..=by_time.len() / 2).find(|&few| by_time[few].1 >= MORE * by_time[few - 1].1)?;
        let (own, others) = by_time.split_at(few);
        let own_s = own.last()?.1;
        let others_s = [others.first()?.1, others.last()?.1];
        let waits = own.iter().map(|(rank, gpu_s)| gpu_s - self.at_least_s(&self.ranks[rank]));
        let waited_s = waits.fold(0.0, f64::max);
        // Who waited as well was not last in all calls.
        if waited_s > WAITED * (others_s[0] - own_s) {
            return None;
        }
        let calls = || self.ranks.values().map(|one| one.calls);
        let chosen = others.iter().filter(|(rank, _)| facts.takes_rank(*rank));
        Some(Uneven {
            comm: &self.comm,
            ranks: own.iter().map(|&(rank, _)| WorldRank::new(rank)).collect(),
            calls: [calls().min()?, calls().max()?],
            own_s,
            waited_s,
            others_s,
            one_call_s: self.one_call_s(own_s, others),
            cost_s: chosen.map(|(_, gpu_s)| gpu_s - own_s).sum(),
        })
    }

    /// How much longer than the shortest of its size one call of each of the others was: the least
    /// and most. `None` where that is less than half of what one of these spends more.
    fn one_call_s(&self, own_s: f64, others: &[(u32, f64)]) -> Option<[f64; 2]> {
        let of_rank = |&(rank, gpu_s): &(u32, f64)| {
            let spent = &self.ranks[&rank];
            let of_class = |(class, of_size): (&_, &OfSize)| of_size.longest_s - self.shortest_s(class);
            let one_s = spent.classes.iter().map(of_class).fold(0.0, f64::max);
            (spent.calls > 1 && one_s >= OF_ONE_CALL * (gpu_s - own_s)).then_some(one_s)
        };
        let each: Vec<f64> = others.iter().map(of_rank).collect::<Option<_>>()?;
        let least = each.iter().copied().fold(f64::INFINITY, f64::min);
        Some([least, each.iter().copied().fold(0.0, f64::max)])
    }

    /// The shortest call of a size class, in seconds.
    fn shortest_s(&self, class: &(u64, u64)) -> f64 {
        self.shortest_s.get(class).copied().unwrap_or_default()
    }

    /// Seconds of the calls of a rank, were each as short as the shortest of its size.
    fn at_least_s(&self, spent: &Spent) -> f64 {
        spent.classes.iter().map(|(class, of_size)| of_size.calls as f64 * self.shortest_s(class)).sum()
    }

    /// The time of the chosen ranks, in seconds.
    fn gpu_s(&self, facts: &Facts<'_>) -> f64 {
        self.ranks.iter().filter(|(rank, _)| facts.takes_rank(**rank)).map(|(_, one)| one.gpu_s).sum()
    }

    /// The time of all ranks, and what it would be had each call taken as long as the shortest of
    /// its size.
    fn and_shortest_s(&self) -> [f64; 2] {
        let ranks = self.ranks.values();
        ranks
            .map(|one| [one.gpu_s, self.at_least_s(one)])
            .fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }
}

/// `10 calls`, or `8 to 10 calls`.
fn calls([least, most]: [u64; 2]) -> String {
    if least == most { count(most, "call") } else { format!("{least} to {}", count(most, "call")) }
}

/// `8.20 ms`, or `8.20 ms to 9.00 ms`.
fn range([least_s, most_s]: [f64; 2]) -> String {
    let (least, most) = (time(least_s), time(most_s));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Few ranks whose GPUs spend less than those of the others.
fn uneven(facts: &Facts<'_>, name: &str, call: &str, on: &OnFamily) -> Option<Finding> {
    let mut uneven: Vec<Uneven<'_>> = on.comms.iter().filter_map(|one| one.uneven_in(facts, call)).collect();
    uneven.sort_by(|one, other| other.cost_s.total_cmp(&one.cost_s));
    let cost_s: f64 = uneven.iter().map(|one| one.cost_s).sum();
    let worst = uneven.first().filter(|_| facts.share_of_run(cost_s) >= UNEVEN_OF_RUN)?;
    let of_worst = on.comms.iter().find(|one| one.comm == worst.comm)?;
    let is_one_other = of_worst.ranks.len() as u64 - worst.ranks.len() == 1;
    let each = |one: &Uneven<'_>| format!("{} on {}", one.ranks.named(), one.comm);
    let who = uneven.iter().take(NAMED).map(each).collect::<Vec<_>>().join(", ");
    let more = uneven.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and ranks on {more} more of {}", on.title) } else { String::new() };
    let others =
        if is_one_other { "the GPU of the other rank spends" } else { "GPUs of the other ranks spend" };
    let (of_others, own) = (range(worst.others_s), time(worst.own_s));
    let named = worst.ranks.named();
    let own = match worst.ranks.len() {
        1 => format!("The GPU of {named} spends {own}"),
        _ => format!("GPUs of {named} spend at most {own}"),
    };
    let numbers = |title: &str| format!("{own} in {call} on {title}; {others} {of_others}.");
    let (what, beside) = match on.comms.len() {
        1 => (numbers(&on.title), String::new()),
        _ => (
            format!("GPUs of some ranks spend clearly less in {call} than GPUs of the others: {who}{more}."),
            format!("{} ", numbers(worst.comm)),
        ),
    };
    Some(Finding {
        rule: "nccl-uneven",
        about: name.to_owned(),
        cost_s,
        what,
        evidence: format!("{beside}{}", evidence(worst, is_one_other)),
        threshold: format!(
            "all others spend {MORE} times as much or more, and {} of the run longer. Waiting of the ranks \
             that spend less is at most {} of the difference. Each rank has one GPU, and as many calls and \
             bytes as the others, with {} of the calls timed",
            percent(UNEVEN_OF_RUN),
            percent(WAITED),
            percent(TIMED)
        ),
        advice: format!(
            "Run the same operation alone ({}nccl-tests). If the times are as uneven there, the links are \
             the cause. Otherwise look at what {named} {} before the call, on the GPU and on the host. \
             mpisee-through gpu PROFILE has the times of each size. mpisee-through ranks PROFILE --by gpu \
             has the GPU of each rank.",
            bench(call)
                .map(|name| format!("mpisee-bench collective {name} --backend nccl, or "))
                .unwrap_or_default(),
            if worst.ranks.len() == 1 { "does" } else { "do" },
        ),
    })
}

/// The operation's name in mpisee-bench.
fn bench(call: &str) -> Option<&'static str> {
    Some(match call.trim_end_matches("Config") {
        "ncclAllGather" => "allgather",
        "ncclAllReduce" => "allreduce",
        "ncclAlltoAll" | "ncclAllToAll" => "alltoall",
        "ncclReduceScatter" => "reduce_scatter_block",
        _ => return None,
    })
}

/// The difference in numbers, and the causes that it may have.
fn evidence(worst: &Uneven<'_>, is_one_other: bool) -> String {
    let named = worst.ranks.named();
    let more = range(worst.others_s.map(|others_s| others_s - worst.own_s));
    let one_call = worst
        .one_call_s
        .map(|one_s| format!("; one call alone has {} of the difference", range(one_s)))
        .unwrap_or_default();
    let (other, [spend, wait]) = match is_one_other {
        true => ("the other", ["spends", "waits"]),
        false => ("the others", ["spend", "wait"]),
    };
    let (come, finish) = match worst.ranks.len() {
        1 => ("comes", "finishes"),
        _ => ("come", "finish"),
    };
    format!(
        "Measured on GPUs, in {} of each rank: {other} {spend} {more} more than {named}{one_call}. The calls \
         of {named} took about the shortest time of their size, with hardly any waiting ({} at most). Either \
         {named} {come} last and {other} {wait}, or {named} {finish} earlier, as with faster links. The \
         measurement does not tell the two apart.",
        calls(worst.calls),
        time(worst.waited_s),
    )
}

/// Much time of GPUs, without ranks that spend clearly less.
fn spent(facts: &Facts<'_>, name: &str, call: &str, on: &OnFamily) -> Option<Finding> {
    let cost_s: f64 = on.comms.iter().map(|one| one.gpu_s(facts)).sum();
    let share = facts.share_of_run(cost_s);
    if share < SPENT_OF_RUN {
        return None;
    }
    let sum = |of: fn(&Spent) -> u64| -> u64 {
        on.comms.iter().flat_map(|one| one.ranks.values()).map(of).fold(0, u64::saturating_add)
    };
    let (calls, untimed) = (sum(|one| one.calls), sum(|one| one.untimed));
    let not_timed = if untimed > 0 { format!(" ({untimed} more were not timed)") } else { String::new() };
    let ranks: usize = on.comms.iter().map(|one| one.ranks.len()).sum();
    Some(Finding {
        rule: "nccl-time",
        about: name.to_owned(),
        cost_s,
        what: format!("GPUs spend {} of the run in {call} on {}.", percent(share), on.title),
        evidence: format!(
            "Measured on GPUs, including waiting for other ranks: {} of {}{not_timed}, {} on each of {}. \
             Calls in several streams at once count each. {}",
            count(calls, "call"),
            human_bytes(sum(|one| one.bytes) / calls.max(1)),
            least_and_most(on),
            count(ranks as u64, "rank"),
            cause(facts, call, on)
        ),
        threshold: format!("{} of the run{}", percent(SPENT_OF_RUN), not_uneven(facts, call, on)),
        advice: format!(
            "mpisee-through gpu PROFILE has the times of each size, with the ranks that spend least and \
             most.{} Work in other streams meanwhile hides the time in NCCL. The part that is hidden already \
             is not measured.",
            match is_synchronising(call) {
                true => {
                    " Compare the bandwidth there with the bandwidth of the same operation alone \
                     (nccl-tests, or mpisee-bench collective --backend nccl)."
                }
                false => "",
            }
        ),
    })
}

/// The other half of the threshold, where ranks could be compared.
fn not_uneven(facts: &Facts<'_>, call: &str, on: &OnFamily) -> &'static str {
    match is_synchronising(call) && on.comms.iter().all(|one| one.incomparable(facts).is_none()) {
        true => ", and no small group of ranks that spends clearly less and hardly waits (nccl-uneven)",
        false => "",
    }
}

/// The least and most of a rank: `7.00 ms (rank 2) to 9.00 ms (rank 0)`, or what all spend.
fn least_and_most(on: &OnFamily) -> String {
    if on.comms.iter().any(|one| one.has_several) {
        let each: Vec<f64> =
            on.comms.iter().flat_map(|one| one.ranks.values()).map(|one| one.gpu_s).collect();
        return format!("a mean of {}", time(each.iter().sum::<f64>() / each.len() as f64));
    }
    let each = || on.comms.iter().flat_map(|one| &one.ranks).map(|(rank, one)| (one.gpu_s, rank));
    let by_time = |one: &(f64, &u32), other: &(f64, &u32)| one.0.total_cmp(&other.0);
    let (Some(least), Some(most)) = (each().min_by(by_time), each().max_by(by_time)) else {
        return String::new();
    };
    // Of several that spend alike none is named.
    let shown = |(one_s, rank): (f64, &u32)| match each()
        .filter(|(other_s, _)| time(*other_s) == time(one_s))
        .count()
    {
        1 => format!("{} (rank {rank})", time(one_s)),
        _ => time(one_s),
    };
    let (least, most) = (shown(least), shown(most));
    if least == most { least } else { format!("{least} to {most}") }
}

/// A sentence on what the time may be.
fn cause(facts: &Facts<'_>, call: &str, on: &OnFamily) -> String {
    if !is_synchronising(call) {
        return match call {
            "ncclGroupEnd" => {
                "The time is that of whole groups; the time of each call in a group is unknown."
            }
            _ => {
                "In this operation a rank may finish before others have come. Its time does not show who is \
                 late."
            }
        }
        .to_owned();
    }
    if let Some(why) = on.comms.iter().find_map(|one| one.incomparable(facts)) {
        return format!("The waiting part of this time is unknown, because {why}.");
    }
    let [all_s, least_s] = on
        .comms
        .iter()
        .map(OnComm::and_shortest_s)
        .fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    let most_waiting = (1.0 - least_s / all_s).clamp(0.0, 1.0);
    if most_waiting <= TOGETHER {
        return format!(
            "At most {} of this time can be waiting, because all calls take about as long as the shortest of \
             their size. The rest is the transfer, and waiting for room on the GPU{}.",
            percent(most_waiting),
            bandwidth(facts, call, on)
        );
    }
    format!(
        "If each call took as long as the shortest of its size, the time over all ranks would be {}. The \
         other {} are waiting for ranks that come later, or transfers that take longer. The times do not \
         tell the two apart.",
        time(least_s),
        percent(most_waiting)
    )
}

/// `: a bus bandwidth of 12.0 GiB/s`, by the rank of each communicator that spends least.
fn bandwidth(facts: &Facts<'_>, call: &str, on: &OnFamily) -> String {
    let of = |one: &OnComm| {
        let size = facts.processes.comms.get(&one.comm)?.size;
        let least = one.ranks.values().min_by(|one, other| one.gpu_s.total_cmp(&other.gpu_s))?;
        bus_bytes_per_s(call, size, least.bytes as f64, least.gpu_s)
    };
    let each: Vec<u64> = on.comms.iter().filter_map(of).map(|rate| rate as u64).collect();
    let Some((least, most)) = each.iter().min().zip(each.iter().max()) else { return String::new() };
    let (least, most) = (human_bytes(*least), human_bytes(*most));
    let range = if least == most { least } else { format!("{least}/s to {most}") };
    format!(": a bus bandwidth of {range}/s")
}
