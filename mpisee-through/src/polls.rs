//! Tests and probes that return at once: a program waits by them in a loop, and may have hung
//! there.

use mpisee_profile::run::EndedIn;

/// Calls that look for completed requests and return at once.
pub const TESTING: [&str; 8] = [
    "MPI_Request_get_status",
    "MPI_Request_get_status_all",
    "MPI_Request_get_status_any",
    "MPI_Request_get_status_some",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
];
/// Calls that look for messages and return at once.
pub const PROBING: [&str; 2] = ["MPI_Improbe", "MPI_Iprobe"];

/// Returns whether ranks ended in these calls, or in no call, between two of them perhaps: then
/// most of them may come from a hang.
pub fn may_be_of_hang(call: &str, comm: &str, ended_in: &[EndedIn]) -> bool {
    let is_here = |place: &EndedIn| match &place.call {
        None => true,
        Some(last) => last == call && place.comm.as_ref().is_none_or(|of| of == comm),
    };
    (TESTING.contains(&call) || PROBING.contains(&call)) && ended_in.iter().any(is_here)
}
