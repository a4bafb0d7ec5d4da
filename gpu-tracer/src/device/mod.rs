//! The device: memory that host and device share, and what a back end does with it.

pub mod backend;
pub mod layout;
