//! Datatypes that are freed.

use crate::mpi::abi::Datatype;
use crate::mpi::argument::HandlePtr;
use crate::state::datatype::FREED;
use crate::state::process;
use crate::state::world;
use mpisee_profile::segment::NotSeen;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `MPI_Type_free` (MPI 4.1, 5.1.9): other threads may be in calls that use the datatype. It counts
/// nothing.
///
/// # Safety
/// The arguments are those of the application's call, and `make` makes it.
pub unsafe fn type_free(datatype: HandlePtr<Datatype>, make: impl FnOnce() -> c_int) -> c_int {
    if FREED.is_shared() && process::is_recording() && !datatype.is_null() {
        let note = || {
            // SAFETY: the application frees a datatype.
            let datatype = unsafe { datatype.handle() };
            if world::world().is_some_and(|world| datatype != world.predefined.datatype_null) {
                // SAFETY: it is not freed yet.
                unsafe { FREED.note(datatype) };
            }
        };
        if catch_unwind(AssertUnwindSafe(note)).is_err() {
            world::not_seen(NotSeen::InternalError);
        }
    }
    make()
}
