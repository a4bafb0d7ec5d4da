//! The kind of memory that has the buffers of a call, as CUDA's driver or AMD's HSA tells it apart.
//!
//! Only a program that has loaded the driver can have buffers elsewhere than in ordinary memory of
//! the host. So the driver is never loaded or initialised here: it is looked for now and then, and
//! asked about each buffer from then on. Nothing is kept about an address, since memory is freed by
//! ways that no library between can see, and addresses are used again.

use super::staging::{self, Used};
use super::{cuda_events, devices, hsa};
use crate::binaries::library::{self, Functions, function};
use crate::binaries::{apart, mapping, objects};
use crate::mpi::abi::IN_PLACE;
use crate::state::world;
use crate::storage::hot::HOT;
use cudarc::driver::sys::{CUdeviceptr, CUpointer_attribute};
use mpisee_in_process::guards::{errno, keep_thread_state};
use mpisee_in_process::symbols::{LoadedObject, find_object};
use mpisee_profile::rows::Memory;
use mpisee_profile::segment::active_call;
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `cuPointerGetAttributes` of cuda.h, CUDA 7.0 and later: of memory that the driver does not know,
/// every attribute is 0.
///
/// Enumerations are numbers here: a later driver may return what is no value of those of cudarc.
type GetAttributes = unsafe extern "C" fn(c_uint, *const c_int, *const *mut c_void, CUdeviceptr) -> c_int;

const MEMORY_TYPE: c_int = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as c_int;
const IS_MANAGED: c_int = CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED as c_int;
const ATTRIBUTES: [c_int; 2] = [MEMORY_TYPE, IS_MANAGED];

/// The driver's function, once it is found.
static GET_ATTRIBUTES: Functions<GetAttributes> = Functions::new();

/// True once it has answered: the program has initialised it.
static IS_INITIALISED: AtomicBool = AtomicBool::new(false);

/// True once the driver was looked for among all that is loaded.
static HAS_LOOKED: AtomicBool = AtomicBool::new(false);
/// The number of objects that had been loaded at the last look, where the C library has nothing
/// more.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// True if there are several libraries of CUDA's driver, of which the program may initialise any.
static HAS_SEVERAL: AtomicBool = AtomicBool::new(false);

/// Begins of the names of the drivers' libraries.
const DRIVERS: [&[u8]; 2] = [devices::FILE, hsa::FILE];

thread_local! {
    /// The kinds of memory of the last call that had buffers: what is sent, and what is received.
    static OF_CALL: Cell<[Memory; 2]> = const { Cell::new([Memory::Host; 2]) };
}

/// Notes the kinds of memory of a call that begins: of several the farthest from the host counts.
pub fn note_known(kinds: impl Iterator<Item = Memory>) {
    if HOT.asks_driver() {
        OF_CALL.set([farthest(kinds), Memory::Host]);
    }
}

pub use hsa::note as note_on_hsa;

/// Asks about the buffers of a call that begins. One buffer is sent or received; of two the first
/// is sent.
pub fn note(buffers: &[*const c_void]) {
    // The driver may set it.
    let _errno = errno::keep();
    staging::note(buffers);
    let kinds = match *buffers {
        [only] => [kind_of(only); 2],
        [sent, received] => [kind_of(sent), kind_of(received)],
        _ => [farthest(buffers.iter().map(|&buffer| kind_of(buffer))), Memory::Host],
    };
    OF_CALL.set(kinds);
}

fn farthest(kinds: impl Iterator<Item = Memory>) -> Memory {
    kinds.max_by_key(|kind| kind.distance()).unwrap_or(Memory::Host)
}

/// Leaves out the buffers of the call in progress that this process does not use.
pub fn leave_unused(used: Used) {
    let [sent, received] = OF_CALL.get();
    OF_CALL.set(match used {
        Used::Both => [sent, received],
        Used::Sent => [sent, Memory::Host],
        Used::Received => [Memory::Host, received],
        Used::Neither => [Memory::Host; 2],
    });
    staging::leave_unused(used);
}

