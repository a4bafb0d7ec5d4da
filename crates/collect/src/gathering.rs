//! Gathers what the ranks of a job without MPI counted, in a folder beside its profile.
//!
//! Where MPI is, ranks of several nodes meet by messages. Without it each node leaves the segments
//! of its ranks as a part of that folder, which appears whole when it gets its name. A node whose
//! part makes the job whole takes the folder, by giving it another name, and writes the profile.
//! All names are changed by the file system at once, so that one node writes, whoever comes last.
//!
//! Nodes know the job by the unique id of a communicator of NCCL that has ranks in all of its
//! processes: others do not have it.

use crate::process;
use crate::segments::{Segment, WorldSegments, missing, own_user};
use anyhow::{Context, Result, bail};
use mpisee_profile::comm_name::Digest;
use mpisee_profile::run::WITHOUT_MPI;
use mpisee_profile::segment::key::{CallKey, Meaning};
use mpisee_profile::segment::layout::call;
use mpisee_profile::segment::snapshot::Communicator;
use mpisee_profile::segment::{Snapshot, owner_of};
use mpisee_profile::{CommId, Operation, RankSet, WorldRank};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder of a job.
pub struct Gathering {
    folder: PathBuf,
    /// The number of the job, equal on all nodes.
    job: u64,
}

/// The state of a job when a part was added.
pub enum Added {
    /// The job is whole, and its profile is the caller's to write.
    Whole(WholeJob),
    /// These ranks are awaited.
    Waits {
        /// The ranks that are not there.
        absent: RankSet,
        /// True if no other part was there before.
        is_first: bool,
    },
    /// Another node writes the profile.
    TakenByAnother,
}

/// The segments of all ranks of a job that came to its end.
pub struct WholeJob {
    folder: PathBuf,
    /// By rank.
    pub ranks: WorldSegments,
    /// Ranks whose process ended before.
    pub ended: RankSet,
}

impl Gathering {
    /// Of the job of these ranks, which want their profile there; `None` if no communicator has
    /// ranks in all processes of the job.
    pub fn from_ranks(ranks: &WorldSegments, wanted: &Path) -> Option<Gathering> {
        let snapshot = ranks.segments().find_map(|segment| segment.read().ok())?;
        let job = job_of(&snapshot, ranks.size())?;
        let mut name = wanted.file_stem()?.to_owned();
        name.push(format!(".parts-{}", Digest::new(job)));
        Some(Gathering { folder: wanted.with_file_name(name), job })
    }

    /// The folder, which is removed with the last part.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds the ranks of this node, of which others `ended` before they came to the end. After an
    /// error nothing of them is there.
    pub fn add(&self, ranks: &WorldSegments, ended: &RankSet) -> Result<Added> {
        let Some(first) = ranks.segments().next() else { bail!("there is no rank") };
        let user = own_user()?;
        let is_first = make_folder(&self.folder, user)?;
        let part = self.folder.join(format!("rank-{}", first.header.world_rank));
        let begun =
            self.folder.join(format!(".rank-{}-{}", first.header.world_rank, first.header.start_realtime_ns));
        let copy = || -> Result<()> {
            let cannot = || format!("cannot write '{}'", begun.display());
            private().create(&begun).with_context(cannot)?;
            ranks.segments().try_for_each(|segment| segment.save_as_part(&begun, self.job))?;
            for rank in ended.iter() {
                File::create_new(begun.join(format!("{rank}{ENDED}"))).with_context(cannot)?;
            }
            std::fs::rename(&begun, &part).with_context(cannot)
        };
        if let Err(why) = copy() {
            remove(&begun);
            if is_first {
                let _ = std::fs::remove_dir(&self.folder);
            }
            return Err(why);
        }
        let (segments, ended) = parts(&self.folder, user);
        let absent = absent(&segments, &ended, ranks.size());
        if !absent.is_empty() {
            return Ok(Added::Waits { absent, is_first });
        }
        self.take(user, first.header.start_realtime_ns).inspect_err(|_| remove(&part))
    }

