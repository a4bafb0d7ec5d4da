//! Aggregation over ranks: in a very large run, rank 0 gets sums instead of the rows of each rank.

use super::channel::Channel;
use super::tree::{Ranks, Tree};
use crate::state::gpu;
use crate::state::world::World;
use mpisee_collect::gpu::Part;
use mpisee_collect::{Aggregate, RankTables};
use mpisee_profile::RankSet;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::snapshot::End;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Sums over some ranks, and the ranks that are missing from them.
#[derive(Default)]
struct Sums {
    aggregate: Aggregate,
    lost: Vec<Ranks>,
}

/// The sums over this rank, with its GPU accesses, and over all ranks below it in the tree; and the ranks that are
/// lost. On rank 0 these are the sums over all ranks.
///
/// Each rank adds its children's sums to its own and sends one message, so that no rank holds more than two sets of
/// sums.
pub fn gather(
    world: &World,
    channel: &Channel,
    tree: &Tree,
    end: Option<End>,
    kernels: &[Part],
    absent: &RankSet,
) -> (Aggregate, Vec<Ranks>) {
    let own = match end.and_then(|end| own_sums(world, end, kernels, absent)) {
        Some(aggregate) => Sums { aggregate, lost: Vec::new() },
        None => Sums {
            aggregate: Aggregate::default(),
            lost: std::iter::once(channel.rank..channel.rank + 1).collect(),
        },
    };
    let all = tree.gather(own, add, encode);
    (all.aggregate, all.lost)
}

/// `None` if the counters cannot be read, which was said when rows were made of them.
fn own_sums(world: &World, end: End, kernels: &[Part], absent: &RankSet) -> Option<Aggregate> {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let snapshot = Snapshot::read(&world.segment).ok()?;
        let mut kernels = kernels.to_vec();
        gpu::tell_owners(world, &mut kernels);
        let tables = RankTables::without(absent, &snapshot, end.moment).with_kernels(kernels);
        Some(Aggregate::of(&snapshot, &tables, absent))
    }));
    made.ok().flatten()
}

fn add(sums: &mut Sums, sent: Result<Vec<u8>, Ranks>) {
    match sent.map(|bytes| decode(&bytes)) {
        Ok(Some(other)) => {
            sums.aggregate.merge(other.aggregate);
            sums.lost.extend(other.lost);
        }
        // It is unknown which ranks these were; that some are missing shows in the number of ranks in the sums.
        Ok(None) => {}
        Err(ranks) => sums.lost.push(ranks),
    }
}

/// The number of lost ranges, these, and the sums.
fn encode(sums: &Sums) -> Vec<u8> {
    let words = sums.lost.iter().flat_map(|ranks| [ranks.start, ranks.end]);
    let head = std::iter::once(sums.lost.len() as u32).chain(words);
    let mut bytes: Vec<u8> = head.flat_map(u32::to_le_bytes).collect();
    bytes.extend(sums.aggregate.encode());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Sums> {
    let (count, mut rest) = bytes.split_first_chunk::<4>()?;
    let mut lost = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (start, more) = rest.split_first_chunk::<4>()?;
        let (end, more) = more.split_first_chunk::<4>()?;
        lost.push(u32::from_le_bytes(*start)..u32::from_le_bytes(*end));
        rest = more;
    }
    Some(Sums { aggregate: Aggregate::decode(rest).ok()?, lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_lost_is_told() {
        let sums = Sums { aggregate: Aggregate::default(), lost: vec![4..8, 9..10] };
        let bytes = encode(&sums);
        assert_eq!(decode(&bytes).unwrap().lost, sums.lost);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_none(), "{length}");
        }
    }
}
