//! NVIDIA's management library, loaded if the node has it: which GPUs there are, how they are
//! linked, and their counters.

use crate::timeline::gpus::{GpuLinkRow, NodeGpu};
use mpisee_collect::process::gpu::{MOST_NVLINKS, kernel_address};
use nvml_wrapper::enum_wrappers::device::{PcieUtilCounter, TopologyLevel};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::OsStr;
use std::path::Path;

/// The library, by the name that drivers install; the loader looks for it.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// A count of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// All bytes so far.
    Total(u64),
    /// All bytes so far, of a counter of 32 bits.
    Wrapping(u32),
    /// Bytes per second, over a short time before the reading.
    Rate(f64),
}

/// A reading of a GPU; `None` where it has no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The part of the time in which a kernel ran, over the library's last period (up to a second).
    pub busy: Option<f64>,
    pub used_bytes: Option<u64>,
    /// Received and sent.
    pub nvlink: [Option<Reading>; 2],
    pub pcie: [Option<Reading>; 2],
}

/// A GPU that is read, or a part of one.
pub struct Gpu<'n> {
    device: Device<'n>,
    /// Of the library.
    number: u32,
    pub row: NodeGpu,
    /// True once an error of it was reported.
    has_failed: bool,
}

/// Loads the library; `None` if there is none, or no driver.
pub fn load(library: &OsStr) -> Result<Option<Nvml>, NvmlError> {
    match Nvml::builder().lib_path(library).init() {
        Ok(nvml) => Ok(Some(nvml)),
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The GPUs of the node with their parts, in the order of their numbers. `root` has `sys`.
pub fn find<'n>(nvml: &'n Nvml, host: &str, root: &Path) -> Result<Vec<Gpu<'n>>, NvmlError> {
    let mut gpus = Vec::new();
    for number in 0..nvml.device_count()? {
        // Others' GPUs may be counted and not be readable.
        let Ok(device) = nvml.device_by_index(number) else { continue };
        let name = format!("gpu{number}");
        let parts = parts(&device, number, &name, host);
        gpus.push(Gpu { row: row(nvml, &device, name, host, root), device, number, has_failed: false });
        gpus.extend(parts);
    }
    Ok(gpus)
}

fn row(nvml: &Nvml, device: &Device<'_>, name: String, host: &str, root: &Path) -> NodeGpu {
    let pci_address = device.pci_info().map_or(String::new(), |pci| kernel_address(&pci.bus_id));
    let numa_node =
        std::fs::read_to_string(root.join("sys/bus/pci/devices").join(&pci_address).join("numa_node"));
    let active = (0..MOST_NVLINKS).filter(|&link| device.link_wrapper_for(link).is_active().unwrap_or(false));
    let nvlinks = active.count() as u32;
    // In MB/s of a link and a direction.
    let speed = field(nvml, device, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0).ok();
    let speed = speed.map(|value| value.whole() as f64 * 1e6).filter(|_| nvlinks > 0);
    NodeGpu {
        host: host.to_owned(),
        device: name,
        uuid: device.uuid().unwrap_or_default(),
        model: device.name().unwrap_or_default(),
        pci_address,
        numa_node: numa_node.ok().and_then(|text| text.trim().parse().ok()),
        memory_bytes: device.memory_info().ok().map(|memory| memory.total),
        mig: device.mig_mode().ok().map(|mode| u8::from(mode.current == 1)),
        nvlinks: (nvlinks > 0).then_some(nvlinks),
        nvlink_bytes_per_s: speed.map(|speed| speed * f64::from(nvlinks)),
        pcie_bytes_per_s: pcie_bytes_per_s(device),
    }
}

