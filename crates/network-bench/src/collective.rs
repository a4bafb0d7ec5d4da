//! The blocking collective operations, with what each moves.

use std::fmt;
use std::str::FromStr;

macro_rules! collectives {
    ($($name:ident = $text:literal,)*) => {
        /// A blocking collective operation of MPI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the names are the standard's")]
        pub enum Collective {
            $($name,)*
        }

        impl Collective {
            /// All of them.
            pub const ALL: &'static [Collective] = &[$(Collective::$name,)*];

            /// The standard's name of the function.
            pub fn name(self) -> &'static str {
                match self {
                    $(Collective::$name => $text,)*
                }
            }
        }
    };
}

collectives! {
    Barrier = "MPI_Barrier",
    Bcast = "MPI_Bcast",
    Gather = "MPI_Gather",
    Gatherv = "MPI_Gatherv",
    Scatter = "MPI_Scatter",
    Scatterv = "MPI_Scatterv",
    Allgather = "MPI_Allgather",
    Allgatherv = "MPI_Allgatherv",
    Alltoall = "MPI_Alltoall",
    Alltoallv = "MPI_Alltoallv",
    Alltoallw = "MPI_Alltoallw",
    Reduce = "MPI_Reduce",
    Allreduce = "MPI_Allreduce",
    ReduceScatterBlock = "MPI_Reduce_scatter_block",
    ReduceScatter = "MPI_Reduce_scatter",
    Scan = "MPI_Scan",
    Exscan = "MPI_Exscan",
    NeighborAllgather = "MPI_Neighbor_allgather",
    NeighborAllgatherv = "MPI_Neighbor_allgatherv",
    NeighborAlltoall = "MPI_Neighbor_alltoall",
    NeighborAlltoallv = "MPI_Neighbor_alltoallv",
    NeighborAlltoallw = "MPI_Neighbor_alltoallw",
}

impl Collective {
    /// Finds the operation by its name, with or without `MPI_`, in capitals or not.
    pub fn from_name(text: &str) -> Option<Collective> {
        let bare = text.to_ascii_lowercase();
        let bare = bare.strip_prefix("mpi_").unwrap_or(&bare);
        let is_it = |it: &&Collective| it.name()["MPI_".len()..].eq_ignore_ascii_case(bare);
        Collective::ALL.iter().find(is_it).copied()
    }

    /// The operations that NCCL can carry out.
    pub fn of_nccl() -> impl Iterator<Item = Collective> {
        Collective::ALL.iter().copied().filter(|collective| collective.nccl_name().is_some())
    }

    /// The name of the same in results of NCCL: its function, or for those that older versions
    /// carry out by a group of messages, the function of newer ones.
    pub fn nccl_name(self) -> Option<&'static str> {
        use Collective::*;
        Some(match self {
            Bcast => "ncclBroadcast",
            Gather => "ncclGather",
            Scatter => "ncclScatter",
            Allgather => "ncclAllGather",
            Alltoall => "ncclAlltoAll",
            Reduce => "ncclReduce",
            Allreduce => "ncclAllReduce",
            ReduceScatterBlock => "ncclReduceScatter",
            _ => return None,
        })
    }

    /// Returns whether members communicate with neighbours only: here those on a ring, to the left
    /// and to the right.
    pub fn is_of_neighbours(self) -> bool {
        self >= Collective::NeighborAllgather
    }

    /// Returns whether the operation computes: on numbers of 8, 4 or 1 bytes, the widest that
    /// divides the block.
    pub fn reduces(self) -> bool {
        use Collective::*;
        matches!(self, Reduce | Allreduce | ReduceScatterBlock | ReduceScatter | Scan | Exscan)
    }

    /// The number of blocks that a member hands over and gets, among `members`; of operations with
    /// a root, the root.
    pub fn blocks(self, members: u64) -> (u64, u64) {
        use Collective::*;
        match self {
            Barrier => (0, 0),
            Bcast | Reduce | Allreduce | Scan | Exscan => (1, 1),
            Gather | Gatherv | Allgather | Allgatherv => (1, members),
            Scatter | Scatterv | ReduceScatterBlock | ReduceScatter => (members, 1),
            Alltoall | Alltoallv | Alltoallw => (members, members),
            NeighborAllgather | NeighborAllgatherv => (1, 2),
            NeighborAlltoall | NeighborAlltoallv | NeighborAlltoallw => (2, 2),
        }
    }

    /// The bytes that have to be moved at the least for blocks of `bytes`, over all members: the
    /// rule of the profile's volumes (docs/explanation/bytes-and-times.md).
    pub fn moved(self, bytes: u64, members: u64) -> u64 {
        use Collective::*;
        let blocks = match self {
            Barrier => 0,
            Bcast | Scan | Exscan => members - 1,
            Alltoall | Alltoallv | Alltoallw => members.saturating_mul(members),
            Gather | Gatherv | Allgather | Allgatherv | Scatter | Scatterv | Reduce | Allreduce
            | ReduceScatterBlock | ReduceScatter => members,
            NeighborAllgather | NeighborAllgatherv | NeighborAlltoall | NeighborAlltoallv
            | NeighborAlltoallw => members.saturating_mul(2),
        };
        blocks.saturating_mul(bytes)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Collective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Collective::from_name(text).ok_or_else(|| {
            let names: Vec<_> = Collective::ALL.iter().map(|it| &it.name()["MPI_".len()..]).collect();
            format!("there is no blocking collective '{text}'; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_prefix_and_capitals() {
        for &collective in Collective::ALL {
            assert_eq!(Collective::from_name(collective.name()), Some(collective));
            let bare = collective.name()["MPI_".len()..].to_lowercase();
            assert_eq!(Collective::from_name(&bare), Some(collective), "{bare}");
        }
        assert!("Ibcast".parse::<Collective>().unwrap_err().contains("Alltoallw"));
    }

    #[test]
    fn volumes_are_those_of_the_profile() {
        assert_eq!(Collective::Bcast.moved(10, 4), 30);
        assert_eq!(Collective::Alltoall.moved(10, 4), 160);
        assert_eq!(Collective::Allreduce.moved(10, 4), 40);
        assert_eq!(Collective::NeighborAlltoall.moved(10, 4), 80);
        assert_eq!(Collective::Barrier.moved(10, 4), 0);
    }
}
