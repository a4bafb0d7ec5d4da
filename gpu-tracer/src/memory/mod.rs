//! Memory of the program: where each allocation is, whose it is, and by what other processes know it.

pub mod registry;
pub(crate) mod sharing;
