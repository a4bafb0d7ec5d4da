//! Where `mpisee` goes in a command that is repeated.
//!
//! The profiler has to reach the ranks, on all nodes. Variables do not: not every launcher passes
//! them on, and a library that is preloaded on some nodes alone lets others wait for it. So
//! `mpisee` stands before the program, as without `--repeat`: where the user has put it; else
//! before the program that is linked with MPI. Where that is not certain, nothing is guessed.

use crate::cli;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The kind of a word in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The launcher of the profiler.
    Mpisee,
    /// A program that is linked with an MPI library.
    MpiProgram,
    /// A program that an interpreter runs, which may do anything with the words after it.
    Script,
    /// A launcher of MPI programs.
    Launcher,
    /// An option, its value, or another program.
    Other,
}

/// A command to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Placed {
    pub command: Vec<OsString>,
    /// The program and its arguments, by which the profiles are called.
    pub program: Vec<OsString>,
}

/// The options for the arguments that `mpisee` has in a command.
pub type OptionsFor<'a> = dyn Fn(&[OsString]) -> Result<Vec<OsString>, String> + 'a;

/// The words to put into the command.
pub struct Insertion<'a> {
    /// This launcher, where the command has none.
    pub mpisee: &'a OsStr,
    /// The options for the ranks of a command; an error where those that it has do not allow it.
    pub options: &'a OptionsFor<'a>,
}

/// The command with `mpisee` and its options before each program; an error, which says what to do,
/// where that is not certain.
pub fn place(
    words: &[OsString],
    kind: impl Fn(&OsStr) -> Word,
    insertion: &Insertion<'_>,
) -> Result<Placed, String> {
    let is_launched = words.first().is_some_and(|first| kind(first) == Word::Launcher);
    // Programs of one job stand between colons.
    let sections: Vec<&[OsString]> = match is_launched {
        true => words.split(|word| word == ":").collect(),
        false => vec![words],
    };
    let found: Vec<Option<(usize, Word)>> = sections.iter().map(|section| first_of(section, &kind)).collect();
    let has = |wanted: Word| found.iter().any(|found| found.is_some_and(|(_, word)| word == wanted));
    let before = match () {
        () if has(Word::Mpisee) => Word::Mpisee,
        // A script may have `mpisee` in it.
        () if !is_launched && kind(&words[0]) == Word::Script => {
            return Ok(Placed { command: words.to_vec(), program: words.to_vec() });
        }
        () if found.iter().all(|found| found.is_some_and(|(_, word)| word == Word::MpiProgram)) => {
            Word::MpiProgram
        }
        () => return Err(uncertain(words)),
    };
    let mut command: Vec<OsString> = Vec::new();
    let mut program = None;
    for (section, found) in sections.into_iter().zip(found) {
        if !command.is_empty() {
            command.push(":".into());
        }
        match found.filter(|(_, word)| *word == before) {
            None => command.extend_from_slice(section),
            Some((place, word)) => {
                let after = if word == Word::Mpisee { place + 1 } else { place };
                command.extend_from_slice(&section[..after]);
                if word == Word::MpiProgram {
                    command.push(insertion.mpisee.to_owned());
                }
                let own = if word == Word::Mpisee { &section[after..] } else { &[] };
                command.extend((insertion.options)(own)?);
                command.extend_from_slice(&section[after..]);
                program.get_or_insert(section[after..].to_vec());
            }
        }
    }
    Ok(Placed { command, program: program.unwrap_or_default() })
}

/// The first word that decides where `mpisee` goes.
fn first_of(section: &[OsString], kind: &impl Fn(&OsStr) -> Word) -> Option<(usize, Word)> {
    let decides = |word: &Word| matches!(word, Word::Mpisee | Word::MpiProgram | Word::Script);
    let words = section.iter().enumerate().filter(|(_, word)| !word.as_encoded_bytes().starts_with(b"-"));
    let first = words.map(|(place, word)| (place, kind(word))).find(|(_, word)| decides(word));
    // A script that `mpisee` follows may as well be the value of an option.
    match first {
        Some((place, Word::Script)) => {
            let later = section[place..].iter().position(|word| kind(word) == Word::Mpisee);
            later.map(|further| (place + further, Word::Mpisee)).or(first)
        }
        _ => first,
    }
}

