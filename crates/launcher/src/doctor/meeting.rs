//! Ranks of a job meet by files, since the checks do not start MPI.
//!
//! Each rank but 0 leaves its answer in a folder named by the job, and takes it away if rank 0 does
//! not. The folder is among the node's temporary files, or in the working folder if the job has
//! other nodes.

use super::Check;
use super::preload::TIMEOUT;
use mpisee_collect::process;
use mpisee_profile::RankSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Rank 0 waits so long for the others, whose checks start two programs.
const PATIENCE: Duration = Duration::from_secs(5 + 2 * TIMEOUT.as_secs());
/// The others wait so long for it to take their answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 + PATIENCE.as_secs());
/// An older answer is left from an earlier job whose launcher had the same address.
const MOST_AGE: Duration = Duration::from_secs(60);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// The answers of a job.
pub enum Answers {
    /// Those of all ranks that answered, for this process to print.
    All {
        /// Of each rank, by number.
        answers: Vec<(u32, Vec<Check>)>,
        /// The ranks that did not answer.
        absent: RankSet,
    },
    /// Another rank prints them.
    GivenToAnother,
}

/// Joins the checks of the ranks of this job.
pub fn meet(own: Vec<Check>) -> Answers {
    let (rank, size) = process::launched_rank().unwrap_or((0, 1));
    let is_here = process::is_on_several_nodes(size) == Some(false);
    let folder = format!(".mpisee-doctor-{:016x}", process::job_to_launch());
    let folder = if is_here { std::env::temp_dir().join(folder) } else { PathBuf::from(folder) };
    if rank > 0 {
        return match leave(&folder, rank, &own, ANSWER_TIMEOUT) {
            Ok(true) => Answers::GivenToAnother,
            Ok(false) => Answers::All { answers: vec![(rank, own)], absent: [0].into_iter().collect() },
            // Rank 0 names this one as absent.
            Err(why) => {
                eprintln!("mpisee: rank {rank} cannot leave its checks in '{}': {why}", folder.display());
                Answers::GivenToAnother
            }
        };
    }
    let others = if size > 1 { collect(&folder, size, PATIENCE) } else { Vec::new() };
    let answered = |rank: &u32| others.iter().any(|(other, _)| other == rank);
    let absent = (1..size).filter(|rank| !answered(rank)).collect();
    let answers = std::iter::once((0, own)).chain(others).collect();
    Answers::All { answers, absent }
}

fn file(folder: &Path, rank: u32) -> PathBuf {
    folder.join(rank.to_string())
}

/// Makes the folder, which nobody else may write to.
fn make(folder: &Path) -> io::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    let own = || Some(fs::symlink_metadata(folder).ok()?.uid() == fs::metadata("/proc/self").ok()?.uid());
    made.or_else(|why| if folder.is_dir() && own() == Some(true) { Ok(()) } else { Err(why) })
}

/// Leaves an answer until it is taken, or for a time; returns whether it was taken.
fn leave(folder: &Path, rank: u32, own: &[Check], patience: Duration) -> io::Result<bool> {
    make(folder)?;
    let (file, unfinished) = (file(folder, rank), folder.join(format!("{rank}.new")));
    let written =
        fs::write(&unfinished, serde_json::to_vec(own)?).and_then(|()| fs::rename(&unfinished, &file));
    let begin = Instant::now();
    while written.is_ok() && file.exists() && begin.elapsed() < patience {
        sleep(PAUSE);
    }
    let is_left = fs::remove_file(&file).is_ok() || fs::remove_file(&unfinished).is_ok();
    if is_left {
        let _ = fs::remove_dir(folder);
    }
    written.map(|()| !is_left)
}

/// Takes the answers of the ranks from 1 on.
fn collect(folder: &Path, size: u32, patience: Duration) -> Vec<(u32, Vec<Check>)> {
    let begin = Instant::now();
    let mut answers = Vec::new();
    if make(folder).is_err() {
        return answers;
    }
    let mut missing: Vec<u32> = (1..size).collect();
    while !missing.is_empty() && begin.elapsed() < patience {
        missing.retain(|&rank| {
            let answer = take(&file(folder, rank));
            let is_there = answer.is_some();
            answers.extend(answer.map(|checks| (rank, checks)));
            !is_there
        });
        sleep(PAUSE);
    }
    let _ = fs::remove_dir(folder);
    answers.sort_by_key(|(rank, _)| *rank);
    answers
}

/// Takes an answer of this job.
fn take(file: &Path) -> Option<Vec<Check>> {
    let age = fs::symlink_metadata(file)
        .ok()
        .filter(fs::Metadata::is_file)?
        .modified()
        .ok()?
        .elapsed()
        .unwrap_or_default();
    let checks = serde_json::from_slice(&fs::read(file).ok()?);
    let _ = fs::remove_file(file);
    checks.ok().filter(|_| age < MOST_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(rank: u32) -> Vec<Check> {
        vec![Check::ok("program", format!("/app of {rank}"))]
    }

    #[test]
    fn answers_come_by_rank_and_nothing_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("meeting");
        std::thread::scope(|scope| {
            for rank in [2, 1] {
                let folder = &folder;
                scope.spawn(move || assert!(leave(folder, rank, &own(rank), PATIENCE).unwrap()));
            }
            assert_eq!(collect(&folder, 3, PATIENCE), [(1, own(1)), (2, own(2))]);
        });
        assert!(!folder.exists());
        assert!(collect(&folder, 3, Duration::ZERO).is_empty(), "nobody is there");
        assert!(!leave(&folder, 1, &own(1), Duration::ZERO).unwrap(), "nobody takes it");
        assert!(!folder.exists());
    }

    #[test]
    fn an_answer_of_an_earlier_job_is_thrown_away() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("1");
        for (age, is_taken) in [(0, true), (2 * MOST_AGE.as_secs(), false)] {
            fs::write(&file, serde_json::to_vec(&own(1)).unwrap()).unwrap();
            let time = std::time::SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
            assert_eq!(take(&file).is_some(), is_taken);
            assert!(!file.exists());
        }
    }
}
