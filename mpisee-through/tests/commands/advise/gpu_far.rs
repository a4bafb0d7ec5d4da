//! A node on which a rank is far from its GPU.

use crate::support::{Builder, Written};
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, NicRow};

/// Four ranks on one node with two NUMA nodes and three GPUs: rank 1 is far from its GPU, of rank 2
/// it is unknown, as its cores are on both, and rank 3 uses none.
pub fn run() -> Builder {
    let device = |uuid: &str, address: &str, node: u32, cpus: &str, ranks: &str| DeviceRow {
        host: "n1".to_owned(),
        uuid: uuid.to_owned(),
        model: "H100".to_owned(),
        pci_address: address.to_owned(),
        numa_node: Some(node),
        cpus_near: cpus.parse().unwrap(),
        memory_bytes: Some(80 << 30),
        mig: Some(0),
        ranks: ranks.parse().unwrap(),
        ..DeviceRow::default()
    };
    let nic = |name: &str, class: &str, is_up: u8| NicRow {
        host: "n1".to_owned(),
        nic: name.to_owned(),
        class: class.to_owned(),
        is_up: Some(is_up),
        ..NicRow::default()
    };
    let link = |device: &str, peer: &str, path: &str| DeviceLinkRow {
        host: "n1".to_owned(),
        device: device.to_owned(),
        peer: peer.to_owned(),
        path: path.to_owned(),
        ..DeviceLinkRow::default()
    };
    Builder::new(4).with(|profile| {
        profile.devices = vec![
            device("GPU-a", "0000:17:00.0", 0, "0-7", "0"),
            device("GPU-b", "0000:97:00.0", 1, "8-15", "1-2"),
        ];
        profile.nics =
            vec![nic("mlx5_0", "infiniband", 1), nic("mlx5_1", "infiniband", 0), nic("eth0", "net", 1)];
        profile.links = vec![
            link("GPU-a", "GPU-b", "SYS"),
            link("GPU-a", "mlx5_0", "SYS"),
            link("GPU-a", "mlx5_1", "PIX"),
            link("GPU-a", "eth0", "PHB"),
            link("GPU-b", "mlx5_0", "NODE"),
        ];
        let of_ranks =
            [("GPU-a", "0", "0-3"), ("GPU-b", "0", "4-7"), ("GPU-b", "0-1", "0-15"), ("", "1", "8")];
        for (row, (gpu, nodes, cpus)) in profile.ranks.iter_mut().zip(of_ranks) {
            row.host = "n1".to_owned();
            row.gpu = gpu.to_owned();
            row.numa_nodes = nodes.to_owned();
            row.cpus_allowed = cpus.parse().unwrap();
        }
    })
}

/// Two ranks of which one copies from a GPU for its sends.
pub fn staging(mode: &str, time_s: &str) -> Written {
    let profile = Builder::new(2).messages("W", 0, 1, 2, 2048).call("W", 0, "MPI_Send", 2, 2048, 0.1).write();
    let rows = format!(
        "comm,rank,direction,memory,mode,matches,bytes,time_s\nW,0,sent,pinned,{mode},2,2048,{time_s}\n"
    );
    std::fs::write(profile.directory.join("staged.csv"), rows).unwrap();
    profile
}

#[test]
fn copies_for_messages_that_take_long_are_a_finding() {
    let advised = |mode: &str, time_s: &str| {
        let ran = staging(mode, time_s).run(&["advise", "app.mpisee", "--format", "json"]);
        ran.exits(0).stdout.clone()
    };
    let text = advised("blocking", "1.0");
    assert!(
        text.contains("Copies between GPUs and the host for messages on W take 5.0 % of the run."),
        "{text}"
    );
    assert!(text.contains("saves 5.0 % of the run at most"), "{text}");
    assert!(!advised("blocking", "0.1").contains("Copies between"));
    assert!(!advised("stream", "1.0").contains("Copies between"), "its time is not known");
}
