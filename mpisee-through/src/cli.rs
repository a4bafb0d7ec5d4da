//! The command line: chooses the command, and reports usage errors in one sentence.

use crate::command::{
    Outcome, advise, agent, check, comms, compare_network, diff, efficiency, expect, export, gpu,
    gpu_records, import, locality, matrix, ops, paths, ranks, record, recover, regions, report, runs, serve,
    sites, sizes, summary, timeline, top, variables, waits,
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

/// Shows what an MPI program communicated, per communicator, from the profile that mpisee left.
///
/// Without a command, PROFILE is summarised: `mpisee-through app.mpisee` is
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

/// The first lines of `--help` are those of each command's arguments.
#[derive(Debug, Subcommand)]
enum Command {
    Summary(summary::SummaryArgs),
    Comms(comms::CommsArgs),
    Ops(ops::OpsArgs),
    Ranks(ranks::RanksArgs),
    Regions(regions::RegionsArgs),
    Variables(variables::VariablesArgs),
    Report(report::ReportArgs),
    Sizes(sizes::SizesArgs),
    Sites(sites::SitesArgs),
    Paths(paths::PathsArgs),
    Matrix(matrix::MatrixArgs),
    Efficiency(efficiency::EfficiencyArgs),
    Waits(waits::WaitsArgs),
    Locality(locality::LocalityArgs),
    Gpu(gpu::GpuArgs),
    GpuRecords(gpu_records::GpuRecordsArgs),
    Advise(advise::AdviseArgs),
    Diff(diff::DiffArgs),
    CompareNetwork(compare_network::CompareNetworkArgs),
    Runs(runs::RunsArgs),
    Expect(expect::ExpectArgs),
    Check(check::CheckArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Recover(recover::RecoverArgs),
    Top(top::TopArgs),
    Record(record::RecordArgs),
    Agent(agent::AgentArgs),
    Timeline(timeline::TimelineArgs),
    Serve(serve::ServeArgs),
}

const EXAMPLES: &str = "\
EXAMPLES:
  mpisee-through app.mpisee                 the run and its ten busiest communicators
  mpisee-through app.mpisee --kind p2p      point-to-point operations only
  mpisee-through comms app.mpisee           the tree of communicators
  mpisee-through ops app.mpisee             operations over all communicators
  mpisee-through sizes app.mpisee           message sizes of each operation
  mpisee-through sites app.mpisee           where in the program MPI is called, by function and line
  mpisee-through paths app.mpisee           the call paths that lead to long calls
  mpisee-through matrix app.mpisee          who sends to whom
  mpisee-through efficiency app.mpisee      how much is lost, and on which communicators
  mpisee-through waits app.mpisee           who waits for whom, in collectives and messages
  mpisee-through variables app.mpisee       what MPI's own variables counted, with mpisee --mpi-t
  mpisee-through gpu app.mpisee             GPUs: what moved between them and how, buffers, copies, NCCL
  mpisee-through advise app.mpisee          findings in plain words, and what to try
  mpisee-through report app.mpisee          one HTML file with charts of all that, to look at or to send
  mpisee-through diff a.mpisee b.mpisee     what changed between two runs
  mpisee-through compare-network app.mpisee network.json    what is waiting, what is the network
  mpisee-through runs app.runs              several runs: how far they differ, and how they scale
  mpisee-through expect app.expect app.mpisee    does it hold what is expected of it?
  mpisee-through check app.mpisee           verify that what was sent was received, and more
  mpisee-through export app.mpisee --parquet tables    the tables for pandas, DuckDB and others
  mpisee-through import app.4.9164.1.mpiP   a profile from a report of mpiP, or of the C++ mpisee
  mpisee-through recover                    profiles of programs that were killed
  mpisee-through top                        where the ranks of a running job are
  mpisee-through record off                 switch the recording of a running job off, or on
  mpisee-through agent                      read a running job in intervals, as mpisee --watch does on each node
  mpisee-through timeline app.timeline      what it read: rates over time, and phases
  mpisee-through serve                      the profiles of a folder and running jobs, in a browser
  mpisee-through summary --help             all options of a command";

/// The definition of the command line.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line, runs the command and says how it went.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Result<Outcome> {
    let arguments: Vec<OsString> = arguments.collect();
    let is_bare = arguments.len() <= 1;
    let mut definition = Cli::command();
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
    match &cli.command {
        Command::Summary(args) => summary::run(args),
        Command::Comms(args) => comms::run(args),
        Command::Ops(args) => ops::run(args),
        Command::Ranks(args) => ranks::run(args),
        Command::Regions(args) => regions::run(args),
        Command::Variables(args) => variables::run(args),
        Command::Report(args) => report::run(args),
        Command::Sizes(args) => sizes::run(args),
        Command::Sites(args) => sites::run(args),
        Command::Paths(args) => paths::run(args),
        Command::Matrix(args) => matrix::run(args),
        Command::Efficiency(args) => efficiency::run(args),
        Command::Waits(args) => waits::run(args),
        Command::Locality(args) => locality::run(args),
        Command::Gpu(args) => gpu::run(args),
        Command::GpuRecords(args) => gpu_records::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Diff(args) => diff::run(args),
        Command::CompareNetwork(args) => compare_network::run(args),
        Command::Runs(args) => runs::run(args),
        Command::Expect(args) => expect::run(args),
        Command::Check(args) => check::run(args),
        Command::Export(args) => export::run(args),
        Command::Import(args) => import::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Top(args) => top::run(args),
        Command::Record(args) => record::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Timeline(args) => timeline::run(args),
        Command::Serve(args) => serve::run(args),
    }
}

/// Puts the command first, in small letters; `summary` where none is named, so that its options work without it too.
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

/// Says which command is meant by a word that looks like one: neither an option nor a path. Before a profile it is one.
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
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("tip: to pass");
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
    fn an_unknown_command_before_a_profile_is_an_error_that_lists_the_commands() {
        let arguments = ["mpisee-through", "frobnicate", "src"].map(OsString::from);
        let error = with_command(arguments.into_iter()).unwrap_err().to_string();
        assert!(error.contains("no command 'frobnicate'; there are summary, comms"), "{error}");
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
