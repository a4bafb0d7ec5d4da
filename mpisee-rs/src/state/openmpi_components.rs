//! Plugins of Open MPI that are not loaded: a component that was not selected is closed, and the
//! code and the data behind its variables are gone. Open MPI offers some of these variables all the
//! same, and crashes when they are read.

use crate::binaries::objects;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The components that have a file, by the names that begin those of their variables: `coll_tuned`.
#[derive(Debug, Default)]
pub struct Components {
    loaded: BTreeSet<String>,
    not_loaded: BTreeSet<String>,
}

impl Components {
    /// As they are now; `None` if it cannot be known which files are loaded. An MPI without plugins
    /// has none.
    pub fn now() -> Option<Components> {
        let files = objects::file_names()?;
        let files: Vec<&Path> = files.iter().map(|file| Path::new(file.as_os_str())).collect();
        let loaded: BTreeSet<String> = files.iter().filter_map(|file| component(file)).collect();
        let is_plugin = |file: &&&Path| name_of(file).starts_with(PLUGIN);
        let plugins: BTreeSet<&Path> =
            files.iter().filter(is_plugin).filter_map(|file| file.parent()).collect();
        // Libraries that several plugins share lie beside their folder.
        let folders = plugins.iter().flat_map(|folder| [Some(*folder), folder.parent()]).flatten();
        let there = folders.flat_map(files_in).filter_map(|file| component(&file));
        let not_loaded = there.filter(|name| !loaded.contains(name)).collect();
        let components = Components { not_loaded, loaded };
        let may_use_all = std::env::var("OMPI_MCA_pml").map_or(true, |list| has_cm(&list));
        Some(if may_use_all { components } else { components.without("mtl_") })
    }

    /// Takes those whose names begin so for not loaded: a component that MPI is set not to use is
    /// loaded, but neither set up nor closed, and Open MPI's `mtl_psm2` crashes when its variables
    /// are read then.
    fn without(self, begin: &str) -> Components {
        let (left_out, loaded) = self.loaded.into_iter().partition(|name| name.starts_with(begin));
        Components {
            loaded,
            not_loaded: self.not_loaded.into_iter().chain::<BTreeSet<_>>(left_out).collect(),
        }
    }

    /// Returns whether a variable is of a component that is not loaded.
    pub fn are_without(&self, variable: &str) -> bool {
        let length = |names| longest(names, variable).map(str::len);
        length(&self.not_loaded) > length(&self.loaded)
    }

    /// The component of a variable, loaded or not; `None` of what is not in a plugin.
    pub fn component(&self, variable: &str) -> Option<&str> {
        let names = [&self.loaded, &self.not_loaded];
        names.into_iter().filter_map(|names| longest(names, variable)).max_by_key(|name| name.len())
    }
}

/// Returns whether a list of Open MPI's has `cm`, which passes messages to components `mtl`.
fn has_cm(list: &str) -> bool {
    let (names, is_without) = list.strip_prefix('^').map_or((list, false), |names| (names, true));
    names.split(',').any(|name| name == "cm") != is_without
}

/// The longest of the names that begins a variable's: `fcoll_dynamic` is a component, and
/// `fcoll_dynamic_gen2` another.
fn longest<'n>(names: &'n BTreeSet<String>, variable: &str) -> Option<&'n str> {
    let is_of = |name: &&str| variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    names.iter().map(String::as_str).filter(is_of).max_by_key(|name| name.len())
}

const PLUGIN: &str = "mca_";
const SHARED: &str = "libmca_";

fn name_of(file: &Path) -> &str {
    file.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The component in a file, as its variables begin: `coll_tuned` of `mca_coll_tuned.so`,
/// `opal_common_ucx` of `libmca_common_ucx.so.40`. None of other files.
fn component(file: &Path) -> Option<String> {
    let (name, ending) = name_of(file).split_once('.')?;
    let is_library = ending == "so" || ending.starts_with("so.");
    match name.strip_prefix(PLUGIN) {
        Some(plugin) => Some(plugin.to_owned()),
        None => name.strip_prefix(SHARED).map(|shared| format!("opal_{shared}")),
    }
    .filter(|_| is_library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_of_the_longest_component_that_begins_them() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let components = Components {
            loaded: names(&["coll_tuned", "fcoll_dynamic_gen2"]),
            not_loaded: names(&["coll_monitoring", "fcoll_dynamic", "opal_common_ucx"]),
        };
        for (variable, expected) in [
            ("coll_tuned_bcast_algorithm", false),
            ("coll_monitoring_messages_count", true),
            ("fcoll_dynamic_priority", true),
            ("fcoll_dynamic_gen2_priority", false),
            ("opal_common_ucx_tls", true),
            ("coll_base_verbose", false),
            ("coll_monitoringx", false),
            ("MPIR_CVAR_BCAST_INTRA_ALGORITHM", false),
        ] {
            assert_eq!(components.are_without(variable), expected, "{variable}");
        }
        assert_eq!(components.component("fcoll_dynamic_gen2_priority"), Some("fcoll_dynamic_gen2"));
        assert_eq!(components.component("coll_monitoring_messages_count"), Some("coll_monitoring"));
        assert_eq!(components.component("coll_base_verbose"), None);
    }

    #[test]
    fn components_that_mpi_is_set_not_to_use_are_taken_for_not_loaded() {
        let lists = [("ob1", false), ("cm", true), ("ob1,cm", true), ("^cm", false), ("^ucx,ob1", true)];
        for (list, expected) in lists {
            assert_eq!(has_cm(list), expected, "{list}");
        }
        let loaded = ["mtl_psm2", "coll_tuned"].map(str::to_owned).into();
        let components = Components { loaded, not_loaded: BTreeSet::new() }.without("mtl_");
        assert!(components.are_without("mtl_psm2_mq_stats"), "{components:?}");
        assert!(!components.are_without("coll_tuned_bcast_algorithm"), "{components:?}");
    }

    #[test]
    fn files_are_of_components_by_their_names() {
        for (file, expected) in [
            ("/usr/lib/openmpi/mca_coll_tuned.so", Some("coll_tuned")),
            ("/usr/lib/libmca_common_ucx.so.40.30.3", Some("opal_common_ucx")),
            ("/usr/lib/openmpi/mca_coll_tuned.la", None),
            ("/usr/lib/libmpi.so.40", None),
            ("", None),
        ] {
            assert_eq!(component(Path::new(file)).as_deref(), expected, "{file}");
        }
    }

    #[test]
    fn an_mpi_without_plugins_has_no_components() {
        let components = Components::now().expect("objects can be listed");
        assert!(!components.are_without("coll_tuned_bcast_algorithm"), "{components:?}");
    }
}
