//! Wrappers of MPI's functions, a file per chapter of the standard. A generated export calls one of
//! these with the arguments that matter and the call itself.
//!
//! Each wrapper makes the call exactly once, and returns its result.

// An MPI may lack every function of a kind.
#![allow(dead_code)]

mod collective;
pub mod completion;
mod creation;
mod datatype;
mod derived;
mod dynamic;
mod intercomm;
mod io;
mod launched;
mod lifecycle;
mod matched_probe;
mod nccl;
mod on_process;
mod one_sided;
mod pcontrol;
mod persistent;
mod point_to_point;
mod session;
mod tools;

#[allow(unused_imports)]
pub use collective::{collective, prepare_collective, start_collective};
#[allow(unused_imports)]
pub use completion::{
    cancel, get_status_many, request_free, request_get_status, some, test, testall, testany, wait, waitall,
    waitany,
};
#[allow(unused_imports)]
pub use creation::{
    comm_create_group, comm_set_name, comm_shrink, create, create_in_order, free, start_duplicate,
};
#[allow(unused_imports)]
pub use datatype::type_free;
#[allow(unused_imports)]
pub use dynamic::{comm_join, meet};
#[allow(unused_imports)]
pub use intercomm::intercomm_create;
#[allow(unused_imports)]
pub use io::{close_file, on_file, open_file, start_transfer, transfer};
#[allow(unused_imports)]
pub use lifecycle::{abort, finalize, init, init_thread};
#[allow(unused_imports)]
pub use matched_probe::{immediate_matched_probe, matched_probe, receive_matched, start_receive_matched};
#[allow(unused_imports)]
pub use on_process::{on_process, start_on_process};
#[allow(unused_imports)]
pub use one_sided::{
    access, access_and_get, create_window, free_window, on_window, start_access, start_access_and_get,
};
#[allow(unused_imports)]
pub use pcontrol::pcontrol;
#[allow(unused_imports)]
pub use persistent::{start, startall};
#[allow(unused_imports)]
pub use point_to_point::{
    immediate_probe, on_request, plain, prepare_partitioned_receive, prepare_partitioned_send,
    prepare_receive, prepare_send, probe, receive, send, send_receive, start_plain, start_receive,
    start_send, start_send_receive,
};
#[allow(unused_imports)]
pub use session::{create_from_group, session_finalize, session_init};
#[allow(unused_imports)]
pub use tools::t_init_thread;
