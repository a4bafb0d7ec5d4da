//! Regions over ranks.

use super::node::{add_known, outside_of_mpi};
use super::{Join, RankTables, Spread};
use mpisee_profile::rows::Seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A named region; `None` if no rank entered it, and it is known only from calls, as the region
/// without a name.
pub type Region = Option<Entered>;

/// A region over the ranks that entered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entered {
    pub ranks: u64,
    pub entries: u64,
    pub wall: Spread,
    pub mpi_ns: u128,
    /// Outside of MPI, of one thread on average.
    pub useful: Spread,
    /// The same, over all threads that call MPI there.
    pub outside_ns: u128,
    /// These threads; `None` if that of no rank is known.
    pub threads: Option<u64>,
    /// The time that they lived meanwhile; `None` if that of no rank is known.
    pub thread_ns: Option<u64>,
}

impl Join for Entered {
    fn join(&mut self, other: Self) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.entries = self.entries.saturating_add(other.entries);
        self.wall.join(other.wall);
        self.mpi_ns = self.mpi_ns.saturating_add(other.mpi_ns);
        self.useful.join(other.useful);
        self.outside_ns = self.outside_ns.saturating_add(other.outside_ns);
        self.threads = add_known(self.threads, other.threads);
        self.thread_ns = add_known(self.thread_ns, other.thread_ns);
    }
}

/// The regions of a rank, by their paths.
pub fn own_regions(rank: u32, tables: &RankTables) -> Vec<(String, Region)> {
    let mut regions: BTreeMap<&str, Region> = BTreeMap::new();
    let mut last = None;
    for row in &tables.calls {
        if last != Some(&row.region) {
            regions.entry(&row.region).or_default();
            last = Some(&row.region);
        }
    }
    for row in &tables.regions {
        let threads = row.threads(&tables.rank);
        let useful_s = outside_of_mpi(row.wall_s, row.mpi_s, threads);
        let entered = Entered {
            ranks: 1,
            entries: row.entries,
            wall: Spread::from_value(rank, row.wall_s.to_ns()),
            mpi_ns: row.mpi_s.to_ns().into(),
            useful: Spread::from_value(rank, useful_s.to_ns()),
            outside_ns: Seconds(useful_s.0 * threads).to_ns().into(),
            threads: row.mpi_threads.map(|threads| threads.max(1).into()),
            thread_ns: row.mpi_thread_s.map(Seconds::to_ns),
        };
        regions.entry(&row.region).or_default().join(Some(entered));
    }
    regions.into_iter().map(|(path, region)| (path.to_owned(), region)).collect()
}
