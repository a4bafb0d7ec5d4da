//! Memory of the program: where each allocation is, whose it is, and the handles by which other
//! processes import it.

pub mod registry;
pub(crate) mod sharing;
