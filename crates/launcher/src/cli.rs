//! The command line.

use crate::failure::Failure;
use clap::builder::{OsStringValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use mpisee_profile::options::{ALONE, SETTINGS, Setting};
use mpisee_profile::path_text::to_text;
use std::ffi::OsString;

const ABOUT: &str = "\
Runs an MPI program under the mpisee profiler.

The program stays unchanged: mpisee preloads a library that counts what each communicator does, and
picks the library that fits the program's MPI. The run leaves a profile directory, which
mpisee-through reads.";

const EXAMPLES: &str = "\
EXAMPLES:
  Open MPI     mpirun -n 4 mpisee ./app input.dat
  MPICH        mpiexec -n 4 mpisee --output first.mpisee ./app input.dat
  Slurm        srun -n 4 mpisee ./app input.dat
  Python       mpirun -n 4 mpisee python3 app.py
  no launcher  mpisee --flavour openmpi-4.1 ./app.sh
  over time    mpirun -n 4 mpisee --watch ./app input.dat
  MPI's own    mpisee --flavour openmpi-4.1 --mpi-t list, then mpirun -n 4 mpisee --mpi-t 'pml_*' ./app input.dat
  repeated     mpisee --repeat 5 -- mpirun -n 4 mpisee ./app input.dat
  checks       mpirun -n 2 mpisee doctor ./app";

const ABOUT_DOCTOR: &str = "\
Check whether a program can be profiled here

The program does not run. Each line is a check: ok, a note if the profile will lack something, or
FAILS if there will be no profile, with what to do. Exit code 1 if a check fails. Start it by the
launcher of the program, so that each rank checks. Options are those of mpisee. `mpisee ./doctor`
runs a program of this name.";

/// A command line, parsed.
pub enum CommandLine {
    /// `--flavours`
    Flavours,
    /// `--mpi-t list`
    Variables {
        /// The name of the flavour, if it is given.
        flavour: Option<String>,
    },
    /// `doctor`
    Doctor(Doctor),
    /// To run a program.
    Run(Run),
}

/// A program to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// The name of the flavour, if it is not to be found out.
    pub flavour: Option<String>,
    /// Options of the profiler, as the environment variables that they are; paths as `to_text` has
    /// them.
    pub variables: Vec<(&'static str, String)>,
    /// The program as given.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How often the program, which then is the whole command of the job, is to run; `None`: this
    /// process becomes it.
    pub repeat: Option<u32>,
    /// True if an agent is to read the job in intervals while it runs.
    pub watch: bool,
}

/// Checks, without running anything.
pub struct Doctor {
    /// A program to check, as it would be run.
    pub run: Option<Run>,
    /// Options of the profiler, where no program is named.
    pub variables: Vec<(&'static str, String)>,
    /// True for one document in place of lines.
    pub json: bool,
}

/// Reads the command line; ends the process after `--help`.
pub fn parse() -> Result<CommandLine, Failure> {
    match command().try_get_matches() {
        Ok(matches) => wanted(&matches),
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => Err(Failure::Usage(sentence(&error))),
    }
}

/// Clap's report on one line, without the usage: each rank of a job prints it.
fn sentence(error: &clap::Error) -> String {
    let report = error.render().to_string();
    let lines = report.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    // One tip is on options for the program, which come after it; what clap ends with is said
    // below, in our words.
    let is_of_use = |line: &str| {
        !line.is_empty() && !line.starts_with("tip: to pass") && !line.starts_with("For more information")
    };
    let lines = lines.filter(|line| is_of_use(line));
    let text = lines.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
    format!("{}; --help lists the options", text.trim_start_matches("error: "))
}

/// The program and its arguments of the words that follow an `mpisee`; `None` if these are none.
pub fn program_of(words: &[OsString]) -> Option<Vec<OsString>> {
    let words = std::iter::once("mpisee".into()).chain(words.iter().cloned());
    match wanted(&command().try_get_matches_from(words).ok()?) {
        Ok(CommandLine::Run(run)) => Some(std::iter::once(run.program).chain(run.arguments).collect()),
        _ => None,
    }
}

/// The definition of the command line.
pub fn command() -> Command {
    Command::new("mpisee")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .override_usage("mpisee [OPTIONS] PROGRAM [ARGUMENTS]...\n       mpisee doctor [--json] [PROGRAM]")
        .subcommand(doctor())
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
        .max_term_width(100)
        .args(SETTINGS.iter().map(argument))
        .arg(
            Arg::new("flavour")
                .long("flavour")
                .value_name("NAME")
                .help("Profile with the library of this flavour, rather than with the one that fits"),
        )
        .arg(
            Arg::new("flavours")
                .long("flavours")
                .action(ArgAction::SetTrue)
                .help("List the flavours that are installed: one per MPI library"),
        )
        .arg(
            Arg::new("repeat")
                .long("repeat")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .help(
                    "Run a command (`mpirun -n 4 mpisee ./app`) N times, and write the profiles to PROGRAM.runs or --output DIR; \
                     a DIR that ends in / may contain profiles",
                ),
        )
        .arg(Arg::new("watch").long("watch").action(ArgAction::SetTrue).conflicts_with("repeat").help(
            "Record rates each second by one process per node, for `mpisee-through timeline PROGRAM.timeline`",
        ))
        .arg(
            Arg::new("program")
                .value_name("PROGRAM")
                .hide(true) // the usage line says it all
                .value_parser(value_parser!(OsString))
                .required_unless_present_any(["flavours", "mpi-t"])
                .num_args(1..)
                .trailing_var_arg(true),
        )
}

fn doctor() -> Command {
    Command::new("doctor")
        .about(ABOUT_DOCTOR)
        .override_usage("mpisee doctor [--json] [OPTIONS] [PROGRAM [ARGUMENTS]...]")
        .max_term_width(100)
        .args(SETTINGS.iter().map(|setting| argument(setting).hide(true)))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document"))
        .arg(
            Arg::new("flavour")
                .long("flavour")
                .value_name("NAME")
                .help("Check with the library of this flavour"),
        )
        .arg(
            Arg::new("program")
                .value_name("PROGRAM")
                .help("Program as it will be run")
                .value_parser(value_parser!(OsString))
                .num_args(1..)
                .trailing_var_arg(true),
        )
}

/// The option for a setting of the profiler.
fn argument(setting: &'static Setting) -> Arg {
    let argument = match ALONE.iter().find(|(option, _)| *option == setting.option) {
        // `--quiet ./app`: what follows is the program.
        Some(&(_, value)) => {
            Arg::new(setting.option).num_args(0..=1).require_equals(true).default_missing_value(value)
        }
        None => Arg::new(setting.option),
    };
    let argument = match setting.option {
        "output" => argument.short('o'),
        "quiet" => argument.short('q'),
        "gpu-intervals" => argument.conflicts_with_all(["gpu-sample", "gpu-records"]),
        _ => argument,
    };
    argument
        .long(setting.option)
        .value_name(setting.value)
        .help(format!("{} [default: {}; {}]", setting.help, setting.default, setting.variable))
        .value_parser(ValueParser::from(OsStringValueParser::new().try_map(move |value| {
            let text = to_text(&value);
            setting.check(&text).map(|()| text)
        })))
}

fn wanted(matches: &ArgMatches) -> Result<CommandLine, Failure> {
    if let Some(("doctor", matches)) = matches.subcommand() {
        let (variables, json) = (variables(matches), matches.get_flag("json"));
        let run = matches.contains_id("program").then(|| run(matches, variables.clone()));
        return Ok(CommandLine::Doctor(Doctor { run, variables, json }));
    }
    if matches.get_flag("flavours") {
        return Ok(CommandLine::Flavours);
    }
    let has_program = matches.contains_id("program");
    if matches.get_one::<String>("mpi-t").is_some_and(|value| value == "list") {
        let flavour = matches.get_one("flavour").cloned();
        let why = "--mpi-t list lists variables and runs no program; leave the program out, or choose variables by their names";
        return if has_program {
            Err(Failure::Usage(why.to_owned()))
        } else {
            Ok(CommandLine::Variables { flavour })
        };
    }
    if !has_program {
        return Err(Failure::Usage("no PROGRAM is given; --help lists the options".to_owned()));
    }
    let (repeat, watch) = (matches.get_one("repeat").copied(), matches.get_flag("watch"));
    Ok(CommandLine::Run(Run { repeat, watch, ..run(matches, variables(matches)) }))
}

/// The profiler's options, as the environment variables that they are.
fn variables(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let given = |setting: &Setting| matches.get_one::<String>(setting.option).cloned();
    SETTINGS.iter().filter_map(|it| Some((it.variable, given(it)?))).collect()
}

/// The program to run.
fn run(matches: &ArgMatches, variables: Vec<(&'static str, String)>) -> Run {
    let mut words = matches.get_many::<OsString>("program").unwrap_or_default().cloned();
    Run {
        flavour: matches.get_one("flavour").cloned(),
        variables,
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        repeat: None,
        watch: false,
    }
}

/// The options before the program in the arguments of `mpisee`; none if they cannot be understood.
pub fn given(arguments: &[OsString]) -> Vec<&'static str> {
    let line = std::iter::once(&OsString::from("mpisee")).chain(arguments).cloned().collect::<Vec<_>>();
    let Ok(matches) = command().try_get_matches_from(line) else { return Vec::new() };
    let own = ["flavour", "repeat"];
    let options = SETTINGS.iter().map(|setting| setting.option).chain(own);
    options.filter(|option| matches.contains_id(option)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Run, clap::Error> {
        let matches = command().try_get_matches_from([&["mpisee"], line].concat())?;
        match wanted(&matches) {
            Ok(CommandLine::Run(run)) => Ok(run),
            Ok(CommandLine::Flavours | CommandLine::Variables { .. } | CommandLine::Doctor(_)) => {
                panic!("{line:?} runs nothing")
            }
            Err(why) => panic!("{line:?}: {why}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn arguments_after_the_program_are_the_programs() {
        let run =
            read(&["--output", "a.mpisee", "./app", "--output", "b", "--help", "--", "-n", "-"]).unwrap();
        assert_eq!(run.program, "./app");
        assert_eq!(run.arguments, ["--output", "b", "--help", "--", "-n", "-"]);
        assert_eq!(run.variables, [("MPISEE_OUTPUT", "a.mpisee".to_owned())]);
    }

    #[test]
    fn every_setting_is_an_option_and_its_default_can_be_given() {
        for setting in SETTINGS {
            let run = read(&[&format!("--{}={}", setting.option, setting.default), "app"]).unwrap();
            assert_eq!(run.variables, [(setting.variable, setting.default.to_owned())]);
        }
    }

    #[test]
    fn the_most_used_options_have_letters() {
        let run = read(&["-q", "-o", "a.mpisee", "./app", "-q"]).unwrap();
        let expected = [("MPISEE_OUTPUT", "a.mpisee".to_owned()), ("MPISEE_QUIET", "on".to_owned())];
        assert_eq!(run.variables, expected);
        assert_eq!(run.arguments, ["-q"]);
        assert_eq!(read(&["--quiet", "on"]).unwrap().program, "on");
        assert!(read(&["-q", "--quiet=off", "./app"]).is_err());
    }

    #[test]
    fn a_bad_value_is_refused_with_the_reason() {
        let message = read(&["--record", "maybe", "app"]).unwrap_err().to_string();
        assert!(message.contains("'maybe' for '--record <on|off>': is neither on nor off"), "{message}");
        let message = read(&["--segments", "./here", "app"]).unwrap_err().to_string();
        assert!(message.contains("'./here' for '--segments <DIR>': is not an absolute path"), "{message}");
    }

    #[test]
    fn a_mistyped_option_is_not_taken_for_the_program() {
        let error = read(&["--ouput", "a.mpisee", "app"]).unwrap_err();
        let expected = "unexpected argument '--ouput' found; a similar argument exists: '--output'; --help lists the options";
        assert_eq!(sentence(&error), expected);
        assert!(read(&["-n", "4", "app"]).is_err());
    }

    #[test]
    fn a_command_is_repeated_with_or_without_dashes_before_it() {
        for line in [
            &["--repeat", "5", "--", "mpirun", "-n", "4", "app"][..],
            &["--repeat=5", "mpirun", "-n", "4", "app"],
        ] {
            let run = read(line).unwrap();
            assert_eq!((run.repeat, run.program), (Some(5), "mpirun".into()));
            assert_eq!(run.arguments, ["-n", "4", "app"]);
        }
        assert!(read(&["--repeat", "0", "app"]).is_err());
        assert_eq!(read(&["app", "--repeat", "5"]).unwrap().repeat, None);
    }

    #[test]
    fn a_job_is_watched_if_asked() {
        assert!(read(&["--watch", "app"]).unwrap().watch);
        assert!(!read(&["app", "--watch"]).unwrap().watch);
        assert!(read(&["--watch", "--repeat", "5", "app"]).is_err());
    }

    #[test]
    fn variables_are_listed_without_a_program() {
        let wanted =
            |line: &[&str]| wanted(&command().try_get_matches_from([&["mpisee"], line].concat()).unwrap());
        let listed = wanted(&["--mpi-t", "list", "--flavour", "mpich-4.0"]);
        assert!(matches!(listed, Ok(CommandLine::Variables { flavour: Some(name) }) if name == "mpich-4.0"));
        assert!(wanted(&["--mpi-t", "list", "app"]).is_err());
        assert!(wanted(&["--mpi-t", "pml_*"]).is_err());
        let run = read(&["--mpi-t", "pml_*,coll_*", "app"]).unwrap();
        assert_eq!(run.variables, [("MPISEE_MPI_T", "pml_*,coll_*".to_owned())]);
    }

    #[test]
    fn doctor_is_a_command_unless_it_has_a_folder_or_comes_after_dashes() {
        let wanted =
            |line: &[&str]| wanted(&command().try_get_matches_from([&["mpisee"], line].concat()).unwrap());
        assert!(matches!(
            wanted(&["doctor"]),
            Ok(CommandLine::Doctor(Doctor { run: None, json: false, .. }))
        ));
        let Ok(CommandLine::Doctor(with)) = wanted(&["doctor", "--json", "./app", "-n"]) else { panic!() };
        let Ok(CommandLine::Doctor(set)) = wanted(&["doctor", "--segments", "/tmp"]) else { panic!() };
        assert_eq!(set.variables, [("MPISEE_SEGMENTS", "/tmp".to_owned())]);
        assert!(with.json && with.run.is_some_and(|run| run.program == "./app" && run.arguments == ["-n"]));
        for line in
            [&["./doctor"][..], &["--", "doctor"], &["./app", "doctor"], &["--quiet", "app", "doctor"]]
        {
            assert!(matches!(wanted(line), Ok(CommandLine::Run(_))), "{line:?}");
        }
    }

    #[test]
    fn no_program_is_an_error() {
        let error = sentence(&read(&[]).unwrap_err());
        assert!(error.contains("not provided: <PROGRAM>...; --help") && !error.contains('\n'), "{error}");
        assert!(read(&["--flavour", "mpich-4.0"]).is_err());
    }
}
