//! The plan by which a profile is replayed: for each family of communicators its collective
//! operations by size class, and its messages, on the same ranks and as long as in the program on
//! average.

use crate::backend::Backend;
use crate::builtin::Places;
use crate::collective::Collective;
use crate::pattern::{CollectiveCall, Pattern, Step};
use mpisee_profile::comm_name::{CommName, is_one_per_process};
use mpisee_profile::network::MESSAGES;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::requests::Requests;
use mpisee_profile::rows::{CallRow, CommRow, PeerRow, Row};
use mpisee_profile::{Operation, OperationKind, Profile, ProfileError};
use serde::{Deserialize, Serialize};
use sizes::SentSizes;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

mod sizes;

/// All that is replayed of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The command line that was profiled.
    pub command: Vec<String>,
    /// The number of ranks.
    pub ranks: u32,
    /// The operations that are replayed, by falling time.
    pub items: Vec<Item>,
    /// The operations that are not replayed, with the reason and the time of all ranks in them.
    pub left_out: Vec<LeftOut>,
    /// Calls of NCCL of all ranks, which are not replayed. The host's time in them is not that of
    /// communication, and is in no time of the plan.
    pub nccl_calls: u64,
    /// The time of all ranks in communication, in seconds.
    pub time_s: f64,
}

/// Something that is not replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The family of communicators.
    pub family: String,
    /// The operation.
    pub call: String,
    /// Why.
    pub reason: String,
    /// The time of all ranks.
    pub time_s: f64,
}

/// One operation on a family of communicators, of one size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The family's name; that of the communicator if there is one alone.
    pub family: String,
    /// The communicators with their members.
    pub comms: Vec<(String, Vec<u32>)>,
    /// The position of the communicator with most time.
    pub busiest: usize,
    /// The operation, or [`MESSAGES`].
    pub call: String,
    /// The size class; of messages the smallest and the largest that are replayed.
    pub size: [u64; 2],
    /// The bytes of a block, or of a message on average.
    pub bytes: u64,
    /// The calls of all ranks, or the messages.
    pub calls: u64,
    /// Their bytes, as the profile counts them.
    pub volume: u64,
    /// The time of all ranks in seconds.
    pub time_s: f64,
    /// By communicator its messages; none of a collective operation.
    pub messages: Vec<Vec<Sent>>,
}

/// The messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The rank that sends.
    pub source: u32,
    /// The rank that receives.
    pub destination: u32,
    /// The bytes of a message, on average over those of about its size, or over all.
    pub bytes: u64,
    /// The messages in the profile.
    pub count: u64,
}

/// A pattern of a replay. The time of all ranks in a call is the sum over the patterns of their
/// times of all ranks, each times its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// The pattern.
    pub pattern: Pattern,
    /// How often it is in one call: less than once where it has several.
    pub weight: f64,
}

/// Items at the most, and the part of the time that they have to cover.
const MOST_ITEMS: usize = 64;
const COVERED: f64 = 0.99;
/// Messages between two ranks in one turn of a replay, at the most.
const MOST_IN_TURN: u64 = 32;

impl Plan {
    /// Sentences on what is left out: on each operation that takes a thousandth of the time, and on
    /// all others together.
    pub fn left_out_text(&self) -> String {
        let percent = |time_s: f64| 100.0 * time_s / self.time_s.max(f64::MIN_POSITIVE);
        let (named, others): (Vec<&LeftOut>, Vec<&LeftOut>) =
            self.left_out.iter().partition(|it| it.time_s > 0.001 * self.time_s);
        let mut text = String::new();
        for LeftOut { call, family, reason, time_s } in named {
            text +=
                &format!("Left out: {call} on {family}, {:.1} % of the time: {reason}.\n", percent(*time_s));
        }
        let rest_s: f64 = others.iter().map(|it| it.time_s).sum();
        if rest_s > 0.001 * self.time_s {
            text += &format!(
                "Left out: {} other operations, {:.1} % of the time together.\n",
                others.len(),
                percent(rest_s)
            );
        }
        if let Some(calls) = self.nccl_text() {
            text += &format!("Left out: {calls}; their time on the host is not that of communication.\n");
        }
        text
    }

