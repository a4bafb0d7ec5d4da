//! Finds segments, and reads them defensively: their directory is world-writable.

mod blocks;
mod control;
mod current_call;
mod followed;
mod live;
mod mapped;
mod partner;
mod world;

use crate::gpu::{GpuPart, parts};
use crate::left_rows::{self, LeftRows};
use crate::process;
use crate::run::RunSums;
use crate::ticks::monotonic_ns;
use crate::wire::pieces::TABLES;
use anyhow::{Context, Result, bail};
use mpisee_profile::gpu::{self, GpuFile};
use mpisee_profile::options::{Options, SETTINGS};
use mpisee_profile::segment::counts::CountLimits;
use mpisee_profile::segment::layout::state::STARTING;
use mpisee_profile::segment::layout::{HEADER_BYTES, Header};
use mpisee_profile::segment::names::names_can_be;
use mpisee_profile::segment::snapshot::Program;
use mpisee_profile::segment::source::Source;
use mpisee_profile::segment::{Snapshot, file_name, owner_of};
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use blocks::Blocks;
pub use control::{Mark, SegmentControl};
pub use current_call::{
    CallLocation, Collected, CurrentCall, collected, is_collective, of_snapshot, short_seconds,
};
pub use followed::{CallSums, Followed, VariableReading};
pub use live::Clock;
use live::{Twice, words_of};
pub use mapped::Mapped;
pub use partner::{First, Partner, Tag, With};
pub use world::{WorldSegments, missing, worlds};

/// Upper limit on the size of a segment.
const MOST_BYTES: u64 = 1 << 34;

/// A segment of which the header is known.
#[derive(Debug)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// Its header.
    pub header: Snapshot,
    /// True if its process runs.
    pub is_running: bool,
    used: u64,
    user: u32,
    /// Device and inode, by which the file is known again.
    identity: (u64, u64),
    /// The copy of a segment that found no room for all of it.
    copy: Option<PathBuf>,
}

/// A segment without counts.
#[derive(Debug)]
pub struct Empty {
    /// The file.
    pub path: PathBuf,
    /// Why there are none.
    pub why: String,
    /// True if its process has ended, so that nothing will come into it.
    pub has_ended: bool,
}

/// A file that is skipped, and why.
pub type Skipped = (PathBuf, String);

/// The segments of a directory, and the files that are none.
#[derive(Debug, Default)]
pub struct SegmentScan {
    /// Segments.
    pub segments: Vec<Segment>,
    /// Files of that name which are none, and why.
    pub unreadable: Vec<Skipped>,
    /// Files in which no counts are.
    pub empty: Vec<Empty>,
}

/// The directory in which the library makes segments.
pub fn directory() -> Result<PathBuf> {
    const NAME: &str = "MPISEE_SEGMENTS";
    let Some(value) = std::env::var_os(NAME) else { return Ok(Options::default().segments) };
    let value = value.to_string_lossy();
    let wrong =
        SETTINGS.iter().find(|setting| setting.variable == NAME).and_then(|it| it.check(&value).err());
    match wrong {
        Some(why) => bail!("{NAME}='{value}' {why}; name the directory of the segments"),
        None => Ok(PathBuf::from(value.as_ref())),
    }
}

impl SegmentScan {
    /// Adds what another directory has. Of a segment that is in both, by a copy or another name,
    /// the first counts.
    pub fn add(&mut self, other: SegmentScan) {
        let process = |segment: &Segment| {
            let header = &segment.header;
            (header.boot, header.host.clone(), header.pid, header.start_realtime_ns, header.world_rank)
        };
        let mut known: HashSet<_> = self.segments.iter().map(process).collect();
        self.segments.extend(other.segments.into_iter().filter(|segment| known.insert(process(segment))));
        self.unreadable.extend(other.unreadable);
        self.empty.extend(other.empty);
    }
}

/// The user as whom this process acts.
pub fn own_user() -> Result<u32> {
    Ok(std::fs::metadata("/proc/self").context("cannot look at '/proc/self'")?.uid())
}

