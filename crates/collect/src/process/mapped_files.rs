//! The files whose code a process has mapped, and which of them is an MPI.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files in `maps` of a process, whose folder in `/proc` this is, that may be executed: one
/// that is only read, as by a debugger, is not loaded. A file may come more than once.
pub fn mapped_files(process: &Path) -> io::Result<Vec<PathBuf>> {
    let maps = std::fs::read(process.join("maps"))?;
    Ok(maps.split(|&byte| byte == b'\n').filter_map(file_of_line).collect())
}

/// The file of a line, whose last field it is, if the second field says that it may be executed.
fn file_of_line(line: &[u8]) -> Option<PathBuf> {
    line.split(|&byte| byte == b' ').nth(1)?.contains(&b'x').then_some(())?;
    let begin = line.iter().position(|&byte| byte == b'/')?;
    Some(PathBuf::from(OsStr::from_bytes(&line[begin..])))
}

/// Returns whether a library of that name is an MPI, and not just a part of one for Fortran, C++ or
/// Java.
pub fn is_mpi(soname: &str) -> bool {
    let stem = soname.split(".so").next().unwrap_or_default();
    // Cray's libraries have the compiler's name in theirs.
    matches!(stem, "libmpi" | "libmpich" | "libmpi_abi" | "libmpi_ibm")
        || ["gnu", "cray", "intel", "nvidia", "amd"]
            .iter()
            .any(|it| stem.starts_with(&format!("libmpi_{it}")))
}

/// Returns whether a process has loaded an MPI, in whatever link namespace.
pub fn has_mpi(files: &[PathBuf]) -> bool {
    files.iter().any(|file| file.file_name().and_then(OsStr::to_str).is_some_and(is_mpi))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_last_field_of_a_line() {
        let line = b"7f1-7f2 r-xp 00000000 08:01 77                    /opt/my mpi/libmpi.so.40.30.4";
        assert!(has_mpi(&[file_of_line(line).unwrap()]));
        assert_eq!(file_of_line(b"7f1-7f2 rwxp 00000000 00:00 0"), None);
        let read = b"7f1-7f2 r--p 00000000 08:01 77                    /opt/x/libmpi.so.40";
        assert_eq!(file_of_line(read), None);
        assert!(!has_mpi(&["/usr/lib/libmpi_mpifh.so.40".into(), "/usr/lib/libc.so.6".into()]));
    }

    #[test]
    fn this_process_has_its_own_program_mapped() {
        let own = std::env::current_exe().unwrap();
        assert!(mapped_files(Path::new("/proc/self")).unwrap().contains(&own));
    }
}
