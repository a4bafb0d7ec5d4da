//! `mpisee-through`: turns a profile directory of mpisee into answers.
//!
//! One module per command under `command`; what they share lies beside it: a `view` answers for
//! profiles with rows of each rank and for those with sums over ranks; `load` and `processes` read
//! the small tables, `scan` the large ones on all cores, `group` sums them up, `beside_network`
//! compares them with a replay, `waits` joins samples of arrivals and messages, `axis` has the
//! ranks of matrices, `family` puts like communicators on one row, `filter` selects rows,
//! `several_comms` names calls that count more than once, `cores` finds ranks that had no core,
//! `useful` has what they were on a core outside of MPI, `placement` where the GPU of a rank is
//! beside its cores, `finalize` those that come last to `MPI_Finalize`, `interrupted` and
//! `left_behind` are about runs that did not end, `output`, `sheet`, `shades`, `picture` and
//! `units` format results, `next_step` names the command to type next, `nccl_times` reads how long
//! GPUs worked on calls of NCCL, `names` demangles functions, `debug_info` finds those of an
//! address, `sites` has the places in the program that call MPI, `timeline` what agents read while
//! a job ran; `signals` notes those that end a program. The crate `mpisee-collect` reads the
//! segments of running and killed programs.

mod axis;
mod beside_network;
mod cli;
mod comm_pattern;
mod command;
mod core_share;
mod cores;
mod debug_info;
mod family;
mod family_rows;
mod filter;
mod finalize;
mod gpu_record_files;
mod group;
mod interrupted;
mod left_behind;
mod line_breaks;
mod load;
mod nccl_times;
mod next_step;
mod no_match;
mod operation_sums;
mod order;
mod outcome;
mod output;
mod own_cost;
mod picture;
mod placement;
mod polls;
mod processes;
mod profile_folders;
mod run_set;
mod scan;
mod several_comms;
mod shades;
mod shape;
mod sheet;
mod short_names;
pub mod signals;
mod similar_names;
mod sites;
mod stacks;
mod statistics;
mod timeline;
mod units;
mod useful;
mod view;
mod waits;

#[doc(hidden)]
pub use waits::measured;

/// The parts that `mpisee-serve` is made of.
pub mod library {
    pub use crate::command::agent::send::is_token;
    pub use crate::command::report::html;
    pub use crate::command::serve::ServeArgs;
    pub use crate::command::summary::outline::{Outline, outline};
    pub use crate::command::top::live;
    pub use crate::output::printable;
    pub use mpisee_collect::process::raise_descriptor_limit;
}

use outcome::Outcome;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The exit code of bad usage and of a profile that cannot be read; 1 is that of
/// [`Outcome::Differs`].
const UNUSABLE: u8 = 2;

/// The program: reads the command line and says how it went.
pub fn main() -> ExitCode {
    match run(std::env::args_os()) {
        Ok(is_as_expected) => ExitCode::from(u8::from(!is_as_expected)),
        // The reader of the pipe has closed it, as `| head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if stderr is closed too.
            let _ =
                writeln!(std::io::stderr(), "mpisee-through: {}", output::printable(&format!("{error:#}")));
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Runs a command line, with output on stdout. False if a check, a comparison or an expectation
/// failed.
pub fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<bool> {
    Ok(matches!(cli::run(arguments)?, Outcome::Done))
}

/// The command line, for completions and manual pages.
pub fn command() -> clap::Command {
    cli::command()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
