//! Starts runs: the launcher with `mpisee-bench trial`, under one setting of the MPI.

use super::interrupt;
use super::knobs::{Assignment, Knob, Means, RULES_FILE, USE_RULES};
use super::rules::{self, Rule};
use super::selection::{self, Selection, Tree};
use crate::cli::Settings;
use crate::trial::{Report, Trial};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Variables and rules that hold in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Variables of the environment.
    pub variables: BTreeSet<Assignment>,
    /// The text of the file of rules or selections, and where it is.
    pub rules: Option<(PathBuf, String)>,
}

impl Change {
    /// The change by a choice for some knobs; rules go into `file`, and so do selections, in the
    /// library's `own` tree.
    pub fn from_chosen<'k>(
        chosen: impl IntoIterator<Item = (&'k Knob, usize)>,
        file: &Path,
        own: Option<&Tree>,
    ) -> Change {
        let mut variables = BTreeSet::new();
        let mut all: Vec<Rule> = Vec::new();
        let mut selections: Vec<Selection> = Vec::new();
        for (knob, choice) in chosen {
            match &knob.choices[choice].means {
                Means::Variable(it) => {
                    variables.insert(it.clone());
                    // Without it, Open MPI does not look at the others.
                    if it.variable.starts_with("coll_tuned_") {
                        variables.insert(Assignment::of_open_mpi(USE_RULES, "1"));
                    }
                }
                Means::Rule(rule) => all.push(rule.clone()),
                Means::Selection(selection) => selections.push(selection.clone()),
            }
        }
        if let Some(own) = own.filter(|_| !selections.is_empty()) {
            variables.insert(Assignment::of_mpich(selection::FILE, &file.display().to_string()));
            return Change { variables, rules: Some((file.to_owned(), own.selecting(&selections).text())) };
        }
        let rules = (!all.is_empty()).then(|| {
            variables.insert(Assignment::of_open_mpi(USE_RULES, "1"));
            variables.insert(Assignment::of_open_mpi(RULES_FILE, &file.display().to_string()));
            (file.to_owned(), rules::text(&all))
        });
        Change { variables, rules }
    }

    /// Writes the rules file, if there is one.
    pub fn write(&self) -> Result<(), String> {
        match &self.rules {
            Some((path, text)) => {
                std::fs::write(path, text).map_err(|why| format!("writing {}: {why}", path.display()))
            }
            None => Ok(()),
        }
    }

    /// Lines of a shell that set the variables.
    pub fn shell(&self) -> String {
        let export = |it: &Assignment| format!("export {}={}\n", it.name, in_quotes(&it.value));
        self.variables.iter().map(export).collect()
    }
}

/// A word of the shell that stands for itself, with quotes where it needs them.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { in_quotes(word) }
}

fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Why a run has no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The change does not work, or the launcher ended early: this is how, and what the run said.
    Change(String),
    /// No run can work, for this reason.
    All(String),
}

/// Starts runs one after the other.
pub struct Runner<'a> {
    /// The launcher with its options.
    pub launcher: &'a [OsString],
    /// The settings of measuring.
    pub settings: &'a Settings,
    /// The folder for files that runs need.
    pub folder: PathBuf,
    /// The longest that a run may take.
    pub limit: Duration,
}

/// The longest that the first run may take, and what others may take at least.
pub const FIRST_LIMIT: Duration = Duration::from_secs(600);
/// See [`FIRST_LIMIT`].
pub const LEAST_LIMIT: Duration = Duration::from_secs(20);

impl Runner<'_> {
    /// Runs a trial under a change, and checks that the ranks report what it sets.
    pub fn run(&self, trial: &Trial, change: &Change) -> Result<Report, Failure> {
        let all = |what: String| Failure::All(what);
        change.write().map_err(all)?;
        let [asked, report, said] = ["trial.json", "report.json", "said"].map(|name| self.folder.join(name));
        let mut trial = trial.clone();
        trial.variables.extend(change.variables.iter().map(|it| it.variable.clone()));
        trial.files.extend(change.rules.iter().map(|(path, _)| path.clone()));
        let text = serde_json::to_vec(&trial).expect("numbers and texts are JSON");
        std::fs::write(&asked, text).map_err(|why| all(format!("writing {}: {why}", asked.display())))?;
        let _ = std::fs::remove_file(&report);
        let mut command = self.command([&asked, &report]).map_err(all)?;
        command.envs(change.variables.iter().map(|it| (&it.name, &it.value)));
        let ended = run_within(&mut command, &said, self.limit).map_err(all)?;
        let text = match ended {
            Ended::Late => {
                return Err(Failure::Change(format!(
                    "it took longer than {:.0} s",
                    self.limit.as_secs_f64()
                )));
            }
            Ended::Failed(how) => {
                return Err(Failure::Change(format!("the launcher {how}: {}", reason(&said))));
            }
            Ended::Well => std::fs::read(&report).map_err(|why| {
                Failure::Change(format!("the launcher left no report ({why}): {}", reason(&said)))
            })?,
        };
        let report: Report = serde_json::from_slice(&text)
            .map_err(|why| all(format!("the report of a run cannot be read: {why}")))?;
        match change.variables.iter().find_map(|it| unheard(it, &report)) {
            Some(what) => Err(all(what)),
            None => Ok(report),
        }
    }

    fn command(&self, [asked, report]: [&PathBuf; 2]) -> Result<Command, String> {
        let own =
            std::env::current_exe().map_err(|why| format!("the path of mpisee-bench is unknown: {why}"))?;
        let (program, options) = self.launcher.split_first().ok_or("there is no launcher")?;
        let mut command = Command::new(program);
        command.args(options).arg(own).arg("trial").args([asked, report]);
        for (option, value) in [
            ("--repetitions", self.settings.repetitions),
            ("--warm-up", self.settings.warm_up),
            ("--least-ms", self.settings.least_ms),
        ] {
            command.arg(option).arg(value.to_string());
        }
        if self.settings.no_verify {
            command.arg("--no-verify");
        }
        command.args(self.settings.memory.iter().flat_map(|kind| ["--memory", kind.name()]));
        if self.settings.assume_gpu_aware {
            command.arg("--assume-gpu-aware");
        }
        command.args(self.settings.flavour.iter().flat_map(|name| ["--flavour", name]));
        Ok(command)
    }
}

