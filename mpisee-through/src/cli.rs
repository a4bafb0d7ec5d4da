//! The command line: chooses the command, and reports usage errors in one sentence.

use self::groups::Group;
use crate::command::{
    Outcome, advise, agent, check, comms, compare_network, diff, efficiency, expect, export, gpu,
    gpu_records, import, locality, matrix, ops, order, paths, ranks, record, recover, regions, report, runs,
    serve, sites, sizes, summary, timeline, top, variables, waits,
};
use crate::left_behind;
use crate::output::{need_fitting_suffix, printable};
use crate::similar_names::similar;
use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

mod groups;

/// Answers questions about a profile that mpisee wrote: who communicates, how much, and who waits.
///
/// Without a command you get the summary: `mpisee-through app.mpisee` is
/// `mpisee-through summary app.mpisee`, and takes the same options.
#[derive(Debug, Parser)]
#[command(name = "mpisee-through", version, after_help = EXAMPLES)]
#[command(
    override_usage = "mpisee-through [OPTIONS] PROFILE\n       mpisee-through COMMAND [OPTIONS] PROFILE"
)]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Declares the commands by group. Each module has the arguments of its command, whose doc comment
/// is the help, and `run`.
macro_rules! commands {
    ($($topic:literal, $heading:literal: { $($name:ident($module:ident::$arguments:ident)),* $(,)? })*) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($($name($module::$arguments),)*)*
        }

        impl Command {
            fn run(&self) -> Result<Outcome> {
                match self {
                    $($(Command::$name(arguments) => $module::run(arguments),)*)*
                }
            }
        }

        /// The groups of commands, in the order of `--help`.
        const GROUPS: &[Group] = &[
            $(Group { topic: $topic, heading: $heading, size: [$(stringify!($name)),*].len() },)*
        ];
    };
}

commands! {
    "start", "Start here": {
        Summary(summary::SummaryArgs),
        Advise(advise::AdviseArgs),
        Report(report::ReportArgs),
    }
    "time", "Where the time goes": {
        Efficiency(efficiency::EfficiencyArgs),
        Waits(waits::WaitsArgs),
        Sites(sites::SitesArgs),
        Paths(paths::PathsArgs),
        Ops(ops::OpsArgs),
        Order(order::OrderArgs),
        Sizes(sizes::SizesArgs),
        Regions(regions::RegionsArgs),
        Variables(variables::VariablesArgs),
    }
    "communicators", "Ranks and communicators": {
        Comms(comms::CommsArgs),
        Ranks(ranks::RanksArgs),
        Matrix(matrix::MatrixArgs),
        Locality(locality::LocalityArgs),
    }
    "compare", "Compare": {
        Diff(diff::DiffArgs),
        Runs(runs::RunsArgs),
        CompareNetwork(compare_network::CompareNetworkArgs),
        Expect(expect::ExpectArgs),
    }
    "jobs", "Running and crashed jobs": {
        Top(top::TopArgs),
        Record(record::RecordArgs),
        Agent(agent::AgentArgs),
        Timeline(timeline::TimelineArgs),
        Serve(serve::ServeArgs),
        Recover(recover::RecoverArgs),
    }
    "gpus", "GPUs": {
        Gpu(gpu::GpuArgs),
        GpuRecords(gpu_records::GpuRecordsArgs),
    }
    "files", "Files": {
        Check(check::CheckArgs),
        Export(export::ExportArgs),
        Import(import::ImportArgs),
    }
}

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through app.mpisee               the run, and its busiest communicators
  mpisee-through advise app.mpisee        what to look at first
  mpisee-through waits app.mpisee         which rank is late
  mpisee-through sites app.mpisee         from which line
  mpisee-through diff a.mpisee b.mpisee   whether a change helped

`mpisee-through help TOPIC` shows a command, or one of these groups:
start, time, communicators, compare, jobs, gpus, files.";

/// The definition of the command line.
pub fn command() -> clap::Command {
    let definition = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        groups::list(&definition, GROUPS)
    );
    definition.help_template(template)
}

