//! From what a device counted to the tracer's files.

pub(crate) mod arrival;
pub(crate) mod context;
pub(crate) mod counts;
pub(crate) mod estimates;
pub mod file;
pub(crate) mod lines;
pub(crate) mod patience;
pub mod records;
