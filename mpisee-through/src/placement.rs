//! Which GPU each rank used, and whether the rank's cores and the GPU are on one NUMA node.

use crate::load;
use crate::processes::{ProcessRows, Processes};
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, NicRow, RankRow};
use mpisee_profile::{Profile, ProfileError};
use std::collections::HashMap;

/// Connections by PCIe, the shortest first.
const BY_DISTANCE: [&str; 5] = ["PIX", "PXB", "PHB", "NODE", "SYS"];

/// A GPU that a rank used.
#[derive(Debug)]
pub struct Placed<'p> {
    /// The rank; `None` in a profile with sums over ranks.
    pub rank: Option<&'p RankRow>,
    /// The GPU; its ranks are all that used it.
    pub device: DeviceRow,
    /// The nearest network adapter that may be up, of InfiniBand's class if there is one, and how
    /// it is connected.
    pub nic: Option<(String, String)>,
}

impl Placed<'_> {
    /// The NUMA node of the rank's cores, if they all are of one.
    pub fn numa_node(&self) -> Option<u32> {
        self.rank?.numa_nodes.parse().ok()
    }

    /// Returns whether the rank's cores are on the NUMA node of its GPU; `None` where either is
    /// unknown, or cores are of several.
    pub fn is_near(&self) -> Option<bool> {
        Some(self.numa_node()? == self.device.numa_node?)
    }
}

/// The GPUs that ranks used, in the order of the ranks; of sums over ranks those that any used.
pub fn placed<'p>(profile: &Profile, processes: &'p Processes) -> Result<Vec<Placed<'p>>, ProfileError> {
    let devices: Vec<DeviceRow> = load::if_any(profile)?;
    if devices.is_empty() && processes.ranks().iter().all(|rank| rank.gpu.is_empty()) {
        return Ok(Vec::new());
    }
    let links: Vec<DeviceLinkRow> = load::if_any(profile)?;
    let nics: Vec<NicRow> = load::if_any(profile)?;
    let near = nearest(&links, &nics);
    let nic = |device: &DeviceRow| near.get(&(device.host.as_str(), device.uuid.as_str())).cloned();
    let placed = |rank, device: DeviceRow| Placed { rank, nic: nic(&device), device };
    let by_name: HashMap<(&str, &str), &DeviceRow> =
        devices.iter().map(|row| ((row.host.as_str(), row.uuid.as_str()), row)).collect();
    Ok(match &processes.rows {
        ProcessRows::Ranks(ranks) => {
            let of_rank = |rank: &'p RankRow| {
                let device = |uuid: &str| match by_name.get(&(rank.host.as_str(), uuid)) {
                    Some(device) => (*device).clone(),
                    // Of profiles of earlier formats.
                    None => {
                        DeviceRow { host: rank.host.clone(), uuid: uuid.to_owned(), ..DeviceRow::default() }
                    }
                };
                rank.gpus().map(|uuid| placed(Some(rank), device(uuid))).collect::<Vec<_>>()
            };
            ranks.iter().flat_map(of_rank).collect()
        }
        ProcessRows::Nodes(_) => {
            devices.iter().filter(|row| !row.ranks.is_empty()).map(|row| placed(None, row.clone())).collect()
        }
    })
}

/// The nearest adapter of each GPU, with the connection, by host and UUID.
fn nearest<'r>(links: &'r [DeviceLinkRow], nics: &[NicRow]) -> HashMap<(&'r str, &'r str), (String, String)> {
    let by_name: HashMap<(&str, &str), &NicRow> =
        nics.iter().map(|nic| ((nic.host.as_str(), nic.nic.as_str()), nic)).collect();
    let mut found: HashMap<(&str, &str), (u8, usize, &DeviceLinkRow)> = HashMap::new();
    for link in links {
        let Some(nic) = by_name.get(&(link.host.as_str(), link.peer.as_str())) else { continue };
        let distance = BY_DISTANCE.iter().position(|path| *path == link.path);
        let (Some(distance), true) = (distance, nic.is_up != Some(0)) else { continue };
        let rank = (u8::from(nic.class != "infiniband"), distance);
        let known = found.entry((&link.host, &link.device)).or_insert((rank.0, rank.1, link));
        if rank < (known.0, known.1) {
            *known = (rank.0, rank.1, link);
        }
    }
    found.into_iter().map(|(key, (_, _, link))| (key, (link.peer.clone(), link.path.clone()))).collect()
}
