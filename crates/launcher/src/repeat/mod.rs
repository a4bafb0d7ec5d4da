//! `mpisee --repeat N -- COMMAND`: runs a command several times, each run with a profile of its own
//! in one folder.

mod folder;
mod place;

use crate::choose;
use crate::cli::{self, Run};
use crate::failure::{Failure, say};
use crate::launch::options;
use crate::program::Program;
use crate::signals;
use crate::standard_descriptors;
use mpisee_profile::options::SETTINGS;
use mpisee_profile::path_text::{from_text, shell_path};
use place::{Insertion, Placed, Word, name_of, place};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// The exit code where a command leaves no profile.
const NO_PROFILE: u8 = 1;
/// The number that shells add to that of a signal.
const BY_SIGNAL: i32 = 128;

/// Runs the command `times` times; the exit code is that of the first run that fails, after which
/// none is started.
pub fn repeat(run: &Run, times: u32) -> Result<ExitCode, Failure> {
    let not_repeated = |why: String| Failure::NotRepeated { why };
    let wanted = options(&run.variables);
    let words: Vec<OsString> = std::iter::once(&run.program).chain(&run.arguments).cloned().collect();
    // Found out first, so that no folder is left by a command that is refused.
    let planned = placed(&words, run, Path::new("")).map_err(not_repeated)?;
    let folder = folder::make(wanted.output.as_deref(), &name_of(&planned.program));
    let folder =
        folder.map_err(|why| not_repeated(format!("the folder for the profiles cannot be made: {why}")))?;
    let absolute = std::path::absolute(&folder).unwrap_or_else(|_| folder.clone()).join("");
    let Placed { command: words, .. } = placed(&words, run, &absolute).map_err(not_repeated)?;
    let restore = signals::left_to_child();
    let before = folder::profiles(&folder);
    let mut last = before.clone();
    for number in 1..=times {
        let mut command = command(&words, run, &absolute);
        // SAFETY: both closures make system calls only, and touch no memory that another thread may
        // hold.
        unsafe {
            command.pre_exec(signals::restorer()).pre_exec(restore).pre_exec(standard_descriptors::closer());
        }
        let status = command.status().map_err(|why| Failure::Exec { path: PathBuf::from(&words[0]), why })?;
        let now = folder::profiles(&folder);
        let is_recorded = now.len() > last.len();
        last = now;
        let so_far = last.len() - before.len();
        if let Some((how, code)) = failed(status) {
            let rest = format!("{}{}", not_started(number, times), read(&folder, so_far));
            say(&format_args!("run {number} of {times} {how}{rest}"));
            return Ok(ExitCode::from(code));
        }
        if !is_recorded {
            say(&format_args!(
                "run {number} of {times} left no profile in {}{}. Check that mpisee is before the program, \
                 and that the program ends MPI",
                folder.display(),
                not_started(number, times)
            ));
            return Ok(ExitCode::from(NO_PROFILE));
        }
    }
    if !wanted.quiet {
        let runs = if times == 1 { "1 run".to_owned() } else { format!("{times} runs") };
        say(&format_args!("{runs}{}", read(&folder, last.len() - before.len())));
    }
    Ok(ExitCode::SUCCESS)
}

/// How a run failed, and the exit code that says the same.
fn failed(status: ExitStatus) -> Option<(String, u8)> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => {
            Some((format!("ended with exit code {code}"), u8::try_from(code).unwrap_or(u8::MAX)))
        }
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            Some((
                format!("was ended by signal {signal}"),
                u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX),
            ))
        }
    }
}

fn not_started(number: u32, times: u32) -> String {
    match times - number {
        0 => String::new(),
        1 => ", so the last one is not started".to_owned(),
        left => format!(", so the other {left} are not started"),
    }
}

/// Where the profiles are, and the one command that reads them.
fn read(folder: &Path, profiles: usize) -> String {
    match profiles {
        0 => String::new(),
        _ => format!("; profiles in {}: mpisee-through runs {}", folder.display(), shell_path(folder)),
    }
}

/// The command with `mpisee` in it, and the options that the ranks are to have.
fn placed(words: &[OsString], run: &Run, folder: &Path) -> Result<Placed, String> {
    let mpisee = std::env::current_exe().map_or_else(|_| "mpisee".into(), PathBuf::into_os_string);
    let options = |inside: &[OsString]| inner_options(run, folder, inside);
    place(words, kind, &Insertion { mpisee: &mpisee, options: &options })
}

