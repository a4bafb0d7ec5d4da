//! Collectives as traffic between ranks: who sends to whom by what the operation means, whatever
//! the algorithm.
//!
//! The bytes are those of the profile (docs/explanation/bytes-and-times.md), divided among the
//! ranks that they go to or come from, so that they add up to what the communicators have.

use super::cart::Cart;
use mpisee_profile::comm_name::is_one_per_process;
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, BTreeSet};

/// Between which ranks the bytes of an operation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// The bytes that a rank records go to all members in equal parts, its own among them.
    ToAll,
    /// Bytes go to all others in equal parts.
    ToOthers,
    /// Bytes come from all others in equal parts.
    FromOthers,
    /// Bytes come from roots, which record nothing.
    FromRoots,
    /// Bytes come from the rank before it.
    FromPrevious,
    /// Bytes go to the neighbours on the grid in equal parts.
    ToNeighbours,
    /// The profile does not have the root.
    Rooted,
}

fn pattern(call: &str) -> Option<Pattern> {
    let name = call.strip_prefix("MPI_")?.to_lowercase();
    // No collective begins with an I but for the nonblocking ones.
    Some(match name.strip_prefix('i').unwrap_or(&name) {
        "alltoall" | "alltoallv" | "alltoallw" => Pattern::ToAll,
        "allgather" | "allgatherv" | "allreduce" => Pattern::ToOthers,
        "reduce_scatter" | "reduce_scatter_block" => Pattern::FromOthers,
        "bcast" => Pattern::FromRoots,
        "scan" | "exscan" => Pattern::FromPrevious,
        "gather" | "gatherv" | "scatter" | "scatterv" | "reduce" => Pattern::Rooted,
        neighbour if neighbour.starts_with("neighbor_") => Pattern::ToNeighbours,
        _ => return None,
    })
}

/// Bytes in collectives, per communicator and operation, by rank.
pub type Recorded<'g> = BTreeMap<(&'g str, &'g str), BTreeMap<u32, u64>>;

/// The part of the collectives that has no field in the matrix.
#[derive(Debug, Default)]
pub struct LeftOut<'g> {
    pub bytes: u64,
    pub calls: BTreeSet<&'g str>,
}

/// Divides the bytes among pairs of ranks, for `add` with sender, receiver and bytes.
/// `are_all_recorded` says whether every member recorded all its calls, which is needed to tell
/// roots by what they did not get.
pub fn place<'g>(
    recorded: &Recorded<'g>,
    row_of: impl Fn(&str) -> Option<&'g CommRow>,
    are_all_recorded: impl Fn(&CommRow) -> bool,
    mut add: impl FnMut(u32, u32, u64),
) -> LeftOut<'g> {
    let mut left_out = LeftOut::default();
    for (&(comm, call), bytes) in recorded {
        let total = bytes.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        if total == 0 {
            continue;
        }
        let is_placed = row_of(comm)
            .is_some_and(|row| divide(row, call, bytes, are_all_recorded(row), &mut add).is_some());
        if !is_placed {
            left_out.bytes = left_out.bytes.saturating_add(total);
            left_out.calls.insert(call);
        }
    }
    left_out
}

/// Divides the bytes of an operation, or adds nothing if the profile does not have who sends to
/// whom.
fn divide(
    row: &CommRow,
    call: &str,
    bytes: &BTreeMap<u32, u64>,
    are_all_recorded: bool,
    add: &mut impl FnMut(u32, u32, u64),
) -> Option<()> {
    if is_one_per_process(&row.comm) {
        bytes.iter().for_each(|(&rank, &bytes)| add(rank, rank, bytes));
        return Some(());
    }
    let pattern = pattern(call)?;
    let [own, other] = groups(row)?;
    if bytes.keys().any(|rank| own.binary_search(rank).is_err() && other.binary_search(rank).is_err()) {
        return None;
    }
    match pattern {
        Pattern::ToAll | Pattern::ToOthers | Pattern::FromOthers => {
            evenly(pattern, [&own, &other], bytes, add);
            Some(())
        }
        // Of the groups of an intercommunicator it is not known which one has the root.
        _ if own != other => None,
        Pattern::FromRoots if are_all_recorded => from_roots(&own, bytes, add),
        Pattern::FromPrevious => from_previous(&own, bytes, add),
        Pattern::ToNeighbours => to_neighbours(row, &own, bytes, add),
        Pattern::FromRoots | Pattern::Rooted => None,
    }
}

