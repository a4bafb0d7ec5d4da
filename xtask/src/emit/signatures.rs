//! Checks at compile time: the spec's signatures against the prototypes of each MPI's `mpi.h`.

use super::{banner, pmpi::variant_name, types};
use crate::spec::Function;
use anyhow::{Context, Result};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> Result<String> {
    let mut out = banner(
        "The signatures of the interposed functions, compared with the prototypes in the `mpi.h` of the \
         flavour. Nothing of this is in the library: it compiles or it does not.",
    );
    out.push_str("#![allow(unused_imports)]\n\nuse crate::abi::{Aint, Comm, Count, Datatype, Errhandler, Group, Info,\n");
    out.push_str("Message, Op, Request, Session, Status};\nuse std::ffi::{c_char, c_int, c_void};\n\n");
    for function in functions.iter().filter(|function| function.meaning.is_some()) {
        for large in [false, true] {
            if large && !function.has_large_variant() {
                continue;
            }
            let name = variant_name(function, large);
            let mut params = Vec::new();
            for param in function.params_of(large) {
                let register = types::rust_type(param, large).with_context(|| name.clone())?;
                // Here a handle has the type that the header gives it.
                params.push(register.replace("Raw<", "").replace('>', ""));
            }
            if function.variadic {
                params.push("...".to_owned());
            }
            let _ = writeln!(
                out,
                "#[cfg(mpi = \"{name}\")]\nconst _: unsafe extern \"C\" fn({}) -> c_int = mpi_sys::P{name};",
                params.join(",")
            );
        }
    }
    Ok(out)
}
