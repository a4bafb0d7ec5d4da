//! Calls that reach the library through the MPI's own Fortran bindings: in MPICH and its
//! descendants `mpi_send_` calls `MPI_Send`.
//!
//! The place in the program is then what the binding returns to. A binding has one call to the
//! function in C, at which its frame has one size: the unwinder finds it at the first call, and
//! from then on the place is a sum.

use crate::binaries::mapping::{self, Mapping};
use crate::binaries::objects::{self, Object};
use crate::binaries::unwinder::{Unwinder, may_be_return};
use crate::state::world;
use crate::storage::clock;
use crate::storage::frame::ExportFrame;
use crate::storage::patience::PatientMutex;
use crate::storage::table::Table;
use mpisee_in_process::symbols::{is_mpich_fortran_bindings, keep_loaded};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bindings of the program's MPI.
pub static BINDINGS: Bindings = Bindings {
    place: OnceLock::new(),
    came_at: AtomicU64::new(0),
    distances: Table::new(),
    unwinder: PatientMutex::new(None),
};

/// Functions of the bindings at most between the program and the library.
const MOST_BINDING_FRAMES: usize = 4;
/// In place of a distance that is not known.
const UNKNOWN: u32 = u32::MAX;

pub struct Bindings {
    place: OnceLock<LoadedRange>,
    /// The clock's ticks when they came late; 0 if they did not.
    came_at: AtomicU64,
    /// By the address to which the library returns, the bytes from the stack pointer there to the
    /// address to which the binding returns.
    distances: Table<u32>,
    unwinder: PatientMutex<Option<Unwinder>>,
}

/// Where they are.
struct LoadedRange {
    range: Range<usize>,
    /// By which it is noticed that they were unloaded; `None` if they are kept loaded.
    mapping: Option<Mapping>,
}

impl Bindings {
    /// Finds them among the libraries that are loaded, and keeps them loaded; false if there are
    /// none.
    pub fn find(&self) -> bool {
        let Some(object) = objects::named(is_bindings) else { return false };
        keep_loaded(object.range.start)
            && self.place.set(LoadedRange { range: object.range, mapping: None }).is_ok()
    }

    /// Notes the bindings if an object is them, which the program loaded after MPI had begun, as
    /// with a module of Python that is written in Fortran; true the first time.
    ///
    /// Such bindings are not kept loaded: that takes the loader's lock, and this is found in a
    /// call.
    pub fn note_late(&self, object: &Object) -> bool {
        let Some(mapping) = mapping::at(object.range.start).filter(|_| is_bindings(&object.name)) else {
            return false;
        };
        let is_first =
            self.place.set(LoadedRange { range: object.range.clone(), mapping: Some(mapping) }).is_ok();
        if is_first {
            self.came_at.store(clock::ticks().get(), Ordering::Relaxed);
        }
        is_first
    }

    /// Returns whether they came after that moment: a call that began before is counted at its
    /// place in them.
    pub fn came_after(&self, moment: u64) -> bool {
        self.came_at.load(Ordering::Relaxed) > moment
    }

    /// Lets several threads use the table (`MPI_THREAD_MULTIPLE`).
    pub fn share(&self) {
        self.distances.share();
    }

    /// Returns whether an address is in their code.
    pub fn contain(&self, address: usize) -> bool {
        self.place.get().is_some_and(|LoadedRange { range, mapping }| {
            range.contains(&address)
                && mapping.as_ref().is_none_or(|mapping| mapping::at(address).as_ref() == Some(mapping))
        })
    }

    /// The address in the program to which a call returns. Where the frame of a binding is not
    /// understood it is that in the binding.
    pub fn caller_outside(&self, frame: &ExportFrame) -> u64 {
        let mut outer = *frame;
        for _ in 0..MOST_BINDING_FRAMES {
            if !self.contain(outer.returns_to as usize) {
                return outer.returns_to;
            }
            let Some(distance) = self.distance(&outer) else { break };
            let slot = outer.stack + u64::from(distance);
            let Some(returns_to) = self.return_address(slot) else { break };
            // The unwinder needs the frame pointer of no binding, as sizes of their frames are
            // known from the stack pointer.
            outer = ExportFrame { returns_to, stack: slot + 8, ..outer };
        }
        frame.returns_to
    }

    /// The address to which a binding returns, from where its frame has it.
    fn return_address(&self, slot: u64) -> Option<u64> {
        if self.place.get().is_some_and(|place| place.mapping.is_none()) {
            // SAFETY: the frame of the binding is on the stack. Its size was found at another call,
            // but does not depend on that: it is counted from the stack pointer by the unwind rules
            // of the same return address, in code that is kept loaded (see `LoadedRange::mapping`).
            return Some(unsafe { (slot as usize as *const u64).read() });
        }
        // Bindings that came late may have been unloaded since, and another library be where they
        // were, with frames of other sizes.
        let mut word = [0; size_of::<u64>()];
        let is_read = mapping::read_memory(slot as usize, &mut word) == word.len();
        Some(u64::from_ne_bytes(word)).filter(|&address| is_read && may_be_return(address))
    }

    fn distance(&self, frame: &ExportFrame) -> Option<u32> {
        let known = self.distances.get(frame.returns_to);
        known.or_else(|| Some(self.measure(frame))).filter(|&distance| distance != UNKNOWN)
    }

    /// Asks the unwinder, and remembers the answer.
    #[cold]
    fn measure(&self, frame: &ExportFrame) -> u32 {
        let measured = world::guarded(|| {
            let mut unwinder = self.unwinder.lock()?;
            let stack = unwinder.get_or_insert_with(Unwinder::new).stack_of_caller(frame)?;
            u32::try_from(stack.checked_sub(frame.stack + 8)?).ok()
        });
        let distance = measured.flatten().unwrap_or(UNKNOWN);
        self.distances.insert(frame.returns_to, distance);
        distance
    }
}

/// Returns whether a file is the bindings of the program's MPI, if these call its functions in C by
/// their exported names.
fn is_bindings(file: &[u8]) -> bool {
    !cfg!(mpi_family = "openmpi") && is_mpich_fortran_bindings(file)
}
