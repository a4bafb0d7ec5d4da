//! The documentation names commands and options that exist.

use clap::Command;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).ancestors().nth(2).expect("the package is two folders below the root").to_owned()
}

/// README, CONTRIBUTING, and the pages below `docs` and `examples`.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs"), root().join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            match path.extension() {
                None if path.is_dir() => folders.push(path),
                Some(ending) if ending == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

#[test]
fn the_page_of_commands_is_current() {
    let path = root().join("docs/reference/commands.md");
    let page = mpisee_manuals::reference::page();
    if std::env::var_os("WRITE_COMMANDS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(present == page, "WRITE_COMMANDS=yes cargo test -p mpisee-manuals writes {}", path.display());
}

/// The words of a line without its comment; quotes are taken off.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, Some(open)) if letter == open => quote = None,
            ('#', None) if word.is_none() => break,
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The lines of `sh` blocks, with those that end in a backslash joined.
fn shell_lines(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// The options that a command has, with those of all programs.
fn has_option(command: &Command, option: &str) -> bool {
    let (name, is_long) = match option.strip_prefix("--") {
        Some(name) => (name.split('=').next().unwrap_or_default(), true),
        None => (option.trim_start_matches('-'), false),
    };
    command.get_arguments().any(|argument| {
        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
        match is_long {
            true => long.contains(&name),
            false => argument.get_short().is_some_and(|short| name.starts_with(short)),
        }
    })
}

/// The options of a program's arguments that do not exist. Those of a program that `mpisee` starts
/// are its own.
fn unknown_options(program: &Command, arguments: &[String]) -> Vec<String> {
    let command = match arguments.iter().find_map(|word| program.find_subcommand(word)) {
        Some(command) => command,
        None => program.find_subcommand("summary").unwrap_or(program),
    };
    let mut unknown = Vec::new();
    let mut takes_value = false;
    for word in arguments {
        let ends = ["--", "|", "&&", ";", ">", "&"].contains(&word.as_str());
        if ends || (program.get_name() == "mpisee" && !word.starts_with('-') && !takes_value) {
            break;
        }
        takes_value = false;
        if word.len() > 1 && word.starts_with('-') && !word[1..].starts_with(|it: char| it.is_ascii_digit()) {
            takes_value = program.get_name() == "mpisee" && !word.contains('=') && needs_value(command, word);
            if !has_option(command, word) {
                unknown.push(word.clone());
            }
        }
    }
    unknown
}

fn needs_value(command: &Command, option: &str) -> bool {
    let takes = |argument: &clap::Arg| argument.get_num_args().is_some_and(|range| range.min_values() > 0);
    let name = option.trim_start_matches('-');
    command.get_arguments().any(|argument| {
        takes(argument)
            && (argument.get_long() == Some(name)
                || argument.get_short().is_some_and(|it| name == it.to_string()))
    })
}

#[test]
fn commands_that_pages_tell_to_type_exist() {
    let mut programs = mpisee_manuals::programs();
    programs.iter_mut().for_each(Command::build);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("the page can be read");
        for line in shell_lines(&text) {
            let words = words(&line);
            for (at, word) in words.iter().enumerate() {
                let name = word.rsplit("bin/").next().unwrap_or_default();
                let Some(program) = programs.iter().find(|program| program.get_name() == name) else {
                    continue;
                };
                seen += 1;
                for option in unknown_options(program, &words[at + 1..]) {
                    wrong.push(format!("{}: {option} in '{line}'", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "unknown options:\n{}", wrong.join("\n"));
    assert!(seen > 50, "{seen} commands were found");
}