fn uncertain(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    format!(
        "nothing was run, because the MPI program in '{}' is not certain; put mpisee before it, as in: \
         mpisee --repeat 5 -- mpirun -n 4 mpisee python3 app.py",
        words.join(" ")
    )
}

/// The name by which the profiles of a program are known: that of a script, where Python runs it.
pub fn name_of(program: &[OsString]) -> String {
    let without_options = cli::program_of(program);
    let program = without_options.as_deref().unwrap_or(program);
    let name = |word: &OsString| {
        Path::new(word).file_name().map_or("profiles".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let first = program.first().map_or("profiles".to_owned(), name);
    let script = program.iter().skip(1).find(|word| word.as_encoded_bytes().ends_with(b".py"));
    match script.filter(|_| first.starts_with("python")) {
        Some(script) => name(script).trim_end_matches(".py").to_owned(),
        None => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(word: &OsStr) -> Word {
        match word.to_str().unwrap() {
            "mpirun" => Word::Launcher,
            "mpisee" => Word::Mpisee,
            "app" | "other" => Word::MpiProgram,
            "job.sh" | "wrap.sh" => Word::Script,
            _ => Word::Other,
        }
    }

    /// The command that is run, or the error.
    fn placed(line: &str) -> Result<String, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let options = |_: &[OsString]| Ok(vec!["-o".into(), "D/".into()]);
        let insertion = Insertion { mpisee: "M".as_ref(), options: &options };
        let command = place(&words, kind, &insertion)?.command;
        Ok(command.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn options_go_behind_the_mpisee_that_is_there() {
        for (line, expected) in [
            ("mpirun -n 4 mpisee app mpisee", "mpirun -n 4 mpisee -o D/ app mpisee"),
            ("mpirun -n 4 mpisee python3 app", "mpirun -n 4 mpisee -o D/ python3 app"),
            ("mpisee app", "mpisee -o D/ app"),
            ("mpirun -n 1 wrap.sh mpisee app", "mpirun -n 1 wrap.sh mpisee -o D/ app"),
            // Of several programs those that have it.
            ("mpirun -n 1 mpisee app : -n 2 other", "mpirun -n 1 mpisee -o D/ app : -n 2 other"),
        ] {
            assert_eq!(placed(line).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn mpisee_goes_before_programs_that_are_linked_with_mpi() {
        for (line, expected) in [
            ("mpirun -n 4 app x app", "mpirun -n 4 M -o D/ app x app"),
            ("mpirun --map-by node numactl -l app", "mpirun --map-by node numactl -l M -o D/ app"),
            (
                "mpirun -n 1 app : -n 2 other : -n 3 app",
                "mpirun -n 1 M -o D/ app : -n 2 M -o D/ other : -n 3 M -o D/ app",
            ),
            ("app", "M -o D/ app"),
        ] {
            assert_eq!(placed(line).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for line in
            ["mpirun -n 4 python3 app.py", "mpirun -n 4 wrap.sh app", "mpirun -n 1 app : -n 2 ls", "ls"]
        {
            assert!(placed(line).is_err_and(|why| why.contains("put mpisee before it")), "{line}");
        }
        // What a script starts is its own business.
        assert_eq!(placed("job.sh 4").as_deref(), Ok("job.sh 4"));
    }

    #[test]
    fn profiles_are_called_by_program_or_script() {
        let name = |line: &str| name_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(name("./bin/app -n 4"), "app");
        assert_eq!(name("python3 -u dir/solver.py x.py"), "solver");
        assert_eq!(name("app x.py"), "app");
        assert_eq!(name("--watch -q ./app 5"), "app");
        assert_eq!(name("--mpi-t pml_* --record=off python3 solver.py"), "solver");
    }
}
