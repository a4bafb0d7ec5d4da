//! `mpisee PROGRAM`: runs a program with the profiler preloaded that fits the program's MPI.
//!
//! The launcher execs the program (same process, same descriptors), so that signals and the exit code are the program's
//! own. If the program cannot be profiled, the launcher prints the reason, and the program runs anyway.

mod choose;
mod cli;
mod environment;
mod failure;
mod flavours;
mod gpu;
mod launch;
mod preload;
mod program;
mod sanitizer;
mod signals;

use cli::Wanted;
use failure::Failure;
use std::process::ExitCode;

/// The launcher: turns into the program, or says why it cannot.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            crate::failure::say(&failure);
            failure.exit_code()
        }
    }
}

/// The command line, for completions and manual pages.
pub fn command() -> clap::Command {
    cli::command()
}

fn run() -> Result<(), Failure> {
    match cli::parse()? {
        Wanted::Flavours => flavours::Installation::find().list(),
        Wanted::Run(run) => match launch::launch(run)? {},
    }
}
