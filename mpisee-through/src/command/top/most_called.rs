//! The operation that a rank called most between two looks.

use mpisee_profile::Operation;

/// The operation that a rank called most between two looks, and where it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostCalled {
    pub operation: Operation,
    /// Calls of it.
    pub calls: u64,
    /// The calls at the call site with most of them.
    pub calls_there: u64,
    /// The functions of that site with their lines, the innermost first; empty if they are not
    /// known.
    pub stack: Vec<String>,
}