/// A sentence where the ranks do not have what was set.
fn unheard(it: &Assignment, report: &Report) -> Option<String> {
    let found = report.variable(&it.variable).map(|found| found.value.as_str());
    (found != Some(&it.reads_as)).then(|| {
        format!(
            "{}={} was set for the run, and the ranks report '{}': the launcher's command line or a file of settings has the last word, \
             or its environment does not reach the ranks; take it out there, then tune",
            it.name,
            it.value,
            found.unwrap_or("nothing")
        )
    })
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With success.
    Well,
    /// Without: by a signal or with an exit code, in words that follow its name.
    Failed(String),
    /// It was ended, as it took too long.
    Late,
}

/// The sentence about a search that a signal has ended.
const INTERRUPTED: &str = "interrupted; files of an earlier result are as they were";

/// Runs a command with its output in a file.
pub fn run_within(command: &mut Command, said: &Path, limit: Duration) -> Result<Ended, String> {
    let failed = |why: std::io::Error| format!("writing {}: {why}", said.display());
    let file = File::create(said).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
    // All that a shell has started is ended with it.
    command.process_group(0);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|why| format!("'{name}' cannot be started: {why}"))?;
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(|why| format!("waiting for '{name}': {why}"))? {
            Some(status) if status.success() => return Ok(Ended::Well),
            // It may have been interrupted, too.
            Some(_) if interrupt::came() => {
                return Err(INTERRUPTED.to_owned());
            }
            Some(status) => {
                return Ok(Ended::Failed(match (status.signal(), status.code()) {
                    (Some(signal), _) => format!("was killed by signal {signal}"),
                    (None, code) => format!("ended with exit code {}", code.unwrap_or_default()),
                }));
            }
            None if interrupt::came() => {
                end(&mut child);
                return Err(INTERRUPTED.to_owned());
            }
            None if begin.elapsed() > limit => {
                end(&mut child);
                return Ok(Ended::Late);
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Ends a launcher, which ends its ranks when it is asked to, and all that has started it.
fn end(child: &mut Child) {
    const GRACE: Duration = Duration::from_secs(5);
    // SAFETY: the process is a child that has not been waited for, so that its number, which is its
    // group's, is its own.
    let signal = |child: &Child, signal| unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
    signal(child, libc::SIGTERM);
    let begin = Instant::now();
    while begin.elapsed() < GRACE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(child, libc::SIGKILL);
    let _ = child.wait();
}

/// The line of an output that says most about a failure.
pub fn reason(said: &Path) -> String {
    let text = std::fs::read(said).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = || text.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
    let own = lines().find_map(|line| line.split_once("mpisee-bench: ").map(|it| it.1));
    let of_mpi = lines().find_map(|line| line.find("MPI_ERR").map(|at| &line[at..]));
    let found = own.or(of_mpi).or_else(|| lines().next()).unwrap_or("it said nothing");
    found.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_process_is_ended_and_a_failed_one_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let run = |script: &str, limit| {
            run_within(Command::new("sh").args(["-c", script]), &said, Duration::from_millis(limit)).unwrap()
        };
        assert_eq!(run("exit 0", 5000), Ended::Well);
        assert_eq!(run("exec sleep 50", 50), Ended::Late);
        let failed = |how: &str| Ended::Failed(how.to_owned());
        let three = failed("ended with exit code 3");
        assert_eq!(run("echo ----; echo '*** MPI_ERR_ARG: bad'; exit 3", 5000), three);
        assert_eq!(reason(&said), "MPI_ERR_ARG: bad");
        assert_eq!(run("echo one; echo 'n1: mpisee-bench: because'; exit 3", 5000), three);
        assert_eq!(reason(&said), "because");
        assert_eq!(run("kill -KILL $$", 5000), failed("was killed by signal 9"));
        assert_eq!(reason(&said), "it said nothing");
        assert!(
            run_within(&mut Command::new("/nowhere"), &said, Duration::ZERO)
                .unwrap_err()
                .contains("/nowhere")
        );
    }

    #[test]
    fn words_of_the_shell_stand_for_themselves() {
        assert_eq!(quoted("/a/b-1.env"), "/a/b-1.env");
        assert_eq!(quoted("/t t'x/a.env"), "'/t t'\\''x/a.env'");
    }

    #[test]
    fn a_variable_that_does_not_reach_the_ranks_is_noticed() {
        let set = Assignment::of_open_mpi("coll_tuned_bcast_algorithm", "1");
        let variable = |value: &str| crate::trial::Variable {
            name: set.variable.clone(),
            value: value.to_owned(),
            ..Default::default()
        };
        let report = |variables| Report {
            mpi: Default::default(),
            setting: String::new(),
            nodes: 1,
            times_s: Vec::new(),
            variables,
            selection: None,
        };
        assert_eq!(unheard(&set, &report(vec![variable("1")])), None);
        assert!(unheard(&set, &report(vec![variable("0")])).unwrap().contains("the ranks report '0'"));
        assert!(unheard(&set, &report(Vec::new())).unwrap().contains("'nothing'"));
    }
}
