//! Runs a program without and with what was chosen, in turn.

use super::difference::Difference;
use super::runner::{Change, Ended, FIRST_LIMIT, reason, run_within};
use super::search::progress;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The result of pairs of runs of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The difference of the wall time.
    pub difference: Difference,
    /// The median without the change.
    pub before_s: f64,
    /// The median with it.
    pub after_s: f64,
}

/// Measures the wall time of a command of the shell in pairs of runs.
pub fn measure(command: &str, change: &Change, pairs: u32, folder: &Path) -> Result<Program, String> {
    let said = folder.join("said");
    let time = |with: bool| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        if with {
            shell.envs(change.variables.iter().map(|it| (&it.name, &it.value)));
        }
        let begin = Instant::now();
        match run_within(&mut shell, &said, 24 * FIRST_LIMIT)? {
            Ended::Well => Ok(begin.elapsed().as_secs_f64()),
            Ended::Late => Err(format!("'{command}' takes too long to be measured")),
            Ended::Failed(how) => Err(format!(
                "'{command}' {} the change {how}: {}",
                if with { "with" } else { "without" },
                reason(&said)
            )),
        }
    };
    let mut times = Vec::new();
    for pair in 0..pairs {
        progress(&format!("the program: pair {} of {pairs}", pair + 1));
        let mut both = [0.0; 2];
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for place in order {
            both[place] = time(place == 1)?;
        }
        times.push((both[0], both[1]));
    }
    let median =
        |of: fn(&(f64, f64)) -> f64| crate::statistics::median(&times.iter().map(of).collect::<Vec<_>>());
    let difference = Difference::from_pairs(&times).ok_or("a program needs six pairs of runs or more")?;
    Ok(Program { difference, before_s: median(|it| it.0), after_s: median(|it| it.1) })
}
