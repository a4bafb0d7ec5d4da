//! Events of the driver, one thread at a time.

pub(crate) mod calls;
pub(crate) mod state;
