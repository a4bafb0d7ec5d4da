//! `compare-network`: what the program got of the network, beside what its communication gets without the computation.

use super::Outcome;
use crate::filter::CallFilter;
use crate::output::{Format, OutputArgs};
use crate::sheet::{self, Answer, Sheet, Shown, Value};
use crate::units::{human_bytes, time};
use crate::view::ProfileView;
use crate::waits::{self, Waiting};
use anyhow::{Result, bail};
use clap::Args;
use mpisee_profile::network::{MESSAGES, Network, Replay};
use mpisee_profile::rows::CallRow;
use mpisee_profile::{Kind, Operation};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 16 mpisee-bench --like app.mpisee               replay the communication of app.mpisee, on as many ranks
  mpisee-through compare-network app.mpisee network.json    what is waiting, what is the network, what are siblings?
  mpisee-through compare-network app.mpisee network.json --format csv";

/// Operations of a profile beside their replay without computation (mpisee-bench --like): what is waiting, what the network.
///
/// Time is that of all ranks in the program. It is divided in four: Waiting for other ranks, as sampled in the run; Network, what the
/// operation takes when its communicator has the network to itself; Siblings, what it takes longer when all communicators of the
/// family communicate at once; and Not explained, what is left: other traffic at the same time, cold caches, waiting that no sample
/// shows. Rate is the volume by the time without waiting, At once and Alone that of the replay, for each rank.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareNetworkArgs {
    /// The NAME.mpisee directory that the run left
    profile: PathBuf,

    /// The file with the replay of this profile, of mpisee-bench --like
    network: PathBuf,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    output: OutputArgs,
}

const HEADS: [sheet::Head; 17] = [
    sheet::fixed("comm", "COMM"),
    sheet::fixed("call", "CALL"),
    sheet::number("block_bytes", "Size"),
    sheet::number("size_min", "MIN"),
    sheet::number("size_max", "MAX"),
    sheet::number("calls", "Calls").hidden_at(4),
    sheet::number("time_s", "Time"),
    sheet::number("waiting_s", "Waiting"),
    sheet::number("network_s", "Network"),
    sheet::number("siblings_s", "Siblings"),
    sheet::number("not_explained_s", "Not explained"),
    sheet::number("bytes", "Volume").hidden_at(0),
    sheet::number("bytes_per_s", "Rate/s").hidden_at(3),
    sheet::number("together_bytes_per_s", "At once/s").hidden_at(2),
    sheet::number("alone_bytes_per_s", "Alone/s").hidden_at(1),
    sheet::number("together_s", "per call at once"),
    sheet::number("alone_s", "per call alone"),
];
/// Columns that tables leave out.
const EXACT: [&str; 4] = ["size_min", "size_max", "together_s", "alone_s"];

/// An operation of the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Recorded {
    calls: u64,
    bytes: u64,
    time_s: f64,
}

/// A time of all ranks, divided.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    time_s: f64,
    /// None where it is not measured.
    waiting_s: Option<f64>,
    network_s: f64,
    siblings_s: f64,
    rest_s: f64,
}

impl Parts {
    /// Divides a time; `waiting` is the part of it that was measured as waiting. The parts are never more than the whole, so
    /// that they add up where a replay takes longer than the program.
    fn of(time_s: f64, waiting: Option<f64>, alone_s: f64, together_s: f64) -> Parts {
        let waiting_s = waiting.map(|share| share.clamp(0.0, 1.0) * time_s);
        let transfer_s = time_s - waiting_s.unwrap_or(0.0);
        let network_s = alone_s.min(transfer_s);
        let siblings_s = (together_s - alone_s).clamp(0.0, transfer_s - network_s);
        Parts { time_s, waiting_s, network_s, siblings_s, rest_s: transfer_s - network_s - siblings_s }
    }

    fn transfer_s(&self) -> f64 {
        self.time_s - self.waiting_s.unwrap_or(0.0)
    }
}

/// A replayed operation with what the profile has of it.
struct Compared<'r> {
    replay: &'r Replay,
    recorded: Recorded,
    parts: Parts,
}

impl Compared<'_> {
    /// Bytes per second and rank of the program without waiting, of the replay at once, and alone.
    fn rates(&self) -> [f64; 3] {
        let per_call = self.recorded.bytes as f64 / self.recorded.calls.max(1) as f64;
        let transfer_s = self.parts.transfer_s() / self.recorded.calls.max(1) as f64;
        [transfer_s, self.replay.together_s, self.replay.alone_s]
            .map(|time_s| if time_s > 0.0 { per_call / time_s } else { 0.0 })
    }

    /// Returns whether the replay took longer than the program, by more than its own spread.
    fn is_slower_replayed(&self) -> bool {
        let replayed_s = self.replay.together_s * self.recorded.calls as f64;
        replayed_s > (1.1 + self.replay.together_spread) * self.parts.transfer_s()
    }
}

