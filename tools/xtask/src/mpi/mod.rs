//! The MPI installations of the machine, found through their compiler wrappers.

use crate::flavour::{Family, Flavour, Identity, names};
use anyhow::{Context, Result, bail};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind, elf};
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Describes every MPI that `wrappers` lead to, or if there are none, those in `PATH`.
pub fn find(wrappers: &[PathBuf]) -> Result<Vec<Flavour>> {
    let searching = wrappers.is_empty();
    let wrappers = if searching { in_path() } else { wrappers.to_vec() };
    let mut found: Vec<(Identity, Flavour)> = Vec::new();
    for wrapper in wrappers {
        match probe(&wrapper) {
            Ok(new) if found.iter().any(|(_, known)| known.library == new.1.library) => {}
            Ok(new) => found.push(new),
            // Whatever else is called mpicc-something need not be an MPI for us.
            Err(why) if searching => eprintln!("leaving out {}: {why:#}", wrapper.display()),
            Err(why) => return Err(why.context(format!("--mpicc {}", wrapper.display()))),
        }
    }
    if found.is_empty() {
        bail!(
            "there is no MPI to build for: install one with its compiler wrapper (on Debian libopenmpi-dev and \
             openmpi-bin, or libmpich-dev and mpich), or name the wrapper with --mpicc"
        );
    }
    let (identities, mut flavours): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    for (flavour, name) in flavours.iter_mut().zip(names(&identities)) {
        flavour.name = name;
    }
    Ok(flavours)
}

/// The executables in `PATH` that are called like a C compiler wrapper. A plain `mpicc` is often a
/// link that can change, so wrappers with a longer name come first.
fn in_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = HashSet::new();
    let mut wrappers = Vec::new();
    for folder in std::env::split_paths(&path).filter_map(|folder| folder.canonicalize().ok()) {
        if !folders.insert(folder.clone()) {
            continue;
        }
        let mut here: Vec<_> = folder
            .read_dir()
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_wrapper(path))
            .collect();
        here.sort();
        wrappers.extend(here);
    }
    wrappers.sort_by_key(|wrapper| wrapper.file_name().is_some_and(|name| name == "mpicc"));
    wrappers
}

fn is_wrapper(path: &Path) -> bool {
    let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("mpicc"));
    let named = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    named && path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// The path of a wrapper: as in a shell, a name without a folder is looked for in `folders`.
fn located(wrapper: &Path, folders: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf> {
    if wrapper.components().count() > 1 {
        return Ok(std::path::absolute(wrapper)?);
    }
    let there = folders.into_iter().map(|folder| folder.join(wrapper)).find(|path| path.is_file());
    there.with_context(|| format!("there is no {} in PATH", wrapper.display()))
}

/// Queries the wrapper, and the library that it links, for their identity. The flavour's name is
/// still to be given.
fn probe(wrapper: &Path) -> Result<(Identity, Flavour)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let wrapper = located(wrapper, std::env::split_paths(&path))?;
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("probe.c"), folder.path().join("probe"));
    std::fs::write(&source, include_str!("probe.c"))?;
    run(Command::new(&wrapper).arg(&source).arg("-o").arg(&program).arg("-ldl"))
        .context("it does not compile an MPI program")?;
    let output = run(&mut Command::new(&program)).context("the MPI program that it compiled does not run")?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = output.lines();
    let (Some(library), Some(interface), Some(library_version)) = (lines.next(), lines.next(), lines.next())
    else {
        bail!("the MPI program that it compiled did not say its version");
    };
    let identity = if interface.is_empty() {
        Identity::from_version(library_version)?
    } else {
        Identity::of_standard(interface)
    };
    let library = Path::new(library).canonicalize().with_context(|| format!("finding {library}"))?;
    let (soname, mut functions) =
        read_library(&library).with_context(|| format!("reading {}", library.display()))?;
    let family = identity.family();
    // Check that Fortran's INTEGER is as long as the library assumes; it writes statuses of them.
    let source = folder.path().join("fint.c");
    std::fs::write(&source, "#include <mpi.h>\nchar is_int[sizeof(MPI_Fint) == sizeof(int) ? 1 : -1];\n")?;
    if run(Command::new(&wrapper).arg("-c").arg(&source).arg("-o").arg(folder.path().join("fint.o"))).is_ok()
    {
        functions.extend(fortran_functions(&library, &soname, family));
    }
    functions.sort();
    functions.dedup();
    let flavour = Flavour {
        name: String::new(),
        family,
        soname,
        library,
        library_version: library_version.to_owned(),
        mpicc: wrapper,
        functions,
    };
    Ok((identity, flavour))
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", output.status, said.lines().next().unwrap_or("it says nothing"));
    }
    Ok(output)
}

