//! Guards of a library that works in the threads of a program: nothing of its work shows there as long as they live.

pub mod cancellation;
pub mod descriptors;
pub mod errno;
pub mod signals;
