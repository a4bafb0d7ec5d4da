//! The interface of MPI for tools (MPI 4.1, chapter 15), where the profiler uses it, too; and the
//! list of variables for `mpisee --mpi-t list`: the launcher loads an MPI library and this one, and
//! calls it.

use crate::mpi::abi::{Element, constant};
use crate::mpi::tool;
use crate::state::openmpi_components::Components;
use crate::state::variables;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `MPI_T_init_thread` (MPI 4.1, 15.3.4). Open MPI says the level to the first caller alone, which
/// may have been the profiler.
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

/// Passes the variables of the MPI that is loaded to `take`, a line of UTF-8 for each, its fields
/// separated by tabs: `performance` or `control`, name, class, type, the object to which it
/// belongs, value of a control variable or when a performance variable is read, description. The
/// last line is `events` and their number; it is missing where the MPI has no functions for events.
/// Returns 0, or 1 if the MPI has no variables.
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
    let performance: Vec<_> = (0..tool::performance_count()).filter_map(tool::performance).collect();
    // An MPI has more than a thousand control variables.
    let control: Vec<_> = (0..tool::control_count()).filter_map(tool::control).collect();
    let control: Vec<_> =
        control.into_iter().map(|variable| (variable.value().unwrap_or_default(), variable)).collect();
    let is_off =
        |(value, variable): &&(String, tool::Control)| value == "0" && variable.name.ends_with("_enable");
    let off: Vec<&str> = control.iter().filter(is_off).map(|(_, variable)| variable.name.as_str()).collect();
    let components = Components::now();
    for variable in &performance {
        let component = components.as_ref().and_then(|components| components.component(&variable.name));
        let read = when_read(variable, component, &off);
        let tool::Performance { name, description, class, element, binding, .. } = variable;
        let (kind, binding) = (name_of(*element), binding.name());
        take(format!("performance\t{name}\t{class}\t{kind}\t{binding}\t{read}\t{description}"));
    }
    for (value, variable) in control {
        let tool::Control { name, description, element, binding, .. } = variable;
        let (kind, binding) = (name_of(element), binding.name());
        take(format!("control\t{name}\t\t{kind}\t{binding}\t{value}\t{description}"));
    }
    if let Some(events) = tool::event_count() {
        take(format!("events\t{events}"));
    }
}

/// When a variable is read: always, never, or if a run uses its component, which a control variable
/// among those that are `off` may switch on: that of `pml_monitoring_enable` all components of that
/// name, such as `coll_monitoring`.
fn when_read(variable: &tool::Performance, component: Option<&str>, off: &[&str]) -> String {
    if !variable.has_number() {
        return "never".to_owned();
    }
    // These are parts of some MPI libraries, and of no use where they are off.
    let monitor = variables::monitoring::is_of(&variable.name).then_some("pml_monitoring");
    let Some(component) = component.or(monitor) else { return "always".to_owned() };
    let name = component.split_once('_').map_or(component, |(_, name)| name);
    let is_of = |control: &&&str| {
        control.strip_suffix("_enable").and_then(|control| control.split_once('_')).map(|it| it.1)
            == Some(name)
    };
    match off.iter().find(is_of) {
        Some(control) => format!("if {control}=1"),
        None => format!("if {component} is in use"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::tool::{Binding, Performance};

    #[test]
    fn variables_of_components_are_read_where_these_are_in_use() {
        let read = |element, binding, component| {
            let variable = Performance {
                index: 0,
                name: String::new(),
                description: String::new(),
                class: "counter",
                element: Some(element),
                binding,
                is_continuous: false,
            };
            when_read(&variable, component, &["btl_openib_rroce_enable", "pml_monitoring_enable"])
        };
        let of = |component| read(Element::U64, Binding::Communicator, component);
        assert_eq!(of(None), "always");
        assert_eq!(of(Some("pml_ob1")), "if pml_ob1 is in use");
        assert_eq!(of(Some("coll_monitoring")), "if pml_monitoring_enable=1");
        assert_eq!(read(Element::Char, Binding::Process, None), "never");
        assert_eq!(read(Element::U64, Binding::Other, Some("osc_rdma")), "never");
    }
}