/// The parts of a GPU that is divided by MIG.
fn parts<'n>(device: &Device<'n>, parent: u32, name: &str, host: &str) -> Vec<Gpu<'n>> {
    if !device.mig_mode().is_ok_and(|mode| mode.current == 1) {
        return Vec::new();
    }
    let numbers = 0..device.mig_device_count().unwrap_or(0);
    let part = |number: u32| {
        let device = device.mig_device_by_index(number).ok()?;
        let row = NodeGpu {
            host: host.to_owned(),
            device: format!("{name}/mig{number}"),
            uuid: device.uuid().unwrap_or_default(),
            model: device.name().unwrap_or_default(),
            memory_bytes: device.memory_info().ok().map(|memory| memory.total),
            ..NodeGpu::default()
        };
        Some(Gpu { device, number: parent, row, has_failed: false })
    };
    numbers.filter_map(part).collect()
}

/// Of the slot and the GPU, whatever the link has been slowed down to while nothing moves.
fn pcie_bytes_per_s(device: &Device<'_>) -> Option<f64> {
    let width = device.max_pcie_link_width().ok()?;
    // Of a lane, without what the encoding takes.
    let lane = match device.max_pcie_link_gen().ok()? {
        1 => 0.25e9,
        2 => 0.5e9,
        3 => 0.985e9,
        4 => 1.969e9,
        5 => 3.938e9,
        6 => 7.563e9,
        _ => return None,
    };
    Some(lane * f64::from(width))
}

/// The connections of all GPUs.
pub fn links(nvml: &Nvml, gpus: &[Gpu<'_>], host: &str) -> Vec<GpuLinkRow> {
    let mut rows = Vec::new();
    let whole: Vec<&Gpu<'_>> = gpus.iter().filter(|gpu| !gpu.row.pci_address.is_empty()).collect();
    for gpu in &whole {
        let remotes: Vec<String> = (0..MOST_NVLINKS)
            .map(|link| gpu.device.link_wrapper_for(link))
            .filter(|link| link.is_active().unwrap_or(false))
            // Of a link whose end the driver does not tell, it is not said that a switch is there.
            .filter_map(|link| Some(kernel_address(&link.remote_pci_info().ok()?.bus_id)))
            .collect();
        let to = |address: &str| remotes.iter().filter(|remote| *remote == address).count() as u32;
        let link = |peer: &str, nvlinks: u32, path: &str| GpuLinkRow {
            host: host.to_owned(),
            device: gpu.row.device.clone(),
            peer: peer.to_owned(),
            nvlinks,
            path: path.to_owned(),
        };
        let mut direct = 0;
        for peer in whole.iter().filter(|peer| peer.row.device != gpu.row.device) {
            let nvlinks = to(&peer.row.pci_address);
            direct += nvlinks;
            rows.push(link(&peer.row.device, nvlinks, path(nvml, gpu, peer)));
        }
        let through_switches = remotes.len() as u32 - direct;
        if through_switches > 0 {
            rows.push(link("nvswitch", through_switches, ""));
        }
    }
    rows
}

fn path(nvml: &Nvml, one: &Gpu<'_>, other: &Gpu<'_>) -> &'static str {
    let found = nvml.device_by_index(other.number);
    match found.and_then(|other| one.device.topology_common_ancestor(other)) {
        Ok(TopologyLevel::Internal) => "board",
        Ok(TopologyLevel::Single) => "PIX",
        Ok(TopologyLevel::Multiple) => "PXB",
        Ok(TopologyLevel::HostBridge) => "PHB",
        Ok(TopologyLevel::Node) => "NODE",
        Ok(TopologyLevel::System) => "SYS",
        Err(_) => "",
    }
}

