//! Functions whose recording is more than one of the meanings: each shim hands over how to make
//! its call, so that no body here can make another's.

// An MPI may lack some of the functions.
#![allow(dead_code)]

mod completion;
mod creation;
mod dynamic;
mod intercomm;
mod lifecycle;
mod pcontrol;
mod persistent;
mod session;

#[allow(unused_imports)]
pub use completion::{
    cancel, look_at_many, request_free, request_get_status, some, test, testall, testany, wait, waitall,
    waitany,
};
#[allow(unused_imports)]
pub use creation::{
    comm_create_group, comm_set_name, comm_shrink, create, create_in_order, free, start_duplicate,
};
#[allow(unused_imports)]
pub use dynamic::{comm_join, meet, was_spawned};
#[allow(unused_imports)]
pub use intercomm::intercomm_create;
#[allow(unused_imports)]
pub use lifecycle::{FLAVOUR, abort, finalize, init, init_thread};
#[allow(unused_imports)]
pub use pcontrol::pcontrol;
#[allow(unused_imports)]
pub use persistent::{start, startall};
#[allow(unused_imports)]
pub use session::{create_from_group, session_finalize, session_init, sessions_are_over};
