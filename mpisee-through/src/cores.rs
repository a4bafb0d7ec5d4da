//! Ranks that were ready to run and had no core, and the reasons that were measured.

use crate::core_share::{TOLERANCE, share_of, share_of_node};
pub use crate::core_share::{share, share_on_core};
use crate::interrupted;
use crate::processes::{ProcessRows, Processes};
use crate::units::count;
use crate::view::ProfileView;
use mpisee_collect::aggregate::node_rows;
use mpisee_profile::RankSet;
use mpisee_profile::network::LACKING_FROM;
use mpisee_profile::rows::{Cpus, NodeRow, RankRow};
use std::collections::BTreeMap;

/// The least time without a core, in seconds: a run may be so short that its start is a good part
/// of it.
pub const LEAST_WAIT_S: f64 = 0.01;
/// The part of the time of cores that others ran before they are named beside ranks.
const OF_OTHERS: f64 = 0.1;
/// The part of a quota that was used, before it is said to be the limit.
const QUOTA_USED: f64 = 0.8;

/// Ranks without a core, on all nodes.
#[derive(Debug)]
pub struct Lack {
    /// The nodes, that with most time without a core first.
    pub nodes: Vec<NodeLack>,
    /// How many nodes the profile has.
    pub nodes_of_run: usize,
    /// The time without a core, over the ranks that lacked one; of a rank with several threads, its
    /// share of the wall time.
    pub wait_s: f64,
}

/// Ranks without a core on a node.
#[derive(Debug)]
pub struct NodeLack {
    pub host: String,
    /// The ranks; `None` where only that with the longest wait is known.
    pub ranks: Option<RankSet>,
    /// By wall time, the least and the most of the ranks; where these are unknown the mean and the
    /// most of the node.
    pub shares: [f64; 2],
    /// The rank that has most.
    pub longest: u32,
    pub wait_s: f64,
    /// At least one.
    pub reasons: Vec<Reason>,
}

/// A reason, as far as it was measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Of a quota of the cgroup, in cores, most was used.
    Quota { cores: f64 },
    /// More ranks than CPUs that they may use.
    Ranks(Crowd),
    /// No more ranks than CPUs, but more threads that ran or were ready, which used these CPUs up.
    Threads(Crowd),
    /// Ranks of several threads that did not use their CPUs up: their own threads, which may have
    /// been more at times, cannot be told from other processes.
    ThreadsOrOthers(Crowd),
    /// No more ranks of one thread than CPUs: what else ran there is not measured.
    Others,
    /// The CPUs that the ranks may use are unknown.
    Unknown,
}

/// Ranks that may use some CPUs and no others, and wanted to.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    /// The ranks, as text.
    pub ranks: String,
    pub count: u64,
    pub cpus: Cpus,
    /// Threads that ran or were ready, on average.
    pub wanted: f64,
    /// Threads that ran, on average.
    pub ran: f64,
    /// True if they are all of the node that wanted a core.
    pub is_whole: bool,
    /// CPUs of the node, if that is known.
    pub node_cpus: Option<u32>,
    /// The time of other processes on these CPUs, where a bound is known.
    pub others: Option<Others>,
}

/// The time of other processes on the CPUs of ranks that lacked one. While a rank is ready to run
/// and has no core, all of them are taken, and at most all ranks are ready at once: so they were
/// taken for as long as the ranks' time without a core by their number, or longer, and what the
/// ranks did not run themselves of that, others did. It holds for ranks of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others {
    /// The least that others ran, in core seconds.
    pub least_s: f64,
    /// The time of the ranks there.
    pub ranks_s: f64,
    /// The CPUs by the time of the longest rank.
    pub all_s: f64,
}

/// The ranks that lacked a core among those that `takes` takes; none if none did, or if it was not
/// measured. Of sums over ranks all are taken.
pub fn lack(processes: &Processes, takes: impl Fn(u32) -> bool) -> Option<Lack> {
    let (mut nodes, nodes_of_run): (Vec<NodeLack>, usize) = match &processes.rows {
        ProcessRows::Nodes(rows) => (rows.iter().filter_map(of_sums).collect(), rows.len()),
        ProcessRows::Ranks(ranks) => {
            let mut by_host: BTreeMap<&str, Vec<&RankRow>> = BTreeMap::new();
            ranks.iter().for_each(|row| by_host.entry(&row.host).or_default().push(row));
            (by_host.values().filter_map(|ranks| of_ranks(ranks, &takes)).collect(), by_host.len())
        }
    };
    nodes.sort_by(|left, right| {
        right.wait_s.total_cmp(&left.wait_s).then_with(|| left.longest.cmp(&right.longest))
    });
    let wait_s = nodes.iter().map(|node| node.wait_s).sum();
    (!nodes.is_empty()).then_some(Lack { nodes, nodes_of_run, wait_s })
}

