//! Chooses the flavour for a program, by facts that were gathered before.

use crate::environment::Hint;
use crate::failure::Failure;
use crate::flavours::{Family, Flavour, numbers};
use crate::program::{Needed, ProgramKind};
use mpisee_collect::process::mapped_files::is_mpi;
use std::fmt;
use std::path::Path;

mod fit;

use fit::Misfit;

/// The facts that decide the choice.
pub struct Facts<'a> {
    /// The flavours there are.
    pub installed: &'a [Flavour],
    /// `--flavour`
    pub wanted: Option<&'a str>,
    /// The program's kind.
    pub kind: &'a ProgramKind,
    /// True if the dynamic loader ignores LD_PRELOAD for it.
    pub privileged: bool,
    /// True if it is itself what starts MPI programs.
    pub launcher: bool,
    /// The launcher that it calls, if it is a script that calls one.
    pub calls_launcher: Option<&'a str>,
    /// The MPI whose launcher started us.
    pub hint: Option<&'a Hint>,
    /// True if calls of NCCL are counted, with which a program need not have any MPI.
    pub counts_nccl: bool,
}

/// Why a program runs without being profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not one flavour is installed.
    NoneInstalled,
    /// The dynamic loader has no part in it.
    Static,
    /// Its C library is musl, and the profiler's is glibc.
    Musl,
    /// The profiler is for another kind of machine.
    Foreign,
    /// It runs with other rights.
    Privileged,
    /// It starts the program that is meant, perhaps on other machines.
    Launcher,
    /// It is a script that calls what starts MPI programs.
    CallsLauncher {
        /// As the script has it.
        launcher: String,
    },
    /// It needs an MPI library that no flavour is for.
    NoFlavourFor {
        /// The library's name.
        soname: String,
    },
    /// It is started by an MPI that no flavour is for.
    NoFlavourOf {
        /// The variable that shows it.
        variable: &'static str,
        /// The MPI.
        family: Family,
    },
    /// It does not show which MPI it may load.
    Undecided {
        /// Why it does not, as in "the program is a script".
        why: String,
    },
}

/// Chooses the flavour; an error if the user wants one that there is not.
pub fn choose<'a>(facts: &Facts<'a>) -> Result<Result<&'a Flavour, Reason>, Failure> {
    let wanted = facts.wanted.map(|name| by_name(facts.installed, name)).transpose()?;
    let program = match facts.kind {
        ProgramKind::Static => Some(Reason::Static),
        ProgramKind::Musl => Some(Reason::Musl),
        ProgramKind::Foreign => Some(Reason::Foreign),
        _ if facts.privileged => Some(Reason::Privileged),
        _ if facts.installed.is_empty() => Some(Reason::NoneInstalled),
        _ => None,
    };
    Ok(match (program, wanted) {
        (Some(reason), _) => Err(reason),
        (None, Some(flavour)) => Ok(flavour),
        (None, None) => fitting(facts),
    })
}

fn by_name<'a>(installed: &'a [Flavour], name: &str) -> Result<&'a Flavour, Failure> {
    installed.iter().find(|flavour| flavour.name == name).ok_or_else(|| Failure::UnknownFlavour {
        wanted: name.to_owned(),
        installed: installed.iter().map(|flavour| flavour.name.clone()).collect(),
    })
}

/// The libraries of the program decide, then the launcher that started it, then whether only one
/// flavour is installed.
fn fitting<'a>(facts: &Facts<'a>) -> Result<&'a Flavour, Reason> {
    if facts.launcher {
        return Err(Reason::Launcher);
    }
    let needed = if let ProgramKind::Dynamic(needed) = facts.kind { needed.as_slice() } else { &[] };
    if let Some(flavour) = needed.iter().find_map(|library| for_library(facts.installed, library)) {
        return Ok(flavour);
    }
    if let Some(mpi) = needed.iter().find(|library| is_mpi(&library.soname)) {
        return Err(Reason::NoFlavourFor { soname: mpi.soname.clone() });
    }
    match (facts.hint, facts.installed) {
        (Some(hint), installed) => flavour_of_launcher(installed, hint)
            .or_else(|| installed.first().filter(|_| facts.counts_nccl))
            .ok_or(Reason::NoFlavourOf { variable: hint.variable, family: hint.family }),
        (None, [only]) => Ok(only),
        // A program of NCCL need not have any MPI, and without one all are alike.
        (None, [first, ..]) if facts.counts_nccl && facts.calls_launcher.is_none() => Ok(first),
        (None, _) => Err(match facts.calls_launcher {
            Some(launcher) => Reason::CallsLauncher { launcher: launcher.to_owned() },
            None => Reason::Undecided { why: undecided(facts.kind) },
        }),
    }
}

