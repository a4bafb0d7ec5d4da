//! The binaries in the process: where the loader has them, their unwind tables, and the walk up a
//! stack by these. Nothing here knows MPI.

pub mod apart;
pub mod library;
pub mod library_files;
pub mod mapping;
pub mod objects;
pub mod stack_room;
pub mod unwind_tables;
pub mod unwinder;
