//! Profiles of one run: a directory that was copied is no repetition.
//!
//! A run has no number of its own. Two profiles are of one run if it began in the same second, as
//! the same job with the same command, and all ranks had the same hosts and process IDs; imported
//! profiles without process IDs also need the same wall times.

use super::RunProfiles;
use crate::load;
use crate::units::count;
use mpisee_profile::rows::{NodeRow, RankRow};
use mpisee_profile::{Profile, ProfileError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A profile of a run of which there is another profile before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The profile that does not count.
    pub profile: PathBuf,
    /// The first profile of the run.
    pub of: PathBuf,
}

/// Start, job and command of a run.
type Beginning = (String, Option<String>, Vec<String>);
/// Host, process ID and, where that is unknown, wall time of each rank; of each node where rows are
/// sums over ranks.
type Processes = Vec<(String, u32, Option<u64>)>;

/// Finds profiles of one run. What cannot be read is of no known run: its reader explains it.
#[derive(Default)]
struct Known {
    /// The first profile of each run, by its beginning.
    runs: HashMap<Beginning, Vec<PathBuf>>,
    /// PERF: read where beginnings are equal alone.
    processes: HashMap<PathBuf, Option<Processes>>,
}

impl Known {
    /// The earlier profile of the same run; without one, this is the first of its run.
    fn earlier(&mut self, profile: &Path) -> Option<PathBuf> {
        let beginning = beginning(profile)?;
        let alike = self.runs.get(&beginning).cloned().unwrap_or_default();
        let first = alike.into_iter().find(|first| {
            let one = self.processes(first);
            one.is_some() && one == self.processes(profile)
        });
        if first.is_none() {
            self.runs.entry(beginning).or_default().push(profile.to_owned());
        }
        first
    }

    fn processes(&mut self, profile: &Path) -> Option<Processes> {
        self.processes.entry(profile.to_owned()).or_insert_with(|| processes(profile).ok()).clone()
    }
}

/// Divides profiles into the first one of each run and copies.
pub fn divided(profiles: Vec<PathBuf>) -> RunProfiles {
    let mut known = Known::default();
    let mut found = RunProfiles::default();
    for profile in profiles {
        match known.earlier(&profile) {
            Some(of) => found.copies.push(Copy { profile, of }),
            None => found.profiles.push(profile),
        }
    }
    found
}

/// The profiles of `others` whose runs are in `profiles`, too.
pub fn common(profiles: &[PathBuf], others: &[PathBuf]) -> Vec<Copy> {
    let mut known = Known::default();
    for profile in profiles {
        known.earlier(profile);
    }
    let copy = |profile: &PathBuf| Some(Copy { of: known.earlier(profile)?, profile: profile.clone() });
    others.iter().filter_map(copy).collect()
}

/// The sentence on profiles that do not count: nothing if there are none.
pub fn sentence(copies: &[Copy]) -> Option<String> {
    let first = copies.first()?;
    let pair = format!("{} is a copy of {}", first.profile.display(), first.of.display());
    Some(match copies.len() {
        1 => format!("{pair}: both are of one run, which counts once."),
        several => format!(
            "{} are copies of others, as {pair}: each run counts once.",
            count(several as u64, "profile")
        ),
    })
}

fn beginning(profile: &Path) -> Option<Beginning> {
    let run = Profile::open(profile).ok()?.run().clone();
    (!run.start.is_empty()).then_some((run.start, run.job, run.command))
}

fn processes(profile: &Path) -> Result<Processes, ProfileError> {
    let profile = Profile::open(profile)?;
    if profile.run().is_aggregate {
        let of = |row: NodeRow| (format!("{} {}", row.host, row.members), 0, Some(row.wall_s.0.to_bits()));
        return Ok(load::all::<NodeRow>(&profile)?.into_iter().map(of).collect());
    }
    let of = |row: RankRow| (row.host, row.pid, (row.pid == 0).then_some(row.wall_s.0.to_bits()));
    Ok(load::all::<RankRow>(&profile)?.into_iter().map(of).collect())
}
