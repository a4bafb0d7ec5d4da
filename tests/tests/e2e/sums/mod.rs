//! Expected contents of a profile aggregated over ranks, from one of the same run with rows of each
//! rank.

use mpisee_profile::comm_name::{derived, is_of_changing_members, is_one_per_process};
use mpisee_profile::rows::{
    BinaryRow, CommRow, GpuRow, GpuTotalRow, NodeRow, OffsetRow, OutsideRow, OutsideTotalRow, PeerDevice,
    RankRow, RegionRow, RegionTotalRow, Row, SiteRow, TotalRow,
};
use mpisee_profile::rows::{CallRow, PeerCounts, PeerRow};
use mpisee_profile::{Profile, SiteId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All rows of a table, of which there are none if it is not there.
pub fn all<R: Row>(profile: &Profile) -> Vec<R> {
    profile.rows_if_any::<R>().unwrap().map(Result::unwrap).collect()
}

/// The names of the rows in which communicators are, by their names.
struct Families(BTreeMap<String, String>);

impl Families {
    fn from_by_rank(by_rank: &[CommRow], aggregate: &[CommRow]) -> Self {
        let name = |row: &CommRow| {
            let family = derived(&row.comm, |name| name.family(row.size));
            if aggregate.iter().any(|row| row.comm == family) { family } else { row.comm.clone() }
        };
        Families(by_rank.iter().map(|row| (row.comm.clone(), name(row))).collect())
    }

    fn get(&self, comm: &str) -> String {
        self.0[comm].clone()
    }
}

/// Asserts that each sum is that over the rows. Times differ from run to run and are not compared.
#[track_caller]
pub fn assert_sums_of(by_rank: &Path, aggregate: &Path) {
    let (by_rank, aggregate) = (Profile::open(by_rank).unwrap(), Profile::open(aggregate).unwrap());
    assert_eq!((by_rank.run().is_aggregate, aggregate.run().is_aggregate), (false, true));
    assert_eq!(by_rank.run().complete, aggregate.run().complete);
    assert_eq!(by_rank.run().incomplete_because, aggregate.run().incomplete_because);
    assert_eq!(by_rank.run().ranks, aggregate.run().ranks);
    let (comms, rows): (Vec<CommRow>, Vec<CommRow>) = (all(&by_rank), all(&aggregate));
    let families = Families::from_by_rank(&comms, &rows);
    assert_comms(&comms, &rows, &families);
    assert_calls(&by_rank, &aggregate, &families);
    assert_traffic(&by_rank, &aggregate, &families);
    assert_gpu(&by_rank, &aggregate);
    let mut regions = BTreeMap::<String, (u64, u64)>::new();
    for row in all::<RegionRow>(&by_rank) {
        let sum = regions.entry(row.region).or_default();
        *sum = (sum.0 + 1, sum.1 + row.entries);
    }
    let found = all::<RegionTotalRow>(&aggregate).into_iter();
    assert_eq!(found.map(|row| (row.region, (row.ranks, row.entries))).collect::<BTreeMap<_, _>>(), regions);
    let ranks: BTreeSet<u32> = all::<RankRow>(&by_rank).iter().map(|row| row.rank).collect();
    let of_nodes = all::<NodeRow>(&aggregate).iter().map(|row| row.ranks).sum::<u64>();
    assert_eq!(of_nodes, ranks.len() as u64);
}

/// Description of a communicator or a family: how many, of which size, who in each group, what it
/// is called, its topology, whether it was freed.
type Said = (u64, u32, [Vec<u32>; 2], String, String, u8);

#[track_caller]
fn assert_comms(by_rank: &[CommRow], aggregate: &[CommRow], families: &Families) {
    let mut expected: BTreeMap<String, (CommRow, u64)> = BTreeMap::new();
    for row in by_rank {
        let new = || (CommRow { comm: families.get(&row.comm), ..row.clone() }, 0);
        let (known, count) = expected.entry(families.get(&row.comm)).or_insert_with(new);
        *count += if is_one_per_process(&row.comm) { 1 } else { row.count };
        known.members.group.add(&row.members.group);
        known.freed = known.freed.min(row.freed);
        if known.label != row.label {
            known.label.clear();
        }
    }
    let said = |row: &CommRow, count: u64| -> Said {
        let size = if is_of_changing_members(&row.comm) { 0 } else { row.size };
        let remote = row.members.remote.iter().flat_map(|ranks| ranks.iter()).collect();
        let members = [row.members.group.iter().collect(), remote];
        (count, size, members, row.label.clone(), row.topology.clone(), row.freed)
    };
    let expected: BTreeMap<String, Said> =
        expected.into_iter().map(|(name, (row, count))| (name, said(&row, count))).collect();
    let found: BTreeMap<String, Said> =
        aggregate.iter().map(|row| (row.comm.clone(), said(row, row.count))).collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn assert_calls(by_rank: &Profile, aggregate: &Profile, families: &Families) {
    // By communicator or family, region, operation, size class and site: ranks, calls, bytes.
    type Sums = BTreeMap<(String, String, String, u64, Option<SiteId>), (u64, u64, u64)>;
    let mut expected = Sums::new();
    let mut ranks = BTreeSet::new();
    for row in all::<CallRow>(by_rank) {
        let key = (families.get(&row.comm), row.region, row.call, row.size_min, row.site);
        let sum = expected.entry(key.clone()).or_default();
        let is_new = ranks.insert((key, row.rank));
        *sum = (sum.0 + u64::from(is_new), sum.1 + row.calls, sum.2 + row.bytes);
    }
    let total = |row: TotalRow| {
        ((row.comm, row.region, row.call, row.size_min, row.site), (row.ranks, row.calls, row.bytes))
    };
    assert_eq!(all::<TotalRow>(aggregate).into_iter().map(total).collect::<Sums>(), expected);
    let known: BTreeSet<SiteId> = all::<SiteRow>(aggregate).iter().map(|row| row.site).collect();
    assert!(expected.keys().all(|key| key.4.is_none_or(|site| known.contains(&site))));
}

#[track_caller]
fn assert_traffic(by_rank: &Profile, aggregate: &Profile, families: &Families) {
    let mut expected: BTreeMap<(String, i64), PeerCounts> = BTreeMap::new();
    for row in all::<PeerRow>(by_rank) {
        let offset = i64::from(row.peer) - i64::from(row.rank);
        let known = expected.entry((families.get(&row.comm), offset)).or_default();
        known.add(row.counts());
    }
    let found = all::<OffsetRow>(aggregate).into_iter().map(|row| {
        assert_eq!(row.offset_min, row.offset_max);
        let sums = row.counts();
        ((row.comm, row.offset_min), sums)
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    let mut expected: BTreeMap<String, PeerCounts> = BTreeMap::new();
    for row in all::<OutsideRow>(by_rank) {
        let known = expected.entry(families.get(&row.comm)).or_default();
        known.add(row.counts());
    }
    let found = all::<OutsideTotalRow>(aggregate).into_iter().map(|row| {
        let sums = row.counts();
        (row.comm, sums)
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
}

/// By kernel, line, launching line, object, owner, device, kind of access and width: rows, accesses
/// and bytes of GPU kernels.
#[track_caller]
fn assert_gpu(by_rank: &Profile, aggregate: &Profile) {
    type Key = ([String; 4], Option<i64>, Option<PeerDevice>, String, u32);
    let mut expected: BTreeMap<Key, (u64, u64, u64, u64, u32)> = BTreeMap::new();
    for row in all::<GpuRow>(by_rank) {
        let peer_device = match row.peer_device.as_str() {
            "" => None,
            "host" => Some(PeerDevice::Host),
            "managed" => Some(PeerDevice::Managed),
            device if device == row.device => Some(PeerDevice::Same),
            _ => Some(PeerDevice::Another),
        };
        let offset = row.peer_rank.map(|peer| i64::from(peer) - i64::from(row.rank));
        let how = format!("{:?} {:?}", row.memory, row.access);
        let code = [row.kernel, row.source, row.launched, row.object];
        let key = (code, offset, peer_device, how, row.width);
        let sum = expected.entry(key).or_default();
        let is_most = row.bytes > sum.3 || row.bytes == sum.3 && row.rank < sum.4;
        let (most, rank) = if is_most { (row.bytes, row.rank) } else { (sum.3, sum.4) };
        *sum = (sum.0 + 1, sum.1 + row.accesses, sum.2 + row.bytes, most, rank);
    }
    let found = all::<GpuTotalRow>(aggregate).into_iter().map(|row| {
        assert_eq!(row.offset_min, row.offset_max);
        let how = format!("{:?} {:?}", row.memory, row.access);
        let code = [row.kernel, row.source, row.launched, row.object];
        let key = (code, row.offset_min, row.peer_device, how, row.width);
        (key, (row.count, row.accesses, row.bytes, row.bytes_max, row.bytes_max_rank))
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(all::<BinaryRow>(aggregate), all::<BinaryRow>(by_rank));
}
