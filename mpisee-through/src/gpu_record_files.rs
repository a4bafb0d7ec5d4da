//! The files of records of GPU accesses: one per process, named after its node and number.

use anyhow::{Context, Result, bail};
use mpisee_profile::gpu::records::{Item, RecordReader, file_name};
use mpisee_profile::rows::RankRow;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file of a rank.
pub struct RankFile {
    pub rank: u32,
    pub path: PathBuf,
}

/// The files of the run's ranks in the folder.
pub fn of_run(folder: &Path, ranks: &[RankRow]) -> Result<Vec<RankFile>> {
    std::fs::read_dir(folder).with_context(|| format!("cannot read '{}'", folder.display()))?;
    let file = |row: &RankRow| RankFile { rank: row.rank, path: folder.join(file_name(&row.host, row.pid)) };
    let files: Vec<RankFile> = ranks.iter().map(file).filter(|file| file.path.is_file()).collect();
    if files.is_empty() {
        bail!("'{}' has no records of this run's processes, HOST-PID.zst", folder.display());
    }
    Ok(files)
}

/// Calls `take` with all that is in the file, or up to its error; false if the file breaks off, as
/// where the process was killed.
pub fn read(path: &Path, mut take: impl FnMut(Item) -> Result<()>) -> Result<bool> {
    let unreadable = || format!("cannot read '{}'", path.display());
    let file = File::open(path).with_context(unreadable)?;
    let mut frames = Watched { source: zstd::Decoder::new(file).with_context(unreadable)?, is_whole: true };
    for item in RecordReader::new(&mut frames).with_context(unreadable)? {
        take(item.with_context(unreadable)?)?;
    }
    Ok(frames.is_whole)
}

/// Remembers whether reading ended with an error: a last frame that is not whole is one, and the
/// reader of records takes it for the end.
struct Watched<R> {
    source: R,
    is_whole: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer);
        self.is_whole &= read.is_ok();
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other_until_one_is_cut() {
        let read = |bytes: &[u8]| {
            let mut frames = Watched { source: zstd::Decoder::new(bytes).unwrap(), is_whole: true };
            let mut found = Vec::new();
            let _ = frames.read_to_end(&mut found);
            (found, frames.is_whole)
        };
        let [one, other] = ["first ", "second"].map(|text| zstd::encode_all(text.as_bytes(), 0).unwrap());
        let both = [&one[..], &other].concat();
        assert_eq!(read(&both), (b"first second".to_vec(), true));
        assert_eq!(read(&one), (b"first ".to_vec(), true));
        let (found, is_whole) = read(&both[..both.len() - 3]);
        assert!(found.starts_with(b"first ") && !is_whole);
    }
}
