//! Backends: the ways in which the messages of a step are carried out.

use std::fmt;
use std::str::FromStr;

/// A way of carrying out messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Backend {
    /// `MPI_Isend` and `MPI_Irecv`, completed by `MPI_Waitall`
    #[default]
    Isend,
    /// Persistent requests, started by `MPI_Startall`
    Persistent,
    /// `MPI_Put` by the source, between post, start, complete and wait
    Put,
    /// `MPI_Get` by the destination, between post, start, complete and wait
    Get,
    /// Copies from memory to memory by one of the two ranks, within a node
    /// (`MPI_Win_allocate_shared`)
    Shared,
    /// Copies from GPU to GPU by one of the two ranks, within a node (`cuIpcOpenMemHandle`,
    /// `cuMemcpyDtoDAsync`)
    Ipc,
    /// `ncclSend` and `ncclRecv`, a group of them for each step
    Nccl,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 7] = [
        Backend::Isend,
        Backend::Persistent,
        Backend::Put,
        Backend::Get,
        Backend::Shared,
        Backend::Ipc,
        Backend::Nccl,
    ];

    /// The name in pattern files and results.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Isend => "isend",
            Backend::Persistent => "persistent",
            Backend::Put => "put",
            Backend::Get => "get",
            Backend::Shared => "shared",
            Backend::Ipc => "ipc",
            Backend::Nccl => "nccl",
        }
    }

    /// Returns whether MPI moves the bytes.
    pub fn is_mpi(self) -> bool {
        matches!(self, Backend::Isend | Backend::Persistent | Backend::Put | Backend::Get)
    }

    /// Returns whether the bytes have to be in the memory of GPUs.
    pub fn is_of_gpus(self) -> bool {
        matches!(self, Backend::Ipc | Backend::Nccl)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Backend::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| {
            let names = Backend::ALL.map(Backend::name).join(", ");
            format!("there is no backend '{text}'; there are {names}")
        })
    }
}