/// Returns whether the profile has the time that ranks were without a core.
pub fn is_measured(processes: &Processes) -> bool {
    processes.ranks().iter().any(|row| row.cpu_wait_s.is_some())
        || processes.nodes().iter().any(|row| row.cpu_wait_s.is_some())
}

/// The note on cores where ranks did not come to the end of MPI, at which their use of cores is
/// read: nodes with more ranks than cores that these may use.
pub fn note_of_ended(view: &ProfileView) -> Option<String> {
    let processes = view.processes();
    if is_measured(processes) || !interrupted::is_of(view.run()) {
        return None;
    }
    let of_ranks = node_rows(processes.ranks());
    let crowds = of_ranks.iter().chain(processes.nodes()).filter_map(|node| {
        let cpus = node.cpus_allowed.len();
        let is_crowded = cpus > 0 && node.ranks > cpus;
        let cores = count(cpus, "core");
        is_crowded.then(|| format!(" On {} {} may use {cores}.", node.host, count(node.ranks, "rank")))
    });
    const NOTE: &str = "The time without a core is unknown. The use of cores is read at the end of MPI, \
                        which ranks did not reach.";
    Some(NOTE.to_owned() + &crowds.collect::<String>())
}

/// Returns whether a rank lacked a core.
pub fn is_lacking(row: &RankRow) -> bool {
    share(row).is_some_and(|share| lacks(share, row.cpu_wait_s.map_or(0.0, |wait_s| wait_s.0)))
}

/// Returns whether a rank that waited so long for a core, which is this share of its time, lacked
/// one.
pub fn lacks(share: f64, wait_s: f64) -> bool {
    share >= LACKING_FROM && wait_s >= LEAST_WAIT_S
}

fn of_sums(node: &NodeRow) -> Option<NodeLack> {
    let most_s = node.cpu_wait_max_s?.0;
    let mean_cpu_s = node.cpu_s.map_or(0.0, |cpu_s| cpu_s.0) / node.ranks.max(1) as f64;
    let shares = [share_of_node(node)?, share_of(node.wall_max_s.0, mean_cpu_s, most_s)];
    lacks(shares[1], most_s).then(|| {
        let whole = crowd_of_node(node);
        let have_one_thread = whole.wanted <= TOLERANCE * whole.count as f64;
        let reason = quota(node).or_else(|| crowded(whole.clone())).unwrap_or(match have_one_thread {
            _ if node.cpus_allowed.is_empty() => Reason::Unknown,
            true => Reason::Others,
            false => Reason::ThreadsOrOthers(whole),
        });
        NodeLack {
            host: node.host.clone(),
            ranks: None,
            shares,
            longest: node.cpu_wait_max_rank.unwrap_or(0),
            wait_s: shares[0] * node.wall_s.0,
            reasons: vec![reason],
        }
    })
}

fn of_ranks(ranks: &[&RankRow], takes: impl Fn(u32) -> bool) -> Option<NodeLack> {
    let lacking: Vec<(&RankRow, f64)> = ranks
        .iter()
        .filter(|row| takes(row.rank) && is_lacking(row))
        .filter_map(|&row| Some((row, share(row)?)))
        .collect();
    let most = lacking.iter().max_by(|left, right| left.1.total_cmp(&right.1))?;
    let least = lacking.iter().map(|&(_, share)| share).fold(f64::INFINITY, f64::min);
    let rows: Vec<&RankRow> = lacking.iter().map(|&(row, _)| row).collect();
    Some(NodeLack {
        host: most.0.host.clone(),
        ranks: Some(rows.iter().map(|row| row.rank).collect()),
        shares: [least, most.1],
        longest: most.0.rank,
        wait_s: lacking.iter().map(|(row, share)| share * row.wall_s.0).sum(),
        reasons: reasons(ranks, &rows),
    })
}

