//! Turns this process into the program.

use crate::choose::{Facts, Message, choose, needs_mpi, note};
use crate::cli::Run;
use crate::environment::{self, Hint};
use crate::failure::Failure;
use crate::flavours::{Family, Flavour, Installation, LIBRARY};
use crate::gpu::Setup;
use crate::nccl;
use crate::preload::{can_be_preloaded, separates};
use crate::program::Program;
use crate::sanitizer::{self, Arrangement};
use crate::signals;
use crate::standard_descriptors;
use crate::standby::{Standby, Started};
use crate::watch;
use mpisee_collect::process::{self, begin_socket};
use mpisee_profile::options::{BEGIN_SOCKET, LAUNCHED, NOT_COUNTED, Nccl, Options, START_FOLDER, variables};
use mpisee_profile::path_text::from_text;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts the program in place of this process, profiled if that can be.
pub fn launch(run: Run) -> Result<Infallible, Failure> {
    let installation = Installation::find();
    let mut hint = environment::launcher();
    let is_of_open_mpi = hint.as_ref().is_some_and(|hint| hint.family == Family::OpenMpi);
    let program = Program::find(&run.program, is_of_open_mpi)?;
    // A batch system's launcher lies beside no MPI, an interpreter often does.
    hint.iter_mut().for_each(|it| it.folders.extend(program.path.parent().map(Path::to_owned)));
    installation.complaints.iter().for_each(|complaint| say(complaint));
    let options = options(&run.variables);
    without_effect(&options).iter().for_each(|sentence| say(sentence));
    let facts = facts(&installation, &run, &program, hint.as_ref(), &options);
    let chosen = choose(&facts)?;

    let mut command = Command::new(&program.path);
    command
        .arg0(&run.program)
        .args(&run.arguments)
        .envs(run.variables.iter().map(|(name, value)| (name, from_text(value).into_os_string())))
        .envs(paths_from_here(&options));
    let mut standby = None;
    match chosen {
        Ok(Flavour { profiler, .. }) if !can_be_preloaded(profiler) => say_unprofiled(&format_args!(
            "the path {} has a space or a colon, which LD_PRELOAD cannot hold, so {} runs unprofiled. \
             Install mpisee elsewhere",
            profiler.display(),
            run.program.display()
        )),
        Ok(flavour @ Flavour { profiler, .. }) => {
            note(&facts, flavour).iter().for_each(|sentence| say(sentence));
            let mut not_counted = NotCounted::default();
            if nccl::holds_back(&options, &program.kind) {
                not_counted.say("calls of RCCL are", &nccl::HELD_BACK);
            }
            let nccl = nccl::library(&installation.folder, &options, &program.kind);
            let nccl = nccl.unwrap_or_else(|why| {
                not_counted.say("calls of NCCL are", &why);
                None
            });
            let libraries: Vec<&Path> = std::iter::once(profiler.as_path()).chain(nccl.as_deref()).collect();
            preload_into(&mut command, &libraries, &Arrangement::for_program(&program.kind));
            trace_gpu(&mut command, &installation.folder, &options, &mut not_counted);
            not_counted.pass_to(&mut command);
            if run.watch
                && let Err(why) = watch::start(&run.variables)
            {
                say(&format_args!("{why}, so there is no time line; the rest is profiled"));
            }
            standby = stand_by(&mut command, &run.program, &program);
        }
        Err(reason) => say_unprofiled(&Message {
            program: &run.program,
            reason: &reason,
            installed: &installation.flavours,
            folder: &installation.folder,
        }),
    }
    // SAFETY: the closures make system calls only, and there is no other process to share memory
    // with.
    unsafe { command.pre_exec(signals::restorer()).pre_exec(standard_descriptors::closer()) };
    let why = command.exec();
    standby.iter().for_each(Standby::dismiss);
    Err(Failure::Exec { why, path: program.path })
}

/// The facts that decide which flavour fits.
pub fn facts<'a>(
    installation: &'a Installation,
    run: &'a Run,
    program: &'a Program,
    hint: Option<&'a Hint>,
    options: &Options,
) -> Facts<'a> {
    Facts {
        installed: &installation.flavours,
        wanted: run.flavour.as_deref(),
        kind: &program.kind,
        privileged: program.privileged,
        launcher: program.launcher,
        calls_launcher: program.calls_launcher.as_deref(),
        hint,
        counts_nccl: nccl::is_wanted(options, &program.kind),
    }
}

