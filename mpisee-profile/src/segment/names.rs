//! Names of communicators, from the log of a segment.

use super::log::Created;
use super::snapshot::{SharedRow, Snapshot};
use super::source::Source;
use crate::comm_name::{Digest, Made, Root, Sibling, Step};
use crate::{CommId, ProfileError};

/// The longest name of a communicator, or path of a region, that is accepted from another process's segment.
const MOST_NAME_BYTES: usize = 1 << 13;

/// Checks the lengths of the names in a segment. A name goes into each row of its communicator and begins the names of
/// its children, so a few bytes of a forged segment could expand to very many.
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

/// The name of a communicator that a call created below `parent`, whose name is empty where there is none.
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
