//! The commands: each reads a profile, answers one question and writes the answer.

pub mod advise;
pub mod agent;
pub mod check;
pub mod comms;
pub mod compare_network;
mod cores_used;
pub mod diff;
pub mod efficiency;
pub mod expect;
pub mod export;
pub mod gpu;
pub mod gpu_records;
pub mod import;
mod job_selection;
pub mod locality;
pub mod matrix;
pub mod ops;
pub mod order;
pub mod paths;
pub mod ranks;
pub mod record;
pub mod recover;
pub mod regions;
pub mod report;
pub mod runs;
pub mod serve;
pub mod sites;
pub mod sizes;
mod skipped;
pub mod summary;
pub mod timeline;
pub mod top;
pub mod variables;
pub mod waits;

pub use crate::outcome::Outcome;
