//! The GPUs of a node and the links between them: `HOST.gpus.csv` and `HOST.gpu-links.csv`, written
//! once.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A GPU, or a part of one by MIG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeGpu {
    /// The node.
    pub host: String,
    /// `gpu0`, and `gpu0/mig1` of a part: the name in rates.
    pub device: String,
    /// As in `ranks.csv`.
    pub uuid: String,
    /// The name of the product.
    pub model: String,
    /// `0000:17:00.0`
    pub pci_address: String,
    /// The NUMA node of the host that is nearest, if the host has several.
    pub numa_node: Option<u32>,
    pub memory_bytes: Option<u64>,
    /// 1 if the GPU is divided by MIG, 0 if it is not; empty if it cannot be.
    pub mig: Option<u8>,
    /// Active NVLinks.
    pub nvlinks: Option<u32>,
    /// Rate that these links carry together in one direction at most.
    pub nvlink_bytes_per_s: Option<f64>,
    /// The same of the PCIe slot.
    pub pcie_bytes_per_s: Option<f64>,
}

/// A connection of a GPU to another one, or to NVLink switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuLinkRow {
    /// The node.
    pub host: String,
    pub device: String,
    /// `gpu1`, or `nvswitch`.
    pub peer: String,
    /// NVLinks to it.
    pub nvlinks: u32,
    /// The way by PCIe, as `nvidia-smi topo` calls it: `PIX` (one switch), `PXB` (several), `PHB`
    /// (a host bridge), `NODE` (a NUMA node), `SYS` (between NUMA nodes), and `board` of GPUs on
    /// one board; empty if it is unknown.
    pub path: String,
}

/// The path of the table of GPUs.
pub fn gpus_path(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.gpus.csv"))
}

/// The path of the table of links.
pub fn links_path(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.gpu-links.csv"))
}

/// Rows as CSV; of none the header is missing, too.
pub fn csv<R: Serialize>(rows: &[R]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    rows.iter().try_for_each(|row| writer.serialize(row))?;
    Ok(writer.into_inner()?)
}

/// The rows of a table; none where it is not there.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let cannot = || format!("cannot read '{}'", path.display());
    let rows: Result<Vec<R>, csv::Error> =
        csv::Reader::from_reader(super::open(path)?).deserialize().collect();
    rows.with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let place = tempfile::tempdir().unwrap();
        let path = gpus_path(place.path(), "n1");
        assert_eq!(read::<NodeGpu>(&path).unwrap(), []);
        let whole = NodeGpu {
            host: "n1".to_owned(),
            device: "gpu0".to_owned(),
            model: "One, \"two\"".to_owned(),
            numa_node: Some(1),
            memory_bytes: Some(85_899_345_920),
            mig: Some(0),
            ..NodeGpu::default()
        };
        let rows = [whole, NodeGpu { device: "gpu1".to_owned(), ..NodeGpu::default() }];
        std::fs::write(&path, csv(&rows).unwrap()).unwrap();
        assert_eq!(read::<NodeGpu>(&path).unwrap(), rows);
    }

    #[test]
    fn the_page_on_time_lines_names_every_column() {
        let page = include_str!("../../../docs/reference/time-lines.md");
        let (gpus, links) = (csv(&[NodeGpu::default()]).unwrap(), csv(&[GpuLinkRow::default()]).unwrap());
        for text in [gpus, links] {
            let text = String::from_utf8(text).unwrap();
            for column in text.lines().next().unwrap().split(',') {
                assert!(page.contains(&format!("`{column}`")), "{column}");
            }
        }
    }
}
