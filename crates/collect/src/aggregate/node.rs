//! Sums over the ranks of a node.

use super::sums::{Join, Spread};
use super::tables::{seconds, seconds_of};
use mpisee_profile::rows::{Cpus, NodeRow, RankRow, Ranks, Seconds};
use serde::{Deserialize, Serialize};

/// A host's ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub ranks: Ranks,
    wall: Spread,
    mpi: Spread,
    /// Outside of MPI, of one thread on average.
    useful: Spread,
    /// The same, over all threads that call MPI.
    outside_ns: u128,
    /// The threads that call MPI; `None` if that of no rank is known.
    threads: Option<u64>,
    /// The time that they lived; `None` if that of no rank is known.
    thread_ns: Option<u64>,
    profiler_ns: u128,
    cores: Cores,
}

/// CPU use of a host's ranks, and the cores that they may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cores {
    /// Time on a core; `None` if no rank has one.
    cpu_ns: Option<u128>,
    /// Time of a rank in which it was ready to run and had no core.
    wait: Option<Spread>,
    allowed: Cpus,
    online: Option<u32>,
    /// The least quota, in thousandths of a core.
    quota: Option<u64>,
}

impl Join for Cores {
    fn join(&mut self, other: Self) {
        self.cpu_ns = match (self.cpu_ns, other.cpu_ns) {
            (Some(own_ns), Some(others_ns)) => Some(own_ns.saturating_add(others_ns)),
            (own_ns, others_ns) => own_ns.or(others_ns),
        };
        self.wait.join(other.wait);
        self.allowed = self.allowed.union(&other.allowed);
        self.online = self.online.max(other.online);
        self.quota = self.quota.into_iter().chain(other.quota).min();
    }
}

impl Join for Node {
    fn join(&mut self, other: Self) {
        self.ranks.join(other.ranks);
        self.wall.join(other.wall);
        self.mpi.join(other.mpi);
        self.useful.join(other.useful);
        self.outside_ns = self.outside_ns.saturating_add(other.outside_ns);
        self.threads = add_known(self.threads, other.threads);
        self.thread_ns = add_known(self.thread_ns, other.thread_ns);
        self.profiler_ns = self.profiler_ns.saturating_add(other.profiler_ns);
        self.cores.join(other.cores);
    }
}

impl Cores {
    fn from_row(row: &RankRow) -> Self {
        Cores {
            cpu_ns: row.cpu_s().map(|cpu_s| Seconds(cpu_s).to_ns().into()),
            wait: row.cpu_wait_s.map(|wait_s| Spread::from_value(row.rank, wait_s.to_ns())),
            allowed: row.cpus_allowed.clone(),
            online: row.node_cpus,
            quota: row.cpu_quota.map(|cores| (cores * 1e3).round() as u64),
        }
    }
}

impl Node {
    /// Of one rank.
    pub fn from_row(row: &RankRow) -> Self {
        let of_rank = |time_s: Seconds| Spread::from_value(row.rank, time_s.to_ns());
        let useful_s = outside_of_mpi(row.wall_s, row.mpi_s, row.threads());
        Node {
            ranks: Ranks::one(row.rank),
            wall: of_rank(row.wall_s),
            mpi: of_rank(row.mpi_s),
            useful: of_rank(useful_s),
            outside_ns: Seconds(useful_s.0 * row.threads()).to_ns().into(),
            threads: row.mpi_threads.map(u64::from),
            thread_ns: row.mpi_thread_s.map(Seconds::to_ns),
            profiler_ns: row.profiler_s.to_ns().into(),
            cores: Cores::from_row(row),
        }
    }

