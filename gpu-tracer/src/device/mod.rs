//! The device: memory that host and device share, and what a backend does with it.

pub mod backend;
pub mod layout;
