//! The GPUs that the process sees and uses, by CUDA's driver, and the adapters and NUMA nodes of
//! its node, into the segment.
//!
//! The driver is asked only where the program has loaded and initialised it: nothing is loaded, and
//! no context is made. It is asked at the end of MPI, and once before, when a thread that calls MPI
//! has a context, for the sake of processes that are killed; without MPI when the first
//! communicators of NCCL are made.
//!
//! Types and constants are cudarc's. None of its functions is called, since they load the driver;
//! and what the driver returns is a number, since a later one may return what is no value of an
//! enumeration of cudarc.

use crate::binaries::library::{Functions, Kept, function};
use crate::binaries::{apart, stack_room};
use crate::state::gpu::nvml::Nvml;
use crate::state::world::{World, guarded};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_P2PAttribute, CUuuid};
use mpisee_collect::process::gpu::uuid_text;
use mpisee_collect::process::pci::{self, SYS};
use mpisee_in_process::guards::descriptors;
use mpisee_in_process::symbols::LoadedObject;
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow};
use mpisee_profile::segment::device_fact::DeviceFact;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::{CommId, CommRank};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// GPUs that are looked at, at most.
const MOST_DEVICES: c_int = 64;
/// Bytes of a name or an address, at most.
const MOST_BYTES: usize = 256;
const PERFORMANCE: c_int = CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK as c_int;
const ACCESS: c_int = CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED as c_int;
const ATOMICS: c_int = CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED as c_int;

/// The facts that are in the segment.
static LOGGED: Mutex<Vec<DeviceFact>> = Mutex::new(Vec::new());
/// True once a process with a context was looked at.
static IS_SEEN: AtomicBool = AtomicBool::new(false);

/// The driver, once the program was seen to have loaded it.
static DRIVER: Functions<DeviceFunctions> = Functions::new();

/// Begin of the name of the driver's file.
pub const FILE: &[u8] = b"libcuda.so";

/// Returns whether the program has initialised a driver.
pub fn is_initialised(driver: Kept) -> bool {
    driver.take(DeviceFunctions::from_library).is_some_and(|driver| driver.is_initialised())
}

/// Asks this driver from now on.
pub fn take_driver(driver: Kept) {
    DRIVER.take(driver, |library| Some(DeviceFunctions::from_library(library)));
}

/// Looks at the devices if this thread has a context, once. To be called now and then: what it
/// calls takes no lock of the loader's.
pub fn look(world: &'static World) {
    let Some(driver) = DRIVER.get().filter(|_| !IS_SEEN.load(Ordering::Relaxed)) else { return };
    if driver.current().is_some() && !IS_SEEN.swap(true, Ordering::Relaxed) {
        log(world, driver, || None);
    }
}

/// Notes the devices as they are now.
pub fn note(world: &'static World) {
    if let Some(driver) = DRIVER.get() {
        log(world, driver, Nvml::loaded);
    }
}

/// Notes that a rank of the process in a communicator of NCCL uses the device with this ordinal.
pub fn note_nccl_rank(world: &World, comm: CommId, rank: CommRank, ordinal: c_int) {
    let Some(driver) = DRIVER.get() else { return };
    guarded(|| {
        let Some(uuids) = driver.device(ordinal).and_then(|device| driver.uuids(device)) else { return };
        let fact = DeviceFact::NcclRank { comm: comm.get(), rank, uuid: uuids.name() };
        world.segment.log(&Fact::Device.record(fact.to_text()));
    });
}

/// Logs the facts that are not logged yet. The context is the calling thread's.
fn log(
    world: &'static World,
    driver: &'static DeviceFunctions,
    nvml: impl FnOnce() -> Option<&'static Nvml> + Send + 'static,
) {
    let current = driver.current();
    let log = move || {
        // The program may have closed its standard descriptors.
        let _held = descriptors::hold();
        let facts = driver.facts(current, nvml());
        // Another thread, if there is one, logs the same.
        let Ok(mut logged) = LOGGED.try_lock() else { return };
        for fact in facts {
            if !logged.contains(&fact) && world.segment.log(&Fact::Device.record(fact.to_text())) {
                logged.push(fact);
            }
        }
    };
    apart::with_stack(stack_room::OF_DEVICES, move || {
        guarded(log);
    });
}