/// The segments of a user. Processes in other containers are not visible; `others_ended` says that
/// they have ended.
pub fn find(directory: &Path, user: u32, others_ended: bool) -> Result<SegmentScan> {
    let cannot = || format!("cannot read '{}'", directory.display());
    let mut found = SegmentScan::default();
    for entry in std::fs::read_dir(directory).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let Some((owner, pid)) = path.file_name().and_then(|name| owner_of(name.to_str()?)) else {
            continue;
        };
        if owner != user {
            continue;
        }
        match look_at(&path, user, pid, others_ended) {
            Ok(FileKind::Segment(segment)) => found.segments.push(*segment),
            Ok(FileKind::Empty { why, has_ended }) => found.empty.push(Empty { path, why, has_ended }),
            // It was there a moment ago: a program that ends removes its segments.
            Err(_) if std::fs::symlink_metadata(&path).is_err() => {}
            Err(why) => found.unreadable.push((path, format!("{why:#}"))),
        }
    }
    let running = found.segments.iter().filter(|segment| segment.is_running);
    let latest = began_last(running.map(|segment| &segment.header));
    for segment in &mut found.segments {
        segment.is_running &= is_latest(&latest, &segment.header);
    }
    found.unreadable.sort();
    found.empty.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Files of GPU tracers in a directory whose processes have ended and left no segment, as helpers
/// that were killed.
pub fn without_segment(directory: &Path, user: u32) -> Vec<PathBuf> {
    let names = || {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    };
    let with_segment: HashSet<u32> =
        names().filter_map(|name| owner_of(&name)).filter(|it| it.0 == user).map(|it| it.1).collect();
    let is_left = |name: &String| {
        gpu::owner_of(name).is_some_and(|(owner, pid, start, namespace)| {
            let has_ended = namespace == process::namespace() && !process::runs(pid, start);
            owner == user && has_ended && !with_segment.contains(&pid)
        })
    };
    names().filter(is_left).map(|name| directory.join(name)).collect()
}

/// When the program that a process runs began to record, by process: one that calls `exec` stays
/// the same process, and leaves the segment of what it ran before.
pub(crate) type Began = HashMap<(u32, u64), u64>;

/// The latest begin of each process of this machine and namespace.
pub(crate) fn began_last<'h>(headers: impl Iterator<Item = &'h Snapshot>) -> Began {
    let mut latest = Began::new();
    for header in headers {
        let began = latest.entry((header.pid, header.process_start)).or_default();
        *began = header.start_realtime_ns.max(*began);
    }
    latest
}

/// Returns whether no program of the same process began after this one.
pub(crate) fn is_latest(latest: &Began, header: &Snapshot) -> bool {
    latest.get(&(header.pid, header.process_start)).is_none_or(|&began| began <= header.start_realtime_ns)
}

/// A file with a segment's name, as it was found.
enum FileKind {
    Segment(Box<Segment>),
    Empty { why: String, has_ended: bool },
}

fn look_at(path: &Path, user: u32, pid: u32, others_ended: bool) -> Result<FileKind> {
    let (file, metadata) = open(path, user)?;
    let words = read(file, HEADER_BYTES as u64)?;
    // The first word is written last.
    if words.first().is_none_or(|&word| word == 0) && words.iter().all(|&word| word == 0) {
        let has_ended = process::look_at(pid).is_none_or(|seen| seen.ended);
        let what = if has_ended { "ended before it began to record" } else { "may be about to begin it" };
        return Ok(FileKind::Empty { why: format!("nothing is in it; process {pid} {what}"), has_ended });
    }
    let (header, used) = Snapshot::read_header(words.as_slice())?;
    if header.state == STARTING {
        let is_here = header.boot == process::boot() && header.namespace == process::namespace();
        let has_ended = if is_here { !process::runs(pid, header.process_start) } else { others_ended };
        let what = if has_ended { "ended in MPI_Init" } else { "is in MPI_Init" };
        return Ok(FileKind::Empty { why: format!("nothing is in it; process {pid} {what}"), has_ended });
    }
    let used = used.saturating_sub(header.private_bytes);
    if header.pid != pid {
        bail!("its name is that of process {pid}, and it says that it is of process {}", header.pid);
    }
    if header.world_rank.get() >= header.world_size {
        bail!("it says that it is of rank {} of {}", header.world_rank, header.world_size);
    }
    if used > metadata.len() {
        bail!("it is cut off: it has {} bytes and says that {used} are in use", metadata.len());
    }
    if !(HEADER_BYTES as u64..=MOST_BYTES).contains(&used) {
        bail!("it says that {used} bytes are in use");
    }
    // On another machine, or before this one was started anew, there is nothing to look at.
    let is_here = header.boot == process::boot();
    let is_elsewhere = is_here && header.namespace != process::namespace();
    if is_elsewhere && !others_ended {
        bail!(
            "its process is in another container, where it cannot be seen; --ended takes it for one that ended"
        );
    }
    let is_running = is_here && !is_elsewhere && process::runs(pid, header.process_start);
    let path = path.to_owned();
    let identity = identity(&metadata);
    if header.private_bytes > 0
        && let Some((copy, HeaderRead { header, used, .. })) = find_copy(&header, user)
    {
        let copy = Some(copy);
        return Ok(FileKind::Segment(Box::new(Segment {
            path,
            header,
            is_running,
            used,
            user,
            identity,
            copy,
        })));
    }
    Ok(FileKind::Segment(Box::new(Segment { path, header, is_running, used, user, identity, copy: None })))
}

