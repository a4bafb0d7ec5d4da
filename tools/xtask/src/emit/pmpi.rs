//! The `PMPI_*` twin of every function.

use super::{banner, section, types};
use crate::spec::Function;
use anyhow::{Context, Result};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> Result<String> {
    let mut out = banner("Every function of MPI under its `PMPI_` name.");
    out.push_str("#![allow(non_upper_case_globals, missing_docs, dead_code, unused_imports, clippy::type_complexity)]\n\n");
    out.push_str(
        "use crate::mpi::abi::{Aint, Comm, Count, Datatype, Errhandler, File, Group, Info, Message,\n",
    );
    out.push_str("Offset, Op, Raw, Request, Session, Status, Win};\n");
    out.push_str(
        "use crate::mpi::symbol::{Symbol, SymbolSlot};\nuse std::ffi::{c_char, c_double, c_int, c_void};\n\n",
    );
    // The tool information interface is another API of its own, of which `mpi/tool.rs` has what is
    // called.
    let is_ours = |function: &&Function| !function.name.starts_with("MPI_T_") || function.meaning.is_some();
    let mut names = Vec::new();
    for function in functions.iter().filter(is_ours) {
        for large in [false, true] {
            if large && !function.has_large_variant() {
                continue;
            }
            let name = variant_name(function, large);
            let signature = signature(function, large).with_context(|| name.clone())?;
            let section = section(function, ".data.hot");
            let _ =
                writeln!(out, "{section}pub static {name}: Symbol<{signature}> = Symbol::new(c\"P{name}\");");
            names.push(name);
        }
    }
    out.push_str("\n/// The functions that this MPI has.\npub static ALL: &[&SymbolSlot] = &[");
    for name in names {
        let _ = writeln!(out, "#[cfg(mpi = \"{name}\")] {name}.place(),");
    }
    out.push_str("];\n");
    Ok(out)
}

/// `MPI_Send`, or `MPI_Send_c`.
pub fn variant_name(function: &Function, large: bool) -> String {
    format!("{}{}", function.name, if large { "_c" } else { "" })
}

fn signature(function: &Function, large: bool) -> Result<String> {
    let mut params = Vec::new();
    for param in function.params_of(large) {
        params.push(types::rust_type(param, large)?);
    }
    if function.variadic {
        params.push("...".to_owned());
    }
    Ok(format!("unsafe extern \"C-unwind\" fn({}) -> {}", params.join(","), types::return_type(function)?))
}
