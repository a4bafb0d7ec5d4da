//! The rows of communicators, and how those of several processes become one.

use mpisee_profile::comm_name::{is_nccl, is_of_changing_members, is_one_per_process};
use mpisee_profile::rows::{CommRow, Members};
use mpisee_profile::segment::SlotKey;
use mpisee_profile::segment::layout::shared_row;
use mpisee_profile::segment::log::{Created, Runs};
use mpisee_profile::segment::membership::reports;
use mpisee_profile::segment::names::{names, parent_name};
use mpisee_profile::segment::snapshot::{Communicator, SharedRow, Snapshot};
use mpisee_profile::{Operation, RankSet};
use std::collections::HashMap;

/// The rows of the communicators that the process reports.
pub fn comms(
    snapshot: &Snapshot,
    names: &[String],
    is_reported: impl Fn(&Communicator, &str) -> bool,
) -> Vec<CommRow> {
    let mut rows = Vec::new();
    for (communicator, name) in snapshot.communicators.iter().zip(names) {
        let created = &communicator.created;
        if !is_reported(communicator, name) {
            continue;
        }
        let (count, freed) = number_and_freed(snapshot, communicator);
        rows.push(CommRow {
            comm: name.clone(),
            parent: if created.letter == 0 { String::new() } else { parent_name(created, names).to_owned() },
            created_by: Operation::from_index(u64::from(created.operation))
                .map_or(String::new(), |operation| operation.name().to_owned()),
            size: size(created),
            count,
            members: members(created),
            label: communicator.label.clone(),
            topology: communicator.topology.clone(),
            reorder: u8::try_from(created.reorder).ok(),
            // Only the writer of the profile has every rank's host.
            nodes: 0,
            freed: u8::from(freed),
            between: between(created, names),
        });
    }
    rows
}

/// The communicators of which an intercommunicator was made, as far as this process has them: its
/// local one.
fn between(created: &Created, names: &[String]) -> String {
    let Some(own) = created.local.and_then(|local| names.get(local.index())) else { return String::new() };
    match &created.remote {
        Some(remote) if remote.comes_before(&created.group) => format!("|{own}"),
        _ => format!("{own}|"),
    }
}

/// The number of communicators in the row, and whether all were freed. Those with changing members
/// are each reported by one process.
fn number_and_freed(snapshot: &Snapshot, communicator: &Communicator) -> (u64, bool) {
    let Some(kind) = communicator.shared_row else { return (1, communicator.freed) };
    let values =
        snapshot.values_of(SlotKey::shared_row(communicator.created.id)).copied().unwrap_or_default();
    let number = values[if kind == SharedRow::Alike { shared_row::CREATED } else { shared_row::REPORTED }];
    (number, values[shared_row::FREED] == values[shared_row::CREATED])
}

/// Its members, the group with the smallest world rank first.
pub fn members(created: &Created) -> Members {
    let Created { group, remote, .. } = created;
    let (first, second) = match remote {
        Some(remote) if remote.comes_before(group) => (remote, Some(group)),
        remote => (group, remote.as_ref()),
    };
    Members {
        group: first.to_set(),
        remote: second.map(Runs::to_set),
        outside: [first.outsiders(), second.map_or(0, Runs::outsiders)],
        elided: [first.elided(), second.map_or(0, Runs::elided)],
    }
}

fn size(created: &Created) -> u32 {
    (created.group.len() + created.remote.as_ref().map_or(0, Runs::len)) as u32
}

/// A communicator that a process is a member of, whether it reports it or not.
pub(crate) struct Membership {
    /// Its name.
    pub comm: String,
    /// The number of its processes.
    pub size: u32,
    /// The number of its parent's, where this process is a member of that.
    pub parent_size: Option<u32>,
    /// True if the process is in the group that [`Members`] lists first.
    pub in_first_group: bool,
    /// True if it is an intercommunicator.
    pub is_inter: bool,
    /// True if the process is the one that reports it, where one of the members does.
    pub reports: bool,
}

/// The communicators of a process, in a run in which the ranks `absent` report nothing.
pub(crate) fn memberships(snapshot: &Snapshot, absent: &RankSet) -> Vec<Membership> {
    let membership = |(communicator, comm): (&Communicator, String)| {
        let Created { group, remote, parent, .. } = &communicator.created;
        let parent = parent.and_then(|parent| snapshot.communicators.get(parent.index()));
        Membership {
            comm,
            size: size(&communicator.created),
            parent_size: parent.map(|parent| size(&parent.created)),
            in_first_group: remote.as_ref().is_none_or(|remote| !remote.comes_before(group)),
            is_inter: remote.is_some(),
            reports: reports(&communicator.created, absent),
        }
    };
    snapshot.communicators.iter().zip(names(snapshot)).map(membership).collect()
}

/// Returns whether every member reports the communicator, and [`merge`] makes one row of the
/// reports: those that each process has for itself, those of which a process has only its own
/// degrees, those that stand for communicators of changing members, and those of which no member
/// has a list, as of NCCL: each says that itself is in it.
pub fn is_merged(row: &CommRow) -> bool {
    row.members.has_elided() || !row.between.is_empty() || is_reported_by_all(&row.comm, &row.topology)
}

/// Returns whether every member reports a communicator of that name and topology, whatever its
/// members.
pub fn is_reported_by_all(name: &str, topology: &str) -> bool {
    is_one_per_process(name)
        || is_of_changing_members(name)
        || is_nccl(name)
        || topology.starts_with("dist_graph")
}

/// Makes one row of two that speak of the same communicator, see [`is_merged`].
pub fn merge(row: &mut CommRow, other: &CommRow) {
    row.members.add(&other.members);
    if is_one_per_process(&row.comm) || !is_of_changing_members(&row.comm) {
        row.count = row.count.max(other.count);
    } else {
        row.count = row.count.saturating_add(other.count);
        row.size = row.members.group.len() as u32;
    }
    row.freed = row.freed.min(other.freed);
    if row.label != other.label {
        row.label.clear();
    }
    row.topology = merge_degrees(&row.topology, &other.topology);
    row.between = merge_between(&row.between, &other.between);
}

/// `W_s1.0|` and `|W_s1.1` make `W_s1.0|W_s1.1`.
fn merge_between(one: &str, other: &str) -> String {
    let halves =
        |text: &str| text.split_once('|').map(|(first, second)| (first.to_owned(), second.to_owned()));
    let (Some(one_halves), Some(other_halves)) = (halves(one), halves(other)) else {
        return if one.is_empty() { other.to_owned() } else { one.to_owned() };
    };
    let either = |one: String, other: String| if one.is_empty() { other } else { one };
    format!("{}|{}", either(one_halves.0, other_halves.0), either(one_halves.1, other_halves.1))
}

/// `dist_graph in=2 out=1-2` and `dist_graph in=3 out=1` make `dist_graph in=2-3 out=1-2`.
pub fn merge_degrees(one: &str, other: &str) -> String {
    let range = |text: &str| -> Option<(u32, u32)> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        Some((least.parse().ok()?, most.parse().ok()?))
    };
    let other: HashMap<&str, &str> = other.split(' ').filter_map(|word| word.split_once('=')).collect();
    let words = one.split(' ').map(|word| {
        let merged = word.split_once('=').and_then(|(name, text)| {
            let (a, b) = (range(text)?, range(other.get(name)?)?);
            Some((name, a.0.min(b.0), a.1.max(b.1)))
        });
        match merged {
            Some((name, least, most)) if least == most => format!("{name}={least}"),
            Some((name, least, most)) => format!("{name}={least}-{most}"),
            None => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
