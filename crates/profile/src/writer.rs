//! Writes a profile directory: a new one, never into one that exists.

pub use crate::csv_text::{Begin, CsvText, to_csv};
use crate::error::ProfileError;
use crate::rows::Row;
use crate::run::RunInfo;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A profile directory being written. `run.json` comes last: without it the directory is no
/// profile, and is removed again when this is dropped.
#[derive(Debug)]
pub struct ProfileWriter {
    directory: PathBuf,
    /// The files that were made.
    files: RefCell<Vec<PathBuf>>,
    is_finished: bool,
}

/// Tries that many numbers after a name before giving up.
const MOST_NUMBERS: u32 = 9999;

/// `NAME.mpisee`, `NAME-2.mpisee`, `NAME-3.mpisee`, …
pub fn numbered(wanted: &Path) -> impl Iterator<Item = PathBuf> {
    let (wanted, stem) = (wanted.to_owned(), wanted.with_extension(""));
    (1..=MOST_NUMBERS).map(move |number| match number {
        1 => wanted.clone(),
        _ => PathBuf::from(format!("{}-{number}.mpisee", stem.display())),
    })
}

impl ProfileWriter {
    /// Creates `wanted`, or, if that exists, `NAME-2.mpisee`, `NAME-3.mpisee`, …, and the folder
    /// for it. A whole path that is not there is more likely a slip.
    pub fn create(wanted: &Path) -> Result<Self, ProfileError> {
        for directory in numbered(wanted) {
            let created = create_directory(&directory).or_else(|error| match directory.parent() {
                Some(folder) if error.kind() == ErrorKind::NotFound => {
                    // What fails here fails again in the folder.
                    let _ = create_directory(folder);
                    create_directory(&directory)
                }
                _ => Err(error),
            });
            match created {
                Ok(()) => {
                    return Ok(ProfileWriter { directory, files: RefCell::default(), is_finished: false });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => {
                    return Err(ProfileError::File { path: directory, action: "create", source });
                }
            }
        }
        Err(ProfileError::File {
            path: wanted.to_owned(),
            action: "create",
            source: std::io::Error::new(ErrorKind::AlreadyExists, "every number after the name is taken"),
        })
    }

    /// The directory that the profile is written to.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the file of a table and writes its header row.
    pub fn table<R: Row>(&self) -> Result<TableWriter, ProfileError> {
        let path = self.directory.join(R::FILE);
        let file = create_file(&path).map_err(|source| ProfileError::File {
            path: path.clone(),
            action: "create",
            source,
        })?;
        self.files.borrow_mut().push(path.clone());
        let mut table = TableWriter { path, file: BufWriter::with_capacity(1 << 16, file) };
        table.append(format!("{}\n", R::columns().join(",")).as_bytes())?;
        Ok(table)
    }

    /// Writes `run.json`, which makes the directory a profile.
    pub fn finish(mut self, run: &RunInfo) -> Result<PathBuf, ProfileError> {
        let path = self.directory.join("run.json");
        let failed = |source| ProfileError::File { path: path.clone(), action: "write", source };
        let mut text =
            serde_json::to_string_pretty(run).map_err(|error| failed(std::io::Error::other(error)))?;
        text.push('\n');
        self.files.get_mut().push(path.clone());
        let write = || {
            let mut file = create_file(&path)?;
            file.write_all(text.as_bytes())?;
            hand_over(&file)
        };
        write().map_err(failed)?;
        self.is_finished = true;
        Ok(std::mem::take(&mut self.directory))
    }
}

impl Drop for ProfileWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            for path in self.files.get_mut() {
                let _ = std::fs::remove_file(path);
            }
            let _ = std::fs::remove_dir(&self.directory);
        }
    }
}

fn create_directory(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().mode(0o777).create(path)?;
    let_owner(path, 0o700);
    Ok(())
}

fn create_file(path: &Path) -> std::io::Result<File> {
    let file = File::create_new(path)?;
    let_owner(path, 0o600);
    Ok(file)
}

/// Restores the owner's permissions that the program's umask has removed, so that the profile can
/// be read.
fn let_owner(path: &Path, rights: u32) {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
    let mode = metadata.permissions().mode();
    if mode & rights != rights {
        // What fails here fails again, and is said, where the file is used.
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o777 | rights));
    }
}

/// The end of a message if the name of the profile needed a number: `, since app.mpisee exists`.
pub fn since_taken(wanted: &Path, directory: &Path) -> String {
    if wanted == directory { String::new() } else { format!(", since {} exists", wanted.display()) }
}

/// Syncs the file, since a full disk or an exhausted quota may show only then. Errors of file
/// systems without sync are ignored.
fn hand_over(file: &File) -> std::io::Result<()> {
    match file.sync_data() {
        Err(error) if [ErrorKind::InvalidInput, ErrorKind::Unsupported].contains(&error.kind()) => Ok(()),
        result => result,
    }
}

