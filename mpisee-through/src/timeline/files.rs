//! The files of a node in a time line: CSV, compressed by Zstandard in frames that are appended.

use super::gpus::{self, GpuLinkRow, NodeGpu};
use super::history::History;
use super::{NodeFile, fresh, open};
use anyhow::{Context, Result, bail};
use mpisee_profile::rows::{NodeRateRow, RateRow, Row};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a table at most: a small file may unpack to any size.
const MOST_BYTES: u64 = 512 << 20;
/// Strong enough for digits, and cheap.
const LEVEL: i32 = 1;

/// The path of a node's table.
pub fn table_path<R: Row>(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.{}.zst", R::FILE))
}

/// The path of what is said of a node.
pub fn node_path(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("{host}.json"))
}

/// Takes a name in a folder for the node, which is its own if no other node has it there; returns
/// what is said of it then.
pub fn claim(folder: &Path, node: NodeFile) -> Result<NodeFile> {
    const MOST_TRIES: u32 = 10_000;
    let cannot = || format!("cannot write into '{}'", folder.display());
    for number in 1..MOST_TRIES {
        let host = if number == 1 { node.host.clone() } else { format!("{}~{number}", node.host) };
        let claimed = NodeFile { host, ..node.clone() };
        let path = node_path(folder, &claimed.host);
        let whole = folder.join(format!(".{}.{}", claimed.host, std::process::id()));
        let text = serde_json::to_vec_pretty(&claimed)?;
        fresh(&whole).and_then(|mut file| file.write_all(&text)).with_context(cannot)?;
        let linked = std::fs::hard_link(&whole, &path);
        let _ = std::fs::remove_file(&whole);
        match linked {
            Ok(()) => return Ok(claimed),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(cannot),
        }
        let known: Option<NodeFile> = open(&path).ok().and_then(|file| serde_json::from_reader(file).ok());
        // An earlier agent of the node; of versions before it had an identity, too.
        if known.is_some_and(|known| known.node == claimed.node || known.node.is_empty()) {
            return Ok(claimed);
        }
    }
    bail!("{MOST_TRIES} nodes in '{}' are called {}", folder.display(), node.host)
}

/// The files of one node, that its agent writes.
#[derive(Debug)]
pub struct NodeFiles {
    folder: PathBuf,
    host: String,
    /// True if the files have their headers.
    begun: bool,
    /// Intervals that are in the files.
    written: usize,
    /// True after a part of a frame may have been written.
    is_broken: bool,
}

impl NodeFiles {
    /// The files of a node in a folder that exists; none is written yet.
    pub fn new(folder: &Path, host: &str) -> Self {
        NodeFiles {
            folder: folder.to_owned(),
            host: host.to_owned(),
            begun: false,
            written: 0,
            is_broken: false,
        }
    }

    /// Appends the intervals that are not in the files.
    pub fn append(&mut self, history: &History) -> Result<()> {
        if self.is_broken {
            return self.rewrite(history);
        }
        if history.len() > self.written {
            self.is_broken = true;
            self.append_rows(history.rate_rows(self.written))?;
            self.append_rows(history.node_rows(self.written))?;
            self.is_broken = false;
            self.begun = true;
            self.written = history.len();
        }
        Ok(())
    }

    /// Writes all intervals anew. Readers see the earlier files or these.
    pub fn rewrite(&mut self, history: &History) -> Result<()> {
        self.is_broken = true;
        self.replace(&table_path::<RateRow>(&self.folder, &self.host), &frame(history.rate_rows(0), true)?)?;
        let nodes = frame(history.node_rows(0), true)?;
        self.replace(&table_path::<NodeRateRow>(&self.folder, &self.host), &nodes)?;
        self.is_broken = false;
        self.begun = true;
        self.written = history.len();
        Ok(())
    }

    /// Writes what is said of the node.
    pub fn describe(&self, node: &NodeFile) -> Result<()> {
        self.replace(&node_path(&self.folder, &self.host), &serde_json::to_vec_pretty(node)?)
    }

    /// Writes the tables of the node's GPUs.
    pub fn write_gpus(&self, gpus: &[NodeGpu], links: &[GpuLinkRow]) -> Result<()> {
        self.replace(&gpus::gpus_path(&self.folder, &self.host), &gpus::csv(gpus)?)?;
        if links.is_empty() {
            return Ok(());
        }
        self.replace(&gpus::links_path(&self.folder, &self.host), &gpus::csv(links)?)
    }

    fn append_rows<R: Row>(&self, rows: impl Iterator<Item = R>) -> Result<()> {
        let path = table_path::<R>(&self.folder, &self.host);
        let cannot = || format!("cannot write '{}'", path.display());
        let frame = frame(rows, !self.begun)?;
        let mut options = OpenOptions::new();
        options.create(true).append(true).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(&path).with_context(cannot)?;
        file.write_all(&frame).with_context(cannot)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<()> {
        let cannot = || format!("cannot write '{}'", path.display());
        let whole = self.folder.join(format!(".{}.{}", self.host, std::process::id()));
        let written = fresh(&whole).and_then(|mut file| file.write_all(content));
        let renamed = written.and_then(|()| std::fs::rename(&whole, path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&whole);
        }
        renamed.with_context(cannot)
    }
}

/// Rows as a frame.
fn frame<R: Row>(rows: impl Iterator<Item = R>, with_header: bool) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    if with_header {
        writer.write_record(R::columns())?;
    }
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(zstd::bulk::compress(&writer.into_inner()?, LEVEL)?)
}

