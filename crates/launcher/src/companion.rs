//! Programs that are installed once per MPI, beside the profiler: the one for the MPI that started
//! this process.

use crate::choose::flavour_of_launcher;
use crate::environment;
use crate::flavours::{Flavour, Installation};
use std::path::PathBuf;

/// The program `name` of the flavour `wanted`, or of that for the launcher that started this
/// process; a sentence where there is none.
pub fn program_for_launcher(name: &str, wanted: Option<&str>) -> Result<PathBuf, String> {
    let installation = Installation::find();
    let flavour = flavour_for_launcher(&installation, wanted)?;
    let program = installation.folder.join(&flavour.name).join(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(format!(
        "there is no {name} for {} in {}; `cargo xtask dist` builds one for each MPI whose header it can \
         read",
        flavour.name,
        installation.folder.display()
    ))
}

/// The flavour `wanted`, or that for the launcher that started this process; a sentence where there
/// is none.
pub fn flavour_for_launcher<'i>(
    installation: &'i Installation,
    wanted: Option<&str>,
) -> Result<&'i Flavour, String> {
    flavour(installation, wanted, environment::launcher().as_ref())
}

/// Returns whether the launcher of an MPI started this process.
pub fn is_started_by_launcher() -> bool {
    environment::launcher().is_some()
}

fn flavour<'i>(
    installation: &'i Installation,
    wanted: Option<&str>,
    hint: Option<&environment::Hint>,
) -> Result<&'i Flavour, String> {
    let names: Vec<&str> = installation.flavours.iter().map(|flavour| flavour.name.as_str()).collect();
    let names = names.join(", ");
    if installation.flavours.is_empty() {
        return Err(format!(
            "no flavour is installed in {}; `cargo xtask dist` makes an installation",
            installation.folder.display()
        ));
    }
    if let Some(wanted) = wanted {
        let found = installation.flavours.iter().find(|flavour| flavour.name == wanted);
        return found.ok_or_else(|| format!("there is no flavour {wanted}: installed are {names}"));
    }
    match (hint, &installation.flavours[..]) {
        (Some(hint), installed) => flavour_of_launcher(installed, hint).ok_or_else(|| {
            format!(
                "{} is set, so this is started by {}, for which no flavour is installed (there are {names}). \
                 Build one with that MPI's compiler wrapper: `cargo xtask dist --mpicc PATH`",
                hint.variable, hint.family
            )
        }),
        (None, [only]) => Ok(only),
        (None, _) => Err(format!(
            "nothing shows which MPI is to be used; start it with mpirun, or say which with --flavour ({names})"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Hint;
    use crate::flavours::Family;

    fn installation(names: &[(&str, Family)]) -> Installation {
        let flavour = |&(name, family): &(&str, Family)| Flavour {
            name: name.to_owned(),
            family,
            soname: String::new(),
            library: PathBuf::new(),
            mpicc: PathBuf::new(),
            library_version: String::new(),
            profiler: PathBuf::new(),
        };
        let flavours = names.iter().map(flavour).collect();
        Installation { folder: "/there".into(), flavours, complaints: Vec::new() }
    }

    #[test]
    fn the_launcher_decides_unless_the_flavour_is_named() {
        let both = installation(&[("mpich-4.0", Family::Mpich), ("openmpi-4.1", Family::OpenMpi)]);
        let hint = Hint {
            family: Family::OpenMpi,
            product: Some("openmpi"),
            version: vec![4],
            variable: "X",
            folders: Vec::new(),
        };
        let name = |wanted, hint| flavour(&both, wanted, hint).map(|flavour| flavour.name.as_str());
        assert_eq!(name(None, Some(&hint)), Ok("openmpi-4.1"));
        assert_eq!(name(Some("mpich-4.0"), Some(&hint)), Ok("mpich-4.0"));
        assert!(name(Some("mpich-5.0"), None).unwrap_err().contains("installed are mpich-4.0, openmpi-4.1"));
        assert!(name(None, None).unwrap_err().contains("start it with mpirun, or say which with --flavour"));
        let mpich = installation(&[("mpich-4.0", Family::Mpich)]);
        assert!(flavour(&mpich, None, Some(&hint)).unwrap_err().contains("X is set"));
        assert_eq!(flavour(&mpich, None, None).unwrap().name, "mpich-4.0");
        assert!(flavour(&installation(&[]), None, None).is_err());
    }
}