/// Runs the command.
pub fn run(args: &CompareNetworkArgs) -> Result<Outcome> {
    let view = ProfileView::open(&args.profile)?;
    view.ranks("what single ranks sent")?;
    let network = Network::read(&args.network)?;
    let replays = of_profile(&view, &network, &args.network)?;
    let recorded = recorded(&view, &replays)?;
    let waiting = waiting(&view);
    let mut compared: Vec<Compared> = replays
        .into_iter()
        .zip(recorded)
        .filter(|(_, recorded)| recorded.calls > 0)
        .map(|(replay, recorded)| {
            let calls = recorded.calls as f64;
            let share = waiting_of(replay, &waiting);
            let parts = Parts::of(recorded.time_s, share, replay.alone_s * calls, replay.together_s * calls);
            Compared { replay, recorded, parts }
        })
        .collect();
    compared.sort_by(|one, other| other.recorded.time_s.total_cmp(&one.recorded.time_s));
    let mut rows: Vec<Vec<Value>> = compared.iter().map(row).collect();
    let cut = args.shown.cut(&args.output, &mut rows, "No operation of the replay is in the profile.");
    compared.truncate(rows.len());
    let mut sheet = Sheet { name: "operations", heads: HEADS.to_vec(), rows };
    let is_table = args.output.format() == Format::Table;
    if is_table {
        sheet.keep_columns(|name, _| !EXACT.contains(&name));
    }
    let mut answer = Answer::new(view.profile(), sheet, None);
    if is_table {
        answer.lead = heading(&network);
        let sentences: Vec<String> = compared.iter().map(verdict).collect();
        answer.closing =
            if cut.is_empty() { String::new() } else { format!("{cut}\n") } + &sentences.join("\n");
    }
    answer.write(&args.output)
}

fn heading(network: &Network) -> String {
    let library = network.mpi.library.split(',').next().unwrap_or_default();
    let library: Vec<&str> = library.split_whitespace().collect();
    format!(
        "Replay of {} on {} ({}), {}\n",
        network.measured,
        network.hosts.join(", "),
        library.join(" "),
        crate::units::count(network.ranks.into(), "rank")
    )
}

/// The replays of this profile's command.
fn of_profile<'n>(view: &ProfileView, network: &'n Network, path: &Path) -> Result<Vec<&'n Replay>> {
    let run = view.run();
    let profile = view.profile().directory().display().to_string();
    let is_of_it = |replay: &&Replay| replay.command == run.command && replay.ranks == run.ranks;
    let replays: Vec<&Replay> = network.replays.iter().filter(is_of_it).collect();
    if replays.is_empty() {
        bail!(
            "'{}' has no replay of '{profile}': mpirun -n {} mpisee-bench --like {profile} --output {} makes one",
            path.display(),
            run.ranks,
            path.display()
        );
    }
    Ok(replays)
}

/// What the profile has of each replayed operation.
fn recorded(view: &ProfileView, replays: &[&Replay]) -> Result<Vec<Recorded>> {
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
    let mut all = vec![Recorded::default(); replays.len()];
    for row in view.profile().rows::<CallRow>()? {
        let row = row?;
        let at = match Operation::from_name(&row.call).map(Operation::kind) {
            Some(Kind::PointToPoint | Kind::Completion) => by_comm.get(&*row.comm),
            _ => by_operation.get(&(&*row.comm, &*row.call, [row.size_min, row.size_max])),
        };
        let Some(of) = at.map(|&at| &mut all[at]) else { continue };
        of.time_s += row.time_s.0;
        if replays[*at.expect("it was found")].call != MESSAGES {
            of.calls += row.calls;
            of.bytes += row.bytes;
        }
    }
    for row in view.profile().rows::<mpisee_profile::rows::PeerRow>()? {
        let row = row?;
        if let Some(&at) = by_comm.get(&*row.comm) {
            all[at].calls += row.sent_messages;
            all[at].bytes += row.sent_bytes;
        }
    }
    Ok(all)
}

/// Time and waiting by communicator and operation, in seconds.
type WaitingBy = BTreeMap<(String, String), (f64, f64)>;

/// What is known of waiting; nothing where the profile has no samples.
fn waiting(view: &ProfileView) -> WaitingBy {
    let Ok(report) = waits::of(view, &CallFilter::default()) else { return WaitingBy::new() };
    let known = |it: Waiting| Some(((it.comm, it.call), (it.time_s, it.waiting?.total)));
    report.operations.into_iter().filter_map(known).collect()
}