/// The rows of a table, and whether its end was cut off; then the rows before that are read.
pub fn read<R: Row>(path: &Path) -> Result<(Vec<R>, bool)> {
    let cannot = || format!("cannot read '{}'", path.display());
    let file = open(path)?;
    let mut text = Vec::new();
    let whole =
        zstd::Decoder::with_buffer(file).and_then(|decoder| decoder.take(MOST_BYTES).read_to_end(&mut text));
    if text.len() as u64 == MOST_BYTES {
        bail!("'{}' has more than {} MiB of rows", path.display(), MOST_BYTES >> 20);
    }
    if whole.is_err() {
        // An agent that was killed may have left a part of a row.
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        text.truncate(end);
    }
    let rows: Result<Vec<R>, csv::Error> = csv::Reader::from_reader(text.as_slice()).deserialize().collect();
    Ok((rows.with_context(cannot)?, whole.is_err()))
}

#[cfg(test)]
mod tests {
    use super::super::history::{Interval, NodeRate, Rate};
    use super::*;

    /// Intervals with a row of each kind.
    fn history(intervals: u32) -> History {
        let mut history = History::new("n1", 1000);
        let calls = history.calls.number(("W_s1.*@4".to_owned(), "MPI_Bcast".to_owned()));
        let ranks = history.quantities.number(("job".to_owned(), String::new(), "ranks".to_owned()));
        for number in 0..intervals {
            let rate = Rate { name: calls, calls: number.into(), min_s: f64::NAN, ..Rate::default() };
            let interval = Interval { begin_s: number.into(), length_s: 1.0 };
            history.push(interval, &[rate], &[NodeRate { name: ranks, value: 4.0 }]);
        }
        history
    }

    fn calls(folder: &Path) -> (Vec<u64>, bool) {
        let (rows, is_cut) = read::<RateRow>(&table_path::<RateRow>(folder, "n1")).unwrap();
        (rows.iter().map(|row| row.calls).collect(), is_cut)
    }

    #[test]
    fn what_is_appended_is_read_as_one_table() {
        let place = tempfile::tempdir().unwrap();
        let mut files = NodeFiles::new(place.path(), "n1");
        for intervals in [2, 2, 5] {
            files.append(&history(intervals)).unwrap();
        }
        assert_eq!(calls(place.path()), (vec![0, 1, 2, 3, 4], false));
        let (rows, _) = read::<RateRow>(&table_path::<RateRow>(place.path(), "n1")).unwrap();
        assert!(rows.into_iter().eq(history(5).rate_rows(0)));
        files.rewrite(&history(3)).unwrap();
        files.append(&history(4)).unwrap();
        assert_eq!(calls(place.path()), (vec![0, 1, 2, 3], false));
        let (rows, _) = read::<NodeRateRow>(&table_path::<NodeRateRow>(place.path(), "n1")).unwrap();
        assert!(rows.into_iter().eq(history(4).node_rows(0)));
    }

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let place = tempfile::tempdir().unwrap();
        let mut files = NodeFiles::new(place.path(), "n1");
        files.append(&history(2)).unwrap();
        let path = table_path::<NodeRateRow>(place.path(), "n1");
        let kept = place.path().join("kept");
        std::fs::rename(&path, &kept).unwrap();
        // Rows of the other table are written first.
        std::fs::create_dir(&path).unwrap();
        assert!(files.append(&history(4)).is_err() && files.append(&history(5)).is_err());
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
        files.append(&history(6)).unwrap();
        assert_eq!(calls(place.path()), (vec![0, 1, 2, 3, 4, 5], false));
        let (rows, _) = read::<NodeRateRow>(&path).unwrap();
        assert!(rows.into_iter().eq(history(6).node_rows(0)));
    }

    #[test]
    fn nodes_of_one_name_have_files_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let node =
            |node: &str| NodeFile { host: "n1".to_owned(), node: node.to_owned(), ..NodeFile::default() };
        let claimed = ["a", "b", "a", "c", "b"].map(|name| claim(place.path(), node(name)).unwrap().host);
        assert_eq!(claimed, ["n1", "n1~2", "n1", "n1~3", "n1~2"]);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 3);
    }

    #[test]
    fn of_a_file_that_was_cut_off_the_frames_before_are_read() {
        let place = tempfile::tempdir().unwrap();
        let mut files = NodeFiles::new(place.path(), "n1");
        files.rewrite(&history(0)).unwrap();
        files.append(&history(2)).unwrap();
        let path = table_path::<RateRow>(place.path(), "n1");
        let whole = std::fs::read(&path).unwrap().len();
        files.append(&history(5)).unwrap();
        let all = std::fs::read(&path).unwrap();
        for length in whole + 1..all.len() {
            std::fs::write(&path, &all[..length]).unwrap();
            let (calls, is_cut) = calls(place.path());
            assert!(is_cut && calls.starts_with(&[0, 1]), "{length} of {}: {calls:?}", all.len());
        }
    }
}