/// Parses the command line, runs the command and says how it went.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<Outcome> {
    let arguments: Vec<OsString> = arguments.collect();
    let is_bare = arguments.len() <= 1;
    if let Some(group) = groups::topic(&arguments, GROUPS) {
        write!(std::io::stdout(), "{}", groups::explain(&Cli::command(), GROUPS, group))?;
        return Ok(Outcome::Done);
    }
    let mut definition = command();
    let cli = match definition.try_get_matches_from_mut(with_command(arguments.into_iter())?) {
        Ok(matches) => {
            if let Some((command, arguments)) = matches.subcommand() {
                need_fitting_suffix(&definition, command, arguments)?;
            }
            Cli::from_arg_matches(&matches)?
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            error.print()?;
            if is_bare && let Some(hint) = left_behind::of_any(None) {
                writeln!(std::io::stdout(), "\nENDED RUNS:\n  {}", printable(&hint))?;
            }
            return Ok(Outcome::Done);
        }
        Err(error) => match left_behind::of_any(None).filter(|_| lacks_profile(&error)) {
            Some(hint) => bail!("{}; {hint}", sentence(&error)),
            None => bail!(sentence(&error)),
        },
    };
    cli.command.run()
}

/// Puts the command first, in small letters; `summary` where none is named, so that its options
/// work without it too.
fn with_command(arguments: impl Iterator<Item = OsString>) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let Some(first) = arguments.get(1).cloned() else {
        arguments.push("--help".into());
        return Ok(arguments);
    };
    if ["-h", "--help", "-V", "--version"].iter().any(|&alone| first == alone) {
        return Ok(arguments);
    }
    if let Some(command) = command_called(&first) {
        arguments[1] = command.into();
    } else if first == "help" && !is_a_path(&first) {
        // `help advise` is `advise --help`.
        arguments.remove(1);
        let command = arguments.get(1).and_then(|word| command_called(word));
        arguments.truncate(1);
        arguments.extend(command.map(OsString::from));
        arguments.push("--help".into());
    } else if let Some(command) =
        arguments.get(2).filter(|_| is_a_path(&first)).and_then(|it| command_called(it))
    {
        // `app.mpisee advise`
        arguments.remove(2);
        arguments.insert(1, command.into());
    } else {
        need_profile(&first, arguments.get(2))?;
        arguments.insert(1, "summary".into());
    }
    Ok(arguments)
}

/// The command of that name, in capitals or not.
fn command_called(word: &OsStr) -> Option<String> {
    let name = word.to_str()?.to_lowercase();
    Cli::command().get_subcommands().any(|command| command.get_name() == name).then_some(name)
}

fn is_a_path(word: &OsStr) -> bool {
    Path::new(word).exists()
}

/// Says which command is meant by a word that looks like one: neither an option nor a path. Before
/// a profile it is one.
fn need_profile(word: &OsStr, next: Option<&OsString>) -> Result<()> {
    let Some(text) = word.to_str() else { return Ok(()) };
    const FEWEST_LETTERS: usize = 3;
    if text.starts_with('-')
        || text.contains(['/', '.'])
        || text.chars().count() < FEWEST_LETTERS
        || is_a_path(word)
    {
        return Ok(());
    }
    let command = Cli::command();
    let names = || command.get_subcommands().map(|command| command.get_name());
    match similar(text, names()).first() {
        Some(meant) => {
            bail!("there is no command '{text}', and no profile of that name; did you mean '{meant}'?")
        }
        None if next.is_some_and(|next| is_a_path(next)) => {
            let known: Vec<&str> = names().collect();
            bail!("there is no command '{text}'; there are {}", known.join(", "))
        }
        None => Ok(()),
    }
}

/// Returns whether no profile was named.
fn lacks_profile(error: &clap::Error) -> bool {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(arguments)) => {
            arguments.iter().any(|argument| argument.contains("PROFILE"))
        }
        _ => false,
    };
    error.kind() == ErrorKind::MissingRequiredArgument && missing
}

