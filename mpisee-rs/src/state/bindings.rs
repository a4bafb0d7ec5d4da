//! Calls that reach the library through the MPI's own Fortran bindings: in MPICH and its descendants `mpi_send_` calls `MPI_Send`.
//!
//! The place in the program is then what the binding returns to. A binding has one call to the function in C, at which its frame
//! has one size, so that the unwinder is asked once for each, and what follows is an addition.

use crate::state::objects::{self, Object};
use crate::state::unwinder::Unwinder;
use crate::state::world;
use crate::storage::frame::ExportFrame;
use crate::storage::patience::PatientMutex;
use crate::storage::table::Table;
use std::ops::Range;
use std::sync::OnceLock;

/// The bindings of the program's MPI.
pub static BINDINGS: Bindings =
    Bindings { range: OnceLock::new(), distances: Table::new(), unwinder: PatientMutex::new(None) };

/// Functions of the bindings at most between the program and the library.
const MOST_FRAMES: usize = 4;
/// In place of a distance that is not known.
const UNKNOWN: u32 = u32::MAX;

pub struct Bindings {
    /// The addresses of their code.
    range: OnceLock<Range<usize>>,
    /// By the address to which the library returns, the bytes from the stack pointer there to the address to which the binding
    /// returns.
    distances: Table<u32>,
    unwinder: PatientMutex<Option<Unwinder>>,
}

impl Bindings {
    /// Finds them among the libraries that are loaded, and keeps them loaded; false if there are none.
    pub fn find(&self) -> bool {
        let Some(object) = objects::named(is_bindings) else { return false };
        objects::keep_loaded(&object) && self.range.set(object.range).is_ok()
    }

    /// Returns whether an object is the bindings, which came after MPI had begun, as with a module of Python that is written in Fortran.
    /// They are kept loaded from then on.
    pub fn came_late(&self, object: &Object) -> bool {
        let file = object.name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        is_bindings(file) && objects::keep_loaded(object) && self.range.set(object.range.clone()).is_ok()
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.distances.share();
    }

    /// Returns whether an address is in their code.
    pub fn contain(&self, address: usize) -> bool {
        self.range.get().is_some_and(|range| range.contains(&address))
    }

    /// The address in the program to which a call returns. Where the frame of a binding is not understood it is that in the binding.
    pub fn caller_beyond(&self, frame: &ExportFrame) -> u64 {
        let mut outer = *frame;
        for _ in 0..MOST_FRAMES {
            if !self.contain(outer.returns_to as usize) {
                return outer.returns_to;
            }
            let Some(distance) = self.distance(&outer) else { break };
            let slot = outer.stack + u64::from(distance);
            // SAFETY: the unwinder has found the return address there, in a frame of this size that is on the stack; the code that
            // it asked about stays loaded, see `find`.
            let returns_to = unsafe { (slot as usize as *const u64).read() };
            // The unwinder needs the frame pointer of no binding, as sizes of their frames are known from the stack pointer.
            outer = ExportFrame { returns_to, stack: slot + 8, ..outer };
        }
        frame.returns_to
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

/// Returns whether the file is that of MPICH's bindings, or of an MPI that descends from it.
fn is_bindings(file: &[u8]) -> bool {
    [&b"libmpichfort."[..], b"libmpichf90.", b"libmpifort.", b"libmpifort_"]
        .iter()
        .any(|begin| file.starts_with(begin))
}
