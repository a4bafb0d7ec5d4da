//! Calls on lists of requests, which count once on each communicator that the requests belong to.
//!
//! An `MPI_Waitall` over two communicators is one call on each, with half of the time. Sums over
//! communicators therefore have more and shorter calls than the program made. A profile has no
//! count of the program's own calls, so that commands say it instead.

use crate::group::Groups;
use std::collections::{BTreeMap, BTreeSet, HashSet};

const ON_LISTS: [&str; 10] = [
    "MPI_Request_get_status_all",
    "MPI_Request_get_status_any",
    "MPI_Request_get_status_some",
    "MPI_Startall",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
];

/// The operations on lists of requests that some rank called on several communicators; in sums over
/// ranks, those that several communicators have. The groups are by communicator and operation.
pub fn counted_on_each(groups: &Groups) -> BTreeSet<String> {
    let mut ranks_of: BTreeMap<&str, (bool, HashSet<u32>)> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (key, cell) in &groups.cells {
        let call = groups.call(key);
        if !ON_LISTS.contains(&call) {
            continue;
        }
        let (is_on_other, ranks) = ranks_of.entry(call).or_default();
        let mut each = cell.ranks.each().peekable();
        let is_sum = each.peek().is_none();
        let is_again = each.fold(false, |is_again, (rank, _)| !ranks.insert(rank) || is_again);
        if is_again || is_sum && *is_on_other {
            found.insert(call.to_owned());
        }
        *is_on_other = true;
    }
    found
}

/// A sentence for readers of numbers of calls; none without such operations.
pub fn sentence<'c>(calls: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let calls: Vec<&str> = calls.into_iter().collect();
    let (last, others) = calls.split_last()?;
    let named = match others {
        [] => (*last).to_owned(),
        _ => format!("{} or {last}", others.join(", ")),
    };
    Some(format!(
        "A call of {named} counts once on each communicator of its requests, with a part of its time. The \
         program may have made fewer and longer calls."
    ))
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn operations_are_named_in_one_sentence() {
        assert_eq!(sentence([]), None);
        let said = sentence(["MPI_Startall", "MPI_Testany", "MPI_Waitall"]).unwrap();
        assert!(said.starts_with("A call of MPI_Startall, MPI_Testany or MPI_Waitall counts once"), "{said}");
        let said = sentence(["MPI_Waitall"]).unwrap();
        assert!(said.starts_with("A call of MPI_Waitall counts once on each communicator"), "{said}");
    }
}