/// The reasons for which some ranks of a node lacked a core: that of the fewest CPUs first.
fn reasons(ranks: &[&RankRow], lacking: &[&RankRow]) -> Vec<Reason> {
    let node = node_rows(ranks.iter().copied()).into_iter().next();
    if let Some(reason) = node.as_ref().and_then(quota) {
        return vec![reason];
    }
    let mut sets: Vec<&Cpus> =
        lacking.iter().map(|row| &row.cpus_allowed).filter(|cpus| !cpus.is_empty()).collect();
    let all = node.as_ref().map(|node| &node.cpus_allowed).filter(|_| !sets.is_empty());
    sets.extend(all);
    sets.sort_by_cached_key(|cpus| (cpus.len(), cpus.to_string()));
    sets.dedup();
    if sets.is_empty() {
        return vec![Reason::Unknown];
    }
    let mut found: Vec<(&Cpus, Reason)> = Vec::new();
    for cpus in sets {
        // A set around another one that is crowded is crowded by its ranks.
        if !found.iter().any(|(inner, _)| inner.is_within(cpus)) {
            found.extend(crowded(crowd(ranks, cpus)).map(|reason| (cpus, reason)));
        }
    }
    match node.as_ref().filter(|_| found.is_empty()) {
        None => found.into_iter().map(|(_, reason)| reason).collect(),
        Some(_) if lacking.iter().all(|row| has_one_thread(row)) => vec![Reason::Others],
        Some(node) => vec![Reason::ThreadsOrOthers(crowd(ranks, &node.cpus_allowed))],
    }
}

/// The quota, if most of it was used.
fn quota(node: &NodeRow) -> Option<Reason> {
    let cores = node.cpu_quota?;
    let used = node.cpu_s?.0 / node.wall_max_s.0;
    (cores < node.cpus_allowed.len() as f64 && used >= QUOTA_USED * cores).then_some(Reason::Quota { cores })
}

fn crowded(crowd: Crowd) -> Option<Reason> {
    let cpus = crowd.cpus.len();
    match cpus {
        0 => None,
        _ if crowd.count > cpus => Some(Reason::Ranks(crowd)),
        _ if crowd.wanted <= TOLERANCE * cpus as f64 => None,
        _ if crowd.ran >= (1.0 - OF_OTHERS) * cpus as f64 => Some(Reason::Threads(crowd)),
        _ => Some(Reason::ThreadsOrOthers(crowd)),
    }
}

/// The time in which a rank's threads ran, and in which they ran or were ready to, in seconds.
fn ran_and_wanted_s(row: &RankRow) -> [f64; 2] {
    let ran_s = row.cpu_s().unwrap_or(0.0);
    [ran_s, ran_s + row.cpu_wait_s.map_or(0.0, |wait_s| wait_s.0)]
}

/// Returns whether a rank wanted no more than one core.
fn has_one_thread(row: &RankRow) -> bool {
    ran_and_wanted_s(row)[1] <= TOLERANCE * row.wall_s.0
}

/// The ranks that may use these CPUs and no others, without those that slept and could not be in
/// the way.
fn crowd(ranks: &[&RankRow], cpus: &Cpus) -> Crowd {
    let wanted_s = |row: &RankRow| ran_and_wanted_s(row)[1];
    let is_awake = |row: &&&RankRow| wanted_s(row) >= LACKING_FROM * row.wall_s.0;
    let is_in = |row: &&RankRow| !row.cpus_allowed.is_empty() && row.cpus_allowed.is_within(cpus);
    let awake: Vec<&RankRow> = ranks.iter().filter(is_awake).copied().collect();
    let inside: Vec<&RankRow> = awake.iter().copied().filter(is_in).collect();
    let longest_s = inside.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
    let threads = |of: usize| match longest_s > 0.0 {
        true => inside.iter().map(|row| ran_and_wanted_s(row)[of]).sum::<f64>() / longest_s,
        false => 0.0,
    };
    let set: RankSet = inside.iter().map(|row| row.rank).collect();
    Crowd {
        ranks: set.named(),
        count: set.len(),
        cpus: cpus.clone(),
        wanted: threads(1),
        ran: threads(0),
        is_whole: inside.len() == awake.len(),
        node_cpus: inside.iter().find_map(|row| row.node_cpus),
        others: others(&inside, cpus),
    }
}

