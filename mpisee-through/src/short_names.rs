//! Demangles and shortens the names of functions, and shortens those of libraries.

use cpp_demangle::{DemangleOptions, Symbol};
use std::collections::HashMap;

/// Name and version of an MPI library, without the details of its build.
pub fn library_version(library: &str) -> &str {
    library.split(',').next().unwrap_or_default()
}

/// A C++ or Rust function without its parameters, which are long and mostly tell nothing; a
/// procedure of a Fortran module with the module, `solver::exchange`; a function of Cython as
/// Python has it, `mpi4py.MPI.Comm.allgather`; any other name as it is.
pub fn short(mangled: &str) -> String {
    rust(mangled)
        .or_else(|| cpp(mangled, false))
        .or_else(|| fortran(mangled))
        .or_else(|| cython(mangled))
        .unwrap_or_else(|| mangled.to_owned())
}

fn full(mangled: &str) -> String {
    rust(mangled)
        .or_else(|| cpp(mangled, true))
        .or_else(|| fortran(mangled))
        .or_else(|| cython(mangled))
        .unwrap_or_else(|| mangled.to_owned())
}

/// A procedure of a module as gfortran calls it, `__solver_MOD_exchange`. Names of Fortran are in
/// small letters there.
fn fortran(mangled: &str) -> Option<String> {
    let (module, procedure) = mangled.strip_prefix("__")?.split_once("_MOD_")?;
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    // What the compiler makes of a procedure has more after a full stop.
    let name = procedure.split('.').next().unwrap_or_default();
    (is_name(module) && is_name(name)).then(|| format!("{module}::{procedure}"))
}

/// A function as Cython calls it, `__pyx_pw_6mpi4py_3MPI_4Comm_287allgather`: the lengths and names
/// of packages, modules and classes, and the function, of Python's functions after its number. What
/// the compiler makes of it has more after a full stop.
fn cython(mangled: &str) -> Option<String> {
    let mangled = mangled.split('.').next().unwrap_or_default();
    let of_python = mangled.strip_prefix("__pyx_pw_").or_else(|| mangled.strip_prefix("__pyx_pf_"));
    let is_numbered = of_python.is_some();
    let mut rest = of_python.or_else(|| mangled.strip_prefix("__pyx_f_"))?;
    let mut parts = Vec::new();
    while let Some((part, after)) = part_of_cython(rest) {
        // `3Get_rank` may be part 3, or the third function: only what has a number is a function of
        // Python's.
        if is_numbered && numbered(after).is_none() {
            break;
        }
        parts.push(part);
        rest = after;
    }
    let function = if is_numbered { numbered(rest)? } else { rest };
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if parts.is_empty() || function.is_empty() || !function.chars().all(is_name) {
        return None;
    }
    parts.push(function);
    Some(parts.join("."))
}

/// `MPI` and `4Comm_287allgather` of `3MPI_4Comm_287allgather`.
fn part_of_cython(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok().filter(|&length| length > 0)?;
    let (name, rest) = text[digits..].split_at_checked(length)?;
    Some((name, rest.strip_prefix('_')?))
}

/// `allgather` of `287allgather`.
fn numbered(text: &str) -> Option<&str> {
    let name = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (name.len() < text.len() && !name.is_empty()).then_some(name)
}

/// Older names of Rust are also names of C++, but for the hash at their end.
fn rust(mangled: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(mangled).ok()?;
    let (with_hash, without) = (format!("{name}"), format!("{name:#}"));
    (mangled.starts_with("_R") || with_hash != without).then_some(without)
}

fn cpp(mangled: &str, with_parameters: bool) -> Option<String> {
    if !mangled.starts_with("_Z") {
        return None;
    }
    let options = DemangleOptions::new().no_return_type();
    let options = if with_parameters { options } else { options.no_params() };
    Symbol::new(mangled).ok()?.demangle_with_options(&options).ok()
}

/// Mangled names, each with one for reading that no other of them has.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, String>);

impl Names {
    /// Names for all of these.
    pub fn from_mangled<'m>(mangled: impl IntoIterator<Item = &'m str>) -> Self {
        let mut names: HashMap<String, String> =
            mangled.into_iter().map(|name| (name.to_owned(), short(name))).collect();
        let mut uses: HashMap<String, usize> = HashMap::new();
        for name in names.values() {
            *uses.entry(name.clone()).or_default() += 1;
        }
        for (mangled, name) in &mut names {
            if uses[name.as_str()] > 1 {
                *name = full(mangled);
            }
        }
        Names(names)
    }

    /// The name for reading.
    pub fn get<'n>(&'n self, mangled: &'n str) -> &'n str {
        self.0.get(mangled).map_or(mangled, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_as_they_are_written() {
        for (mangled, name) in [
            ("_Z4haloIfLi4EEvPT_S1_i", "halo<float, 4>"),
            ("_ZN6solver4normEPKdPd", "solver::norm"),
            ("_ZN3std2io5stdio6_print17h0123456789abcdefE", "std::io::stdio::_print"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("__solver_mod_MOD_exchange_halo", "solver_mod::exchange_halo"),
            ("__solver_MOD_step2.constprop.0", "solver::step2.constprop.0"),
            ("__MOD_step", "__MOD_step"),
            ("__solver_MOD_", "__solver_MOD_"),
            ("__solver_MOD___copy_solver_Grid", "__solver_MOD___copy_solver_Grid"),
            ("solver_MOD_step", "solver_MOD_step"),
            ("halo_kernel", "halo_kernel"),
            ("__pyx_pw_6mpi4py_3MPI_4Comm_287allgather", "mpi4py.MPI.Comm.allgather"),
            ("__pyx_pw_6mpi4py_3MPI_4Comm_3Get_rank", "mpi4py.MPI.Comm.Get_rank"),
            ("__pyx_pf_6mpi4py_3MPI_9Intracomm_42Scan.isra.0", "mpi4py.MPI.Intracomm.Scan"),
            ("__pyx_f_6mpi4py_3MPI_PyMPI_bcast_p2p.constprop.0", "mpi4py.MPI.PyMPI_bcast_p2p"),
            ("__pyx_f_6mpi4py_3MPI_10_p_msg_cco_for_bcast", "mpi4py.MPI._p_msg_cco.for_bcast"),
            ("__pyx_pw_6solver_1step", "solver.step"),
            ("__pyx_pw_6mpi4py", "__pyx_pw_6mpi4py"),
            ("__pyx_f_9mpi4py", "__pyx_f_9mpi4py"),
            ("__pyx_module_is_main", "__pyx_module_is_main"),
            ("_Znonsense", "_Znonsense"),
            ("ghost cells", "ghost cells"),
        ] {
            assert_eq!(short(mangled), name);
        }
    }

    #[test]
    fn overloads_differ_in_their_parameters() {
        let names = Names::from_mangled(["_Z4copyPfS_i", "_Z4copyPdS_i", "_Z4normPd"]);
        assert_eq!(names.get("_Z4copyPfS_i"), "copy(float*, float*, int)");
        assert_eq!(names.get("_Z4copyPdS_i"), "copy(double*, double*, int)");
        assert_eq!(names.get("_Z4normPd"), "norm");
        assert_eq!(names.get("other"), "other");
    }
}
