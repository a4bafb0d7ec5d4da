//! GPUs and network adapters of the nodes: from what each rank saw to a row for each, and for each
//! pair.

use crate::form::Form;
use crate::process::pci::connection;
use crate::rank_tables::RankTables;
use mpisee_profile::ProfileError;
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow, NicRow, Ranks};
use mpisee_profile::segment::device_fact::DeviceFact;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// GPUs, and adapters, of a node that are kept at most.
const MOST_OF_NODE: usize = 128;

/// The GPUs and adapters of some ranks' nodes, by host, and name or UUID.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Devices {
    devices: BTreeMap<(String, String), DeviceRow>,
    nics: BTreeMap<(String, String), NicRow>,
    /// Of pairs of GPUs that a rank saw together, that with the smaller UUID first.
    links: BTreeMap<(String, String, String), DeviceLinkRow>,
}

/// The rows of all nodes.
#[derive(Debug, Default)]
pub struct DeviceTables {
    /// `gpus.csv`.
    pub devices: Vec<DeviceRow>,
    /// `gpu-links.csv`.
    pub links: Vec<DeviceLinkRow>,
    /// `nics.csv`.
    pub nics: Vec<NicRow>,
}

impl Devices {
    /// The devices of one rank.
    pub fn from_tables<F: Form>(tables: &RankTables<F>) -> Devices {
        let mut own = Devices::default();
        let host = &tables.rank.host;
        for fact in &tables.devices {
            match fact.clone() {
                DeviceFact::Device(row) => {
                    let uses = tables.rank.gpus().any(|gpu| gpu == row.uuid);
                    let ranks = if uses { Ranks::one(tables.rank.rank) } else { Ranks::default() };
                    let row = DeviceRow { host: host.clone(), ranks, ..*row };
                    own.devices.insert((host.clone(), row.uuid.clone()), row);
                }
                DeviceFact::Nic(row) => {
                    own.nics.insert((host.clone(), row.nic.clone()), NicRow { host: host.clone(), ..row });
                }
                DeviceFact::Link(mut row) => {
                    if row.peer < row.device {
                        std::mem::swap(&mut row.device, &mut row.peer);
                    }
                    let key = (host.clone(), row.device.clone(), row.peer.clone());
                    own.links.insert(key, DeviceLinkRow { host: host.clone(), ..row });
                }
                DeviceFact::Used(_) | DeviceFact::NumaNode(..) | DeviceFact::NcclRank { .. } => {}
            }
        }
        own
    }

    /// Adds what other ranks saw.
    pub fn merge(&mut self, other: Devices) {
        for (key, row) in other.devices {
            match self.devices.get_mut(&key) {
                Some(known) => join(known, row),
                None => drop(self.devices.insert(key, row)),
            }
        }
        for (key, row) in other.nics {
            self.nics.entry(key).or_insert(row);
        }
        for (key, row) in other.links {
            let known = self.links.entry(key).or_insert_with(|| row.clone());
            known.nvlinks = known.nvlinks.max(row.nvlinks);
        }
    }

    /// As bytes for a message; none if there are no devices.
    pub fn to_bytes(&self) -> Vec<u8> {
        match *self == Devices::default() {
            true => Vec::new(),
            // Everything in it has a form in bytes.
            false => postcard::to_allocvec(self).unwrap_or_default(),
        }
    }

    /// Reads such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Devices, ProfileError> {
        if bytes.is_empty() {
            return Ok(Devices::default());
        }
        postcard::from_bytes(bytes).map_err(|error| ProfileError::Segment {
            why: format!("a rank's GPUs did not arrive whole: {error}"),
        })
    }

    /// The rows, once all ranks are merged.
    pub fn tables(&self) -> DeviceTables {
        let mut links = Vec::new();
        let mut hosts: BTreeMap<&str, (Vec<&DeviceRow>, Vec<&NicRow>)> = BTreeMap::new();
        for row in self.devices.values() {
            hosts.entry(&row.host).or_default().0.push(row);
        }
        for row in self.nics.values() {
            hosts.entry(&row.host).or_default().1.push(row);
        }
        for (devices, nics) in hosts.values_mut() {
            devices.truncate(MOST_OF_NODE);
            nics.truncate(MOST_OF_NODE);
            for (number, device) in devices.iter().enumerate() {
                links.extend(devices[number + 1..].iter().map(|peer| self.between(device, peer)));
                links.extend(nics.iter().map(|nic| to_nic(device, nic)));
            }
        }
        DeviceTables {
            devices: self.devices.values().cloned().collect(),
            links,
            nics: self.nics.values().cloned().collect(),
        }
    }

    /// The link of two GPUs, in the order of their UUIDs.
    fn between(&self, device: &DeviceRow, peer: &DeviceRow) -> DeviceLinkRow {
        let key = (device.host.clone(), device.uuid.clone(), peer.uuid.clone());
        let seen = self.links.get(&key).cloned();
        DeviceLinkRow {
            host: device.host.clone(),
            device: device.uuid.clone(),
            peer: peer.uuid.clone(),
            path: connection([&device.pci_path, &peer.pci_path], [device.numa_node, peer.numa_node])
                .to_owned(),
            ..seen.unwrap_or_default()
        }
    }
}

/// Joins what two ranks saw of one GPU; one of them may not see `/sys`.
fn join(known: &mut DeviceRow, other: DeviceRow) {
    known.ranks.join(other.ranks.clone());
    known.nvlinks = known.nvlinks.max(other.nvlinks);
    if known.pci_path.is_empty() {
        *known = DeviceRow { ranks: std::mem::take(&mut known.ranks), nvlinks: known.nvlinks, ..other };
    }
}

fn to_nic(device: &DeviceRow, nic: &NicRow) -> DeviceLinkRow {
    let path = connection([&device.pci_path, &nic.pci_path], [device.numa_node, nic.numa_node]);
    DeviceLinkRow {
        host: device.host.clone(),
        device: device.uuid.clone(),
        peer: nic.nic.clone(),
        path: path.to_owned(),
        ..DeviceLinkRow::default()
    }
}
