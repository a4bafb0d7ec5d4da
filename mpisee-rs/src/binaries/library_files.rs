//! Paths of what the loader knows by a temporary name: the program itself, and libraries that were
//! opened relative to what was the working directory then, or through a file descriptor.

use crate::binaries::objects::{Object, Stamp};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Paths that were asked for.
pub struct LibraryFiles {
    /// PERF: each new call path asks for the file of each of its frames, and to find it takes the
    /// list of all that is mapped.
    known: Vec<Known>,
}

/// An object, by which another one in its place is noticed, and its path.
struct Known {
    object: Object,
    stamp: Stamp,
    path: String,
}

/// Paths that are kept at most: a program may open libraries at ever new addresses.
const MOST_KNOWN: usize = 64;

impl LibraryFiles {
    /// None was asked for.
    pub const fn new() -> LibraryFiles {
        LibraryFiles { known: Vec::new() }
    }

    /// The path of an object's file; of the kernel's own, which is in no file, its name.
    pub fn path(&mut self, object: &Object) -> String {
        let name = String::from_utf8_lossy(&object.name);
        if !is_temporary(&name) {
            return name.into_owned();
        }
        let stamp = Stamp::at(object.range.start);
        let is_it = |known: &&Known| {
            known.object == *object && stamp.as_ref().is_some_and(|stamp| stamp.is_same(&known.stamp))
        };
        if let Some(known) = self.known.iter().find(is_it) {
            return known.path.clone();
        }
        let path =
            mapped_file("/proc/thread-self/maps", object.range.start).unwrap_or_else(|| without_list(&name));
        let path = path.to_string_lossy().into_owned();
        if self.known.len() == MOST_KNOWN {
            self.known.clear();
        }
        if let Some(stamp) = stamp
            && self.known.try_reserve(1).is_ok()
        {
            self.known.push(Known { object: object.clone(), stamp, path: path.clone() });
        }
        path
    }
}

/// The path of an object by its name alone.
fn without_list(name: &str) -> PathBuf {
    if name.is_empty() {
        return std::fs::read_link("/proc/thread-self/exe").map(present).unwrap_or_default();
    }
    // Where the loader opened it, if the program has stayed there. The kernel's own has no folder.
    let opened = if name.contains('/') { std::path::absolute(name).ok() } else { None };
    opened.unwrap_or_else(|| PathBuf::from(name))
}

/// Returns whether a name may be another file's once the program has changed its working directory,
/// or has closed a file.
fn is_temporary(name: &str) -> bool {
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
    Some(present(PathBuf::from(std::ffi::OsString::from_vec(line_breaks(&line[at..])))))
}

/// The path as it was before the file was replaced or removed, which the kernel says behind it. A
/// file may be there again; if it is another one, its build ID and its layout tell. A file in
/// memory never was anywhere else.
fn present(path: PathBuf) -> PathBuf {
    let bytes = path.as_os_str().as_encoded_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(before) if !bytes.starts_with(b"/memfd:") => {
            PathBuf::from(std::ffi::OsString::from_vec(before.to_vec()))
        }
        _ => path,
    }
}

/// The text of a line of the list, in which the kernel has written line breaks of the path as
/// `\\012`.
fn line_breaks(text: &[u8]) -> Vec<u8> {
    const WRITTEN: &[u8] = b"\\012";
    let mut read = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let is_break = rest.starts_with(WRITTEN);
        read.push(if is_break { b'\n' } else { first });
        rest = if is_break { &rest[WRITTEN.len()..] } else { behind };
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::objects;

    #[test]
    fn the_kernel_knows_files_whatever_they_were_opened_as() {
        let address = is_temporary as *const () as usize;
        let own = objects::object_at(address).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(mapped_file("/proc/self/maps", own.range.start), Some(program.clone()));
        let program = program.to_str().unwrap();
        for (name, expected) in [
            ("", program),
            ("gone/libplugin.so", program),
            ("libplugin.so", program),
            ("/proc/self/fd/77", program),
            ("/usr/lib/libfixed.so", "/usr/lib/libfixed.so"),
        ] {
            let object = Object { name: name.into(), ..own.clone() };
            let mut files = LibraryFiles::new();
            assert_eq!([files.path(&object), files.path(&object)], [expected, expected], "{name}");
        }
    }

    #[test]
    fn another_library_of_one_name_at_one_place_is_noticed() {
        let own = objects::object_at(is_temporary as *const () as usize).unwrap();
        let object = Object { name: b"./plugin.so".into(), ..own };
        let stamp = Stamp::at(libc::dlopen as *const () as usize).unwrap();
        let known = Known { object: object.clone(), stamp, path: "/of/another/plugin.so".to_owned() };
        let mut files = LibraryFiles { known: vec![known] };
        assert_eq!(files.path(&object), std::env::current_exe().unwrap().to_str().unwrap());
    }

    #[test]
    fn what_is_in_no_file_has_its_name() {
        let own = objects::object_at(is_temporary as *const () as usize).unwrap();
        let object = Object { name: b"linux-vdso.so.1".into(), range: 0..1, ..own };
        assert_eq!(LibraryFiles::new().path(&object), "linux-vdso.so.1");
    }

    #[test]
    fn names_may_have_blanks_and_breaks_and_be_of_no_file() {
        let line =
            |file: &str| format!("7f01-7f0a r--p 00000000 00:01 1029                 {file}").into_bytes();
        let path = |file: &str| file_of(&line(file), 0x7f05).unwrap();
        assert_eq!(path("/memfd:my plugin (deleted)"), PathBuf::from("/memfd:my plugin (deleted)"));
        assert_eq!(path("/opt/my app (deleted)"), PathBuf::from("/opt/my app"));
        assert_eq!(path("/opt/two\\012lines"), PathBuf::from("/opt/two\nlines"));
        assert_eq!(file_of(&line("/opt/app"), 0x7f0a), None);
        assert_eq!(file_of(b"7f01-7f0a rw-p 00000000 00:00 0      [heap]", 0x7f05), None);
    }
}