/// The flavour for a library: the one built for this very file, else the one whose functions fit
/// best, else the nearest version.
fn for_library<'a>(installed: &'a [Flavour], library: &Needed) -> Option<&'a Flavour> {
    let candidates: Vec<_> = installed.iter().filter(|it| it.has_interface(&library.soname)).collect();
    let file =
        library.path.as_ref().map(|path| path.canonicalize().unwrap_or(path.clone())).unwrap_or_default();
    if let Some(own) = candidates.iter().find(|flavour| flavour.library == file) {
        return Some(own);
    }
    let version = file_version(&file);
    let misfits = Misfit::compare(&candidates, &file);
    let best = candidates.into_iter().zip(misfits).min_by_key(|(flavour, misfit)| {
        let distance = distance(&version, &file_version(&flavour.library));
        (*misfit, distance, flavour.soname != library.soname)
    });
    best.map(|(flavour, _)| flavour)
}

/// 40, 30, 4 of `libmpi.so.40.30.4`.
fn file_version(library: &Path) -> Vec<u32> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    name.split_once(".so.").map(|(_, version)| numbers(version)).unwrap_or_default()
}

/// How far a flavour's version is from one that is wanted, as far as both are known. Newer versions
/// come last: they have functions that the wanted one lacks.
fn distance(wanted: &[u32], own: &[u32]) -> (bool, Vec<u32>) {
    let minor = wanted.len().min(own.len()).min(2);
    (own[..minor] > wanted[..minor], wanted.iter().zip(own).map(|(a, b)| a.abs_diff(*b)).collect())
}

/// The flavour for what a launcher starts: of its family, and of the MPI that the launcher's
/// programs lie beside, else for the library there, else as near to it in product and version as
/// there is; the oldest where the launcher does not say.
pub fn flavour_of_launcher<'a>(installed: &'a [Flavour], hint: &Hint) -> Option<&'a Flavour> {
    let of_family = || installed.iter().filter(|flavour| flavour.family == hint.family);
    let beside = of_family().find(|flavour| flavour.is_of_folder(&hint.folders));
    let for_library = || for_library(installed, &library_of_launcher(installed, hint)?);
    beside.or_else(for_library).or_else(|| {
        of_family().min_by_key(|flavour| {
            let version = flavour.version();
            let other_product = match hint.product {
                Some(product) => flavour.product() != product,
                None => flavour.product() == "intelmpi",
            };
            (other_product, distance(&hint.version, &version), version)
        })
    })
}

/// The library of the MPI whose launcher this is, under a name that a flavour has.
fn library_of_launcher(installed: &[Flavour], hint: &Hint) -> Option<Needed> {
    let of_family = installed.iter().filter(|flavour| flavour.family == hint.family);
    let names: Vec<&str> = of_family.flat_map(|flavour| flavour.sonames()).collect();
    let path = hint.library(&names)?;
    Some(Needed { soname: path.file_name()?.to_string_lossy().into_owned(), path: Some(path) })
}

/// A sentence for a chosen flavour that is for another version of the MPI, if it counts less for
/// it.
pub fn note(facts: &Facts, chosen: &Flavour) -> Option<String> {
    let needed = if let ProgramKind::Dynamic(needed) = facts.kind { needed.as_slice() } else { &[] };
    let linked = needed.iter().find(|library| chosen.has_interface(&library.soname)).cloned();
    let hint = facts.hint.filter(|hint| hint.family == chosen.family);
    let library = linked.or_else(|| library_of_launcher(facts.installed, hint?))?.path?;
    let library = library.canonicalize().unwrap_or(library);
    if facts.wanted.is_some() || chosen.library == library {
        return None;
    }
    let others =
        facts.installed.iter().filter(|flavour| flavour.family == chosen.family && *flavour != chosen);
    let flavours: Vec<_> = std::iter::once(chosen).chain(others).collect();
    let misfit = Misfit::compare(&flavours, &library).swap_remove(0);
    let mut effects = Vec::new();
    if misfit.uncounted > 0 {
        effects.push(format!("does not count {} functions of this MPI", misfit.uncounted));
    }
    if misfit.missing > 0 {
        effects.push(format!("has {} functions that this MPI lacks", misfit.missing));
    }
    let name = &chosen.name;
    (!effects.is_empty()).then(|| {
        format!(
            "{} is another version than {name}, the nearest flavour. {name} {}",
            library.display(),
            effects.join(" and ")
        )
    })
}

