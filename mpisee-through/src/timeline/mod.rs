//! Time lines: what ranks did and nodes counted in each interval of a job, as `mpisee-through
//! agent` writes it.
//!
//! A folder `NAME.timeline` has `job.json`, and of each node `HOST.json`, `HOST.rates.csv.zst` and
//! `HOST.node-rates.csv.zst`, with GPUs also `HOST.gpus.csv` and `HOST.gpu-links.csv` ([`gpus`]).
//! Compressed rows are appended as they come, so that a file that was cut off has all rows but the
//! last few: [`files`]. [`history`] has the rows of one node while its agent runs, and bounds them;
//! [`load`] reads those of all nodes, [`bins`] puts them on one grid of time, [`phases`] divides
//! that.

pub mod bins;
pub mod files;
pub mod gpus;
pub mod history;
pub mod load;
pub mod phases;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The version of the files.
pub const FORMAT_VERSION: u32 = 1;

/// `job.json`: the job, the same for all nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFile {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// The number that the processes of the job share, in hexadecimal.
    pub job: String,
    /// The command line.
    pub command: Vec<String>,
    /// The name of the profile that the job was to write.
    pub profile: String,
    /// Ranks in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// The begin of recording on the rank that began first, of those on the node whose agent was
    /// first; UTC.
    pub start: String,
    /// The same moment, nanoseconds since 1970. Times of all nodes count from here.
    pub start_ns: u64,
}

/// `HOST.json`: a node, and how its agent fared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFile {
    /// The node; with `~2` and so on, where an earlier one has its name.
    pub host: String,
    /// Distinguishes nodes of one name.
    #[serde(default)]
    pub node: String,
    /// Ranks of the node.
    pub ranks: u32,
    /// The interval between two readings at first; it doubles with each time that rows were joined.
    pub interval_s: f64,
    /// How often the intervals were joined, so that rows stay within the limit.
    pub joined: u32,
    /// Readings of this agent.
    pub readings: u64,
    /// CPU time of this agent.
    pub cpu_s: f64,
    /// How long this agent ran.
    pub wall_s: f64,
    /// Why it ended: `the job ended`, `signal 15`; empty while it runs, and if it was killed.
    pub ended: String,
    /// Sentences on what it could not see.
    pub notes: Vec<String>,
    /// Where it serves metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Bytes per second that links can carry in one direction, by device.
    pub link_bytes_per_s: BTreeMap<String, f64>,
}

/// The source of quantities of the job itself: ranks of the node whose processes run, and time in
/// which ranks were not recorded, summed over them.
pub const JOB: &str = "job";
pub const RANKS: &str = "ranks";
pub const UNRECORDED: &str = "unrecorded_s";
/// Time of an interval before the agent began: what the node counted in it is not known.
pub const UNCOUNTED: &str = "uncounted_s";

/// Returns whether a quantity is a level, of a moment, and no count of what was in an interval.
pub fn is_level(quantity: &str) -> bool {
    matches!(quantity, "available_bytes" | "used_bytes" | RANKS | "level")
}

/// The reason for which an agent ended, where the job did.
pub const JOB_ENDED: &str = "the job ended";

/// Ranks of a job begin within that time, in nanoseconds.
pub const MOST_APART_NS: u64 = 60_000_000_000;

/// The name of the file with the job.
pub const JOB_FILE: &str = "job.json";

/// The ending of folders with a time line.
pub const ENDING: &str = "timeline";

/// The folder for the part of a host in the time line of a job, beside its profile; made, if it is
/// not there. What has that name and is of another job, or of none, is left alone, and a number
/// added; so is a folder of another user, who could have put links into it. Agents of several nodes
/// agree on it without a word, since the file that names the job appears whole or not at all.
pub fn make_folder(wanted: &Path, job: &JobFile, host: &str) -> Result<(PathBuf, JobFile)> {
    const MOST_TRIES: u32 = 10_000;
    let stem = wanted.with_extension("");
    for number in 1..MOST_TRIES {
        // As profiles are numbered.
        let folder = match number {
            1 => wanted.to_owned(),
            _ => PathBuf::from(format!("{}-{number}.{ENDING}", stem.display())),
        };
        let cannot = || format!("cannot make '{}'", folder.display());
        let made = std::fs::create_dir_all(&folder);
        if std::fs::symlink_metadata(&folder).is_ok() && !is_own(&folder).with_context(cannot)? {
            continue;
        }
        made.with_context(cannot)?;
        let whole = folder.join(format!(".job.{}", std::process::id()));
        let text = serde_json::to_vec_pretty(job)?;
        fresh(&whole).and_then(|mut file| file.write_all(&text)).with_context(cannot)?;
        // Fails if another agent was first.
        let linked = std::fs::hard_link(&whole, folder.join(JOB_FILE));
        let _ = std::fs::remove_file(&whole);
        match linked {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(cannot);
            }
            _ => {}
        }
        let Ok(found) = read_job(&folder) else { continue };
        if is_same(&found, job) && !has_ended(&folder, host) {
            return Ok((folder, found));
        }
    }
    bail!("there are {MOST_TRIES} time lines '{}'; --output DIR names another folder", wanted.display())
}

/// Returns whether they are of one job. Launchers give the number of a job again after a while.
fn is_same(found: &JobFile, job: &JobFile) -> bool {
    let apart_ns = found.start_ns.abs_diff(job.start_ns);
    found.job == job.job && found.command == job.command && apart_ns <= MOST_APART_NS
}