/// Leaves a standby that says at the end why there is no profile, if this process is the one of its
/// job that speaks. Without one, as where there may be no more processes, the program runs as well.
fn stand_by(command: &mut Command, name: &OsStr, program: &Program) -> Option<Standby> {
    let is_rank = process::stated_rank().is_some();
    let outer = std::env::var_os(BEGIN_SOCKET);
    let started = Started { name: name.to_owned(), needs_mpi: needs_mpi(&program.kind), is_rank, outer };
    let standby = process::speaks().then(|| Standby::leave(&started).ok())??;
    command.env(BEGIN_SOCKET, begin_socket::join(&standby.socket, started.outer.as_deref()));
    Some(standby)
}

/// The folder in which the user stands, and paths of the options from there: the program may change
/// its working directory.
fn paths_from_here(options: &Options) -> Vec<(&'static str, PathBuf)> {
    let Ok(here) = std::env::current_dir() else { return Vec::new() };
    let given = [("MPISEE_OUTPUT", &options.output), ("MPISEE_GPU_RECORDS", &options.gpu_records)];
    let absolute = given.into_iter().filter_map(|(name, path)| Some((name, here.join(path.as_ref()?))));
    let absolute: Vec<_> = absolute.collect();
    absolute.into_iter().chain([(START_FOLDER, here)]).collect()
}

/// Writes a message to stderr, if this process is the one of its node that does.
fn say(message: &dyn std::fmt::Display) {
    if process::speaks() {
        crate::failure::say(&message);
    }
}

