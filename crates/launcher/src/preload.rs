//! Paths in LD_PRELOAD.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The dynamic loader's separators.
pub fn separates(byte: &u8) -> bool {
    *byte == b' ' || *byte == b':'
}

/// Returns whether LD_PRELOAD can hold a path.
pub fn can_be_preloaded(library: &Path) -> bool {
    !library.as_os_str().as_bytes().iter().any(separates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_loader_would_take_apart_is_recognised() {
        assert!(can_be_preloaded(Path::new("/a/libmpisee.so")));
        assert!(!can_be_preloaded(Path::new("/a b/libmpisee.so")));
        assert!(!can_be_preloaded(Path::new("/a:b/libmpisee.so")));
    }
}
