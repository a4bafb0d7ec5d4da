//! The standard's kinds of parameters as Rust types.
//!
//! Handles are `Raw<…>`: as wide as a register, whatever the MPI, see
//! `mpisee-rs/src/mpi/abi/mod.rs`.

use crate::spec::{Direction, Function, Param};
use anyhow::{Result, bail};

/// The type of `param` in the C binding, or in the large-count one.
pub fn rust_type(param: &Param, large: bool) -> Result<String> {
    let pointee = pointee(&param.kind, large)?;
    let constant = if param.direction == Direction::In { "const" } else { "mut" };
    let by_pointer = match param.kind.as_str() {
        // Already pointers by themselves.
        "BUFFER" => return Ok(format!("*{constant} c_void")),
        "C_BUFFER" | "C_BUFFER2" | "C_BUFFER3" | "C_BUFFER4" | "ATTRIBUTE_VAL" | "EXTRA_STATE"
        | "EXTRA_STATE2" | "ATTRIBUTE_VAL_10" | "FUNCTION" | "POLYFUNCTION" | "FUNCTION_SMALL" => {
            return Ok("*mut c_void".to_owned());
        }
        "STRING" if !param.array || param.direction != Direction::In => {
            return Ok(format!("*{constant} c_char"));
        }
        "STRING" | "STRING_ARRAY" => return Ok("*mut *mut c_char".to_owned()),
        "STRING_2DARRAY" => return Ok("*mut *mut *mut c_char".to_owned()),
        "ARGUMENT_COUNT" => return Ok("*mut c_int".to_owned()),
        "ARGUMENT_LIST" => return Ok("*mut *mut *mut c_char".to_owned()),
        "STATUS" | "F08_STATUS" | "F90_STATUS" => true,
        _ => param.array || param.direction != Direction::In,
    };
    Ok(match (by_pointer, handle(&param.kind)) {
        // In memory a handle has its real width.
        (true, Some(handle)) => format!("*{constant} {handle}"),
        (true, None) => format!("*{constant} {pointee}"),
        (false, Some(handle)) => format!("Raw<{handle}>"),
        (false, None) => pointee.to_owned(),
    })
}

/// Returns whether `param` points to a handle, or to an array of them.
pub fn is_place(param: &Param) -> bool {
    handle(&param.kind).is_some() && (param.array || param.direction != Direction::In)
}

/// The type that `function` returns.
pub fn return_type(function: &Function) -> Result<String> {
    Ok(match (function.returns.as_str(), handle(&function.returns)) {
        ("WALL_TIME" | "TICK_RESOLUTION", _) => "c_double".to_owned(),
        (kind, None) => pointee(kind, false)?.to_owned(),
        (_, Some(handle)) => format!("Raw<{handle}>"),
    })
}

/// The Rust type of a handle of that kind.
pub fn handle(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "COMMUNICATOR" => "Comm",
        "DATATYPE" => "Datatype",
        "ERRHANDLER" => "Errhandler",
        "FILE" => "File",
        "GROUP" => "Group",
        "INFO" => "Info",
        "MESSAGE" => "Message",
        "OPERATION" => "Op",
        "REQUEST" => "Request",
        "SESSION" => "Session",
        "WINDOW" => "Win",
        _ => return None,
    })
}

/// Kinds of arguments that are plain integers of C.
const C_INTEGERS: &[&str] = &[
    "ERROR_CODE",
    "ERROR_CLASS",
    "RANK",
    "RANK_NNI",
    "TAG",
    "COLOR",
    "KEY",
    "KEYVAL",
    "LOGICAL",
    "LOGICAL_OPTIONAL",
    "ARRAY_LENGTH",
    "ARRAY_LENGTH_NNI",
    "ARRAY_LENGTH_PI",
    "INDEX",
    "COMM_SIZE",
    "COMM_SIZE_PI",
    "COMM_COMPARISON",
    "GROUP_COMPARISON",
    "NUM_DIMS",
    "DIMENSION",
    "COORDINATE",
    "DEGREE",
    "WEIGHT",
    "SPLIT_TYPE",
    "TOPOLOGY_TYPE",
    "STRING_LENGTH",
    "PROFILE_LEVEL",
    "THREAD_LEVEL",
    "VERSION",
    "ASSERT",
    "LOCK_TYPE",
    "ACCESS_MODE",
    "UPDATE_MODE",
    "UPDATE_NUMBER",
    "KEY_INDEX",
    "INFO_VALUE_LENGTH",
    "PARTITION",
    "FILE_DESCRIPTOR",
    "COMBINER",
    "TYPECLASS",
    "TYPECLASS_SIZE",
    "ORDER",
    "DISTRIB_ENUM",
    "DTYPE_DISTRIBUTION",
    "PROCESS_GRID_SIZE",
    "ERROR_CODE_SHOW_INTENT",
    "GENERIC_DTYPE_INT",
    "NUM_BYTES_SMALL",
    "XFER_NUM_ELEM_SMALL",
    "MATH",
];

/// Kinds behind whose pointers there is nothing to be typed.
const UNTYPED: &[&str] = &[
    "BUFFER",
    "C_BUFFER",
    "C_BUFFER2",
    "C_BUFFER3",
    "C_BUFFER4",
    "ATTRIBUTE_VAL",
    "ATTRIBUTE_VAL_10",
    "EXTRA_STATE",
    "EXTRA_STATE2",
    "FUNCTION",
    "FUNCTION_SMALL",
    "POLYFUNCTION",
    "STRING",
    "STRING_ARRAY",
    "STRING_2DARRAY",
    "ARGUMENT_COUNT",
    "ARGUMENT_LIST",
];

/// The type behind a pointer of this kind; empty if it is not typed. `large` in the large-count
/// variants.
fn pointee(kind: &str, large: bool) -> Result<&'static str> {
    if handle(kind).is_some() || UNTYPED.contains(&kind) {
        return Ok("");
    }
    Ok(match kind {
        "STATUS" | "F08_STATUS" => "Status",
        "POLYDISPLACEMENT" | "POLYRMA_DISPLACEMENT" | "POLYDISPOFFSET" if large => "Aint",
        "POLYDISPLACEMENT_AINT_COUNT" | "POLYLOCATION" | "POLYDTYPE_STRIDE_BYTES" if !large => "Aint",
        _ if kind.starts_with("POLY") && large => "Count",
        "DISPLACEMENT"
        | "DISPLACEMENT_NNI"
        | "RMA_DISPLACEMENT_NNI"
        | "ALLOC_MEM_NUM_BYTES"
        | "WINDOW_SIZE"
        | "WIN_ATTACH_SIZE"
        | "LOCATION_SMALL"
        | "DISPOFFSET_SMALL" => "Aint",
        "OFFSET" => "Offset",
        "NUM_BYTES" | "XFER_NUM_ELEM" | "XFER_NUM_ELEM_NNI" | "GENERIC_DTYPE_COUNT" => "Count",
        _ if C_INTEGERS.contains(&kind) || ["POLY", "F90_"].iter().any(|begin| kind.starts_with(begin)) => {
            "c_int"
        }
        _ => bail!("there is no Rust type for the kind {kind}"),
    })
}