    /// The row of `nodes.csv`.
    pub fn row(&self, host: &str) -> NodeRow {
        let [wall_s, wall_min_s, wall_max_s] = seconds_of(&self.wall);
        let [mpi_s, mpi_min_s, mpi_max_s] = seconds_of(&self.mpi);
        let [_, _, useful_max_s] = seconds_of(&self.useful);
        NodeRow {
            host: host.to_owned(),
            members: self.ranks.clone(),
            ranks: self.ranks.len(),
            wall_s,
            wall_min_s,
            wall_max_s,
            wall_max_rank: self.wall.max_rank,
            mpi_s,
            mpi_min_s,
            mpi_min_rank: self.mpi.min_rank,
            mpi_max_s,
            mpi_max_rank: self.mpi.max_rank,
            useful_s: seconds(self.outside_ns),
            useful_max_s,
            profiler_s: seconds(self.profiler_ns),
            cpu_s: self.cores.cpu_ns.map(seconds),
            cpu_wait_s: self.cores.wait.map(|wait| seconds(wait.sum)),
            cpu_wait_max_s: self.cores.wait.map(|wait| seconds(wait.max.into())),
            cpu_wait_max_rank: self.cores.wait.map(|wait| wait.max_rank),
            cpus_allowed: self.cores.allowed.clone(),
            node_cpus: self.cores.online,
            cpu_quota: self.cores.quota.map(|thousandths| thousandths as f64 * 1e-3),
            mpi_threads: self.threads,
            mpi_thread_s: self.thread_ns.map(|time_ns| seconds(time_ns.into())),
        }
    }
}

/// The sum of what is known of two counts.
pub fn add_known(own: Option<u64>, others: Option<u64>) -> Option<u64> {
    match (own, others) {
        (Some(own), Some(others)) => Some(own.saturating_add(others)),
        (own, others) => own.or(others),
    }
}

/// The time outside of MPI of one of the threads that call it, on average.
pub fn outside_of_mpi(wall_s: Seconds, mpi_s: Seconds, threads: f64) -> Seconds {
    Seconds((wall_s.0 - mpi_s.0 / threads).max(0.0))
}

/// The rows that `nodes.csv` would have, of the rows of ranks; by host.
pub fn node_rows<'r>(ranks: impl IntoIterator<Item = &'r RankRow>) -> Vec<NodeRow> {
    let mut nodes: Vec<(String, Node)> = Vec::new();
    for row in ranks {
        match nodes.binary_search_by(|(host, _)| host.as_str().cmp(&row.host)) {
            Ok(at) => nodes[at].1.join(Node::from_row(row)),
            Err(at) => nodes.insert(at, (row.host.clone(), Node::from_row(row))),
        }
    }
    nodes.iter().map(|(host, node)| node.row(host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32, host: &str, wait_s: Option<f64>, cpus: &str) -> RankRow {
        RankRow {
            rank,
            host: host.to_owned(),
            wall_s: Seconds(10.0),
            cpu_user_s: wait_s.map(|wait_s| Seconds(9.0 - wait_s)),
            cpu_system_s: wait_s.map(|_| Seconds(1.0)),
            cpu_wait_s: wait_s.map(Seconds),
            cpus_allowed: cpus.parse().unwrap(),
            node_cpus: Some(4),
            cpu_quota: (rank == 2).then_some(1.5),
            ..RankRow::default()
        }
    }

    #[test]
    fn a_node_has_the_sums_and_the_greatest_wait_of_its_ranks() {
        let ranks = [
            rank(0, "n2", Some(2.0), "0-1"),
            rank(1, "n1", None, ""),
            rank(2, "n2", Some(5.0), "1"),
            rank(3, "n2", Some(5.0), "3"),
        ];
        let rows = node_rows(&ranks);
        assert_eq!(rows.iter().map(|row| row.host.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
        assert_eq!((rows[0].cpu_s, rows[0].cpu_wait_s, rows[0].cpu_wait_max_rank), (None, None, None));
        let row = &rows[1];
        assert_eq!((row.ranks, row.cpu_s, row.cpu_wait_s), (3, Some(Seconds(18.0)), Some(Seconds(12.0))));
        assert_eq!((row.cpu_wait_max_s, row.cpu_wait_max_rank), (Some(Seconds(5.0)), Some(2)));
        assert_eq!((row.cpus_allowed.to_string().as_str(), row.node_cpus), ("0-1,3", Some(4)));
        assert_eq!(row.cpu_quota, Some(1.5));
    }
}
