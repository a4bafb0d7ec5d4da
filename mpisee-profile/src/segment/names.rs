//! Names of communicators, from the log of a segment.

use super::log::{Created, NONE};
use super::snapshot::{SharedRow, Snapshot, Source};
use crate::ProfileError;

/// The longest name of a communicator, or path of a region, that is accepted from another process's segment.
const MOST_NAME_BYTES: usize = 1 << 13;

/// Checks the lengths of the names in a segment. A name goes into each row of its communicator and begins the names of
/// its children, so a few bytes of a forged segment could expand to very many.
pub fn names_can_be(snapshot: &Snapshot) -> Result<(), ProfileError> {
    let mut names: Vec<usize> = Vec::with_capacity(snapshot.communicators.len());
    for communicator in &snapshot.communicators {
        let of_parent = |parent: u32| names.get(parent as usize).copied().unwrap_or(0);
        let parent = of_parent(communicator.created.parent);
        names.push(parent + name("", &communicator.created, communicator.shared_row).len());
    }
    let mut paths: Vec<usize> = vec![0];
    for region in &snapshot.regions {
        let outer = paths.get(region.parent as usize).copied().unwrap_or(0);
        paths.push(outer + 1 + region.name.len());
    }
    match names.iter().chain(&paths).max() {
        Some(&longest) if longest > MOST_NAME_BYTES => Err(ProfileError::Segment {
            why: format!(
                "a name of a communicator or a region in it has {longest} bytes; {MOST_NAME_BYTES} can be"
            ),
        }),
        _ => Ok(()),
    }
}

/// The name of one communicator of a segment, by its number.
pub fn name_of<S: Source + ?Sized>(source: &S, id: u32) -> Option<String> {
    let snapshot = Snapshot::read_log(source).ok()?;
    names(&snapshot).into_iter().nth(id as usize)
}

/// Names by communicator number.
pub fn names(snapshot: &Snapshot) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(snapshot.communicators.len());
    for communicator in &snapshot.communicators {
        let created = &communicator.created;
        names.push(match (created.id, created.letter) {
            (0, 0) => "W".to_owned(),
            (_, 0) => "S".to_owned(),
            _ => name(parent_name(created, &names), created, communicator.shared_row),
        });
    }
    names
}

pub(super) fn parent_name<'n>(created: &Created, names: &'n [String]) -> &'n str {
    names.get(created.parent as usize).map_or("", String::as_str)
}

/// `<parent's name>_<letter><n>[.<r>]`; `F<n>.<r>` for one that was created from a group and has no parent; `P`
/// for the one with the processes that spawned this world. What is not collective over one parent ends in `-` and the
/// digest of its groups and tag. A row of like ones has a `+` after the number of the first of them, and no number where
/// their members differ.
fn name(parent: &str, created: &Created, shared_row: Option<SharedRow>) -> String {
    let letter = char::from(created.letter);
    let plus = if shared_row.is_some() { "+" } else { "" };
    if shared_row == Some(SharedRow::Changing) {
        return if parent.is_empty() { "F+".to_owned() } else { format!("{parent}_{letter}+") };
    }
    if letter == 'p' && parent.is_empty() {
        return "P".to_owned();
    }
    let step = if letter == 'f' && parent.is_empty() { "F".to_owned() } else { format!("{parent}_{letter}") };
    let code = if created.code == 0 { String::new() } else { format!("-{}", digits(created.code)) };
    match (created.n, created.r) {
        (n, NONE) => format!("{step}{n}{plus}{code}"),
        (n, r) => format!("{step}{n}{plus}.{r}{code}"),
    }
}

/// The lowest 40 bits in digits of base 32, as D. Crockford has them: no letter that can be taken for another.
fn digits(code: u64) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..8).rev().map(|place| char::from(DIGITS[(code >> (5 * place)) as usize % 32])).collect()
}
