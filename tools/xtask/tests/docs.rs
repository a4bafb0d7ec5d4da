//! The pages of the documentation: each is in the site's table of contents, and their links lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The checkout's present folder, which differs from the one of the build if it was moved since.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs tests");
    Path::new(&package).ancestors().nth(2).expect("xtask is two folders below the root").to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn pages() -> BTreeSet<PathBuf> {
    ["docs", "docs/design"].into_iter().flat_map(pages_in).collect()
}

fn pages_in(folder: &str) -> Vec<PathBuf> {
    let entries = root().join(folder).read_dir().expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
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
    let texts =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"].map(|name| root().join(name));
    for page in pages().into_iter().chain(texts) {
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