    /// Takes the folder, unless another node has. `number` keeps the name apart from what a killed
    /// writer left.
    fn take(&self, user: u32, number: u64) -> Result<Added> {
        let mut taken = self.folder.clone().into_os_string();
        taken.push(format!(".taken-{number:x}"));
        let taken = PathBuf::from(taken);
        match std::fs::rename(&self.folder, &taken) {
            Ok(()) => {
                let (segments, ended) = parts(&taken, user);
                Ok(Added::Whole(WholeJob {
                    folder: taken,
                    ranks: WorldSegments::from_segments(segments),
                    ended,
                }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Added::TakenByAnother),
            Err(error) => Err(error).with_context(|| format!("cannot rename '{}'", self.folder.display())),
        }
    }
}

impl WholeJob {
    /// The folder in which the segments are now.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the segments, of which there is a profile, and the folder.
    pub fn remove(self) {
        folders(&self.folder).iter().for_each(|part| remove(part));
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Gives segments of processes without MPI the number of their job, by which parts of it are known:
/// those of a node are under a number of their own.
pub fn join(segments: &mut [Segment]) {
    let mut are_without_mpi: HashMap<(u64, u32), bool> = HashMap::new();
    for segment in segments {
        let known = (segment.header.job, segment.header.world_size);
        let read = || if segment.is_running { segment.read_now() } else { segment.read() };
        // Those of one number are alike: of runs with MPI one is read.
        let is_without_mpi = |snapshot: &Snapshot| snapshot.program.library == WITHOUT_MPI;
        if !*are_without_mpi.entry(known).or_insert_with(|| read().is_ok_and(|it| is_without_mpi(&it))) {
            continue;
        }
        let job = read().ok().and_then(|snapshot| job_of(&snapshot, known.1));
        segment.header.job = job.unwrap_or(known.0);
    }
}

/// The number of a job of that many processes, one of which this is.
fn job_of(snapshot: &Snapshot, size: u32) -> Option<u64> {
    job(&snapshot.communicators, |id| own_ranks(snapshot, id), size)
}

/// Returns whether a folder is on a file system that is this node's alone, as far as its kind says.
pub fn is_of_this_node(folder: &Path) -> bool {
    /// Of statfs(2): tmpfs, ext2 to ext4, XFS, Btrfs, ZFS, F2FS and overlayfs.
    const LOCAL: [u64; 7] =
        [process::TMPFS, 0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0x794c_7630];
    process::file_system(folder).is_some_and(|kind| LOCAL.contains(&kind))
}

/// The number of a job of that many processes: of its communicators that have ranks in all of them,
/// as many in each, the first of the largest, as these are the same in every process. `own_ranks`
/// are those that this process has in a communicator, one for each of its devices.
fn job(communicators: &[Communicator], own_ranks: impl Fn(CommId) -> u64, size: u32) -> Option<u64> {
    let of_all = communicators.iter().map(|communicator| &communicator.created).filter(|created| {
        let is_of_one_process = created.operation == Operation::NcclCommInitAll as u32;
        let has_all = || created.group.len() == u64::from(size) * own_ranks(created.id);
        created.is_of_nccl() && created.parent.is_none() && !is_of_one_process && has_all()
    });
    of_all.map(|created| (Reverse(created.group.len()), created.code)).min().map(|(_, code)| code)
}

/// The ranks that a process has in a communicator of NCCL: it has made it for each of them.
fn own_ranks(snapshot: &Snapshot, communicator: CommId) -> u64 {
    let makes = |key: &CallKey| {
        let operation = snapshot.operation_at(key.operation).map(|(operation, _)| operation);
        key.communicator == communicator && operation.is_some_and(|operation| MAKING.contains(&operation))
    };
    let calls = snapshot.counters.iter().filter_map(|(key, values)| match key.meaning() {
        Some(Meaning::Call(key)) if makes(&key) => Some(values[call::CALLS]),
        _ => None,
    });
    calls.sum()
}

/// Operations that make a communicator from unique ids, for one rank each.
const MAKING: [Operation; 3] =
    [Operation::NcclCommInitRank, Operation::NcclCommInitRankConfig, Operation::NcclCommInitRankScalable];

fn absent(segments: &[Segment], ended: &RankSet, size: u32) -> RankSet {
    let there = segments.iter().map(|segment| segment.header.world_rank);
    let known: BTreeSet<_> = there.chain(ended.iter().map(WorldRank::new)).collect();
    missing(size, known)
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Makes the folder; false if it is there. One that is not the user's own is an error.
fn make_folder(folder: &Path, user: u32) -> Result<bool> {
    match private().create(folder) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("cannot make '{}'", folder.display())),
    }
    let about = std::fs::symlink_metadata(folder).with_context(|| format!("'{}'", folder.display()))?;
    if !about.is_dir() || about.uid() != user || about.mode() & 0o077 != 0 {
        bail!("'{}' is no folder of this user alone", folder.display());
    }
    Ok(false)
}

/// Removes a part and the files in it.
fn remove(part: &Path) {
    for file in std::fs::read_dir(part).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(file.path());
    }
    let _ = std::fs::remove_dir(part);
}

/// The parts that are whole.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|it| it.path())
        .collect()
}

/// The end of the name of a file that stands for a rank without counts.
const ENDED: &str = ".ended";

/// The segments in all parts, and the ranks that ended before.
fn parts(folder: &Path, user: u32) -> (Vec<Segment>, RankSet) {
    let files = folders(folder).into_iter().flat_map(|part| std::fs::read_dir(part).into_iter().flatten());
    let (mut segments, mut ended) = (Vec::new(), Vec::new());
    for file in files.flatten() {
        let (path, name) = (file.path(), file.file_name());
        let name = name.to_string_lossy();
        if owner_of(&name).is_some() {
            segments.extend(Segment::of_arrived(&path, user).ok());
        } else {
            ended.extend(name.strip_suffix(ENDED).and_then(|rank| rank.parse::<u32>().ok()));
        }
    }
    (segments, ended.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::CommRank;
    use mpisee_profile::segment::log::{Created, Run, Runs};

    fn communicator(operation: Operation, code: u64, ranks: u32) -> Communicator {
        let group = Runs::from_runs([Run { first: 0, count: ranks, stride: 0 }]);
        let of_nccl = Created::with_world(CommId::new(2), CommRank::FIRST, group);
        let created = Created { letter: b'u', n: 1, code, operation: operation as u32, ..of_nccl };
        Communicator {
            created,
            label: String::new(),
            topology: String::new(),
            freed: false,
            shared_row: None,
        }
    }

    #[test]
    fn a_job_is_known_by_a_communicator_with_ranks_in_all_processes() {
        let init = |code, ranks| communicator(Operation::NcclCommInitRank, code, ranks);
        let own = communicator(Operation::NcclCommInitAll, 1, 4);
        assert_eq!(job(&[init(9, 2), init(7, 4), init(8, 4), own.clone()], |_| 1, 4), Some(7));
        // Two devices in each process, whose pairs have as many ranks as there are processes.
        assert_eq!(job(&[init(7, 4), init(8, 8)], |_| 2, 4), Some(8));
        assert_eq!(job(&[init(7, 4), init(5, 6)], |_| 2, 4), None);
        assert_eq!(job(&[init(9, 2), own], |_| 1, 4), None);
    }
}