/// The begin of a segment.
pub(crate) struct HeaderRead {
    /// The header.
    pub header: Snapshot,
    /// Bytes in use.
    pub used: u64,
    metadata: Metadata,
}

/// Reads the header of a segment of `user`.
pub(crate) fn header_of(path: &Path, user: u32) -> Result<HeaderRead> {
    let (file, metadata) = open(path, user)?;
    let words = read(file, HEADER_BYTES as u64)?;
    let (header, used) = Snapshot::read_header(words.as_slice())?;
    Ok(HeaderRead { header, used, metadata })
}

/// Opens a file that is the user's alone. Neither follows a link nor waits for the other end of a
/// pipe.
fn open(path: &Path, user: u32) -> Result<(File, Metadata)> {
    open_by(OpenOptions::new().read(true), path, user)
}

fn open_by(options: &mut OpenOptions, path: &Path, user: u32) -> Result<(File, Metadata)> {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => bail!("it is a symbolic link"),
        file => file.context("cannot open it")?,
    };
    let metadata = file.metadata().context("cannot look at it")?;
    if !metadata.is_file() {
        bail!("it is no regular file");
    }
    if metadata.uid() != user {
        bail!("its name is that of user {user}, and it belongs to user {}", metadata.uid());
    }
    if metadata.nlink() > 1 {
        bail!("it has {} names, which mpisee does not give it", metadata.nlink());
    }
    if metadata.mode() & 0o077 != 0 {
        bail!("others than its owner may open it, which mpisee does not allow");
    }
    Ok((file, metadata))
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The whole words among the first `bytes` bytes.
fn read(file: File, bytes: u64) -> Result<Vec<u64>> {
    // PERF: in pieces that stay in the cache, so that the words alone take memory.
    const PIECE_BYTES: u64 = 1 << 17;
    let there = file.metadata().context("cannot look at it")?.len().min(bytes);
    let mut words = Vec::with_capacity(usize::try_from(there / 8).context("it is too large")?);
    let mut piece = Vec::new();
    for first in (0..there).step_by(PIECE_BYTES as usize) {
        piece.clear();
        let length = PIECE_BYTES.min(there - first);
        (&file).take(length).read_to_end(&mut piece).context("cannot read it")?;
        words.extend(words_of(&piece));
    }
    Ok(words)
}

/// Folders for copies of segments that found no room, tried in turn.
const COPY_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

fn copy_path(folder: &str, header: &Snapshot, user: u32) -> PathBuf {
    Path::new(folder).join(file_name(user, header.pid, header.process_start))
}

fn find_copy(header: &Snapshot, user: u32) -> Option<(PathBuf, HeaderRead)> {
    let copies = COPY_FOLDERS.iter().map(|folder| copy_path(folder, header, user));
    let mut read = copies.filter_map(|path| Some((header_of(&path, user).ok()?, path)));
    let is_of_process = |copy: &Snapshot| {
        (copy.pid, copy.process_start, copy.boot) == (header.pid, header.process_start, header.boot)
    };
    read.find(|(copy, _)| is_of_process(&copy.header)).map(|(copy, path)| (path, copy))
}

