//! Reads a profile directory, one row at a time.

use crate::error::ProfileError;
use crate::rows::{RankRow, Row};
use crate::run::RunInfo;
use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// An opened profile directory. Tables are streamed: nothing but `run.json` is held.
#[derive(Debug)]
pub struct Profile {
    directory: PathBuf,
    run: RunInfo,
}

impl Profile {
    /// Opens `directory` and reads its `run.json`.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, ProfileError> {
        let directory = directory.into();
        let no_profile = |why: String| ProfileError::NotAProfile { path: directory.clone(), why };
        if !directory.is_dir() {
            let why = if directory.exists() { "it is a file" } else { "there is nothing of that name" };
            return Err(no_profile(why.to_owned()));
        }
        let path = directory.join("run.json");
        let text = std::fs::read_to_string(&path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound if directory.join(RankRow::FILE).exists() => {
                ProfileError::Unfinished { path: directory.clone() }
            }
            std::io::ErrorKind::NotFound => no_profile("it has no run.json".to_owned()),
            _ => ProfileError::File { path: path.clone(), action: "read", source },
        })?;
        let run = parse_run(&directory, &path, &text)?;
        Ok(Profile { directory, run })
    }

    /// `run.json`: the run as a whole.
    pub fn run(&self) -> &RunInfo {
        &self.run
    }

    /// The profile directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The rows of a table that exists only if it has rows, as that of [`crate::rows::OutsideRow`].
    pub fn rows_if_any<R: Row>(&self) -> Result<impl Iterator<Item = Result<R, ProfileError>>, ProfileError> {
        let rows = if self.directory.join(R::FILE).exists() { Some(self.rows::<R>()?) } else { None };
        Ok(rows.into_iter().flatten())
    }

    /// Returns whether a table is there and has a column, which older profiles may lack.
    pub fn has_column<R: Row>(&self, column: &str) -> bool {
        let reader = csv::Reader::from_path(self.directory.join(R::FILE));
        reader.is_ok_and(|mut reader| {
            reader.headers().is_ok_and(|header| header.iter().any(|name| name == column))
        })
    }

    /// The rows of one table, in file order.
    ///
    /// ```no_run
    /// # use mpisee_profile::{Profile, rows::CallRow};
    /// # fn main() -> Result<(), mpisee_profile::ProfileError> {
    /// for row in Profile::open("app.mpisee")?.rows::<CallRow>()? {
    ///     println!("{}", row?.call);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn rows<R: Row>(&self) -> Result<Rows<R>, ProfileError> {
        Rows::open(self.directory.join(R::FILE))
    }
}

fn parse_run(directory: &Path, path: &Path, text: &str) -> Result<RunInfo, ProfileError> {
    let malformed = |error: serde_json::Error| ProfileError::Malformed {
        path: path.to_owned(),
        line: error.line() as u64,
        why: error.to_string(),
    };
    // The version decides whether the rest can be understood, so it is looked at first.
    let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
    match value.get("format_version").and_then(serde_json::Value::as_u64) {
        Some(version) if version > u64::from(crate::FORMAT_VERSION) => Err(ProfileError::NewerFormat {
            path: directory.to_owned(),
            found: u32::try_from(version).unwrap_or(u32::MAX),
        }),
        Some(_) => serde_json::from_str(text).map_err(malformed),
        None => Err(ProfileError::NotAProfile {
            path: directory.to_owned(),
            why: "its run.json has no format_version".to_owned(),
        }),
    }
}

/// The rows of one table; an error names file and line, and ends the iteration.
pub struct Rows<R> {
    path: PathBuf,
    records: csv::StringRecordsIntoIter<BufReader<File>>,
    header: csv::StringRecord,
    failed: bool,
    row: PhantomData<R>,
}

impl<R: Row> Rows<R> {
    fn open(path: PathBuf) -> Result<Self, ProfileError> {
        let file = File::open(&path).map_err(|source| ProfileError::File {
            path: path.clone(),
            action: "read",
            source,
        })?;
        let mut reader = csv::Reader::from_reader(BufReader::with_capacity(1 << 16, file));
        let header =
            reader.headers().map_err(|error| malformed(&path, &error, &csv::StringRecord::new()))?.clone();
        for column in R::columns().iter().filter(|column| !R::OPTIONAL.contains(column)) {
            if !header.iter().any(|name| name == *column) {
                return Err(ProfileError::MissingColumn {
                    path,
                    column,
                    header: header.iter().collect::<Vec<_>>().join(","),
                });
            }
        }
        Ok(Rows { path, records: reader.into_records(), header, failed: false, row: PhantomData })
    }

    fn parse(&self, record: Result<csv::StringRecord, csv::Error>) -> Result<R, ProfileError> {
        record
            .and_then(|record| record.deserialize(Some(&self.header)))
            .map_err(|error| malformed(&self.path, &error, &self.header))
    }
}

fn malformed(path: &Path, error: &csv::Error, header: &csv::StringRecord) -> ProfileError {
    let line = error.position().map_or(1, csv::Position::line);
    let why = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} fields instead of {expected_len}; the file may be cut off")
        }
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| header.get(usize::try_from(field).ok()?));
            let column = column.map_or(String::new(), |column| format!("column '{column}': "));
            format!("{column}{}", err.kind())
        }
        csv::ErrorKind::Utf8 { .. } => "the row is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    };
    ProfileError::Malformed { path: path.to_owned(), line, why }
}

impl<R: Row> Iterator for Rows<R> {
    type Item = Result<R, ProfileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.records.next()?;
        let row = self.parse(record);
        self.failed = row.is_err();
        Some(row)
    }
}
