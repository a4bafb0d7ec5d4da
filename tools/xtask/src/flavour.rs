//! A flavour: mpisee built for one MPI library, described by the `flavour.json` that lies beside
//! it.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The binary interfaces that MPI libraries have: what handles are, and how a status is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Handles are pointers.
    OpenMpi,
    /// Handles are integers: MPICH and what descends from it.
    Mpich,
    /// The MPI standard's own, of MPI 5.0: handles are as wide as pointers, constants are fixed.
    Standard,
}

/// The contents of `flavour.json`, read by the build script of the library and by the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flavour {
    /// `openmpi-4.1`: the implementation and as much of its version as distinguishes it from the
    /// others.
    pub name: String,
    /// The binary interface.
    pub family: Family,
    /// Library that a program needs if it needs this MPI: `libmpi.so.40`.
    pub soname: String,
    /// The library file itself.
    pub library: PathBuf,
    /// The first line of `MPI_Get_library_version`, unaltered: the running MPI is compared with it.
    pub library_version: String,
    /// The compiler wrapper that led here.
    pub mpicc: PathBuf,
    /// The MPI functions that the library has and that a profiler can stand in for, sorted.
    pub functions: Vec<String>,
}

/// Name of flavours of the standard's own interface.
const STANDARD: &str = "mpiabi";

/// Implementation and version, short enough for a folder's name.
pub struct Identity {
    product: &'static str,
    version: String,
}

impl Identity {
    /// Reads the implementation and its version from the first line of `MPI_Get_library_version`.
    pub fn from_version(library_version: &str) -> Result<Self> {
        const PRODUCTS: [(&str, &str); 5] = [
            ("open mpi", "openmpi"),
            ("intel(r) mpi", "intelmpi"),
            ("mvapich", "mvapich"),
            ("cray mpich", "craympich"),
            ("mpich", "mpich"),
        ];
        let text = library_version.to_lowercase();
        let Some(&(_, product)) = PRODUCTS.iter().find(|(mark, _)| text.contains(mark)) else {
            bail!("'{library_version}' is no MPI that mpisee supports (Open MPI, MPICH and its descendants)");
        };
        let version = text
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .map(|word| word.trim_matches('.'))
            .find(|word| word.contains('.'))
            .with_context(|| format!("no version in '{library_version}'"))?;
        Ok(Identity { product, version: version.to_owned() })
    }

    /// The standard's own binary interface in that version, whichever implementation has it.
    pub fn of_standard(version: &str) -> Self {
        Identity { product: STANDARD, version: version.to_owned() }
    }

    /// The binary interface that the implementation has.
    pub fn family(&self) -> Family {
        match self.product {
            STANDARD => Family::Standard,
            "openmpi" => Family::OpenMpi,
            _ => Family::Mpich,
        }
    }

    fn name(&self, parts: usize) -> String {
        let version: Vec<_> = self.version.split('.').take(parts).collect();
        format!("{}-{}", self.product, version.join("."))
    }
}

/// Names each of several MPIs: by major and minor version, by the whole version where that is not
/// enough, and with a number where two installations have the same version.
pub fn names(identities: &[Identity]) -> Vec<String> {
    let count = |parts| {
        let mut seen: HashMap<String, usize> = HashMap::new();
        identities.iter().for_each(|identity| *seen.entry(identity.name(parts)).or_default() += 1);
        seen
    };
    let (short, whole) = (count(2), count(usize::MAX));
    let mut used: HashMap<String, usize> = HashMap::new();
    identities
        .iter()
        .map(|identity| {
            if short[&identity.name(2)] == 1 {
                return identity.name(2);
            }
            let name = identity.name(usize::MAX);
            let nth = used.entry(name.clone()).or_default();
            *nth += 1;
            if whole[&name] > 1 { format!("{name}-{nth}") } else { name }
        })
        .collect()
}

impl Flavour {
    /// Reads a description.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a flavour", path.display()))
    }

    /// Writes the description.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

impl std::fmt::Display for Flavour {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let version = self.library_version.split(',').next().unwrap_or_default();
        let version: Vec<_> = version.split_whitespace().collect();
        let (name, version, functions) = (&self.name, version.join(" "), self.functions.len());
        let (soname, mpicc) = (&self.soname, self.mpicc.display());
        write!(f, "{name} ({version}, {soname}, {functions} functions, {mpicc})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(texts: &[&str]) -> Vec<String> {
        names(&texts.iter().map(|text| Identity::from_version(text).unwrap()).collect::<Vec<_>>())
    }

    const DEBIAN: &str = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4";

    #[test]
    fn a_flavour_is_named_after_product_and_minor_version() {
        let mvapich = "MVAPICH2 Version      :\t2.3.7";
        let intel = "Intel(R) MPI Library 2021.19 for Linux* OS";
        assert_eq!(
            named(&[DEBIAN, "MPICH Version:      4.0.2", mvapich, intel]),
            ["openmpi-4.1", "mpich-4.0", "mvapich-2.3", "intelmpi-2021.19"]
        );
    }

    #[test]
    fn two_of_one_minor_version_get_names_of_their_own() {
        assert_eq!(named(&[DEBIAN, "Open MPI v4.1.6, x"]), ["openmpi-4.1.4", "openmpi-4.1.6"]);
        assert_eq!(named(&[DEBIAN, DEBIAN]), ["openmpi-4.1.4-1", "openmpi-4.1.4-2"]);
    }

    #[test]
    fn the_standards_interface_has_one_name_for_all_implementations() {
        let standard = Identity::of_standard("1.0");
        assert_eq!(standard.family(), Family::Standard);
        assert_eq!(
            names(&[standard, Identity::from_version("MPICH Version: 5.0.2").unwrap()]),
            ["mpiabi-1.0", "mpich-5.0"]
        );
    }

    #[test]
    fn descendants_of_mpich_have_its_interface() {
        assert_eq!(Identity::from_version(DEBIAN).unwrap().family(), Family::OpenMpi);
        assert_eq!(
            Identity::from_version("Intel(R) MPI Library 2021.19 for Linux* OS").unwrap().family(),
            Family::Mpich
        );
        assert!(Identity::from_version("Some MPI 1.0").is_err());
    }
}