fn others(ranks: &[&RankRow], cpus: &Cpus) -> Option<Others> {
    let cpu_wait_s = |row: &RankRow| row.cpu_wait_s.map_or(0.0, |wait_s| wait_s.0);
    if ranks.is_empty() || !ranks.iter().all(|row| has_one_thread(row)) {
        return None;
    }
    let sum = |of: &dyn Fn(&RankRow) -> f64| ranks.iter().map(|row| of(row)).sum::<f64>();
    let ranks_s = sum(&|row| row.cpu_s().unwrap_or(0.0));
    let taken_s = cpus.len() as f64 * sum(&cpu_wait_s) / ranks.len() as f64;
    let all_s = cpus.len() as f64 * ranks.iter().map(|row| row.wall_s.0).fold(0.0, f64::max);
    let least_s = taken_s - ranks_s;
    (least_s >= OF_OTHERS * all_s).then_some(Others { least_s, ranks_s, all_s })
}

fn crowd_of_node(node: &NodeRow) -> Crowd {
    let ran_s = node.cpu_s.map_or(0.0, |cpu_s| cpu_s.0);
    let wanted_s = ran_s + node.cpu_wait_s.map_or(0.0, |wait_s| wait_s.0);
    Crowd {
        ranks: format!("ranks {}", node.members),
        count: node.ranks,
        cpus: node.cpus_allowed.clone(),
        wanted: wanted_s / node.wall_max_s.0,
        ran: ran_s / node.wall_max_s.0,
        is_whole: true,
        node_cpus: node.node_cpus,
        others: None,
    }
}

impl Lack {
    /// Who had no core, and which part of the time: `Ranks 0-3 waited for a CPU core 48 to 52 % of
    /// the time`.
    pub fn sentence(&self) -> String {
        let listed: Option<Vec<&RankSet>> = self.nodes.iter().map(|node| node.ranks.as_ref()).collect();
        let [least, most] = self.shares();
        let Some(listed) = listed else {
            let mean = self.nodes.iter().map(|node| node.shares[0]).fold(0.0, f64::max);
            let longest = self.nodes.iter().max_by(|left, right| left.shares[1].total_cmp(&right.shares[1]));
            let on = match &self.nodes[..] {
                [only] => format!("On {}", only.host),
                several => format!("On {} of {} nodes", several.len(), self.nodes_of_run),
            };
            return format!(
                "{on}, ranks waited for a CPU core {}{} % of the time on average, rank {} {} %",
                if self.nodes.len() > 1 { "up to " } else { "" },
                whole_percent(mean),
                longest.map_or(0, |node| node.longest),
                whole_percent(most),
            );
        };
        let ranks = RankSet::disjoint(listed.into_iter().cloned());
        let ranks: RankSet = ranks.iter().collect();
        let noun = if ranks.len() == 1 { "Rank" } else { "Ranks" };
        format!("{noun} {ranks} waited for a CPU core {} of the time", range(least, most))
    }

    /// The least and the greatest share of a rank.
    fn shares(&self) -> [f64; 2] {
        let least = self.nodes.iter().map(|node| node.shares[0]).fold(f64::INFINITY, f64::min);
        [least, self.nodes.iter().map(|node| node.shares[1]).fold(0.0, f64::max)]
    }
}

impl NodeLack {
    /// The ranks of the node with their shares: `ranks 0-3 (48 to 52 %)`.
    pub fn ranks_text(&self) -> String {
        let [least, most] = self.shares;
        match &self.ranks {
            Some(ranks) => format!("{} ({})", ranks.named(), range(least, most)),
            None => format!(
                "its ranks ({} % on average, rank {} {} %)",
                whole_percent(least),
                self.longest,
                whole_percent(most)
            ),
        }
    }
}

/// `48 to 52 %`.
pub fn range(least: f64, most: f64) -> String {
    match [least, most].map(whole_percent) {
        [least, most] if least == most => format!("{most} %"),
        [least, most] => format!("{least} to {most} %"),
    }
}

