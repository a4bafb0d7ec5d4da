//! Measures what a network gives to MPI programs.
//!
//! A [`pattern`] is a sequence of steps, each a set of messages and collective operations with a
//! backend that carries them out. It comes from [`builtin`] or from a file in a small [`language`].
//! [`schedule`] derives from the data which steps of a rank have to wait for which, [`provenance`]
//! what a correct run leaves in memory. The program that is built once per MPI (`src/mpi`) carries
//! patterns out in the kind of [`memory`] that was asked for, within a node by the handshakes of
//! [`shared`]; [`statistics`], [`output`] and [`model`] turn its times into results.
//!
//! Nothing in this library needs MPI, so that it is tested without.

pub mod backend;
pub mod builtin;
pub mod cli;
pub mod collective;
pub mod expression;
pub mod language;
pub mod memory;
pub mod model;
pub mod network;
pub mod output;
pub mod pattern;
pub mod provenance;
pub mod replay;
pub mod schedule;
pub mod shared;
pub mod sizes;
pub mod statistics;
pub mod trial;
pub mod tune;
pub mod verification;
