//! Chooses whether NCCL's functions are interposed: by a library of its own, for programs that need NCCL alone. A program may look for
//! NCCL by its symbols, and would find those of that library.

use crate::program::ProgramKind;
use mpisee_profile::options::Nccl;
use std::path::{Path, PathBuf};

/// The library, in a folder beside the flavours.
pub const LIBRARY: &str = "libmpisee_nccl.so";

/// Returns the library if it is to be preloaded; why it cannot be, as the end of a sentence.
pub fn library(folder: &Path, choice: Nccl, kind: &ProgramKind) -> Result<Option<PathBuf>, String> {
    if !is_wanted(choice, kind) {
        return Ok(None);
    }
    let library = folder.join("nccl").join(LIBRARY);
    match library.is_file() {
        true => Ok(Some(library)),
        false => Err(format!("there is no {}, which `cargo xtask dist` makes", library.display())),
    }
}

/// Returns whether calls of NCCL are to be counted.
pub fn is_wanted(choice: Nccl, kind: &ProgramKind) -> bool {
    match choice {
        Nccl::On => true,
        Nccl::Off => false,
        Nccl::Auto => needs_nccl(kind),
    }
}

/// Returns whether the program or one of its libraries is linked with NCCL or RCCL.
fn needs_nccl(kind: &ProgramKind) -> bool {
    let ProgramKind::Dynamic(needed) = kind else { return false };
    let is_one = |soname: &str| soname.starts_with("libnccl.so") || soname.starts_with("librccl.so");
    needed.iter().any(|library| is_one(&library.soname))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Needed;

    #[test]
    fn the_library_is_for_programs_that_need_nccl_or_by_option() {
        let folder = tempfile::tempdir().unwrap();
        let with =
            |soname: &str| ProgramKind::Dynamic(vec![Needed { soname: soname.to_owned(), path: None }]);
        assert!(
            library(folder.path(), Nccl::On, &ProgramKind::Script).unwrap_err().contains("there is no /")
        );
        std::fs::create_dir(folder.path().join("nccl")).unwrap();
        let there = folder.path().join("nccl").join(LIBRARY);
        std::fs::write(&there, "").unwrap();
        for (choice, kind, is_wanted) in [
            (Nccl::Auto, with("libnccl.so.2"), true),
            (Nccl::Auto, with("librccl.so.1"), true),
            (Nccl::Auto, with("libncclx.so.2"), false),
            (Nccl::Auto, ProgramKind::Script, false),
            (Nccl::On, ProgramKind::Script, true),
            (Nccl::Off, with("libnccl.so.2"), false),
        ] {
            let found = library(folder.path(), choice, &kind).unwrap();
            assert_eq!(found, is_wanted.then(|| there.clone()), "{choice:?} {kind:?}");
        }
    }
}
