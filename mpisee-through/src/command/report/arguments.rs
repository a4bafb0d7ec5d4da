//! The arguments of commands whose answers a report has, for JSON.

use anyhow::{Context, Result};
use clap::{Args, FromArgMatches};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The arguments of a command on these profiles, and of those behind `--`, if it takes some.
pub fn arguments<A: Args + FromArgMatches>(
    options: &[&str],
    profiles: &[PathBuf],
    after: &[PathBuf],
) -> Result<A> {
    let words = ["report", "--format", "json"].into_iter().chain(options.iter().copied());
    let mut words: Vec<OsString> = words.map(Into::into).collect();
    words.extend(profiles.iter().map(|profile| not_an_option(profile)));
    if !after.is_empty() {
        words.push("--".into());
        words.extend(after.iter().map(|profile| not_an_option(profile)));
    }
    let matches = A::augment_args(clap::Command::new("report")).try_get_matches_from(words);
    A::from_arg_matches(&matches.context("the arguments of a table")?).context("the arguments of a table")
}

/// A path that begins as options do, in another way.
fn not_an_option(path: &Path) -> OsString {
    match path.as_os_str().as_encoded_bytes().first() {
        Some(b'-') => Path::new(".").join(path).into_os_string(),
        _ => path.as_os_str().to_owned(),
    }
}
