//! Checks at compile time: the spec's signatures against the prototypes of each MPI's `mpi.h`.

use super::{banner, pmpi::variant_name, types};
use crate::spec::Function;
use anyhow::{Context, Result};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> Result<String> {
    let mut out = banner(
        "The signatures of the interposed functions, compared with the prototypes in the `mpi.h` of the\n\
         flavour. The library has nothing of this: it compiles or it does not.",
    );
    out.push_str(
        "#![allow(unused_imports, clippy::undocumented_unsafe_blocks, clippy::missing_transmute_annotations)]\n\nuse crate::mpi::abi::{Aint, Comm, Count, Datatype, Errhandler, File, Group, Info,\n",
    );
    out.push_str(
        "Message, Offset, Op, Request, Session, Status, Win};\nuse std::ffi::{c_char, c_int, c_void};\n\n",
    );
    // Forerunners have a header of their own, which `mpi.h` does not include.
    let standard = |function: &&Function| function.meaning.is_some() && function.counts_as.is_none();
    for function in functions.iter().filter(standard) {
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
            // A pointer that may be const or not is passed to a call, where a pointer to mutable
            // data does for both; so are the program's functions, which are as long as a pointer.
            let (abi, value) = if function.params.iter().any(|it| it.const_or_not || it.kind == "FUNCTION") {
                let names: Vec<&str> = function.params_of(large).map(|param| param.name.as_str()).collect();
                let handed = function.params_of(large).map(|param| match param.kind.as_str() {
                    "FUNCTION" => format!("std::mem::transmute({})", param.name),
                    _ => param.name.clone(),
                });
                let handed = handed.collect::<Vec<_>>().join(", ");
                ("", format!("|{}| unsafe {{ mpi_sys::P{name}({handed}) }}", names.join(", ")))
            } else {
                ("extern \"C\" ", format!("mpi_sys::P{name}"))
            };
            // Extensions are in the `mpi.h` of MPICH alone.
            let exists = match function.is_extension() {
                true => format!("all(mpi = \"{name}\", mpi_family = \"mpich\")"),
                false => format!("mpi = \"{name}\""),
            };
            let _ = writeln!(
                out,
                "#[cfg({exists})]\nconst _: unsafe {abi}fn({}) -> c_int = {value};",
                params.join(",")
            );
        }
    }
    Ok(out)
}