/// As [`say`], why the program runs unprofiled: another mpisee around it need not find out.
fn say_unprofiled(why: &dyn std::fmt::Display) {
    say(why);
    if let Some(outer) = std::env::var_os(BEGIN_SOCKET).filter(|_| process::speaks()) {
        begin_socket::notify(&outer);
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Has the dynamic loader load the profiler's libraries into the program.
fn preload_into(command: &mut Command, libraries: &[&Path], arrangement: &Arrangement) {
    let inherited = |name: &str| std::env::var_os(name).unwrap_or_default();
    command.env("LD_PRELOAD", preload(libraries, arrangement, &inherited("LD_PRELOAD")));
    if *arrangement == Arrangement::Option {
        command.env(sanitizer::OPTIONS, sanitizer::options(&inherited(sanitizer::OPTIONS)));
    }
    command.env(LAUNCHED, std::process::id().to_string());
}

/// Wishes of the options that cannot be counted in this run.
#[derive(Default)]
struct NotCounted {
    sentences: Vec<String>,
}

impl NotCounted {
    /// Says why these "are", or what this "is", not counted.
    fn say(&mut self, these_are: &str, why: &dyn std::fmt::Display) {
        say(&format_args!("{why}, so {these_are} not counted; the rest is profiled"));
        self.sentences.push(format!("{these_are} not counted: {why}").replace('\n', " "));
    }

    /// Has the profiler put it into the profile.
    fn pass_to(self, command: &mut Command) {
        match self.sentences.is_empty() {
            true => command.env_remove(NOT_COUNTED),
            false => command.env(NOT_COUNTED, self.sentences.join("\n")),
        };
    }
}

/// Has CUDA's driver load the GPU tracer, if the options ask for it.
fn trace_gpu(command: &mut Command, folder: &Path, options: &Options, not_counted: &mut NotCounted) {
    let setup = Setup { folder, options, variable: &variable };
    match options.gpu.then(|| setup.prepare()) {
        None => {}
        Some(Ok(variables)) => drop(command.envs(variables)),
        Some(Err(why)) => {
            command.env("MPISEE_GPU", "off");
            not_counted.say("what GPU kernels access is", &why);
        }
    }
    match options.gpu_copies.then(|| setup.prepare_copies()) {
        None => {}
        Some(Ok(variables)) => drop(command.envs(variables)),
        Some(Err(why)) => {
            command.env("MPISEE_GPU_COPIES", "off");
            not_counted.say("copies between host and GPUs are", &why);
        }
    }
}

/// The profiler's options as the program will have them. What is wrong with them the profiler says.
pub fn options(given: &[(&'static str, String)]) -> Options {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let mut options = Options::from_environment(variables().chain(given)).0;
    // Calls that are timed are counted.
    if options.nccl_gpu_time && options.nccl == Nccl::Auto {
        options.nccl = Nccl::On;
    }
    options
}

/// Sentences on options that do nothing without another one.
fn without_effect(options: &Options) -> Vec<String> {
    let of_kernels = [
        ("--gpu-kernels", options.gpu_kernels != Options::default().gpu_kernels),
        ("--gpu-records", options.gpu_records.is_some()),
        ("--gpu-intervals", options.gpu_intervals > 1),
        ("--gpu-sample", options.gpu_sample > 1),
    ];
    let lacks_kernels = |&(_, is_set): &(&str, bool)| is_set && !options.gpu;
    let mut all: Vec<String> = of_kernels
        .into_iter()
        .filter(lacks_kernels)
        .map(|(option, _)| format!("{option} does nothing without --gpu"))
        .collect();
    if options.nccl_gpu_time && options.nccl == Nccl::Off {
        all.push("--nccl-gpu-time does nothing with --nccl off".to_owned());
    }
    all
}

/// LD_PRELOAD with the profiler before what was there, and without another profiler: with two of
/// them, every call would count twice. A sanitizer's runtime that insists on being first goes
/// before the profiler.
fn preload(libraries: &[&Path], arrangement: &Arrangement, before: &OsStr) -> OsString {
    let before = before.as_bytes().split(separates).filter(|entry| !entry.is_empty()).map(OsStr::from_bytes);
    let is_ours = |entry: &OsStr| {
        let name = Path::new(entry).file_name();
        [LIBRARY, nccl::LIBRARY].iter().any(|own| name == Some(OsStr::new(own)))
    };
    let others = before.filter(|entry| !is_ours(entry));
    let (mut first, others): (Vec<&OsStr>, Vec<&OsStr>) =
        others.partition(|entry| sanitizer::is_runtime(entry));
    if let (Arrangement::First(runtime), true) = (arrangement, first.is_empty()) {
        first.push(runtime);
    }
    let libraries = libraries.iter().map(|library| library.as_os_str());
    let entries: Vec<_> = first.into_iter().chain(libraries).chain(others).collect();
    entries.join(OsStr::new(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_option_needs_is_on_or_said() {
        let of = |given: &[(&'static str, &str)]| {
            options(&given.iter().map(|&(name, value)| (name, value.to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(of(&[("MPISEE_NCCL_GPU_TIME", "on")]).nccl, Nccl::On);
        let off = of(&[("MPISEE_NCCL_GPU_TIME", "on"), ("MPISEE_NCCL", "off")]);
        assert_eq!(without_effect(&off), ["--nccl-gpu-time does nothing with --nccl off"]);
        assert_eq!(
            without_effect(&of(&[("MPISEE_GPU_INTERVALS", "7")])),
            ["--gpu-intervals does nothing without --gpu"]
        );
        assert_eq!(
            without_effect(&of(&[("MPISEE_GPU_CUPTI", "/c"), ("MPISEE_GPU_KERNELS", "copy*")])),
            ["--gpu-kernels does nothing without --gpu"],
            "paths may be set for all programs of a machine"
        );
        let traced = of(&[("MPISEE_GPU_INTERVALS", "7"), ("MPISEE_GPU", "on")]);
        assert!(without_effect(&traced).is_empty() && without_effect(&of(&[])).is_empty());
    }

    #[test]
    fn the_profiler_goes_first_and_is_there_once() {
        let with =
            |before: &str| preload(&[Path::new("/a/libmpisee.so")], &Arrangement::None, before.as_ref());
        assert_eq!(with(""), "/a/libmpisee.so");
        assert_eq!(with("/x/libx.so liby.so"), "/a/libmpisee.so:/x/libx.so:liby.so");
        assert_eq!(with("/b/libmpisee.so:/x/libx.so"), "/a/libmpisee.so:/x/libx.so");
        let both = [Path::new("/a/libmpisee.so"), Path::new("/a/nccl/libmpisee_nccl.so")];
        let before = "/b/libmpisee_nccl.so:/x/libx.so".as_ref();
        let entries = preload(&both, &Arrangement::None, before);
        assert_eq!(entries, "/a/libmpisee.so:/a/nccl/libmpisee_nccl.so:/x/libx.so");
    }

    #[test]
    fn a_runtime_that_insists_goes_before_the_profiler_once() {
        let first = Arrangement::First("/l/libasan.so.5".into());
        let with = |arrangement, before: &str| {
            preload(&[Path::new("/a/libmpisee.so")], arrangement, before.as_ref())
        };
        assert_eq!(with(&first, "liby.so"), "/l/libasan.so.5:/a/libmpisee.so:liby.so");
        assert_eq!(with(&first, "liby.so libasan.so.5"), "libasan.so.5:/a/libmpisee.so:liby.so");
        // For an extension of Python the user preloads it.
        let none = Arrangement::None;
        assert_eq!(with(&none, "/l/libasan.so.8:liby.so"), "/l/libasan.so.8:/a/libmpisee.so:liby.so");
    }
}