    /// The error where nothing can be replayed.
    pub fn nothing(&self, path: &Path) -> String {
        let of_nccl = self.nccl_text().map_or(String::new(), |calls| format!("; it has {calls}"));
        format!("'{}' has no messages and no collective operations of MPI to replay{of_nccl}", path.display())
    }

    /// `840 calls of NCCL, which are not replayed`, if there are any.
    pub fn nccl_text(&self) -> Option<String> {
        match self.nccl_calls {
            0 => None,
            1 => Some("1 call of NCCL, which is not replayed".to_owned()),
            calls => Some(format!("{calls} calls of NCCL, which are not replayed")),
        }
    }

    /// The part of the time in communication that the replay covers.
    pub fn covered(&self) -> f64 {
        let covered_s: f64 = self.items.iter().map(|item| item.time_s).sum();
        if self.time_s > 0.0 { covered_s / self.time_s } else { 0.0 }
    }
}

impl Item {
    /// The same, as what is not replayed.
    pub fn left_out(self, reason: String) -> LeftOut {
        LeftOut { family: self.family, call: self.call, reason, time_s: self.time_s }
    }

    /// The patterns with all communicators at once, or with one of them alone: one of a collective
    /// operation; of messages one for all pairs of ranks with numbers of messages that are not too
    /// different, since one pattern cannot have a message from here and thousands from there.
    pub fn patterns(&self, alone: Option<usize>) -> Vec<Weighted> {
        let is_in_it = |at: &usize| alone.is_none_or(|one| one == *at);
        let at = (0..self.comms.len()).filter(is_in_it);
        let step = Step { name: self.call.clone(), backend: Backend::Isend, ..Step::default() };
        if let Some(collective) = Collective::from_name(&self.call) {
            let call = |at: usize| CollectiveCall {
                collective,
                members: self.comms[at].1.clone(),
                bytes: self.bytes,
                root: 0,
            };
            let collectives: Vec<CollectiveCall> = at.map(call).collect();
            let calls: usize = collectives.iter().map(|call| call.members.len()).sum();
            let pattern = Pattern::from_steps(vec![Step { collectives, ..step }]);
            return vec![Weighted { pattern, weight: 1.0 / calls.max(1) as f64 }];
        }
        let sent: Vec<Sent> = at.flat_map(|at| self.messages[at].iter().copied()).collect();
        let all: u64 = sent.iter().map(|it| it.count).sum();
        let of_class = |class: Vec<Sent>| {
            let turns = turns(&class);
            let mut places = Places::default();
            let mut in_turn = 0;
            for it in &class {
                let times = (it.count as f64 / turns).round().max(1.0) as u32;
                in_turn += u64::from(times);
                places.add_times(it.source, it.destination, it.bytes, times);
            }
            let count: u64 = class.iter().map(|it| it.count).sum();
            let pattern = Pattern::from_steps(vec![Step { messages: places.messages(), ..step.clone() }]);
            Weighted { pattern, weight: count as f64 / in_turn as f64 / all as f64 }
        };
        classes(sent).into_iter().map(of_class).collect()
    }
}

/// Communicators of a family that are measured alone, at the most.
const MOST_ALONE: usize = 8;
/// Numbers of messages, or their bytes, of which the larger one is less than this many times the
/// smaller one are alike.
const ALIKE: f64 = 1.25;

