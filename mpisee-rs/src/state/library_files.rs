//! Files of libraries whose names mean something for a while alone: relative to what was the working directory, or of a file descriptor.

use crate::state::objects::Object;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The files of such libraries that were asked for.
pub struct LibraryFiles {
    /// PERF: each new call path asks for the file of each of its frames, and to find it takes the list of all that is mapped.
    known: Vec<(Object, String)>,
}

impl LibraryFiles {
    /// None was asked for.
    pub const fn new() -> LibraryFiles {
        LibraryFiles { known: Vec::new() }
    }

    /// The path of an object's file; that of the kernel's own, which is in no file, is its name.
    pub fn path(&mut self, object: &Object) -> String {
        let name = String::from_utf8_lossy(&object.name);
        if name.is_empty() {
            return std::fs::read_link("/proc/self/exe").map_or_else(|_| String::new(), |path| text(&path));
        }
        if !name.contains('/') || !is_passing(&name) {
            return name.into_owned();
        }
        if let Some((_, path)) = self.known.iter().find(|(known, _)| known == object) {
            return path.clone();
        }
        let path = mapped_file("/proc/self/maps", object.range.start)
            // Where the loader opened it, if the program has stayed there.
            .or_else(|| std::path::absolute(name.as_ref()).ok())
            .map_or_else(|| name.clone().into_owned(), |path| text(&path));
        if self.known.try_reserve(1).is_ok() {
            self.known.push((object.clone(), path.clone()));
        }
        path
    }
}

/// Returns whether a name may be another file's once the program has changed its working directory, or has closed a file.
fn is_passing(name: &str) -> bool {
    !name.starts_with('/') || ["/proc/", "/dev/fd/"].iter().any(|begin| name.starts_with(begin))
}

/// The file that is mapped at an address, as the kernel has it in a list like `/proc/self/maps`.
fn mapped_file(list: &str, address: usize) -> Option<PathBuf> {
    let lines = BufReader::new(File::open(list).ok()?).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| file_of(&line, address)).next()
}

/// The file in a line `START-END rw-p OFFSET DEVICE INODE   /FILE` around an address.
fn file_of(line: &[u8], address: usize) -> Option<PathBuf> {
    let fields = line.split(|&byte| byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(fields).ok()?.split_once('-')?;
    let [start, end] = [start, end].map(|number| usize::from_str_radix(number, 16));
    if !(start.ok()?..end.ok()?).contains(&address) {
        return None;
    }
    let at = line.iter().position(|&byte| byte == b'/')?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(line[at..].to_vec())))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::objects;

    #[test]
    fn the_kernel_knows_files_whatever_they_were_opened_as() {
        let address = is_passing as *const () as usize;
        let own = objects::object_at(address).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(mapped_file("/proc/self/maps", own.range.start), Some(program.clone()));
        for (name, expected) in [
            ("", text(&program)),
            ("gone/libplugin.so", text(&program)),
            ("/proc/self/fd/77", text(&program)),
            ("/usr/lib/libfixed.so", "/usr/lib/libfixed.so".to_owned()),
            ("linux-vdso.so.1", "linux-vdso.so.1".to_owned()),
        ] {
            let object = Object { name: name.into(), ..own.clone() };
            let mut files = LibraryFiles::new();
            assert_eq!([files.path(&object), files.path(&object)], [expected.clone(), expected], "{name}");
        }
    }

    #[test]
    fn names_may_have_blanks_and_be_of_no_file() {
        let line = b"7f01-7f0a r--p 00000000 00:01 1029                 /memfd:my plugin (deleted)";
        assert_eq!(file_of(line, 0x7f05), Some(PathBuf::from("/memfd:my plugin (deleted)")));
        assert_eq!(file_of(line, 0x7f0a), None);
        assert_eq!(file_of(b"7f01-7f0a rw-p 00000000 00:00 0      [heap]", 0x7f05), None);
    }
}
