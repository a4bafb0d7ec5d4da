//! Finds the MPI whose launcher started this process, by its environment and the processes above
//! it.

use crate::flavours::{Family, numbers};
use std::path::{Path, PathBuf};

/// The variables by which a launcher of MPICH's family, or one that speaks its protocol, is known.
const MPICH: [&str; 3] = ["PMI_RANK", "HYDI_CONTROL_FD", "MPI_LOCALRANKID"];

/// The MPI whose launcher started this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The binary interface.
    pub family: Family,
    /// The implementation, where the environment distinguishes it from others of the family.
    pub product: Option<&'static str>,
    /// The version, or its beginning; empty if the environment does not say.
    pub version: Vec<u32>,
    /// The variable that says so.
    pub variable: &'static str,
    /// The folders of the launcher's programs that run above this process, and of the program.
    pub folders: Vec<PathBuf>,
}

impl Hint {
    /// The MPI's library of one of these names: beside the launcher's programs, else in the folders
    /// of LD_LIBRARY_PATH.
    pub fn library(&self, names: &[&str]) -> Option<PathBuf> {
        let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        let prefixes = self.folders.iter().filter_map(|folder| folder.parent());
        let beside = prefixes.flat_map(|prefix| ["lib", "lib64", &multiarch].map(|it| prefix.join(it)));
        let searched = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = beside.chain(std::env::split_paths(&searched).filter(|it| it.is_absolute()));
        folders.flat_map(|folder| names.iter().map(move |name| folder.join(name))).find(|path| path.is_file())
    }
}

/// The launcher that started this process, by its environment and by the processes above it.
pub fn launcher() -> Option<Hint> {
    let hint = hint(|name| std::env::var(name).ok())?;
    let programs = ancestors().into_iter().filter(|program| is_of_launcher(program));
    let folders = programs.filter_map(|program| Some(program.parent()?.to_owned())).collect();
    Some(Hint { folders, ..hint })
}

/// The programs of the processes above this one that may be looked at, the nearest first.
fn ancestors() -> Vec<PathBuf> {
    /// More than scripts and debuggers between a launcher and a rank.
    const MOST: usize = 16;
    let parent = |stat: &str| {
        // The name before, in parentheses, may hold anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let mut programs = Vec::new();
    let mut process = "self".to_owned();
    for _ in 0..MOST {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let Some(above @ 1..) = parent(&stat) else { break };
        process = above.to_string();
        programs.extend(std::fs::read_link(format!("/proc/{process}/exe")));
    }
    programs
}

/// Returns whether a program is a part of an MPI's launcher. Those of a batch system serve every
/// MPI, and lie beside none.
fn is_of_launcher(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('.').next().unwrap_or_default();
    const NAMES: [&str; 6] = ["mpirun", "mpiexec", "orterun", "orted", "prterun", "prted"];
    NAMES.contains(&name) || name.starts_with("hydra_")
}

/// Finds out by variables which MPI's launcher this is. `None` if none has left a mark, or two
/// have.
fn hint(variable: impl Fn(&str) -> Option<String>) -> Option<Hint> {
    let is_set = |name: &&str| variable(name).is_some();
    let open_mpi = ["OMPI_COMM_WORLD_SIZE"].into_iter().find(is_set);
    match (open_mpi, MPICH.into_iter().find(is_set)) {
        (Some(name), None) => {
            // Open MPI 5 states its version; the runtime of its predecessors had settings of its
            // own.
            let version = match variable("OMPI_VERSION") {
                Some(version) => numbers(version.trim_start_matches('v')),
                None if is_set(&"OMPI_MCA_orte_launch") => vec![4],
                None => Vec::new(),
            };
            Some(Hint {
                family: Family::OpenMpi,
                product: Some("openmpi"),
                version,
                variable: name,
                folders: Vec::new(),
            })
        }
        (None, Some(name)) => {
            let product = is_set(&"I_MPI_HYDRA_UUID").then_some("intelmpi");
            Some(Hint {
                family: Family::Mpich,
                product,
                version: Vec::new(),
                variable: name,
                folders: Vec::new(),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |wanted| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn open_mpi_is_distinguished_from_its_predecessor() {
        let four =
            hint(environment(&[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_MCA_orte_launch", "1")])).unwrap();
        assert_eq!((four.family, four.version), (Family::OpenMpi, vec![4]));
        let five = hint(environment(&[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_VERSION", "5.0.11")])).unwrap();
        assert_eq!((five.family, five.version), (Family::OpenMpi, vec![5, 0, 11]));
    }

    #[test]
    fn intel_mpi_is_distinguished_from_mpich() {
        let mpich = hint(environment(&[("PMI_RANK", "1"), ("HYDI_CONTROL_FD", "7")])).unwrap();
        assert_eq!((mpich.family, mpich.product), (Family::Mpich, None));
        let intel = hint(environment(&[("PMI_RANK", "1"), ("I_MPI_HYDRA_UUID", "d131")])).unwrap();
        assert_eq!((intel.family, intel.product), (Family::Mpich, Some("intelmpi")));
    }

    #[test]
    fn programs_above_this_one_are_seen_and_launchers_among_them_known() {
        let parent = format!("/proc/{}/exe", std::os::unix::process::parent_id());
        assert_eq!(ancestors().first(), std::fs::read_link(parent).ok().as_ref());
        let known = |name: &str| is_of_launcher(&Path::new("/usr/bin").join(name));
        assert!(["hydra_pmi_proxy", "mpiexec.hydra", "orterun", "prted"].into_iter().all(known));
        assert!(!["bash", "slurmstepd", "mpisee", "mpirun-of-mine"].into_iter().any(known));
    }

    #[test]
    fn no_launcher_and_two_launchers_leave_the_mpi_undecided() {
        assert_eq!(hint(environment(&[("OMPI_VERSION", "5.0.11"), ("PMIX_RANK", "0")])), None);
        assert_eq!(hint(environment(&[("OMPI_COMM_WORLD_SIZE", "2"), ("PMI_RANK", "0")])), None);
    }
}