impl Item {
    /// The communicators to measure alone, and the part of the calls, or of the messages, for which
    /// each stands: one of those that have as many members, and about as many messages with about
    /// as many bytes; the one with most time if it is among them.
    pub fn measured_alone(&self) -> Vec<(usize, f64)> {
        let others = (0..self.comms.len()).filter(|&at| at != self.busiest);
        let mut alone: Vec<(usize, f64)> = Vec::new();
        for at in std::iter::once(self.busiest).chain(others) {
            let calls = self.size_of(at)[1] as f64;
            match alone.iter().position(|&(one, _)| self.are_alike(one, at)) {
                Some(kind) => alone[kind].1 += calls,
                None if alone.len() < MOST_ALONE => alone.push((at, calls)),
                None => {}
            }
        }
        let all: f64 = alone.iter().map(|it| it.1).sum();
        alone.iter_mut().for_each(|it| it.1 /= all);
        alone
    }

    /// The members of a communicator, its calls (as many as members, or its messages), and the
    /// bytes of messages.
    fn size_of(&self, at: usize) -> [u64; 3] {
        let members = self.comms[at].1.len() as u64;
        match self.messages.get(at) {
            None => [members, members, 0],
            Some(sent) => {
                let bytes = sent.iter().map(|it| it.count.saturating_mul(it.bytes));
                [members, sent.iter().map(|it| it.count).sum(), bytes.fold(0, u64::saturating_add)]
            }
        }
    }

    fn are_alike(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|at| self.size_of(at));
        let is_about = |at: usize| {
            let [least, most] = [one[at].min(other[at]), one[at].max(other[at])];
            most as f64 <= ALIKE * least as f64
        };
        one[0] == other[0] && is_about(1) && is_about(2)
    }
}

/// The pairs of ranks, those together whose numbers of messages are not more than [`MOST_IN_TURN`]
/// times each other's.
fn classes(mut sent: Vec<Sent>) -> Vec<Vec<Sent>> {
    let mut order: Vec<u64> = sent.iter().map(|it| it.count).collect();
    order.sort_unstable();
    let mut begins: Vec<u64> = Vec::new();
    for count in order {
        if begins.last().is_none_or(|&begin| count > begin.saturating_mul(MOST_IN_TURN)) {
            begins.push(count);
        }
    }
    let mut classes = Vec::new();
    for &begin in begins.iter().rev() {
        let (class, rest) = sent.into_iter().partition(|it| it.count >= begin);
        classes.push(class);
        sent = rest;
    }
    classes
}

/// The number of turns in which a class sends all of its messages, so that each turn has whole
/// ones: as many of each pair as are nearest to its part, with [`MOST_IN_TURN`] at the most.
fn turns(class: &[Sent]) -> f64 {
    let least = class.iter().map(|it| it.count).min().unwrap_or(1) as f64;
    let most = class.iter().map(|it| it.count).max().unwrap_or(1) as f64;
    let error = |turns: f64| {
        let of_pair = |it: &Sent| {
            let wanted = it.count as f64 / turns;
            (wanted.round() - wanted).abs() / wanted
        };
        class.iter().map(of_pair).fold(0.0, f64::max)
    };
    let factors = (1..=8).map(f64::from).filter(|factor| factor * most / least <= MOST_IN_TURN as f64);
    let candidates = factors.map(|factor| least / factor);
    candidates.min_by(|&one, &other| error(one).total_cmp(&error(other))).unwrap_or(least)
}

/// A size class of an operation on the communicators of a family.
#[derive(Default)]
struct Sum {
    calls: u64,
    bytes: u64,
    time_s: f64,
    /// The instances times the blocks that one has of an alltoall, or that are moved of a
    /// broadcast.
    blocks: f64,
    by_comm: BTreeMap<String, f64>,
}

