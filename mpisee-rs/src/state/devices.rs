//! The GPUs that the process sees and uses, as CUDA's driver tells, and what its node has near them, into the segment.
//!
//! The driver is asked only where the program has loaded and initialised it: nothing is loaded, and no context is made. It is asked
//! at the end of MPI, and once before, when a thread that calls MPI has a context, for the sake of processes that are killed.

use crate::state::nvml::Nvml;
use crate::state::objects;
use crate::state::world::{World, guarded};
use mpisee_collect::process::pci::{self, SYS};
use mpisee_profile::rows::{DeviceLinkRow, DeviceRow};
use mpisee_profile::segment::device_fact::DeviceFact;
use mpisee_profile::segment::fact::Fact;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// `CUdevice`.
type Device = c_int;

/// GPUs that are looked at, at most.
const MOST_DEVICES: c_int = 64;
/// Bytes of a name or an address, at most.
const MOST_BYTES: usize = 256;
/// Of `CUdevice_P2PAttribute`: the rank of the link's performance, access, and native atomics.
const PERFORMANCE: c_int = 1;
const ACCESS: c_int = 2;
const ATOMICS: c_int = 3;

/// The facts that are in the segment.
static LOGGED: Mutex<Vec<DeviceFact>> = Mutex::new(Vec::new());
/// True once a process with a context was looked at.
static IS_SEEN: AtomicBool = AtomicBool::new(false);

/// Looks at the devices if this thread has a context, once. To be called now and then, when the driver is known to be loaded.
pub fn look(world: &World) {
    if IS_SEEN.load(Ordering::Relaxed) {
        return;
    }
    let has_context = guarded(|| Driver::loaded().is_some_and(|driver| driver.current().is_some()));
    if has_context == Some(true) && !IS_SEEN.swap(true, Ordering::Relaxed) {
        note(world);
    }
}

/// Notes the devices, as they are now. The caller holds the standard descriptors, if the program may have closed them.
pub fn note(world: &World) {
    guarded(|| {
        let Some(driver) = Driver::loaded() else { return };
        let facts = driver.facts();
        // Another thread, if there is one, notes the same.
        let Ok(mut logged) = LOGGED.try_lock() else { return };
        for fact in facts {
            if !logged.contains(&fact) && world.segment.log(&Fact::Device.record(fact.to_text())) {
                logged.push(fact);
            }
        }
    });
}

/// CUDA's driver in this process.
struct Driver {
    library: *mut c_void,
}

/// A device that the driver shows.
struct Seen {
    device: Device,
    row: DeviceRow,
}

impl Driver {
    /// The driver, if the program has loaded it.
    fn loaded() -> Option<Driver> {
        // The loader itself would look for a library that is not there in all of its folders.
        objects::named(|file| file.starts_with(b"libcuda.so"))?;
        // SAFETY: the name ends in a zero, and nothing is loaded.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!library.is_null()).then_some(Driver { library })
    }

