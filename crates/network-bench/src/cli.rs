//! The command line, which the starter and the program for each MPI share.

use crate::backend::Backend;
use crate::builtin::{Around, Builtin, Direction, Exchange, Groups, grid};
use crate::collective::Collective;
use crate::language::Program;
use crate::pattern::Pattern;
use crate::tune::TuneArgs;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use mpisee_profile::RankSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod settings;

pub use settings::Settings;

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 2 mpisee-bench p2p                           a message there and back, by size
  mpirun -n 2 mpisee-bench p2p --exchange uni            a stream of messages one way
  mpirun -n 16 mpisee-bench rail --group-size 8 --active 1 --sizes 16M --direction bi
                                                         one rank of each of two nodes, both ways
  mpirun -n 64 mpisee-bench halo --dims 8x8 --backend persistent
  mpirun -n 16 mpisee-bench collective allreduce --members 0-7 --members 8-15
                                                         two communicators at the same time
  mpirun -n 4 mpisee-bench ring --memory device          between GPUs, by a GPU-aware MPI
  mpirun -n 4 mpisee-bench stripe --within ipc --backend nccl --sizes 1G
                                                         CUDA IPC within nodes, NCCL between them
  mpirun -n 8 mpisee-bench run stripe.pattern --set g=4  from a file (docs/reference/patterns.md)
  mpirun -n 8 mpisee-bench network                       latency and bandwidth, in network.json
  mpirun -n 8 mpisee-bench --like app.mpisee             a program's communication alone
  mpisee-bench tune app.mpisee -- mpirun -n 8            better algorithms for this program";

const TUNE_EXAMPLES: &str = "\
EXAMPLES:
  mpisee-bench tune app.mpisee -- mpirun -n 16           tries the algorithms, writes app.tuned.env
  mpisee-bench tune app.mpisee --program 'mpirun -n 16 ./app' -- mpirun -n 16
                                                         runs the program without and with them, too
  . ./app.tuned.env; mpirun -n 16 ./app                    uses them";

/// Measures the network as MPI programs use it: patterns, collectives, or the communication of a
/// profile.
#[derive(Debug, Parser)]
#[command(name = "mpisee-bench", version, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(
    override_usage = "mpirun … mpisee-bench COMMAND [OPTIONS]\n       mpirun … mpisee-bench --like PROFILE [OPTIONS]\n       \
                      mpisee-bench tune PROFILE [OPTIONS] -- mpirun …"
)]
struct Line {
    #[command(subcommand)]
    command: Option<Command>,

    /// Replay the communication of this profile without its computation, and write network.json
    #[arg(long, value_name = "PROFILE")]
    like: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

/// The command line.
#[derive(Debug)]
pub struct Cli {
    /// The task of this run.
    pub task: Task,
    /// How to measure and show it.
    pub settings: Settings,
}

/// A task.
#[derive(Debug)]
pub enum Task {
    /// Measure a pattern, or models.
    Measure(Command),
    /// Replay a profile.
    Like(PathBuf),
    /// Choose algorithms, in runs that the starter starts.
    Tune(TuneArgs),
}

/// The backend and memory of messages.
#[derive(Clone, Copy, Debug, Args)]
pub struct With {
    /// Backend of the messages
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Backend::Isend)]
    pub backend: Backend,
}

/// Groups of consecutive ranks, such as nodes.
#[derive(Clone, Debug, Args)]
pub struct GroupArgs {
    /// Number of groups, n
    #[arg(long, value_name = "N", default_value_t = 2)]
    groups: u32,

    /// Ranks per group, g (default: all ranks, evenly)
    #[arg(long, value_name = "N")]
    group_size: Option<u32>,

    /// Active ranks per group, k (default: all); each number of a list, such as 1-4,8, is a
    /// measurement
    #[arg(long, value_name = "N")]
    active: Option<RankSet>,

    /// Directions between groups; each of a list, such as uni,bi, is a measurement
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uni")]
    direction: Vec<Direction>,

    #[command(flatten)]
    with: With,
}

