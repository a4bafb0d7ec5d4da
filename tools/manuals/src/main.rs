//! Writes manual pages and shell completions below the folder that is its argument.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("mpisee-manuals: give the folder to write to");
        return ExitCode::FAILURE;
    };
    match mpisee_manuals::write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpisee-manuals: cannot write to '{}': {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
