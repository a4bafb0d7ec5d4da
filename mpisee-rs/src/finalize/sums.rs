//! Aggregation over ranks: in a very large run, rank 0 gets sums instead of the rows of each rank.

use super::channel::Channel;
use super::tree::Tree;
use crate::state::gpu::tracer;
use crate::state::world::World;
use mpisee_collect::gpu::GpuPart;
use mpisee_collect::wire::{Ranks, Sums};
use mpisee_collect::{Aggregate, RankTables};
use mpisee_profile::RankSet;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::snapshot::RunEnd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The sums over this rank, with its GPU accesses, and over all ranks below it in the tree; and the
/// ranks that are lost. On rank 0 these are the sums over all ranks.
///
/// Each rank adds its children's sums to its own and sends one message, so that no rank holds more
/// than two sets of sums.
pub fn gather(
    world: &World,
    channel: &Channel,
    tree: &Tree,
    end: Option<RunEnd>,
    kernels: &[GpuPart],
    absent: &RankSet,
) -> (Aggregate, Vec<Ranks>) {
    let own = match end.and_then(|end| own_sums(world, end, kernels, absent)) {
        Some(aggregate) => Sums { aggregate, lost: Vec::new() },
        None => Sums { aggregate: Aggregate::default(), lost: vec![channel.itself()] },
    };
    let all = tree.gather(own, Sums::add);
    (all.aggregate, all.lost)
}

/// `None` if the counters cannot be read, which was said when rows were made of them.
fn own_sums(world: &World, end: RunEnd, kernels: &[GpuPart], absent: &RankSet) -> Option<Aggregate> {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let snapshot = Snapshot::read(&world.segment).ok()?;
        let mut kernels = kernels.to_vec();
        tracer::tell_owners(world, &mut kernels);
        let tables = RankTables::of_arrived(absent, &snapshot, end.moment).with_kernels(kernels);
        Some(Aggregate::from_snapshot(&snapshot, &tables, absent))
    }));
    made.ok().flatten()
}
