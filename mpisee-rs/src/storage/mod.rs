//! Shared-memory segment, tables for several threads, clocks, messages to the user, and the C
//! library's functions under names that no program can take. Nothing here depends on MPI.

pub mod bucket;
pub mod clock;
pub mod counters;
pub mod frame;
pub mod hot;
mod libc_functions;
pub mod memory;
pub mod message;
pub mod once;
pub mod overflow;
pub mod patience;
pub mod prefetch;
pub mod segment;
pub mod seqlock;
pub mod sync;
pub mod table;
pub mod thread_words;
