//! A profile beside the replay of its communication (`network.json` of `mpisee-bench --like`): what
//! is waiting, what the network, what communicators in each other's way.

use crate::cores;
use crate::filter::CallFilter;
use crate::units::count;
use crate::view::ProfileView;
use crate::waits::{self, Estimate, Waiting};
use anyhow::{Result, bail};
use mpisee_profile::network::{LACKING_FROM, MESSAGES, Network, Replay};
use mpisee_profile::requests::Requests;
use mpisee_profile::rows::{CallRow, PeerRow};
use mpisee_profile::{Operation, OperationKind};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

mod verdict;

/// The name of the file that `mpisee-bench` writes.
const FILE: &str = "network.json";

/// The file that an option names.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NetworkArgs {
    /// Replay of this profile by mpisee-bench --like, to compare times with (default: network.json
    /// beside the profile, if there is one)
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
}

impl NetworkArgs {
    /// Returns whether the user names a file.
    pub fn is_given(&self) -> bool {
        self.network.is_some()
    }
}

/// A profile beside its replay.
pub struct Comparison {
    /// When and where the replay was measured.
    pub heading: String,
    /// The ranks of the program that had no core for a part of their time, in a sentence.
    pub lack: Option<String>,
    /// The operations, those with most time first.
    pub operations: Vec<Compared>,
}

impl Comparison {
    /// With this file; an error if it has no replay of the profile.
    pub fn with(view: &ProfileView, path: &Path) -> Result<Comparison> {
        view.ranks("what single ranks sent")?;
        let network = Network::read(path)?;
        let replays = of_profile(view, &network);
        if replays.is_empty() {
            let profile = view.profile().directory().display().to_string();
            let ranks = view.run().ranks;
            bail!(
                "'{}' has no replay of '{profile}': mpirun -n {ranks} mpisee-bench --like {profile} --output {} makes one",
                path.display(),
                path.display()
            );
        }
        Comparison::from_view(view, &network, &replays)
    }

    /// With the file that the option names, or one beside the profile that has a replay of it; and
    /// a sentence on one that cannot be read.
    pub fn find(view: &ProfileView, args: &NetworkArgs) -> Result<(Option<Comparison>, Option<String>)> {
        if let Some(path) = &args.network {
            return Ok((Some(Comparison::with(view, path)?), None));
        }
        let absolute = std::path::absolute(view.profile().directory()).ok();
        let beside = absolute.as_deref().and_then(Path::parent).map(|folder| folder.join(FILE));
        let Some(path) = beside.filter(|path| path.is_file()) else { return Ok((None, None)) };
        // A file that is only there by chance is no reason to fail.
        let network = match Network::read(&path) {
            Ok(network) => network,
            Err(why) => {
                return Ok((None, Some(format!("The replay beside the profile is not used: {why}."))));
            }
        };
        let replays = of_profile(view, &network);
        if replays.is_empty() || view.ranks("what single ranks sent").is_err() {
            return Ok((None, None));
        }
        Ok((Some(Comparison::from_view(view, &network, &replays)?), None))
    }

    fn from_view(view: &ProfileView, network: &Network, replays: &[&Replay]) -> Result<Comparison> {
        let recorded = recorded(view, replays)?;
        let waiting = waiting(view);
        let lack = cores::lack(view.processes(), |_| true).map(|lack| lack.sentence());
        let of_program = name_of(&view.run().mpi.library);
        let by_other_mpi = (name_of(&network.mpi.library) != of_program).then_some(Doubt::OtherMpi);
        let mut operations: Vec<Compared> = replays
            .iter()
            .zip(recorded)
            .filter(|(_, recorded)| recorded.calls > 0)
            .map(|(replay, recorded)| {
                Compared::from_replay(replay, recorded, &waiting, lack.is_none(), by_other_mpi)
            })
            .collect();
        operations.sort_by(|one, other| other.recorded.time_s.total_cmp(&one.recorded.time_s));
        let mut heading = self::heading(network, replays[0]);
        if by_other_mpi.is_some() {
            heading += &format!(
                "The program ran with another MPI, {of_program}. Replay the program with the same MPI.\n"
            );
        }
        let without_core = operations.iter().filter(|it| it.doubt == Some(Doubt::NoCore));
        if let Some(share) = without_core.filter_map(|it| it.replay.no_core).reduce(f64::max) {
            heading += &format!(
                "A rank of the replay had no core for {:.0} % of its time. Replay again with a core for each \
                 rank.\n",
                100.0 * share
            );
        }
        Ok(Comparison { heading, lack, operations })
    }
}

/// An operation of the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationSums {
    /// Of all ranks; or messages.
    pub calls: u64,
    /// As docs/explanation/bytes-and-times.md counts them.
    pub bytes: u64,
    /// Of all ranks.
    pub time_s: f64,
}

