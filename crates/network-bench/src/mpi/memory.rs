//! Checks that a pattern's buffers fit into the memory of each node.

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::memory;
use mpisee_bench::output::size;
use mpisee_bench::pattern::Pattern;
use std::path::Path;

/// Fails if the ranks of this node need more memory than the system has left, together with all
/// ranks.
pub fn check(world: &SimpleCommunicator, pattern: &Pattern) -> Result<(), String> {
    let rank = world.rank() as u32;
    let (given, got) = pattern.collective_buffers(rank);
    let own = [pattern.arena(rank), given, got].into_iter().fold(0, u64::saturating_add);
    // Of floating point, which does not wrap around.
    let (own, mut sum) = (own as f64, 0.0);
    world.split_shared(rank as i32).all_reduce_into(&own, &mut sum, SystemOperation::sum());
    let in_group = std::fs::read_to_string("/proc/self/cgroup").ok();
    let in_group = in_group.and_then(|text| memory::left_in_cgroup(&text, Path::new("/sys/fs/cgroup")));
    match available().into_iter().chain(in_group).min() {
        Some(available) if sum > available as f64 => Err(format!(
            "the buffers of the ranks on this node take {}, and {} of memory are available; take smaller --sizes, or \
             fewer ranks per node",
            size(sum as u64),
            size(available)
        )),
        _ => Ok(()),
    }
}

/// Bytes of memory that programs can still have.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
