//! The door to the program's MPI: its types and constants, its functions, and how C and Fortran
//! pass arguments.

pub mod abi;
pub mod argument;
pub mod compatibility;
pub mod fortran;
pub mod query;
pub mod symbol;
pub mod tool;
pub mod topology;
