//! The commands of the documentation print what its pages show: each `console` block is run beside
//! the profiles in `examples/profiles`. `UPDATE_DOCS=yes` writes what they print now. A line `...`
//! stands for any lines.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).parent().expect("the package is below the root").to_owned()
}

/// README and the pages below `docs`.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(ending) if ending == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}

/// A command of a `console` block, and the lines below it.
struct Example {
    command: String,
    output: Vec<String>,
}

impl Example {
    /// Runs the command in a shell and returns what it prints, without blanks at the ends of lines.
    fn run(&self) -> Vec<String> {
        let programs = Path::new(env!("CARGO_BIN_EXE_mpisee-through")).parent().expect("it is in a folder");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", &format!("{} 2>&1", self.command)])
            .current_dir(root().join("examples/profiles"))
            .env("PATH", path)
            .output()
            .expect("there is a shell");
        let text = String::from_utf8(output.stdout).expect("answers are UTF-8");
        trim_lines(text.lines())
    }

    /// The shown lines if they fit the printed ones, else the printed ones.
    fn update(&self, printed: &[String]) -> Vec<String> {
        if fits(&self.output, printed) { self.output.clone() } else { printed.to_vec() }
    }
}

fn trim_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Returns whether lines are as shown, where `...` is any number of them.
fn fits(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => (0..=printed.len()).any(|from| fits(rest, &printed[from..])),
        Some((first, rest)) => printed.first() == Some(first) && fits(rest, &printed[1..]),
    }
}

/// The commands of a block.
fn examples(block: &[&str]) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => {
                examples.push(Example { command: command.to_owned(), output: Vec::new() });
            }
            (None, Some(example)) => example.output.push((*line).to_owned()),
            (None, None) => panic!("a block begins with '{line}' in place of a command"),
        }
    }
    examples
        .iter_mut()
        .for_each(|example| example.output = trim_lines(example.output.iter().map(String::as_str)));
    examples
}

/// Runs the commands of a page. Returns the page as it ought to be, and what differs.
fn run_page(text: &str) -> (String, Vec<String>) {
    let (mut page, mut differences) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        writeln!(page, "{line}").expect("text grows");
        if line != "```console" {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        for (number, example) in examples(&block).iter().enumerate() {
            let printed = example.run();
            let wanted = example.update(&printed);
            if wanted != example.output {
                differences.push(format!("$ {}\n{}", example.command, printed.join("\n")));
            }
            let gap = if number > 0 { "\n" } else { "" };
            writeln!(page, "{gap}$ {}", example.command).expect("text grows");
            wanted.iter().for_each(|line| writeln!(page, "{line}").expect("text grows"));
        }
        page.push_str("```\n");
    }
    (page, differences)
}

#[test]
fn commands_print_what_the_pages_show() {
    let mut wrong = Vec::new();
    let mut commands = 0;
    for path in pages() {
        let text = std::fs::read_to_string(&path).expect("the page can be read");
        commands += text.matches("```console").count();
        let (updated, differences) = run_page(&text);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, updated).expect("the page can be written");
        } else if !differences.is_empty() {
            wrong.push(format!("{}:\n{}", path.display(), differences.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "UPDATE_DOCS=yes writes what commands print:\n{}", wrong.join("\n\n"));
    assert!(commands > 10, "{commands} blocks were found");
}

#[test]
fn dots_stand_for_any_lines() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a ... d"), &lines("a b c d")));
    assert!(fits(&lines("a ... d ..."), &lines("a d")));
    assert!(!fits(&lines("a ... d"), &lines("a b c")));
    assert!(!fits(&lines("a b"), &lines("a b c")));
}
