//! Chooses whether NCCL's functions are interposed: by a library of its own, for programs that need
//! NCCL alone. A program may look for NCCL by its symbols, and would find those of that library.

use crate::program::ProgramKind;
use mpisee_profile::options::{Nccl, Options};
use std::path::{Path, PathBuf};

/// The library, in a folder beside the flavours.
pub const LIBRARY: &str = "libmpisee_nccl.so";

/// Why calls of RCCL are not counted unless they are asked for, as the end of a sentence.
pub const HELD_BACK: &str = "counting them has never run on AMD's hardware; --experimental counts them";

/// Returns the library if it is to be preloaded; why it cannot be, as the end of a sentence.
pub fn library(folder: &Path, options: &Options, kind: &ProgramKind) -> Result<Option<PathBuf>, String> {
    if !is_wanted(options, kind) {
        return Ok(None);
    }
    let library = folder.join("nccl").join(LIBRARY);
    match library.is_file() {
        true => Ok(Some(library)),
        false => Err(format!("there is no {}, which `cargo xtask dist` makes", library.display())),
    }
}

/// Returns whether calls of NCCL are to be counted.
pub fn is_wanted(options: &Options, kind: &ProgramKind) -> bool {
    match options.nccl {
        Nccl::On => true,
        Nccl::Off => false,
        Nccl::Auto => {
            is_linked_with(kind, "libnccl.so") || options.experimental && is_linked_with(kind, "librccl.so")
        }
    }
}

/// Returns whether calls are left out because the program has RCCL in the place of NCCL.
pub fn holds_back(options: &Options, kind: &ProgramKind) -> bool {
    options.nccl == Nccl::Auto && !is_wanted(options, kind) && is_linked_with(kind, "librccl.so")
}

/// Returns whether the program or one of its libraries is linked with a library.
fn is_linked_with(kind: &ProgramKind, name: &str) -> bool {
    let ProgramKind::Dynamic(needed) = kind else { return false };
    needed.iter().any(|library| library.soname.starts_with(name))
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
        let with_choice = |nccl| Options { nccl, ..Options::default() };
        let missing = library(folder.path(), &with_choice(Nccl::On), &ProgramKind::Script);
        assert!(missing.unwrap_err().contains("there is no /"));
        std::fs::create_dir(folder.path().join("nccl")).unwrap();
        let there = folder.path().join("nccl").join(LIBRARY);
        std::fs::write(&there, "").unwrap();
        for (choice, kind, is_wanted) in [
            (Nccl::Auto, with("libnccl.so.2"), true),
            (Nccl::Auto, with("libncclx.so.2"), false),
            (Nccl::Auto, ProgramKind::Script, false),
            (Nccl::On, ProgramKind::Script, true),
            (Nccl::Off, with("libnccl.so.2"), false),
        ] {
            let found = library(folder.path(), &with_choice(choice), &kind).unwrap();
            assert_eq!(found, is_wanted.then(|| there.clone()), "{choice:?} {kind:?}");
            assert!(!holds_back(&with_choice(choice), &kind), "{choice:?} {kind:?}");
        }
        let rccl = with("librccl.so.1");
        for (experimental, is_wanted) in [(false, false), (true, true)] {
            let options = Options { experimental, ..Options::default() };
            let found = library(folder.path(), &options, &rccl).unwrap();
            assert_eq!((found.is_some(), holds_back(&options, &rccl)), (is_wanted, !is_wanted));
        }
    }
}
