//! The list of interposed functions, for a library that runs under another version of its MPI.

use super::{banner, pmpi::variant_name};
use crate::spec::Function;
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> String {
    let mut out =
        banner("The functions that are interposed where the MPI has them, by the names of their twins.");
    out.push_str("use std::ffi::CStr;\n\n");
    out.push_str("/// The name of the twin, and whether this flavour exports the function.\n");
    out.push_str("pub static INTERPOSED: &[(&CStr, bool)] = &[\n");
    for function in functions.iter().filter(|function| function.meaning.is_some()) {
        for large in [false, true] {
            if !large || function.has_large_variant() {
                let name = variant_name(function, large);
                let _ = writeln!(out, "(c\"P{name}\", cfg!(mpi = \"{name}\")),");
            }
        }
    }
    out.push_str("];\n");
    out
}