fn whole_percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Seconds;

    /// A rank on a core for `cpu_s` of 10 s and without one for `wait_s`.
    fn rank(rank: u32, cpu_s: f64, wait_s: f64, cpus: &str) -> RankRow {
        RankRow {
            rank,
            host: "n1".to_owned(),
            wall_s: Seconds(10.0),
            cpu_user_s: Some(Seconds(cpu_s)),
            cpu_system_s: Some(Seconds(0.0)),
            cpu_wait_s: Some(Seconds(wait_s)),
            cpus_allowed: cpus.parse().unwrap(),
            node_cpus: Some(8),
            ..RankRow::default()
        }
    }

    fn reasons_of(ranks: &[RankRow]) -> Vec<Reason> {
        let all: Vec<&RankRow> = ranks.iter().collect();
        of_ranks(&all, |_| true).map(|node| node.reasons).unwrap_or_default()
    }

    /// Kind, ranks and CPUs of each reason.
    fn shown(ranks: &[RankRow]) -> Vec<String> {
        let of = |kind: &str, crowd: &Crowd| {
            format!("{kind}: {} on {}, {:.1} wanted", crowd.ranks, crowd.cpus, crowd.wanted)
        };
        let text = |reason: &Reason| match reason {
            Reason::Ranks(crowd) => of("ranks", crowd),
            Reason::Threads(crowd) => of("threads", crowd),
            Reason::ThreadsOrOthers(crowd) => of("threads or others", crowd),
            other => format!("{other:?}"),
        };
        reasons_of(ranks).iter().map(text).collect()
    }

    #[test]
    fn a_rank_lacks_a_core_from_a_share_of_its_time_on() {
        assert!(is_lacking(&rank(0, 9.0, 0.5, "0")) && !is_lacking(&rank(0, 9.0, 0.49, "0")));
        let short = |wait_s| RankRow { wall_s: Seconds(0.02), ..rank(0, 0.01, wait_s, "0") };
        assert!(is_lacking(&short(0.01)) && !is_lacking(&short(0.009)));
        assert!(!is_lacking(&RankRow { cpu_wait_s: None, ..rank(0, 9.0, 0.0, "0") }));
        assert!(!is_lacking(&RankRow { wall_s: Seconds(0.0), ..rank(0, 9.0, 5.0, "0") }));
        assert!(shown(&[rank(0, 10.0, 0.0, "0"), rank(1, 0.0, 0.1, "0")]).is_empty());
    }

    #[test]
    fn shares_of_several_threads_are_of_the_time_that_they_ran_or_were_ready() {
        // Of one thread the rest is sleep.
        let one = rank(0, 6.0, 3.0, "0");
        assert_eq!((share(&one), share_on_core(&one)), (Some(0.3), Some(0.6)));
        let several = rank(0, 10.0, 30.0, "0");
        assert_eq!((share(&several), share_on_core(&several)), (Some(0.75), Some(0.25)));
        let unmeasured = RankRow { cpu_wait_s: None, ..rank(0, 40.0, 0.0, "0") };
        assert_eq!((share(&unmeasured), share_on_core(&unmeasured)), (None, Some(1.0)));
    }

    #[test]
    fn more_ranks_than_cores_are_told_on_the_whole_node() {
        let ranks: Vec<RankRow> = (0..4).map(|at| rank(at, 5.0, 5.0, "0-1")).collect();
        assert_eq!(shown(&ranks), ["ranks: ranks 0-3 on 0-1, 4.0 wanted"]);
        assert!(
            matches!(&reasons_of(&ranks)[..], [Reason::Ranks(crowd)] if crowd.is_whole && crowd.count == 4)
        );
    }

    #[test]
    fn ranks_bound_to_one_core_are_told_among_others() {
        let mut ranks: Vec<RankRow> = (0..2).map(|at| rank(at, 5.0, 5.0, "3")).collect();
        ranks.extend((2..4).map(|at| rank(at, 10.0, 0.0, "0-7")));
        assert_eq!(shown(&ranks), ["ranks: ranks 0-1 on 3, 2.0 wanted"]);
        ranks.extend((4..7).map(|at| rank(at, 6.0, 4.0, "4-5")));
        assert_eq!(
            shown(&ranks),
            ["ranks: ranks 0-1 on 3, 2.0 wanted", "ranks: ranks 4-6 on 4-5, 3.0 wanted"]
        );
    }

    #[test]
    fn threads_beyond_the_cores_are_reported() {
        assert_eq!(shown(&[rank(0, 10.0, 30.0, "0")]), ["threads: rank 0 on 0, 4.0 wanted"]);
        let two = [rank(0, 20.0, 20.0, "0-3"), rank(1, 20.0, 20.0, "0-3")];
        assert_eq!(shown(&two), ["threads: ranks 0-1 on 0-3, 8.0 wanted"]);
        // Those that sleep are in nobody's way.
        let beside_sleepers = [rank(0, 10.0, 10.0, "0"), rank(1, 0.1, 0.1, "0"), rank(2, 0.1, 0.1, "0")];
        assert_eq!(shown(&beside_sleepers), ["threads: rank 0 on 0, 2.0 wanted"]);
    }

    #[test]
    fn threads_are_not_blamed_alone_where_they_left_their_cores_to_others() {
        // One core, of which the rank ran 6 of 10 s: 1.1 threads are no reason to be without it for
        // 5 s.
        assert_eq!(shown(&[rank(0, 6.0, 5.0, "0")]), ["threads or others: rank 0 on 0, 1.1 wanted"]);
        // It ran nearly all of the time.
        assert_eq!(shown(&[rank(0, 9.5, 1.5, "0")]), ["threads: rank 0 on 0, 1.1 wanted"]);
        // Several threads on more cores than they wanted on average may have wanted more at times.
        assert_eq!(shown(&[rank(0, 12.0, 3.0, "0-3")]), ["threads or others: rank 0 on 0-3, 1.5 wanted"]);
    }

    #[test]
    fn a_quota_counts_where_it_was_used_up() {
        let with = |quota: f64| [RankRow { cpu_quota: Some(quota), ..rank(0, 5.0, 5.0, "0-1") }];
        assert_eq!(reasons_of(&with(0.5)), [Reason::Quota { cores: 0.5 }]);
        assert_eq!(reasons_of(&with(1.5)), [Reason::Others]);
    }

    #[test]
    fn others_are_suspected_where_nothing_else_explains_it() {
        assert_eq!(reasons_of(&[rank(0, 5.0, 5.0, "0"), rank(1, 9.0, 1.0, "1")]), [Reason::Others]);
        assert_eq!(reasons_of(&[rank(0, 5.0, 5.0, "")]), [Reason::Unknown]);
    }

    #[test]
    fn shares_are_told_as_a_range() {
        let node = |host: &str, ranks: &str, shares| NodeLack {
            host: host.to_owned(),
            ranks: Some(ranks.parse().unwrap()),
            shares,
            longest: 0,
            wait_s: 1.0,
            reasons: vec![Reason::Others],
        };
        let lack = |nodes: Vec<NodeLack>| Lack { nodes, nodes_of_run: 8, wait_s: 1.0 }.sentence();
        let two = vec![node("n2", "4-5", [0.30, 0.524]), node("n1", "0-3", [0.476, 0.5])];
        assert_eq!(lack(two), "Ranks 0-5 waited for a CPU core 30 to 52 % of the time");
        let one = vec![node("n1", "3", [0.5, 0.5])];
        assert_eq!(lack(one), "Rank 3 waited for a CPU core 50 % of the time");
        let mut sums = node("n1", "3", [0.12, 0.5]);
        (sums.ranks, sums.longest) = (None, 17);
        assert_eq!(
            lack(vec![sums]),
            "On n1, ranks waited for a CPU core 12 % of the time on average, rank 17 50 %"
        );
    }

    #[test]
    fn others_ran_what_ranks_without_a_core_did_not_run_themselves() {
        // Without a core for 9 of 10 s, four ranks had 2 cores taken for 9 s at least, and ran 4 s
        // of these 18 themselves.
        let crowded: Vec<RankRow> = (0..4).map(|number| rank(number, 1.0, 9.0, "0-1")).collect();
        let others_of = |ranks: &[RankRow]| match &reasons_of(ranks)[..] {
            [Reason::Ranks(crowd)] => crowd.others,
            other => panic!("{other:?}"),
        };
        assert_eq!(others_of(&crowded), Some(Others { least_s: 14.0, ranks_s: 4.0, all_s: 20.0 }));
        // Alone on the cores they are without one for half of the time.
        let alone: Vec<RankRow> = (0..4).map(|number| rank(number, 5.0, 5.0, "0-1")).collect();
        assert_eq!(others_of(&alone), None);
        // Of several threads in a rank more may be ready at once than there are ranks.
        let threaded: Vec<RankRow> = (0..4).map(|number| rank(number, 2.0, 18.0, "0-1")).collect();
        assert_eq!(others_of(&threaded), None);
    }
}
