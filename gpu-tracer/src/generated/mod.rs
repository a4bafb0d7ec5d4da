//! Structures and constants of C headers: `cargo xtask generate` writes those of the tracer's own
//! headers, and `cargo xtask gpu --bindings` those of the Sanitizer.

pub mod core;
pub mod layer;
pub mod sanitizer;
