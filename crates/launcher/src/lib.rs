//! `mpisee PROGRAM`: runs a program with the profiler preloaded that fits the program's MPI.
//!
//! The launcher execs the program (same process, same descriptors), so that signals and the exit
//! code are the program's own. If the program cannot be profiled, the launcher prints the reason,
//! and the program runs anyway. With `--repeat` it stays, and runs the command of a whole job
//! several times.

mod choose;
mod cli;
mod companion;
mod descendants;
mod doctor;
mod environment;
mod failure;
mod flavours;
mod gpu;
mod launch;
mod nccl;
mod preload;
mod program;
mod repeat;
mod sanitizer;
mod signals;
mod standard_descriptors;
mod standby;
mod variables;
mod watch;

pub use companion::{is_started_by_launcher, program_for_launcher};

use cli::CommandLine;
use failure::Failure;
use std::process::ExitCode;

/// The launcher: turns into the program, or says why it cannot.
pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
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

fn run() -> Result<ExitCode, Failure> {
    match cli::parse()? {
        CommandLine::Flavours => flavours::Installation::find().list().map(|()| ExitCode::SUCCESS),
        CommandLine::Variables { flavour } => variables::list(flavour.as_deref()).map(|()| ExitCode::SUCCESS),
        CommandLine::Doctor(wanted) => doctor::doctor(&wanted),
        CommandLine::Run(run) => match run.repeat {
            Some(times) => repeat::repeat(&run, times),
            None => match launch::launch(run)? {},
        },
    }
}
