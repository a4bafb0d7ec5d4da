//! The formats of mpisee: what one process writes and another reads.
//!
//! * [`options`]: the `MPISEE_…` environment variables, set by the launcher and read by the
//!   library;
//! * [`segment`]: the layout of the shared-memory segment in which every rank counts;
//! * [`gpu`]: the file in which a process counts what its GPU kernels access, and its rows;
//! * [`tsc`]: the clock in whose ticks a process measures;
//! * [`comm_name`]: the names of communicators;
//! * [`path_text`]: paths in texts and in commands;
//! * [`site`]: identifiers of call sites and call paths;
//! * [`network`]: what `mpisee-bench` measured;
//! * [`rows`], [`run`], [`reader`], [`writer`]: the profile directory, `NAME.mpisee/`.
//!
//! The preloaded library writes through this crate and `mpisee-through` reads through it, so that a
//! format has one definition. Of the workspace it needs its `derive` alone.

pub mod comm_name;
mod csv_text;
pub mod error;
pub mod glob;
pub mod gpu;
pub mod ids;
mod memory;
pub mod nccl;
pub mod network;
pub mod operation;
pub mod options;
pub mod own_process;
pub mod path_text;
pub mod ranks;
pub mod reader;
pub mod requests;
pub mod rows;
pub mod run;
pub mod segment;
pub mod site;
pub mod ticks;
pub mod tsc;
pub mod writer;

pub use comm_name::CommName;
pub use error::ProfileError;
pub use ids::{CommId, CommRank, RegionId, WorldRank};
pub use operation::{Operation, OperationKind};
pub use ranks::RankSet;
pub use reader::Profile;
pub use run::RunInfo;
pub use site::{PathId, SiteId};
pub use ticks::Ticks;

/// Version of the profile directory's format, in `run.json`. Every version ever written stays
/// readable.
pub const FORMAT_VERSION: u32 = 5;
