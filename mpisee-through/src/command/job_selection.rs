//! Selects running jobs: by a process, by the name of the program's profile, or by the batch
//! system's job.

use crate::units::count;
use anyhow::{Result, bail};
use clap::Args;
use mpisee_collect::process;
use mpisee_collect::profile::{self, Described};
use mpisee_collect::segments::{self, WorldSegments};
use mpisee_profile::RankSet;
use mpisee_profile::options::Options;
use mpisee_profile::segment::owner_of;
use std::path::{Path, PathBuf};

/// The directory of segments, as an option.
#[derive(Clone, Debug, Default, Args)]
pub struct SegmentsArgs {
    /// Directory of the segments, as for mpisee --segments (default: MPISEE_SEGMENTS, else
    /// /dev/shm)
    #[arg(long, value_name = "DIR")]
    segments: Option<PathBuf>,
}

/// The end of a sentence on a directory without segments: if it is the default, they may be in
/// another one.
pub fn elsewhere(directory: &Path) -> &'static str {
    match directory == Options::default().segments {
        true => "; segments may be elsewhere: --segments DIR or MPISEE_SEGMENTS names the directory",
        false => "",
    }
}

/// The directory of segments, and the jobs in it that are wanted.
pub struct JobSelection {
    pub directory: PathBuf,
    /// Whose segments are read.
    pub user: u32,
    which: Which,
}

/// The jobs that are wanted.
enum Which {
    All,
    /// The process is one of the job, or above it.
    Process(u32),
    /// The name of its profile, or its job.
    Named(String),
}

impl JobSelection {
    /// From the command line: a process, a directory of segments, a name or a job; without a word
    /// all jobs of this node.
    pub fn new(word: Option<&str>, user: u32) -> Result<JobSelection> {
        JobSelection::within(&SegmentsArgs::default(), word, user)
    }

    /// The same, of the segments in the directory that was named beside the word.
    pub fn within(among: &SegmentsArgs, word: Option<&str>, user: u32) -> Result<JobSelection> {
        let of = |directory: PathBuf, which: Which| Ok(JobSelection { directory, user, which });
        let default = || among.segments.clone().map_or_else(segments::directory, Ok);
        let Some(word) = word else { return of(default()?, Which::All) };
        if let Some(pid) = word.parse().ok().filter(|&pid| process::look_at(pid).is_some()) {
            let of_process = directory_of(pid).filter(|_| among.segments.is_none());
            return of(of_process.map_or_else(default, Ok)?, Which::Process(pid));
        }
        if let Some(directory) = &among.segments {
            if word.contains('/') {
                bail!(
                    "both '{word}' and --segments '{}' name the directory of the segments; leave one of them out",
                    directory.display()
                );
            }
            return of(directory.clone(), Which::Named(word.to_owned()));
        }
        if word.contains('/') {
            return of(PathBuf::from(word), Which::All);
        }
        let named =
            JobSelection { directory: segments::directory()?, user, which: Which::Named(word.to_owned()) };
        let is_directory = word.parse::<u32>().is_err() && Path::new(word).is_dir();
        // A folder with the program's sources, or its last profile, often has the name of the job.
        if is_directory && !named.running()?.iter().any(|world| named.takes(world)) {
            return of(PathBuf::from(word), Which::All);
        }
        Ok(named)
    }

    /// All jobs of the same directory and user.
    pub fn of_all(&self) -> JobSelection {
        JobSelection { directory: self.directory.clone(), user: self.user, which: Which::All }
    }

    /// All jobs that run.
    fn running(&self) -> Result<Vec<WorldSegments>> {
        let mut worlds = segments::worlds(segments::find(&self.directory, self.user, false)?.segments);
        worlds.retain(|world| world.running().next().is_some());
        Ok(worlds)
    }

    /// The process that was named.
    pub fn pid(&self) -> Option<u32> {
        match self.which {
            Which::Process(pid) => Some(pid),
            Which::All | Which::Named(_) => None,
        }
    }

    /// Returns whether no word chose among the jobs of the directory.
    pub fn is_of_all(&self) -> bool {
        matches!(self.which, Which::All)
    }

    /// Returns whether the running job is wanted.
    pub fn takes(&self, world: &WorldSegments) -> bool {
        match &self.which {
            Which::All => world.running().next().is_some(),
            Which::Process(pid) => world.running().any(|segment| is_or_is_below(segment.header.pid, *pid)),
            Which::Named(name) => {
                world.running().next().is_some() && is_called(profile::describe(world).as_ref(), name)
            }
        }
    }

    /// Returns whether a file may be of a wanted job, by its name.
    pub fn may_be_of(&self, path: &Path) -> bool {
        let Some(wanted) = self.pid() else { return true };
        let owner = path.file_name().and_then(|name| owner_of(name.to_str()?));
        owner.is_some_and(|(_, pid)| is_or_is_below(pid, wanted))
    }

