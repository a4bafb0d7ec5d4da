//! The kind of memory of an address, as HSA tells it apart, the runtime below AMD's HIP and OpenMP.
//!
//! HIP itself is not asked: it initialises itself when it is first called, which is the program's
//! business, and HSA cannot tell whether that was done. HSA fails until somebody has initialised
//! it, the program or an MPI that takes the memory of GPUs. It does not know managed memory.

use crate::binaries::library::{self, Functions, function};
use crate::state::world;
use mpisee_in_process::symbols::LoadedObject;
use mpisee_profile::rows::Memory;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The begin of `hsa_amd_pointer_info_t` of hsa_ext_amd.h.
#[repr(C)]
struct PointerInfo {
    /// Bytes of the structure, as the caller has it.
    size: u32,
    pointer_type: c_uint,
    agent_base: *mut c_void,
    host_base: *mut c_void,
    bytes: usize,
    user_data: *mut c_void,
    /// The agent that owns the memory, which is a CPU or a GPU.
    owner: u64,
    flags: u32,
}

/// `hsa_amd_pointer_info`; without a function that allocates it lists no devices.
type GetInfo =
    unsafe extern "C" fn(*const c_void, *mut PointerInfo, *const c_void, *mut u32, *mut c_void) -> c_uint;
/// `hsa_agent_get_info` of hsa.h.
type GetAgentInfo = unsafe extern "C" fn(u64, c_uint, *mut c_void) -> c_uint;

/// `HSA_EXT_POINTER_TYPE_UNKNOWN`
const UNKNOWN: c_uint = 0;
/// `HSA_EXT_POINTER_TYPE_LOCKED`: memory of the program, made accessible to GPUs.
const LOCKED: c_uint = 2;
/// `HSA_AGENT_INFO_DEVICE`
const KIND_OF_AGENT: c_uint = 17;
/// `HSA_DEVICE_TYPE_GPU`
const GPU: c_int = 1;
/// Begin of the file's name.
pub const FILE: &[u8] = b"libhsa-runtime64.";

struct Hsa {
    get_info: GetInfo,
    get_agent_info: GetAgentInfo,
}

/// HSA, once the program was seen to have loaded it.
static HSA: Functions<Hsa> = Functions::new();

/// True if it is there, and is not asked: it has never run on AMD's hardware.
static IS_HELD_BACK: AtomicBool = AtomicBool::new(false);

/// Looks for it in the process, in a thread of its own; loads and initialises nothing. True if it
/// is there, and is to be asked.
pub fn look() -> bool {
    if !world::world().is_some_and(|world| world.options.experimental) {
        let is_there = !library::keep(|file| file.starts_with(FILE)).is_empty();
        IS_HELD_BACK.store(is_there, Ordering::Relaxed);
        return false;
    }
    // SAFETY: the functions have these types in hsa.h and hsa_ext_amd.h.
    let of = |library: LoadedObject<'_>| unsafe {
        Some(Hsa {
            get_info: function(library, c"hsa_amd_pointer_info")?,
            get_agent_info: function(library, c"hsa_agent_get_info")?,
        })
    };
    library::keep(|file| file.starts_with(FILE)).into_iter().any(|library| HSA.take(library, of).is_some())
}

/// A sentence for `run.json` if buffers may be in memory that is not told apart.
pub fn note() -> Option<String> {
    IS_HELD_BACK.load(Ordering::Relaxed).then(|| {
        "AMD's HSA is loaded, and memory of its GPUs counts as the host's: telling it apart has never run on such \
         hardware; mpisee --experimental does it"
            .to_owned()
    })
}

/// The kind of memory at an address; `Host` if HSA is not there, is not initialised or does not
/// know it.
pub fn kind_of(buffer: *const c_void) -> Memory {
    let Some(Hsa { get_info, get_agent_info }) = HSA.get() else { return Memory::Host };
    let mut info = PointerInfo {
        size: size_of::<PointerInfo>() as u32,
        pointer_type: UNKNOWN,
        agent_base: ptr::null_mut(),
        host_base: ptr::null_mut(),
        bytes: 0,
        user_data: ptr::null_mut(),
        owner: 0,
        flags: 0,
    };
    // SAFETY: any address may be asked about; as much of the structure is written as its size says,
    // and no devices are listed.
    if unsafe { get_info(buffer, &raw mut info, ptr::null(), ptr::null_mut(), ptr::null_mut()) } != 0 {
        return Memory::Host;
    }
    let mut owner: c_int = 0;
    match info.pointer_type {
        UNKNOWN => Memory::Host,
        LOCKED => Memory::Pinned,
        // SAFETY: an agent that HSA has returned; the attribute is a number.
        _ => match unsafe { get_agent_info(info.owner, KIND_OF_AGENT, (&raw mut owner).cast()) } {
            0 if owner == GPU => Memory::Device,
            _ => Memory::Pinned,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address says the type; from 10 on the owner is a GPU.
    unsafe extern "C" fn info(
        at: *const c_void,
        info: *mut PointerInfo,
        _: *const c_void,
        _: *mut u32,
        _: *mut c_void,
    ) -> c_uint {
        // SAFETY: the caller's structure.
        let info = unsafe { &mut *info };
        (info.pointer_type, info.owner) = (at.addr() as c_uint % 10, at.addr() as u64 / 10);
        c_uint::from(at.addr() == 9)
    }

    unsafe extern "C" fn agent(owner: u64, attribute: c_uint, to: *mut c_void) -> c_uint {
        // SAFETY: the caller's number.
        unsafe { to.cast::<c_int>().write(owner as c_int) };
        c_uint::from(attribute != KIND_OF_AGENT)
    }

    #[test]
    fn memory_is_told_apart_by_its_type_and_owner() {
        let kind = |at: usize| kind_of(ptr::without_provenance(at));
        assert_eq!(kind(11), Memory::Host, "without HSA");
        assert!(!look());
        HSA.replace(Hsa { get_info: info, get_agent_info: agent });
        let kinds = [
            (0, Memory::Host),
            (9, Memory::Host),
            (10, Memory::Host),
            (1, Memory::Pinned),
            (2, Memory::Pinned),
            (12, Memory::Pinned),
            (11, Memory::Device),
            (14, Memory::Device),
        ];
        for (at, expected) in kinds {
            assert_eq!(kind(at), expected, "{at}");
        }
    }
}