impl GroupArgs {
    /// The patterns of a name: one for each number of active ranks in each direction.
    fn patterns(&self, name: &str, ranks: u32, of: fn(Groups, Direction) -> Builtin) -> Vec<Named> {
        let size = self.group_size.unwrap_or(ranks / self.groups.max(1));
        // Of more numbers than a group has ranks, one is refused.
        let some = |set: &RankSet| set.iter().take(size as usize + 1).collect();
        let active: Vec<u32> = self.active.as_ref().map_or_else(|| vec![size], some);
        let mut patterns = Vec::new();
        for &direction in &self.direction {
            for &active_ranks in &active {
                let mut name = name.to_owned();
                if self.direction.len() > 1 {
                    name += &format!(" {direction}");
                }
                if active.len() > 1 {
                    name += &format!(" k={active_ranks}");
                }
                let groups = Groups { count: self.groups, size, active: active_ranks };
                patterns
                    .push(Named { name, source: Source::Builtin(of(groups, direction), self.with.backend) });
            }
        }
        patterns
    }
}

/// A library that has collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Library {
    /// The MPI
    Mpi,
    /// NCCL, between GPUs
    Nccl,
}

/// A measurement.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Two ranks: a message there and back, or streams of messages
    P2p {
        /// The two ranks
        #[arg(long, value_name = "A,B", default_value = "0,1", value_parser = pair)]
        ranks: [u32; 2],
        /// Kind of exchange
        #[arg(long, value_enum, default_value_t = Exchange::PingPong)]
        exchange: Exchange,
        /// Messages per window of a stream
        #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
        window: u32,
        /// The backend of the messages.
        #[command(flatten)]
        with: With,
    },
    /// Each active rank of a group with the rank at its position in another group
    Rail(GroupArgs),
    /// Active ranks of the first group to all ranks of the second (CommBench's asymmetric pattern)
    Fan(GroupArgs),
    /// Active ranks of a group to active ranks of another (CommBench's symmetric pattern)
    Dense(GroupArgs),
    /// Each rank to the next
    Ring {
        /// Directions of the messages
        #[arg(long, value_enum, default_value_t = Around::Uni)]
        direction: Around,
        /// The backend of the messages.
        #[command(flatten)]
        with: With,
    },
    /// Each rank of a grid to its neighbours
    Halo {
        /// Ranks along one to three dimensions, such as 4x2 (default: an even grid of --ndims)
        #[arg(long, value_name = "AxBxC", value_parser = dimensions)]
        dims: Option<Dimensions>,
        /// Number of dimensions
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3))]
        ndims: u32,
        /// Make the ends of each dimension neighbours
        #[arg(long)]
        periodic: bool,
        /// The backend of the messages.
        #[command(flatten)]
        with: With,
    },
    /// Each rank to all others, by messages
    AllToAll(With),
    /// From rank 0 to all, along a binomial tree
    Tree(With),
    /// From one rank of a group to one of the next, split over all ranks of both, in three steps
    Stripe {
        /// Ranks per group (default: half of all)
        #[arg(long, value_name = "N")]
        group_size: Option<u32>,
        /// Backend of the steps within groups (default: --backend, which is for the step between
        /// groups)
        #[arg(long, value_name = "NAME", value_enum)]
        within: Option<Backend>,
        /// The backend of the messages.
        #[command(flatten)]
        with: With,
    },
    /// Blocking collective of MPI or NCCL
    Collective {
        /// Operation: allreduce, alltoallv and others, or all
        #[arg(value_name = "OPERATION")]
        name: String,
        /// Ranks of a communicator, such as 0-3,8 (default: all); repeat it for several
        /// communicators at once
        #[arg(long, value_name = "RANKS")]
        members: Vec<RankSet>,
        /// Position of the root among the members
        #[arg(long, value_name = "N", default_value_t = 0)]
        root: u32,
        /// Library of the collective
        #[arg(long, value_name = "NAME", value_enum, default_value_t = Library::Mpi)]
        backend: Library,
    },
    /// Patterns from files
    Run {
        /// Pattern files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Value for a `let` of the patterns; repeatable
        #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
        set: Vec<(String, i64)>,
    },
    /// Models of latency and bandwidth by message size, for each class of pairs of ranks
    Network(With),
    /// Choose the MPI's algorithms for the costliest collectives of a profile
    ///
    /// Replays the collectives under each algorithm of the MPI, in runs that it starts itself.
    /// Start it without mpirun, and give the launcher behind `--`. A choice is kept if fresh pairs
    /// of runs confirm it: the 95 % interval of the difference excludes zero.
    ///
    /// The file app.tuned.env has variables for the shell. If variables are not enough,
    /// app.tuned.rules has rules for Open MPI, or selections for MPICH. See docs/how-to/network.md.
    #[command(override_usage = "mpisee-bench tune PROFILE [OPTIONS] -- mpirun …", after_help = TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// One run of tune.
    #[command(hide = true)]
    Trial {
        /// File with the trial
        trial: PathBuf,
        /// Where the report goes
        report: PathBuf,
    },
}