    /// Why there is nothing to show.
    pub fn nothing(&self) -> String {
        let directory = self.directory.display();
        let elsewhere = elsewhere(&self.directory);
        match &self.which {
            Which::Process(pid) => {
                format!(
                    "process {pid} has no job that mpisee records: no segment in '{directory}' is its{elsewhere}"
                )
            }
            Which::Named(name) => {
                let unknown = match name.parse::<u32>() {
                    Ok(pid) if Path::new(name).is_dir() => {
                        format!("there is no process {pid}; the directory of that name is ./{pid}")
                    }
                    Ok(pid) => format!("there is neither a process {pid} nor a running job of that number"),
                    Err(_) => {
                        format!("no running job is called '{name}', and there is no directory of that name")
                    }
                };
                // Where they cannot be read, there are none to list.
                let running = self.running().unwrap_or_default();
                let elsewhere = if running.is_empty() { elsewhere } else { "" };
                format!("{unknown}; {}{elsewhere}", listed(&running))
            }
            Which::All => format!(
                "no program that mpisee records runs here: no segment of a running process is in '{directory}'{elsewhere}"
            ),
        }
    }
}

/// Returns whether a word is the name of the run's profile, with or without its ending, or the
/// run's job, with or without the name of the batch system.
pub fn is_called(about: Option<&Described>, word: &str) -> bool {
    let Some(Described { wanted, job, .. }) = about else { return false };
    let file = wanted.file_name().unwrap_or_default();
    let stem = wanted.file_stem().unwrap_or_default();
    let is_job = job
        .as_deref()
        .is_some_and(|job| job == word || job.split_once(' ').is_some_and(|(_, number)| number == word));
    is_job || file == word || stem == word
}

/// The running jobs for a reader who wants one of them.
fn listed(worlds: &[WorldSegments]) -> String {
    const MOST: usize = 5;
    let text = |world: &WorldSegments| {
        let about = profile::describe(world);
        let name = about.as_ref().and_then(|about| about.wanted.file_stem()?.to_str().map(str::to_owned));
        let job = about.and_then(|about| about.job).map_or(String::new(), |job| format!(", {job}"));
        let pids: RankSet = world.running().map(|segment| segment.header.pid).collect();
        format!("{} (processes {pids}{job})", name.as_deref().unwrap_or("?"))
    };
    let shown: Vec<String> = worlds.iter().take(MOST).map(text).collect();
    match worlds.len() {
        0 => "no program that mpisee records runs here".to_owned(),
        1 => format!("{} runs", shown[0]),
        jobs if jobs > MOST => {
            format!("{} run: {} and {} more", count(jobs as u64, "job"), shown.join("; "), jobs - MOST)
        }
        _ => format!("{} run", shown.join("; ")),
    }
}

/// The directory of segments in the environment of a process.
fn directory_of(pid: u32) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"MPISEE_SEGMENTS="))?;
    Some(Path::new(std::ffi::OsStr::from_bytes(value)).to_owned())
}

/// Returns whether a process is another one, or was started by it or by one below it.
fn is_or_is_below(mut pid: u32, wanted: u32) -> bool {
    const MOST_STEPS: u32 = 64;
    for _ in 0..MOST_STEPS {
        if pid == wanted {
            return true;
        }
        match process::look_at(pid) {
            Some(seen) if seen.parent > 0 => pid = seen.parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_by_its_profile_and_its_job() {
        let about = Described {
            wanted: PathBuf::from("/scratch/out/app.mpisee"),
            job: Some("Slurm 4711_3".to_owned()),
            command: vec!["./a.out".to_owned()],
        };
        for word in ["app", "app.mpisee", "Slurm 4711_3", "4711_3"] {
            assert!(is_called(Some(&about), word), "{word}");
        }
        for word in ["ap", "a.out", "Slurm", "4711", ""] {
            assert!(!is_called(Some(&about), word), "{word}");
        }
        assert!(!is_called(None, "app"));
    }

    #[test]
    fn a_named_directory_of_segments_is_searched_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let user = segments::own_user().unwrap();
        let among = SegmentsArgs { segments: Some(scratch.path().to_owned()) };
        let own = std::process::id().to_string();
        for word in [None, Some("app"), Some(own.as_str())] {
            let wanted = JobSelection::within(&among, word, user).unwrap();
            assert_eq!(wanted.directory, scratch.path(), "{word:?}");
            assert!(!wanted.nothing().contains("elsewhere"), "{}", wanted.nothing());
        }
        let error = JobSelection::within(&among, Some("/local/shm"), user).err().unwrap().to_string();
        assert!(error.contains("both '/local/shm' and --segments"), "{error}");
    }

    #[test]
    fn where_nothing_is_found_by_default_segments_may_be_elsewhere() {
        let wanted = JobSelection {
            directory: Options::default().segments,
            user: segments::own_user().unwrap(),
            which: Which::All,
        };
        let said = wanted.nothing();
        assert!(
            said.contains("'/dev/shm'; segments may be elsewhere: --segments DIR or MPISEE_SEGMENTS"),
            "{said}"
        );
    }
}
