//! The exported Fortran symbols: a body per function, which all the names of the function share.

use super::exports::{Language, meaning_call};
use super::{banner, types};
use crate::spec::{Direction, Function, Meaning, Param};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> String {
    let mut out = banner(
        "The exported Fortran symbols. Each exists where the MPI has it together with its profiling twin, to \
         which the call goes on as it came; xtask/spec/README.md says which.",
    );
    out.push_str(PREAMBLE);
    for function in functions {
        // Extensions, and those that an MPI has under a name of its own, have no Fortran binding that is found;
        // sessions and what comes of them are recorded from C alone.
        let is_bound = function.counts_as.is_none() && !function.is_extension() && !is_of_sessions(function);
        if let Some(meaning) = function.meaning.as_ref().filter(|_| is_bound) {
            shims(&mut out, function, meaning);
        }
    }
    out
}

fn is_of_sessions(function: &Function) -> bool {
    function.name.starts_with("MPI_Session_") || function.name.contains("_from_group")
}

const PREAMBLE: &str = r#"
#![allow(non_snake_case, missing_docs, dead_code, unused_imports)]
#![allow(clippy::too_many_arguments, clippy::missing_safety_doc)]
// Every block below has the same ground: the arguments are the application's own, handed on unchanged to
// the function that it called.
#![allow(clippy::undocumented_unsafe_blocks)]

use crate::abi::{Comm, Count, Datatype, File, Message, Op, Request, Win};
use crate::argument::{Indices, Place, Text};
use crate::fortran::{self, Fint};
use crate::meaning::volume::{self, Block, Blocks, TypedBlocks};
use crate::symbol::Symbol;
use crate::{by_hand, meaning};
use mpisee_profile::Operation;
use std::ffi::{c_char, c_int, c_void};

/// The names of a function, each with its twin's, which another MPI may call differently.
macro_rules! exports {
    ($body:ident $params:tt: $($name:tt $twin:tt $or:tt;)*) => {
        $(export! { $body $params $name $twin $or })*
    };
}

macro_rules! export {
    ($body:ident ($($param:ident: $kind:ty),*) $name:tt $twin:tt $or:tt) => {
        #[cfg(mpi = $name)]
        const _: () = {
            #[unsafe(export_name = $name)]
            pub unsafe extern "C-unwind" fn export($($param: $kind),*) {
                static TWIN: Symbol<unsafe extern "C-unwind" fn($($kind),*)> = Symbol::either($twin, $or);
                unsafe { $body(TWIN.get(), $($param),*) }
            }
        };
    };
}

"#;

/// The exports of one function.
fn shims(out: &mut String, function: &Function, meaning: &Meaning) {
    let low = function.name.to_lowercase();
    let params = params(function);
    let typed: Vec<String> = params.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
    let types: Vec<&str> = params.iter().map(|(_, kind)| kind.as_str()).collect();
    let names: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
    let (typed, types, names) = (typed.join(", "), types.join(", "), names.join(", "));
    let twin = format!("unsafe extern \"C-unwind\" fn({types})");
    let spellings = [low.to_uppercase(), low.clone(), format!("{low}_"), format!("{low}__")];
    let f08 = format!("{low}_f08_");
    let exists: Vec<String> =
        spellings.iter().chain([&f08]).map(|name| format!("mpi = \"{name}\"")).collect();
    let _ = writeln!(
        out,
        "#[cfg(any({}))]\n#[inline]\nunsafe fn {low}_body(twin: {twin}, {typed}) {{\n{}\n}}\n",
        exists.join(", "),
        body(function, meaning, &names)
    );
    let _ = writeln!(out, "exports! {{ {low}_body({typed}):");
    for name in &spellings {
        let p = if name.starts_with('M') { 'P' } else { 'p' };
        let _ = writeln!(out, "    \"{name}\" c\"{p}{name}\" c\"{p}{name}\";");
    }
    // Open MPI and MPICH differ in what they call the twin.
    let _ = writeln!(out, "    \"{f08}\" c\"p{f08}\" c\"{}\";\n}}\n", f08.replacen("mpi_", "pmpir_", 1));
}

fn body(function: &Function, meaning: &Meaning, names: &str) -> String {
    // MPI_PCONTROL, whose C binding is variadic, has no error code in the standard, but in MPICH. It is
    // passed on and not looked at.
    let returns_code = !function.variadic;
    let call = |replaced: Option<&str>| {
        let names = match replaced {
            Some(status) => {
                let names = names.split(", ").map(|name| {
                    if name == status { format!("fortran::chosen(chosen, {name})") } else { name.to_owned() }
                });
                names.collect::<Vec<_>>().join(", ")
            }
            None => names.to_owned(),
        };
        if returns_code {
            format!("fortran::code(ierror, |ierror| twin({names}))")
        } else {
            format!("{{ twin({names}); crate::abi::constant::SUCCESS }}")
        }
    };
    let recorded = meaning_call(function, meaning, Language::Fortran, |closure| {
        let status = closure.trim_matches('|');
        let closure_head = if status.is_empty() { "||" } else { "|chosen|" };
        format!("{closure_head} {}", call((!status.is_empty()).then_some(status)))
    });
    let (Meaning::Verb { args, .. } | Meaning::ByHand(args)) = meaning;
    let shortcut = if args.is_empty() {
        String::new()
    } else {
        format!("if fortran::idle() {{ return unsafe {{ twin({names}) }}; }}\n")
    };
    format!("{shortcut}unsafe {{ {recorded} }};")
}

/// Names and types of the Fortran binding's arguments, as they arrive: everything by its address, then the
/// error code, then the lengths of texts.
fn params(function: &Function) -> Vec<(String, String)> {
    let mut params = Vec::new();
    let mut lengths = Vec::new();
    for param in function.params_of(false) {
        let kind = match param.kind.as_str() {
            "ARGUMENT_COUNT" | "ARGUMENT_LIST" => continue,
            "BUFFER" if param.direction == Direction::In => "*const c_void",
            "BUFFER" => "*mut c_void",
            "STRING" | "STRING_ARRAY" | "STRING_2DARRAY" => {
                lengths.push((format!("{}_length", param.name), "usize".to_owned()));
                "*const c_char"
            }
            _ => "*mut Fint",
        };
        params.push((param.name.clone(), kind.to_owned()));
    }
    params.push(("ierror".to_owned(), "*mut Fint".to_owned()));
    params.extend(lengths);
    params
}

/// The argument as a meaning wants it.
pub fn argument(param: &Param) -> String {
    let name = &param.name;
    match (param.kind.as_str(), types::handle(&param.kind)) {
        _ if types::is_place(param) => format!("Place::fortran({name})"),
        (_, Some(handle)) => format!("fortran::handle::<{handle}>({name})"),
        ("BUFFER", _) => format!("fortran::buffer({name})"),
        ("STATUS", _) => format!("fortran::status({name})"),
        ("INDEX", _) => format!("Indices::fortran({name})"),
        ("STRING", _) => format!("Text::fortran({name}, {name}_length)"),
        // A number of 8 bytes also without a variant for large counts.
        ("XFER_NUM_ELEM_NNI", _) => format!("*{name}.cast::<Count>()"),
        _ if param.array || param.direction != Direction::In => name.clone(),
        _ => format!("*{name}"),
    }
}
