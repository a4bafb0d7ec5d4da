//! Which members of a communicator a member of a collective operation has to wait for (MPI 4.1,
//! chapter 6).

use std::borrow::Cow;

/// On whom the members depend: nobody can leave before those on whom it depends have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// Every member on every other.
    All,
    /// Every member on the root.
    AllOnRoot,
    /// The root on every member, nobody else on anybody.
    RootOnAll,
    /// Every member on those of lower rank in the communicator.
    AllOnLower,
}

impl Dependence {
    /// Of an operation by its name in the standard; none of one whose members depend on neighbours,
    /// and of one that is not collective.
    pub fn from_call(call: &str) -> Option<Self> {
        Some(match blocking(call).as_ref() {
            "MPI_Barrier"
            | "MPI_Allreduce"
            | "MPI_Allgather"
            | "MPI_Allgatherv"
            | "MPI_Alltoall"
            | "MPI_Alltoallv"
            | "MPI_Alltoallw"
            | "MPI_Reduce_scatter"
            | "MPI_Reduce_scatter_block" => Dependence::All,
            "MPI_Bcast" | "MPI_Scatter" | "MPI_Scatterv" => Dependence::AllOnRoot,
            "MPI_Reduce" | "MPI_Gather" | "MPI_Gatherv" => Dependence::RootOnAll,
            "MPI_Scan" | "MPI_Exscan" => Dependence::AllOnLower,
            _ => return None,
        })
    }

    /// Returns whether it is a barrier, which moves nothing.
    pub fn is_barrier(call: &str) -> bool {
        blocking(call) == "MPI_Barrier"
    }

    /// Returns whether no member can leave before all have arrived, if the call moves anything or
    /// is a barrier: with counts of zero, which the variants with a count for each member allow for
    /// some, a member depends on nobody.
    pub fn is_strict(call: &str) -> bool {
        Self::from_call(call) == Some(Dependence::All)
            && !Self::has_counts(call)
            && blocking(call) != "MPI_Reduce_scatter"
    }

    /// Returns whether each member moves as much as its own count says, which may be nothing.
    pub fn has_counts(call: &str) -> bool {
        const WITH_COUNTS: [&str; 5] =
            ["MPI_Gatherv", "MPI_Scatterv", "MPI_Allgatherv", "MPI_Alltoallv", "MPI_Alltoallw"];
        WITH_COUNTS.contains(&blocking(call).as_ref())
    }
}

/// The blocking operation of a nonblocking or persistent one: `MPI_Allreduce` of `MPI_Iallreduce`
/// and `MPI_Allreduce_init`.
fn blocking(call: &str) -> Cow<'_, str> {
    let name = call.strip_prefix("MPI_").or_else(|| call.strip_prefix("MPIX_"));
    let Some(name) = name else { return Cow::Borrowed(call) };
    if let Some(persistent) = name.strip_suffix("_init") {
        return Cow::Owned(format!("MPI_{persistent}"));
    }
    match name.strip_prefix('I') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_lowercase()) => {
            let (first, rest) = rest.split_at(1);
            Cow::Owned(format!("MPI_{}{rest}", first.to_ascii_uppercase()))
        }
        _ => Cow::Borrowed(call),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_depend_as_the_standard_says() {
        for (call, expected) in [
            ("MPI_Barrier", Some(Dependence::All)),
            ("MPI_Reduce_scatter_block", Some(Dependence::All)),
            ("MPI_Scatterv", Some(Dependence::AllOnRoot)),
            ("MPI_Gatherv", Some(Dependence::RootOnAll)),
            ("MPI_Exscan", Some(Dependence::AllOnLower)),
            ("MPI_Neighbor_alltoall", None),
            ("MPI_Send", None),
            ("MPI_Irecv", None),
            ("MPI_Iallreduce", Some(Dependence::All)),
            ("MPI_Ireduce_scatter_block", Some(Dependence::All)),
            ("MPI_Ibcast", Some(Dependence::AllOnRoot)),
            ("MPI_Gather_init", Some(Dependence::RootOnAll)),
            ("MPIX_Scan_init", Some(Dependence::AllOnLower)),
            ("MPI_Ineighbor_alltoall", None),
        ] {
            assert_eq!(Dependence::from_call(call), expected, "{call}");
        }
        let strict = |call| Dependence::is_strict(call);
        assert!(strict("MPI_Alltoall") && !strict("MPI_Alltoallv") && !strict("MPI_Bcast"));
        assert!(strict("MPI_Ibarrier") && strict("MPI_Alltoall_init") && !strict("MPI_Ialltoallv"));
    }
}