/// Lengths of a grid.
#[derive(Clone, Debug)]
pub struct Dimensions(Vec<u32>);

/// A pattern for any size, with its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name in results.
    pub name: String,
    /// Where the pattern comes from.
    pub source: Source,
}

/// Where a pattern comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is built in.
    Builtin(Builtin, Backend),
    /// It is in a file.
    File {
        /// The file.
        path: PathBuf,
        /// Its contents.
        program: Program,
        /// Values in place of those that it has.
        settings: Vec<(String, i64)>,
    },
}

impl Named {
    /// The pattern for messages of `bytes` on `ranks` ranks; checked.
    pub fn pattern(&self, bytes: u64, ranks: u32) -> Result<Pattern, String> {
        match &self.source {
            Source::Builtin(builtin, backend) => {
                let pattern = builtin.pattern(bytes, ranks, *backend)?;
                pattern.check(ranks).map_err(|fault| fault.what)?;
                Ok(pattern)
            }
            Source::File { path, program, settings } => program
                .pattern(bytes, ranks, settings)
                .map_err(|mistake| format!("{}: {mistake}", path.display())),
        }
    }
}

impl Command {
    /// The patterns to measure on `ranks` ranks; none where something else is asked for.
    pub fn patterns(&self, ranks: u32) -> Result<Vec<Named>, String> {
        let one = |name: &str, builtin, with: &With| {
            let source = Source::Builtin(builtin, with.backend);
            Ok(vec![Named { name: name.to_owned(), source }])
        };
        match self {
            Command::P2p { ranks, exchange, window, with } => {
                let name = match exchange {
                    Exchange::PingPong => "ping-pong",
                    Exchange::Uni => "stream",
                    Exchange::Bi => "stream-both-ways",
                };
                let builtin = Builtin::PointToPoint { ranks: *ranks, exchange: *exchange, window: *window };
                one(name, builtin, with)
            }
            Command::Rail(args) => Ok(args.patterns("rail", ranks, Builtin::Rail)),
            Command::Fan(args) => Ok(args.patterns("fan", ranks, Builtin::Fan)),
            Command::Dense(args) => Ok(args.patterns("dense", ranks, Builtin::Dense)),
            Command::Ring { direction, with } => one("ring", Builtin::Ring(*direction), with),
            Command::Halo { dims, ndims, periodic, with } => {
                let dimensions = dims.as_ref().map_or_else(|| grid(ranks, *ndims), |dims| dims.0.clone());
                one("halo", Builtin::Halo { dimensions, periodic: *periodic }, with)
            }
            Command::AllToAll(with) => one("all-to-all", Builtin::AllToAll, with),
            Command::Tree(with) => one("tree", Builtin::Tree, with),
            Command::Stripe { group_size, within, with } => {
                let size = group_size.unwrap_or(ranks / 2);
                let within = within.unwrap_or(with.backend);
                one("stripe", Builtin::Stripe { size, within }, with)
            }
            Command::Collective { name, members, root, backend } => {
                collectives(name, members, *root, *backend, ranks)
            }
            Command::Run { files, set } => files.iter().map(|path| file(path, set)).collect(),
            Command::Network(_) | Command::Tune(_) | Command::Trial { .. } => Ok(Vec::new()),
        }
    }
}

