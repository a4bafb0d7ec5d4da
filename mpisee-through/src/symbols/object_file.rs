//! Files with code: opening them, and their build IDs.

use object::{Object, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// A file of which only the parts are read that are looked at.
///
/// # Errors
/// Why it cannot be opened.
pub fn cached(path: &Path) -> Result<ReadCache<File>, String> {
    File::open(path).map(ReadCache::new).map_err(|error| error.to_string())
}

/// The build ID in hexadecimal; empty if there is none.
pub fn build_id<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> String {
    let id = file.build_id().ok().flatten().unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
