//! The exported `MPI_*` symbols: thin shims, each one call into `meaning` or `by_hand`.

use super::{banner, camel_case, pmpi::variant_name, types};
use crate::spec::{Expr, Function, Meaning};
use anyhow::{Context, Result};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> Result<String> {
    let mut out = banner(
        "The exported `MPI_*` symbols. A shim names what the call means and how to make it; it exists \
         where the MPI has the function.",
    );
    out.push_str(PREAMBLE);
    for function in functions {
        let Some(meaning) = &function.meaning else { continue };
        for large in [false, true] {
            if !large || function.has_large_variant() {
                shim(&mut out, function, meaning, large).with_context(|| function.name.clone())?;
            }
        }
    }
    Ok(out)
}

const PREAMBLE: &str = r#"
#![allow(non_snake_case, missing_docs, unused_imports)]
#![allow(clippy::too_many_arguments, clippy::missing_safety_doc)]
// Every block below has the same ground: the arguments are the application's own, handed on unchanged to
// the function that it called.
#![allow(clippy::undocumented_unsafe_blocks)]

use super::pmpi;
use crate::abi::{Comm, Count, Aint, Datatype, Errhandler, File, Group, Info, Message, Offset, Op, Raw,
Request, Session, Status, Win};
use crate::meaning::volume::{self, Block, Blocks, TypedBlocks};
use crate::{by_hand, meaning};
use mpisee_profile::Operation;
use std::ffi::{c_char, c_int, c_void};

"#;

fn shim(out: &mut String, function: &Function, meaning: &Meaning, large: bool) -> Result<()> {
    let name = variant_name(function, large);
    let mut params = Vec::new();
    for param in function.params_of(large) {
        params.push(format!("{}: {}", param.name, types::rust_type(param, large)?));
    }
    // A variadic function cannot be defined in stable Rust; its first extra argument is the only one that
    // any profiling level gives a meaning to, and it comes in a register.
    if function.variadic {
        params.push("extra: *const c_char".to_owned());
    }
    let arguments: Vec<&str> = function.params_of(large).map(|param| param.name.as_str()).collect();
    let body = match meaning {
        Meaning::ByHand => {
            let mut all = vec![format!("pmpi::{name}.get()")];
            all.extend(arguments.iter().map(|&name| name.to_owned()));
            if function.variadic {
                all.push("extra".to_owned());
            }
            format!("unsafe {{ by_hand::{}({}) }}", function.short_name().to_lowercase(), all.join(", "))
        }
        Meaning::Verb { verb, args } => {
            let operation = camel_case(function.short_name());
            let mut all = vec![format!("Operation::{operation}")];
            for arg in args {
                all.push(argument(function, arg));
            }
            // A status that the application ignores is replaced by one of ours, so the call takes it as
            // its argument.
            let status = args.contains(&Expr::Param("status".to_owned()));
            let replaced = if status { "|status| " } else { "|| " };
            let call = format!("{replaced}pmpi::{name}.get()({})", arguments.join(", "));
            format!("unsafe {{ meaning::{verb}({}, {call}) }}", all.join(", "))
        }
    };
    let _ = writeln!(
        out,
        "#[cfg(mpi = \"{name}\")]\n#[unsafe(no_mangle)]\npub unsafe extern \"C-unwind\" fn {name}({}) -> c_int {{\n{body}\n}}\n",
        params.join(", ")
    );
    Ok(())
}

fn argument(function: &Function, expr: &Expr) -> String {
    match expr {
        Expr::Param(name) => name.clone(),
        Expr::Block(count, datatype) => {
            let array = |name: &str| function.params.iter().any(|param| param.name == name && param.array);
            let shape = match (array(count), array(datatype)) {
                (false, _) => "Block",
                (true, false) => "Blocks",
                (true, true) => "TypedBlocks",
            };
            format!("{shape}({count}, {datatype})")
        }
        Expr::Volume(rule, args) => {
            let args: Vec<String> = args.iter().map(|arg| argument(function, arg)).collect();
            format!(
                "|comm| volume::{rule}(comm{}{})",
                if args.is_empty() { "" } else { ", " },
                args.join(", ")
            )
        }
    }
}