/// The calls of a profile, by the way in which they are replayed.
#[derive(Default)]
struct Calls {
    /// Collective operations by family, operation and size class.
    collectives: BTreeMap<(String, String, [u64; 2]), Sum>,
    /// The time in messages by communicator, in seconds.
    message_s: BTreeMap<String, f64>,
    /// By communicator and rank.
    sizes: BTreeMap<(String, u32), SentSizes>,
    /// The time in all else that communicates by family, operation and reason, in seconds.
    left_out_s: BTreeMap<(String, String, &'static str), f64>,
    /// Calls of NCCL that communicate.
    nccl: u64,
}

impl Calls {
    fn read(profile: &Profile, comms: &HashMap<String, CommRow>) -> Result<Calls, ProfileError> {
        let requests = Requests::from_profile(profile)?;
        let mut calls = Calls::default();
        for row in profile.rows::<CallRow>()? {
            let row = row?;
            let Some(comm) = comms.get(&row.comm) else { continue };
            let treatment = match kind(&row.call, comm) {
                Treatment::Nothing => Treatment::Nothing,
                _ if is_nccl(&row.call) => {
                    calls.nccl = calls.nccl.saturating_add(row.calls);
                    Treatment::Nothing
                }
                Treatment::Messages => not_of_messages(&row, &requests).unwrap_or(Treatment::Messages),
                other => other,
            };
            calls.add(row, comm, treatment);
        }
        Ok(calls)
    }

