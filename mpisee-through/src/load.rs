//! Opens a profile and loads its small tables; commands stream the large ones.

use crate::left_behind;
use crate::profile_folders;
use crate::similar_names::similar;
use crate::units::natural_order;
use anyhow::{Result, anyhow};
use mpisee_profile::rows::{CommRow, Row};
use mpisee_profile::{Profile, ProfileError};
use std::path::Path;

/// Opens the profile directory; where it is a folder of profiles, names some of these; where there
/// is none, says whether a run has left counts for it, or which profiles lie nearby and which runs
/// have left counts on this node.
pub fn open(directory: &Path) -> Result<Profile> {
    Profile::open(directory).map_err(|error| {
        if directory.exists() {
            return match profiles_in(directory) {
                Some(profiles) => anyhow!("{profiles}"),
                None => error.into(),
            };
        }
        let hints = match left_behind::of_profile(directory) {
            Some(hint) => vec![hint],
            None => {
                let nearby = nearby(directory).map(|profiles| format!("nearby {profiles}"));
                nearby.into_iter().chain(left_behind::of_any(directory.file_name())).collect()
            }
        };
        anyhow!("{}", [error.to_string()].into_iter().chain(hints).collect::<Vec<_>>().join("; "))
    })
}

/// Of a folder of profiles that is no profile itself, the sentence that names some of them.
fn profiles_in(folder: &Path) -> Option<String> {
    const MOST: usize = 3;
    let profiles =
        if profile_folders::is_folder(folder) { profile_folders::inside(folder).ok()? } else { Vec::new() };
    let names: Vec<String> =
        profiles.iter().take(MOST).map(|profile| format!("'{}'", profile.display())).collect();
    let folder = folder.display();
    Some(match &names[..] {
        [] => return None,
        [only] => format!("'{folder}' is no profile, but a folder with one in it: {only}"),
        [first @ .., last] => format!(
            "'{folder}' is no profile, but a folder of {}: name one of them, as {} or {last}; mpisee-through runs {folder} takes all",
            profiles.len(),
            first.join(", ")
        ),
    })
}

/// The profiles in the folder where one is missing: those of similar names, else all, if they are
/// few.
fn nearby(directory: &Path) -> Option<String> {
    const MOST: usize = 4;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut profiles: Vec<String> = names.filter(|name| name.ends_with(".mpisee")).collect();
    profiles.sort_by(|one, other| natural_order(one, other));
    let wanted = directory.file_name()?.to_string_lossy();
    let stem = |name: &str| name.trim_end_matches(".mpisee").to_owned();
    let stems: Vec<String> = profiles.iter().map(|name| stem(name)).collect();
    let alike = similar(&stem(&wanted), stems.iter().map(String::as_str));
    let shown: Vec<String> = match alike.as_slice() {
        [] => profiles,
        alike => alike.iter().map(|stem| format!("{stem}.mpisee")).collect(),
    };
    match shown.len() {
        0 => None,
        1 => Some(format!("is '{}'", shown[0])),
        count => {
            let more = if count > MOST { format!(" and {} more", count - MOST) } else { String::new() };
            let names: Vec<String> = shown.iter().take(MOST).map(|name| format!("'{name}'")).collect();
            Some(format!("are {}{more}", names.join(", ")))
        }
    }
}

/// All rows of a table that is small enough to hold.
pub fn all<R: Row>(profile: &Profile) -> Result<Vec<R>, ProfileError> {
    profile.rows::<R>()?.collect()
}

/// All rows of such a table, where the profile has it.
pub fn if_any<R: Row>(profile: &Profile) -> Result<Vec<R>, ProfileError> {
    profile.rows_if_any::<R>()?.collect()
}

pub use mpisee_profile::comm_name::is_one_per_process;

/// The members for reading: blanks where a line may break, and what the row of `S` stands for. `+2`
/// are two processes of other worlds.
pub fn members_text(row: &CommRow) -> String {
    let text = row.members.to_string().replace(',', ", ").replace('|', " | ").replace('+', " +");
    let text = text.trim_start().replace("|  +", "| +");
    if is_one_per_process(&row.comm) { format!("each of {text}") } else { text }
}
