//! Patterns of `--skip-frames` that match nothing: an error with the functions and libraries that
//! there are.

use super::{SiteArgs, Sites};
use crate::no_match::listed;
use crate::similar_names::similar;
use crate::view::ProfileView;
use anyhow::{Result, bail};
use mpisee_profile::SiteId;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Names with the number of call sites in them.
type Names = BTreeMap<String, u128>;

/// Needs each pattern of `--skip-frames` to match a function or library in one of the profiles at
/// least, on paths or not. Binaries are looked for below `dirs` first.
///
/// # Errors
/// As [`Sites::from_view`], and of a pattern that matches nothing.
pub fn need_frames<'v>(
    views: impl IntoIterator<Item = &'v ProfileView>,
    args: &SiteArgs,
    dirs: &[PathBuf],
) -> Result<()> {
    let mut left: Vec<_> = args.skip_frames.iter().collect();
    let (mut functions, mut libraries) = (Names::new(), Names::new());
    for view in views {
        if left.is_empty() {
            return Ok(());
        }
        let Some(mut sites) = Sites::from_view(view, args, dirs)? else { return Ok(()) };
        let all: Vec<SiteId> = sites.rows.keys().copied().collect();
        for site in all {
            for frame in sites.frames(site).iter() {
                left.retain(|glob| !glob.matches(&frame.function) && !glob.matches(&frame.module));
                for (names, name) in [(&mut functions, &frame.function), (&mut libraries, &frame.module)] {
                    if !name.is_empty() {
                        *names.entry(name.clone()).or_default() += 1;
                    }
                }
            }
        }
    }
    let Some(pattern) = left.first().map(ToString::to_string) else { return Ok(()) };
    let borrowed = |names: &'_ Names| -> String {
        listed(&names.iter().map(|(name, sites)| (name.as_str(), *sites)).collect())
    };
    let there_is = match functions.is_empty() {
        true => format!("the profile has no function whose name is known, in {}", borrowed(&libraries)),
        false => format!("the profile has {} in {}", borrowed(&functions), borrowed(&libraries)),
    };
    let meant = meant(&pattern, functions.keys().chain(libraries.keys()).map(String::as_str));
    bail!("no function or library matches --skip-frames '{pattern}'; {meant}{there_is}");
}

/// The names that a pattern may be meant for: those that have it in them, else the likeliest.
fn meant<'n>(pattern: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    /// Names that are suggested.
    const SUGGESTED: usize = 3;
    let text = pattern.trim_matches(['*', '?']).to_lowercase();
    let mut near: Vec<&str> =
        names.clone().filter(|name| !text.is_empty() && name.to_lowercase().contains(&text)).collect();
    if near.is_empty() {
        near = similar(pattern, names).into_iter().take(1).collect();
    }
    near.truncate(SUGGESTED);
    match near.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_the_pattern_in_them_are_suggested_before_similar_ones() {
        let names = ["Comm::sum", "Comm::max", "exchange", "libcomm.so.1"];
        let of = |pattern: &str| meant(pattern, names.into_iter());
        assert_eq!(of("Comm"), "did you mean Comm::sum, Comm::max, libcomm.so.1? ");
        assert_eq!(of("exchnage"), "did you mean exchange? ");
        assert_eq!(of("zzz*"), "");
    }
}
