//! Differences between the runs themselves: program, MPI library, ranks, nodes.

use crate::core_share::{share, share_of_node};
use crate::processes::Processes;
use crate::run_set::command_text;
use crate::sheet::Value;
use crate::statistics::{CONFIDENCE, difference, mean};
use crate::view::ProfileView;
use mpisee_profile::network::LACKING_FROM;

/// The properties by which runs are compared.
struct Setting {
    program: String,
    command: String,
    library: String,
    ranks: u64,
    nodes: u64,
}

impl Setting {
    fn from_view(view: &ProfileView) -> Self {
        let run = view.run();
        // Some libraries add details of their build after a comma or on further lines.
        let library = run.mpi.library.split([',', '\n']).next().unwrap_or_default();
        Setting {
            program: view.program(),
            command: command_text(&run.command),
            library: library.split_whitespace().collect::<Vec<_>>().join(" "),
            ranks: run.ranks.into(),
            nodes: run.nodes.into(),
        }
    }
}

/// A sentence for each part of the setting in which the runs differ.
pub fn sentences(views: [&ProfileView; 2]) -> Vec<String> {
    let [before, after] = views.map(Setting::from_view);
    let named = |what: &str, one: &str, other: &str| {
        (one != other).then(|| format!("The runs have different {what}: {one} in A, {other} in B."))
    };
    let counted = |noun: &str, one: u64, other: u64| {
        (one != other)
            .then(|| format!("The runs have different numbers of {noun}: {one} in A, {other} in B."))
    };
    [
        named("programs", &before.program, &after.program),
        // The command of another program is another one.
        named("commands", &before.command, &after.command).filter(|_| before.program == after.program),
        named("MPI libraries", &before.library, &after.library),
        counted("ranks", before.ranks, after.ranks),
        counted("nodes", before.nodes, after.nodes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The least difference of shares without a core between sets of runs.
const CORES_OF_SETS: f64 = 0.01;

/// A sentence on the time without a core, if that differs between the sets by more than the runs of
/// a set vary; of two single runs, by so much that a run is said to lack cores.
pub fn on_cores<'v>(sets: [impl Iterator<Item = &'v ProfileView>; 2]) -> Option<String> {
    let [before, after] =
        sets.map(|set| set.filter_map(|view| share_of_all(view.processes())).collect::<Vec<f64>>());
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let change = (mean(&after) - mean(&before)).abs();
    let differ = match difference(&before, &after) {
        Some(found) => found.chance <= 1.0 - CONFIDENCE && change >= CORES_OF_SETS,
        None => change >= LACKING_FROM,
    };
    let [before, after] = [mean(&before), mean(&after)].map(|share| 100.0 * share);
    differ.then(|| {
        format!(
            "Ranks waited for a CPU core {before:.1} % of the time in A, {after:.1} % in B (mpisee-through \
             ranks). This difference changes all times, inside of MPI and outside."
        )
    })
}

/// The part of their time in which all ranks together were ready to run and had no core, as far as
/// it was measured.
fn share_of_all(processes: &Processes) -> Option<f64> {
    let ranks = processes.ranks().iter().filter_map(|row| Some((share(row)?, row.wall_s.0)));
    let nodes = processes.nodes().iter().filter_map(|row| Some((share_of_node(row)?, row.wall_s.0)));
    let (wait_s, wall_s) = ranks
        .chain(nodes)
        .fold((0.0, 0.0), |(wait_s, all_s), (share, wall_s)| (wait_s + share * wall_s, all_s + wall_s));
    (wall_s > 0.0).then_some(wait_s / wall_s)
}

/// The setting of both runs, for JSON.
pub fn values(views: [&ProfileView; 2]) -> Vec<(&'static str, Value)> {
    let [before, after] = views.map(Setting::from_view);
    vec![
        ("program_before", before.program.as_str().into()),
        ("program_after", after.program.as_str().into()),
        ("command_before", before.command.as_str().into()),
        ("command_after", after.command.as_str().into()),
        ("mpi_library_before", before.library.as_str().into()),
        ("mpi_library_after", after.library.as_str().into()),
        ("ranks_before", Value::Count(before.ranks)),
        ("ranks_after", Value::Count(after.ranks)),
        ("nodes_before", Value::Count(before.nodes)),
        ("nodes_after", Value::Count(after.nodes)),
    ]
}
