//! The requests behind completions: the time of `MPI_Wait` is that of messages only where nothing
//! but messages was begun.

use crate::error::ProfileError;
use crate::operation::{Operation, OperationKind};
use crate::reader::Profile;
use crate::rows::CallRow;
use std::collections::HashMap;

/// The kinds of requests that a rank completes on a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Messages are among them.
    pub messages: bool,
    /// Others are: of nonblocking and persistent collectives, of accesses to the memory of others,
    /// of files.
    pub others: bool,
}

impl Requests {
    /// By communicator and rank, the requests that a profile's calls begin.
    pub fn from_profile(profile: &Profile) -> Result<HashMap<(String, u32), Requests>, ProfileError> {
        let mut all: HashMap<(String, u32), Requests> = HashMap::new();
        for row in profile.rows::<CallRow>()? {
            let row = row?;
            let begun = Requests::begun_by(&row.call);
            if begun != Requests::default() {
                let of = all.entry((row.comm, row.rank)).or_default();
                *of = Requests { messages: of.messages || begun.messages, others: of.others || begun.others };
            }
        }
        Ok(all)
    }

    /// The requests that a call makes.
    fn begun_by(call: &str) -> Requests {
        let kind = Operation::from_name(call).map(Operation::kind);
        let begins = call.ends_with("_init") || call.contains("_I") || call.contains("_File_i");
        match kind {
            Some(OperationKind::PointToPoint) => Requests { messages: begins, others: false },
            Some(OperationKind::Collective | OperationKind::Io) => {
                Requests { messages: false, others: begins }
            }
            Some(OperationKind::OneSided) => Requests { messages: false, others: call.starts_with("MPI_R") },
            _ => Requests::default(),
        }
    }

    /// Returns whether a call's time may be that of requests: a completion, or the start of
    /// persistent ones.
    pub fn is_of_them(call: &str) -> bool {
        let kind = Operation::from_name(call).map(Operation::kind);
        kind == Some(OperationKind::Completion) || matches!(call, "MPI_Start" | "MPI_Startall")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_begin_messages_or_other_requests() {
        let begun = |call| {
            let Requests { messages, others } = Requests::begun_by(call);
            (messages, others)
        };
        for call in ["MPI_Isend", "MPI_Irecv", "MPI_Send_init", "MPI_Imrecv"] {
            assert_eq!(begun(call), (true, false), "{call}");
        }
        for call in ["MPI_Iallreduce", "MPI_Ibarrier", "MPI_Bcast_init", "MPI_Rput", "MPI_File_iwrite"] {
            assert_eq!(begun(call), (false, true), "{call}");
        }
        for call in [
            "MPI_Send",
            "MPI_Allreduce",
            "MPI_Wait",
            "MPI_Start",
            "MPI_Put",
            "MPI_Reduce",
            "MPI_File_set_info",
        ] {
            assert_eq!(begun(call), (false, false), "{call}");
        }
        assert!(Requests::is_of_them("MPI_Waitall") && Requests::is_of_them("MPI_Start"));
        assert!(!Requests::is_of_them("MPI_Recv"));
    }
}