type GetNumber = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetDevice = unsafe extern "C" fn(*mut CUdevice, c_int) -> c_int;
type GetCurrent = unsafe extern "C" fn(*mut CUcontext) -> c_int;
type GetState = unsafe extern "C" fn(CUdevice, *mut c_uint, *mut c_int) -> c_int;
type GetUuid = unsafe extern "C" fn(*mut CUuuid, CUdevice) -> c_int;
type GetText = unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> c_int;
type GetTotal = unsafe extern "C" fn(*mut usize, CUdevice) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, CUdevice, CUdevice) -> c_int;

/// Functions of CUDA's driver in this process, as far as it has them.
struct DeviceFunctions {
    get_count: Option<GetNumber>,
    get_device: Option<GetDevice>,
    get_current: Option<GetCurrent>,
    get_current_device: Option<GetNumber>,
    get_state: Option<GetState>,
    get_uuid: Option<GetUuid>,
    get_own_uuid: Option<GetUuid>,
    get_address: Option<GetText>,
    get_name: Option<GetText>,
    get_total: Option<GetTotal>,
    get_attribute: Option<GetAttribute>,
}

/// The UUIDs of a device: its own, and that of the GPU, which is another one if it is a MIG
/// instance.
struct Uuids {
    own: [u8; 16],
    /// `None` if it is not known.
    whole: Option<[u8; 16]>,
}

impl Uuids {
    /// Returns whether the device is a MIG instance; `None` if that is not known.
    fn is_part(&self) -> Option<bool> {
        self.whole.map(|whole| whole != self.own)
    }

    /// Its own, as nvidia-smi writes it.
    fn name(&self) -> String {
        uuid_text(if self.is_part() == Some(true) { "MIG" } else { "GPU" }, self.own)
    }

    /// The GPU of a MIG instance; else empty.
    fn part_of(&self) -> String {
        let whole = self.whole.filter(|_| self.is_part() == Some(true));
        whole.map_or(String::new(), |uuid| uuid_text("GPU", uuid))
    }
}

/// A device that the driver shows.
struct Seen {
    device: CUdevice,
    row: DeviceRow,
}

impl DeviceFunctions {
    /// Returns whether the program has initialised it; else all that is asked fails.
    fn is_initialised(&self) -> bool {
        let mut count = 0;
        // SAFETY: a number is written.
        self.get_count.is_some_and(|get_count| unsafe { get_count(&raw mut count) } == 0)
    }

    /// The functions of CUDA's driver.
    fn from_library(library: LoadedObject<'_>) -> DeviceFunctions {
        // SAFETY: the functions have these types in cuda.h.
        unsafe {
            DeviceFunctions {
                get_count: function(library, c"cuDeviceGetCount"),
                get_device: function(library, c"cuDeviceGet"),
                get_current: function(library, c"cuCtxGetCurrent"),
                get_current_device: function(library, c"cuCtxGetDevice"),
                get_state: function(library, c"cuDevicePrimaryCtxGetState"),
                get_uuid: function(library, c"cuDeviceGetUuid"),
                get_own_uuid: function(library, c"cuDeviceGetUuid_v2"),
                get_address: function(library, c"cuDeviceGetPCIBusId"),
                get_name: function(library, c"cuDeviceGetName"),
                get_total: function(library, c"cuDeviceTotalMem_v2"),
                get_attribute: function(library, c"cuDeviceGetP2PAttribute"),
            }
        }
    }