    /// A function of the driver as one of type `F`.
    ///
    /// # Safety
    /// It has this type in cuda.h.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library is loaded, and stays so with the handle; the name ends in a zero.
        let function = unsafe { libc::dlsym(self.library, name.as_ptr()) };
        // SAFETY: as the caller says; the sizes are equal.
        (!function.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&function) })
    }

    /// What the driver tells, and `/sys`; nothing unless the program has initialised it.
    fn facts(&self) -> Vec<DeviceFact> {
        let sys = Path::new(SYS);
        let mut seen: Vec<Seen> =
            self.devices().into_iter().filter_map(|device| self.see(sys, device)).collect();
        if seen.is_empty() {
            return Vec::new();
        }
        let current = self.current();
        let is_used = |device: Device| current == Some(device) || self.has_primary_context(device);
        let nvml = Nvml::loaded();
        let mut facts = Vec::new();
        for number in 0..seen.len() {
            if !is_used(seen[number].device) {
                continue;
            }
            let remotes = nvml.as_ref().and_then(|nvml| nvml.remotes(&seen[number].row.pci_address));
            seen[number].row.nvlinks = remotes.as_ref().map(|remotes| remotes.len() as u32);
            let it = &seen[number];
            facts.push(DeviceFact::Used(it.row.uuid.clone()));
            let links = seen.iter().filter_map(|peer| self.link(it, peer, remotes.as_deref()));
            facts.extend(links.map(DeviceFact::Link));
        }
        facts.extend(seen.into_iter().map(|it| DeviceFact::Device(Box::new(it.row))));
        facts.extend(pci::nics(sys).into_iter().map(DeviceFact::Nic));
        facts.extend(pci::numa_nodes(sys).into_iter().map(|(node, cpus)| DeviceFact::NumaNode(node, cpus)));
        facts
    }

    /// The devices that are visible to the process.
    fn devices(&self) -> Vec<Device> {
        type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
        type Get = unsafe extern "C" fn(*mut Device, c_int) -> c_int;
        // SAFETY: the functions have these types in cuda.h.
        let (get_count, get) =
            unsafe { (self.function::<GetCount>(c"cuDeviceGetCount"), self.function::<Get>(c"cuDeviceGet")) };
        let (Some(get_count), Some(get)) = (get_count, get) else { return Vec::new() };
        let mut count = 0;
        // SAFETY: a number is written. Before the driver is initialised, the call fails and does nothing else.
        if unsafe { get_count(&raw mut count) } != 0 {
            return Vec::new();
        }
        let device = |number: c_int| {
            let mut device = 0;
            // SAFETY: a number is written.
            (unsafe { get(&raw mut device, number) } == 0).then_some(device)
        };
        (0..count.min(MOST_DEVICES)).filter_map(device).collect()
    }

    /// The device of this thread's context.
    fn current(&self) -> Option<Device> {
        type GetCurrent = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
        type GetDevice = unsafe extern "C" fn(*mut Device) -> c_int;
        // SAFETY: the functions have these types in cuda.h.
        let (get_current, get_device) = unsafe {
            (self.function::<GetCurrent>(c"cuCtxGetCurrent")?, self.function::<GetDevice>(c"cuCtxGetDevice")?)
        };
        let (mut context, mut device) = (ptr::null_mut(), 0);
        // SAFETY: a handle and a number are written.
        let is_known = unsafe {
            get_current(&raw mut context) == 0 && !context.is_null() && get_device(&raw mut device) == 0
        };
        is_known.then_some(device)
    }

    /// Returns whether the context that CUDA's runtime uses exists on a device.
    fn has_primary_context(&self, device: Device) -> bool {
        type GetState = unsafe extern "C" fn(Device, *mut c_uint, *mut c_int) -> c_int;
        // SAFETY: the function has this type in cuda.h.
        let Some(get_state) = (unsafe { self.function::<GetState>(c"cuDevicePrimaryCtxGetState") }) else {
            return false;
        };
        let (mut flags, mut is_active) = (0, 0);
        // SAFETY: two numbers are written.
        unsafe { get_state(device, &raw mut flags, &raw mut is_active) == 0 && is_active != 0 }
    }

    /// What is known of a device; `None` without a UUID.
    fn see(&self, sys: &Path, device: Device) -> Option<Seen> {
        // Of a MIG instance the first is of its GPU, the second its own.
        let whole = self.uuid(c"cuDeviceGetUuid", device);
        let own = self.uuid(c"cuDeviceGetUuid_v2", device).or(whole)?;
        let is_part = whole.map(|whole| whole != own);
        let pci_address = self.text(c"cuDeviceGetPCIBusId", device).to_lowercase();
        let place = pci::place(sys, &pci_address);
        let row = DeviceRow {
            uuid: uuid_text(if is_part == Some(true) { "MIG" } else { "GPU" }, own),
            model: self.text(c"cuDeviceGetName", device),
            pci_address,
            numa_node: place.numa_node,
            cpus_near: place.cpus_near,
            memory_bytes: self.memory_bytes(device),
            mig: is_part.map(u8::from),
            part_of: whole
                .filter(|_| is_part == Some(true))
                .map_or(String::new(), |uuid| uuid_text("GPU", uuid)),
            pci_path: place.path,
            ..DeviceRow::default()
        };
        Some(Seen { device, row })
    }

    fn uuid(&self, name: &CStr, device: Device) -> Option<[u8; 16]> {
        type GetUuid = unsafe extern "C" fn(*mut [u8; 16], Device) -> c_int;
        // SAFETY: both functions that return UUIDs have this type in cuda.h.
        let get_uuid = unsafe { self.function::<GetUuid>(name)? };
        let mut uuid = [0; 16];
        // SAFETY: 16 bytes are written.
        (unsafe { get_uuid(&raw mut uuid, device) } == 0).then_some(uuid)
    }

    /// The name or the address of a device, by the function that writes it; empty if the driver has none.
    fn text(&self, name: &CStr, device: Device) -> String {
        type GetText = unsafe extern "C" fn(*mut c_char, c_int, Device) -> c_int;
        // SAFETY: both functions that write a text have this type in cuda.h.
        let Some(get_text) = (unsafe { self.function::<GetText>(name) }) else { return String::new() };
        let mut bytes = [0u8; MOST_BYTES];
        // SAFETY: at most as many bytes are written as is said, one less than there are.
        let status = unsafe { get_text(bytes.as_mut_ptr().cast(), (MOST_BYTES - 1) as c_int, device) };
        match CStr::from_bytes_until_nul(&bytes) {
            Ok(text) if status == 0 => text.to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }

    fn memory_bytes(&self, device: Device) -> Option<u64> {
        type GetTotal = unsafe extern "C" fn(*mut usize, Device) -> c_int;
        // SAFETY: the function has this type in cuda.h.
        let get_total = unsafe { self.function::<GetTotal>(c"cuDeviceTotalMem_v2")? };
        let mut bytes = 0;
        // SAFETY: a number is written.
        (unsafe { get_total(&raw mut bytes, device) } == 0).then_some(bytes as u64)
    }

    /// The link between two devices; `None` of one with itself. `remotes` is what NVLinks of the first lead to, if that is known.
    fn link(&self, one: &Seen, other: &Seen, remotes: Option<&[String]>) -> Option<DeviceLinkRow> {
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
            nvlinks: remotes.map(|remotes| {
                remotes.iter().filter(|remote| **remote == other.row.pci_address).count() as u32
            }),
            peer_access: flag(ACCESS),
            native_atomics: flag(ATOMICS),
            performance: both(PERFORMANCE, Ord::max).and_then(|rank| u32::try_from(rank).ok()),
            ..DeviceLinkRow::default()
        })
    }

    fn attribute(&self, attribute: c_int, from: Device, to: Device) -> Option<c_int> {
        type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, Device, Device) -> c_int;
        // SAFETY: the function has this type in cuda.h.
        let get_attribute = unsafe { self.function::<GetAttribute>(c"cuDeviceGetP2PAttribute")? };
        let mut value = 0;
        // SAFETY: a number is written.
        (unsafe { get_attribute(&raw mut value, attribute, from, to) } == 0).then_some(value)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: the handle was opened here, and nothing of the library is kept.
        unsafe { libc::dlclose(self.library) };
    }
}

/// `GPU-8f6ad5c8-…`, as nvidia-smi writes it.
fn uuid_text(kind: &str, uuid: [u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&uuid[part]));
    format!("{kind}-{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_nvidia_smi_does() {
        let uuid = std::array::from_fn(|byte| byte as u8 * 17);
        assert_eq!(uuid_text("GPU", uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn without_a_driver_nothing_is_asked() {
        assert!(Driver::loaded().is_none());
    }
}