/// The time that a replay takes for all calls of all ranks, in seconds; from and to are its middle
/// half.
struct Replayed {
    alone: Estimate,
    together: Estimate,
    /// True if the communicator has no siblings, so that both are one measurement.
    is_single: bool,
}

impl Replayed {
    fn from_replay(replay: &Replay, calls: f64) -> Self {
        let of = |call_s: f64, spread: f64| {
            let total = call_s * calls;
            let half = total * spread / 2.0;
            Estimate { total, low: (total - half).max(0.0), high: total + half, error: 0.0 }
        };
        Replayed {
            alone: of(replay.alone_s, replay.alone_spread),
            together: of(replay.together_s, replay.together_spread),
            is_single: replay.comms.len() == 1,
        }
    }
}

/// A time of all ranks, divided; in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// All of it.
    pub time_s: f64,
    /// Waiting for other ranks; none where it is not measured.
    pub waiting: Option<Estimate>,
    /// The time that a communicator takes alone; nothing, like that beside siblings, where the
    /// replay is in [`Doubt`].
    pub network: Estimate,
    /// The time that it takes longer beside its siblings.
    pub siblings: Estimate,
    /// The rest of the time.
    pub rest_s: f64,
}

impl Parts {
    /// Divides a time, of which `waiting` was measured as waiting. The parts are never more than
    /// the whole, so that they add up where a replay takes longer than the program.
    fn from_times(time_s: f64, waiting: Option<Estimate>, replayed: &Replayed) -> Parts {
        let waiting = waiting.map(|waiting| waiting.clamped(0.0, time_s));
        let transfer = waiting.unwrap_or_default().rest_of(time_s);
        let Replayed { alone, together, is_single } = replayed;
        let network = alone.at_most(transfer);
        let longer = Estimate {
            total: together.total - alone.total,
            low: together.low - alone.high,
            high: together.high - alone.low,
            error: 0.0,
        };
        let siblings = if *is_single { Estimate::default() } else { longer.clamped(0.0, transfer.high) };
        let left_s = transfer.total - network.total;
        let siblings = siblings.at_most(Estimate { total: left_s, low: left_s, ..transfer });
        Parts { time_s, waiting, network, siblings, rest_s: left_s - siblings.total }
    }

    /// All but the waiting.
    pub fn transfer_s(&self) -> f64 {
        self.time_s - self.waiting.map_or(0.0, |waiting| waiting.total)
    }
}

/// The bytes that a call moved in the run that was replayed; none of collectives in files of
/// before.
fn mean_bytes(replay: &Replay) -> Option<f64> {
    match replay.volume {
        Some(volume) => Some(volume as f64 / replay.calls.max(1) as f64),
        None => (replay.call == MESSAGES).then_some(replay.bytes as f64),
    }
}

/// Why a replay does not tell what the network takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its blocks are equally long, and the program's may have been of other lengths.
    Blocks,
    /// It took longer than the program, by more than its own spread.
    Longer,
    /// Its repetitions took times that differ too much.
    Disturbed,
    /// A rank of it had no core for a part of its time.
    NoCore,
    /// It has too few repetitions to show how much they differ.
    Few,
    /// It was carried out by another MPI.
    OtherMpi,
    /// It is of another run of the command, whose calls were of other sizes.
    OtherSizes,
}

impl Doubt {
    /// The spread from which on a replay was disturbed.
    const SPREAD: f64 = 0.5;

    /// Repetitions at the least, of which a middle half says something.
    const FEWEST: u32 = 5;
    /// How far the mean size of a run's calls may be from that of another run of the same command.
    const OTHER_SIZES: f64 = 0.05;

    fn from_replay(replay: &Replay, recorded: &OperationSums, transfer_s: f64) -> Option<Doubt> {
        let replayed_s = replay.together_s * recorded.calls as f64;
        let now = recorded.bytes as f64 / recorded.calls.max(1) as f64;
        let is_other = |then: f64| (now - then).abs() > 1.0 + Doubt::OTHER_SIZES * then.max(now);
        if mean_bytes(replay).is_some_and(is_other) {
            return Some(Doubt::OtherSizes);
        }
        if replay.assumes_equal_blocks() {
            return Some(Doubt::Blocks);
        }
        if replay.repetitions.is_some_and(|repetitions| repetitions < Doubt::FEWEST) {
            return Some(Doubt::Few);
        }
        if replay.no_core.is_some_and(|share| share >= LACKING_FROM) {
            return Some(Doubt::NoCore);
        }
        if replay.together_spread.max(replay.alone_spread) > Doubt::SPREAD {
            return Some(Doubt::Disturbed);
        }
        (replayed_s > (1.1 + replay.together_spread) * transfer_s).then_some(Doubt::Longer)
    }
}

