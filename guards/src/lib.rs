//! What a library that works in the threads of a program keeps from it, each as long as a value lives.

pub mod cancellation;
pub mod descriptors;
pub mod errno;
pub mod signals;
