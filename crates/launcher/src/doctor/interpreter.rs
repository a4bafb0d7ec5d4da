//! The interpreter of a script, and the MPI that Python's mpi4py has.

use super::Check;
use super::preload::output_of;
use crate::choose::needs_mpi;
use crate::environment::Hint;
use crate::flavours::Family;
use crate::program::{Program, ProgramKind};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// The interpreter of a script; none of another file. An error is that it cannot be found.
pub fn find(program: &Program, searches_here: bool) -> Result<Option<Program>, Check> {
    let Some(name) = (program.kind == ProgramKind::Script).then(|| name_in(&program.path)).flatten() else {
        return Ok(None);
    };
    Program::find(&name, searches_here).map(Some).map_err(|why| {
        let found = format!("{} needs {}: {why}", program.path.display(), name.display());
        Check::fails("program", found, "install it, or correct the first line of the script")
    })
}

/// The interpreter that the first line of a script names, after `env`.
fn name_in(script: &Path) -> Option<OsString> {
    const MOST_BYTES: u64 = 256;
    let mut begin = Vec::new();
    File::open(script).ok()?.take(MOST_BYTES).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = Path::new(OsStr::from_bytes(first)).file_name() == Some("env".as_ref());
    let mut of_env = || words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let name = if is_env { of_env().unwrap_or(first) } else { first };
    Some(OsString::from_vec(name.to_owned()))
}

/// `python`, `python3`, `python3.11`.
pub fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python");
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// A failure where Python's script is not there.
pub fn missing_script(arguments: &[OsString]) -> Option<Check> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_bytes() {
            b"-W" | b"-X" | b"--check-hash-based-pycs" => drop(arguments.next()),
            [b'-', b'-', ..] => {}
            // The program is in the argument, in a module, or in standard input.
            [b'-'] => return None,
            [b'-', letters @ ..] if letters.iter().any(|it| b"cm".contains(it)) => return None,
            [b'-', ..] => {}
            _ if Path::new(argument).exists() => return None,
            _ => {
                let found = format!("there is no script {}", argument.display());
                return Some(Check::fails("program", found, "give the program as you would run it"));
            }
        }
    }
    None
}

/// Prints the version, and that of the library that mpi4py loads, without initialising MPI.
const QUESTION: &str = "import sys; print('%d.%d' % sys.version_info[:2])\n\
                        import mpi4py; mpi4py.rc.initialize = False; mpi4py.rc.finalize = False\n\
                        from mpi4py import MPI; print(mpi4py.__version__); print(MPI.Get_library_version())\n";

/// Whether Python has mpi4py, and with which MPI; nothing for other programs.
pub fn python(path: &Path, kind: &ProgramKind, hint: Option<&Hint>) -> Option<Check> {
    if !is_python(path) || needs_mpi(kind) {
        return None;
    }
    let output = output_of(Command::new(path).args(["-c", QUESTION])).map(|(said, _)| said);
    let said = output.unwrap_or_default();
    let mut lines = said.lines();
    let is_version = |line: &&str| line.starts_with(|it: char| it.is_ascii_digit());
    let Some(version) = lines.next().filter(is_version) else {
        return Some(Check::note("Python", "the interpreter does not answer", "try it without mpisee"));
    };
    let (Some(mpi4py), Some(mpi)) = (lines.next(), lines.next()) else {
        let to_do = "activate the environment that has it, unless the program calls MPI in another way";
        return Some(Check::note("Python", format!("{version} has no mpi4py that finds an MPI"), to_do));
    };
    Some(agreement(&format!("{version} has mpi4py {mpi4py} with"), mpi, hint))
}

/// Compares the MPI of mpi4py with that of the launcher.
fn agreement(python: &str, mpi: &str, hint: Option<&Hint>) -> Check {
    let mpi = mpi.split(',').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let family = if mpi.starts_with("Open MPI") { Family::OpenMpi } else { Family::Mpich };
    match hint.filter(|hint| hint.family != family) {
        Some(hint) => Check::fails(
            "Python",
            format!("{python} {mpi}, and the launcher is of {}, so nothing is recorded", hint.family),
            "use the launcher of that MPI, or an mpi4py for this one",
        ),
        None => Check::ok("Python", format!("{python} {mpi}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn the_interpreter_is_in_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let name = |text: &str| {
            let script = folder.path().join("script");
            std::fs::write(&script, text).unwrap();
            name_in(&script).map(|name| name.into_string().unwrap())
        };
        assert_eq!(name("#! /bin/sh -e\nexit").as_deref(), Some("/bin/sh"));
        assert_eq!(name("#!/usr/bin/env -S A=1 python3 -u\n").as_deref(), Some("python3"));
        assert_eq!(name("exit\n"), None);
        assert!(["python", "python3", "/x/python3.11"].into_iter().all(|it| is_python(Path::new(it))));
        assert!(!["python_solver", "python3-sim", "ipython"].into_iter().any(|it| is_python(Path::new(it))));
    }

    #[test]
    fn a_script_that_is_not_there_is_a_failure() {
        let missing = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            missing_script(&arguments).map(|check| check.found)
        };
        assert_eq!(missing("-u -X dev no.py 5").as_deref(), Some("there is no script no.py"));
        for sound in ["-", "-c no.py", "-um mpi4py no.py", "-W", "-u /proc/self/exe no.py"] {
            assert_eq!(missing(sound), None, "{sound}");
        }
    }

    #[test]
    fn mpi4py_of_another_mpi_than_the_launchers_is_a_failure() {
        let hint = Hint {
            family: Family::Mpich,
            product: None,
            version: Vec::new(),
            variable: "PMI_RANK",
            folders: Vec::new(),
        };
        let check = agreement("3.11 has mpi4py 4.1.2 with", "Open MPI v4.1.4, package: Debian", Some(&hint));
        assert_eq!(check.outcome, Outcome::Fails);
        assert!(check.found.starts_with("3.11 has mpi4py 4.1.2 with Open MPI v4.1.4, and"), "{check:?}");
        assert_eq!(agreement("", "MPICH Version:\t4.0.2", Some(&hint)).outcome, Outcome::Ok);
        assert_eq!(
            agreement("", "Intel(R) MPI Library 2021.19", Some(&hint)).found,
            " Intel(R) MPI Library 2021.19"
        );
    }
}
