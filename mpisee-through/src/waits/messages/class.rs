//! Which calls wait for the other end of a message.

/// The kind of the completing call, as far as its time is known by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A blocking send.
    Send,
    /// A blocking receive.
    Receive,
    /// Both at once.
    SendReceive,
    /// A call that waits for requests.
    Wait,
    /// A call that waits for a message, which another one receives.
    Probe,
}

impl Class {
    /// Their number.
    pub const COUNT: usize = 5;

    /// The class of an operation; none of one that waits for no other end, as a buffered send or
    /// the receive of a message that a probe has matched, and of one of which the profile has no
    /// samples.
    pub fn from_call(call: &str) -> Option<Class> {
        Some(match call {
            "MPI_Send" | "MPI_Ssend" | "MPI_Rsend" => Class::Send,
            "MPI_Recv" => Class::Receive,
            "MPI_Sendrecv" | "MPI_Sendrecv_replace" => Class::SendReceive,
            "MPI_Wait" | "MPI_Waitall" | "MPI_Waitany" | "MPI_Waitsome" => Class::Wait,
            "MPI_Mprobe" => Class::Probe,
            _ => return None,
        })
    }
}
