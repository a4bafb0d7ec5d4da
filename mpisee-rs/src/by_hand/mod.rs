//! Functions whose recording is more than one of the meanings: each shim hands over how to make
//! its call, so that no body here can make another's.

// An MPI may lack some of the functions.
#![allow(dead_code, unused_imports)]

mod completion;
mod creation;
mod dynamic;
mod intercomm;
mod lifecycle;
mod pcontrol;
mod persistent;
mod session;

pub use completion::{
    cancel, request_free, request_get_status, request_get_status_all, request_get_status_any,
    request_get_status_some, test, testall, testany, testsome, wait, waitall, waitany, waitsome,
};
pub use creation::{
    cart_create, cart_sub, comm_create, comm_create_group, comm_disconnect, comm_dup, comm_dup_with_info,
    comm_free, comm_idup, comm_idup_with_info, comm_set_name, comm_shrink, comm_split, comm_split_type,
    dist_graph_create, dist_graph_create_adjacent, graph_create, intercomm_merge,
};
pub use dynamic::{comm_accept, comm_connect, comm_join, comm_spawn, comm_spawn_multiple, was_spawned};
pub use intercomm::intercomm_create;
pub use lifecycle::{FLAVOUR, abort, finalize, init, init_thread};
pub use pcontrol::pcontrol;
pub use persistent::{start, startall};
#[allow(unused_imports)] // Not every MPI has sessions.
pub use session::{comm_create_from_group, intercomm_create_from_groups, session_finalize, session_init};
