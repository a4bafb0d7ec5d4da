//! Code that may run inside somebody else's process: a library that is preloaded leaves no trace in
//! the program's threads ([`guards`]), finds what is loaded without loading anything ([`symbols`]),
//! and reads stacks without calling into anything ([`native_frames`], [`python_frames`]).

pub mod guards;
#[cfg(feature = "native-frames")]
pub mod native_frames;
pub mod python_frames;
pub mod symbols;