/// Clap's report on one line, without the usage.
fn sentence(error: &clap::Error) -> String {
    let report = error.render().to_string();
    let mut sentence = String::new();
    let is_no_help = |line: &str| {
        line.starts_with("tip: to pass") || line.starts_with("tip: a similar") && !has_similar(error)
    };
    let is_said = |line: &&str| !line.is_empty() && !is_no_help(line);
    for line in report.lines().map(str::trim).filter(is_said) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let separator = match line {
            _ if sentence.is_empty() => "",
            _ if line.starts_with("tip:") => "; ",
            _ => " ",
        };
        sentence.push_str(separator);
        sentence.push_str(line.trim_start_matches("error: ").trim_start_matches("tip: "));
    }
    if is_grouping(error) {
        sentence += "; mpisee-through sites shows the calls of each place in the program";
    }
    sentence + "; --help lists the options"
}

/// Returns whether the option that clap suggests is like the unknown one: clap takes `--output` for
/// `--top`.
fn has_similar(error: &clap::Error) -> bool {
    match (error.get(ContextKind::InvalidArg), error.get(ContextKind::SuggestedArg)) {
        (Some(ContextValue::String(given)), Some(ContextValue::String(known))) => {
            !similar(given.trim_start_matches('-'), [known.trim_start_matches('-')]).is_empty()
        }
        _ => true,
    }
}

/// Returns whether rows are to be grouped by `--by`, which few commands have.
fn is_grouping(error: &clap::Error) -> bool {
    let unknown = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::UnknownArgument
        && matches!(unknown, Some(ContextValue::String(argument)) if argument == "--by")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(arguments: &[&str]) -> Vec<String> {
        let given = std::iter::once("mpisee-through").chain(arguments.iter().copied()).map(OsString::from);
        with_command(given)
            .unwrap()
            .into_iter()
            .skip(1)
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    #[test]
    fn clap_accepts_the_declarations() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_profile_alone_is_summarised() {
        assert_eq!(completed(&["app.mpisee"]), ["summary", "app.mpisee"]);
        assert_eq!(completed(&["--all", "app.mpisee"]), ["summary", "--all", "app.mpisee"]);
        assert_eq!(completed(&["comms", "app.mpisee"]), ["comms", "app.mpisee"]);
        assert_eq!(completed(&["--version"]), ["--version"]);
        assert_eq!(completed(&["Comms", "app.mpisee"]), ["comms", "app.mpisee"]);
        assert_eq!(
            completed(&["src", "advise", "--all"]),
            ["advise", "src", "--all"],
            "a path and a command"
        );
        assert_eq!(completed(&[]), ["--help"]);
        assert_eq!(completed(&["help"]), ["--help"]);
        assert_eq!(completed(&["help", "Advise"]), ["advise", "--help"]);
    }

    #[test]
    fn options_are_suggested_that_are_like_the_unknown_one() {
        let said = |option: &str| {
            let arguments = ["mpisee-through", "advise", "app.mpisee", option, "3"];
            sentence(&command().try_get_matches_from(arguments).unwrap_err())
        };
        assert_eq!(said("--top"), "unexpected argument '--top' found; --help lists the options");
        let ouput = "unexpected argument '--ouput' found; a similar argument exists: '--output'; --help lists the options";
        assert_eq!(said("--ouput"), ouput);
    }

    #[test]
    fn an_unknown_command_before_a_profile_is_an_error_that_lists_the_commands() {
        let arguments = ["mpisee-through", "frobnicate", "src"].map(OsString::from);
        let error = with_command(arguments.into_iter()).unwrap_err().to_string();
        assert!(error.contains("no command 'frobnicate'; there are summary, advise"), "{error}");
    }

    #[test]
    fn usage_errors_are_one_line() {
        for wrong in
            [&["app.mpisee", "--tpo", "3"][..], &["summary"], &["comms", "a", "b"], &["a", "--sort", "x"]]
        {
            let error = run(completed(wrong)
                .iter()
                .fold(vec!["mpisee-through".into()], |mut all, next| {
                    all.push(OsString::from(next));
                    all
                })
                .into_iter())
            .unwrap_err()
            .to_string();
            // What ended runs have left on this node comes after that.
            assert!(!error.contains('\n') && error.contains("; --help lists the options"), "{error}");
        }
    }
}
