//! The interface of MPI for tools (MPI 4.1, chapter 15), where the profiler uses it, too; and the list of variables for `mpisee --mpi-t list`: the launcher
//! loads an MPI library and this one, and calls it.

use crate::mpi::abi::{Element, constant};
use crate::mpi::tool;
use crate::state::variables;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `MPI_T_init_thread` (MPI 4.1, 15.3.4). Open MPI says the level to the first caller alone, which may have been the profiler.
///
/// # Safety
/// `make` makes the application's call, which stores a level at `provided`.
pub unsafe fn t_init_thread(required: c_int, provided: *mut c_int, make: impl FnOnce() -> c_int) -> c_int {
    if variables::are_read() && !provided.is_null() {
        // SAFETY: the call may store there.
        unsafe { provided.write_unaligned(required) };
    }
    make()
}

/// Passes the variables of the MPI that is loaded to `take`, a line of UTF-8 for each, its fields separated by tabs: `performance` or `control`,
/// name, class, type, the object to which it belongs, value of a control variable, description. The last line is `events` and their number; it is missing where the
/// MPI has no functions for events. Returns 0, or 1 if the MPI has no variables.
///
/// # Safety
/// `take` may be called with an address and that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpisee_list_variables(take: extern "C" fn(*const u8, usize)) -> c_int {
    let list = || {
        if !tool::init(constant::THREAD_LEVELS[0]) {
            return false;
        }
        lines(|line| take(line.as_ptr(), line.len()));
        tool::finalize();
        true
    };
    c_int::from(!catch_unwind(AssertUnwindSafe(list)).unwrap_or(false))
}

fn lines(mut take: impl FnMut(String)) {
    for variable in (0..tool::performance_count()).filter_map(tool::performance) {
        let tool::Performance { name, description, class, element, binding, .. } = variable;
        let (kind, binding) = (name_of(element), binding.name());
        take(format!("performance\t{name}\t{class}\t{kind}\t{binding}\t\t{description}"));
    }
    for variable in (0..tool::control_count()).filter_map(tool::control) {
        let value = variable.value().unwrap_or_default();
        let tool::Control { name, description, element, binding, .. } = variable;
        let (kind, binding) = (name_of(element), binding.name());
        take(format!("control\t{name}\t\t{kind}\t{binding}\t{value}\t{description}"));
    }
    if let Some(events) = tool::event_count() {
        take(format!("events\t{events}"));
    }
}

fn name_of(element: Option<Element>) -> &'static str {
    match element {
        Some(Element::I32) => "int32",
        Some(Element::U32) => "uint32",
        Some(Element::I64) => "int64",
        Some(Element::U64) => "uint64",
        Some(Element::F64) => "float64",
        Some(Element::Bool) => "bool",
        Some(Element::Char) => "text",
        None => "unknown",
    }
}
