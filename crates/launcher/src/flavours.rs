//! The flavours that are installed: one build of the profiler per MPI library.

use crate::failure::Failure;
use mpisee_collect::process::mapped_files::is_mpi;
use serde::Deserialize;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The library that is preloaded.
pub const LIBRARY: &str = "libmpisee.so";

/// The end of the names that MPICH's interface has: its own `libmpi`, Debian's `libmpich`, and
/// Cray's `libmpi_gnu_91`.
const OF_MPICH: &str = ".so.12";

/// The binary interfaces that MPI libraries have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Handles are pointers.
    OpenMpi,
    /// Handles are integers: MPICH and what descends from it.
    Mpich,
    /// The MPI standard's own, of MPI 5.0.
    Standard,
}

/// The fields of a `flavour.json` that the launcher needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Flavour {
    /// `openmpi-4.1`
    pub name: String,
    /// The binary interface.
    pub family: Family,
    /// The name by which programs for this MPI need its library.
    pub soname: String,
    /// The MPI library that it was built for; a name without a folder if that was on another
    /// machine.
    pub library: PathBuf,
    /// The compiler wrapper by which it was built; empty if its description does not say.
    #[serde(default)]
    pub mpicc: PathBuf,
    /// The first line of what that library says about itself.
    pub library_version: String,
    /// The profiler: set by who reads the description.
    #[serde(skip)]
    pub profiler: PathBuf,
}

impl Flavour {
    /// The implementation: `openmpi` of `openmpi-4.1`.
    pub fn product(&self) -> &str {
        self.name.split('-').next().unwrap_or_default()
    }

    /// Returns whether the MPI's compiler wrapper lies in one of these folders, as its launcher
    /// does.
    pub fn is_of_folder(&self, folders: &[PathBuf]) -> bool {
        let own = self.mpicc.parent().and_then(|folder| folder.canonicalize().ok());
        own.is_some_and(|own| folders.contains(&own))
    }

    /// Returns whether programs that need a library of this name have the flavour's interface.
    pub fn has_interface(&self, soname: &str) -> bool {
        let is_of_mpich = self.family == Family::Mpich && is_mpi(soname) && soname.ends_with(OF_MPICH);
        is_of_mpich || self.soname == soname
    }

    /// The names that libraries with the flavour's interface have outside of Cray's machines.
    pub fn sonames(&self) -> Vec<&str> {
        match self.family {
            Family::Mpich => vec![&self.soname, "libmpi.so.12", "libmpich.so.12"],
            Family::OpenMpi | Family::Standard => vec![&self.soname],
        }
    }

    /// Product and version, of what the library says about itself.
    fn short_version(&self) -> String {
        let version = self.library_version.split(',').next().unwrap_or_default();
        version.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Its version: 4, 1 of `openmpi-4.1`.
    pub fn version(&self) -> Vec<u32> {
        numbers(self.name.split('-').nth(1).unwrap_or_default())
    }
}

/// The numbers in a dotted version.
pub fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|number| number.parse().ok()).collect()
}

/// The folder that the flavours are in, and what was found there.
pub struct Installation {
    /// `lib/mpisee`, beside the `bin` that this launcher is in.
    pub folder: PathBuf,
    /// The flavours, by name.
    pub flavours: Vec<Flavour>,
    /// Flavours that cannot be used, one sentence each.
    pub complaints: Vec<String>,
}

impl Installation {
    /// Looks for the flavours beside this launcher.
    pub fn find() -> Self {
        let launcher = std::env::current_exe().unwrap_or_default();
        let prefix = launcher.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        Self::in_folder(&prefix.join("lib/mpisee"))
    }

    fn in_folder(folder: &Path) -> Self {
        let mut installation =
            Installation { folder: folder.to_owned(), flavours: Vec::new(), complaints: Vec::new() };
        let entries = folder.read_dir();
        if let Err(why) = &entries
            && why.kind() != ErrorKind::NotFound
        {
            installation.complaints.push(format!("{} cannot be read: {why}", folder.display()));
        }
        let entries = entries.into_iter().flatten().flatten();
        for flavour in entries.map(|entry| entry.path()) {
            match flavour.join(LIBRARY).metadata() {
                Ok(file) if file.is_file() => match read(&flavour) {
                    Ok(flavour) => installation.flavours.push(flavour),
                    Err(why) => installation.complaints.push(why),
                },
                Err(why) if why.kind() == ErrorKind::PermissionDenied => {
                    installation.complaints.push(format!("{} cannot be read: {why}", flavour.display()));
                }
                _ => {}
            }
        }
        installation.flavours.sort_by(|a, b| a.name.cmp(&b.name));
        installation
    }

    /// Lists the flavours on standard output.
    pub fn list(&self) -> Result<(), Failure> {
        self.complaints.iter().for_each(|complaint| eprintln!("mpisee: {complaint}"));
        if self.flavours.is_empty() {
            eprintln!("mpisee: no flavour is installed in {}", self.folder.display());
            return Ok(());
        }
        let mut table = vec![["FLAVOUR", "SONAME", "MPI LIBRARY", "PATH"].map(str::to_owned)];
        table.extend(self.flavours.iter().map(|it| {
            let path = it.profiler.display().to_string();
            [it.name.clone(), it.soname.clone(), it.short_version(), path]
        }));
        match std::io::stdout().write_all(align(&table).as_bytes()) {
            Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(why)),
            _ => Ok(()),
        }
    }
}

fn read(folder: &Path) -> Result<Flavour, String> {
    let description = folder.join("flavour.json");
    let unusable = |why: &dyn std::fmt::Display| format!("{} cannot be used: {why}", description.display());
    let text = fs::read(&description).map_err(|why| unusable(&why))?;
    let flavour: Flavour = serde_json::from_slice(&text).map_err(|why| unusable(&why))?;
    fs::File::open(folder.join(LIBRARY)).map_err(|why| unusable(&why))?;
    Ok(Flavour { profiler: folder.join(LIBRARY), ..flavour })
}

/// Lines in which columns begin below each other.
pub fn align<const COLUMNS: usize>(table: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let line = |row: &[String; COLUMNS]| {
        let cells =
            row.iter().enumerate().map(|(column, cell)| format!("{cell:<width$}", width = width(column)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    table.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_read_is_named() {
        let prefix = tempfile::tempdir().unwrap();
        let folder = prefix.path().join("mpisee");
        assert!(Installation::in_folder(&folder).complaints.is_empty(), "there is none");
        fs::write(&folder, "").unwrap();
        let complaints = Installation::in_folder(&folder).complaints;
        let named = format!("{} cannot be read: ", folder.display());
        assert!(complaints.len() == 1 && complaints[0].starts_with(&named), "{complaints:?}");
    }
}