/// The kind of memory of the call in progress, which is counted with a message of `message` bytes
/// and with `bytes`; `call` is a word as of [`active_call::pack`]. That of a call without buffers
/// is [`Memory::Host`]. To be taken once a call: the message is reported to a tracer that counts
/// copies, and its buffers are forgotten ([`staging::report`]).
#[inline(always)]
pub fn take_memory(call: impl FnOnce() -> u64, message: u64, bytes: u64) -> Memory {
    if HOT.asks_driver() { noted(call(), message, bytes) } else { Memory::Host }
}

#[cold]
#[inline(never)]
fn noted(call: u64, message: u64, bytes: u64) -> Memory {
    let Some(active_call::CurrentFunction::Operation(operation)) = active_call::call_of(call) else {
        return Memory::Host;
    };
    // Nothing was noted of a call without buffers.
    if !operation.has_buffer() {
        return Memory::Host;
    }
    let kinds = OF_CALL.get();
    staging::report(operation, active_call::communicator_of(call), [message, bytes], kinds);
    farthest(kinds.into_iter())
}

/// The kind of memory at an address; `Host` of `MPI_IN_PLACE` and `MPI_BOTTOM`, which are none.
pub fn kind_of(buffer: *const c_void) -> Memory {
    if buffer.is_null() || buffer == IN_PLACE {
        return Memory::Host;
    }
    let Some(get_attributes) = GET_ATTRIBUTES.get() else { return hsa::kind_of(buffer) };
    let (mut memory_type, mut is_managed): (c_uint, c_uint) = (0, 0);
    let results = [(&raw mut memory_type).cast::<c_void>(), (&raw mut is_managed).cast()];
    let count = ATTRIBUTES.len() as c_uint;
    // SAFETY: a place of four bytes for each attribute; any address may be asked about. Before the
    // program initialises the driver, and where a thread may not call it, the call fails and does
    // nothing else.
    let status =
        unsafe { get_attributes(count, ATTRIBUTES.as_ptr(), results.as_ptr(), buffer.addr() as u64) };
    if status != 0 {
        return Memory::Host;
    }
    if !IS_INITIALISED.load(Ordering::Relaxed) {
        IS_INITIALISED.store(true, Ordering::Relaxed);
    }
    Memory::of_cuda(memory_type, is_managed & 1 != 0)
}

/// Looks whether the program has loaded the driver since.
#[cold]
pub fn look_for_driver() {
    let _kept = keep_thread_state();
    // An MPI may have loaded HSA where the program loads CUDA's driver later, and the program may
    // load a driver that it does not initialise.
    if !IS_INITIALISED.load(Ordering::Relaxed) {
        apart::wait();
        let is_news = may_be_there() || HAS_SEVERAL.load(Ordering::Relaxed);
        if is_news && !apart::run(look_apart) {
            HAS_LOOKED.store(false, Ordering::Relaxed);
        }
    }
    if GET_ATTRIBUTES.get().is_some() {
        world::world().into_iter().for_each(devices::look);
    }
}

/// Returns whether a driver's library was loaded since this was last called.
fn may_be_there() -> bool {
    let is_first = !HAS_LOOKED.swap(true, Ordering::Relaxed);
    let is_driver = |file: &[u8]| DRIVERS.iter().any(|name| file.starts_with(name));
    let is_listed = || find_object(|object| is_driver(object.file_name()).then_some(())).is_some();
    match mapping::look_for_new(&DRIVERS) {
        Some(has_loaded) => has_loaded || is_first && is_listed(),
        None => {
            let loaded = objects::changes().loaded;
            (LOADED.swap(loaded, Ordering::Relaxed) != loaded || is_first) && is_listed()
        }
    }
}

