//! What calls mean. A generated shim calls one of these with the operation, the arguments that matter and
//! the call itself; functions with a body of their own are in [`crate::by_hand`].
//!
//! All of them make the call exactly once, and return what it returned.

// An MPI may lack every function that has one of the meanings.
#![allow(dead_code)]

mod collective;
pub mod completion;
mod datatype;
mod derived;
mod io;
mod matched;
mod on_process;
mod one_sided;
mod point_to_point;
pub mod volume;

#[allow(unused_imports)]
pub use collective::{collective, prepare_collective, start_collective};
#[allow(unused_imports)]
pub use io::{close_file, on_file, open_file, start_transfer, transfer};
#[allow(unused_imports)]
pub use matched::{immediate_matched_probe, matched_probe, receive_matched, start_receive_matched};
#[allow(unused_imports)]
pub use on_process::{on_process, start_on_process};
#[allow(unused_imports)]
pub use one_sided::{
    access, access_and_get, create_window, free_window, on_window, start_access, start_access_and_get,
};
#[allow(unused_imports)]
pub use point_to_point::{
    on_request, plain, prepare_partitioned_receive, prepare_partitioned_send, prepare_receive, prepare_send,
    receive, send, send_receive, start_plain, start_receive, start_send, start_send_receive,
};

/// Several threads call MPI at the same time.
pub fn share() {
    matched::share();
    one_sided::WINDOWS.share();
    io::FILES.share();
}

/// Whether a window or a message is open that may still bring peers, whatever became of its communicator.
pub fn may_bring_peers() -> bool {
    !one_sided::WINDOWS.is_empty() || matched::has_messages()
}
