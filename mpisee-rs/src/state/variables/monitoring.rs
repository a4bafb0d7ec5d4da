//! Open MPI's components that monitor others. Where components are no plugins, but parts of the MPI
//! library, their variables are always there, and crash when they are started while the components
//! are not in use.

use crate::mpi::tool;

/// The name of these components, one in each framework.
const NAME: &str = "monitoring";
/// The control variable that switches them on.
const ENABLE: &str = "pml_monitoring_enable";
/// Control variables that choose the components of a framework.
const FRAMEWORKS: [&str; 3] = ["coll", "osc", "pml"];

/// Returns whether a variable is of such a component.
pub fn is_of(variable: &str) -> bool {
    variable
        .split_once('_')
        .and_then(|(framework, rest)| FRAMEWORKS.contains(&framework).then_some(rest))
        .and_then(|rest| rest.strip_prefix(NAME))
        .is_some_and(|rest| rest.starts_with('_'))
}

/// Returns whether the components are in use, by the control variables.
pub fn is_in_use() -> bool {
    let all = (0..tool::control_count()).filter_map(tool::control);
    // Others may be of components whose memory is gone.
    let wanted = all.filter(|control| control.name == ENABLE || FRAMEWORKS.contains(&control.name.as_str()));
    is_on(wanted.filter_map(|control| Some((control.value()?, control.name))))
}

/// The same of values and names. One framework without the component is enough to leave all alone:
/// they share their memory.
fn is_on(values: impl Iterator<Item = (String, String)>) -> bool {
    let mut is_enabled = false;
    for (value, name) in values {
        if name == ENABLE {
            is_enabled = value != "0";
        } else if !is_chosen(&value) {
            return false;
        }
    }
    is_enabled
}

/// Returns whether a choice of components, `tuned,basic` or `^tuned`, has the component.
fn is_chosen(choice: &str) -> bool {
    let names = |list: &str| list.split(',').any(|name| name.trim() == NAME);
    match choice.trim().strip_prefix('^') {
        Some(left_out) => !names(left_out),
        None => choice.trim().is_empty() || names(choice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_in_use_where_they_are_switched_on_and_chosen() {
        let of = |values: &[(&str, &str)]| {
            is_on(values.iter().map(|&(name, value)| (value.to_owned(), name.to_owned())))
        };
        let enabled = ("pml_monitoring_enable", "1");
        assert!(of(&[enabled, ("coll", ""), ("pml", "^cm,ucx"), ("osc", "rdma,monitoring")]));
        assert!(!of(&[]) && !of(&[("pml_monitoring_enable", "0"), ("coll", "")]));
        assert!(!of(&[("coll", "tuned,libnbc,basic"), enabled]) && !of(&[enabled, ("pml", "^monitoring")]));
        assert!(is_of("coll_monitoring_o2a_count") && is_of("pml_monitoring_flush"));
        assert!(!is_of("coll_monitoringx") && !is_of("pml_ob1_posted_recvq_length") && !is_of("monitoring"));
    }
}
