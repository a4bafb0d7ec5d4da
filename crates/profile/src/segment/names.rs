//! Names of communicators, from the log of a segment.

use super::hash::hash;
use super::log::Created;
use super::snapshot::{SharedRow, Snapshot};
use super::source::Source;
use crate::comm_name::{Digest, Made, Root, Sibling, Step};
use crate::{CommId, ProfileError};

/// The longest name of a communicator, or path of a region. The recorder makes no longer one, and
/// readers accept no longer one from another process's segment. A name goes into each row of its
/// communicator and begins the names of its children, so a few bytes of a forged segment could
/// expand to very many.
pub const MOST_NAME_BYTES: usize = 1 << 13;

/// Bytes that a path must have left for the name of a further region to be cut to them.
const LEAST_CUT_BYTES: usize = 64;

/// Bytes of the path of a region, in one whose path has `outer` bytes; `outer` is 0 outside of any
/// region.
pub fn region_path_bytes(outer: usize, name: &str) -> usize {
    outer + usize::from(outer > 0) + name.len()
}

/// The name of a region as the recorder keeps it, in a region whose path has `outer` bytes.
///
/// A `/` separates regions in a path, and nothing is outside of any region: `/` and a name without
/// characters become `_`. A name for which the path has too little room is cut, and ends in `…` and
/// a digest of the whole name. Returns `None` where the path has no room for that either.
pub fn region_name(outer: usize, name: &str) -> Option<String> {
    let name = if name.is_empty() { "_".to_owned() } else { name.replace('/', "_") };
    let room = MOST_NAME_BYTES.saturating_sub(region_path_bytes(outer, ""));
    if name.len() <= room {
        return Some(name);
    }
    if room < LEAST_CUT_BYTES {
        return None;
    }
    let ending = format!("…{}", Digest::new(hash(name.as_bytes(), 0)));
    let mut kept = room - ending.len();
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    Some(format!("{}{ending}", &name[..kept]))
}

/// Checks the lengths of the names in a segment.
pub fn names_can_be(snapshot: &Snapshot) -> Result<(), ProfileError> {
    let mut names: Vec<usize> = Vec::with_capacity(snapshot.communicators.len());
    for communicator in &snapshot.communicators {
        let parent = communicator.created.parent.and_then(|parent| names.get(parent.index()));
        let parent = parent.copied().unwrap_or(0);
        names.push(parent + name("", &communicator.created, communicator.shared_row).len());
    }
    let mut paths: Vec<usize> = vec![0];
    for region in &snapshot.regions {
        let outer = paths.get(region.parent.index()).copied().unwrap_or(0);
        paths.push(region_path_bytes(outer, &region.name));
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

/// The name of one communicator of a segment.
pub fn name_of<S: Source + ?Sized>(source: &S, id: CommId) -> Option<String> {
    let snapshot = Snapshot::read_log(source).ok()?;
    names(&snapshot).into_iter().nth(id.index())
}

/// Names by communicator number.
pub fn names(snapshot: &Snapshot) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(snapshot.communicators.len());
    for communicator in &snapshot.communicators {
        let created = &communicator.created;
        names.push(match (created.id, created.letter) {
            (CommId::WORLD, 0) => Root::World.to_string(),
            (_, 0) => Root::Itself.to_string(),
            _ => name(parent_name(created, &names), created, communicator.shared_row),
        });
    }
    names
}

/// The name of the parent; empty if there is none.
pub fn parent_name<'n>(created: &Created, names: &'n [String]) -> &'n str {
    created.parent.and_then(|parent| names.get(parent.index())).map_or("", String::as_str)
}

/// The name of a communicator that a call created below `parent`, whose name is empty where there
/// is none.
fn name(parent: &str, created: &Created, shared_row: Option<SharedRow>) -> String {
    let Created { letter, n, r, code, .. } = *created;
    let made = match shared_row {
        Some(SharedRow::Changing) => Made::Changing,
        _ => Made::Numbered {
            number: n,
            is_shared: shared_row.is_some(),
            part: r.map(|r| Sibling::Rank(r.get())),
            digest: (code != 0).then(|| Digest::new(code)),
        },
    };
    match letter {
        b'p' if parent.is_empty() => Root::Spawner.to_string(),
        b'f' if parent.is_empty() => Root::FromGroups(made).to_string(),
        b'u' if parent.is_empty() => Root::Nccl(made).to_string(),
        letter => format!("{parent}_{}", Step { letter, made }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cut_name_is_unlike_that_of_another_region() {
        let long = |last: char| format!("{}{last}", "r".repeat(2 * MOST_NAME_BYTES));
        let [one, other] = ['a', 'b'].map(|last| region_name(0, &long(last)).expect("there is room"));
        assert_eq!([one.len(), other.len()], [MOST_NAME_BYTES; 2]);
        assert_ne!(one, other);
        assert!(one.starts_with("rrr") && one.contains('…'), "{one}");
        assert_eq!(region_name(0, &long('a')).as_ref(), Some(&one), "equal on all ranks");
    }

    #[test]
    fn names_that_would_be_no_part_of_a_path_are_replaced() {
        assert_eq!(region_name(0, "read/write").as_deref(), Some("read_write"));
        assert_eq!(region_name(7, "").as_deref(), Some("_"));
        let whole = "r".repeat(MOST_NAME_BYTES);
        assert_eq!(region_name(0, &whole), Some(whole));
        assert_eq!(region_name(MOST_NAME_BYTES, "r"), None);
    }

    proptest! {
        #[test]
        fn a_path_has_no_more_bytes_than_readers_accept(
            outer in 0..=MOST_NAME_BYTES, text in "\\PC{0,9}", times in 0usize..4000,
        ) {
            let name = text.repeat(times);
            match region_name(outer, &name) {
                Some(name) => {
                    prop_assert!(!name.is_empty() && !name.contains('/'));
                    prop_assert!(region_path_bytes(outer, &name) <= MOST_NAME_BYTES);
                }
                None => {
                    prop_assert!(MOST_NAME_BYTES - outer <= LEAST_CUT_BYTES);
                    prop_assert!(region_path_bytes(outer, &name) > MOST_NAME_BYTES);
                }
            }
        }
    }
}