/// A replayed operation with what the profile has of it.
pub struct Compared {
    /// The replay.
    pub replay: Replay,
    /// The profile's part.
    pub recorded: OperationSums,
    /// Its time, divided.
    pub parts: Parts,
    /// Why the network's part of it is not known; `None` if it is.
    pub doubt: Option<Doubt>,
    /// False if ranks of the program had no core for a part of their time, which they may have
    /// shared with their siblings.
    had_cores: bool,
    /// True if the waiting is that of all sizes of the operation, of which this is one.
    is_of_all_sizes: bool,
}

impl Compared {
    fn from_replay(
        replay: &Replay,
        recorded: OperationSums,
        waiting: &WaitingBy,
        had_cores: bool,
        by_other_mpi: Option<Doubt>,
    ) -> Compared {
        let waiting = waiting_of(replay, recorded.time_s, waiting);
        let is_of_all_sizes = waiting.is_some_and(|(_, is_of_all)| is_of_all);
        let waiting = waiting.map(|(waiting, _)| waiting);
        let transfer_s = recorded.time_s - waiting.map_or(0.0, |waiting| waiting.total);
        let doubt = by_other_mpi.or_else(|| Doubt::from_replay(replay, &recorded, transfer_s));
        let calls = if doubt.is_some() { 0.0 } else { recorded.calls as f64 };
        let parts = Parts::from_times(recorded.time_s, waiting, &Replayed::from_replay(replay, calls));
        Compared { replay: replay.clone(), recorded, parts, doubt, had_cores, is_of_all_sizes }
    }

    /// Bytes per second and rank of the program without waiting, of the replay at once, and alone.
    pub fn rates(&self) -> [f64; 3] {
        let per_call = self.recorded.bytes as f64 / self.recorded.calls.max(1) as f64;
        let transfer_s = self.parts.transfer_s() / self.recorded.calls.max(1) as f64;
        [transfer_s, self.replay.together_s, self.replay.alone_s]
            .map(|time_s| if time_s > 0.0 { per_call / time_s } else { 0.0 })
    }
}

/// An MPI library's name and version, of the first line that it says of itself.
fn name_of(library: &str) -> String {
    let name = library.split(',').next().unwrap_or_default();
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn heading(network: &Network, replay: &Replay) -> String {
    // In files of before, the whole file has one date.
    let is_dated = !replay.measured.is_empty();
    let (measured, hosts) =
        if is_dated { (&replay.measured, &replay.hosts) } else { (&network.measured, &network.hosts) };
    format!(
        "Replay of {} on {} ({}), {}\n",
        measured,
        hosts.join(", "),
        name_of(&network.mpi.library),
        count(replay.ranks.into(), "rank")
    )
}

/// The replays of this profile's command.
fn of_profile<'n>(view: &ProfileView, network: &'n Network) -> Vec<&'n Replay> {
    let run = view.run();
    let is_of_it = |replay: &&Replay| replay.command == run.command && replay.ranks == run.ranks;
    network.replays.iter().filter(is_of_it).collect()
}

/// The profile's sums of each replayed operation.
fn recorded(view: &ProfileView, replays: &[&Replay]) -> Result<Vec<OperationSums>> {
    let mut by_operation: HashMap<(&str, &str, [u64; 2]), usize> = HashMap::new();
    let mut by_comm: HashMap<&str, usize> = HashMap::new();
    for (at, replay) in replays.iter().enumerate() {
        for comm in &replay.comms {
            if replay.call == MESSAGES {
                by_comm.insert(comm, at);
            } else {
                by_operation.insert((comm, &replay.call, [replay.size_min, replay.size_max]), at);
            }
        }
    }
    let mut all = vec![OperationSums::default(); replays.len()];
    let requests = Requests::from_profile(view.profile())?;
    // What completes other requests, too, is not replayed.
    let is_of_messages = |row: &CallRow| {
        !Requests::is_of_them(&row.call)
            || !requests.get(&(row.comm.clone(), row.rank)).is_some_and(|requests| requests.others)
    };
    for row in view.profile().rows::<CallRow>()? {
        let row = row?;
        let at = match Operation::from_name(&row.call).map(Operation::kind) {
            Some(OperationKind::PointToPoint | OperationKind::Completion) if !is_of_messages(&row) => None,
            Some(OperationKind::PointToPoint | OperationKind::Completion) => by_comm.get(&*row.comm),
            _ => by_operation.get(&(&*row.comm, &*row.call, [row.size_min, row.size_max])),
        };
        let Some(of) = at.map(|&at| &mut all[at]) else { continue };
        of.time_s += row.time_s.0;
        if replays[*at.expect("it was found")].call != MESSAGES {
            of.calls += row.calls;
            of.bytes += row.bytes;
        }
    }
    for row in view.profile().rows::<PeerRow>()? {
        let row = row?;
        if let Some(&at) = by_comm.get(&*row.comm) {
            all[at].calls += row.sent_messages;
            all[at].bytes += row.sent_bytes;
        }
    }
    Ok(all)
}