/// The kind of a word, by the file that it names.
fn kind(word: &OsStr) -> Word {
    let name = Path::new(word).file_name().and_then(OsStr::to_str);
    match name {
        Some("mpisee") => return Word::Mpisee,
        // What follows is a script, in a file or in words.
        Some("sh" | "bash" | "dash" | "ksh" | "zsh") => return Word::Script,
        _ => {}
    }
    // The launcher in the command decides whether it runs one that lies here.
    match Program::find(word, true) {
        Ok(program) if program.launcher => Word::Launcher,
        Ok(program) if choose::needs_mpi(&program.kind) => Word::MpiProgram,
        Ok(program) if program.kind == crate::program::ProgramKind::Script => Word::Script,
        _ => Word::Other,
    }
}

/// The options of the ranks' `mpisee`: the folder, silence, and what this one was given and that
/// one was not.
fn inner_options(run: &Run, folder: &Path, inside: &[OsString]) -> Result<Vec<OsString>, String> {
    let given = cli::given(inside);
    if given.contains(&"repeat") {
        return Err("--repeat goes before the whole command, once".to_owned());
    }
    if given.contains(&"output") {
        return Err(
            "the first mpisee chooses the folder of the profiles: put --output before --repeat, and not \
             inside the command"
                .to_owned(),
        );
    }
    let mut options: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: &OsStr| {
        if !given.contains(&option) {
            let mut text = OsString::from(format!("--{option}="));
            text.push(value);
            options.push(text);
        }
    };
    add("output", folder.as_os_str());
    add("quiet", OsStr::new("on"));
    for (variable, value) in &run.variables {
        let setting = SETTINGS.iter().find(|setting| setting.variable == *variable);
        match setting.map(|setting| setting.option) {
            None | Some("output" | "quiet") => {}
            Some(option) => add(option, from_text(value).as_os_str()),
        }
    }
    if let Some(flavour) = &run.flavour {
        add("flavour", OsStr::new(flavour));
    }
    Ok(options)
}

/// One run. The variables are for scripts that have `mpisee` in them, and for programs that are
/// linked with the profiler.
fn command(words: &[OsString], run: &Run, folder: &Path) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command.envs(run.variables.iter().map(|(name, value)| (name, from_text(value).into_os_string())));
    command.env("MPISEE_OUTPUT", folder).env("MPISEE_QUIET", "on");
    // Each run reads an input file from its begin, and not where the run before has stopped.
    const STDIN: &str = "/dev/stdin";
    if Path::new(STDIN).metadata().is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::open(STDIN)
    {
        command.stdin(Stdio::from(file));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variables: &[(&'static str, &str)]) -> Run {
        let variables = variables.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        Run {
            flavour: None,
            variables,
            program: OsString::new(),
            arguments: Vec::new(),
            repeat: Some(2),
            watch: false,
        }
    }

    fn inner(run: &Run, inside: &str) -> Result<Vec<OsString>, String> {
        let inside: Vec<OsString> = inside.split(' ').map(OsString::from).collect();
        inner_options(run, Path::new("/d/"), &inside)
    }

    #[test]
    fn the_options_inside_the_command_win() {
        let outer = run(&[("MPISEE_ALIKE", "7"), ("MPISEE_OUTPUT", "x"), ("MPISEE_INSTANCES", "all")]);
        assert_eq!(
            inner(&outer, "./app --output b").unwrap(),
            ["--output=/d/", "--quiet=on", "--alike=7", "--instances=all"]
        );
        assert_eq!(inner(&outer, "-q --alike 9 ./app").unwrap(), ["--output=/d/", "--instances=all"]);
    }

    #[test]
    fn an_output_inside_the_command_is_refused() {
        for inside in ["-o a ./app", "--output=a ./app"] {
            assert!(inner(&run(&[]), inside).unwrap_err().contains("put --output before --repeat"));
        }
        assert!(inner(&run(&[]), "--repeat 3 ./app").is_err());
    }

    #[test]
    fn a_failed_run_has_the_code_of_a_shell() {
        assert_eq!(failed(ExitStatus::from_raw(0)), None);
        assert_eq!(failed(ExitStatus::from_raw(7 << 8)), Some(("ended with exit code 7".to_owned(), 7)));
        assert_eq!(failed(ExitStatus::from_raw(9)), Some(("was ended by signal 9".to_owned(), 137)));
    }
}
