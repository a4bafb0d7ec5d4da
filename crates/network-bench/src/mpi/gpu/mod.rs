//! GPUs: memory, streams, CUDA IPC and NCCL.
//!
//! CUDA's driver and NCCL are loaded when a pattern needs them, never else. What fails while a
//! pattern is made ready is said in a sentence that all ranks agree on; what fails in a run ends
//! the program.

mod aware;
mod driver;
mod ipc;
mod nccl;
mod nccl_steps;

pub use aware::check as check_mpi;
pub use driver::{Allocation, open};
pub use ipc::{Ipc, IpcMessages};
pub use nccl::{close as close_nccl, open as open_nccl};
pub use nccl_steps::{NcclMessages, NcclOperation};

use mpi::ffi;
use std::io::Write;
use std::time::Duration;

/// The exit code after a failure in a run.
const UNUSABLE: i32 = 2;

/// MPICH's launcher ends its processes on a node at once where a rank aborts, and may not have
/// passed on what that rank has written.
const UNTIL_PASSED_ON: Duration = Duration::from_millis(200);

/// Ends all ranks, for a reason that only this one knows: the others may be waiting for it in a
/// pattern.
fn fatal(why: &str) -> ! {
    // By one call, since other ranks may write at the same time.
    let _ = std::io::stderr().write_all(format!("mpisee-bench: {why}\n").as_bytes());
    std::thread::sleep(UNTIL_PASSED_ON);
    // SAFETY: MPI is initialised as long as patterns run.
    unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, UNUSABLE) };
    std::process::exit(UNUSABLE)
}