/// Limits of the counts until now of a process with that header and number of threads.
///
/// Clocks of other nodes may be wrong, and those of this one may have been set meanwhile: there is
/// a day of slack.
pub fn limits_of(header: &Snapshot, threads: usize) -> CountLimits {
    const SLACK_NS: u64 = 86_400 * 1_000_000_000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let since_boot = || monotonic_ns().saturating_sub(header.start_monotonic_ns);
    let age_ns = now.saturating_sub(header.start_realtime_ns);
    let age_ns = if header.boot == process::boot() { age_ns.max(since_boot()) } else { age_ns };
    CountLimits::new(header, threads, age_ns.saturating_mul(2).saturating_add(SLACK_NS))
}

/// The bytes of a segment all of which is in one file.
fn whole(mut words: Vec<u64>) -> Vec<u8> {
    words[offset_of!(Header, shared) / 8] = words[offset_of!(Header, used) / 8];
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// For a file that the user alone may open, and that is not there.
fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

/// Saves a complete copy of this process's segment, part of which is not in its file; returns the
/// path.
pub fn save_copy(segment: &impl Source) -> Result<PathBuf> {
    let (header, _) = Snapshot::read_header(segment)?;
    let bytes = whole((0..segment.words()).map(|index| segment.word(index)).collect());
    let user = own_user()?;
    let mut failure = None;
    for folder in COPY_FOLDERS {
        let path = copy_path(folder, &header, user);
        let written = new_file().open(&path).and_then(|mut file| file.write_all(&bytes));
        match written {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => failure = Some(error),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                failure = Some(error);
            }
        }
    }
    Err(failure.map_or_else(|| anyhow::anyhow!("there is no folder for it"), Into::into))
}

impl Segment {
    /// The segment of a process at the end of MPI, which writes to it no more.
    pub fn of_arrived(path: &Path, user: u32) -> Result<Segment> {
        let HeaderRead { header, used, metadata } = header_of(path, user)?;
        let identity = identity(&metadata);
        if header.private_bytes > 0
            && let Some((copy, HeaderRead { header, used, .. })) = find_copy(&header, user)
        {
            let (path, copy) = (path.to_owned(), Some(copy));
            return Ok(Segment { path, header, is_running: false, used, user, identity, copy });
        }
        let used = used.saturating_sub(header.private_bytes);
        if used > metadata.len() {
            bail!("it is cut off: it has {} bytes and says that {used} are in use", metadata.len());
        }
        Ok(Segment { path: path.to_owned(), header, is_running: false, used, user, identity, copy: None })
    }

    /// Opens the file that has all words in use.
    fn open(&self) -> Result<File> {
        let (file, metadata) = open(self.copy.as_ref().unwrap_or(&self.path), self.user)?;
        if self.copy.is_none() && identity(&metadata) != self.identity {
            bail!("another file took its name");
        }
        Ok(file)
    }

    /// All words that are in use.
    fn words(&self) -> Result<Vec<u64>> {
        let file = self.open()?;
        let words = read(file, self.used)?;
        if (words.len() as u64) < self.used / 8 {
            bail!("it is cut off after {} bytes of {}", words.len() * 8, self.used);
        }
        Ok(words)
    }

    /// Copies it to another folder as one of the job with that number, with the counts of its GPU
    /// kernels.
    pub(crate) fn save_as_part(&self, folder: &Path, job: u64) -> Result<()> {
        let mut words = self.words()?;
        words[offset_of!(Header, job) / 8] = job;
        let name = self.path.file_name().context("it has no name")?;
        let save = |path: PathBuf, bytes: &[u8]| {
            let written = new_file().open(&path).and_then(|mut file| file.write_all(bytes));
            written.with_context(|| format!("cannot write '{}'", path.display()))
        };
        save(folder.join(name), &whole(words))?;
        let of_kernels = self.gpu_path();
        if std::fs::symlink_metadata(&of_kernels).is_ok() {
            let (file, _) = open(&of_kernels, self.user)?;
            let mut content = Vec::new();
            file.take(MOST_BYTES).read_to_end(&mut content).context("cannot read it")?;
            save(self.gpu_path_in(folder), &content)?;
        }
        Ok(())
    }

    /// Reads the whole segment.
    pub fn read(&self) -> Result<Snapshot> {
        let words = self.words()?;
        let snapshot = Snapshot::read(words.as_slice())?;
        names_can_be(&snapshot)?;
        limits_of(&snapshot, snapshot.threads()).check(&snapshot)?;
        if snapshot.communicators.is_empty() {
            bail!("it has no communicators");
        }
        Ok(snapshot)
    }