/// Time and waiting by communicator and operation, in seconds.
type WaitingBy = BTreeMap<(String, String), (f64, Estimate)>;

/// The waiting as far as it is known; nothing where the profile has no samples.
fn waiting(view: &ProfileView) -> WaitingBy {
    let Ok(report) = waits::measure(view, &CallFilter::default()) else { return WaitingBy::new() };
    let known = |it: Waiting| Some(((it.comm, it.call), (it.time_s, it.waiting?)));
    report.operations.into_iter().filter_map(known).collect()
}

/// The part of an operation's time that is waiting, and whether the operation has other sizes, too:
/// samples are of the operation, so that all sizes have the same part.
fn waiting_of(replay: &Replay, time_s: f64, waiting: &WaitingBy) -> Option<(Estimate, bool)> {
    /// Of the time, for what the profile rounds.
    const NEARLY_ALL: f64 = 0.999;
    let of_comm = |comm: &String| waiting.get(&(comm.clone(), replay.call.clone()));
    let (sampled_s, waiting) = replay
        .comms
        .iter()
        .filter_map(of_comm)
        .fold((0.0, Estimate::default()), |sum, &(time_s, waiting)| (sum.0 + time_s, sum.1.plus(waiting)));
    if sampled_s <= 0.0 {
        return None;
    }
    let of_size = waiting.scaled(time_s / sampled_s);
    if time_s >= NEARLY_ALL * sampled_s {
        return Some((of_size, false));
    }
    // All waiting may have been in this size, or all time of the others.
    let low = (waiting.low - (sampled_s - time_s)).clamp(0.0, of_size.total);
    let high = waiting.high.min(time_s).max(of_size.total);
    Some((Estimate { low, high, ..of_size }, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that were measured without any spread.
    fn replayed(alone_s: f64, together_s: f64) -> Replayed {
        let [alone, together] = [alone_s, together_s].map(Estimate::exact);
        Replayed { alone, together, is_single: false }
    }

    fn between(low: f64, total: f64, high: f64) -> Estimate {
        Estimate { total, low, high, error: 0.0 }
    }

    #[test]
    fn the_parts_add_up_whatever_the_replay_says() {
        for (waiting_s, alone_s, together_s) in [
            (Some(3.0), 2.0, 5.0),
            (None, 2.0, 5.0),
            (Some(5.0), 20.0, 30.0),
            (Some(0.0), 4.0, 3.0),
            (Some(12.0), 4.0, 3.0),
            (None, 0.0, 0.0),
        ] {
            let parts =
                Parts::from_times(10.0, waiting_s.map(Estimate::exact), &replayed(alone_s, together_s));
            let waiting = parts.waiting.unwrap_or_default();
            let all = [waiting.total, parts.network.total, parts.siblings.total, parts.rest_s];
            assert!(all.iter().all(|&part_s| part_s >= 0.0), "{parts:?}");
            assert!((all.iter().sum::<f64>() - 10.0).abs() < 1e-12, "{parts:?}");
        }
        let parts = Parts::from_times(10.0, Some(Estimate::exact(3.0)), &replayed(2.0, 5.0));
        let of = [parts.waiting.unwrap(), parts.network, parts.siblings];
        assert_eq!((of, parts.rest_s), ([3.0, 2.0, 3.0].map(Estimate::exact), 2.0));
    }

    /// From and to of each part follow from those of what was measured.
    #[test]
    fn parts_have_the_intervals_of_what_was_measured() {
        let alone = between(1.8, 2.0, 2.2);
        let together = between(4.5, 5.0, 5.5);
        let waiting = Some(between(2.0, 3.0, 4.0));
        let parts = Parts::from_times(10.0, waiting, &Replayed { alone, together, is_single: false });
        assert_eq!(parts.network, alone);
        let [low, high] = [4.5 - 2.2, 5.5 - 1.8];
        assert_eq!(parts.siblings, between(low, 3.0, high));
        // One communicator was measured once: there are no siblings, whatever the spread.
        let parts = Parts::from_times(10.0, waiting, &Replayed { alone, together: alone, is_single: true });
        assert_eq!(parts.siblings, Estimate::default());
        // Of nearly equal times nobody knows whether there is a difference.
        let parts = Parts::from_times(
            10.0,
            None,
            &Replayed { alone, together: between(1.9, 2.1, 2.3), is_single: false },
        );
        assert!(parts.siblings.low == 0.0 && parts.siblings.high > 0.4, "{parts:?}");
        for part in [parts.network, parts.siblings] {
            assert!(part.low <= part.total && part.total <= part.high, "{parts:?}");
        }
    }
}
