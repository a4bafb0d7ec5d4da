//! `mpisee doctor [PROGRAM]`: whether a program can be profiled here, one line per check.
//!
//! Nothing is profiled, and the program does not run. Under a launcher of MPI each rank checks, and
//! rank 0 prints what all found.

mod checks;
mod interpreter;
mod meeting;
mod preload;

use crate::choose::choose;
use crate::cli::{Doctor, Run};
use crate::environment::{self, Hint};
use crate::failure::Failure;
use crate::flavours::{Family, Flavour, Installation, align};
use crate::launch::{facts, options};
use crate::program::Program;
use meeting::Answers;
use mpisee_in_process::guards::signals;
use mpisee_profile::RankSet;
use mpisee_profile::options::Options;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// How a check ended, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// The profile lacks something.
    Note,
    /// There is no profile.
    Fails,
}

/// A check on one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, one word.
    pub check: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The finding.
    pub found: String,
    /// The remedy, unless all is well.
    #[serde(rename = "do")]
    pub to_do: Option<String>,
}

impl Check {
    fn ok(check: &str, found: impl fmt::Display) -> Check {
        Check { check: check.to_owned(), outcome: Outcome::Ok, found: found.to_string(), to_do: None }
    }

    fn note(check: &str, found: impl fmt::Display, to_do: impl fmt::Display) -> Check {
        Check { outcome: Outcome::Note, to_do: Some(to_do.to_string()), ..Check::ok(check, found) }
    }

    fn fails(check: &str, found: impl fmt::Display, to_do: impl fmt::Display) -> Check {
        Check { outcome: Outcome::Fails, to_do: Some(to_do.to_string()), ..Check::ok(check, found) }
    }
}

/// Prints the checks; the exit code is 1 if one fails.
pub fn doctor(wanted: &Doctor) -> Result<ExitCode, Failure> {
    // A file beyond the limit does not end this process.
    let _held = signals::hold([libc::SIGXFSZ]);
    let (answers, absent) = match meeting::meet(checks(wanted)) {
        Answers::GivenToAnother => return Ok(ExitCode::SUCCESS),
        Answers::All { answers, absent } => (answers, absent),
    };
    let lines = joined(&answers);
    let ranks = answers.iter().map(|(rank, _)| *rank).collect();
    let text = match wanted.json {
        true => json(&lines, &ranks, &absent),
        false => text(&lines, &ranks, &absent),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => return Err(Failure::Output(why)),
        _ => {}
    }
    let fails = lines.iter().any(|line| line.check.outcome == Outcome::Fails);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// All checks of this process.
fn checks(wanted: &Doctor) -> Vec<Check> {
    let installation = Installation::find();
    let variables = wanted.run.as_ref().map_or(&wanted.variables, |run| &run.variables);
    let options = options(variables);
    let mut hint = environment::launcher();
    let mut checks = vec![checks::installation(&installation)];
    checks.extend(checks::options(variables));
    match &wanted.run {
        Some(run) => checks.extend(program_checks(run, &installation, &mut hint, &options)),
        None => {
            checks.push(checks::launcher(&installation, hint.as_ref()));
            let chosen = flavour_to_try(&installation, hint.as_ref());
            checks.extend(chosen.map(|flavour| preload::check(flavour, None)));
        }
    }
    checks.push(checks::segments(&options));
    checks.push(checks::output(&options));
    checks.extend(checks::limits());
    checks.push(checks::clock());
    checks.push(checks::gpu(&installation.folder, &options));
    checks
}

/// The checks of a program.
fn program_checks(
    run: &Run,
    installation: &Installation,
    hint: &mut Option<Hint>,
    options: &Options,
) -> Vec<Check> {
    let is_of_open_mpi = hint.as_ref().is_some_and(|hint| hint.family == Family::OpenMpi);
    let program = match Program::find(&run.program, is_of_open_mpi) {
        Ok(program) => program,
        Err(why) => return vec![Check::fails("program", why, "give the program as you would run it")],
    };
    hint.iter_mut().for_each(|it| it.folders.extend(program.path.parent().map(Path::to_owned)));
    let mut checks = vec![checks::program(&program)];
    let executed = match interpreter::find(&program, is_of_open_mpi) {
        Ok(executed) => executed,
        Err(why) => {
            checks.push(why);
            return checks;
        }
    };
    let executed = executed.as_ref().unwrap_or(&program);
    let facts = facts(installation, run, &program, hint.as_ref(), options);
    let chosen = choose(&facts);
    let mpi = checks::static_mpi(executed).unwrap_or_else(|| checks::mpi(executed, hint.as_ref()));
    let library = checks::library(&facts, &chosen, run, installation);
    // Where no library fits anyway, the MPI does not matter.
    checks.extend(Some(mpi).filter(|it| it.outcome != Outcome::Note || library.outcome != Outcome::Fails));
    checks.push(library);
    checks.extend(checks::launcher_of_program(&program.kind, hint.as_ref()));
    // Python itself may be a script that looks for another one.
    let mut pythons = [&program, executed].into_iter();
    checks.extend(pythons.find_map(|it| interpreter::python(&it.path, &it.kind, hint.as_ref())));
    if interpreter::is_python(&program.path) {
        checks.extend(interpreter::missing_script(&run.arguments));
    }
    checks.extend(checks::lines(&program));
    let chosen = chosen.ok().and_then(Result::ok);
    checks.extend(chosen.map(|flavour| preload::check(flavour, Some(executed))));
    checks
}

/// A flavour to try without a program: the launcher's, else any.
fn flavour_to_try<'a>(installation: &'a Installation, hint: Option<&Hint>) -> Option<&'a Flavour> {
    let of_hint = hint.and_then(|hint| crate::choose::flavour_of_launcher(&installation.flavours, hint));
    of_hint.or(installation.flavours.first())
}