/// Returns whether the program is linked with an MPI library.
pub fn needs_mpi(kind: &ProgramKind) -> bool {
    matches!(kind, ProgramKind::Dynamic(needed) if needed.iter().any(|library| is_mpi(&library.soname)))
}

/// Why a program does not show which MPI it may load.
fn undecided(kind: &ProgramKind) -> String {
    let why = match kind {
        ProgramKind::Unlisted(why) => {
            return format!(
                "has libraries that cannot be listed, since its dynamic loader does not start: {why}"
            );
        }
        ProgramKind::Script => "is a script",
        ProgramKind::Loader => "is a dynamic loader",
        ProgramKind::Unreadable => "cannot be read",
        ProgramKind::Dynamic(_) | ProgramKind::Static | ProgramKind::Musl | ProgramKind::Foreign => {
            "is not linked with MPI"
        }
    };
    why.to_owned()
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH or a descendant of it",
            Family::Standard => "an MPI with the standard's binary interface",
        })
    }
}

/// A sentence about a program that runs unprofiled: what was seen, and what to do.
pub struct Message<'a> {
    /// The program as the user gave it.
    pub program: &'a std::ffi::OsStr,
    /// Why.
    pub reason: &'a Reason,
    /// The flavours that there are.
    pub installed: &'a [Flavour],
    /// Their folder.
    pub folder: &'a Path,
}

impl Message<'_> {
    /// The cause.
    pub fn finding(&self) -> String {
        let program = self.program.display();
        let names = self.names();
        match self.reason {
            Reason::NoneInstalled => {
                format!("no flavour is installed in {}, so {program} runs unprofiled", self.folder.display())
            }
            Reason::Static => format!(
                "{program} is linked statically, so nothing can be preloaded into it and it runs unprofiled"
            ),
            Reason::Musl => {
                format!("{program} uses the C library musl, and mpisee needs glibc, so it runs unprofiled")
            }
            Reason::Foreign => format!(
                "{program} is not a 64-bit {} program as mpisee is, so it runs unprofiled",
                std::env::consts::ARCH
            ),
            Reason::Privileged => format!(
                "{program} runs with other rights (set-user-ID, set-group-ID or file capabilities). The \
                 system ignores LD_PRELOAD, so the program runs unprofiled"
            ),
            Reason::Launcher => {
                format!("{program} starts MPI programs and is none, so it runs unprofiled")
            }
            Reason::CallsLauncher { launcher } => {
                format!("{program} is a script that calls {launcher}, so it runs unprofiled")
            }
            Reason::NoFlavourFor { soname } => format!(
                "{program} needs {soname}, for which no flavour is installed (there are {names}), so it runs \
                 unprofiled"
            ),
            Reason::NoFlavourOf { variable, family } => format!(
                "{program} is started by {family} ({variable} is set), for which no flavour is installed \
                 (there are {names}). The program runs unprofiled"
            ),
            Reason::Undecided { why } => {
                format!("{program} {why}, and nothing shows which MPI started it, so it runs unprofiled")
            }
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> String {
        let program = self.program.display();
        match self.reason {
            Reason::NoneInstalled => "`cargo xtask dist` makes an installation".to_owned(),
            Reason::Static => "Link the program dynamically".to_owned(),
            Reason::Musl => "Build the program and its MPI for glibc".to_owned(),
            Reason::Foreign => "Build both for the same 64-bit processor".to_owned(),
            Reason::Privileged => "Use a copy without these rights".to_owned(),
            Reason::Launcher => {
                format!("Put mpisee between {program} and the MPI program: {program} … mpisee PROGRAM")
            }
            Reason::CallsLauncher { launcher } => format!(
                "In the script, put mpisee between {launcher} and the MPI program: {launcher} … mpisee PROGRAM"
            ),
            Reason::NoFlavourFor { .. } | Reason::NoFlavourOf { .. } => {
                "Build one with that MPI's compiler wrapper: `cargo xtask dist --mpicc PATH`".to_owned()
            }
            Reason::Undecided { .. } => format!(
                "If the program uses MPI, choose the MPI with --flavour ({}). If the program uses NCCL, as \
                 PyTorch does, add --nccl on",
                self.names()
            ),
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.installed.iter().map(|flavour| flavour.name.as_str()).collect();
        names.join(", ")
    }
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}. {}", self.finding(), self.remedy())
    }
}

#[cfg(test)]
mod tests;