fn evenly(
    pattern: Pattern,
    [own, other]: [&[u32]; 2],
    bytes: &BTreeMap<u32, u64>,
    add: &mut impl FnMut(u32, u32, u64),
) {
    for (&rank, &bytes) in bytes {
        let all = if own.contains(&rank) { other } else { own };
        let to_itself = pattern == Pattern::ToAll || all == [rank];
        let partners: Vec<u32> =
            all.iter().copied().filter(|&partner| to_itself || partner != rank).collect();
        for (&partner, bytes) in partners.iter().zip(parts(bytes, partners.len())) {
            match pattern {
                Pattern::FromOthers => add(partner, rank, bytes),
                _ => add(rank, partner, bytes),
            }
        }
    }
}

fn from_roots(
    members: &[u32],
    bytes: &BTreeMap<u32, u64>,
    add: &mut impl FnMut(u32, u32, u64),
) -> Option<()> {
    let given = roots(members, bytes)?;
    for (&root, &given) in members.iter().zip(&given).filter(|&(_, &given)| given > 0) {
        members.iter().filter(|&&rank| rank != root).for_each(|&rank| add(root, rank, given));
    }
    Some(())
}

fn from_previous(
    members: &[u32],
    bytes: &BTreeMap<u32, u64>,
    add: &mut impl FnMut(u32, u32, u64),
) -> Option<()> {
    if members.first().is_some_and(|first| bytes.get(first).is_some_and(|&bytes| bytes > 0)) {
        return None;
    }
    for pair in members.windows(2) {
        add(pair[0], pair[1], bytes.get(&pair[1]).copied().unwrap_or(0));
    }
    Some(())
}

fn to_neighbours(
    row: &CommRow,
    members: &[u32],
    bytes: &BTreeMap<u32, u64>,
    add: &mut impl FnMut(u32, u32, u64),
) -> Option<()> {
    let grid = Cart::from_topology(&row.topology).filter(|grid| grid.len() == members.len() as u64)?;
    let neighbours = |place: usize| grid.neighbours(place as u32);
    let of = |rank: &u32| bytes.get(rank).copied().unwrap_or(0);
    if members.iter().enumerate().any(|(place, rank)| of(rank) > 0 && neighbours(place).is_empty()) {
        return None;
    }
    for (place, rank) in members.iter().enumerate() {
        let neighbours = neighbours(place);
        for (&to, bytes) in neighbours.iter().zip(parts(of(rank), neighbours.len())) {
            add(*rank, members[to as usize], bytes);
        }
    }
    Some(())
}

/// The members twice, or those of the two groups of an intercommunicator; none if the row does not
/// list each member of one communicator.
fn groups(row: &CommRow) -> Option<[Vec<u32>; 2]> {
    let members = &row.members;
    if members.has_elided() || members.outsiders() > 0 || members.len() != u64::from(row.size) {
        return None;
    }
    let own: Vec<u32> = members.group.iter().collect();
    let other = members.remote.as_ref().map_or_else(|| own.clone(), |remote| remote.iter().collect());
    Some([own, other])
}

/// Equal parts, the first of them larger by one where it does not come out even.
fn parts(bytes: u64, count: usize) -> impl Iterator<Item = u64> {
    let count = count as u64;
    (0..count).map(move |place| bytes / count + u64::from(place < bytes % count))
}

/// The bytes that each member gave as the root: all that was given less what it got.
fn roots(members: &[u32], got: &BTreeMap<u32, u64>) -> Option<Vec<u64>> {
    let others = (members.len() as u128).checked_sub(1).filter(|&others| others > 0)?;
    let got = members.iter().map(|rank| got.get(rank).copied().unwrap_or(0));
    let all: u128 = got.clone().map(u128::from).sum();
    let given = u64::try_from(all / others).ok().filter(|_| all.is_multiple_of(others))?;
    got.map(|got| given.checked_sub(got)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_known_by_what_they_did_not_get() {
        // Rank 4 gave 100 bytes, rank 6 gave 10.
        let got = BTreeMap::from([(4, 10), (5, 110), (6, 100)]);
        assert_eq!(roots(&[4, 5, 6], &got), Some(vec![100, 0, 10]));
        assert_eq!(roots(&[4, 5, 6], &BTreeMap::from([(5, 100)])), None, "the bytes of a rank are missing");
    }

    #[test]
    fn parts_add_up() {
        assert_eq!(parts(11, 3).collect::<Vec<_>>(), [4, 4, 3]);
        assert_eq!(parts(2, 3).collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[test]
    fn nonblocking_operations_have_the_pattern_of_the_blocking_ones() {
        for (one, other) in
            [("MPI_Bcast", "MPI_Ibcast"), ("MPI_Neighbor_allgather", "MPI_Ineighbor_allgather")]
        {
            assert!(pattern(one).is_some() && pattern(one) == pattern(other));
        }
        assert_eq!(pattern("MPI_Barrier"), None);
    }
}
