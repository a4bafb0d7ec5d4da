//! `mpisee-bench`: becomes the program that is built for the MPI which started this process, or
//! starts runs of it (`tune`).

use mpisee_bench::cli::{self, Settings, Stop, Task};
use mpisee_bench::tune::{self, TuneArgs};
use mpisee_collect::process;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The exit code of bad usage, and where there is no program to start.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    // Every rank parses; one of each node says what is wrong.
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(Stop::Text(text)) => {
            if process::speaks() {
                let _ = io::stdout().write_all(text.as_bytes());
            }
            return ExitCode::SUCCESS;
        }
        Err(Stop::Usage(why)) => return unusable(&why),
    };
    if let Task::Tune(args) = &cli.task {
        return tune(args, &cli.settings);
    }
    match mpisee::program_for_launcher("mpisee-bench", cli.settings.flavour.as_deref()) {
        Ok(program) => {
            let why = Command::new(&program).args(std::env::args_os().skip(1)).exec();
            unusable(&format!("{} cannot be started: {why}", program.display()))
        }
        Err(why) => unusable(&why),
    }
}

/// Starts runs itself, so that it is no MPI program.
fn tune(args: &TuneArgs, settings: &Settings) -> ExitCode {
    if mpisee::is_started_by_launcher() {
        return unusable(
            "tune starts mpirun itself, and is not to be started by it: mpisee-bench tune app.mpisee -- mpirun -n 8",
        );
    }
    match tune::run(args, settings) {
        Ok(text) => {
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(why) => unusable(&why),
    }
}

/// How long a rank that says nothing stays, so that the launcher does not kill the one that speaks
/// before it has: as soon as one rank has failed it ends the others.
const SILENCE: Duration = Duration::from_millis(300);

fn unusable(why: &str) -> ExitCode {
    if process::speaks() {
        let _ = io::stderr().write_all(format!("mpisee-bench: {why}\n").as_bytes());
    } else {
        std::thread::sleep(SILENCE);
    }
    ExitCode::from(UNUSABLE)
}
