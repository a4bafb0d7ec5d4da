//! Reads a large table on all cores: whole records block by block, each thread with sums of its
//! own.
//!
//! Memory is for a block per thread and for the [`Fold`]s, however long the table is. Blocks are
//! handed out in the order of the file, so that a fold sees its rows in ascending order.

mod blocks;
mod progress;
mod record;
mod table;

pub use table::{Arrival, Call, Message, Peer, Stream, Table};

use anyhow::Result;
use blocks::Blocks;
use mpisee_profile::rows::Row;
use mpisee_profile::{Profile, ProfileError};
use progress::Progress;
use record::Splitter;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

/// An accumulator of rows, one per thread.
pub trait Fold<T: Table>: Send {
    /// Adds a row. An error is one of the row.
    fn row(&mut self, row: &T::Row<'_>) -> Result<(), BadField>;
}

/// A field that does not hold what its column should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadField {
    /// The column, as the format names it.
    pub column: &'static str,
    /// The error in it.
    pub why: String,
}

/// The folds of all threads, and why reading ended early if it did.
pub struct Scanned<F> {
    /// The accumulators, in no order.
    pub folds: Vec<F>,
    /// The error that ended reading; the folds have exactly the rows before it.
    pub cut_off: Option<ProfileError>,
}

/// Reads the table of the profile; `make` makes a fold for each thread.
pub fn scan<T: Table, F: Fold<T>>(
    profile: &Profile,
    make: impl Fn() -> F + Sync,
) -> Result<Scanned<F>, ProfileError> {
    let path = profile.directory().join(T::Of::FILE);
    let blocks = Blocks::open(&path, T::Of::columns(), T::Of::OPTIONAL)?;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(blocks.count_at_most());
    let progress = Progress::start(T::Of::FILE, blocks.end());
    match read::<T, F>(blocks, threads, &make, &progress) {
        Ok(folds) => Ok(Scanned { folds, cut_off: None }),
        Err(Stop::Unreadable(source)) => Err(ProfileError::File { path, action: "read", source }),
        Err(Stop::Wrong { at, why }) => {
            // Blocks after the wrong row may have been added by other threads: the rows before it
            // are read again.
            let before = Blocks::open(&path, T::Of::columns(), T::Of::OPTIONAL)?.until(at);
            let folds = read::<T, F>(before, threads, &make, &progress).map_err(|stop| match stop {
                Stop::Unreadable(source) => ProfileError::File { path: path.clone(), action: "read", source },
                Stop::Wrong { why, .. } => changed_meanwhile(&path, &why),
            })?;
            let line = line_of(&path, at)?;
            Ok(Scanned { folds, cut_off: Some(ProfileError::Malformed { path, line, why }) })
        }
    }
}

/// Why a thread stopped before the end.
enum Stop {
    Unreadable(std::io::Error),
    /// The record that begins at this byte is wrong.
    Wrong {
        at: u64,
        why: String,
    },
}

/// Reads all blocks. Of several malformed records the first is reported: blocks are handed out in
/// order, and each is read up to its first malformed record.
fn read<T: Table, F: Fold<T>>(
    blocks: Blocks,
    threads: usize,
    make: &(impl Fn() -> F + Sync),
    progress: &Progress,
) -> Result<Vec<F>, Stop> {
    let blocks = Mutex::new(blocks);
    let work = || -> (F, Option<Stop>) {
        let mut fold = make();
        let stop = work_off::<T, F>(&blocks, &mut fold, progress).err();
        if stop.is_some() {
            lock(&blocks).stop();
        }
        (fold, stop)
    };
    let results: Vec<(F, Option<Stop>)> = if threads <= 1 {
        vec![work()]
    } else {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    };
    let mut first: Option<Stop> = None;
    let mut folds = Vec::with_capacity(results.len());
    for (fold, stop) in results {
        folds.push(fold);
        first = match (first, stop) {
            (Some(Stop::Wrong { at: one, .. }), Some(Stop::Wrong { at, why })) if at < one => {
                Some(Stop::Wrong { at, why })
            }
            (None, stop) => stop,
            (first, Some(Stop::Unreadable(error))) if !matches!(first, Some(Stop::Unreadable(_))) => {
                Some(Stop::Unreadable(error))
            }
            (first, _) => first,
        };
    }
    first.map_or(Ok(folds), Err)
}

fn work_off<T: Table, F: Fold<T>>(
    blocks: &Mutex<Blocks>,
    fold: &mut F,
    progress: &Progress,
) -> Result<(), Stop> {
    let mut splitter = Splitter::default();
    let mut block = Vec::new();
    loop {
        // The lock is held while reading, so that blocks lie in the order of the file.
        let (start, columns) = {
            let mut blocks = lock(blocks);
            let Some(start) = blocks.next(&mut block).map_err(Stop::Unreadable)? else { return Ok(()) };
            (start, blocks.columns())
        };
        let written = columns.written();
        let mut at = 0;
        while at < block.len() {
            if let Some(written) = written
                && let Some((row, next)) = T::quick(&block, at, written)
            {
                fold.row(&row).map_err(|bad| Stop::Wrong {
                    at: start + at as u64,
                    why: format!("column '{}': {}", bad.column, bad.why),
                })?;
                at = next;
                continue;
            }
            let wrong = |why| Stop::Wrong { at: start + at as u64, why };
            let next = splitter.split(&block, at).map_err(wrong)?;
            if !splitter.is_blank() {
                let record = splitter.record(&block, &columns).map_err(wrong)?;
                let row = T::parse(&record).and_then(|row| fold.row(&row));
                row.map_err(|bad| wrong(format!("column '{}': {}", bad.column, bad.why)))?;
            }
            at = next;
        }
        progress.reached(start + block.len() as u64);
    }
}

/// Ignores poisoning: the caller sees the panic of the thread itself.
fn lock(blocks: &Mutex<Blocks>) -> std::sync::MutexGuard<'_, Blocks> {
    blocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn changed_meanwhile(path: &Path, why: &str) -> ProfileError {
    let source = std::io::Error::other(format!("it changed while it was read ({why})"));
    ProfileError::File { path: path.to_owned(), action: "read", source }
}

/// The line, from 1, on which the byte at this offset is.
fn line_of(path: &Path, offset: u64) -> Result<u64, ProfileError> {
    use std::io::Read;
    let unreadable = |source| ProfileError::File { path: path.to_owned(), action: "read", source };
    let mut file = File::open(path).map_err(unreadable)?.take(offset);
    let mut buffer = vec![0; 1 << 16];
    let mut line = 1;
    loop {
        let length = file.read(&mut buffer).map_err(unreadable)?;
        if length == 0 {
            return Ok(line);
        }
        line += memchr::memchr_iter(b'\n', &buffer[..length]).count() as u64;
    }
}

#[cfg(test)]
mod tests;
