//! Structures and constants of C headers: `cargo xtask generate` writes those of the tracer's own headers.

pub mod core;
pub mod layer;