/// The part of an operation's time that is waiting: the same for all sizes, as samples are of the operation.
fn waiting_of(replay: &Replay, waiting: &WaitingBy) -> Option<f64> {
    let of_comm = |comm: &String| waiting.get(&(comm.clone(), replay.call.clone()));
    let (time_s, waiting_s) = replay
        .comms
        .iter()
        .filter_map(of_comm)
        .fold((0.0, 0.0), |sum, &(time_s, waiting_s)| (sum.0 + time_s, sum.1 + waiting_s));
    (time_s > 0.0).then(|| waiting_s / time_s)
}

fn row(it: &Compared) -> Vec<Value> {
    let Compared { replay, recorded, parts } = it;
    let seconds = |time_s: f64| Value::Seconds(time_s);
    let [rate, together, alone] = it.rates().map(Value::BytesPerSecond);
    vec![
        replay.family.as_str().into(),
        replay.call.as_str().into(),
        Value::Bytes(replay.bytes),
        Value::Count(replay.size_min),
        Value::Count(replay.size_max),
        Value::Count(recorded.calls),
        seconds(parts.time_s),
        parts.waiting_s.map_or(Value::Nothing, Value::Seconds),
        seconds(parts.network_s),
        seconds(parts.siblings_s),
        seconds(parts.rest_s),
        Value::Bytes(recorded.bytes),
        rate,
        together,
        alone,
        seconds(replay.together_s),
        seconds(replay.alone_s),
    ]
}

/// A part of the time from which on a sentence names it.
const NAMED: f64 = 0.1;

/// A sentence on what dominates.
fn verdict(it: &Compared) -> String {
    let Compared { replay, parts, .. } = it;
    let share = |part_s: f64| part_s / parts.time_s;
    let percent = |part_s: f64| format!("{:.0} %", 100.0 * share(part_s));
    let sizes = if replay.bytes > 0 { format!(" of {}", human_bytes(replay.bytes)) } else { String::new() };
    let [rate, together, alone] = it.rates().map(|rate| format!("{}/s", human_bytes(rate.round() as u64)));
    let call = if replay.call == MESSAGES { "Messages" } else { &replay.call };
    let mut text = format!("{call}{sizes} on {}: ", replay.family);
    text += &match (replay.bytes, replay.comms.len()) {
        (0, _) => format!(
            "{} a call in the program, {} replayed",
            time(parts.transfer_s() / it.recorded.calls.max(1) as f64),
            time(replay.together_s)
        ),
        (_, 1) => format!("{rate} for each rank in the program, {together} when replayed"),
        (_, comms) => format!(
            "{rate} for each rank in the program, {together} when {} communicators replay it at once, {alone} alone",
            if comms == 2 { "both".to_owned() } else { format!("all {comms}") }
        ),
    };
    let mut causes = Vec::new();
    if share(parts.siblings_s) >= NAMED {
        causes.push(format!("the siblings share the network ({})", percent(parts.siblings_s)));
    }
    match parts.waiting_s {
        Some(waiting_s) if share(waiting_s) >= NAMED => {
            causes.push(format!("waiting is {} (measured)", percent(waiting_s)));
        }
        Some(_) => {}
        None => causes.push("waiting was not measured".to_owned()),
    }
    if it.is_slower_replayed() {
        causes.push(
            "the replay took longer than the program, so measure it again on cores that nobody else uses"
                .to_owned(),
        );
    } else if share(parts.rest_s) >= NAMED {
        causes.push(format!("{} are not explained", percent(parts.rest_s)));
    }
    if causes.is_empty() {
        causes.push("the program gets what the network gives".to_owned());
    }
    text + "; " + &causes.join(", ") + ".\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_whatever_the_replay_says() {
        for (waiting, alone_s, together_s) in [
            (Some(0.3), 2.0, 5.0),
            (None, 2.0, 5.0),
            (Some(0.5), 20.0, 30.0),
            (Some(0.0), 4.0, 3.0),
            (Some(1.2), 4.0, 3.0),
            (None, 0.0, 0.0),
        ] {
            let parts = Parts::of(10.0, waiting, alone_s, together_s);
            let all = [parts.waiting_s.unwrap_or(0.0), parts.network_s, parts.siblings_s, parts.rest_s];
            assert!(all.iter().all(|&part_s| part_s >= 0.0), "{parts:?}");
            assert!((all.iter().sum::<f64>() - 10.0).abs() < 1e-12, "{parts:?}");
        }
        let parts = Parts::of(10.0, Some(0.3), 2.0, 5.0);
        assert_eq!((parts.waiting_s, parts.network_s, parts.siblings_s), (Some(3.0), 2.0, 3.0));
        assert_eq!(parts.rest_s, 2.0);
    }
}
