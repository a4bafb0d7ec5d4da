//! The directory of the profile.

use crate::state::process::was_spawned;
use crate::state::start_folder::start_folder;
use crate::state::world::World;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `MPISEE_OUTPUT`, or the program's name, from the folder in which the user started the program,
/// or in the folder that the variable names by a slash at its end; always `NAME.mpisee`. Spawned
/// processes are often of the same program and inherit the variable: theirs is
/// `NAME-spawned.mpisee`, whoever ends first.
pub fn wanted(world: &World, command: &[String]) -> PathBuf {
    let wanted = match &world.options.output {
        Some(output) if output.as_os_str().as_bytes().ends_with(b"/") => output.join(program_name(command)),
        Some(output) => output.clone(),
        None => PathBuf::from(program_name(command)),
    };
    let has_extension = wanted.extension().is_some_and(|extension| extension == "mpisee");
    let mut wanted = if has_extension { wanted.with_extension("") } else { wanted }.into_os_string();
    wanted.push(if was_spawned() { "-spawned.mpisee" } else { ".mpisee" });
    start_folder().join(wanted)
}

/// The name of the program, or of the script or module that Python runs.
fn program_name(command: &[String]) -> String {
    let file_name = |path: &str| {
        Path::new(path).file_name().map_or("profile".into(), |name| name.to_string_lossy().into_owned())
    };
    let program = command.first().map_or("profile".to_owned(), |program| file_name(program));
    if !program.starts_with("python") {
        return program;
    }
    script_of(&command[1..]).map_or(program, |script| {
        let name = file_name(script);
        name.strip_suffix(".py").map_or(name.clone(), str::to_owned)
    })
}

/// The script or module in the arguments of a Python interpreter.
fn script_of(arguments: &[String]) -> Option<&str> {
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "-m" => return arguments.next().and_then(|module| module.rsplit('.').next()),
            "-c" | "-" => return None,
            "-W" | "-X" | "--check-hash-based-pycs" => drop(arguments.next()),
            _ if argument.starts_with('-') => {}
            script => return Some(script),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_the_name_of_the_program_or_of_the_script() {
        for (line, expected) in [
            ("./app -n 4", "app"),
            ("/usr/bin/python3 -u -X dev dir/solver.py --fast", "solver"),
            ("python3.11 -m mpi4py.bench helloworld", "bench"),
            ("python3 -c print()", "python3"),
            ("python3", "python3"),
            ("pythonic x.py", "x"),
        ] {
            let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(program_name(&command), expected, "{line}");
        }
        assert_eq!(program_name(&[]), "profile");
    }
}
