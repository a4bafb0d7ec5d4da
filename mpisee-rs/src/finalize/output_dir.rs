//! Where the profile goes.

use crate::state::process::was_spawned;
use crate::state::world::World;
use std::path::{Path, PathBuf};

/// `MPISEE_OUTPUT`, or the program's name in the working directory; always `NAME.mpisee`. Spawned processes are
/// often of the same program and inherit the variable: theirs is `NAME-spawned.mpisee`, whoever ends first.
pub fn wanted(world: &World, command: &[String]) -> PathBuf {
    let program = command.first().map_or("profile", String::as_str);
    let name = Path::new(program).file_name().unwrap_or_else(|| "profile".as_ref());
    let wanted = world.options.output.clone().unwrap_or_else(|| PathBuf::from(name));
    let has_extension = wanted.extension().is_some_and(|extension| extension == "mpisee");
    let mut wanted = if has_extension { wanted.with_extension("") } else { wanted }.into_os_string();
    wanted.push(if was_spawned() { "-spawned.mpisee" } else { ".mpisee" });
    PathBuf::from(wanted)
}

/// The absolute path, for readers in another working directory.
pub fn absolute(directory: &Path) -> PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}