    fn add(&mut self, row: CallRow, comm: &CommRow, treatment: Treatment) {
        let family = family(&row.comm);
        match treatment {
            Treatment::Nothing => {}
            Treatment::LeftOut(why) => {
                *self.left_out_s.entry((family, row.call, why)).or_default() += row.time_s.0;
            }
            Treatment::Messages => {
                self.sizes.entry((row.comm.clone(), row.rank)).or_default().add_call(&row);
                *self.message_s.entry(row.comm).or_default() += row.time_s.0;
            }
            Treatment::Collective(collective) => {
                let key = (family, row.call.clone(), [row.size_min, row.size_max]);
                self.collectives.entry(key).or_default().add(&row, collective, comm.size);
            }
        }
    }
}

/// Reads what is to be replayed.
pub fn plan(profile: &Profile) -> Result<Plan, String> {
    if !profile.directory().join(CallRow::FILE).exists() {
        return Err(format!(
            "'{}' has sums over ranks, and a replay needs rows of each rank; a run with a larger MPISEE_FOLD \
             (mpisee --fold) leaves them",
            profile.directory().display()
        ));
    }
    planned(profile).map_err(|error| error.to_string())
}

fn planned(profile: &Profile) -> Result<Plan, ProfileError> {
    let comms = profile.rows::<CommRow>()?.map(|row| row.map(|row| (row.comm.clone(), row)));
    let comms: HashMap<String, CommRow> = comms.collect::<Result<_, _>>()?;
    let Calls { collectives, message_s, sizes, mut left_out_s, nccl } = Calls::read(profile, &comms)?;
    let mut items: Vec<Item> =
        collectives.into_iter().filter_map(|(key, sum)| collective_item(key, sum, &comms)).collect();
    let (of_messages, without) = message_items(profile, &comms, message_s, sizes)?;
    items.extend(of_messages);
    for (comm, time_s) in without {
        let why = "no message was sent on it";
        *left_out_s.entry((self::family(&comm), MESSAGES.to_owned(), why)).or_default() += time_s;
    }
    let time_s = items.iter().map(|item| item.time_s).sum::<f64>() + left_out_s.values().sum::<f64>();
    items.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    let mut left_out: Vec<LeftOut> = left_out_s
        .into_iter()
        .map(|((family, call, why), time_s)| LeftOut { family, call, reason: why.to_owned(), time_s })
        .collect();
    let run = profile.run();
    let items = that_can_be_replayed(items, run.ranks, &mut left_out);
    let kept = keep(items, time_s, &mut left_out);
    left_out.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    Ok(Plan {
        command: run.command.clone(),
        ranks: run.ranks,
        items: kept,
        left_out,
        nccl_calls: nccl,
        time_s,
    })
}

/// The items without those that no pattern can have, as blocks of more bytes than C's `int` counts;
/// these are left out, with the reason.
fn that_can_be_replayed(items: Vec<Item>, ranks: u32, left_out: &mut Vec<LeftOut>) -> Vec<Item> {
    let mut kept = Vec::new();
    for item in items {
        match item.patterns(None).iter().try_for_each(|it| it.pattern.check(ranks)) {
            Ok(()) => kept.push(item),
            Err(fault) => left_out.push(item.left_out(fault.what)),
        }
    }
    kept
}

/// The items that are replayed of all, which come by falling time; the others are left out, with
/// the reason.
fn keep(items: Vec<Item>, time_s: f64, left_out: &mut Vec<LeftOut>) -> Vec<Item> {
    let mut covered_s = 0.0;
    let mut kept = Vec::new();
    for item in items {
        let is_enough = covered_s > COVERED * time_s;
        if kept.len() < MOST_ITEMS && !is_enough {
            covered_s += item.time_s;
            kept.push(item);
            continue;
        }
        let reason = match is_enough {
            true => "it takes little time".to_owned(),
            false => format!("{MOST_ITEMS} operations are replayed at the most"),
        };
        let out = item.left_out(reason);
        // Of one operation all sizes together.
        let is_same =
            |it: &&mut LeftOut| (&it.family, &it.call, &it.reason) == (&out.family, &out.call, &out.reason);
        match left_out.iter_mut().find(is_same) {
            Some(same) => same.time_s += out.time_s,
            None => left_out.push(out),
        }
    }
    kept
}

/// The name of the communicators that are replayed at the same time.
fn family(comm: &str) -> String {
    comm.parse::<CommName>().map_or_else(|_| comm.to_owned(), |name| name.pattern().to_string())
}

enum Treatment {
    /// It communicates nothing.
    Nothing,
    LeftOut(&'static str),
    Messages,
    Collective(Collective),
}

fn kind(call: &str, comm: &CommRow) -> Treatment {
    let kind = Operation::from_name(call).map(Operation::kind);
    let is_communication = matches!(
        kind,
        Some(
            OperationKind::PointToPoint
                | OperationKind::Collective
                | OperationKind::Completion
                | OperationKind::OneSided
        )
    );
    if !is_communication {
        return Treatment::Nothing;
    }
    if comm.members.remote.is_some() {
        return Treatment::LeftOut("intercommunicators are not replayed");
    }
    // Of MPI_COMM_SELF and what is made of it, one row stands for the communicators of all ranks.
    if is_one_per_process(&comm.comm) {
        return Treatment::LeftOut("each rank has one of its own, on which nothing is communicated");
    }
    let are_listed = u64::from(comm.size) == comm.members.group.len();
    if comm.count > 1 || comm.members.has_elided() || comm.members.outsiders() > 0 || !are_listed {
        return Treatment::LeftOut("its members are not listed one by one");
    }
    if comm.size == 1 {
        return Treatment::LeftOut("its communicators are of single ranks");
    }
    match kind {
        Some(OperationKind::PointToPoint | OperationKind::Completion) => Treatment::Messages,
        Some(OperationKind::OneSided) => Treatment::LeftOut("one-sided communication is not replayed"),
        _ => match Collective::from_name(call) {
            Some(collective) if collective.is_of_neighbours() => {
                Treatment::LeftOut("collectives of neighbours are not replayed")
            }
            Some(collective) => Treatment::Collective(collective),
            None => Treatment::LeftOut("nonblocking and persistent collectives are not replayed"),
        },
    }
}

/// The treatment of a row whose call may complete requests, where these are not those of messages
/// alone.
fn not_of_messages(row: &CallRow, requests: &HashMap<(String, u32), Requests>) -> Option<Treatment> {
    let of = requests.get(&(row.comm.clone(), row.rank)).filter(|of| of.others)?;
    let why = match of.messages {
        false => "it completes requests of nonblocking collectives or other calls that are not replayed",
        true => {
            "it completes messages and nonblocking collectives or others on this communicator, and the profile does not tell their times apart"
        }
    };
    Requests::is_of_them(&row.call).then_some(Treatment::LeftOut(why))
}

impl Sum {
    fn add(&mut self, row: &CallRow, collective: Collective, size: u32) {
        let (calls, size) = (row.calls as f64, f64::from(size));
        self.calls += row.calls;
        self.bytes += row.bytes;
        self.time_s += row.time_s.0;
        // How many blocks the bytes of these calls are, on average over the members.
        self.blocks += match collective {
            Collective::Bcast | Collective::Scan | Collective::Exscan => calls * (size - 1.0) / size,
            Collective::Alltoall | Collective::Alltoallv | Collective::Alltoallw => calls * size,
            _ => calls,
        };
        *self.by_comm.entry(row.comm.clone()).or_default() += row.time_s.0;
    }
}

fn collective_item(
    (family, call, size): (String, String, [u64; 2]),
    sum: Sum,
    comms: &HashMap<String, CommRow>,
) -> Option<Item> {
    let bytes = if sum.blocks > 0.0 { (sum.bytes as f64 / sum.blocks).round() as u64 } else { 0 };
    let (names, busiest) = by_time(&sum.by_comm)?;
    Some(Item {
        family: of_one_or_all(family, &names),
        comms: with_members(&names, comms),
        busiest,
        call,
        size,
        bytes,
        calls: sum.calls,
        volume: sum.bytes,
        time_s: sum.time_s,
        messages: Vec::new(),
    })
}

/// The family's name, or that of its only communicator.
fn of_one_or_all(family: String, names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        _ => family,
    }
}

fn with_members(names: &[String], comms: &HashMap<String, CommRow>) -> Vec<(String, Vec<u32>)> {
    names.iter().map(|name| (name.clone(), comms[name].members.group.iter().collect())).collect()
}

/// The communicators, and the position of the one with most time.
fn by_time(by_comm: &BTreeMap<String, f64>) -> Option<(Vec<String>, usize)> {
    let times: Vec<f64> = by_comm.values().copied().collect();
    let busiest = (0..times.len()).max_by(|&one, &other| times[one].total_cmp(&times[other]))?;
    Some((by_comm.keys().cloned().collect(), busiest))
}

/// Messages by family; and the time in messages on communicators that have none.
fn message_items(
    profile: &Profile,
    comms: &HashMap<String, CommRow>,
    mut message_s: BTreeMap<String, f64>,
    mut sizes: BTreeMap<(String, u32), SentSizes>,
) -> Result<(Vec<Item>, BTreeMap<String, f64>), ProfileError> {
    let mut pairs: BTreeMap<String, Vec<PeerRow>> = BTreeMap::new();
    for row in profile.rows::<PeerRow>()? {
        let row = row?;
        if row.sent_messages > 0 && message_s.contains_key(&row.comm) {
            sizes.entry((row.comm.clone(), row.rank)).or_default().add_peer(&row);
            pairs.entry(row.comm.clone()).or_default().push(row);
        }
    }
    let mut families: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for comm in pairs.keys() {
        families
            .entry(family(comm))
            .or_default()
            .insert(comm.clone(), message_s.remove(comm).unwrap_or_default());
    }
    let item = |(family, by_comm): (String, BTreeMap<String, f64>)| {
        let (names, busiest) = by_time(&by_comm)?;
        let all: Vec<&PeerRow> = names.iter().flat_map(|name| &pairs[name]).collect();
        let sent = |row: &PeerRow| sizes[&(row.comm.clone(), row.rank)].sent(row);
        let messages: Vec<Vec<Sent>> =
            names.iter().map(|name| pairs[name].iter().flat_map(sent).collect()).collect();
        let each = || messages.iter().flatten().map(|it| it.bytes);
        let calls: u64 = all.iter().map(|row| row.sent_messages).sum();
        let bytes: u64 = all.iter().map(|row| row.sent_bytes).sum();
        Some(Item {
            family: of_one_or_all(family, &names),
            comms: with_members(&names, comms),
            busiest,
            call: MESSAGES.to_owned(),
            size: [each().min()?, each().max()?],
            bytes: bytes / calls,
            calls,
            volume: bytes,
            time_s: by_comm.values().sum(),
            messages,
        })
    };
    Ok((families.into_iter().filter_map(item).collect(), message_s))
}

#[cfg(test)]
mod tests;