/// Looks for the drivers, in a thread of its own. Of several of CUDA the one that the program has
/// initialised is used, else the last.
fn look_apart() {
    let mut drivers = library::keep(|file| file.starts_with(devices::FILE));
    HAS_SEVERAL.store(drivers.len() > 1, Ordering::Relaxed);
    drivers.reverse();
    drivers.sort_by_key(|&driver| !devices::is_initialised(driver));
    // SAFETY: the function has this type in cuda.h.
    let of = |library: LoadedObject<'_>| unsafe { function(library, c"cuPointerGetAttributes") };
    match drivers.into_iter().find(|&driver| GET_ATTRIBUTES.take(driver, of).is_some()) {
        Some(driver) => {
            devices::take_driver(driver);
            cuda_events::take_driver(driver);
            HOT.ask_driver();
        }
        None if hsa::look() => HOT.ask_driver(),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys::CUmemorytype;
    use mpisee_profile::{CommId, Operation};
    use std::{ptr, slice};

    const MANAGED: u64 = 1 << 40;
    const ON_GPU: u64 = 2 << 40;
    const PINNED: u64 = 3 << 40;
    const FAILING: u64 = 4 << 40;

    /// A driver with a few allocations.
    unsafe extern "C" fn fake(
        count: c_uint,
        attributes: *const c_int,
        to: *const *mut c_void,
        at: u64,
    ) -> c_int {
        // SAFETY: there are as many.
        let (attributes, to) = unsafe {
            (slice::from_raw_parts(attributes, count as usize), slice::from_raw_parts(to, count as usize))
        };
        for (&attribute, &to) in attributes.iter().zip(to) {
            let value: c_uint = match (attribute, at) {
                (MEMORY_TYPE, MANAGED | ON_GPU | FAILING) => CUmemorytype::CU_MEMORYTYPE_DEVICE as c_uint,
                (MEMORY_TYPE, PINNED) => CUmemorytype::CU_MEMORYTYPE_HOST as c_uint,
                (IS_MANAGED, MANAGED) => 1,
                (MEMORY_TYPE | IS_MANAGED, _) => 0,
                _ => panic!("{attribute}"),
            };
            // SAFETY: there is room for a number, and for the thread's errno.
            unsafe {
                to.cast::<c_uint>().write(value);
                *libc::__errno_location() = libc::EDOM;
            }
        }
        c_int::from(at == FAILING)
    }

    fn memory_for(operation: Operation) -> Memory {
        take_memory(
            || active_call::pack(active_call::CurrentFunction::Operation(operation), CommId::NONE),
            0,
            0,
        )
    }

    fn of_send() -> Memory {
        memory_for(Operation::Send)
    }

    #[test]
    fn the_kind_farthest_from_the_host_is_that_of_the_call() {
        assert_eq!(kind_of(ptr::without_provenance(ON_GPU as usize)), Memory::Host, "without a driver");
        GET_ATTRIBUTES.replace(fake);
        HOT.ask_driver();
        let at = |address: u64| ptr::without_provenance::<c_void>(address as usize);
        let cases = [
            ([ON_GPU, PINNED], Memory::Device),
            ([PINNED, MANAGED], Memory::Managed),
            ([MANAGED, ON_GPU], Memory::Device),
            ([0, PINNED], Memory::Pinned),
            ([FAILING, 0x1000], Memory::Host),
            ([IN_PLACE.addr() as u64, 1 << 50], Memory::Host),
        ];
        for (buffers, kind) in cases {
            note_known(buffers.map(at).map(kind_of).into_iter());
            assert_eq!(of_send(), kind, "{buffers:x?}");
        }
        note_known([kind_of(at(ON_GPU))].into_iter());
        assert_eq!(
            (of_send(), memory_for(Operation::Wait), memory_for(Operation::Startall)),
            (Memory::Device, Memory::Host, Memory::Device)
        );
        note_known([].into_iter());
        assert_eq!(of_send(), Memory::Host);
        let all =
            [(Used::Sent, Memory::Device), (Used::Received, Memory::Pinned), (Used::Neither, Memory::Host)];
        // SAFETY: it is the thread's errno.
        let errno = unsafe { &mut *libc::__errno_location() };
        for (used, kind) in all {
            *errno = 0;
            note(&[at(ON_GPU), at(PINNED)]);
            assert_eq!(of_send(), Memory::Device);
            leave_unused(used);
            assert_eq!((of_send(), *errno), (kind, 0), "{used:?}");
            note(&[at(MANAGED)]);
            leave_unused(used);
            let of_one = if used == Used::Neither { Memory::Host } else { Memory::Managed };
            assert_eq!(of_send(), of_one, "{used:?}");
        }
        HOT.set_region(mpisee_profile::RegionId::new(5));
        assert!(HOT.asks_driver());
        assert_eq!(HOT.region(), mpisee_profile::RegionId::new(5));
        HOT.set_region(mpisee_profile::RegionId::OUTSIDE);
    }
}
