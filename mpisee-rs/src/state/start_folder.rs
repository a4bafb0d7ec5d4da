//! The folder in which the user started the program, where the profile goes: a program may change
//! its working directory.

use mpisee_profile::options::START_FOLDER;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Finds the folder when the library is loaded: where the launcher was started, else the working
/// directory.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        start_folder();
    }
    at_load
};

/// The folder; empty if it was removed, which stands for the working directory.
pub fn start_folder() -> &'static Path {
    FOLDER.get_or_init(|| {
        let launched = std::env::var_os(START_FOLDER).map(PathBuf::from).filter(|path| path.is_absolute());
        launched.or_else(|| std::env::current_dir().ok()).unwrap_or_default()
    })
}

/// The path from the folder, for something below it.
pub fn from_start_folder(path: &Path) -> &Path {
    path.strip_prefix(start_folder()).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(path)
}