fn collectives(
    name: &str,
    members: &[RankSet],
    root: u32,
    by: Library,
    ranks: u32,
) -> Result<Vec<Named>, String> {
    let all = match (name, by) {
        ("all", Library::Mpi) => Collective::ALL.to_vec(),
        ("all", Library::Nccl) => Collective::of_nccl().collect(),
        _ => vec![name.parse()?],
    };
    let backend = if by == Library::Nccl { Backend::Nccl } else { Backend::Isend };
    // One more than there can be shows that these are too many.
    let most = ranks as usize + 1;
    let members: Vec<Vec<u32>> = members.iter().map(|set| set.iter().take(most).collect()).collect();
    let named = |collective: Collective| Named {
        name: match by {
            Library::Mpi => collective.name(),
            Library::Nccl => collective.nccl_name().unwrap_or(collective.name()),
        }
        .to_owned(),
        source: Source::Builtin(Builtin::Collective { collective, members: members.clone(), root }, backend),
    };
    Ok(all.into_iter().map(named).collect())
}

fn file(path: &Path, settings: &[(String, i64)]) -> Result<Named, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|why| format!("the pattern file {} cannot be read: {why}", path.display()))?;
    let program = Program::parse(&text).map_err(|mistake| format!("{}: {mistake}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = Source::File { path: path.to_owned(), program, settings: settings.to_vec() };
    Ok(Named { name, source })
}

fn pair(text: &str) -> Result<[u32; 2], String> {
    let ranks = text.split_once(',').and_then(|(one, other)| Some([one.parse().ok()?, other.parse().ok()?]));
    let ranks: [u32; 2] = ranks.ok_or_else(|| format!("'{text}' is not a pair of ranks like 0,1"))?;
    if ranks[0] == ranks[1] {
        return Err(format!("the two ranks of '{text}' are one; a message to oneself crosses no network"));
    }
    Ok(ranks)
}

fn dimensions(text: &str) -> Result<Dimensions, String> {
    let lengths: Option<Vec<u32>> = text.split('x').map(|length| length.parse().ok()).collect();
    let lengths = lengths.filter(|all| all.len() <= 3 && all.iter().all(|&length| length > 0));
    lengths
        .map(Dimensions)
        .ok_or_else(|| format!("'{text}' is not a grid of one to three dimensions like 4x2"))
}

fn setting(text: &str) -> Result<(String, i64), String> {
    let wrong = || format!("'{text}' is not like g=4");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = crate::sizes::factor(&value[digits.len()..]).and_then(|it| i64::try_from(it).ok());
    let value = factor.and_then(|factor| factor.checked_mul(digits.parse().ok()?)).ok_or_else(wrong)?;
    Ok((name.to_owned(), value))
}

/// Why there is no command line to follow.
pub enum Stop {
    /// Help or a version was asked for: this text.
    Text(String),
    /// The command line is wrong, for this reason.
    Usage(String),
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    Line::command()
}

/// Reads the command line.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Cli, Stop> {
    let line = Line::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Text(error.render().to_string()),
        _ => Stop::Usage(sentence(&error)),
    })?;
    let task = match (line.command, line.like) {
        (Some(Command::Tune(args)), None) => Task::Tune(args),
        (Some(command), None) => Task::Measure(command),
        (None, Some(profile)) => Task::Like(profile),
        (None, None) => {
            let what = "there is no word that says what to measure, and no --like; --help has the patterns";
            return Err(Stop::Usage(what.to_owned()));
        }
        (Some(_), Some(_)) => {
            let what = "a pattern and --like are two tasks; give one of them";
            return Err(Stop::Usage(what.to_owned()));
        }
    };
    Ok(Cli { task, settings: line.settings })
}

