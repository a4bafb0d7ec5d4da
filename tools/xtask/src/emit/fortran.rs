//! The exported Fortran symbols: a body per function, which all the names of the function share.

use super::exports::{Language, meaning_call, note_of_buffers};
use super::{banner, is_often_called, section, types};
use crate::spec::{Direction, Expr, Function, Meaning, Param};
use std::fmt::Write;

pub fn emit(functions: &[Function]) -> String {
    let mut out = banner(
        "The exported Fortran symbols. Each exists where the MPI has it together with its profiling\n\
         twin, to which the call goes on as it came; tools/xtask/spec/README.md says which.",
    );
    out.push_str(PREAMBLE);
    for (function, meaning) in bound(functions) {
        shims(&mut out, function, meaning);
    }
    out
}

/// The functions with Fortran symbols: the interface for tools has none.
pub fn bound(functions: &[Function]) -> impl Iterator<Item = (&Function, &Meaning)> {
    let of_tools = |function: &&Function| function.name.starts_with("MPI_T_");
    let bound = functions.iter().filter(move |function| !of_tools(function));
    bound.filter_map(|function| Some((function, function.meaning.as_ref()?)))
}

/// One of the names of a function, as compilers and MPIs spell it.
pub struct Spelling {
    /// Symbol that the program calls.
    pub name: String,
    /// Its profiling twin in Open MPI.
    pub twin: String,
    /// Its profiling twin in MPICH.
    pub twin_of_mpich: String,
}

impl Spelling {
    /// True for a symbol of `mpi_f08`, where the error code is optional.
    pub fn is_f08(&self) -> bool {
        self.name.ends_with("_f08_") || self.name.ends_with("_f08_large_")
    }
}

/// The spellings of a function that are stood in for, each with an underscore at its end.
pub fn spellings(function: &Function, meaning: &Meaning) -> Vec<Spelling> {
    let low = function.name.to_lowercase();
    let mut names = Vec::new();
    let mut lows = vec![low.clone()];
    // The specific procedure for a TYPE(C_PTR) has a name of its own (MPI 4.1, 12.2.2).
    if function.params.iter().any(|param| param.kind == "C_BUFFER") {
        lows.push(format!("{low}_cptr"));
    }
    for low in lows {
        names.extend([format!("{low}_"), format!("{low}__")]);
    }
    names.push(format!("{low}_f08_"));
    // MPICH has large-count variants in mpi_f08. Those of functions with a buffer end in calls of
    // C.
    let has_buffer = function.params.iter().any(|param| param.kind == "BUFFER");
    if function.has_large_variant() && !has_buffer {
        assert!(
            !reads_counts(function, meaning),
            "{}: the shim would read a count of 4 bytes",
            function.name
        );
        names.push(format!("{low}_f08_large_"));
    }
    let spelling = |name: String| {
        let twin = format!("p{name}");
        let twin_of_mpich = match name.strip_prefix("mpi_") {
            Some(rest) if rest.contains("_f08_") => format!("pmpir_{rest}"),
            _ => twin.clone(),
        };
        Spelling { name, twin, twin_of_mpich }
    };
    names.into_iter().map(spelling).collect()
}

/// Returns whether the meaning reads a number that is longer in the large-count variant.
fn reads_counts(function: &Function, meaning: &Meaning) -> bool {
    fn reads(function: &Function, arg: &Expr) -> bool {
        match arg {
            Expr::Param(name) => function.param(name).kind.starts_with("POLY"),
            Expr::Block(..) => true,
            Expr::Volume(_, args) => args.iter().any(|arg| reads(function, arg)),
        }
    }
    meaning.args().iter().any(|arg| reads(function, arg))
}

const PREAMBLE: &str = r#"
#![allow(non_snake_case, missing_docs, dead_code, unused_imports)]
#![allow(clippy::too_many_arguments, clippy::missing_safety_doc)]
// Every block below has the same ground: the arguments are the application's own, handed on
// unchanged to the function that it called.
#![allow(clippy::undocumented_unsafe_blocks)]

use crate::mpi::abi::{Comm, Count, Datatype, File, Message, Op, Request, Session, Win};
use crate::mpi::argument::{Indices, HandlePtr, Text};
use crate::mpi::fortran::{self, Fint};
use crate::recording::buffers::{self, Rooted};
use crate::state::process;
use crate::recording::volume::{self, Block, Blocks, TypedBlocks};
use crate::mpi::symbol::Symbol;
use crate::wrappers;
use mpisee_profile::Operation;
use std::ffi::{c_char, c_int, c_void};

/// The names of a function, each with its twin's, which another MPI may call differently.
macro_rules! exports {
    ($section:tt $body:ident $params:tt: $($name:tt $twin:tt $or:tt;)*) => {
        $(export! { $section $body $params $name $twin $or })*
    };
}

macro_rules! export {
    ([$($section:tt)*] $body:ident ($($param:ident: $kind:ty),*) $name:tt $twin:tt $or:tt) => {
        #[cfg(mpi = $name)]
        const _: () = {
            $($section)*
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
    let spellings = spellings(function, meaning);
    let exists: Vec<String> = spellings.iter().map(|it| format!("mpi = \"{}\"", it.name)).collect();
    let _ = writeln!(
        out,
        "#[cfg(any({}))]\n#[{}]\nunsafe fn {low}_body(twin: {twin}, {typed}) {{\n{}\n}}\n",
        exists.join(", "),
        // Each is in up to three exports.
        if is_often_called(function) { "inline" } else { "inline(never)" },
        body(function, meaning, &names)
    );
    let section = section(function, ".text.hot");
    let _ = writeln!(out, "exports! {{ [{}] {low}_body({typed}):", section.trim_end());
    for Spelling { name, twin, twin_of_mpich } in &spellings {
        let _ = writeln!(out, "    \"{name}\" c\"{twin}\" c\"{twin_of_mpich}\";");
    }
    out.push_str("}\n\n");
}

fn body(function: &Function, meaning: &Meaning, names: &str) -> String {
    // MPI_PCONTROL, whose C binding is variadic, has no error code in the standard, but in MPICH.
    // It is passed on and not looked at.
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
            format!("{{ twin({names}); crate::mpi::abi::constant::SUCCESS }}")
        }
    };
    let recorded = meaning_call(function, meaning, Language::Fortran, |closure| {
        let status = closure.trim_start_matches("move ").trim_matches('|');
        let closure_head = if status.is_empty() { "move ||" } else { "move |chosen|" };
        format!("{closure_head} {}", call((!status.is_empty()).then_some(status)))
    });
    // Calls that start the recording are examined while nothing is recorded.
    let shortcut = if meaning.args().is_empty() || function.name == "MPI_Session_init" {
        String::new()
    } else {
        format!("if process::is_idle() {{ return unsafe {{ twin({names}) }}; }}\n")
    };
    format!("{shortcut}{}unsafe {{ {recorded} }};", note_of_buffers(function, false, Language::Fortran))
}

/// Names and types of the Fortran binding's arguments, as they arrive: everything by its address,
/// then the error code, then the lengths of texts.
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
        _ if types::is_place(param) => format!("HandlePtr::fortran({name})"),
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
