//! Ended runs that left segments and no profile, for messages that point to `recover`.
//!
//! Nothing can say so when a program is killed: its processes are gone, and the launcher became the
//! program. So the next command that looks for a profile does.

use crate::similar_names::similar;
use crate::units::natural_order;
use mpisee_collect::profile;
use mpisee_collect::segments;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Names that a sentence has.
const NAMED: usize = 3;

/// A run of which there are segments and no profile.
struct Run {
    /// The profile that it would have.
    wanted: PathBuf,
    is_running: bool,
}

impl Run {
    fn stem(&self) -> String {
        self.wanted.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The user's runs on this node, without those that were recovered before.
fn runs() -> Vec<Run> {
    let found =
        segments::directory().and_then(|directory| segments::find(&directory, segments::own_user()?, false));
    let worlds = found.map_or_else(|_| Vec::new(), |found| segments::worlds(found.segments));
    let run = |world| {
        let wanted = profile::describe(world)?.wanted;
        let is_recovered = profile::recovered_before(world, &wanted).is_some();
        (!is_recovered).then(|| Run { wanted, is_running: world.running().next().is_some() })
    };
    worlds.iter().filter_map(run).collect()
}

/// Advice where the run that wanted this profile goes on, or has ended without it.
pub fn of_profile(directory: &Path) -> Option<String> {
    let name = directory.file_name()?;
    let is_meant = |run: &&Run| run.wanted.file_name() == Some(name) || run.wanted.file_stem() == Some(name);
    let runs = runs();
    let run = runs.iter().find(is_meant)?;
    Some(match run.is_running {
        true => "the run that will write the profile is still running; mpisee-through top shows the run"
            .to_owned(),
        false => format!(
            "the run ended before it wrote the profile; its counts are left: mpisee-through recover --only \
             {}",
            run.stem()
        ),
    })
}

/// How to have the profiles of ended runs; of those with a name like the one that was meant, if
/// there is one.
pub fn of_any(meant: Option<&OsStr>) -> Option<String> {
    let mut stems: Vec<String> = runs().iter().filter(|run| !run.is_running).map(Run::stem).collect();
    stems.sort_by(|one, other| natural_order(one, other));
    let mut names: Vec<&str> = stems.iter().map(String::as_str).collect();
    names.dedup();
    let meant = meant.map(|name| Path::new(name).file_stem().unwrap_or(name).to_string_lossy().into_owned());
    if let Some(meant) = meant
        && let [only] = similar(&meant, names.iter().copied())[..]
    {
        names = vec![only];
    }
    Some(match names[..] {
        [] => return None,
        [only] => {
            let is_of_name = |stem: &&String| *stem == only;
            let (runs, their) = match stems.iter().filter(is_of_name).count() {
                1 => ("an ended run".to_owned(), "its"),
                many => (format!("{many} ended runs"), "their"),
            };
            format!("{runs} '{only}' left {their} counts on this node: mpisee-through recover --only {only}")
        }
        _ => {
            let more = if names.len() > NAMED { ", ..." } else { "" };
            let named = names[..names.len().min(NAMED)].join(", ");
            let number = stems.len();
            format!(
                "{number} ended runs left their counts on this node ({named}{more}): mpisee-through recover --list"
            )
        }
    })
}
