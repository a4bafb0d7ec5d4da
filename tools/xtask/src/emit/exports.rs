//! The exported `MPI_*` symbols: thin shims, each one call into `wrappers`.

use super::{banner, camel_case, pmpi::variant_name, section, types};
use crate::spec::{Direction, Expr, Function, Meaning, ONE, Param};
use anyhow::{Context, Result};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> Result<String> {
    let mut out = banner(
        "The exported `MPI_*` symbols. A shim names what the call means and how to make it; it exists\n\
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
// Every block below has the same ground: the arguments are the application's own, handed on
// unchanged to the function that it called.
#![allow(clippy::undocumented_unsafe_blocks)]
#![allow(unused_unsafe, reason = "what C passes is read without")]

use super::pmpi;
use crate::mpi::abi::{Comm, Count, Aint, Datatype, Errhandler, File, Group, Info, Message, Offset, Op, Raw,
Request, Session, Status, Win};
use crate::mpi::argument::{Indices, HandlePtr, Text};
use crate::recording::buffers::{self, Rooted};
use crate::recording::volume::{self, Block, Blocks, TypedBlocks};
use crate::wrappers;
use mpisee_profile::Operation;
use std::ffi::{c_char, c_int, c_void};

"#;

fn shim(out: &mut String, function: &Function, meaning: &Meaning, large: bool) -> Result<()> {
    let name = variant_name(function, large);
    let mut params = Vec::new();
    for param in function.params_of(large) {
        params.push(format!("{}: {}", param.name, types::rust_type(param, large)?));
    }
    // A variadic function cannot be defined in stable Rust; its first extra argument is the only
    // one that any profiling level gives a meaning to, and it comes in a register.
    if function.variadic {
        params.push("extra: *const c_char".to_owned());
    }
    let mut passed: Vec<&str> = function.params_of(large).map(|param| param.name.as_str()).collect();
    if function.variadic {
        passed.push("extra");
    }
    let call = meaning_call(function, meaning, Language::C, |closure| {
        format!("{closure} pmpi::{name}.get()({})", passed.join(", "))
    });
    let body = format!("{}unsafe {{ {call} }}", note_of_buffers(function, large, Language::C));
    let _ = writeln!(
        out,
        "#[cfg(mpi = \"{name}\")]\n{}#[unsafe(no_mangle)]\npub unsafe extern \"C-unwind\" fn {name}({}) -> c_int {{\n{body}\n}}\n",
        section(function, ".text.hot"),
        params.join(", ")
    );
    Ok(())
}

/// The note of a call's buffers: parameters that are addresses of what is communicated. A call
/// without any has no note.
pub fn note_of_buffers(function: &Function, large: bool, language: Language) -> String {
    let buffers = function.params_of(large).filter(|param| param.kind == "BUFFER");
    let address = |param: &Param| match (language, param.direction) {
        (Language::Fortran, Direction::In) => format!("fortran::buffer({})", param.name),
        (Language::Fortran, _) => format!("fortran::buffer({}.cast_const())", param.name),
        (Language::C, Direction::In) => param.name.clone(),
        (Language::C, _) => format!("{}.cast_const()", param.name),
    };
    let buffers: Vec<String> = buffers.map(address).collect();
    if buffers.is_empty() {
        return String::new();
    }
    let buffers = buffers.join(", ");
    let of_root = match language {
        Language::C => "root, comm",
        Language::Fortran => "*root, fortran::handle::<Comm>(comm)",
    };
    match rooted(function) {
        Some(rooted) => {
            format!("buffers::note_rooted([{buffers}], || unsafe {{ (Rooted::{rooted}, {of_root}) }});\n")
        }
        None => format!("buffers::note([{buffers}]);\n"),
    }
}

/// The way of the data of a rooted collective, by its volume rule.
fn rooted(function: &Function) -> Option<&'static str> {
    let rule = function.meaning.as_ref()?.args().iter().find_map(|arg| match arg {
        Expr::Volume(rule, _) => Some(rule.as_str()),
        _ => None,
    });
    match rule? {
        "broadcast" => Some("Broadcast"),
        "gather" | "reduce" => Some("ToRoot"),
        "scatter" => Some("FromRoot"),
        _ => None,
    }
}

/// In whose terms the arguments of a shim are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Fortran,
}

/// The call of what a function means, with `make` for how the call is made: given the head of a
/// closure, it returns the closure.
pub fn meaning_call(
    function: &Function,
    meaning: &Meaning,
    language: Language,
    make: impl FnOnce(&str) -> String,
) -> String {
    let args = meaning.args();
    let operation = || vec![format!("Operation::{}", camel_case(function.short_name()))];
    let (what, mut all) = match meaning {
        Meaning::Verb { verb, .. } => (format!("wrappers::{verb}"), operation()),
        Meaning::ByHand { shared: Some(body), .. } => (format!("wrappers::{body}"), operation()),
        Meaning::ByHand { shared: None, .. } => {
            (format!("wrappers::{}", function.short_name().to_lowercase()), Vec::new())
        }
    };
    all.extend(args.iter().map(|arg| argument(function, arg, language)));
    if function.variadic {
        // The Fortran binding has no further arguments.
        all.push(if language == Language::C { "extra" } else { "std::ptr::null()" }.to_owned());
    }
    // A status that the application ignores is replaced by one of ours, so the closure takes it as
    // its argument. PERF: it has copies, so that the arguments need not be in memory.
    let status = args.iter().find_map(|arg| match arg {
        Expr::Param(name) if function.param(name).kind == "STATUS" => Some(name),
        _ => None,
    });
    all.push(make(&status.map_or("move ||".to_owned(), |name| format!("move |{name}|"))));
    format!("{what}({})", all.join(", "))
}

fn argument(function: &Function, expr: &Expr, language: Language) -> String {
    let param = |name: &str| match language {
        Language::C => c_argument(function.param(name)),
        Language::Fortran => super::fortran::argument(function.param(name)),
    };
    match expr {
        Expr::Param(name) => param(name),
        Expr::Block(count, datatype) => {
            let array = |name: &str| name != ONE && function.param(name).array;
            let shape = match (array(count), array(datatype)) {
                (false, _) => "Block",
                (true, false) => "Blocks",
                (true, true) => "TypedBlocks",
            };
            let count = if count == ONE { ONE.to_owned() } else { param(count) };
            format!("{shape}({count}, {})", param(datatype))
        }
        Expr::Volume(rule, args) => {
            let args: Vec<String> = args.iter().map(|arg| argument(function, arg, language)).collect();
            format!(
                "|comm| volume::{rule}(comm{}{})",
                if args.is_empty() { "" } else { ", " },
                args.join(", ")
            )
        }
    }
}

fn c_argument(param: &Param) -> String {
    let name = &param.name;
    match param.kind.as_str() {
        _ if types::is_place(param) => format!("HandlePtr::c({name})"),
        "INDEX" => format!("Indices::c({name})"),
        "STRING" => format!("Text::c({name})"),
        _ => name.clone(),
    }
}