    /// The facts of the driver and of `/sys`; none unless the program has initialised the driver.
    /// NVML adds NVLinks. `current` is the device of the context of the thread that communicates.
    fn facts(&self, current: Option<CUdevice>, nvml: Option<&Nvml>) -> Vec<DeviceFact> {
        let sys = Path::new(SYS);
        let mut seen: Vec<Seen> =
            self.devices().into_iter().filter_map(|device| self.see(sys, device)).collect();
        if seen.is_empty() {
            return Vec::new();
        }
        let is_used = |device: CUdevice| current == Some(device) || self.has_primary_context(device);
        let mut facts = Vec::new();
        for number in 0..seen.len() {
            if !is_used(seen[number].device) {
                continue;
            }
            let remotes = nvml.and_then(|nvml| nvml.remotes(&seen[number].row.pci_address));
            seen[number].row.nvlinks = remotes.as_ref().map(|remotes| remotes.len() as u32);
            let it = &seen[number];
            facts.push(DeviceFact::Used(it.row.uuid.clone()));
            let gpus: Vec<&str> = seen.iter().map(|peer| peer.row.pci_address.as_str()).collect();
            let nvlinks = |peer: &Seen| direct_links(remotes.as_deref()?, &gpus, &peer.row.pci_address);
            let links = seen.iter().filter_map(|peer| self.link(it, peer, nvlinks(peer)));
            facts.extend(links.map(DeviceFact::Link));
        }
        facts.extend(seen.into_iter().map(|it| DeviceFact::Device(Box::new(it.row))));
        facts.extend(pci::nics(sys).into_iter().map(DeviceFact::Nic));
        facts.extend(pci::numa_nodes(sys).into_iter().map(|(node, cpus)| DeviceFact::NumaNode(node, cpus)));
        facts
    }

    /// The devices that are visible to the process.
    fn devices(&self) -> Vec<CUdevice> {
        let Some(get_count) = self.get_count else { return Vec::new() };
        let mut count = 0;
        // SAFETY: a number is written. Before the driver is initialised, the call fails and does
        // nothing else.
        if unsafe { get_count(&raw mut count) } != 0 {
            return Vec::new();
        }
        (0..count.min(MOST_DEVICES)).filter_map(|ordinal| self.device(ordinal)).collect()
    }

    /// The device with an ordinal of the process.
    fn device(&self, ordinal: c_int) -> Option<CUdevice> {
        let get_device = self.get_device?;
        let mut device = 0;
        // SAFETY: a number is written. Before the driver is initialised, the call fails and does
        // nothing else.
        (unsafe { get_device(&raw mut device, ordinal) } == 0).then_some(device)
    }

    /// The UUIDs of a device; `None` without its own.
    fn uuids(&self, device: CUdevice) -> Option<Uuids> {
        let whole = uuid(self.get_uuid, device);
        Some(Uuids { own: uuid(self.get_own_uuid, device).or(whole)?, whole })
    }

    /// The device of this thread's context.
    fn current(&self) -> Option<CUdevice> {
        let (get_current, get_device) = (self.get_current?, self.get_current_device?);
        let (mut context, mut device) = (ptr::null_mut(), 0);
        // SAFETY: a handle and a number are written.
        let is_known = unsafe {
            get_current(&raw mut context) == 0 && !context.is_null() && get_device(&raw mut device) == 0
        };
        is_known.then_some(device)
    }

    /// Returns whether the context that CUDA's runtime uses exists on a device.
    fn has_primary_context(&self, device: CUdevice) -> bool {
        let Some(get_state) = self.get_state else { return false };
        let (mut flags, mut is_active) = (0, 0);
        // SAFETY: two numbers are written.
        unsafe { get_state(device, &raw mut flags, &raw mut is_active) == 0 && is_active != 0 }
    }

    /// A device, as far as it is known; `None` without a UUID.
    fn see(&self, sys: &Path, device: CUdevice) -> Option<Seen> {
        let uuids = self.uuids(device)?;
        let pci_address = text(self.get_address, device).to_lowercase();
        let place = pci::place(sys, &pci_address);
        let row = DeviceRow {
            uuid: uuids.name(),
            model: text(self.get_name, device),
            pci_address,
            numa_node: place.numa_node,
            cpus_near: place.cpus_near,
            memory_bytes: self.memory_bytes(device),
            mig: uuids.is_part().map(u8::from),
            part_of: uuids.part_of(),
            pci_path: place.path,
            ..DeviceRow::default()
        };
        Some(Seen { device, row })
    }

