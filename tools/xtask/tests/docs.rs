//! The pages of the documentation: each is in the site's table of contents, and their links lead
//! somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xtask::prose;

/// The checkout's present folder, which differs from the one of the build if it was moved since.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).ancestors().nth(2).expect("xtask is two folders below the root").to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files with an ending below a folder, at any depth.
fn files_below(folder: &str, ending: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            match path.extension() {
                None if path.is_dir() => folders.push(path),
                Some(found) if found == ending => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// The pages of the site.
fn pages() -> BTreeSet<PathBuf> {
    files_below("docs", "md").into_iter().collect()
}

/// The texts beside the pages.
fn texts() -> impl Iterator<Item = PathBuf> {
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"]
        .into_iter()
        .map(|name| root().join(name))
}

/// The targets of links and images within the project, without what follows `#`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let of_markdown = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let of_html = text.split("src=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let all = of_markdown.chain(of_html).map(|(link, _)| link.split('#').next().unwrap_or_default());
    all.filter(|link| !link.is_empty() && !link.contains("://") && !link.contains(char::is_whitespace))
}

#[test]
fn links_lead_to_files() {
    for page in pages().into_iter().chain(texts()) {
        for link in links(&read(&page)) {
            let target = page.parent().expect("a file is in a folder").join(link);
            assert!(target.exists(), "{} links to {link}, which is not there", page.display());
        }
    }
}

#[test]
fn pages_of_the_site_link_to_pages_of_the_site() {
    let docs = root().join("docs").canonicalize().expect("docs is there");
    for page in pages() {
        for link in links(&read(&page)) {
            let target = page.parent().expect("a file is in a folder").join(link).canonicalize();
            let is_in_site = target.is_ok_and(|target| target.starts_with(&docs));
            assert!(is_in_site, "{} links to {link}, which is not in the site", page.display());
        }
    }
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = root().join("docs/SUMMARY.md");
    let listed: Vec<PathBuf> = links(&read(&contents)).map(|link| root().join("docs").join(link)).collect();
    let mut expected = pages();
    expected.remove(&contents);
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(listed.len(), expected.len(), "a page is listed twice");
}

#[test]
fn the_page_on_ci_shows_the_jobs_of_the_examples() {
    let page = read(&root().join("docs/how-to/ci.md"));
    for name in ["github.yml", "gitlab.yml"] {
        let text = read(&root().join("examples/ci").join(name));
        let job: String =
            text.lines().skip_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        assert!(page.contains(&format!("```yaml\n{job}```\n")), "docs/how-to/ci.md does not show {name}");
    }
}

/// Mean words of a sentence, and the share of sentences above [`prose::LONG_SENTENCE`], that a page
/// may have.
const MOST_WORDS: f64 = 16.0;
const MOST_LONG: f64 = 0.03;

#[test]
fn sentences_are_short() {
    let mut wrong = Vec::new();
    let mut all = prose::Lengths::default();
    for page in pages().into_iter().chain(texts()) {
        let lengths = prose::lengths(&read(&page));
        if lengths.mean() > MOST_WORDS || lengths.long_share() > MOST_LONG {
            let long = lengths.long.join("\n    ");
            wrong.push(format!("{}: {:.1} words on average\n    {long}", page.display(), lengths.mean()));
        }
        all += lengths;
    }
    assert!(wrong.is_empty(), "sentences of at most {MOST_WORDS} words on average:\n{}", wrong.join("\n"));
    assert!(all.sentences > 500, "{} sentences were found", all.sentences);
}

#[test]
fn sentences_begin_with_their_subject() {
    let found = pages().into_iter().chain(texts()).flat_map(|page| {
        let forbidden = prose::forbidden_openings(&read(&page));
        forbidden.into_iter().map(move |sentence| format!("{}: {sentence}", page.display()))
    });
    let wrong: Vec<String> = found.collect();
    assert!(wrong.is_empty(), "sentences that hide their subject:\n{}", wrong.join("\n"));
}

#[test]
fn lines_of_text_are_wrapped() {
    let mut wrong = Vec::new();
    for page in pages().into_iter().chain(texts()) {
        let text = read(&page);
        if !text.starts_with("<!-- Generated") {
            let lines = prose::wide_lines(&text);
            wrong.extend(lines.iter().map(|(number, line)| format!("{}:{number}: {line}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "lines above {} columns:\n{}", prose::WIDTH, wrong.join("\n"));
}

#[test]
fn comments_are_wrapped() {
    let mut wrong = Vec::new();
    let folders = ["crates", "gpu-tracer", "mpisee-rs", "mpisee-through", "tests", "tools"];
    let files = folders.iter().flat_map(|folder| files_below(folder, "rs"));
    for file in files.filter(|file| !file.components().any(|part| part.as_os_str() == "target")) {
        let text = read(&file);
        let lines = prose::wide_comments(&text);
        wrong.extend(lines.iter().map(|(number, line)| format!("{}:{number}: {line}", file.display())));
    }
    assert!(wrong.is_empty(), "comments above {} columns:\n{}", prose::WIDTH, wrong.join("\n"));
}

#[test]
fn first_pages_are_short() {
    for (name, most) in [("README.md", 120), ("CONTRIBUTING.md", 60), ("CHANGELOG.md", 120)] {
        let lines = read(&root().join(name)).lines().count();
        assert!(lines <= most, "{name} has {lines} lines, more than {most}");
    }
}

#[test]
fn findings_have_short_sentences() {
    let snapshots = files_below("mpisee-through/tests/commands/snapshots", "snap");
    let is_of_advise =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("advise-"));
    let mut all = prose::Lengths::default();
    for path in snapshots.iter().filter(is_of_advise) {
        // Labels stand before the texts, which are indented.
        let labels = ["Time", "Evidence", "Threshold", "Try"];
        let lines = read(path)
            .lines()
            .map(str::trim)
            .map(|line| match labels.iter().find_map(|label| line.strip_prefix(label)) {
                Some(text) => format!("\n{}", text.trim()),
                None => line.to_owned(),
            })
            .collect::<Vec<_>>();
        all += prose::lengths(&lines.join("\n"));
    }
    assert!(all.sentences > 30, "{} sentences were found", all.sentences);
    assert!(all.mean() <= MOST_WORDS, "{} words on average", all.mean());
    assert!(all.long_share() <= MOST_LONG, "{}", all.long.join("\n"));
}

#[test]
fn errors_have_short_sentences() {
    let mut long = Vec::new();
    let mut errors = 0;
    for folder in ["mpisee-through/src", "crates", "mpisee-rs/src"] {
        for path in files_below(folder, "rs") {
            for rest in read(&path).split("bail!(").skip(1) {
                let Some(text) =
                    rest.trim_start().strip_prefix('"').and_then(|rest| rest.split("\",").next())
                else {
                    continue;
                };
                let text = text.split("\")").next().unwrap_or_default().replace("\\\n", " ");
                errors += 1;
                long.extend(
                    prose::lengths(&text).long.into_iter().map(|it| format!("{}: {it}", path.display())),
                );
            }
        }
    }
    assert!(errors > 100, "{errors} errors were found");
    assert!(long.is_empty(), "{}", long.join("\n"));
}
