//! How well flavours fit an MPI library, by the functions of both.
//!
//! The names of files tell less: Intel MPI and Cray's MPICH keep one number for all versions, and
//! packages of Python's index leave the version out.

use crate::flavours::Flavour;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache};
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

/// The misfit of a flavour and a library; the least is the best. A function that the library lacks
/// weighs more than any number of uncounted ones: a program that tests for it would call it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misfit {
    /// Functions that the flavour exports and the library lacks.
    pub missing: usize,
    /// Functions of the library that another flavour counts, and this one does not.
    pub uncounted: usize,
}

impl Misfit {
    /// Compares each flavour with a library. There is none where a file cannot be read.
    pub fn compare(flavours: &[&Flavour], library: &Path) -> Vec<Misfit> {
        let of_mpi = functions(library).unwrap_or_default();
        let counted: Vec<_> =
            flavours.iter().map(|flavour| functions(&flavour.profiler).unwrap_or_default()).collect();
        let countable: HashSet<&String> =
            counted.iter().flatten().filter(|it| of_mpi.contains(*it)).collect();
        let misfit = |own: &HashSet<String>| match of_mpi.is_empty() || own.is_empty() {
            true => Misfit::default(),
            false => Misfit {
                missing: own.difference(&of_mpi).count(),
                uncounted: countable.iter().filter(|name| !own.contains(**name)).count(),
            },
        };
        counted.iter().map(misfit).collect()
    }
}

/// The functions of MPI that a library exports, without extensions.
fn functions(library: &Path) -> Option<HashSet<String>> {
    let data = ReadCache::new(File::open(library).ok()?);
    let file = ElfFile64::<Endianness, _>::parse(&data).ok()?;
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    Some(names.filter(|name| name.starts_with("MPI_")).collect())
}