/// The library's own name, and the functions that it exports under both their `MPI_` and `PMPI_`
/// names.
fn read_library(library: &Path) -> Result<(String, Vec<String>)> {
    let data = std::fs::read(library)?;
    let file = ElfFile64::<Endianness>::parse(&*data)?;
    let soname = dynamic_strings(&file, &data, elf::DT_SONAME)?.pop().context("it has no DT_SONAME")?;
    let exported = exported(&file);
    let functions: Vec<String> = exported
        .iter()
        .filter(|name| name.starts_with("MPI_") || name.starts_with("MPIX_"))
        .filter(|name| exported.contains(format!("P{name}").as_str()))
        .map(|&name| name.to_owned())
        .collect();
    Ok((soname, functions))
}

/// The names of the functions that a library exports.
fn exported<'d>(file: &ElfFile64<'d, Endianness>) -> HashSet<&'d str> {
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.filter(|it| it.kind() == SymbolKind::Text).filter_map(|symbol| symbol.name().ok()).collect()
}

/// Names of the libraries of MPI's Fortran interfaces; they lie beside that of C.
const FORTRAN_LIBRARIES: [&str; 4] =
    ["libmpi_mpifh.so", "libmpi_usempif08.so", "libmpichfort.so", "libmpifort.so"];

/// The Fortran functions for which a profiler is to stand in; none if the MPI comes without
/// Fortran.
fn fortran_functions(library: &Path, soname: &str, family: Family) -> Vec<String> {
    let mut functions = Vec::new();
    for entry in library.parent().into_iter().filter_map(|it| it.read_dir().ok()).flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if FORTRAN_LIBRARIES.iter().any(|known| name.starts_with(known))
            && let Ok(found) = read_fortran_library(&entry.path(), soname, family)
        {
            functions.extend(found);
        }
    }
    functions
}

fn read_fortran_library(library: &Path, soname: &str, family: Family) -> Result<Vec<String>> {
    let data = std::fs::read(library)?;
    let file = ElfFile64::<Endianness>::parse(&*data)?;
    if !dynamic_strings(&file, &data, elf::DT_NEEDED)?.iter().any(|needed| needed == soname) {
        bail!("it is another MPI's");
    }
    let exported = exported(&file);
    let stands_in = |name: &&&str| match (name.split('_').next(), family) {
        // It also has `mpi_send` and `MPI_SEND`, for compilers that add no underscore. These are
        // left to it: a program may have a function of its own with such a name in one of its
        // libraries, as Rmpi has, and would get ours.
        (Some("mpi" | "mpix"), Family::OpenMpi) => {
            name.ends_with('_') && exported.contains(format!("p{name}").as_str())
        }
        // All else ends in calls of C's `MPI_*` functions, and is seen there.
        (Some("mpi"), Family::Mpich) => {
            let is_f08 = name.ends_with("_f08_") || name.ends_with("_f08_large_");
            is_f08 && exported.contains(name.replacen("mpi_", "pmpir_", 1).as_str())
        }
        _ => false,
    };
    Ok(exported.iter().filter(stands_in).map(|&name| name.to_owned()).collect())
}

/// Checks that the profiler does not bring an MPI along: it is to use the one of the program, which
/// may be loaded late and privately (Python), or be another build of the same MPI.
pub fn check_independence(profiler: &Path) -> Result<()> {
    let data = std::fs::read(profiler).with_context(|| format!("reading {}", profiler.display()))?;
    let file = ElfFile64::<Endianness>::parse(&*data)?;
    let needed = dynamic_strings(&file, &data, elf::DT_NEEDED)?;
    match needed.iter().find(|needed| needed.starts_with("libmpi")) {
        Some(mpi) => bail!("{} is linked with {mpi}, but must look MPI up at run time", profiler.display()),
        None => Ok(()),
    }
}

/// The strings in the dynamic section under `tag`.
fn dynamic_strings(file: &ElfFile64<Endianness>, data: &[u8], tag: u32) -> Result<Vec<String>> {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, data)?;
    let Some((entries, strings)) = sections.dynamic(endian, data)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, data, strings)?;
    let tagged = entries.iter().filter(|entry| entry.tag32(endian) == Some(tag));
    tagged.map(|entry| Ok(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned())).collect()
}

#[cfg(test)]
mod tests;