/// Returns whether an agent of the host saw the end of the folder's job.
fn has_ended(folder: &Path, host: &str) -> bool {
    let node: Option<NodeFile> =
        open(&files::node_path(folder, host)).ok().and_then(|file| serde_json::from_reader(file).ok());
    node.is_some_and(|node| node.ended == JOB_ENDED)
}

/// Returns whether a folder is this user's, and no link.
fn is_own(folder: &Path) -> std::io::Result<bool> {
    let metadata = std::fs::symlink_metadata(folder)?;
    // SAFETY: the function has no precondition.
    Ok(metadata.is_dir() && metadata.uid() == unsafe { libc::geteuid() })
}

/// A new file, whatever had its name.
pub fn fresh(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    options.open(path).or_else(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            options.open(path)
        }
        _ => Err(error),
    })
}

/// Opens a file of a time line. A link may lead anywhere, and a pipe may never be read to its end:
/// neither is opened.
pub fn open(path: &Path) -> Result<BufReader<File>> {
    let cannot = || format!("cannot read '{}'", path.display());
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).with_context(cannot)?;
    if !file.metadata().with_context(cannot)?.is_file() {
        bail!("'{}' is no file", path.display());
    }
    Ok(BufReader::new(file))
}

/// The job of a folder.
pub fn read_job(folder: &Path) -> Result<JobFile> {
    let path = folder.join(JOB_FILE);
    let job: JobFile =
        serde_json::from_reader(open(&path)?).with_context(|| format!("in '{}'", path.display()))?;
    if job.format_version > FORMAT_VERSION {
        bail!(
            "'{}' has version {} of the format, this program reads up to {FORMAT_VERSION}; take a newer mpisee-through",
            path.display(),
            job.format_version
        );
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::{Columns, NodeRateRow, RateRow};

    fn job(number: &str) -> JobFile {
        JobFile {
            format_version: FORMAT_VERSION,
            job: number.to_owned(),
            command: vec!["./app".to_owned()],
            profile: "app.mpisee".to_owned(),
            ranks: 4,
            start: "2025-06-01T12:00:00Z".to_owned(),
            start_ns: 1_748_779_200_000_000_000,
        }
    }

    #[test]
    fn a_job_finds_its_folder_again_and_another_gets_a_number() {
        let place = tempfile::tempdir().unwrap();
        let wanted = place.path().join("app.timeline");
        let first = make_folder(&wanted, &job("1"), "n1").unwrap();
        assert_eq!(first, (wanted.clone(), job("1")));
        let later = JobFile { start_ns: job("1").start_ns + 5, ..job("1") };
        assert_eq!(
            make_folder(&wanted, &later, "n1").unwrap(),
            first,
            "the first agent has said when it began"
        );
        assert_eq!(make_folder(&wanted, &job("2"), "n1").unwrap().0, place.path().join("app-2.timeline"));
        let again = JobFile { start_ns: job("1").start_ns + MOST_APART_NS + 1, ..job("1") };
        assert_eq!(make_folder(&wanted, &again, "n1").unwrap().0, place.path().join("app-3.timeline"));
        let files = std::fs::read_dir(&wanted).unwrap().count();
        assert_eq!(files, 1, "nothing else is left there");
        // Another run, to which the launcher gave the same number.
        let node = NodeFile { ended: JOB_ENDED.to_owned(), ..NodeFile::default() };
        std::fs::write(files::node_path(&wanted, "n1"), serde_json::to_vec(&node).unwrap()).unwrap();
        assert_eq!(make_folder(&wanted, &job("1"), "n1").unwrap().0, place.path().join("app-4.timeline"));
        assert_eq!(make_folder(&wanted, &job("1"), "n2").unwrap(), first);
    }

    #[test]
    fn what_is_no_time_line_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let wanted = place.path().join("app.timeline");
        std::fs::write(&wanted, "mine").unwrap();
        let broken = place.path().join("app-2.timeline");
        std::fs::create_dir(&broken).unwrap();
        std::fs::write(broken.join(JOB_FILE), "{").unwrap();
        std::os::unix::fs::symlink(place.path(), place.path().join("app-3.timeline")).unwrap();
        let (folder, _) = make_folder(&wanted, &job("1"), "n1").unwrap();
        assert_eq!(folder, place.path().join("app-4.timeline"));
        assert_eq!(std::fs::read_to_string(&wanted).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(broken.join(JOB_FILE)).unwrap(), "{");
    }

    #[test]
    fn the_page_on_time_lines_names_every_column() {
        let page = include_str!("../../../docs/reference/time-lines.md");
        for column in RateRow::COLUMNS.iter().chain(NodeRateRow::COLUMNS) {
            assert!(page.contains(&format!("`{}`", column.name)), "{}", column.name);
        }
    }

    #[test]
    fn a_newer_format_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let newer = JobFile { format_version: FORMAT_VERSION + 1, ..job("1") };
        std::fs::write(place.path().join(JOB_FILE), serde_json::to_vec(&newer).unwrap()).unwrap();
        let error = read_job(place.path()).unwrap_err().to_string();
        assert!(error.contains("this program reads up to 1; take a newer mpisee-through"), "{error}");
    }
}