    /// The rows that its rank has left for who writes the profile; `None` if it left none, or not
    /// all of them.
    pub fn left_rows(&self) -> Option<LeftRows> {
        let path = left_rows::path(&self.path);
        let (file, _) = open(&path, self.user).ok()?;
        LeftRows::open(path, file)
    }

    /// Leaves rows for who writes the profile; nothing is left of them after an error.
    pub fn leave_rows(segment: &Path, sums: RunSums, tables: [&[u8]; TABLES]) -> std::io::Result<()> {
        let file = new_file().open(left_rows::path(segment));
        let written = file.and_then(|file| left_rows::write(file, sums, tables));
        written.inspect_err(|_| drop(left_rows::remove(segment)))
    }

    /// Reads all but the counters.
    pub fn read_description(&self) -> Result<Snapshot> {
        let words = usize::try_from(self.used / 8).context("it is too large")?;
        Ok(Snapshot::read_log(&Blocks::new(self.open()?, words))?)
    }

    /// Reads the description of the program.
    pub fn read_program(&self) -> Result<Program> {
        Ok(self.read_description()?.program)
    }

    /// Reads the whole segment while its process may be writing to it.
    pub fn read_now(&self) -> Result<Snapshot> {
        let (file, metadata) = open(&self.path, self.user)?;
        if identity(&metadata) != self.identity {
            bail!("another file took its name");
        }
        let mut bytes = vec![0; usize::try_from(self.used).context("it is too large")?];
        let mut read = || -> Result<Vec<u64>> {
            file.read_exact_at(&mut bytes, 0).context("cannot read it")?;
            Ok(words_of(&bytes))
        };
        let (first, second) = (read()?, read()?);
        let snapshot = Snapshot::read(&Twice { file: &file, first, second })?;
        limits_of(&snapshot, snapshot.threads()).while_it_counts().check(&snapshot)?;
        if snapshot.communicators.is_empty() {
            bail!("it has no communicators");
        }
        Ok(snapshot)
    }

    /// Opens the file to store a request in it, see [`mpisee_profile::segment::switch_request`].
    /// Its process must run.
    pub fn open_to_ask(&self) -> Result<File> {
        let (file, metadata) = open_by(OpenOptions::new().read(true).write(true), &self.path, self.user)?;
        if identity(&metadata) != self.identity {
            bail!("another file took its name");
        }
        Ok(file)
    }

    /// The GPU counts of the process, if it has any.
    pub fn gpu(&self) -> Result<Vec<GpuPart>> {
        let path = self.gpu_path();
        if std::fs::symlink_metadata(&path).is_err() {
            return Ok(Vec::new());
        }
        let read = || -> Result<Vec<GpuPart>> {
            let (file, _) = open(&path, self.user)?;
            let mut content = Vec::new();
            file.take(MOST_BYTES).read_to_end(&mut content).context("cannot read it")?;
            Ok(parts(&GpuFile::parse(&content)?, self.header.world_rank.get()))
        };
        read().with_context(|| format!("'{}'", path.display()))
    }

    fn gpu_path(&self) -> PathBuf {
        self.gpu_path_in(self.path.parent().unwrap_or(Path::new(".")))
    }

    /// The file of its GPU kernels, in that folder.
    fn gpu_path_in(&self, folder: &Path) -> PathBuf {
        let header = &self.header;
        gpu::path(folder, self.user, header.pid, header.process_start, header.namespace)
    }

    /// Deletes the file, the one of its GPU kernels, and the one of its rows.
    pub fn remove(&self) -> Result<()> {
        let _ = std::fs::remove_file(self.gpu_path());
        let _ = left_rows::remove(&self.path);
        if let Some(copy) = &self.copy {
            let _ = std::fs::remove_file(copy);
        }
        let cannot = || format!("cannot remove '{}'", self.path.display());
        let metadata = std::fs::symlink_metadata(&self.path).with_context(cannot)?;
        if identity(&metadata) != self.identity {
            bail!("{}: another file took its name", cannot());
        }
        std::fs::remove_file(&self.path).with_context(cannot)
    }
}
