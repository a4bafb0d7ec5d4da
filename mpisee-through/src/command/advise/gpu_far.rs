//! The rule about ranks whose cores and GPU are on different NUMA nodes.

use super::facts::Facts;
use super::finding::Finding;
use crate::placement::{self, Placed};
use crate::units::count;
use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::{CallRow, Memory};
use mpisee_profile::{RankSet, WorldRank};
use std::collections::BTreeSet;

/// Ranks that the evidence describes.
const NAMED: usize = 3;

/// The finding, where cores and GPU of some rank are known to be on different NUMA nodes.
pub fn rule(facts: &Facts<'_>) -> Vec<Finding> {
    finding(facts).into_iter().collect()
}

fn finding(facts: &Facts<'_>) -> Option<Finding> {
    let placed = placement::placed(facts.view.profile(), facts.processes).ok()?;
    let chosen = |placed: &&Placed<'_>| placed.rank.is_some_and(|row| facts.takes_rank(row.rank));
    let placed: Vec<&Placed<'_>> = placed.iter().filter(chosen).collect();
    let far: Vec<&Placed<'_>> = placed.iter().copied().filter(|it| it.is_near() == Some(false)).collect();
    let ranks: BTreeSet<u32> = far.iter().filter_map(|it| Some(it.rank?.rank)).collect();
    let hosts: BTreeSet<&str> = far.iter().map(|it| it.device.host.as_str()).collect();
    if ranks.is_empty() {
        return None;
    }
    let named: RankSet = ranks.iter().copied().map(WorldRank::new).collect();
    let has = if named.len() == 1 { "has" } else { "have" };
    let unknown = placed.iter().filter(|it| it.is_near().is_none()).count();
    let mut evidence: Vec<String> = far.iter().take(NAMED).filter_map(|it| on_rank(it)).collect();
    let more = far.len().saturating_sub(NAMED);
    evidence.extend((more > 0).then(|| {
        let are = if more == 1 { "is" } else { "are" };
        format!("{} {are} on another NUMA node than the cores of the rank.", count(more as u64, "more GPU"))
    }));
    evidence.extend((unknown > 0).then(|| {
        format!(
            "The placement of {} with a GPU is unknown: {} cores are on several NUMA nodes, or the kernel \
             does not report the node of the GPU.",
            count(unknown as u64, "more rank"),
            if unknown == 1 { "its" } else { "their" },
        )
    }));
    Some(Finding {
        rule: "gpu-far",
        about: if hosts.len() == 1 { hosts.first()?.to_string() } else { format!("{} nodes", hosts.len()) },
        cost_s: time_with_gpu_buffers_s(facts, &ranks),
        what: format!("{} {has} cores on another NUMA node than the GPU.", capitalised(&named.named())),
        evidence: evidence.join(" "),
        threshold:
            "cores within one NUMA node, and a GPU on another. The cost is not measured: Time is that of the \
             MPI calls of these ranks with buffers in a GPU's reach"
                .to_owned(),
        advice: "Bind each rank to cores near its GPU (cpus_near of gpus.csv; Slurm: --gpu-bind=closest; \
                 Open MPI: a rankfile). Or give each rank a GPU near its cores (CUDA_VISIBLE_DEVICES). \
                 mpisee-through ranks --by gpu lists all ranks."
            .to_owned(),
    })
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn on_rank(placed: &Placed<'_>) -> Option<String> {
    let (rank, device) = (placed.rank?, &placed.device);
    let nic = match &placed.nic {
        Some((nic, path)) => format!(". The network adapter nearest to this GPU is {nic} ({path})"),
        None => String::new(),
    };
    Some(format!(
        "Rank {} has CPUs {} of NUMA node {}; its GPU {} is at node {}, near CPUs {}{nic}.",
        rank.rank,
        rank.cpus_allowed,
        rank.numa_nodes,
        device.pci_address,
        device.numa_node?,
        device.cpus_near
    ))
}

/// The time of the ranks in calls of MPI whose buffers are not ordinary memory of the host; that of
/// calls of NCCL is not MPI's.
fn time_with_gpu_buffers_s(facts: &Facts<'_>, ranks: &BTreeSet<u32>) -> f64 {
    let Ok(rows) = facts.view.profile().rows::<CallRow>() else { return 0.0 };
    let counts =
        |row: &CallRow| row.memory != Memory::Host && ranks.contains(&row.rank) && !is_nccl(&row.call);
    rows.flatten().filter(counts).map(|row| row.time_s.0).sum()
}