/// Clap's report on one line, without the usage.
fn sentence(error: &clap::Error) -> String {
    let report = error.render().to_string();
    let lines = report.lines().map(str::trim);
    let said =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let said: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
    format!("{}; --help lists the options", said.join(" ").trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Cli, String> {
        let words = std::iter::once("mpisee-bench").chain(line.split_whitespace());
        parse(words.map(OsString::from)).map_err(|stop| match stop {
            Stop::Text(text) | Stop::Usage(text) => text,
        })
    }

    fn patterns(line: &str, ranks: u32) -> Result<Vec<Named>, String> {
        match parsed(line)?.task {
            Task::Measure(command) => command.patterns(ranks),
            Task::Like(_) | Task::Tune(_) => panic!("{line}"),
        }
    }

    #[test]
    fn clap_accepts_the_declarations() {
        Line::command().debug_assert();
    }

    #[test]
    fn groups_are_all_ranks_evenly_by_default() {
        let [named] = &patterns("rail --sizes 1k --active 2", 8).unwrap()[..] else { panic!() };
        let pattern = named.pattern(1024, 8).unwrap();
        assert_eq!(pattern.steps[0].messages.len(), 2);
        assert_eq!(pattern.steps[0].messages[1].destination, 5);
    }

    #[test]
    fn several_numbers_and_directions_are_as_many_patterns() {
        let named = patterns("rail --active 1-3 --direction uni,omni --sizes 8", 8).unwrap();
        let names: Vec<&str> = named.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "rail uni k=1",
                "rail uni k=2",
                "rail uni k=3",
                "rail omni k=1",
                "rail omni k=2",
                "rail omni k=3"
            ]
        );
        let messages: Vec<usize> =
            named.iter().map(|it| it.pattern(8, 8).unwrap().steps[0].messages.len()).collect();
        assert_eq!(messages, [1, 2, 3, 2, 4, 6]);
        assert_eq!(patterns("fan --direction bi", 4).unwrap()[0].name, "fan");
        let many = patterns("rail --active 1-4000000000", 4).unwrap();
        assert_eq!(many.len(), 3);
        assert!(many[2].pattern(8, 4).unwrap_err().contains("3 active ranks are more than the 2 ranks"));
    }

    #[test]
    fn options_go_before_and_behind_the_command() {
        for line in ["--sizes 64 ring --repetitions 3", "ring --sizes 64 --repetitions 3"] {
            let cli = parsed(line).unwrap();
            assert_eq!((cli.settings.sizes.0, cli.settings.repetitions), (vec![64], 3));
        }
    }

    #[test]
    fn all_collectives_are_each_of_them() {
        let all = patterns("collective all --members 0-2 --members 4,6", 8).unwrap();
        assert_eq!(all.len(), Collective::ALL.len());
        assert_eq!(all[0].pattern(8, 8).unwrap().steps[0].collectives[1].members, [4, 6]);
        assert!(patterns("collective ibcast", 8).unwrap_err().contains("'ibcast'"));
        let of_nccl = patterns("collective all --backend nccl", 8).unwrap();
        assert!(of_nccl.len() == 8 && of_nccl.iter().all(|named| named.pattern(8, 8).is_ok()));
        let [scan] = &patterns("collective scan --backend nccl", 8).unwrap()[..] else { panic!() };
        assert!(scan.pattern(8, 8).unwrap_err().contains("NCCL has nothing like MPI_Scan"));
    }

    #[test]
    fn a_profile_is_replayed_without_a_command() {
        assert!(
            matches!(parsed("--like a.mpisee").unwrap().task, Task::Like(path) if path == Path::new("a.mpisee"))
        );
    }

    #[test]
    fn wrong_command_lines_are_one_sentence() {
        for (line, expected) in [
            ("", "there is no word that says what to measure"),
            ("--like a.mpisee ring", "are two tasks"),
            ("p2p --ranks 1,1", "are one"),
            ("halo --dims 4x0", "is not a grid"),
            ("p2p --sizes 8-4", "begins after its end"),
            ("run", "the following required arguments were not provided: <FILES>..."),
            ("frobnicate", "unrecognized subcommand 'frobnicate'"),
            ("run a --set g", "is not like g=4"),
            ("ring --repetitions 0", "0 is not in 1.."),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{line}: {error}");
        }
        let missing = patterns("run /nowhere.pattern", 2).unwrap_err();
        assert!(missing.contains("/nowhere.pattern cannot be read"), "{missing}");
    }
}