/// A check, and the ranks on which it ended so.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    check: Check,
    /// As in `0-3,5`.
    ranks: String,
}

/// Equal checks as one line, in the order of the checks.
fn joined(answers: &[(u32, Vec<Check>)]) -> Vec<Line> {
    let mut found: Vec<(&Check, Vec<u32>)> = Vec::new();
    for (rank, checks) in answers {
        for check in checks {
            match found.iter_mut().find(|(known, _)| *known == check) {
                Some((_, ranks)) => ranks.push(*rank),
                None => {
                    // After the others of its name.
                    let last = found.iter().rposition(|(known, _)| known.check == check.check);
                    found.insert(last.map_or(found.len(), |last| last + 1), (check, vec![*rank]));
                }
            }
        }
    }
    let line = |(check, ranks): (&Check, Vec<u32>)| Line {
        check: check.clone(),
        ranks: ranks.into_iter().collect::<RankSet>().to_string(),
    };
    found.into_iter().map(line).collect()
}

/// A document with the lines, and the ranks that did not answer.
fn json(lines: &[Line], ranks: &RankSet, absent: &RankSet) -> String {
    let [ranks, absent] = [ranks, absent].map(RankSet::to_string);
    let document = serde_json::json!({ "ranks": ranks, "absent": absent, "checks": lines });
    format!("{document:#}\n")
}

fn text(lines: &[Line], ranks: &RankSet, absent: &RankSet) -> String {
    let outcome = |line: &Line| match line.check.outcome {
        Outcome::Ok => "ok",
        Outcome::Note => "note",
        Outcome::Fails => "FAILS",
    };
    let all = ranks.to_string();
    let row = |line: &Line| {
        let noun = if line.ranks.contains([',', '-']) { "ranks" } else { "rank" };
        let of_some = if line.ranks == all { String::new() } else { format!("{noun} {}: ", line.ranks) };
        let to_do = line.check.to_do.as_ref().map(|to_do| format!(". To do: {to_do}")).unwrap_or_default();
        let said = format!("{of_some}{}{to_do}", line.check.found);
        [outcome(line).to_owned(), line.check.check.clone(), said]
    };
    let mut rows: Vec<[String; 3]> = lines.iter().map(row).collect();
    if !absent.is_empty() {
        // Containers may have a folder for temporary files each.
        let pronoun = if absent.len() == 1 { "it was" } else { "they were" };
        let found = format!("{} did not answer, so {pronoun} not checked", absent.named());
        let to_do = "start all at once, in a folder that all nodes share, with one TMPDIR per node";
        rows.push(["note".to_owned(), "ranks".to_owned(), format!("{found}. To do: {to_do}")]);
    }
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_checks_are_one_line_and_others_name_their_ranks() {
        let checks = |lines: Check| vec![Check::ok("program", "/app"), lines, Check::ok("clock", "counter")];
        let (with, without) =
            (Check::ok("lines", "known"), Check::note("lines", "unknown", "compile with -g"));
        let answers = [(0, checks(with.clone())), (1, checks(without)), (2, checks(with))];
        let expected = "ok    program  /app\n\
                        ok    lines    ranks 0,2: known\n\
                        note  lines    rank 1: unknown. To do: compile with -g\n\
                        ok    clock    counter\n";
        let all: RankSet = (0..3).collect();
        assert_eq!(text(&joined(&answers), &all, &RankSet::default()), expected);
        let absent: RankSet = [3, 4].into_iter().collect();
        assert!(
            text(&joined(&answers[..1]), &[0].into_iter().collect(), &absent)
                .contains("\nnote  ranks    ranks 3-4 did not answer")
        );
        let document: serde_json::Value =
            serde_json::from_str(&json(&joined(&answers), &all, &absent)).unwrap();
        assert_eq!(document["absent"], "3-4");
        assert_eq!(document["checks"][2]["do"], "compile with -g");
    }
}
