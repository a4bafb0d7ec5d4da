//! Reasons why a program cannot be started.

use mpisee_in_process::guards::signals;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Why no program was started. The exit codes are a shell's.
#[derive(Debug)]
pub enum Failure {
    /// There is no such program.
    NotFound {
        /// As it was given.
        program: OsString,
    },
    /// There is a file, but it is not one that can be executed.
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// The kind of file that it is instead.
        why: &'static str,
    },
    /// Starting it failed.
    Exec {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// `--flavour` names none of the installed ones.
    UnknownFlavour {
        /// As it was given.
        wanted: String,
        /// The names that there are.
        installed: Vec<String>,
    },
    /// The command line cannot be understood, for this reason.
    Usage(String),
    /// A command cannot be repeated.
    NotRepeated {
        /// The reason, and what to do.
        why: String,
    },
    /// The variables of an MPI cannot be listed, for this reason.
    NoVariables(String),
    /// Standard output does not take the list.
    Output(io::Error),
}

/// Writes one line in one piece: the ranks of a job share their stderr. A file beyond
/// `RLIMIT_FSIZE` does not end this process, which is to become the program.
pub fn say(what: &dyn fmt::Display) {
    let _held = signals::hold([libc::SIGXFSZ]);
    let _ = io::stderr().write_all(format!("mpisee: {what}\n").as_bytes());
}

/// Two letters away at most.
fn is_nearly(given: &OsStr, command: &str) -> bool {
    strsim::damerau_levenshtein(&given.to_string_lossy(), command) <= 2
}

impl Failure {
    /// The exit code that says the same to a script.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::NotFound { .. } => 127,
            Failure::Exec { why, .. } if why.kind() == io::ErrorKind::NotFound => 127,
            Failure::NotExecutable { .. } | Failure::Exec { .. } => 126,
            Failure::UnknownFlavour { .. } | Failure::Usage(_) | Failure::NotRepeated { .. } => 2,
            Failure::Output(_) | Failure::NoVariables(_) => 1,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::NotFound { program } if program.to_string_lossy().contains('/') => {
                write!(f, "there is no program {}", program.display())
            }
            Failure::NotFound { program } => {
                let name = program.display();
                let meant =
                    if is_nearly(program, "doctor") { ", and the command is `mpisee doctor`" } else { "" };
                write!(
                    f,
                    "there is no program {name} in PATH; one in the working directory is called ./{name}{meant}"
                )
            }
            Failure::NotExecutable { path, why } => write!(f, "{} {why}", path.display()),
            Failure::Exec { path, why } => write!(f, "{} cannot be started: {why}", path.display()),
            Failure::UnknownFlavour { wanted, installed } if installed.is_empty() => {
                write!(f, "there is no flavour {wanted}: none is installed")
            }
            Failure::UnknownFlavour { wanted, installed } => {
                write!(f, "there is no flavour {wanted}: installed are {}", installed.join(", "))
            }
            Failure::Usage(why) => f.write_str(why),
            Failure::NotRepeated { why } | Failure::NoVariables(why) => f.write_str(why),
            Failure::Output(why) => write!(f, "writing the list: {why}"),
        }
    }
}