    fn memory_bytes(&self, device: CUdevice) -> Option<u64> {
        let get_total = self.get_total?;
        let mut bytes = 0;
        // SAFETY: a number is written.
        (unsafe { get_total(&raw mut bytes, device) } == 0).then_some(bytes as u64)
    }

    /// The link between two devices, with that many NVLinks; `None` of one with itself.
    fn link(&self, one: &Seen, other: &Seen, nvlinks: Option<u32>) -> Option<DeviceLinkRow> {
        if one.device == other.device {
            return None;
        }
        // Where the two ways differ, the worse counts.
        let both = |attribute: c_int, of: fn(c_int, c_int) -> c_int| {
            let there = self.attribute(attribute, one.device, other.device)?;
            Some(of(there, self.attribute(attribute, other.device, one.device)?))
        };
        let flag = |attribute: c_int| both(attribute, Ord::min).map(|flag| u8::from(flag != 0));
        Some(DeviceLinkRow {
            device: one.row.uuid.clone(),
            peer: other.row.uuid.clone(),
            nvlinks,
            peer_access: flag(ACCESS),
            native_atomics: flag(ATOMICS),
            performance: both(PERFORMANCE, Ord::max).and_then(|rank| u32::try_from(rank).ok()),
            ..DeviceLinkRow::default()
        })
    }

    fn attribute(&self, attribute: c_int, from: CUdevice, to: CUdevice) -> Option<c_int> {
        let get_attribute = self.get_attribute?;
        let mut value = 0;
        // SAFETY: a number is written.
        (unsafe { get_attribute(&raw mut value, attribute, from, to) } == 0).then_some(value)
    }
}

/// The NVLinks of a GPU that lead to a peer, of what all of them lead to. `None` where none does
/// and some lead to what is no GPU here: by a switch the peer may be reached as well.
fn direct_links(remotes: &[String], gpus: &[&str], peer: &str) -> Option<u32> {
    let direct = remotes.iter().filter(|remote| *remote == peer).count() as u32;
    let is_gpu = |remote: &String| gpus.contains(&remote.as_str());
    (direct > 0 || remotes.iter().all(is_gpu)).then_some(direct)
}

/// The UUID of a device; `None` if the driver has none.
fn uuid(get_uuid: Option<GetUuid>, device: CUdevice) -> Option<[u8; 16]> {
    let get_uuid = get_uuid?;
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the result is written.
    (unsafe { get_uuid(&raw mut uuid, device) } == 0).then(|| uuid.bytes.map(|byte| byte as u8))
}

/// The name or the address of a device; empty if the driver has none.
fn text(get_text: Option<GetText>, device: CUdevice) -> String {
    let Some(get_text) = get_text else { return String::new() };
    let mut bytes = [0u8; MOST_BYTES];
    // SAFETY: at most as many bytes are written as is said, one less than there are.
    let status = unsafe { get_text(bytes.as_mut_ptr().cast(), (MOST_BYTES - 1) as c_int, device) };
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) if status == 0 => text.to_string_lossy().into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_switches_may_lead_to_every_gpu() {
        let direct = |remotes: &[&str], peer| {
            let remotes: Vec<String> = remotes.iter().map(|&remote| remote.to_owned()).collect();
            direct_links(&remotes, &["a", "b", "c"], peer)
        };
        assert_eq!(direct(&["b", "c", "b"], "b"), Some(2));
        assert_eq!(direct(&["b"], "c"), Some(0));
        assert_eq!(direct(&["b", "switch"], "b"), Some(1));
        assert_eq!(direct(&["b", "switch"], "c"), None);
        assert_eq!(direct(&[], "c"), Some(0));
    }
}
