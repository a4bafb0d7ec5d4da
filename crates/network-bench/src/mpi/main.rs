//! `mpisee-bench`, the program that is built once per MPI and installed as
//! `lib/mpisee/FLAVOUR/mpisee-bench`.

mod agree;
mod border;
mod collective;
mod cores;
mod gpu;
mod measure;
mod memory;
mod network;
mod place;
mod plan;
mod replay;
mod shared;
mod trial;
mod variables;
mod waiting;

use agree::{Failed, agree};
use measure::{Effort, measure};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpisee_bench::cli::{self, Cli, Command, Stop, Task};
use mpisee_bench::network::check_folder;
use mpisee_bench::output::{self, Format};
use place::Setting;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// The exit code of what cannot be measured.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        return unusable("MPI could not be initialised");
    };
    let world = universe.world();
    let ended = run(&world);
    if ended.is_ok() {
        gpu::close_nccl();
    }
    // The reason comes before any rank ends: a launcher kills the others as soon as one has failed.
    if let Err(Failed(Some(why))) = &ended {
        unusable(why);
    }
    world.barrier();
    drop(universe);
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) }
}

fn unusable(why: &str) -> ExitCode {
    let _ = std::io::stderr().write_all(format!("mpisee-bench: {why}\n").as_bytes());
    ExitCode::from(UNUSABLE)
}

fn run(world: &SimpleCommunicator) -> Result<(), Failed> {
    let parsed = cli::parse(std::env::args_os()).map_err(|stop| match stop {
        Stop::Text(text) | Stop::Usage(text) => text,
    });
    let Cli { task, settings } = agree(world, parsed)?;
    let effort = Effort::from_settings(&settings);
    let setting = Setting::from_world(world);
    let command = match task {
        Task::Like(profile) => return replay::measure(world, &setting, &settings, &profile, effort),
        Task::Measure(Command::Network(with)) => {
            return network::measure(world, &setting, &settings, with.backend, effort);
        }
        Task::Tune(_) => {
            let what = "tune is not to be started by a launcher, but to be given one".to_owned();
            return Err(agree::<()>(world, Err(what)).err().unwrap_or(Failed(None)));
        }
        Task::Measure(Command::Trial { trial, report }) => {
            return trial::run(world, &setting, &trial, &report, effort);
        }
        Task::Measure(command) => command,
    };
    let ranks = world.size() as u32;
    if let Some(output) = &settings.output {
        agree(world, check_folder(output))?;
    }
    let patterns = agree(world, command.patterns(ranks))?;
    if settings.format_of_output() == Format::Table && settings.output.is_none() && world.rank() == 0 {
        println!("{}", setting.text());
    }
    let mut all = Vec::new();
    for named in &patterns {
        let mut before = None;
        for &bytes in &settings.sizes.0 {
            let pattern = agree(world, named.pattern(bytes, ranks))?;
            // A pattern that does not depend on the size is measured once.
            if before.as_ref() != Some(&pattern) {
                // A barrier has no size.
                let size = if pattern.moved() == 0 { 0 } else { bytes };
                all.push(measure(world, &named.name, size, &pattern, effort)?);
                before = Some(pattern);
            }
        }
    }
    let written = if world.rank() == 0 {
        write(&output::text(&all, settings.format_of_output()), settings.output.as_deref())
    } else {
        Ok(())
    };
    agree(world, written)
}

/// Writes results to a file, or to standard output.
fn write(text: &str, output: Option<&Path>) -> Result<(), String> {
    match output {
        Some(path) => std::fs::write(path, text).map_err(|why| format!("writing {}: {why}", path.display())),
        None => {
            std::io::stdout().write_all(text.as_bytes()).map_err(|why| format!("writing the results: {why}"))
        }
    }
}
