//! How a rank waits for what MPI does not complete.

use super::border::done;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::pattern::{Pattern, Step};
use std::os::raw::c_int;

/// Looks at what is waited for, before a rank gives its core to others.
const POLLS: u32 = 1000;
/// A tag that no message has.
const NEVER_SENT: c_int = 32_000;

/// Waits by looking, and lets MPI progress messages of other steps meanwhile.
pub struct Waiting {
    comm: ffi::MPI_Comm,
    /// True if another rank may be in MPI and need this one to be there too, for another step.
    is_mixed: bool,
}

impl Waiting {
    /// For the steps of a pattern.
    pub fn new(world: &SimpleCommunicator, pattern: &Pattern) -> Self {
        let is_mixed = pattern.steps.iter().any(Step::needs_mpi_progress);
        Waiting { comm: world.as_raw(), is_mixed }
    }

    /// Looks until it is done; calls `now_and_then` where it takes long.
    pub fn until(&self, mut is_done: impl FnMut() -> bool, now_and_then: impl Fn()) {
        let mut polls = 0;
        while !is_done() {
            polls += 1;
            if polls % POLLS != 0 {
                std::hint::spin_loop();
                continue;
            }
            if self.is_mixed {
                self.progress();
            }
            now_and_then();
            std::thread::yield_now();
        }
    }

    /// Lets MPI progress messages of other steps.
    fn progress(&self) {
        let mut flag = 0;
        // SAFETY: the communicator is of all ranks; a status is not wanted.
        done(unsafe {
            let any = ffi::RSMPI_ANY_SOURCE;
            ffi::MPI_Iprobe(any, NEVER_SENT, self.comm, &mut flag, ffi::RSMPI_STATUS_IGNORE)
        });
    }
}
