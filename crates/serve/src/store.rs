//! The history of ended jobs, in a file of SQLite.

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The version of the tables.
const VERSION: i64 = 1;
/// How long to wait for another server that writes to the same file.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    start_s INTEGER NOT NULL,
    ended_s INTEGER NOT NULL,
    command TEXT NOT NULL,
    ranks INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    elapsed_s REAL NOT NULL,
    mpi_share REAL NOT NULL,
    calls INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS job_ended ON job (ended_s);
";

/// An ended job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// As in the address of its page.
    pub key: String,
    /// Seconds since 1970, UTC.
    pub start_s: u64,
    /// When it was seen last.
    pub ended_s: u64,
    /// The command line.
    pub command: String,
    /// Ranks in `MPI_COMM_WORLD`.
    pub ranks: u32,
    /// Nodes that were seen.
    pub nodes: u32,
    /// How long it ran.
    pub elapsed_s: f64,
    /// The part of the ranks' time in MPI.
    pub mpi_share: f64,
    /// Calls in all.
    pub calls: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// JSON of the job's page.
    #[serde(skip)]
    pub detail: String,
}

/// The history.
pub struct Store {
    connection: Mutex<Connection>,
    keep: u32,
}

impl Store {
    /// Of a file, which is made if it is not there; `keep` jobs stay.
    pub fn open(file: &Path, keep: u32) -> Result<Store> {
        let open = || -> Result<Connection> {
            if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                std::fs::create_dir_all(folder)?;
            }
            // A pipe would be waited for.
            if std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
                bail!("it is no file");
            }
            // Command lines are nobody else's business.
            use std::os::unix::fs::OpenOptionsExt;
            std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
            Ok(Connection::open(file)?)
        };
        let connection = open().and_then(prepared).with_context(|| {
            format!("cannot keep the history in '{}'; --store FILE names another place", file.display())
        })?;
        Ok(Store { connection: Mutex::new(connection), keep })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, or what is new of it, and removes those that ended first, if there are too many.
    pub fn add(&self, record: &Record) -> Result<()> {
        // SQLite's numbers are signed.
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let mut connection = self.connection();
        let change = connection.transaction()?;
        change.execute(
            "INSERT OR REPLACE INTO job (key, start_s, ended_s, command, ranks, nodes, elapsed_s, mpi_share, calls, bytes, detail) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                record.key,
                number(record.start_s),
                number(record.ended_s),
                record.command,
                record.ranks,
                record.nodes,
                record.elapsed_s,
                record.mpi_share,
                number(record.calls),
                number(record.bytes),
                record.detail,
            ],
        )?;
        change.execute(
            "DELETE FROM job WHERE id NOT IN (SELECT id FROM job ORDER BY ended_s DESC, id DESC LIMIT ?1)",
            [self.keep],
        )?;
        Ok(change.commit()?)
    }

    /// How many there are, and some of them, the last first.
    pub fn page(&self, from: u32, most: u32) -> Result<(u64, Vec<Record>)> {
        let connection = self.connection();
        let count: i64 = connection.query_row("SELECT count(*) FROM job", [], |row| row.get(0))?;
        let mut query = connection.prepare_cached(
            "SELECT key, start_s, ended_s, command, ranks, nodes, elapsed_s, mpi_share, calls, bytes FROM job \
             ORDER BY ended_s DESC, id DESC LIMIT ?1 OFFSET ?2",
        )?;
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        let records = query.query_map([most, from], |row| {
            Ok(Record {
                key: row.get(0)?,
                start_s: number(row.get(1)?),
                ended_s: number(row.get(2)?),
                command: row.get(3)?,
                ranks: row.get(4)?,
                nodes: row.get(5)?,
                elapsed_s: row.get(6)?,
                mpi_share: row.get(7)?,
                calls: number(row.get(8)?),
                bytes: number(row.get(9)?),
                detail: String::new(),
            })
        })?;
        Ok((number(count), records.collect::<rusqlite::Result<_>>()?))
    }

    /// The JSON of a job's page.
    pub fn detail(&self, key: &str) -> Result<Option<String>> {
        let connection = self.connection();
        let found = connection.query_row("SELECT detail FROM job WHERE key = ?1", [key], |row| row.get(0));
        Ok(found.optional()?)
    }
}

/// With its tables.
fn prepared(connection: Connection) -> Result<Connection> {
    connection.busy_timeout(PATIENCE)?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > VERSION {
        bail!(
            "it has version {version} of the format, this program reads up to {VERSION}; --store names another file"
        );
    }
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(connection)
}

/// `mpisee/history.sqlite` where programs keep their state.
pub fn default_file() -> Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let state =
        state.context("there is neither XDG_STATE_HOME nor HOME; --store names a file for the history")?;
    Ok(state.join("mpisee/history.sqlite"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn record(number: u64) -> Record {
        Record {
            key: format!("{number:x}-4-{number}"),
            start_s: 1_700_000_000 + number,
            ended_s: 1_700_000_100 + number,
            command: format!("./app {number}"),
            ranks: 4,
            nodes: 2,
            elapsed_s: 100.5,
            mpi_share: 0.25,
            calls: 10 * number,
            bytes: u64::MAX,
            detail: format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(50_000)),
        }
    }

    #[test]
    fn a_thousand_jobs_stay_and_the_first_go() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("state/history.sqlite");
        let begin = Instant::now();
        let store = Store::open(&file, 1000).unwrap();
        (0..1100).for_each(|number| store.add(&record(number)).unwrap());
        drop(store);
        let store = Store::open(&file, 1000).unwrap();
        let (count, records) = store.page(0, 100).unwrap();
        assert_eq!((count, records.len(), records[0].key.as_str()), (1000, 100, "44b-4-1099"));
        assert_eq!(records[0], Record { bytes: i64::MAX as u64, detail: String::new(), ..record(1099) });
        assert_eq!(store.page(990, 100).unwrap().1.last().unwrap().key, record(100).key);
        assert_eq!(store.detail(&record(500).key).unwrap(), Some(record(500).detail));
        assert_eq!(store.detail(&record(99).key).unwrap(), None, "it is gone");
        store.add(&Record { ranks: 8, ..record(500) }).unwrap();
        assert_eq!(store.page(0, 1).unwrap().0, 1000, "a job is there once");
        assert!(begin.elapsed() < Duration::from_secs(60));
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_history_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("x");
        std::fs::write(&file, "this is a text and no data base, and it is long enough to be told apart")
            .unwrap();
        let error = format!("{:#}", Store::open(&file, 1).err().unwrap());
        assert!(
            error.starts_with("cannot keep the history in '") && error.contains("not a database"),
            "{error}"
        );
        let newer = place.path().join("newer");
        Connection::open(&newer).unwrap().pragma_update(None, "user_version", 9).unwrap();
        let error = format!("{:#}", Store::open(&newer, 1).err().unwrap());
        assert!(error.contains("it has version 9 of the format, this program reads up to 1"), "{error}");
    }
}