impl Gpu<'_> {
    /// Reads it. What the GPU does not offer is empty, and no error; of other errors the first one
    /// is reported, in words.
    pub fn sample(&mut self, nvml: &Nvml) -> (Sample, Option<String>) {
        let mut failed = None;
        let busy = known(self.device.utilization_rates(), "utilisation", &mut failed);
        let memory = known(self.device.memory_info(), "memory", &mut failed);
        // The sums of all links.
        let nvlink =
            [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX].map(|id| {
                let value = known(field(nvml, &self.device, id, u32::MAX), "NVLink", &mut failed)?;
                Some(Reading::Total(value.whole().saturating_mul(1024)))
            });
        let mut of_pcie = |id, counter| {
            if let Some(value) = known(field(nvml, &self.device, id, 0), "PCIe", &mut failed) {
                return Some(value.reading());
            }
            // Before Hopper there is a rate alone, which takes 20 ms to measure.
            let rate = known(self.device.pcie_throughput(counter), "PCIe", &mut failed)?;
            Some(Reading::Rate(f64::from(rate) * 1000.0))
        };
        let received = of_pcie(NVML_FI_DEV_PCIE_COUNT_RX_BYTES, PcieUtilCounter::Receive);
        let sent = of_pcie(NVML_FI_DEV_PCIE_COUNT_TX_BYTES, PcieUtilCounter::Send);
        let sample = Sample {
            busy: busy.map(|rates| f64::from(rates.gpu.min(100)) / 100.0),
            used_bytes: memory.map(|memory| memory.used),
            nvlink,
            pcie: [received, sent],
        };
        // Once for each GPU: one that is lost fails in everything, for good.
        let first = failed.filter(|_| !self.has_failed);
        self.has_failed |= first.is_some();
        (sample, first.map(|what| format!("{} does not say everything: {what}", self.row.device)))
    }
}

/// The value, if there is one; an error is kept, unless it says that there never is one.
fn known<T>(result: Result<T, NvmlError>, what: &str, failed: &mut Option<String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(
            NvmlError::NotSupported
            | NvmlError::InvalidArg
            | NvmlError::NotFound
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_),
        ) => None,
        Err(error) => {
            failed.get_or_insert_with(|| format!("{what}: {error}"));
            None
        }
    }
}

/// The value of a field.
struct FieldValue(sys::nvmlFieldValue_t);

impl FieldValue {
    fn whole(&self) -> u64 {
        let value = self.0.value;
        match self.0.valueType {
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
                // SAFETY: any four bytes are such a number, and all of the union was zeroed before
                // the library wrote into it.
                u64::from(unsafe { value.uiVal })
            }
            // SAFETY: any eight bytes are such a number, and all of the union was zeroed before the
            // library wrote into it.
            _ => unsafe { value.ullVal },
        }
    }

    fn reading(&self) -> Reading {
        match self.0.valueType {
            sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => Reading::Wrapping(self.whole() as u32),
            _ => Reading::Total(self.whole()),
        }
    }
}

/// A field of a GPU; the wrapper's own function has no way to name the scope, by which NVLinks are
/// chosen.
fn field(nvml: &Nvml, device: &Device<'_>, id: u32, scope: u32) -> Result<FieldValue, NvmlError> {
    let Ok(get) = nvml.lib().nvmlDeviceGetFieldValues.as_ref() else {
        return Err(NvmlError::FunctionNotFound);
    };
    // SAFETY: the struct has numbers alone.
    let mut value: sys::nvmlFieldValue_t = unsafe { std::mem::zeroed() };
    value.fieldId = id;
    value.scopeId = scope;
    // SAFETY: the handle is that of a device of this library, which outlives it; the place is for
    // one value, as is said.
    let status = unsafe { get(device.handle(), 1, &raw mut value) };
    let error = |status| match status {
        sys::nvmlReturn_enum_NVML_SUCCESS => None,
        sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED => Some(NvmlError::NotSupported),
        sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT => Some(NvmlError::InvalidArg),
        sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST => Some(NvmlError::GpuLost),
        _ => Some(NvmlError::Unknown),
    };
    error(status).or(error(value.nvmlReturn)).map_or(Ok(FieldValue(value)), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_library_is_no_error() {
        assert!(load(OsStr::new("libnvidia-ml-of-nobody.so.1")).unwrap().is_none());
    }

    #[test]
    fn what_a_gpu_cannot_say_is_no_failure() {
        let mut failed = None;
        assert_eq!(known::<u32>(Err(NvmlError::NotSupported), "memory", &mut failed), None);
        assert_eq!(failed, None);
        assert_eq!(known::<u32>(Err(NvmlError::GpuLost), "memory", &mut failed), None);
        assert_eq!(known::<u32>(Err(NvmlError::Unknown), "PCIe", &mut failed), None);
        assert!(failed.unwrap().starts_with("memory: "), "the first one");
    }
}