/// One table being written.
#[derive(Debug)]
pub struct TableWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl TableWriter {
    /// Appends rows that [`to_csv`] made, here or on another rank.
    pub fn append(&mut self, rows: &[u8]) -> Result<(), ProfileError> {
        self.file.write_all(rows).map_err(|source| self.failed(source))
    }

    /// Hands everything to the system; an error that was pending shows here.
    pub fn close(mut self) -> Result<(), ProfileError> {
        self.file.flush().and_then(|()| hand_over(self.file.get_ref())).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> ProfileError {
        ProfileError::File { path: self.path.clone(), action: "write", source }
    }
}

/// Reads back what [`to_csv`] made.
pub fn from_csv<R: Row>(text: &[u8]) -> Result<Vec<R>, csv::Error> {
    let header = csv::StringRecord::from(R::columns().to_vec());
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text);
    reader.records().map(|record| record?.deserialize(Some(&header))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::rows::{CallRow, Memory, Seconds};

    fn call(comm: &str, bytes: u64) -> CallRow {
        CallRow {
            comm: comm.to_owned(),
            rank: 3,
            region: "solver/halo".to_owned(),
            call: "MPI_Allreduce".to_owned(),
            size_min: 64,
            size_max: 127,
            memory: Memory::Host,
            site: None,
            calls: 1,
            bytes,
            time_s: Seconds(0.000_000_12),
            min_s: Seconds(0.0),
            max_s: Seconds(1.5),
            time_error_s: None,
        }
    }

    #[test]
    fn a_folder_that_is_missing_is_made_and_a_path_of_folders_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let create = |path: &str| ProfileWriter::create(&scratch.path().join(path));
        assert_eq!(create("new/app.mpisee").unwrap().directory(), scratch.path().join("new/app.mpisee"));
        let failure = create("no/such/app.mpisee").unwrap_err().to_string();
        assert!(failure.contains("no/such/app.mpisee") && !scratch.path().join("no").exists(), "{failure}");
    }

    #[test]
    fn written_profile_reads_back_equal() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = ProfileWriter::create(&scratch.path().join("app.mpisee")).unwrap();
        let rows = [call("W", 101), call("W_s1.0", 103)];
        let mut table = writer.table::<CallRow>().unwrap();
        table.append(&to_csv(&rows)).unwrap();
        table.close().unwrap();
        let run = RunInfo { format_version: crate::FORMAT_VERSION, ranks: 4, ..RunInfo::default() };
        let directory = writer.finish(&run).unwrap();

        let profile = Profile::open(&directory).unwrap();
        assert_eq!(profile.run(), &run);
        let read: Vec<CallRow> = profile.rows().unwrap().map(Result::unwrap).collect();
        assert_eq!(read, rows);
        assert_eq!(from_csv::<CallRow>(&to_csv(&rows)).unwrap(), rows);
        let text = std::fs::read_to_string(directory.join("calls.csv")).unwrap();
        assert!(text.contains(",0.000000120,0.000000000,1.500000000,\n"), "{text}");
    }

    #[test]
    fn a_directory_that_exists_gets_a_number() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("app.mpisee");
        let writers = [(); 3].map(|()| ProfileWriter::create(&wanted).unwrap());
        for (writer, expected) in writers.iter().zip(["app.mpisee", "app-2.mpisee", "app-3.mpisee"]) {
            assert_eq!(writer.directory(), scratch.path().join(expected));
        }
        let said = writers.map(|writer| since_taken(&wanted, writer.directory()));
        let since = format!(", since {} exists", wanted.display());
        assert_eq!(said, ["", &since, &since]);
    }

    #[test]
    fn unfinished_profile_is_removed_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("app.mpisee");
        let writer = ProfileWriter::create(&wanted).unwrap();
        writer.table::<CallRow>().unwrap();
        drop(writer);
        assert!(!wanted.exists());

        let writer = ProfileWriter::create(&wanted).unwrap();
        writer.table::<CallRow>().unwrap();
        std::fs::write(wanted.join("notes.txt"), "somebody else's").unwrap();
        drop(writer);
        let left: Vec<_> =
            std::fs::read_dir(&wanted).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = ProfileWriter::create(&scratch.path().join("app.mpisee")).unwrap();
        let mut table = writer.table::<CallRow>().unwrap();
        table.append(&to_csv(&[call("W", 7)])).unwrap();
        table.append(b"W,0,,MPI_Send,1,1\n").unwrap();
        table.close().unwrap();
        let run = RunInfo { format_version: crate::FORMAT_VERSION, ..RunInfo::default() };
        let profile = Profile::open(writer.finish(&run).unwrap()).unwrap();
        let error = profile.rows::<CallRow>().unwrap().find_map(Result::err).unwrap().to_string();
        assert!(error.contains("calls.csv', line 3: the row has 6 fields instead of 14"), "{error}");
        let error = profile.rows::<crate::rows::PeerRow>().err().unwrap().to_string();
        assert!(error.contains("cannot read") && error.contains("peers.csv"), "{error}");
        let error = Profile::open(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("has no run.json"), "{error}");
    }
}
