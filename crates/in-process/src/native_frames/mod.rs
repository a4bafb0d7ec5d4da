//! How a frame of compiled code leads to its caller: the rules of unwind tables, and whether
//! evaluating them ends ([`unwind_rules`]), those that are computed here ([`computed_frame`]), one
//! step of a walk ([`leave_frame`]), and whether a call may return to an address
//! ([`may_be_return`]).
//!
//! Shared by the walk of the preloaded library up its own process's stack and by the one from
//! outside.

pub mod computed_frame;
mod return_address;
mod step;
pub mod unwind_rules;

pub use return_address::may_be_return;
pub use step::{Lost, leave_frame};
